//! What a certificate or an authority waits for.

use strum::{IntoStaticStr, VariantNames};

use crate::certificate::Leaf;
use crate::effect::Unsafe;
use crate::rotation::Rotation;
use crate::snapshot::AuthorityLoss;
use crate::time::Instant;

/// What is waited for about a certificate authority.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
pub enum AuthorityWait {
    /// It is lost.
    Lost {
        /// Its Secret: `Secret default/demo-ca`.
        secret: String,
        /// How.
        loss: AuthorityLoss,
    },
    /// The one in this Secret has ended, so it signs nothing.
    Ended(String),
    /// The one that the spec names cannot be taken.
    Refused(NotTaken),
    /// It is being replaced, and this holds up its next step.
    Rotating(Rotation, Unsafe),
    /// It is being replaced, and clients have time until then.
    ClientsHaveTime(Rotation, Instant),
    /// It is not replaced; why.
    NotRotated(NotRotated),
}

/// Why the authority that the spec names for a new cluster, or a certificate of it, cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
pub enum NotTaken {
    /// The spec does not say any more where certificates come from.
    NotNamed,
    /// What is in this Secret, or the issuer, has a fault.
    Unusable {
        /// Its name: `Secret default/my-ca`.
        secret: String,
        /// The fault.
        why: String,
    },
    /// What is in this Secret is of another authority than that which members trust.
    OfAnother(String),
}

/// Why the authority of clients is not replaced.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
pub enum NotRotated {
    /// The one that the spec names cannot be taken.
    Unusable {
        /// Its Secret.
        secret: String,
        /// The fault.
        why: String,
    },
    /// It is a copy of the one in this Secret, which the order does not replace.
    CopyOf(String),
    /// A safety rule forbids it.
    Unsafe(Unsafe),
}

/// Why a certificate could not be signed now, or copied.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
pub enum NotSigned {
    /// The cluster has no TLS.
    NoTls,
    /// The authority in this Secret has ended.
    Ended(String),
    /// This Secret does not exist yet.
    NotCreated(String),
    /// The authority in this Secret is lost.
    Lost {
        /// Its name.
        secret: String,
        /// How.
        loss: AuthorityLoss,
    },
    /// The key of the authority is somewhere else, and the spec does not say any more where certificates come from.
    NotNamed,
    /// What comes with the authority that the spec names has a fault.
    NotGiven(String),
    /// What comes with this authority is of another one than that which members trust.
    OfAnother {
        /// The certificate.
        leaf: Leaf,
        /// The Secret of the authority.
        secret: String,
    },
}
