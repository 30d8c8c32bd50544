//! What the operator remembers of the progress of members, from pass to pass (R15). Losing it delays what status reports; it
//! never permits an act, because each act needs a proof of its own pass.

use quorate_model::snapshot::{CommittedMark, IN_SYNC_WITHIN, Proof};
use quorate_model::{Instant, Snapshot};

/// What was committed of late, and when progress was proved last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    /// In the order of time. All but the first are younger than [`IN_SYNC_WITHIN`].
    marks: Vec<CommittedMark>,
    /// The last proof. Who had not applied its entry is behind until it has: its members were given the time.
    proved: Option<CommittedMark>,
    /// The first entry of a proof that is made from look to look.
    first_entry: Option<CommittedMark>,
}

impl Progress {
    /// Adds to a snapshot, whose members have been asked, what they must have applied by now.
    pub(crate) fn add_to(&mut self, snapshot: &mut Snapshot, now: Instant) {
        snapshot.etcd.proved_at = self.proved.map(|proved| proved.at).filter(|at| *at <= now);
        // Without a leader nothing is committed, and nobody lags.
        let Some(committed) = committed(snapshot, now) else { return };
        // The clock was set back, or the log is another one: that of a new bootstrap attempt, or of a restored cluster.
        self.marks.retain(|mark| mark.at <= now && mark.index <= committed);
        let is_mature = |mark: &CommittedMark| now - mark.at >= IN_SYNC_WITHIN;
        let mature = self.marks.iter().rposition(is_mature);
        self.marks.drain(..mature.unwrap_or(0));
        let before = mature.and_then(|_| self.marks.first().copied());
        let proved = self.proved.filter(|proved| proved.at <= now && proved.index <= committed);
        snapshot.etcd.committed_before = before.into_iter().chain(proved).max_by_key(|mark| mark.index);
        self.marks.push(CommittedMark { at: now, index: committed });
    }

    /// Progress was proved: who had not applied this is behind.
    pub(crate) fn proved(&mut self, proof: Proof) {
        let Proof { at, index } = proof;
        (self.proved, self.first_entry) = (Some(CommittedMark { at, index }), None);
    }

    /// Whether the members were given the time to apply the last entry of the operator. Where they did not, one of them lags.
    pub(crate) fn may_make_entry(&self, now: Instant) -> bool {
        self.first_entry.is_none_or(|first| first.at > now || now - first.at >= IN_SYNC_WITHIN)
    }

    /// An entry of the operator was committed, after the members had answered in this pass: members that have not applied it in
    /// the next look lag. The second one ends a proof of progress, which counts from the first.
    pub(crate) fn entry_is_committed(&mut self, now: Instant) {
        let Some(last) = self.marks.last() else { return };
        let entry = CommittedMark { at: now, index: last.index + 1 };
        self.marks.push(entry);
        match self.first_entry.take_if(|first| first.at <= now) {
            None => self.first_entry = Some(entry),
            Some(first) => self.proved = Some(first),
        }
    }
}

/// The highest index that a member which follows the leader knows to be committed.
pub(crate) fn committed(snapshot: &Snapshot, now: Instant) -> Option<u64> {
    let leader = snapshot.leader(now)?;
    let answers = snapshot.etcd.answers.keys().filter_map(|member| snapshot.status_of(member, now));
    answers.filter(|status| status.leader == Some(leader)).map(|status| status.committed).max()
}
