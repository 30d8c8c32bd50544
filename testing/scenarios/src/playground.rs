//! A playground for a test: real etcd processes, the real operator in a process of its own, a Kubernetes API over HTTPS.
//! It is stopped at the end of the test, also when the test fails.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::PersistentVolume;
use kube::api::Api;

use crate::{NamespaceClient, ProcessFault, World, kube_client};

/// The arguments of every start.
const START: [&str; 4] = ["--detach", "--empty", "--crash-back-off", "1s"];

/// A playground, stopped when it is dropped.
pub struct Playground {
    dir: tempfile::TempDir,
    args: Vec<String>,
    namespace_client: NamespaceClient,
}

impl Playground {
    /// An empty playground.
    pub async fn start() -> Result<Self> {
        Self::start_with(&[]).await
    }

    /// An empty playground whose operator's first start has these environment variables.
    pub async fn start_with(operator_env: &[(&str, &str)]) -> Result<Self> {
        let env = operator_env.iter().map(|(key, value)| format!("{key}={value}"));
        let first: Vec<String> = env.flat_map(|pair| ["--operator-env".to_owned(), pair]).collect();
        Self::start_as(&[], first).await
    }

    /// An empty playground whose every start has these arguments.
    pub async fn start_with_args(args: &[&str]) -> Result<Self> {
        Self::start_as(args, Vec::new()).await
    }

    async fn start_as(args: &[&str], first: Vec<String>) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("quorate-playground-").tempdir()?;
        let args: Vec<String> = START.iter().chain(args).map(|&arg| arg.to_owned()).collect();
        let start: Vec<&str> = args.iter().chain(&first).map(String::as_str).collect();
        run(dir.path(), &start).context("starting the playground")?;
        let client = kube_client(&dir.path().join("kubeconfig"), "default").await?;
        Ok(Self { dir, args, namespace_client: NamespaceClient::new(client) })
    }

    /// Stops the playground and starts it again on the same directory.
    pub async fn restart(&mut self) -> Result<()> {
        self.down()?;
        let args: Vec<&str> = self.args.iter().map(String::as_str).collect();
        run(self.path(), &args)?;
        self.namespace_client.client = kube_client(&self.path().join("kubeconfig"), "default").await?;
        Ok(())
    }

    /// `quorate playground down`
    pub fn down(&self) -> Result<()> {
        run(self.path(), &["down"]).map(drop)
    }

    /// `quorate playground status`
    pub fn printed_status(&self) -> Result<String> {
        run(self.path(), &["status"])
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// `quorate playground fault ...`
    pub fn fault(&self, args: &[&str]) -> Result<String> {
        let mut all = vec!["fault"];
        all.extend(args);
        run(self.path(), &all)
    }
}

impl Deref for Playground {
    type Target = NamespaceClient;

    fn deref(&self) -> &NamespaceClient {
        &self.namespace_client
    }
}

impl World for Playground {
    async fn signal_etcd(&self, pod: &str, fault: ProcessFault) -> Result<()> {
        let fault = match fault {
            ProcessFault::Kill => "kill-etcd",
            ProcessFault::Pause => "stop-etcd",
            ProcessFault::Resume => "cont-etcd",
        };
        self.fault(&[fault, pod]).map(drop)
    }

    async fn kill_operator(&self) -> Result<()> {
        self.fault(&["kill-operator"]).map(drop)
    }

    fn operator_log(&self) -> Result<String> {
        let log = std::fs::read_to_string(self.path().join("logs/operator.log"))?;
        let lines: Vec<&str> = log.lines().collect();
        Ok(lines[lines.len().saturating_sub(60)..].join("\n"))
    }

    async fn volume_dir(&self, pod: &str) -> Result<PathBuf> {
        let claim = self.volumes().get(pod).await?;
        let name = claim.spec.and_then(|spec| spec.volume_name).context("the volume is not bound yet")?;
        let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
        let local = volumes.get(&name).await?.spec.and_then(|spec| spec.local).context("not a local one")?;
        let last = PathBuf::from(local.path).file_name().context("a path without a name")?.to_owned();
        Ok(self.path().join("volumes").join(last))
    }
}

impl Drop for Playground {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the operator's log: {}", self.operator_log().unwrap_or_default());
        }
        if let Err(error) = self.down() {
            eprintln!("stopping the playground: {error:#}");
        }
    }
}

/// Runs `quorate playground ... --dir DIR`, which must fail; returns what it printed.
pub fn refused(dir: &Path, args: &[&str]) -> Result<String> {
    match run(dir, args) {
        Ok(printed) => bail!("quorate playground {} should have failed: {printed}", args.join(" ")),
        Err(error) => Ok(error.to_string()),
    }
}

/// Runs `quorate playground ... --dir DIR`; an error contains all that it printed.
fn run(dir: &Path, args: &[&str]) -> Result<String> {
    let mut command = Command::new(program()?);
    command.arg("playground").args(args).arg("--dir").arg(dir);
    if let Ok(etcd) = std::env::var("QUORATE_ETCD_BIN_DIR")
        && args.first() == Some(&"--detach")
        && !args.contains(&"--etcd-bin-dir")
    {
        command.arg("--etcd-bin-dir").arg(etcd);
    }
    let Output { status, stdout, stderr } = command.output()?;
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    ensure!(status.success(), "quorate playground {}: {status}\n{stdout}{stderr}", args.join(" "));
    Ok(stdout.into_owned())
}

fn program() -> Result<PathBuf> {
    let built = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/debug/quorate");
    let program = std::env::var_os("QUORATE_BIN").map_or_else(built, PathBuf::from);
    ensure!(program.exists(), "{} does not exist: run this through cargo xtask test", program.display());
    Ok(program)
}
