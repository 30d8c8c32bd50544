//! Every history of a small scope, depth first. From every state, the exploration follows the step that is due next, and every
//! fault that may strike there while the budget of faults lasts. Two paths to one state are followed once, by the one that has
//! more faults left: every history that is possible with fewer faults is possible with more.
//!
//! What is due happens in one fixed order. Every departure from it (a crash, a lost reply, an old view, a slow Pod) costs one
//! fault of the budget, so all histories with at most that many departures are explored. Faults that last end when all else is
//! at rest, so every history ends at rest, and there the goal must be reached. Therefore the goal is reached from every
//! reachable state once faults end.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};

use quorate_model::Step;
use serde_json::Value;

use crate::ending::Ending;
use crate::history::{Departure, Failure, History, Moment, What};
use crate::oracle::Property;
use crate::world::World;
use crate::world::faults::Fault;

/// A scope to explore.
#[derive(Clone, Debug)]
pub struct Scope {
    /// Its name in reports.
    pub name: &'static str,
    /// The specs that are applied one after the other, each brought to rest, before the exploration begins. Empty where it
    /// begins with the bootstrap.
    pub before: Vec<Value>,
    /// The first spec that is explored.
    pub spec: Value,
    /// The edits of that spec, one after the other, each at any moment or not at all.
    pub edits: Vec<Value>,
    /// The highest number of faults.
    pub faults: u32,
    /// The faults that may strike.
    pub strikes: fn(&Fault) -> bool,
    /// The wide faults are offered, too.
    pub wide: bool,
    /// None of them destroys anything. Every history ends as the one without faults, and creates and deletes no object more often.
    pub harmless: bool,
    /// The number of states at which the exploration stops.
    pub max_states: usize,
}

/// The figures of an exploration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explored {
    /// States with different fingerprints.
    pub states: usize,
    /// Steps between them.
    pub transitions: usize,
    /// The longest history, in steps.
    pub depth: usize,
    /// The number of histories that ended at rest.
    pub ends: usize,
    /// Protocol steps, each with the outcome of its request.
    pub covered: BTreeSet<(Step, &'static str)>,
    /// The bound on states was reached, so the exploration is not complete.
    pub cut: bool,
}

/// How many states a history may meet for the second time before it counts as going round.
const MET_AGAIN: usize = 40;

/// Explores a scope; the first violation ends it.
pub fn explore(scope: &Scope) -> Result<Explored, Box<Failure>> {
    let mut explored = Explored::default();
    // For each state, the number of faults left when it was reached, and the run that reached it.
    let mut known: HashMap<_, (u32, usize)> = HashMap::new();
    let mut run = 0;
    // The end of the history without faults, which is the first.
    let mut clean: Option<Ending> = None;
    // The step that is due is followed at once. The departures are stored for later, each with the path to it.
    let mut open = vec![(scope.start(), scope.faults, 0, Vec::new(), 0)];
    while let Some((mut world, faults, edits, departures, mut depth)) = open.pop() {
        run += 1;
        // How many states this run has met for the second time.
        let mut again = 0;
        loop {
            let mut is_new = true;
            // Where the number of writes is checked, it is part of the state.
            let made = scope.harmless.then(|| world.store.write_counts());
            match known.entry((world.fingerprint(), made, edits)) {
                Entry::Vacant(free) => drop(free.insert((faults, run))),
                Entry::Occupied(mut met) => match *met.get() {
                    (left, _) if left < faults => drop(met.insert((faults, run))),
                    (left, by) if left > faults || by < run => break,
                    // What the operator remembers is no part of the state, nor is the time: a history may pass a state twice and
                    // still come to rest. One that goes round does not.
                    (_, _) if again < MET_AGAIN => (again, is_new) = (again + 1, false),
                    (_, _) => {
                        world.oracle.add_violation(
                            Property::GoalIsReached,
                            "the history returns to a state that it was in before",
                        );
                        fail_if_violated(scope, &world, &departures)?;
                    }
                },
            }
            explored.states = known.len();
            explored.depth = explored.depth.max(depth);
            if explored.states >= scope.max_states {
                explored.cut = true;
                return Ok(explored);
            }
            let departing = if is_new { scope.departures(&world, faults, edits) } else { Vec::new() };
            for what in departing {
                let mut other = world.fork();
                if !what.happen(&mut other) {
                    continue;
                }
                explored.transitions += 1;
                let mut departures: Vec<Departure> = departures.clone();
                departures.push(Departure { at: Moment::Step(depth), what: what.clone() });
                fail_if_violated(scope, &other, &departures)?;
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
            fail_if_violated(scope, &world, &departures)?;
            if went.is_none() {
                // Also where an edit is left: until it comes, the goal is that of the present spec.
                world.judge_rest();
                if scope.harmless && world.oracle.violation().is_none() {
                    let ending = Ending::of(&world);
                    let clean = clean.get_or_insert_with(|| ending.clone());
                    if let Some(how) = ending.differs_from(clean) {
                        world.oracle.add_violation(Property::EndsAsWithoutFaults, how);
                    }
                }
                fail_if_violated(scope, &world, &departures)?;
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
        History { before, spec, wide: self.wide, ..History::default() }.start()
    }

    fn departures(&self, world: &World, faults: u32, edits: usize) -> Vec<What> {
        let edit = self.edits.get(edits).cloned().map(What::Edit);
        let faults = if faults > 0 { world.faults() } else { Vec::new() };
        let faults = faults.into_iter().filter(|fault| (self.strikes)(fault)).map(What::Fault);
        faults.chain(edit).collect()
    }
}

fn fail_if_violated(scope: &Scope, world: &World, departures: &[Departure]) -> Result<(), Box<Failure>> {
    let Some(violation) = world.oracle.violation().cloned() else { return Ok(()) };
    let Scope { before, spec, wide, .. } = scope.clone();
    let history = History { before, spec, departures: departures.to_vec(), wide, ..History::default() }
        .with_named_moments();
    Err(Box::new(Failure { violation, history }))
}
