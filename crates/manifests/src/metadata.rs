//! Labels and annotations that the spec gives to the objects of a cluster, and what tells other tools to leave alone what outlives it.
//!
//! Both are apart from the rest of an object: what refuses them, such as a policy, keeps nothing else from being put right. The Pods of
//! members have theirs from the template, which is part of their revision.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::Resource;
use quorate_api::cluster::{ExtraMetadata, ServiceSpec};
use quorate_api::{EtcdCluster, keys};
use quorate_model::{Ca, ClusterRef, ClusterUid, ManagedObject, ObservedObject};
use serde_json::{Value, json};

use crate::certificate::kinds::{self, Certificate};
use crate::kind::Kind;
use crate::labels::is_owned_by;
use crate::objects::{ClusterObjects, member_name};
use crate::{diff, names, service};

/// Labels that only the operator sets, besides those with its prefix. The definition refuses them; this also covers an older one.
const OURS: [&str; 4] = [keys::APP, keys::NAME, keys::INSTANCE, keys::MANAGED_BY];

/// What an object is to have besides what the operator needs of it.
struct Desired {
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    /// It outlives the EtcdCluster, so it has no owner.
    outlives: bool,
}

/// What is to change: a value, or `None` for a key that is to go.
#[derive(Default, PartialEq)]
struct Change {
    labels: BTreeMap<String, Option<String>>,
    annotations: BTreeMap<String, Option<String>>,
}

/// The labels and annotations of every object, and those of a part of the spec, which come first.
pub(crate) fn merged(
    cluster: &EtcdCluster,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
) -> (BTreeMap<String, String>, BTreeMap<String, String>) {
    let common = cluster.spec.common_metadata.clone().unwrap_or_default();
    (before(labels, common.labels), before(annotations, common.annotations))
}

/// Both; of a key that both have, the value of the first.
pub(crate) fn before(
    first: BTreeMap<String, String>,
    then: BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    then.into_iter().chain(first).collect()
}

/// Annotations of one object that the spec may give, in bytes of keys and values. Kubernetes admits 262,144; the rest is for those of the
/// operator and of others.
const MOST_ANNOTATIONS: usize = 200 * 1024;

/// Why the API server would refuse an object with these labels and annotations. A Pod that it refuses costs a member: the one of before is
/// deleted by then.
pub(crate) fn why_refused(
    labels: &BTreeMap<String, String>,
    annotations: &BTreeMap<String, String>,
) -> Option<String> {
    let name = "is no qualified name, such as example.com/team: up to 63 letters, digits, '-', '_' and '.', after an optional DNS name and a '/'";
    let wrong = labels.keys().chain(annotations.keys()).find(|key| !is_qualified(&key.to_lowercase()));
    // Only the name of an annotation is free of case in front of the slash.
    let wrong = wrong.or_else(|| labels.keys().find(|key| !is_qualified(key)));
    if let Some(key) = wrong {
        return Some(format!("the key {key:?} {name}"));
    }
    if let Some((key, value)) = labels.iter().find(|(_, value)| !value.is_empty() && !is_word(value)) {
        return Some(format!(
            "the value {value:?} of the label {key} is no word of up to 63 letters, digits, '-', '_' and '.'"
        ));
    }
    let bytes: usize = annotations.iter().map(|(key, value)| key.len() + value.len()).sum();
    (bytes > MOST_ANNOTATIONS)
        .then(|| format!("the annotations of one object have {bytes} bytes; the most is {MOST_ANNOTATIONS}"))
}

fn is_qualified(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => {
            let is_label = |label: &str| {
                let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
                !label.is_empty()
                    && label.chars().all(inner)
                    && !label.starts_with('-')
                    && !label.ends_with('-')
            };
            prefix.len() <= 253 && prefix.split('.').all(is_label) && is_word(name)
        }
        None => is_word(key),
    }
}

/// The name of a key, or the value of a label.
fn is_word(text: &str) -> bool {
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.len() <= 63
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        && ends(text.chars().next())
        && ends(text.chars().next_back())
}

/// Gives an object that is to be created what the spec has for it. What the operator writes stays.
pub(crate) fn add(cluster: &EtcdCluster, at: &ClusterRef, object: &ManagedObject, made: &mut Value) {
    let desired = desired(cluster, at, object);
    let change = change(&desired, at, &ObjectMeta::default());
    for (field, given) in [("labels", change.labels), ("annotations", change.annotations)] {
        for (key, value) in given {
            let present = made["metadata"][field].get(&key).is_some();
            if let Some(value) = value.filter(|_| !present) {
                made["metadata"][field][key] = json!(value);
            }
        }
    }
}

/// The objects of this cluster whose labels or annotations are not those of the spec.
pub(crate) fn differing(
    cluster: &EtcdCluster,
    at: &ClusterRef,
    uid: &ClusterUid,
    seen: &ClusterObjects<'_>,
) -> BTreeMap<ManagedObject, ObservedObject> {
    let mut differing = BTreeMap::new();
    for (object, meta) in own(at, uid, seen) {
        let is_other = change(&desired(cluster, at, &object), at, meta) != Change::default();
        if is_other && meta.deletion_timestamp.is_none() {
            differing.insert(object, diff::observed(meta));
        }
    }
    differing
}

/// The kind and name of an object, and the patch that gives it what the spec has for it.
pub(crate) fn patch(
    cluster: &EtcdCluster,
    at: &ClusterRef,
    uid: &ClusterUid,
    seen: &ClusterObjects<'_>,
    (object, observed): (&ManagedObject, &ObservedObject),
) -> (Kind, String, Value) {
    let mut patch = json!({ "metadata": diff::precondition(observed) });
    let own = own(at, uid, seen).into_iter().find(|(own, _)| own == object);
    if let Some((_, meta)) = own {
        let change = change(&desired(cluster, at, object), at, meta);
        if !change.labels.is_empty() {
            patch["metadata"]["labels"] = json!(change.labels);
        }
        if !change.annotations.is_empty() {
            patch["metadata"]["annotations"] = json!(change.annotations);
        }
    }
    let (kind, name) = called(object, at);
    (kind, name, patch)
}

fn desired(cluster: &EtcdCluster, at: &ClusterRef, object: &ManagedObject) -> Desired {
    let is_authority =
        |name: &String| Ca::ALL.into_iter().any(|ca| *name == Certificate::Authority(ca).secret_name(at));
    let (own, outlives) = match object {
        ManagedObject::Volume(_) => (cluster.spec.storage_spec.metadata.clone(), true),
        ManagedObject::Secret(name) => (None, is_authority(name)),
        // Those that `service` writes as well: they come before the common ones for both.
        ManagedObject::ClientService => {
            let given = cluster.spec.service.clone();
            (
                given.map(|ServiceSpec { labels, annotations, .. }| ExtraMetadata { labels, annotations }),
                false,
            )
        }
        ManagedObject::Pod(_)
        | ManagedObject::DisruptionBudget
        | ManagedObject::NetworkPolicy
        | ManagedObject::Connection
        | ManagedObject::PeerService => (None, false),
    };
    let ExtraMetadata { labels, annotations } = own.unwrap_or_default();
    let (labels, annotations) = merged(cluster, labels, annotations);
    // Those with a certificate have it always, or never.
    let of_certificates = matches!(object, ManagedObject::Secret(_) | ManagedObject::Connection);
    let free = |(key, value): (String, String)| {
        let is_fixed = is_ours(&key) || of_certificates && key == keys::VELERO_EXCLUDE;
        (!is_fixed).then_some((key, value))
    };
    Desired {
        labels: labels.into_iter().filter_map(free).collect(),
        annotations: annotations.into_iter().filter_map(free).collect(),
        outlives,
    }
}

/// Empty where nothing differs. A key that the spec gave before, and gives no more, goes.
fn change(desired: &Desired, at: &ClusterRef, meta: &ObjectMeta) -> Change {
    let none = BTreeMap::new();
    let labels = meta.labels.as_ref().unwrap_or(&none);
    let annotations = meta.annotations.as_ref().unwrap_or(&none);
    let given = given(desired);
    let before: BTreeSet<&str> =
        annotations.get(keys::GIVEN).into_iter().flat_map(|all| all.split(' ')).collect();
    let gone = |prefix: &str, present: &BTreeMap<String, String>, desired: &BTreeMap<String, String>| {
        let keys = before
            .iter()
            .filter_map(|entry| entry.strip_prefix(prefix))
            .filter(|key| present.contains_key(*key) && !desired.contains_key(*key) && !is_ours(key));
        keys.map(|key| (key.to_owned(), None)).collect::<BTreeMap<_, _>>()
    };
    let set = |present: &BTreeMap<String, String>, desired: &BTreeMap<String, String>| {
        let other = desired.iter().filter(|(key, value)| present.get(*key) != Some(value));
        other.map(|(key, value)| (key.clone(), Some(value.clone()))).collect::<BTreeMap<_, _>>()
    };
    let mut change = Change {
        labels: gone(LABEL, labels, &desired.labels),
        annotations: gone(ANNOTATION, annotations, &desired.annotations),
    };
    change.labels.extend(set(labels, &desired.labels));
    change.annotations.extend(set(annotations, &desired.annotations));
    if annotations.get(keys::GIVEN) != given.as_ref() {
        change.annotations.insert(keys::GIVEN.to_owned(), given);
    }
    if desired.outlives {
        let keep = keys::KEEP.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let mut keep = BTreeMap::from(keep);
        keep.retain(|key, wanted| !annotations.get(key).is_some_and(|present| says_all(present, wanted)));
        change.annotations.extend(set(annotations, &keep));
        // Argo CD takes it for part of the application of that name, and deletes what Git does not have.
        if labels.get(keys::INSTANCE) == Some(&at.name) {
            change.labels.insert(keys::INSTANCE.to_owned(), None);
        }
    }
    change
}

/// Whether a list of options, such as that of Argo CD, has all that are wanted. It may have others, which others keep there.
fn says_all(present: &str, wanted: &str) -> bool {
    wanted.split(',').all(|option| present.split(',').any(|present| present.trim() == option))
}

const LABEL: &str = "label:";
const ANNOTATION: &str = "annotation:";

/// The value of [`keys::GIVEN`]; `None` where the spec gives nothing.
fn given(desired: &Desired) -> Option<String> {
    let labels = desired.labels.keys().map(|key| format!("{LABEL}{key}"));
    let annotations = desired.annotations.keys().map(|key| format!("{ANNOTATION}{key}"));
    let all: Vec<String> = labels.chain(annotations).collect();
    (!all.is_empty()).then(|| all.join(" "))
}

fn is_ours(key: &str) -> bool {
    let prefix = key.split_once('/').map(|(prefix, _)| prefix);
    prefix == Some(keys::GROUP) || OURS.contains(&key) || keys::KEEP.iter().any(|(keep, _)| *keep == key)
}

/// The objects of this EtcdCluster and no other, without Pods. Volumes of an earlier cluster are not its own before they are adopted.
fn own<'a>(
    at: &ClusterRef,
    uid: &ClusterUid,
    seen: &ClusterObjects<'a>,
) -> Vec<(ManagedObject, &'a ObjectMeta)> {
    let mut own: Vec<(ManagedObject, &'a ObjectMeta)> = Vec::new();
    let of_this = |meta: &ObjectMeta| {
        let named = meta.annotations.as_ref().and_then(|all| all.get(keys::CLUSTER_UID));
        named.is_some_and(|named| named == uid.as_str())
    };
    for meta in seen.volumes.iter().map(|volume| &volume.metadata).filter(|meta| of_this(meta)) {
        if let Some(member) = member_name(meta, at) {
            own.push((ManagedObject::Volume(member), meta));
        }
    }
    for meta in seen.secrets.iter().map(|secret| &secret.metadata) {
        let Some(name) = meta.name.clone() else { continue };
        let is = |certificate: Certificate| certificate.secret_name(at) == name;
        let is_leaf = is_owned_by(meta, uid) && Certificate::ALL.into_iter().any(is);
        let is_authority =
            kinds::is_of_authority(meta, at) && of_this(meta) && kinds::is_authority_of(meta, at, uid);
        if is_leaf || is_authority {
            own.push((ManagedObject::Secret(name), meta));
        } else if name == names::connection(at) && is_owned_by(meta, uid) {
            own.push((ManagedObject::Connection, meta));
        }
    }
    for meta in seen.services.iter().map(|service| service.meta()).filter(|meta| is_owned_by(meta, uid)) {
        let name = meta.name.as_deref();
        if name == Some(&*at.name) {
            own.push((ManagedObject::PeerService, meta));
        } else if name == Some(&*service::client_name(at)) {
            own.push((ManagedObject::ClientService, meta));
        }
    }
    for meta in seen.budgets.iter().map(|budget| budget.meta()).filter(|meta| is_owned_by(meta, uid)) {
        if meta.name.as_ref() == Some(&at.name) {
            own.push((ManagedObject::DisruptionBudget, meta));
        }
    }
    for meta in seen.network_policies.iter().map(|policy| policy.meta()) {
        if is_owned_by(meta, uid) && meta.name.as_ref() == Some(&at.name) {
            own.push((ManagedObject::NetworkPolicy, meta));
        }
    }
    own
}

/// The kind and name of an object.
pub(crate) fn called(object: &ManagedObject, at: &ClusterRef) -> (Kind, String) {
    match object {
        ManagedObject::Volume(member) => (Kind::Volume, member.as_str().to_owned()),
        ManagedObject::Pod(member) => (Kind::Pod, member.as_str().to_owned()),
        ManagedObject::DisruptionBudget => (Kind::Budget, at.name.clone()),
        ManagedObject::NetworkPolicy => (Kind::NetworkPolicy, at.name.clone()),
        ManagedObject::Secret(name) => (Kind::Secret, name.clone()),
        ManagedObject::Connection => (Kind::Secret, names::connection(at)),
        ManagedObject::PeerService => (Kind::Service, at.name.clone()),
        ManagedObject::ClientService => (Kind::Service, service::client_name(at)),
    }
}
