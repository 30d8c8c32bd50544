//! What a member has stored, from its log and its database: also while etcd does not run, and beside one that does. Nothing is
//! locked, and nothing is written.

use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::{bolt, data, wal};

/// A log of 64 MB is read within a second.
const LONGEST: Duration = Duration::from_secs(10);

/// What a member has stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Stored {
    /// The cluster whose log it is, in hexadecimal.
    pub cluster_id: String,
    /// The member that wrote the log, in hexadecimal.
    pub member_id: String,
    /// raft's term, from the log.
    pub term: u64,
    /// The index of the last entry, which need not be committed.
    pub last_index: u64,
    /// Its term.
    pub last_term: u64,
    /// What is committed for certain: the hard state's commit index or the database's consistent index, the greater one.
    pub committed_index: u64,
    /// The last entry that the database contains.
    pub consistent_index: u64,
    /// The revision of the keys in the database. etcd commits to it every 100 ms, so a running member may be further.
    pub revision: i64,
}

/// Reads it; an error says what cannot be read. Blocks as long as the volume does.
pub fn stored(data_dir: &Path) -> Result<Stored, String> {
    let deadline = Instant::now() + LONGEST;
    let logs = data::logs_in(data_dir).map_err(|refusal| refusal.message)?;
    let newest = logs.last().ok_or("there is no log")?;
    let unreadable = |error| format!("the log is unreadable: {error}");
    let origin = wal::origin(newest).map_err(unreadable)??;
    // First the database: what it has is in the log, which is read later.
    let path = data_dir.join("member/snap/db");
    let stored = bolt::stored(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let stored = stored.map_err(|why| format!("the database: {why}"))?;
    let tail = wal::tail(&logs, deadline).map_err(unreadable)?;
    Ok(Stored {
        cluster_id: origin.cluster_id.to_string(),
        member_id: origin.member_id.to_string(),
        term: tail.term.max(stored.term),
        last_index: tail.last.index,
        last_term: tail.last.term,
        committed_index: tail.commit.max(stored.consistent_index),
        consistent_index: stored.consistent_index,
        revision: stored.revision,
    })
}
