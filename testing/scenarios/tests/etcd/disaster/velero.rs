//! A model of Velero (1.18): what a backup reads of a namespace, what a restore takes off the objects, and the order in which it creates them.
//! It does not copy volumes: it leaves them where they are, as with `--snapshot-volumes=false` and a reclaim policy of `Retain`. It is not
//! Velero: whether Velero does the same is known from its source and its documentation only.

use anyhow::Result;
use k8s_openapi::api::core::v1::PersistentVolume;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

/// The kinds, in the order in which they are created again: first a list, then all others by name.
const ORDER: [(&str, &str, &str); 9] = [
    ("v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
    ("v1", "Secret", "secrets"),
    ("v1", "ConfigMap", "configmaps"),
    ("v1", "Pod", "pods"),
    ("v1", "Service", "services"),
    ("operator.etcd.io/v1alpha1", "EtcdBackup", "etcdbackups"),
    ("operator.etcd.io/v1alpha1", "EtcdBackupSchedule", "etcdbackupschedules"),
    ("operator.etcd.io/v1alpha1", "EtcdCluster", "etcdclusters"),
    ("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets"),
];

/// Where the status of an object is restored, too: an annotation on it.
const RESTORE_STATUS: &str = "velero.io/restore-status";

/// What is left out of a backup: a label.
const EXCLUDE: &str = "velero.io/exclude-from-backup";

/// The objects of a namespace, as a backup has them.
pub struct Backup {
    objects: Vec<Value>,
}

impl Backup {
    /// Reads every object without the label that leaves it out of the client's namespace.
    pub async fn take(client: &Client) -> Result<Self> {
        let mut objects = Vec::new();
        for kind in ORDER {
            for object in api(client, kind).list(&kube::api::ListParams::default()).await?.items {
                if object.labels().get(EXCLUDE).is_some_and(|value| value == "true") {
                    continue;
                }
                let mut object = serde_json::to_value(object)?;
                object["kind"] = json!(kind.1);
                object["apiVersion"] = json!(kind.0);
                objects.push(object);
            }
        }
        Ok(Self { objects })
    }

    /// Creates the objects of these kinds again, in Velero's order.
    pub async fn restore(&self, client: &Client, kinds: &[&str]) -> Result<()> {
        for kind in ORDER.into_iter().filter(|(_, kind, _)| kinds.contains(kind)) {
            for object in self.objects.iter().filter(|object| object["kind"] == kind.1) {
                create(client, kind, object).await?;
            }
        }
        Ok(())
    }

    /// Every kind.
    pub fn all() -> Vec<&'static str> {
        ORDER.iter().map(|(_, kind, _)| *kind).collect()
    }
}

/// What a restore of volumes that were kept does, or a person: a volume of which the claim is gone may be bound by the next one of its name.
pub async fn release_volumes(client: &Client) -> Result<()> {
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    for volume in volumes.list(&kube::api::ListParams::default()).await?.items {
        let patch = json!({"spec": {"claimRef": {"uid": null, "resourceVersion": null}}});
        volumes.patch(&volume.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
    }
    Ok(())
}

/// Keeps every volume when its claim is deleted.
pub async fn retain_volumes(client: &Client) -> Result<()> {
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    for volume in volumes.list(&kube::api::ListParams::default()).await?.items {
        let patch = json!({"spec": {"persistentVolumeReclaimPolicy": "Retain"}});
        volumes.patch(&volume.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
    }
    Ok(())
}

async fn create(client: &Client, kind: (&str, &str, &str), saved: &Value) -> Result<()> {
    let object = stripped(saved);
    let restores_status = saved["metadata"]["annotations"][RESTORE_STATUS] == "true";
    let api = api(client, kind);
    let name = saved["metadata"]["name"].as_str().unwrap_or_default();
    if api.get_opt(name).await?.is_some() {
        return Ok(());
    }
    api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    if restores_status {
        let patch = Patch::Merge(json!({"status": saved["status"]}));
        api.patch_status(name, &PatchParams::default(), &patch).await?;
    }
    Ok(())
}

/// An object without what a restore takes off it, and with Velero's labels.
fn stripped(saved: &Value) -> Value {
    let mut object = saved.clone();
    let dropped = [
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "managedFields",
        "ownerReferences",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generateName",
    ];
    remove(&mut object["metadata"], &dropped);
    remove(&mut object, &["status"]);
    if !object["metadata"]["labels"].is_object() {
        object["metadata"]["labels"] = json!({});
    }
    object["metadata"]["labels"]["velero.io/restore-name"] = json!("after");
    match object["kind"].as_str() {
        Some("Pod") => remove(&mut object["spec"], &["nodeName", "priority"]),
        Some("Service") if object["spec"]["clusterIP"] != "None" => {
            remove(&mut object["spec"], &["clusterIP", "clusterIPs"]);
        }
        Some("PersistentVolumeClaim") => remove(
            &mut object["metadata"]["annotations"],
            &["pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller"],
        ),
        _ => {}
    }
    object
}

fn remove(object: &mut Value, fields: &[&str]) {
    if let Some(object) = object.as_object_mut() {
        object.retain(|key, _| !fields.contains(&key.as_str()));
    }
}

fn api(client: &Client, (api_version, kind, plural): (&str, &str, &str)) -> Api<DynamicObject> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let resource = ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    };
    Api::default_namespaced_with(client.clone(), &resource)
}
