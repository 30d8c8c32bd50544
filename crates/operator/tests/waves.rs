//! An operator with another image of the agent: its clusters take it one after another, and none more while one of them does not get
//! ready. The clock is paused, connections are in memory, and the members are modelled.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::world::{Operator, RequestOutcome, Running, World, plain, until};
use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use quorate_api::{EtcdCluster, keys};
use quorate_manifests::record::witness;
use serde_json::json;

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// The revision that each cluster has committed; fails where more than one takes new defaults at a time.
async fn revisions(world: &World) -> Result<BTreeMap<String, String>> {
    revisions_but_for(world, None).await
}

async fn revisions_but_for(world: &World, parked: Option<&str>) -> Result<BTreeMap<String, String>> {
    let clusters = world.api::<EtcdCluster>().list(&ListParams::default()).await?;
    // One that is parked has no place.
    let is_parked = |one: &EtcdCluster| one.metadata.name.as_deref() == parked;
    let takes = |one: &&EtcdCluster| {
        !is_parked(one) && one.status.as_ref().is_some_and(|status| status.takes_defaults.is_some())
    };
    ensure!(clusters.iter().filter(takes).count() <= 1, "two at a time");
    let revision = |one: &EtcdCluster| {
        let target = one.status.as_ref()?.target.as_ref()?;
        Some((one.metadata.name.clone()?, target.pod.revision.clone()))
    };
    Ok(clusters.iter().filter_map(revision).collect())
}

impl World {
    async fn pods_by_uid(&self) -> Result<BTreeSet<String>> {
        let pods = self.api::<Pod>().list(&ListParams::default()).await?;
        Ok(pods.into_iter().filter_map(|pod| pod.metadata.uid).collect())
    }
}

/// How often each reason of `UpToDate` is there, and one of the messages of those that wait.
async fn up_to_date(world: &World) -> Result<(BTreeMap<String, usize>, String)> {
    let (mut reasons, mut message) = (BTreeMap::<String, usize>::new(), String::new());
    for cluster in world.api::<EtcdCluster>().list(&ListParams::default()).await? {
        let conditions = cluster.status.unwrap_or_default().conditions;
        let Some(one) = conditions.into_iter().find(|one| one.type_ == "UpToDate") else { continue };
        if one.reason == "WaitingForWave" {
            message = one.message;
        }
        *reasons.entry(one.reason).or_default() += 1;
    }
    Ok((reasons, message))
}

async fn all_are_up_to_date(world: &World) -> Result<()> {
    until("all are up to date", async || {
        revisions(world).await?;
        let (reasons, _) = up_to_date(world).await?;
        let done = reasons.get("Reconciled") == Some(&NAMES.len());
        Ok(if done { Ok(()) } else { Err(format!("{reasons:?}")) })
    })
    .await
}

/// Four clusters that an operator has created, and that are well.
struct Fleet {
    world: World,
    first: Operator,
    /// The revision of each.
    before: BTreeMap<String, String>,
    _kubelet: Running,
}

impl Fleet {
    async fn new() -> Result<Self> {
        let world = World::new().await?;
        let kubelet = world.kubelet();
        let first = world.operator();
        for name in NAMES {
            world.create_cluster_named(name, plain(1)).await?;
        }
        all_are_up_to_date(&world).await?;
        let before = revisions(&world).await?;
        Ok(Self { world, first, before, _kubelet: kubelet })
    }
}

/// An operator with another image of the agent, which one cluster takes at a time.
fn with_another_image(world: &World) -> Operator {
    let client = world.client_through(|_| RequestOutcome::Open);
    world.operator_over(client, |options| {
        "quorate:next".clone_into(&mut options.defaults.agent_image);
        options.max_rolling = "1".parse().expect("a limit");
    })
}

#[tokio::test(start_paused = true)]
async fn new_defaults_reach_one_cluster_after_another_and_stop_at_one_that_does_not_get_ready() -> Result<()>
{
    let Fleet { world, first, before, _kubelet } = Box::pin(Fleet::new()).await?;
    first.stop().await?;

    for name in NAMES {
        world.members.nodes().faults.slow.insert(format!("{name}-0"));
    }
    let _second = with_another_image(&world);
    // Longer than a cluster may be degraded, and a look of those that wait.
    tokio::time::sleep(Duration::from_secs(300)).await;
    let after = revisions(&world).await?;
    let changed = NAMES.iter().filter(|name| before[**name] != after[**name]).count();
    ensure!(changed == 1, "{changed} took the new defaults");
    let (reasons, message) = up_to_date(&world).await?;
    ensure!(reasons.get("WaitingForWave") == Some(&3), "{reasons:?}");
    ensure!(message.contains("does not get ready"), "{message}");

    world.members.end_lasting_faults();
    all_are_up_to_date(&world).await?;
    let after = revisions(&world).await?;
    ensure!(NAMES.iter().all(|name| before[*name] != after[*name]), "all have them: {after:?}");
    Ok(())
}

/// The reasons of `Progressing`, with how many clusters give each.
async fn progressing(world: &World) -> Result<BTreeMap<String, usize>> {
    let mut reasons = BTreeMap::<String, usize>::new();
    for cluster in world.api::<EtcdCluster>().list(&ListParams::default()).await? {
        let conditions = cluster.status.unwrap_or_default().conditions;
        let reason = conditions.into_iter().find(|one| one.type_ == "Progressing").map(|one| one.reason);
        *reasons.entry(reason.unwrap_or_default()).or_default() += 1;
    }
    Ok(reasons)
}

#[tokio::test(start_paused = true)]
async fn m07_clusters_whose_turn_the_definition_cannot_record_take_no_new_defaults_and_report_it()
-> Result<()> {
    let Fleet { world, first, before, _kubelet } = Box::pin(Fleet::new()).await?;
    first.stop().await?;

    let pods = world.pods_by_uid().await?;
    world.definition_lacks(&["takesDefaults"])?;
    let _second = with_another_image(&world);
    tokio::time::sleep(Duration::from_secs(130)).await;
    let reasons = progressing(&world).await?;
    let told = |reason: &str| reasons.get(reason).copied().unwrap_or(0);
    ensure!(
        told("RecordIncomplete") > 0 && told("RecordIncomplete") + told("WaitingForWave") == NAMES.len(),
        "{reasons:?}"
    );
    let written = || world.sent.all().iter().filter(|sent| sent.writes()).count();
    let earlier = written();
    tokio::time::sleep(Duration::from_secs(600)).await;
    let writes = written() - earlier;
    ensure!(writes <= 2 * NAMES.len(), "{writes} writes in ten minutes");
    ensure!(world.pods_by_uid().await? == pods, "no Pod is restarted by a record that is not whole");

    world.definition_lacks(&[])?;
    // A person confirms each record, with the hash in the message.
    for cluster in world.api::<EtcdCluster>().list(&ListParams::default()).await? {
        let name = cluster.metadata.name.clone().unwrap_or_default();
        let confirmation = [(keys::CONFIRM_RECORD, witness::hash(&cluster.status.unwrap_or_default()))];
        let patch = Patch::Merge(json!({ "metadata": { "annotations": BTreeMap::from(confirmation) } }));
        world.api::<EtcdCluster>().patch(&name, &PatchParams::default(), &patch).await?;
    }
    tokio::time::sleep(Duration::from_secs(1200)).await;
    all_are_up_to_date(&world).await?;
    let after = revisions(&world).await?;
    ensure!(NAMES.iter().all(|name| before[*name] != after[*name]), "all have them: {after:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn m06_a_cluster_that_is_sick_before_its_turn_takes_none_and_keeps_no_other_cluster_waiting()
-> Result<()> {
    let Fleet { world, first, before, _kubelet } = Box::pin(Fleet::new()).await?;
    // The first one by its name: in the order of names its turn would be the first.
    world.members.nodes().faults.slow.insert("a-0".to_owned());
    world.delete::<Pod>("a-0").await?;
    until("a is degraded", async || {
        let conditions = world.api::<EtcdCluster>().get("a").await?.status.unwrap_or_default().conditions;
        let is = conditions.iter().any(|one| one.type_ == "Degraded" && one.status == "True");
        Ok(if is { Ok(()) } else { Err("it is not".to_owned()) })
    })
    .await?;
    first.stop().await?;

    let _second = with_another_image(&world);
    let well = &NAMES[1..];
    until("all others have the new defaults", async || {
        let now = revisions(&world).await?;
        let (reasons, _) = up_to_date(&world).await?;
        let done =
            well.iter().all(|name| now[*name] != before[*name]) && reasons.get("Reconciled") == Some(&3);
        Ok(if done { Ok(()) } else { Err(format!("{reasons:?}")) })
    })
    .await?;
    ensure!(revisions(&world).await?["a"] == before["a"], "it was passed over");
    let (reasons, message) = up_to_date(&world).await?;
    ensure!(
        reasons.get("WaitingForWave") == Some(&1) && message.contains("pass this EtcdCluster over"),
        "{reasons:?}: {message}"
    );

    world.members.end_lasting_faults();
    all_are_up_to_date(&world).await?;
    ensure!(revisions(&world).await?["a"] != before["a"], "it takes them once it is well");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn l07_a_cluster_whose_members_cannot_be_restarted_gives_its_place_to_the_others() -> Result<()> {
    let Fleet { world, first, before, _kubelet } = Box::pin(Fleet::new()).await?;
    first.stop().await?;
    // Somebody else's budget for the same Pods: the API server refuses each eviction. The cluster stays healthy.
    let budget: PodDisruptionBudget = serde_json::from_value(json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "everybody" },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app.kubernetes.io/instance": "a" } } },
    }))?;
    world.api::<PodDisruptionBudget>().create(&PostParams::default(), &budget).await?;

    let _second = with_another_image(&world);
    // One cluster after another, and ten minutes for the one that cannot.
    tokio::time::sleep(Duration::from_mins(20)).await;
    until("all others have the new defaults", async || {
        let now = revisions_but_for(&world, Some("a")).await?;
        let (reasons, _) = up_to_date(&world).await?;
        let done = NAMES[1..].iter().all(|name| now[*name] != before[*name])
            && now["a"] != before["a"]
            && reasons.get("Reconciled") == Some(&3);
        Ok(if done { Ok(()) } else { Err(format!("{reasons:?}")) })
    })
    .await?;
    let (_, message) = up_to_date(&world).await?;
    ensure!(message.contains("other clusters do not wait for this one"), "{message}");

    world.delete::<PodDisruptionBudget>("everybody").await?;
    all_are_up_to_date(&world).await
}
