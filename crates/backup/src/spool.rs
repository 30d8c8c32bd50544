//! Files on a volume of the container: a snapshot that is written there first, and an object that was downloaded.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use quorate_api::job::{Failure, FailureKind};
use quorate_etcd::SnapshotStream;
use tokio::fs::File;
use tokio::io::{AsyncWriteExt, BufWriter};

use crate::pace::Pace;
use crate::trailer::{Trailer, Whole};
use crate::{Result, backup};

/// A file that is deleted with this value.
#[derive(Debug)]
pub(crate) struct Spool {
    pub(crate) path: PathBuf,
}

impl Spool {
    /// An empty file of this name, and the way to write it.
    pub(crate) async fn create(dir: &Path, name: &str) -> Result<(Self, BufWriter<File>)> {
        let path = dir.join(name);
        let file = async {
            tokio::fs::create_dir_all(dir).await?;
            File::create(&path).await
        };
        let file = file.await.map_err(|error| cannot_write(&path, &error))?;
        Ok((Self { path }, BufWriter::with_capacity(1 << 20, file)))
    }

    /// Writes a snapshot to a file.
    pub(crate) async fn snapshot(
        dir: &Path,
        stream: &mut SnapshotStream,
        pace: &Pace,
    ) -> Result<(Self, Whole)> {
        let (spool, mut file) = Self::create(dir, "snapshot.spool").await?;
        let mut trailer = Trailer::default();
        while let Some(bytes) = backup::next(stream, pace).await? {
            trailer.update(&bytes);
            file.write_all(&bytes).await.map_err(|error| cannot_write(&spool.path, &error))?;
        }
        file.flush().await.map_err(|error| cannot_write(&spool.path, &error))?;
        Ok((spool, trailer.finish(FailureKind::SnapshotFailed)?))
    }

    /// Opens it.
    pub(crate) async fn open(&self) -> Result<File> {
        File::open(&self.path).await.map_err(|error| cannot_write(&self.path, &error))
    }

    /// Keeps the file.
    pub(crate) fn keep(mut self) -> PathBuf {
        std::mem::take(&mut self.path)
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        if !self.path.as_os_str().is_empty() {
            // What is left is overwritten by the next try.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The volume of the container does not take it.
pub(crate) fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::new(FailureKind::NoSpace, format!("cannot write {}: {error}", path.display()))
}
