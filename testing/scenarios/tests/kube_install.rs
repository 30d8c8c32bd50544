//! Installing the operator on a real Kubernetes: docs/install.md is right, and so is whatever the chart renders. Needs one
//! where nothing of Quorate is installed and the image is loaded, and leaves it so.

use anyhow::Result;
use quorate_scenarios::{Kubernetes, Writer};

#[path = "kube_install/choices.rs"]
mod choices;
#[path = "kube_install/clear.rs"]
mod clear;
#[path = "kube_install/journeys.rs"]
mod journeys;
#[path = "kube_install/reader.rs"]
mod reader;

use choices::{Choice, ServiceMonitors};
use clear::{Cleared, nothing_is_left};
use reader::Reader;

/// Commands of the page that are not run, each with what stands in for it.
const STOOD_IN_FOR: [(&str, &str); 8] = [
    (
        "cargo xtask image            # needs Rust and a C compiler; writes target/image/quorate.tar",
        "`cargo xtask test kube` has done it",
    ),
    ("docker build -t quorate:0.1.0 .", "as above; there is no Docker"),
    (
        "export REGISTRY=registry.example.com/platform",
        "the shell has a REGISTRY under which the nodes know the image that was loaded, so no command that uses it is \
         left out",
    ),
    ("docker load -i target/image/quorate.tar", "`cargo xtask kube load`; there is no Docker"),
    ("docker tag quorate:0.1.0 $REGISTRY/quorate:0.1.0", "as above"),
    ("docker push $REGISTRY/quorate:0.1.0", "as above"),
    ("kind load image-archive target/image/quorate.tar", "`cargo xtask kube load`; there is no kind"),
    (
        "sudo ctr --namespace k8s.io images import target/image/quorate.tar",
        "`cargo xtask kube load` runs it on every node",
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn the_page_on_installing_is_followed_word_by_word() -> Result<()> {
    let world = Kubernetes::start().await?;
    let _cleared = Cleared::start(world.shell()?)?;
    let mut reader = Reader::new(&world)?;
    for (command, _) in STOOD_IN_FOR {
        reader.page.passes(command)?;
    }

    reader.installs_by_chart().await?;
    reader.sees_that_it_works().await?;
    reader.sees_who_may_have_clusters().await?;
    let writer = Writer::start(&world, "demo");
    reader.upgrades().await?;
    reader.uninstalls_and_keeps_clusters().await?;
    reader.upgrades_plain_manifests().await?;
    reader.goes_from_plain_manifests_to_the_chart().await?;
    writer.stop().await?.are_all_there(&world, "demo").await?;
    reader.removes_everything().await?;
    nothing_is_left(&reader.shell).await?;

    reader.installs_in_some_namespaces().await?;
    reader.goes_from_the_chart_to_plain_manifests().await?;
    reader.removes_only_the_operator().await?;
    reader.removes_a_cluster_by_hand().await?;
    reader.removes_plain_manifests().await?;
    nothing_is_left(&reader.shell).await?;
    reader.page.all_is_followed()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_chart_renders_is_accepted_by_the_api_server_with_every_choice() -> Result<()> {
    let world = Kubernetes::start().await?;
    let shell = world.shell()?;
    let namespace = world.client.default_namespace();
    let choices = Choice::all(namespace)?;
    choices::cover_every_value(&choices)?;
    let _monitors = ServiceMonitors::define(world.shell()?)?;
    shell
        .run(&format!("kubectl label namespace {namespace} pod-security.kubernetes.io/warn=restricted"))
        .await?;
    for choice in choices {
        choice.is_accepted(&shell, namespace).await?;
    }
    Ok(())
}
