//! The operator as it is installed in a real Kubernetes: its replicas, its leader, and faults of both.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use nix::sys::signal::Signal;
use serde_json::json;

use crate::kubernetes::signal_processes;
use crate::{ProcessFault, is_ready, until};

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

    /// Scales to this many replicas, and waits until the old ones are gone.
    pub async fn scale(&self, replicas: usize) -> Result<()> {
        let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), NAMESPACE);
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        deployments.patch("quorate", &PatchParams::default(), &patch).await?;
        self.wait_for_replicas(replicas).await
    }

    /// Scales back to the number that was installed.
    pub async fn restore(&self) -> Result<()> {
        self.scale(REPLICAS).await
    }

    /// Waits until this many replicas are ready and there are no others.
    pub async fn wait_for_replicas(&self, replicas: usize) -> Result<()> {
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
        let holder = lease.spec.and_then(|spec| spec.holder_identity).context("the lease has no holder")?;
        let pods = self.pods().await?;
        let named = pods.into_iter().find(|pod| holder.starts_with(&format!("{}_", pod.name_any())));
        named.with_context(|| format!("the holder {holder} is no Pod"))
    }

    /// Waits until another Pod than this one holds the lease.
    pub async fn wait_for_other_leader(&self, former: &Pod) -> Result<Pod> {
        let former = former.name_any();
        let mut next = None;
        until(&format!("another replica than {former} leads"), async || {
            let leader = self.leader().await?;
            let other = leader.name_any() != former;
            next = Some(leader);
            Ok(if other { Ok(()) } else { Err("not yet".to_owned()) })
        })
        .await?;
        next.context("a replica leads")
    }

    /// Injects a fault into the process in one of its Pods.
    pub fn signal(&self, pod: &Pod, fault: ProcessFault) -> Result<()> {
        let signalled = signal_processes(pod, "quorate", Signal::from(fault))?;
        ensure!(signalled || fault == ProcessFault::Resume, "no operator runs in {}", pod.name_any());
        Ok(())
    }
}

/// How often a Pod's containers were restarted.
pub fn restarts(pod: &Pod) -> i32 {
    let containers = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
    containers.into_iter().flatten().map(|container| container.restart_count).sum()
}
