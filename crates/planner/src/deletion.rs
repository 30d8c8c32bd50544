//! Deletion of the cluster: D1 stop the Pods, D2 volumes by the retention policy, D3 let the object go. Services,
//! budget and Secrets go with it by their owner reference.

use quorate_model::snapshot::Volume;
use quorate_model::target::Retention;
use quorate_model::{Effect, KubeEffect, MemberName, Step};

use crate::draft::{DONE, Draft, Flow, ON, for_all};

pub(crate) fn finalize(draft: &mut Draft<'_>) -> Flow {
    if !draft.seen.deleting {
        return ON;
    }
    if !draft.seen.finalizer {
        return DONE;
    }
    if stop_all_pods(draft) && clear_volumes(draft) {
        draft.propose(Effect::kube(Step::D3, KubeEffect::RemoveFinalizer));
    }
    DONE
}

fn stop_all_pods(draft: &mut Draft<'_>) -> bool {
    let pods: Vec<MemberName> = draft.seen.pods.keys().cloned().collect();
    for_all(&pods, |member| draft.clear_pod(Step::D1, member))
}

/// A cluster that never had an id never served anybody: there is nothing to retain. A stamp on any of its volumes says that it
/// did, also where status does not know it any more.
fn clear_volumes(draft: &mut Draft<'_>) -> bool {
    let retain = draft.seen.desired.storage.when_deleted == Retention::Retain;
    let served = draft.record.is_bootstrapped() || draft.seen.has_identity();
    let goes = |volume: &Volume| !(retain && (served || volume.cluster_id.is_some()));
    let volumes = draft.seen.volumes.iter().filter(|(_, volume)| goes(volume));
    let volumes: Vec<MemberName> = volumes.map(|(name, _)| name.clone()).collect();
    for_all(&volumes, |member| draft.clear_volume(Step::D2, member))
}
