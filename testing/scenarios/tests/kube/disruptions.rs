//! Disruptions that fall together: a disk hangs, a Pod is deleted or evicted, while the operator takes members for its own reasons.
//! Whatever the moment, the operator never takes the member that the quorum needs, and no acknowledged write is lost.
//!
//! Each test has one cluster and many rounds, each with another moment between the fault and the edit. The first half of them runs
//! for each commit, and all of them with `--full`.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use kube::api::{EvictParams, PostParams};
use quorate_etcd::MemberClient;
use quorate_scenarios::rig::HungDisk;
use quorate_scenarios::{Disruptions, Kubernetes, Pause, World, Writer, is_ready, spec, until};
use serde_json::{Value, json};

/// A disk that hangs, and an edit some time after it. Without any write a member whose disk hangs answers like every other; with
/// many it soon does not answer at all.
struct Hang {
    whose: Whose,
    moment: Duration,
    busy: bool,
}

/// Whose disk hangs.
#[derive(Clone, Copy, Debug)]
enum Whose {
    Leader,
    /// A rollout takes this one first.
    FirstFollower,
    /// A scale-in removes this one.
    LastFollower,
}

const SCALED: [Hang; 4] = [
    Hang { whose: Whose::FirstFollower, moment: Duration::ZERO, busy: false },
    Hang { whose: Whose::Leader, moment: Duration::from_millis(1200), busy: true },
    Hang { whose: Whose::FirstFollower, moment: Duration::ZERO, busy: true },
    Hang { whose: Whose::Leader, moment: Duration::from_secs(3), busy: false },
];

const ROLLED: [Hang; 3] = [
    Hang { whose: Whose::Leader, moment: Duration::from_millis(700), busy: false },
    Hang { whose: Whose::LastFollower, moment: Duration::from_millis(1500), busy: true },
    Hang { whose: Whose::LastFollower, moment: Duration::ZERO, busy: false },
];

/// How long a round gives the operator to do something wrong. Longer than between two of its observations of a cluster that is not
/// calm (10 s): from the edit to the end of a round a change is under way.
const WINDOW: Duration = Duration::from_secs(12);

/// Without a quorum nobody writes until the disk goes on. Elections on a busy machine take some seconds.
const LONGEST_PAUSE: Duration = Duration::from_secs(8);

#[tokio::test(flavor = "multi_thread")]
async fn s01_a_scale_in_removes_the_member_whose_disk_hangs_or_none() -> Result<()> {
    let world = Kubernetes::start().await?;
    world.create("demo", on_disks(3)).await?;
    world.settled("demo", 3).await?;
    for Hang { whose, moment, busy } in rounds(&SCALED) {
        let hung = member(&world, *whose).await?;
        let round = format!("{whose:?} {hung} hangs, edited after {moment:?}, clients write: {busy}");
        let good: Vec<(String, MemberClient)> =
            world.members("demo").await?.into_iter().filter(|(name, _)| *name != hung).collect();
        let ids = world.member_ids("demo").await?;
        let good_ids: Vec<&String> = good.iter().filter_map(|(name, _)| ids.get(name)).collect();
        let writer = writer(&world, *busy).await?;
        let disk = HungDisk::hang(&world.volume_dir(&hung).await?)?;
        tokio::time::sleep(*moment).await;
        world.scale("demo", 2).await?;
        let start = Instant::now();
        loop {
            let listed = listed(&good).await.with_context(|| round.clone())?;
            ensure!(
                good_ids.iter().all(|id| listed.contains(*id)),
                "{round}: a good member was removed; {listed:?} of {ids:?} are left"
            );
            if listed.len() == 2 || start.elapsed() > WINDOW {
                eprintln!("{round}: {} members after {:?}", listed.len(), start.elapsed());
                break;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        drop(disk);
        world.settled("demo", 2).await?;
        end(&world, writer).await.context(round)?;
        world.scale("demo", 3).await?;
        world.settled("demo", 3).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn s01_while_a_disk_hangs_status_names_it_and_neither_a_rollout_nor_a_drain_takes_a_good_member()
-> Result<()> {
    let world = Kubernetes::start().await?;
    world.create("demo", on_disks(3)).await?;
    world.settled("demo", 3).await?;
    let id = world.one_cluster_id("demo").await?;
    let disruptions = Disruptions::observe(&world, "demo");
    for (number, Hang { whose, moment, busy }) in rounds(&ROLLED).iter().enumerate() {
        let hung = member(&world, *whose).await?;
        let round = format!("{whose:?} {hung} hangs, edited after {moment:?}, clients write: {busy}");
        let writer = writer(&world, *busy).await?;
        let disk = HungDisk::hang(&world.volume_dir(&hung).await?)?;
        disruptions.hangs(&hung, true);
        tokio::time::sleep(*moment).await;
        world.patch("demo", template(number)).await?;
        let edited = Instant::now();
        let message = world.wait_for_condition("demo", "Degraded", "True").await?;
        ensure!(message.contains(&hung), "{round}: status reports {message}");
        eprintln!("{round}: {message} ({:?})", edited.elapsed());
        world.wait_for_condition("demo", "Available", "True").await?;
        refuses_evictions(&world, &hung).await.context(round.clone())?;
        while edited.elapsed() < WINDOW {
            judge(&disruptions).context(round.clone())?;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        disruptions.hangs(&hung, false);
        drop(disk);
        world.settled("demo", 3).await?;
        end(&world, writer).await.context(round)?;
        rolled(&world, number).await?;
    }
    judge(&disruptions)?;
    ensure!(world.one_cluster_id("demo").await? == id);
    Ok(())
}

/// A Pod is taken by a person or by a drain in the moment in which the operator wants another one.
#[tokio::test(flavor = "multi_thread")]
async fn s02_a_pod_that_is_deleted_or_evicted_in_the_moment_of_a_change_is_never_joined_by_another()
-> Result<()> {
    let world = Kubernetes::start().await?;
    world.create("demo", spec(3)).await?;
    world.settled("demo", 3).await?;
    let id = world.one_cluster_id("demo").await?;
    let writer = Writer::start(&world, "demo").await?;
    let disruptions = Disruptions::observe(&world, "demo");
    // Before and after the edit.
    let moments = rounds(&[0, -300, 1500, 300, -1000, 4000]);
    for (round, moment) in moments.iter().enumerate() {
        race(&world, &disruptions, Whose::LastFollower, *moment, round % 2 == 0, async || {
            world.patch("demo", template(round)).await.map(drop)
        })
        .await
        .with_context(|| format!("rollout {round}, taken {moment} ms after the edit"))?;
        all_ready(&world, 3).await?;
        eprintln!("rollout {round}, {moment} ms: {:?}", writer.lap());
    }
    world.settled("demo", 3).await?;
    rolled(&world, moments.len() - 1).await?;
    for (round, moment) in rounds(&[0, 700]).iter().enumerate() {
        for size in [4, 3] {
            race(&world, &disruptions, Whose::FirstFollower, *moment, round % 2 == 0, async || {
                world.scale("demo", size).await
            })
            .await
            .with_context(|| format!("scaled to {size}, taken {moment} ms after the edit"))?;
            world.settled("demo", size).await?;
            disruptions.forget_removed();
            eprintln!("scaled to {size}, {moment} ms: {:?}", writer.lap());
        }
    }
    judge(&disruptions)?;
    writer.stop().await?.are_all_readable(&world, "demo").await?;
    ensure!(world.one_cluster_id("demo").await? == id);
    Ok(())
}

/// The rounds of this run.
fn rounds<T>(all: &[T]) -> &[T] {
    if quorate_scenarios::is_full() { all } else { &all[..all.len().div_ceil(2)] }
}

/// Takes the Pod of this member some time after the edit, or before it, and observes what the operator takes besides.
async fn race(
    world: &Kubernetes,
    disruptions: &Disruptions,
    whose: Whose,
    moment: i64,
    evicted: bool,
    edit: impl AsyncFnOnce() -> Result<()>,
) -> Result<()> {
    let between = Duration::from_millis(moment.unsigned_abs());
    let name = member(world, whose).await?;
    let take = async || {
        let pod = world.pods().get(&name).await?;
        disruptions.own(&pod);
        if !evicted {
            return world.delete_pod(&name).await;
        }
        // Refused if the operator was first: then one is taken already.
        match world.pods().evict(&name, &EvictParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 429 => Ok(()),
            other => Ok(other.map(drop)?),
        }
    };
    if moment < 0 {
        take().await?;
        tokio::time::sleep(between).await;
        edit().await?;
    } else {
        edit().await?;
        tokio::time::sleep(between).await;
        take().await?;
    }
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(4) {
        judge(disruptions)?;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

/// Nobody took a Pod that a quorum needed.
fn judge(disruptions: &Disruptions) -> Result<()> {
    for taken in disruptions.taken() {
        ensure!(!taken.loses_quorum(), "the operator took a Pod that the quorum needed: {taken:?}");
    }
    Ok(())
}

/// Clients that have begun to write, if any.
async fn writer(world: &Kubernetes, busy: bool) -> Result<Option<Writer>> {
    if !busy {
        return Ok(None);
    }
    let writer = Writer::start(world, "demo").await?;
    Ok(Some(writer))
}

/// Nothing is lost, and there was a quorum all the time.
async fn end(world: &Kubernetes, writer: Option<Writer>) -> Result<()> {
    let Some(writer) = writer else { return Ok(()) };
    let acknowledged = writer.stop().await?;
    acknowledged.are_all_readable(world, "demo").await?;
    let Pause { length, .. } = acknowledged.figures().pause;
    ensure!(length < LONGEST_PAUSE, "nobody wrote for {length:?}");
    Ok(())
}

/// `kubectl drain` cannot evict a member whose disk is good, soon after the other one was noticed.
async fn refuses_evictions(world: &Kubernetes, hung: &str) -> Result<()> {
    for pod in world.pods_of("demo").await?.iter().map(ResourceExt::name_any).filter(|pod| pod != hung) {
        let evict = async |dry_run| {
            let post_options = PostParams { dry_run, ..PostParams::default() };
            world.pods().evict(&pod, &EvictParams { post_options, ..EvictParams::default() }).await
        };
        until("the budget admits no eviction", async || {
            Ok(if evict(true).await.is_err() { Ok(()) } else { Err(format!("that of {pod}")) })
        })
        .await?;
        let refused = evict(false).await.err().with_context(|| format!("{pod} was evicted"))?.to_string();
        ensure!(refused.contains("disruption budget"), "{refused}");
    }
    Ok(())
}

/// The ids in the member list, by a linearizable read at one of these. Waits no longer for it than an election takes.
async fn listed(members: &[(String, MemberClient)]) -> Result<BTreeSet<String>> {
    let start = Instant::now();
    loop {
        let mut last = None;
        for (_, member) in members {
            match member.member_list(true).await {
                Ok(list) => return Ok(list.members.iter().map(|member| member.id.to_string()).collect()),
                Err(error) => last = Some(error),
            }
        }
        let last = last.context("no member")?;
        ensure!(start.elapsed() < LONGEST_PAUSE, "no quorum answers for {:?}: {last}", start.elapsed());
    }
}

/// This member now. A member whose Pod the round before has just replaced may not answer yet, and is not chosen.
async fn member(world: &Kubernetes, whose: Whose) -> Result<String> {
    let mut found = None;
    until("the member is known", async || {
        let mut members = world.members("demo").await?;
        if matches!(whose, Whose::LastFollower) {
            members.reverse();
        }
        for (name, member) in members {
            let Ok(status) = member.status().await else { continue };
            if (status.leader == Some(status.member_id)) == matches!(whose, Whose::Leader) {
                found = Some(name);
                return Ok(Ok(()));
            }
        }
        Ok(Err(format!("{whose:?}: there is none")))
    })
    .await?;
    found.with_context(|| format!("{whose:?}: there is none"))
}

async fn all_ready(world: &Kubernetes, size: usize) -> Result<()> {
    until("all Pods are ready", async || {
        let ready = world.pods_of("demo").await?.iter().filter(|pod| is_ready(pod)).count();
        Ok(if ready == size { Ok(()) } else { Err(format!("{ready} of {size}")) })
    })
    .await
}

/// Every Pod has the template of this round.
async fn rolled(world: &Kubernetes, round: usize) -> Result<()> {
    for pod in world.pods_of("demo").await? {
        let annotation = pod.annotations().get("round").cloned().unwrap_or_default();
        ensure!(annotation == round.to_string(), "{} has the template of round {annotation}", pod.name_any());
    }
    Ok(())
}

fn template(round: usize) -> Value {
    json!({"spec": {"podTemplate": {"metadata": {"annotations": {"round": round.to_string()}}}}})
}

/// Each member on a disk of its own.
fn on_disks(size: usize) -> Value {
    let mut spec = spec(size);
    spec["storageSpec"] = json!({"storageClassName": "disk", "volumeSizeRequest": "384Mi"});
    spec
}
