//! R24: clients are led away before a member cannot serve them, and never from the last ones that do.

use quorate_model::effect::Unsafe;
use quorate_model::quorum::quorum;
use quorate_model::record::Stage;
use quorate_model::snapshot::CLIENTS_LEAVE_WITHIN;
use quorate_model::{Effect, Instant, KubeEffect, MemberName, Record, Snapshot, Uid};

use super::{Judged, Scene, forbid, fresh_list, its_pod, recorded};

/// Only the Pod of a voter, never that of a learner.
pub(super) fn may_label(scene: &Scene<'_>, member: &MemberName, pod: &Uid) -> Judged {
    if recorded(scene, member)?.stage != Stage::Voter {
        forbid(Unsafe::NotRecorded(member.clone()))?;
    }
    if scene.seen.listed(scene.record, member, scene.now).is_some_and(|listed| listed.is_learner) {
        forbid(Unsafe::NotThatMember(member.clone()))?;
    }
    its_pod(scene, member, pod)
}

/// R11: only on a list of this pass. Without a quorum every member keeps its clients.
pub(super) fn may_lead_away(scene: &Scene<'_>, member: &MemberName, pod: &Uid) -> Judged {
    fresh_list(scene.seen, scene.now)?;
    recorded(scene, member)?;
    its_pod(scene, member, pod)?;
    may_leave_out(scene.seen, scene.record, scene.now, member)
}

/// Whether the client Service may leave a member out: one that leaves, if another one serves; one that stays, if those that clients are
/// led to are a quorum. Then every quorum that may follow has one of them, also where nothing puts the label back: a paused cluster, an
/// operator that is gone.
pub(crate) fn may_leave_out(seen: &Snapshot, record: &Record, now: Instant, member: &MemberName) -> Judged {
    let others = seen.others_that_serve(record, member, now);
    let any_ready = others.iter().any(|other| seen.pods.get(other).is_some_and(|pod| pod.ready));
    let leaves = matches!(record.members.get(member).map(|member| member.stage), Some(Stage::Leaving(_)));
    let listed = seen.list(now).into_iter().flat_map(|list| &list.members);
    let voters = listed.filter(|listed| !listed.is_learner).count();
    if any_ready && (leaves || others.len() >= quorum(voters)) {
        Ok(())
    } else {
        forbid(Unsafe::LastThatServes(member.clone()))
    }
}

/// Whether a member that is removed has no clients any more, as far as the operator can bring that about. A Pod that is not ready gets
/// none.
pub(super) fn is_led_away(scene: &Scene<'_>, member: &MemberName) -> Judged {
    let Some(pod) = scene.seen.pods.get(member).filter(|pod| pod.ready && !pod.terminating) else {
        return Ok(());
    };
    let led_to =
        |write: &KubeEffect| matches!(write, KubeEffect::LabelServes { member: to, .. } if to == member);
    if scene.before.iter().filter_map(Effect::as_kube).any(led_to) {
        forbid(Unsafe::StillServes(member.clone()))?;
    }
    let now = scene.seen.present(scene.now).earliest;
    let until = pod.served_until.filter(|until| !pod.serves && *until <= now);
    if until.is_some_and(|until| now - until >= CLIENTS_LEAVE_WITHIN) {
        Ok(())
    } else {
        forbid(Unsafe::StillServes(member.clone()))
    }
}
