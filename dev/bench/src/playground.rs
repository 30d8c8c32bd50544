//! Where `bench create` measures: a detached playground.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use kube::Client;
use tempfile::TempDir;

use super::clusters;

/// Runs until it is dropped.
pub struct Playground {
    dir: TempDir,
    client: Client,
}

impl Playground {
    /// Starts an empty one.
    pub async fn start() -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("quorate-bench-").tempdir()?;
        let etcd = env::var("QUORATE_ETCD_BIN_DIR").context("run this through `cargo xtask bench`")?;
        call(dir.path(), &["--detach", "--empty", "--etcd-bin-dir", &etcd])?;
        let client = Client::try_from(clusters::config(&dir.path().join("kubeconfig")).await?)?;
        Ok(Self { dir, client })
    }

    /// The kubeconfig of its API.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The operator's process.
    pub fn operator(&self) -> Result<u32> {
        let status = call(self.dir.path(), &["status"])?;
        let mut rows = status.lines().map(str::split_whitespace);
        let row =
            rows.find_map(|mut row| Some((row.next()?, row.next()?)).filter(|(_, name)| *name == "operator"));
        let (pid, _) = row.context("`quorate playground status` shows no operator")?;
        Ok(pid.parse()?)
    }

    /// Where the operator serves its metrics.
    pub fn metrics(&self) -> Result<String> {
        let log = std::fs::read_to_string(self.dir.path().join("logs/operator.log"))?;
        let line = log.lines().rev().find_map(|line| line.split_once("serving metrics on "));
        let (_, address) = line.context("the operator's log has no address of its metrics")?;
        Ok(address.trim().to_owned())
    }
}

impl Drop for Playground {
    fn drop(&mut self) {
        if let Err(error) = call(self.dir.path(), &["down"]) {
            eprintln!("stopping the playground: {error:#}");
        }
    }
}

/// `quorate playground ARGS --dir DIR`.
fn call(dir: &Path, args: &[&str]) -> Result<String> {
    let program =
        env::var_os("QUORATE_BIN").map(PathBuf::from).context("run this through `cargo xtask bench`")?;
    let Output { status, stdout, stderr } =
        Command::new(program).arg("playground").args(args).arg("--dir").arg(dir).output()?;
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    ensure!(status.success(), "quorate playground {}: {status}\n{stdout}{stderr}", args.join(" "));
    Ok(stdout.into_owned())
}
