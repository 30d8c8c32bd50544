//! What a member has stored, from its log and its database: also while etcd does not run, and beside one that does. Nothing is
//! locked, and nothing is written.

use std::path::Path;
use std::time::{Duration, Instant};

use quorate_api::job::StoredLog;

use super::{bolt, data, wal};

/// A log of 64 MB is read within a second.
const LONGEST: Duration = Duration::from_secs(10);

/// Reads what a member has stored; an error says what cannot be read. Blocks as long as the volume does.
pub fn stored(data_dir: &Path) -> Result<StoredLog, String> {
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
    Ok(StoredLog {
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
