//! Endpoints and EndpointSlices of Services with a selector.

mod slices;
mod subsets;

use quorate_apistore::fields::{
    at, condition, deleting, flag, integer, items, label, name, namespace, text, uid,
};
use serde_json::{Value, json};

use super::action::Action;
use super::labelled::Labelled;
use super::view::{View, kinds};

const HEADLESS: &str = "service.kubernetes.io/headless";

/// Updates the endpoints of every Service and deletes those of Services that are gone.
pub fn step(view: &View) -> Vec<Action> {
    let pods = Labelled::of(view.all(kinds::PODS));
    let known = Labelled::of(view.all(kinds::SLICES));
    let services = view.all(kinds::SERVICES).filter(|service| selects_pods(service) && !deleting(service));
    let current = services.flat_map(|service| {
        let backends = Backends::of(&pods, service);
        let subsets = subsets::update(view, service, &backends);
        subsets.into_iter().chain(slices::update(view, &known, service, &backends))
    });
    current.chain(subsets::leftovers(view)).collect()
}

fn selects_pods(service: &Value) -> bool {
    at(service, "/spec/selector").and_then(Value::as_object).is_some_and(|selector| !selector.is_empty())
        && text(service, "/spec/type") != "ExternalName"
}

/// The Pods of a Service that have an address, grouped by their ports.
struct Backends<'a>(Vec<(Vec<Value>, Vec<Backend<'a>>)>);

/// One Pod of a Service.
struct Backend<'a> {
    pod: &'a Value,
    /// Its Ready condition, whether or not it is terminating.
    serving: bool,
    /// Whether the Service publishes it as ready.
    ready: bool,
    hostname: Option<&'a str>,
}

impl<'a> Backends<'a> {
    fn of(pods: &Labelled<'a>, service: &'a Value) -> Self {
        let publish_all = flag(service, "/spec/publishNotReadyAddresses");
        let mut groups: Vec<(Vec<Value>, Vec<Backend<'a>>)> = Vec::new();
        let pods = pods
            .of_map(namespace(service), at(service, "/spec/selector"))
            .into_iter()
            .filter(|pod| !text(pod, "/status/podIP").is_empty())
            .filter(|pod| !matches!(text(pod, "/status/phase"), "Succeeded" | "Failed"));
        for pod in pods {
            let serving = condition(pod, "Ready") == "True";
            let in_its_domain = text(pod, "/spec/subdomain") == name(service);
            let backend = Backend {
                pod,
                serving,
                ready: publish_all || (serving && !deleting(pod)),
                hostname: Some(text(pod, "/spec/hostname")).filter(|host| in_its_domain && !host.is_empty()),
            };
            let Some(ports) = ports(service, pod) else { continue };
            match groups.iter_mut().find(|(known, _)| *known == ports) {
                Some((_, backends)) => backends.push(backend),
                None => groups.push((ports, vec![backend])),
            }
        }
        Self(groups)
    }
}

/// The Service's ports as numbers on this Pod. `None` if the Pod has none of the named ports.
fn ports(service: &Value, pod: &Value) -> Option<Vec<Value>> {
    let wanted = items(service, "/spec/ports");
    let found: Vec<Value> = wanted
        .iter()
        .filter_map(|port| {
            let mut entry = json!({ "port": target(port, pod)?, "protocol": protocol(port) });
            for optional in ["name", "appProtocol"] {
                if let Some(value) = port.get(optional) {
                    entry[optional] = value.clone();
                }
            }
            Some(entry)
        })
        .collect();
    (wanted.is_empty() || !found.is_empty()).then_some(found)
}

fn target(port: &Value, pod: &Value) -> Option<i64> {
    match port.get("targetPort") {
        Some(Value::String(name)) if name.parse::<i64>().is_err() => items(pod, "/spec/containers")
            .iter()
            .flat_map(|container| items(container, "/ports"))
            .find(|declared| declared["name"] == **name && protocol(declared) == protocol(port))
            .and_then(|declared| integer(declared, "/containerPort")),
        Some(Value::String(number)) => number.parse().ok(),
        Some(Value::Number(number)) if number.as_i64() != Some(0) => number.as_i64(),
        _ => integer(port, "/port"),
    }
}

fn protocol(port: &Value) -> &str {
    match text(port, "/protocol") {
        "" => "TCP",
        protocol => protocol,
    }
}

fn target_ref(pod: &Value) -> Value {
    json!({ "kind": "Pod", "namespace": namespace(pod), "name": name(pod), "uid": uid(pod) })
}

/// The Service's own labels, and the label of headless Services.
fn labels(service: &Value, more: &[(&str, &str)]) -> Value {
    let mut labels = at(service, "/metadata/labels").cloned().unwrap_or_else(|| json!({}));
    if text(service, "/spec/clusterIP") == "None" {
        labels[HEADLESS] = json!("");
    }
    for (key, value) in more {
        labels[*key] = json!(value);
    }
    labels
}

fn is_labelled(object: &Value, (key, value): (&str, &str)) -> bool {
    label(object, key) == Some(value)
}
