//! Rows of Nodes, Namespaces, Leases, disruption budgets and resource definitions.

use jiff::Timestamp;
use quorate_apistore::fields::{condition, entries, flag, integer, items, name, text, time};
use serde_json::{Value, json};

use super::age;
use super::columns::{BuiltIn, number, or_none, text as shown, wide};

pub(super) const NODES: BuiltIn = BuiltIn {
    columns: &[
        shown("Name"),
        shown("Status"),
        shown("Roles"),
        shown("Age"),
        shown("Version"),
        wide("Internal-IP"),
        wide("External-IP"),
        wide("OS-Image"),
        wide("Kernel-Version"),
        wide("Container-Runtime"),
    ],
    cells: node,
};

pub(super) const NAMESPACES: BuiltIn =
    BuiltIn { columns: &[shown("Name"), shown("Status"), shown("Age")], cells: namespace };

pub(super) const LEASES: BuiltIn =
    BuiltIn { columns: &[shown("Name"), shown("Holder"), shown("Age")], cells: lease };

pub(super) const BUDGETS: BuiltIn = BuiltIn {
    columns: &[
        shown("Name"),
        shown("Min Available"),
        shown("Max Unavailable"),
        number("Allowed Disruptions"),
        shown("Age"),
    ],
    cells: budget,
};

pub(super) const DEFINITIONS: BuiltIn = BuiltIn {
    columns: &[shown("Name"), shown("Created At")],
    cells: |crd, _| vec![json!(name(crd)), json!(text(crd, "/metadata/creationTimestamp"))],
};

fn node(node: &Value, now: Timestamp) -> Vec<Value> {
    let mut status = match condition(node, "Ready") {
        "True" => "Ready",
        "" => "Unknown",
        _ => "NotReady",
    }
    .to_owned();
    if flag(node, "/spec/unschedulable") {
        status.push_str(",SchedulingDisabled");
    }
    let roles: Vec<&str> = entries(node, "/metadata/labels")
        .filter_map(|(key, _)| key.strip_prefix("node-role.kubernetes.io/").filter(|role| !role.is_empty()))
        .collect();
    let address = |kind: &str| {
        let found = items(node, "/status/addresses").iter().find(|address| address["type"] == kind);
        or_none(found.map_or("", |address| text(address, "/address")))
    };
    let about = |what: &str| match text(node, &format!("/status/nodeInfo/{what}")) {
        "" => "<unknown>".to_owned(),
        known => known.to_owned(),
    };
    vec![
        json!(name(node)),
        json!(status),
        json!(or_none(&roles.join(","))),
        json!(age::since(time(node, "/metadata/creationTimestamp"), now)),
        json!(text(node, "/status/nodeInfo/kubeletVersion")),
        json!(address("InternalIP")),
        json!(address("ExternalIP")),
        json!(about("osImage")),
        json!(about("kernelVersion")),
        json!(about("containerRuntimeVersion")),
    ]
}

fn namespace(namespace: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        json!(name(namespace)),
        json!(text(namespace, "/status/phase")),
        json!(age::since(time(namespace, "/metadata/creationTimestamp"), now)),
    ]
}

fn lease(lease: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        json!(name(lease)),
        json!(text(lease, "/spec/holderIdentity")),
        json!(age::since(time(lease, "/metadata/creationTimestamp"), now)),
    ]
}

fn budget(budget: &Value, now: Timestamp) -> Vec<Value> {
    let bound = |pointer: &str| match budget.pointer(pointer) {
        Some(Value::String(percent)) => percent.clone(),
        Some(Value::Number(count)) => count.to_string(),
        _ => "N/A".to_owned(),
    };
    vec![
        json!(name(budget)),
        json!(bound("/spec/minAvailable")),
        json!(bound("/spec/maxUnavailable")),
        json!(integer(budget, "/status/disruptionsAllowed").unwrap_or_default()),
        json!(age::since(time(budget, "/metadata/creationTimestamp"), now)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cordoned_node_shows_scheduling_disabled() {
        let cordoned = json!({
            "metadata": { "name": "node-1", "labels": { "node-role.kubernetes.io/worker": "" } },
            "spec": { "unschedulable": true },
            "status": {
                "conditions": [{ "type": "Ready", "status": "True" }],
                "addresses": [{ "type": "InternalIP", "address": "127.0.0.1" }],
                "nodeInfo": { "kubeletVersion": "v1.33.0" },
            },
        });
        let row = node(&cordoned, Timestamp::UNIX_EPOCH);
        assert_eq!(
            Value::from(&row[1..7]),
            json!(["Ready,SchedulingDisabled", "worker", "<unknown>", "v1.33.0", "127.0.0.1", "<none>"])
        );
    }

    #[test]
    fn a_budget_shows_the_bound_that_is_set() {
        let quorum = json!({ "metadata": { "name": "demo" }, "spec": { "minAvailable": 2 },
            "status": { "disruptionsAllowed": 1 } });
        let row = budget(&quorum, Timestamp::UNIX_EPOCH);
        assert_eq!(Value::from(&row[..4]), json!(["demo", "2", "N/A", 1]));
    }
}
