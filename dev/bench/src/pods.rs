//! Waits for Pods.

use std::collections::BTreeMap;
use std::pin::pin;

use anyhow::{Result, bail};
use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, ResourceExt};

/// Waits, without a limit, until this many of the Pods that the labels select are Ready.
pub async fn ready(client: &Client, labels: &str, count: usize) -> Result<()> {
    let config = watcher::Config::default().labels(labels);
    let mut pods = pin!(watcher(api(client), config).applied_objects());
    let mut ready = BTreeMap::new();
    while let Some(pod) = pods.try_next().await? {
        ready.insert(pod.name_any(), is_ready(&pod));
        if ready.values().filter(|ready| **ready).count() == count {
            return Ok(());
        }
    }
    bail!("the watch of Pods ended")
}

/// The Pods that the labels select, with a short description of each.
pub async fn described(client: &Client, labels: &str) -> Result<Vec<String>> {
    let pods = api(client).list(&ListParams::default().labels(labels)).await?;
    Ok(pods.iter().map(describe).collect())
}

fn describe(pod: &Pod) -> String {
    let status = pod.status.clone().unwrap_or_default();
    let phase = if is_ready(pod) { "Ready" } else { status.phase.as_deref().unwrap_or("Unknown") };
    let containers = status.init_container_statuses.into_iter().chain(status.container_statuses).flatten();
    let reasons = containers.filter_map(|container| container.state?.waiting?.reason);
    let unscheduled = status.conditions.into_iter().flatten().filter(|one| one.type_ == "PodScheduled");
    let why: Vec<String> = reasons.chain(unscheduled.filter_map(|one| one.message)).collect();
    format!("{} {phase} {}", pod.name_any(), why.join(" ")).trim_end().to_owned()
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|all| all.iter().any(|one| one.type_ == "Ready" && one.status == "True"))
}

fn api(client: &Client) -> Api<Pod> {
    Api::default_namespaced(client.clone())
}
