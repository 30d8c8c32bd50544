//! L4 to L10: auth is enabled only where the operator goes on to be served, and disabled only by order; no user of an EtcdUser that may exist
//! is revoked.

use quorate_model::auth::{AuthChange, AuthStage, Marked, Orphan, Root, SeenAuth};
use quorate_model::effect::Unsafe;
use quorate_model::snapshot::Pod;
use quorate_model::{Effect, EtcdCall, Instant, Leaf, MemberName, Record, Snapshot};

use super::{Judged, Scene, forbid, fresh_list, is_fresh};

pub(super) fn may_change(scene: &Scene<'_>, change: AuthChange, at: &MemberName) -> Judged {
    if fresh_list(scene.seen, scene.now)?.via != *at {
        forbid(Unsafe::NoFreshList)?;
    }
    match change {
        AuthChange::AddRootUser | AuthChange::AddRootRole | AuthChange::GrantRoot => is_recorded(scene),
        AuthChange::RemoveRootUser => may_remove_root(scene),
        AuthChange::AddClientRole
        | AuthChange::GrantClientKeys
        | AuthChange::AddClientUser
        | AuthChange::GrantClient => may_make_clients(scene),
        AuthChange::RemoveClientUser | AuthChange::RemoveClientRole => may_remove_clients(scene),
        AuthChange::Enable => may_enable(scene, at),
        AuthChange::Disable => may_disable(scene),
    }
}

/// L11: whether clients with the certificate that applications share had their time (R23: by both clocks).
pub(crate) fn clients_had_time(seen: &Snapshot, record: &Record, now: Instant) -> Judged {
    if record.auth.is_none() || seen.do_clients_go_on(record, now) {
        forbid(Unsafe::ClientsHaveTime)?;
    }
    Ok(())
}

/// L11: only while they have time, and nobody else made the user.
fn may_make_clients(scene: &Scene<'_>) -> Judged {
    is_recorded(scene)?;
    if !scene.seen.do_clients_go_on(scene.record, scene.now) || !are_nobodys(scene) {
        forbid(Unsafe::NoClientGrace)?;
    }
    Ok(())
}

/// L11: only once clients had their time, and never what a person made.
fn may_remove_clients(scene: &Scene<'_>) -> Judged {
    is_recorded(scene)?;
    if !are_nobodys(scene) {
        forbid(Unsafe::ClientsHaveTime)?;
    }
    clients_had_time(scene.seen, scene.record, scene.now)
}

/// Whether no person made their user, by what was seen in this pass.
fn are_nobodys(scene: &Scene<'_>) -> bool {
    let is_so = |seen: &SeenAuth| is_fresh(seen.at, scene.now) && seen.clients.are_nobodys();
    scene.seen.etcd.auth.as_ref().is_some_and(is_so)
}

/// L10: only a user that was seen in this pass, and of which the API server said after that that it has no EtcdUser. One at a time.
pub(super) fn may_revoke(scene: &Scene<'_>, user: &Marked, at: &MemberName) -> Judged {
    if fresh_list(scene.seen, scene.now)?.via != *at {
        forbid(Unsafe::NoFreshList)?;
    }
    if scene.record.auth != Some(AuthStage::On) {
        forbid(Unsafe::AuthNotOrdered)?;
    }
    let is_seen = |seen: &SeenAuth| {
        let is_orphan = seen.orphans.get(user) == Some(&Orphan::Confirmed);
        is_fresh(seen.at, scene.now) && seen.enabled && is_orphan
    };
    let is_other = |effect: &Effect| match effect.as_etcd() {
        Some(EtcdCall::DeleteUser { user: other } | EtcdCall::DeleteRole { user: other }) => other != user,
        Some(_) | None => false,
    };
    let stays = scene.seen.auth_policy.keeps_orphans || scene.before.iter().any(is_other);
    if stays || !scene.seen.etcd.auth.as_ref().is_some_and(is_seen) {
        forbid(Unsafe::NotAnOrphan(user.user()))?;
    }
    Ok(())
}

/// Whether every Pod of a member has the operator's credential.
pub(crate) fn all_have_credential(seen: &Snapshot) -> Judged {
    let lacks = |(_, pod): &(&MemberName, &Pod)| !pod.has_credential && !pod.finished;
    match seen.pods.iter().find(lacks) {
        Some((member, _)) => forbid(Unsafe::LacksCredential(member.clone())),
        None => Ok(()),
    }
}

fn is_recorded(scene: &Scene<'_>) -> Judged {
    if scene.record.auth.is_some() { Ok(()) } else { forbid(Unsafe::AuthNotOrdered) }
}

/// Only to make it anew. With auth on it is the operator itself.
fn may_remove_root(scene: &Scene<'_>) -> Judged {
    is_recorded(scene)?;
    let is_off = |seen: &SeenAuth| is_fresh(seen.at, scene.now) && !seen.enabled;
    if scene.seen.etcd.auth.as_ref().is_some_and(is_off) { Ok(()) } else { forbid(Unsafe::NoRootUser) }
}

fn may_enable(scene: &Scene<'_>, at: &MemberName) -> Judged {
    if scene.record.auth != Some(AuthStage::On) {
        forbid(Unsafe::AuthNotOrdered)?;
    }
    all_have_credential(scene.seen)?;
    let is_ready = |seen: &SeenAuth| is_fresh(seen.at, scene.now) && seen.root == Root::Ready;
    // A certificate of root that members take.
    let is_root = scene.seen.has_usable(scene.record, Leaf::Operator, scene.now);
    if scene.seen.etcd.auth.as_ref().is_none_or(|seen| !is_ready(seen)) || !is_root {
        forbid(Unsafe::NoRootUser)?;
    }
    if !is_root_new(scene.before, at) {
        forbid(Unsafe::RootNotNew)?;
    }
    // What was on before is enabled again: its users were those of an auth that was on, and meanwhile all keys are open.
    let begins = scene.seen.record.auth != Some(AuthStage::On);
    if begins && scene.seen.etcd.auth.as_ref().is_some_and(|seen| !seen.others.is_empty()) {
        forbid(Unsafe::OthersAreRoot)?;
    }
    Ok(())
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

fn may_disable(scene: &Scene<'_>) -> Judged {
    if !scene.seen.is_auth_ordered_off(scene.record) {
        forbid(Unsafe::AuthNotOrdered)?;
    }
    super::may_disable_auth(scene.seen)
}
