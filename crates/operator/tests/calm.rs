//! What looks at a calm cluster cost, and how soon they notice what nothing in Kubernetes tells. The clock is paused, and every call
//! to the modelled members is counted.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::world::members::CallOutcome;
use crate::world::requests::RequestOutcome;
use crate::world::{World, plain, scale, settled, until};
use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use quorate_etcd::Transport;
use quorate_model::PeerUrl;
use quorate_sim::world::faults::Fault;
use tokio::time::Instant;

/// The longest interval of calm looks, and the deadline of a call.
const NOTICED_WITHIN: Duration = Duration::from_secs(35);

/// The calls so far, by method.
#[derive(Clone, Default)]
struct Calls(Arc<Mutex<BTreeMap<&'static str, usize>>>);

impl Calls {
    /// Counts from now on.
    fn to(world: &World) -> Self {
        let calls = Self::default();
        let counted = calls.clone();
        world.members.decide_calls(move |call| {
            *counted.lock().entry(call.method).or_default() += 1;
            CallOutcome::Done
        });
        calls
    }

    fn so_far(&self) -> BTreeMap<&'static str, usize> {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<&'static str, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A cluster of three to which nothing has happened for ten minutes, and the moment is just after a look.
async fn calm(world: &World) -> Result<Calls> {
    world.create_cluster(plain(3)).await?;
    settled(world, 3).await?;
    tokio::time::sleep(Duration::from_mins(10)).await;
    let calls = Calls::to(world);
    let looked = |calls: &Calls| calls.so_far().get("Status").copied().unwrap_or_default();
    let before = looked(&calls);
    while looked(&calls) == before {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    Ok(Calls::to(world))
}

/// How long it takes until a condition has a message that contains this.
async fn noticed(world: &World, type_: &str, words: &str) -> Result<Duration> {
    let began = Instant::now();
    until(&format!("{type_} has {words}"), async || {
        let conditions = world.status().await?.conditions;
        let told = conditions.iter().any(|one| one.type_ == type_ && one.message.contains(words));
        Ok(if told { Ok(()) } else { Err(format!("{conditions:#?}")) })
    })
    .await?;
    Ok(began.elapsed())
}

#[tokio::test(start_paused = true)]
async fn m02_a_volume_that_others_fill_is_reported_within_two_looks_after_five_minutes_and_once() -> Result<()>
{
    let world = World::new().await?;
    let _kubelet = world.kubelet();
    let _operator = world.operator();
    calm(&world).await?;
    let free = |mib: u64| world.members.free_space("demo-1", mib << 20, 1946 << 20);
    free(200);
    tokio::time::sleep(Duration::from_mins(5)).await;
    let late =
        noticed(&world, "Available", "Little is free on the volume of demo-1 (less than 256Mi of 2Gi)")
            .await?;
    ensure!(late < NOTICED_WITHIN * 2, "{late:?}");
    let version = world.kube.store().version();
    for mib in (130..200).rev() {
        free(mib);
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
    ensure!(world.kube.store().version() == version, "status changed with the number");
    free(127);
    let late = noticed(&world, "Available", "less than 128Mi").await?;
    ensure!(late < Duration::from_secs(12), "looks are closer: {late:?}");
    free(1000);
    until("there is room again", async || {
        let conditions = world.status().await?.conditions;
        let told = conditions.iter().any(|one| one.message.contains("Little is free"));
        Ok(if told { Err(format!("{conditions:#?}")) } else { Ok(()) })
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn m02_the_agents_of_an_idle_cluster_are_asked_for_free_space_every_five_minutes() -> Result<()> {
    let world = World::new().await?;
    let _kubelet = world.kubelet();
    let _operator = world.operator();
    for member in ["demo-0", "demo-1", "demo-2"] {
        world.members.free_space(member, 1000 << 20, 1946 << 20);
    }
    calm(&world).await?;
    let before = world.members.asked_for_free_space();
    tokio::time::sleep(Duration::from_mins(10)).await;
    let asked = world.members.asked_for_free_space() - before;
    ensure!((3..=6).contains(&asked), "{asked} requests");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_idle_cluster_of_a_small_fleet_costs_at_most_8_5_calls_per_member_and_minute() -> Result<()> {
    let world = World::new().await?;
    let _kubelet = world.kubelet();
    let _operator = world.operator();
    let calls = calm(&world).await?;
    let version = world.kube.store().version();
    tokio::time::sleep(Duration::from_mins(10)).await;
    ensure!(world.kube.store().version() == version, "nothing is written");
    tokio::time::sleep(Duration::from_mins(50)).await;
    let calls = calls.so_far();
    let count = |method| calls.get(method).copied().unwrap_or_default();
    let total: usize = calls.values().sum();
    ensure!(total <= 1530, "{calls:?}: more than 8.5 per member and minute");
    // A few looks follow at once, where the list is due in the middle of a proof.
    ensure!((1280..=1460).contains(&count("Status")), "one look every eight seconds: {calls:?}");
    ensure!(
        (20..=30).contains(&count("AlarmList")),
        "two entries every five minutes or a little more: {calls:?}"
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_member_that_another_hand_adds_is_noticed_at_the_next_calm_look() -> Result<()> {
    let world = World::new().await?;
    let _kubelet = world.kubelet();
    let _operator = world.operator();
    calm(&world).await?;
    let leader = world.members.leader().context("a leader")?;
    {
        let mut nodes = world.members.nodes();
        let at = nodes.etcd.processes().find(|(_, process)| process.launch.name == leader);
        let at = at.map(|(at, _)| at.to_owned()).context("its process")?;
        nodes.now = world.clock.now();
        let now = nodes.now;
        let added = nodes.etcd.add_learner(&at, &PeerUrl::new("http://stranger:2380"), now);
        ensure!(added.is_ok(), "{added:?}");
    }
    let took = noticed(&world, "Progressing", "stranger").await?;
    ensure!(took <= NOTICED_WITHIN, "{took:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_alarm_is_noticed_at_the_next_calm_look() -> Result<()> {
    let world = World::new().await?;
    let _kubelet = world.kubelet();
    let _operator = world.operator();
    calm(&world).await?;
    ensure!(world.condition("Available", "True").await?.is_some(), "it is available");
    ensure!(world.members.strike(&Fault::Alarm("demo-1".to_owned())), "there is no such member");
    let took = noticed(&world, "Available", "NOSPACE").await?;
    ensure!(took <= NOTICED_WITHIN, "{took:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_deleted_is_noticed_at_once() -> Result<()> {
    let world = World::new().await?;
    let kubelet = world.kubelet();
    let _operator = world.operator();
    let calls = calm(&world).await?;
    drop(kubelet);
    world.delete::<Pod>("demo-1").await?;
    let took = noticed(&world, "Degraded", "demo-1").await?;
    ensure!(took <= Duration::from_secs(3), "{took:?}");
    ensure!(calls.so_far().contains_key("MemberList"), "it reads the list again: {:?}", calls.so_far());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_cluster_stays_available_while_it_is_calm_and_while_one_call_fails() -> Result<()> {
    let world = World::new().await?;
    let _kubelet = world.kubelet();
    let _operator = world.operator();
    calm(&world).await?;
    let since = |conditions: Vec<k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition>| {
        let available = conditions.into_iter().find(|one| one.type_ == "Available" && one.status == "True");
        available.map(|one| one.last_transition_time)
    };
    let before = since(world.status().await?.conditions).context("it is available")?;
    // In almost every look one call fails, now to this member and now to that one, and sometimes that for the list.
    let mut count = 0_usize;
    world.members.decide_calls(move |_| {
        count += 1;
        if count.is_multiple_of(5) { CallOutcome::NotSent } else { CallOutcome::Done }
    });
    for _ in 0..60 {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let conditions = world.status().await?.conditions;
        ensure!(since(conditions.clone()).as_ref() == Some(&before), "{conditions:#?}");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn r09_r18_whatever_is_done_to_a_calm_cluster_rests_on_a_list_and_a_proof_of_its_own_pass() -> Result<()>
{
    let world = World::new().await?;
    let _kubelet = world.kubelet();
    let _operator = world.operator();
    calm(&world).await?;
    let sent = Arc::new(Mutex::new(Vec::new()));
    let log = sent.clone();
    world.members.decide_calls(move |call| {
        log.lock().unwrap_or_else(PoisonError::into_inner).push(call.method);
        CallOutcome::Done
    });
    scale(&world, 2).await?;
    settled(&world, 2).await?;
    let sent = sent.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let removed = sent.iter().position(|method| *method == "MemberRemove").context("one is removed")?;
    let before = sent.get(..removed).unwrap_or_default();
    let count = |method| before.iter().filter(|sent| **sent == method).count();
    ensure!(count("MemberList") >= 1 && count("AlarmList") >= 2, "{before:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_quorum_that_is_lost_without_an_event_is_reported_when_the_doubt_ends() -> Result<()> {
    let world = World::new().await?;
    let _kubelet = world.kubelet();
    let _operator = world.operator();
    calm(&world).await?;
    // Members answer for themselves, and no read or entry comes about.
    world.members.decide_calls(|call| match call.method {
        "Status" => CallOutcome::Done,
        _ => CallOutcome::NotSent,
    });
    // The next look that needs the list is one whose proof is due, or whose index has moved: an edit makes one.
    world.members.strike(&Fault::Alarm("demo-1".to_owned()));
    let began = Instant::now();
    until("QuorumAvailable is False", async || {
        let lost = world.condition("QuorumAvailable", "False").await?;
        Ok(if lost.is_some() { Ok(()) } else { Err("not yet".to_owned()) })
    })
    .await?;
    let took = began.elapsed();
    // A calm look, 15 s of doubt, and a second until the pass after that.
    ensure!(took <= Duration::from_secs(33 + 15 + 2), "{took:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn where_no_connection_is_kept_each_look_of_a_calm_cluster_makes_its_own_and_is_the_same_look()
-> Result<()> {
    let world = World::new().await?;
    let _kubelet = world.kubelet();
    let dials = Arc::new(Mutex::new(0_usize));
    let (members, counted) = (world.members.transport(), dials.clone());
    let transport = Transport::instead(move |address: SocketAddr| {
        if address.port() == 2379 {
            *counted.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        }
        let members = members.clone();
        async move { members.dial(address).await }
    });
    let client = world.client_through(|_| RequestOutcome::Open);
    let _operator = world.operator_over(client, |options| {
        options.transport = transport;
        options.kept_connections = 2;
    });
    let so_far = || *dials.lock().unwrap_or_else(PoisonError::into_inner);
    let calls = calm(&world).await?;
    let (before, version) = (so_far(), world.kube.store().version());
    tokio::time::sleep(Duration::from_mins(10)).await;
    ensure!(world.kube.store().version() == version, "nothing is written");
    tokio::time::sleep(Duration::from_mins(50)).await;
    let (made, calls) = (so_far() - before, calls.so_far());
    ensure!(
        (430..=470).contains(&made),
        "one of three members is connected to in each look, and not {made} times"
    );
    let total: usize = calls.values().sum();
    ensure!(total <= 1530, "{calls:?} in {made} looks");
    // What is done then is done over connections that are made for it.
    scale(&world, 2).await?;
    settled(&world, 2).await
}
