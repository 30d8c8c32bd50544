//! L4 to L9: auth is enabled only where the operator goes on to be served, and disabled only by order.

use quorate_model::auth::{AuthChange, AuthStage, Root, SeenAuth};
use quorate_model::effect::Unsafe;
use quorate_model::snapshot::Pod;
use quorate_model::{Leaf, MemberName, Snapshot};

use super::{Judged, Scene, forbid, fresh_list, is_fresh};

pub(super) fn may_change(scene: &Scene<'_>, change: AuthChange, at: &MemberName) -> Judged {
    if fresh_list(scene.seen, scene.now)?.via != *at {
        forbid(Unsafe::NoFreshList)?;
    }
    match change {
        AuthChange::AddRootUser | AuthChange::AddRootRole | AuthChange::GrantRoot => is_recorded(scene),
        AuthChange::Enable => may_enable(scene),
        AuthChange::Disable => may_disable(scene),
    }
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

fn may_enable(scene: &Scene<'_>) -> Judged {
    if scene.record.auth != Some(AuthStage::On) {
        forbid(Unsafe::AuthNotOrdered)?;
    }
    all_have_credential(scene.seen)?;
    let is_ready = |seen: SeenAuth| is_fresh(seen.at, scene.now) && seen.root == Root::Ready;
    // A certificate of root that members take.
    let is_root = scene.seen.has_usable(scene.record, Leaf::Operator, scene.now);
    if scene.seen.etcd.auth.is_none_or(|seen| !is_ready(seen)) || !is_root {
        forbid(Unsafe::NoRootUser)?;
    }
    Ok(())
}

fn may_disable(scene: &Scene<'_>) -> Judged {
    if !scene.seen.is_auth_ordered_off(scene.record) {
        forbid(Unsafe::AuthNotOrdered)?;
    }
    super::may_disable_auth(scene.seen)
}
