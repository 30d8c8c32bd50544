//! Labels and owner references of everything that belongs to a cluster.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use quorate_api::{EtcdCluster, keys};
use quorate_model::mutants::{Rule, is_broken};
use quorate_model::{ClusterRef, ClusterUid, MemberName};

/// The labels of an object of a cluster.
pub fn of_cluster(at: &ClusterRef) -> BTreeMap<String, String> {
    let pairs = [
        (keys::NAME, keys::NAME_VALUE),
        (keys::INSTANCE, &at.name),
        (keys::MANAGED_BY, keys::MANAGED_BY_VALUE),
        (keys::CLUSTER, &at.name),
        (keys::APP, &at.name),
    ];
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// The labels of an object that outlives the cluster. Without the label by which Argo CD takes it for part of an application of that
/// name: what has no owner, and is not in Git, is deleted there.
pub fn of_what_stays(at: &ClusterRef) -> BTreeMap<String, String> {
    let mut labels = of_cluster(at);
    labels.remove(keys::INSTANCE);
    labels
}

/// The label of an object that Velero leaves out: it would come back without its owner.
pub(crate) fn not_backed_up() -> BTreeMap<String, String> {
    BTreeMap::from([(keys::VELERO_EXCLUDE.to_owned(), keys::VELERO_EXCLUDE_VALUE.to_owned())])
}

/// The labels of the volume of one member.
pub fn of_volume(at: &ClusterRef, member: &MemberName) -> BTreeMap<String, String> {
    let mut labels = of_what_stays(at);
    labels.insert(keys::MEMBER.to_owned(), member.as_str().to_owned());
    labels
}

/// The labels of an object of one member.
pub fn of_member(at: &ClusterRef, member: &MemberName) -> BTreeMap<String, String> {
    let mut labels = of_cluster(at);
    labels.insert(keys::MEMBER.to_owned(), member.as_str().to_owned());
    labels
}

/// The selector of the Pods of a cluster.
pub fn selector(at: &ClusterRef) -> BTreeMap<String, String> {
    BTreeMap::from([(keys::CLUSTER.to_owned(), at.name.clone())])
}

/// The label of the Pods of an incarnation that took the place of another one; none for the first.
pub fn of_incarnation(cluster: &EtcdCluster) -> Option<(String, String)> {
    let present = cluster.status.as_ref()?.incarnation.as_ref()?;
    Some((keys::INCARNATION.to_owned(), present.number.to_string()))
}

/// The selector of the Pods of a cluster that clients are led to: their members have joined, and the operator knows nothing against
/// them (R24).
pub fn of_serving(at: &ClusterRef) -> BTreeMap<String, String> {
    let pairs = [(keys::JOINED, keys::JOINED_VALUE), (keys::SERVES, keys::SERVES_VALUE)];
    let pairs = pairs.map(|(key, value)| (key.to_owned(), value.to_owned()));
    selector(at).into_iter().chain(pairs).collect()
}

/// Metadata of an object that is deleted with the cluster: it has an owner reference. Never for data (R10).
pub fn owned(cluster: &EtcdCluster, at: &ClusterRef, name: String) -> ObjectMeta {
    ObjectMeta {
        owner_references: Some(vec![owner(cluster, at)]),
        labels: Some(of_cluster(at)),
        ..owned_by_none(at, name)
    }
}

/// Metadata of an object that outlives the cluster.
pub fn owned_by_none(at: &ClusterRef, name: String) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        namespace: Some(at.namespace.clone()),
        labels: Some(of_what_stays(at)),
        ..ObjectMeta::default()
    }
}

/// Whether an object has the label of the cluster, on which the watches select.
pub fn is_labelled(meta: &ObjectMeta, at: &ClusterRef) -> bool {
    meta.labels.as_ref().and_then(|labels| labels.get(keys::CLUSTER)) == Some(&at.name)
}

/// The backup tool that created an object, for messages, if it says so.
pub fn restored_by(meta: &ObjectMeta) -> Option<String> {
    let restore = meta.labels.as_ref()?.get(keys::VELERO_RESTORE)?;
    Some(format!("Velero's Restore {restore}"))
}

/// R25: whether this operator made the object for this incarnation of the cluster. The owner reference alone does not show that: another
/// operator of the same group and kind makes the same EtcdCluster the controller of its objects. Either label of ours is enough, since users
/// may remove one.
pub fn is_owned_by(meta: &ObjectMeta, uid: &ClusterUid) -> bool {
    is_controlled_by(meta, uid) && is_ours(meta)
}

/// Whether the EtcdCluster controls the object, whichever program made it.
fn is_controlled_by(meta: &ObjectMeta, uid: &ClusterUid) -> bool {
    let mut owners = meta.owner_references.iter().flatten();
    owners.any(|owner| owner.uid == uid.as_str() && owner.controller == Some(true))
}

/// Whether the object has a label that only this operator sets.
fn is_ours(meta: &ObjectMeta) -> bool {
    let Some(labels) = meta.labels.as_ref() else { return false };
    let is_managed = labels.get(keys::MANAGED_BY).is_some_and(|by| by == keys::MANAGED_BY_VALUE);
    is_managed || labels.contains_key(keys::CLUSTER) || is_broken(Rule::R25)
}

/// What made an object that this operator did not make, for messages: its controller, or the program that wrote it first.
pub fn made_by(meta: &ObjectMeta, uid: &ClusterUid) -> Option<String> {
    let writer = meta.managed_fields.iter().flatten().find_map(|entry| entry.manager.as_deref());
    if is_controlled_by(meta, uid) {
        let by = writer.unwrap_or("another operator");
        return Some(format!("{by} made it for this EtcdCluster"));
    }
    let mut owners = meta.owner_references.iter().flatten();
    match owners.find(|owner| owner.controller == Some(true)) {
        Some(owner) => Some(format!("{} {} controls it", owner.kind, owner.name)),
        None => writer.map(|writer| format!("{writer} made it")),
    }
}

fn owner(cluster: &EtcdCluster, at: &ClusterRef) -> OwnerReference {
    OwnerReference {
        api_version: format!("{}/{}", keys::GROUP, keys::VERSION),
        kind: "EtcdCluster".to_owned(),
        name: at.name.clone(),
        uid: cluster.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}
