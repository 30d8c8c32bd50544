//! Turns a safety check off, on this thread and for one test. What then goes wrong shows what the check is for.

use std::cell::Cell;

use quorate_model::effect::Unsafe;

thread_local! {
    static OFF: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// The names of the checks that can be turned off: those of their refusals, as [`Unsafe::name`] returns them.
pub const CHECKS: [&str; 15] = [
    "NotABootstrapMember",
    "NotRecorded",
    "NotItsVolume",
    "NotSeen",
    "ChangeOutstanding",
    "SecondDisruption",
    "VoterUnhealthy",
    "NotThatMember",
    "NoFreshList",
    "StillListed",
    "PodNotGone",
    "DataKept",
    "NoQuorum",
    "WouldLoseQuorum",
    "SplitBrain",
];

/// Rules without a refusal: R4 and R8 in the simulation, R13 and R14 in the operator.
pub const RULES: [&str; 4] = ["R4", "R8", "R13", "R14"];

/// Runs a function without one of the checks or rules.
pub fn without<T>(check: &'static str, run: impl FnOnce() -> T) -> T {
    let _broken = Broken::rule(check);
    run()
}

/// Breaks a check or rule on this thread until it is dropped. For code that is not one function call.
#[must_use]
pub struct Broken(Option<&'static str>);

impl Broken {
    /// Breaks this check or rule from now on.
    pub fn rule(rule: &'static str) -> Self {
        Self(OFF.replace(Some(rule)))
    }
}

impl Drop for Broken {
    fn drop(&mut self) {
        OFF.set(self.0);
    }
}

/// Whether a rule of [`RULES`] is broken now.
pub fn is_broken(rule: &'static str) -> bool {
    OFF.get() == Some(rule)
}

pub(super) fn is_off(why: &Unsafe) -> bool {
    OFF.get() == Some(why.name())
}
