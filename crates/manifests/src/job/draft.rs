//! A Job in the making, and the spec of its Pod.

use std::fmt::Display;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use quorate_api::backup::{EnvVar, JobTemplate};
use quorate_api::destination::SecretName;
use quorate_api::job::{
    CA_FILE, CREDENTIALS_DIR, IDENTITIES_DIR, ORDER, PVC_DIR, REFUSED_ENV, SIGNING_KEYS_DIR, SIGNING_SECRET,
    Task,
};
use quorate_api::{Destination, EtcdBackup, EtcdBackupSchedule, EtcdRestore, keys};
use serde_json::{Value, json};

use super::template::{as_members, of_cluster};
use super::terms::{CONTAINER, Terms};
use crate::defaults::Defaults;
use crate::pod::{resources, restricted, security_context};

/// A condition that nobody sets.
const NO_MEMBER: &str = "operator.etcd.io/is-a-member";

/// What begins the names of variables that say which authorities are trusted.
const TRUST: &str = "SSL_CERT_";

/// Variables that name a proxy, whatever their case.
const PROXIES: [&str; 3] = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"];

/// A Job that lacks its task: whose it is, and what its Pod has beside what all have.
pub(super) struct Draft<'a> {
    kind: &'static str,
    /// The label with the name of its owner.
    label: &'static str,
    owner: &'a ObjectMeta,
    pub(super) template: JobTemplate,
    pub(super) terms: Terms<'a>,
    /// Volumes by name, and where they are mounted.
    mounts: Vec<(&'static str, Value, &'static str)>,
    /// A Service of the user's that selects members by their labels sends it no clients.
    pub(super) is_never_ready: bool,
    /// Not even where its store takes its identity from one.
    has_no_token: bool,
}

impl<'a> Draft<'a> {
    fn new(
        (kind, label): (&'static str, &'static str),
        owner: &'a ObjectMeta,
        template: JobTemplate,
        terms: Terms<'a>,
    ) -> Self {
        let (mounts, is_never_ready, has_no_token) = (Vec::new(), false, false);
        Self { kind, label, owner, template, terms, mounts, is_never_ready, has_no_token }
    }

    pub(super) fn of_backup(backup: &'a EtcdBackup, terms: Terms<'a>) -> Self {
        let template = of_cluster(backup.spec.job_template.as_deref().cloned(), terms.cluster);
        Self::new(("EtcdBackup", keys::BACKUP), &backup.metadata, template, terms)
    }

    pub(super) fn of_schedule(
        schedule: &'a EtcdBackupSchedule,
        template: Option<JobTemplate>,
        terms: Terms<'a>,
    ) -> Self {
        let template = of_cluster(template, terms.cluster);
        Self::new(("EtcdBackupSchedule", keys::SCHEDULE), &schedule.metadata, template, terms)
    }

    pub(super) fn of_restore(restore: &'a EtcdRestore, terms: Terms<'a>) -> Self {
        let template = terms.cluster.map(as_members).unwrap_or_default();
        Self::new(("EtcdRestore", keys::RESTORE), &restore.metadata, template, terms)
    }

    pub(super) fn mount(&mut self, name: &'static str, volume: Value, path: &'static str) {
        self.mounts.push((name, volume, path));
    }

    pub(super) fn knows_identities(&mut self, secret: Option<&SecretName>) {
        if let Some(secret) = secret {
            self.mount("identities", secret_volume(&secret.name), IDENTITIES_DIR);
        }
    }

    /// Nobody takes its Pod for a member, which has no token either.
    pub(super) fn is_no_member(&mut self) {
        (self.is_never_ready, self.has_no_token) = (true, true);
    }

    /// The Job of a task of its owner.
    pub(super) fn made<T: Task>(&self, task: &T, number: impl Display) -> Job {
        let uid = self.owner.uid.as_deref().unwrap_or_default();
        self.named(task, &T::job_name(uid, number))
    }

    /// The same, of a name that was recorded.
    pub(super) fn named<T: Task>(&self, task: &T, name: &str) -> Job {
        self.with_pod(self.pod(T::COMMAND, task), name)
    }

    /// The spec of a Pod that carries out a task by this command.
    pub(super) fn pod<T: Task>(&self, command: &str, task: &T) -> Value {
        let (template, defaults) = (&self.template, self.terms.defaults);
        let destination = task.destination();
        let Destination { s3: _, gcs: _, azure: _, pvc } = destination;
        let order = serde_json::to_string(task).expect("an order is plain data");
        let ambient = template.service_account_name.is_some()
            && destination.credentials_secret().is_none()
            && pvc.is_none()
            && !self.has_no_token;
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
        if self.is_never_ready {
            pod["readinessGates"] = json!([{ "conditionType": NO_MEMBER }]);
        }
        if let Some(secret) = destination.credentials_secret() {
            mount(&mut pod, "credentials", &secret_volume(secret), CREDENTIALS_DIR);
        }
        if let Some(secret) = destination.ca_secret() {
            let directory = CA_FILE.rsplit_once('/').map_or(CA_FILE, |(directory, _)| directory);
            mount(&mut pod, "store-ca", &secret_volume(secret), directory);
        }
        if let Some(pvc) = pvc {
            let mut claim = json!({ "claimName": pvc.claim_name });
            if T::ONLY_READS {
                claim["readOnly"] = json!(true);
            }
            mount(&mut pod, "store", &json!({ "persistentVolumeClaim": claim }), PVC_DIR);
        }
        if T::KNOWS_SIGNATURES {
            mount(&mut pod, "signing-keys", &secret_volume(SIGNING_SECRET), SIGNING_KEYS_DIR);
        }
        for (name, volume, path) in &self.mounts {
            mount(&mut pod, name, volume, path);
        }
        pod
    }

    /// The Job of a Pod.
    pub(super) fn with_pod(&self, mut pod: Value, name: &str) -> Job {
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
        } = &self.template;
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
        let owner = self.owner.name.as_deref().unwrap_or_default();
        let own = [(self.label, owner), (keys::MANAGED_BY, keys::MANAGED_BY_VALUE)];
        let mut all = labels.clone();
        all.extend(own.map(|(key, value)| (key.to_owned(), value.to_owned())));
        let job = json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": name,
                "namespace": self.owner.namespace.as_deref().unwrap_or_default(),
                "labels": all,
                "annotations": Some(annotations).filter(|annotations| !annotations.is_empty()),
                "ownerReferences": [{
                    "apiVersion": format!("{}/{}", keys::GROUP, keys::VERSION),
                    "kind": self.kind,
                    "name": owner,
                    "uid": self.owner.uid,
                    "controller": true,
                    "blockOwnerDeletion": true,
                }],
            },
            "spec": {
                "backoffLimit": 0,
                "activeDeadlineSeconds": self.terms.seconds.max(1),
                "template": { "metadata": { "labels": all, "annotations": annotations }, "spec": pod },
            },
        });
        serde_json::from_value(job).expect("the fields are those of a Job")
    }
}

/// Whether a Job gets a variable of its template. Who writes an EtcdBackup does not decide whom its Job trusts: not by authorities, and not by
/// a proxy that the operator does not admit.
fn admits(given: &EnvVar, defaults: &Defaults) -> bool {
    let name = given.name.to_ascii_uppercase();
    let is_proxy = PROXIES.contains(&name.as_str());
    !name.starts_with(TRUST) && (!is_proxy || defaults.allowed_proxies.contains(&given.value))
}

/// Secrets are read-only by themselves, readable by the group that the processes run as. One that does not exist is an empty directory:
/// the agent says at once what it misses, where the kubelet would hold the Pod back until the deadline.
pub(super) fn secret_volume(name: &str) -> Value {
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

pub(super) fn push(list: &mut Value, item: Value) {
    if let Value::Array(list) = list {
        list.push(item);
    }
}
