//! Turns a check of the gate off, on this thread and for one test. What then goes wrong shows what the check is for.

use std::cell::Cell;

use super::Unsafe;

thread_local! {
    static OFF: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// Runs a function without one of the checks.
///
/// # Panics
/// If there is none of this name: the test would show nothing.
pub fn without<T>(check: &'static str, run: impl FnOnce() -> T) -> T {
    assert!(Unsafe::NAMES.contains(&check), "{check} is no check of the gate");
    let _on = On(OFF.replace(Some(check)));
    run()
}

/// Turns it on again, also when the test panics.
struct On(Option<&'static str>);

impl Drop for On {
    fn drop(&mut self) {
        OFF.set(self.0);
    }
}

pub(super) fn is_off(why: Unsafe) -> bool {
    OFF.get() == Some(why.name())
}
