//! A bootstrap that begins with the data of one snapshot instead of nothing.

use std::fmt;

use crate::ids::Revision;
use crate::time::Instant;
use crate::version::Version;

/// Revisions: more than clients write between the last look at the members and their end.
const MARGIN: i64 = 1_000_000;

/// Revisions for each second since [`ORIGIN`]: more than a cluster writes in one. etcd's own benchmarks stay below 50,000 on the fastest disks
/// for a moment, and no cluster keeps up a tenth of that all its life.
const A_SECOND: i64 = 10_000;

/// The beginning of 2020, before every restore.
const ORIGIN: Instant = Instant(1_577_836_800_000);

/// What the members of a bootstrap begin with. Recorded with the attempt (B1), so that it never changes under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restore {
    /// All of it but the raise, as canonical JSON. `manifests` writes and reads it, and orders it from the agent.
    pub content: String,
    /// The object in its store, as a URL for people.
    pub url: String,
    /// The version of the etcd that the snapshot is of, where that is known.
    pub version: Option<Version>,
    /// Bytes of the snapshot's database, where that is known.
    pub bytes: Option<u64>,
    /// The least revision that the snapshot has, where that is known.
    pub revision: Option<Revision>,
    /// Whether auth is enabled in it, where that is known.
    pub auth: Option<bool>,
    /// By how much revisions are raised; 0: not at all.
    pub bump: u64,
    /// To what they are raised at least, if at all. Who restores knows the revision of the snapshot, also where that is not known here.
    pub floor: Revision,
}

/// Why a snapshot is not restored, or not yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreFailure {
    /// In one word.
    pub cause: RestoreCause,
    /// What happened, and what to do.
    pub message: String,
    /// The EtcdBackup that is to stand for what the spec names, where it does not exist yet.
    pub lacks: Option<String>,
}

/// The causes by what has to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RestoreCause {
    /// The backup does not exist, or is not complete.
    NotReady,
    /// The snapshot does not go with the spec.
    Refused,
    /// The store has no whole backup of the cluster that is named.
    NothingFound,
    /// Backups of several clusters go by the name that is given.
    Ambiguous,
    /// The object is not in the store.
    Gone,
    /// The store refuses the credentials.
    Forbidden,
    /// The snapshot is older than the spec allows.
    Stale,
    /// Something else; the agent tries again.
    Failed,
}

impl Restore {
    /// Whether members mount the store: a claim.
    pub fn is_in_claim(&self) -> bool {
        self.url.starts_with("pvc://")
    }

    /// By how much revisions are raised, as etcd counts them.
    pub fn raise(&self) -> i64 {
        i64::try_from(self.bump).unwrap_or(i64::MAX)
    }

    /// The same, raised so that it begins above every revision that clients may know. Raised is the revision of the snapshot, which may be
    /// of before an earlier restore: then the raise that is ordered leads back below what that one has given out. A watch from a revision
    /// that does not exist yet waits for it, and misses all that comes before.
    #[must_use]
    pub fn raised_above(self, known: Revision) -> Self {
        if self.least_revision() > Revision(known.0.saturating_add(MARGIN)) {
            return self;
        }
        let snapshot = self.revision.map_or(0, |revision| revision.0);
        let ahead = self.raise().max(MARGIN);
        let bump = known.0.saturating_add(ahead).saturating_sub(snapshot);
        Self { bump: u64::try_from(bump).unwrap_or(self.bump), ..self }
    }

    /// The same, raised so that it begins above what an earlier restore of that name can have reached, which nothing records any more once the
    /// EtcdCluster and its volumes are gone. Time tells two restores of one snapshot apart. One that is not to be raised stays as it is.
    #[must_use]
    pub fn raised_by_time(self, now: Instant) -> Self {
        if self.bump == 0 {
            return self;
        }
        Self { floor: Revision((now.0 - ORIGIN.0).max(0) / 1000 * A_SECOND), ..self }
    }

    /// The least revision that a member has which was restored from it.
    pub fn least_revision(&self) -> Revision {
        let snapshot = self.revision.map_or(1, |revision| revision.0);
        Revision(snapshot.saturating_add(self.raise())).max(self.floor)
    }
}

impl RestoreFailure {
    /// A failure with its message.
    pub fn new(cause: RestoreCause, message: impl Into<String>) -> Self {
        Self { cause, message: message.into(), lacks: None }
    }
}

impl fmt::Display for RestoreFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(revision: Option<i64>, bump: u64) -> Restore {
        Restore {
            content: String::new(),
            url: String::new(),
            version: None,
            bytes: None,
            revision: revision.map(Revision),
            auth: None,
            bump,
            floor: Revision(0),
        }
    }

    fn raise(revision: Option<i64>, bump: u64, known: i64) -> u64 {
        of(revision, bump).raised_above(Revision(known)).bump
    }

    #[test]
    fn the_raise_that_is_ordered_stays_where_it_leads_above_what_clients_know() {
        assert_eq!(raise(Some(1_000), 1_000_000_000, 5_000), 1_000_000_000);
        assert_eq!(raise(None, 1_000_000_000, 5_000), 1_000_000_000);
    }

    #[test]
    fn a_snapshot_of_before_an_earlier_restore_begins_above_that_one() {
        let known = 1_000_009_000;
        let raised = of(Some(1_000), 1_000_000_000).raised_above(Revision(known));
        assert_eq!(raised.least_revision(), Revision(known + 1_000_000_000));
        assert_eq!(
            raise(None, 1_000_000_000, known),
            2_000_009_000,
            "at least, where its revision is not known"
        );
    }

    #[test]
    fn o02_two_restores_of_one_snapshot_share_no_revision() {
        let at = |seconds: i64| Instant(ORIGIN.0 + seconds * 1000);
        let restored = |revision, seconds| {
            of(Some(revision), 1_000_000_000).raised_by_time(at(seconds)).least_revision().0
        };
        let hour = 3_600 * A_SECOND;
        let first = restored(5_000, 200_000_000);
        assert_eq!(first, 2_000_000_000_000);
        assert_eq!(restored(5_000, 200_003_600) - first, hour, "an hour's writes fit between them");
        // From a snapshot of the restored cluster: by what is ordered, or by time if that is more.
        assert_eq!(restored(first + 7, 200_003_600), first + 7 + 1_000_000_000);
        assert_eq!(restored(first + 7, 200_000_000 + 48 * 3_600), first + 48 * hour);
        assert_eq!(of(None, 7).raised_by_time(at(60)).least_revision(), Revision(600_000));
        assert_eq!(
            of(Some(5_000), 0).raised_by_time(at(200_000_000)),
            of(Some(5_000), 0),
            "not at all is not at all"
        );
        assert_eq!(
            of(Some(5_000), 7).raised_by_time(Instant(0)).least_revision(),
            Revision(5_007),
            "a clock of before"
        );
    }

    #[test]
    fn a_raise_that_clients_would_overtake_is_enough_for_what_they_write_until_their_members_stop() {
        assert_eq!(raise(Some(5_000), 1, 5_000), 1_000_000);
    }
}
