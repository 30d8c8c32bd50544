//! What a pass asks of its driver, and what the driver replies.

use std::collections::BTreeMap;

use quorate_manifests::certificate::rotation::Shown;
use quorate_manifests::certificate::{Generate, KeyPair};
use quorate_manifests::{Kind, SiteQuestion, Write};
use quorate_model::auth::SeenAuth;
use quorate_model::effect::EtcdCall;
use quorate_model::snapshot::{Answer, KeysHash, List, Proof, Site, VolumeSpace};
use quorate_model::{Ca, Instant, MemberName, Revision, Uid};
use serde_json::Value;

use crate::objects::{Caches, Object};
use crate::reply::{CallError, WriteError};

/// One command. Commands that are issued together may be carried out at the same time, and answered in any order.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    /// The reply names it.
    pub id: CommandId,
    /// What it serves.
    pub purpose: Purpose,
    /// What to do.
    pub task: Task,
    /// It is not sent after this moment, because the observation that it rests on is too old by then (R18).
    pub not_after: Option<Instant>,
}

/// Names a command until it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandId(pub(crate) usize);

/// What a command serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Purpose {
    /// The snapshot.
    Observe,
    /// The record that is written to status before any effect.
    Record,
    /// The effect with this index in the plan.
    Effect(usize),
    /// A status that reports why the pass ended early.
    Report,
}

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Task {
    /// Read an object of the cluster's namespace from the Kubernetes API. Answered by [`Reply::Object`].
    Read {
        /// Its kind.
        kind: Kind,
        /// Its name.
        name: String,
    },
    /// Read the caches of the watches. Answered by [`Reply::Caches`].
    Caches,
    /// Ask a member for its Status. Answered by [`Reply::Status`].
    Status {
        /// The member.
        member: MemberName,
    },
    /// Ask the agent of a member for the free space of its volume. Answered by [`Reply::FreeSpace`].
    FreeSpace {
        /// The member.
        member: MemberName,
    },
    /// Look what a member trusts and presents at a port, by a TLS handshake. Answered by [`Reply::Handshake`].
    Handshake {
        /// The member.
        member: MemberName,
        /// At the port of these.
        ca: Ca,
    },
    /// Ask a member for a linearizable member list. Answered by [`Reply::List`].
    MemberList {
        /// The member.
        at: MemberName,
    },
    /// Ask a member how far etcd's auth is: whether it is on and, while it is off, how far the user root is and who else
    /// has the role root. Answered by [`Reply::Auth`].
    Auth {
        /// The member.
        at: MemberName,
        /// The spec asks for auth, or the record has it. Else the user root is nobody's concern.
        is_ours: bool,
    },
    /// Ask a member for the hash of its keys. Answered by [`Reply::Hash`].
    Hash {
        /// The member.
        member: MemberName,
        /// Up to which revision; `None`: the latest.
        revision: Option<Revision>,
    },
    /// Prove that members store what the cluster commits: two AlarmList calls at one member, then each member's Status until it
    /// has applied the second one, for at most [`IN_SYNC_WITHIN`]. Answered by [`Reply::Proved`].
    ///
    /// [`IN_SYNC_WITHIN`]: quorate_model::snapshot::IN_SYNC_WITHIN
    ProveProgress {
        /// The member that is asked for the alarms.
        at: MemberName,
        /// The members that must apply it.
        members: Vec<MemberName>,
    },
    /// Make an entry in etcd's log that changes nothing: one AlarmList call. Answered by [`Reply::Entry`].
    Entry {
        /// The member that is asked.
        at: MemberName,
    },
    /// Read where the volume of a member can be used. Answered by [`Reply::Site`].
    Site {
        /// The member.
        member: MemberName,
        /// What is to be read.
        question: SiteQuestion,
    },
    /// Read what the node of a Pod says of why it does not start, or is not ready. Answered by [`Reply::NodeSays`].
    NodeSays {
        /// The member.
        member: MemberName,
        /// Its Pod.
        pod: Uid,
    },
    /// Ask whether the Kubernetes API would admit a creation, without creating anything. Answered by [`Reply::DryRun`].
    DryRun(Write),
    /// Read the CertificateRequests of the cluster's namespace. Answered by [`Reply::CertificateRequests`].
    CertificateRequests,
    /// Send a write to the Kubernetes API, once. Answered by [`Reply::Written`].
    Write(Write),
    /// Call etcd, once. Answered by [`Reply::Called`].
    Call {
        /// The member that is asked.
        at: MemberName,
        /// The call.
        call: EtcdCall,
    },
    /// Generate a certificate. Answered by [`Reply::Keys`].
    Generate(Generate),
}

/// The reply to a command.
#[derive(Clone, Debug)]
pub enum Reply {
    /// The object that was read; `None` if it does not exist.
    Object(Result<Option<Object>, WriteError>),
    /// The caches.
    Caches(Box<Caches>),
    /// What a member reported.
    Status(Answer),
    /// What the volume of a member has, or why that is not known.
    FreeSpace(Result<VolumeSpace, String>),
    /// What the handshake showed, or why it showed nothing.
    Handshake(Result<Shown, String>),
    /// The member list, or why there is none.
    List(Result<List, String>),
    /// How far etcd's auth is, or why that is not known.
    Auth(Result<SeenAuth, String>),
    /// The hash of a member's keys, or why there is none.
    Hash(Result<KeysHash, String>),
    /// What the members had applied, or why nothing is proved.
    Proved(Result<Proved, String>),
    /// Whether the entry was committed; if not, or if that is not known, why.
    Entry(Result<(), String>),
    /// Where the volume can be used, or why that is not known.
    Site(Result<Site, String>),
    /// The last words of the node, if there are any, or why they are not known.
    NodeSays(Result<Option<String>, String>),
    /// Whether it would be admitted.
    DryRun(Result<(), WriteError>),
    /// The CertificateRequests, or why they could not be read.
    CertificateRequests(Result<Vec<Value>, String>),
    /// The object as it is after the write; `None` if a delete left nothing.
    Written(Result<Option<Object>, WriteError>),
    /// Whether etcd carried it out.
    Called(Result<(), CallError>),
    /// The certificate and its key, or why there are none.
    Keys(Result<KeyPair, String>),
}

/// What a proof of progress showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proved {
    /// The index that members must have applied, and when the proof began.
    pub proof: Proof,
    /// Each member's last answer.
    pub answers: BTreeMap<MemberName, Answer>,
}

impl Task {
    /// Whether it may change anything outside the operator.
    pub fn changes_something(&self) -> bool {
        match self {
            Self::Write(_) | Self::Call { .. } => true,
            Self::Read { .. }
            | Self::Caches
            | Self::Status { .. }
            | Self::FreeSpace { .. }
            | Self::Handshake { .. }
            | Self::MemberList { .. }
            | Self::Auth { .. }
            | Self::Hash { .. }
            | Self::ProveProgress { .. }
            | Self::Entry { .. }
            | Self::Site { .. }
            | Self::NodeSays { .. }
            | Self::DryRun(_)
            | Self::CertificateRequests
            | Self::Generate(_) => false,
        }
    }
}
