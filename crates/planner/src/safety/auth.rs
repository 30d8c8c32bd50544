//! L4 to L9: auth is enabled only where the operator goes on to be served, and disabled only by order.

use quorate_model::auth::{AuthChange, AuthStage, Root};
use quorate_model::effect::Unsafe;
use quorate_model::snapshot::{Pod, Signing};
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
    let seen = scene.seen.etcd.auth.filter(|seen| is_fresh(seen.at, scene.now));
    if !seen.is_some_and(|seen| seen.root == Root::Ready) || !is_root(scene) {
        forbid(Unsafe::NoRootUser)?;
    }
    Ok(())
}

/// Whether the operator has a certificate of root that members take.
fn is_root(scene: &Scene<'_>) -> bool {
    let Some(certificates) = &scene.seen.certificates else { return false };
    let Some(leaf) = certificates.leaves.get(&Leaf::Operator) else { return false };
    match scene.seen.signing(certificates, scene.record, Leaf::Operator.ca()) {
        Signing::With(_, authority) => leaf.why_unusable(authority, scene.now).is_none(),
        Signing::Lost(_) => leaf.content.is_ok(),
        Signing::ToCreate => false,
    }
}

fn may_disable(scene: &Scene<'_>) -> Judged {
    let policy = scene.seen.auth_policy;
    let is_ordered = !policy.wanted && policy.disable.is_some() && policy.disable == scene.record.cluster_id;
    if is_ordered { Ok(()) } else { forbid(Unsafe::AuthNotOrdered) }
}
