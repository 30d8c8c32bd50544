//! The `Endpoints` object of a Service.

use quorate_apistore::fields::{deleting, flag, name, namespace, text};
use serde_json::{Value, json};

use super::super::action::Action;
use super::super::view::{View, kinds};
use super::{Backend, Backends, is_labelled, labels, selects_pods, target_ref};

const MANAGED: (&str, &str) = ("endpoints.kubernetes.io/managed-by", "endpoint-controller");

/// Creates or updates the `Endpoints` of a Service.
pub(super) fn update(view: &View, service: &Value, backends: &Backends<'_>) -> Option<Action> {
    // Addresses of terminating Pods stay only if the Service publishes not-ready addresses.
    let keep_leaving = flag(service, "/spec/publishNotReadyAddresses");
    let subsets: Vec<Value> =
        backends.0.iter().filter_map(|(ports, pods)| subset(ports, pods, keep_leaving)).collect();
    let labels = labels(service, &[MANAGED]);
    match view.get(kinds::ENDPOINTS, namespace(service), name(service)) {
        None => Some(Action::Create(
            kinds::ENDPOINTS.into(),
            json!({
                "apiVersion": "v1",
                "kind": "Endpoints",
                "metadata": { "name": name(service), "namespace": namespace(service), "labels": labels },
                "subsets": subsets,
            }),
        )),
        Some(current) => {
            let same = current.get("subsets").and_then(Value::as_array).is_some_and(|old| *old == subsets)
                && current["metadata"]["labels"] == labels;
            let mut changed = current.clone();
            changed["subsets"] = json!(subsets);
            changed["metadata"]["labels"] = labels;
            (!same).then_some(Action::Update(kinds::ENDPOINTS.into(), changed))
        }
    }
}

/// `Endpoints` have no owner: deletes those whose Service is gone or has no selector.
pub(super) fn leftovers(view: &View) -> impl Iterator<Item = Action> {
    view.all(kinds::ENDPOINTS)
        .filter(|endpoints| is_labelled(endpoints, MANAGED) && !deleting(endpoints))
        .filter(|endpoints| {
            view.get(kinds::SERVICES, namespace(endpoints), name(endpoints))
                .is_none_or(|service| !selects_pods(service))
        })
        .map(|endpoints| Action::delete(kinds::ENDPOINTS, endpoints))
}

fn subset(ports: &[Value], backends: &[Backend<'_>], keep_leaving: bool) -> Option<Value> {
    let (ready, not_ready): (Vec<_>, Vec<_>) =
        backends.iter().filter(|one| keep_leaving || !deleting(one.pod)).partition(|one| one.ready);
    if ready.is_empty() && not_ready.is_empty() {
        return None;
    }
    let mut subset = json!({});
    for (field, group) in [("addresses", ready), ("notReadyAddresses", not_ready)] {
        if !group.is_empty() {
            subset[field] = group.into_iter().map(address).collect();
        }
    }
    if !ports.is_empty() {
        subset["ports"] = json!(ports);
    }
    Some(subset)
}

fn address(backend: &Backend<'_>) -> Value {
    let mut address =
        json!({ "ip": text(backend.pod, "/status/podIP"), "targetRef": target_ref(backend.pod) });
    if let Some(hostname) = backend.hostname {
        address["hostname"] = json!(hostname);
    }
    if !text(backend.pod, "/spec/nodeName").is_empty() {
        address["nodeName"] = json!(text(backend.pod, "/spec/nodeName"));
    }
    address
}
