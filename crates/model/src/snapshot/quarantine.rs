//! Volumes that are quarantined: kept for a while, and never mounted again.

use crate::time::{Instant, Span};

/// What a volume's annotations say about its quarantine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantine {
    /// Since when; `None` if the annotation cannot be read. Then only a person deletes the volume.
    pub since: Option<Instant>,
    /// Why, in words.
    pub why: String,
}

impl Quarantine {
    /// When the volume may be deleted; `None` if only a person deletes it.
    pub fn ends(&self, keep: Span) -> Option<Instant> {
        self.since.map(|since| since + keep)
    }

    /// Whether it was kept for this long.
    pub fn is_over(&self, keep: Span, now: Instant) -> bool {
        self.ends(keep).is_some_and(|ends| now >= ends)
    }
}
