//! What a plan waits on, in words for the people who run the cluster.

use std::fmt;

use super::Unsafe;
use crate::ids::{ClusterId, MemberId};
use crate::names::{MemberName, PeerUrl};
use crate::quorum::quorum;

/// What a plan waits on. Its text goes to status and events as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// `spec.paused`.
    Paused,
    /// Objects of somebody else have our names.
    ForeignObjects(Vec<String>),
    /// Volumes of an earlier cluster of this name wait for a human.
    ExistingData {
        /// The cluster ids found on them.
        found: Vec<ClusterId>,
        /// The volumes.
        volumes: Vec<MemberName>,
        /// What `adopt` says, if it says something that fits none of them.
        unfit: Option<ClusterId>,
    },
    /// Two cluster ids among the members (R12).
    SplitBrain(Vec<(MemberName, ClusterId)>),
    /// A member is another than its name says.
    WrongMember {
        /// The name of the Pod.
        member: MemberName,
        /// What answers there.
        answers: MemberId,
        /// What was latched.
        latched: MemberId,
    },
    /// Certificates or Services are being made.
    Objects,
    /// An abandoned attempt is being cleared away.
    Clearing(&'static str),
    /// A Pod is on its way.
    PodStarting(MemberName),
    /// A Pod can not run as it is.
    PodStuck(MemberName, String),
    /// A Pod must be gone before the next step.
    PodStopping(MemberName),
    /// A volume must be gone before the next step.
    VolumeGoing(MemberName),
    /// A volume is missing and can not be made again empty: the data were on it.
    VolumeLost(MemberName),
    /// Pods run of which status knows nothing, and nothing says whose data they hold.
    UnknownPods(Vec<MemberName>),
    /// No quorum answers (R11).
    Quorum {
        /// Voters that answer.
        healthy: usize,
        /// Voters there are.
        voters: usize,
        /// Why the list could not be read.
        why: String,
    },
    /// The members of a new cluster elect their first leader.
    FirstLeader,
    /// A learner catches up.
    InSync(MemberName),
    /// A member does not answer.
    Sick(MemberName, String),
    /// A member is in etcd's list that is not of our making.
    UnmanagedMember(MemberId, PeerUrl),
    /// The new version must not follow the present one.
    VersionRefused(String),
    /// A change of the spec is not taken yet.
    SafePoint(String),
    /// A safety rule forbids the next step for now.
    Unsafe(Unsafe),
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Paused => f.write_str("paused: spec.paused is true; nothing is done until it is false"),
            Self::ForeignObjects(objects) => write!(
                f,
                "{} exist(s) and belong(s) to somebody else; delete or rename, or name the cluster otherwise",
                objects.join(", ")
            ),
            Self::ExistingData { found, volumes, unfit } => {
                let volumes: Vec<&str> = volumes.iter().map(MemberName::as_str).collect();
                write!(f, "volumes of an earlier cluster of this name exist: {}. ", volumes.join(", "))?;
                if let Some(unfit) = unfit {
                    write!(
                        f,
                        "None of them belongs to cluster {unfit}, which operator.etcd.io/adopt names. "
                    )?;
                }
                match found.as_slice() {
                    [] => f.write_str(
                        "They carry no cluster id and can not be adopted. Delete them to found a new cluster",
                    ),
                    [id] => write!(
                        f,
                        "To serve their data, annotate this cluster with operator.etcd.io/adopt={id}; \
                         to found a new cluster, delete them"
                    ),
                    several => {
                        let ids: Vec<String> = several.iter().map(ToString::to_string).collect();
                        write!(
                            f,
                            "They are of several clusters ({}). To serve the data of one, annotate this cluster with \
                             operator.etcd.io/adopt=<its id>; to found a new cluster, delete them",
                            ids.join(", ")
                        )
                    }
                }
            }
            Self::SplitBrain(ids) => {
                let ids: Vec<String> = ids.iter().map(|(name, id)| format!("{name} is in {id}")).collect();
                write!(f, "members are of different clusters: {}; nothing is touched", ids.join(", "))
            }
            Self::WrongMember { member, answers, latched } => {
                write!(f, "{member} answers as member {answers}, but it is {latched}; nothing is touched")
            }
            Self::Objects => f.write_str("Services and certificates are being made"),
            Self::Clearing(why) => {
                write!(f, "the bootstrap attempt was given up ({why}); its Pods and volumes are cleared away")
            }
            Self::PodStarting(member) => write!(f, "Pod {member} is starting"),
            Self::PodStuck(member, why) => write!(f, "Pod {member} can not run: {why}"),
            Self::PodStopping(member) => write!(f, "Pod {member} is stopping"),
            Self::VolumeGoing(member) => write!(f, "volume {member} is being deleted"),
            Self::VolumeLost(member) => {
                write!(
                    f,
                    "the volume of {member} is gone; it is not made again empty, because its data were there"
                )
            }
            Self::Quorum { healthy, voters, why } => {
                write!(
                    f,
                    "quorum lost: {healthy} of {voters} voters answer, {} are needed",
                    quorum(*voters)
                )?;
                if !why.is_empty() {
                    write!(f, " ({why})")?;
                }
                f.write_str("; Pods are restarted on their own volumes and nothing else is done")
            }
            Self::UnknownPods(pods) => {
                let pods: Vec<&str> = pods.iter().map(MemberName::as_str).collect();
                write!(
                    f,
                    "status was lost while {} run(s) with data in memory; no second cluster is founded beside. Save the \
                     data, then delete the Pods to found a new cluster",
                    pods.join(", ")
                )
            }
            Self::FirstLeader => f.write_str("the members elect their first leader"),
            Self::InSync(member) => write!(f, "learner {member} catches up"),
            Self::Sick(member, why) => write!(f, "{member} is not healthy: {why}"),
            Self::UnmanagedMember(id, url) => write!(
                f,
                "member {id} at {url} is not of our making; until it is removed (etcdctl member remove {id}), nothing \
                 is scaled or rolled"
            ),
            Self::VersionRefused(why) | Self::SafePoint(why) => f.write_str(why),
            Self::Unsafe(why) => write!(f, "{why}"),
        }
    }
}
