//! When the next pass over a cluster is due.

use std::time::Duration;

/// A look when nothing is to be done: with the deadline of a call and one more pass, a hung member is noticed within
/// 15 s although no Pod changed.
pub const CALM: Duration = Duration::from_secs(10);

/// The first look again while something is under way.
const QUICK: Duration = Duration::from_millis(100);

/// The slowest look while something is under way: at first, as an election takes about a second, and later.
const BRISK: Duration = Duration::from_millis(250);
const STEADY: Duration = Duration::from_secs(1);

/// How many looks are brisk.
const BRISK_LOOKS: u32 = 20;

/// The first retry after a failure, and the last.
const RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_mins(1));

/// After etcd refused for the time being.
const REFUSED: Duration = Duration::from_secs(1);

/// How a pass ended, as far as the next one depends on it; the one that is due sooner first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// Something was done: what it led to can be seen at once.
    Acted,
    /// The same was done as in the pass before, and it led to nothing new.
    NoProgress,
    /// Something is under way and will go on by itself.
    Waiting,
    /// Refused for the time being, by etcd or by somebody who was faster.
    Refused,
    /// Something is not well, and may stay so for long.
    Unwell,
    /// Everything is as desired.
    Calm,
    /// Only the user can help; an edit wakes us.
    UserMustEdit,
    /// Something failed.
    Failed,
}

/// The pace of one cluster.
#[derive(Debug, Default)]
pub struct Pace {
    quick: u32,
    failures: u32,
}

impl Outcome {
    /// For the metric.
    pub fn as_label(self) -> &'static str {
        match self {
            Self::Acted => "acted",
            Self::NoProgress => "no_progress",
            Self::Waiting => "waiting",
            Self::Unwell => "unwell",
            Self::Calm => "calm",
            Self::Refused => "refused",
            Self::UserMustEdit => "user_must_edit",
            Self::Failed => "failed",
        }
    }
}

impl Pace {
    /// How long to wait until the next pass, unless an event comes first.
    pub fn after(&mut self, ended: Outcome) -> Duration {
        match ended {
            Outcome::Failed => {}
            Outcome::Acted
            | Outcome::NoProgress
            | Outcome::Waiting
            | Outcome::Unwell
            | Outcome::Calm
            | Outcome::Refused
            | Outcome::UserMustEdit => self.failures = 0,
        }
        match ended {
            Outcome::Acted => {
                self.quick = 0;
                Duration::ZERO
            }
            Outcome::Waiting if self.quick < BRISK_LOOKS => grow(QUICK, BRISK, &mut self.quick),
            Outcome::Waiting | Outcome::NoProgress => grow(QUICK, STEADY, &mut self.quick),
            Outcome::Unwell => grow(QUICK, CALM, &mut self.quick),
            Outcome::Refused => REFUSED,
            Outcome::Failed => grow(RETRY.0, RETRY.1, &mut self.failures),
            Outcome::Calm | Outcome::UserMustEdit => {
                self.quick = 0;
                CALM
            }
        }
    }

    /// Something happened in Kubernetes: what was slow to come may come now.
    pub fn reset_backoff(&mut self) {
        self.quick = 0;
    }
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

    #[test]
    fn what_was_done_is_looked_at_at_once_and_what_is_under_way_ever_slower_down_to_a_second() {
        let mut pace = Pace::default();
        assert_eq!(pace.after(Outcome::Acted), Duration::ZERO);
        let looks: Vec<u128> = (0..4).map(|_| pace.after(Outcome::Waiting).as_millis()).collect();
        assert_eq!(looks, [100, 200, 250, 250]);
        let all: Duration = (0..BRISK_LOOKS).map(|_| pace.after(Outcome::Waiting)).sum();
        assert!(all < Duration::from_secs(10));
        assert_eq!(pace.after(Outcome::Waiting), STEADY);
        pace.reset_backoff();
        assert_eq!(pace.after(Outcome::Waiting).as_millis(), 100);
    }

    #[test]
    fn failures_are_retried_ever_slower_and_one_success_forgets_them() {
        let mut pace = Pace::default();
        let retries: Vec<u128> = (0..9).map(|_| pace.after(Outcome::Failed).as_millis()).collect();
        assert_eq!(retries, [500, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]);
        assert_eq!(pace.after(Outcome::Calm), CALM);
        assert_eq!(pace.after(Outcome::Failed).as_millis(), 500);
        for _ in 0..100 {
            pace.after(Outcome::Failed);
        }
        assert_eq!(pace.after(Outcome::Failed), RETRY.1, "no overflow");
    }

    #[test]
    fn a_refusal_is_asked_again_after_a_second_however_often() {
        let mut pace = Pace::default();
        assert!((0..5).all(|_| pace.after(Outcome::Refused) == REFUSED));
    }

    #[test]
    fn doing_the_same_again_and_again_does_not_run_hot() {
        let mut pace = Pace::default();
        let waits: Vec<u128> = (0..5).map(|_| pace.after(Outcome::NoProgress).as_millis()).collect();
        assert_eq!(waits, [100, 200, 400, 800, 1000]);
    }
}
