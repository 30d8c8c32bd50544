//! Every history of a small scope, depth first: from every state, what is due next, and every fault that may strike there
//! while the budget lasts. Two paths to one state are followed once, by the one that has more faults left: whatever may follow
//! with fewer may follow with more.
//!
//! What is due happens in one fixed order, and every departure from it (a crash, a lost reply, an old view, a Pod that is
//! slow) costs one of the budget: all histories with at most that many departures are explored. Since the faults that go
//! on end by themselves once all else has come to rest, every history ends at rest, where the goal must be reached: so
//! from every state that can be reached, with faults off, the goal is reached.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};

use quorate_model::Step;
use serde_json::Value;

use crate::ending::Ending;
use crate::history::{Departure, Failure, History, Moment, What};
use crate::oracle::Property;
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
    /// What is made of it then, one edit after the other, each at any moment or not at all.
    pub edits: Vec<Value>,
    /// How many faults may strike.
    pub faults: u32,
    /// Which faults.
    pub strikes: fn(&Fault) -> bool,
    /// None of them destroys anything, so every history ends as the one without faults, and has made and deleted no more.
    pub harmless: bool,
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

/// Explores a scope; the first violation ends it.
pub fn explore(scope: &Scope) -> Result<Explored, Box<Failure>> {
    let mut explored = Explored::default();
    // With how many faults left each state was met, and by which run.
    let mut known: HashMap<_, (u32, usize)> = HashMap::new();
    let mut run = 0;
    // How the history ended in which nothing went wrong: it is the first.
    let mut clean: Option<Ending> = None;
    // What is due is followed at once; what else may happen there is kept for later, with the way to it.
    let mut open = vec![(scope.start(), scope.faults, 0, Vec::new(), 0)];
    while let Some((mut world, faults, edits, departures, mut depth)) = open.pop() {
        run += 1;
        loop {
            // Where it is asked how much was made, that is part of the state.
            let made = scope.harmless.then(|| world.store.write_counts());
            match known.entry((world.fingerprint(), made, edits)) {
                Entry::Vacant(free) => drop(free.insert((faults, run))),
                Entry::Occupied(mut met) => match *met.get() {
                    (left, _) if left < faults => drop(met.insert((faults, run))),
                    (left, by) if left > faults || by < run => break,
                    (_, _) => {
                        world.oracle.object_to(Property::GoalIsReached, "it goes round in circles");
                        accuse(scope, &world, &departures)?;
                    }
                },
            }
            explored.states = known.len();
            explored.depth = explored.depth.max(depth);
            if explored.states >= scope.max_states {
                explored.cut = true;
                return Ok(explored);
            }
            for what in scope.departures(&world, faults, edits) {
                let mut other = world.fork();
                if !what.happen(&mut other) {
                    continue;
                }
                explored.transitions += 1;
                let mut departures: Vec<Departure> = departures.clone();
                departures.push(Departure { at: Moment::Step(depth), what: what.clone() });
                accuse(scope, &other, &departures)?;
                let (faults, edits) = match what {
                    What::Fault(_) => (faults - 1, edits),
                    What::Edit(_) | What::Delete => (faults, edits + 1),
                };
                open.push((other, faults, edits, departures, depth));
            }
            let went = world.go();
            explored.covered.append(&mut world.covered);
            depth += 1;
            explored.transitions += 1;
            accuse(scope, &world, &departures)?;
            if went.is_none() {
                // Also where an edit is still to come: what there is without it is the goal until then.
                world.judge_rest();
                if scope.harmless && world.oracle.violation().is_none() {
                    let ending = Ending::of(&world);
                    let clean = clean.get_or_insert_with(|| ending.clone());
                    if let Some(how) = ending.differs_from(clean) {
                        world.oracle.object_to(Property::EndsAsWithoutFaults, how);
                    }
                }
                accuse(scope, &world, &departures)?;
                explored.ends += 1;
                break;
            }
        }
    }
    Ok(explored)
}

impl Scope {
    fn start(&self) -> World {
        let Self { before, spec, .. } = self.clone();
        History { before, spec, departures: Vec::new() }.start()
    }

    fn departures(&self, world: &World, faults: u32, edits: usize) -> Vec<What> {
        let edit = self.edits.get(edits).cloned().map(What::Edit);
        let faults = if faults > 0 { world.faults() } else { Vec::new() };
        let faults = faults.into_iter().filter(|fault| (self.strikes)(fault)).map(What::Fault);
        faults.chain(edit).collect()
    }
}

fn accuse(scope: &Scope, world: &World, departures: &[Departure]) -> Result<(), Box<Failure>> {
    let Some(violation) = world.oracle.violation().cloned() else { return Ok(()) };
    let Scope { before, spec, .. } = scope.clone();
    let history = History { before, spec, departures: departures.to_vec() }.with_named_moments();
    Err(Box::new(Failure { violation, history }))
}
