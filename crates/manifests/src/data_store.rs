//! The DataStore by which Kamaji keeps the control planes of its tenants in a cluster, and the credential that Kamaji has for that. The kind is
//! Kamaji's own, and cluster-scoped: no owner reference can lead from it to an EtcdCluster, so it has labels, and the EtcdCluster a finalizer.

use std::collections::BTreeSet;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::jiff::Timestamp;
use quorate_api::{EtcdCluster, duration, keys};
use quorate_model::{Ca, ClusterRef, ClusterUid, Instant, Present, Span};
use serde_json::{Value, json};

use crate::certificate::{self, CA, CERT, Certificate, KEY, Order, ROOT_USER, order, private_key, rotation};
use crate::labels::is_owned_by;
use crate::user::{self, Own, Presence, Signer};
use crate::write::Act;
use crate::{diff, labels, names, service};

/// The group of Kamaji's kinds.
pub const GROUP: &str = "kamaji.clastix.io";
/// Their version.
pub const VERSION: &str = "v1alpha1";
/// The kind.
pub const KIND: &str = "DataStore";
/// Its plural.
pub const PLURAL: &str = "datastores";
/// The kind of its tenants, and its plural.
pub const TENANT: (&str, &str) = ("TenantControlPlane", "tenantcontrolplanes");
/// The label of the Pod of an API server with the DataStore that it was started with.
pub const STARTED_WITH: &str = "component.kamaji.clastix.io/datastore";
/// The label of such a Pod with its TenantControlPlane.
const OF_TENANT: &str = "kamaji.clastix.io/name";
/// Who writes DataStores, as the API server records it.
pub const FIELD_MANAGER: &str = "quorate-kamaji";

/// The entry of the Secret of the credential with the key of the first authority in its `ca.crt`. Both are in one Secret, so that they fit in every
/// stage of a rotation: Kamaji signs with the one for the other.
pub const AUTHORITY_KEY: &str = "ca.key";

/// The type of the Secret of the credential.
const SECRET_TYPE: &str = "kubernetes.io/tls";

/// The life of the credential. It is renewed at two thirds of it.
const LIFE: &str = "90d";

/// The finalizers by which the garbage collector deletes, or lets go of, what an object owns before it.
pub const COLLECTOR: [&str; 2] = [FOREGROUND, ORPHAN];
/// It deletes what it owns first.
pub const FOREGROUND: &str = "foregroundDeletion";
/// It lets go of what it owns.
pub const ORPHAN: &str = "orphan";

/// The longest name of an object without a namespace.
const LONGEST_NAME: usize = 253;

/// The name of the DataStore that is asked for. None for an EtcdCluster that is to be deleted.
pub fn wanted(cluster: &EtcdCluster) -> Option<&str> {
    let meta = &cluster.metadata;
    let name = meta.annotations.as_ref()?.get(keys::KAMAJI_DATA_STORE)?;
    Some(name.as_str()).filter(|_| meta.deletion_timestamp.is_none())
}

/// Whether anything has to be looked at: a DataStore is asked for, or one may be left.
pub fn concerns(cluster: &EtcdCluster) -> bool {
    wanted(cluster).is_some() || may_exist(cluster)
}

/// Whether a DataStore may exist: the finalizer comes before it and goes after it.
pub fn may_exist(cluster: &EtcdCluster) -> bool {
    cluster.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == keys::DATA_STORE_FINALIZER)
}

/// Whether the EtcdCluster is being deleted, and its members may be stopped for that. The one gate: while a DataStore may exist, its members serve
/// the tenants of Kamaji, and nothing of the deletion begins.
pub fn ends(cluster: &EtcdCluster) -> bool {
    cluster.metadata.deletion_timestamp.is_some() && !may_exist(cluster)
}

/// Since when it ends: since it was deleted, or since its DataStore was gone. More people may annotate it. So a time before the deletion counts as that,
/// and one that is still to come as now: a final backup is not waited for without an end, and is of after the tenants. Without the time nothing is capped.
pub(crate) fn ends_since(cluster: &EtcdCluster, now: Option<Instant>) -> Option<Timestamp> {
    let deleted = cluster.metadata.deletion_timestamp.as_ref().filter(|_| ends(cluster))?.0;
    let gone = cluster.metadata.annotations.as_ref().and_then(|all| all.get(keys::DATA_STORE_GONE));
    let gone: Option<Timestamp> = gone.and_then(|at| at.parse().ok());
    let now = now.and_then(|now| Timestamp::from_millisecond(now.0).ok()).unwrap_or(Timestamp::MAX);
    Some(gone.map_or(deleted, |gone| deleted.max(gone.min(now))))
}

/// Whether EtcdClusters of this namespace may become DataStores, by what the operator was started with.
pub fn is_admitted(at: &ClusterRef, admitted: &[String]) -> bool {
    admitted.iter().any(|admitted| admitted == "*" || *admitted == at.namespace)
}

/// Whether an object without a namespace can have this name.
pub fn is_name(name: &str) -> bool {
    let is_part = |part: &str| {
        let ends = part.starts_with('-') || part.ends_with('-');
        let is_allowed = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '-';
        !part.is_empty() && !ends && part.chars().all(is_allowed)
    };
    name.len() <= LONGEST_NAME && name.split('.').all(is_part)
}

/// Whether a DataStore leads to this EtcdCluster, whatever labels it has: by its endpoint, or by Secrets of the cluster.
pub fn leads_to(at: &ClusterRef, found: &Value) -> bool {
    let host = format!("{}.{}.svc", service::client_name(at), at.namespace);
    let is_here = |endpoint: &Value| {
        let rest = endpoint.as_str().and_then(|endpoint| endpoint.strip_prefix(&*host));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '.']))
    };
    let endpoints = found["spec"]["endpoints"].as_array().into_iter().flatten();
    let own = [Certificate::Authority(Ca::Clients).secret_name(at), names::data_store(at)];
    let refers = |outer: &str, inner: &str| {
        let secret = &found["spec"]["tlsConfig"][outer][inner]["secretReference"];
        secret["namespace"].as_str() == Some(&*at.namespace)
            && own.iter().any(|name| secret["name"].as_str() == Some(name))
    };
    let parts = ["certificateAuthority", "clientCertificate"];
    let refers = || parts.iter().any(|outer| refers(outer, "certificate") || refers(outer, "privateKey"));
    endpoints.into_iter().any(is_here) || refers()
}

/// Whether a DataStore has to do with this EtcdCluster.
pub fn is_of(cluster: &EtcdCluster, at: &ClusterRef, found: &Value) -> bool {
    is_own(cluster, found) || leads_to(at, found) || wanted(cluster) == found["metadata"]["name"].as_str()
}

/// By what a DataStore is found that [`is_own`] or [`leads_to`] a cluster. Another one may have one of these keys, too.
pub fn index_keys(found: &Value) -> BTreeSet<String> {
    let uid = found["metadata"]["labels"][keys::CLUSTER_UID].as_str().map(|uid| format!("uid/{uid}"));
    let endpoints = found["spec"]["endpoints"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let services = endpoints.filter_map(|endpoint| {
        let mut parts = endpoint.split('.');
        Some(service_key(parts.next()?, parts.next()?))
    });
    let outer = ["certificateAuthority", "clientCertificate"].into_iter();
    let secrets = outer.flat_map(|outer| ["certificate", "privateKey"].map(|inner| (outer, inner)));
    let secrets = secrets.filter_map(|(outer, inner)| {
        let secret = &found["spec"]["tlsConfig"][outer][inner]["secretReference"];
        Some(secret_key(secret["name"].as_str()?, secret["namespace"].as_str()?))
    });
    uid.into_iter().chain(services).chain(secrets).collect()
}

/// One of these keys has every DataStore of an EtcdCluster.
pub fn keys_of_cluster(cluster: &EtcdCluster, at: &ClusterRef) -> [String; 4] {
    [
        format!("uid/{}", cluster.metadata.uid.as_deref().unwrap_or_default()),
        service_key(&service::client_name(at), &at.namespace),
        secret_key(&Certificate::Authority(Ca::Clients).secret_name(at), &at.namespace),
        secret_key(&names::data_store(at), &at.namespace),
    ]
}

fn service_key(name: &str, namespace: &str) -> String {
    format!("service/{namespace}/{name}")
}

fn secret_key(name: &str, namespace: &str) -> String {
    format!("secret/{namespace}/{name}")
}

/// Whether a DataStore is that of this EtcdCluster, and not of an earlier one of its name, or of a person.
pub fn is_own(cluster: &EtcdCluster, found: &Value) -> bool {
    let uid = cluster.metadata.uid.as_deref().filter(|uid| !uid.is_empty());
    uid.is_some() && found["metadata"]["labels"][keys::CLUSTER_UID].as_str() == uid
}

/// The tenants that use a DataStore, as Kamaji has them.
pub fn tenants(found: &Value) -> Vec<String> {
    let used_by = found["status"]["usedBy"].as_array().into_iter().flatten();
    used_by.map(|tenant| tenant.as_str().map_or_else(|| tenant.to_string(), str::to_owned)).collect()
}

/// What may use DataStores, beside what their status says.
#[derive(Clone, Debug, Default)]
pub struct Users {
    /// TenantControlPlanes.
    pub planes: Vec<Value>,
    /// Pods of their API servers.
    pub pods: Vec<Value>,
}

impl Users {
    /// The DataStore with all who use it in its status. Kamaji names none there that keeps only some resources in it (`dataStoreOverrides`), and none that
    /// moves to another one while its API servers still run with this one.
    pub fn told_in(&self, mut store: Value) -> Value {
        let name = store["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let names_it = |plane: &&Value| {
            let overrides = plane["spec"]["dataStoreOverrides"].as_array().into_iter().flatten();
            let in_all = [&plane["spec"]["dataStore"], &plane["status"]["storage"]["dataStoreName"]];
            in_all.into_iter().chain(overrides.map(|one| &one["dataStore"])).any(|one| one == name.as_str())
        };
        let runs_with_it = |pod: &&Value| {
            let has_ended = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
            pod["metadata"]["labels"][STARTED_WITH] == name.as_str() && !has_ended
        };
        let tenant = |meta: &Value, name: &Value| {
            format!("{}/{}", meta["namespace"].as_str().unwrap_or_default(), name.as_str().unwrap_or("?"))
        };
        let planes = self.planes.iter().filter(names_it);
        let planes = planes.map(|plane| tenant(&plane["metadata"], &plane["metadata"]["name"]));
        let pods = self.pods.iter().filter(runs_with_it);
        let pods = pods.map(|pod| tenant(&pod["metadata"], &pod["metadata"]["labels"][OF_TENANT]));
        let all: BTreeSet<String> = tenants(&store).into_iter().chain(planes).chain(pods).collect();
        if !all.is_empty() {
            store["status"]["usedBy"] = json!(all);
        }
        store
    }
}

/// What brings the DataStore of this name to its desired form; `None` if it has it.
pub fn act(cluster: &EtcdCluster, at: &ClusterRef, name: &str, found: Option<&Value>) -> Option<Act> {
    let desired = desired(cluster, at, name);
    let Some(found) = found else { return Some(Act::Create(desired)) };
    let kept = json!({ "metadata": { "labels": desired["metadata"]["labels"] }, "spec": desired["spec"] });
    let more = superfluous(found);
    if diff::matches(found, &kept) && more.is_none() {
        return None;
    }
    let mut spec = desired["spec"].clone();
    remove(&mut spec, &more.unwrap_or_default());
    let metadata = json!({
        "uid": found["metadata"]["uid"], "resourceVersion": found["metadata"]["resourceVersion"],
        "labels": desired["metadata"]["labels"],
    });
    Some(Act::Patch(json!({ "metadata": metadata, "spec": spec })))
}

/// Has a patch remove the fields that are null here.
fn remove(patch: &mut Value, gone: &Value) {
    for (field, gone) in gone.as_object().into_iter().flatten() {
        if gone.is_object() {
            remove(&mut patch[field], gone);
        } else {
            patch[field] = Value::Null;
        }
    }
}

/// What would be used beside, or instead of, what is desired: a password, and certificates in the object itself.
fn superfluous(found: &Value) -> Option<Value> {
    let spec = &found["spec"];
    let mut more = json!({});
    if !spec["basicAuth"].is_null() {
        more["basicAuth"] = Value::Null;
    }
    for outer in ["certificateAuthority", "clientCertificate"] {
        for inner in ["certificate", "privateKey"] {
            if !spec["tlsConfig"][outer][inner]["content"].is_null() {
                more["tlsConfig"][outer][inner]["content"] = Value::Null;
            }
        }
    }
    Some(more).filter(|more| more.as_object().is_some_and(|more| !more.is_empty()))
}

fn desired(cluster: &EtcdCluster, at: &ClusterRef, name: &str) -> Value {
    let part = |secret: &str, entry: &str| json!({ "secretReference": { "name": secret, "namespace": at.namespace, "keyPath": entry } });
    let secret = names::data_store(at);
    let pair = |cert: &str, key: &str| json!({ "certificate": part(&secret, cert), "privateKey": part(&secret, key) });
    json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": KIND,
        "metadata": {
            "name": name,
            "labels": {
                keys::MANAGED_BY: keys::MANAGED_BY_VALUE,
                keys::CLUSTER: at.name,
                keys::CLUSTER_NAMESPACE: at.namespace,
                keys::CLUSTER_UID: cluster.metadata.uid,
            },
        },
        "spec": {
            "driver": "etcd",
            // One, behind which are the members that serve: it stays the same when members come and go.
            "endpoints": [format!("{}.{}.svc:{}", service::client_name(at), at.namespace, service::CLIENT_PORT)],
            "tlsConfig": {
                "certificateAuthority": pair(CA, AUTHORITY_KEY),
                "clientCertificate": pair(CERT, KEY),
            },
        },
    })
}

/// The Secret of the name that the credential needs.
pub fn presence<'a>(
    cluster: &EtcdCluster,
    at: &ClusterRef,
    found: Option<&'a Secret>,
    signer: Option<&Signer>,
) -> Presence<'a> {
    let Some(secret) = found else { return Presence::Absent };
    if !is_own_secret(cluster, secret) {
        return Presence::Foreign;
    }
    Presence::Own(user::own(secret, ROOT_USER, &desired_secret(cluster, at, signer)))
}

/// Whether a Secret of the name is that of this EtcdCluster: by its owner; or, where a deletion has orphaned it, by its label and its type. It has the key of
/// an authority, so it is not left behind.
pub fn is_own_secret(cluster: &EtcdCluster, secret: &Secret) -> bool {
    let Some(uid) = cluster.metadata.uid.as_ref().filter(|uid| !uid.is_empty()) else { return false };
    let meta = &secret.metadata;
    let is_controlled = meta.owner_references.iter().flatten().any(|owner| owner.controller == Some(true));
    let label = meta.labels.as_ref().and_then(|labels| labels.get(keys::CLUSTER_UID));
    let is_labelled = label == Some(uid) && secret.type_.as_deref() == Some(SECRET_TYPE);
    is_owned_by(meta, &ClusterUid::new(uid)) || (is_labelled && !is_controlled)
}

/// The Secret of the credential, if it is there.
pub(crate) fn own_secret<'a>(
    cluster: &EtcdCluster,
    at: &ClusterRef,
    secrets: &[&'a Secret],
) -> Option<&'a Secret> {
    let name = names::data_store(at);
    let mut named = secrets.iter().filter(|secret| secret.metadata.name.as_ref() == Some(&name));
    named.find(|secret| is_own_secret(cluster, secret)).copied()
}

/// The order of a certificate for Kamaji, and of all else in its Secret.
pub fn sign(
    cluster: &EtcdCluster,
    at: &ClusterRef,
    signer: &Signer,
    own: Option<&Own<'_>>,
    now: Present,
) -> Order {
    let act = write(cluster, at, signer, own);
    let whose = (ROOT_USER.to_owned(), cluster.metadata.uid.clone().unwrap_or_default());
    let life = Span::seconds(duration::seconds(LIFE).unwrap_or(90 * 86_400));
    order::of_user(
        whose,
        (at, names::data_store(at)),
        act,
        (signer.pair.clone(), &signer.authority),
        life,
        now,
    )
}

/// What brings all but the certificate to its desired form.
pub fn write(cluster: &EtcdCluster, at: &ClusterRef, signer: &Signer, own: Option<&Own<'_>>) -> Act {
    user::write_desired(own, desired_secret(cluster, at, Some(signer)), &["labels", "ownerReferences"])
}

/// All but the certificate and its key; without what clients trust, and the key that signs, where one of both is not known: they are of one another.
fn desired_secret(cluster: &EtcdCluster, at: &ClusterRef, signer: Option<&Signer>) -> Value {
    let mut metadata = labels::owned(cluster, at, names::data_store(at));
    let all = metadata.labels.get_or_insert_default();
    all.extend(labels::not_backed_up());
    all.extend(cluster.metadata.uid.clone().map(|uid| (keys::CLUSTER_UID.to_owned(), uid)));
    let mut secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": SECRET_TYPE, "data": {} });
    let both = signer.and_then(|signer| Some((signer, rotation::bundle(&signer.pair.cert, &signer.ca)?)));
    if let Some((signer, bundle)) = both {
        let bytes = |text: String| json!(ByteString(text.into_bytes()));
        secret["data"][CA] = bytes(bundle);
        // Kamaji reads the first block alone, in fewer forms than people write keys in.
        let key = private_key::to_pkcs8(&signer.pair.key);
        secret["data"][AUTHORITY_KEY] = bytes(key.unwrap_or_else(|| signer.pair.key.clone()));
    }
    secret
}

/// Whether each key in the Secret is that of the certificate that it belongs to, by who can tell: that of the credential, and that of the first authority.
pub fn keys_fit(found: Option<&Secret>, is_pair: impl Fn(&[u8], &[u8]) -> bool) -> bool {
    let Some(secret) = found else { return false };
    let authority = secret.data.as_ref().and_then(|data| data.get(AUTHORITY_KEY));
    certificate::kept_in(secret)
        .zip(authority)
        .is_some_and(|(kept, authority)| is_pair(kept.cert, kept.key) && is_pair(kept.ca, &authority.0))
}
