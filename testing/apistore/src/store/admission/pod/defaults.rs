//! The defaults of a Pod's spec, and of a template of Pods. Applying them twice changes nothing.

use serde_json::{Value, json};

use super::super::{entries_mut, set_default};
use crate::fields::text;

pub(super) fn fill(pod: &mut Value) {
    fill_template(pod);
    set_default(pod, "/spec/enableServiceLinks", json!(true));
    for list in ["initContainers", "containers"] {
        entries_mut(&mut pod["spec"], list).for_each(requests);
    }
}

/// What a template gets; the rest is added to the Pods that are made of it.
pub(super) fn fill_template(pod: &mut Value) {
    for (field, default) in [
        ("restartPolicy", json!("Always")),
        ("dnsPolicy", json!("ClusterFirst")),
        ("schedulerName", json!("default-scheduler")),
        ("terminationGracePeriodSeconds", json!(30)),
        ("securityContext", json!({})),
    ] {
        set_default(pod, &format!("/spec/{field}"), default);
    }
    for list in ["initContainers", "containers"] {
        entries_mut(&mut pod["spec"], list).for_each(container);
    }
    entries_mut(&mut pod["spec"], "volumes").for_each(volume);
}

fn container(container: &mut Value) {
    let image = text(container, "/image");
    let tag = image.rsplit('/').next().and_then(|name| name.split_once(':')).map_or("latest", |(_, tag)| tag);
    let policy = if tag == "latest" && !image.contains('@') { "Always" } else { "IfNotPresent" };
    set_default(container, "/imagePullPolicy", json!(policy));
    set_default(container, "/terminationMessagePath", json!("/dev/termination-log"));
    set_default(container, "/terminationMessagePolicy", json!("File"));
    set_default(container, "/resources", json!({}));
    entries_mut(container, "ports").for_each(|port| set_default(port, "/protocol", json!("TCP")));
    for variable in entries_mut(container, "env") {
        if variable.pointer("/valueFrom/fieldRef").is_some() {
            set_default(variable, "/valueFrom/fieldRef/apiVersion", json!("v1"));
        }
    }
    for name in ["startupProbe", "readinessProbe", "livenessProbe"] {
        if let Some(found) = container.get_mut(name).filter(|probe| probe.is_object()) {
            probe(found);
        }
    }
}

/// A limit is also the request if there is none.
fn requests(container: &mut Value) {
    let limits = container["resources"]["limits"].as_object().cloned().unwrap_or_default();
    for (resource, limit) in limits {
        if container["resources"]["requests"].get(&resource).is_none() {
            container["resources"]["requests"][resource] = limit;
        }
    }
}

fn probe(probe: &mut Value) {
    for (field, default) in
        [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
    {
        set_default(probe, &format!("/{field}"), json!(default));
    }
    if probe.get("httpGet").is_some_and(Value::is_object) {
        set_default(probe, "/httpGet/scheme", json!("HTTP"));
        set_default(probe, "/httpGet/path", json!("/"));
    }
}

fn volume(volume: &mut Value) {
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if volume.get(source).is_some_and(Value::is_object) {
            set_default(volume, &format!("/{source}/defaultMode"), json!(0o644));
        }
    }
    for item in volume.get_mut("downwardAPI").into_iter().flat_map(|source| entries_mut(source, "items")) {
        if item.get("fieldRef").is_some() {
            set_default(item, "/fieldRef/apiVersion", json!("v1"));
        }
    }
    if let Some(fields) = volume.as_object_mut()
        && fields.len() == 1
    {
        fields.insert("emptyDir".to_owned(), json!({}));
    }
}
