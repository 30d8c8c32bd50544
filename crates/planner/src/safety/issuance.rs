//! R25, R26: what is asked of cert-manager is what the accepted spec asks for, under names that are free or this EtcdCluster's. It signs whatever a Certificate
//! says, and writes over whatever Secret one names.

use quorate_model::effect::Unsafe;
use quorate_model::snapshot::{Asked, IssuedLeaf, IssuedSecret, SeenCertificate};
use quorate_model::{Leaf, ObservedObject};

use super::{Judged, forbid, forbid_if, forbid_unless};
use crate::View;

/// Whether a Certificate may be created that asks for this: its own name and that of its Secret are free.
pub(super) fn may_create(view: View<'_>, leaf: Leaf, asked: &Asked) -> Judged {
    let seen = as_asked(view, leaf, Some(asked))?;
    let is_free = seen.certificate == SeenCertificate::Absent && !seen.would_take_a_secret();
    forbid_unless(is_free, || Unsafe::NotIssuedForThis)
}

/// Whether this Certificate may be changed so that it asks for this.
pub(super) fn may_change(view: View<'_>, leaf: Leaf, asked: &Asked, observed: &ObservedObject) -> Judged {
    is_own(as_asked(view, leaf, Some(asked))?, observed)
}

/// Whether this Certificate may be deleted: the accepted spec does not ask for it, and nothing rests on it.
pub(super) fn may_delete(view: View<'_>, leaf: Leaf, observed: &ObservedObject) -> Judged {
    is_own(as_asked(view, leaf, None)?, observed)
}

/// Whether the Secret that cert-manager wrote may be deleted: nobody renews it any more, or cert-manager issues it anew, by another authority than it has, and
/// nothing has started that would trust one of both.
pub(super) fn may_delete_issued(view: View<'_>, leaf: Leaf, observed: &ObservedObject) -> Judged {
    let seen = of_leaf(view, leaf)?;
    let is_that = |seen: &IssuedSecret| seen.is_issued && seen.observed == *observed;
    forbid_unless(seen.secret.as_ref().is_some_and(is_that), || Unsafe::NotIssuedForThis)?;
    match (&seen.asked, &seen.certificate) {
        (None, SeenCertificate::Absent) => Ok(()),
        (Some(_), SeenCertificate::Own { .. }) => {
            may_take_anew(view)?;
            forbid_unless(view.seen.is_issued_by_earlier(leaf), || Unsafe::AnotherAuthority)
        }
        (None, SeenCertificate::Own { .. })
        | (Some(_), SeenCertificate::Absent)
        | (Some(_) | None, SeenCertificate::Unread | SeenCertificate::Foreign) => {
            forbid(Unsafe::NotIssuedForThis)
        }
    }
}

/// R19: whether certificates may be of another authority from now on, at once: nothing has ever started that would trust the one before.
pub(crate) fn may_take_anew(view: View<'_>) -> Judged {
    forbid_unless(view.seen.has_never_started(view.record), || Unsafe::PodsExist)
}

/// What there is of a leaf, if the accepted spec asks for just this of it.
fn as_asked<'a>(view: View<'a>, leaf: Leaf, asked: Option<&Asked>) -> Result<&'a IssuedLeaf, Unsafe> {
    let seen = of_leaf(view, leaf)?;
    forbid_if(seen.asked.as_ref() != asked, || Unsafe::NotAsked)?;
    Ok(seen)
}

/// What there is of a leaf, where anything may be changed at all.
fn of_leaf(view: View<'_>, leaf: Leaf) -> Result<&IssuedLeaf, Unsafe> {
    let seen = view.seen;
    forbid_if(seen.paused || seen.deleting || seen.record_doubt.is_some(), || Unsafe::NotAsked)?;
    seen.issuance.leaves.get(&leaf).ok_or(Unsafe::NotAsked)
}

fn is_own(seen: &IssuedLeaf, as_planned: &ObservedObject) -> Judged {
    let is_so = matches!(&seen.certificate, SeenCertificate::Own { observed, .. } if observed == as_planned);
    forbid_unless(is_so, || Unsafe::NotIssuedForThis)
}
