//! Histories by lot: a few edits, and whatever may happen to a request on its way. All of them end alike. A seed that
//! fails says so; `QUORATE_SEED` tells that one alone.

mod world;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context as _, Result};
use quorate_sim::world::faults::Fault;
use tonic::Code;
use world::members::Answer;
use world::{Gate, World, plain, scale, until};

/// How many histories, and in how many tests they are told: two cores share them.
const SEEDS: u64 = 10;

/// Numbers by lot, the same for the same seed (SplitMix64).
struct Lot(u64);

impl Lot {
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

const REQUESTS: [Gate; 9] = [
    Gate::ReplyLost,
    Gate::NotSent,
    Gate::Slow(Duration::from_secs(2)),
    Gate::Late(Duration::from_secs(7)),
    Gate::Twice,
    Gate::Refused(409, "Conflict"),
    Gate::Refused(429, "TooManyRequests"),
    Gate::Refused(500, "InternalError"),
    Gate::RefusedAfter(504, "Timeout"),
];

const CALLS: [Answer; 8] = [
    Answer::ReplyLost,
    Answer::NotSent,
    Answer::Never,
    Answer::Slow(Duration::from_secs(1)),
    Answer::Late(Duration::from_secs(4)),
    Answer::Twice,
    Answer::Refused(Code::Unavailable, "etcdserver: unhealthy cluster"),
    Answer::RefusedAfter(Code::Unavailable, "etcdserver: leader changed"),
];

async fn history(seed: u64) -> Result<()> {
    let world = World::new().await?;
    let _kubelet = world.kubelet();
    let mut lot = Lot(seed);
    let (mut calls, requests) = (Lot(seed ^ 0xca11), Arc::new(Mutex::new(Some(Lot(seed ^ 0xa91)))));
    world.members.gate(move |_| if calls.below(8) == 0 { calls.one(&CALLS) } else { Answer::Done });
    let drawn = requests.clone();
    let client = world.client_through(move |sent| {
        let mut drawn = drawn.lock().expect("nobody panics");
        let Some(lot) = drawn.as_mut().filter(|_| sent.writes()) else { return Gate::Open };
        if lot.below(5) == 0 { lot.one(&REQUESTS) } else { Gate::Open }
    });
    let mut operator = world.operator_over(client.clone(), |_| {});
    world.create_cluster(plain(lot.one(&[1, 2, 3]))).await?;
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(lot.below(30_000))).await;
        match lot.below(6) {
            0 => drop(std::mem::replace(&mut operator, world.operator_over(client.clone(), |_| {}))),
            1 => world.sent.cut_watches(),
            2 => drop(world.members.strike(&Fault::KillPod(format!("demo-{}", lot.below(4))))),
            _ => scale(&world, lot.one(&[0, 1, 2, 3, 4])).await?,
        }
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    *requests.lock().expect("nobody panics") = None;
    world.members.heal();
    until("the goal is reached", async || Ok(world.members.goal())).await?;
    // What was sent late arrives.
    tokio::time::sleep(Duration::from_secs(70)).await;
    until("the goal is reached still", async || Ok(world.members.goal())).await?;
    world.is_at_rest().await
}

async fn histories(of: impl Iterator<Item = u64>) -> Result<()> {
    let only: Option<u64> = std::env::var("QUORATE_SEED").ok().and_then(|seed| seed.parse().ok());
    for seed in of.filter(|seed| only.is_none_or(|only| *seed == only)) {
        history(seed).await.with_context(|| format!("QUORATE_SEED={seed}"))?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn every_even_history_ends_well() -> Result<()> {
    histories((0..SEEDS).map(|seed| 2 * seed)).await
}

#[tokio::test(start_paused = true)]
async fn every_odd_history_ends_well() -> Result<()> {
    histories((0..SEEDS).map(|seed| 2 * seed + 1)).await
}
