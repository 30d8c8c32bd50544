//! The certificates that exist, and the one judgement about them: which authority signs, and which leaves are to be renewed.
//! Planner, safety and status use it.
//!
//! Members read the authorities they trust once, when etcd starts, and their own leaf at every handshake. So a leaf can be
//! replaced at any time by one of the same authority, and an authority never: members that started before and after would
//! refuse each other.

use std::collections::BTreeMap;
use std::fmt;

use super::Snapshot;
use crate::certificate::{Fingerprint, Leaf, Validity};
use crate::names::{ClusterUid, Uid};
use crate::record::Record;
use crate::time::Instant;

/// The Secrets with certificates that exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Certificates {
    /// The name of the authority's Secret in messages: `Secret default/demo-ca`.
    pub authority_name: String,
    /// That of the authority.
    pub authority: Option<AuthoritySecret>,
    /// Those of the leaves.
    pub leaves: BTreeMap<Leaf, LeafSecret>,
}

/// The Secret of the authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthoritySecret {
    /// Its uid.
    pub uid: Uid,
    /// Its resource version when it was observed.
    pub resource_version: String,
    /// The incarnation of the cluster in its annotation.
    pub incarnation: Option<ClusterUid>,
    /// It has an owner reference, so it would be deleted with its owner.
    pub owned: bool,
    /// What is in it, or what is wrong with it.
    pub content: Result<Authority, String>,
}

/// An authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority {
    /// Its name.
    pub fingerprint: Fingerprint,
    /// How long it is valid.
    pub validity: Validity,
}

/// The Secret of a leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeafSecret {
    /// Its uid.
    pub uid: Uid,
    /// Its resource version when it was observed.
    pub resource_version: String,
    /// What is in it, or what is wrong with it.
    pub content: Result<LeafCertificate, String>,
}

/// A leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeafCertificate {
    /// How long it is valid.
    pub validity: Validity,
    /// The authority that signed it, if it is one of those beside it or the authority of the cluster.
    pub signed_by: Option<Fingerprint>,
    /// The authorities beside it, which members trust from their start on.
    pub trusted: Vec<Fingerprint>,
    /// Names that it should be valid for and is not.
    pub lacks: Vec<String>,
    /// Its common name, where members would refuse it as a peer's though it is, or admit it though it is not.
    pub misnamed: Option<String>,
}

/// Which authority signs the leaves of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signing<'a> {
    /// None yet: nothing was signed, so one may be created.
    ToCreate,
    /// This one. It is the recorded one, or it is to be recorded.
    With(&'a AuthoritySecret, &'a Authority),
    /// None: the authority that the members trust is lost.
    Lost(AuthorityLoss),
}

/// How the authority of a cluster was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthorityLoss {
    /// Its Secret does not exist. The fingerprint, where it is recorded.
    Missing(Option<Fingerprint>),
    /// Its Secret has another authority than the recorded one.
    Other {
        /// In status.
        recorded: Fingerprint,
        /// In the Secret.
        found: Fingerprint,
    },
    /// Its Secret cannot be read.
    Unreadable(String),
    /// None is recorded, and this one did not sign the leaves that exist, or Pods run whose leaves do not exist.
    NotThatOfTheLeaves(Fingerprint),
}

impl Snapshot {
    /// Which authority signs. The record is an argument, because a plan in the making may know more than the observed one.
    pub fn signing<'a>(&self, certificates: &'a Certificates, record: &Record) -> Signing<'a> {
        let Certificates { authority, leaves, authority_name: _ } = certificates;
        let Some(secret) = authority else {
            let may_trust_another = !leaves.is_empty() || !self.pods.is_empty();
            return if record.authority.is_some() || may_trust_another {
                Signing::Lost(AuthorityLoss::Missing(record.authority.clone()))
            } else {
                Signing::ToCreate
            };
        };
        let found = match &secret.content {
            Ok(found) => found,
            Err(why) => return Signing::Lost(AuthorityLoss::Unreadable(why.clone())),
        };
        let other = |recorded: &Fingerprint| AuthorityLoss::Other {
            recorded: recorded.clone(),
            found: found.fingerprint.clone(),
        };
        match &record.authority {
            Some(recorded) if *recorded == found.fingerprint => Signing::With(secret, found),
            Some(recorded) => Signing::Lost(other(recorded)),
            None if self.signed_what_exists(leaves, found) => Signing::With(secret, found),
            None => Signing::Lost(AuthorityLoss::NotThatOfTheLeaves(found.fingerprint.clone())),
        }
    }

    /// Whether an authority that is not recorded signed every leaf, and Pods have leaves that show which one they trust.
    fn signed_what_exists(&self, leaves: &BTreeMap<Leaf, LeafSecret>, authority: &Authority) -> bool {
        let mut readable = leaves.values().filter_map(|leaf| leaf.content.as_ref().ok()).peekable();
        let is_shown = readable.peek().is_some() || self.pods.is_empty();
        is_shown && readable.all(|leaf| leaf.signed_by.as_ref() == Some(&authority.fingerprint))
    }
}

impl Certificates {
    /// Whether every leaf exists, so that Pods can mount them.
    pub fn are_complete(&self) -> bool {
        Leaf::ALL.iter().all(|leaf| self.leaves.contains_key(leaf))
    }

    /// When the first of them ends.
    pub fn first_end(&self) -> Option<Instant> {
        let authority =
            self.authority.iter().filter_map(|secret| Some(secret.content.as_ref().ok()?.validity));
        let leaves = self.leaves.values().filter_map(|leaf| Some(leaf.content.as_ref().ok()?.validity));
        authority.chain(leaves).map(|validity| validity.not_after).min()
    }
}

impl LeafSecret {
    /// Whether this authority is to sign a new leaf in its place.
    pub fn is_due(&self, authority: &Authority, now: Instant) -> bool {
        // A leaf ends with its authority at the latest. Renewal would not help any more.
        let is_due = |leaf: &LeafCertificate| {
            now >= leaf.validity.renewal() && leaf.validity.not_after < authority.validity.not_after
        };
        self.why_unusable(authority, now).is_some() || self.content.as_ref().is_ok_and(is_due)
    }

    /// Why a leaf of this authority is of no use, whenever it ends; `None` if it is usable.
    pub fn why_unusable(&self, authority: &Authority, now: Instant) -> Option<String> {
        let leaf = match &self.content {
            Ok(leaf) => leaf,
            Err(why) => return Some(why.clone()),
        };
        if leaf.signed_by.as_ref() != Some(&authority.fingerprint) {
            return Some("another authority signed it".to_owned());
        }
        if !leaf.trusted.contains(&authority.fingerprint) {
            return Some("ca.crt lacks the authority".to_owned());
        }
        if !leaf.lacks.is_empty() {
            return Some(format!("it is not valid for {}", leaf.lacks.join(", ")));
        }
        if let Some(name) = &leaf.misnamed {
            return Some(format!("its common name {name:?} is not its own: members know peers by it"));
        }
        // A clock that was ahead signed it. It would be refused until then, and is due long after.
        if leaf.validity.is_in_future(now) {
            return Some("its notBefore is in the future, so members and clients refuse it".to_owned());
        }
        None
    }
}

impl fmt::Display for AuthorityLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(None) => f.write_str("it does not exist"),
            Self::Missing(Some(recorded)) => {
                write!(f, "it does not exist. The fingerprint of its certificate begins with {recorded}")
            }
            Self::Other { recorded, found } => write!(
                f,
                "it has another authority: the fingerprint of its certificate begins with {found}, and status records \
                 {recorded}"
            ),
            Self::Unreadable(why) => write!(f, "it cannot be used: {why}"),
            Self::NotThatOfTheLeaves(found) => write!(
                f,
                "its authority did not sign the certificates that the members use: the fingerprint of its certificate \
                 begins with {found}"
            ),
        }
    }
}
