//! A member's Pod: one container with the agent as its first process. It checks the volume, runs etcd as its child, and
//! answers the kubelet. One that restores has an init container before it, which alone reaches the store.
//!
//! It meets the restricted Pod Security standard and has no access to the Kubernetes API. Labels, annotations, resources
//! and flags of the user never replace those of the member's identity.

mod containers;
pub(crate) mod member;
mod placement;
pub(crate) mod resources;

use k8s_openapi::api::core::v1::PodSecurityContext;
use quorate_api::cluster::PodSpec;
use quorate_api::{keys, quantity};
use quorate_model::effect::Boot;
use quorate_model::target::Medium;
use quorate_model::{ClusterRef, Leaf};
use serde_json::{Value, json};

use crate::certificate::Certificate;
use crate::flags;
use crate::labels;
use crate::template::Template;
use crate::{bootstrap, quorum_recovery};

pub(crate) use containers::{AGENT, AGENT_DIR, AGENT_VOLUME, RESTORED, install_from, restricted};
pub use containers::{FETCH, INSTALL};
pub use member::{ETCD, Member};
pub(crate) use placement::one_to_a_node;

/// User and group of every process.
const USER: u32 = 10001;

/// Names the empty directories for which the cluster autoscaler need not keep a node.
const SAFE_TO_EVICT: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes";

/// Names the containers that get no token of the cloud's, for the webhooks that put one into each container.
pub(crate) const SKIP_CONTAINERS: [&str; 2] =
    ["eks.amazonaws.com/skip-containers", "azure.workload.identity/skip-containers"];

/// The volume with the member's data.
const DATA_VOLUME: &str = "data";

/// Seconds for a stop that clients do not notice, besides two election timeouts: 5 s of the agent, then 5 s and two election
/// timeouts in which etcd waits for open watches, then the last writes.
const STOP_SECONDS: u32 = 15;
/// For a disk that is slow to take the last writes.
const GRACE_SECONDS: u32 = 30;

/// The shortest grace period with which a stop loses nothing, in seconds.
pub fn shortest_grace(flags: &[String]) -> u32 {
    STOP_SECONDS + (2 * flags::election_timeout(flags)).div_ceil(1000)
}

/// The Pod.
pub fn pod(member: &Member<'_>) -> Value {
    let Member { at, target, name, .. } = member;
    let template = Template::from_status(&target.pod);
    let pull_secrets: Vec<Value> =
        template.image_pull_secrets.iter().map(|name| json!({ "name": name })).collect();
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata(member, &template),
        "spec": {
            "hostname": name.as_str(),
            "subdomain": at.name,
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": shortest_grace(&template.flags).max(GRACE_SECONDS),
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "securityContext": security_context(template.spec.security_context.as_ref()),
            "affinity": placement::affinity(at, &template),
            "containers": [containers::etcd(member, &template)],
            "volumes": volumes(member),
        },
    });
    let install = (!member.by_image_volume).then(|| containers::install(member));
    let fetch = member.restored_from().map(|restore| containers::fetch(member, restore, &template));
    let before: Vec<Value> = install.into_iter().chain(fetch).collect();
    if !before.is_empty() {
        pod["spec"]["initContainers"] = json!(before);
    }
    if !pull_secrets.is_empty() {
        pod["spec"]["imagePullSecrets"] = json!(pull_secrets);
    }
    if let Some(constraints) = placement::topology_spread_constraints(at, &template) {
        pod["spec"]["topologySpreadConstraints"] = constraints;
    }
    if let Some(class) = member.priority_class {
        pod["spec"]["priorityClassName"] = json!(class);
    }
    pass_through(&template.spec, &mut pod["spec"]);
    if quorum_recovery::holds(member.boot) {
        // Its answer stays until the Pod is deleted. A try that failed, or found nothing, is repeated.
        pod["spec"]["restartPolicy"] = json!("OnFailure");
    }
    if matches!(member.boot, Boot::New | Boot::Restore) {
        pod["spec"]["schedulingGates"] = json!([{ "name": keys::BOOTSTRAP_GATE }]);
    }
    pod
}

/// Fields of `podTemplate.spec` that go into the Pod unchanged. They replace what the operator writes there.
fn pass_through(from: &PodSpec, spec: &mut Value) {
    let PodSpec {
        resources: _,                   // of the container
        affinity: _,                    // with what the operator adds
        topology_spread_constraints: _, // in place of what the operator writes
        security_context: _,            // over the operator's
        node_selector,
        priority_class_name,
        runtime_class_name,
        scheduler_name,
        service_account_name,
        termination_grace_period_seconds,
        tolerations,
    } = from;
    let fields = [
        ("nodeSelector", json!(node_selector)),
        ("priorityClassName", json!(priority_class_name)),
        ("runtimeClassName", json!(runtime_class_name)),
        ("schedulerName", json!(scheduler_name)),
        ("serviceAccountName", json!(service_account_name)),
        ("terminationGracePeriodSeconds", json!(termination_grace_period_seconds)),
        ("tolerations", json!(tolerations)),
    ];
    for (field, value) in fields.into_iter().filter(|(_, value)| !value.is_null()) {
        spec[field] = value;
    }
}

fn metadata(member: &Member<'_>, template: &Template) -> Value {
    let Member { cluster, at, target, name, boot, .. } = member;
    let mut all = template.labels.clone();
    all.extend(labels::of_member(at, name));
    all.extend(labels::of_incarnation(cluster));
    let mut annotations = template.annotations.clone();
    // Not part of the revision: Pods that run get it when they are created again.
    annotations.entry(SAFE_TO_EVICT.to_owned()).or_insert_with(|| scratch_volumes(member).join(","));
    annotations.insert(keys::REVISION.to_owned(), target.pod.revision.0.clone());
    // A Pod of a cluster whose authorities were never replaced is as it always was.
    if member.trust > 0 && target.tls {
        annotations.insert(keys::TRUST.to_owned(), member.trust.to_string());
    }
    // The EtcdCluster names the image of this container. What fetches gets its token.
    annotations.extend(SKIP_CONTAINERS.map(|key| (key.to_owned(), ETCD.to_owned())));
    // A member that has joined before is labelled from the start.
    if *boot == Boot::Resume {
        annotations.insert(keys::JOINED.to_owned(), keys::JOINED_VALUE.to_owned());
        all.insert(keys::JOINED.to_owned(), keys::JOINED_VALUE.to_owned());
    }
    let mut metadata = labels::owned(cluster, at, name.as_str().to_owned());
    metadata.labels = Some(all);
    metadata.annotations = Some(annotations);
    json!(metadata)
}

/// The operator's security context, with the fields that the user gives in place of its own. The definition refuses those that the
/// restricted Pod Security standard does not admit.
pub(crate) fn security_context(given: Option<&PodSecurityContext>) -> Value {
    let mut context = json!({
        "runAsNonRoot": true,
        "runAsUser": USER,
        "runAsGroup": USER,
        "fsGroup": USER,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": { "type": "RuntimeDefault" },
    });
    if let Value::Object(fields) = json!(given) {
        for (field, value) in fields {
            context[field] = value;
        }
    }
    context
}

fn volumes(member: &Member<'_>) -> Vec<Value> {
    let Member { at, target, name, .. } = member;
    let data = match target.storage.medium {
        Medium::Disk => {
            json!({ "name": DATA_VOLUME, "persistentVolumeClaim": { "claimName": name.as_str() } })
        }
        Medium::Memory => {
            json!({ "name": DATA_VOLUME, "emptyDir": { "medium": "Memory", "sizeLimit": quantity::text(target.storage.bytes) } })
        }
    };
    let mut volumes = vec![data, containers::joined_volume()];
    volumes.extend(containers::agent_volumes(member));
    volumes.extend(
        member.restored_from().map(bootstrap::volumes).into_iter().flatten().map(|(volume, _)| volume),
    );
    if target.tls {
        volumes
            .extend(containers::mounted(target.auth).map(|(leaf, volume, _)| tls_volume(leaf, volume, at)));
    }
    volumes
}

/// The volumes that are empty directories of the node and have nothing that outlives the Pod. Data in memory are not among them.
fn scratch_volumes(member: &Member<'_>) -> Vec<String> {
    let volumes = volumes(member).into_iter();
    let names = volumes.filter(|volume| volume["name"] != DATA_VOLUME && volume["emptyDir"].is_object());
    names.filter_map(|volume| volume["name"].as_str().map(str::to_owned)).collect()
}

/// Readable by the group only, which is the one that the processes run as.
fn tls_volume(leaf: Leaf, volume: &str, at: &ClusterRef) -> Value {
    json!({ "name": volume, "secret": { "secretName": Certificate::from(leaf).secret_name(at), "defaultMode": 0o440 } })
}
