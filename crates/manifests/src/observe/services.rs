//! Which Pods the client Service sends clients to.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Pod, Service};
use quorate_model::{ClusterUid, MemberName, snapshot};

use crate::labels::is_owned_by;

/// The Service of this name that the cluster owns.
pub(super) fn own<'a>(services: &[&'a Service], name: &str, uid: &ClusterUid) -> Option<&'a Service> {
    let mut own = services.iter().filter(|seen| is_owned_by(&seen.metadata, uid));
    own.find(|seen| seen.metadata.name.as_deref() == Some(name)).copied()
}

/// The members that the Service sends clients to, by the rule of the EndpointSlice controller: the selector that the Service has
/// now selects the Pod, and the Pod is ready, has an address, and is not being deleted.
pub(super) fn endpoints(
    service: Option<&Service>,
    pods: &[&Pod],
    members: &BTreeMap<MemberName, snapshot::Pod>,
) -> BTreeSet<MemberName> {
    let selector = service.and_then(|service| service.spec.as_ref()?.selector.as_ref());
    let Some(selector) = selector.filter(|selector| !selector.is_empty()) else { return BTreeSet::new() };
    let is_selected = |pod: &&&Pod| {
        let labels = pod.metadata.labels.as_ref();
        selector.iter().all(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value))
    };
    let selected = pods.iter().filter(is_selected).filter_map(|pod| pod.metadata.name.as_deref());
    let selected: BTreeSet<&str> = selected.collect();
    let serves = |pod: &snapshot::Pod| pod.ready && !pod.terminating && !pod.finished && pod.ip.is_some();
    let serving = members.iter().filter(|(name, pod)| selected.contains(name.as_str()) && serves(pod));
    serving.map(|(name, _)| name.clone()).collect()
}
