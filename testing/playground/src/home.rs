//! The playground's directory: what stands where, and who may use it.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::process::Identity;

/// The directory of one playground.
#[derive(Clone, Debug)]
pub struct Home {
    dir: PathBuf,
}

/// Holds the directory for as long as it lives.
#[derive(Debug)]
pub struct Claim {
    _lock: File,
}

/// The directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// It cannot be made or written to.
    #[error("cannot write to {dir}; name a directory that you may write to with --dir", dir = dir.display())]
    NotWritable {
        /// The directory.
        dir: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Its file system is full.
    #[error("no space left in {dir}. Free some, or name a directory on another disk with --dir", dir = dir.display())]
    Full {
        /// The directory.
        dir: PathBuf,
    },
    /// Another playground runs there.
    #[error(
        "a playground already runs on {dir}{who}. Look at it with `quorate playground status --dir {dir}`, stop it with \
         `quorate playground down --dir {dir}`, or start another with a --dir of its own",
        dir = dir.display()
    )]
    Taken {
        /// The directory.
        dir: PathBuf,
        /// Its process, where known.
        who: String,
    },
    /// It is not one of ours.
    #[error("{dir} holds something else than a playground; --fresh does not delete it", dir = dir.display())]
    Foreign {
        /// The directory.
        dir: PathBuf,
    },
}

/// Who runs on the directory: what the pid file says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Tenant {
    /// The process.
    pub process: Identity,
}

macro_rules! places {
    ($($(#[$doc:meta])* $name:ident => $path:literal),* $(,)?) => {
        $($(#[$doc])* pub fn $name(&self) -> PathBuf { self.dir.join($path) })*
    };
}

impl Home {
    /// The home at a directory, which need not exist yet.
    pub fn at(dir: &Path) -> io::Result<Self> {
        Ok(Self { dir: std::path::absolute(dir)? })
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    places! {
        /// For kubectl.
        kubeconfig => "kubeconfig",
        /// Authority, server and client certificates of the API.
        pki => "pki",
        /// All objects, as of some time.
        state => "state.json",
        /// What changed since.
        state_log => "state.log",
        /// Addresses and ports that were given out.
        ledger => "ledger.json",
        /// Every container's /etc/hosts.
        hosts => "hosts",
        /// Every container's /etc/resolv.conf.
        resolv_conf => "resolv.conf",
        /// The program that this playground runs, kept while it runs.
        program => "programs/quorate",
        /// Persistent volumes.
        volumes => "volumes",
        /// What Pods leave on the node.
        pods => "pods",
        /// What containers, operator and playground say.
        logs => "logs",
        /// One file for each process that was started.
        run => "run",
        /// Certificates for people's etcdctl.
        clients => "clients",
        /// Where a detached playground writes.
        log => "playground.log",
        /// Whose directory it is.
        pid => "pid",
        /// Held by the playground that runs here.
        lock => "lock",
    }

    /// Makes the directory and takes it for this process; with `fresh`, whatever an earlier playground left is deleted.
    pub fn claim(&self, fresh: bool) -> Result<Claim, HomeError> {
        let usable = |result: io::Result<()>| result.map_err(|source| self.refused(source));
        if fresh && self.dir.is_dir() && !self.is_ours() {
            return Err(HomeError::Foreign { dir: self.dir.clone() });
        }
        // Keys and Secrets are kept in it.
        usable(fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.dir))?;
        let lock = File::options().create(true).truncate(false).write(true).open(self.lock());
        let lock = lock.map_err(|source| self.refused(source))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(self.taken()),
            Err(TryLockError::Error(source)) => return Err(self.refused(source)),
        }
        if fresh {
            usable(self.clear())?;
        }
        for place in [self.pki(), self.volumes(), self.pods(), self.logs(), self.run(), self.clients()] {
            usable(fs::create_dir_all(place))?;
        }
        usable(fs::create_dir_all(self.dir.join("programs")))?;
        // A full disk shows here and not in the middle of things.
        usable(fs::write(self.dir.join(".room"), vec![0; 1 << 20]))?;
        usable(fs::remove_file(self.dir.join(".room")))?;
        let tenant = Tenant { process: Identity::own() };
        usable(write_atomically(&self.pid(), &serde_json::to_vec(&tenant).unwrap_or_default()))?;
        Ok(Claim { _lock: lock })
    }

    /// Who runs here, if anybody does.
    pub fn tenant(&self) -> Option<Tenant> {
        let tenant: Tenant = serde_json::from_slice(&fs::read(self.pid()).ok()?).ok()?;
        // The lock tells that the pid file is not a leftover whose pid went to somebody else.
        let lock = File::options().write(true).open(self.lock()).ok()?;
        let held = matches!(lock.try_lock(), Err(TryLockError::WouldBlock));
        (held && tenant.process.is_alive()).then_some(tenant)
    }

    fn is_ours(&self) -> bool {
        let empty = || fs::read_dir(&self.dir).is_ok_and(|mut entries| entries.next().is_none());
        self.lock().exists() || empty()
    }

    /// Everything but the lock and the log that a detached playground already writes to.
    fn clear(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.dir)? {
            let path = entry?.path();
            if path == self.lock() || path == self.log() {
                continue;
            }
            if path.is_dir() && !path.is_symlink() {
                fs::remove_dir_all(path)?;
            } else {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }

    fn taken(&self) -> HomeError {
        let tenant = self.tenant().map(|tenant| format!(" (pid {})", tenant.process.pid));
        HomeError::Taken { dir: self.dir.clone(), who: tenant.unwrap_or_default() }
    }

    fn refused(&self, source: io::Error) -> HomeError {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                HomeError::Full { dir: self.dir.clone() }
            }
            _ => HomeError::NotWritable { dir: self.dir.clone(), source },
        }
    }
}

/// Replaces a file as a whole or not at all. Nobody else may read it.
pub fn write_atomically(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let mut file = File::options().create(true).truncate(true).write(true).mode(0o600).open(&beside)?;
    file.write_all(content)?;
    file.sync_data()?;
    fs::rename(beside, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_playgrounds_do_not_share_a_directory() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path()).unwrap();
        let claim = home.claim(false).unwrap();
        assert_eq!(home.tenant().unwrap().process, Identity::own());
        assert!(matches!(home.claim(false), Err(HomeError::Taken { .. })));
        drop(claim);
        assert!(home.tenant().is_none());
        home.claim(false).unwrap();
    }

    #[test]
    fn fresh_deletes_a_playground_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("thesis.tex"), "years of work").unwrap();
        let home = Home::at(dir.path()).unwrap();
        assert!(matches!(home.claim(true), Err(HomeError::Foreign { .. })));
        assert!(dir.path().join("thesis.tex").exists());

        let home = Home::at(&dir.path().join("playground")).unwrap();
        drop(home.claim(false).unwrap());
        fs::write(home.volumes().join("data"), "of etcd").unwrap();
        drop(home.claim(false).unwrap());
        assert!(home.volumes().join("data").exists());
        drop(home.claim(true).unwrap());
        assert!(!home.volumes().join("data").exists());
    }
}
