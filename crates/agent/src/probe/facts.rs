//! What the agent knows of its member, for people and for a recovery by hand.
//!
//! The volume is read on a thread of its own, one at a time, and only while the canary is fresh: a volume that hangs takes neither the
//! workers of the probe nor a new thread for each request.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use quorate_api::job::StoredLog;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::oneshot;

use super::Volume;
use super::observe::Watch;
use crate::guard::stored;

const OBSERVE: Duration = Duration::from_millis(1500);
/// Longer than 64 MB of log take to read.
const READ: Duration = Duration::from_secs(10);

/// Whether a thread reads the volume.
static READS: AtomicBool = AtomicBool::new(false);

/// The answer to `/facts`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Facts {
    /// The volume's identity file.
    identity: Option<Value>,
    /// The age of the last write that was synced on the volume, in milliseconds.
    canary_age_milliseconds: Option<u128>,
    /// The free bytes of the volume, after that write.
    #[serde(skip_serializing_if = "Option::is_none")]
    free_bytes: Option<u64>,
    /// All bytes of its file system.
    #[serde(skip_serializing_if = "Option::is_none")]
    volume_bytes: Option<u64>,
    /// Why the volume takes no writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    volume: Option<String>,
    /// Why the member is not ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_ready: Option<String>,
    /// What the member has on its volume, whether or not etcd answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    stored: Option<StoredLog>,
    /// Why that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    unreadable: Option<String>,
    /// What etcd reports of itself; absent while it does not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    etcd: Option<EtcdFacts>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct EtcdFacts {
    cluster_id: String,
    member_id: String,
    leader: Option<String>,
    version: String,
    is_learner: bool,
    term: u64,
    committed_index: u64,
    applied_index: u64,
    revision: i64,
}

pub(super) async fn facts(watch: &Arc<Watch>, volume: Option<&Volume>) -> Facts {
    let observed = tokio::time::timeout(OBSERVE, watch.observe()).await.unwrap_or_else(|_| watch.last());
    // Not read while the volume hangs.
    let hangs = volume.and_then(|volume| volume.canary.check().err());
    let read = match volume.filter(|_| hangs.is_none()) {
        Some(volume) => read(volume).await,
        None => OnVolume::default(),
    };
    let (stored, unreadable) = match read.stored.transpose() {
        Ok(stored) => (stored, None),
        Err(why) => (None, Some(why)),
    };
    let space = volume.and_then(|volume| volume.canary.space());
    Facts {
        identity: read.identity,
        canary_age_milliseconds: volume.map(|volume| volume.canary.age().as_millis()),
        free_bytes: space.map(|space| space.free),
        volume_bytes: space.map(|space| space.all),
        volume: hangs,
        not_ready: observed.ready.err(),
        stored,
        unreadable,
        etcd: observed.status.map(|status| EtcdFacts {
            cluster_id: status.cluster_id.to_string(),
            member_id: status.member_id.to_string(),
            leader: status.leader.map(|leader| leader.to_string()),
            version: status.version.to_string(),
            is_learner: status.is_learner,
            term: status.raft_term,
            committed_index: status.raft_index,
            applied_index: status.raft_applied_index,
            revision: status.revision.0,
        }),
    }
}

/// What the volume has.
#[derive(Default)]
struct OnVolume {
    identity: Option<Value>,
    stored: Option<Result<StoredLog, String>>,
}

/// The right to read; given back when it is dropped.
struct Turn(());

impl Turn {
    fn take() -> Option<Self> {
        (!READS.swap(true, Ordering::AcqRel)).then_some(Self(()))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        READS.store(false, Ordering::Release);
    }
}

async fn read(volume: &Volume) -> OnVolume {
    let failed = |why: &str| OnVolume { identity: None, stored: Some(Err(why.to_owned())) };
    let Some(turn) = Turn::take() else { return failed("another request reads the volume") };
    let (done, result) = oneshot::channel();
    let (identity, data_dir) = (volume.identity.clone(), volume.data_dir.clone());
    let reader = thread::Builder::new().name("facts".to_owned()).spawn(move || {
        let identity = fs::read(identity).ok().and_then(|text| serde_json::from_slice(&text).ok());
        let stored = Some(stored(&data_dir));
        drop(turn);
        // Nobody waits any more.
        let _ = done.send(OnVolume { identity, stored });
    });
    if reader.is_err() {
        return failed("no thread can be started");
    }
    match tokio::time::timeout(READ, result).await {
        Ok(Ok(read)) => read,
        Ok(Err(_)) => failed("the reader has panicked"),
        Err(_) => failed("the volume is slow"),
    }
}
