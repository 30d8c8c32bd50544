//! Deletion of the cluster: D0 take the backup that the spec wants before that; D1 delete the Pods; D2 delete volumes by the retention policy; D3 remove the finalizer.
//! Kubernetes deletes Services, PodDisruptionBudget, NetworkPolicy and leaf certificates by their owner reference. The certificate authority
//! has none: it stays with the volumes, or is deleted after them (D2).

use quorate_model::snapshot::Volume;
use quorate_model::{Ca, DeletedObject, KubeEffect, MemberName, Step, Waiting};

use crate::draft::{DONE, Draft, Flow, ON, Progress, for_all};
use crate::{backup, bootstrap, certificates, stop};

pub(crate) fn finalize(draft: &mut Draft<'_>) -> Flow {
    if let Some(why) = &draft.seen.data_store {
        draft.wait(Waiting::DataStoreInUse(why.clone()));
    }
    if !draft.seen.deleting {
        return ON;
    }
    if !draft.seen.finalizer {
        return DONE;
    }
    // After the Pods are gone, nothing would show it. A record that is in doubt is not written, and then all data count as served.
    if draft.seen.record_doubt.is_none() {
        bootstrap::record_leader(draft);
    }
    if backup::before_the_end(draft).is_done()
        && stop::every_pod(draft, Step::D1).is_done()
        && delete_volumes(draft).is_done()
        && for_all(&Ca::ALL, |ca| keep_or_delete_authority(draft, *ca)).is_done()
    {
        draft.write(Step::D3, KubeEffect::RemoveFinalizer);
    }
    DONE
}

/// D2. An attempt that never had a cluster id never served a client, so there is nothing to retain. An identity annotation on
/// any of its volumes proves that it did serve. Where no attempt is recorded, status was lost, and the volumes may have data.
fn delete_volumes(draft: &mut Draft<'_>) -> Progress {
    let retain = draft.seen.keeps_data_when_deleted();
    let served = !draft.seen.never_served(&draft.record);
    let has_data = |volume: &Volume| volume.cluster_id.is_some() || volume.quarantine.is_some();
    let goes = |volume: &Volume| !(retain && (served || has_data(volume)));
    let volumes = draft.seen.volumes.iter().filter(|(_, volume)| goes(volume));
    let volumes: Vec<MemberName> = volumes.map(|(name, _)| name.clone()).collect();
    for_all(&volumes, |member| draft.delete_volume(Step::D2, member))
}

/// D2. An authority is kept with data, and deleted without.
fn keep_or_delete_authority(draft: &mut Draft<'_>, ca: Ca) -> Progress {
    let seen = draft.seen.certificates.as_ref().and_then(|seen| seen.authorities.get(&ca));
    let Some(secret) = seen.filter(|secret| secret.incarnation.as_ref() == Some(&draft.seen.uid)) else {
        return Progress::Done;
    };
    if draft.seen.volumes.is_empty() {
        draft.delete(Step::D2, DeletedObject::Authority(ca), &secret.observed);
        return Progress::Pending;
    }
    certificates::keep(draft, ca, secret);
    if secret.owned { Progress::Pending } else { Progress::Done }
}
