//! A history as it runs: one line for every step, every departure, and the violation that ends it.

use std::collections::{BTreeMap, VecDeque};
use std::{fmt, mem};

use quorate_model::Step;
use quorate_model::crash_point::{CrashPoint, CrashSide};

use super::{Departure, ENDLESS, History, Moment, What};
use crate::oracle::{Property, Violation};
use crate::world::World;

/// A history that is being replayed: an iterator over its lines.
pub struct Replay {
    /// The world as it is after the last line.
    pub world: World,
    departures: VecDeque<Departure>,
    /// Steps of the history so far.
    steps: usize,
    /// For each protocol step, the steps of the history after which it was reached.
    reached: BTreeMap<Step, Vec<usize>>,
    /// The step of the history after which the last departure happened.
    departed: Option<usize>,
    /// Nothing is due, and nothing has happened since.
    rests: bool,
    ended: bool,
}

/// A line of a story.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The number of steps of the history so far, this one included.
    pub step: usize,
    /// What happened.
    pub event: Event,
}

/// What happened in a line of a story.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// What was due.
    Due {
        /// In words.
        words: String,
        /// The protocol steps that were reached, each with its number of occurrences so far.
        reached: Vec<CrashPoint>,
    },
    /// A departure from what was due.
    Departure {
        /// The fault or the edit.
        what: What,
        /// The moment. A step of the history is named by the crash point next to it.
        at: Moment,
        /// `false` if it could not happen.
        came_about: bool,
    },
    /// A departure whose moment never came.
    NeverReached(Departure),
    /// A property does not hold; nothing comes after it.
    Violated(Violation),
}

/// A whole story.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Story(pub Vec<Line>);

impl Replay {
    /// The history at its beginning.
    pub fn of(history: &History) -> Self {
        Self {
            world: history.start(),
            departures: history.departures.iter().cloned().collect(),
            steps: 0,
            reached: BTreeMap::new(),
            departed: None,
            rests: false,
            ended: false,
        }
    }

    /// Takes the next step that is due, or the departure whose moment is just before it. `None` once all is at rest.
    fn go_on(&mut self) -> Option<Line> {
        let awaited = self.departures.front().and_then(|departure| match departure.at {
            Moment::Before(point) => Some((point, self.world.fork())),
            Moment::Step(_) | Moment::After(..) | Moment::Later(_) | Moment::Rest => None,
        });
        let Some(words) = self.world.go() else { return self.come_to_rest() };
        let covered = mem::take(&mut self.world.covered);
        let steps: Vec<Step> = covered.into_iter().map(|(step, _)| step).collect();
        if let Some((point, world)) = awaited
            && steps.contains(&point.step)
            && self.times(point.step) + 1 == occurrence(point)
        {
            self.world = world;
            return Some(self.depart());
        }
        self.steps += 1;
        let mut reached = Vec::new();
        for step in steps {
            let times = self.reached.entry(step).or_default();
            if times.last() != Some(&self.steps) {
                times.push(self.steps);
                reached.push(point(CrashSide::After, step, times.len()));
            }
        }
        if self.steps > ENDLESS {
            self.world.oracle.add_violation(Property::GoalIsReached, "the history does not come to rest");
        }
        Some(self.line(Event::Due { words, reached }))
    }

    /// Nothing is due: the next departure happens now, or its moment never comes.
    fn come_to_rest(&mut self) -> Option<Line> {
        self.rests = true;
        match self.departures.front()?.at {
            Moment::Step(step) => self.steps = self.steps.max(step),
            Moment::Later(later) => self.steps = self.steps.max(self.departed.unwrap_or(0) + later),
            Moment::Rest => {}
            Moment::Before(_) | Moment::After(..) => {
                let departure = self.departures.pop_front()?;
                return Some(self.line(Event::NeverReached(departure)));
            }
        }
        Some(self.depart())
    }

    fn is_due(&self, moment: Moment) -> bool {
        match moment {
            Moment::Step(step) => step <= self.steps,
            Moment::Later(later) => self.departed.unwrap_or(0) + later <= self.steps,
            // `go_on` handles it, unless it is past.
            Moment::Before(point) => self.times(point.step) >= occurrence(point),
            Moment::After(point, later) => {
                let at = self.reached.get(&point.step).and_then(|times| times.get(occurrence(point) - 1));
                at.is_some_and(|at| at + later <= self.steps)
            }
            Moment::Rest => false,
        }
    }

    fn depart(&mut self) -> Line {
        let Departure { at, what } = self.departures.pop_front().expect("one is due");
        let at = match at {
            Moment::Step(_) => self.moment(),
            Moment::Before(_) | Moment::After(..) | Moment::Later(_) | Moment::Rest => at,
        };
        let came_about = what.happen(&mut self.world);
        self.departed = Some(self.steps);
        self.rests = false;
        self.line(Event::Departure { what, at, came_about })
    }

    /// The name of the present moment, by the protocol step that was reached just now, is reached next, or was reached last.
    fn moment(&self) -> Moment {
        if self.rests {
            return Moment::Rest;
        }
        if self.departed == Some(self.steps) {
            return Moment::Later(0);
        }
        let last = self
            .reached
            .iter()
            .filter_map(|(step, times)| Some((*times.last()?, point(CrashSide::After, *step, times.len()))))
            .max_by_key(|(at, _)| *at)
            .map(|(at, point)| (point, self.steps - at));
        if let Some((point, 0)) = last {
            return Moment::After(point, 0);
        }
        let mut ahead = self.world.fork();
        ahead.go();
        match (ahead.covered.first(), last) {
            (Some((step, _)), _) => Moment::Before(point(CrashSide::Before, *step, self.times(*step) + 1)),
            (None, Some((point, later))) => Moment::After(point, later),
            (None, None) => Moment::Step(self.steps),
        }
    }

    fn times(&self, step: Step) -> usize {
        self.reached.get(&step).map_or(0, Vec::len)
    }

    fn line(&self, event: Event) -> Line {
        Line { step: self.steps, event }
    }
}

impl Iterator for Replay {
    type Item = Line;

    fn next(&mut self) -> Option<Line> {
        if self.ended {
            return None;
        }
        if self.world.oracle.violation().is_none() {
            if self.departures.front().is_some_and(|departure| self.is_due(departure.at)) {
                return Some(self.depart());
            }
            if let Some(line) = self.go_on() {
                return Some(line);
            }
            self.world.judge_rest();
        }
        self.ended = true;
        let violation = self.world.oracle.violation().cloned()?;
        Some(self.line(Event::Violated(violation)))
    }
}

impl Story {
    /// What was violated.
    pub fn violation(&self) -> Option<&Violation> {
        match &self.0.last()?.event {
            Event::Violated(violation) => Some(violation),
            Event::Due { .. } | Event::Departure { .. } | Event::NeverReached(_) => None,
        }
    }

    /// Whether every departure happened.
    pub fn all_came_about(&self) -> bool {
        self.0.iter().all(|line| match &line.event {
            Event::Due { .. } | Event::Violated(_) => true,
            Event::Departure { came_about, .. } => *came_about,
            Event::NeverReached(_) => false,
        })
    }
}

fn point(side: CrashSide, step: Step, occurrence: usize) -> CrashPoint {
    CrashPoint { side, step, occurrence: u32::try_from(occurrence).unwrap_or(u32::MAX) }
}

fn occurrence(point: CrashPoint) -> usize {
    usize::try_from(point.occurrence).unwrap_or(usize::MAX)
}

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.event {
            Event::Due { words, reached } => {
                let reached: Vec<String> =
                    reached.iter().map(|point| format!("{}#{}", point.step, point.occurrence)).collect();
                write!(f, "{:5}  {:10} {words}", self.step, reached.join(" "))
            }
            Event::Departure { what, at, came_about } => {
                write!(f, "       {}{what}  (at {at})", if *came_about { "" } else { "NOT POSSIBLE " })
            }
            Event::NeverReached(Departure { at, what }) => write!(f, "       NEVER REACHED {at}: {what}"),
            Event::Violated(violation) => write!(f, "VIOLATED {violation}"),
        }
    }
}
