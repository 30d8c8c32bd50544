//! Kubernetes whose nodes, Pods and Services have IPv6 addresses: only such, and beside IPv4.

use anyhow::{Context, Result, ensure};
use quorate_scenarios::rig::Another;
use quorate_scenarios::{Kubernetes, Writer, spec};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn l05_clusters_form_and_are_scaled_and_rolled_where_pods_have_only_ipv6_addresses() -> Result<()> {
    lives("ipv6", |addresses| matches!(addresses, [one] if one.contains(':'))).await
}

#[tokio::test(flavor = "multi_thread")]
async fn l05_clusters_form_and_are_scaled_and_rolled_where_pods_have_addresses_of_both_families() -> Result<()>
{
    lives("dual", |addresses| matches!(addresses, [one, other] if !one.contains(':') && other.contains(':')))
        .await
}

/// Clusters with and without TLS form, and the one with TLS grows and is rolled under a client. All Pods have such addresses.
async fn lives(families: &str, are_right: impl Fn(&[String]) -> bool) -> Result<()> {
    let another = Another::start(&format!("kube-{families}"), &["--ip-family", families])?;
    let world = Kubernetes::start_in(another.kubeconfig()).await?;
    world.create("demo", spec(1)).await?;
    let mut plain = spec(1);
    plain["tls"] = json!({"provider": "disabled"});
    world.create("plain", plain).await?;
    world.settled("demo", 1).await?;
    world.settled("plain", 1).await?;
    for pod in world.pods_of("demo").await? {
        let status = pod.status.context("a Pod without a status")?;
        let addresses: Vec<String> = status.pod_ips.unwrap_or_default().into_iter().map(|ip| ip.ip).collect();
        ensure!(are_right(&addresses), "{addresses:?}");
    }
    let writer = Writer::start(&world, "demo").await?;
    world.scale("demo", 3).await?;
    world.settled("demo", 3).await?;
    let template = json!({"spec": {"podTemplate": {"metadata": {"annotations": {"rolled": "true"}}}}});
    world.patch("demo", template).await?;
    world.settled("demo", 3).await?;
    writer.stop().await?.are_all_readable(&world, "demo").await
}
