//! The newest backup, for a cluster that is to begin with it: a Job finds it once, and status records it before the first attempt (B1) is.
//!
//! Only while the plan waits for it: B1 takes what is recorded here, and from then on the attempt has it. Neither Jobs nor their Pods are watched
//! for that: they are read while one is under way.

use std::sync::Arc;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use quorate_api::{EtcdCluster, keys};
use quorate_manifests::{job, latest};
use quorate_model::{Instant, Step, Waiting};
use quorate_orders::latest::{Look, NextLook, look, refused};
use quorate_reconcile::{Pass, Retry, WriteError};
use tokio::time::timeout;

use super::Shared;
use crate::controllers::refusal::outcomes;
use crate::runtime::lease::WRITE_DEADLINE;
use crate::runtime::pace::Outcome;
use crate::runtime::watch::chain;
use crate::runtime::write::{Writer, status_patch};

/// How long a try may take: a bucket may have millions of objects.
const FIND_SECONDS: i64 = 3600;

/// Goes on with the look that the pass waits for; `None` if it waits for none.
pub(super) async fn go_on(shared: &Shared, pass: &Pass) -> Option<Outcome> {
    let planned = pass.planned()?;
    let waits = planned.plan.waiting.iter().any(|waiting| matches!(waiting, Waiting::NoSnapshot(_)));
    let seen = planned.cluster.0.as_ref().ok().filter(|cluster| waits && is_to_be_found(cluster))?;
    if is_resting(seen, shared.runtime.clock.now()) {
        return None;
    }
    let outcome = match Box::pin(step(shared, seen)).await {
        Ok(outcome) => outcome,
        Err(error) => {
            if error.retry() >= Retry::Failed {
                tracing::warn!(%error, "the newest backup cannot be looked for");
            }
            error.retry().into()
        }
    };
    Some(outcome)
}

async fn step(shared: &Shared, seen: &EtcdCluster) -> Result<Outcome, WriteError> {
    let namespace = seen.metadata.namespace.as_deref().unwrap_or_default();
    let name = seen.metadata.name.as_deref().unwrap_or_default();
    let clusters = Writer::<EtcdCluster>::new(&shared.runtime, namespace);
    // As it is now: the pass may have written its status, and what is found is recorded once.
    let Some(cluster) = clusters.read(name).await? else { return Ok(Outcome::Waiting) };
    if cluster.metadata.uid != seen.metadata.uid || !is_to_be_found(&cluster) {
        return Ok(Outcome::Waiting);
    }
    let Some(order) = cluster.restore().and_then(|spec| latest::order(spec, namespace, None)) else {
        return Ok(Outcome::UserMustEdit);
    };
    let now = shared.runtime.clock.now();
    let jobs = of_cluster::<Job>(shared, namespace, name).await?;
    let own = |job: &Arc<Job>| {
        let mut owners = job.metadata.owner_references.iter().flatten();
        owners.any(|owner| Some(&owner.uid) == cluster.metadata.uid.as_ref())
    };
    let jobs: Vec<Arc<Job>> = jobs.into_iter().filter(own).collect();
    let pods = if jobs.is_empty() { Vec::new() } else { of_cluster::<Pod>(shared, namespace, name).await? };
    let outcomes = outcomes(&shared.runtime, &shared.said, &jobs, &pods, now).await;
    let before = cluster.status.clone().unwrap_or_default();
    let uid = cluster.metadata.uid.as_deref().unwrap_or_default();
    let (looked, next) =
        look(Look { uid, order: &order, before: before.latest_backup.as_ref(), jobs: &outcomes, now });
    let mut status = before.clone();
    status.latest_backup = Some(looked.clone());
    let mut recorded = cluster.clone();
    if status != before {
        recorded = clusters.patch_status(Step::X1, &cluster, status_patch(Some(&before), &status)).await?;
    }
    let stored = recorded.status.as_ref().and_then(|status| status.latest_backup.as_ref());
    if stored != Some(&looked) {
        tracing::error!(
            "status.latestBackup is dropped by an older CustomResourceDefinition, so no backup is looked for"
        );
        return Ok(Outcome::UserMustEdit);
    }
    let writer = Writer::<Job>::new(&shared.runtime, namespace);
    match next {
        NextLook::Wait => {}
        NextLook::Find { attempt, order } => {
            let job = job::find_for_cluster(&recorded, &order, attempt, FIND_SECONDS, &shared.defaults);
            match writer.create_admitted(Step::X2, &job).await {
                // Created before a crash, and not yet seen.
                Ok(_) | Err(WriteError::Exists) => {}
                Err(WriteError::Invalid(text) | WriteError::Forbidden(text)) => {
                    let before = recorded.status.clone().unwrap_or_default();
                    let mut status = before.clone();
                    status.latest_backup.iter_mut().for_each(|looked| refused(looked, &text, now));
                    clusters.patch_status(Step::X1, &recorded, status_patch(Some(&before), &status)).await?;
                }
                Err(error) => return Err(error),
            }
        }
        NextLook::DeleteJob(name) => {
            let left = jobs.iter().find(|job| job.metadata.name.as_ref() == Some(&name));
            if let Some(job) = left.filter(|job| job.metadata.deletion_timestamp.is_none()) {
                writer.delete(Step::X3, job).await?;
            }
        }
    }
    Ok(if looked.failed.is_some() { Outcome::Degraded } else { Outcome::Waiting })
}

/// Whether the last try failed, and the next one is not due.
fn is_resting(cluster: &EtcdCluster, now: Instant) -> bool {
    let look = cluster.status.as_ref().and_then(|status| status.latest_backup.as_ref());
    look.is_some_and(|look| {
        let failed = look.failed.as_ref().map(|failed| Instant(failed.0.as_millisecond()));
        failed.is_some_and(|failed| now - failed < latest::again_after(look))
    })
}

/// Whether it is to begin with the newest backup, and nothing is recorded yet.
fn is_to_be_found(cluster: &EtcdCluster) -> bool {
    let status = cluster.status.as_ref();
    let is_begun = status.is_some_and(|status| {
        let is_found = status.latest_backup.as_ref().is_some_and(|look| look.found.is_some());
        let is_recorded = status.bootstrap.as_ref().is_some_and(|bootstrap| bootstrap.restore.is_some());
        is_found || is_recorded || status.cluster_id.is_some()
    });
    let asks = cluster.restore().is_some_and(|spec| spec.latest.is_some());
    asks && !is_begun && !cluster.spec.paused && cluster.metadata.deletion_timestamp.is_none()
}

/// The objects of looks for a cluster.
async fn of_cluster<K>(shared: &Shared, namespace: &str, name: &str) -> Result<Vec<Arc<K>>, WriteError>
where
    K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + serde::de::DeserializeOwned
        + std::fmt::Debug,
{
    let api = Api::<K>::namespaced(shared.runtime.client.clone(), namespace);
    let labelled = ListParams::default().labels(&format!("{}={name}", keys::FINDS_FOR));
    let listed = timeout(WRITE_DEADLINE, api.list(&labelled)).await;
    let listed = listed.map_err(|_| WriteError::Unknown(format!("no answer within {WRITE_DEADLINE:?}")))?;
    let listed = listed.map_err(|error| WriteError::Unknown(chain(&error)))?;
    Ok(listed.items.into_iter().map(Arc::new).collect())
}
