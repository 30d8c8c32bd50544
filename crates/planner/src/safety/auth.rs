//! L4 to L9: auth is enabled only where the operator goes on to be served, and disabled only by order.

use quorate_model::auth::{AuthChange, AuthPolicy, AuthStage, Root, SeenAuth};
use quorate_model::effect::Unsafe;
use quorate_model::snapshot::{Pod, Signing};
use quorate_model::{Leaf, MemberName, Record, Snapshot};

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

/// Whether a person has ordered auth off: by the spec, and by an annotation that is not spent.
pub(crate) fn is_ordered_off(seen: &Snapshot, record: &Record) -> bool {
    let AuthPolicy { wanted, disable } = seen.auth_policy;
    !wanted && disable.is_some() && disable == record.cluster_id && disable != record.spent_disable_auth
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
    if scene.seen.etcd.auth.is_none_or(|seen| !is_ready(seen)) || !is_root(scene) {
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
    if is_ordered_off(scene.seen, scene.record) { Ok(()) } else { forbid(Unsafe::AuthNotOrdered) }
}
