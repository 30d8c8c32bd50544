//! Whether members keep up with what the cluster commits (R15). A member whose disk hangs goes on answering and following
//! the leader; only what it has applied stands still.

use crate::time::{Instant, Span};

/// How long a healthy member may take to apply what the leader has committed. No number of entries is tolerated: the few
/// that a hung member lacks are all that a calm cluster writes.
pub const IN_SYNC_WITHIN: Span = Span::seconds(2);

/// How often progress is proved while nothing is written and nothing is to be done. Without an entry to apply, a hung member
/// does not differ from a healthy one.
pub const PROOF_INTERVAL: Span = Span::seconds(300);

/// How long a proof settles a doubt: a member that lags by its index is proved again only after this time.
pub const DOUBT_INTERVAL: Span = Span::seconds(60);

/// What the leader had committed, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CommittedMark {
    /// When the leader reported it.
    pub at: Instant,
    /// Its committed index.
    pub index: u64,
}

/// A proof of progress: an AlarmList call, a raft entry without a revision, was committed and applied by the members; then
/// a second one, and the members were given [`IN_SYNC_WITHIN`] in all to apply both. Two, because etcd may apply an entry
/// before its disk has it; the second one is proposed only when the first is applied, because raft may hand out both at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Proof {
    /// When it began.
    pub at: Instant,
    /// What the member that was asked knew to be committed after the second call. Every reply in the snapshot of a member
    /// that was asked to prove its progress is from after that.
    pub index: u64,
}
