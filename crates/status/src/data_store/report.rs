//! What the condition says, and what a person can do.

use std::collections::BTreeSet;

use quorate_api::{EtcdCluster, Explanation, Reason, keys};
use quorate_model::ClusterRef;
use serde_json::{Value, json};

use super::DataStoreHealth;
use quorate_manifests::cluster_ref;
use quorate_manifests::data_store::{COLLECTOR, FIELD_MANAGER, FOREGROUND, ORPHAN, tenants};
use quorate_manifests::names;
use quorate_manifests::user::NoSigner;

/// How many tenants a message names.
const NAMED: usize = 8;

/// The condition by which Kamaji says what is wrong with a DataStore.
const VALIDATION: &str = "kamaji.clastix.io/DataStoreValidation";

/// The line that makes etcd compact.
const COMPACTION: &str = "spec: {etcd: {autoCompactionMode: periodic, autoCompactionRetention: 5m}}";

/// Its namespace is not admitted.
pub fn not_admitted(at: &ClusterRef) -> DataStoreHealth {
    no(
        Reason::NamespaceNotAdmitted,
        format!(
            "no DataStore is made or changed, because this operator does not admit EtcdClusters of namespace {0} as DataStores, which are in no \
             namespace. Who installed it can: --kamaji-namespaces, which is kamaji.namespaces of the chart. Else take the annotation \
             operator.etcd.io/kamaji-datastore off",
            at.namespace
        ),
    )
}

/// etcd's auth is off, and the spec does not want it.
pub fn auth_off() -> DataStoreHealth {
    no(
        Reason::AuthOff,
        "no DataStore is made or changed, because spec.auth.enabled is not true: without etcd's auth every tenant of Kamaji reads and writes the data of all others. Kamaji does \
         not enable it. Set spec.auth.enabled to true. That needs TLS",
    )
}

/// etcd does not compact by itself.
pub fn compaction_off() -> DataStoreHealth {
    no(
        Reason::CompactionOff,
        format!(
            "no DataStore is made, because etcd does not compact its history by itself, and neither do the API servers that Kamaji starts: \
             the database would fill up. Add to the EtcdCluster: {COMPACTION}"
        ),
    )
}

/// The cluster serves no tenants yet; why.
pub fn not_serving(why: &str) -> DataStoreHealth {
    no(Reason::NotServing, format!("no DataStore is made yet: {why}"))
}

/// It is there, and as it should be; what Kamaji reports of it.
pub fn published(store: &Value) -> DataStoreHealth {
    let conditions = store["status"]["conditions"].as_array().into_iter().flatten();
    let validation = conditions.into_iter().find(|one| one["type"] == VALIDATION);
    // What it writes before it has looked.
    let is_judged = validation.is_none_or(|found| found["status"] != "Unknown");
    let says = match &store["status"]["ready"] {
        Value::Bool(true) => "Kamaji reports it ready",
        Value::Bool(false) if is_judged => return not_ready(store, validation),
        _ => "Kamaji has reported nothing of it yet: does it run?",
    };
    let text = format!(
        "DataStore {} is written: tenants of Kamaji may be kept in this cluster. {says}. {}",
        name(store),
        used_by(store)
    );
    DataStoreHealth { ready: Some(true), why: Explanation::new(Reason::Published, text) }
}

fn not_ready(store: &Value, validation: Option<&Value>) -> DataStoreHealth {
    let why = validation.and_then(|found| found["message"].as_str()).filter(|why| !why.is_empty());
    let text = format!(
        "DataStore {0} is written, and Kamaji reports it not ready: {1}. kubectl describe datastore {0}. {2}",
        name(store),
        why.unwrap_or("it gives no reason"),
        used_by(store)
    );
    no(Reason::DataStoreNotReady, text)
}

/// Something else changes it again and again.
pub fn contested(store: &Value) -> DataStoreHealth {
    let fields = store["metadata"]["managedFields"].as_array().into_iter().flatten();
    let others = fields.filter(|one| one["subresource"].as_str().is_none_or(str::is_empty));
    let others: BTreeSet<&str> = others.filter_map(|one| one["manager"].as_str()).collect();
    let others: Vec<&str> = others.into_iter().filter(|manager| *manager != FIELD_MANAGER).collect();
    let who = if others.is_empty() { "something else".to_owned() } else { others.join(", ") };
    no(
        Reason::DataStoreContested,
        format!(
            "DataStore {0} is changed again and again by another writer, and put right with growing pauses, a minute at most. By its managed fields: {who}. \
             kubectl get datastore {0} -o yaml --show-managed-fields. Keep that from writing it",
            name(store)
        ),
    )
}

/// Something else changes the Secret again and again.
pub fn secret_contested(cluster: &EtcdCluster) -> DataStoreHealth {
    let at = cluster_ref(cluster);
    no(
        Reason::DataStoreContested,
        format!(
            "{} is changed again and again by another writer, and put right with growing pauses, a minute at most. kubectl get secret {} -n {} \
             --show-managed-fields -o jsonpath='{{.metadata.managedFields}}'. Keep that from writing it",
            secret(cluster),
            names::data_store(&at),
            at.namespace
        ),
    )
}

/// It is not asked for any more, and tenants use it.
pub fn in_use(cluster: &EtcdCluster, store: &Value, namespace_ends: bool) -> DataStoreHealth {
    if namespace_ends {
        return namespace_terminating(cluster, store);
    }
    if cluster.metadata.deletion_timestamp.is_some() && has_finalizer(cluster, FOREGROUND) {
        return in_foreground(cluster, store);
    }
    if cluster.metadata.deletion_timestamp.is_some() && has_finalizer(cluster, ORPHAN) {
        return orphaning(cluster, store);
    }
    let name = name(store);
    let why = if cluster.metadata.deletion_timestamp.is_some() {
        "The members serve on"
    } else {
        "It stays, and no other one is made. To keep it, set the annotation operator.etcd.io/kamaji-datastore to its name again"
    };
    no(
        Reason::DataStoreInUse,
        format!(
            "DataStore {name} is deleted once no tenant uses it. {}. Delete these TenantControlPlanes, or migrate them to another DataStore \
             (spec.dataStore). {why}",
            used_by(store)
        ),
    )
}

/// The garbage collector deletes what has the EtcdCluster as owner before it, whatever else holds that up.
fn in_foreground(cluster: &EtcdCluster, store: &Value) -> DataStoreHealth {
    no(
        Reason::DeletedInForeground,
        format!(
            "the EtcdCluster is deleted with --cascade=foreground, so Kubernetes deletes its Pods now, though tenants use DataStore {}. {}. The operator \
             takes the finalizer foregroundDeletion off, so that Kubernetes stops that, and the members serve until no tenant is left. Where that is refused: {}",
            name(store),
            used_by(store),
            without_finalizer(cluster, FOREGROUND)
        ),
    )
}

/// The garbage collector takes the EtcdCluster off what it owns, which nobody keeps up then.
fn orphaning(cluster: &EtcdCluster, store: &Value) -> DataStoreHealth {
    no(
        Reason::DeletedWithOrphans,
        format!(
            "the EtcdCluster is deleted with --cascade=orphan, so Kubernetes takes it off as the owner of its Pods and Secrets, which the operator does not keep up \
             then, though tenants use DataStore {}. {}. The operator takes the finalizer orphan off, so that this ends and the deletion waits. Where that is refused: {}. \
             Objects that lost their owner are named by the reason ForeignObjects of Progressing",
            name(store),
            used_by(store),
            without_finalizer(cluster, ORPHAN)
        ),
    )
}

/// Nothing takes back the deletion of a namespace.
fn namespace_terminating(cluster: &EtcdCluster, store: &Value) -> DataStoreHealth {
    let at = cluster_ref(cluster);
    no(
        Reason::NamespaceTerminating,
        format!(
            "namespace {} is being deleted, and the Pods of the cluster with it, though tenants use DataStore {}. {}. Nothing takes that back: the namespace \
             stays until no tenant is left. Volumes whose PersistentVolumes are retained keep the data. To let it go with the tenants lost: {}",
            at.namespace,
            name(store),
            used_by(store),
            without_finalizer(cluster, keys::DATA_STORE_FINALIZER)
        ),
    )
}

/// The command that takes a finalizer off.
fn without_finalizer(cluster: &EtcdCluster, gone: &str) -> String {
    let all = cluster.metadata.finalizers.iter().flatten();
    let left: Vec<&String> = all.filter(|finalizer| *finalizer != gone).collect();
    let patch = json!([{ "op": "replace", "path": "/metadata/finalizers", "value": left }]);
    let at = cluster_ref(cluster);
    format!("kubectl patch etcd {} -n {} --type=json -p '{patch}'", at.name, at.namespace)
}

/// Whether the garbage collector takes what the EtcdCluster owns from it before its end.
pub fn is_collected(cluster: &EtcdCluster) -> bool {
    COLLECTOR.iter().any(|finalizer| has_finalizer(cluster, finalizer))
}

fn has_finalizer(cluster: &EtcdCluster, wanted: &str) -> bool {
    cluster.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == wanted)
}

/// It leads to the cluster, tenants use it, and it lacks the label.
pub fn in_use_unlabelled(store: &Value) -> DataStoreHealth {
    no(
        Reason::DataStoreInUse,
        format!(
            "DataStore {} leads to this EtcdCluster and lacks the label operator.etcd.io/cluster-uid with its uid, so it is not deleted here. {}. \
             Delete these TenantControlPlanes, or migrate them to another DataStore (spec.dataStore)",
            name(store),
            used_by(store)
        ),
    )
}

/// It is being deleted.
pub fn terminating(store: &Value, is_wanted: bool) -> DataStoreHealth {
    let after = if is_wanted { ". It is made again once it is gone" } else { "" };
    no(
        Reason::DataStoreTerminating,
        format!(
            "DataStore {} is being deleted, and waits for its finalizers: Kamaji takes its own off once no tenant uses it, so it has to run. \
             {}{after}",
            name(store),
            used_by(store)
        ),
    )
}

/// The kind does not exist.
pub fn no_kind() -> DataStoreHealth {
    no(
        Reason::CrdMissing,
        "this Kubernetes has no kind DataStore of kamaji.clastix.io/v1alpha1. Install Kamaji, or take the annotation \
         operator.etcd.io/kamaji-datastore off",
    )
}

/// They may not be read.
pub fn no_rights(cluster: &EtcdCluster, wanted: Option<&str>, why: &str) -> DataStoreHealth {
    let consequence = match (wanted, cluster.metadata.deletion_timestamp.is_some()) {
        (Some(_), _) => "",
        (None, true) => {
            ". Whether tenants use a DataStore of this cluster is not known, so its deletion waits. Where none does, and none is left: take the \
             finalizer operator.etcd.io/kamaji-datastore-cleanup off the EtcdCluster"
        }
        (None, false) => ". The DataStore that was asked for before stays",
    };
    no(
        Reason::NoRights,
        format!(
            "the operator may not read or write DataStores of Kamaji: {why}. Give it the rights: kamaji.enabled of the chart, which needs an \
             operator for all namespaces{consequence}"
        ),
    )
}

/// They could not be read.
pub fn unknown(why: &str) -> DataStoreHealth {
    let text = format!("the DataStores of Kamaji cannot be read: {why}. It is tried again");
    DataStoreHealth { ready: None, why: Explanation::new(Reason::ApiUnavailable, text) }
}

/// No object can have this name.
pub fn no_name(name: &str) -> DataStoreHealth {
    let given: String = name.chars().take(64).collect();
    no(
        Reason::SpecInvalid,
        format!(
            "the annotation operator.etcd.io/kamaji-datastore has {given:?}, and that is no name: small letters, digits, - and . only, at most 253"
        ),
    )
}

/// Something else has the name.
pub fn name_taken(name: &str) -> DataStoreHealth {
    no(
        Reason::NameTaken,
        format!(
            "DataStore {name} exists and is not of this EtcdCluster: it lacks the label operator.etcd.io/cluster-uid with its uid. It is left \
             alone. Give another name in the annotation operator.etcd.io/kamaji-datastore, or delete that one where no tenant uses it. If it is meant \
             for this cluster, as after a disaster: kubectl label datastore {name} --overwrite operator.etcd.io/cluster-uid=UID"
        ),
    )
}

/// Something else has the name of the credential.
pub fn secret_taken(cluster: &EtcdCluster) -> DataStoreHealth {
    no(
        Reason::NameTaken,
        format!("{} exists and is not owned by this EtcdCluster. Delete or rename it", secret(cluster)),
    )
}

/// The credential is being deleted.
pub fn secret_going(cluster: &EtcdCluster) -> DataStoreHealth {
    no(
        Reason::CertificatesMissing,
        format!("{} is being deleted. It is made again once it is gone", secret(cluster)),
    )
}

/// Nothing signs the credential.
pub fn no_signer(why: &NoSigner) -> DataStoreHealth {
    match why {
        NoSigner::NotYet(what) => {
            no(Reason::CertificatesMissing, format!("the credential of Kamaji is not signed yet: {what}"))
        }
        NoSigner::Lost(what) => no(
            Reason::AuthorityLost,
            format!("the credential of Kamaji cannot be signed: {what}. TLSReady has more"),
        ),
        NoSigner::Elsewhere => no(
            Reason::NoAuthorityKey,
            "no DataStore is made, because the key of the authority of clients is not in this cluster, and Kamaji signs a certificate for each \
             tenant with it. That takes an authority of the operator: spec.tls.provider auto",
        ),
    }
}

/// The spec has certificates come from somewhere else.
pub fn key_goes() -> DataStoreHealth {
    no(
        Reason::NoAuthorityKey,
        "no DataStore is made or changed, because spec.tls.provider has certificates come from where the key of their authority is not this \
         cluster's, and Kamaji signs a certificate for each tenant with it. The authority is not replaced while a DataStore of the cluster may exist. Set \
         spec.tls.provider to auto; or take the annotation operator.etcd.io/kamaji-datastore off",
    )
}

/// A write was refused; of which object, and why.
pub fn refused(object: &str, why: &str) -> DataStoreHealth {
    no(Reason::WriteRefused, format!("{object} cannot be written: {why}"))
}

fn no(reason: Reason, text: impl Into<String>) -> DataStoreHealth {
    DataStoreHealth { ready: Some(false), why: Explanation::new(reason, text) }
}

fn name(store: &Value) -> &str {
    store["metadata"]["name"].as_str().unwrap_or_default()
}

fn secret(cluster: &EtcdCluster) -> String {
    let at = cluster_ref(cluster);
    format!("Secret {}/{}", at.namespace, names::data_store(&at))
}

fn used_by(store: &Value) -> String {
    let tenants = tenants(store);
    let more = tenants.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let names = tenants.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match tenants.len() {
        0 => "No tenant uses it".to_owned(),
        1 => format!("Tenant {names} uses it"),
        _ => format!("Tenants {names}{more} use it"),
    }
}
