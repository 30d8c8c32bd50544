//! Several clusters of one operator in one Kubernetes. Each is a [`World`] of its own in a namespace of its own: its nodes, its etcd, its pass,
//! its faults and the properties of a single cluster. What they share is the API server, the clock, the life of the operator's process, and the
//! turns to take new defaults of the operator, which the product's own code decides (`quorate_planner::fleet`).
//!
//! How reality could hurt the turns, and what is modelled of it:
//!
//! - a tenant's own PodDisruptionBudget refuses every eviction for good: the cluster is healthy, and never gets on
//! - a member is down before the turn, for good, or goes down in the middle of it; its Pod does not start again with the new defaults
//! - the operator dies, and forgets which turns it has given; a write that records a turn is lost, or its reply is
//! - the operator's view of a cluster is old, or its watch of all EtcdClusters is behind
//! - a cluster is paused, stopped or resized before its turn or in the middle of it
//! - a new image is released in the middle of a wave
//!
//! Left out: two operators that both believe to lead (each gives turns of its own until its pass ends), clocks that differ, and what clusters do
//! to each other by load.

mod judge;
mod process;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicI64;
use std::sync::{Arc, Mutex};

use quorate_apistore::ResourceKey;
use quorate_manifests::Defaults;
use quorate_model::{ClusterRef, Span};
use quorate_planner::fleet::{Limit, Turns};
use serde_json::{Value, json};

use super::operator::{DEFAULTS, Operator};
use super::{BEGIN, EMPTY_KUBERNETES, Truth, World, store_clock};
use crate::campaign::Random;
use crate::history::plain;
use crate::oracle::Violation;
use crate::world::faults::Fault;
use crate::world::wire::RequestOutcome;
use judge::Judge;
pub(super) use process::Shared;
use process::{Process, lock};

/// How long time passes at once where nothing is due.
const SPANS: [Span; 3] = [Span::seconds(3), Span::seconds(20), Span::seconds(60)];

/// The longest of them.
const LONGEST: Span = Span::seconds(60);

/// A fleet.
pub struct Fleet {
    worlds: Vec<World>,
    limit: Limit,
    judge: Judge,
    /// What happened, a line each.
    pub story: Vec<String>,
    released: u32,
    /// Clusters of tenants whose own budgets refuse every eviction until the end.
    holders: Vec<usize>,
    /// Clusters of which a member is down until the end.
    sick: Vec<usize>,
    /// A cluster whose Pods do not start again until faults end.
    failing: Option<usize>,
}

/// How many faults and edits a history has, and how they went.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// The number of steps.
    pub steps: usize,
    /// The kinds of faults and edits that struck.
    pub struck: BTreeMap<&'static str, usize>,
    /// Clusters that lost their place, and that were passed over.
    pub tenants: (usize, usize),
}

/// The kinds of faults that strike clusters of a fleet. All of them end.
const KINDS_OF_FAULTS: [&str; 13] = [
    "reply lost",
    "lost",
    "twice",
    "raced",
    "stale view",
    "kill Pod",
    "kill etcd",
    "delete Pod",
    "slow Pod",
    "lose node",
    "drain",
    "second budget",
    "budgets behind",
];

impl Fleet {
    /// Clusters of these sizes that are well, with the defaults of one operator, of which so many may take new ones at a time.
    pub fn new(sizes: &[u32], limit: Limit) -> Self {
        let clock = Arc::new(AtomicI64::new(BEGIN.0));
        let store = EMPTY_KUBERNETES.fork(store_clock(&clock));
        let turns = Arc::new(Mutex::new(Process { turns: Turns::new(limit), behind: None }));
        let worlds = sizes.iter().zip('a'..).map(|(size, namespace)| {
            let at = ClusterRef::new(namespace, "demo");
            let object = json!({ "metadata": { "name": at.namespace } });
            let namespaces = ResourceKey::new("", "namespaces");
            store.create(&namespaces, "", object, false).expect("its name is free");
            let mut spec = plain(*size);
            // A member that is down stays so.
            spec["recovery"] = json!({ "enabled": false });
            let mut world = World::within(store.clone(), clock.clone(), at, &spec);
            world.turns = Some(turns.clone());
            world
        });
        let worlds: Vec<World> = worlds.collect();
        let judge = Judge::new(worlds.len());
        let mut fleet = Self {
            worlds,
            limit,
            judge,
            story: Vec::new(),
            released: 0,
            holders: Vec::new(),
            sick: Vec::new(),
            failing: None,
        };
        fleet.run(Span::seconds(600), Self::are_well);
        fleet
    }

    /// The first property that is violated.
    pub fn violation(&self) -> Option<Violation> {
        self.worlds.iter().find_map(|world| world.oracle.violation().cloned())
    }

    /// Another operator takes over, with another image of the agent. What its watch has may be behind what it writes.
    fn release(&mut self, is_behind: bool) {
        self.released += 1;
        self.tell(&format!("RELEASE {}", self.released));
        let image = format!("quorate:{}", self.released);
        let defaults = Arc::new(Defaults { agent_image: image, ..Defaults::clone(&DEFAULTS) });
        for world in &mut self.worlds {
            world.defaults = defaults.clone();
        }
        self.operator_dies();
        if is_behind {
            self.fall_behind();
        }
        self.judge.released(&self.worlds);
    }

    fn fall_behind(&mut self) {
        self.tell("FAULT: the watch of EtcdClusters is behind");
        let version = self.worlds[0].store.version();
        self.share(|process| process.behind = Some(version));
    }

    /// The operator's process ends, and the next one begins.
    fn operator_dies(&mut self) {
        for world in &mut self.worlds {
            world.operator = Operator::default();
        }
        self.share(|process| *process = Process { turns: Turns::new(self.limit), behind: None });
    }

    fn share(&self, change: impl FnOnce(&mut Process)) {
        if let Some(process) = &self.worlds[0].turns {
            change(&mut lock(process));
        }
    }

    /// A history in which the first cluster does not get ready after its restart, and the second one comes late.
    pub fn failure(&mut self) {
        self.edit(1, &json!({ "paused": true }));
        self.release(false);
        self.failing = Some(0);
        self.tenants_begin();
        self.run(Judge::STOPS_BY, |_| false);
        self.edit(1, &json!({ "paused": false }));
        self.run(LONGEST, |_| false);
    }

    /// A history of a seed: releases, faults and edits; tenants that hold their turns and others that are sick, until all others have the new
    /// defaults; then all of them.
    pub fn history(&mut self, random: &mut Random, moments: u32) -> Figures {
        let mut figures = Figures::default();
        let count = u32::try_from(self.worlds.len()).unwrap_or(u32::MAX);
        self.release(random.below(2) == 0);
        for tenants in [true, false] {
            let place = random.below(2 * count) as usize;
            if place < self.worlds.len() {
                if tenants { self.holders.push(place) } else { self.sick.push(place) }
            }
        }
        let place = random.below(2 * count) as usize;
        self.failing = (place < self.worlds.len()).then_some(place);
        self.tenants_begin();
        // One comes late: a user pauses it meanwhile.
        let late = random.below(count) as usize;
        self.edit(late, &json!({ "paused": true }));
        for moment in 0..moments {
            if moment == moments / 3 * 2 {
                self.edit(late, &json!({ "paused": false }));
            }
            if random.below(8) == 0
                && let Some(kind) = self.strike(random)
            {
                *figures.struck.entry(kind).or_default() += 1;
            }
            figures.steps += 1;
            if !self.step(random.below(count) as usize) {
                self.pass(SPANS[random.below(3) as usize]);
                if random.below(4) == 0 {
                    self.end_a_fault(random.below(count) as usize);
                }
            }
            if self.violation().is_some() {
                return figures;
            }
        }
        self.end_faults();
        self.run(self.judge.bound(self.holders.len()), |fleet| {
            judge::all_done_but(&fleet.worlds, &fleet.tenants())
        });
        // Until those that hold a turn have lost it.
        self.run(Judge::PARKED_BY, |_| false);
        if self.violation().is_none() {
            judge::judge_waits(&mut self.worlds, &self.holders, &self.sick);
        }
        figures.tenants = (self.holders.len(), self.sick.len());
        self.tell("TENANTS END");
        (self.holders, self.sick) = (Vec::new(), Vec::new());
        self.end_faults();
        self.run(self.judge.bound(1), |fleet| judge::all_done_but(&fleet.worlds, &[]) && fleet.are_well());
        if self.violation().is_none() {
            judge::judge_end(&mut self.worlds);
        }
        figures
    }

    fn tenants(&self) -> Vec<usize> {
        self.holders.iter().chain(&self.sick).copied().collect()
    }

    /// What lasts until the end.
    fn tenants_begin(&mut self) {
        for place in &self.holders {
            self.worlds[*place].strike(&Fault::SecondBudget);
        }
        for place in &self.sick {
            let member = self.worlds[*place].record().voters().last().map(ToString::to_string);
            self.worlds[*place].strike(&Fault::LoseNode(member.unwrap_or_default()));
        }
        if let Some(place) = self.failing {
            // Those that run go on.
            for member in ["demo-0", "demo-1", "demo-2"] {
                self.worlds[place].faults.slow.insert(member.to_owned());
            }
        }
    }

    /// Something goes wrong, or somebody edits.
    fn strike(&mut self, random: &mut Random) -> Option<&'static str> {
        let count = u32::try_from(self.worlds.len()).unwrap_or(u32::MAX);
        let place = random.below(count) as usize;
        match random.below(12) {
            0 => {
                self.tell("FAULT: the operator dies");
                self.operator_dies();
                return Some("operator dies");
            }
            1 if random.below(4) == 0 && self.released < 3 => {
                self.release(random.below(2) == 0);
                return Some("release");
            }
            2 => {
                self.fall_behind();
                return Some("watch behind");
            }
            3 | 4 => {
                let is_paused = self.worlds[place].is_paused();
                let size = 1 + 2 * random.below(2);
                let edit = match random.below(4) {
                    0 | 1 => json!({ "paused": !is_paused }),
                    2 => json!({ "size": 0 }),
                    _ => json!({ "size": size }),
                };
                return self.edit(place, &edit);
            }
            _ => {}
        }
        let world = &mut self.worlds[place];
        world.wide = true;
        let all = world.faults();
        world.wide = false;
        let kind = random.one_of(&KINDS_OF_FAULTS)?;
        let of_kind: Vec<&Fault> = all.iter().filter(|fault| fault.kind() == *kind).collect();
        let fault = random.one_of(&of_kind).copied()?.clone();
        let struck = world.strike(&fault);
        self.tell(&format!("{}  FAULT: {fault}", self.worlds[place].at));
        struck.then_some(*kind)
    }

    fn edit(&mut self, place: usize, edit: &Value) -> Option<&'static str> {
        self.tell(&format!("{}  EDIT: {edit}", self.worlds[place].at));
        self.worlds[place].edit(edit).ok()?;
        // The pass sees it, and what a pass sees the watch has.
        self.share(|process| process.behind = None);
        // A change of the size takes the new defaults with it, and waits for nobody.
        if edit.get("size").is_some() {
            self.judge.edited(place);
        }
        Some("edit")
    }

    /// The next cluster takes a step, from this one on; `false` if nothing is due.
    fn step(&mut self, from: usize) -> bool {
        let count = self.worlds.len();
        for place in (from..count).chain(0..from) {
            if let Some(line) = self.worlds[place].act() {
                let at = self.worlds[place].at.clone();
                self.tell(&format!("{at}  {line}"));
                self.judge.look(&mut self.worlds, place, self.limit);
                return true;
            }
        }
        false
    }

    /// Time passes. Then every cluster is observed.
    fn pass(&mut self, span: Span) {
        self.tell(&format!("{span} pass"));
        self.share(|process| process.behind = None);
        for world in &mut self.worlds {
            world.advance(span);
            let truth = Truth::of(world);
            world.oracle.see_quorum(&truth);
            world.operator.rested_on = None;
        }
    }

    /// Goes on until this is so and nothing is due, or this time is over.
    fn run(&mut self, most: Span, is_enough: impl Fn(&Self) -> bool) {
        let until = self.worlds[0].now + most;
        let mut from = 0;
        while self.violation().is_none() {
            from = (from + 1) % self.worlds.len();
            if self.step(from) {
                continue;
            }
            if is_enough(self) || self.worlds[0].now > until {
                break;
            }
            self.pass(LONGEST);
        }
    }

    fn end_a_fault(&mut self, place: usize) {
        let line = self.worlds[place].end_a_lasting_fault();
        if let Some(line) = line {
            self.tell(&format!("{}  {line}", self.worlds[place].at));
            self.tenants_begin();
        }
    }

    fn end_faults(&mut self) {
        self.tell("FAULTS END");
        self.share(|process| process.behind = None);
        self.failing = None;
        for world in &mut self.worlds {
            world.request_outcome = RequestOutcome::Done;
            while world.end_a_lasting_fault().is_some() {}
            if world.is_paused() {
                world.edit(&json!({ "paused": false })).expect("a valid edit");
            }
        }
        self.tenants_begin();
    }

    fn are_well(&self) -> bool {
        self.worlds.iter().all(|world| world.goal().is_ok())
    }

    fn tell(&mut self, line: &str) {
        self.story.push(format!("{:>6}  {line}", (self.worlds[0].now - BEGIN).0 / 1000));
    }
}
