//! Rows of Services, Endpoints, EndpointSlices and NetworkPolicies.

use jiff::Timestamp;
use quorate_apistore::fields::{entries, integer, items, name, text, time};
use serde_json::{Value, json};

use super::age;
use super::columns::{BuiltIn, or_none, text as shown, wide};

pub(super) const SERVICES: BuiltIn = BuiltIn {
    columns: &[
        shown("Name"),
        shown("Type"),
        shown("Cluster-IP"),
        shown("External-IP"),
        shown("Port(s)"),
        shown("Age"),
        wide("Selector"),
    ],
    cells: service,
};

pub(super) const ENDPOINTS: BuiltIn =
    BuiltIn { columns: &[shown("Name"), shown("Endpoints"), shown("Age")], cells: endpoints };

pub(super) const SLICES: BuiltIn = BuiltIn {
    columns: &[shown("Name"), shown("AddressType"), shown("Ports"), shown("Endpoints"), shown("Age")],
    cells: slice,
};

pub(super) const POLICIES: BuiltIn =
    BuiltIn { columns: &[shown("Name"), shown("Pod-Selector"), shown("Age")], cells: policy };

fn policy(policy: &Value, now: Timestamp) -> Vec<Value> {
    let selected = entries(policy, "/spec/podSelector/matchLabels");
    let selected: Vec<String> =
        selected.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    vec![
        json!(name(policy)),
        json!(or_none(&selected.join(","))),
        json!(age::since(time(policy, "/metadata/creationTimestamp"), now)),
    ]
}

fn service(service: &Value, now: Timestamp) -> Vec<Value> {
    let kind = text(service, "/spec/type");
    let external: Vec<&str> = match kind {
        "ExternalName" => vec![text(service, "/spec/externalName")],
        "LoadBalancer" => items(service, "/status/loadBalancer/ingress")
            .iter()
            .map(|ingress| {
                if text(ingress, "/ip").is_empty() {
                    text(ingress, "/hostname")
                } else {
                    text(ingress, "/ip")
                }
            })
            .chain(items(service, "/spec/externalIPs").iter().filter_map(Value::as_str))
            .collect(),
        _ => items(service, "/spec/externalIPs").iter().filter_map(Value::as_str).collect(),
    };
    let external = match (external.is_empty(), kind) {
        (true, "LoadBalancer") => "<pending>".to_owned(),
        _ => or_none(&external.join(",")).to_owned(),
    };
    let ports: Vec<String> = items(service, "/spec/ports").iter().map(port).collect();
    let selector: Vec<String> = entries(service, "/spec/selector")
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    vec![
        json!(name(service)),
        json!(kind),
        json!(or_none(text(service, "/spec/clusterIP"))),
        json!(external),
        json!(or_none(&ports.join(","))),
        json!(age::since(time(service, "/metadata/creationTimestamp"), now)),
        json!(or_none(&selector.join(","))),
    ]
}

fn endpoints(endpoints: &Value, now: Timestamp) -> Vec<Value> {
    let all: Vec<String> = items(endpoints, "/subsets")
        .iter()
        .flat_map(|subset| {
            let ports = items(subset, "/ports");
            items(subset, "/addresses").iter().flat_map(move |address| {
                let ip = text(address, "/ip");
                let numbers = ports.iter().map(|port| integer(port, "/port").unwrap_or_default());
                let with_port: Vec<String> = numbers.map(|port| format!("{ip}:{port}")).collect();
                if with_port.is_empty() { vec![ip.to_owned()] } else { with_port }
            })
        })
        .collect();
    vec![
        json!(name(endpoints)),
        json!(at_most_three(&all, "<none>")),
        json!(age::since(time(endpoints, "/metadata/creationTimestamp"), now)),
    ]
}

fn slice(slice: &Value, now: Timestamp) -> Vec<Value> {
    let ports: Vec<String> = items(slice, "/ports")
        .iter()
        .map(|port| integer(port, "/port").map_or_else(|| "*".to_owned(), |port| port.to_string()))
        .collect();
    let addresses: Vec<String> = items(slice, "/endpoints")
        .iter()
        .flat_map(|endpoint| items(endpoint, "/addresses"))
        .filter_map(|address| address.as_str().map(str::to_owned))
        .collect();
    vec![
        json!(name(slice)),
        json!(text(slice, "/addressType")),
        json!(at_most_three(&ports, "<unset>")),
        json!(at_most_three(&addresses, "<unset>")),
        json!(age::since(time(slice, "/metadata/creationTimestamp"), now)),
    ]
}

fn port(port: &Value) -> String {
    let (number, protocol) = (integer(port, "/port").unwrap_or_default(), text(port, "/protocol"));
    let protocol = if protocol.is_empty() { "TCP" } else { protocol };
    match integer(port, "/nodePort") {
        Some(node) if node > 0 => format!("{number}:{node}/{protocol}"),
        _ => format!("{number}/{protocol}"),
    }
}

fn at_most_three(all: &[String], none: &str) -> String {
    match all.len() {
        0 => none.to_owned(),
        1..=3 => all.join(","),
        more => format!("{} + {} more...", all[..3].join(","), more - 3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_headless_service_shows_none_and_its_ports() {
        let peer = json!({ "metadata": { "name": "demo" }, "spec": {
            "type": "ClusterIP", "clusterIP": "None", "selector": { "app": "demo" },
            "ports": [{ "port": 2379 }, { "port": 2380, "protocol": "TCP" }],
        } });
        let row = service(&peer, Timestamp::UNIX_EPOCH);
        assert_eq!(
            Value::from(row),
            json!(["demo", "ClusterIP", "None", "<none>", "2379/TCP,2380/TCP", "<unknown>", "app=demo"])
        );
    }

    #[test]
    fn only_three_endpoints_are_listed() {
        let many = json!({ "metadata": { "name": "demo" }, "subsets": [{
            "addresses": [{ "ip": "10.0.0.1" }, { "ip": "10.0.0.2" }], "ports": [{ "port": 1 }, { "port": 2 }],
        }] });
        let row = endpoints(&many, Timestamp::UNIX_EPOCH);
        assert_eq!(row[1], "10.0.0.1:1,10.0.0.1:2,10.0.0.2:1 + 1 more...");
    }
}
