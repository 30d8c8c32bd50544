//! Backups, and clusters that begin with the data of one.

use anyhow::{Context, Result, ensure};
use kube::api::{Patch, PatchParams};
use quorate_etcd::Read;
use serde_json::{Value, json};

use crate::backups::restored_from;
use crate::{ProcessFault, World, Writer, spec, until};

pub async fn a_backup_under_writes_is_restored_into_a_new_cluster_with_every_write_up_to_its_revision(
    world: &impl World,
) -> Result<()> {
    let store = world.claim_for_backups("backups").await?;
    world.create("demo", spec(3)).await?;
    world.settled("demo", 3).await?;
    let id = world.one_cluster_id("demo").await?;
    let writer = Writer::start(world, "demo").await?;

    world.back_up("first", "demo", &store).await?;
    let status = world.is_backed_up("first").await?;
    println!("backed up under writes: {status}");
    let revision = revision(&status)?;
    let acknowledged = writer.stop().await?;
    ensure!(acknowledged.figures().failed == 0, "{}", acknowledged.figures());
    acknowledged.are_all_readable(world, "demo").await?;

    world.wreck("demo").await?;
    let mut again = restored_from(3, "first");
    again["deletion"] = json!({"finalBackup": {"destination": &store}});
    world.create("again", again).await?;
    world.settled("again", 3).await?;
    acknowledged.are_readable_as_of(world, "again", revision).await?;
    let restored = world.one_cluster_id("again").await?;
    ensure!(restored != id, "the restored cluster has the id of the old one, so an old member could join it");
    for (name, member) in world.members("again").await? {
        let now = member.status().await?.revision;
        ensure!(
            now.0 >= revision + 1_000_000_000,
            "{name} is at {now}: clients of {revision} notice nothing"
        );
    }
    // It is a cluster like any other: it takes writes, shrinks, and replaces nothing of what it was restored from. It has grown: two of
    // three joined the one that was restored from the claim.
    let writer = Writer::start(world, "again").await?;
    world.scale("again", 1).await?;
    world.settled("again", 1).await?;
    writer.stop().await?.are_all_readable(world, "again").await?;

    // Its end leaves a backup with everything up to there.
    let uid = world.clusters().get("again").await?.metadata.uid.context("it has a uid")?;
    let (_, member) = world.members("again").await?.into_iter().next().context("it has members")?;
    let last = member.status().await?.revision;
    world.delete("again").await?;
    let status = world.is_backed_up(&format!("final-{uid}")).await?;
    ensure!(self::revision(&status)? >= last.0, "{status} lacks what was written before {last}");
    Ok(())
}

pub async fn a_lost_cluster_is_restored_under_its_own_name_and_pods_that_die_meanwhile_restore_again(
    world: &impl World,
) -> Result<()> {
    let store = world.claim_for_backups("backups").await?;
    world.create("demo", spec(3)).await?;
    world.settled("demo", 3).await?;
    let writer = Writer::start(world, "demo").await?;
    world.back_up("first", "demo", &store).await?;
    let revision = revision(&world.is_backed_up("first").await?)?;
    let acknowledged = writer.stop().await?;

    world.wreck("demo").await?;
    world.create("demo", restored_from(3, "first")).await?;
    until("a Pod is there", async || {
        Ok(if world.pods_of("demo").await?.is_empty() { Err(String::new()) } else { Ok(()) })
    })
    .await?;
    world.kill_operator().await?;
    // The one that restores: from a claim, the others join it.
    world.delete_pod("demo-0").await?;
    world.settled("demo", 3).await?;
    world.one_cluster_id("demo").await?;
    acknowledged.are_readable_as_of(world, "demo", revision).await
}

pub async fn o03_in_place_from_a_claim_of_one_node_members_are_on_three_though_the_operator_is_killed(
    world: &impl World,
) -> Result<()> {
    let store = world.claim_for_backups("backups").await?;
    let mut roomy = spec(3);
    roomy["storageSpec"]["volumeSizeRequest"] = json!("512Mi");
    world.create("demo", roomy).await?;
    world.settled("demo", 3).await?;
    let old = world.one_cluster_id("demo").await?;
    let writer = Writer::start(world, "demo").await?;
    let acknowledged = writer.stop().await?;
    // Its time comes once in four years; what is taken is ordered.
    let template = json!({"spec": {"source": {"cluster": "demo"}, "destination": store}});
    let times = json!({"schedule": "0 0 29 2 *", "immediate": true, "backupTemplate": template});
    world.schedule("rarely", times).await?;
    let backup = world.one_backup().await?;
    let revision = revision(&world.is_backed_up(&backup).await?)?;
    let (_, member) = world.members("demo").await?.pop().context("a member answers")?;
    member.put("after-the-snapshot", "to be given up").await?;

    // An order of before, or a wrong one, changes nothing.
    world.restore_in_place("wrong", "demo", "bad", &backup).await?;
    let failed = world.restore_is("wrong", "Failed").await?;
    ensure!(failed.to_string().contains("ClusterIDMismatch"), "{failed}");
    world.settled("demo", 3).await?;
    ensure!(world.one_cluster_id("demo").await? == old, "a wrong order was carried out");

    world.restore_in_place("back", "demo", &old, &backup).await?;
    world.restore_is("back", "Running").await?;
    world.kill_operator().await?;
    until("a new member has a Pod", async || {
        let pods = world.pods_of("demo").await?;
        let names: Vec<_> = pods.into_iter().filter_map(|pod| pod.metadata.name).collect();
        Ok(if names.iter().any(|name| name == "demo-3") { Ok(()) } else { Err(format!("{names:?}")) })
    })
    .await?;
    let left: Vec<_> = world.pods_of("demo").await?.into_iter().filter_map(|pod| pod.metadata.name).collect();
    ensure!(!left.iter().any(|pod| ["demo-0", "demo-1", "demo-2"].contains(&pod.as_str())), "{left:?}");
    world.kill_operator().await?;

    let status = world.restore_is("back", "Complete").await?;
    println!("restored in place: {status}");
    // What was given up is in the store.
    let before = status["backupBefore"]["name"].as_str().context("it was backed up before")?;
    let before = world.is_backed_up(before).await?["result"].clone();
    ensure!(before["clusterID"] == json!(old) && before["revision"].as_i64() > Some(revision), "{before}");
    world.settled("demo", 3).await?;
    let new = world.one_cluster_id("demo").await?;
    ensure!(status["oldClusterID"] == json!(old) && status["newClusterID"] == json!(new), "{status}");
    ensure!(new != old, "an old member could join it");
    ensure!(status["quarantinedVolumes"] == json!(["demo-0", "demo-1", "demo-2"]), "{status}");
    for volume in world.volumes_of("demo").await? {
        let name = volume.metadata.name.clone().unwrap_or_default();
        let is_quarantined =
            volume.metadata.labels.is_some_and(|all| all.contains_key("operator.etcd.io/quarantined"));
        let is_old = ["demo-0", "demo-1", "demo-2"].contains(&name.as_str());
        ensure!(is_quarantined == is_old, "{name}: quarantined: {is_quarantined}");
    }
    // One was restored where the claim can be mounted, and the others joined it elsewhere.
    let nodes = world.nodes_of("demo").await?;
    ensure!(nodes.len() == 3, "the members are on {nodes:?}");
    acknowledged.are_readable_as_of(world, "demo", revision).await?;
    for (name, member) in world.members("demo").await? {
        let given_up = member.get("after-the-snapshot", Read::Linearizable).await?;
        ensure!(given_up.is_none(), "{name} has a write that the snapshot has not");
        let now = member.status().await?.revision;
        ensure!(
            now.0 >= revision + 1_000_000_000,
            "{name} is at {now}: clients of {revision} notice nothing"
        );
    }
    // The same order from a repository, once more.
    world.restore_in_place("again", "demo", &old, &backup).await?;
    world.restore_is("again", "Failed").await?;
    // It is a cluster like any other. That it grows was seen: two of three joined the one that was restored.
    let writer = Writer::start(world, "demo").await?;
    let backup = world.back_up_now("rarely", "after-the-restore").await?;
    let status = world.is_backed_up(&backup).await?;
    ensure!(status["clusterID"] == json!(new), "{status}");
    world.wait_for_condition("demo", "BackupHealthy", "True").await?;
    writer.stop().await?.are_all_readable(world, "demo").await
}

pub async fn a_backup_that_cannot_be_made_says_why_and_leaves_nothing_that_looks_whole(
    world: &impl World,
) -> Result<()> {
    let store = world.claim_for_backups("backups").await?;
    world.back_up("nobody", "nobody", &store).await?;
    let reported = |text: &'static str, name: &'static str| async move {
        until(&format!("{name} says {text:?}"), async || {
            let status = world.backup_status(name).await?.to_string();
            Ok(if status.contains(text) { Ok(()) } else { Err(status) })
        })
        .await
    };
    reported("nobody", "nobody").await?;
    world.create("demo", spec(3)).await?;
    world.settled("demo", 3).await?;
    world.back_up("lost", "demo", &json!({"pvc": {"claimName": "no-such-claim"}})).await?;
    reported("no-such-claim", "lost").await?;
    // Neither holds up the next one.
    world.delete_backup("lost").await?;
    world.back_up("good", "demo", &store).await?;
    world.is_backed_up("good").await?;
    world.delete_backup("nobody").await
}

pub async fn without_a_quorum_a_backup_waits_unless_it_is_ordered_from_what_one_member_has(
    world: &impl World,
) -> Result<()> {
    let store = world.claim_for_backups("backups").await?;
    world.create("demo", spec(3)).await?;
    world.settled("demo", 3).await?;
    let writer = Writer::start(world, "demo").await?;
    let acknowledged = writer.stop().await?;
    for pod in ["demo-0", "demo-1"] {
        world.signal_etcd(pod, ProcessFault::Pause).await?;
    }
    world.wait_for_condition("demo", "QuorumAvailable", "False").await?;
    world
        .back_up_with(
            "remains",
            json!({"source": {"cluster": "demo"}, "destination": store, "withoutQuorum": true}),
        )
        .await?;
    let status = world.is_backed_up("remains").await;
    for pod in ["demo-0", "demo-1"] {
        world.signal_etcd(pod, ProcessFault::Resume).await?;
    }
    let status = status?;
    ensure!(status.to_string().contains("withoutQuorum"), "it is not labelled: {status}");
    world.settled("demo", 3).await?;
    acknowledged.are_all_readable(world, "demo").await
}

pub async fn a_cluster_reports_whether_its_schedules_back_it_up(world: &impl World) -> Result<()> {
    let store = world.claim_for_backups("backups").await?;
    world.create("demo", spec(1)).await?;
    world.settled("demo", 1).await?;
    let template = json!({"spec": {"source": {"cluster": "demo"}, "destination": store}});
    // Its time comes once in four years.
    world.schedule("rarely", json!({"schedule": "0 0 29 2 *", "backupTemplate": template})).await?;
    let early = world.wait_for_condition("demo", "BackupHealthy", "Unknown").await?;
    ensure!(early.contains("EtcdBackupSchedule rarely"), "{early}");
    let suspend = Patch::Merge(json!({"spec": {"suspend": true}}));
    world.schedules().patch("rarely", &PatchParams::default(), &suspend).await?;
    at_once(world, 1).await?;
    let suspended = world.wait_for_condition("demo", "BackupHealthy", "False").await?;
    ensure!(suspended.contains("EtcdBackupSchedule rarely is suspended"), "{suspended}");
    world.delete_schedule("rarely").await?;
    at_once(world, 2).await?;
    until("no schedule, no condition", async || {
        let status = world.status("demo").await?;
        let left = status["conditions"].to_string().contains("BackupHealthy");
        Ok(if left { Err(status["conditions"].to_string()) } else { Ok(()) })
    })
    .await
}

/// A pass of a calm cluster, which looks at its schedules every 30 s otherwise, as it did before.
async fn at_once(world: &impl World, time: u8) -> Result<()> {
    let edit = json!({"metadata": {"annotations": {"example.com/edited": time.to_string()}}});
    world.patch("demo", edit).await.map(drop)
}

fn revision(status: &Value) -> Result<i64> {
    status["result"]["revision"].as_i64().with_context(|| format!("no revision in {status}"))
}
