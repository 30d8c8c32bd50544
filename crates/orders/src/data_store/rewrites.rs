//! How often a DataStore that exists had to be put right. Where something else changes it again and again, the pauses grow.

use std::collections::VecDeque;

use quorate_model::{Instant, Span};

/// How long a write counts.
const COUNTS_FOR: Span = Span::seconds(600);

/// So many are nothing special: a person tries something.
const FREE: usize = 3;

/// The first and the longest pause after further ones.
const PAUSE: (u64, u64) = (5, 60);

/// The times of the last writes.
#[derive(Debug, Default)]
pub struct Rewrites(VecDeque<Instant>);

impl Rewrites {
    /// It was put right now.
    pub fn note(&mut self, now: Instant) {
        self.0.push_back(now);
    }

    /// Whether it is not to be put right now, since that did not last the last times.
    pub fn is_contested(&mut self, now: Instant) -> bool {
        self.0.retain(|at| *at <= now && now - *at < COUNTS_FOR);
        let Some(last) = self.0.back() else { return false };
        let more = self.0.len().saturating_sub(FREE);
        let seconds = PAUSE.0.saturating_mul(1 << more.saturating_sub(1).min(16)).min(PAUSE.1);
        more > 0 && now - *last < Span::seconds(seconds)
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
            if !rewrites.is_contested(now) {
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
            assert!(!rewrites.is_contested(now), "{minute}");
            rewrites.note(now);
        }
    }
}
