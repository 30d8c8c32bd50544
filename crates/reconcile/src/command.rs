//! What a pass asks of its driver, and what the driver replies.

use quorate_manifests::certificate::{self, Leaf};
use quorate_manifests::{Kind, Write};
use quorate_model::MemberName;
use quorate_model::effect::EtcdCall;
use quorate_model::snapshot::{Answer, List};

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
    /// Ask a member for a linearizable member list. Answered by [`Reply::List`].
    MemberList {
        /// The member.
        at: MemberName,
    },
    /// Send a write to the Kubernetes API, once. Answered by [`Reply::Written`].
    Write(Write),
    /// Call etcd, once. Answered by [`Reply::Called`].
    Call {
        /// The member that is asked.
        at: MemberName,
        /// The call.
        call: EtcdCall,
    },
    /// Generate a certificate authority. Answered by [`Reply::Keys`].
    NewAuthority {
        /// Its common name.
        common_name: String,
    },
    /// Generate a leaf certificate. Answered by [`Reply::Keys`].
    NewLeaf {
        /// The authority that signs it.
        authority: KeyPair,
        /// What it is valid for.
        leaf: Leaf,
    },
}

/// A certificate and its key, as PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyPair {
    /// The certificate.
    pub cert: String,
    /// Its key.
    pub key: String,
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
    /// The member list, or why there is none.
    List(Result<List, String>),
    /// The object as it is after the write; `None` if a delete left nothing.
    Written(Result<Option<Object>, WriteError>),
    /// Whether etcd carried it out.
    Called(Result<(), CallError>),
    /// The certificate and its key, or why there are none.
    Keys(Result<KeyPair, String>),
}

impl Task {
    /// Whether it may change anything outside the operator.
    pub fn changes_something(&self) -> bool {
        match self {
            Self::Write(_) | Self::Call { .. } => true,
            Self::Read { .. }
            | Self::Caches
            | Self::Status { .. }
            | Self::MemberList { .. }
            | Self::NewAuthority { .. }
            | Self::NewLeaf { .. } => false,
        }
    }
}

impl KeyPair {
    /// As it is put into a Secret.
    pub fn borrowed(&self) -> certificate::Pair<'_> {
        certificate::Pair { cert: &self.cert, key: &self.key }
    }
}

impl std::fmt::Debug for KeyPair {
    /// Without the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyPair").field("cert", &self.cert).finish_non_exhaustive()
    }
}
