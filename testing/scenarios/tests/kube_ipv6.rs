//! A Kubernetes whose nodes, Pods and Services have IPv6 addresses only.

use anyhow::{Context, Result, ensure};
use quorate_scenarios::rig::Another;
use quorate_scenarios::{Kubernetes, Writer, spec};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn l05_clusters_form_and_are_scaled_and_rolled_where_pods_have_only_ipv6_addresses() -> Result<()> {
    let another = Another::start("kube-ipv6", &["--ip-family", "ipv6"])?;
    let world = Kubernetes::start_in(another.kubeconfig()).await?;
    world.create("demo", spec(1)).await?;
    let mut plain = spec(1);
    plain["tls"] = json!({"provider": "disabled"});
    world.create("plain", plain).await?;
    world.settled("demo", 1).await?;
    world.settled("plain", 1).await?;
    for pod in world.pods_of("demo").await? {
        let ip = pod.status.and_then(|status| status.pod_ip).context("a Pod without an address")?;
        ensure!(ip.contains(':'), "{ip}");
    }
    let writer = Writer::start(&world, "demo");
    world.scale("demo", 3).await?;
    world.settled("demo", 3).await?;
    let template = json!({"spec": {"podTemplate": {"metadata": {"annotations": {"rolled": "true"}}}}});
    world.patch("demo", template).await?;
    world.settled("demo", 3).await?;
    writer.stop().await?.are_all_readable(&world, "demo").await
}
