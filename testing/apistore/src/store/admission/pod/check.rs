//! Checks of a new Pod.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::names;
use crate::cause::Cause;
use crate::fields::{entries, items, text};
use crate::quantity::millis;

pub(super) fn check(pod: &Value, causes: &mut Vec<Cause>) {
    let volumes = unique(pod, "/spec/volumes", "spec.volumes", causes);
    if items(pod, "/spec/containers").is_empty() {
        causes.push(Cause::required("spec.containers"));
    }
    for list in ["containers", "initContainers"] {
        let (pointer, field) = (format!("/spec/{list}"), format!("spec.{list}"));
        unique(pod, &pointer, &field, causes);
        for (index, container) in items(pod, &pointer).iter().enumerate() {
            check_container(container, &format!("{field}[{index}]"), &volumes, causes);
        }
    }
    let policies = ["Always", "OnFailure", "Never"].map(Value::from);
    if !policies.contains(&pod["spec"]["restartPolicy"]) {
        causes.push(Cause::unsupported("spec.restartPolicy", &pod["spec"]["restartPolicy"], &policies));
    }
    let (gates, node) = (items(pod, "/spec/schedulingGates"), text(pod, "/spec/nodeName"));
    let mut held_by = BTreeSet::new();
    for (index, gate) in gates.iter().enumerate() {
        let (gate, field) = (text(gate, "/name"), format!("spec.schedulingGates[{index}]"));
        causes
            .extend(names::qualified(gate).into_iter().map(|why| Cause::invalid(&field, &json!(gate), why)));
        if !held_by.insert(gate) {
            causes.push(Cause::duplicate(&field, &json!(gate)));
        }
    }
    if !gates.is_empty() && !node.is_empty() {
        let why = "cannot be set until all schedulingGates have been cleared";
        causes.push(Cause::forbidden("spec.nodeName", why));
    }
    for part in ["hostname", "subdomain"] {
        let value = text(pod, &format!("/spec/{part}"));
        if value.contains('.') && part == "hostname" {
            causes.push(Cause::invalid("spec.hostname", &json!(value), "must not contain dots"));
        } else if !value.is_empty() {
            let wrong = names::label(value);
            causes.extend(
                wrong.into_iter().map(|why| Cause::invalid(format!("spec.{part}"), &json!(value), why)),
            );
        }
    }
}

/// The image of a container may change but not be removed.
pub(super) fn check_images(pod: &Value, causes: &mut Vec<Cause>) {
    for list in ["containers", "initContainers"] {
        for (index, container) in items(pod, &format!("/spec/{list}")).iter().enumerate() {
            check_image(container, &format!("spec.{list}[{index}]"), causes);
        }
    }
}

/// The names of a list must be labels and unique.
fn unique<'a>(pod: &'a Value, pointer: &str, field: &str, causes: &mut Vec<Cause>) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    for (index, entry) in items(pod, pointer).iter().enumerate() {
        let (name, field) = (text(entry, "/name"), format!("{field}[{index}].name"));
        if name.is_empty() {
            causes.push(Cause::required(field));
            continue;
        }
        let wrong = names::label(name);
        causes.extend(wrong.into_iter().map(|why| Cause::invalid(&field, &json!(name), why)));
        if !seen.insert(name) {
            causes.push(Cause::duplicate(field, &json!(name)));
        }
    }
    seen
}

fn check_container(container: &Value, path: &str, volumes: &BTreeSet<&str>, causes: &mut Vec<Cause>) {
    check_image(container, path, causes);
    for (index, mount) in items(container, "/volumeMounts").iter().enumerate() {
        if !volumes.contains(text(mount, "/name")) {
            causes.push(Cause::not_found(format!("{path}.volumeMounts[{index}].name"), &mount["name"]));
        }
        if text(mount, "/mountPath").is_empty() {
            causes.push(Cause::required(format!("{path}.volumeMounts[{index}].mountPath")));
        }
    }
    for (resource, request) in entries(container, "/resources/requests") {
        let limit = &container["resources"]["limits"][resource];
        if let (Some(wanted), Some(most)) = (millis(request), millis(limit))
            && wanted > most
        {
            let limit = limit.as_str().map_or_else(|| limit.to_string(), str::to_owned);
            let why = format!("must be less than or equal to {resource} limit of {limit}");
            causes.push(Cause::invalid(format!("{path}.resources.requests"), request, why));
        }
    }
}

fn check_image(container: &Value, path: &str, causes: &mut Vec<Cause>) {
    if text(container, "/image").is_empty() {
        causes.push(Cause::required(format!("{path}.image")));
    }
}
