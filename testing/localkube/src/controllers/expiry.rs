//! Events expire an hour after their last occurrence.

use jiff::Timestamp;

use super::action::Action;
use super::view::{View, kinds};
use crate::events::is_over;

/// Deletes expired events.
pub fn step(view: &View, now: Timestamp) -> Vec<Action> {
    view.all(kinds::EVENTS)
        .filter(|event| is_over(event, now))
        .map(|event| Action::delete(kinds::EVENTS, event))
        .collect()
}
