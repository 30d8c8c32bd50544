//! What users and controllers do in a namespace of a real Kubernetes: quotas, other managers of the same objects, evictions,
//! deletion of the namespace.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Namespace, Pod, ResourceQuota, Secret, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::{Resource, ResourceExt};
use quorate_scenarios::{Kubernetes, NamespaceClient, Writer, rig, spec, until};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_that_refuses_a_pod_is_reported_and_one_that_just_fits_holds_up_no_restart() -> Result<()> {
    let world = Kubernetes::start().await?;
    let quota = json!({"metadata": {"name": "small"}, "spec": {"hard": {"pods": "2"}}});
    let quotas = counted_quota(&world, "small", quota).await?;
    let mut three = spec(3);
    three["podTemplate"] = json!({"spec": {"resources": {"requests": {"memory": "64Mi"}}}});
    world.create("demo", three).await?;
    world.reports("demo", "exceeded quota: small").await?;
    // There is room for the next Pod of a member only when the present one is gone.
    let raised = json!({"spec": {"hard": {"pods": "3", "requests.memory": "192Mi"}}});
    quotas.patch("small", &PatchParams::default(), &Patch::Merge(raised)).await?;
    world.settled("demo", 3).await?;
    let template = json!({"spec": {"podTemplate": {"metadata": {"annotations": {"rolled": "true"}}}}});
    world.patch("demo", template).await?;
    world.settled("demo", 3).await?;
    world.one_cluster_id("demo").await.map(drop)
}

/// A quota that the API server enforces: its controller has counted what there is.
pub(crate) async fn counted_quota(
    world: &Kubernetes,
    name: &str,
    quota: Value,
) -> Result<Api<ResourceQuota>> {
    let quotas: Api<ResourceQuota> = Api::default_namespaced(world.client.clone());
    quotas.create(&PostParams::default(), &serde_json::from_value(quota)?).await?;
    until("the quota counts", async || {
        let status = quotas.get(name).await?.status.unwrap_or_default();
        Ok(status.used.map(drop).ok_or_else(|| "not yet".to_owned()))
    })
    .await?;
    Ok(quotas)
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_of_the_operator_that_another_manager_changes_are_restored_once_and_its_own_fields_stay()
-> Result<()> {
    let world = Kubernetes::start().await?;
    world.create("demo", spec(1)).await?;
    world.settled("demo", 1).await?;
    let services: Api<Service> = Api::default_namespaced(world.client.clone());
    // The peer Service must publish addresses that are not ready, or no member would resolve another.
    let changed = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "demo", "labels": {"team": "blue"}},
        "spec": {"publishNotReadyAddresses": false},
    });
    let manager = PatchParams::apply("another-manager").force();
    services.patch("demo", &manager, &Patch::Apply(changed)).await?;
    until("the Service is restored", async || {
        let service = services.get("demo").await?;
        let published = service.spec.as_ref().and_then(|spec| spec.publish_not_ready_addresses);
        Ok(if published == Some(true) { Ok(()) } else { Err(format!("{published:?}")) })
    })
    .await?;
    let service = services.get("demo").await?;
    ensure!(service.labels().get("team").is_some_and(|team| team == "blue"), "{:?}", service.labels());
    let events = world.events("demo").await?;
    world.settled("demo", 1).await?;
    ensure!(services.get("demo").await?.resource_version() == service.resource_version(), "{events}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_is_removed_when_none_is_wanted_and_comes_back() -> Result<()> {
    let world = Kubernetes::start().await?;
    world.create("demo", spec(1)).await?;
    let budgets: Api<PodDisruptionBudget> = Api::default_namespaced(world.client.clone());
    for (policy, wanted) in [("OneAtATime", true), ("None", false), ("Quorum", true)] {
        world.patch("demo", json!({"spec": {"disruption": {"podDisruptionBudget": policy}}})).await?;
        until(&format!("the budget follows {policy}"), async || {
            let found = budgets.get_opt("demo").await?;
            Ok(if found.is_some() == wanted { Ok(()) } else { Err(format!("{found:?}")) })
        })
        .await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_owns_no_field_of_the_spec_so_no_manager_conflicts_with_it() -> Result<()> {
    let world = Kubernetes::start().await?;
    let object = |size: usize| {
        json!({
            "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdCluster", "metadata": {"name": "demo"},
            "spec": spec(size),
        })
    };
    let gitops = PatchParams::apply("gitops");
    world.clusters().patch("demo", &gitops, &Patch::Apply(object(1))).await?;
    world.settled("demo", 1).await?;
    world.clusters().patch("demo", &gitops, &Patch::Apply(object(2))).await?;
    world.settled("demo", 2).await?;

    // The API server reports a conflict to the second of two managers; the one that forces wins.
    world.scale("demo", 1).await?;
    world.settled("demo", 1).await?;
    let conflict = world.clusters().patch("demo", &gitops, &Patch::Apply(object(2))).await.err();
    let conflict = conflict.context("accepted")?.to_string();
    ensure!(conflict.contains("conflict") && conflict.contains(".spec.size"), "{conflict}");
    world.clusters().patch("demo", &gitops.force(), &Patch::Apply(object(2))).await?;
    world.settled("demo", 2).await?;
    world.one_cluster_id("demo").await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::disallowed_methods, reason = "the test is the user who deletes")]
async fn a_namespace_with_clusters_in_it_can_be_deleted() -> Result<()> {
    let world = Kubernetes::start().await?;
    world.create("demo", spec(3)).await?;
    world.settled("demo", 3).await?;
    // And one that has just been created.
    world.create("young", spec(3)).await?;
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    let name = world.client.default_namespace().to_owned();
    namespaces.delete(&name, &kube::api::DeleteParams::default()).await?;
    until("the namespace is gone", async || {
        let Some(namespace) = namespaces.get_opt(&name).await? else { return Ok(Ok(())) };
        let conditions = namespace.status.and_then(|status| status.conditions).unwrap_or_default();
        Ok(Err(conditions.into_iter().filter_map(|one| one.message).collect::<Vec<_>>().join("; ")))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_a_cluster_deletes_its_objects_and_keeps_its_volumes_and_their_authorities() -> Result<()> {
    let world = Kubernetes::start().await?;
    world.create("demo", spec(3)).await?;
    world.settled("demo", 3).await?;
    ensure!(count::<Service>(&world).await? > 0 && count::<Secret>(&world).await? > 2);
    ensure!(count::<PodDisruptionBudget>(&world).await? > 0);
    world.delete("demo").await?;
    until("the objects of the cluster are gone, all but the Secrets of its authorities", async || {
        let (services, secrets) = (count::<Service>(&world).await?, count::<Secret>(&world).await?);
        let budgets = count::<PodDisruptionBudget>(&world).await?;
        Ok(if services + budgets == 0 && secrets == 2 {
            Ok(())
        } else {
            Err(format!("{services} Services, {secrets} Secrets, {budgets} PodDisruptionBudgets"))
        })
    })
    .await?;
    ensure!(world.volumes_of("demo").await?.len() == 3);
    let secrets: Api<Secret> = Api::default_namespaced(world.client.clone());
    for authority in ["demo-ca", "demo-peer-ca"] {
        ensure!(secrets.get_opt(authority).await?.is_some(), "the data are adopted with {authority}");
    }
    Ok(())
}

async fn count<K>(world: &NamespaceClient) -> Result<usize>
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    let api: Api<K> = Api::default_namespaced(world.client.clone());
    Ok(api.list(&ListParams::default().labels("operator.etcd.io/cluster=demo")).await?.items.len())
}

#[tokio::test(flavor = "multi_thread")]
async fn h22_a_pod_that_the_kubelet_evicts_for_disk_use_comes_back_as_the_same_member() -> Result<()> {
    let world = Kubernetes::start().await?;
    let mut limited = spec(3);
    limited["podTemplate"] = json!({"spec": {"resources": {"limits": {"ephemeral-storage": "8Mi"}}}});
    world.create("demo", limited).await?;
    world.settled("demo", 3).await?;
    let (id, members) = (world.one_cluster_id("demo").await?, world.member_ids("demo").await?);
    let writer = Writer::start(&world, "demo").await?;
    let pod = world.pods().get("demo-1").await?;
    fill_log(&pod)?;
    until("another Pod has replaced it", async || {
        let now = world.pods().get_opt("demo-1").await?;
        let phase = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.clone());
        Ok(match now {
            Some(now) if now.uid() != pod.uid() => Ok(()),
            Some(now) => Err(format!("{:?}", phase(&now))),
            None => Err("no Pod".to_owned()),
        })
    })
    .await?;
    world.settled("demo", 3).await?;
    writer.stop().await?.are_all_readable(&world, "demo").await?;
    ensure!(world.one_cluster_id("demo").await? == id && world.member_ids("demo").await? == members);
    Ok(())
}

/// Writes more to a container's log, which counts as ephemeral storage of its Pod, than the Pod's limit.
fn fill_log(pod: &Pod) -> Result<()> {
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).context("not on a node")?;
    let logs = rig::folder()?.join("data").join(node).join("pod-logs");
    let uid = pod.uid().context("a Pod without a uid")?;
    let folder = find(&logs, &uid)?.join("etcd");
    let log = find(&folder, ".log")?;
    let mut log = OpenOptions::new().append(true).open(&log)?;
    let line = format!("2026-01-01T00:00:00.0Z stderr F {}\n", "x".repeat(1000));
    for _ in 0..10_000 {
        log.write_all(line.as_bytes())?;
    }
    Ok(())
}

fn find(folder: &Path, part: &str) -> Result<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("no {}", folder.display()))?;
    let mut paths = entries.flatten().map(|entry| entry.path());
    let found = paths.find(|path| path.to_string_lossy().contains(part));
    found.with_context(|| format!("nothing like {part} in {}", folder.display()))
}

/// What `kubectl` shows must include the essentials on a real Kubernetes too.
#[tokio::test(flavor = "multi_thread")]
async fn kubectl_shows_the_essentials_of_a_cluster() -> Result<()> {
    let world = Kubernetes::start().await?;
    world.create("demo", spec(1)).await?;
    world.settled("demo", 1).await?;
    let shell = world.shell()?;
    let table = shell.run("kubectl get etcd").await?;
    let line = table.lines().nth(1).context("no line")?;
    ensure!(line.starts_with("demo") && line.contains(&quorate_scenarios::version()), "{table}");
    let described = shell.run("kubectl describe etcd demo").await?;
    for words in ["Cluster ID", "Available", "demo-0", "Events:"] {
        ensure!(described.contains(words), "no {words} in:\n{described}");
    }
    let explained = shell.run("kubectl explain etcd.spec.size").await?;
    ensure!(explained.contains("hibernate") || explained.contains("member"), "{explained}");
    Ok(())
}
