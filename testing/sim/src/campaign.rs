//! Random histories: longer ones, with more members, faults and edits than can be explored exhaustively. One seed is one history.

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
    /// The number of histories.
    pub histories: usize,
    /// The number of their steps.
    pub steps: usize,
    /// How often each kind of fault struck.
    pub struck: BTreeMap<&'static str, usize>,
    /// The kinds of faults that could have struck.
    pub offered: BTreeSet<&'static str>,
    /// The numbers of edits that the API server accepted and refused.
    pub edits: (usize, usize),
    /// Protocol steps, each with the outcome of its request.
    pub covered: BTreeSet<(Step, &'static str)>,
}

/// How many faults and edits a random history has.
#[derive(Clone, Copy, Debug)]
pub struct FuzzConfig {
    /// A fault or an edit comes once in this many steps on average.
    pub every: u32,
    /// The highest number of faults.
    pub faults: u32,
    /// The highest number of edits.
    pub edits: u32,
    /// The planner proposes wrong effects, too.
    pub rogue_planner: bool,
    /// The wide faults strike, too.
    pub wide: bool,
}

impl Default for FuzzConfig {
    fn default() -> Self {
        Self { every: 6, faults: 8, edits: 4, rogue_planner: false, wide: false }
    }
}

impl Campaign {
    /// Runs the history of a seed.
    pub fn run(&mut self, seed: u64, config: FuzzConfig) -> Result<(), Box<Failure>> {
        let mut random = Random::from_seed(seed);
        let mut history =
            History { spec: edits::first(&mut random), wide: config.wide, ..History::default() };
        let mut world = history.start();
        world.rogue_planner = config.rogue_planner;
        let (mut faults, mut edited) = (random.below(config.faults + 1), random.below(config.edits + 1));
        let mut depth = 0;
        self.histories += 1;
        loop {
            while (faults > 0 || edited > 0) && random.below(config.every) == 0 {
                let what = if random.below(faults + edited) < edited {
                    edited -= 1;
                    edits::next(&mut random, &world).map_or(What::Delete, What::Edit)
                } else {
                    faults -= 1;
                    let all = world.faults();
                    let kinds: BTreeSet<&'static str> = all.iter().map(Fault::kind).collect();
                    self.offered.extend(&kinds);
                    // Choose the kind first: there are many more faults of members than of the operator.
                    let Some(kind) = random.one_of(&kinds.into_iter().collect::<Vec<_>>()).copied() else {
                        continue;
                    };
                    let of_kind: Vec<_> = all.iter().filter(|fault| fault.kind() == kind).collect();
                    let Some(fault) = random.one_of(&of_kind) else { continue };
                    What::Fault((*fault).clone())
                };
                self.count(&what, what.happen(&mut world));
                history.departures.push(Departure { at: Moment::Step(depth), what });
            }
            depth += 1;
            let went = world.go();
            if depth > ENDLESS {
                world.oracle.add_violation(Property::GoalIsReached, "the history does not come to rest");
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

    /// A summary in one line.
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

    /// Adds the figures of another campaign.
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

/// The source of the random choices of a campaign.
pub struct Random(ChaCha8Rng);

impl Random {
    /// The choices of a seed: the same seed gives the same choices.
    pub fn from_seed(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// A number less than a bound.
    pub fn below(&mut self, bound: u32) -> u32 {
        self.0.next_u32() % bound.max(1)
    }

    /// One element; `None` of an empty slice.
    pub fn one_of<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        of.get(usize::try_from(self.below(u32::try_from(of.len()).unwrap_or(u32::MAX))).unwrap_or(0))
    }
}
