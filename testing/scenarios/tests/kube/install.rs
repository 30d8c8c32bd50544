//! Installing the operator on a real Kubernetes: every command of docs/install.md works, and the API server accepts what the
//! chart renders. Needs a Kubernetes without Quorate where the image is loaded, and leaves it so.

use anyhow::Result;
use quorate_scenarios::{Kubernetes, Writer};

mod chart_values;
mod cleanup;
mod reader;
mod steps;

use chart_values::{ChartValues, Monitors};
use cleanup::{CleanKubernetes, ensure_nothing_is_left};
use reader::Reader;

/// Commands of the page that are not run here, each with what covers it.
const COVERED_ELSEWHERE: [(&str, &str); 8] = [
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
async fn every_command_of_the_install_page_works() -> Result<()> {
    let world = Kubernetes::start().await?;
    let _clean = CleanKubernetes::start(world.shell()?)?;
    let mut reader = Reader::new(&world)?;
    for (command, _) in COVERED_ELSEWHERE {
        reader.page.mark_as_covered(command)?;
    }

    reader.install_by_chart().await?;
    reader.check_the_sample_cluster().await?;
    reader.check_the_built_in_roles().await?;
    let writer = Writer::start(&world, "demo").await?;
    reader.upgrade_the_chart().await?;
    reader.uninstall_and_keep_clusters().await?;
    Box::pin(reader.upgrade_plain_manifests()).await?;
    reader.switch_from_plain_manifests_to_the_chart().await?;
    writer.stop().await?.are_all_readable(&world, "demo").await?;
    reader.remove_everything().await?;
    ensure_nothing_is_left(&reader.shell).await?;

    Box::pin(reader.install_in_some_namespaces()).await?;
    reader.delete_the_namespace_of_an_operator_with_its_cluster().await?;
    reader.switch_from_the_chart_to_plain_manifests().await?;
    reader.remove_only_the_operator().await?;
    reader.remove_a_cluster_by_hand().await?;
    reader.remove_plain_manifests().await?;
    ensure_nothing_is_left(&reader.shell).await?;
    reader.page.ensure_all_covered()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_server_accepts_what_the_chart_renders_with_every_value_changed() -> Result<()> {
    let world = Kubernetes::start().await?;
    let shell = world.shell()?;
    let namespace = world.client.default_namespace();
    let cases = ChartValues::all(namespace)?;
    chart_values::cover_every_value(&cases)?;
    let _monitors = Monitors::define(world.shell()?)?;
    shell
        .run(&format!("kubectl label namespace {namespace} pod-security.kubernetes.io/warn=restricted"))
        .await?;
    for case in cases {
        case.is_accepted(&shell, namespace).await?;
    }
    Ok(())
}
