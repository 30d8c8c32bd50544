//! R19 while an authority takes the place of another one: the new one signs when every member trusts it, and the earlier one is forgotten when
//! nobody presents what it signed. What members trust and present is seen by TLS handshakes, since a member reads the authorities that it trusts
//! once, and the kubelet brings it a leaf late.

use quorate_model::effect::Unsafe;
use quorate_model::record::Stage;
use quorate_model::rotation::{Handshake, Rotation, RotationStage};
use quorate_model::snapshot::{Authority, Certificates, LeafCertificate};
use quorate_model::{Ca, Fingerprint, Leaf, MemberName, ObservedObject, Record};

use super::{Judged, certificates, forbid, forbid_if, forbid_unless};
use crate::{View, rotate};

/// C1, C4: whether another authority may take the place of the present one at once: a person ordered it, and no process runs that trusts the present one.
pub fn may_swap(view: View<'_>, ca: Ca) -> Judged {
    forbid_unless(view.seen.pods.is_empty(), || Unsafe::PodsExist)?;
    let is_ordered = view.seen.unspent_rotation(view.record).is_some_and(|order| order.ca == ca);
    forbid_unless(is_ordered && view.record.is_bootstrapped(), || Unsafe::AnotherAuthority)
}

/// C1: whether a rotation may begin: everything is there, and is what it should be.
pub(crate) fn may_begin_rotation(view: View<'_>) -> Judged {
    let View { seen, record, .. } = view;
    let complete = seen.certificates.as_ref().is_some_and(|certificates| {
        let mut missing = record.leaves().filter(|leaf| !certificates.leaves.contains_key(leaf));
        let may_be_missing = |leaf: Leaf| comes_from_elsewhere(certificates, record, leaf);
        missing.all(may_be_missing) && certificates.leaves.values().all(|leaf| leaf.content.is_ok())
    });
    let may_begin = complete && record.is_bootstrapped() && record.rotation.is_none();
    forbid_unless(may_begin, || Unsafe::AnotherAuthority)
}

/// C4: whether the new authority may sign: every member is seen to trust it, and so is whatever starts from now on.
pub fn may_sign_with_new(view: View<'_>) -> Judged {
    let (rotation, certificates) = in_stage(view, RotationStage::Trust)?;
    let trust = certificates.to_trust(view.record, rotation.ca);
    let trusts_all = |leaf: &LeafCertificate| trust.iter().all(|one| leaf.trusted.contains(one));
    let is_written = all_that_exist(certificates, view.record, rotation, trusts_all);
    forbid_unless(is_written, || Unsafe::BundleNotWritten)?;
    are_told(view, rotation)?;
    let to = certificates.authorities.get(&rotation.ca).and_then(|own| own.with(&rotation.to));
    let to = to.ok_or(Unsafe::AnotherAuthority)?;
    // Without its key it has no leaves but those that came with it.
    forbid_if(to.keyless && !has_all_leaves(view, certificates, to), || Unsafe::OtherSource)?;
    each_member(view, |member| {
        let trusts = shaken(view, member, rotation.ca).is_some_and(|seen| seen.trusts.contains(&rotation.to));
        forbid_unless(has_trust(view, member) && trusts, || Unsafe::NotTrusted(member.clone()))
    })
}

/// C6: whether the earlier authority may be forgotten: every member is seen to present what the new one signed.
pub fn may_drop_earlier(view: View<'_>) -> Judged {
    let (rotation, certificates) = in_stage(view, RotationStage::Sign)?;
    certificates::was_reached(view)?;
    let is_signed = |leaf: &LeafCertificate| leaf.signed_by.as_ref() == Some(&rotation.to);
    let is_written =
        view.record.leaves().all(|leaf| is_right(certificates, view.record, rotation, leaf, is_signed));
    forbid_unless(is_written, || Unsafe::BundleNotWritten)?;
    are_told(view, rotation)?;
    each_member(view, |member| {
        let serves = shaken(view, member, rotation.ca).and_then(|seen| seen.serves.as_ref());
        forbid_unless(serves == Some(&rotation.to), || Unsafe::EarlierPresented(member.clone()))
    })
}

/// C3, C5: whether clients can have followed this stage: every Secret that they read has what it is about, and that is recorded, so that their time
/// counts from then.
fn are_told(view: View<'_>, rotation: &Rotation) -> Judged {
    match view.seen.untold(rotation) {
        Some(published) => forbid(Unsafe::NotTold(published.secret.clone())),
        None if rotation.concerns_clients() && rotation.told.is_none() => forbid(Unsafe::BundleNotWritten),
        None => Ok(()),
    }
}

/// C7: whether every member trusts the recorded authority and nothing else.
pub(crate) fn is_dropped(view: View<'_>) -> Judged {
    let (rotation, certificates) = in_stage(view, RotationStage::Drop)?;
    let bundle = rotation.bundle();
    let is_alone = |leaf: &LeafCertificate| leaf.trusted.iter().eq(bundle.iter().copied());
    let is_written = all_that_exist(certificates, view.record, rotation, is_alone);
    forbid_unless(is_written, || Unsafe::BundleNotWritten)?;
    each_member(view, |member| {
        let forgot = shaken(view, member, rotation.ca).is_some_and(|shown| shown.trusts_only(&bundle));
        forbid_unless(has_trust(view, member) && forgot, || Unsafe::NotTrusted(member.clone()))
    })
}

/// C1: a rotation is due or ordered, and the Secret of its authority is lost.
pub(super) fn needs_secret(view: View<'_>, seen: &Certificates, ca: Ca) -> Judged {
    let is_absent = !seen.authorities.contains_key(&ca);
    let has_signer = view.record.authority_of(ca).is_some();
    let is_wanted = rotate::wanted(view).is_ok_and(|wanted| wanted.is_some_and(|wanted| wanted.ca == ca));
    let may_begin = has_signer && is_wanted && may_begin_rotation(view).is_ok();
    let needs_it = is_absent && (may_begin || may_swap(view, ca).is_ok());
    forbid_unless(needs_it, || Unsafe::AnotherAuthority)
}

/// C1: beside the authority that it takes the place of, and before anything is recorded.
pub(super) fn may_make_next(
    view: View<'_>,
    ca: Ca,
    given: Option<&Fingerprint>,
    observed: &ObservedObject,
) -> Judged {
    certificates::as_observed(view, ca, observed)?;
    let seen = view.seen.certificates.as_ref().ok_or(Unsafe::AnotherAuthority)?;
    certificates::is_of_source(view, seen, ca, given)?;
    let rotates = view.record.rotation.is_some() && may_swap(view, ca).is_err();
    forbid_if(rotates, || Unsafe::AnotherAuthority)?;
    super::may_replace_authority(view, given)
}

/// C4: only the recorded authority signs.
pub(super) fn may_arrange(view: View<'_>, ca: Ca, observed: &ObservedObject, signer: &Fingerprint) -> Judged {
    let seen = certificates::as_observed(view, ca, observed)?;
    let rotation = view.record.rotation.as_ref().filter(|rotation| rotation.ca == ca);
    let keeps_next = rotation.is_none_or(|rotation| rotation.stage != RotationStage::Trust);
    let signs = view.record.authority_of(ca) == Some(signer) && seen.with(signer).is_some();
    forbid_unless(signs && keeps_next, || Unsafe::AnotherAuthority)
}

/// C2, C6: a bundle is what the record says, and nothing else.
pub(super) fn may_write_trust(
    view: View<'_>,
    leaf: Leaf,
    observed: &ObservedObject,
    (trust, generation): (&[Fingerprint], u32),
) -> Judged {
    let certificates = view.seen.certificates.as_ref().ok_or(Unsafe::AnotherAuthority)?;
    let is_observed = certificates.leaves.get(&leaf).is_some_and(|seen| seen.observed == *observed);
    forbid_unless(is_observed && generation == view.record.trust, || Unsafe::AnotherAuthority)?;
    let bundle = certificates.to_trust(view.record, leaf.ca());
    forbid_unless(!bundle.is_empty() && trust.iter().eq(bundle), || Unsafe::OtherBundle)
}

/// The rotation and the Secrets, if it is in this stage.
fn in_stage(view: View<'_>, stage: RotationStage) -> Result<(&Rotation, &Certificates), Unsafe> {
    let rotation = view.record.rotation.as_ref().filter(|rotation| rotation.stage == stage);
    rotation.zip(view.seen.certificates.as_ref()).ok_or(Unsafe::AnotherAuthority)
}

/// Whether the Secret of each leaf is right, but of those that do not exist and that nothing here can make: whoever holds none has nothing to be
/// told.
fn all_that_exist(
    seen: &Certificates,
    record: &Record,
    rotation: &Rotation,
    is_so: impl Fn(&LeafCertificate) -> bool,
) -> bool {
    let is_missing =
        |leaf: &Leaf| !seen.leaves.contains_key(leaf) && comes_from_elsewhere(seen, record, *leaf);
    let mut leaves = record.leaves().filter(|leaf| !is_missing(leaf));
    leaves.all(|leaf| is_right(seen, record, rotation, leaf, &is_so))
}

/// Whether the Secret of a leaf has the generation of trust and, if it is one of the port, is so.
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
pub(crate) fn has_all_leaves(view: View<'_>, seen: &Certificates, authority: &Authority) -> bool {
    let mut leaves = view.record.leaves().filter(|leaf| leaf.ca() == Ca::Clients);
    leaves.all(|leaf| seen.can_have(leaf, authority, view.now))
}

/// Whether nothing here can make this leaf, as the recorded authority has its key somewhere else. The next authority makes it, or brings it.
fn comes_from_elsewhere(seen: &Certificates, record: &Record, leaf: Leaf) -> bool {
    let is_recorded = |own: &Authority| record.authority.as_ref() == Some(&own.fingerprint);
    leaf.ca() == Ca::Clients && seen.keyless().is_some_and(is_recorded)
}

/// Every member that is recorded, and every other Pod: a member without one starts with what its Secrets have then, and until it does
/// nobody knows what still runs of it.
fn each_member(view: View<'_>, judge: impl Fn(&MemberName) -> Judged) -> Judged {
    let View { seen, record, .. } = view;
    // One that leaves and has no Pod any more starts never again.
    let stays = |name: &&MemberName| {
        let leaves = matches!(view.stage_of(name), Some(Stage::Leaving(_)));
        !record.hibernating && (!leaves || view.pod(name).is_some())
    };
    let members = record.members.keys().filter(stays);
    let others = seen.pods.keys().filter(|pod| record.hibernating || view.recorded(pod).is_none());
    members.chain(others).try_for_each(judge)
}

fn has_trust(view: View<'_>, member: &MemberName) -> bool {
    view.pod(member).is_some_and(|pod| pod.trust >= view.record.trust)
}

fn shaken<'a>(view: View<'a>, member: &MemberName, ca: Ca) -> Option<&'a Handshake> {
    view.seen.etcd.handshakes.get(&(member.clone(), ca))
}
