//! Deletion of the cluster: D1 delete the Pods; D2 delete volumes by the retention policy; D3 remove the finalizer.
//! Kubernetes deletes Services, PodDisruptionBudget and Secrets by their owner reference.

use quorate_model::snapshot::Volume;
use quorate_model::target::Retention;
use quorate_model::{Effect, KubeEffect, MemberName, Step};

use crate::draft::{DONE, Draft, Flow, ON, Progress, for_all};

pub(crate) fn finalize(draft: &mut Draft<'_>) -> Flow {
    if !draft.seen.deleting {
        return ON;
    }
    if !draft.seen.finalizer {
        return DONE;
    }
    if delete_pods(draft).is_done() && delete_volumes(draft).is_done() {
        draft.propose(Effect::kube(Step::D3, KubeEffect::RemoveFinalizer));
    }
    DONE
}

/// D1.
fn delete_pods(draft: &mut Draft<'_>) -> Progress {
    let pods: Vec<MemberName> = draft.seen.pods.keys().cloned().collect();
    for_all(&pods, |member| draft.delete_pod(Step::D1, member))
}

/// D2. A cluster that never had an id never served a client, so there is nothing to retain. An identity annotation on any of
/// its volumes proves that it did serve, also where status was lost.
fn delete_volumes(draft: &mut Draft<'_>) -> Progress {
    let retain = draft.seen.desired.storage.when_deleted == Retention::Retain;
    let served = draft.record.is_bootstrapped() || draft.seen.has_identity();
    let goes = |volume: &Volume| !(retain && (served || volume.cluster_id.is_some()));
    let volumes = draft.seen.volumes.iter().filter(|(_, volume)| goes(volume));
    let volumes: Vec<MemberName> = volumes.map(|(name, _)| name.clone()).collect();
    for_all(&volumes, |member| draft.delete_volume(Step::D2, member))
}
