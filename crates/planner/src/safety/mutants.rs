//! Turns a safety check off, on this thread and for one test. What then goes wrong shows what the check is for.

use quorate_model::effect::Unsafe;
use quorate_model::mutants::replace;
pub use quorate_model::mutants::{Rule, is_broken};

/// The names of the checks that can be turned off: those of their refusals.
pub const CHECKS: &[&str] = Unsafe::NAMES;

/// The names of the rules without a refusal.
pub const RULES: &[&str] = Rule::NAMES;

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
    ///
    /// # Panics
    /// If there is none of this name: the test would show nothing.
    pub fn rule(rule: &'static str) -> Self {
        assert!(CHECKS.contains(&rule) || RULES.contains(&rule), "{rule} is no check and no rule");
        Self(replace(Some(rule)))
    }
}

impl Drop for Broken {
    fn drop(&mut self) {
        replace(self.0);
    }
}
