//! Size zero and wake. Z1 delete Pods: first those that are not labelled joined, then followers, the leader last; Z2 volumes
//! and ids stay. On waking W1 creates all Pods at once on the same volumes, as `existing`.

use quorate_model::{MemberName, Step, Waiting};

use crate::draft::{DONE, Draft, Flow, ON};
use crate::{certificates, connection, facts, upkeep};

pub(crate) fn stop_or_wake(draft: &mut Draft<'_>) -> Flow {
    let at_zero = draft.record.target.as_ref().is_some_and(|target| target.size == 0);
    if draft.record.hibernating != at_zero {
        let step = if at_zero { Step::Z1 } else { Step::Z2 };
        draft.write_record(step, |record| record.hibernating = at_zero);
    }
    if !at_zero {
        return ON;
    }
    // They must be valid when the cluster wakes.
    let _ = certificates::provide(draft);
    connection::keep_up(draft);
    upkeep::apply_metadata(draft);
    // One at a time, so that the leader writes last. One that is stuck on a node that is gone delays no other.
    let stopping: Vec<_> = draft.seen.pods.iter().filter(|(_, pod)| pod.terminating).collect();
    for (name, _) in &stopping {
        let _ = draft.delete_pod(Step::Z1, name);
    }
    if stopping.iter().any(|(_, pod)| !pod.is_stuck(draft.now)) {
        return DONE;
    }
    if let Some(next) = next_to_stop(draft) {
        let _ = draft.delete_pod(Step::Z1, &next);
    } else {
        report_lost_volumes(draft);
    }
    DONE
}

/// What is lost while the cluster sleeps is told before it is to wake.
fn report_lost_volumes(draft: &mut Draft<'_>) {
    let voters: Vec<MemberName> = draft.record.voters().cloned().collect();
    for voter in voters {
        if facts::lost_its_volume(draft, &voter) || draft.seen.claim_is_terminating(&draft.record, &voter) {
            draft.wait(Waiting::VolumeLost(voter));
        }
    }
}

fn next_to_stop(draft: &Draft<'_>) -> Option<MemberName> {
    let pods = draft.seen.pods.iter().filter(|(_, pod)| !pod.terminating);
    let highest_first = pods.max_by_key(|(name, pod)| {
        // An emptied bootstrap member would start as new once no member is left that knows it. Once its Pod is labelled
        // joined, the guard refuses that.
        (!pod.joined, !draft.is_leader(name), draft.seen.cluster.ordinal(name))
    });
    highest_first.map(|(name, _)| name.clone())
}
