//! Crash points: places between effects at which a test lets the operator die. They carry the protocols' step numbers,
//! so that a test can loop over every step there is: `before:B4#1` is the moment before the first B4 effect,
//! `after:G3#2` the one after the second G3 effect. A change of the latched record counts as an effect of its step.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU32, Ordering};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use quorate_model::Step;

/// On which side of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Nothing was sent yet.
    Before,
    /// The reply is there and nothing else was done.
    After,
}

/// One crash point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrashPoint {
    /// On which side.
    pub side: Side,
    /// Of an effect of which step.
    pub step: Step,
    /// Of the how manieth, counted from 1 over all clusters.
    pub occurrence: u32,
}

/// Told of every crash point as it is reached. What it returns is awaited: a future that never ends is a process that
/// died there.
pub trait Hook: Send + Sync {
    /// The point is reached.
    fn reached(&self, side: Side, step: Step) -> BoxFuture<'static, ()>;
}

/// Production: nothing happens anywhere.
#[derive(Debug)]
pub struct NoCrash;

/// Aborts the process at one point.
#[derive(Debug)]
pub struct AbortAt {
    point: CrashPoint,
    passed: AtomicU32,
}

/// The text is no crash point.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a crash point such as before:B4#1 or after:G3#2")]
pub struct NotACrashPoint(String);

/// Every crash point, at its first occurrence.
pub fn crash_points() -> impl Iterator<Item = CrashPoint> {
    Step::ALL
        .into_iter()
        .flat_map(|step| [Side::Before, Side::After].map(|side| CrashPoint { side, step, occurrence: 1 }))
}

impl AbortAt {
    /// Aborts at this point.
    pub fn new(point: CrashPoint) -> Self {
        Self { point, passed: AtomicU32::new(0) }
    }

    fn is_it(&self, side: Side, step: Step) -> bool {
        (side, step) == (self.point.side, self.point.step)
            && self.passed.fetch_add(1, Ordering::SeqCst) + 1 == self.point.occurrence
    }
}

impl Hook for NoCrash {
    fn reached(&self, _: Side, _: Step) -> BoxFuture<'static, ()> {
        futures::future::ready(()).boxed()
    }
}

impl Hook for AbortAt {
    fn reached(&self, side: Side, step: Step) -> BoxFuture<'static, ()> {
        if self.is_it(side, step) {
            // Not through the log, which may be buffered or filtered.
            eprintln!("crash point {}: aborting, as QUORATE_CRASH_AT asks", self.point);
            std::process::abort();
        }
        futures::future::ready(()).boxed()
    }
}

impl fmt::Display for CrashPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = match self.side {
            Side::Before => "before",
            Side::After => "after",
        };
        write!(f, "{side}:{}#{}", self.step, self.occurrence)
    }
}

impl FromStr for CrashPoint {
    type Err = NotACrashPoint;

    fn from_str(text: &str) -> Result<Self, NotACrashPoint> {
        parse(text).ok_or_else(|| NotACrashPoint(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<CrashPoint> {
    let (side, rest) = text.split_once(':')?;
    let side = match side {
        "before" => Side::Before,
        "after" => Side::After,
        _ => return None,
    };
    let (step, occurrence) = rest.split_once('#').unwrap_or((rest, "1"));
    let step = Step::ALL.into_iter().find(|known| known.to_string() == step)?;
    let occurrence = occurrence.parse().ok().filter(|&occurrence| occurrence > 0)?;
    Some(CrashPoint { side, step, occurrence })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_crash_point_reads_back_as_it_is_written() {
        for point in crash_points() {
            assert_eq!(point.to_string().parse(), Ok(point));
        }
        assert_eq!("after:G3".parse(), Ok(CrashPoint { side: Side::After, step: Step::G3, occurrence: 1 }));
    }

    #[test]
    fn what_is_no_crash_point_is_refused_with_an_example() {
        for bad in ["", "B4", "before:B4#0", "before:B4#x", "at:B4#1", "before:X9#1", "before:b4#1"] {
            let refused = bad.parse::<CrashPoint>().unwrap_err();
            assert!(refused.to_string().contains("before:B4#1"), "{bad}");
        }
    }

    #[test]
    fn only_the_named_occurrence_on_the_named_side_counts() {
        let hook = AbortAt::new("after:B4#2".parse().unwrap());
        let reached = [(Side::Before, Step::B4), (Side::After, Step::B4), (Side::After, Step::B3)];
        assert!(!reached.into_iter().any(|(side, step)| hook.is_it(side, step)));
        assert!(hook.is_it(Side::After, Step::B4), "the second");
        assert!(!hook.is_it(Side::After, Step::B4), "the third");
    }
}
