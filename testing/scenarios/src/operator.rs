//! The operator as it is installed in a real Kubernetes: how many replicas there are, who leads, and what is done to them.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use nix::sys::signal::Signal;
use serde_json::json;

use crate::kubernetes::strike;
use crate::{Blow, is_ready, until};

/// Where it is installed.
pub const NAMESPACE: &str = "quorate-system";

/// How many replicas the plain manifests install.
const REPLICAS: usize = 2;

/// The Deployment `quorate` and its Pods.
pub struct Operator {
    client: Client,
}

impl Operator {
    /// The one in this Kubernetes.
    pub fn of(client: &Client) -> Self {
        Self { client: client.clone() }
    }

    /// Its Pods.
    pub async fn pods(&self) -> Result<Vec<Pod>> {
        let of = ListParams::default().labels("app.kubernetes.io/name=quorate");
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), NAMESPACE);
        Ok(pods.list(&of).await?.items)
    }

    /// So many replicas, and no more of the old ones.
    pub async fn scale(&self, replicas: usize) -> Result<()> {
        let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), NAMESPACE);
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        deployments.patch("quorate", &PatchParams::default(), &patch).await?;
        self.runs(replicas).await
    }

    /// As it was installed.
    pub async fn restore(&self) -> Result<()> {
        self.scale(REPLICAS).await
    }

    /// Waits until so many replicas are ready and nothing else is there.
    pub async fn runs(&self, replicas: usize) -> Result<()> {
        until(&format!("{replicas} operators run"), async || {
            let pods = self.pods().await?;
            let ready = pods.iter().filter(|pod| is_ready(pod)).count();
            let all = pods.len();
            Ok(if (ready, all) == (replicas, replicas) {
                Ok(())
            } else {
                Err(format!("{ready} of {all} ready"))
            })
        })
        .await
    }

    /// The Pod of the replica that holds the lease.
    pub async fn leader(&self) -> Result<Pod> {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), NAMESPACE);
        let lease = leases.get("quorate.operator.etcd.io").await?;
        let holder = lease.spec.and_then(|spec| spec.holder_identity).context("nobody holds the lease")?;
        let pods = self.pods().await?;
        let named = pods.into_iter().find(|pod| holder.starts_with(&format!("{}_", pod.name_any())));
        named.with_context(|| format!("the holder {holder} is no Pod"))
    }

    /// Waits until another Pod than this one holds the lease.
    pub async fn leader_other_than(&self, former: &Pod) -> Result<Pod> {
        let former = former.name_any();
        let mut next = None;
        until(&format!("another than {former} leads"), async || {
            let leader = self.leader().await?;
            let other = leader.name_any() != former;
            next = Some(leader);
            Ok(if other { Ok(()) } else { Err("not yet".to_owned()) })
        })
        .await?;
        next.context("somebody leads")
    }

    /// Does something to the process in one of its Pods.
    pub fn strike(&self, pod: &Pod, blow: Blow) -> Result<()> {
        let struck = strike(pod, "quorate", Signal::from(blow))?;
        ensure!(struck || blow == Blow::Continue, "no operator runs in {}", pod.name_any());
        Ok(())
    }
}

/// How often a Pod's containers were started again.
pub fn restarts(pod: &Pod) -> i32 {
    let containers = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
    containers.into_iter().flatten().map(|container| container.restart_count).sum()
}
