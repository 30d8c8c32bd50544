//! The properties, and the report of a violation.

use std::fmt;

/// A property that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Violation {
    /// The property.
    pub property: Property,
    /// How it was violated.
    pub how: String,
}

/// The properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Property {
    /// An acknowledged write is in the data of every later quorum.
    AcknowledgedWritesStay,
    /// S1: one cluster id per incarnation ever serves.
    OneClusterId,
    /// S2, R1: no `new` once the cluster id is recorded.
    NoNewAfterClusterId,
    /// S3, R5: one change of membership and one learner at a time.
    OneChangeAtATime,
    /// S4, R5, R11: no healthy voter is disrupted while another one is unhealthy, and the others remain a quorum.
    QuorumStays,
    /// S5, R10: data are deleted only when a quorum has removed the member and its Pod is gone.
    DataOutliveMembers,
    /// R21: no act of the operator is what ends a claim with the data of a voter.
    NoActEndsData,
    /// R23: nothing is signed, deleted for its age or given up by a clock that is wrong.
    TimeIsTrue,
    /// S6, R3: a write names the uid that was observed, and a delete also the resourceVersion.
    DestroysOnlyWhatWasObserved,
    /// S7: only objects that this EtcdCluster owns are changed.
    OnlyOwnedObjectsChange,
    /// R1: a cluster that begins with a snapshot has the keys of it, and so has each of its members.
    SnapshotIsThere,
    /// S9: Available is True only with a quorum that was observed.
    AvailableMeansQuorum,
    /// R24: a client of the client Service is served while a quorum serves.
    ClientsAreServed,
    /// Z3: no client is sent to older data than the cluster was stopped with, unless a person accepts that.
    DataDoNotGoBack,
    /// S10: data go one minor version at a time, and no binary starts on data of a newer cluster version.
    VersionsGoForward,
    /// R16: a Pod that serves is evicted, so that every budget has its say.
    ServingPodsAreEvicted,
    /// R27: no Pod that serves is ended for a successor that the API server refuses.
    SuccessorsAreAdmitted,
    /// R2: a name, its URL and its volume are used once.
    NamesAreUsedOnce,
    /// R3: status records an intent before the effect.
    IntentBeforeEffect,
    /// R6: no member is added while a voter is unhealthy; members are added as learners.
    RemoveBeforeAdd,
    /// R7: a member is its id and its URL together.
    MembersAreIdAndUrl,
    /// R9: membership changes only on a fresh list that a quorum confirmed.
    ListsAreFresh,
    /// R12: with two cluster ids nothing is changed.
    SplitBrainStopsAll,
    /// R20: membership does not change by choice while members run different minor versions.
    MembershipStaysWhileMixed,
    /// R19: every leaf comes from the authority that the running members trust.
    MembersTrustEachOther,
    /// A client that rereads what it is told in time is never refused, and refuses no member.
    ClientsAreTold,
    /// R19: at rest every bundle and every running process has the recorded authority of its port, and nothing else.
    OnlyTheRecordedAreTrusted,
    /// P1: only a member whose data are lost is replaced, unless a person orders it.
    OnlyTheLostAreReplaced,
    /// Of a fleet, no more clusters than the limit take new defaults of the operator at a time.
    TurnsAreFew,
    /// While one does not get ready after a restart, no other cluster begins to take new defaults.
    FailuresStopTurns,
    /// L07: who cannot use a turn keeps nobody waiting for longer than the bound, and is named and counted.
    NobodyHoldsTheTurn,
    /// M06: a cluster that is not well before its turn does not begin, and is named.
    SickArePassedOver,
    /// E1: once faults end, the goal is reached.
    GoalIsReached,
    /// E2: at the goal nothing is written.
    RestIsQuiet,
    /// E3: where no fault destroys anything, a history ends in the same objects as without faults, and creates and deletes no
    /// object more often.
    EndsAsWithoutFaults,
    /// N5: an alarm stays while what it was raised for is so.
    AlarmsHold,
    /// N1: the history of keys is compacted only where etcd does so by itself.
    HistoryIsKept,
    /// R26: nothing is derived from a spec that was refused.
    NothingOfRefusedSpecs,
    /// L8, L9: auth is enabled only where the operator and the agents go on to be served, and disabled only by order.
    AuthByOrder,
    /// L10: only users without an EtcdUser are revoked, and at rest none is left.
    OnlyOrphansAreRevoked,
    /// L11: the certificate that applications share is refused only after the time that the spec gives.
    ClientsHaveTime,
}

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AcknowledgedWritesStay => "an acknowledged write stays",
            Self::OneClusterId => "S1: one cluster id",
            Self::NoNewAfterClusterId => "S2: nothing starts as new once the cluster id is recorded",
            Self::OneChangeAtATime => "S3: one change of membership at a time",
            Self::QuorumStays => "S4: a quorum stays",
            Self::DataOutliveMembers => "S5: data outlive members",
            Self::NoActEndsData => "R21: no act of the operator ends data",
            Self::TimeIsTrue => "R23: nothing is done by a clock that is wrong",
            Self::DestroysOnlyWhatWasObserved => "S6: only what was observed is destroyed",
            Self::OnlyOwnedObjectsChange => "S7: only owned objects are changed",
            Self::SnapshotIsThere => "R1: every member has what the cluster was restored from",
            Self::AvailableMeansQuorum => "S9: Available means quorum",
            Self::ClientsAreServed => "R24: clients are sent to members that serve",
            Self::DataDoNotGoBack => "Z3: no client is sent to data that went back",
            Self::VersionsGoForward => {
                "S10: versions go one minor at a time, and back only as far as the data allow"
            }
            Self::ServingPodsAreEvicted => "R16: a Pod that serves is evicted, never deleted",
            Self::SuccessorsAreAdmitted => "R27: nobody is ended whose successor is refused",
            Self::NamesAreUsedOnce => "R2: names are used once",
            Self::IntentBeforeEffect => "R3: intent before effect",
            Self::RemoveBeforeAdd => "R6: remove before add",
            Self::MembersAreIdAndUrl => "R7: a member is its id and its URL",
            Self::ListsAreFresh => "R9: membership changes on fresh lists only",
            Self::SplitBrainStopsAll => "R12: split brain stops everything",
            Self::MembershipStaysWhileMixed => "R20: membership stays while versions are mixed",
            Self::MembersTrustEachOther => "R19: members trust each other",
            Self::ClientsAreTold => "R19: a client that rereads in time is never refused",
            Self::OnlyTheRecordedAreTrusted => "R19: nobody but the recorded authorities is trusted at rest",
            Self::OnlyTheLostAreReplaced => "P1: only the lost are replaced",
            Self::TurnsAreFew => "U: few clusters take new defaults at a time",
            Self::FailuresStopTurns => "U: a cluster that does not get ready stops the turns of others",
            Self::NobodyHoldsTheTurn => "U: nobody holds a turn for longer than the bound",
            Self::SickArePassedOver => "U: who is not well before its turn is passed over",
            Self::GoalIsReached => "E1: the goal is reached once faults end",
            Self::RestIsQuiet => "E2: at the goal nothing is written",
            Self::EndsAsWithoutFaults => "E3: where nothing is destroyed, all ends as without faults",
            Self::AlarmsHold => "N5: an alarm stays while its cause does",
            Self::AuthByOrder => "L8, L9: auth is enabled with credentials, and disabled by order",
            Self::NothingOfRefusedSpecs => "R26: nothing is derived from a spec that was refused",
            Self::OnlyOrphansAreRevoked => "L10: users without an EtcdUser are revoked, and no others",
            Self::ClientsHaveTime => "L11: clients have their time",
            Self::HistoryIsKept => "N1: the history of keys is compacted by its owner",
        })
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.property, self.how)
    }
}
