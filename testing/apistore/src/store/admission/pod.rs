//! Pods: defaults; almost nothing of their spec may change.

mod check;
mod defaults;

use serde_json::{Value, json};

use super::set_default;
use crate::cause::Cause;
use crate::errors::ApiError;
use crate::fields::{items, name, text};
use crate::resources::ResourceInfo;

pub(super) fn on_create(
    info: &ResourceInfo,
    pod: &mut Value,
    causes: &mut Vec<Cause>,
) -> Result<(), ApiError> {
    prioritize(info, pod)?;
    tolerate(pod);
    same_account(pod);
    set_default(pod, "/spec/serviceAccountName", json!("default"));
    same_account(pod);
    defaults::fill(pod);
    pod["status"] = json!({"phase": "Pending", "qosClass": quality(pod)});
    if !items(pod, "/spec/schedulingGates").is_empty() {
        pod["status"]["conditions"] = json!([held_back(pod)]);
    }
    check::check(pod, causes);
    Ok(())
}

/// The defaults of a Pod template. Some of a Pod's own are not among them: requests from limits, service links.
pub(super) fn fill_template(template: &mut Value) {
    same_account(template);
    defaults::fill_template(template);
}

/// Checks the Pods that a template makes. Fields are named from `spec`.
pub(super) fn check_template(template: &Value, causes: &mut Vec<Cause>) {
    check::check(template, causes);
}

pub(super) fn on_update(old: &Value, pod: &mut Value, causes: &mut Vec<Cause>) {
    for kept in ["tolerations", "priority", "preemptionPolicy"] {
        if let Some(given) = old["spec"].get(kept) {
            set_default(pod, &format!("/spec/{kept}"), given.clone());
        }
    }
    same_account(pod);
    tolerate(pod);
    defaults::fill(pod);
    check::check_images(pod, causes);
    if fixed(old) != fixed(pod) || drops_a_toleration(old, pod) {
        causes.push(Cause::forbidden(
            "spec",
            "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,\
             `spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),\
             `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
        ));
    }
    for (index, gate) in items(pod, "/spec/schedulingGates").iter().enumerate() {
        if !is_gated(old, gate) {
            let field = format!("spec.schedulingGates[{index}].name");
            let why =
                format!("only deletion is allowed, but found new scheduling gate '{}'", text(gate, "/name"));
            causes.push(Cause::forbidden(field, why));
        }
    }
}

fn is_gated(pod: &Value, gate: &Value) -> bool {
    items(pod, "/spec/schedulingGates").iter().any(|one| one["name"] == gate["name"])
}

fn held_back(pod: &Value) -> Value {
    json!({
        "type": "PodScheduled", "status": "False", "lastProbeTime": null,
        "lastTransitionTime": pod["metadata"]["creationTimestamp"],
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
    })
}

/// `serviceAccount` is the deprecated alias of `serviceAccountName`.
fn same_account(pod: &mut Value) {
    for (from, to) in [("serviceAccount", "serviceAccountName"), ("serviceAccountName", "serviceAccount")] {
        if let Some(account) = pod["spec"].get(from).filter(|account| !account.is_null()).cloned() {
            set_default(pod, &format!("/spec/{to}"), account);
        }
    }
}

/// The part of a Pod's spec that is immutable.
fn fixed(pod: &Value) -> Value {
    let mut spec = pod["spec"].clone();
    for list in ["containers", "initContainers"] {
        for container in super::entries_mut(&mut spec, list) {
            container["image"] = Value::Null;
        }
    }
    if let Some(spec) = spec.as_object_mut() {
        spec.remove("tolerations");
        spec.remove("schedulingGates");
        spec.remove("activeDeadlineSeconds");
    }
    spec
}

fn drops_a_toleration(old: &Value, new: &Value) -> bool {
    let kept = items(new, "/spec/tolerations");
    items(old, "/spec/tolerations").iter().any(|toleration| !kept.contains(toleration))
}

/// Only the two priority classes of every cluster exist.
fn prioritize(info: &ResourceInfo, pod: &mut Value) -> Result<(), ApiError> {
    let priority = match text(pod, "/spec/priorityClassName") {
        "" => 0,
        "system-cluster-critical" => 2_000_000_000,
        "system-node-critical" => 2_000_001_000,
        other => {
            let why = format!("no PriorityClass with name {other} was found");
            return Err(ApiError::forbidden(info, name(pod), why));
        }
    };
    pod["spec"]["priority"] = json!(priority);
    set_default(pod, "/spec/preemptionPolicy", json!("PreemptLowerPriority"));
    Ok(())
}

/// Adds the default tolerations: a Pod stays five minutes on a node that is lost.
fn tolerate(pod: &mut Value) {
    let mut tolerations = items(pod, "/spec/tolerations").to_vec();
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let of_all =
            |toleration: &Value| text(toleration, "/key").is_empty() && toleration["operator"] == "Exists";
        let no_effect = |toleration: &Value| ["", "NoExecute"].contains(&text(toleration, "/effect"));
        let tolerated =
            |toleration: &Value| (of_all(toleration) || toleration["key"] == key) && no_effect(toleration);
        if !tolerations.iter().any(tolerated) {
            tolerations.push(json!({
                "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300,
            }));
        }
    }
    pod["spec"]["tolerations"] = json!(tolerations);
}

fn quality(pod: &Value) -> &'static str {
    let containers = items(pod, "/spec/containers");
    let part = |container: &Value, kind: &str| {
        let part = container.pointer(&format!("/resources/{kind}"))?;
        part.as_object().is_some_and(|part| !part.is_empty()).then(|| part.clone())
    };
    let guaranteed = containers.iter().all(|container| {
        let limits = part(container, "limits").unwrap_or_default();
        let both = limits.get("cpu").is_some() && limits.get("memory").is_some();
        both && part(container, "requests").is_none_or(|requests| requests == limits)
    });
    let any = containers
        .iter()
        .any(|container| part(container, "limits").or(part(container, "requests")).is_some());
    match (guaranteed && !containers.is_empty(), any) {
        (true, _) => "Guaranteed",
        (false, true) => "Burstable",
        (false, false) => "BestEffort",
    }
}
