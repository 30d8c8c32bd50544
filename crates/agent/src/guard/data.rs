//! etcd's data directory, as far as it can be judged without opening it.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use quorate_model::guard::{EtcdData, Refusal};

use super::wal::{self, Origin};
use super::{bolt, unreadable};

/// What the data directory contains.
#[derive(Debug)]
pub(super) enum Data {
    /// No log: etcd begins from nothing. A database may have been left by a first start that was cut short.
    Absent { db: Option<Db> },
    /// A log: etcd resumes.
    Present { origin: Result<Origin, String>, db: Option<Db> },
}

/// The database file.
#[derive(Debug)]
pub(super) struct Db {
    path: PathBuf,
    bytes: u64,
}

impl Data {
    pub(super) fn read(data_dir: &Path) -> Result<Self, Refusal> {
        let logs = logs_in(data_dir)?;
        let db = db(data_dir.join("member/snap/db"))?;
        let Some(first) = logs.first() else { return Ok(Self::Absent { db }) };
        let origin = wal::origin(first).map_err(|error| unreadable(first, &error))?;
        Ok(Self::Present { origin, db })
    }

    pub(super) fn is_absent(&self) -> bool {
        matches!(self, Self::Absent { .. })
    }

    /// What the verdict depends on.
    pub(super) fn summary(&self) -> EtcdData {
        match self {
            Self::Absent { .. } => EtcdData::Absent,
            Self::Present { .. } => {
                EtcdData::Present { cluster_id: self.origin().map(|origin| origin.cluster_id) }
            }
        }
    }

    /// Which member of which cluster wrote the log.
    pub(super) fn origin(&self) -> Option<&Origin> {
        match self {
            Self::Present { origin: Ok(origin), .. } => Some(origin),
            Self::Present { origin: Err(_), .. } | Self::Absent { .. } => None,
        }
    }

    pub(super) fn db_bytes(&self) -> Option<u64> {
        let (Self::Absent { db } | Self::Present { db, .. }) = self;
        db.as_ref().map(|db| db.bytes)
    }

    /// Whether etcd can open the data; the inner error says why not.
    pub(super) fn opens(&self) -> Result<Result<(), String>, Refusal> {
        let db = match self {
            Self::Absent { db: None } => return Ok(Ok(())),
            Self::Present { origin: Err(why), .. } => {
                return Ok(Err(format!("the log is unreadable: {why}")));
            }
            Self::Present { db: None, .. } => return Ok(Err("there is a log but no database".to_owned())),
            Self::Absent { db: Some(db) } | Self::Present { db: Some(db), .. } => db,
        };
        // bbolt takes an empty file for a new database; with a log beside it, the database was lost.
        if db.bytes == 0 && self.is_absent() {
            return Ok(Ok(()));
        }
        let checked = bolt::check(&db.path).map_err(|error| unreadable(&db.path, &error))?;
        Ok(checked.map_err(|why| format!("the database does not open: {why}")))
    }
}

/// The log's files in a data directory, oldest first.
pub(super) fn logs_in(data_dir: &Path) -> Result<Vec<PathBuf>, Refusal> {
    logs(&data_dir.join("member/wal"))
}

/// The log's files, oldest first. etcd builds a new log in `wal.tmp` and renames it when it is whole.
fn logs(dir: &Path) -> Result<Vec<PathBuf>, Refusal> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(dir, &error)),
    };
    let paths: io::Result<Vec<_>> = entries.map(|entry| Ok(entry?.path())).collect();
    let mut paths = paths.map_err(|error| unreadable(dir, &error))?;
    paths.retain(|path| path.extension() == Some(OsStr::new("wal")));
    paths.sort();
    Ok(paths)
}

fn db(path: PathBuf) -> Result<Option<Db>, Refusal> {
    match fs::metadata(&path) {
        Ok(metadata) => Ok(Some(Db { path, bytes: metadata.len() })),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unreadable(&path, &error)),
    }
}
