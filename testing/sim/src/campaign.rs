//! Histories by lot: long ones, with more of everything than can be explored exhaustively. A seed is a history.

use std::collections::{BTreeMap, BTreeSet};

use quorate_model::Step;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use crate::edits;
use crate::history::{Departure, ENDLESS, Failure, History, Moment, What};
use crate::oracle::Property;
use crate::world::faults::Fault;

/// What a campaign did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Campaign {
    /// Histories.
    pub histories: usize,
    /// Steps in them.
    pub steps: usize,
    /// How often each kind of fault struck.
    pub struck: BTreeMap<&'static str, usize>,
    /// Kinds of faults that could have struck.
    pub offered: BTreeSet<&'static str>,
    /// Edits that the API server let through, and those that it refused.
    pub edits: (usize, usize),
    /// Steps of protocols, by what became of their requests.
    pub covered: BTreeSet<(Step, &'static str)>,
}

/// How much goes wrong.
#[derive(Clone, Copy, Debug)]
pub struct FuzzConfig {
    /// Once in so many steps something departs from what is due.
    pub every: u32,
    /// How many faults at most.
    pub faults: u32,
    /// How many edits at most.
    pub edits: u32,
    /// The planner, too, goes wrong.
    pub rogue_planner: bool,
}

impl Default for FuzzConfig {
    fn default() -> Self {
        Self { every: 6, faults: 8, edits: 4, rogue_planner: false }
    }
}

impl Campaign {
    /// Runs the history of a seed.
    pub fn run(&mut self, seed: u64, config: FuzzConfig) -> Result<(), Box<Failure>> {
        let mut dice = Dice::of(seed);
        let mut history = History { spec: edits::first(&mut dice), ..History::default() };
        let mut world = history.start();
        world.rogue_planner = config.rogue_planner;
        let (mut faults, mut edited) = (dice.below(config.faults + 1), dice.below(config.edits + 1));
        let mut depth = 0;
        self.histories += 1;
        loop {
            while (faults > 0 || edited > 0) && dice.below(config.every) == 0 {
                let what = if dice.below(faults + edited) < edited {
                    edited -= 1;
                    edits::next(&mut dice, &world).map_or(What::Delete, What::Edit)
                } else {
                    faults -= 1;
                    let all = world.faults();
                    let kinds: BTreeSet<&'static str> = all.iter().map(Fault::kind).collect();
                    self.offered.extend(&kinds);
                    // The kind first: there are many more faults of members than of the operator.
                    let Some(kind) = dice.one_of(&kinds.into_iter().collect::<Vec<_>>()).copied() else {
                        continue;
                    };
                    let of_kind: Vec<_> = all.iter().filter(|fault| fault.kind() == kind).collect();
                    let Some(fault) = dice.one_of(&of_kind) else { continue };
                    What::Fault((*fault).clone())
                };
                self.count(&what, what.happen(&mut world));
                history.departures.push(Departure { at: Moment::Step(depth), what });
            }
            depth += 1;
            let went = world.go();
            if depth > ENDLESS {
                world.oracle.object_to(Property::GoalIsReached, "the history does not come to rest");
            }
            if went.is_none() && edited == 0 {
                world.judge_rest();
            }
            if let Some(violation) = world.oracle.violation().cloned() {
                let history = history.shortened(violation.property);
                let violation = history.story().violation().cloned().unwrap_or(violation);
                return Err(Box::new(Failure { violation, history: history.with_named_moments() }));
            }
            if went.is_none() && edited == 0 {
                break;
            }
        }
        self.steps += depth;
        self.covered.extend(world.covered.iter().copied());
        Ok(())
    }

    /// What it did, for people.
    pub fn figures(&self) -> String {
        let struck: Vec<String> = self.struck.iter().map(|(kind, times)| format!("{kind} {times}")).collect();
        let (made, refused) = self.edits;
        format!(
            "histories {} steps {}; edits {made}, refused {refused}; faults: {}",
            self.histories,
            self.steps,
            struck.join(", ")
        )
    }

    /// Takes in what another one did.
    pub fn join(&mut self, other: Self) {
        let Self { histories, steps, struck, offered, edits, covered } = other;
        self.histories += histories;
        self.steps += steps;
        for (kind, times) in struck {
            *self.struck.entry(kind).or_default() += times;
        }
        self.offered.extend(offered);
        self.edits = (self.edits.0 + edits.0, self.edits.1 + edits.1);
        self.covered.extend(covered);
    }

    fn count(&mut self, what: &What, happened: bool) {
        match (what, happened) {
            (What::Fault(fault), true) => *self.struck.entry(fault.kind()).or_default() += 1,
            (What::Fault(_), false) => {}
            (What::Edit(_) | What::Delete, true) => self.edits.0 += 1,
            (What::Edit(_) | What::Delete, false) => self.edits.1 += 1,
        }
    }
}

/// The source of every choice of a campaign.
pub struct Dice(ChaCha8Rng);

impl Dice {
    /// Those of a seed.
    pub fn of(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// Less than a bound.
    pub fn below(&mut self, bound: u32) -> u32 {
        self.0.next_u32() % bound.max(1)
    }

    /// One of some.
    pub fn one_of<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        of.get(usize::try_from(self.below(u32::try_from(of.len()).unwrap_or(u32::MAX))).unwrap_or(0))
    }
}
