//! The machine below a real Kubernetes: its programs end, its nodes are cut off. `cargo xtask kube` does the work.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Something is broken until this is mended, or dropped.
#[must_use = "dropped, it is mended at once"]
pub struct Broken(());

impl Broken {
    /// Ends programs of the cluster, by the names that `cargo xtask kube status` shows.
    pub fn kill(programs: &[&str]) -> Result<Self> {
        Self::by("kill", programs)
    }

    /// Cuts nodes off from everything else. What runs there runs on.
    pub fn cut(nodes: &[&str]) -> Result<Self> {
        Self::by("cut", nodes)
    }

    /// Starts what ended, connects what was cut, and waits until all of it is ready.
    pub fn mend(self) -> Result<()> {
        std::mem::forget(self);
        call("up", &[])
    }

    fn by(command: &str, names: &[&str]) -> Result<Self> {
        // Half done is to be mended as well.
        let broken = Self(());
        call(command, names)?;
        Ok(broken)
    }
}

impl Drop for Broken {
    fn drop(&mut self) {
        if let Err(error) = call("up", &[]) {
            eprintln!("the cluster stays broken: {error:#}; cargo xtask kube up");
        }
    }
}

/// The folder of the cluster's files.
pub fn folder() -> Result<PathBuf> {
    let target =
        std::env::var_os("QUORATE_TARGET_DIR").context("run this through `cargo xtask test kube`")?;
    Ok(PathBuf::from(target).join("kube"))
}

fn call(command: &str, names: &[&str]) -> Result<()> {
    let program =
        std::env::var_os("QUORATE_TEST_KUBE").context("run this through `cargo xtask test kube`")?;
    let output =
        Command::new(program).arg(command).args(names).output().context("cannot run the program kube")?;
    let (told, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "kube {command} failed: {told}{error}");
    Ok(())
}
