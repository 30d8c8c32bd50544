//! What the agent knows of its member, for people and for a recovery by hand.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::Volume;
use super::observe::Watch;

const OBSERVE: Duration = Duration::from_millis(1500);

/// The answer to `/facts`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Facts {
    /// The volume's identity file.
    identity: Option<Value>,
    /// The age of the last write that was synced on the volume, in milliseconds.
    canary_age_milliseconds: Option<u128>,
    /// Why the volume takes no writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    volume: Option<String>,
    /// Why the member is not ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_ready: Option<String>,
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
    // Not read while the volume hangs: the request would hang too.
    let hangs = volume.and_then(|volume| volume.canary.check().err());
    let identity = volume
        .filter(|_| hangs.is_none())
        .and_then(|volume| serde_json::from_slice(&fs::read(&volume.identity).ok()?).ok());
    Facts {
        identity,
        canary_age_milliseconds: volume.map(|volume| volume.canary.age().as_millis()),
        volume: hangs,
        not_ready: observed.ready.err(),
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
