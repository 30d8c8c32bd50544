//! The API server is down for a while, or its watch history was compacted.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use quorate_scenarios::operator::restarts;
use quorate_scenarios::rig::{self, Outage};
use quorate_scenarios::{Kubernetes, ProcessFault, Shell, spec};

/// Longer than the operator's lease.
const OUTAGE: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_outage_longer_than_the_lease_loses_no_write_and_restarts_no_pod() -> Result<()> {
    let world = Kubernetes::start().await?;
    world.create("demo", spec(3)).await?;
    world.settled("demo", 3).await?;
    let uids = pods(&world).await?;
    let members = world.members("demo").await?;
    let outage = Outage::kill(&["kube-apiserver"])?;
    let start = Instant::now();
    let mut written = Vec::new();
    while start.elapsed() < OUTAGE {
        let key = format!("outage/{}", written.len());
        let (_, member) = &members[written.len() % members.len()];
        member.put(&key, key.clone()).await.context("etcd serves without Kubernetes")?;
        written.push(key);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    ensure!(world.pods().list(&kube::api::ListParams::default()).await.is_err(), "the API server is there");
    outage.repair()?;
    world.settled("demo", 3).await?;
    ensure!(pods(&world).await? == uids, "Pods were replaced");
    for key in &written {
        let found = members[0].1.get(key, quorate_etcd::Read::Linearizable).await?;
        ensure!(found.is_some(), "{key} was acknowledged and is gone");
    }
    // The operator works again, whichever replica leads.
    world.scale("demo", 1).await?;
    world.settled("demo", 1).await?;
    world.operator().wait_for_replicas(2).await
}

async fn pods(world: &Kubernetes) -> Result<Vec<Option<String>>> {
    let mut pods = world.pods_of("demo").await?;
    pods.sort_by_key(ResourceExt::name_any);
    Ok(pods.iter().map(ResourceExt::uid).collect())
}

/// The operator is paused while a cluster is edited; then the API server restarts, and its history starts after the edit.
#[tokio::test(flavor = "multi_thread")]
async fn a_watch_whose_history_was_compacted_is_restarted_and_the_edit_is_seen() -> Result<()> {
    let world = Kubernetes::start().await?;
    let operator = world.operator();
    world.create("demo", spec(1)).await?;
    world.settled("demo", 1).await?;
    let before: i32 = operator.pods().await?.iter().map(restarts).sum();
    let pods = operator.pods().await?;
    for pod in &pods {
        operator.signal(pod, ProcessFault::Pause)?;
    }
    world.scale("demo", 3).await?;
    let shell = world.shell()?;
    let outage = Outage::kill(&["kube-apiserver"])?;
    compact(&shell)?;
    outage.repair()?;
    for pod in &pods {
        operator.signal(pod, ProcessFault::Resume)?;
    }
    world.settled("demo", 3).await?;
    world.one_cluster_id("demo").await?;
    let after: i32 = operator.pods().await?.iter().map(restarts).sum();
    eprintln!("operator restarts: {}", after - before);
    operator.wait_for_replicas(2).await
}

/// Compacts the etcd of the API server.
fn compact(shell: &Shell) -> Result<()> {
    let folder = rig::folder()?;
    let pki = |name: &str| folder.join("pki").join(name);
    let kubeconfig = std::fs::read_to_string(folder.join("kubeconfig"))?;
    let host = kubeconfig.split("https://").nth(1).and_then(|rest| rest.split(':').next());
    let endpoint = format!("https://{}:2379", host.context("the kubeconfig names no server")?);
    let etcdctl = format!(
        "etcdctl-3.6 --endpoints={endpoint} --cacert={} --cert={} --key={}",
        pki("etcd-ca.crt").display(),
        pki("etcd-client.crt").display(),
        pki("etcd-client.key").display(),
    );
    let status = shell.now(&format!("{etcdctl} endpoint status --write-out=json"))?;
    let status: serde_json::Value = serde_json::from_str(&status)?;
    let revision = status[0]["Status"]["header"]["revision"].as_i64().context("no revision")?;
    shell.now(&format!("{etcdctl} compact {revision}")).map(drop)
}
