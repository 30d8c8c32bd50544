//! Whether a change is under way, which, and what it waits for.

use quorate_api::{Explanation, Reason};
use quorate_model::effect::Boot;
use quorate_model::{Effect, KubeEffect, Waiting};

use super::Finding;
use crate::status::explain;
use crate::status::picture::Picture;

pub(super) fn find(picture: &Picture<'_>) -> Finding {
    if picture.seen.deleting {
        if let Some(backup) = picture.waits(final_backup) {
            return Finding::yes(backup.reason(), or_both(backup.message(), &picture.next_step()));
        }
        return Finding::yes(Reason::Deleting, or(picture.next_step(), "the cluster is being deleted"));
    }
    if let Some(halt) = picture.waits(|waiting| halted(waiting, picture)) {
        return halt;
    }
    if let Some(why) = picture.recovers() {
        return Finding { holds: Some(true), why };
    }
    if let Some(makes_way) = picture.makes_way() {
        return Finding { holds: Some(true), why: makes_way };
    }
    if !picture.record.is_bootstrapped() {
        return bootstrapping(picture);
    }
    if picture.record.hibernating {
        return if picture.seen.pods.is_empty() {
            Finding::no(Reason::Hibernated, "the cluster is at size zero and its volumes are kept")
        } else {
            Finding::yes(Reason::Hibernating, or(picture.next_step(), "Pods are being stopped"))
        };
    }
    under_way(picture).unwrap_or_else(|| at_rest(picture))
}

/// The operator does nothing, because it is paused or because a person must decide first.
fn halted(waiting: &Waiting, picture: &Picture<'_>) -> Option<Finding> {
    let halts = match waiting {
        Waiting::Paused
        | Waiting::StatusFromNewerVersion(_)
        | Waiting::SplitBrain(_)
        | Waiting::WrongMember { .. }
        | Waiting::ExistingData { .. }
        | Waiting::AdoptionRefused(..)
        | Waiting::EarlierDataGone { .. }
        | Waiting::RestoredWithoutData(_)
        | Waiting::AdoptionDiffers { .. }
        | Waiting::NoSnapshot(_)
        | Waiting::UnknownPods(_) => true,
        Waiting::ForeignObjects(_) => !picture.record.is_bootstrapped(),
        Waiting::Objects
        | Waiting::AuthorityLost { .. }
        | Waiting::AuthorityEnded(_)
        | Waiting::Clearing(_)
        | Waiting::PodStarting(_)
        | Waiting::PodStuck(..)
        | Waiting::PodStopping(_)
        | Waiting::VolumeGoing(_)
        | Waiting::VolumeLost(_)
        | Waiting::Quorum { .. }
        | Waiting::FirstLeader
        | Waiting::Restoring(..)
        | Waiting::RestoreFailed(..)
        | Waiting::InSync(_)
        | Waiting::Sick(..)
        | Waiting::LeadershipStays { .. }
        | Waiting::LearnersFailed { .. }
        | Waiting::UnmanagedMember(..)
        | Waiting::UpgradeBackup(_)
        | Waiting::UpgradeBackupFailed(_)
        | Waiting::FinalBackup(_)
        | Waiting::NoFinalBackup(_)
        | Waiting::VersionRefused(_)
        | Waiting::SafePoint(_)
        | Waiting::Unsafe(_)
        | Waiting::MayBeLost { .. }
        | Waiting::Undecided { .. }
        | Waiting::ClaimPending { .. }
        | Waiting::ReplacementOff { .. }
        | Waiting::ReplacementFailed { .. }
        | Waiting::Downgrading(_)
        | Waiting::Wave(_)
        | Waiting::Defragmenting(_)
        | Waiting::StillFull { .. }
        | Waiting::OrderWaits(..)
        | Waiting::Replacing(_)
        | Waiting::OldMemberStays { .. }
        | Waiting::Recovering { .. }
        | Waiting::RecoveryRefused(_)
        | Waiting::MayRun { .. }
        | Waiting::NotRead { .. }
        | Waiting::VolumeGrowing(_) => false,
    };
    halts.then(|| Finding::because(explain(waiting)))
}

fn bootstrapping(picture: &Picture<'_>) -> Finding {
    let record = picture.record;
    if record.abandoned.is_some() {
        return Finding::yes(Reason::BootstrapAbandoned, picture.next_step());
    }
    if record.members.is_empty() && picture.seen.desired.size == 0 {
        return Finding::no(Reason::Hibernated, "spec.size is zero: the cluster is not bootstrapped");
    }
    Finding::yes(Reason::Bootstrapping, or(picture.next_step(), "the first members are being started"))
}

fn under_way(picture: &Picture<'_>) -> Option<Finding> {
    let restarts =
        |effect: &Effect| matches!(effect.as_kube(), Some(KubeEffect::CreatePod { boot: Boot::Resume, .. }));
    let moves = |waiting: &Waiting| matches!(waiting, Waiting::PodStarting(_) | Waiting::PodStopping(_));
    let restarting = picture.plan.effects.iter().any(restarts) || picture.plan.waiting.iter().any(moves);
    let reason = if picture.is_coming_up() {
        if picture.is_waking() { Reason::Waking } else { Reason::Bootstrapping }
    } else if !picture.has_quorum() {
        return restarting.then(|| Finding::yes(Reason::Restarting, picture.next_step()));
    } else if picture.plan.record.defragmenting.is_some() {
        Reason::Defragmenting
    } else if picture.record.replacement.is_some() {
        Reason::Replacing
    } else if picture.is_scaling() {
        Reason::Scaling
    } else if picture.waits(|waiting| matches!(waiting, Waiting::Downgrading(_)).then_some(())).is_some() {
        Reason::Downgrading
    } else if picture.waits(|waiting| matches!(waiting, Waiting::UpgradeBackup(_)).then_some(())).is_some() {
        Reason::UpgradeBackupRunning
    } else if !picture.stale().is_empty() {
        Reason::RollingOut
    } else if restarting {
        Reason::Restarting
    } else {
        return None;
    };
    Some(Finding::yes(reason, or(picture.next_step(), "members are starting")))
}

/// Nothing is being done: the cluster matches its spec, or the operator cannot correct what is wrong.
fn at_rest(picture: &Picture<'_>) -> Finding {
    // What only a person can decide comes before the member that is sick for the same reason.
    let undecided = picture.waits(|waiting| matches!(waiting, Waiting::Undecided { .. }).then_some(waiting));
    if let Some(held_up) = undecided.or_else(|| picture.waits(holds_up)) {
        return Finding::because(explain(held_up));
    }
    match picture.refused {
        Some(invalid) => Finding::no(Reason::SpecInvalid, invalid.to_string()),
        None => Finding::no(Reason::Reconciled, "the cluster matches its spec"),
    }
}

fn holds_up(waiting: &Waiting) -> Option<&Waiting> {
    let lasts = match waiting {
        Waiting::Quorum { .. }
        | Waiting::VolumeLost(_)
        | Waiting::Sick(..)
        | Waiting::PodStuck(..)
        | Waiting::ForeignObjects(_)
        | Waiting::UpgradeBackupFailed(_)
        | Waiting::VersionRefused(_)
        | Waiting::SafePoint(_)
        | Waiting::LeadershipStays { .. }
        | Waiting::LearnersFailed { .. }
        | Waiting::UnmanagedMember(..)
        | Waiting::Unsafe(_)
        | Waiting::AuthorityLost { .. }
        | Waiting::AuthorityEnded(_)
        | Waiting::MayBeLost { .. }
        | Waiting::Undecided { .. }
        | Waiting::ReplacementOff { .. }
        | Waiting::ReplacementFailed { .. }
        | Waiting::Wave(_)
        | Waiting::Objects
        | Waiting::StillFull { .. }
        | Waiting::OrderWaits(..)
        | Waiting::RecoveryRefused(_)
        | Waiting::VolumeGrowing(_) => true,
        Waiting::UpgradeBackup(_)
        | Waiting::FinalBackup(_)
        | Waiting::NoFinalBackup(_)
        | Waiting::Paused
        | Waiting::StatusFromNewerVersion(_)
        | Waiting::ExistingData { .. }
        | Waiting::AdoptionRefused(..)
        | Waiting::EarlierDataGone { .. }
        | Waiting::RestoredWithoutData(_)
        | Waiting::AdoptionDiffers { .. }
        | Waiting::UnknownPods(_)
        | Waiting::SplitBrain(_)
        | Waiting::WrongMember { .. }
        | Waiting::Clearing(_)
        | Waiting::PodStarting(_)
        | Waiting::PodStopping(_)
        | Waiting::VolumeGoing(_)
        | Waiting::FirstLeader
        | Waiting::NoSnapshot(_)
        | Waiting::Restoring(..)
        | Waiting::RestoreFailed(..)
        | Waiting::ClaimPending { .. }
        | Waiting::Downgrading(_)
        | Waiting::InSync(_)
        | Waiting::Replacing(_)
        | Waiting::OldMemberStays { .. }
        | Waiting::Recovering { .. }
        | Waiting::MayRun { .. }
        | Waiting::NotRead { .. }
        | Waiting::Defragmenting(_) => false,
    };
    lasts.then_some(waiting)
}

fn or(text: String, otherwise: &str) -> String {
    if text.is_empty() { otherwise.to_owned() } else { text }
}

/// The backup before the end of the cluster: what it waits for, or why it is missing.
fn final_backup(waiting: &Waiting) -> Option<Explanation> {
    matches!(waiting, Waiting::FinalBackup(_) | Waiting::NoFinalBackup(_)).then(|| explain(waiting))
}

/// The first text, and the second where it says more.
fn or_both(first: &str, second: &str) -> String {
    if first == second { first.to_owned() } else { format!("{first}. {second}") }
}
