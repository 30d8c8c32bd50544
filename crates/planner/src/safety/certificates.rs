//! R19: a cluster has one certificate authority. None is created beside certificates or data of another, and leaves are
//! signed by the recorded one only: members trust what they read when they started. The authority is data, kept as long as
//! volumes are (R10).

use quorate_model::effect::Unsafe;
use quorate_model::snapshot::{AuthoritySecret, Certificates, Signing};
use quorate_model::target::Retention;
use quorate_model::{Fingerprint, Leaf, Uid};

use super::{Judged, Scene, forbid};

/// Only where nothing was signed, and nothing may trust another one.
pub(super) fn may_create_authority(scene: &Scene<'_>) -> Judged {
    super::clocks_agree(scene.seen)?;
    match scene.seen.certificates.as_ref().map(|seen| scene.seen.signing(seen, scene.record)) {
        Some(Signing::ToCreate) => Ok(()),
        Some(Signing::With(..) | Signing::Lost(_)) | None => forbid(Unsafe::AnotherAuthority),
    }
}

/// Only that of this cluster.
pub(super) fn may_keep_authority(scene: &Scene<'_>, secret: &Uid, version: &str) -> Judged {
    let seen = as_observed(scene, secret, version)?;
    let recorded = scene.record.authority.as_ref();
    let is_recorded = seen.content.as_ref().is_ok_and(|found| recorded == Some(&found.fingerprint));
    if is_recorded || is_own(scene, seen) { Ok(()) } else { forbid(Unsafe::AnotherAuthority) }
}

/// Only on deletion of the cluster, and only with all its data.
pub(super) fn may_delete_authority(scene: &Scene<'_>, secret: &Uid, version: &str) -> Judged {
    let seen = as_observed(scene, secret, version)?;
    if !is_own(scene, seen) {
        forbid(Unsafe::AnotherAuthority)?;
    }
    let retain = scene.seen.desired.storage.when_deleted == Retention::Retain;
    let keeps_data = !scene.seen.volumes.is_empty() && retain;
    if !scene.seen.deleting || keeps_data { forbid(Unsafe::AuthorityKept) } else { Ok(()) }
}

/// Where no Secret of the leaf exists.
pub(super) fn may_issue(scene: &Scene<'_>, leaf: Leaf, by: &Fingerprint) -> Judged {
    let seen = signs(scene, by)?;
    if seen.leaves.contains_key(&leaf) { forbid(Unsafe::AnotherAuthority) } else { Ok(()) }
}

/// In place of the leaf that was observed.
pub(super) fn may_renew(
    scene: &Scene<'_>,
    leaf: Leaf,
    by: &Fingerprint,
    secret: &Uid,
    version: &str,
) -> Judged {
    let seen = signs(scene, by)?.leaves.get(&leaf);
    let is_that = seen.is_some_and(|seen| seen.uid == *secret && seen.resource_version == version);
    if is_that { Ok(()) } else { forbid(Unsafe::AnotherAuthority) }
}

/// The Secrets, if this authority is the recorded one and the observed one.
fn signs<'a>(scene: &Scene<'a>, by: &Fingerprint) -> Result<&'a Certificates, Unsafe> {
    super::clocks_agree(scene.seen)?;
    let seen = scene.seen.certificates.as_ref().ok_or(Unsafe::AnotherAuthority)?;
    let signing = scene.seen.signing(seen, scene.record);
    let signs = matches!(&signing, Signing::With(_, authority) if authority.fingerprint == *by);
    if !signs || scene.record.authority.as_ref() != Some(by) {
        forbid(Unsafe::AnotherAuthority)?;
    }
    Ok(seen)
}

/// R3.
fn as_observed<'a>(scene: &Scene<'a>, secret: &Uid, version: &str) -> Result<&'a AuthoritySecret, Unsafe> {
    let seen = scene.seen.certificates.as_ref().and_then(|seen| seen.authority.as_ref());
    let seen = seen.ok_or(Unsafe::AnotherAuthority)?;
    if seen.uid != *secret || seen.resource_version != version {
        forbid(Unsafe::AnotherAuthority)?;
    }
    Ok(seen)
}

fn is_own(scene: &Scene<'_>, secret: &AuthoritySecret) -> bool {
    secret.incarnation.as_ref() == Some(&scene.seen.uid)
}
