//! The rotation of a certificate authority in status.

use quorate_api::status::RotationStatus;
use quorate_model::rotation::{Rotation, RotationStage};
use quorate_model::{Ca, Fingerprint, Instant};

use super::micro;

/// `None` if a newer operator wrote it: the format of the status says so, too.
pub(super) fn read(status: &RotationStatus) -> Option<Rotation> {
    let stages = [RotationStage::Trust, RotationStage::Sign, RotationStage::Drop];
    Some(Rotation {
        ca: Ca::ALL.into_iter().find(|ca| ca.as_str() == status.authority)?,
        from: Fingerprint::new(&*status.from),
        to: Fingerprint::new(&*status.to),
        given: status.given,
        stage: stages.into_iter().find(|stage| stage.as_str() == status.stage)?,
        since: Instant(status.since.0.as_millisecond()),
        told: status.told.as_ref().map(|told| Instant(told.0.as_millisecond())),
    })
}

pub(super) fn write(rotation: &Rotation) -> RotationStatus {
    let Rotation { ca, from, to, given, stage, since, told } = rotation;
    RotationStatus {
        authority: ca.as_str().to_owned(),
        from: from.as_str().to_owned(),
        to: to.as_str().to_owned(),
        given: *given,
        stage: stage.as_str().to_owned(),
        since: micro(*since),
        told: told.map(micro),
    }
}
