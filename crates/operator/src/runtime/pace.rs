//! When the next pass over an object is due.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use quorate_reconcile::Retry;

/// The longest interval of passes over what is well and at rest. What Kubernetes reports starts a pass at once, such as a disk that hangs; what
/// etcd alone knows is noticed within the interval and the deadline of a call.
pub const IDLE: Duration = Duration::from_secs(30);

/// How many objects that are well are looked at in a second. So up to eighty are looked at every eight seconds, and from three hundred on every
/// half minute: a look at a cluster costs some 2 ms of a core.
const CALM_IN_A_SECOND: u32 = 10;

/// The shortest interval of passes over what is well. With what follows, clients are led away from a member that is cut off from its peers within 15 s.
const CALM: Duration = Duration::from_secs(8);

/// By which part of it [`IDLE`] is longer or shorter. Objects that were created, or woken, at one moment do not stay together.
const JITTER: f64 = 0.1;

/// How many objects are looked at for the first time in a second when an operator begins to lead, and the longest time that this may take. A
/// first look reads what later ones remember, and connects to every member.
const FIRST_IN_A_SECOND: f64 = 100.0;
const FIRST_WITHIN: Duration = Duration::from_secs(30);

/// So few are looked at at once.
const FEW: usize = 10;

/// The longest interval of passes over what is not well, or waits for a person.
pub const ATTENTIVE: Duration = Duration::from_secs(10);

/// The first interval while something is under way.
const QUICK: Duration = Duration::from_millis(100);

/// The longest interval of the first passes while something is under way. An election takes about a second.
const BRISK: Duration = Duration::from_millis(250);

/// The longest interval of later passes while something is under way.
const STEADY: Duration = Duration::from_secs(1);

/// The number of passes at short intervals.
const BRISK_PASSES: u32 = 20;

/// The number of passes until what is under way counts as what may last for long: five minutes, if no event and no effect came between.
const STEADY_PASSES: u32 = BRISK_PASSES + 300;

/// The first and the longest interval after failures.
const RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_mins(1));

/// The interval after a refusal that may end by itself.
const REFUSED: Duration = Duration::from_secs(1);

/// How a pass ended. It decides when the next one is due; ordered by that, the soonest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// Effects were carried out. The next pass sees what they led to.
    Acted,
    /// The same effects were carried out as in the last pass, and nothing has changed.
    NoProgress,
    /// Something is under way and needs no effect.
    Waiting,
    /// Refused temporarily: by etcd, or because another write came first.
    Refused,
    /// Something is unhealthy and may stay so for long.
    Degraded,
    /// Everything is as desired.
    Idle,
    /// Only an edit by the user helps, and it starts a pass.
    UserMustEdit,
    /// The API server had too many requests, and said after how many seconds to come back. No event ends the delay.
    Throttled(u32),
    /// Something failed.
    Failed,
    /// Something failed because the API server did not answer. No event ends the delay: an object in trouble has many.
    Unanswered,
}

/// The pace of one worker.
#[derive(Debug, Default)]
pub struct Pace {
    quick: u32,
    failures: u32,
    /// Of the object: intervals of different objects differ.
    seed: u64,
    idle: u64,
    /// The interval of passes over what is well; the longest one where nobody said how many there are.
    calm: Option<Duration>,
}

impl From<Retry> for Outcome {
    fn from(retry: Retry) -> Self {
        match retry {
            Retry::Now => Self::Acted,
            Retry::Soon => Self::Waiting,
            Retry::Refused => Self::Refused,
            Retry::Degraded => Self::Degraded,
            Retry::Throttled(seconds) => Self::Throttled(seconds),
            Retry::Failed => Self::Failed,
            Retry::Unanswered => Self::Unanswered,
        }
    }
}

impl Outcome {
    /// Whether a change of the object starts the next pass before it is due.
    pub fn ends_by_event(self) -> bool {
        match self {
            Self::Throttled(_) | Self::Unanswered => false,
            Self::Acted
            | Self::NoProgress
            | Self::Waiting
            | Self::Refused
            | Self::Degraded
            | Self::Idle
            | Self::UserMustEdit
            | Self::Failed => true,
        }
    }

    /// The label in metrics.
    pub fn as_label(self) -> &'static str {
        match self {
            Self::Acted => "acted",
            Self::NoProgress => "no_progress",
            Self::Waiting => "waiting",
            Self::Degraded => "unwell",
            Self::Idle => "calm",
            Self::Refused => "refused",
            Self::UserMustEdit => "user_must_edit",
            Self::Throttled(_) => "throttled",
            Self::Failed => "failed",
            Self::Unanswered => "unanswered",
        }
    }
}

impl Pace {
    /// The pace of the worker for this object.
    pub fn of(object: &impl Hash) -> Self {
        Self { seed: number(object), ..Self::default() }
    }

    /// So many objects of the kind are looked at.
    pub fn among(&mut self, together: usize) {
        let together = u32::try_from(together).unwrap_or(u32::MAX);
        let all = Duration::from_secs(1).saturating_mul(together) / CALM_IN_A_SECOND;
        self.calm = Some(all.clamp(CALM, IDLE));
    }

    fn idle(&mut self) -> Duration {
        self.idle = self.idle.wrapping_add(1);
        let by = part(number(&(self.seed, self.idle)));
        self.calm.unwrap_or(IDLE).mul_f64(1.0 + JITTER * (2.0 * by - 1.0))
    }

    /// How long to wait until the next pass, unless an event comes first.
    pub fn after(&mut self, ended: Outcome) -> Duration {
        match ended {
            Outcome::Throttled(_) | Outcome::Failed | Outcome::Unanswered => {}
            Outcome::Acted
            | Outcome::NoProgress
            | Outcome::Waiting
            | Outcome::Degraded
            | Outcome::Idle
            | Outcome::Refused
            | Outcome::UserMustEdit => self.failures = 0,
        }
        match ended {
            Outcome::Acted => {
                self.quick = 0;
                Duration::ZERO
            }
            Outcome::Waiting | Outcome::Refused if self.quick >= STEADY_PASSES => ATTENTIVE,
            Outcome::Waiting if self.quick < BRISK_PASSES => grow(QUICK, BRISK, &mut self.quick),
            Outcome::Waiting => grow(QUICK, STEADY, &mut self.quick),
            Outcome::Degraded | Outcome::NoProgress => grow(QUICK, ATTENTIVE, &mut self.quick),
            Outcome::Refused => grow(REFUSED, REFUSED, &mut self.quick),
            // The sooner it was refused for all, the more come back at the same moment.
            Outcome::Throttled(seconds) => {
                let first = Duration::from_secs(seconds.into());
                let by = part(number(&(self.seed, self.failures)));
                grow(first, RETRY.1.max(first), &mut self.failures).mul_f64(1.0 + by)
            }
            Outcome::Failed => grow(RETRY.0, RETRY.1, &mut self.failures),
            // Nothing tells when it answers again.
            Outcome::Unanswered => grow(RETRY.0, ATTENTIVE, &mut self.failures),
            Outcome::Idle => {
                self.quick = 0;
                self.idle()
            }
            Outcome::UserMustEdit => {
                self.quick = 0;
                ATTENTIVE
            }
        }
    }

    /// Something has changed in Kubernetes, so what was slow may come soon, and what failed may succeed.
    pub fn reset_backoff(&mut self) {
        self.quick = 0;
        self.failures = 0;
    }
}

/// How long the first pass over an object may wait, as one of so many that begin together; `None` if it is due at once.
pub fn first(object: &impl Hash, together: usize) -> Option<Duration> {
    (together > FEW).then(|| spread(object, together).min(FIRST_WITHIN.mul_f64(part(number(object)))))
}

/// The same of one of so many that have ended: it comes after those that are under way.
pub fn first_of_ended(object: &impl Hash, together: usize) -> Duration {
    FIRST_WITHIN + spread(object, together)
}

/// Some part of the time that so many first passes take.
fn spread(object: &impl Hash, together: usize) -> Duration {
    #[expect(clippy::cast_precision_loss, reason = "no fleet is that large")]
    let all = Duration::from_secs_f64(together as f64 / FIRST_IN_A_SECOND);
    all.mul_f64(part(number(object)))
}

/// The same number in every operator.
fn number(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// A number as a part of 1.
fn part(number: u64) -> f64 {
    let [high, low, ..] = number.to_be_bytes();
    f64::from(u16::from_be_bytes([high, low])) / f64::from(u16::MAX)
}

/// Doubles from `first` up to `last`.
fn grow(first: Duration, last: Duration, times: &mut u32) -> Duration {
    let delay = first.saturating_mul(2_u32.saturating_pow(*times)).min(last);
    *times = times.saturating_add(1);
    delay
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An interval of what is well, whatever its jitter.
    fn is_idle(interval: Duration) -> bool {
        (27..=33).contains(&interval.as_secs())
    }

    #[test]
    fn the_next_pass_is_due_at_once_after_effects_and_with_growing_delay_while_something_is_under_way() {
        let mut pace = Pace::default();
        assert_eq!(pace.after(Outcome::Acted), Duration::ZERO);
        let waits: Vec<u128> = (0..4).map(|_| pace.after(Outcome::Waiting).as_millis()).collect();
        assert_eq!(waits, [100, 200, 250, 250]);
        let all: Duration = (0..BRISK_PASSES).map(|_| pace.after(Outcome::Waiting)).sum();
        assert!(all < Duration::from_secs(10));
        assert_eq!(pace.after(Outcome::Waiting), STEADY);
        pace.reset_backoff();
        assert_eq!(pace.after(Outcome::Waiting).as_millis(), 100);
    }

    #[test]
    fn l16_what_is_under_way_is_looked_at_every_second_for_five_minutes_and_then_every_ten() {
        for outcome in [Outcome::Waiting, Outcome::Refused] {
            let mut pace = Pace::default();
            let intervals: Vec<Duration> = (0..1000).map(|_| pace.after(outcome)).collect();
            let quick: Duration = intervals.iter().take_while(|interval| **interval < ATTENTIVE).sum();
            assert!(quick >= Duration::from_mins(5) && quick < Duration::from_mins(6), "{quick:?}");
            assert_eq!(intervals.last(), Some(&ATTENTIVE));
            pace.reset_backoff();
            assert!(pace.after(outcome) <= REFUSED, "after an event");
        }
    }

    #[test]
    fn failures_are_retried_with_growing_delay_until_a_pass_succeeds() {
        let mut pace = Pace::default();
        let retries: Vec<u128> = (0..9).map(|_| pace.after(Outcome::Failed).as_millis()).collect();
        assert_eq!(retries, [500, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]);
        assert!(is_idle(pace.after(Outcome::Idle)));
        assert_eq!(pace.after(Outcome::Failed).as_millis(), 500);
        for _ in 0..100 {
            pace.after(Outcome::Failed);
        }
        assert_eq!(pace.after(Outcome::Failed), RETRY.1, "no overflow");
        pace.reset_backoff();
        assert_eq!(pace.after(Outcome::Failed), RETRY.0, "after an event");
    }

    #[test]
    fn n16_what_the_api_server_has_no_room_for_comes_back_when_it_says_and_later_each_time_and_not_together()
    {
        let mut firsts: Vec<Duration> =
            (0..100).map(|object| Pace::of(&object).after(Outcome::Throttled(5))).collect();
        firsts.sort_unstable();
        assert!(firsts[0] >= Duration::from_secs(5) && firsts[99] <= Duration::from_secs(10), "{firsts:?}");
        assert!(firsts[99] > firsts[0] + Duration::from_secs(4), "they come together: {firsts:?}");
        let mut pace = Pace::of(&"a");
        let later: Vec<u64> = (0..7).map(|_| pace.after(Outcome::Throttled(1)).as_secs()).collect();
        assert!(later[0] >= 1 && later[5] >= 32 && later.iter().all(|each| *each <= 120), "{later:?}");
    }

    #[test]
    fn a_refusal_is_retried_every_second() {
        let mut pace = Pace::default();
        assert!((0..5).all(|_| pace.after(Outcome::Refused) == REFUSED));
    }

    #[test]
    fn l08_effects_without_progress_are_repeated_with_growing_delay() {
        let mut pace = Pace::default();
        let waits: Vec<u128> = (0..9).map(|_| pace.after(Outcome::NoProgress).as_millis()).collect();
        assert_eq!(waits, [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
    }

    #[test]
    fn objects_that_are_well_are_not_looked_at_together_for_long() {
        let mut paces: Vec<Pace> = (0..1000).map(|object| Pace::of(&object)).collect();
        let mut firsts: Vec<Duration> = (0..1000).filter_map(|object| first(&object, 1000)).collect();
        firsts.sort();
        assert!(firsts[999] <= Duration::from_secs(10), "{:?}", firsts[999]);
        let in_a_second = |second: u64| {
            let is_in = |first: &&Duration| first.as_secs() == second;
            firsts.iter().filter(is_in).count()
        };
        assert!((0..10).all(|second| (60..150).contains(&in_a_second(second))), "{firsts:?}");
        // Ten minutes after they all began together.
        let mut due: Vec<u64> = paces
            .iter_mut()
            .map(|pace| (0..20).map(|_| pace.after(Outcome::Idle)).sum::<Duration>().as_secs())
            .collect();
        due.sort_unstable();
        let busiest = due.chunk_by(|one, next| one == next).map(<[u64]>::len).max();
        assert!(busiest < Some(150), "{busiest:?} of 1000 in one second");
        let average = due.iter().sum::<u64>() / 1000;
        assert!((595..=605).contains(&average), "{average}");
        assert!(paces.iter_mut().all(|pace| is_idle(pace.after(Outcome::Idle))));
    }

    #[test]
    fn l02_of_few_clusters_a_fault_that_etcd_alone_knows_is_noticed_within_nine_seconds() {
        for (together, calm) in [(1, 8), (80, 8), (200, 20), (300, 30), (100_000, 30)] {
            let mut pace = Pace::of(&"a");
            pace.among(together);
            let interval = pace.after(Outcome::Idle);
            assert!(interval.as_secs_f64() <= f64::from(calm) * 1.1, "{together}: {interval:?}");
            assert!(interval.as_secs_f64() >= f64::from(calm) * 0.9, "{together}: {interval:?}");
        }
    }

    #[test]
    fn n21_objects_that_were_created_while_the_operator_leads_do_not_stay_together_either() {
        let mut due: Vec<Duration> = (0..100).map(|object| Pace::of(&object).after(Outcome::Idle)).collect();
        due.sort_unstable();
        due.dedup();
        assert!(due.len() > 90 && due[due.len() - 1] > due[0] + Duration::from_secs(5), "{due:?}");
    }

    #[test]
    fn few_objects_are_looked_at_at_once_and_many_within_half_a_minute() {
        assert_eq!(first(&"a", FEW), None);
        let firsts: Vec<_> = (0..100).map(|object| first(&object, 100_000)).collect();
        assert!(firsts.iter().all(|first| first.is_some_and(|first| first <= FIRST_WITHIN)), "{firsts:?}");
    }

    #[test]
    fn n10_objects_that_have_ended_are_looked_at_after_all_others_and_a_hundred_in_a_second() {
        let mut firsts: Vec<Duration> = (0..23_000).map(|object| first_of_ended(&object, 23_000)).collect();
        firsts.sort_unstable();
        assert!(firsts[0] >= FIRST_WITHIN, "{:?}", firsts[0]);
        assert!(firsts[22_999] <= FIRST_WITHIN + Duration::from_secs(230), "{:?}", firsts[22_999]);
        let busiest =
            firsts.chunk_by(|one, next| one.as_secs() == next.as_secs()).map(<[Duration]>::len).max();
        assert!(busiest < Some(150), "{busiest:?} in one second");
    }

    #[test]
    fn what_is_well_is_looked_at_every_half_minute_and_all_else_at_least_every_ten_seconds() {
        let mut pace = Pace::default();
        assert!(is_idle(pace.after(Outcome::Idle)));
        assert_eq!(pace.after(Outcome::UserMustEdit), ATTENTIVE);
        let longest = (0..20).map(|_| pace.after(Outcome::Degraded)).max();
        assert_eq!(longest, Some(ATTENTIVE));
        assert!(is_idle(pace.after(Outcome::Idle)));
    }
}
