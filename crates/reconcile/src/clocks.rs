//! R23: whether the operator's clock agrees with the API server's, by the `Date` of every reply. Between two replies a clock that cannot be
//! set shows whether it was set.
//!
//! `Date` has whole seconds, and was written at some time between request and reply. So only what is certainly different counts. Where
//! API servers disagree, the last one that differed counts for a while.

use quorate_model::mutants::{Rule, is_broken};
use quorate_model::{ClockDifference, Instant, Span};

/// From here on the clocks differ.
const TOO_FAR: Span = Span::seconds(60);

/// `Date` has no fractions of it.
const RESOLUTION: Span = Span::seconds(1);

/// A reply that took longer shows too little.
const SLOW: Span = Span::seconds(5);

/// So long after the last reply that differed the clocks agree again.
const SETTLED_AFTER: Span = Span::seconds(60);

/// A difference that changes by less is reported as it was: a report that changes with every second helps nobody.
const CHANGED_BY: Span = Span::seconds(60);

/// What two clocks of the operator show at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnTime {
    /// The time, by the clock that may be set.
    pub wall: Instant,
    /// The time since the operator began, by the clock that cannot be set. It stands still while the machine is suspended.
    pub steady: Span,
}

/// What is known of the API server's clock.
#[derive(Clone, Debug, Default)]
pub struct Clocks {
    differs: Option<Differs>,
    /// When the last reply came that showed the time.
    seen: Option<OwnTime>,
}

#[derive(Clone, Copy, Debug)]
struct Differs {
    by: ClockDifference,
    /// When the last reply differed, or the first one came after the own clock was set, by the clock that cannot be set.
    at: Span,
}

/// What a reply has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noted {
    /// The clocks have agreed so far, and differ.
    Differs(ClockDifference),
    /// They agree again.
    Agrees,
    /// Nothing.
    Same,
}

impl Clocks {
    /// How far the operator's clock is from the API server's, if it is too far: by the last replies, and by what the clock that may be set
    /// has shown since.
    pub fn difference(&self, now: OwnTime) -> Option<ClockDifference> {
        let known = self.differs.map(|differs| differs.by);
        let was_set = self.seen.filter(|_| !is_broken(Rule::R23)).and_then(|seen| was_set_by(seen, now));
        match was_set {
            Some(by) => far(known.map_or(0, ahead).saturating_add(by), TOO_FAR).or(known),
            None => known,
        }
    }

    /// Takes the time that a reply shows: when its request was sent by the operator's clock, its `Date`, and now.
    pub fn note(&mut self, sent: Instant, date: Instant, received: OwnTime) -> Noted {
        // Also a clock that was set meanwhile shows nothing.
        if received.wall < sent || received.wall - sent > SLOW {
            return Noted::Same;
        }
        let now = received.steady;
        let seen = self.seen.replace(received).filter(|_| !is_broken(Rule::R23));
        let was_set = seen.and_then(|seen| far(was_set_by(seen, received)?, TOO_FAR));
        // If the reply agrees nevertheless, the API server's clock may have been set with this one, as on one machine, or this one was set
        // right. What is remembered by the time is of before.
        let was_set = was_set.map(|by| self.differs.map_or(by, |before| before.by));
        match (certain(sent, date, received.wall).or(was_set), self.differs) {
            (Some(by), before) => {
                let kept = before.map(|before| before.by).filter(|before| is_about(*before, by));
                self.differs = Some(Differs { by: kept.unwrap_or(by), at: now });
                if before.is_none() { Noted::Differs(by) } else { Noted::Same }
            }
            (None, Some(before)) if now.0.saturating_sub(before.at.0) >= SETTLED_AFTER.0 => {
                self.differs = None;
                Noted::Agrees
            }
            (None, _) => Noted::Same,
        }
    }
}

/// The least by which the clocks differ, if it is too much.
fn certain(sent: Instant, date: Instant, received: Instant) -> Option<ClockDifference> {
    let (ahead, behind) = (sent - (date + RESOLUTION), date - received);
    if ahead > TOO_FAR {
        Some(ClockDifference::Ahead(ahead))
    } else if behind > TOO_FAR {
        Some(ClockDifference::Behind(behind))
    } else {
        None
    }
}

/// By how much the clock on the wall has moved more than the other one, in milliseconds, if it is too much.
fn was_set_by(before: OwnTime, now: OwnTime) -> Option<i64> {
    let passed = i64::try_from(now.steady.0.saturating_sub(before.steady.0)).unwrap_or(i64::MAX);
    let by = now.wall.0.saturating_sub(before.wall.0).saturating_sub(passed);
    far(by, TOO_FAR).map(|_| by)
}

fn ahead(differs: ClockDifference) -> i64 {
    match differs {
        ClockDifference::Ahead(by) => i64::try_from(by.0).unwrap_or(i64::MAX),
        ClockDifference::Behind(by) => -i64::try_from(by.0).unwrap_or(i64::MAX),
    }
}

fn far(ahead: i64, limit: Span) -> Option<ClockDifference> {
    let by = Span(ahead.unsigned_abs());
    let differs = if ahead > 0 { ClockDifference::Ahead(by) } else { ClockDifference::Behind(by) };
    (by > limit).then_some(differs)
}

/// Both are too far, so what is close to each other has the same sign.
fn is_about(one: ClockDifference, other: ClockDifference) -> bool {
    ahead(one).abs_diff(ahead(other)) < CHANGED_BY.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: Instant = Instant(1_800_000_000_000);

    fn at(seconds: i64) -> Instant {
        Instant(NOON.0 + seconds * 1000)
    }

    fn own(wall: i64, steady: u64) -> OwnTime {
        OwnTime { wall: at(wall), steady: Span::seconds(steady) }
    }

    #[test]
    fn m08_only_what_is_certainly_different_counts() {
        let ahead = |seconds| Some(ClockDifference::Ahead(Span::seconds(seconds)));
        let behind = |seconds| Some(ClockDifference::Behind(Span::seconds(seconds)));
        // sent, date, received
        let table = [
            ((0, 0, 0), None),
            ((0, -61, 1), None),
            ((0, -62, 1), ahead(61)),
            ((0, 61, 1), None),
            ((0, 62, 1), behind(61)),
            ((0, -8 * 3600, 0), ahead(8 * 3600 - 1)),
        ];
        for ((sent, date, received), differs) in table {
            assert_eq!(certain(at(sent), at(date), at(received)), differs, "{sent} {date} {received}");
        }
    }

    #[test]
    fn m08_the_clocks_agree_again_a_minute_after_the_last_reply_that_differed() {
        let ahead = ClockDifference::Ahead(Span::seconds(599));
        let mut clocks = Clocks::default();
        assert_eq!(clocks.note(at(0), at(-600), own(0, 0)), Noted::Differs(ahead));
        assert_eq!(clocks.difference(own(0, 0)), Some(ahead));
        clocks.note(at(5), at(-590), own(5, 5));
        assert_eq!(clocks.difference(own(5, 5)), Some(ahead), "it stays");
        clocks.note(at(5), at(5), own(5, 5));
        assert!(clocks.difference(own(5, 5)).is_some(), "another API server");
        clocks.note(at(70), at(70), own(90, 90));
        assert!(clocks.difference(own(90, 90)).is_some(), "a slow reply shows nothing");
        assert_eq!(clocks.note(at(90), at(90), own(90, 90)), Noted::Agrees);
        assert_eq!(clocks.difference(own(90, 90)), None);
    }

    #[test]
    fn m58_a_clock_that_is_set_between_two_replies_differs_at_once() {
        let mut clocks = Clocks::default();
        assert_eq!(clocks.difference(own(7200, 0)), None, "nothing is known yet");
        clocks.note(at(0), at(0), own(0, 0));
        let table = [
            ((300, 300), None),
            ((59, 0), None),
            ((3600, 1), Some(ClockDifference::Ahead(Span::seconds(3599)))),
            ((-3600, 1), Some(ClockDifference::Behind(Span::seconds(3601)))),
        ];
        for ((wall, steady), differs) in table {
            assert_eq!(clocks.difference(own(wall, steady)), differs, "{wall} {steady}");
        }
        // A machine that was suspended shows the right time, and so does one whose API server's clock was set with the operator's. Replies
        // say so for a minute.
        let ahead = ClockDifference::Ahead(Span::seconds(3599));
        assert_eq!(clocks.note(at(3600), at(3600), own(3600, 1)), Noted::Differs(ahead));
        clocks.note(at(3659), at(3659), own(3659, 60));
        assert_eq!(clocks.difference(own(3659, 60)), Some(ahead));
        assert_eq!(clocks.note(at(3660), at(3660), own(3660, 61)), Noted::Agrees);
        assert_eq!(clocks.difference(own(3660, 61)), None);
        // One that was wrong and is set counts as wrong until replies have agreed for a minute.
        clocks.note(at(7200), at(3600), own(7200, 62));
        assert_eq!(clocks.difference(own(3602, 64)), clocks.difference(own(7200, 62)));
        assert_eq!(
            clocks.difference(own(-10_000, 64)),
            Some(ClockDifference::Behind(Span::seconds(17_202 - 3599)))
        );
    }
}
