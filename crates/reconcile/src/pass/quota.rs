//! What the answer of a ResourceQuota to a dry run says of the time when the present Pod is gone.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use quorate_api::quantity;

/// Whether the next Pod would fit once the present one has left its room. The answer names what was requested, what is used, and the limit:
/// `exceeded quota: NAME, requested: limits.memory=8Gi, used: limits.memory=1Gi, limited: limits.memory=4Gi`. An answer of another form is
/// taken at its word.
pub(super) fn fits_after(answer: &str, present: &Pod) -> bool {
    let Some((_, quota)) = answer.split_once("exceeded quota: ") else { return false };
    let part = |name: &str| {
        let (_, rest) = quota.split_once(name)?;
        let entries = rest.split(", ").next()?.split(',');
        Some(entries.map_while(|entry| entry.split_once('=')).collect::<Vec<_>>())
    };
    let (Some(requested), Some(used), Some(limited)) =
        (part("requested: "), part("used: "), part("limited: "))
    else {
        return false;
    };
    let of = |all: &[(&str, &str)], key: &str| {
        all.iter().find(|(named, _)| *named == key).and_then(|(_, amount)| thousandths(amount))
    };
    !requested.is_empty()
        && requested.iter().all(|(key, _)| {
            let amounts = (of(&requested, key), of(&used, key), of(&limited, key));
            let (Some(requested), Some(used), Some(limited)) = amounts else { return false };
            used.saturating_sub(held(present, key)) + requested <= limited
        })
}

/// What the Pod holds of a resource that a quota counts.
fn held(pod: &Pod, key: &str) -> u128 {
    let (limits, resource) = match key.split_once('.') {
        Some(("limits", resource)) => (true, resource),
        Some(("requests", resource)) => (false, resource),
        _ if key == "pods" || key == "count/pods" => return 1000,
        _ => (false, key),
    };
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let amounts = containers.filter_map(|container| {
        let resources = container.resources.as_ref()?;
        let all = if limits { &resources.limits } else { &resources.requests };
        thousandths(&all.as_ref()?.get(resource)?.0)
    });
    amounts.sum()
}

/// An amount in thousandths: the smallest unit of CPU.
fn thousandths(amount: &str) -> Option<u128> {
    match amount.strip_suffix('m') {
        Some(milli) => milli.parse().ok(),
        None => quantity::bytes(&Quantity(amount.to_owned())).map(|whole| u128::from(whole) * 1000),
    }
}

#[cfg(test)]
mod tests {
    use quorate_manifests::Kind;
    use serde_json::json;

    use super::*;
    use crate::objects::Object;

    fn answer(requested: &str, used: &str, limited: &str) -> String {
        format!(
            "pods \"demo-0\" is forbidden: exceeded quota: one, requested: {requested}, used: {used}, limited: {limited}"
        )
    }

    #[test]
    fn a_pod_fits_in_the_room_that_the_present_one_leaves_and_in_no_more() {
        let present = json!({ "metadata": { "name": "demo-0" }, "spec": { "containers": [
            { "name": "etcd", "resources": { "limits": { "memory": "512Mi" }, "requests": { "cpu": "250m" } } },
            { "name": "sidecar", "resources": { "limits": { "memory": "512Mi" } } },
        ] } });
        // As the watch keeps it.
        let Object::Pod(present) = Object::parse(Kind::Pod, present).expect("a Pod") else {
            panic!("no Pod")
        };
        let fits = |requested, used, limited| fits_after(&answer(requested, used, limited), &present);
        assert!(fits("pods=1", "pods=3", "pods=3"));
        assert!(!fits("pods=1", "pods=4", "pods=3"), "others have taken more");
        assert!(fits("limits.memory=1Gi", "limits.memory=4Gi", "limits.memory=4Gi"));
        assert!(!fits("limits.memory=8Gi", "limits.memory=1Gi", "limits.memory=4Gi"));
        assert!(fits("cpu=250m,pods=1", "cpu=1,pods=3", "cpu=1,pods=3"));
        assert!(!fits("requests.cpu=500m", "requests.cpu=1", "requests.cpu=1"));
        assert!(!fits_after("exceeded quota: one", &present), "nobody knows");
        assert!(!fits_after("minimum memory usage per Container is 8Gi", &present));
    }
}
