//! L4 to L10: auth is enabled only where the operator goes on to be served, and disabled only by order; no user of an EtcdUser that may exist
//! is revoked.

use quorate_model::auth::{AuthChange, AuthStage, Marked, Orphan, Root, SeenAuth};
use quorate_model::effect::Unsafe;
use quorate_model::snapshot::Pod;
use quorate_model::{Effect, EtcdCall, Leaf, MemberName, Snapshot};

use super::{Judged, Scene, forbid, forbid_if, forbid_unless, is_fresh, list_of};
use crate::View;

pub(super) fn may_change(scene: &Scene<'_>, change: AuthChange, at: &MemberName) -> Judged {
    let view = scene.view();
    list_of(view, at)?;
    match change {
        AuthChange::AddRootUser | AuthChange::AddRootRole | AuthChange::GrantRoot => is_recorded(view),
        AuthChange::RemoveRootUser => may_remove_root(view),
        AuthChange::AddClientRole
        | AuthChange::GrantClientKeys
        | AuthChange::AddClientUser
        | AuthChange::GrantClient => may_make_clients(view),
        AuthChange::RemoveClientUser | AuthChange::RemoveClientRole => may_remove_clients(view),
        AuthChange::Enable => may_enable(scene, at),
        AuthChange::Disable => may_disable(view),
    }
}

/// L11: whether clients with the certificate that applications share had their time (R23: by both clocks).
pub(crate) fn clients_had_time(view: View<'_>) -> Judged {
    let go_on = view.record.auth.is_none() || view.seen.do_clients_go_on(view.record, view.now);
    forbid_if(go_on, || Unsafe::ClientsHaveTime)
}

/// L11: only while they have time, and nobody else made the user.
fn may_make_clients(view: View<'_>) -> Judged {
    is_recorded(view)?;
    let go_on = view.seen.do_clients_go_on(view.record, view.now);
    forbid_unless(go_on && are_nobodys(view), || Unsafe::NoClientGrace)
}

/// L11: only once clients had their time, and never what a person made.
fn may_remove_clients(view: View<'_>) -> Judged {
    is_recorded(view)?;
    forbid_unless(are_nobodys(view), || Unsafe::ClientsHaveTime)?;
    clients_had_time(view)
}

/// Whether no person made their user, by what was seen in this pass.
fn are_nobodys(view: View<'_>) -> bool {
    just_seen(view).is_some_and(|seen| seen.clients.are_nobodys())
}

/// L10: only a user that was seen in this pass, and of which the API server said after that that it has no EtcdUser. One at a time.
pub(super) fn may_revoke(scene: &Scene<'_>, user: &Marked, at: &MemberName) -> Judged {
    let view = scene.view();
    list_of(view, at)?;
    forbid_unless(view.record.auth == Some(AuthStage::On), || Unsafe::AuthNotOrdered)?;
    let is_seen = just_seen(view)
        .is_some_and(|seen| seen.enabled && seen.orphans.get(user) == Some(&Orphan::Confirmed));
    let is_other = |effect: &Effect| match effect.as_etcd() {
        Some(EtcdCall::DeleteUser { user: other } | EtcdCall::DeleteRole { user: other }) => other != user,
        Some(_) | None => false,
    };
    let stays = view.seen.auth_policy.keeps_orphans || scene.before.iter().any(is_other);
    forbid_if(stays || !is_seen, || Unsafe::NotAnOrphan(user.user()))
}

/// Whether every Pod of a member has the operator's credential.
pub(crate) fn all_have_credential(seen: &Snapshot) -> Judged {
    let lacks = |(_, pod): &(&MemberName, &Pod)| !pod.has_credential && !pod.finished;
    let lacking = seen.pods.iter().find(lacks);
    lacking.map_or(Ok(()), |(member, _)| forbid(Unsafe::LacksCredential(member.clone())))
}

fn is_recorded(view: View<'_>) -> Judged {
    forbid_if(view.record.auth.is_none(), || Unsafe::AuthNotOrdered)
}

/// Only to make it anew. With auth on it is the operator itself.
fn may_remove_root(view: View<'_>) -> Judged {
    is_recorded(view)?;
    forbid_unless(just_seen(view).is_some_and(|seen| !seen.enabled), || Unsafe::NoRootUser)
}

fn may_enable(scene: &Scene<'_>, at: &MemberName) -> Judged {
    let view = scene.view();
    forbid_unless(view.record.auth == Some(AuthStage::On), || Unsafe::AuthNotOrdered)?;
    all_have_credential(view.seen)?;
    let is_ready = just_seen(view).is_some_and(|seen| seen.root == Root::Ready);
    // A certificate of root that members take.
    let is_root = view.seen.has_usable(view.record, Leaf::Operator, view.now);
    forbid_unless(is_ready && is_root, || Unsafe::NoRootUser)?;
    forbid_unless(is_root_new(scene.before, at), || Unsafe::RootNotNew)?;
    // What was on before is enabled again: its users were those of an auth that was on, and meanwhile all keys are open.
    let begins = view.seen.record.auth != Some(AuthStage::On);
    let any_other = view.seen.etcd.auth.as_ref().is_some_and(|seen| !seen.others.is_empty());
    forbid_if(begins && any_other, || Unsafe::OthersAreRoot)
}

/// Whether what comes right before, at the same member, makes the user root anew. The first call that fails ends the plan.
fn is_root_new(before: &[Effect], at: &MemberName) -> bool {
    let anew = [AuthChange::RemoveRootUser, AuthChange::AddRootUser, AuthChange::GrantRoot];
    let last = &before[before.len().saturating_sub(anew.len())..];
    let changes = |effect: &Effect, wanted: AuthChange| match effect {
        Effect::Etcd { at: member, call: EtcdCall::Auth { change }, .. } => member == at && *change == wanted,
        Effect::Etcd { .. } | Effect::Kube { .. } => false,
    };
    last.len() == anew.len() && last.iter().zip(anew).all(|(effect, wanted)| changes(effect, wanted))
}

fn may_disable(view: View<'_>) -> Judged {
    forbid_unless(view.seen.is_auth_ordered_off(view.record), || Unsafe::AuthNotOrdered)?;
    super::may_disable_auth(view.seen)
}

/// What was seen of auth in this pass.
fn just_seen(view: View<'_>) -> Option<&SeenAuth> {
    view.seen.etcd.auth.as_ref().filter(|seen| is_fresh(seen.at, view.now))
}
