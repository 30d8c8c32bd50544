//! Turns one safety rule off, on this thread and for one test. What then goes wrong shows what the rule is for. Without the
//! feature `mutants` no rule can be turned off.

#[cfg(feature = "mutants")]
use std::cell::Cell;

#[cfg(feature = "mutants")]
thread_local! {
    static OFF: Cell<Option<&'static str>> = const { Cell::new(None) };
}

macro_rules! rules {
    ($($rule:ident = $name:literal,)+) => {
        /// A rule without a refusal, which is not found by the name of one.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "the name says which rule, and the code that asks for it what it does")]
        pub enum Rule {
            $($rule,)+
        }

        impl Rule {
            /// The names of all.
            pub const NAMES: &'static [&'static str] = &[$($name),+];

            /// Its name in tests.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$rule => $name,)+
                }
            }
        }
    };
}

// R4, R8, R19, R22, R23, R24, R25, R26, Z3, the parts of R15, L3, P, what is verified and the turns of a fleet are shown to be needed by the simulation; R13, R14 and R18 by tests of the operator.
rules! {
    R4 = "R4",
    R8 = "R8",
    R13 = "R13",
    R14 = "R14",
    R15Terminating = "R15 terminating",
    R15Answers = "R15 answers",
    R15Learner = "R15 learner",
    R15Leader = "R15 leader",
    R15Index = "R15 index",
    R15Proof = "R15 proof",
    R15Alarm = "R15 alarm",
    R15Errors = "R15 errors",
    R15Canary = "R15 canary",
    R18 = "R18",
    R22 = "R22",
    R23 = "R23",
    R24 = "R24",
    R25 = "R25",
    R26 = "R26",
    Z3 = "Z3",
    R19Bundle = "R19 bundle",
    R19Told = "R19 told",
    R19OfData = "R19 of data",
    L3 = "L3",
    PGrace = "P grace",
    PSecondLook = "P second look",
    PMajority = "P majority",
    POneVersion = "P one version",
    PSecondComparison = "P second comparison",
    PAgrees = "P agrees",
    PInTurn = "P in turn",
    Verified = "verified",
    TurnsLimit = "turns limit",
    TurnsGiven = "turns given",
    TurnsParked = "turns parked",
    TurnsWell = "turns well",
    TurnsStopped = "turns stopped",
}

/// Whether this rule is turned off now. Never in what is released.
pub fn is_broken(rule: Rule) -> bool {
    is_off(rule.name())
}

/// Whether the rule or check of this name is turned off now.
#[cfg(feature = "mutants")]
pub fn is_off(name: &'static str) -> bool {
    OFF.get() == Some(name)
}

/// Whether the rule or check of this name is turned off now: never in what is released.
#[cfg(not(feature = "mutants"))]
pub const fn is_off(_name: &'static str) -> bool {
    false
}

/// Turns a rule off, or none, and returns the one that was off before.
#[cfg(feature = "mutants")]
pub fn replace(rule: Option<&'static str>) -> Option<&'static str> {
    OFF.replace(rule)
}
