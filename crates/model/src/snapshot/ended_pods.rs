//! Pods of one member that ended one after another, such as those that their kubelet refuses as soon as they are bound to its node:
//! the node has no room for them, or not the label that they ask for. The scheduler does not know it and sends the next one there too.

use crate::names::Uid;
use crate::{Backoff, Instant, Span};

/// So many are replaced at once: most have ended for good reason, such as an eviction.
const AT_ONCE: u32 = 2;

/// The delays from Pod to Pod after that.
const DELAYS: Backoff = Backoff { first: Span::seconds(10), longest: Span::seconds(300) };

/// How long a Pod must have been ready for the ones before it not to count any more.
pub const RAN_WELL_FOR: Span = Span::seconds(180);

/// The Pods of a member that ended since one of them last ran well for some minutes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedPods {
    /// The last one.
    pub last: Uid,
    /// How many there were, with the last one.
    pub times: u32,
    /// When the last one was first seen ended.
    pub at: Instant,
}

impl EndedPods {
    /// How long the last one stays before the next is created.
    pub fn delay(&self) -> Span {
        match self.times.saturating_sub(AT_ONCE) {
            0 => Span::seconds(0),
            late => DELAYS.after(late),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m11_the_first_pods_are_replaced_at_once_and_later_ones_with_growing_delay_up_to_five_minutes() {
        let delay = |times| EndedPods { last: Uid::new("x"), times, at: Instant(0) }.delay().0 / 1000;
        let delays: Vec<u64> = (1..=9).map(delay).collect();
        assert_eq!(delays, [0, 0, 10, 20, 40, 80, 160, 300, 300]);
        assert_eq!(delay(u32::MAX), 300);
    }
}
