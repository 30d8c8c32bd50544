//! EtcdBackups that have ended: what schedules leave in a fleet after some weeks, as the operator has written them.

use anyhow::{Context, Result};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use quorate_api::backup::{BackupCondition, BackupPhase, BackupResult, EtcdBackupStatus};
use quorate_api::job::{BackupOrder, Task as _};
use quorate_api::{EtcdBackup, Explanation, Reason, keys};
use quorate_model::Instant;
use quorate_orders::backup::{Seen, has_ended, state};
use serde_json::json;

use super::etcd::Key;
use super::pod::now;

/// How many are created at a time.
const AT_A_TIME: usize = 16;

/// Creates so many for each cluster. No operator runs meanwhile: it would take them.
pub async fn create(client: &Client, clusters: impl Iterator<Item = Key>, each: usize) -> Result<()> {
    let all = clusters.flat_map(|key| (0..each).map(move |nth| (key.clone(), nth)));
    let created = all.map(|(key, nth)| create_one(client.clone(), key, nth));
    stream::iter(created).buffer_unordered(AT_A_TIME).try_collect::<()>().await
}

async fn create_one(client: Client, (namespace, cluster): Key, nth: usize) -> Result<()> {
    let name = format!("{cluster}-nightly-{nth:03}");
    let backup: EtcdBackup = serde_json::from_value(json!({
        "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdBackup",
        "metadata": {"name": name, "labels": {keys::SCHEDULE: format!("{cluster}-nightly")}},
        "spec": {
            "source": {"cluster": cluster},
            "destination": {"s3": {
                "bucket": "backups", "prefix": namespace, "credentialsSecret": {"name": "s3"},
                "endpoint": "https://s3.example.com", "region": "eu-central-1",
            }},
        },
    }))?;
    let backups: Api<EtcdBackup> = Api::namespaced(client, &namespace);
    let made = backups.create(&PostParams::default(), &backup).await.with_context(|| name.clone())?;
    let status = json!({ "status": complete(&made) });
    let written = backups.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await?;
    anyhow::ensure!(has_ended(&written), "{name}: the operator would go on with it");
    Ok(())
}

/// As the operator's own function writes it.
fn complete(backup: &EtcdBackup) -> EtcdBackupStatus {
    let (at, uid) = (now(), backup.metadata.uid.clone().unwrap_or_default());
    let key = quorate_manifests::backup::key(backup);
    let url = backup.spec.destination.url(&key);
    let time = |at| Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at));
    let status = EtcdBackupStatus {
        cluster_id: Some("85ce4f421a7c391d".to_owned()),
        attempts: 1,
        started: time(at),
        job_name: Some(BackupOrder::job_name(&uid, 1)),
        result: Some(BackupResult {
            url: url.clone(),
            key,
            size: "12Mi".to_owned(),
            stored_bytes: 12 << 20,
            stored_sha256: "5".repeat(64),
            snapshot_bytes: 20 << 20,
            snapshot_sha256: "6".repeat(64),
            compressed: true,
            revision: 4711,
            etcd_version: "3.6.16".to_owned(),
            cluster_id: "85ce4f421a7c391d".to_owned(),
            member: "etcd-0".to_owned(),
            started: time(at),
            finished: time(at),
            ..BackupResult::default()
        }),
        ..EtcdBackupStatus::default()
    };
    let why = Explanation::new(Reason::BackupComplete, format!("{url} is in the store, and was read back"));
    let seen = Seen::only(backup, Instant(at.as_millisecond()));
    state(seen, status, BackupPhase::Complete, BackupCondition::Complete, &why)
}
