//! R24: clients are led away before a member cannot serve them, and never from the last ones that do.

use quorate_model::effect::Unsafe;
use quorate_model::quorum::quorum;
use quorate_model::record::Stage;
use quorate_model::snapshot::CLIENTS_LEAVE_WITHIN;
use quorate_model::{Effect, KubeEffect, MemberName, Uid};

use super::{Judged, Scene, forbid_if, forbid_unless, fresh_list, its_pod, recorded};
use crate::View;

/// Only the Pod of a voter, never that of a learner.
pub(super) fn may_label(view: View<'_>, member: &MemberName, pod: &Uid) -> Judged {
    let is_voter = recorded(view, member)?.stage == Stage::Voter;
    forbid_unless(is_voter, || Unsafe::NotRecorded(member.clone()))?;
    let is_learner = view.listed(member).is_some_and(|listed| listed.is_learner);
    forbid_if(is_learner, || Unsafe::NotThatMember(member.clone()))?;
    its_pod(view, member, pod)
}

/// R11: only on a list of this pass. Without a quorum every member keeps its clients.
pub(super) fn may_lead_away(view: View<'_>, member: &MemberName, pod: &Uid) -> Judged {
    fresh_list(view)?;
    recorded(view, member)?;
    its_pod(view, member, pod)?;
    may_leave_out(view, member)
}

/// Whether the client Service may leave a member out: one that leaves, if another one serves; one that stays, if those that clients are
/// led to are a quorum. Then every quorum that may follow has one of them, also where nothing puts the label back: a paused cluster, an
/// operator that is gone.
pub(crate) fn may_leave_out(view: View<'_>, member: &MemberName) -> Judged {
    let others = view.seen.others_that_serve(view.record, member, view.now);
    let any_ready = others.iter().any(|other| view.pod(other).is_some_and(|pod| pod.ready));
    let leaves = matches!(view.stage_of(member), Some(Stage::Leaving(_)));
    let may = any_ready && (leaves || others.len() >= quorum(view.listed_voters().count()));
    forbid_unless(may, || Unsafe::LastThatServes(member.clone()))
}

/// Whether a member that is removed has no clients any more, as far as the operator can bring that about. A Pod that is not ready gets
/// none.
pub(super) fn is_led_away(scene: &Scene<'_>, member: &MemberName) -> Judged {
    let view = scene.view();
    let Some(pod) = view.pod(member).filter(|pod| pod.ready && !pod.terminating) else {
        return Ok(());
    };
    let led_to =
        |write: &KubeEffect| matches!(write, KubeEffect::LabelServes { member: to, .. } if to == member);
    let is_led_to = scene.before.iter().filter_map(Effect::as_kube).any(led_to);
    let now = view.earliest();
    let until = pod.served_until.filter(|until| !pod.serves && *until <= now);
    let is_over = until.is_some_and(|until| now - until >= CLIENTS_LEAVE_WITHIN);
    forbid_unless(is_over && !is_led_to, || Unsafe::StillServes(member.clone()))
}
