//! R20, versions. Membership stays as it is while members run different minor versions. An older binary starts only on data that
//! etcd lets it read: it panics above its cluster version. etcd's downgrade begins only where it can end.
//!
//! The cluster version is in no reply, and need not be. etcd's leader raises it to the lowest minor version that all members run, so it
//! is not above that of a member that answers and never ran another one. From 3.6 on, the storage version of a member follows it,
//! and moves only after it.

use quorate_model::effect::{DowngradeAction, Mixed, NoDowngrade, TooNew, Unsafe};
use quorate_model::record::Stage;
use quorate_model::snapshot::{Listed, StatusReply, Unhealthy};
use quorate_model::{MemberName, Minor, Record};

use super::{
    Fit, Judged, all_voters_fit, forbid, forbid_if, forbid_unless, fresh_list, is_called, list_of,
    progress_is_proven,
};
use crate::View;

/// The minor version that etcd is being downgraded to, by any member's answer.
fn downgrade_under_way(view: View<'_>) -> Option<Minor> {
    answers(view).find_map(|status| status.downgrade)
}

/// The same, by the answers of members that follow the leader and keep up. One that is cut off, or whose disk hangs, goes on reporting a
/// downgrade that the others have ended: nothing must wait for it. Any member's answer, where none is known to keep up.
pub(crate) fn downgrade_in_force(view: View<'_>) -> Option<Minor> {
    let keeps_up = |member: &&MemberName| match view.seen.health(member, view.now) {
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
    let members = view.seen.etcd.answers.keys().filter(keeps_up);
    let mut statuses = members.filter_map(|member| view.status_of(member)).peekable();
    if statuses.peek().is_none() {
        return downgrade_under_way(view);
    }
    statuses.find_map(|status| status.downgrade)
}

/// Whether healthy members may come and go. Removing one that is not healthy only helps.
pub(crate) fn membership_may_change(view: View<'_>) -> Judged {
    if let Some(to) = downgrade_under_way(view).filter(|to| !waits_for_moves(view, *to)) {
        forbid(Unsafe::VersionsMixed(Mixed::Downgrading(to)))?;
    }
    // Also a member that is about to be removed: it votes until then, and was perhaps chosen while a rollout had stopped it.
    let votes = |name: &&MemberName| match view.stage_of(name) {
        Some(Stage::Voter) => true,
        Some(Stage::Leaving(_)) => view.is_listed_voter(name),
        Some(Stage::Bootstrap | Stage::Joining) | None => false,
    };
    let voters = view.record.members.keys().filter(votes).filter(|name| !is_to_leave(view, name));
    let mut lines = voters.filter_map(|voter| Some((voter, view.line_of(voter)?)));
    let Some((first, line)) = lines.next() else { return Ok(()) };
    let Some((second, other)) = lines.find(|(_, other)| *other != line) else { return Ok(()) };
    let (one, other) = ((first.clone(), line), (second.clone(), other));
    forbid(Unsafe::VersionsMixed(Mixed::Differ { one, other }))
}

/// R21: a member whose claim is being deleted is never restarted with another version, so others join and it leaves.
fn is_to_leave(view: View<'_>, voter: &MemberName) -> bool {
    view.claim_is_terminating(voter)
}

/// Whether a downgrade to this version ends only when members with claims that are being deleted are gone: all others run it, and these are never
/// restarted. The data of all were lowered before the version was committed, so a new member can join.
fn waits_for_moves(view: View<'_>, to: Minor) -> bool {
    let is_committed = view.record.target.as_ref().is_some_and(|target| target.version.line() == to);
    let any_leaves = view.record.members.keys().any(|member| is_to_leave(view, member));
    let mut stay = view.record.voters().filter(|voter| !is_to_leave(view, voter));
    is_committed && any_leaves && stay.all(|voter| view.line_of(voter) == Some(to))
}

/// Whether a learner may join: with the version that the voters run.
pub(crate) fn members_may_join(view: View<'_>) -> Judged {
    membership_may_change(view)?;
    let Some(line) = committed_line(view) else { return Ok(()) };
    let other = |voter: &&MemberName| view.line_of(voter).is_some_and(|runs| runs != line);
    let other = view.record.voters().filter(|voter| !is_to_leave(view, voter)).find(other);
    other.map_or(Ok(()), |voter| forbid(Unsafe::VersionsMixed(Mixed::NotYet(voter.clone(), line))))
}

/// The committed minor version. That in an image which the user names is not known.
fn committed_line(view: View<'_>) -> Option<Minor> {
    let target = view.record.target.as_ref().filter(|target| target.pod.image_has_version)?;
    Some(target.version.line())
}

/// Whether the committed version may run on a member's data.
pub(crate) fn data_allow(view: View<'_>, member: &MemberName) -> Judged {
    let Some(line) = committed_line(view) else { return Ok(()) };
    let Some(ran) = view.line_of(member).filter(|ran| line < *ran) else { return Ok(()) };
    let too_new = |why| forbid(Unsafe::DataTooNew(member.clone(), why));
    if let Some(above) = storage_above(view, line) {
        too_new(TooNew::Cluster { is: above, to: line })?;
    }
    if view.record.downgrading_to == Some(line) || is_half_done(view, line) {
        return Ok(());
    }
    too_new(TooNew::HasRun { ran, to: line })
}

/// Whether an upgrade from this minor version to the next is half done: a voter still runs the old one and never ran another, so the
/// cluster version is still the old one. etcd then lets the others go back.
pub(crate) fn is_half_done(view: View<'_>, line: Minor) -> bool {
    let never_left = |member: &MemberName| {
        let recorded = view.recorded(member).and_then(|member| member.version);
        let runs = view.status_of(member).is_some_and(|status| status.version.line() == line);
        runs && recorded.is_none_or(|recorded| recorded.line() <= line)
    };
    let mut voters = view.listed_voters().filter_map(|listed| view.member_of(listed));
    let next = Minor(line.0, line.1 + 1);
    let is_near = |member| view.line_of(member).is_none_or(|runs| runs == line || runs == next);
    view.record.members.keys().all(is_near)
        && storage_above(view, line).is_none()
        && downgrade_under_way(view).is_none()
        && voters.any(|member| never_left(&member))
}

/// V3: every member has the data of the target, and knows of the downgrade.
pub(crate) fn data_have_gone_back(view: View<'_>, line: Minor) -> bool {
    let Some(list) = view.seen.list_just_read(view.now) else { return false };
    let has_gone_back = |status: &StatusReply| {
        let at_target = status.storage_version == Some(line) && status.downgrade == Some(line);
        at_target || status.version.line() == line
    };
    list.members.iter().all(|listed| !listed.is_learner && status_of(view, listed).is_some_and(has_gone_back))
}

/// V1, V2, VC.
pub(super) fn may_ask_for_downgrade(
    view: View<'_>,
    action: DowngradeAction,
    to: Minor,
    via: &MemberName,
) -> Judged {
    is_called(view, list_of(view, via)?)?;
    match action {
        DowngradeAction::Cancel => may_cancel(view),
        DowngradeAction::Validate | DowngradeAction::Enable => {
            if let Some(name) = membership_is_changing(view.record) {
                forbid(Unsafe::ChangeOutstanding(name.clone()))?;
            }
            may_enable(view, to)
        }
    }
}

/// The leader raises the cluster version again once none asks for the lower one. So nothing may be about to start on data of the
/// lower one.
fn may_cancel(view: View<'_>) -> Judged {
    let Some(to) = downgrade_under_way(view) else {
        return forbid(Unsafe::NoDowngrade(NoDowngrade::NotUnderWay));
    };
    let is_about_to_run = view.record.target.as_ref().is_some_and(|target| target.version.line() == to);
    forbid_if(is_about_to_run, || Unsafe::NoDowngrade(NoDowngrade::AboutToRun(to)))
}

fn may_enable(view: View<'_>, to: Minor) -> Judged {
    let (from, desired) = (Minor(to.0, to.1 + 1), view.seen.desired.version);
    let require = |is_safe, why| forbid_unless(is_safe, || Unsafe::NoDowngrade(why));
    let is_ordered = view.seen.allow_downgrade == Some(desired) && desired.line() == to;
    require(is_ordered, NoDowngrade::NotOrdered)?;
    require(from.goes_back(), NoDowngrade::Impossible(from))?;
    all_voters_fit(view, Fit::Healthy, None)?;
    // A storage version that is still on its way up would look like one that has come down.
    let is_finished = |status: &StatusReply| {
        status.version.line() == from && status.storage_version == Some(from) && status.downgrade.is_none()
    };
    for listed in &fresh_list(view)?.members {
        let is_so = !listed.is_learner && status_of(view, listed).is_some_and(is_finished);
        require(is_so, NoDowngrade::Unfinished(from))?;
    }
    progress_is_proven(view)
}

/// A member that is joining or leaving.
fn membership_is_changing(record: &Record) -> Option<&MemberName> {
    let is_moving = |stage| matches!(stage, Stage::Joining | Stage::Leaving(_));
    record.members.iter().find(|(_, member)| is_moving(member.stage)).map(|(name, _)| name)
}

/// The storage version of a member that is above this one.
fn storage_above(view: View<'_>, line: Minor) -> Option<Minor> {
    answers(view).filter_map(|status| status.storage_version).find(|storage| *storage > line)
}

fn answers(view: View<'_>) -> impl Iterator<Item = &StatusReply> {
    view.seen.etcd.answers.keys().filter_map(move |member| view.status_of(member))
}

fn status_of<'a>(view: View<'a>, listed: &Listed) -> Option<&'a StatusReply> {
    view.status_of(&view.member_of(listed)?)
}
