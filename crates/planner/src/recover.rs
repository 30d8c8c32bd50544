//! Recovery of a lost quorum, only by order of a person: the annotation `operator.etcd.io/recover-quorum-from`.
//!
//! Q1 record the order, and where the members ran; Q2 stop etcd: every Pod is deleted, and created again on its volume with an agent that
//! only reads; Q3 what each member has; Q4 every container is seen stopped, and the member with the most committed entries is chosen; Q5
//! its agent takes a snapshot of what etcd keeps; Q6 record the order for another incarnation, which begins with that snapshot (J2 to J4).
//! QX the order ends: it was withdrawn, or a quorum answers.
//!
//! Up to Q6 nothing is given up: the data of every member are only read. When the order ends, the members start again as they were.

use quorate_model::effect::{Boot, LeftOut, RecoveryRefused, RecoveryWait};
use quorate_model::incarnation::{NextIncarnation, Order};
use quorate_model::quorum::has_quorum;
use quorate_model::quorum_recovery::{
    self, Chosen, Container, LOST_FOR, Log, QuorumRecovery, ReadOnlyAnswer, ReadOnlyOrder, ReadOnlyPod,
    RecoverFrom,
};
use quorate_model::record::{Leaving, Stage};
use quorate_model::restore::Restore;
use quorate_model::snapshot::{LastNodes, Pod};
use quorate_model::{MemberName, Step, Waiting};

use crate::draft::{DONE, Draft, Flow, ON};
use crate::{commit, delivery, halt, restore, safety, upgrade, upkeep};

pub(crate) fn run(draft: &mut Draft<'_>) -> Flow {
    let flow = follow(draft);
    if flow.is_break() {
        halt::keep_certificates(draft);
    }
    flow
}

fn follow(draft: &mut Draft<'_>) -> Flow {
    if draft.record.quorum_recovery.is_none() && !begin(draft) {
        return ON;
    }
    let Some(recovery) = draft.record.quorum_recovery.clone() else { return ON };
    if has_ended(draft, &recovery) {
        return ON;
    }
    if draft.seen.paused {
        draft.wait(Waiting::Paused);
        return DONE;
    }
    let Some(recovery) = follow_edit(draft, recovery) else { return DONE };
    let reads = RecoveryWait::Reads { from: recovery.from.clone(), logs: logs(draft) };
    draft.wait(Waiting::Recovery(reads));
    // An edit may cure a Pod that does not start: its image, its tolerations, the size of its volume.
    delivery::fall_back(draft);
    if commit::target(draft).is_break() {
        return DONE;
    }
    upkeep::expand_volumes(draft);
    hold(draft, &recovery);
    let known = all_are_stopped(draft, &recovery) & all_are_read(draft, &recovery);
    let chosen = match (recovery.chosen.clone(), known) {
        (Some(chosen), _) => chosen,
        (None, false) => return DONE,
        (None, true) => match choose(draft, &recovery) {
            Some(chosen) => chosen,
            None => return DONE,
        },
    };
    if let Some(restore) = snapshot_of(draft, &recovery, &chosen) {
        order_incarnation(draft, &recovery, restore);
    }
    // `in_place` goes on in this pass, if the order is recorded.
    if draft.record.quorum_recovery.is_none() { ON } else { DONE }
}

/// Q1. Returns whether the order is recorded.
fn begin(draft: &mut Draft<'_>) -> bool {
    let Some(from) = draft.seen.recover_from.clone() else {
        // The next one is another order, also with the same value.
        draft.write_record(Step::QX, |record| record.last_quorum_recovery = None);
        return false;
    };
    let record = &draft.record;
    if !record.is_bootstrapped() {
        return false;
    }
    let is_at_work = !record.hibernating && record.next_incarnation.is_none() && draft.seen.desired.size > 0;
    if !is_at_work || draft.seen.paused {
        // Nobody may think of it any more on the day when the pause ends, or the size is another one.
        if record.last_quorum_recovery.as_ref() != Some(&from) {
            draft.write_record(Step::QX, |record| record.last_quorum_recovery = Some(from));
        }
        return false;
    }
    let quorum_answers = draft.seen.list(draft.now).is_some();
    if record.last_quorum_recovery.as_ref() == Some(&from) {
        if !quorum_answers {
            refuse(draft, RecoveryRefused::Spent);
        }
        return false;
    }
    if quorum_answers {
        // It must not begin by itself when the quorum is lost another day.
        draft.write_record(Step::QX, |record| record.last_quorum_recovery = Some(from));
        return false;
    }
    if let Err(why) = fit(draft, &from) {
        refuse(draft, why);
        return false;
    }
    if draft.seen.etcd.unserved_since.is_none_or(|since| draft.now - since < LOST_FOR) {
        refuse(draft, RecoveryRefused::TooSoon);
        return false;
    }
    if draft.wait_unless_safe(safety::may_recover(draft.view())) {
        return false;
    }
    let container = |member: &MemberName| {
        let pod = draft.pod(member);
        let LastNodes { node: last, served_on } =
            draft.seen.last_nodes.get(member).cloned().unwrap_or_default();
        let node = pod.and_then(|pod| pod.node.clone()).or(last);
        let served_on = served_on.filter(|served_on| node.as_ref() != Some(served_on));
        Container { pod: pod.map(|pod| pod.uid.clone()), node, served_on }
    };
    let containers = draft.record.members.keys().map(|member| (member.clone(), container(member))).collect();
    let recovery = QuorumRecovery { from, since: draft.latest(), containers, chosen: None };
    draft.write_record(Step::Q1, |record| record.quorum_recovery = Some(recovery));
    true
}

fn refuse(draft: &mut Draft<'_>, why: RecoveryRefused) {
    draft.wait(Waiting::Recovery(RecoveryWait::Refused(why)));
}

/// Why the order cannot be followed, whatever the members have.
fn fit(draft: &Draft<'_>, from: &RecoverFrom) -> Result<(), RecoveryRefused> {
    let record = &draft.record;
    if record.is_in_memory() {
        return Err(RecoveryRefused::InMemory);
    }
    let version = draft.seen.target().version;
    if let Some(first) = quorum_recovery::forgets_entries(version) {
        return Err(RecoveryRefused::ForgetsEntries(version, first));
    }
    match from {
        RecoverFrom::Member(member) if !record.members.contains_key(member) => {
            Err(RecoveryRefused::NoMember(member.clone()))
        }
        RecoverFrom::Auto | RecoverFrom::Member(_) => Ok(()),
    }
}

/// QX. Whether the order has ended: then the members start again on their own volumes.
fn has_ended(draft: &mut Draft<'_>, recovery: &QuorumRecovery) -> bool {
    let is_withdrawn = draft.seen.recover_from.is_none();
    let quorum_answers = draft.seen.list(draft.now).is_some();
    if !is_withdrawn && !quorum_answers {
        return false;
    }
    end(draft, (!is_withdrawn).then(|| recovery.from.clone()));
    true
}

/// QX. Forgets the order; what was spent is not followed again.
fn end(draft: &mut Draft<'_>, spent: Option<RecoverFrom>) {
    draft.write_record(Step::QX, |record| {
        (record.quorum_recovery, record.last_quorum_recovery) = (None, spent);
    });
}

/// Another member may be named until Q6. `None` if the new order cannot be followed: nor is the old one, which a person has taken back.
fn follow_edit(draft: &mut Draft<'_>, mut recovery: QuorumRecovery) -> Option<QuorumRecovery> {
    if let Some(from) = draft.seen.recover_from.clone().filter(|from| *from != recovery.from) {
        if let Err(why) = fit(draft, &from) {
            refuse(draft, why);
            return None;
        }
        (recovery.from, recovery.chosen) = (from, None);
        let edited = recovery.clone();
        draft.write_record(Step::Q1, |record| record.quorum_recovery = Some(edited));
    }
    Some(recovery)
}

/// Q2 and Q5: every member whose volume exists has a Pod in which etcd does not start.
fn hold(draft: &mut Draft<'_>, recovery: &QuorumRecovery) {
    for member in &draft.members() {
        let order = order_for(recovery, member);
        let is_read = order == ReadOnlyOrder::Read;
        let (step, boot) = if is_read { (Step::Q2, Boot::Read) } else { (Step::Q5, Boot::Extract) };
        match draft.pod(member) {
            Some(pod) if is_held_for(pod, &order) && !is_outdated(draft, pod) => {}
            Some(_) if safety::loses_its_volume(draft.view(), member) => {}
            Some(_) => draft.end_pod(step, member),
            None if safety::has_volume(draft.view(), member) => {
                draft.start_pod(step, member, boot, Vec::new());
            }
            None => {}
        }
    }
}

fn order_for(recovery: &QuorumRecovery, member: &MemberName) -> ReadOnlyOrder {
    let is_chosen = recovery.chosen.as_ref().is_some_and(|chosen| chosen.member == *member);
    if is_chosen { ReadOnlyOrder::Extract(recovery.key()) } else { ReadOnlyOrder::Read }
}

/// Whether the Pod does this, or has done it. One that its kubelet evicted has not.
fn is_held_for(pod: &Pod, order: &ReadOnlyOrder) -> bool {
    let held = pod.read_only.as_ref().filter(|held| held.order == *order);
    held.is_some_and(|held| !pod.terminating && (!pod.finished || held.answer.is_some()))
}

/// Whether it has not answered, and the committed template is another one by now.
fn is_outdated(draft: &Draft<'_>, pod: &Pod) -> bool {
    let has_answered = pod.read_only.as_ref().is_some_and(|held| held.answer.is_some());
    let committed = draft.record.target.as_ref().map(|target| &target.pod.revision);
    !has_answered && committed.is_some_and(|committed| pod.revision != *committed)
}

/// Q3: what each member has that reported it.
fn logs(draft: &Draft<'_>) -> Vec<(MemberName, Result<Log, String>)> {
    let answer = |(member, pod): (&MemberName, &Pod)| {
        let log = match pod.read_only.as_ref()?.answer.as_ref()? {
            ReadOnlyAnswer::Stored(log) => Ok(*log),
            ReadOnlyAnswer::Nothing(why) => Err(why.clone()),
            ReadOnlyAnswer::Extracted(_) => return None,
        };
        Some((member.clone(), log))
    };
    draft.seen.pods.iter().filter_map(answer).collect()
}

/// Q4: waits for the containers that may still run.
fn all_are_stopped(draft: &mut Draft<'_>, recovery: &QuorumRecovery) -> bool {
    let mut all = true;
    for member in draft.members() {
        if let Err(why) = safety::is_stopped(draft.view(), recovery, &member) {
            draft.wait(Waiting::Recovery(RecoveryWait::MayRun(member, why)));
            all = false;
        }
    }
    all
}

/// Q3: waits for what is not known yet of the members' volumes.
fn all_are_read(draft: &mut Draft<'_>, recovery: &QuorumRecovery) -> bool {
    let mut all = true;
    for member in draft.members() {
        if let Err(why) = safety::is_read(draft.view(), recovery, &member) {
            draft.wait(Waiting::Recovery(RecoveryWait::NotRead(member, why)));
            all = false;
        }
    }
    all
}

/// Q4. `None` if there is nothing to choose; then what to do is waited for.
fn choose(draft: &mut Draft<'_>, recovery: &QuorumRecovery) -> Option<Chosen> {
    let all = logs(draft);
    let is_ours = |log: &Log| Some(log.cluster_id) == draft.record.cluster_id;
    let ours = || {
        all.iter().filter_map(|(member, log)| Some((member, *log.as_ref().ok().filter(|log| is_ours(log))?)))
    };
    let found = match &recovery.from {
        RecoverFrom::Auto => {
            let quorum = quorum_is_there(draft, ours().map(|(member, _)| member));
            if let Some(why) = quorum {
                // The members start again, also where Git has the annotation and gives it back.
                refuse(draft, why);
                end(draft, Some(recovery.from.clone()));
                return None;
            }
            // Those that have more may be the wrong ones.
            if draft.record.is_undecided() {
                refuse(draft, RecoveryRefused::DataDiffer);
                return None;
            }
            quorum_recovery::best(ours().filter(|(member, _)| unsound(draft, member).is_none()))
        }
        RecoverFrom::Member(named) => ours().find(|(member, _)| *member == named),
    };
    let Some((member, log)) = found else {
        let why = match &recovery.from {
            RecoverFrom::Auto => left_out(draft, ours().map(|(member, _)| member)),
            RecoverFrom::Member(named) => RecoveryRefused::NoDataOf(named.clone()),
        };
        refuse(draft, why);
        return None;
    };
    let chosen = Chosen { member: member.clone(), log };
    let recorded = QuorumRecovery { chosen: Some(chosen.clone()), ..recovery.clone() };
    draft.write_record(Step::Q4, |record| record.quorum_recovery = Some(recorded));
    Some(chosen)
}

/// Why the quorum is not lost, if the members that have their data are one. etcd would drop the ends of their logs, which may have been
/// acknowledged.
fn quorum_is_there<'a>(
    draft: &Draft<'_>,
    have_data: impl Iterator<Item = &'a MemberName>,
) -> Option<RecoveryRefused> {
    let voters = draft.record.voters().count();
    let have_data: Vec<&MemberName> = have_data.collect();
    let votes = |member: &MemberName| draft.view().stage_of(member) == Some(Stage::Voter);
    let readable = have_data.iter().filter(|member| votes(member)).count();
    // One that was leaving votes until etcd has removed it.
    let leaves = |member: &MemberName| matches!(draft.view().stage_of(member), Some(Stage::Leaving(_)));
    let leaving = draft.record.leaving().count();
    let readable_leaving = have_data.iter().filter(|member| leaves(member)).count();
    let is_quorum = has_quorum(readable, voters) || has_quorum(readable + readable_leaving, voters + leaving);
    is_quorum.then_some(RecoveryRefused::QuorumHasData { readable, voters })
}

/// Why it is not chosen unless a person names it.
fn unsound(draft: &Draft<'_>, member: &MemberName) -> Option<LeftOut> {
    if draft.record.is_wrong(member) {
        return Some(LeftOut::Differs);
    }
    match draft.record.members.get(member)?.stage {
        Stage::Leaving(Leaving::Lost) => Some(LeftOut::GivenUp),
        // With --force-new-cluster etcd promotes none, then removes the last voter, and ends: "removed all voters" (3.5, 3.6, 3.7).
        Stage::Joining => Some(LeftOut::Learner),
        Stage::Bootstrap
        | Stage::Voter
        | Stage::Leaving(
            Leaving::Shrink | Leaving::RolledBack | Leaving::Stray | Leaving::Removed | Leaving::Replaced,
        ) => None,
    }
}

/// Why `auto` chooses none, where these members have data.
fn left_out<'a>(draft: &Draft<'_>, have_data: impl Iterator<Item = &'a MemberName>) -> RecoveryRefused {
    let all: Vec<(MemberName, LeftOut)> =
        have_data.filter_map(|member| Some((member.clone(), unsound(draft, member)?))).collect();
    if all.is_empty() { RecoveryRefused::NoData } else { RecoveryRefused::LeftOut(all) }
}

/// Q5: the snapshot that the agent of the chosen member has taken.
fn snapshot_of(draft: &mut Draft<'_>, recovery: &QuorumRecovery, chosen: &Chosen) -> Option<Restore> {
    let order = ReadOnlyOrder::Extract(recovery.key());
    let ReadOnlyPod { answer, failure, .. } =
        draft.pod(&chosen.member)?.read_only.clone().filter(|held| held.order == order)?;
    match (answer, failure) {
        (Some(ReadOnlyAnswer::Extracted(restore)), _) => return Some(*restore),
        (Some(ReadOnlyAnswer::Nothing(why)), _) => {
            refuse(draft, RecoveryRefused::Agent(chosen.member.clone(), why));
        }
        (_, Some(why)) => refuse(draft, RecoveryRefused::Agent(chosen.member.clone(), why.message)),
        (_, None) => {}
    }
    None
}

/// Q6: from here on the order is one for another incarnation, with one member that begins with the snapshot. The others grow from it.
fn order_incarnation(draft: &mut Draft<'_>, recovery: &QuorumRecovery, restore: Restore) {
    if draft.wait_unless_safe(safety::may_recover(draft.view())) {
        return;
    }
    // What the spec does not take would only show when nothing is left to go back to.
    let desired = &draft.seen.desired;
    let is_zero = (desired.size == 0).then_some(RecoveryRefused::SizeZero);
    let unfit = || restore::incompatible(&restore, desired).map(RecoveryRefused::Unfit);
    let version = || upgrade::may_be_chosen(desired.version).err().map(RecoveryRefused::Version);
    if let Some(why) = is_zero.or_else(unfit).or_else(version) {
        refuse(draft, why);
        return;
    }
    let Some(replaces) = draft.record.cluster_id else { return };
    let next = NextIncarnation {
        order: Order::Recovery { from: recovery.from.clone() },
        replaces,
        restore,
        members: Some(1),
        stopped: false,
        since: draft.now,
    };
    let spent = recovery.from.clone();
    draft.write_record(Step::Q6, |record| {
        record.next_incarnation = Some(next);
        (record.quorum_recovery, record.last_quorum_recovery) = (None, Some(spent));
    });
}
