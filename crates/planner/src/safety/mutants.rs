//! Turns a safety check off, on this thread and for one test. What then goes wrong shows what the check is for.

use quorate_model::effect::Unsafe;
pub use quorate_model::mutants::is_broken;
use quorate_model::mutants::replace;

/// The names of the checks that can be turned off: those of their refusals, as [`Unsafe::name`] returns them.
pub const CHECKS: [&str; 39] = [
    "NotABootstrapMember",
    "MustRestore",
    "RestoresAgain",
    "NotRecorded",
    "NotItsVolume",
    "NotSeen",
    "ChangeOutstanding",
    "SecondDisruption",
    "VoterUnhealthy",
    "NotThatMember",
    "NoFreshList",
    "NotProven",
    "MustEvict",
    "BudgetOpen",
    "StillListed",
    "PodNotGone",
    "DataKept",
    "NoQuorum",
    "WouldLoseQuorum",
    "NotReplaced",
    "SplitBrain",
    "AnotherAuthority",
    "AuthorityKept",
    "NoClaim",
    "NotLost",
    "AlarmHolds",
    "VersionsMixed",
    "DataTooNew",
    "NoDowngrade",
    "Defragmenting",
    "NoRoomToDefragment",
    "HistoryKept",
    "OldMemberRuns",
    "NotOrdered",
    "NotQuarantined",
    "BeingReplaced",
    "QuorumAnswers",
    "DataInMemory",
    "NotRead",
];

/// Rules without a refusal: R4, R8, the parts of R15 and L3 in the simulation, R13, R14 and R18 in the operator.
pub const RULES: [&str; 21] = [
    "R4",
    "R8",
    "R13",
    "R14",
    "R15 terminating",
    "R15 answers",
    "R15 learner",
    "R15 leader",
    "R15 index",
    "R15 proof",
    "R15 alarm",
    "R15 errors",
    "R15 canary",
    "R18",
    "L3",
    "P grace",
    "P second look",
    "P majority",
    "P one version",
    "P second comparison",
    "P agrees",
];

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
        Self(replace(Some(rule)))
    }
}

impl Drop for Broken {
    fn drop(&mut self) {
        replace(self.0);
    }
}

pub(super) fn is_off(why: &Unsafe) -> bool {
    is_broken(why.name())
}
