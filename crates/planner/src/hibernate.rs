//! Size zero and wake. Z1 delete Pods: first those that are not labelled joined, then all others; Z2 volumes and ids stay. On waking W1
//! creates all Pods at once on the same volumes, as `existing`.

use quorate_model::mutants::{Rule, is_broken};
use quorate_model::snapshot::Pod;
use quorate_model::{MemberName, Step, Waiting};

use crate::draft::{DONE, Draft, Flow, ON};
use crate::{certificates, connection, facts, stop, upkeep};

pub(crate) fn stop_or_wake(draft: &mut Draft<'_>) -> Flow {
    let at_zero = draft.record.target.as_ref().is_some_and(|target| target.size == 0);
    if draft.record.hibernating != at_zero {
        let step = if at_zero { Step::Z1 } else { Step::Z2 };
        // More may be written until the members stop, never less.
        let revision = |voter| draft.status_of(voter).map(|status| status.revision);
        let stopped_at = draft.record.voters().filter_map(revision).max();
        let stopped_at = stopped_at.filter(|_| at_zero && !draft.record.is_in_memory());
        draft.write_record(step, |record| {
            record.hibernating = at_zero;
            record.stopped_at = record.stopped_at.max(stopped_at);
        });
    }
    if !at_zero {
        return ON;
    }
    // They must be valid when the cluster wakes.
    let _ = certificates::provide(draft);
    connection::keep_up(draft);
    upkeep::apply_metadata(draft);
    // An emptied bootstrap member would start as new once no member is left that knows it. Once its Pod is labelled joined, the guard
    // refuses that, and a Pod that stops starts nothing any more.
    let may_start_new = |pod: &Pod| !pod.joined && !pod.terminating;
    let first = draft.seen.pods.iter().filter(|(_, pod)| may_start_new(pod)).map(|(name, _)| name.clone());
    let first: Vec<MemberName> = first.collect();
    let _ =
        if first.is_empty() { stop::every_pod(draft, Step::Z1) } else { stop::all(draft, Step::Z1, &first) };
    upkeep::delete_quarantined_volumes(draft);
    report_lost_volumes(draft);
    DONE
}

/// Z3: whether the cluster has what it was stopped with. A storage snapshot of every volume that was restored meanwhile is a quorum like any
/// other, and etcd serves it. No client is led to a member before that is known, and where the data went back nothing goes on until a person says
/// that this is known. Whoever leads has applied all that a quorum had when it was elected. The revision counts what clients wrote, and nothing
/// else: raft's index grows by every election, until it is that of before.
pub(crate) fn verify_woken(draft: &mut Draft<'_>) -> Flow {
    let Some(had) = draft.record.stopped_at else { return ON };
    let leader = facts::leader(draft.view()).and_then(|leader| draft.status_of(leader));
    let Some(has) = leader.map(|status| status.revision) else { return ON };
    // That of this time: the annotation may still be there when the cluster sleeps once more.
    let is_accepted =
        draft.record.cluster_id.is_some_and(|cluster| draft.seen.accepts_loss == Some((cluster, has)));
    if has >= had || is_accepted || is_broken(Rule::Z3) {
        draft.write_record(Step::Z3, |record| record.stopped_at = None);
        return ON;
    }
    draft.wait(Waiting::DataWentBack { had, has });
    DONE
}

/// What is lost while the cluster sleeps is told before it is to wake.
fn report_lost_volumes(draft: &mut Draft<'_>) {
    // Until its Pod is gone, a claim that is being deleted still has the data.
    let has_stopped = |voter: &&MemberName| draft.pod(voter).is_none_or(|pod| pod.is_stuck(draft.now));
    let voters: Vec<MemberName> = draft.record.voters().filter(has_stopped).cloned().collect();
    for voter in voters {
        if draft.view().lost_its_volume(&voter) || draft.view().claim_is_terminating(&voter) {
            draft.wait(Waiting::VolumeLost(voter));
        }
    }
}
