//! What a story needs of the world it happens in, beyond the API: hands to break things with.

use std::ops::Deref;
use std::path::{Path, PathBuf};

use anyhow::Result;
use nix::sys::signal::Signal;

use crate::Eyes;

/// What is done to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blow {
    /// It ends at once (SIGKILL).
    Kill,
    /// It hangs (SIGSTOP).
    Stop,
    /// It goes on (SIGCONT). One that is gone meanwhile is no failure.
    Continue,
}

impl From<Blow> for Signal {
    fn from(blow: Blow) -> Self {
        match blow {
            Blow::Kill => Self::SIGKILL,
            Blow::Stop => Self::SIGSTOP,
            Blow::Continue => Self::SIGCONT,
        }
    }
}

/// A world with an operator in it, and nothing else in the namespace that [`Eyes`] look at. Dropping it clears it away.
#[expect(async_fn_in_trait, reason = "only ever called on a known world, by a test that waits for it")]
pub trait World: Deref<Target = Eyes> {
    /// Does something to the etcd process of a Pod.
    async fn strike(&self, pod: &str, blow: Blow) -> Result<()>;

    /// Kills the operator (SIGKILL). Whatever keeps it running starts it again.
    async fn kill_operator(&self) -> Result<()>;

    /// Where the files of a member's volume are on this machine.
    async fn volume_dir(&self, pod: &str) -> Result<PathBuf>;

    /// Empties a member's volume behind everybody's back.
    async fn wipe_volume(&self, pod: &str) -> Result<()> {
        empty(&self.volume_dir(pod).await?)
    }
}

/// Deletes what is in a directory, not the directory.
pub fn empty(directory: &Path) -> Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() { std::fs::remove_dir_all(path)? } else { std::fs::remove_file(path)? }
    }
    Ok(())
}
