//! A voter that is so far behind that it needs a snapshot of the leader's database, and whose volume has no room for that. etcd tries again
//! without end, and the member never comes back by itself.

use std::collections::BTreeMap;

use super::Snapshot;
use crate::names::MemberName;
use crate::record::Record;
use crate::time::{Instant, Span};

/// The entries that a leader keeps for followers that are behind (etcd's `DefaultSnapshotCatchUpEntries`). 3.5 keeps these and what
/// follows its last snapshot of the log.
pub(super) const CATCH_UP_ENTRIES: u64 = 5_000;

/// A member that was away may take so long until it keeps up again.
pub(super) const CATCHES_UP_WITHIN: Span = Span::seconds(600);

/// A follower that receives entries applies some in this time.
const APPLIES_WITHIN: Span = Span::seconds(60);

/// How long a voter that is too far behind has applied nothing, as this operator saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standstill {
    /// The highest index that it has reported. After a start of etcd it reports lower ones.
    pub applied: u64,
    /// Since when.
    pub since: Instant,
    /// Whether it was seen to be lower before.
    pub has_grown: bool,
}

impl Standstill {
    /// What is known of a voter after another answer.
    pub fn next(before: Option<Self>, applied: u64, now: Instant) -> Self {
        match before {
            Some(before) if applied <= before.applied && before.since <= now => before,
            Some(_) => Self { applied, since: now, has_grown: true },
            None => Self { applied, since: now, has_grown: false },
        }
    }
}

impl Snapshot {
    /// What is known of the members that are far behind, after this look. One that cannot be judged at this moment is kept as it was.
    pub fn standstills(
        &self,
        before: &BTreeMap<MemberName, Standstill>,
        now: Instant,
    ) -> BTreeMap<MemberName, Standstill> {
        let of = |member: &MemberName| {
            let before = before.get(member).copied();
            match self.far_behind(member, now) {
                Some(applied) => Some(Standstill::next(before, applied, now)),
                None if self.status_of(member, now).is_none() || self.must_have_applied().is_none() => before,
                None => None,
            }
        };
        self.record.members.keys().filter_map(|member| Some((member.clone(), of(member)?))).collect()
    }

    /// The index that a member has applied, if that is so far behind the leader that it may need a snapshot.
    pub fn far_behind(&self, member: &MemberName, now: Instant) -> Option<u64> {
        let applied = self.status_of(member, now)?.applied;
        let committed = self.must_have_applied()?;
        (committed.saturating_sub(applied) > CATCH_UP_ENTRIES).then_some(applied)
    }

    /// Whether a voter follows the leader, is too far behind, applies nothing, and has no room for a snapshot, while its volume takes writes
    /// and a new one would have the room. A disk that hangs, or a path to its peers that is cut, is something else: then its Pod is not
    /// ready, or it has no leader. One that has the room, or applies something, is slow, which is no loss.
    pub(super) fn lacks_room_for_snapshot(&self, record: &Record, voter: &MemberName, now: Instant) -> bool {
        let follows = self
            .status_of(voter, now)
            .is_some_and(|status| status.leader.is_some() && status.leader == self.leader(now));
        let takes_writes = self.pods.get(voter).is_some_and(|pod| pod.ready && !pod.terminating);
        let stands =
            self.etcd.standstills.get(voter).is_some_and(|stands| now - stands.since >= APPLIES_WITHIN);
        follows
            && takes_writes
            && stands
            && self.far_behind(voter, now).is_some()
            && self.volume_for_snapshot(voter, now).is_some()
            && self.new_volume_fits_snapshot(record, now)
    }

    /// Whether something shows that a voter catches up after all, or may: it was seen to apply entries, it is not far behind any more, or
    /// its volume has the room by now. What is not known at this moment, as after a start of the operator, shows nothing.
    pub fn catches_up(&self, record: &Record, voter: &MemberName, now: Instant) -> bool {
        if self.status_of(voter, now).is_none()
            || self.leader(now).is_none()
            || self.must_have_applied().is_none()
        {
            return false;
        }
        let stands = self.etcd.standstills.get(voter);
        let grows = stands.is_some_and(|stands| stands.has_grown && now - stands.since < APPLIES_WITHIN);
        let is_known = || {
            let capacity = self.volumes.get(voter).and_then(|volume| volume.capacity);
            capacity.is_some() && self.database_of_leader(now).is_some()
        };
        let helps =
            || self.volume_for_snapshot(voter, now).is_some() && self.new_volume_fits_snapshot(record, now);
        self.far_behind(voter, now).is_none() || grows || (is_known() && !helps())
    }
}
