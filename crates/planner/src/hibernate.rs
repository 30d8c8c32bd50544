//! Zero and wake. Z1 stop Pods, those that are not marked as joined first, then followers; Z2 volumes and ids stay; waking
//! makes all Pods again at once, on the same volumes, as `existing`.

use quorate_model::{MemberName, Step};

use crate::draft::{DONE, Draft, Flow, ON};

pub(crate) fn stop_or_wake(draft: &mut Draft<'_>) -> Flow {
    let asleep = draft.record.target.as_ref().is_some_and(|target| target.size == 0);
    if draft.record.hibernating != asleep {
        let step = if asleep { Step::Z1 } else { Step::Z2 };
        draft.write_record(step, |record| record.hibernating = asleep);
    }
    if !asleep {
        return ON;
    }
    // One at a time, so that the leader is the last to write.
    if let Some(stopping) = draft.seen.pods.iter().find(|(_, pod)| pod.terminating).map(|(name, _)| name) {
        draft.clear_pod(Step::Z1, stopping);
    } else if let Some(next) = next_to_stop(draft) {
        draft.clear_pod(Step::Z1, &next);
    }
    DONE
}

fn next_to_stop(draft: &Draft<'_>) -> Option<MemberName> {
    let highest_first = draft.seen.pods.iter().max_by_key(|(name, pod)| {
        // A founder that was emptied would start as new once nobody is left who knows it; the guard of one that is marked
        // would not let it.
        (!pod.joined, !draft.is_leader(name), draft.seen.cluster.ordinal(name))
    });
    highest_first.map(|(name, _)| name.clone())
}
