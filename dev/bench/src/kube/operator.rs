//! The operator's replicas: which one leads, their processes, and what these have used.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, ListParams};

use super::super::metrics::Counts;
use super::super::process::{self, cpu_seconds, resident_mib};
use super::super::wait::until;
use super::rig::{OPERATOR, Rig};

const LABELS: &str = "app.kubernetes.io/name=quorate,app.kubernetes.io/component=operator";
const LEASE: &str = "quorate.operator.etcd.io";

/// An expired lease is taken within 15 s.
const PATIENCE: Duration = Duration::from_secs(30);

/// The role of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Leader,
    Standby,
}

/// One replica.
pub struct Replica {
    pub role: Role,
    pid: u32,
    /// Where it serves its metrics.
    address: String,
}

/// What a replica has used up to one moment.
pub struct Used {
    pub at: Instant,
    pub counts: Counts,
    pub cpu_seconds: f64,
    pub resident_mib: f64,
}

/// The operator's image: the reference and its id.
pub async fn image(rig: &Rig) -> Result<String> {
    let pods = pods(rig).await?;
    let status = pods.first().and_then(|pod| pod.status.as_ref()?.container_statuses.as_ref()?.first());
    let status = status.context("the operator has no running Pod")?;
    Ok(format!("{} ({})", status.image, status.image_id))
}

/// The replicas, the leader first.
pub async fn replicas(rig: &Rig) -> Result<Vec<Replica>> {
    let leader = leader(rig).await?;
    let mut replicas = Vec::new();
    for pod in pods(rig).await? {
        let role = if pod.name_any() == leader { Role::Leader } else { Role::Standby };
        let pids = process::of_pod(pod.uid().as_deref().context("a Pod has a uid")?, "quorate")?;
        let [pid] = pids[..] else {
            bail!("{} has {} processes of the operator", pod.name_any(), pids.len())
        };
        let ip = pod.status.and_then(|status| status.pod_ip).context("a Pod that runs has an address")?;
        replicas.push(Replica { role, pid, address: format!("{ip}:8080") });
    }
    replicas.sort_by_key(|replica| replica.role == Role::Standby);
    Ok(replicas)
}

impl Replica {
    /// Up to now.
    pub async fn used(&self) -> Result<Used> {
        let counts = Counts::scrape(&self.address).await?;
        Ok(Used {
            at: Instant::now(),
            counts,
            cpu_seconds: cpu_seconds(self.pid)?,
            resident_mib: resident_mib(self.pid)?,
        })
    }

    /// Whether it is the same process in the same role.
    pub fn is(&self, other: &Self) -> bool {
        (self.role, self.pid) == (other.role, other.pid)
    }
}

/// The Pod whose operator holds the lease, which is named after it.
async fn leader(rig: &Rig) -> Result<String> {
    let leases: Api<Lease> = Api::namespaced(rig.client(OPERATOR.0).await?, OPERATOR.0);
    let mut leader = String::new();
    until("a replica leads", PATIENCE, async || {
        let lease = leases.get_opt(LEASE).await?;
        let holder = lease.and_then(|lease| lease.spec?.holder_identity).unwrap_or_default();
        let pods = pods(rig).await?;
        let pod = pods.iter().map(ResourceExt::name_any).find(|pod| holder.starts_with(&format!("{pod}_")));
        let none = pod.is_none().then(|| format!("the lease is held by {holder:?}"));
        leader = pod.unwrap_or_default();
        Ok(none)
    })
    .await?;
    Ok(leader)
}

async fn pods(rig: &Rig) -> Result<Vec<Pod>> {
    let pods: Api<Pod> = Api::namespaced(rig.client(OPERATOR.0).await?, OPERATOR.0);
    let mut pods = pods.list(&ListParams::default().labels(LABELS)).await?.items;
    pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
    ensure!(!pods.is_empty(), "the operator has no Pods");
    Ok(pods)
}
