//! The record: the facts and intents that status keeps and that outlive the operator. Everything else can be observed again.

mod doubt;
mod replacement;

use std::collections::BTreeMap;
use std::fmt;

use crate::adoption::Earlier;
use crate::auth::{AuthStage, ClientGrace};
use crate::certificate::{Ca, Fingerprint, Leaf};
use crate::ids::{ClusterId, MemberId, Revision};
use crate::incarnation::{Incarnation, NextIncarnation};
use crate::names::{ClusterUid, MemberName, Ordinal, Token, Uid};
use crate::quorum_recovery::{QuorumRecovery, RecoverFrom};
use crate::restore::Restore;
use crate::rotation::Rotation;
use crate::snapshot::{Authority, DEFRAGMENT_DEADLINE};
use crate::target::{Medium, Target};
use crate::time::{Backoff, Instant, Span};
use crate::version::{Minor, Version};
pub use doubt::RecordDoubt;
pub use replacement::{Loss, Replaced, Replacement, ReplacementEnd, Suspicion};

/// A cluster's turn to take new defaults of the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Turn {
    /// When it began, or when the last of these members was restarted.
    pub since: Instant,
    /// How many members have the new defaults.
    pub restarted: u32,
}

/// The recorded part of a cluster's status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// How many bootstraps were begun; 0 before the first.
    pub attempt: u32,
    /// The token of this attempt, or of the adopted data.
    pub token: Option<Token>,
    /// The EtcdCluster that adopted the data, if they were adopted: then the token is that of another one.
    pub adopted_by: Option<ClusterUid>,
    /// The data were given up for another incarnation once, and a person took them back by adoption: an order that names this cluster id may
    /// be the one that was carried out then.
    pub taken_back: bool,
    /// What is left of the status of another object, until its volumes are adopted or a new cluster is bootstrapped.
    pub earlier: Option<Earlier>,
    /// Recorded once for each incarnation (B6). From then on no member of it starts with `new` (R1).
    pub cluster_id: Option<ClusterId>,
    /// A member of this attempt had a leader: clients that know its name may have written to it. Then the attempt is not given
    /// up. Once the cluster id is recorded, this says nothing more.
    pub had_leader: bool,
    /// The authority of clients, which signs their leaves. Recorded before the first leaf is signed (R19).
    pub authority: Option<Fingerprint>,
    /// The authority of peers.
    pub peer_authority: Option<Fingerprint>,
    /// The certificates (PEM) of the authorities that are recorded: a bundle of them can be written, whatever becomes of their Secrets.
    pub certificates: BTreeMap<Fingerprint, String>,
    /// The authority of clients is a copy of one in a Secret that the spec named. Where the spec names none any more, another one takes its place.
    pub given: bool,
    /// The rotation of an authority that is under way.
    pub rotation: Option<Rotation>,
    /// The order to rotate an authority that was followed or refused last. It is not followed again.
    pub spent_rotation: Option<String>,
    /// The generation of trust: raised when what members are to trust changes. A Pod of an earlier one started with other authorities.
    pub trust: u32,
    /// How far etcd's auth is switched on; `None`: it is off, or not the operator's.
    pub auth: Option<AuthStage>,
    /// The time in which clients with the certificate that applications share go on as before auth was enabled.
    pub client_grace: Option<ClientGrace>,
    /// The order to switch auth off that was followed, or that stood beside a spec that wanted auth. It is not followed again.
    pub spent_disable_auth: Option<ClusterId>,
    /// What the members of the bootstrap began, or begin, with; `None`: with nothing. Recorded at B1 and kept from attempt to attempt.
    pub restore: Option<Restore>,
    /// The attempt was given up: its Pods and volumes are being cleared away.
    pub abandoned: Option<Abandoned>,
    /// The cluster is at size zero: Pods stopped, volumes kept.
    pub hibernating: bool,
    /// The revision that etcd had when the cluster went to size zero, until it is seen to have it again.
    pub stopped_at: Option<Revision>,
    /// The ordinal the next new member gets (R2).
    pub next_ordinal: Ordinal,
    /// The committed target.
    pub target: Option<Target>,
    /// Learners that were given up, since the last one became a voter and the spec was edited last.
    pub failed_learners: Option<FailedLearners>,
    /// Why an init container brings the agent into Pods of this cluster although the operator prefers an image volume: an image
    /// volume failed here.
    pub no_image_volume: Option<String>,
    /// Every member that has a name and is not completely removed yet.
    pub members: BTreeMap<MemberName, Member>,
    /// The voters whose data may be lost.
    pub suspected: BTreeMap<MemberName, Suspicion>,
    /// Since when the data of members are known to differ; until all of them agree. Without it they would be forgotten where the reason to
    /// compare them goes first, and the next operator would not know of them.
    pub differ_since: Option<Instant>,
    /// The replacement that is under way (P1).
    pub replacement: Option<Replacement>,
    /// How the last replacement ended.
    pub last_replacement: Option<Replaced>,
    /// The committed target is an older minor version than members ran, and their data may go back to it: that was certain when
    /// it was committed. Until every member runs it.
    pub downgrading_to: Option<Minor>,
    /// The last target that was committed has other defaults of the operator and nothing else. Until every member has them.
    pub takes_defaults: Option<Turn>,
    /// The member that the operator is defragmenting. Recorded before it begins, so that the next operator does not take the
    /// member's silence for a fault.
    pub defragmenting: Option<Defragmenting>,
    /// The present incarnation; `None`: the one that the EtcdCluster was created with.
    pub incarnation: Option<Incarnation>,
    /// The order to replace it, while it is being stopped (J1 to J3).
    pub next_incarnation: Option<NextIncarnation>,
    /// The recovery of the quorum that is under way (Q1 to Q5).
    pub quorum_recovery: Option<QuorumRecovery>,
    /// The order to recover the quorum that was followed or refused, as long as the object has it: it is not followed again.
    pub last_quorum_recovery: Option<RecoverFrom>,
}

/// A defragmentation that the operator ordered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defragmenting {
    /// The member.
    pub member: MemberName,
    /// Its Pod: the process in the next one does not defragment.
    pub pod: Uid,
    /// How often etcd had been restarted in it.
    pub restarts: u32,
    /// When it was ordered.
    pub since: Instant,
}

impl Defragmenting {
    /// Whether it may still be under way, as far as time tells: after [`DEFRAGMENT_DEADLINE`] without an answer etcd is restarted.
    pub fn may_go_on(&self, now: Instant) -> bool {
        self.since <= now && now - self.since <= DEFRAGMENT_DEADLINE
    }
}

/// Learners that did not get in sync in time, one after another. Each used up a name and a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedLearners {
    /// How many.
    pub count: u32,
    /// Why the last one did not get in sync.
    pub reason: String,
    /// When the last one was given up.
    pub at: Instant,
}

/// The delays after failed learners. What keeps one from running may be over in a moment, and whoever has put the cause right waits for an
/// hour at most.
const LEARNER_DELAYS: Backoff = Backoff { first: Span::seconds(60), longest: Span::seconds(3600) };

/// What is recorded of one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Where in its life it is.
    pub stage: Stage,
    /// Its id, once etcd gave one.
    pub id: Option<MemberId>,
    /// The uid of its volume: a volume of that name with another uid is not its volume.
    pub volume: Option<Uid>,
    /// The version that it last reported: that of its data, also while it hibernates or does not answer.
    pub version: Option<Version>,
    /// Since when it is in this stage.
    pub since: Instant,
}

/// Where in its life a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// One of the recorded bootstrap set, before the cluster id is recorded.
    Bootstrap,
    /// Has a name; becomes a learner, then a voter.
    Joining,
    /// A voter by etcd's member list.
    Voter,
    /// To be removed, or removed from etcd while its Pod and volume are deleted.
    Leaving(Leaving),
}

/// Why a member is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// The cluster shrinks.
    Shrink,
    /// It did not get in sync within its deadline.
    RolledBack,
    /// Its data are gone for good and the others have quorum.
    Lost,
    /// A learner that the record does not know: its MemberAdd arrived late.
    Stray,
    /// It was removed from etcd, but not by this operator.
    Removed,
    /// A person ordered that another member takes its place.
    Replaced,
}

/// Why a volume is quarantined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuarantineCause {
    /// Its member left the cluster.
    Left(Leaving),
    /// Another incarnation of the cluster takes the place of its own (J3).
    Superseded,
}

/// Why a bootstrap attempt was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abandoned {
    /// A volume of the recorded set is gone or is another one.
    VolumeLost,
    /// The spec was edited in a way that changes the bootstrap set.
    SpecEdited,
    /// etcd refuses to start a member as new: its peers know it, its volume does not.
    VolumeEmptied,
}

impl FailedLearners {
    /// When the next learner is added: after a delay that doubles with each failure.
    pub fn next_try(&self) -> Instant {
        self.at + LEARNER_DELAYS.after(self.count)
    }

    /// Whether the next learner has to wait. A failure in the future does not count: the clock was set back.
    pub fn must_wait(&self, now: Instant) -> bool {
        self.at <= now && now < self.next_try()
    }
}

impl Record {
    /// Whether the cluster id is recorded.
    pub fn is_bootstrapped(&self) -> bool {
        self.cluster_id.is_some()
    }

    /// Whether etcd's auth is wanted, on, or being switched off: then the operator has a credential of its own.
    pub fn has_credential(&self) -> bool {
        self.auth.is_some() || self.target.as_ref().is_some_and(|target| target.auth)
    }

    /// The leaves that the cluster has.
    pub fn leaves(&self) -> impl Iterator<Item = Leaf> + use<> {
        Leaf::of_cluster(self.has_credential())
    }

    /// The authority that is recorded for a port.
    pub fn authority_of(&self, ca: Ca) -> Option<&Fingerprint> {
        match ca {
            Ca::Clients => self.authority.as_ref(),
            Ca::Peers => self.peer_authority.as_ref(),
        }
    }

    /// What the bundle of every leaf of a port has, the signer first, and nothing beside it. Without a rotation that is the recorded authority.
    pub fn bundle(&self, ca: Ca) -> Vec<&Fingerprint> {
        match self.rotation.as_ref().filter(|rotation| rotation.ca == ca) {
            Some(rotation) => rotation.bundle(),
            None => self.authority_of(ca).into_iter().collect(),
        }
    }

    /// Keeps the certificate of an authority as long as it is recorded.
    pub fn keep_certificate(&mut self, of: &Authority) {
        self.certificates.insert(of.fingerprint.clone(), of.certificate.clone());
    }

    /// Forgets the certificates of authorities that are not recorded any more.
    pub fn forget_certificates(&mut self) {
        let Self { certificates, authority, peer_authority, rotation, .. } = self;
        let rotation = || rotation.iter().flat_map(|rotation| [&rotation.from, &rotation.to]);
        let recorded = || authority.iter().chain(&*peer_authority).chain(rotation());
        certificates.retain(|one, _| recorded().any(|recorded| recorded == one));
    }

    /// Records the authority of a port.
    pub fn record_authority(&mut self, ca: Ca, fingerprint: Fingerprint) {
        match ca {
            Ca::Clients => self.authority = Some(fingerprint),
            Ca::Peers => self.peer_authority = Some(fingerprint),
        }
    }

    /// Whether members keep their data in memory, by the committed target: they are gone with the Pod.
    pub fn is_in_memory(&self) -> bool {
        self.target.as_ref().is_some_and(|target| target.storage.medium == Medium::Memory)
    }

    /// Whether it was recorded for another EtcdCluster than this one, for example because a backup of the object with its
    /// status was restored. Then it says nothing about this one.
    pub fn is_of_another(&self, uid: &ClusterUid) -> bool {
        match &self.adopted_by {
            Some(adopted_by) => adopted_by != uid,
            None => self.token.as_ref().is_some_and(|token| !token.is_of(uid)),
        }
    }

    /// Whether an ordinal is one of an earlier incarnation.
    pub fn is_of_earlier_incarnation(&self, ordinal: Ordinal) -> bool {
        self.incarnation.as_ref().is_some_and(|present| ordinal < present.first)
    }

    /// What remains of it where it was recorded for another EtcdCluster: its names are not used again, and what its cluster was decides
    /// what is not adopted. Data in memory are gone, so there is nothing to be kept from.
    #[must_use]
    pub fn for_another(self) -> Self {
        let voters: Vec<MemberName> = self.voters().cloned().collect();
        let had_data = !voters.is_empty() && !self.is_in_memory();
        let earlier = self.cluster_id.filter(|_| had_data).map(|cluster_id| Earlier {
            cluster_id,
            voters,
            had_volumes: false,
        });
        Self { next_ordinal: self.next_ordinal, earlier, ..Self::default() }
    }

    /// Whether this member's data were found to differ from those of a majority.
    pub fn is_wrong(&self, member: &MemberName) -> bool {
        self.suspected.get(member).is_some_and(|suspected| suspected.loss == Loss::Inconsistent)
    }

    /// Whether data were found to differ, and not whose are wrong.
    pub fn is_undecided(&self) -> bool {
        self.differ_since.is_some() && !self.suspected.keys().any(|member| self.is_wrong(member))
    }

    /// Members that are voters by the record.
    pub fn voters(&self) -> impl Iterator<Item = &MemberName> {
        self.members.iter().filter(|(_, member)| member.stage == Stage::Voter).map(|(name, _)| name)
    }

    /// The member that is joining, if one is (R5: at most one).
    pub fn joining(&self) -> Option<(&MemberName, &Member)> {
        self.members.iter().find(|(_, member)| member.stage == Stage::Joining)
    }

    /// The members that are leaving.
    pub fn leaving(&self) -> impl Iterator<Item = (&MemberName, &Member)> {
        self.members.iter().filter(|(_, member)| matches!(member.stage, Stage::Leaving(_)))
    }
}

impl Member {
    /// Whether it may count for the quorum, by the record.
    pub fn counts_for_quorum(&self) -> bool {
        match self.stage {
            Stage::Bootstrap
            | Stage::Voter
            | Stage::Leaving(Leaving::Shrink | Leaving::Lost | Leaving::Replaced) => true,
            Stage::Joining | Stage::Leaving(Leaving::RolledBack | Leaving::Stray | Leaving::Removed) => false,
        }
    }
}

impl Leaving {
    /// R17: whether its volume is quarantined. The operator did not choose to remove it, so its data may be all that is left
    /// of an acknowledged write.
    pub fn quarantines_volume(self) -> bool {
        match self {
            Self::Lost | Self::Removed | Self::Replaced => true,
            Self::Shrink | Self::RolledBack | Self::Stray => false,
        }
    }

    /// How status and events put it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Shrink => "the cluster shrinks",
            Self::RolledBack => "it did not get in sync in time",
            Self::Lost => "its data are lost or wrong",
            Self::Stray => "a delayed call left it behind",
            Self::Removed => "it was removed from etcd, and not by the operator",
            Self::Replaced => "another member took its place, as a person ordered",
        }
    }
}

impl QuarantineCause {
    /// How the annotation and events put it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Left(why) => why.as_str(),
            Self::Superseded => {
                "another incarnation of the cluster took the place of its own, as a person ordered"
            }
        }
    }
}

impl From<Leaving> for QuarantineCause {
    fn from(why: Leaving) -> Self {
        Self::Left(why)
    }
}

impl fmt::Display for QuarantineCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Abandoned {
    /// How status and events put it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::VolumeLost => "a volume of a bootstrap member was lost",
            Self::SpecEdited => "the spec was edited",
            Self::VolumeEmptied => "a volume of a bootstrap member was emptied",
        }
    }
}

impl fmt::Display for Leaving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
