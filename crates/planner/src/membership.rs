//! Records what etcd's linearizable list shows: ids of learners, promotions, members that were removed from outside,
//! members of ours that a late call left behind. Identity is member id and peer URL, never a position (R7).

use quorate_model::mutants::{Rule, is_broken};
use quorate_model::record::{Leaving, Member, Stage};
use quorate_model::snapshot::Listed;
use quorate_model::{MemberName, Span, Step, Waiting};

use crate::draft::Draft;

/// How long a promoted member may take to answer. It answered as a learner, so one round of a few seconds suffices where nothing is
/// wrong with it.
const UNHEARD_FOR: Span = Span::seconds(60);

pub(crate) fn settle(draft: &mut Draft<'_>) {
    let Some(list) = draft.seen.list(draft.now) else { return };
    for name in draft.members() {
        match draft.listed(&name) {
            Some(listed) => settle_listed(draft, &name, listed),
            None => settle_unlisted(draft, &name),
        }
    }
    for listed in &list.members {
        if draft.view().member_of(listed).is_none() {
            settle_unrecorded(draft, listed);
        }
    }
}

fn settle_listed(draft: &mut Draft<'_>, name: &MemberName, listed: &Listed) {
    let Some(member) = draft.record.members.get(name).cloned() else { return };
    if member.id.is_none() {
        draft.write_member(Step::G3, name, |member| member.id = Some(listed.id));
    }
    if let Some(version) = draft.status_of(name).map(|status| status.version)
        && member.version != Some(version)
    {
        draft.write_member(Step::K1, name, |member| member.version = Some(version));
    }
    if member.stage == Stage::Voter && member.volume.is_none() {
        find_volume(draft, name, listed);
    }
    // No voter becomes a learner. Its volume, which was named before its promotion, is all that was left of a lost status.
    if member.stage == Stage::Voter && listed.is_learner && draft.seen.list_just_read(draft.now).is_some() {
        draft.enter(Step::BX, name, Stage::Joining);
        return;
    }
    // The list alone is not enough: the member's own raft may still say learner (etcd-io/etcd#18347).
    // A member in memory whose data are lost cannot answer any more: it is replaced as the voter that it may be.
    let cannot_answer = || draft.record.is_in_memory() && draft.view().is_lost(name);
    let says_so = || draft.status_of(name).is_some_and(|status| !status.is_learner);
    let promoted = !listed.is_learner && (says_so() || cannot_answer() || is_unheard_voter(draft, name));
    if member.stage == Stage::Joining && promoted {
        draft.enter(Step::G6, name, Stage::Voter);
        draft.write_record(Step::G6, |record| record.failed_learners = None);
    }
}

/// Whether a promoted member does not answer as a voter, and need not be waited for: the list has it as one for long enough, or its Pod or
/// volume is gone. One that was cut off from its peers when it was promoted answers as a learner until it hears of it. As long as it
/// counts as joining, no other change begins, also not the one that removes it. It is not healthy, so nothing relies on it.
fn is_unheard_voter(draft: &Draft<'_>, name: &MemberName) -> bool {
    let since = draft.seen.etcd.unheard_since.get(name);
    let for_long = since.is_some_and(|since| draft.now - *since > UNHEARD_FOR);
    let cannot_answer = draft.pod(name).is_none() || draft.view().lost_its_volume(name);
    let is_silent = draft.status_of(name).is_none();
    (for_long || (is_silent && cannot_answer)) && !is_broken(Rule::L3)
}

/// A voter whose record was lost: its volume is the one that is annotated with its id, or that is not annotated yet.
fn find_volume(draft: &mut Draft<'_>, name: &MemberName, listed: &Listed) {
    let Some(volume) = draft.volume(name) else { return };
    if draft.view().is_own(volume)
        && volume.quarantine.is_none()
        && volume.member_id.is_none_or(|id| id == listed.id)
        && !volume.terminating
    {
        draft.write_member(Step::BX, name, |member| member.volume = Some(volume.uid.clone()));
    }
}

/// A member with an id that is absent from a linearizable list was removed: by us (then it is leaving) or from outside.
fn settle_unlisted(draft: &mut Draft<'_>, name: &MemberName) {
    let Some(member) = draft.record.members.get(name) else { return };
    match member.stage {
        Stage::Voter | Stage::Joining if member.id.is_some() => {
            draft.enter(Step::S3, name, Stage::Leaving(Leaving::Removed));
        }
        Stage::Voter | Stage::Joining | Stage::Bootstrap | Stage::Leaving(_) => {}
    }
}

/// A listed member that the record does not know. With a peer URL of ours a learner comes from a late MemberAdd and is
/// removed, because only learners are added; a voter is a member whose record was lost and is recorded again.
fn settle_unrecorded(draft: &mut Draft<'_>, listed: &Listed) {
    let Some(ordinal) = draft.ordinal_of(listed) else {
        draft.wait(Waiting::UnmanagedMember(listed.id, listed.peer_url.clone()));
        return;
    };
    let name = draft.seen.cluster.member(ordinal);
    let next = draft.next_ordinal();
    let (step, stage) =
        if listed.is_learner { (Step::S1, Stage::Leaving(Leaving::Stray)) } else { (Step::BX, Stage::Voter) };
    let member = Member { stage, id: Some(listed.id), volume: None, version: None, since: draft.latest() };
    draft.write_record(step, |record| {
        record.next_ordinal = next;
        record.members.insert(name, member);
    });
}
