//! Which members were asked to take leadership over, and did not.

use crate::ids::MemberId;
use crate::time::Instant;

/// An attempt to move leadership that did not come about: `from` still leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TransferAttempt {
    /// The leader then.
    pub from: MemberId,
    /// The member that was asked to take over.
    pub to: MemberId,
    /// When it was asked.
    pub at: Instant,
}
