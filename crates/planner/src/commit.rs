//! Commits the spec as the target, at safe points only, so that an edit in the middle of a change cannot mix two plans. A
//! stuck step is a safe point: the edit that repairs it must be accepted at once.

use quorate_model::effect::{AuthChanging, AuthWait, FixedField, SafePoint};
use quorate_model::record::{Leaving, Member, Stage, Turn};
use quorate_model::snapshot::Pod;
use quorate_model::target::{Medium, PodRevision, PodTemplate};
use quorate_model::{Leaf, MemberName, Step, Target, Version, Waiting};

use crate::draft::{DONE, Draft, Flow, ON};
use crate::upgrade::{NotNow, VersionStep};
use crate::{backup, certificates, claims, grow, maintain, replace, upgrade, waves};

pub(crate) fn target(draft: &mut Draft<'_>) -> Flow {
    match draft.record.target.clone() {
        Some(committed) if is_older_than_all(draft, &committed) => follow(draft, desired(draft, &committed)),
        Some(committed) => {
            edit(draft, &committed);
            ON
        }
        None => follow_its_data(draft),
    }
}

/// Status was lost. What an edit cannot change while members run is as their volumes have it: the edit was not carried out before either, and
/// with the wrong TLS no member would find another.
fn follow_its_data(draft: &mut Draft<'_>) -> Flow {
    let mut desired = draft.seen.desired.clone();
    let members = draft.record.members.keys();
    let mut volumes = members.filter_map(|name| draft.seen.own_volume(&draft.record, name)).peekable();
    if volumes.peek().is_some() {
        desired.storage.medium = Medium::Disk;
    }
    desired.tls = volumes.find_map(|volume| volume.tls).unwrap_or(desired.tls);
    let differs = desired != draft.seen.desired;
    let flow = follow(draft, desired);
    // What was seen of Secrets and peer URLs was seen by the spec. The next pass sees it by the record.
    if differs { DONE } else { flow }
}

/// The cluster is bootstrapped, but its status lost the target. Only the spec is left to follow, though not to a version that
/// may not follow the one that members run, or that has run on adopted data, or waits for a backup: the edit may not have been committed
/// before status was lost. Their version is committed then, and the next pass has the Pod template for it.
fn follow(draft: &mut Draft<'_>, desired: Target) -> Flow {
    // Whether a backup comes before an upgrade is decided once there is a target that it would follow.
    let waits_for_backup =
        |running: Version| desired.version.line() > running.line() && backup::comes_before_upgrades(draft);
    let running = running_version(draft).filter(|running| {
        waits_for_backup(*running) || upgrade::step(*running, desired.version, false).is_err()
    });
    let Some(version) = running else {
        draft.write_record(Step::T1, |record| record.target = Some(desired));
        return ON;
    };
    // What is said of the database is said by the content.
    let pod = PodTemplate {
        revision: PodRevision::default(),
        content: String::new(),
        quota: None,
        compacts: false,
        ..desired.pod
    };
    let target = Target { version, pod, ..desired };
    draft.write_record(Step::T1, |record| record.target = Some(target));
    DONE
}

/// Whether every voter runs a newer minor version than the committed one. No edit but a downgrade leads there: the target was recorded
/// after status was lost, when no member could be asked.
fn is_older_than_all(draft: &Draft<'_>, committed: &Target) -> bool {
    let is_older =
        |voter| draft.status_of(voter).is_some_and(|status| committed.version.line() < status.version.line());
    committed.pod.image_has_version
        && draft.record.downgrading_to.is_none()
        && draft.record.voters().count() > 0
        && draft.record.voters().all(is_older)
}

/// The highest version that a recorded member reports, or that has run on the data of one that does not answer.
fn running_version(draft: &Draft<'_>) -> Option<Version> {
    let members = draft.record.members.keys();
    members.filter_map(|name| draft.seen.version_of(&draft.record, name, draft.now)).max()
}

fn edit(draft: &mut Draft<'_>, committed: &Target) {
    report_what_came_too_late(draft, committed);
    let mut desired = desired(draft, committed);
    if desired == *committed {
        return;
    }
    let learner = moving_learner(draft);
    if let Some(member) = &learner
        && !may_make_way(draft, &desired)
    {
        draft.wait(Waiting::SafePoint(SafePoint::Learner(member.clone())));
        return;
    }
    let mut permit = upgrade::permits(draft.view(), desired.version);
    if let Err(why) = &permit {
        match why {
            NotNow::Refused(why) => draft.wait(Waiting::VersionRefused(why.clone())),
            NotNow::Unfinished(why) => draft.wait(Waiting::SafePoint(why.clone())),
            NotNow::Downgrading => {}
        }
        // The rest of the edit waits with the version, because its flags are meant for that version.
        desired = committed.clone().with_what_is_always_safe(&desired);
    }
    let line = desired.version.line();
    if permit.is_ok() && line > committed.version.line() && !backup::before_upgrade(draft, line).is_done() {
        desired = committed.clone().with_what_is_always_safe(&desired);
    }
    if let Some(member) = lacks_room(draft, &desired, committed) {
        // Volumes grow by the committed size. The Pods follow once they have.
        draft.wait(Waiting::VolumeGrowing(member));
        let storage = desired.storage.clone();
        desired = Target { storage, ..committed.clone().with_what_is_always_safe(&desired) };
        permit = Ok(VersionStep::Forward);
    }
    if desired.auth
        && !committed.auth
        && let Some(why) = certificates::why_not_signed(draft, Leaf::Operator)
    {
        // Named here: no other condition is about a certificate that the cluster does not have yet.
        draft.wait(Waiting::Auth(AuthWait::Changing(AuthChanging::NoRootCertificate(why.clone()))));
        draft.wait(Waiting::SafePoint(SafePoint::NoRootCertificate(why)));
        desired = committed.clone().with_what_is_always_safe(&desired);
    }
    // R21: its members move to new claims first. While versions are mixed none may join, and these members cannot be restarted.
    if desired.version.line() != committed.version.line() && claims::outlive_no_stop(draft) {
        draft.wait(Waiting::SafePoint(SafePoint::VersionAfterClaims));
        desired = committed.clone().with_what_is_always_safe(&desired);
    }
    // Every other part of the edit may be what lets them.
    if desired.size == 0 && committed.size > 0 && claims::outlive_no_stop(draft) {
        desired.size = committed.size;
        draft.wait(Waiting::SafePoint(SafePoint::SizeZeroAfterClaims));
    }
    let is_by_operator = waves::is_by_operator(&desired, committed);
    if is_by_operator && !waves::may_take_defaults(draft) {
        desired.pod = committed.pod.clone();
    }
    if desired == *committed {
        return;
    }
    let line = desired.version.line();
    let begins = is_by_operator && waves::disrupts(draft);
    let takes_defaults = begins.then(|| Turn { since: draft.latest(), restarted: 0 });
    let (step, downgrading_to) = match permit {
        Ok(VersionStep::Back(line)) => (Step::V4, Some(line)),
        Ok(VersionStep::Forward) | Err(_) => {
            (Step::T1, draft.record.downgrading_to.filter(|back| *back == line))
        }
    };
    draft.write_record(step, |record| {
        record.target = Some(desired);
        record.downgrading_to = downgrading_to;
        record.takes_defaults = takes_defaults;
        // The edit may be the cure.
        record.failed_learners = None;
    });
    // In the same record, because no later pass can tell why the target is another one.
    if let Some(member) = learner
        && let Some(why) = grow::why_held_up(draft, &member)
    {
        draft.wait(Waiting::SafePoint(SafePoint::LearnerMakesWay(member.clone(), why)));
        draft.enter(Step::G5, &member, Stage::Leaving(Leaving::RolledBack));
    }
}

/// Whether an edit is committed although a learner is on its way.
///
/// - The edit makes the learner superfluous: growth rolls it back. At size zero Pods stop at once, so that edit waits.
/// - The learner is not promoted, because a voter is not healthy, because it does not come closer, or because its first copy of the database
///   never ends: this edit may be the cure, and the learner holds the only outstanding change. It is rolled back with the commit.
/// - A database is full, and the edit gives it a larger quota: then the learner makes way for the rollout.
/// - There is no quorum, so nothing is promoted. The edit may be the cure; the learner may be a voter already, and stays.
fn may_make_way(draft: &Draft<'_>, desired: &Target) -> bool {
    let voters = draft.record.voters().count();
    let is_superfluous = desired.size > 0 && desired.size + replace::surplus(draft) <= voters;
    let is_held_up =
        || moving_learner(draft).is_some_and(|member| grow::why_held_up(draft, &member).is_some());
    is_superfluous || draft.via().is_none() || is_held_up() || is_cure(draft, desired)
}

/// Whether the edit gives full databases a larger quota.
fn is_cure(draft: &Draft<'_>, desired: &Target) -> bool {
    let committed = draft.record.target.as_ref();
    maintain::is_full(draft) && committed.is_some_and(|committed| raises_quota(desired, committed))
}

fn raises_quota(desired: &Target, committed: &Target) -> bool {
    desired.pod.quota.zip(committed.pod.quota).is_some_and(|(desired, committed)| desired > committed)
}

/// The member whose volume cannot carry the larger quota of an edit yet. Its next Pod would get that quota, whatever it is created for.
fn lacks_room(draft: &Draft<'_>, desired: &Target, committed: &Target) -> Option<MemberName> {
    let quota = desired.pod.quota.filter(|_| raises_quota(desired, committed))?;
    let mut voters = draft.record.voters();
    voters.find(|voter| draft.seen.lacks_room(voter, quota, desired.storage.bytes)).cloned()
}

/// The desired target, with the committed value of every field that cannot change while members run. The CRD refuses such an
/// edit; this also covers an older CRD. The storage class may: it is that of new members' volumes.
fn desired(draft: &Draft<'_>, committed: &Target) -> Target {
    let mut desired = draft.seen.desired.clone();
    desired.tls = committed.tls;
    desired.storage.medium = committed.storage.medium;
    desired.storage.access_mode.clone_from(&committed.storage.access_mode);
    desired.storage.bytes = desired.storage.bytes.max(committed.storage.bytes);
    desired
}

/// What cannot change while members run, and was edited before the definition refused it: in the moment between the first leader, from
/// which on no attempt is given up, and the record of the cluster ID.
fn report_what_came_too_late(draft: &mut Draft<'_>, committed: &Target) {
    let desired = &draft.seen.desired;
    let fields = [
        (committed.tls != desired.tls).then_some(FixedField::Tls { is: committed.tls, found: desired.tls }),
        (committed.storage.medium != desired.storage.medium)
            .then_some(FixedField::Medium { is: committed.storage.medium, found: desired.storage.medium }),
        (committed.storage.access_mode != desired.storage.access_mode).then(|| FixedField::AccessMode {
            is: committed.storage.access_mode.clone(),
            found: desired.storage.access_mode.clone(),
        }),
    ];
    for field in fields.into_iter().flatten() {
        draft.wait(Waiting::EditedTooLate(field));
    }
}

/// A learner that makes progress: etcd's list has it, and its Pod exists and is not in trouble.
fn moving_learner(draft: &Draft<'_>) -> Option<MemberName> {
    let is_well = |pod: &Pod| pod.trouble.is_none() && pod.guard.is_none();
    let moves = |(name, member): &(&MemberName, &Member)| {
        member.stage == Stage::Joining && member.id.is_some() && draft.pod(name).is_some_and(is_well)
    };
    draft.record.members.iter().find(moves).map(|(name, _)| name.clone())
}
