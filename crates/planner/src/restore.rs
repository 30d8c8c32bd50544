//! What a bootstrap begins with: nothing, or the data of one snapshot. The snapshot is recorded at B1 and stays the same from attempt to
//! attempt. What the spec and the snapshot do not agree on is refused before anything starts.

use quorate_model::effect::Boot;
use quorate_model::restore::{Restore, RestoreCause, RestoreFailure};
use quorate_model::snapshot::Pod;
use quorate_model::target::Medium;
use quorate_model::{Record, Target, Version, Waiting};

use crate::draft::Draft;
use crate::safety;

/// The first 3.5 whose `etcdutl` raises revisions.
const RAISES_REVISIONS: Version = Version::new(3, 5, 10);

/// What a volume must have beside twice the size of the snapshot: the log of a new member and what is written meanwhile.
const SPARE_BYTES: u64 = 256 << 20;

/// What the next attempt begins with; `None`: with nothing. An earlier attempt has recorded it.
pub(crate) fn to_begin_with(draft: &Draft<'_>) -> Result<Option<Restore>, RestoreFailure> {
    let restore = match (&draft.record.restore, &draft.seen.restore) {
        (Some(recorded), _) => recorded.clone(),
        (None, Some(resolved)) => resolved.clone()?,
        (None, None) => return Ok(None),
    };
    match unfit(&restore, &draft.seen.desired) {
        None => Ok(Some(restore)),
        Some(why) => Err(RestoreFailure::new(RestoreCause::Refused, why)),
    }
}

/// How a member of the bootstrap set boots.
pub(crate) fn boot(record: &Record) -> Boot {
    match &record.restore {
        None => Boot::New,
        Some(_) if safety::must_have_data(record) => Boot::Resume,
        Some(_) => Boot::Restore,
    }
}

/// Whether a Pod has not started yet and must not restore any more. The next one requires the data.
pub(crate) fn comes_too_late(record: &Record, pod: &Pod) -> bool {
    pod.gated && pod.restores && !pod.terminating && safety::must_have_data(record)
}

/// A member that answers and does not have what was restored (B5). Every member restores the same object, with its hash verified, so
/// this is never the case. If it is, its data are of something else.
pub(crate) fn contradiction(draft: &Draft<'_>) -> Option<Waiting> {
    let least = draft.record.restore.as_ref()?.least_revision();
    let mut members = draft.record.members.keys();
    members.find_map(|member| {
        let revision = draft.status_of(member)?.revision;
        let why = || {
            let message = format!(
                "it reports revision {revision}, and a member that was restored has {least} at least. The cluster is not used. \
                 Delete the EtcdCluster, and restore into a new one"
            );
            Waiting::RestoreFailed(member.clone(), RestoreFailure::new(RestoreCause::Failed, message))
        };
        (revision < least).then(why)
    })
}

/// What of the spec does not go with the snapshot, and what to do.
fn unfit(restore: &Restore, desired: &Target) -> Option<String> {
    if desired.storage.medium == Medium::Memory {
        return Some("a snapshot is not restored into memory. Use spec.storageSpec.medium \"\"".to_owned());
    }
    if let Some(version) = restore.version.filter(|version| desired.version.line() < version.line()) {
        return Some(format!(
            "the snapshot is of etcd {version}, and an older minor version does not start on its data. Set spec.version to {} or \
             newer",
            version.line()
        ));
    }
    if restore.bump > 0 && desired.version < RAISES_REVISIONS {
        return Some(format!(
            "etcd {} cannot raise revisions. Set spec.version to {RAISES_REVISIONS} or newer",
            desired.version
        ));
    }
    let bytes = restore.bytes?;
    if let Some(quota) = desired.pod.quota.filter(|quota| *quota < bytes) {
        return Some(format!(
            "the snapshot has {bytes} bytes, and the quota of the database is {quota}. Raise spec.etcd.quotaBackendBytes, or \
             spec.storageSpec.volumeSizeRequest if that is absent"
        ));
    }
    let needed = bytes.saturating_mul(2).saturating_add(SPARE_BYTES);
    (desired.storage.bytes < needed).then(|| {
        format!(
            "the snapshot has {bytes} bytes, so each volume needs {needed}. Raise spec.storageSpec.volumeSizeRequest, which is {}",
            desired.storage.bytes
        )
    })
}
