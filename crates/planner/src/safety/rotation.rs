//! R19 while an authority takes the place of another one: the new one signs when every member trusts it, and the earlier one is forgotten when
//! nobody presents what it signed. What members trust and present is seen by TLS handshakes, since a member reads the authorities that it trusts
//! once, and the kubelet brings it a leaf late.

use quorate_model::effect::{AuthorityPlace, Unsafe};
use quorate_model::record::{Member, Stage};
use quorate_model::rotation::{Handshake, Rotation, RotationStage};
use quorate_model::snapshot::{Authority, Certificates, LeafCertificate};
use quorate_model::{Ca, Fingerprint, Instant, Leaf, MemberName, Record, Snapshot, Uid};

use super::{Judged, Scene, certificates, forbid};
use crate::rotate;

/// How many authorities are trusted at most beside the two of a rotation. Where others come faster than they are copied, a person has to look.
const MOST_EARLIER: usize = 4;

/// Whether the new authority was lost when it signed, and another order is given: a rotation from it to a third one takes the place of the
/// present one, which never ends by itself.
pub(crate) fn is_ordered_anew(seen: &Snapshot, record: &Record) -> bool {
    let rotation = record.rotation.as_ref().filter(|rotation| rotation.stage == RotationStage::Sign);
    rotation.is_some_and(|rotation| {
        let secret = seen.certificates.as_ref().and_then(|own| own.authorities.get(&rotation.ca));
        let is_lost = secret.is_none_or(|secret| secret.with(&rotation.to).is_none());
        is_lost && seen.unspent_rotation(record).is_some_and(|order| order.ca == rotation.ca)
    })
}

/// C1, C4: whether another authority may take the place of the present one at once: a person ordered it, and no process runs that trusts the present one.
pub fn may_swap(seen: &Snapshot, record: &Record, ca: Ca) -> Judged {
    super::clocks_agree(seen)?;
    if !seen.pods.is_empty() {
        forbid(Unsafe::PodsExist)?;
    }
    let is_ordered = seen.unspent_rotation(record).is_some_and(|order| order.ca == ca);
    if is_ordered && record.is_bootstrapped() { Ok(()) } else { forbid(Unsafe::AnotherAuthority) }
}

/// C1: whether a rotation may begin: everything is there, and is what it should be.
pub fn may_begin_rotation(seen: &Snapshot, record: &Record) -> Judged {
    super::clocks_agree(seen)?;
    let complete = seen.certificates.as_ref().is_some_and(|certificates| {
        let mut missing = record.leaves().filter(|leaf| !certificates.leaves.contains_key(leaf));
        let may_be_missing = |leaf: Leaf| comes_from_elsewhere(certificates, record, leaf);
        missing.all(may_be_missing) && certificates.leaves.values().all(|leaf| leaf.content.is_ok())
    });
    let is_free = record.rotation.is_none() || is_ordered_anew(seen, record);
    if complete && record.is_bootstrapped() && is_free { Ok(()) } else { forbid(Unsafe::AnotherAuthority) }
}

/// C4: whether the new authority may sign: every member is seen to trust it, and so is whatever starts from now on.
pub fn may_sign_with_new(seen: &Snapshot, record: &Record, now: Instant) -> Judged {
    super::clocks_agree(seen)?;
    let (rotation, certificates) = in_stage(seen, record, RotationStage::Trust)?;
    let trust = seen.to_trust(certificates, record, rotation.ca);
    let trusts_all = |leaf: &LeafCertificate| trust.iter().all(|one| leaf.trusted.contains(one));
    if !all_that_exist(certificates, record, rotation, trusts_all) {
        forbid(Unsafe::BundleNotWritten)?;
    }
    super::tenants::may_go_on(seen, rotation)?;
    let to = certificates.authorities.get(&rotation.ca).and_then(|own| own.with(&rotation.to));
    let to = to.ok_or(Unsafe::AnotherAuthority)?;
    // Without its key it has no leaves but those that came with it.
    if to.keyless && certificates.given_as(&to.fingerprint, record, now).is_none() {
        forbid(Unsafe::OtherSource)?;
    }
    let to_read = || certificates.earlier(rotation).chain([&rotation.to]);
    each_member(seen, record, |member| {
        let trusts = shaken(seen, member, rotation.ca)
            .is_some_and(|seen| to_read().all(|one| seen.trusts.contains(one)));
        if has_trust(seen, record, member) && trusts {
            Ok(())
        } else {
            forbid(Unsafe::NotTrusted(member.clone()))
        }
    })
}

/// C6: whether the earlier authority may be forgotten: every member is seen to present what the new one signed.
pub fn may_drop_earlier(seen: &Snapshot, record: &Record) -> Judged {
    super::clocks_agree(seen)?;
    let (rotation, certificates) = in_stage(seen, record, RotationStage::Sign)?;
    let is_signed = |leaf: &LeafCertificate| leaf.signed_by.as_ref() == Some(&rotation.to);
    if !all_leaves(certificates, record, rotation, is_signed) {
        forbid(Unsafe::BundleNotWritten)?;
    }
    super::tenants::may_go_on(seen, rotation)?;
    each_member(seen, record, |member| {
        let serves = shaken(seen, member, rotation.ca).and_then(|seen| seen.serves.as_ref());
        if serves == Some(&rotation.to) { Ok(()) } else { forbid(Unsafe::EarlierPresented(member.clone())) }
    })
}

/// Whether the new authority may be forgotten in place of the earlier one: nobody presents what it signed.
pub fn may_turn_back(seen: &Snapshot, record: &Record) -> Judged {
    super::clocks_agree(seen)?;
    let rotation = record.rotation.as_ref().filter(|rotation| rotation.stage != RotationStage::Drop);
    let (rotation, certificates) =
        rotation.zip(seen.certificates.as_ref()).ok_or(Unsafe::AnotherAuthority)?;
    // Before C4 nothing can have been signed by it. Where a Secret is gone, nothing of it was in there.
    if rotation.stage == RotationStage::Trust {
        let is_of_new = |leaf| signer(certificates, leaf) == Some(&rotation.to);
        // Where there are earlier ones nothing is forgotten by it.
        let signed = rotation.earlier.is_empty() && of_port(record, rotation).any(is_of_new);
        return if signed { forbid(Unsafe::BundleNotWritten) } else { Ok(()) };
    }
    // The key of the one before, or its word that there is none, is gone from the Secret: only a rotation from it ends well.
    if !rotation.earlier.is_empty() || !nothing_copied(certificates, record, rotation) {
        forbid(Unsafe::BundleNotWritten)?;
    }
    each_member(seen, record, |member| {
        let serves = shaken(seen, member, rotation.ca).and_then(|seen| seen.serves.as_ref());
        if serves == Some(&rotation.from) { Ok(()) } else { forbid(Unsafe::EarlierPresented(member.clone())) }
    })
}

/// C1 in the middle of a rotation: whether yet another authority may take the place of the new one, as that is without its key, some of what it has
/// signed was copied, and the rest cannot be had any more. Nothing is forgotten by that.
pub fn may_pass_on(seen: &Snapshot, record: &Record, now: Instant) -> Judged {
    super::clocks_agree(seen)?;
    let (rotation, certificates) = in_stage(seen, record, RotationStage::Sign)?;
    let to =
        certificates.keyless().filter(|own| own.fingerprint == rotation.to && rotation.ca == Ca::Clients);
    let to = to.ok_or(Unsafe::AnotherAuthority)?;
    let is_lacking = |leaf: Leaf| {
        signer(certificates, leaf) != Some(&rotation.to) && !certificates.can_have(leaf, to, now)
    };
    let may_turn_back = rotation.earlier.is_empty() && nothing_copied(certificates, record, rotation);
    // Where there is no room for one more, one that is trusted already, or one of the operator's own, which signs at once, still ends it.
    let ends_it = match &certificates.given {
        None => true,
        Some(given) => given.usable(record, now).is_ok_and(|next| {
            rotation.from == next.fingerprint || rotation.earlier.contains(&next.fingerprint)
        }),
    };
    let has_room = certificates.earlier(rotation).count() < MOST_EARLIER;
    if of_port(record, rotation).any(is_lacking) && !may_turn_back && (has_room || ends_it) {
        Ok(())
    } else {
        forbid(Unsafe::AnotherAuthority)
    }
}

/// C7: whether every member trusts the recorded authority and nothing else.
pub fn is_dropped(seen: &Snapshot, record: &Record) -> Judged {
    let (rotation, certificates) = in_stage(seen, record, RotationStage::Drop)?;
    let bundle = rotation.bundle();
    let is_alone = |leaf: &LeafCertificate| leaf.trusted.iter().eq(bundle.iter().copied());
    if !all_that_exist(certificates, record, rotation, is_alone) {
        forbid(Unsafe::BundleNotWritten)?;
    }
    each_member(seen, record, |member| {
        let forgot = shaken(seen, member, rotation.ca).is_some_and(|shown| shown.trusts_only(&bundle));
        if has_trust(seen, record, member) && forgot {
            Ok(())
        } else {
            forbid(Unsafe::NotTrusted(member.clone()))
        }
    })
}

/// C1: a rotation is due or ordered, and the Secret of its authority does not exist: that of peers which had none, or one that was lost.
pub(super) fn needs_secret(scene: &Scene<'_>, seen: &Certificates, ca: Ca) -> bool {
    let is_absent = !seen.authorities.contains_key(&ca);
    // Nobody trusts it before it is recorded, and what signed the leaf of peers says until then which one is theirs.
    let has_signer = scene.record.authority_of(scene.seen.signs_for(seen, scene.record, ca)).is_some();
    let wanted = rotate::wanted(scene.seen, scene.record, scene.now);
    let is_wanted = wanted.is_ok_and(|wanted| wanted.is_some_and(|wanted| wanted.ca == ca));
    let may_begin = has_signer && is_wanted && may_begin_rotation(scene.seen, scene.record).is_ok();
    is_absent && (may_begin || may_swap(scene.seen, scene.record, ca).is_ok())
}

/// C1: beside the authority that it takes the place of, and before anything is recorded.
pub(super) fn may_make_next(
    scene: &Scene<'_>,
    (ca, place): (Ca, AuthorityPlace),
    given: Option<&Fingerprint>,
    (secret, version): (&Uid, &str),
) -> Judged {
    super::clocks_agree(scene.seen)?;
    let present = certificates::as_observed(scene, ca, secret, version)?;
    // In the place of the signer only that itself, or where none signs and one is left over whose key is somewhere else.
    let is_left_over = || present.content.as_ref().is_ok_and(|present| present.keyless);
    let is_signer = match scene.record.authority_of(ca) {
        Some(signer) => given == Some(signer),
        None => is_left_over(),
    };
    if is_signer != (place == AuthorityPlace::Signer) {
        forbid(Unsafe::AnotherAuthority)?;
    }
    let seen = scene.seen.certificates.as_ref().ok_or(Unsafe::AnotherAuthority)?;
    certificates::is_of_source(scene, seen, ca, given)?;
    let is_free = scene.record.rotation.is_none()
        || is_ordered_anew(scene.seen, scene.record)
        || may_swap(scene.seen, scene.record, ca).is_ok();
    if is_free {
        return super::may_replace_authority(scene.seen, scene.record, given, scene.now);
    }
    may_pass_on(scene.seen, scene.record, scene.now)
}

/// C4, C7: only the recorded authority signs, and the earlier one is kept as long as the rotation lasts.
pub(super) fn may_arrange(
    scene: &Scene<'_>,
    ca: Ca,
    (secret, version): (&Uid, &str),
    signer: &Fingerprint,
    previous: Option<&Fingerprint>,
) -> Judged {
    let seen = certificates::as_observed(scene, ca, secret, version)?;
    let rotation = scene.record.rotation.as_ref().filter(|rotation| rotation.ca == ca);
    let is_earlier = |one: &Fingerprint| rotation.is_some_and(|rotation| rotation.from == *one);
    let keeps_next = rotation.is_none_or(|rotation| rotation.stage != RotationStage::Trust);
    let is_recorded = scene.record.authority_of(ca) == Some(signer) && seen.with(signer).is_some();
    if is_recorded && keeps_next && previous.is_none_or(is_earlier) {
        Ok(())
    } else {
        forbid(Unsafe::AnotherAuthority)
    }
}

/// C2, C6: a bundle is what the record says, and nothing else.
pub(super) fn may_write_trust(
    scene: &Scene<'_>,
    leaf: Leaf,
    (secret, version): (&Uid, &str),
    (trust, generation): (&[Fingerprint], u32),
) -> Judged {
    let certificates = scene.seen.certificates.as_ref().ok_or(Unsafe::AnotherAuthority)?;
    let seen = certificates.leaves.get(&leaf);
    let is_that = seen.is_some_and(|seen| seen.uid == *secret && seen.resource_version == version);
    if !is_that || generation != scene.record.trust {
        forbid(Unsafe::AnotherAuthority)?;
    }
    let bundle = scene.seen.to_trust(certificates, scene.record, leaf.ca());
    let is_so = !bundle.is_empty() && trust.iter().eq(bundle);
    if is_so { Ok(()) } else { forbid(Unsafe::OtherBundle) }
}

/// The rotation and the Secrets, if it is in this stage.
fn in_stage<'a>(
    seen: &'a Snapshot,
    record: &'a Record,
    stage: RotationStage,
) -> Result<(&'a Rotation, &'a Certificates), Unsafe> {
    let rotation = record.rotation.as_ref().filter(|rotation| rotation.stage == stage);
    rotation.zip(seen.certificates.as_ref()).ok_or(Unsafe::AnotherAuthority)
}

/// Whether the Secret of each leaf has the generation of trust, and each one of the port is so.
fn all_leaves(
    seen: &Certificates,
    record: &Record,
    rotation: &Rotation,
    is_so: impl Fn(&LeafCertificate) -> bool,
) -> bool {
    record.leaves().all(|leaf| is_right(seen, record, rotation, leaf, &is_so))
}

/// The same, without those that do not exist and that nothing here can make: whoever holds none has nothing to be told.
fn all_that_exist(
    seen: &Certificates,
    record: &Record,
    rotation: &Rotation,
    is_so: impl Fn(&LeafCertificate) -> bool,
) -> bool {
    let is_missing =
        |leaf: &Leaf| !seen.leaves.contains_key(leaf) && comes_from_elsewhere(seen, record, *leaf);
    record
        .leaves()
        .filter(|leaf| !is_missing(leaf))
        .all(|leaf| is_right(seen, record, rotation, leaf, &is_so))
}

/// The leaves of the port whose authority is replaced.
fn of_port<'a>(record: &'a Record, rotation: &'a Rotation) -> impl Iterator<Item = Leaf> {
    record.leaves().filter(|leaf| leaf.ca() == rotation.ca)
}

/// What has signed a leaf that exists and can be read.
fn signer(seen: &Certificates, leaf: Leaf) -> Option<&Fingerprint> {
    seen.leaves.get(&leaf)?.content.as_ref().ok()?.signed_by.as_ref()
}

/// Whether every leaf of the port exists, and is of the earlier authority.
fn nothing_copied(seen: &Certificates, record: &Record, rotation: &Rotation) -> bool {
    of_port(record, rotation).all(|leaf| signer(seen, leaf) == Some(&rotation.from))
}

fn is_right(
    seen: &Certificates,
    record: &Record,
    rotation: &Rotation,
    leaf: Leaf,
    is_so: impl Fn(&LeafCertificate) -> bool,
) -> bool {
    let content = seen.leaves.get(&leaf).and_then(|secret| secret.content.as_ref().ok());
    content
        .is_some_and(|content| content.trust >= record.trust && (leaf.ca() != rotation.ca || is_so(content)))
}

/// Whether nothing here can make this leaf, as the recorded authority has its key somewhere else. The next authority makes it, or brings it.
fn comes_from_elsewhere(seen: &Certificates, record: &Record, leaf: Leaf) -> bool {
    let is_recorded = |own: &Authority| record.authority.as_ref() == Some(&own.fingerprint);
    leaf.ca() == Ca::Clients && seen.keyless().is_some_and(is_recorded)
}

/// Every member that is recorded, and every other Pod: a member without one starts with what its Secrets have then, and until it does
/// nobody knows what still runs of it.
fn each_member(seen: &Snapshot, record: &Record, judge: impl Fn(&MemberName) -> Judged) -> Judged {
    // One that leaves and has no Pod any more starts never again.
    let stays = |(name, member): &(&MemberName, &Member)| {
        !record.hibernating && (!matches!(member.stage, Stage::Leaving(_)) || seen.pods.contains_key(*name))
    };
    let members = record.members.iter().filter(stays).map(|(name, _)| name);
    let others = seen.pods.keys().filter(|pod| record.hibernating || !record.members.contains_key(*pod));
    members.chain(others).try_for_each(judge)
}

fn has_trust(seen: &Snapshot, record: &Record, member: &MemberName) -> bool {
    seen.pods.get(member).is_some_and(|pod| pod.trust >= record.trust)
}

fn shaken<'a>(seen: &'a Snapshot, member: &MemberName, ca: Ca) -> Option<&'a Handshake> {
    seen.etcd.handshakes.get(&(member.clone(), ca))
}
