//! What shall be done: effects as values, the numbered step each belongs to, and what is waited on. The executor that
//! carries them out has no choices left.
//!
//! - this file: [`Plan`], [`Effect`], and how etcd [boots](Boot)
//! - `step`: the numbered steps; `waiting`: what a plan waits on; `refusal`: why a step is not taken

mod refusal;
mod step;
mod waiting;

use std::fmt;

use crate::ids::{ClusterId, MemberId};
use crate::names::{MemberName, PeerUrl, Uid};
use crate::record::Record;
pub use refusal::Unsafe;
pub use step::{LEARNER_DEADLINE, LEARNER_SYNC_DEADLINE, Step};
pub use waiting::Waiting;

/// The outcome of planning: first the record is written to status, then the effects are carried out in order; the
/// first that fails ends the pass (R3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What status shall hold before any effect begins.
    pub record: Record,
    /// The steps at which the record changes; empty if it does not.
    pub recorded_steps: Vec<Step>,
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
    /// Create the headless peer Service, or bring it to its desired form.
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
    AnnotateVolume {
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
    LabelJoined {
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
    /// Let a founder's Pod be placed on a node. It is made held back, and released only by who sees it while the cluster is
    /// still being founded: what a call makes that comes later stays held.
    UngatePod {
        /// Whose.
        member: MemberName,
        /// The Pod that was seen.
        pod: Uid,
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
    /// Create the client Service, or bring it to its desired form.
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

impl Effect {
    /// The protocol step this effect is.
    pub fn step(&self) -> Step {
        match self {
            Self::AddFinalizer => Step::B1,
            Self::RemoveFinalizer => Step::D3,
            Self::ApplyPeerService | Self::IssueCertificates => Step::B2,
            Self::CreatePod { boot: Boot::New, .. } => Step::B4,
            Self::UngatePod { .. } => Step::BR,
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
            | Self::AnnotateVolume { .. }
            | Self::LabelJoined { .. }
            | Self::ExpandVolume { .. } => Step::K1,
        }
    }

    /// Whether the effect after it may be sent before this one's reply is there. Creates of one step do not build on each
    /// other; everything else waits for what stands before it.
    pub fn runs_in_parallel_with(&self, next: &Self) -> bool {
        self.creates() && next.creates() && self.step() == next.step()
    }

    /// Whether the plan goes on where this fails. Nothing builds on upkeep, and what it meets may last: a storage class
    /// that can not expand, a name that is taken. It is told, and the members are looked after all the same.
    pub fn is_best_effort(&self) -> bool {
        matches!(self.step(), Step::K1 | Step::B7)
    }

    fn creates(&self) -> bool {
        match self {
            Self::ApplyPeerService
            | Self::IssueCertificates
            | Self::CreateVolume { .. }
            | Self::CreatePod { .. }
            | Self::UngatePod { .. }
            | Self::AnnotateVolume { .. }
            | Self::LabelJoined { .. }
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
            | Self::AnnotateVolume { .. }
            | Self::LabelJoined { .. }
            | Self::ExpandVolume { .. }
            | Self::CreatePod { .. }
            | Self::UngatePod { .. }
            | Self::DeletePod { .. }
            | Self::DeleteVolume { .. }
            | Self::MoveLeadership { .. }
            | Self::ApplyClientService
            | Self::ApplyBudget { .. } => false,
        }
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
            Self::AnnotateVolume { member, cluster_id, member_id, .. } => {
                write!(f, "stamp volume {member} with cluster {cluster_id} member {member_id}")
            }
            Self::LabelJoined { member, .. } => write!(f, "mark Pod {member} as joined"),
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
            Self::UngatePod { member, .. } => write!(f, "release Pod {member}"),
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
