//! Random histories: a few edits, and random failures of requests to the API server and calls to etcd. Every history must
//! reach the goal. A failure names its seed; `QUORATE_SEED` runs that seed alone.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::world::members::CallOutcome;
use crate::world::{RequestOutcome, World, plain, scale, until};
use anyhow::{Context as _, Result};
use quorate_sim::world::faults::Fault;
use tonic::Code;

/// The number of histories in each of the two tests, which run in parallel.
const SEEDS: u64 = 10;

/// Pseudo-random numbers, the same for the same seed (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::try_from(self.below(of.len() as u64)).expect("a few")]
    }
}

const REQUESTS: [RequestOutcome; 9] = [
    RequestOutcome::ReplyLost,
    RequestOutcome::NotSent,
    RequestOutcome::Slow(Duration::from_secs(2)),
    RequestOutcome::Late(Duration::from_secs(7)),
    RequestOutcome::Twice,
    RequestOutcome::Refused(409, "Conflict"),
    RequestOutcome::Refused(429, "TooManyRequests"),
    RequestOutcome::Refused(500, "InternalError"),
    RequestOutcome::RefusedAfter(504, "Timeout"),
];

const CALLS: [CallOutcome; 8] = [
    CallOutcome::ReplyLost,
    CallOutcome::NotSent,
    CallOutcome::Never,
    CallOutcome::Slow(Duration::from_secs(1)),
    CallOutcome::Late(Duration::from_secs(4)),
    CallOutcome::Twice,
    CallOutcome::Refused(Code::Unavailable, "etcdserver: unhealthy cluster"),
    CallOutcome::RefusedAfter(Code::Unavailable, "etcdserver: leader changed"),
];

/// Runs the history of this seed.
async fn history(seed: u64) -> Result<()> {
    let world = World::new().await?;
    let _kubelet = world.kubelet();
    let mut random = Random(seed);
    let (mut calls, requests) = (Random(seed ^ 0xca11), Arc::new(Mutex::new(Some(Random(seed ^ 0xa91)))));
    world
        .members
        .decide_calls(move |_| if calls.below(8) == 0 { calls.one(&CALLS) } else { CallOutcome::Done });
    let drawn = requests.clone();
    let client = world.client_through(move |sent| {
        let mut drawn = drawn.lock().expect("not poisoned");
        let Some(random) = drawn.as_mut().filter(|_| sent.writes()) else { return RequestOutcome::Open };
        if random.below(5) == 0 { random.one(&REQUESTS) } else { RequestOutcome::Open }
    });
    let mut operator = world.operator_over(client.clone(), |_| {});
    world.create_cluster(plain(random.one(&[1, 2, 3]))).await?;
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(random.below(30_000))).await;
        match random.below(6) {
            0 => drop(std::mem::replace(&mut operator, world.operator_over(client.clone(), |_| {}))),
            1 => world.sent.cut_watches(),
            2 => drop(world.members.strike(&Fault::KillPod(format!("demo-{}", random.below(4))))),
            _ => scale(&world, random.one(&[0, 1, 2, 3, 4])).await?,
        }
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    *requests.lock().expect("not poisoned") = None;
    world.members.heal();
    until("the goal is reached", async || Ok(world.members.goal())).await?;
    // Requests that were delayed arrive now.
    tokio::time::sleep(Duration::from_secs(70)).await;
    until("the goal is still reached", async || Ok(world.members.goal())).await?;
    world.is_at_rest().await
}

async fn histories(of: impl Iterator<Item = u64>) -> Result<()> {
    let only: Option<u64> = std::env::var("QUORATE_SEED").ok().and_then(|seed| seed.parse().ok());
    for seed in of.filter(|seed| only.is_none_or(|only| *seed == only)) {
        Box::pin(history(seed)).await.with_context(|| format!("QUORATE_SEED={seed}"))?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn every_history_with_an_even_seed_reaches_the_goal() -> Result<()> {
    histories((0..SEEDS).map(|seed| 2 * seed)).await
}

#[tokio::test(start_paused = true)]
async fn every_history_with_an_odd_seed_reaches_the_goal() -> Result<()> {
    histories((0..SEEDS).map(|seed| 2 * seed + 1)).await
}
