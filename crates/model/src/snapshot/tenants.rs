//! What tenants of Kamaji follow a rotation of the authority of clients by.

use super::{Signing, Snapshot};
use crate::certificate::{Ca, Fingerprint};
use crate::rotation::{Rotation, RotationStage};
use crate::time::Instant;

/// The Secret that a DataStore of Kamaji refers to: Kamaji signs for its tenants by it, and they trust what it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantsSecret {
    /// The authorities in its `ca.crt`, in this order: Kamaji signs with the first.
    pub trusted: Vec<Fingerprint>,
    /// What has signed the credential of Kamaji in it, if that is one of those.
    pub signed_by: Option<Fingerprint>,
    /// Since when it has both, as the operator recorded it there.
    pub since: Option<Instant>,
}

impl TenantsSecret {
    /// Whether it has what clients are to have in the stage of a rotation.
    fn has(&self, rotation: &Rotation) -> bool {
        let has_new = match rotation.stage {
            RotationStage::Trust => self.trusted.contains(&rotation.to),
            RotationStage::Sign | RotationStage::Drop => {
                self.trusted.first() == Some(&rotation.to) && self.signed_by.as_ref() == Some(&rotation.to)
            }
        };
        has_new && self.since.is_some()
    }
}

impl Snapshot {
    /// Whether tenants of Kamaji, if there may be any, can have followed a rotation: what they follow it by has what this stage is about. Where the earlier
    /// authority is lost nothing can be signed for them before the new one signs, so that is not waited for.
    pub fn tenants_are_told(&self, rotation: &Rotation) -> bool {
        let has = || self.tenants_secret.as_ref().is_some_and(|secret| secret.has(rotation));
        let cannot = || rotation.stage == RotationStage::Trust && self.has_lost_that_of_clients();
        rotation.ca != Ca::Clients || !self.may_have_data_store || has() || cannot()
    }

    fn has_lost_that_of_clients(&self) -> bool {
        let lost = |own| matches!(self.signing(own, &self.record, Ca::Clients), Signing::Lost(_));
        self.certificates.as_ref().is_some_and(lost)
    }

    /// Since when tenants of Kamaji, if there may be any, can follow a rotation.
    pub(super) fn tenants_were_told(&self, rotation: &Rotation) -> Option<Instant> {
        let secret = self.tenants_secret.as_ref().filter(|_| self.may_have_data_store)?;
        secret.since.filter(|_| secret.has(rotation))
    }
}
