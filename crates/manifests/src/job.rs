//! Jobs that run the agent once: a backup, the removal of an object, the reading of one, a restore test.
//!
//! Their Pods meet the restricted Pod Security standard. They have no token of a service account, unless the store takes its identity
//! from there. Kubernetes never retries them: the operator does, and it deletes them when it has read the answer.

use std::collections::BTreeMap;

use k8s_openapi::api::batch::v1::Job;
use quorate_api::backup::JobTemplate;
use quorate_api::cluster::DEFAULT_IMAGE_REGISTRY;
use quorate_api::job::{
    BackupOrder, CA_FILE, CREDENTIALS_DIR, ETCD_TLS_DIR, IDENTITIES_DIR, ORDER, PVC_DIR, ReadOrder,
    RemoveOrder, SCRATCH_DIR, VerifyOrder,
};
use quorate_api::{Destination, EtcdBackup, EtcdBackupSchedule, EtcdCluster, EtcdRestore, keys};
use serde::Serialize;
use serde_json::{Value, json};

use crate::Defaults;
use crate::pod::{AGENT, AGENT_DIR, AGENT_VOLUME, install_from, restricted, security_context};

/// The container with the answer.
pub const CONTAINER: &str = "agent";

/// The name of the Job of an attempt of a backup. It depends on the uid and the attempt, so that an attempt has one Job at most.
pub fn backup_name(uid: &str, attempt: u32) -> String {
    format!("backup-{uid}-{attempt}")
}

/// The name of the Job of a removal.
pub fn remove_name(uid: &str, removal: u32) -> String {
    format!("remove-backup-{uid}-{removal}")
}

/// The name of the Job of a try to read the snapshot of an EtcdRestore.
pub fn read_name(uid: &str, attempt: u32) -> String {
    format!("read-backup-{uid}-{attempt}")
}

/// The name of the Job of a restore test, for a time of its schedule in seconds since the Unix epoch.
pub fn verify_name(uid: &str, at: i64) -> String {
    format!("verify-backup-{uid}-{at}")
}

/// The Job of an attempt of a backup, which may take so many seconds.
pub fn backup(
    backup: &EtcdBackup,
    order: &BackupOrder,
    tls_secret: Option<&str>,
    attempt: u32,
    seconds: i64,
    defaults: &Defaults,
) -> Job {
    let template = backup.spec.job_template.clone().unwrap_or_default();
    let mut pod = agent_pod("backup", order, &order.destination, &template, defaults);
    if let Some(secret) = tls_secret {
        mount(&mut pod, "etcd-tls", &secret_volume(secret), ETCD_TLS_DIR);
    }
    let uid = backup.metadata.uid.as_deref().unwrap_or_default();
    finish(pod, &backup_name(uid, attempt), of_backup(backup), seconds, &template)
}

/// The Job of a removal.
pub fn remove(
    backup: &EtcdBackup,
    order: &RemoveOrder,
    removal: u32,
    seconds: i64,
    defaults: &Defaults,
) -> Job {
    let template = backup.spec.job_template.clone().unwrap_or_default();
    let pod = agent_pod("remove-backup", order, &order.destination, &template, defaults);
    let uid = backup.metadata.uid.as_deref().unwrap_or_default();
    finish(pod, &remove_name(uid, removal), of_backup(backup), seconds, &template)
}

/// The Job of a try to read the snapshot of an EtcdRestore. It runs where and as the members of the cluster do, which read it next.
pub fn read(
    restore: &EtcdRestore,
    cluster: &EtcdCluster,
    order: &ReadOrder,
    attempt: u32,
    seconds: i64,
    defaults: &Defaults,
) -> Job {
    let of_members = cluster.spec.pod_template.as_ref().and_then(|template| template.spec.clone());
    // A file of a claim may be readable by one group only.
    let user = of_members.as_ref().and_then(|members| members.security_context.clone());
    let template = of_members.map_or_else(JobTemplate::default, |members| JobTemplate {
        node_selector: members.node_selector,
        tolerations: members.tolerations,
        priority_class_name: members.priority_class_name,
        service_account_name: members.service_account_name,
        ..JobTemplate::default()
    });
    let mut pod = agent_pod("read-backup", order, &order.source.destination, &template, defaults);
    pod["securityContext"] = security_context(user.as_ref());
    // Members have no token either.
    pod["automountServiceAccountToken"] = json!(false);
    if let Some(secret) = &restore.spec.snapshot.identities_secret {
        mount(&mut pod, "identities", &secret_volume(&secret.name), IDENTITIES_DIR);
    }
    let uid = restore.metadata.uid.as_deref().unwrap_or_default();
    let job = finish(pod, &read_name(uid, attempt), of_restore(restore), seconds, &template);
    with_pull_secrets(job, Some(cluster))
}

/// The Job of a restore test. It runs in the image of the etcd that the backup is of.
pub fn verify(
    schedule: &EtcdBackupSchedule,
    order: &VerifyOrder,
    name: &str,
    image: &str,
    seconds: i64,
    defaults: &Defaults,
) -> Job {
    let spec = &schedule.spec;
    let test = spec.verify.clone().unwrap_or_default();
    let template =
        test.job_template.or_else(|| spec.backup_template.spec.job_template.clone()).unwrap_or_default();
    let mut pod = agent_pod("verify-backup", order, &order.source.destination, &template, defaults);
    pod["containers"][0]["image"] = json!(image);
    pod["containers"][0]["command"] = json!([AGENT, "agent", "verify-backup"]);
    pod["initContainers"] = json!([install_from(&defaults.agent_image)]);
    mount(&mut pod, AGENT_VOLUME, &json!({ "emptyDir": {} }), AGENT_DIR);
    mount(&mut pod, "scratch", &json!({ "emptyDir": {} }), SCRATCH_DIR);
    if let Some(secret) = test.identities_secret {
        mount(&mut pod, "identities", &secret_volume(&secret.name), IDENTITIES_DIR);
    }
    finish(pod, name, of_schedule(schedule), seconds, &template)
}

/// A Job with the pull secrets of the cluster that it is for: the images come from the same registries.
pub fn with_pull_secrets(mut job: Job, cluster: Option<&EtcdCluster>) -> Job {
    let secrets = cluster.map(|cluster| cluster.spec.image_pull_secrets.clone()).unwrap_or_default();
    if let Some(pod) = job.spec.as_mut().and_then(|spec| spec.template.spec.as_mut())
        && !secrets.is_empty()
    {
        pod.image_pull_secrets = Some(secrets);
    }
    job
}

/// The image of the etcd that a backup is of: that of its cluster where the versions are the same.
pub fn etcd_image(cluster: Option<&EtcdCluster>, version: &str, defaults: &Defaults) -> String {
    let version = version.trim_start_matches('v');
    let spec = cluster.map(|cluster| &cluster.spec);
    let same = spec.filter(|spec| spec.version.trim_start_matches('v') == version);
    if let Some(image) = same.and_then(|spec| spec.image.clone()) {
        return image;
    }
    let registry = spec.and_then(|spec| spec.image_registry.as_deref());
    let default =
        if defaults.image_registry.is_empty() { DEFAULT_IMAGE_REGISTRY } else { &defaults.image_registry };
    format!("{}:v{version}", registry.unwrap_or(default))
}

/// The spec of a Pod that carries out an order against a store.
fn agent_pod(
    command: &str,
    order: &impl Serialize,
    destination: &Destination,
    template: &JobTemplate,
    defaults: &Defaults,
) -> Value {
    let Destination { s3: _, gcs: _, azure: _, pvc } = destination;
    let order = serde_json::to_string(order).expect("an order is plain data");
    let ambient = template.service_account_name.is_some()
        && destination.credentials_secret().is_none()
        && pvc.is_none();
    let mut pod = json!({
        "restartPolicy": "Never",
        "automountServiceAccountToken": ambient,
        "enableServiceLinks": false,
        "securityContext": security_context(None),
        "containers": [{
            "name": CONTAINER,
            "image": defaults.agent_image,
            "command": ["/quorate", "agent", command],
            "env": [{ "name": ORDER, "value": order }],
            "resources": json!(template.resources.clone().unwrap_or_default()),
            "securityContext": restricted(),
            "terminationMessagePath": "/dev/termination-log",
            // Of a program that ends without an answer, its last words.
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "volumeMounts": [],
        }],
        "volumes": [],
    });
    if let Some(secret) = destination.credentials_secret() {
        mount(&mut pod, "credentials", &secret_volume(secret), CREDENTIALS_DIR);
    }
    if let Some(secret) = destination.ca_secret() {
        let directory = CA_FILE.rsplit_once('/').map_or(CA_FILE, |(directory, _)| directory);
        mount(&mut pod, "store-ca", &secret_volume(secret), directory);
    }
    if let Some(pvc) = pvc {
        mount(
            &mut pod,
            "store",
            &json!({ "persistentVolumeClaim": { "claimName": pvc.claim_name } }),
            PVC_DIR,
        );
    }
    pod
}

/// Secrets are read-only by themselves, readable by the group that the processes run as. One that does not exist is an empty directory:
/// the agent says at once what it misses, where the kubelet would hold the Pod back until the deadline.
fn secret_volume(name: &str) -> Value {
    json!({ "secret": { "secretName": name, "defaultMode": 0o440, "optional": true } })
}

fn mount(pod: &mut Value, name: &str, source: &Value, path: &str) {
    let mut volume = source.clone();
    volume["name"] = json!(name);
    let mut mount = json!({ "name": name, "mountPath": path });
    if source.get("secret").is_some() {
        mount["readOnly"] = json!(true);
    }
    push(&mut pod["volumes"], volume);
    push(&mut pod["containers"][0]["volumeMounts"], mount);
}

fn push(list: &mut Value, item: Value) {
    if let Value::Array(list) = list {
        list.push(item);
    }
}

/// What a Job belongs to.
struct Owner {
    namespace: String,
    label: (&'static str, String),
    reference: Value,
}

fn of_backup(backup: &EtcdBackup) -> Owner {
    owner("EtcdBackup", keys::BACKUP, &backup.metadata)
}

fn of_restore(restore: &EtcdRestore) -> Owner {
    owner("EtcdRestore", keys::RESTORE, &restore.metadata)
}

fn of_schedule(schedule: &EtcdBackupSchedule) -> Owner {
    owner("EtcdBackupSchedule", keys::SCHEDULE, &schedule.metadata)
}

fn owner(
    kind: &str,
    label: &'static str,
    meta: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
) -> Owner {
    let name = meta.name.clone().unwrap_or_default();
    let reference = json!({
        "apiVersion": format!("{}/{}", keys::GROUP, keys::VERSION),
        "kind": kind,
        "name": name,
        "uid": meta.uid,
        "controller": true,
        "blockOwnerDeletion": true,
    });
    Owner { namespace: meta.namespace.clone().unwrap_or_default(), label: (label, name), reference }
}

fn finish(mut pod: Value, name: &str, owner: Owner, seconds: i64, template: &JobTemplate) -> Job {
    let JobTemplate {
        labels,
        annotations,
        resources: _, // of the container
        node_selector,
        tolerations,
        affinity,
        priority_class_name,
        service_account_name,
    } = template;
    let fields = [
        ("nodeSelector", json!(node_selector)),
        ("tolerations", json!(tolerations)),
        ("affinity", json!(affinity)),
        ("priorityClassName", json!(priority_class_name)),
        ("serviceAccountName", json!(service_account_name)),
    ];
    for (field, value) in fields.into_iter().filter(|(_, value)| !value.is_null()) {
        pod[field] = value;
    }
    let (key, value) = owner.label;
    let own = BTreeMap::from([
        (key.to_owned(), value),
        (keys::MANAGED_BY.to_owned(), keys::MANAGED_BY_VALUE.to_owned()),
    ]);
    let mut all = labels.clone();
    all.extend(own.clone());
    let job = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": owner.namespace,
            "labels": own,
            "ownerReferences": [owner.reference],
        },
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": seconds.max(1),
            "template": { "metadata": { "labels": all, "annotations": annotations }, "spec": pod },
        },
    });
    serde_json::from_value(job).expect("the fields are those of a Job")
}
