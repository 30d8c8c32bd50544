//! Whose turn it is to take new defaults of the operator: so many clusters at a time, and none more while one of them does not get ready.
//! It is decided anew from what is seen, so a new operator goes on where the last one ended.

mod turns;

use std::fmt;
use std::str::FromStr;

use quorate_model::effect::{TakingTurns, Wave};
use quorate_model::mutants::{Rule, is_broken};
use quorate_model::record::Turn;
use quorate_model::snapshot::DefaultsTurn;
use quorate_model::{Instant, Span};

pub use turns::{Progress, STUCK_AFTER, Turns, progress};

/// A cluster that takes new defaults and restarts no member for longer gives its place to others. A restart with a move of leadership, a backup
/// that runs, or a volume that grows takes less.
pub const PARKED_AFTER: Span = Span::seconds(600);

/// Whether nothing came of a turn for so long that it keeps its place no more. `now` is the earlier of both clocks (R23).
pub fn is_parked(turn: Turn, now: Instant) -> bool {
    now - turn.since > PARKED_AFTER && !is_broken(Rule::TurnsParked)
}

/// How many clusters may take new defaults at a time: so many, and so many percent of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// So many.
    pub base: usize,
    /// And so many percent of all clusters, rounded down.
    pub percent: usize,
}

/// A cluster that takes new defaults now, or wants to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rolling {
    /// Its namespace and name.
    pub name: String,
    /// It has too few members to serve while one of them restarts.
    pub interrupted: bool,
    /// Why it does not get ready, if it does not for a while.
    pub stuck: Option<String>,
    /// Why it is not well, if it is not. Only asked of a cluster that wants to take them.
    pub unwell: Option<String>,
}

/// Whether a cluster may take them now. `rolling`: those that do; `all`: how many clusters there are.
///
/// Of the clusters that a restart interrupts only the base of the limit go at a time: the percentage is for those whose clients do not notice.
pub fn turn(own: &Rolling, rolling: &[Rolling], all: usize, limit: Limit) -> DefaultsTurn {
    if rolling.iter().any(|cluster| cluster.name == own.name) {
        return DefaultsTurn::Now;
    }
    // It gets no turn: its members could not be restarted, and every other cluster would wait for it.
    if let Some(why) = own.unwell.as_ref().filter(|_| !is_broken(Rule::TurnsWell)) {
        return DefaultsTurn::After(Wave::PassedOver(why.clone()));
    }
    if let Some((name, why)) =
        rolling.iter().find_map(|cluster| Some((&cluster.name, cluster.stuck.as_ref()?)))
        && !is_broken(Rule::TurnsStopped)
    {
        return DefaultsTurn::After(Wave::Stopped { cluster: name.clone(), why: why.clone() });
    }
    let (most, interrupted) = (limit.of(all), limit.of_interrupted());
    if rolling.len() >= most && !is_broken(Rule::TurnsLimit) {
        return DefaultsTurn::After(Wave::Full(turns(rolling.iter(), most, limit)));
    }
    let alike = || rolling.iter().filter(|cluster| cluster.interrupted);
    if own.interrupted && alike().count() >= interrupted {
        return DefaultsTurn::After(Wave::FullOfInterrupted(turns(alike(), interrupted, limit)));
    }
    DefaultsTurn::Now
}

fn turns<'a>(now: impl Iterator<Item = &'a Rolling>, most: usize, limit: Limit) -> TakingTurns {
    TakingTurns { now: now.map(|cluster| cluster.name.clone()).collect(), most, limit: limit.to_string() }
}

impl Limit {
    /// The number among so many clusters: never none, or nobody would ever be next.
    pub fn of(self, all: usize) -> usize {
        (self.base + all * self.percent / 100).max(1)
    }

    /// The number among those that a restart interrupts.
    fn of_interrupted(self) -> usize {
        self.base.max(1)
    }
}

impl Default for Limit {
    fn default() -> Self {
        Self { base: 1, percent: 5 }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.base, self.percent) {
            (base, 0) => write!(f, "{base}"),
            (0, percent) => write!(f, "{percent}%"),
            (base, percent) => write!(f, "{base}+{percent}%"),
        }
    }
}

/// `3`, `10%` or `1+5%`.
impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("expected a number, a percentage or both, such as 3, 10% or 1+5%, and not {text:?}");
        let mut limit = Self { base: 0, percent: 0 };
        for part in text.split('+').map(str::trim) {
            let (number, of) = match part.strip_suffix('%') {
                Some(number) => (number, &mut limit.percent),
                None => (part, &mut limit.base),
            };
            let number = number.trim().parse().ok().filter(|number| (1..=100_000).contains(number));
            match number {
                Some(number) if *of == 0 => *of = number,
                Some(_) | None => return Err(wrong()),
            }
        }
        Ok(limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(name: &str, interrupted: bool) -> Rolling {
        Rolling { name: name.to_owned(), interrupted, stuck: None, unwell: None }
    }

    fn rolling(names: &[&str]) -> Vec<Rolling> {
        names.iter().map(|name| cluster(name, false)).collect()
    }

    #[test]
    fn the_limit_is_a_number_a_percentage_or_both() {
        for (text, all, expected) in [
            ("3", 1000, 3),
            ("10%", 1000, 100),
            ("10%", 3, 1),
            ("1+5%", 30, 2),
            ("1 + 5 %", 1000, 51),
            ("2", 0, 2),
        ] {
            assert_eq!(text.parse::<Limit>().unwrap().of(all), expected, "{text}");
        }
        assert_eq!(Limit::default(), "1+5%".parse().unwrap());
        assert_eq!(Limit::default().to_string(), "1+5%");
        for wrong in ["", "0", "0%", "-1", "1+2", "x", "1+", "99999999999999999999%"] {
            assert!(wrong.parse::<Limit>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn so_many_clusters_take_new_defaults_at_a_time_and_those_that_began_go_on() {
        let limit = Limit { base: 2, percent: 0 };
        assert_eq!(turn(&cluster("a/x", false), &rolling(&[]), 9, limit), DefaultsTurn::Now);
        assert_eq!(turn(&cluster("a/x", false), &rolling(&["b/y"]), 9, limit), DefaultsTurn::Now);
        let DefaultsTurn::After(why) = turn(&cluster("a/x", false), &rolling(&["b/y", "c/z"]), 9, limit)
        else {
            panic!("a third one")
        };
        let now = vec!["b/y".to_owned(), "c/z".to_owned()];
        assert_eq!(why, Wave::Full(TakingTurns { now, most: 2, limit: "2".to_owned() }));
        assert_eq!(
            turn(&cluster("b/y", false), &rolling(&["b/y", "c/z", "d/w"]), 9, limit),
            DefaultsTurn::Now
        );
    }

    #[test]
    fn of_clusters_that_a_restart_interrupts_only_the_base_of_the_limit_go_at_a_time() {
        let limit = Limit::default();
        let one = [cluster("b/one", true)];
        let DefaultsTurn::After(why) = turn(&cluster("a/one", true), &one, 100, limit) else {
            panic!("two are down at the same time")
        };
        let now = vec!["b/one".to_owned()];
        assert_eq!(why, Wave::FullOfInterrupted(TakingTurns { now, most: 1, limit: limit.to_string() }));
        assert_eq!(turn(&cluster("a/three", false), &one, 100, limit), DefaultsTurn::Now);
        assert_eq!(turn(&cluster("a/one", true), &rolling(&["b/three"]), 100, limit), DefaultsTurn::Now);
        assert_eq!(turn(&cluster("b/one", true), &one, 100, limit), DefaultsTurn::Now, "it goes on");
        assert_eq!(turn(&cluster("a/one", true), &one, 100, "2".parse().unwrap()), DefaultsTurn::Now);
        assert_eq!("10%".parse::<Limit>().unwrap().of_interrupted(), 1);
    }

    #[test]
    fn m06_one_that_is_not_well_before_its_turn_gets_none_and_says_so_and_one_that_began_goes_on() {
        let limit = Limit { base: 9, percent: 0 };
        let sick = Rolling { unwell: Some("demo-0: no node fits.".to_owned()), ..cluster("a/x", false) };
        let DefaultsTurn::After(why) = turn(&sick, &rolling(&[]), 9, limit) else { panic!("it gets a turn") };
        assert_eq!(why, Wave::PassedOver("demo-0: no node fits.".to_owned()));
        assert_eq!(turn(&sick, &rolling(&["a/x"]), 9, limit), DefaultsTurn::Now, "it began when it was well");
    }

    /// A cluster of a fleet: its look at itself, and how far it is.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    struct One {
        interrupted: bool,
        /// It is not well: a member is not healthy, or no node fits.
        sick: bool,
        /// It is paused, or has size zero.
        paused: bool,
        begun: bool,
        done: bool,
    }

    impl One {
        fn is_taking(self) -> bool {
            self.begun && !self.done && !self.paused
        }

        fn rolling(self, place: usize) -> Rolling {
            let why = || "demo-0: no node fits".to_owned();
            Rolling {
                name: format!("a/demo-{place}"),
                interrupted: self.interrupted,
                stuck: (self.is_taking() && self.sick).then(why),
                unwell: (!self.begun && self.sick).then(why),
            }
        }
    }

    /// Choices of a seed (xorshift).
    struct Choices(u64);

    impl Choices {
        fn once_in(&mut self, n: u64) -> bool {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0.is_multiple_of(n)
        }
    }

    /// Each cluster looks once, and begins if it is its turn. Returns how many began.
    fn all_look(fleet: &mut [One], limit: Limit) -> usize {
        let mut began = 0;
        for place in 0..fleet.len() {
            let own = fleet[place];
            if own.begun || own.paused {
                continue;
            }
            let taking: Vec<Rolling> = fleet
                .iter()
                .enumerate()
                .filter(|(_, one)| one.is_taking())
                .map(|(place, one)| one.rolling(place))
                .collect();
            if turn(&own.rolling(place), &taking, fleet.len(), limit) != DefaultsTurn::Now {
                continue;
            }
            assert!(!own.sick, "demo-{place} was sick before its turn, and is restarted");
            assert!(
                taking.iter().all(|one| one.stuck.is_none()),
                "demo-{place} begins while another one fails"
            );
            fleet[place].begun = true;
            began += 1;
            let count = |is: fn(&One) -> bool| fleet.iter().filter(|one| one.is_taking() && is(one)).count();
            assert!(count(|_| true) <= limit.of(fleet.len()), "too many at a time: {fleet:?}");
            if own.interrupted {
                assert!(
                    count(|one| one.interrupted) <= limit.of_interrupted(),
                    "too many are down: {fleet:?}"
                );
            }
        }
        began
    }

    #[test]
    fn m56_clusters_that_are_sick_before_their_turn_hold_no_wave_and_those_that_fail_stop_it() {
        let (mut begun_sick, mut stopped, mut turns) = (0, 0, 0);
        for seed in 1..400_u64 {
            let mut choices = Choices(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let limit = Limit {
                base: 1 + usize::from(choices.once_in(3)),
                percent: [0, 10][usize::from(choices.once_in(2))],
            };
            let mut fleet: Vec<One> = (0..12)
                .map(|_| One {
                    interrupted: choices.once_in(3),
                    sick: choices.once_in(4),
                    paused: choices.once_in(8),
                    ..One::default()
                })
                .collect();
            begun_sick += fleet.iter().filter(|one| one.sick).count();
            for _ in 0..60 {
                for one in &mut fleet {
                    // By itself, by the restart, and by somebody who repairs it.
                    if choices.once_in(if one.sick { 12 } else { 30 }) {
                        one.sick = !one.sick;
                    }
                    if choices.once_in(50) {
                        one.paused = !one.paused;
                    }
                    one.done |= one.is_taking() && !one.sick && choices.once_in(4);
                }
                if fleet.len() > 8 && choices.once_in(80) {
                    fleet.remove(0);
                }
                let fails = fleet.iter().any(|one| one.is_taking() && one.sick);
                let is_free = !fleet.iter().any(|one| one.is_taking());
                let may_begin = fleet.iter().any(|one| !one.begun && !one.paused && !one.sick);
                let began = all_look(&mut fleet, limit);
                assert!(!fails || began == 0, "a failure stops the wave");
                assert!(
                    !is_free || !may_begin || began > 0,
                    "all wait for one that has not begun: {fleet:?}"
                );
                stopped += usize::from(fails && may_begin);
                turns += began;
            }
            // All are repaired, and get ready.
            for _ in 0..fleet.len() {
                for one in &mut fleet {
                    (one.sick, one.paused, one.done) = (false, false, one.begun);
                }
                all_look(&mut fleet, limit);
            }
            assert!(fleet.iter().all(|one| one.begun), "seed {seed}: {fleet:?}");
        }
        assert!(begun_sick > 500 && stopped > 500 && turns > 2000, "{begun_sick} {stopped} {turns}");
    }

    #[test]
    fn one_that_does_not_get_ready_stops_the_others_and_is_named() {
        let mut some = rolling(&["b/y"]);
        some[0].stuck = Some("demo-0: ErrImagePull".to_owned());
        let limit = Limit { base: 9, percent: 0 };
        let DefaultsTurn::After(why) = turn(&cluster("a/x", false), &some, 9, limit) else {
            panic!("it goes on")
        };
        let stopped = Wave::Stopped { cluster: "b/y".to_owned(), why: "demo-0: ErrImagePull".to_owned() };
        assert_eq!(why, stopped);
        assert_eq!(
            turn(&cluster("b/y", false), &some, 9, limit),
            DefaultsTurn::Now,
            "what may cure it reaches it"
        );
    }
}
