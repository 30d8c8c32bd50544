//! The provisioner of volumes: a folder of a node for each claim, as a `local` volume, which unlike `hostPath` honours `fsGroup`.
//! In the class `disk` a file system of its own is mounted there.
//!
//! It lists all claims and volumes a few times a second. That is cheap for a cluster of one machine, and no watch breaks when the
//! API server is killed.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use crate::rig::Rig;
use crate::{cluster, disks};

/// The name of the provisioner in the storage class.
pub const PROVISIONER: &str = "quorate.local/folder";

const PACE: Duration = Duration::from_millis(300);

const ASKED: &str = "volume.kubernetes.io/storage-provisioner";
const CHOSEN: &str = "volume.kubernetes.io/selected-node";
const MADE: &str = "pv.kubernetes.io/provisioned-by";
const STORAGE: &str = "storage";

/// Runs until it is ended.
pub async fn run(rig: &Rig) -> Result<()> {
    let client = cluster::client(&rig.path("conf/provisioner.kubeconfig")).await?;
    let provisioner = Provisioner { client, folder: rig.path("volumes") };
    let mut reported = String::new();
    loop {
        let fault = provisioner.pass().await.err().map(|error| format!("{error:#}")).unwrap_or_default();
        // Reported once, not in every pass while the API server is down.
        if fault != reported && !fault.is_empty() {
            eprintln!("{fault}");
        }
        reported = fault;
        tokio::time::sleep(PACE).await;
    }
}

struct Provisioner {
    client: Client,
    folder: PathBuf,
}

/// What a claim needs.
#[derive(Debug, PartialEq)]
enum Asks {
    /// A folder on this node.
    Volume { node: String },
    /// More capacity than its status has.
    Room { volume: String, size: Quantity },
}

impl Provisioner {
    async fn pass(&self) -> Result<()> {
        let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
        let claims: Api<PersistentVolumeClaim> = Api::all(self.client.clone());
        // From the API server's memory.
        let everything = ListParams::default().match_any();
        let known = volumes.list(&everything).await.context("cannot list volumes")?.items;
        let ours: BTreeMap<String, &PersistentVolume> = known
            .iter()
            .filter(|volume| volume.annotations().get(MADE).is_some_and(|made| made == PROVISIONER))
            .map(|volume| (volume.name_any(), volume))
            .collect();
        for claim in claims.list(&everything).await.context("cannot list claims")?.items {
            match asks(&claim) {
                Some(Asks::Volume { node }) if !ours.contains_key(&volume_name(&claim)) => {
                    self.create(&claim, &node).await?;
                }
                Some(Asks::Room { volume, size }) if ours.contains_key(&volume) => {
                    self.expand(&claim, &volume, &size).await?;
                }
                Some(_) | None => {}
            }
        }
        for volume in ours.values().filter(|volume| is_released(volume)) {
            self.delete(volume).await?;
        }
        Ok(())
    }

    async fn create(&self, claim: &PersistentVolumeClaim, node: &str) -> Result<()> {
        let folder = self.folder.join(node).join(volume_name(claim));
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        if claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref()) == Some(disks::CLASS) {
            disks::create(&folder, &size_of(claim).context("a claim without a size")?.0)?;
        }
        let volume: PersistentVolume = serde_json::from_value(volume(claim, node, &folder))?;
        let api: Api<PersistentVolume> = Api::all(self.client.clone());
        match api.create(&PostParams::default(), &volume).await {
            // The list was older than the volume.
            Err(kube::Error::Api(status)) if status.code == 409 => return Ok(()),
            result => result.with_context(|| format!("cannot create the volume {}", volume.name_any()))?,
        };
        println!("created {} for {}/{} on {node}", volume.name_any(), namespace(claim), claim.name_any());
        Ok(())
    }

    /// Only the objects change, because a folder has no limit. The volume is written first, because a claim whose status has the
    /// capacity is done.
    async fn expand(&self, claim: &PersistentVolumeClaim, volume: &str, size: &Quantity) -> Result<()> {
        let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), &namespace(claim));
        let room = json!({"spec": {"capacity": {STORAGE: size}}});
        volumes
            .patch(volume, &PatchParams::default(), &Patch::Merge(&room))
            .await
            .with_context(|| format!("cannot expand the volume {volume}"))?;
        let room = json!({"status": {"capacity": {STORAGE: size}}});
        claims
            .patch_status(&claim.name_any(), &PatchParams::default(), &Patch::Merge(&room))
            .await
            .with_context(|| format!("cannot write the capacity of the claim of {volume}"))?;
        println!("expanded {volume} to {}", size.0);
        Ok(())
    }

    /// Removes the folder first, because without its volume it would never be removed.
    #[expect(clippy::disallowed_methods, reason = "a provisioner deletes released volumes")]
    async fn delete(&self, volume: &PersistentVolume) -> Result<()> {
        let name = volume.name_any();
        let local =
            volume.spec.as_ref().and_then(|spec| spec.local.as_ref()).context("not a local volume")?;
        let folder = Path::new(&local.path);
        ensure!(
            folder.starts_with(&self.folder) && folder.file_name().is_some_and(|last| last == name.as_str()),
            "{} is no volume of this cluster",
            folder.display()
        );
        disks::remove(folder)?;
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot remove {}", folder.display()));
            }
            _ => {}
        }
        let api: Api<PersistentVolume> = Api::all(self.client.clone());
        let this = Preconditions { uid: volume.uid(), resource_version: None };
        match api.delete(&name, &DeleteParams::default().preconditions(this)).await {
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
            result => result.with_context(|| format!("cannot delete the volume {name}"))?,
        };
        println!("deleted {name}");
        Ok(())
    }
}

fn asks(claim: &PersistentVolumeClaim) -> Option<Asks> {
    let spec = claim.spec.as_ref()?;
    let status = claim.status.as_ref()?;
    match (spec.volume_name.as_ref(), status.phase.as_deref()) {
        (None, Some("Pending")) if claim.metadata.deletion_timestamp.is_none() => {
            let ours = claim.annotations().get(ASKED).is_some_and(|asked| asked == PROVISIONER);
            let node = claim.annotations().get(CHOSEN)?;
            ours.then(|| Asks::Volume { node: node.clone() })
        }
        (Some(volume), Some("Bound")) => {
            let desired = spec.resources.as_ref()?.requests.as_ref()?.get(STORAGE)?;
            let room = status.capacity.as_ref()?.get(STORAGE)?;
            // Kubernetes does not let a claim shrink.
            (desired != room).then(|| Asks::Room { volume: volume.clone(), size: desired.clone() })
        }
        _ => None,
    }
}

fn is_released(volume: &PersistentVolume) -> bool {
    let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
    let policy = volume.spec.as_ref().and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref());
    phase == Some("Released") && policy == Some("Delete") && volume.metadata.deletion_timestamp.is_none()
}

fn volume(claim: &PersistentVolumeClaim, node: &str, folder: &Path) -> Value {
    let spec = claim.spec.clone().unwrap_or_default();
    let size = size_of(claim);
    let on_node = json!([{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]);
    json!({
        "metadata": {"name": volume_name(claim), "annotations": {MADE: PROVISIONER}},
        "spec": {
            "capacity": {STORAGE: size}, "accessModes": spec.access_modes, "volumeMode": "Filesystem",
            "persistentVolumeReclaimPolicy": "Delete", "storageClassName": spec.storage_class_name,
            "local": {"path": folder},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": on_node}]}},
            "claimRef": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "namespace": namespace(claim), "name": claim.name_any(), "uid": claim.uid(),
            },
        },
    })
}

fn size_of(claim: &PersistentVolumeClaim) -> Option<Quantity> {
    claim.spec.as_ref()?.resources.as_ref()?.requests.as_ref()?.get(STORAGE).cloned()
}

fn volume_name(claim: &PersistentVolumeClaim) -> String {
    format!("pvc-{}", claim.uid().unwrap_or_default())
}

fn namespace(claim: &PersistentVolumeClaim) -> String {
    claim.namespace().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(change: impl FnOnce(&mut Value)) -> PersistentVolumeClaim {
        let mut claim = json!({
            "metadata": {
                "namespace": "default", "name": "data-0", "uid": "u1",
                "annotations": {ASKED: PROVISIONER, CHOSEN: "n2"},
            },
            "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": "standard",
                "resources": {"requests": {"storage": "1Gi"}},
            },
            "status": {"phase": "Pending"},
        });
        change(&mut claim);
        serde_json::from_value(claim).unwrap()
    }

    #[test]
    fn a_claim_gets_a_folder_once_the_scheduler_chose_its_node() {
        let chosen = claim(|_| {});
        assert_eq!(asks(&chosen), Some(Asks::Volume { node: "n2".to_owned() }));
        let volume = volume(&chosen, "n2", Path::new("/v/n2/pvc-u1"));
        let volume: PersistentVolume = serde_json::from_value(volume).unwrap();
        assert_eq!(volume.name_any(), "pvc-u1");
        assert_eq!(volume.spec.unwrap().capacity.unwrap()[STORAGE], Quantity("1Gi".to_owned()));
        assert_eq!(
            asks(&claim(|claim| claim["metadata"]["annotations"] = json!({ASKED: PROVISIONER}))),
            None
        );
        let other = json!({ASKED: "other", CHOSEN: "n2"});
        assert_eq!(asks(&claim(|claim| claim["metadata"]["annotations"] = other)), None);
    }

    #[test]
    fn a_bound_claim_is_expanded_until_its_status_has_the_capacity() {
        let bound = |room: &str| {
            claim(|claim| {
                claim["spec"]["volumeName"] = json!("pvc-u1");
                claim["spec"]["resources"]["requests"]["storage"] = json!("2Gi");
                claim["status"] = json!({"phase": "Bound", "capacity": {"storage": room}});
            })
        };
        let size = Quantity("2Gi".to_owned());
        assert_eq!(asks(&bound("1Gi")), Some(Asks::Room { volume: "pvc-u1".to_owned(), size }));
        assert_eq!(asks(&bound("2Gi")), None);
    }
}
