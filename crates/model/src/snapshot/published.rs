//! The Secrets that clients follow a rotation of their authority by.

use super::{Signing, Snapshot};
use crate::certificate::{Ca, Fingerprint};
use crate::mutants::{Rule, is_broken};
use crate::rotation::{Rotation, RotationStage};

/// A Secret that has what a client trusts, and what it presents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// In messages: `Secret default/demo-connection`.
    pub secret: String,
    /// Who reads it.
    pub reader: Reader,
    /// The authorities in its `ca.crt`, in this order; none where it is not there though it has to be, or cannot be read.
    pub trusted: Vec<Fingerprint>,
    /// What has signed the certificate in it, if that is one of those.
    pub signed_by: Option<Fingerprint>,
}

/// Who reads a published Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// Whoever has the client certificate of the cluster: it is that, or a copy.
    Client,
    /// An EtcdUser. The operator signs for it.
    User,
    /// Kamaji, which signs for its tenants by it, with the first authority. The operator signs for it.
    Kamaji,
}

impl Published {
    /// Whether it has what clients are to have in the stage of a rotation.
    fn has(&self, rotation: &Rotation) -> bool {
        match rotation.stage {
            RotationStage::Trust => self.trusted.contains(&rotation.to),
            RotationStage::Sign | RotationStage::Drop => {
                self.trusted.first() == Some(&rotation.to) && self.signed_by.as_ref() == Some(&rotation.to)
            }
        }
    }
}

impl Snapshot {
    /// The first published Secret that lacks what the stage of a rotation is about: whoever reads it cannot follow yet. Where nothing can be signed here,
    /// as the authority of this stage is lost or has its key somewhere else, those that the operator signs for are not waited for.
    pub fn untold(&self, rotation: &Rotation) -> Option<&Published> {
        let is_waited_for = |published: &&Published| match published.reader {
            Reader::Client => true,
            Reader::User | Reader::Kamaji => self.signs_for_clients(),
        };
        let of_clients = self.published.iter().filter(|_| rotation.ca == Ca::Clients);
        of_clients
            .filter(is_waited_for)
            .find(|published| !published.has(rotation) && !is_broken(Rule::R19Told))
    }

    fn signs_for_clients(&self) -> bool {
        let signing = self.certificates.as_ref().map(|own| self.signing(own, &self.record, Ca::Clients));
        matches!(signing, Some(Signing::With(_, authority)) if !authority.keyless)
    }
}
