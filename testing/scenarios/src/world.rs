//! What a behaviour needs of the world it runs in, beyond the API: faults.

use std::ops::Deref;
use std::path::{Path, PathBuf};

use anyhow::Result;
use nix::sys::signal::Signal;

use crate::NamespaceClient;

/// A fault of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessFault {
    /// It ends at once (SIGKILL).
    Kill,
    /// It hangs (SIGSTOP).
    Pause,
    /// It continues (SIGCONT). A process that has ended meanwhile is no error.
    Resume,
}

impl From<ProcessFault> for Signal {
    fn from(fault: ProcessFault) -> Self {
        match fault {
            ProcessFault::Kill => Self::SIGKILL,
            ProcessFault::Pause => Self::SIGSTOP,
            ProcessFault::Resume => Self::SIGCONT,
        }
    }
}

/// A world with an operator, and nothing else in the namespace of its [`NamespaceClient`]. Dropping it deletes it.
#[expect(async_fn_in_trait, reason = "only ever called on a known world, by a test that waits for it")]
pub trait World: Deref<Target = NamespaceClient> {
    /// Injects a fault into the etcd process of a Pod.
    async fn signal_etcd(&self, pod: &str, fault: ProcessFault) -> Result<()>;

    /// Kills the operator (SIGKILL). Its supervisor starts it again.
    async fn kill_operator(&self) -> Result<()>;

    /// The end of the operator's log.
    fn operator_log(&self) -> Result<String>;

    /// The directory of a member's volume on this machine.
    async fn volume_dir(&self, pod: &str) -> Result<PathBuf>;

    /// Empties a member's volume; neither Kubernetes nor the operator notices.
    async fn wipe_volume(&self, pod: &str) -> Result<()> {
        clear_directory(&self.volume_dir(pod).await?)
    }
}

/// Deletes the content of a directory, not the directory.
pub fn clear_directory(directory: &Path) -> Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() { std::fs::remove_dir_all(path)? } else { std::fs::remove_file(path)? }
    }
    Ok(())
}
