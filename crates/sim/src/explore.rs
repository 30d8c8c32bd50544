//! Every history of a small scope, depth first: from every state, what is due next, and every fault that may strike there
//! while the budget lasts. Two paths to one state are followed once.
//!
//! What is due happens in one fixed order, and every departure from it (a crash, a lost reply, an old view, a Pod that is
//! slow) costs one of the budget: all histories with at most that many departures are explored. Since the faults that go
//! on end by themselves once all else has come to rest, every history ends at rest, where the goal must be reached: so
//! from every state that can be reached, with faults off, the goal is reached.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use quorate_model::Step;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::oracle::{Property, Violation};
use crate::world::World;
use crate::world::faults::Fault;

/// What is explored.
#[derive(Clone, Debug)]
pub struct Scope {
    /// Its name in reports.
    pub name: &'static str,
    /// The specs that are applied one after the other, and come to rest, before anything is explored. None where the
    /// exploration begins with the bootstrap.
    pub before: Vec<Value>,
    /// The first spec that is explored.
    pub spec: Value,
    /// What is made of it then, one edit after the other, each at any moment.
    pub edits: Vec<Value>,
    /// How many faults may strike.
    pub faults: u32,
    /// Which faults.
    pub strikes: fn(&Fault) -> bool,
    /// Where to stop in any case.
    pub max_states: usize,
}

/// What was explored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explored {
    /// States that differ in what can follow.
    pub states: usize,
    /// Steps between them.
    pub transitions: usize,
    /// The longest history, in steps.
    pub depth: usize,
    /// How many histories ended at rest.
    pub ends: usize,
    /// Steps of protocols, by what became of their requests.
    pub covered: BTreeSet<(Step, &'static str)>,
    /// The bound on states was met: not everything was explored.
    pub cut: bool,
}

/// A departure from what is due, and when.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Departure {
    /// After so many steps.
    pub after: usize,
    /// What.
    pub what: What,
}

/// What departs from what is due.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// A fault strikes.
    Fault(Fault),
    /// The next edit is made.
    Edit,
}

/// A history that ends badly.
#[derive(Clone, Debug)]
pub struct Counterexample {
    /// What was violated.
    pub violation: Violation,
    /// How it came about.
    pub departures: Vec<Departure>,
}

/// More steps than any history of a small scope has: past it something runs in circles.
const CIRCLES: usize = 3000;

/// Explores a scope; the first violation ends it.
pub fn explore(scope: &Scope) -> Result<Explored, Box<Counterexample>> {
    let mut explored = Explored::default();
    // By which run each state was met.
    let mut known: HashMap<(u64, u32, usize), usize> = HashMap::new();
    let mut run = 0;
    // What is due is followed at once; what else may happen there is kept for later, with the way to it.
    let mut open = vec![(scope.start(), scope.faults, 0, Vec::new(), 0)];
    while let Some((mut world, faults, edits, departures, mut depth)) = open.pop() {
        run += 1;
        loop {
            match known.entry((world.fingerprint(), faults, edits)) {
                Entry::Vacant(free) => drop(free.insert(run)),
                Entry::Occupied(met) if *met.get() < run => break,
                Entry::Occupied(_) => {
                    world.oracle.object_to(Property::GoalIsReached, "it goes round in circles");
                    world.accuse(&departures)?;
                }
            }
            explored.states += 1;
            explored.depth = explored.depth.max(depth);
            if explored.states >= scope.max_states {
                explored.cut = true;
                return Ok(explored);
            }
            for what in scope.departures(&world, faults, edits) {
                let mut other = world.fork();
                if !what.happen(&mut other, scope, edits) {
                    continue;
                }
                explored.transitions += 1;
                let mut departures: Vec<Departure> = departures.clone();
                departures.push(Departure { after: depth, what: what.clone() });
                other.accuse(&departures)?;
                let (faults, edits) = match what {
                    What::Fault(_) => (faults - 1, edits),
                    What::Edit => (faults, edits + 1),
                };
                open.push((other, faults, edits, departures, depth));
            }
            let went = world.go();
            depth += 1;
            explored.transitions += 1;
            world.accuse(&departures)?;
            if went.is_none() {
                if edits < scope.edits.len() {
                    // Its edits are still to come.
                    break;
                }
                world.judge_rest();
                world.accuse(&departures)?;
                explored.ends += 1;
                explored.covered.extend(world.covered.iter().copied());
                break;
            }
        }
    }
    Ok(explored)
}

/// Tells a history again: every step in words, and what was violated.
pub fn tell(scope: &Scope, departures: &[Departure]) -> (Vec<String>, Option<Violation>) {
    let mut world = scope.start();
    let mut story = Vec::new();
    let (mut edits, mut depth) = (0, 0);
    let mut left = departures.iter().peekable();
    loop {
        while let Some(departure) = left.next_if(|departure| departure.after <= depth) {
            let told = match &departure.what {
                What::Fault(fault) => format!("FAULT: {fault}"),
                What::Edit => format!("EDIT: {}", scope.edits.get(edits).map(ToString::to_string).unwrap_or_default()),
            };
            let happened = departure.what.happen(&mut world, scope, edits);
            edits += usize::from(departure.what == What::Edit);
            story.push(if happened { told } else { format!("{told} (nothing to strike)") });
        }
        if world.oracle.violation().is_some() {
            break;
        }
        let Some(told) = world.go() else { break };
        story.push(told);
        depth += 1;
        if depth > CIRCLES {
            world.oracle.object_to(Property::GoalIsReached, "it goes on for ever");
        }
    }
    world.judge_rest();
    let violation = world.oracle.violation().cloned();
    story.extend(violation.iter().map(|violation| format!("VIOLATED {violation}")));
    (story, violation)
}

/// How often each departure is among those of a scope, for reports.
pub fn count(departures: &[Departure]) -> BTreeMap<String, usize> {
    let mut count = BTreeMap::new();
    for departure in departures {
        *count.entry(format!("{:?}", departure.what)).or_default() += 1;
    }
    count
}

impl Scope {
    /// The world before anything is explored.
    pub fn start(&self) -> World {
        let mut specs = self.before.iter().chain([&self.spec]);
        let mut world = World::new(specs.next().expect("there is one at least"));
        for spec in specs {
            while world.go().is_some() {}
            world.apply(spec).expect("the specs of a scope are valid");
        }
        world.covered.clear();
        world
    }

    fn departures(&self, world: &World, faults: u32, edits: usize) -> Vec<What> {
        let edit = (edits < self.edits.len()).then_some(What::Edit);
        let faults = if faults > 0 { world.faults() } else { Vec::new() };
        let faults = faults.into_iter().filter(|fault| (self.strikes)(fault)).map(What::Fault);
        faults.chain(edit).collect()
    }
}

impl What {
    fn happen(&self, world: &mut World, scope: &Scope, edits: usize) -> bool {
        match self {
            Self::Fault(fault) => world.strike(fault),
            Self::Edit => scope.edits.get(edits).is_some_and(|spec| world.apply(spec).is_ok()),
        }
    }
}

impl World {
    fn accuse(&self, departures: &[Departure]) -> Result<(), Box<Counterexample>> {
        match self.oracle.violation() {
            None => Ok(()),
            Some(violation) => {
                Err(Box::new(Counterexample { violation: violation.clone(), departures: departures.to_vec() }))
            }
        }
    }
}
