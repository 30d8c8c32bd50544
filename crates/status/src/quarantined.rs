//! The quarantined volumes in status.

use quorate_api::status::QuarantinedVolume;
use quorate_model::Snapshot;
use quorate_model::target::Retention;

use super::time;

/// Every quarantined volume, by name.
pub(super) fn list(seen: &Snapshot) -> Vec<QuarantinedVolume> {
    let retained = seen.target().storage.when_scaled == Retention::Retain;
    let volumes = seen.volumes.iter().filter_map(|(name, volume)| {
        let quarantine = volume.quarantine.as_ref()?;
        // The volume of an earlier EtcdCluster is not ours to delete.
        let is_own = volume.cluster_uid.as_ref() == Some(&seen.uid);
        let ends = quarantine.ends(seen.keep_volumes).filter(|_| is_own && !retained);
        Some(QuarantinedVolume {
            name: name.as_str().to_owned(),
            since: quarantine.since.map(time),
            kept_until: ends.map(time),
            reason: quarantine.why.clone(),
        })
    });
    volumes.collect()
}
