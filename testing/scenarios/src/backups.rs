//! Backups and restores, as a user orders and observes them.

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::ResourceExt;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::{NamespaceClient, until};

impl NamespaceClient {
    /// All backups.
    pub fn backups(&self) -> Api<DynamicObject> {
        self.kind("EtcdBackup", "etcdbackups")
    }

    /// All schedules.
    pub fn schedules(&self) -> Api<DynamicObject> {
        self.kind("EtcdBackupSchedule", "etcdbackupschedules")
    }

    /// Creates a claim for backups, and returns the destination in it.
    pub async fn claim_for_backups(&self, name: &str) -> Result<Value> {
        let claim: PersistentVolumeClaim = serde_json::from_value(json!({
            "metadata": {"name": name, "labels": {"operator.etcd.io/for-backups": "true"}},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "256Mi"}}},
        }))?;
        self.volumes().create(&PostParams::default(), &claim).await?;
        Ok(json!({"pvc": {"claimName": name}}))
    }

    /// Orders a backup of a cluster.
    pub async fn back_up(&self, name: &str, cluster: &str, destination: &Value) -> Result<()> {
        self.back_up_with(name, json!({"source": {"cluster": cluster}, "destination": destination})).await
    }

    /// Orders a backup with this spec.
    pub async fn back_up_with(&self, name: &str, spec: Value) -> Result<()> {
        let object = json!({
            "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdBackup",
            "metadata": {"name": name}, "spec": spec,
        });
        self.backups().create(&PostParams::default(), &serde_json::from_value(object)?).await?;
        Ok(())
    }

    /// Creates a schedule with this spec.
    pub async fn schedule(&self, name: &str, spec: Value) -> Result<()> {
        let object = json!({
            "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdBackupSchedule",
            "metadata": {"name": name}, "spec": spec,
        });
        self.schedules().create(&PostParams::default(), &serde_json::from_value(object)?).await?;
        Ok(())
    }

    /// Orders a backup of a schedule now, by a word that was not used before; returns its name.
    pub async fn back_up_now(&self, schedule: &str, word: &str) -> Result<String> {
        let order = Patch::Merge(json!({"metadata": {"annotations": {"operator.etcd.io/backup-now": word}}}));
        self.schedules().patch(schedule, &PatchParams::default(), &order).await?;
        let mut name = None;
        until(&format!("{schedule} has spent the word {word}"), async || {
            let status = self.schedules().get(schedule).await?.data["status"].clone();
            let mut spent = status["orders"].as_array().into_iter().flatten();
            let order = spent.find(|order| order["word"] == word);
            name = order.and_then(|order| order["backup"].as_str()).map(str::to_owned);
            Ok(if name.is_some() { Ok(()) } else { Err(status.to_string()) })
        })
        .await?;
        name.context("the order has a backup")
    }

    /// The name of an EtcdBackup, as soon as there is one.
    pub async fn one_backup(&self) -> Result<String> {
        let mut name = None;
        until("there is an EtcdBackup", async || {
            let backups = self.backups().list(&ListParams::default()).await?.items;
            name = backups.first().map(ResourceExt::name_any);
            Ok(if name.is_some() { Ok(()) } else { Err("none".to_owned()) })
        })
        .await?;
        name.context("an EtcdBackup has a name")
    }

    /// `kubectl delete etcdbackupschedule`.
    #[expect(clippy::disallowed_methods, reason = "the test is the user who deletes")]
    pub async fn delete_schedule(&self, name: &str) -> Result<()> {
        self.schedules().delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// The status of a backup, as JSON.
    pub async fn backup_status(&self, name: &str) -> Result<Value> {
        Ok(self.backups().get(name).await?.data["status"].clone())
    }

    /// Waits until a backup is complete; returns its status. Fails at once if the backup has failed.
    pub async fn is_backed_up(&self, name: &str) -> Result<Value> {
        self.backup_ends(name, "Complete").await
    }

    /// Waits until a backup has ended in this phase, `Complete` or `Failed`; fails at once if it has ended in the other one.
    pub async fn backup_ends(&self, name: &str, phase: &str) -> Result<Value> {
        let mut ended = None;
        until(&format!("{name} is {phase}"), async || {
            let status = self.backup_status(name).await?;
            match status["phase"].as_str() {
                Some("Complete" | "Failed") => {
                    ended = Some(status);
                    Ok(Ok(()))
                }
                _ => Ok(Err(status.to_string())),
            }
        })
        .await?;
        let status = ended.with_context(|| format!("{name} has not ended"))?;
        if status["phase"] != phase {
            bail!("{name} is not {phase}: {status}");
        }
        Ok(status)
    }

    /// What the EtcdBackup has found that stands for what a cluster began with: its result, and what it says.
    pub async fn found_for(&self, cluster: &str) -> Result<(Value, String)> {
        let restored = self.status(cluster).await?["bootstrap"]["restore"]["backup"].clone();
        let name = restored.as_str().with_context(|| format!("{cluster} was restored from no EtcdBackup"))?;
        let status = self.backup_status(name).await?;
        let mut conditions = status["conditions"].as_array().into_iter().flatten();
        let complete = conditions.find(|one| one["type"] == "Complete" && one["status"] == "True");
        let says = complete.and_then(|one| one["message"].as_str()).context("it is not complete")?;
        Ok((status["result"].clone(), says.to_owned()))
    }

    /// `kubectl delete etcdbackup`, until it is gone.
    #[expect(clippy::disallowed_methods, reason = "the test is the user who deletes")]
    pub async fn delete_backup(&self, name: &str) -> Result<()> {
        self.backups().delete(name, &DeleteParams::default()).await?;
        until(&format!("{name} is gone"), async || {
            let backup = self.backups().get_opt(name).await?;
            Ok(backup.map_or(Ok(()), |backup| Err(backup.data["status"].to_string())))
        })
        .await
    }

    /// All orders to restore in place.
    pub fn restores(&self) -> Api<DynamicObject> {
        self.kind("EtcdRestore", "etcdrestores")
    }

    /// Orders to replace the data of a cluster, which has this ID, by those of a backup.
    pub async fn restore_in_place(&self, name: &str, cluster: &str, id: &str, backup: &str) -> Result<()> {
        self.restore_in_place_from(name, cluster, id, &json!({"backupRef": {"name": backup}})).await
    }

    /// The same, by those of a snapshot as `bootstrap.restore` has it.
    pub async fn restore_in_place_from(
        &self,
        name: &str,
        cluster: &str,
        id: &str,
        snapshot: &Value,
    ) -> Result<()> {
        let spec = json!({"clusterName": cluster, "clusterID": id, "snapshot": snapshot});
        self.restore_in_place_with(name, spec).await
    }

    /// Orders to replace the data of a cluster with this spec.
    pub async fn restore_in_place_with(&self, name: &str, spec: Value) -> Result<()> {
        let object = json!({
            "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdRestore",
            "metadata": {"name": name}, "spec": spec,
        });
        self.restores().create(&PostParams::default(), &serde_json::from_value(object)?).await?;
        Ok(())
    }

    /// `kubectl delete etcdrestore`
    #[expect(clippy::disallowed_methods, reason = "the test is the user who deletes")]
    pub async fn delete_restore(&self, name: &str) -> Result<()> {
        self.restores().delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Waits until an order is in this phase; returns its status. Fails at once if it has ended in another one.
    pub async fn restore_is(&self, name: &str, phase: &str) -> Result<Value> {
        let mut reached = None;
        until(&format!("{name} is {phase}"), async || {
            let status = self.restores().get(name).await?.data["status"].clone();
            match status["phase"].as_str() {
                Some(now) if now == phase || now == "Complete" || now == "Failed" => {
                    reached = Some(status);
                    Ok(Ok(()))
                }
                _ => Ok(Err(status.to_string())),
            }
        })
        .await?;
        let status = reached.with_context(|| format!("{name} has no phase"))?;
        if status["phase"] != phase {
            bail!("{name} is not {phase}: {status}");
        }
        Ok(status)
    }

    /// Deletes a cluster, every claim of its members and its authorities, like a person who starts over.
    pub async fn wreck(&self, cluster: &str) -> Result<()> {
        self.delete(cluster).await?;
        for volume in self.volumes_of(cluster).await? {
            self.delete_volume(&volume.metadata.name.unwrap_or_default()).await?;
        }
        until(&format!("the volumes of {cluster} are gone"), async || {
            let left = self.volumes_of(cluster).await?.len();
            Ok(if left == 0 { Ok(()) } else { Err(format!("{left} are left")) })
        })
        .await?;
        self.delete_authorities(cluster).await
    }

    fn kind(&self, kind: &str, plural: &str) -> Api<DynamicObject> {
        let resource = ApiResource {
            group: "operator.etcd.io".to_owned(),
            version: "v1alpha1".to_owned(),
            api_version: "operator.etcd.io/v1alpha1".to_owned(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        };
        Api::default_namespaced_with(self.client.clone(), &resource)
    }
}

/// A spec like [`crate::spec`] that begins with the data of a backup.
pub fn restored_from(size: usize, backup: &str) -> Value {
    restored(size, &json!({"backupRef": {"name": backup}}))
}

/// A spec like [`crate::spec`] that begins with this `bootstrap.restore`, with volumes that have room for it.
pub fn restored(size: usize, restore: &Value) -> Value {
    let mut spec = crate::spec(size);
    spec["bootstrap"] = json!({"restore": restore});
    spec["storageSpec"]["volumeSizeRequest"] = json!("512Mi");
    spec
}
