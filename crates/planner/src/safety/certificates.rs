//! R19: a cluster has one certificate authority for clients and one for peers. None is created beside certificates or data of another, and
//! leaves are signed by the recorded one only: members trust what they read when they started. The authorities are data, kept as long
//! as volumes are (R10).

use quorate_model::effect::{AuthorityPlace, Unsafe};
use quorate_model::rotation::RotationStage;
use quorate_model::snapshot::{AuthorityLoss, AuthoritySecret, Certificates, Signing};
use quorate_model::target::Retention;
use quorate_model::{Ca, Fingerprint, Leaf, ObservedObject};

use super::{Judged, forbid, forbid_if, forbid_unless};
use crate::View;

/// Only where nothing was signed, and nothing may trust another one; or again the one that is recorded.
pub(super) fn may_create_authority(
    view: View<'_>,
    ca: Ca,
    place: AuthorityPlace,
    given: Option<&Fingerprint>,
) -> Judged {
    let seen = view.seen.certificates.as_ref().ok_or(Unsafe::AnotherAuthority)?;
    is_of_source(view, seen, ca, given)?;
    super::may_replace_authority(view, given)?;
    if place == AuthorityPlace::Next {
        return super::rotation::needs_secret(view, seen, ca);
    }
    match view.seen.signing(seen, view.record, ca) {
        Signing::ToCreate => Ok(()),
        Signing::Lost(AuthorityLoss::Missing(Some(recorded))) if given == Some(&recorded) => Ok(()),
        Signing::With(..) | Signing::Lost(_) => forbid(Unsafe::AnotherAuthority),
    }
}

/// An authority of clients is that which the spec names, if it names one and that can be taken. That of peers is always made: who has the
/// key of another one could write the log of the members.
pub(super) fn is_of_source(
    view: View<'_>,
    seen: &Certificates,
    ca: Ca,
    given: Option<&Fingerprint>,
) -> Judged {
    let named = seen.given.as_ref().filter(|_| ca == Ca::Clients);
    let is_so = match given {
        None => named.is_none(),
        Some(given) => named.is_some() && seen.given_as(given, view.record, view.now).is_some(),
    };
    forbid_unless(is_so, || Unsafe::OtherSource)
}

/// Only that of this cluster.
pub(super) fn may_keep_authority(view: View<'_>, ca: Ca, observed: &ObservedObject) -> Judged {
    let seen = as_observed(view, ca, observed)?;
    let recorded = view.record.authority_of(ca);
    let is_recorded = seen.content.as_ref().is_ok_and(|found| recorded == Some(&found.fingerprint));
    forbid_unless(is_recorded || is_own(view, seen), || Unsafe::AnotherAuthority)
}

/// Only on deletion of the cluster, and only with all its data.
pub(super) fn may_delete_authority(view: View<'_>, ca: Ca, observed: &ObservedObject) -> Judged {
    let seen = as_observed(view, ca, observed)?;
    forbid_unless(is_own(view, seen), || Unsafe::AnotherAuthority)?;
    let retain = view.seen.desired.storage.when_deleted == Retention::Retain;
    let keeps_data = !view.seen.volumes.is_empty() && retain;
    forbid_if(!view.seen.deleting || keeps_data, || Unsafe::AuthorityKept)
}

/// Where no Secret of the leaf exists.
pub(super) fn may_issue(view: View<'_>, leaf: Leaf, by: &Fingerprint) -> Judged {
    let seen = signs(view, leaf, by)?;
    forbid_if(seen.leaves.contains_key(&leaf), || Unsafe::AnotherAuthority)
}

/// In place of the leaf that was observed.
pub(super) fn may_renew(view: View<'_>, leaf: Leaf, by: &Fingerprint, observed: &ObservedObject) -> Judged {
    let seen = signs(view, leaf, by)?.leaves.get(&leaf);
    forbid_unless(seen.is_some_and(|seen| seen.observed == *observed), || Unsafe::AnotherAuthority)?;
    if leaf == Leaf::Server { was_reached(view) } else { Ok(()) }
}

/// C4: whether the leaf of servers may be of the new authority of clients: a member has answered the operator with what that signed. Members present the
/// new leaf all at once, and what nobody here can verify, or what members refuse, would put all of them out of reach.
pub(crate) fn was_reached(view: View<'_>) -> Judged {
    let View { seen, record, .. } = view;
    let rotation = record.rotation.as_ref().filter(|rotation| rotation.ca == Ca::Clients);
    let Some(rotation) = rotation.filter(|rotation| rotation.stage == RotationStage::Sign) else {
        return Ok(());
    };
    let signer = |leaf: Leaf| {
        let leaf = seen.certificates.as_ref()?.leaves.get(&leaf)?.content.as_ref().ok()?;
        leaf.signed_by.as_ref()
    };
    let presents_new = signer(Leaf::of_operator(record.has_credential())) == Some(&rotation.to);
    let answers = seen.etcd.answers.values().any(|answer| answer.reply.is_ok());
    let is_needed = signer(Leaf::Server) == Some(&rotation.from) && !seen.pods.is_empty();
    forbid_if(is_needed && !(presents_new && answers), || Unsafe::NotReached)
}

/// The Secrets, if this authority is the recorded one for this leaf, and the observed one.
fn signs<'a>(view: View<'a>, leaf: Leaf, by: &Fingerprint) -> Result<&'a Certificates, Unsafe> {
    let seen = view.seen.certificates.as_ref().ok_or(Unsafe::AnotherAuthority)?;
    let signing = |ca| view.seen.signing(seen, view.record, ca);
    // A first leaf beside an authority of peers that is not there yet, or not recorded, would say that the other one signs for them.
    let is_undecided = Ca::ALL.into_iter().any(|ca| match signing(ca) {
        Signing::ToCreate => true,
        Signing::With(..) => view.record.authority_of(ca).is_none(),
        Signing::Lost(_) => false,
    });
    let ca = leaf.ca();
    let authority = match signing(ca) {
        Signing::With(_, authority) if authority.fingerprint == *by => authority,
        Signing::With(..) | Signing::ToCreate | Signing::Lost(_) => return Err(Unsafe::AnotherAuthority),
    };
    forbid_if(is_undecided || view.record.authority_of(ca) != Some(by), || Unsafe::AnotherAuthority)?;
    // What it has signed somewhere else is all that there is of it.
    let has_no_key = authority.keyless && seen.given_leaf(leaf, authority, view.now).is_none();
    forbid_if(has_no_key, || Unsafe::OtherSource)?;
    Ok(seen)
}

/// R3.
pub(super) fn as_observed<'a>(
    view: View<'a>,
    ca: Ca,
    observed: &ObservedObject,
) -> Result<&'a AuthoritySecret, Unsafe> {
    let seen = view.seen.certificates.as_ref().and_then(|seen| seen.authorities.get(&ca));
    let seen = seen.ok_or(Unsafe::AnotherAuthority)?;
    forbid_if(seen.observed != *observed, || Unsafe::AnotherAuthority)?;
    Ok(seen)
}

fn is_own(view: View<'_>, secret: &AuthoritySecret) -> bool {
    secret.incarnation.as_ref() == Some(&view.seen.uid)
}
