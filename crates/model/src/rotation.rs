//! The rotation of a certificate authority: C1 to C7. A member reads the authorities that it trusts once, when etcd starts, so a new one takes
//! the place of another in three stages with a rollout in the first and in the last.

use std::collections::BTreeSet;
use std::fmt;

use crate::certificate::{Ca, Fingerprint};
use crate::time::{Instant, Span};

/// A rotation that is under way. Recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// The authority of this port is replaced.
    pub ca: Ca,
    /// The one that has signed so far.
    pub from: Fingerprint,
    /// The one that takes its place.
    pub to: Fingerprint,
    /// That one is a copy of one in a Secret that the spec names.
    pub given: bool,
    /// How far it is.
    pub stage: RotationStage,
    /// Since when it is in this stage.
    pub since: Instant,
    /// Since when every published Secret has what this stage is about: the time of clients counts from then.
    pub told: Option<Instant>,
}

/// How far a rotation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RotationStage {
    /// C2, C3: every member and every client learns to trust the new authority beside the present one, which signs.
    Trust,
    /// C4, C5: the new authority signs, and everybody presents what it signed. Both are trusted.
    Sign,
    /// C6: every member forgets the earlier one.
    Drop,
}

/// The order to replace an authority: the annotation `operator.etcd.io/rotate-ca`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RotateOrder {
    /// Which one.
    pub ca: Ca,
    /// The text of the annotation. One that was followed or refused is spent, also when it is given again.
    pub text: String,
}

/// What people say about the rotation of an authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RotationPolicy {
    /// The order, if the object has one.
    pub order: Option<RotateOrder>,
    /// How long clients have to trust a new authority, and then to present what it signed.
    pub client_grace: Span,
    /// The fingerprint of the authority that all clients trust, as a person says, or its beginning.
    pub clients_trust: Option<String>,
    /// The fingerprint of the authority that signed what all clients present, as a person says, or its beginning.
    pub clients_present: Option<String>,
}

/// What a TLS handshake at a port of a member shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Handshake {
    /// The authorities whose leaves it admits, of those that are known.
    pub trusts: BTreeSet<Fingerprint>,
    /// The authority that signed the leaf that it presents, if it is known.
    pub serves: Option<Fingerprint>,
    /// How many authorities it names.
    pub named: usize,
    /// How many of those no Secret has.
    pub unknown: usize,
}

/// A stage that lasts this much longer than clients had time waits for something that does not come by itself.
const HELD_UP: Span = Span::seconds(86_400);

/// The time of clients is nearly over in its last day.
const LAST: Span = Span::seconds(86_400);

/// How much of a fingerprint names it: what messages show.
const SHOWN: usize = 16;

impl RotationPolicy {
    /// Unless the spec says how long: a week, so that an API server that reads its authorities once is restarted meanwhile.
    pub const CLIENT_GRACE: Span = Span::seconds(7 * 86_400);

    /// Whether the time of clients, which lasts until then, is nearly over: its last day, or the last half of one that is shorter than two.
    pub fn is_nearly_over(&self, until: Instant, now: Instant) -> bool {
        until - now <= Span(LAST.0.min(self.client_grace.0 / 2))
    }
}

impl Default for RotationPolicy {
    fn default() -> Self {
        Self { order: None, client_grace: Self::CLIENT_GRACE, clients_trust: None, clients_present: None }
    }
}

impl Rotation {
    /// The authority that signs in this stage.
    pub fn signer(&self) -> &Fingerprint {
        match self.stage {
            RotationStage::Trust => &self.from,
            RotationStage::Sign | RotationStage::Drop => &self.to,
        }
    }

    /// What every bundle of the port has in this stage, the signer first, and nothing beside it.
    pub fn bundle(&self) -> Vec<&Fingerprint> {
        match self.stage {
            RotationStage::Trust => vec![&self.from, &self.to],
            RotationStage::Sign => vec![&self.to, &self.from],
            RotationStage::Drop => vec![&self.to],
        }
    }

    /// Whether this text, of an annotation, names the new authority.
    pub fn is_named_by(&self, text: Option<&str>) -> bool {
        text.is_some_and(|text| text.len() >= SHOWN && self.to.as_str().starts_with(text))
    }

    /// Whether clients have to follow this stage.
    pub fn concerns_clients(&self) -> bool {
        self.ca == Ca::Clients && self.stage != RotationStage::Drop
    }

    /// Until when clients have time in this stage, once they can know, unless a person says that all have followed.
    pub fn clients_have_until(&self, policy: &RotationPolicy) -> Option<Instant> {
        let said = match self.stage {
            RotationStage::Trust => policy.clients_trust.as_deref(),
            RotationStage::Sign => policy.clients_present.as_deref(),
            RotationStage::Drop => return None,
        };
        let told = self.told.filter(|_| self.concerns_clients() && !self.is_named_by(said))?;
        Some(told + policy.client_grace)
    }

    /// From when on this stage is held up: a day after the time that clients have in it, whether a person cuts that short or not.
    pub fn held_up_from(&self, policy: &RotationPolicy) -> Instant {
        let grace = if self.concerns_clients() { policy.client_grace } else { Span(0) };
        self.told.unwrap_or(self.since) + grace + HELD_UP
    }

    /// The next stage, from now on.
    #[must_use]
    pub fn next(self, stage: RotationStage, now: Instant) -> Self {
        Self { stage, since: now, told: None, ..self }
    }
}

impl Handshake {
    /// Whether it names these authorities and nothing else. Where several have one name, it does not show which of them is meant, only how many.
    pub fn trusts_only(&self, bundle: &[&Fingerprint]) -> bool {
        let is_one_of = |one: &Fingerprint| bundle.contains(&one);
        self.unknown == 0 && self.named == bundle.len() && self.trusts.iter().all(is_one_of)
    }
}

impl RotationStage {
    /// In status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Trust => "Trust",
            Self::Sign => "Sign",
            Self::Drop => "Drop",
        }
    }
}

impl fmt::Display for RotationStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handshake_shows_whether_more_is_trusted_than_a_bundle_has_also_where_nobody_knows_it() {
        let [a, b] = ["a", "b"].map(Fingerprint::new);
        let shown = |trusts: &[&Fingerprint], named, unknown| Handshake {
            trusts: trusts.iter().copied().cloned().collect(),
            serves: None,
            named,
            unknown,
        };
        assert!(shown(&[&a], 1, 0).trusts_only(&[&a]));
        assert!(!shown(&[&a, &b], 2, 0).trusts_only(&[&a]));
        assert!(!shown(&[&a], 2, 1).trusts_only(&[&a]));
        assert!(!shown(&[], 1, 1).trusts_only(&[&a]));
        // Two have one name, and it names one of them.
        assert!(shown(&[], 1, 0).trusts_only(&[&a]));
    }
}
