//! Turns one safety rule off, on this thread and for one test. What then goes wrong shows what the rule is for. Without the
//! feature `mutants` no rule can be turned off.

#[cfg(feature = "mutants")]
use std::cell::Cell;

#[cfg(feature = "mutants")]
thread_local! {
    static OFF: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// Whether this rule is turned off now.
#[cfg(feature = "mutants")]
pub fn is_broken(rule: &'static str) -> bool {
    OFF.get() == Some(rule)
}

/// Whether this rule is turned off now: never in what is released.
#[cfg(not(feature = "mutants"))]
pub const fn is_broken(_rule: &'static str) -> bool {
    false
}

/// Turns a rule off, or none, and returns the one that was off before.
#[cfg(feature = "mutants")]
pub fn replace(rule: Option<&'static str>) -> Option<&'static str> {
    OFF.replace(rule)
}
