//! What happens at a [`CrashPoint`]: nothing in production; in a test the process aborts there.

use std::sync::atomic::{AtomicU32, Ordering};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use quorate_model::Step;
pub use quorate_model::crash_point::{CrashPoint, CrashSide, NotACrashPoint};

/// Called at every crash point. The operator awaits the future that it returns: one that never ends is a process that
/// died there.
pub trait Hook: Send + Sync {
    /// The point is reached.
    fn reached(&self, side: CrashSide, step: Step) -> BoxFuture<'static, ()>;
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

impl AbortAt {
    /// Aborts at this point.
    pub fn new(point: CrashPoint) -> Self {
        Self { point, passed: AtomicU32::new(0) }
    }

    fn is_it(&self, side: CrashSide, step: Step) -> bool {
        (side, step) == (self.point.side, self.point.step)
            && self.passed.fetch_add(1, Ordering::SeqCst) + 1 == self.point.occurrence
    }
}

impl Hook for NoCrash {
    fn reached(&self, _: CrashSide, _: Step) -> BoxFuture<'static, ()> {
        futures::future::ready(()).boxed()
    }
}

impl Hook for AbortAt {
    fn reached(&self, side: CrashSide, step: Step) -> BoxFuture<'static, ()> {
        if self.is_it(side, step) {
            // Not through the log, which may be buffered or filtered.
            eprintln!("crash point {}: aborting, as QUORATE_CRASH_AT asks", self.point);
            std::process::abort();
        }
        futures::future::ready(()).boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_named_occurrence_on_the_named_side_counts() {
        let hook = AbortAt::new("after:B4#2".parse().unwrap());
        let reached =
            [(CrashSide::Before, Step::B4), (CrashSide::After, Step::B4), (CrashSide::After, Step::B3)];
        assert!(!reached.into_iter().any(|(side, step)| hook.is_it(side, step)));
        assert!(hook.is_it(CrashSide::After, Step::B4), "the second");
        assert!(!hook.is_it(CrashSide::After, Step::B4), "the third");
    }
}
