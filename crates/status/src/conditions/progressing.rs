//! Whether a change is under way, which, and what it waits for.

use quorate_api::{Explanation, Reason};
use quorate_model::effect::Boot;
use quorate_model::{Effect, KubeEffect, Waiting};

use super::Finding;
use crate::picture::Picture;
use crate::waiting::{Stops, explain, stops};

pub(super) fn find(picture: &Picture<'_>) -> Finding {
    if picture.seen.deleting {
        if let Some(backup) = picture.waits(final_backup) {
            return Finding::yes(backup.reason(), or_both(backup.message(), &picture.next_step()));
        }
        return Finding::yes(Reason::Deleting, or(picture.next_step(), "the cluster is being deleted"));
    }
    if let Some(waits) = picture.waits(data_store) {
        return Finding { holds: Some(true), why: waits };
    }
    if let Some(halt) = picture.waits(|waiting| halted(waiting, picture)) {
        return halt;
    }
    if let Some(why) = picture.recovers() {
        return Finding { holds: Some(true), why };
    }
    if let Some(restores_in_place) = picture.restores_in_place() {
        return Finding { holds: Some(true), why: restores_in_place };
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
    under_way(picture).unwrap_or_else(|| settled(picture))
}

/// The operator does nothing, because it is paused or because a person must decide first.
fn halted(waiting: &Waiting, picture: &Picture<'_>) -> Option<Finding> {
    let halts = match stops(waiting) {
        Stops::Everything => true,
        Stops::Bootstrap => !picture.record.is_bootstrapped(),
        Stops::NextChange | Stops::Nothing => false,
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
    let moves = |waiting: &Waiting| {
        matches!(waiting, Waiting::PodStarting(_) | Waiting::PodStopping(_) | Waiting::PodStopsLate { .. })
    };
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
fn settled(picture: &Picture<'_>) -> Finding {
    // What only a person can decide comes before the member that is sick for the same reason.
    let is_undecided =
        |waiting: &&Waiting| matches!(waiting, Waiting::Undecided { .. } | Waiting::NotCompared { .. });
    let undecided = picture.waits(|waiting| Some(waiting).filter(is_undecided));
    if let Some(blocking) = undecided.or_else(|| picture.waits(blocks)) {
        return Finding::because(explain(blocking));
    }
    match picture.refused {
        Some(invalid) => Finding::no(Reason::SpecInvalid, invalid.to_string()),
        None => Finding::no(Reason::Reconciled, "the cluster matches its spec"),
    }
}

fn blocks(waiting: &Waiting) -> Option<&Waiting> {
    match stops(waiting) {
        Stops::NextChange | Stops::Bootstrap => Some(waiting),
        // Where everything is stopped, `halted` has reported that.
        Stops::Nothing | Stops::Everything => None,
    }
}

fn or(text: String, otherwise: &str) -> String {
    if text.is_empty() { otherwise.to_owned() } else { text }
}

/// The backup before the end of the cluster: what it waits for, or why it is missing.
fn final_backup(waiting: &Waiting) -> Option<Explanation> {
    matches!(waiting, Waiting::FinalBackup(_) | Waiting::NoFinalBackup(_)).then(|| explain(waiting))
}

/// The DataStore that the deletion waits for.
fn data_store(waiting: &Waiting) -> Option<Explanation> {
    matches!(waiting, Waiting::DataStoreInUse(_)).then(|| explain(waiting))
}

/// The first text, and the second where it says more.
fn or_both(first: &str, second: &str) -> String {
    if first == second { first.to_owned() } else { format!("{first}. {second}") }
}
