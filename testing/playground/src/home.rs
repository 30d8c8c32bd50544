//! The playground's directory: the files in it, and the lock on it.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use crate::process::Identity;

/// The directory of one playground.
#[derive(Clone, Debug)]
pub struct Home {
    dir: PathBuf,
}

/// Locks the directory while it exists.
#[derive(Debug)]
pub struct Claim {
    _lock: File,
}

/// The directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// It cannot be created or written to.
    #[error("cannot write to {dir}; name a directory that you may write to with --dir", dir = dir.display())]
    NotWritable {
        /// The directory.
        dir: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// Its file system is full.
    #[error("no space left in {dir}. Free some, or name a directory on another disk with --dir", dir = dir.display())]
    Full {
        /// The directory.
        dir: PathBuf,
    },
    /// Another playground uses it.
    #[error(
        "a playground already runs on {dir}{who}. See `quorate playground status --dir {dir}`, stop it with \
         `quorate playground down --dir {dir}`, or start another with a --dir of its own",
        dir = dir.display()
    )]
    Taken {
        /// The directory.
        dir: PathBuf,
        /// The process of the other playground, if known.
        who: String,
    },
    /// It was not created by a playground.
    #[error("{dir} was not created by a playground; --fresh does not delete it", dir = dir.display())]
    Foreign {
        /// The directory.
        dir: PathBuf,
    },
}

/// The process that uses the directory, from the pid file.
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
    /// The home in a directory, which may not exist yet.
    pub fn at(dir: &Path) -> io::Result<Self> {
        Ok(Self { dir: std::path::absolute(dir)? })
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    places! {
        /// The kubeconfig.
        kubeconfig => "kubeconfig",
        /// CA, server certificate and client certificate of the API.
        pki => "pki",
        /// The saved objects.
        state => "state.json",
        /// Assigned addresses and ports.
        ledger => "ledger.json",
        /// The /etc/resolv.conf of every container.
        resolv_conf => "resolv.conf",
        /// A link to the program that this playground runs.
        program => "programs/quorate",
        /// The buckets of the S3 server, and what it records about their objects.
        s3 => "s3",
        /// Persistent volumes.
        volumes => "volumes",
        /// The directories of Pods.
        pods => "pods",
        /// Logs of containers, operator and playground.
        logs => "logs",
        /// One file for each running process.
        run => "run",
        /// Client certificates for etcdctl.
        clients => "clients",
        /// The output of a detached playground.
        log => "playground.log",
        /// The pid file.
        pid => "pid",
        /// The lock file.
        lock => "lock",
    }

    /// Creates the directory and locks it for this process. With `fresh`, deletes the data of an earlier playground.
    pub fn claim(&self, fresh: bool) -> Result<Claim, HomeError> {
        let usable = |result: io::Result<()>| result.map_err(|source| self.refused(source));
        if fresh && self.dir.is_dir() && !self.is_ours() {
            return Err(HomeError::Foreign { dir: self.dir.clone() });
        }
        // The directory contains keys and Secrets.
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
        // A full disk fails here rather than later.
        usable(fs::write(self.dir.join(".room"), vec![0; 1 << 20]))?;
        usable(fs::remove_file(self.dir.join(".room")))?;
        let tenant = Tenant { process: Identity::own() };
        usable(write_atomically(&self.pid(), &serde_json::to_vec(&tenant).unwrap_or_default()))?;
        Ok(Claim { _lock: lock })
    }

    /// The /etc/hosts of the containers on a node.
    pub fn hosts(&self, node: &str) -> PathBuf {
        self.dir.join(format!("hosts-{node}"))
    }

    /// The process that uses the directory, if one does.
    pub fn tenant(&self) -> Option<Tenant> {
        let tenant: Tenant = serde_json::from_slice(&fs::read(self.pid()).ok()?).ok()?;
        // Without the lock the pid file is left over, and its pid may belong to another process.
        let lock = File::options().write(true).open(self.lock()).ok()?;
        let held = matches!(lock.try_lock(), Err(TryLockError::WouldBlock));
        (held && tenant.process.is_alive()).then_some(tenant)
    }

    fn is_ours(&self) -> bool {
        let empty = || fs::read_dir(&self.dir).is_ok_and(|mut entries| entries.next().is_none());
        self.lock().exists() || empty()
    }

    /// Deletes everything except the lock and the log, to which a detached playground already writes.
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

/// Replaces a file atomically, also where two processes do so at once. Only its owner can read it.
pub fn write_atomically(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = NamedTempFile::new_in(path.parent().unwrap_or(Path::new(".")))?;
    file.write_all(content)?;
    file.as_file().sync_data()?;
    file.persist(path)?;
    Ok(())
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

    #[test]
    fn a_file_that_two_write_at_once_is_whole_and_neither_fails() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..50).for_each(|_| write_atomically(&path, b"content").unwrap()));
            }
        });
        assert_eq!(fs::read(&path).unwrap(), b"content");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside it");
    }
}
