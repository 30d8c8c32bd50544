//! What shall be done: effects as values, the numbered step each belongs to, and what is waited on. The executor that
//! carries them out has no choices left.

use std::fmt;

use crate::ids::{ClusterId, MemberId};
use crate::names::{MemberName, PeerUrl, Uid};
use crate::quorum::quorum;
use crate::record::{Leaving, Record};
use crate::time::Span;

/// The outcome of planning: first the record is written to status, then the effects are carried out in order; the
/// first that fails ends the pass (R3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What status shall hold before any effect begins.
    pub record: Record,
    /// The steps at which the record changes; empty if it does not.
    pub latches: Vec<Step>,
    /// What to do, in order.
    pub effects: Vec<Effect>,
    /// What is waited on, most important first.
    pub waiting: Vec<Waiting>,
}

/// One act on Kubernetes or etcd. Each is idempotent and carries what must hold for it to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Put our finalizer on the object, so that deletion runs in order.
    AddFinalizer,
    /// Let the object go.
    RemoveFinalizer,
    /// Create the headless peer Service, or bring it to its wanted form.
    ApplyPeerService,
    /// Make the cluster's CA and leaf certificates, as far as they are missing.
    IssueCertificates,
    /// Create a member's volume.
    CreateVolume {
        /// Whose.
        member: MemberName,
        /// The protocol step this creation is.
        step: Step,
    },
    /// Stamp a volume with the identity its data have, or ask it to grow.
    StampVolume {
        /// Whose.
        member: MemberName,
        /// The volume that was seen.
        volume: Uid,
        /// The cluster its data belong to.
        cluster_id: ClusterId,
        /// The member its data belong to.
        member_id: MemberId,
    },
    /// Mark a Pod as one whose member has joined. A Pod may start over on its node, with all its containers and on a
    /// volume that was emptied meanwhile; its guard, made for a first start, must not let that pass for one.
    MarkJoined {
        /// Whose.
        member: MemberName,
        /// The Pod that was seen.
        pod: Uid,
    },
    /// Ask a volume for more bytes.
    ExpandVolume {
        /// Whose.
        member: MemberName,
        /// The volume that was seen.
        volume: Uid,
        /// How many bytes.
        bytes: u64,
    },
    /// Create a member's Pod.
    CreatePod {
        /// Whose.
        member: MemberName,
        /// How etcd boots in it.
        boot: Boot,
        /// `--initial-cluster`.
        peers: Vec<(MemberName, PeerUrl)>,
    },
    /// Delete a Pod.
    DeletePod {
        /// Whose.
        member: MemberName,
        /// Precondition: this Pod and no later one.
        pod: Uid,
        /// Precondition: as it was seen.
        resource_version: String,
        /// The protocol step this deletion is.
        step: Step,
    },
    /// Delete a volume and the data on it.
    DeleteVolume {
        /// Whose.
        member: MemberName,
        /// Precondition: this volume and no later one.
        volume: Uid,
        /// Precondition: as it was seen.
        resource_version: String,
        /// The protocol step this deletion is.
        step: Step,
    },
    /// MemberAdd, always as a learner (R6).
    AddLearner {
        /// Whose.
        member: MemberName,
        /// Its peer URL, unique to this incarnation.
        peer_url: PeerUrl,
        /// Asked at this member, whose list was read just before.
        via: MemberName,
    },
    /// MemberPromote.
    Promote {
        /// Whose.
        member: MemberName,
        /// By id.
        id: MemberId,
        /// Asked at this member.
        via: MemberName,
    },
    /// MemberRemove.
    RemoveMember {
        /// Whose.
        member: MemberName,
        /// By id, read just before together with the URL.
        id: MemberId,
        /// The URL the list gave for that id.
        peer_url: PeerUrl,
        /// Asked at this member.
        via: MemberName,
    },
    /// MoveLeader.
    MoveLeadership {
        /// The leader, at which it is asked.
        from: MemberName,
        /// The transferee's name.
        to: MemberName,
        /// The transferee's id.
        to_id: MemberId,
        /// The protocol step this transfer is.
        step: Step,
    },
    /// Create the client Service, or bring it to its wanted form.
    ApplyClientService,
    /// Create the PodDisruptionBudget, or change its number.
    ApplyBudget {
        /// How many ready voters must stay.
        min_available: usize,
    },
}

/// How etcd boots in a Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boot {
    /// `--initial-cluster-state=new`: only for the latched set before the cluster id is latched (R1).
    New,
    /// `existing`, on a volume that may still be empty: a learner on its way in.
    Join,
    /// `existing`, on a volume that must hold the member's data.
    Resume,
}

/// The numbered steps of the protocols. The numbers stand in the docs, the crash points and the tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "named after the steps in docs/protocols")]
pub enum Step {
    B1,
    B2,
    B3,
    B4,
    B5,
    B6,
    B7,
    B8,
    /// A wish is committed as the target.
    T1,
    /// An abandoned attempt: Pods, then volumes.
    BA,
    /// Adoption of an earlier cluster's volumes.
    BX,
    G1,
    G2,
    G3,
    G4,
    G5,
    G6,
    S1,
    S2,
    S3,
    S4,
    S5,
    Z1,
    Z2,
    /// A lost Pod is made again on its own volume; at once for all members on waking.
    W1,
    /// A finished or stuck Pod is cleared away for that.
    W2,
    P1,
    U1,
    U2,
    U3,
    U4,
    U5,
    U6,
    /// Deletion of the cluster: Pods, volumes, finalizer.
    D1,
    D2,
    D3,
    /// Upkeep: budget, stamps, expansion.
    K1,
}

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

/// Why a step must not be taken now. The same value goes to status, event, metric and test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unsafe {
    /// R1: `new` outside the latched set, or after the cluster id was latched.
    NotASeed(MemberName),
    /// R2, R3: the name was not promised in the record.
    NotRecorded(MemberName),
    /// R2: the volume is another incarnation's, or missing where data must be.
    NotItsVolume(MemberName),
    /// R3: the object was not seen, or not as the effect says.
    NotSeen(MemberName),
    /// R5: another change of membership is outstanding.
    ChangeOutstanding(MemberName),
    /// R5: only one effect of a plan may reduce redundancy.
    SecondDisruption(MemberName),
    /// R6, R5: a voter is not healthy, so membership does not grow and no healthy voter is disturbed.
    VoterUnhealthy(MemberName),
    /// R7: the list does not show that id with that URL.
    NotThatMember(MemberName),
    /// R9: there is no fresh linearizable list, or it is from another member.
    NoFreshList,
    /// R10: the member is still in the list, or that can not be told.
    StillListed(MemberName),
    /// R10: its Pod is not gone.
    PodNotGone(MemberName),
    /// R10: nobody decided that these data go.
    DataKept(MemberName),
    /// R11: without quorum nothing but restarts.
    NoQuorum,
    /// R11: the others would not be a quorum.
    WouldLoseQuorum {
        /// The member in question.
        member: MemberName,
        /// Healthy voters left.
        left: usize,
        /// Voters of the resulting membership.
        of: usize,
    },
    /// R12.
    SplitBrain,
}

/// The deadline for a learner to run before it is rolled back (G5).
pub const LEARNER_DEADLINE: Span = Span::seconds(600);

/// The deadline for a learner that runs to say something. etcd serves nobody before it has caught up, so a large database
/// is long silence: 8 GiB, the most that etcd recommends, at 2.5 MB/s.
pub const LEARNER_SYNC_DEADLINE: Span = Span::seconds(3600);

impl Effect {
    /// The protocol step this effect is.
    pub fn step(&self) -> Step {
        match self {
            Self::AddFinalizer => Step::B1,
            Self::RemoveFinalizer => Step::D3,
            Self::ApplyPeerService | Self::IssueCertificates => Step::B2,
            Self::CreatePod { boot: Boot::New, .. } => Step::B4,
            Self::CreatePod { boot: Boot::Join, .. } => Step::G4,
            Self::CreatePod { boot: Boot::Resume, .. } => Step::W1,
            Self::CreateVolume { step, .. }
            | Self::DeletePod { step, .. }
            | Self::DeleteVolume { step, .. }
            | Self::MoveLeadership { step, .. } => *step,
            Self::AddLearner { .. } => Step::G3,
            Self::Promote { .. } => Step::G6,
            Self::RemoveMember { .. } => Step::S3,
            Self::ApplyClientService => Step::B7,
            Self::ApplyBudget { .. }
            | Self::StampVolume { .. }
            | Self::MarkJoined { .. }
            | Self::ExpandVolume { .. } => Step::K1,
        }
    }

    /// Whether the effect after it may be sent before this one's reply is there. Creates of one step do not build on each
    /// other; everything else waits for what stands before it.
    pub fn goes_with(&self, next: &Self) -> bool {
        self.creates() && next.creates() && self.step() == next.step()
    }

    /// Whether the plan goes on where this fails. Nothing builds on upkeep, and what it meets may last: a storage class
    /// that can not expand, a name that is taken. It is told, and the members are looked after all the same.
    pub fn stands_aside(&self) -> bool {
        matches!(self.step(), Step::K1 | Step::B7)
    }

    fn creates(&self) -> bool {
        match self {
            Self::ApplyPeerService
            | Self::IssueCertificates
            | Self::CreateVolume { .. }
            | Self::CreatePod { .. }
            | Self::StampVolume { .. }
            | Self::MarkJoined { .. }
            | Self::ApplyClientService
            | Self::ApplyBudget { .. } => true,
            Self::AddFinalizer
            | Self::RemoveFinalizer
            | Self::ExpandVolume { .. }
            | Self::DeletePod { .. }
            | Self::DeleteVolume { .. }
            | Self::AddLearner { .. }
            | Self::Promote { .. }
            | Self::RemoveMember { .. }
            | Self::MoveLeadership { .. } => false,
        }
    }

    /// Whether it changes etcd's membership.
    pub fn changes_membership(&self) -> bool {
        match self {
            Self::AddLearner { .. } | Self::Promote { .. } | Self::RemoveMember { .. } => true,
            Self::AddFinalizer
            | Self::RemoveFinalizer
            | Self::ApplyPeerService
            | Self::IssueCertificates
            | Self::CreateVolume { .. }
            | Self::StampVolume { .. }
            | Self::MarkJoined { .. }
            | Self::ExpandVolume { .. }
            | Self::CreatePod { .. }
            | Self::DeletePod { .. }
            | Self::DeleteVolume { .. }
            | Self::MoveLeadership { .. }
            | Self::ApplyClientService
            | Self::ApplyBudget { .. } => false,
        }
    }
}

impl Unsafe {
    /// Its name in metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::NotASeed(_) => "NotASeed",
            Self::NotRecorded(_) => "NotRecorded",
            Self::NotItsVolume(_) => "NotItsVolume",
            Self::NotSeen(_) => "NotSeen",
            Self::ChangeOutstanding(_) => "ChangeOutstanding",
            Self::SecondDisruption(_) => "SecondDisruption",
            Self::VoterUnhealthy(_) => "VoterUnhealthy",
            Self::NotThatMember(_) => "NotThatMember",
            Self::NoFreshList => "NoFreshList",
            Self::StillListed(_) => "StillListed",
            Self::PodNotGone(_) => "PodNotGone",
            Self::DataKept(_) => "DataKept",
            Self::NoQuorum => "NoQuorum",
            Self::WouldLoseQuorum { .. } => "WouldLoseQuorum",
            Self::SplitBrain => "SplitBrain",
        }
    }
}

impl Step {
    /// Every step.
    pub const ALL: [Self; 37] = [
        Self::B1,
        Self::B2,
        Self::B3,
        Self::B4,
        Self::B5,
        Self::B6,
        Self::B7,
        Self::B8,
        Self::T1,
        Self::BA,
        Self::BX,
        Self::G1,
        Self::G2,
        Self::G3,
        Self::G4,
        Self::G5,
        Self::G6,
        Self::S1,
        Self::S2,
        Self::S3,
        Self::S4,
        Self::S5,
        Self::Z1,
        Self::Z2,
        Self::W1,
        Self::W2,
        Self::P1,
        Self::U1,
        Self::U2,
        Self::U3,
        Self::U4,
        Self::U5,
        Self::U6,
        Self::D1,
        Self::D2,
        Self::D3,
        Self::K1,
    ];
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddFinalizer => f.write_str("add the finalizer"),
            Self::RemoveFinalizer => f.write_str("remove the finalizer"),
            Self::ApplyPeerService => f.write_str("apply the peer Service"),
            Self::IssueCertificates => f.write_str("issue certificates"),
            Self::CreateVolume { member, .. } => write!(f, "create volume {member}"),
            Self::StampVolume { member, cluster_id, member_id, .. } => {
                write!(f, "stamp volume {member} with cluster {cluster_id} member {member_id}")
            }
            Self::MarkJoined { member, .. } => write!(f, "mark Pod {member} as joined"),
            Self::ExpandVolume { member, bytes, .. } => write!(f, "expand volume {member} to {bytes} bytes"),
            Self::CreatePod { member, boot, peers } => {
                let boot = match boot {
                    Boot::New => "new",
                    Boot::Join => "existing, joining",
                    Boot::Resume => "existing, on its data",
                };
                let peers: Vec<&str> = peers.iter().map(|(name, _)| name.as_str()).collect();
                write!(f, "create Pod {member} ({boot}; peers {})", peers.join(" "))
            }
            Self::DeletePod { member, pod, .. } => write!(f, "delete Pod {member} (uid {pod})"),
            Self::DeleteVolume { member, volume, .. } => write!(f, "delete volume {member} (uid {volume})"),
            Self::AddLearner { member, peer_url, via } => {
                write!(f, "MemberAdd {member} as learner at {peer_url} via {via}")
            }
            Self::Promote { member, id, via } => write!(f, "MemberPromote {member} ({id}) via {via}"),
            Self::RemoveMember { member, id, via, .. } => write!(f, "MemberRemove {member} ({id}) via {via}"),
            Self::MoveLeadership { from, to, to_id, .. } => {
                write!(f, "MoveLeader from {from} to {to} ({to_id})")
            }
            Self::ApplyClientService => f.write_str("apply the client Service"),
            Self::ApplyBudget { min_available } => {
                write!(f, "apply the budget (minAvailable {min_available})")
            }
        }
    }
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

impl fmt::Display for Unsafe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotASeed(member) => write!(f, "{member} must not start as new"),
            Self::NotRecorded(member) => write!(f, "{member} is not promised in status"),
            Self::NotItsVolume(member) => write!(f, "the volume of {member} is missing or is another's"),
            Self::NotSeen(member) => write!(f, "{member} is not as it was seen"),
            Self::ChangeOutstanding(member) => write!(f, "the change of {member} must be finished first"),
            Self::SecondDisruption(member) => write!(f, "{member} must wait its turn"),
            Self::VoterUnhealthy(member) => {
                write!(f, "voter {member} is not healthy; membership does not change around it")
            }
            Self::NotThatMember(member) => write!(f, "the member list does not show {member} as expected"),
            Self::NoFreshList => f.write_str("no fresh member list by quorum"),
            Self::StillListed(member) => write!(f, "{member} is still a member, so its data stay"),
            Self::PodNotGone(member) => write!(f, "Pod {member} is not gone, so its data stay"),
            Self::DataKept(member) => write!(f, "the retention policy keeps the data of {member}"),
            Self::NoQuorum => f.write_str("no quorum"),
            Self::WouldLoseQuorum { member, left, of } => {
                write!(
                    f,
                    "without {member} only {left} of {of} voters would be healthy, {} are needed",
                    quorum(*of)
                )
            }
            Self::SplitBrain => f.write_str("members are of different clusters"),
        }
    }
}

impl fmt::Display for Leaving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
