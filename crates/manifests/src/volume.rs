//! A member's volume. It carries no owner reference, so that nothing but a recorded decision ever deletes data (R10);
//! annotations identify its data.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use quorate_api::{keys, quantity};
use quorate_model::record::QuarantineCause;
use quorate_model::snapshot::{Quarantine, Volume};
use quorate_model::target::Storage;
use quorate_model::{
    ClusterId, ClusterRef, ClusterUid, Instant, MemberId, MemberName, Record, Token, Uid, Version,
};
use serde_json::{Value, json};

use crate::labels;

/// The phase of a claim whose PersistentVolume does not exist any more.
const LOST: &str = "Lost";

/// A new member's volume.
pub fn volume(
    at: &ClusterRef,
    uid: &ClusterUid,
    token: &Token,
    member: &MemberName,
    storage: &Storage,
) -> Value {
    let mut volume = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": member.as_str(),
            "namespace": at.namespace,
            "labels": labels::of_volume(at, member),
            "annotations": {
                keys::CLUSTER_UID: uid.as_str(),
                keys::CLUSTER_TOKEN: token.as_str(),
            },
        },
        "spec": {
            "accessModes": [storage.access_mode],
            "resources": { "requests": { "storage": quantity::text(storage.bytes) } },
        },
    });
    if let Some(class) = &storage.class {
        volume["spec"]["storageClassName"] = json!(class);
    }
    if let Some(limit) = storage.limit_bytes {
        volume["spec"]["resources"]["limits"] = json!({ "storage": quantity::text(limit) });
    }
    volume
}

/// The identity of the data on a volume.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity<'a> {
    pub(crate) at: &'a ClusterRef,
    pub(crate) uid: &'a ClusterUid,
    pub(crate) member: &'a MemberName,
    /// The token and TLS of its members, as they are recorded.
    pub(crate) record: &'a Record,
    pub(crate) cluster_id: ClusterId,
    pub(crate) member_id: MemberId,
    pub(crate) version: Option<Version>,
}

/// The patch that annotates a volume with the identity of its data, and puts back its labels.
pub(crate) fn annotate(precondition: &Value, identity: Identity<'_>) -> Value {
    let Identity { at, uid, member, record, cluster_id, member_id, version } = identity;
    let mut patch = json!({ "metadata": precondition });
    patch["metadata"]["labels"] = json!(labels::of_volume(at, member));
    patch["metadata"]["annotations"] = json!({
        keys::CLUSTER_UID: uid.as_str(),
        keys::CLUSTER_ID: cluster_id.to_string(),
        keys::MEMBER_ID: member_id.to_string(),
    });
    if let Some(token) = &record.token {
        patch["metadata"]["annotations"][keys::CLUSTER_TOKEN] = json!(token.as_str());
    }
    if let Some(target) = &record.target {
        patch["metadata"]["annotations"][keys::TLS] = json!(target.tls.to_string());
    }
    if let Some(version) = version {
        patch["metadata"]["annotations"][keys::ETCD_VERSION] = json!(version.to_string());
    }
    patch
}

/// The patch that quarantines a volume.
pub(crate) fn quarantine(precondition: &Value, since: Instant, why: QuarantineCause) -> Value {
    let mut patch = json!({ "metadata": precondition });
    let since = Timestamp::from_second(since.0.div_euclid(1000)).unwrap_or(Timestamp::UNIX_EPOCH);
    patch["metadata"]["annotations"] = json!({
        keys::QUARANTINED_SINCE: since.to_string(),
        keys::QUARANTINE_REASON: why.as_str(),
    });
    patch["metadata"]["labels"] = json!({ keys::QUARANTINED: keys::QUARANTINED_VALUE });
    patch
}

/// The patch that asks for more bytes.
pub(crate) fn expand(precondition: &Value, bytes: u64) -> Value {
    json!({
        "metadata": precondition,
        "spec": { "resources": { "requests": { "storage": quantity::text(bytes) } } },
    })
}

/// The part of a volume that the planner needs.
pub(crate) fn read(
    volume: &PersistentVolumeClaim,
    at: &ClusterRef,
    cluster_deleted: Option<&Time>,
) -> Volume {
    let annotation = |key: &str| volume.metadata.annotations.as_ref().and_then(|all| all.get(key));
    let requested =
        volume.spec.as_ref().and_then(|spec| spec.resources.as_ref()?.requests.as_ref()?.get("storage"));
    Volume {
        uid: Uid::new(volume.metadata.uid.clone().unwrap_or_default()),
        resource_version: volume.metadata.resource_version.clone().unwrap_or_default(),
        terminating: volume.metadata.deletion_timestamp.is_some(),
        deleted_after_cluster: cluster_deleted.is_some_and(|cluster| {
            volume.metadata.deletion_timestamp.as_ref().is_some_and(|own| own >= cluster)
        }),
        cluster_uid: annotation(keys::CLUSTER_UID).map(ClusterUid::new),
        cluster_id: annotation(keys::CLUSTER_ID).and_then(|id| id.parse().ok()),
        member_id: annotation(keys::MEMBER_ID).and_then(|id| id.parse().ok()),
        token: annotation(keys::CLUSTER_TOKEN).map(Token::new),
        labelled: labels::is_labelled(&volume.metadata, at),
        copied_by: copied_by(volume),
        tls: annotation(keys::TLS).and_then(|tls| tls.parse().ok()),
        version: annotation(keys::ETCD_VERSION).and_then(|version| version.parse().ok()),
        gave_way: annotation(keys::QUARANTINE_REASON).map(String::as_str)
            == Some(QuarantineCause::Superseded.as_str()),
        quarantine: annotation(keys::QUARANTINED_SINCE).map(|since| Quarantine {
            since: since.parse().ok().map(|since: Timestamp| Instant(since.as_millisecond())),
            why: annotation(keys::QUARANTINE_REASON).cloned().unwrap_or_default(),
        }),
        bytes: requested.and_then(quantity::bytes).unwrap_or(0),
        lost: phase(volume) == Some(LOST),
        capacity: volume
            .status
            .as_ref()
            .and_then(|status| status.capacity.as_ref()?.get("storage"))
            .and_then(quantity::bytes),
        grows_at_mount: volume
            .status
            .iter()
            .flat_map(|status| status.conditions.iter().flatten())
            .any(|condition| condition.type_ == "FileSystemResizePending" && condition.status == "True"),
    }
}

/// The operator creates its claims empty. A claim with a source has the data of a snapshot or of another claim; one that Velero created
/// has those of a backup, unless it is bound to the volume of before.
fn copied_by(volume: &PersistentVolumeClaim) -> Option<String> {
    let spec = volume.spec.as_ref()?;
    let source = spec.data_source.as_ref().map(|source| format!("{} {}", source.kind, source.name));
    let reference = || spec.data_source_ref.as_ref().map(|source| format!("{} {}", source.kind, source.name));
    source.or_else(reference).or_else(|| labels::restored_by(&volume.metadata))
}

fn phase(volume: &PersistentVolumeClaim) -> Option<&str> {
    volume.status.as_ref()?.phase.as_deref()
}
