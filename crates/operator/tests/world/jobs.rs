//! The kubelet of Jobs: it ends their Pods with an answer.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams};
use quorate_api::backup::ExistingObject;
use quorate_api::job::{
    Answer, BackupOrder, ClusterName, FindOrder, FoundBackup, InspectOrder, ListOrder, ListedBackups, Looked,
    Manifest, ORDER, Origin, ReadOrder, RemoveOrder, Verified, VerifyOrder,
};
use quorate_api::schedule::ListedUpTo;
use quorate_apistore::resources::ResourceKey;
use serde_json::{Value, json};

use super::{Running, World};

/// What a Job answers.
pub type Agent = Arc<dyn Fn(&str, &str) -> Answer + Send + Sync>;

/// Every Job does what it is ordered.
pub fn able() -> Agent {
    able_at(|| "2027-01-15T08:00:01Z".to_owned())
}

/// Every Job does what it is ordered, by this clock.
pub fn able_at(now: impl Fn() -> String + Send + Sync + 'static) -> Agent {
    Arc::new(move |command, order| match command {
        "backup" => {
            let order: BackupOrder = serde_json::from_str(order).unwrap();
            Answer::BackedUp(Manifest {
                cluster_id: order.origin.cluster_id.clone().unwrap_or_default(),
                origin: order.origin,
                key: order.key,
                stored_bytes: 4096,
                stored_sha256: "5".repeat(64),
                revision: 12,
                etcd_version: "3.6.16".to_owned(),
                started: "2027-01-15T08:00:00Z".to_owned(),
                finished: now(),
                ..Manifest::default()
            })
        }
        "remove-backup" => {
            let order: RemoveOrder = serde_json::from_str(order).unwrap();
            assert!(order.key.contains(&order.backup_uid));
            Answer::Removed
        }
        "read-backup" => {
            let order: ReadOrder = serde_json::from_str(order).unwrap();
            let stored_sha256 = order.source.sha256.unwrap();
            Answer::Read(Manifest {
                key: order.source.key,
                stored_sha256,
                snapshot_bytes: 4096,
                ..Manifest::default()
            })
        }
        "find-backup" => {
            let order: FindOrder = serde_json::from_str(order).unwrap();
            let cluster = order.cluster.unwrap();
            let manifest = Manifest {
                key: format!("{}/{}/newest.db", cluster.namespace, cluster.name),
                // Of the snapshot that members can restore.
                stored_sha256: "a".repeat(64),
                revision: 4,
                etcd_version: "3.6.16".to_owned(),
                started: "2026-12-15T08:00:00Z".to_owned(),
                ..Manifest::default()
            };
            Answer::Found(FoundBackup { manifest, ..FoundBackup::default() })
        }
        "list-backups" => Answer::Listed(page(&serde_json::from_str(order).unwrap())),
        "inspect-backup" => {
            let order: InspectOrder = serde_json::from_str(order).unwrap();
            Answer::Inspected(Manifest {
                origin: Origin { cluster: order.cluster, ..Origin::default() },
                key: order.key,
                stored_sha256: order.sha256,
                revision: 4,
                etcd_version: "3.6.16".to_owned(),
                started: "2026-12-15T08:00:00Z".to_owned(),
                ..Manifest::default()
            })
        }
        "look-for-backups" => Answer::Looked(Looked::default()),
        "verify-backup" => {
            let order: VerifyOrder = serde_json::from_str(order).unwrap();
            assert_eq!(order.source.sha256, Some("5".repeat(64)));
            Answer::Verified(Verified { revision: 12, keys: 3, ..Verified::default() })
        }
        other => panic!("there is no such command: {other}"),
    })
}

/// How many objects of before the store has for a list.
pub const STORED: usize = 12;

/// A page of what the store has of before.
fn page(order: &ListOrder) -> ListedBackups {
    let ClusterName { namespace, name } = &order.cluster;
    let key = |number: usize| format!("{namespace}/{name}/b-{number:02}.db");
    let first = order.after.as_ref().map_or(0, |after| {
        (0..STORED).find(|number| key(*number) == after.key).expect("it was on the page before") + 1
    });
    let end = STORED.min(first + order.most);
    let object =
        |number| ExistingObject { key: key(number), sha256: "5".repeat(64), ..ExistingObject::default() };
    let next = ListedUpTo { finished: "2026-12-15T08:00:00Z".to_owned(), key: key(end - 1) };
    ListedBackups {
        backups: (first..end).map(object).collect(),
        next: (end < STORED).then_some(next),
        of_cluster: STORED as u64,
        ..ListedBackups::default()
    }
}

/// Ends every Pod of a Job with its answer, until dropped.
pub fn kubelet(world: &World, agent: Agent) -> Running {
    kubelet_of(world, &[], agent)
}

/// The same for these commands only: other Pods run on. None: for all.
pub fn kubelet_of(world: &World, only: &'static [&'static str], agent: Agent) -> Running {
    let pods: Api<Pod> = world.api();
    // Seen in the store: a list through the client each time would be most of what a test takes.
    let store = world.kube.store().clone();
    Running(tokio::spawn(async move {
        loop {
            for pod in store.objects(&ResourceKey::new("", "pods")).iter().filter(|pod| is_due(pod)) {
                let pod = serde_json::from_value(Value::clone(pod)).expect("the store has Pods");
                // The Pod may be gone meanwhile.
                let _ = end(&pods, &pod, only, &agent).await;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }))
}

/// Whether a Pod is of a Job and has not ended. Other kubelets run the rest.
fn is_due(pod: &Value) -> bool {
    let mut owners = pod["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    let has_ended = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    owners.any(|owner| owner["kind"] == "Job") && !has_ended
}

async fn end(pods: &Api<Pod>, pod: &Pod, only: &[&str], agent: &Agent) -> Result<()> {
    let spec = pod.spec.as_ref().context("a Pod has a spec")?;
    let container = &spec.containers[0];
    let command =
        container.command.as_ref().and_then(|command| command.last()).context("it has a command")?;
    if !only.is_empty() && !only.contains(&command.as_str()) {
        return Ok(());
    }
    let mut env = container.env.iter().flatten();
    let order =
        env.find(|one| one.name == ORDER).and_then(|one| one.value.as_deref()).context("it has an order")?;
    let answer = agent(command, order);
    let failed = matches!(answer, Answer::Failed(_));
    let status = json!({ "status": {
        "phase": if failed { "Failed" } else { "Succeeded" },
        "containerStatuses": [{
            "name": container.name, "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": { "terminated": { "exitCode": i32::from(failed), "message": serde_json::to_string(&answer)? } },
        }],
    } });
    pods.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Merge(status)).await?;
    Ok(())
}
