//! R20, versions. Membership stays as it is while members run different minor versions. An older binary starts only on data that
//! etcd lets it read: it panics above its cluster version. etcd's downgrade begins only where it can end.
//!
//! The cluster version is in no reply, and need not be. etcd's leader raises it to the lowest minor version that all members run, so it
//! is not above that of a member that answers and never ran another one. From 3.6 on, the storage version of a member follows it,
//! and moves only after it.

use quorate_model::effect::{DowngradeAction, Mixed, NoDowngrade, TooNew, Unsafe};
use quorate_model::record::Stage;
use quorate_model::snapshot::{StatusReply, Unhealthy};
use quorate_model::{Instant, MemberName, Minor, Record, Snapshot};

use super::{Judged, Scene, all_voters_healthy, forbid, fresh_list, progress_is_proven};

/// The minor version that a member's data ran on last.
pub(crate) fn line_of(seen: &Snapshot, record: &Record, now: Instant, member: &MemberName) -> Option<Minor> {
    seen.version_of(record, member, now).map(quorate_model::Version::line)
}

/// The minor version that etcd is being downgraded to, by any member's answer.
fn downgrade_under_way(seen: &Snapshot, now: Instant) -> Option<Minor> {
    answers(seen, now).find_map(|status| status.downgrade)
}

/// The same, by the answers of members that follow the leader and keep up. One that is cut off, or whose disk hangs, goes on reporting a
/// downgrade that the others have ended: nothing must wait for it. Any member's answer, where none is known to keep up.
pub(crate) fn downgrade_in_force(seen: &Snapshot, now: Instant) -> Option<Minor> {
    let keeps_up = |member: &&MemberName| match seen.health(member, now) {
        Ok(())
        | Err(Unhealthy::Alarm(_) | Unhealthy::Errors(_) | Unhealthy::NotReady | Unhealthy::Differs) => true,
        Err(
            Unhealthy::NoPod
            | Unhealthy::Terminating
            | Unhealthy::NoAnswer(_)
            | Unhealthy::Learner
            | Unhealthy::NoLeader
            | Unhealthy::OtherLeader { .. }
            | Unhealthy::Lagging { .. },
        ) => false,
    };
    let members = seen.etcd.answers.keys().filter(keeps_up);
    let mut statuses = members.filter_map(|member| seen.status_of(member, now)).peekable();
    if statuses.peek().is_none() {
        return downgrade_under_way(seen, now);
    }
    statuses.find_map(|status| status.downgrade)
}

/// Whether healthy members may come and go. Removing one that is not healthy only helps.
pub(crate) fn membership_may_change(seen: &Snapshot, record: &Record, now: Instant) -> Judged {
    if let Some(to) = downgrade_under_way(seen, now).filter(|to| !waits_for_moves(seen, record, now, *to)) {
        forbid(Unsafe::VersionsMixed(Mixed::Downgrading(to)))?;
    }
    // Also a member that is about to be removed: it votes until then, and was perhaps chosen while a rollout had stopped it.
    let votes = |name: &MemberName, stage: Stage| match stage {
        Stage::Voter => true,
        Stage::Leaving(_) => seen.listed(record, name, now).is_some_and(|listed| !listed.is_learner),
        Stage::Bootstrap | Stage::Joining => false,
    };
    let voters = record
        .members
        .iter()
        .filter(|(name, member)| votes(name, member.stage) && !is_to_leave(seen, record, name))
        .map(|(name, _)| name);
    let mut lines = voters.filter_map(|voter| Some((voter, line_of(seen, record, now, voter)?)));
    let Some((first, line)) = lines.next() else { return Ok(()) };
    match lines.find(|(_, other)| *other != line) {
        None => Ok(()),
        Some((second, other)) => {
            let (one, other) = ((first.clone(), line), (second.clone(), other));
            forbid(Unsafe::VersionsMixed(Mixed::Differ { one, other }))
        }
    }
}

/// R21: a member whose claim is being deleted is never restarted with another version, so others join and it leaves.
fn is_to_leave(seen: &Snapshot, record: &Record, voter: &MemberName) -> bool {
    seen.claim_is_terminating(record, voter)
}

/// Whether a downgrade to this version ends only when members with claims that are being deleted are gone: all others run it, and these are never
/// restarted. The data of all were lowered before the version was committed, so a new member can join.
fn waits_for_moves(seen: &Snapshot, record: &Record, now: Instant, to: Minor) -> bool {
    let is_committed = record.target.as_ref().is_some_and(|target| target.version.line() == to);
    let any_leaves = record.members.keys().any(|member| is_to_leave(seen, record, member));
    let mut stay = record.voters().filter(|voter| !is_to_leave(seen, record, voter));
    is_committed && any_leaves && stay.all(|voter| line_of(seen, record, now, voter) == Some(to))
}

/// Whether a learner may join: with the version that the voters run.
pub(crate) fn members_may_join(seen: &Snapshot, record: &Record, now: Instant) -> Judged {
    membership_may_change(seen, record, now)?;
    let Some(target) = record.target.as_ref().filter(|target| target.pod.image_has_version) else {
        return Ok(());
    };
    let line = target.version.line();
    let other = |voter: &&MemberName| line_of(seen, record, now, voter).is_some_and(|runs| runs != line);
    match record.voters().filter(|voter| !is_to_leave(seen, record, voter)).find(other) {
        None => Ok(()),
        Some(voter) => forbid(Unsafe::VersionsMixed(Mixed::NotYet(voter.clone(), line))),
    }
}

/// Whether the committed version may run on a member's data. The version in an image that the user names is not known.
pub(crate) fn data_allow(seen: &Snapshot, record: &Record, now: Instant, member: &MemberName) -> Judged {
    let Some(target) = record.target.as_ref().filter(|target| target.pod.image_has_version) else {
        return Ok(());
    };
    let line = target.version.line();
    let Some(ran) = line_of(seen, record, now, member).filter(|ran| line < *ran) else { return Ok(()) };
    let too_new = |why| forbid(Unsafe::DataTooNew(member.clone(), why));
    if let Some(above) = storage_above(seen, now, line) {
        too_new(TooNew::Cluster { is: above, to: line })?;
    }
    if record.downgrading_to == Some(line) || is_half_done(seen, record, now, line) {
        return Ok(());
    }
    too_new(TooNew::HasRun { ran, to: line })
}

/// Whether an upgrade from this minor version to the next is half done: a voter still runs the old one and never ran another, so the
/// cluster version is still the old one. etcd then lets the others go back.
pub(crate) fn is_half_done(seen: &Snapshot, record: &Record, now: Instant, line: Minor) -> bool {
    let Some(list) = seen.list(now) else { return false };
    let never_left = |member: &MemberName| {
        let recorded = record.members.get(member).and_then(|member| member.version);
        let runs = seen.status_of(member, now).is_some_and(|status| status.version.line() == line);
        runs && recorded.is_none_or(|recorded| recorded.line() <= line)
    };
    let listed = list.members.iter().filter(|listed| !listed.is_learner);
    let mut voters = listed.filter_map(|listed| seen.member_of(record, listed));
    let next = Minor(line.0, line.1 + 1);
    let all_near = record
        .members
        .keys()
        .all(|member| line_of(seen, record, now, member).is_none_or(|runs| runs == line || runs == next));
    all_near
        && storage_above(seen, now, line).is_none()
        && downgrade_under_way(seen, now).is_none()
        && voters.any(|member| never_left(&member))
}

/// V3: every member has the data of the target, and knows of the downgrade.
pub(crate) fn data_have_gone_back(seen: &Snapshot, record: &Record, now: Instant, line: Minor) -> bool {
    let Some(list) = seen.list_just_read(now) else { return false };
    let has_gone_back = |status: &StatusReply| {
        let at_target = status.storage_version == Some(line) && status.downgrade == Some(line);
        at_target || status.version.line() == line
    };
    list.members.iter().all(|listed| {
        let name = seen.member_of(record, listed);
        let status = name.and_then(|name| seen.status_of(&name, now));
        !listed.is_learner && status.is_some_and(has_gone_back)
    })
}

/// V1, V2, VC.
pub(super) fn may_ask_for_downgrade(
    scene: &Scene<'_>,
    action: DowngradeAction,
    to: Minor,
    via: &MemberName,
) -> Judged {
    let Scene { seen, record, now, .. } = *scene;
    let list = fresh_list(seen, now)?;
    if list.via != *via {
        forbid(Unsafe::NoFreshList)?;
    }
    if record.hibernating || seen.deleting || record.cluster_id != Some(list.cluster_id) {
        forbid(Unsafe::NoQuorum)?;
    }
    match action {
        DowngradeAction::Cancel => may_cancel(scene),
        DowngradeAction::Validate | DowngradeAction::Enable => {
            if let Some(name) = membership_is_changing(record) {
                forbid(Unsafe::ChangeOutstanding(name.clone()))?;
            }
            may_enable(scene, to)
        }
    }
}

/// The leader raises the cluster version again once none asks for the lower one. So nothing may be about to start on data of the
/// lower one.
fn may_cancel(scene: &Scene<'_>) -> Judged {
    let Scene { seen, record, now, .. } = *scene;
    let Some(to) = downgrade_under_way(seen, now) else {
        return forbid(Unsafe::NoDowngrade(NoDowngrade::NotUnderWay));
    };
    if record.target.as_ref().is_some_and(|target| target.version.line() == to) {
        forbid(Unsafe::NoDowngrade(NoDowngrade::AboutToRun(to)))?;
    }
    Ok(())
}

fn may_enable(scene: &Scene<'_>, to: Minor) -> Judged {
    let Scene { seen, record, now, .. } = *scene;
    let from = Minor(to.0, to.1 + 1);
    let refuse = |why| forbid(Unsafe::NoDowngrade(why));
    let ordered = seen.allow_downgrade == Some(seen.desired.version) && seen.desired.version.line() == to;
    if !ordered {
        refuse(NoDowngrade::NotOrdered)?;
    }
    if !from.goes_back() {
        refuse(NoDowngrade::Impossible(from))?;
    }
    all_voters_healthy(seen, record, now, None)?;
    for listed in &fresh_list(seen, now)?.members {
        let name = seen.member_of(record, listed);
        let status = name.and_then(|name| seen.status_of(&name, now));
        // A storage version that is still on its way up would look like one that has come down.
        let is_finished = |status: &StatusReply| {
            status.version.line() == from
                && status.storage_version == Some(from)
                && status.downgrade.is_none()
        };
        if listed.is_learner || !status.is_some_and(is_finished) {
            refuse(NoDowngrade::Unfinished(from))?;
        }
    }
    progress_is_proven(seen, now)
}

/// A member that is joining or leaving.
fn membership_is_changing(record: &Record) -> Option<&MemberName> {
    let is_moving = |stage| matches!(stage, Stage::Joining | Stage::Leaving(_));
    record.members.iter().find(|(_, member)| is_moving(member.stage)).map(|(name, _)| name)
}

/// The storage version of a member that is above this one.
fn storage_above(seen: &Snapshot, now: Instant, line: Minor) -> Option<Minor> {
    answers(seen, now).filter_map(|status| status.storage_version).find(|storage| *storage > line)
}

fn answers(seen: &Snapshot, now: Instant) -> impl Iterator<Item = &StatusReply> {
    seen.etcd.answers.keys().filter_map(move |member| seen.status_of(member, now))
}
