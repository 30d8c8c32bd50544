//! The `EndpointSlices` of a Service: one for each set of ports, owned by the Service.

use quorate_apistore::fields::{deleting, label, name, namespace, text, uid};
use serde_json::{Value, json};

use super::super::action::Action;
use super::super::labelled::Labelled;
use super::super::view::{View, kinds};
use super::{Backend, Backends, is_labelled, labels, target_ref};
use crate::fingerprint::fingerprint;

const SERVICE: &str = "kubernetes.io/service-name";
const MANAGED: (&str, &str) = ("endpointslice.kubernetes.io/managed-by", "endpointslice-controller.k8s.io");

/// Creates, updates and deletes the slices of a Service. There is always at least one, even if empty.
pub(super) fn update(
    view: &View,
    known: &Labelled<'_>,
    service: &Value,
    backends: &Backends<'_>,
) -> Vec<Action> {
    let mut wanted: Vec<Value> = backends
        .0
        .iter()
        .enumerate()
        .map(|(at, (ports, pods))| slice(view, service, at, ports, pods))
        .collect();
    if wanted.is_empty() {
        wanted.push(slice(view, service, 0, &[], &[]));
    }
    let of_service = known.with(namespace(service), SERVICE, name(service)).iter().copied();
    let ours: Vec<&Value> =
        of_service.filter(|slice| is_labelled(slice, MANAGED) && !deleting(slice)).collect();
    let surplus: Vec<Action> = ours
        .iter()
        .filter(|slice| !wanted.iter().any(|one| name(one) == name(slice)))
        .map(|slice| Action::delete(kinds::SLICES, slice))
        .collect();
    let changed = wanted.into_iter().filter_map(|wanted| {
        let Some(current) = ours.iter().find(|slice| name(slice) == name(&wanted)) else {
            return Some(Action::Create(kinds::SLICES.into(), wanted));
        };
        let mut next = (*current).clone();
        for field in ["endpoints", "ports"] {
            next[field] = wanted[field].clone();
        }
        for field in ["labels", "ownerReferences"] {
            next["metadata"][field] = wanted["metadata"][field].clone();
        }
        (next != **current).then_some(Action::Update(kinds::SLICES.into(), next))
    });
    changed.chain(surplus).collect()
}

fn slice(view: &View, service: &Value, at: usize, ports: &[Value], backends: &[Backend<'_>]) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": format!("{}-{}", name(service), suffix(uid(service), at)),
            "namespace": namespace(service),
            "labels": labels(service, &[MANAGED, (SERVICE, name(service))]),
            "ownerReferences": [{
                "apiVersion": "v1",
                "kind": "Service",
                "name": name(service),
                "uid": uid(service),
                "controller": true,
                "blockOwnerDeletion": true,
            }],
        },
        "addressType": "IPv4",
        "endpoints": backends.iter().map(|backend| endpoint(view, backend)).collect::<Vec<_>>(),
        "ports": ports,
    })
}

fn endpoint(view: &View, backend: &Backend<'_>) -> Value {
    let node = text(backend.pod, "/spec/nodeName");
    let mut endpoint = json!({
        "addresses": [text(backend.pod, "/status/podIP")],
        "conditions": { "ready": backend.ready, "serving": backend.serving, "terminating": deleting(backend.pod) },
        "targetRef": target_ref(backend.pod),
    });
    if let Some(hostname) = backend.hostname {
        endpoint["hostname"] = json!(hostname);
    }
    if !node.is_empty() {
        endpoint["nodeName"] = json!(node);
    }
    if let Some(zone) =
        view.get(kinds::NODES, "", node).and_then(|node| label(node, "topology.kubernetes.io/zone"))
    {
        endpoint["zone"] = json!(zone);
    }
    endpoint
}

/// Five letters as the API server generates them, but the same for the same Service each time.
fn suffix(uid: &str, at: usize) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut hash = fingerprint(&[uid, &at.to_string()]);
    let mut letters = String::new();
    for _ in 0..5 {
        let letter = usize::try_from(hash % LETTERS.len() as u64).map_or(b'b', |at| LETTERS[at]);
        letters.push(char::from(letter));
        hash /= LETTERS.len() as u64;
    }
    letters
}
