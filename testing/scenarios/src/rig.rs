//! Faults of the machine that hosts a real Kubernetes: its programs are killed, its nodes are disconnected. `cargo xtask
//! kube` does the work.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

use crate::Shell;
use crate::kubernetes::processes_of;

/// A fault that lasts until this is repaired or dropped.
#[must_use = "the fault ends when this is dropped"]
pub struct Outage(());

impl Outage {
    /// Kills programs of the cluster, by the names that `cargo xtask kube status` shows.
    pub fn kill(programs: &[&str]) -> Result<Self> {
        Self::by("kill", programs)
    }

    /// Disconnects nodes from the network. Their processes go on.
    pub fn cut(nodes: &[&str]) -> Result<Self> {
        Self::by("cut", nodes)
    }

    /// Starts what was killed, reconnects nodes, and waits until everything is ready.
    pub fn repair(self) -> Result<()> {
        std::mem::forget(self);
        call("up", &[])
    }

    fn by(command: &str, names: &[&str]) -> Result<Self> {
        // A call that fails half way must be repaired too.
        let outage = Self(());
        call(command, names)?;
        Ok(outage)
    }
}

impl Drop for Outage {
    fn drop(&mut self) {
        if let Err(error) = call("up", &[]) {
            eprintln!("the cluster stays broken: {error:#}; cargo xtask kube up");
        }
    }
}

/// A disk that hangs until this is dropped: whoever writes to it waits, and cannot be ended.
#[must_use = "the disk goes on when this is dropped"]
pub struct HungDisk(PathBuf);

impl HungDisk {
    /// Hangs the file system that is mounted here: a volume of the storage class `disk`.
    pub fn hang(volume: &Path) -> Result<Self> {
        let disk = Self(volume.to_owned());
        freeze("--freeze", volume)?;
        Ok(disk)
    }
}

impl Drop for HungDisk {
    fn drop(&mut self) {
        if let Err(error) = freeze("--unfreeze", &self.0) {
            eprintln!("the disk {} still hangs: {error:#}", self.0.display());
        }
    }
}

fn freeze(how: &str, volume: &Path) -> Result<()> {
    // The root of the machine is never frozen by a wrong path.
    let mounts = std::fs::read_to_string("/proc/self/mountinfo")?;
    let text = volume.display().to_string();
    ensure!(
        mounts.lines().any(|line| line.split(' ').nth(4) == Some(&text)),
        "{text} is no disk of its own: the claim needs the storage class `disk`"
    );
    let output = Command::new("fsfreeze").arg(how).arg(volume).output().context("cannot run fsfreeze")?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "fsfreeze {how} {text} failed: {error}");
    Ok(())
}

/// Another Kubernetes on this machine, with the operator in it. Removed when this is dropped.
pub struct Another(PathBuf);

impl Another {
    /// Starts it in a folder of this name, with these arguments of `cargo xtask kube up`, and installs the operator as docs/install.md
    /// describes.
    pub fn start(name: &str, args: &[&str]) -> Result<Self> {
        let another = Self(folder()?.with_file_name(name));
        another.call("up", args)?;
        let image =
            std::env::var("QUORATE_TEST_IMAGE").context("run this through `cargo xtask test kube`")?;
        another.call("load", &[&image])?;
        let shell = Shell::start(&another.kubeconfig(), "default")?;
        let manifests = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/install/quorate.yaml");
        shell.now(&format!("kubectl apply --server-side -f {manifests}"))?;
        shell.now("kubectl -n quorate-system rollout status deployment/quorate --timeout=2m")?;
        Ok(another)
    }

    /// Its kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.0.join("kubeconfig")
    }

    fn call(&self, command: &str, args: &[&str]) -> Result<()> {
        let dir = self.0.display().to_string();
        let args: Vec<&str> = ["--dir", &dir].into_iter().chain(args.iter().copied()).collect();
        call(command, &args)
    }
}

impl Drop for Another {
    fn drop(&mut self) {
        if let Err(error) = self.call("down", &["--wipe"]) {
            eprintln!("{} is still there: {error:#}", self.0.display());
        }
    }
}

/// The folder with the cluster's files.
pub fn folder() -> Result<PathBuf> {
    let target =
        std::env::var_os("QUORATE_TARGET_DIR").context("run this through `cargo xtask test kube`")?;
    Ok(PathBuf::from(target).join("kube"))
}

/// The name of the network namespace of a node, docs/kube.md.
pub fn network_of(node: &str) -> Result<String> {
    Ok(format!("quorate{}-{node}", index()?))
}

/// The addresses of the nodes and of the host, of which every connection comes that no Pod opens.
pub fn machines() -> Result<String> {
    Ok(format!("10.213.{}.0/24", index()?))
}

/// Which of the clusters of this machine it is.
fn index() -> Result<u64> {
    let kept: Value = serde_json::from_slice(&std::fs::read(folder()?.join("rig.json"))?)?;
    kept["index"].as_u64().context("rig.json has no index")
}

/// Whether a Pod can open a connection to this address: a program of this machine tries it in the Pod's network, for two seconds.
pub async fn connects(from: &Pod, to: SocketAddr) -> Result<bool> {
    let process = processes_of(from)?.first().copied().context("nothing runs in the Pod")?;
    let open = format!("exec 3<>/dev/tcp/{}/{}", to.ip(), to.port());
    let mut command = tokio::process::Command::new("nsenter");
    command.args(["--target", &process.to_string(), "--net", "timeout", "2", "bash", "-c", &open]);
    let output = command.kill_on_drop(true).output().await.context("cannot run nsenter")?;
    Ok(output.status.success())
}

fn call(command: &str, names: &[&str]) -> Result<()> {
    let program =
        std::env::var_os("QUORATE_TEST_KUBE").context("run this through `cargo xtask test kube`")?;
    let output =
        Command::new(program).arg(command).args(names).output().context("cannot run the program kube")?;
    let (printed, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "kube {command} failed: {printed}{error}");
    Ok(())
}
