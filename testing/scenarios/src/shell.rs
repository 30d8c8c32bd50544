//! A user's shell: commands as a user types them, with `kubectl` and `helm` from this repository's tools.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

/// Longer than a user waits for a command.
const DEADLINE: Duration = Duration::from_secs(120);

/// A shell at the root of the repository, with a kubeconfig of its own.
pub struct Shell {
    config: TempDir,
    folder: PathBuf,
    path: OsString,
}

impl Shell {
    /// A shell whose kubectl uses this namespace of the Kubernetes that a kubeconfig names.
    pub fn start(kubeconfig: &Path, namespace: &str) -> Result<Self> {
        let config = tempfile::Builder::new().prefix("quorate-shell-").tempdir()?;
        fs::copy(kubeconfig, config.path().join("kubeconfig"))?;
        let tools = env::var_os("QUORATE_ETCD_BIN_DIR").map(PathBuf::from);
        let tools = tools.context("run this through `cargo xtask test kube`")?;
        let present = env::var_os("PATH").unwrap_or_default();
        let path = env::join_paths(std::iter::once(tools).chain(env::split_paths(&present)))?;
        let shell = Self { config, folder: Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."), path };
        shell.now(&format!("kubectl config set-context --current --namespace={namespace}"))?;
        Ok(shell)
    }

    /// A second shell with the same kubeconfig, in this folder.
    pub fn at(&self, folder: &Path) -> Result<Self> {
        let config = tempfile::Builder::new().prefix("quorate-shell-").tempdir()?;
        fs::copy(self.config.path().join("kubeconfig"), config.path().join("kubeconfig"))?;
        Ok(Self { config, folder: folder.to_owned(), path: self.path.clone() })
    }

    /// Runs a command, which must succeed; returns what it printed.
    pub async fn run(&self, command: &str) -> Result<String> {
        let start = Instant::now();
        let output = tokio::process::Command::from(self.command(command)).kill_on_drop(true).output();
        let output = tokio::time::timeout(DEADLINE, output).await;
        let output = output.with_context(|| format!("not within {DEADLINE:?}: {command}"))??;
        eprintln!("{:6.1} s $ {command}", start.elapsed().as_secs_f32());
        printed(command, &output)
    }

    /// [`Self::run`] for places that cannot await, such as `Drop`.
    pub fn now(&self, command: &str) -> Result<String> {
        printed(command, &self.command(command).output()?)
    }

    fn command(&self, command: &str) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-ec", command]).current_dir(&self.folder);
        shell.env("PATH", &self.path).env("KUBECONFIG", self.config.path().join("kubeconfig"));
        // On the nodes, an image that was loaded without a registry also has this name.
        shell.env("REGISTRY", "library");
        // Helm must not use the files of the user who runs the tests.
        shell.env("HOME", self.config.path());
        shell
    }
}

fn printed(command: &str, Output { status, stdout, stderr }: &Output) -> Result<String> {
    let (stdout, stderr) = (String::from_utf8_lossy(stdout), String::from_utf8_lossy(stderr));
    ensure!(status.success(), "{command}: {status}\n{stdout}{stderr}");
    Ok(stdout.into_owned())
}
