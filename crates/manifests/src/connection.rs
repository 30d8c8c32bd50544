//! The connection Secret: all that an application connects with, in one object, so that address, authority, certificate and key always
//! go together. Its form is that of a provisioned service of servicebinding.io, which `status.binding` names.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use quorate_api::{EtcdCluster, keys};
use quorate_model::snapshot::Presence;
use quorate_model::{ClusterRef, ClusterUid};
use serde_json::{Value, json};

use crate::certificate::{self, CA, CERT, KEY, Kept};
use crate::write::Act;
use crate::{diff, labels, names, service};

/// The entry `type`, which says what kind of service it is.
pub const TYPE: &str = "etcd";

/// The type of the Secret, by the specification of service bindings.
pub(crate) const SECRET_TYPE: &str = "servicebinding.io/etcd";

/// The entries that the operator writes, or has removed where they do not apply. Others are left alone.
const ENTRIES: [&str; 9] = ["type", "provider", "host", "port", "uri", "endpoints", CA, CERT, KEY];

/// The Secret with this client certificate; `None`: TLS is off.
pub fn secret(cluster: &EtcdCluster, at: &ClusterRef, certificate: Option<&Kept<'_>>) -> Value {
    let mut metadata = labels::owned(cluster, at, names::connection(at));
    metadata.labels.get_or_insert_default().extend(labels::not_backed_up());
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata,
        "type": SECRET_TYPE,
        "data": data(at, certificate),
    })
}

/// Whether it exists, and has the client certificate as it was observed.
pub(crate) fn presence(
    cluster: &EtcdCluster,
    secrets: &[&Secret],
    at: &ClusterRef,
    uid: &ClusterUid,
    tls: bool,
) -> Presence {
    let Some(seen) = own(secrets, at, uid) else { return Presence::Absent };
    // Until it is gone, nothing is to be done: then it is created again.
    if seen.metadata.deletion_timestamp.is_some() {
        return Presence::Matches;
    }
    let desired = desired(cluster, secrets, at, uid, tls);
    let matches = |desired: &Value| diff::matches(seen, desired) && stale(seen, desired).next().is_none();
    if desired.as_ref().is_some_and(matches) { Presence::Matches } else { Presence::Differs }
}

/// What creates it, or brings it to its desired form; `None` where there is no certificate to put into it.
///
/// The API server refuses every change of the data of an immutable Secret, and of a type. Such a one is deleted, and created by the next
/// pass: all that is in it is a copy.
pub(crate) fn act(
    cluster: &EtcdCluster,
    secrets: &[&Secret],
    at: &ClusterRef,
    uid: &ClusterUid,
    tls: bool,
) -> Option<Act> {
    let desired = desired(cluster, secrets, at, uid, tls)?;
    let Some(seen) = own(secrets, at, uid) else { return Some(Act::Create(desired)) };
    let (own_uid, resource_version) = (seen.metadata.uid.clone(), seen.metadata.resource_version.clone());
    if seen.immutable == Some(true) || seen.type_.as_deref() != Some(SECRET_TYPE) {
        let (uid, resource_version) = (own_uid.unwrap_or_default(), resource_version.unwrap_or_default());
        return Some(Act::Delete { uid, resource_version });
    }
    let mut data = desired["data"].clone();
    for entry in stale(seen, &desired) {
        data[entry] = Value::Null;
    }
    Some(Act::Patch(json!({
        "metadata": {
            "uid": own_uid,
            "resourceVersion": resource_version,
            "labels": desired["metadata"]["labels"],
            "ownerReferences": desired["metadata"]["ownerReferences"],
        },
        "data": data,
    })))
}

/// That of this EtcdCluster, if it exists.
pub(crate) fn own<'a>(secrets: &[&'a Secret], at: &ClusterRef, uid: &ClusterUid) -> Option<&'a Secret> {
    let name = names::connection(at);
    let mut named = secrets.iter().filter(|secret| secret.metadata.name.as_ref() == Some(&name));
    named.find(|secret| labels::is_owned_by(&secret.metadata, uid)).copied()
}

fn desired(
    cluster: &EtcdCluster,
    secrets: &[&Secret],
    at: &ClusterRef,
    uid: &ClusterUid,
    tls: bool,
) -> Option<Value> {
    let certificate = certificate::kept(quorate_model::Leaf::Client, secrets, at, uid);
    if tls { Some(secret(cluster, at, Some(&certificate?))) } else { Some(secret(cluster, at, None)) }
}

/// What is in it, whoever it is for.
pub(crate) fn data(at: &ClusterRef, certificate: Option<&Kept<'_>>) -> BTreeMap<&'static str, ByteString> {
    // The name that Pods of every namespace resolve, in every cluster domain, and that the server certificate has.
    let host = format!("{}.{}.svc", service::client_name(at), at.namespace);
    let scheme = if certificate.is_some() { "https" } else { "http" };
    let uri = format!("{scheme}://{host}:{}", service::CLIENT_PORT);
    let texts = [
        ("type", TYPE.to_owned()),
        ("provider", keys::MANAGED_BY_VALUE.to_owned()),
        ("host", host),
        ("port", service::CLIENT_PORT.to_string()),
        // One endpoint: behind it are the members that serve, also after members came and went.
        ("endpoints", uri.clone()),
        ("uri", uri),
    ];
    let texts = texts.into_iter().map(|(key, text)| (key, ByteString(text.into_bytes())));
    let pem = certificate.map(|kept| [(CA, kept.ca), (CERT, kept.cert), (KEY, kept.key)]);
    let pem = pem.into_iter().flatten().map(|(key, pem)| (key, ByteString(pem.to_vec())));
    texts.chain(pem).collect()
}

/// The entries that the operator wrote, and that do not apply.
fn stale<'a>(seen: &'a Secret, desired: &'a Value) -> impl Iterator<Item = &'static str> + 'a {
    let has = |entry: &&str| seen.data.as_ref().is_some_and(|data| data.contains_key(*entry));
    ENTRIES.into_iter().filter(move |entry| has(entry) && desired["data"].get(entry).is_none())
}
