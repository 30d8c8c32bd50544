//! The certificates that exist, and the one judgement about them: which authority signs, and which leaves are to be renewed.
//! Planner, safety and status use it.
//!
//! Members read the authorities they trust once, when etcd starts, and their own leaf at every handshake. So a leaf can be
//! replaced at any time by one of the same authority, and an authority never: members that started before and after would
//! refuse each other.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::Snapshot;
use crate::certificate::{Ca, Fingerprint, Leaf, Validity};
use crate::mutants::{Rule, is_broken};
use crate::names::{ClusterUid, MemberName};
use crate::object::ObservedObject;
use crate::record::Record;
use crate::rotation::{RotateOrder, Rotation, RotationStage};
use crate::time::{Instant, Span};

/// The Secrets with certificates that exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Certificates {
    /// The names of the authorities' Secrets in messages: `Secret default/demo-ca`.
    pub authority_names: BTreeMap<Ca, String>,
    /// Those of the authorities.
    pub authorities: BTreeMap<Ca, AuthoritySecret>,
    /// Those of the leaves that exist, of those that the cluster has by the record that was observed.
    pub leaves: BTreeMap<Leaf, LeafSecret>,
    /// The authority of clients that somebody else made, if the spec says where it comes from.
    pub given: Option<GivenAuthority>,
}

/// An authority of clients that is not the operator's: a copy of one that signs, or of one without its key, beside the leaves that it has signed.
/// What is copied from is mounted nowhere, so nothing ends with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenAuthority {
    /// Where it comes from in messages: `Secret default/my-ca`.
    pub secret: String,
    /// What is there, or why it cannot be taken.
    pub content: Result<Authority, String>,
    /// Where it is without its key, the leaves that come with it, or why one cannot be taken.
    pub leaves: BTreeMap<Leaf, Result<LeafCertificate, String>>,
    /// What keeps the issuer from issuing what the spec wants, in its words.
    pub issuer_says: Option<String>,
}

/// The Secret of an authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthoritySecret {
    /// Its uid and its version when it was observed.
    pub observed: ObservedObject,
    /// The incarnation of the cluster in its annotation.
    pub incarnation: Option<ClusterUid>,
    /// It has an owner reference, so it would be deleted with its owner.
    pub owned: bool,
    /// What is in it, or what is wrong with it.
    pub content: Result<Authority, String>,
    /// The authority beside it that is to take its place.
    pub next: Option<Authority>,
    /// The leaves that came with the one of both that is without its key, copied in the moment in which that was: what was begun can be ended, whatever
    /// becomes of the originals.
    pub staged: BTreeMap<Leaf, LeafCertificate>,
}

/// An authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority {
    /// Its name.
    pub fingerprint: Fingerprint,
    /// Its certificate (PEM).
    pub certificate: String,
    /// How long it is valid.
    pub validity: Validity,
    /// The operator made it, as its name says.
    pub minted: bool,
    /// Its key is somewhere else: what it signs is copied.
    pub keyless: bool,
}

/// The Secret of a leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeafSecret {
    /// Its uid and its version when it was observed.
    pub observed: ObservedObject,
    /// What is in it, or what is wrong with it.
    pub content: Result<LeafCertificate, String>,
}

/// A leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeafCertificate {
    /// Its name: another one, also of the same content, has another.
    pub fingerprint: Fingerprint,
    /// How long it is valid.
    pub validity: Validity,
    /// The authority that signed it, if it is one of those beside it or an authority of the cluster.
    pub signed_by: Option<Fingerprint>,
    /// The authorities beside it, which members trust from their start on.
    pub trusted: Vec<Fingerprint>,
    /// Names that it should be valid for and is not.
    pub lacks: Vec<String>,
    /// The generation of trust that the Secret has: members wait for it before they start.
    pub trust: u32,
    /// Its common name, where members would refuse it as a peer's though it is, or admit it though it is not.
    pub misnamed: Option<String>,
}

impl Authority {
    /// From when on another one takes its place, though nobody orders it: two thirds of its life, and up to a hundredth of it more, 36 days of ten years,
    /// by its fingerprint. Authorities that were made at one moment are not all replaced at one.
    pub fn due(&self) -> Instant {
        let Span(life) = self.validity.not_after - self.validity.not_before;
        self.validity.renewal() + Span(self.fingerprint.number() % (life / 100).max(1))
    }
}

/// Which authority signs the leaves of a port.
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
    /// None is recorded, and this one is neither of this EtcdCluster nor of the data that it adopts: whoever put it there could sign for everybody.
    OfAnother(Fingerprint),
    /// None is recorded, and this one did not sign the leaves that exist, or Pods run whose leaves do not exist.
    NotThatOfTheLeaves(Fingerprint),
}

impl Snapshot {
    /// Which authority signs for a port. The record is an argument, because a plan in the making may know more than the observed one.
    pub fn signing<'a>(&self, certificates: &'a Certificates, record: &Record, ca: Ca) -> Signing<'a> {
        let recorded = record.authority_of(ca);
        let Some(secret) = certificates.authorities.get(&ca) else {
            let may_trust_another = !certificates.leaves.is_empty() || !self.pods.is_empty();
            return if recorded.is_some() || may_trust_another {
                Signing::Lost(AuthorityLoss::Missing(recorded.cloned()))
            } else {
                Signing::ToCreate
            };
        };
        if let Some(own) = recorded.and_then(|recorded| secret.with(recorded)) {
            return Signing::With(secret, own);
        }
        let found = match &secret.content {
            Ok(found) => found,
            Err(why) => return Signing::Lost(AuthorityLoss::Unreadable(why.clone())),
        };
        let other = |recorded: &Fingerprint| AuthorityLoss::Other {
            recorded: recorded.clone(),
            found: found.fingerprint.clone(),
        };
        match recorded {
            Some(recorded) => Signing::Lost(other(recorded)),
            None if !self.is_of_data(secret) => {
                Signing::Lost(AuthorityLoss::OfAnother(found.fingerprint.clone()))
            }
            None if self.signed_what_exists(certificates, ca, found) => Signing::With(secret, found),
            None => Signing::Lost(AuthorityLoss::NotThatOfTheLeaves(found.fingerprint.clone())),
        }
    }

    /// R19: whether an authority that is not recorded belongs to this EtcdCluster, or to the data that it adopts. Like a volume it names its incarnation.
    pub fn is_of_data(&self, secret: &AuthoritySecret) -> bool {
        let of_volumes = || self.volumes.values().any(|volume| volume.cluster_uid == secret.incarnation);
        secret.incarnation.as_ref().is_some_and(|own| *own == self.uid || of_volumes())
            || is_broken(Rule::R19OfData)
    }

    /// The Secrets of authorities that are not recorded and not of the data.
    pub fn authorities_of_others(&self, record: &Record) -> impl Iterator<Item = Ca> {
        let all = self.certificates.iter().flat_map(|own| &own.authorities);
        let is_of_others = |(ca, secret): &(&Ca, &AuthoritySecret)| {
            record.authority_of(**ca).is_none() && !self.is_of_data(secret)
        };
        all.filter(is_of_others).map(|(ca, _)| *ca)
    }

    /// Whether there is a leaf that members take. While its authority is lost they serve on with the leaves that there are.
    pub fn has_usable(&self, record: &Record, leaf: Leaf, now: Instant) -> bool {
        let Some(certificates) = &self.certificates else { return false };
        let Some(secret) = certificates.leaves.get(&leaf) else { return false };
        match self.signing(certificates, record, leaf.ca()) {
            Signing::With(_, authority) => secret.why_unusable_in(record, leaf, authority, now).is_none(),
            Signing::Lost(_) => secret.content.is_ok(),
            Signing::ToCreate => false,
        }
    }

    /// Whether an authority that is not recorded signed every leaf of its own, and Pods have leaves that show which one they trust.
    fn signed_what_exists(&self, certificates: &Certificates, ca: Ca, authority: &Authority) -> bool {
        let readable = || certificates.of_port(ca).map(|(_, leaf)| leaf);
        let is_shown = readable().next().is_some() || self.pods.is_empty();
        // In the middle of a rotation some leaves are of the one before it. Every bundle has both.
        let trust_all = |one: &Fingerprint| readable().all(|leaf| leaf.trusted.contains(one));
        let is_known = |leaf: &LeafCertificate| {
            let signer = leaf.signed_by.as_ref();
            signer == Some(&authority.fingerprint)
                || trust_all(&authority.fingerprint) && signer.is_some_and(trust_all)
        };
        is_shown && readable().all(is_known)
    }
}

impl Snapshot {
    /// Whether a member's Pod is not as the record wants it: of another revision, or started with other authorities. As long as the
    /// Secrets do not have those yet, a restart would change nothing.
    pub fn is_stale(&self, record: &Record, member: &MemberName) -> bool {
        let Some(pod) = self.pods.get(member) else { return false };
        let revision = record.target.as_ref().map(|target| &target.pod.revision);
        let mounted = self.certificates.as_ref().map_or(0, Certificates::trust);
        Some(&pod.revision) != revision
            || pod.trust < record.trust.min(mounted)
            || (pod.trust >= record.trust && self.read_other_authorities(record, member))
    }

    /// Whether a handshake shows that a member does not trust what its Secrets had when it started, as the agent saw them: somebody has
    /// changed them in between.
    fn read_other_authorities(&self, record: &Record, member: &MemberName) -> bool {
        let Some(rotation) = &record.rotation else { return false };
        let shown = self.etcd.handshakes.get(&(member.clone(), rotation.ca));
        shown.is_some_and(|shown| match rotation.stage {
            RotationStage::Trust | RotationStage::Sign => !shown.trusts.contains(&rotation.to),
            RotationStage::Drop => !shown.trusts_only(&rotation.bundle()),
        })
    }

    /// The order to replace an authority, unless it is spent.
    pub fn unspent_rotation(&self, record: &Record) -> Option<&RotateOrder> {
        let order = self.rotation_policy.order.as_ref();
        order.filter(|order| record.spent_rotation.as_ref() != Some(&order.text))
    }

    /// Until when clients have time to follow a rotation, once they can know, if they have any: no longer than copies last that nobody here can renew.
    /// Those that end meanwhile would end the service of all clients.
    pub fn clients_have_until(&self, rotation: &Rotation) -> Option<Instant> {
        let until = rotation.clients_have_until(&self.rotation_policy)?;
        let late = self.certificates.as_ref().and_then(|own| own.first_late_copy(&rotation.from));
        Some(late.map_or(until, |late| until.min(late)))
    }

    /// At the port of whom handshakes are looked at: of those whose authority is being replaced, once clients had their time. etcd logs
    /// each handshake that comes to nothing.
    pub fn handshakes_wanted(&self, now: Instant) -> Option<Ca> {
        let rotation = self.record.rotation.as_ref()?;
        let is_told = rotation.told.is_some() || !rotation.concerns_clients();
        let is_over = self.clients_have_until(rotation).is_none_or(|until| until <= now);
        (is_told && is_over).then_some(rotation.ca)
    }
}

impl Certificates {
    /// The name of an authority's Secret in messages: `Secret default/demo-ca`.
    pub fn authority_name(&self, ca: Ca) -> String {
        self.authority_names.get(&ca).cloned().unwrap_or_default()
    }

    /// The generation of trust that every leaf has.
    pub fn trust(&self) -> u32 {
        self.leaves.values().map(|leaf| leaf.content.as_ref().map_or(0, |leaf| leaf.trust)).min().unwrap_or(0)
    }

    /// The authority that the spec names, if it is this one and can be taken.
    pub fn given_as(&self, fingerprint: &Fingerprint, record: &Record, now: Instant) -> Option<&Authority> {
        let usable = self.given.as_ref()?.usable(record, now).ok()?;
        (usable.fingerprint == *fingerprint).then_some(usable)
    }

    /// The leaf that this authority, which is without its key, has signed somewhere else, if it can be copied now: that which is there, or else that which
    /// came with the authority. What the other ones are of does not matter.
    pub fn given_leaf(&self, leaf: Leaf, authority: &Authority, now: Instant) -> Option<&LeafCertificate> {
        self.original(leaf, authority, now).or_else(|| self.staged(leaf, authority, now))
    }

    fn original(&self, leaf: Leaf, authority: &Authority, now: Instant) -> Option<&LeafCertificate> {
        let given = self.given.as_ref().filter(|_| authority.keyless)?.leaf(leaf, now).ok()?;
        (given.signed_by.as_ref() == Some(&authority.fingerprint)).then_some(given)
    }

    fn staged(&self, leaf: Leaf, authority: &Authority, now: Instant) -> Option<&LeafCertificate> {
        let secret = self.authorities.get(&leaf.ca()).filter(|_| authority.keyless)?;
        let staged = secret.staged.get(&leaf)?;
        let is_valid = !staged.validity.has_ended(now) && !staged.validity.is_in_future(now);
        (is_valid && staged.signed_by.as_ref() == Some(&authority.fingerprint)).then_some(staged)
    }

    /// Whether this leaf exists and is to be replaced by another one of this authority: that which the authority is to sign, or which somebody
    /// else had it sign. What came with the authority never replaces one that can be used.
    pub fn is_due(&self, leaf: Leaf, authority: &Authority, now: Instant) -> bool {
        let Some(present) = self.leaves.get(&leaf) else { return false };
        if !authority.keyless {
            return present.is_due(authority, now);
        }
        let is_present = |given: &LeafCertificate| {
            present.content.as_ref().is_ok_and(|own| own.fingerprint == given.fingerprint)
        };
        let is_unusable = || present.why_unusable(authority, now).is_some();
        match self.original(leaf, authority, now) {
            Some(original) => !is_present(original) || is_unusable(),
            None => self.staged(leaf, authority, now).is_some() && is_unusable(),
        }
    }

    /// Whether this authority can have a leaf now: it signs it, or the leaf came with it.
    pub fn can_have(&self, leaf: Leaf, authority: &Authority, now: Instant) -> bool {
        if authority.keyless {
            self.given_leaf(leaf, authority, now).is_some()
        } else {
            !authority.validity.has_ended(now)
        }
    }

    /// The authority of clients in its Secret, if it is without its key.
    pub fn keyless(&self) -> Option<&Authority> {
        let own = self.authorities.get(&Ca::Clients)?.content.as_ref().ok()?;
        Some(own).filter(|own| own.keyless)
    }

    /// What the bundle of every leaf of a port has, the signer first, and nothing beside it: the record says so. One whose certificate is nowhere any
    /// more cannot be put anywhere; without the signer there is no bundle.
    pub fn to_trust<'a>(&self, record: &'a Record, ca: Ca) -> Vec<&'a Fingerprint> {
        let is_known =
            |one: &Fingerprint| record.certificates.contains_key(one) || self.is_beside_a_leaf(one);
        let bundle = record.bundle(ca);
        if bundle.first().is_some_and(|signer| is_known(signer)) {
            bundle.into_iter().filter(|one| is_known(one)).collect()
        } else {
            Vec::new()
        }
    }

    /// The authorities that leaves of a port have beside them, and of which the record knows nothing.
    pub fn strays(&self, record: &Record, ca: Ca) -> BTreeSet<Fingerprint> {
        let known = record.bundle(ca);
        let shown = self.of_port(ca).flat_map(|(_, leaf)| &leaf.trusted);
        shown.filter(|one| !known.is_empty() && !known.contains(one)).cloned().collect()
    }

    /// The authorities of which the record knows nothing and that have signed those of the leaves of a port that are left.
    pub fn stray_signers(
        &self,
        record: &Record,
        ca: Ca,
        is_left: impl Fn(Leaf) -> bool,
    ) -> BTreeSet<Fingerprint> {
        let known = record.bundle(ca);
        let left = self.of_port(ca).filter(|(leaf, _)| is_left(*leaf));
        let signers = left.filter_map(|(_, leaf)| leaf.signed_by.as_ref());
        signers.filter(|one| !known.is_empty() && !known.contains(one)).cloned().collect()
    }

    /// The leaves of a port that can be read.
    fn of_port(&self, ca: Ca) -> impl Iterator<Item = (Leaf, &LeafCertificate)> {
        let of_port = self.leaves.iter().filter(move |(leaf, _)| leaf.ca() == ca);
        of_port.filter_map(|(leaf, secret)| Some((*leaf, secret.content.as_ref().ok()?)))
    }

    fn is_beside_a_leaf(&self, one: &Fingerprint) -> bool {
        let mut leaves = self.leaves.values().filter_map(|leaf| leaf.content.as_ref().ok());
        leaves.any(|leaf| leaf.trusted.contains(one))
    }

    /// When the first copy of what this authority has signed somewhere else is late to be renewed: from then on it may end before another one is there.
    fn first_late_copy(&self, of: &Fingerprint) -> Option<Instant> {
        self.keyless().filter(|own| own.fingerprint == *of)?;
        let leaves = self.leaves.iter().filter(|(leaf, _)| leaf.ca() == Ca::Clients);
        leaves.filter_map(|(_, secret)| Some(secret.content.as_ref().ok()?.validity.overdue())).min()
    }

    /// Whether every leaf exists, so that Pods can mount them.
    pub fn are_complete(&self, record: &Record) -> bool {
        record.leaves().all(|leaf| self.leaves.contains_key(&leaf))
    }

    /// When the first of them ends.
    pub fn first_end(&self) -> Option<Instant> {
        let authorities = self.authorities.values();
        let authority = authorities.filter_map(|secret| Some(secret.content.as_ref().ok()?.validity));
        let leaves = self.leaves.values().filter_map(|leaf| Some(leaf.content.as_ref().ok()?.validity));
        authority.chain(leaves).map(|validity| validity.not_after).min()
    }
}

impl GivenAuthority {
    /// The authority, if it can be taken now, or why not. Who signs for peers signs for nobody else.
    pub fn usable(&self, record: &Record, now: Instant) -> Result<&Authority, String> {
        let authority = self.content.as_ref().map_err(Clone::clone)?;
        let Validity { not_before, not_after } = authority.validity;
        if record.peer_authority.as_ref() == Some(&authority.fingerprint) {
            return Err(
                "it is the authority of peers: whoever it signs for could write the log of the members"
                    .to_owned(),
            );
        }
        if authority.minted && authority.keyless {
            return Err(
                "it is one that an operator made, whose key is here: nobody else signs with it".to_owned()
            );
        }
        if authority.validity.is_in_future(now) {
            return Err("it is not valid yet".to_owned());
        }
        // TLSReady would ask for another one at once. Without its key it is renewed with its leaves, whenever whoever made them does so.
        let is_late = !authority.keyless && (not_after - now).0 < (not_after - not_before).0 / 10;
        if authority.validity.has_ended(now) || is_late {
            return Err("it has ended, or is in the last tenth of its life".to_owned());
        }
        if authority.keyless {
            let mut needed = record.leaves().filter(|leaf| leaf.ca() == Ca::Clients);
            needed.try_for_each(|leaf| {
                let is_of = self.leaf(leaf, now)?.signed_by.as_ref() == Some(&authority.fingerprint);
                if is_of {
                    Ok(())
                } else {
                    Err(format!(
                        "another authority has signed the {leaf} certificate than that of the server"
                    ))
                }
            })?;
        }
        Ok(authority)
    }

    /// The leaf that came with it, if it can be taken now, or why not.
    pub fn leaf(&self, leaf: Leaf, now: Instant) -> Result<&LeafCertificate, String> {
        let given = self.leaves.get(&leaf).ok_or_else(|| format!("no {leaf} certificate comes with it"))?;
        let given = given.as_ref().map_err(Clone::clone)?;
        if given.validity.has_ended(now) || given.validity.is_in_future(now) {
            return Err(format!("the {leaf} certificate has ended, or is not valid yet"));
        }
        Ok(given)
    }

    /// What the issuer says: that is why it was not issued, where it cannot be taken.
    pub fn see_issuer(&mut self, says: &str) {
        self.issuer_says = Some(says.to_owned());
        if let Err(why) = &mut self.content {
            says.clone_into(why);
        }
        for missing in self.leaves.values_mut().filter_map(|leaf| leaf.as_mut().err()) {
            says.clone_into(missing);
        }
    }

    /// Whether it is this authority, usable or not.
    pub fn is(&self, fingerprint: &Fingerprint) -> bool {
        self.content.as_ref().is_ok_and(|authority| authority.fingerprint == *fingerprint)
    }
}

impl AuthoritySecret {
    /// Whether this one has the place of the signer.
    pub fn is_first(&self, fingerprint: &Fingerprint) -> bool {
        self.content.as_ref().is_ok_and(|first| first.fingerprint == *fingerprint)
    }

    /// The authority of this name in it, if it can sign.
    pub fn with(&self, fingerprint: &Fingerprint) -> Option<&Authority> {
        let all = self.content.as_ref().ok().into_iter().chain(&self.next);
        all.into_iter().find(|authority| authority.fingerprint == *fingerprint)
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

    /// The same during a rotation: as long as the new authority signs beside it, one of the earlier authority is usable, too.
    pub fn why_unusable_in(
        &self,
        record: &Record,
        leaf: Leaf,
        authority: &Authority,
        now: Instant,
    ) -> Option<String> {
        let signer = self.content.as_ref().ok().and_then(|own| own.signed_by.as_ref());
        let rotation = record.rotation.as_ref().filter(|rotation| rotation.ca == leaf.ca());
        let is_earlier =
            |rotation: &&Rotation| rotation.stage == RotationStage::Sign && signer == Some(&rotation.from);
        match rotation.filter(is_earlier) {
            Some(rotation) => {
                self.why_unusable(&Authority { fingerprint: rotation.from.clone(), ..authority.clone() }, now)
            }
            None => self.why_unusable(authority, now),
        }
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
            return Some(format!(
                "its common name {name:?} is not its own: members know peers by it, and etcd's auth users"
            ));
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
            Self::OfAnother(found) => write!(
                f,
                "it has an authority that is neither of this EtcdCluster nor of its volumes: the fingerprint of its certificate begins with {found}"
            ),
            Self::NotThatOfTheLeaves(found) => write!(
                f,
                "its authority did not sign the certificates that the members use: the fingerprint of its certificate \
                 begins with {found}"
            ),
        }
    }
}
