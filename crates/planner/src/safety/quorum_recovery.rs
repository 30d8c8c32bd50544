//! R11 where a person orders to recover the quorum: only while none answers, and nothing new begins before every container of the
//! incarnation is seen stopped.

use quorate_model::effect::{Boot, LastNode, MayRun, NotRead, Unsafe};
use quorate_model::quorum::has_quorum;
use quorate_model::quorum_recovery::{
    Container, NodeState, QuorumRecovery, ReadOnlyAnswer, RecoverFrom, STOPPED_WITHIN,
};
use quorate_model::snapshot::Pod;
use quorate_model::{Instant, MemberName};

use super::{Judged, forbid, forbid_if};
use crate::View;

/// Q1, Q6: a cluster whose quorum answers is never recovered: its members would lose what they acknowledge meanwhile.
pub fn may_recover(view: View<'_>) -> Judged {
    forbid_if(quorum_answers(view), || Unsafe::QuorumAnswers)?;
    // The data go with the Pod that is stopped.
    forbid_if(view.record.is_in_memory(), || Unsafe::DataInMemory)?;
    let Some(recovery) = &view.record.quorum_recovery else { return Ok(()) };
    view.record.members.keys().try_for_each(|member| {
        let runs = is_stopped(view, recovery, member).is_err();
        forbid_if(runs, || Unsafe::OldMemberRuns(member.clone()))?;
        forbid_if(is_read(view, recovery, member).is_err(), || Unsafe::NotRead(member.clone()))
    })
}

/// Whether a quorum serves a list, or a member follows a leader, which only a quorum elects; or the Pods of a quorum are ready: kubelets
/// reach the members where the operator does not, as when a NetworkPolicy or its certificate keeps it out.
fn quorum_answers(view: View<'_>) -> bool {
    let record = view.record;
    let follows = |member| view.status_of(member).is_some_and(|status| status.leader.is_some());
    let is_ready =
        |member: &MemberName| view.pod(member).is_some_and(|pod| pod.ready && pod.read_only.is_none());
    let ready = record.voters().filter(|member| is_ready(member)).count();
    view.list().is_some() || record.members.keys().any(follows) || has_quorum(ready, record.voters().count())
}

/// Q4: whether no container of this member runs any more; otherwise why that is not certain, and what to do. An old majority that is out of
/// reach would go on under the old cluster id.
///
/// What another Pod of the member reports proves nothing by itself: it may run on another node, and locks of files are known to one node
/// only. So it is the node of the last Pod that decides.
pub(crate) fn is_stopped(
    view: View<'_>,
    recovery: &QuorumRecovery,
    member: &MemberName,
) -> Result<(), MayRun> {
    let now = view.earliest();
    let container = recovery.containers.get(member).cloned().unwrap_or_default();
    if view.pod(member).is_none() && container.pod.is_none() && has_never_run(view, member) {
        return Ok(());
    }
    let site = view.seen.sites.get(member);
    let state = site.and_then(|site| site.node);
    // Nothing runs without its volume, which is bound to nodes that are off.
    let is_off = site.is_some_and(|site| site.gone.is_some()) || state.is_some_and(NodeState::is_off);
    if !is_off {
        last_has_ended(view, recovery, member, &container)?;
    }
    let served_on = site.and_then(|site| site.served_on);
    match (container.served_on.as_deref(), served_on) {
        (None, _) => Ok(()),
        // Where its last Pod was on another node than the one on which it last followed a leader.
        (Some(node), state) => {
            let (node, former) = (Some(node.to_owned()), true);
            has_stopped(recovery, state, now).map_err(|state| MayRun::Node { node, former, state })
        }
    }
}

/// Whether the last Pod has ended.
fn last_has_ended(
    view: View<'_>,
    recovery: &QuorumRecovery,
    member: &MemberName,
    Container { pod: last, node, .. }: &Container,
) -> Result<(), MayRun> {
    let pod = view.pod(member);
    // On one node the lock of the database tells whether another process has it open.
    let is_there = pod.is_some_and(|pod| pod.node == *node);
    if loses_its_volume(view, member) {
        return Err(MayRun::ClaimTerminating(member.clone()));
    }
    if pod.is_some_and(|pod| pod.read_only.is_none()) {
        return Err(MayRun::PodThere(node.clone()));
    }
    let state = view.seen.sites.get(member).and_then(|site| site.node);
    let is_ready = matches!(state, Some(NodeState::Ready { .. }));
    // Its kubelet has started the next Pod there, whose agent found that nothing else has the database open.
    if is_ready && last.is_some() && is_there && answer(pod).is_some() {
        return Ok(());
    }
    if state.is_none() && node.is_none() {
        return Err(MayRun::NotRecorded);
    }
    let node = node.clone();
    has_stopped(recovery, state, view.earliest()).map_err(|state| MayRun::Node { node, former: false, state })
}

/// Whether nothing runs any more on a node in this state. One that has been ready for long runs nothing that the API server does not have.
fn has_stopped(recovery: &QuorumRecovery, state: Option<NodeState>, now: Instant) -> Result<(), LastNode> {
    let is_long_ago = |since| now - since >= STOPPED_WITHIN;
    match state {
        Some(NodeState::OutOfService | NodeState::Gone) => Ok(()),
        Some(NodeState::Ready { since }) if is_long_ago(since) && is_long_ago(recovery.since) => Ok(()),
        Some(NodeState::Ready { .. }) => Err(LastNode::Stopping),
        Some(NodeState::NotReady) => Err(LastNode::Silent),
        None => Err(LastNode::NotKnown),
    }
}

/// Q3: whether it is known what this member has; otherwise why not. With `auto` every volume that can be read was read: one that is left out
/// may have more than all others. That a volume is empty is believed when it was found twice: a mount may be missing for a moment.
pub(crate) fn is_read(view: View<'_>, recovery: &QuorumRecovery, member: &MemberName) -> Result<(), NotRead> {
    let is_asked = match &recovery.from {
        RecoverFrom::Auto => true,
        RecoverFrom::Member(named) => named == member,
    };
    let is_gone = view.seen.sites.get(member).is_some_and(|site| site.gone.is_some());
    if !is_asked || is_gone || !has_volume(view, member) {
        return Ok(());
    }
    let pod = view.pod(member);
    let failure = |pod: &Pod| pod.read_only.as_ref()?.failure.as_ref().map(|failure| failure.message.clone());
    let is_chosen = recovery.chosen.as_ref().is_some_and(|chosen| chosen.member == *member);
    match answer(pod) {
        Some(ReadOnlyAnswer::Nothing(why)) if !pod.is_some_and(was_read_twice) => {
            Err(NotRead::OnceMore(why.clone()))
        }
        // What it has is known as long as it is the choice. For another choice it says it once more.
        Some(ReadOnlyAnswer::Extracted(_)) if !is_chosen => Err(NotRead::Extracted),
        Some(ReadOnlyAnswer::Stored(_) | ReadOnlyAnswer::Nothing(_) | ReadOnlyAnswer::Extracted(_)) => Ok(()),
        None => {
            let says = pod.and_then(|pod| failure(pod).or_else(|| pod.trouble.clone()));
            Err(NotRead::Silent { says, may_be_left: recovery.from == RecoverFrom::Auto })
        }
    }
}

/// Whether the answer is that of the second try at least. While a try runs, Kubernetes shows the answer of the one before.
fn was_read_twice(pod: &Pod) -> bool {
    pod.restarts >= if pod.runs { 2 } else { 1 }
}

fn answer(pod: Option<&Pod>) -> Option<&ReadOnlyAnswer> {
    pod?.read_only.as_ref()?.answer.as_ref()
}

/// etcd has no id for it, so it has no vote.
fn has_never_run(view: View<'_>, member: &MemberName) -> bool {
    view.recorded(member).is_none_or(|recorded| recorded.id.is_none())
}

/// Whether a Pod may be deleted because its cluster is recovered.
pub(super) fn may_stop(view: View<'_>) -> bool {
    view.record.quorum_recovery.is_some() && view.list().is_none()
}

/// Q2, Q5: whether the Pod of a member may be created in which etcd does not start.
pub(super) fn may_hold(view: View<'_>, member: &MemberName, boot: Boot) -> Judged {
    let Some(recovery) = &view.record.quorum_recovery else { return forbid(Unsafe::NotOrdered) };
    forbid_if(view.list().is_some(), || Unsafe::QuorumAnswers)?;
    let is_chosen = recovery.chosen.as_ref().is_some_and(|chosen| chosen.member == *member);
    forbid_if(boot == Boot::Extract && !is_chosen, || Unsafe::NotOrdered)
}

/// Whether the deletion of the member's Pod ends that of its claim, and takes the data with it: Kubernetes keeps a claim that is being
/// deleted as long as a Pod names it, also one that has ended.
pub(crate) fn loses_its_volume(view: View<'_>, member: &MemberName) -> bool {
    let is_going = view.volume(member).is_some_and(|volume| volume.terminating);
    is_going && view.pod(member).is_some_and(|pod| !pod.terminating)
}

/// Whether its volume can be mounted by a Pod that reads it.
pub(crate) fn has_volume(view: View<'_>, member: &MemberName) -> bool {
    let volume = view.seen.own_volume(view.record, member);
    volume.is_some_and(|volume| !volume.terminating && volume.quarantine.is_none())
}
