//! Whether a change is under way, which, and what it waits for.

use quorate_api::Reason;
use quorate_model::effect::Boot;
use quorate_model::{Effect, KubeEffect, Waiting};

use super::Finding;
use crate::status::picture::Picture;

pub(super) fn find(picture: &Picture<'_>) -> Finding {
    if picture.seen.deleting {
        return Finding::yes(Reason::Deleting, or(picture.next_step(), "The cluster is being deleted"));
    }
    if let Some(halt) = picture.waits(|waiting| halted(waiting, picture)) {
        return halt;
    }
    if !picture.record.is_bootstrapped() {
        return founding(picture);
    }
    if picture.record.hibernating {
        return if picture.seen.pods.is_empty() {
            Finding::no(Reason::Hibernated, "The cluster is at size zero and its volumes are kept")
        } else {
            Finding::yes(Reason::Hibernating, or(picture.next_step(), "Pods are being stopped"))
        };
    }
    under_way(picture).unwrap_or_else(|| at_rest(picture))
}

/// Nothing goes on, because somebody wants it so or must decide first.
fn halted(waiting: &Waiting, picture: &Picture<'_>) -> Option<Finding> {
    let reason = match waiting {
        Waiting::Paused => Reason::Paused,
        Waiting::SplitBrain(_) => Reason::SplitBrain,
        Waiting::WrongMember { .. } => Reason::UnknownMember,
        Waiting::ExistingData { .. } | Waiting::UnknownPods(_) => Reason::ExistingData,
        Waiting::ForeignObjects(_) if !picture.record.is_bootstrapped() => Reason::ForeignObjects,
        Waiting::ForeignObjects(_)
        | Waiting::Objects
        | Waiting::Clearing(_)
        | Waiting::PodStarting(_)
        | Waiting::PodStuck(..)
        | Waiting::PodStopping(_)
        | Waiting::VolumeGoing(_)
        | Waiting::VolumeLost(_)
        | Waiting::Quorum { .. }
        | Waiting::FirstLeader
        | Waiting::InSync(_)
        | Waiting::Sick(..)
        | Waiting::UnmanagedMember(..)
        | Waiting::VersionRefused(_)
        | Waiting::SafePoint(_)
        | Waiting::Unsafe(_) => return None,
    };
    Some(Finding::no(reason, waiting.to_string()))
}

fn founding(picture: &Picture<'_>) -> Finding {
    let record = picture.record;
    if record.abandoned.is_some() {
        return Finding::yes(Reason::AttemptAbandoned, picture.next_step());
    }
    if record.members.is_empty() && picture.seen.desired.size == 0 {
        return Finding::no(Reason::Hibernated, "Size zero is asked for: nothing is founded");
    }
    Finding::yes(Reason::Bootstrapping, or(picture.next_step(), "The first members are being started"))
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
    } else if picture.is_scaling() {
        Reason::Scaling
    } else if !picture.stale().is_empty() {
        Reason::RollingOut
    } else if restarting {
        Reason::Restarting
    } else {
        return None;
    };
    Some(Finding::yes(reason, or(picture.next_step(), "Members are on the way")))
}

/// Nothing is being done: all is well, or what is wrong is not for us to change.
fn at_rest(picture: &Picture<'_>) -> Finding {
    let held_up = picture.waits(|waiting| {
        let reason = match waiting {
            Waiting::Quorum { .. } => Reason::QuorumLost,
            Waiting::VolumeLost(_) => Reason::VolumeLost,
            Waiting::Sick(..) => Reason::MemberUnhealthy,
            Waiting::PodStuck(..) => Reason::PodStuck,
            Waiting::ForeignObjects(_) => Reason::ForeignObjects,
            Waiting::VersionRefused(_) => Reason::VersionRefused,
            Waiting::SafePoint(_) => Reason::SpecPending,
            Waiting::UnmanagedMember(..) => Reason::UnknownMember,
            Waiting::Unsafe(_) => Reason::Unsafe,
            Waiting::Objects => Reason::CertificatesMissing,
            Waiting::Paused
            | Waiting::ExistingData { .. }
            | Waiting::UnknownPods(_)
            | Waiting::SplitBrain(_)
            | Waiting::WrongMember { .. }
            | Waiting::Clearing(_)
            | Waiting::PodStarting(_)
            | Waiting::PodStopping(_)
            | Waiting::VolumeGoing(_)
            | Waiting::FirstLeader
            | Waiting::InSync(_) => return None,
        };
        Some(Finding::no(reason, waiting.to_string()))
    });
    if let Some(held_up) = held_up {
        return held_up;
    }
    match picture.refused {
        Some(invalid) => Finding::no(Reason::SpecInvalid, invalid.to_string()),
        None => Finding::no(Reason::Reconciled, "Nothing is left to do"),
    }
}

fn or(text: String, otherwise: &str) -> String {
    if text.is_empty() { otherwise.to_owned() } else { text }
}
