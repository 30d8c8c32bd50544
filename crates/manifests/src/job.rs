//! Jobs that run the agent once: a backup, the removal of an object, the reading of one, a restore test.
//!
//! Their Pods meet the restricted Pod Security standard. They have no token of a service account, unless the store takes its identity
//! from there. Kubernetes never retries them: the operator does, and it deletes them when it has read the answer.

use std::collections::BTreeMap;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::PodSecurityContext;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use quorate_api::backup::{EnvVar, JobTemplate};
use quorate_api::cluster::{
    DEFAULT_IMAGE_REGISTRY, Medium, OneMemberPerNode, PodMetadata, PodSpec, Resources,
};
use quorate_api::job::{
    BackupOrder, CA_FILE, CREDENTIALS_DIR, ETCD_TLS_DIR, IDENTITIES_DIR, ListOrder, LookOrder, ORDER,
    PVC_DIR, REFUSED_ENV, ReadOrder, RemoveOrder, SCRATCH_DIR, SIGNING_KEYS_DIR, SIGNING_SECRET, VerifyOrder,
};
use quorate_api::{Destination, EtcdBackup, EtcdBackupSchedule, EtcdCluster, EtcdRestore, keys, quantity};
use quorate_model::ClusterRef;
use serde::Serialize;
use serde_json::{Value, json};

use crate::Defaults;
use crate::backup::ExistingOrder;
use crate::metadata;
use crate::pod::{
    AGENT, AGENT_DIR, AGENT_VOLUME, FETCH, SKIP_CONTAINERS, install_from, one_to_a_node, resources,
    restricted, security_context,
};
use crate::restored;

/// A condition that nobody sets.
const NO_MEMBER: &str = "operator.etcd.io/is-a-member";

/// What begins the names of variables that say which authorities are trusted.
const TRUST: &str = "SSL_CERT_";

/// Variables that name a proxy, whatever their case.
const PROXIES: [&str; 3] = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"];

/// The resource that files on the disk of a node count as.
const DISK: &str = "ephemeral-storage";

/// What the Pod of a restore test has on the disk of its node beside its volume: the program of the agent and the logs.
const BESIDE_SCRATCH: u64 = 256 << 20;

/// Whether a Job changes what is in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    /// It only reads: a claim is mounted so, and the owners of its files stay.
    Reads,
    Writes,
}

/// The container with the answer.
pub const CONTAINER: &str = "agent";
/// The init container of a restore test, which fetches the backup. It answers if it cannot.
pub const FETCHES: &str = FETCH;

/// Where Kubernetes mounts the token of a service account into each container that has nothing there.
const TOKEN_DIR: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

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

/// The name of the Job of a look into the store, for the time of its beginning in seconds since the Unix epoch.
pub fn look_name(uid: &str, at: i64) -> String {
    format!("look-backups-{uid}-{at}")
}

/// The name of the Job of a try to see the object of an EtcdBackup that stands for an existing one.
pub fn inspect_name(uid: &str, attempt: u32) -> String {
    format!("inspect-backup-{uid}-{attempt}")
}

/// The name of the Job of a try to list what the store of a schedule has.
pub fn list_name(uid: &str, attempt: u32) -> String {
    format!("list-backups-{uid}-{attempt}")
}

/// The Job of an attempt of a backup, which may take so many seconds. `cluster` is that of its source, if it exists.
pub fn backup(
    backup: &EtcdBackup,
    order: &BackupOrder,
    tls_secret: Option<&str>,
    attempt: u32,
    seconds: i64,
    cluster: Option<&EtcdCluster>,
    defaults: &Defaults,
) -> Job {
    let template = of_cluster(backup.spec.job_template.as_deref().cloned(), cluster);
    let mut pod = agent_pod("backup", Access::Writes, order, &order.destination, &template, defaults);
    knows_signatures(&mut pod);
    if !template.labels.is_empty() {
        // They may be those of members, before a restore.
        is_not_ready(&mut pod);
    }
    if let Some(secret) = tls_secret {
        mount(&mut pod, "etcd-tls", &secret_volume(secret), ETCD_TLS_DIR);
    }
    if order.spool {
        let bytes = backup.status.as_ref().and_then(|status| status.scratch_bytes);
        mount(&mut pod, "scratch", &scratch(&template, cluster, bytes), SCRATCH_DIR);
    }
    let uid = backup.metadata.uid.as_deref().unwrap_or_default();
    finish(pod, &backup_name(uid, attempt), of_backup(backup), seconds, &template)
}

/// The Job of a removal. `cluster` is that of its source, if it exists.
pub fn remove(
    backup: &EtcdBackup,
    order: &RemoveOrder,
    removal: u32,
    seconds: i64,
    cluster: Option<&EtcdCluster>,
    defaults: &Defaults,
) -> Job {
    let template = of_cluster(backup.spec.job_template.as_deref().cloned(), cluster);
    let pod = agent_pod("remove-backup", Access::Writes, order, &order.destination, &template, defaults);
    let uid = backup.metadata.uid.as_deref().unwrap_or_default();
    finish(pod, &remove_name(uid, removal), of_backup(backup), seconds, &template)
}

/// The Job of a try to see the object of an EtcdBackup that stands for an existing one. `cluster` is that of its source, if it exists.
pub fn inspect(
    backup: &EtcdBackup,
    order: &ExistingOrder,
    attempt: u32,
    seconds: i64,
    cluster: Option<&EtcdCluster>,
    defaults: &Defaults,
) -> Job {
    let template = of_cluster(backup.spec.job_template.as_deref().cloned(), cluster);
    let destination = &backup.spec.destination;
    let mut pod = match order {
        ExistingOrder::Inspect(order) => {
            agent_pod("inspect-backup", Access::Reads, order, destination, &template, defaults)
        }
        ExistingOrder::Find(order) => {
            agent_pod("find-backup", Access::Reads, order, destination, &template, defaults)
        }
    };
    knows_signatures(&mut pod);
    if restored::is_for_restore(backup) {
        // It reads what the members of a restore read next, and as they do.
        is_no_member(&mut pod);
    }
    let uid = backup.metadata.uid.as_deref().unwrap_or_default();
    finish(pod, &inspect_name(uid, attempt), of_backup(backup), seconds, &template)
}

/// The Job of a try to list what the store of a schedule has. `cluster` is that of the schedule, if it exists.
pub fn list(
    schedule: &EtcdBackupSchedule,
    order: &ListOrder,
    attempt: u32,
    seconds: i64,
    cluster: Option<&EtcdCluster>,
    defaults: &Defaults,
) -> Job {
    let template = of_cluster(schedule.spec.backup_template.spec.job_template.as_deref().cloned(), cluster);
    let mut pod = agent_pod("list-backups", Access::Reads, order, &order.destination, &template, defaults);
    knows_signatures(&mut pod);
    let uid = schedule.metadata.uid.as_deref().unwrap_or_default();
    finish(pod, &list_name(uid, attempt), of_schedule(schedule), seconds, &template)
}

/// The Job of a look for the objects of backups of a schedule. `template` is that of a backup, and `cluster` that of the schedule, if it
/// exists.
pub fn look(
    schedule: &EtcdBackupSchedule,
    order: &LookOrder,
    template: Option<JobTemplate>,
    name: &str,
    seconds: i64,
    cluster: Option<&EtcdCluster>,
    defaults: &Defaults,
) -> Job {
    let template = of_cluster(template, cluster);
    let pod = agent_pod("look-for-backups", Access::Reads, order, &order.destination, &template, defaults);
    finish(pod, name, of_schedule(schedule), seconds, &template)
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
    let template = as_members(cluster);
    let mut pod =
        agent_pod("read-backup", Access::Reads, order, &order.source.destination, &template, defaults);
    is_no_member(&mut pod);
    if let Some(secret) = &restore.spec.snapshot.identities_secret {
        mount(&mut pod, "identities", &secret_volume(&secret.name), IDENTITIES_DIR);
    }
    let uid = restore.metadata.uid.as_deref().unwrap_or_default();
    finish(pod, &read_name(uid, attempt), of_restore(restore), seconds, &template)
}

/// What the Pods of members have that reaches a store and a node.
pub(crate) fn as_members(cluster: &EtcdCluster) -> JobTemplate {
    let of_members = cluster.spec.pod_template.clone().unwrap_or_default();
    let PodMetadata { labels, annotations } = of_members.metadata.unwrap_or_default();
    let members = of_members.spec.unwrap_or_default();
    // Policies of the network go by labels, and of admission by annotations too: it proves nothing if they take it for something else.
    let template = JobTemplate {
        labels,
        annotations,
        node_selector: members.node_selector,
        tolerations: members.tolerations,
        priority_class_name: members.priority_class_name,
        scheduler_name: members.scheduler_name,
        runtime_class_name: members.runtime_class_name,
        service_account_name: members.service_account_name,
        ..JobTemplate::default()
    };
    // A file of a claim may be readable by one group only.
    of_cluster(Some(template), Some(cluster))
}

/// Makes it a Pod that nobody takes for a member.
fn is_no_member(pod: &mut Value) {
    // Members have no token either.
    pod["automountServiceAccountToken"] = json!(false);
    is_not_ready(pod);
}

/// A Service of the user's that selects members by their labels sends it no clients: it is never ready.
fn is_not_ready(pod: &mut Value) {
    pod["readinessGates"] = json!([{ "conditionType": NO_MEMBER }]);
}

/// The Job of a restore test. It runs in the image of the etcd that the backup is of, which an EtcdCluster may name. So an init container of
/// the operator's image fetches the backup, and the one that tests sees neither the store nor what reaches it. `cluster` is that of the
/// schedule, if it exists.
pub fn verify(
    schedule: &EtcdBackupSchedule,
    order: &VerifyOrder,
    name: &str,
    image: &str,
    seconds: i64,
    cluster: Option<&EtcdCluster>,
    defaults: &Defaults,
) -> Job {
    let spec = &schedule.spec;
    let test = spec.verify.clone().unwrap_or_default();
    let given = test.job_template.or_else(|| spec.backup_template.spec.job_template.as_deref().cloned());
    let mut template = of_cluster(given, cluster);
    if let Some(cluster) = cluster {
        is_apart_from_members(&mut template, schedule, cluster);
    }
    let scratch = scratch(&template, cluster, order.scratch_bytes);
    let mut resources = resources::of_test(template.resources.as_ref(), pod_spec(cluster));
    counts_on_node(&mut resources, &scratch);
    // etcd lives with the limits of a member as a member does.
    let of_go = resources::of_go_beside(&resources, 0);
    let mut pod =
        agent_pod("fetch-backup", Access::Reads, order, &order.source.destination, &template, defaults);
    mount(&mut pod, "scratch", &scratch, SCRATCH_DIR);
    if let Some(secret) = test.identities_secret {
        mount(&mut pod, "identities", &secret_volume(&secret.name), IDENTITIES_DIR);
    }
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
    pod["initContainers"] = json!([install_from(&defaults.agent_image), fetch]);
    pod["containers"] = json!([tests]);
    for volume in [AGENT_VOLUME, "no-token"] {
        push(&mut pod["volumes"], json!({ "name": volume, "emptyDir": {} }));
    }
    template.annotations.extend(SKIP_CONTAINERS.map(|key| (key.to_owned(), CONTAINER.to_owned())));
    finish(pod, name, of_schedule(schedule), seconds, &template)
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

/// What the test writes to the disk of the node is reserved there, and bounded: it is not taken from the other Pods of the node.
fn counts_on_node(resources: &mut Resources, scratch: &Value) {
    let limit = serde_json::from_value(scratch["emptyDir"]["sizeLimit"].clone()).ok();
    let Some(size) = limit.as_ref().and_then(quantity::bytes) else { return };
    if resources.requests.contains_key(DISK) || resources.limits.contains_key(DISK) {
        return;
    }
    let all = Quantity(quantity::text(size.saturating_add(BESIDE_SCRATCH)));
    resources.requests.insert(DISK.to_owned(), all.clone());
    resources.limits.insert(DISK.to_owned(), all);
}

/// The template of an EtcdBackup that outlives its cluster: the removal of its object needs what the cluster says now.
pub(crate) fn template_of_cluster(
    template: Option<JobTemplate>,
    cluster: &EtcdCluster,
) -> Option<JobTemplate> {
    let is_given = template.is_some();
    Some(of_cluster(template, Some(cluster))).filter(|whole| is_given || *whole != JobTemplate::default())
}

/// The template with what it leaves to the cluster that the Job is for: the images come from the same registries, and a namespace that
/// admits the members admits their users and groups.
fn of_cluster(template: Option<JobTemplate>, cluster: Option<&EtcdCluster>) -> JobTemplate {
    let mut template = template.unwrap_or_default();
    if let Some(cluster) = cluster {
        let JobTemplate { labels, annotations, .. } = template;
        (template.labels, template.annotations) = metadata::merged(cluster, labels, annotations);
    }
    if let Some(cluster) = cluster
        && template.image_pull_secrets.is_empty()
    {
        template.image_pull_secrets.clone_from(&cluster.spec.image_pull_secrets);
    }
    let members = pod_spec(cluster).and_then(|spec| spec.security_context.as_ref());
    template.security_context = merged(members, template.security_context.as_ref());
    template
}

/// The fields of both, those of the second before those of the first.
fn merged(
    first: Option<&PodSecurityContext>,
    second: Option<&PodSecurityContext>,
) -> Option<PodSecurityContext> {
    let (Some(first), Some(second)) = (first, second) else { return second.or(first).cloned() };
    let mut fields = json!(first);
    if let (Value::Object(fields), Value::Object(second)) = (&mut fields, json!(second)) {
        fields.extend(second);
    }
    serde_json::from_value(fields).ok()
}

fn pod_spec(cluster: Option<&EtcdCluster>) -> Option<&PodSpec> {
    cluster?.spec.pod_template.as_ref()?.spec.as_ref()
}

/// The image of the etcd that a backup is of: that of its cluster where the versions are the same. One that objects may not name, which the
/// cluster is refused for, is not taken from there.
pub fn etcd_image(cluster: Option<&EtcdCluster>, version: &str, defaults: &Defaults) -> String {
    let version = version.trim_start_matches('v');
    let spec = cluster.map(|cluster| &cluster.spec);
    let same = spec.filter(|spec| spec.version.trim_start_matches('v') == version);
    let admits = |image: &String| defaults.allowed_images.admits(image);
    if let Some(image) = same.and_then(|spec| spec.image.clone()).filter(admits) {
        return image;
    }
    let named =
        spec.and_then(|spec| spec.image_registry.as_ref()).map(|registry| format!("{registry}:v{version}"));
    if let Some(image) = named.filter(admits) {
        return image;
    }
    let default =
        if defaults.image_registry.is_empty() { DEFAULT_IMAGE_REGISTRY } else { &defaults.image_registry };
    format!("{default}:v{version}")
}

/// The spec of a Pod that carries out an order against a store.
fn agent_pod(
    command: &str,
    access: Access,
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
    let mut env = vec![json!({ "name": ORDER, "value": order })];
    let (given, refused): (Vec<&EnvVar>, Vec<&EnvVar>) =
        template.env.iter().partition(|given| admits(given, defaults));
    env.extend(given.into_iter().filter(|given| given.name != ORDER).map(|given| json!(given)));
    if !refused.is_empty() {
        let names: Vec<&str> = refused.iter().map(|refused| refused.name.as_str()).collect();
        env.push(json!({ "name": REFUSED_ENV, "value": names.join(", ") }));
    }
    let mut pod = json!({
        "restartPolicy": "Never",
        "automountServiceAccountToken": ambient,
        "enableServiceLinks": false,
        "securityContext": security_context(template.security_context.as_ref()),
        "containers": [{
            "name": CONTAINER,
            "image": defaults.agent_image,
            "command": ["/quorate", "agent", command],
            "env": env,
            "resources": resources::of_job(template.resources.as_ref()),
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
        let mut claim = json!({ "claimName": pvc.claim_name });
        match access {
            Access::Reads => claim["readOnly"] = json!(true),
            Access::Writes => {}
        }
        mount(&mut pod, "store", &json!({ "persistentVolumeClaim": claim }), PVC_DIR);
    }
    pod
}

/// Whether a Job gets a variable of its template. Who writes an EtcdBackup does not decide whom its Job trusts: not by authorities, and not by
/// a proxy that the operator does not admit.
fn admits(given: &EnvVar, defaults: &Defaults) -> bool {
    let name = given.name.to_ascii_uppercase();
    let is_proxy = PROXIES.contains(&name.as_str());
    !name.starts_with(TRUST) && (!is_proxy || defaults.allowed_proxies.contains(&given.value))
}

/// A volume that is gone with the Pod. Data of a cluster belong on its storage class; without one there is the disk of the node.
fn scratch(template: &JobTemplate, cluster: Option<&EtcdCluster>, needed: Option<u64>) -> Value {
    let given = template.scratch.clone().unwrap_or_default();
    let storage = cluster.map(|cluster| &cluster.spec.storage_spec);
    let of_members = storage.filter(|storage| match storage.medium {
        Medium::Disk => true,
        Medium::Memory => false,
    });
    let of_members = of_members.and_then(|storage| storage.storage_class_name.clone());
    let class = given.storage_class_name.or(of_members).filter(|class| !class.is_empty());
    let size = given.size.as_ref().and_then(quantity::bytes).max(needed).map(quantity::text);
    match (class, size) {
        (Some(class), Some(size)) => {
            let mut claim = json!({ "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": class,
                "resources": { "requests": { "storage": size } },
            } });
            // What a policy demands of the claims of members it demands of this one.
            let of_claims = storage.and_then(|storage| storage.metadata.clone()).unwrap_or_default();
            let labels = metadata::before(of_claims.labels, template.labels.clone());
            let annotations = metadata::before(of_claims.annotations, template.annotations.clone());
            for (field, given) in [("labels", labels), ("annotations", annotations)] {
                if !given.is_empty() {
                    claim["metadata"][field] = json!(given);
                }
            }
            json!({ "ephemeral": { "volumeClaimTemplate": claim } })
        }
        (None, Some(size)) => json!({ "emptyDir": { "sizeLimit": size } }),
        (_, None) => json!({ "emptyDir": {} }),
    }
}

/// For what signs manifests, or believes signed ones.
fn knows_signatures(pod: &mut Value) {
    mount(pod, "signing-keys", &secret_volume(SIGNING_SECRET), SIGNING_KEYS_DIR);
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

fn owner(kind: &str, label: &'static str, meta: &ObjectMeta) -> Owner {
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
        // Of the container, and of the Pod's user.
        resources: _,
        env: _,
        security_context: _,
        scratch: _,
        image_pull_secrets,
        node_selector,
        tolerations,
        affinity,
        priority_class_name,
        scheduler_name,
        runtime_class_name,
        service_account_name,
    } = template;
    let pull_secrets = Some(image_pull_secrets).filter(|secrets| !secrets.is_empty());
    let fields = [
        ("nodeSelector", json!(node_selector)),
        ("tolerations", json!(tolerations)),
        ("affinity", json!(affinity)),
        ("priorityClassName", json!(priority_class_name)),
        ("schedulerName", json!(scheduler_name)),
        ("runtimeClassName", json!(runtime_class_name)),
        ("imagePullSecrets", json!(pull_secrets)),
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
    all.extend(own);
    let job = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": owner.namespace,
            "labels": all,
            "annotations": Some(annotations).filter(|annotations| !annotations.is_empty()),
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
