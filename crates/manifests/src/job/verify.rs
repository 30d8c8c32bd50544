//! The Job of a restore test.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use quorate_api::backup::JobTemplate;
use quorate_api::cluster::OneMemberPerNode;
use quorate_api::job::{SCRATCH_DIR, VerifyOrder};
use quorate_api::{EtcdBackupSchedule, EtcdCluster};
use quorate_model::ClusterRef;
use serde_json::{Value, json};

use super::draft::{Draft, push};
use super::scratch;
use super::template::pod_spec;
use super::terms::{CONTAINER, FETCHES, Terms};
use crate::pod::{AGENT, AGENT_DIR, AGENT_VOLUME, SKIP_CONTAINERS, install_from, one_to_a_node, resources};

/// Where Kubernetes mounts the token of a service account into each container that has nothing there.
const TOKEN_DIR: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The Job of a restore test. It runs in the image of the etcd that the backup is of, which an EtcdCluster may name. So an init container of
/// the operator's image fetches the backup, and the one that tests sees neither the store nor what reaches it.
pub fn verify(
    schedule: &EtcdBackupSchedule,
    order: &VerifyOrder,
    name: &str,
    image: &str,
    terms: Terms<'_>,
) -> Job {
    let spec = &schedule.spec;
    let test = spec.verify.as_ref();
    let given = test.and_then(|test| test.job_template.clone());
    let given = given.or_else(|| spec.backup_template.spec.job_template.as_deref().cloned());
    let mut draft = Draft::of_schedule(schedule, given, terms);
    if let Some(cluster) = terms.cluster {
        is_apart_from_members(&mut draft.template, schedule, cluster);
    }
    let scratch = scratch::volume(&draft.template, terms.cluster, order.scratch_bytes);
    let mut resources = resources::of_test(draft.template.resources.as_ref(), pod_spec(terms.cluster));
    scratch::counts_on_node(&mut resources, &scratch);
    // etcd lives with the limits of a member as a member does.
    let of_go = resources::of_go_beside(&resources, 0);
    draft.mount("scratch", scratch, SCRATCH_DIR);
    draft.knows_identities(test.and_then(|test| test.identities_secret.as_ref()));
    let mut pod = draft.pod("fetch-backup", order);
    let mut fetch = pod["containers"][0].take();
    fetch["name"] = json!(FETCHES);
    let mut env: Vec<Value> = fetch["env"].as_array().into_iter().flatten().take(1).cloned().collect();
    env.extend(of_go);
    let mut tests = json!({
        "name": CONTAINER,
        "image": image,
        "command": [AGENT, "agent", "verify-backup"],
        "env": env,
        "resources": resources,
        "volumeMounts": [
            { "name": AGENT_VOLUME, "mountPath": AGENT_DIR, "readOnly": true },
            { "name": "scratch", "mountPath": SCRATCH_DIR },
            { "name": "no-token", "mountPath": TOKEN_DIR, "readOnly": true },
        ],
    });
    for field in ["securityContext", "terminationMessagePath", "terminationMessagePolicy"] {
        tests[field] = fetch[field].clone();
    }
    pod["initContainers"] = json!([install_from(&terms.defaults.agent_image), fetch]);
    pod["containers"] = json!([tests]);
    for volume in [AGENT_VOLUME, "no-token"] {
        push(&mut pod["volumes"], json!({ "name": volume, "emptyDir": {} }));
    }
    draft.template.annotations.extend(SKIP_CONTAINERS.map(|key| (key.to_owned(), CONTAINER.to_owned())));
    draft.with_pod(pod, name)
}

/// A restore test reads and writes a whole database: it runs beside a member only where no other node is free.
fn is_apart_from_members(template: &mut JobTemplate, schedule: &EtcdBackupSchedule, cluster: &EtcdCluster) {
    let name = |meta: &ObjectMeta| meta.name.clone().unwrap_or_default();
    let at =
        ClusterRef::new(schedule.metadata.namespace.clone().unwrap_or_default(), name(&cluster.metadata));
    let affinity = template.affinity.get_or_insert_default();
    if affinity.pod_anti_affinity.is_none() {
        let members = one_to_a_node(&at, OneMemberPerNode::Preferred);
        affinity.pod_anti_affinity = serde_json::from_value(members).ok();
    }
}
