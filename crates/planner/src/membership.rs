//! Takes over into the record what etcd's linearizable list says: ids of learners, promotions, members that somebody
//! else removed, members of ours that a late call left behind. Identity is member id and peer URL, never a position.

use quorate_model::record::{Leaving, Member, Stage};
use quorate_model::snapshot::Listed;
use quorate_model::{MemberName, Step, Waiting};

use crate::draft::Draft;
use crate::replace;

pub(crate) fn settle(draft: &mut Draft<'_>) {
    let Some(list) = draft.seen.list(draft.now) else { return };
    for name in draft.record.members.keys().cloned().collect::<Vec<_>>() {
        match draft.listed(&name) {
            Some(listed) => settle_listed(draft, &name, listed),
            None => settle_unlisted(draft, &name),
        }
    }
    for listed in &list.members {
        if draft.member_of(listed).is_none() {
            settle_stranger(draft, listed);
        }
    }
}

fn settle_listed(draft: &mut Draft<'_>, name: &MemberName, listed: &Listed) {
    let Some(member) = draft.record.members.get(name).cloned() else { return };
    if member.id.is_none() {
        draft.write_record(Step::G3, |record| {
            if let Some(member) = record.members.get_mut(name) {
                member.id = Some(listed.id);
            }
        });
    }
    if let Some(version) = draft.status_of(name).map(|said| said.version)
        && member.version != Some(version)
    {
        draft.write_record(Step::K1, |record| {
            if let Some(member) = record.members.get_mut(name) {
                member.version = Some(version);
            }
        });
    }
    if member.stage == Stage::Voter && member.volume.is_none() {
        find_volume(draft, name, listed);
    }
    // The list alone is not enough: the member's own raft may still say learner (etcd-io/etcd#18347).
    // One in memory whose data went before it was heard can say nothing any more: it is replaced as the voter it may be.
    let unheard = || draft.record.is_in_memory() && replace::is_lost(draft, name);
    let promoted =
        !listed.is_learner && (draft.status_of(name).is_some_and(|said| !said.is_learner) || unheard());
    if member.stage == Stage::Joining && promoted {
        draft.enter(Step::G6, name, Stage::Voter);
    }
}

/// A voter of ours whose record was lost: its volume is the one that carries its stamp, or that nobody stamped yet.
fn find_volume(draft: &mut Draft<'_>, name: &MemberName, listed: &Listed) {
    let Some(volume) = draft.volume(name) else { return };
    let own = volume.cluster_uid.as_ref() == Some(&draft.seen.uid);
    if own && volume.member_id.is_none_or(|id| id == listed.id) && !volume.terminating {
        draft.write_record(Step::BX, |record| {
            if let Some(member) = record.members.get_mut(name) {
                member.volume = Some(volume.uid.clone());
            }
        });
    }
}

/// Absent from a list by quorum although it once had an id: it was removed, by us (then it is leaving) or not.
fn settle_unlisted(draft: &mut Draft<'_>, name: &MemberName) {
    let Some(member) = draft.record.members.get(name) else { return };
    match member.stage {
        Stage::Voter | Stage::Joining if member.id.is_some() => {
            draft.enter(Step::S3, name, Stage::Leaving(Leaving::Removed));
        }
        Stage::Voter | Stage::Joining | Stage::Bootstrap | Stage::Leaving(_) => {}
    }
}

/// A member with one of our URLs that the record does not know. We only ever add learners, so a learner is what a call
/// of ours left behind that landed late: it goes. A voter is one of ours whose record was lost: it counts.
fn settle_stranger(draft: &mut Draft<'_>, listed: &Listed) {
    let Some(ordinal) = draft.ordinal_of(listed) else {
        draft.wait(Waiting::UnmanagedMember(listed.id, listed.peer_url.clone()));
        return;
    };
    let name = draft.seen.cluster.member(ordinal);
    let next = draft.next_ordinal();
    let (step, stage) =
        if listed.is_learner { (Step::S1, Stage::Leaving(Leaving::Stray)) } else { (Step::BX, Stage::Voter) };
    let member = Member { stage, id: Some(listed.id), volume: None, version: None, since: draft.now };
    draft.write_record(step, |record| {
        record.next_ordinal = next;
        record.members.insert(name, member);
    });
}
