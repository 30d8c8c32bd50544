//! The NetworkPolicy: who reaches the members by the network. Only what comes in is restricted; what goes out is not ours to know, such as
//! the name servers, or the store that an agent fetches a snapshot from.
//!
//! It selects Pods by the one label that those of every release have and that the operator puts back, and never by that of an incarnation:
//! a policy that leaves a member out protects it from nobody, and one that leaves a peer out ends the quorum.

mod check;

use k8s_openapi::api::networking::v1::{NetworkPolicy, NetworkPolicyPeer};
use quorate_api::{EtcdCluster, keys};
use quorate_model::snapshot::{self, Presence};
use quorate_model::{ClusterRef, ClusterUid};
use serde_json::{Map, Value, json};

use crate::defaults::{Defaults, OperatorPods};
use crate::service::{CLIENT_PORT, METRICS_PORT, PEER_PORT, PROBE_PORT};
use crate::{diff, labels};

pub(crate) use check::check;

/// The label that Kubernetes gives every namespace: its name.
const NAMESPACE: &str = "kubernetes.io/metadata.name";

/// Fields that mean the same whether they are empty or absent. Kubernetes keeps the one or the other.
const EMPTY_IS_ABSENT: [&str; 6] = ["matchLabels", "matchExpressions", "values", "except", "from", "egress"];

/// Whether the spec wants one.
pub(crate) fn is_wanted(cluster: &EtcdCluster) -> bool {
    cluster.spec.network_policy.as_ref().is_some_and(|policy| policy.enabled)
}

/// The policy. The kubelet's probes need no rule: a node always reaches the Pods that run on it.
pub fn policy(cluster: &EtcdCluster, at: &ClusterRef, defaults: &Defaults) -> Value {
    let given = cluster.spec.network_policy.clone().unwrap_or_default();
    let members = json!({ "podSelector": { "matchLabels": labels::selector(at) } });
    let backups =
        json!({ "podSelector": { "matchExpressions": [{ "key": keys::BACKUP, "operator": "Exists" }] } });
    let operator = defaults.operator_pods.as_ref().map(of_operator);
    let clients = given.clients_from.map(|clients| {
        let own = [members.clone(), backups].into_iter().chain(operator.clone());
        own.chain(peers(&clients)).collect()
    });
    // The operator looks there, by a handshake without a certificate, while the authority of peers is being replaced.
    let of_peers: Vec<Value> = std::iter::once(members).chain(operator.clone()).collect();
    let metrics: Option<Vec<Value>> = given.metrics_from.map(|readers| peers(&readers).collect());
    let ingress = [
        rule(PEER_PORT, Some(of_peers)),
        rule(CLIENT_PORT, clients),
        rule(PROBE_PORT, operator.map(|operator| vec![operator])),
        rule(METRICS_PORT, metrics),
    ];
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": labels::owned(cluster, at, at.name.clone()),
        "spec": {
            "podSelector": { "matchLabels": labels::selector(at) },
            "policyTypes": ["Ingress"],
            "ingress": ingress.into_iter().flatten().collect::<Vec<_>>(),
        },
    })
}

/// The policy as it was observed. Where the spec cannot be carried out, the one that exists is left as it is.
pub(crate) fn read(
    cluster: &EtcdCluster,
    policies: &[&NetworkPolicy],
    at: &ClusterRef,
    uid: &ClusterUid,
    defaults: &Defaults,
) -> snapshot::NetworkPolicy {
    let wanted = is_wanted(cluster);
    let is_own = |seen: &&&NetworkPolicy| {
        seen.metadata.name.as_ref() == Some(&at.name) && labels::is_owned_by(&seen.metadata, uid)
    };
    let own = policies.iter().find(is_own);
    let stays = own.filter(|seen| seen.metadata.deletion_timestamp.is_none());
    let presence = match own {
        _ if check(cluster, defaults).is_err() => Presence::Matches,
        None => Presence::Absent,
        // Until it is gone, nothing is to be done: then it is created again.
        Some(_) if stays.is_none() => Presence::Matches,
        Some(seen) if matches(seen, &policy(cluster, at, defaults)) => Presence::Matches,
        Some(_) => Presence::Differs,
    };
    let seen = stays.map(|seen| diff::observed(&seen.metadata));
    snapshot::NetworkPolicy { wanted, presence, seen }
}

/// The merge patch from an observed policy to its desired form. Nothing that somebody added to its spec stays: it would let others in, or
/// keep peers out.
pub(crate) fn merge_patch(seen: &NetworkPolicy, desired: &Value) -> Value {
    let mut patch = diff::merge_patch(&seen.metadata, desired);
    patch["spec"] = replacing(&json!(seen.spec), &desired["spec"]);
    patch
}

/// Whether it is the desired one, and lets nobody in or out beyond it.
fn matches(seen: &NetworkPolicy, desired: &Value) -> bool {
    let has_owner = diff::matches(seen, &json!({ "metadata": desired["metadata"] }));
    has_owner && plain(&json!(seen.spec)) == plain(&desired["spec"])
}

/// One port, and who may connect to it; `None`: everybody. There is no rule for nobody: an empty list would be everybody.
fn rule(port: u16, from: Option<Vec<Value>>) -> Option<Value> {
    let mut rule = json!({ "ports": [{ "port": port, "protocol": "TCP" }] });
    match from {
        None => {}
        Some(from) if from.is_empty() => return None,
        Some(from) => rule["from"] = Value::Array(from),
    }
    Some(rule)
}

fn of_operator(own: &OperatorPods) -> Value {
    json!({
        "namespaceSelector": { "matchLabels": { NAMESPACE: own.namespace } },
        "podSelector": { "matchLabels": own.labels },
    })
}

fn peers(given: &[NetworkPolicyPeer]) -> impl Iterator<Item = Value> {
    given.iter().map(|peer| plain(&json!(peer)))
}

/// Without what means nothing.
fn plain(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let is_empty = |value: &Value| match value {
                Value::Object(fields) => fields.is_empty(),
                Value::Array(items) => items.is_empty(),
                Value::Null => true,
                Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
            };
            let says = |(key, value): &(&String, &Value)| {
                !(value.is_null() || EMPTY_IS_ABSENT.contains(&key.as_str()) && is_empty(value))
            };
            let fields = fields.iter().filter(says).map(|(key, value)| (key.clone(), plain(value)));
            Value::Object(fields.collect())
        }
        Value::Array(items) => items.iter().map(plain).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// The merge patch that leaves of the one what the other has, and no more.
fn replacing(seen: &Value, desired: &Value) -> Value {
    let Value::Object(desired) = desired else { return desired.clone() };
    let mut patch = Map::new();
    for key in seen.as_object().into_iter().flat_map(Map::keys).filter(|key| !desired.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    for (key, desired) in desired {
        patch.insert(key.clone(), replacing(&seen[key.as_str()], desired));
    }
    Value::Object(patch)
}
