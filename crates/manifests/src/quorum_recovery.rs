//! The Pod of a member while a lost quorum is recovered: the order to its agent, and what it answers. etcd does not start in it.

use k8s_openapi::api::core::v1::{Container, ContainerStateTerminated, ContainerStatus, Pod};
use quorate_api::bootstrap::{DEFAULT_BUMP_REVISION, RestoreSource, RestoreStatus};
use quorate_api::destination::{Destination, Pvc};
use quorate_api::job::{Answer, ExtractOrder, Manifest, ORDER, Origin, RecoverOrder, StoredLog};
use quorate_model::effect::Boot;
use quorate_model::quorum_recovery::{
    Chosen, Log, QuorumRecovery, ReadOnlyAnswer, ReadOnlyOrder, ReadOnlyPod,
};
use quorate_model::restore::RestoreFailure;
use quorate_model::{MemberName, Revision};
use serde_json::{Value, json};

use crate::bootstrap;
use crate::pod::member::{ETCD, Member};

/// The agent's command in such a Pod.
pub(crate) const COMMAND: &str = "recover";

/// The directory of the chosen member's volume with the snapshot.
const PREFIX: &str = "quorate.recovered";

/// Whether etcd does not start in such a Pod.
pub(crate) fn holds(boot: Boot) -> bool {
    match boot {
        Boot::Read | Boot::Extract => true,
        Boot::New | Boot::Restore | Boot::Join | Boot::Resume => false,
    }
}

/// The order to the agent, for the environment of the container.
pub(crate) fn order(member: &Member<'_>) -> Option<Value> {
    let order = match (member.boot, member.quorum_recovery) {
        (Boot::Read, _) => RecoverOrder::Read,
        (Boot::Extract, Some(recovery)) => RecoverOrder::Extract(Box::new(extract(member, recovery)?)),
        (Boot::Extract | Boot::New | Boot::Restore | Boot::Join | Boot::Resume, _) => return None,
    };
    let order = serde_json::to_string(&order).expect("it is plain data");
    Some(json!({ "name": ORDER, "value": order }))
}

fn extract(member: &Member<'_>, recovery: &QuorumRecovery) -> Option<ExtractOrder> {
    let Chosen { log, .. } = recovery.chosen.as_ref()?;
    let meta = &member.cluster.metadata;
    let key = recovery.key();
    let origin = Origin {
        namespace: member.at.namespace.clone(),
        backup: key.clone(),
        backup_uid: format!("{}-{key}", meta.uid.as_deref().unwrap_or_default()),
        cluster: Some(member.at.name.clone()),
        cluster_uid: meta.uid.clone(),
        cluster_id: Some(log.cluster_id.to_string()),
    };
    Some(ExtractOrder { destination: destination(member.name), key, origin, stored: write_log(log) })
}

/// The member's own claim.
fn destination(member: &MemberName) -> Destination {
    let pvc = Pvc { claim_name: member.as_str().to_owned(), prefix: Some(PREFIX.to_owned()) };
    Destination { pvc: Some(pvc), ..Destination::default() }
}

/// What an observed Pod does and answers, if etcd does not start in it.
pub(crate) fn read(pod: &Pod, member: &MemberName, status: Option<&ContainerStatus>) -> Option<ReadOnlyPod> {
    let containers = pod.spec.as_ref()?.containers.iter();
    let container = containers.into_iter().find(|container| container.name == ETCD)?;
    let is_held = container.command.iter().flatten().last().is_some_and(|command| command == COMMAND);
    if !is_held {
        return None;
    }
    let order = ordered(container);
    let states = status.map(|status| [status.state.as_ref(), status.last_state.as_ref()]);
    let mut ends = states.into_iter().flatten().flatten().filter_map(|state| state.terminated.as_ref());
    let answers =
        |end: &ContainerStateTerminated| serde_json::from_str::<Answer>(end.message.as_deref()?.trim()).ok();
    let last = ends.find_map(answers);
    let (answer, failure) = match last {
        Some(Answer::Stored(stored)) => (read_log(&stored).map(ReadOnlyAnswer::Stored), None),
        Some(Answer::NothingStored(why)) => (Some(ReadOnlyAnswer::Nothing(why)), None),
        Some(Answer::BackedUp(manifest)) => {
            (Some(ReadOnlyAnswer::Extracted(Box::new(bootstrap::read(&extracted(member, manifest))))), None)
        }
        Some(Answer::Failed(failure)) => {
            (None, Some(RestoreFailure::new(bootstrap::cause(failure.kind.into()), failure.message)))
        }
        Some(
            Answer::Removed
            | Answer::Read(_)
            | Answer::Verified(_)
            | Answer::Looked(_)
            | Answer::Found(_)
            | Answer::Inspected(_)
            | Answer::Listed(_),
        )
        | None => (None, None),
    };
    Some(ReadOnlyPod { order, answer, failure })
}

fn ordered(container: &Container) -> ReadOnlyOrder {
    let env = container.env.iter().flatten().find(|env| env.name == ORDER);
    let order = env.and_then(|env| serde_json::from_str(env.value.as_deref()?).ok());
    match order {
        Some(RecoverOrder::Read) => ReadOnlyOrder::Read,
        Some(RecoverOrder::Extract(order)) => ReadOnlyOrder::Extract(order.key),
        None => ReadOnlyOrder::Unknown,
    }
}

/// What a new member begins with.
fn extracted(member: &MemberName, manifest: Manifest) -> RestoreStatus {
    RestoreStatus {
        source: RestoreSource {
            destination: destination(member),
            key: manifest.key,
            sha256: manifest.stored_sha256,
            version_id: None,
        },
        bump_revision: DEFAULT_BUMP_REVISION,
        etcd_version: Some(manifest.etcd_version),
        snapshot_bytes: Some(manifest.snapshot_bytes),
        revision: Some(manifest.revision),
        ..RestoreStatus::default()
    }
}

fn read_log(stored: &StoredLog) -> Option<Log> {
    Some(Log {
        committed: stored.committed_index,
        last_term: stored.last_term,
        last_index: stored.last_index,
        consistent: stored.consistent_index,
        term: stored.term,
        revision: Revision(stored.revision),
        cluster_id: stored.cluster_id.parse().ok()?,
        member_id: stored.member_id.parse().ok()?,
    })
}

fn write_log(log: &Log) -> StoredLog {
    StoredLog {
        cluster_id: log.cluster_id.to_string(),
        member_id: log.member_id.to_string(),
        term: log.term,
        last_index: log.last_index,
        last_term: log.last_term,
        committed_index: log.committed,
        consistent_index: log.consistent,
        revision: log.revision.0,
    }
}
