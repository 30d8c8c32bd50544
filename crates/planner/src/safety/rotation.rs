//! R19 while an authority takes the place of another one: the new one signs when every member trusts it, and the earlier one is forgotten when
//! nobody presents what it signed. What members trust and present is seen by TLS handshakes, since a member reads the authorities that it trusts
//! once, and the kubelet brings it a leaf late.

use quorate_model::effect::Unsafe;
use quorate_model::record::{Member, Stage};
use quorate_model::rotation::{Handshake, Rotation, RotationStage};
use quorate_model::snapshot::{Authority, Certificates, LeafCertificate};
use quorate_model::{Ca, Fingerprint, Instant, Leaf, MemberName, ObservedObject, Record, Snapshot};

use super::{Judged, Scene, certificates, forbid};
use crate::rotate;

/// C1, C4: whether another authority may take the place of the present one at once: a person ordered it, and no process runs that trusts the present one.
pub fn may_swap(seen: &Snapshot, record: &Record, ca: Ca) -> Judged {
    if !seen.pods.is_empty() {
        forbid(Unsafe::PodsExist)?;
    }
    let is_ordered = seen.unspent_rotation(record).is_some_and(|order| order.ca == ca);
    if is_ordered && record.is_bootstrapped() { Ok(()) } else { forbid(Unsafe::AnotherAuthority) }
}

/// C1: whether a rotation may begin: everything is there, and is what it should be.
pub fn may_begin_rotation(seen: &Snapshot, record: &Record) -> Judged {
    let complete = seen.certificates.as_ref().is_some_and(|certificates| {
        let mut missing = record.leaves().filter(|leaf| !certificates.leaves.contains_key(leaf));
        let may_be_missing = |leaf: Leaf| comes_from_elsewhere(certificates, record, leaf);
        missing.all(may_be_missing) && certificates.leaves.values().all(|leaf| leaf.content.is_ok())
    });
    if complete && record.is_bootstrapped() && record.rotation.is_none() {
        Ok(())
    } else {
        forbid(Unsafe::AnotherAuthority)
    }
}

/// C4: whether the new authority may sign: every member is seen to trust it, and so is whatever starts from now on.
pub fn may_sign_with_new(seen: &Snapshot, record: &Record, now: Instant) -> Judged {
    let (rotation, certificates) = in_stage(seen, record, RotationStage::Trust)?;
    let trust = certificates.to_trust(record, rotation.ca);
    let trusts_all = |leaf: &LeafCertificate| trust.iter().all(|one| leaf.trusted.contains(one));
    if !all_that_exist(certificates, record, rotation, trusts_all) {
        forbid(Unsafe::BundleNotWritten)?;
    }
    are_told(seen, rotation)?;
    let to = certificates.authorities.get(&rotation.ca).and_then(|own| own.with(&rotation.to));
    let to = to.ok_or(Unsafe::AnotherAuthority)?;
    // Without its key it has no leaves but those that came with it.
    if to.keyless && !has_all_leaves(certificates, record, to, now) {
        forbid(Unsafe::OtherSource)?;
    }
    each_member(seen, record, |member| {
        let trusts = shaken(seen, member, rotation.ca).is_some_and(|seen| seen.trusts.contains(&rotation.to));
        if has_trust(seen, record, member) && trusts {
            Ok(())
        } else {
            forbid(Unsafe::NotTrusted(member.clone()))
        }
    })
}

/// C6: whether the earlier authority may be forgotten: every member is seen to present what the new one signed.
pub fn may_drop_earlier(seen: &Snapshot, record: &Record) -> Judged {
    let (rotation, certificates) = in_stage(seen, record, RotationStage::Sign)?;
    certificates::was_reached(seen, record)?;
    let is_signed = |leaf: &LeafCertificate| leaf.signed_by.as_ref() == Some(&rotation.to);
    if !all_leaves(certificates, record, rotation, is_signed) {
        forbid(Unsafe::BundleNotWritten)?;
    }
    are_told(seen, rotation)?;
    each_member(seen, record, |member| {
        let serves = shaken(seen, member, rotation.ca).and_then(|seen| seen.serves.as_ref());
        if serves == Some(&rotation.to) { Ok(()) } else { forbid(Unsafe::EarlierPresented(member.clone())) }
    })
}

/// C3, C5: whether clients can have followed this stage: every Secret that they read has what it is about, and that is recorded, so that their time
/// counts from then.
fn are_told(seen: &Snapshot, rotation: &Rotation) -> Judged {
    match seen.untold(rotation) {
        Some(published) => forbid(Unsafe::NotTold(published.secret.clone())),
        None if rotation.concerns_clients() && rotation.told.is_none() => forbid(Unsafe::BundleNotWritten),
        None => Ok(()),
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

/// C1: a rotation is due or ordered, and the Secret of its authority is lost.
pub(super) fn needs_secret(scene: &Scene<'_>, seen: &Certificates, ca: Ca) -> Judged {
    let is_absent = !seen.authorities.contains_key(&ca);
    let has_signer = scene.record.authority_of(ca).is_some();
    let wanted = rotate::wanted(scene.seen, scene.record, scene.now);
    let is_wanted = wanted.is_ok_and(|wanted| wanted.is_some_and(|wanted| wanted.ca == ca));
    let may_begin = has_signer && is_wanted && may_begin_rotation(scene.seen, scene.record).is_ok();
    if is_absent && (may_begin || may_swap(scene.seen, scene.record, ca).is_ok()) {
        Ok(())
    } else {
        forbid(Unsafe::AnotherAuthority)
    }
}

/// C1: beside the authority that it takes the place of, and before anything is recorded.
pub(super) fn may_make_next(
    scene: &Scene<'_>,
    ca: Ca,
    given: Option<&Fingerprint>,
    observed: &ObservedObject,
) -> Judged {
    certificates::as_observed(scene, ca, observed)?;
    let seen = scene.seen.certificates.as_ref().ok_or(Unsafe::AnotherAuthority)?;
    certificates::is_of_source(scene, seen, ca, given)?;
    if scene.record.rotation.is_some() && may_swap(scene.seen, scene.record, ca).is_err() {
        forbid(Unsafe::AnotherAuthority)?;
    }
    super::may_replace_authority(scene.seen, scene.record, given, scene.now)
}

/// C4: only the recorded authority signs.
pub(super) fn may_arrange(
    scene: &Scene<'_>,
    ca: Ca,
    observed: &ObservedObject,
    signer: &Fingerprint,
) -> Judged {
    let seen = certificates::as_observed(scene, ca, observed)?;
    let rotation = scene.record.rotation.as_ref().filter(|rotation| rotation.ca == ca);
    let keeps_next = rotation.is_none_or(|rotation| rotation.stage != RotationStage::Trust);
    if scene.record.authority_of(ca) == Some(signer) && seen.with(signer).is_some() && keeps_next {
        Ok(())
    } else {
        forbid(Unsafe::AnotherAuthority)
    }
}

/// C2, C6: a bundle is what the record says, and nothing else.
pub(super) fn may_write_trust(
    scene: &Scene<'_>,
    leaf: Leaf,
    observed: &ObservedObject,
    (trust, generation): (&[Fingerprint], u32),
) -> Judged {
    let certificates = scene.seen.certificates.as_ref().ok_or(Unsafe::AnotherAuthority)?;
    let seen = certificates.leaves.get(&leaf);
    if seen.is_none_or(|seen| seen.observed != *observed) || generation != scene.record.trust {
        forbid(Unsafe::AnotherAuthority)?;
    }
    let bundle = certificates.to_trust(scene.record, leaf.ca());
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

/// Whether this authority of clients, which is without its key, has every leaf of its port: as they came with it, or as they are renewed since.
pub(crate) fn has_all_leaves(
    seen: &Certificates,
    record: &Record,
    authority: &Authority,
    now: Instant,
) -> bool {
    let mut leaves = record.leaves().filter(|leaf| leaf.ca() == Ca::Clients);
    leaves.all(|leaf| seen.can_have(leaf, authority, now))
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
