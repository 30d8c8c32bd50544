//! How often a DataStore that exists had to be put right. Where something else changes it again and again, the pauses grow.

use std::collections::VecDeque;

use quorate_model::{Backoff, Instant, Span};

/// How long a write counts.
const COUNTS_FOR: Span = Span::seconds(600);

/// So many are nothing special: a person tries something.
const FREE: usize = 3;

/// The pauses after further ones.
const PAUSES: Backoff = Backoff { first: Span::seconds(5), longest: Span::seconds(60) };

/// Whether something else changes an object again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contest {
    /// Nothing does.
    None,
    /// Something does, and it is put right now all the same.
    Goes,
    /// Something does, and it is not put right before a pause is over.
    Pauses,
}

/// The times of the last writes.
#[derive(Debug, Default)]
pub struct Rewrites(VecDeque<Instant>);

impl Rewrites {
    /// It is put right now, or that is tried.
    pub fn note(&mut self, now: Instant) {
        self.0.push_back(now);
    }

    /// Whether that did not last the last times.
    pub fn contest(&mut self, now: Instant) -> Contest {
        self.0.retain(|at| *at <= now && now - *at < COUNTS_FOR);
        let more = u32::try_from(self.0.len().saturating_sub(FREE)).unwrap_or(u32::MAX);
        let Some(last) = self.0.back().filter(|_| more > 0) else { return Contest::None };
        if now - *last < PAUSES.after(more) { Contest::Pauses } else { Contest::Goes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After how many seconds it is put right each time, where something else changes it at once.
    fn written(seconds: i64) -> Vec<i64> {
        let mut rewrites = Rewrites::default();
        let mut at = Vec::new();
        for second in 0..seconds {
            let now = Instant(1_800_000_000_000 + second * 1000);
            if rewrites.contest(now) != Contest::Pauses {
                rewrites.note(now);
                at.push(second);
            }
        }
        at
    }

    #[test]
    fn three_times_it_is_put_right_at_once_and_then_with_pauses_that_grow_to_a_minute() {
        assert_eq!(written(400), [0, 1, 2, 3, 8, 18, 38, 78, 138, 198, 258, 318, 378]);
        let count = i64::try_from(written(7200).len()).unwrap();
        assert!(count < 7200 / 60 + 10, "{count}: also after the first of them count no more");
    }

    #[test]
    fn now_and_then_it_is_put_right_at_once() {
        let mut rewrites = Rewrites::default();
        for minute in 0..60 {
            let now = Instant(1_800_000_000_000 + minute * 300_000);
            assert_eq!(rewrites.contest(now), Contest::None, "{minute}");
            rewrites.note(now);
        }
    }

    #[test]
    fn as_long_as_more_than_three_count_it_is_contested_whatever_the_pause() {
        let mut rewrites = Rewrites::default();
        let at = |second: i64| Instant(1_800_000_000_000 + second * 1000);
        for second in 0..4 {
            rewrites.note(at(second));
        }
        assert_eq!(rewrites.contest(at(4)), Contest::Pauses);
        assert_eq!(rewrites.contest(at(300)), Contest::Goes);
        assert_eq!(rewrites.contest(at(600)), Contest::None);
    }
}
