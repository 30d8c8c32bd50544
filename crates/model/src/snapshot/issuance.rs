//! What cert-manager is asked for, and what there is of it.

use std::collections::BTreeMap;
use std::fmt;

use super::Snapshot;
use crate::certificate::{Fingerprint, Leaf};
use crate::object::ObservedObject;
use crate::record::Record;
use crate::time::Instant;

/// What the accepted spec asks of cert-manager, and what there is of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Issuance {
    /// By leaf: what is asked for, and what may be left of it.
    pub leaves: BTreeMap<Leaf, IssuedLeaf>,
    /// One of them is not issued, or not as it should be, and that may end without a word to the operator.
    pub is_pending: bool,
}

/// A leaf that cert-manager issues, or has issued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuedLeaf {
    /// What the accepted spec asks for; `None`: nothing rests on what there is.
    pub asked: Option<Asked>,
    /// The Certificate.
    pub certificate: SeenCertificate,
    /// The Secret that cert-manager writes for it, if it exists.
    pub secret: Option<IssuedSecret>,
    /// Nothing of it is created, put right or issued anew before: it was of no use the last time.
    pub not_before: Option<Instant>,
}

/// The name of what is asked for: of the content of a Certificate, by its hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked(String);

/// A Certificate as it was observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SeenCertificate {
    /// It could not be read.
    Unread,
    /// There is none.
    Absent,
    /// It is not this EtcdCluster's.
    Foreign,
    /// It is this EtcdCluster's.
    Own {
        /// Its uid and its version when it was observed.
        observed: ObservedObject,
        /// It is as the accepted spec wants it.
        matches: bool,
    },
}

/// A Secret that cert-manager writes, or would write over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuedSecret {
    /// Its uid and its version when it was observed.
    pub observed: ObservedObject,
    /// It says that cert-manager wrote it for the Certificate of this leaf. Else it is somebody's, and would be written over.
    pub is_issued: bool,
}

impl Asked {
    /// From the hash of what is asked for.
    pub fn new(hash: impl Into<String>) -> Self {
        Self(hash.into())
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl IssuedLeaf {
    /// Whether cert-manager would write over a Secret of somebody, if it were asked.
    pub fn would_take_a_secret(&self) -> bool {
        self.secret.as_ref().is_some_and(|secret| !secret.is_issued)
    }
}

impl Snapshot {
    /// Whether nothing of this cluster has ever started, so that nobody trusts an authority yet and none has to be learned.
    pub fn has_never_started(&self, record: &Record) -> bool {
        self.pods.is_empty() && self.never_served(record)
    }

    /// Whether an earlier authority of the issuer has issued this leaf than that of the newest one: cert-manager issues it anew only
    /// when it is due.
    pub fn is_issued_by_earlier(&self, leaf: Leaf) -> bool {
        let signer = |of: Leaf| -> Option<(Instant, &Fingerprint)> {
            let given = self.certificates.as_ref()?.given.as_ref()?;
            let issued = given.leaves.get(&of)?.as_ref().ok()?;
            Some((issued.validity.not_before, issued.signed_by.as_ref()?))
        };
        let asked = self.issuance.leaves.iter().filter(|(_, one)| one.asked.is_some());
        let newest = asked.filter_map(|(of, _)| signer(*of)).max_by_key(|(issued, _)| *issued);
        signer(leaf).zip(newest).is_some_and(|((_, own), (_, newest))| own != newest)
    }
}
