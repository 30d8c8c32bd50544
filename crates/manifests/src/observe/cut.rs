//! Objects without what nobody reads. A cache of thousands of them is most of the operator's memory, and what a Pod's volumes, probes and
//! placement take is most of a Pod.

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, PodSpec, PodStatus, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use quorate_api::job::ORDER;
use quorate_api::keys;
use quorate_model::{ClusterRef, Leaf};

use super::pods;
use crate::certificate::Certificate;
use crate::pod::{AGENT_VOLUME, ETCD};

/// Where kubectl keeps what it applied.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Takes off what no observation reads of any object. Managed fields are half of an object's metadata, and a list that was decoded has room for more
/// than it holds.
pub fn trim(meta: &mut ObjectMeta) {
    meta.managed_fields = None;
    // The whole object once more, as text.
    if let Some(annotations) = &mut meta.annotations {
        annotations.remove(LAST_APPLIED);
    }
    if let Some(owners) = &mut meta.owner_references {
        owners.shrink_to_fit();
    }
    if let Some(finalizers) = &mut meta.finalizers {
        finalizers.shrink_to_fit();
    }
}

/// Takes off a member's Pod what no observation reads: what is observed of it stays the same.
pub fn cut(pod: &mut Pod) {
    let meta = &pod.metadata;
    let cluster = meta.labels.as_ref().and_then(|labels| labels.get(keys::CLUSTER)).cloned();
    let at = ClusterRef::new(meta.namespace.clone().unwrap_or_default(), cluster.unwrap_or_default());
    let runs = pods::etcd_runs(pod);
    pod.spec = pod.spec.take().map(|spec| cut_spec(spec, &at, runs));
    pod.status = pod.status.take().map(cut_status);
}

/// What brings the agent is read until etcd runs.
fn cut_spec(spec: PodSpec, at: &ClusterRef, runs: bool) -> PodSpec {
    let credential = Certificate::from(Leaf::Operator).secret_name(at);
    let volumes = spec.volumes.map(|volumes| {
        let is_read = |volume: &k8s_openapi::api::core::v1::Volume| {
            let secret = volume.secret.as_ref().and_then(|secret| secret.secret_name.as_ref());
            (volume.name == AGENT_VOLUME && !runs) || secret == Some(&credential)
        };
        fitting(volumes.into_iter().filter(is_read))
    });
    PodSpec {
        containers: fitting(spec.containers.into_iter().map(cut_container)),
        init_containers: spec.init_containers.map(|all| fitting(all.into_iter().map(cut_container))),
        node_name: spec.node_name,
        scheduler_name: spec.scheduler_name,
        scheduling_gates: spec.scheduling_gates,
        volumes,
        ..PodSpec::default()
    }
}

/// Of other containers than etcd's only the names are read, and what a quota counts.
fn cut_container(container: Container) -> Container {
    let Container { name, image, command, args, env, resources, .. } = container;
    let resources = resources.map(|ResourceRequirements { limits, requests, .. }| ResourceRequirements {
        limits,
        requests,
        ..ResourceRequirements::default()
    });
    if name != ETCD {
        return Container { name, resources, ..Container::default() };
    }
    let env = env.map(|env| fitting(env.into_iter().filter(|env| env.name == ORDER)));
    let command = command.map(|words| fitting(words.into_iter().next_back().into_iter()));
    let args = args.map(|args| fitting(args.into_iter().filter(|arg| pods::is_read(arg))));
    Container { name, image, command, args, env, resources, ..Container::default() }
}

fn cut_status(status: PodStatus) -> PodStatus {
    let PodStatus { phase, reason, message, conditions, pod_ip, .. } = status;
    let conditions = conditions.map(|all| fitting(all.into_iter()));
    let cut =
        |all: Option<Vec<ContainerStatus>>| all.map(|all| fitting(all.into_iter().map(cut_container_status)));
    PodStatus {
        phase,
        reason,
        message,
        conditions,
        pod_ip,
        container_statuses: cut(status.container_statuses),
        init_container_statuses: cut(status.init_container_statuses),
        ..PodStatus::default()
    }
}

fn cut_container_status(status: ContainerStatus) -> ContainerStatus {
    let ContainerStatus { name, image, ready, restart_count, state, last_state, .. } = status;
    ContainerStatus { name, image, ready, restart_count, state, last_state, ..ContainerStatus::default() }
}

/// Without room for more: a list that was decoded has room for four containers, of 1.5 KiB each, and what is collected of it keeps that.
fn fitting<T>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut all: Vec<T> = all.collect();
    all.shrink_to_fit();
    all
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn n10_what_kubectl_and_the_api_server_keep_of_an_object_for_themselves_is_not_cached() {
        let mut meta: ObjectMeta = serde_json::from_value(json!({
            "name": "one", "finalizers": ["a/b"], "labels": { "c": "d" },
            "annotations": { LAST_APPLIED: "{}", "operator.etcd.io/e": "f" },
            "managedFields": [{ "manager": "kubectl" }],
        }))
        .unwrap();
        trim(&mut meta);
        let kept = json!({
            "name": "one", "finalizers": ["a/b"], "labels": { "c": "d" }, "annotations": { "operator.etcd.io/e": "f" },
        });
        assert_eq!(json!(meta), kept);
    }
}
