//! Services: defaults, ports, and cluster addresses. Addresses come from the loopback network, so that a proxy on this
//! machine can listen on them.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::Inner;
use super::{entries_mut, names, set_default};
use crate::cause::Cause;
use crate::fields::{entries, integer, items, text};
use crate::resources::ResourceKey;

pub(super) fn on_create(inner: &Inner, service: &mut Value, causes: &mut Vec<Cause>) {
    default(service);
    service["status"] = json!({"loadBalancer": {}});
    check(service, causes);
    if text(service, "/spec/type") == "ExternalName" {
        return;
    }
    let taken = addresses(inner);
    let wanted = text(service, "/spec/clusterIP").to_owned();
    if wanted.is_empty() {
        service["spec"]["clusterIP"] = json!(free_address(&taken, inner.service_network));
    } else if taken.contains(wanted.as_str()) {
        let why = format!("failed to allocate IP {wanted}: provided IP is already allocated");
        causes.push(Cause::invalid("spec.clusterIPs", &json!([wanted]), why));
    }
    service["spec"]["clusterIPs"] = json!([service["spec"]["clusterIP"]]);
    // These types may name any address.
    let open =
        text(service, "/spec/clusterIP") == "None" && entries(service, "/spec/selector").next().is_none();
    let (policy, families) =
        if open { ("RequireDualStack", json!(["IPv4", "IPv6"])) } else { ("SingleStack", json!(["IPv4"])) };
    set_default(service, "/spec/ipFamilyPolicy", json!(policy));
    set_default(service, "/spec/ipFamilies", families);
    set_default(service, "/spec/internalTrafficPolicy", json!("Cluster"));
}

pub(super) fn on_update(old: &Value, service: &mut Value, causes: &mut Vec<Cause>) {
    default(service);
    for kept in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"] {
        if let Some(given) = old["spec"].get(kept) {
            set_default(service, &format!("/spec/{kept}"), given.clone());
        }
    }
    if service["spec"]["clusterIP"] != old["spec"]["clusterIP"] {
        let given = json!([service["spec"]["clusterIP"]]);
        causes.push(Cause::invalid_shown("spec.clusterIPs[0]", &given, "may not change once set"));
    }
    check(service, causes);
}

fn default(service: &mut Value) {
    set_default(service, "/spec/type", json!("ClusterIP"));
    set_default(service, "/spec/sessionAffinity", json!("None"));
    for port in entries_mut(&mut service["spec"], "ports") {
        set_default(port, "/protocol", json!("TCP"));
        let own = port["port"].clone();
        set_default(port, "/targetPort", own);
    }
}

fn check(service: &Value, causes: &mut Vec<Cause>) {
    let ports = items(service, "/spec/ports");
    let kind = text(service, "/spec/type");
    if ports.is_empty() && text(service, "/spec/clusterIP") != "None" && kind != "ExternalName" {
        causes.push(Cause::required("spec.ports"));
    }
    let mut seen = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let field = |name: &str| format!("spec.ports[{index}].{name}");
        let name = text(port, "/name");
        if name.is_empty() && ports.len() > 1 {
            causes.push(Cause::required(field("name")));
        }
        if !name.is_empty() {
            let wrong = names::label(name);
            causes.extend(wrong.into_iter().map(|why| Cause::invalid(field("name"), &port["name"], why)));
            if !seen.insert(name) {
                causes.push(Cause::duplicate(field("name"), &port["name"]));
            }
        }
        let fits = |number: Option<i64>| number.is_some_and(|number| (1..=65535).contains(&number));
        for key in ["port", "targetPort"] {
            let pointer = format!("/{key}");
            if !port[key].is_string() && !fits(integer(port, &pointer)) {
                causes.push(Cause::invalid(field(key), &port[key], "must be between 1 and 65535, inclusive"));
            }
        }
    }
    let known = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"].map(Value::from);
    if !known.contains(&service["spec"]["type"]) {
        causes.push(Cause::unsupported("spec.type", &service["spec"]["type"], &known));
    }
}

fn addresses(inner: &Inner) -> BTreeSet<&str> {
    let services = inner.objects.get(&ResourceKey::new("", "services"));
    let addresses = services.into_iter().flatten().map(|(_, service)| text(service, "/spec/clusterIP"));
    addresses.filter(|address| *address != "None").collect()
}

fn free_address(taken: &BTreeSet<&str>, network: u8) -> String {
    let free = (1..=u16::MAX)
        .map(|number| format!("127.{network}.{}.{}", number >> 8, number & 255))
        .find(|address| !taken.contains(address.as_str()));
    free.unwrap_or_default()
}
