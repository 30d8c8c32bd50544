//! Condition types and reasons. Users match on them, so a name once given stays.

use std::fmt;

/// The type of a condition in `status.conditions`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConditionType {
    /// True when a quorum was observed within the freshness window: clients are served.
    Available,
    /// True when a change is under way; the reason names it, the message says what it waits for.
    Progressing,
    /// True when some member is not healthy, or there are fewer than the target asks for.
    Degraded,
    /// True when more than half of the voters answer and follow one leader.
    QuorumAvailable,
    /// True once the cluster id is latched: the cluster was founded, or earlier data adopted.
    Bootstrapped,
    /// True when what runs is what the spec asks for.
    UpToDate,
    /// True when every certificate stands, or TLS is disabled.
    TlsReady,
    /// True when members of two clusters answer under one name; nothing is touched any more.
    SplitBrain,
    /// True when volumes of an earlier cluster of this name wait for a human.
    ExistingData,
}

impl ConditionType {
    /// Every type, in the order in which status shows them.
    pub const ALL: [Self; 9] = [
        Self::Available,
        Self::Progressing,
        Self::Degraded,
        Self::QuorumAvailable,
        Self::Bootstrapped,
        Self::UpToDate,
        Self::TlsReady,
        Self::SplitBrain,
        Self::ExistingData,
    ];

    /// The name in `status.conditions[].type`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Available => "Available",
            Self::Progressing => "Progressing",
            Self::Degraded => "Degraded",
            Self::QuorumAvailable => "QuorumAvailable",
            Self::Bootstrapped => "Bootstrapped",
            Self::UpToDate => "UpToDate",
            Self::TlsReady => "TLSReady",
            Self::SplitBrain => "SplitBrain",
            Self::ExistingData => "ExistingData",
        }
    }
}

impl fmt::Display for ConditionType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Why a condition is as it is: `status.conditions[].reason`, and the reason of events.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason {
            $($(#[$doc])* $name,)*
        }

        impl Reason {
            /// Every reason.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The name in status and events.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }
        }
    };
}

reasons! {
    /// Nothing is left to do.
    Reconciled,
    /// The members of a new cluster are being started.
    Bootstrapping,
    /// The cluster has been founded, or the data of an earlier one adopted.
    Founded,
    /// Members are being added or removed.
    Scaling,
    /// The cluster goes to size zero: its Pods stop, its volumes stay.
    Hibernating,
    /// The cluster is at size zero.
    Hibernated,
    /// The cluster comes back from size zero, on its volumes.
    Waking,
    /// Pods that were lost are being started on their own volumes.
    Restarting,
    /// Members are being brought to the shape that the spec asks for, one after another.
    RollingOut,
    /// A bootstrap attempt was given up and is being cleared away; a new one follows.
    AttemptAbandoned,
    /// The object is being deleted.
    Deleting,
    /// `spec.paused`: the operator looks and tells, and does nothing.
    Paused,
    /// More than half of the voters answer and follow one leader.
    QuorumReached,
    /// Too few voters answer.
    QuorumLost,
    /// The members have not been seen, or not recently enough.
    NotObserved,
    /// Every member is healthy.
    MembersHealthy,
    /// Some member is not healthy; the message names it.
    MemberUnhealthy,
    /// There are fewer members than asked for.
    MembersMissing,
    /// A Pod can not run as it is; the message says why.
    PodStuck,
    /// A volume is gone, is another one, or came back without its data.
    VolumeLost,
    /// The guard refused a volume: its data are not those of the member.
    VolumeRefused,
    /// Objects of somebody else have our names.
    ForeignObjects,
    /// Volumes of an earlier cluster of this name wait for a human.
    ExistingData,
    /// No volumes of an earlier cluster are in the way.
    NoExistingData,
    /// Members of two clusters answer under one name.
    SplitBrain,
    /// Every member that answers is of one cluster.
    OneCluster,
    /// A member answers that is another than its name says, or that nobody of us made.
    UnknownMember,
    /// The spec can not be honoured; the message says what to change.
    SpecInvalid,
    /// A change of the spec waits for the change before it to be finished.
    SpecPending,
    /// The version asked for must not follow the one that runs.
    VersionRefused,
    /// A safety rule forbids the next step for now; the message names it.
    Unsafe,
    /// Every certificate stands.
    CertificatesIssued,
    /// Certificates are being made.
    CertificatesMissing,
    /// `tls.provider: disabled`.
    TlsDisabled,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
