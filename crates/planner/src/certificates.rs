//! Certificates: authorities for the life of a cluster, one for clients and one for peers, and leaves that they sign.
//!
//! B2 create the authorities; I1 record their fingerprints; I2 create the leaves; I3 renew each leaf in place; I4 keep the Secrets
//! of the authorities beyond their owner. etcd reads its leaf at every handshake, so nothing restarts.

use quorate_model::effect::{AuthorityPlace, AuthorityWait, NotSigned, NotTaken};
use quorate_model::snapshot::{Authority, AuthorityLoss, AuthoritySecret, Certificates, LeafSecret, Signing};
use quorate_model::{Ca, Fingerprint, KubeEffect, Leaf, Step, Waiting};

use crate::draft::{Draft, Progress};
use crate::{rotate, safety};

/// Done when every leaf exists, so that Pods can mount them.
pub(crate) fn provide(draft: &mut Draft<'_>) -> Progress {
    let Some(seen) = draft.seen.certificates.as_ref() else { return Progress::Done };
    if !draft.record.is_bootstrapped() && rotate::take_anew(draft) {
        return Progress::Pending;
    }
    // Both are recorded before the first leaf is signed.
    let mut all_known = true;
    for ca in Ca::ALL {
        match draft.seen.signing(seen, &draft.record, ca) {
            Signing::ToCreate => {
                create(draft, ca, seen);
                all_known = false;
            }
            Signing::With(secret, authority) => {
                record(draft, ca, authority);
                keep(draft, ca, secret);
            }
            // Only its Secret is gone: the spec names where it came from.
            Signing::Lost(loss) if copy_of(draft, ca, seen, &loss).is_some() => {
                let (place, given) = (AuthorityPlace::Signer, copy_of(draft, ca, seen, &loss));
                draft.write(Step::I4, KubeEffect::CreateAuthority { ca, place, given });
            }
            // Where every leaf exists, nothing waits for it: the members serve on, and TLSReady reports it.
            Signing::Lost(loss) if !seen.are_complete(&draft.record) => {
                let lost = AuthorityWait::Lost { secret: seen.authority_name(ca), loss };
                draft.wait(Waiting::Authority(lost));
            }
            Signing::Lost(_) => {}
        }
    }
    if all_known {
        sign(draft, seen);
    }
    let is_missing = |leaf: &Leaf| !seen.leaves.contains_key(leaf);
    if !draft.record.is_bootstrapped() {
        let any_missing = draft.record.leaves().any(|leaf| is_missing(&leaf));
        // Taken anew, all Secrets are of that generation before the first Pod is made.
        let is_anew = draft.record.trust > 0 && draft.seen.pods.is_empty();
        if is_anew {
            rotate::advance(draft);
        }
        let is_done = !any_missing && (!is_anew || is_settled(draft, seen));
        return if is_done { Progress::Done } else { Progress::Pending };
    }
    // No member serves, so no pass comes as far as this otherwise, and whatever starts reads all anew.
    let is_ready = !draft.seen.pods.is_empty() || {
        let is_swapped = rotate::advance_without_pods(draft);
        !is_swapped && is_settled(draft, seen)
    };
    // Only the Pods that would mount one wait for a leaf that nothing here can sign.
    let is_coming = draft.record.leaves().any(|leaf| is_missing(&leaf) && draft.signs(leaf));
    if is_ready && !is_coming { Progress::Done } else { Progress::Pending }
}

/// Whether each leaf is what a Pod that starts now has to read, or cannot become that.
fn is_settled(draft: &Draft<'_>, seen: &Certificates) -> bool {
    let has_strays = Ca::ALL.iter().any(|ca| !seen.strays(&draft.record, *ca).is_empty());
    !has_strays
        && seen.leaves.iter().all(|(leaf, secret)| {
            let is_current = secret.content.as_ref().map_or(true, |leaf| leaf.trust >= draft.record.trust);
            let signing = draft.seen.signing(seen, &draft.record, leaf.ca());
            let is_usable = match signing {
                Signing::With(_, authority) if seen.can_have(*leaf, authority, draft.now) => {
                    secret.why_unusable_in(&draft.record, *leaf, authority, draft.now).is_none()
                }
                Signing::With(..) | Signing::ToCreate | Signing::Lost(_) => true,
            };
            is_current && is_usable
        })
}

/// B2. Where the spec names an authority of clients, it is a copy of that, or nothing is made.
fn create(draft: &mut Draft<'_>, ca: Ca, seen: &Certificates) {
    let named = seen.given.as_ref().filter(|_| ca == Ca::Clients);
    let given = match named.map(|named| (named, named.usable(&draft.record, draft.now))) {
        Some((named, Err(why))) => {
            let why = NotTaken::Unusable { secret: named.secret.clone(), why };
            draft.wait(Waiting::Authority(AuthorityWait::Refused(why)));
            return;
        }
        Some((_, Ok(authority))) => Some(authority.fingerprint.clone()),
        None => None,
    };
    let place = AuthorityPlace::Signer;
    draft.write(Step::B2, KubeEffect::CreateAuthority { ca, place, given });
}

/// The recorded authority, if its Secret does not exist and the one that the spec names has it.
fn copy_of(draft: &Draft<'_>, ca: Ca, seen: &Certificates, loss: &AuthorityLoss) -> Option<Fingerprint> {
    let AuthorityLoss::Missing(Some(recorded)) = loss else { return None };
    let given = seen.given_as(recorded, &draft.record, draft.now).filter(|_| ca == Ca::Clients)?;
    Some(given.fingerprint.clone())
}

/// I3 alone, where the record may lack something: leaves that are due by their dates, signed by the authority that is recorded.
pub(crate) fn renew(draft: &mut Draft<'_>) {
    let Some(seen) = draft.seen.certificates.as_ref().filter(|_| draft.record.authority.is_some()) else {
        return;
    };
    for (leaf, secret) in &seen.leaves {
        // A newer operator may have issued it for other names, which is not put right here.
        if let Signing::With(_, authority) = draft.seen.signing(seen, &draft.record, leaf.ca())
            && seen.can_have(*leaf, authority, draft.now)
            && secret.why_unusable(authority, draft.now).is_none()
            && seen.is_due(*leaf, authority, draft.now)
        {
            propose_renewal(draft, *leaf, secret, authority);
        }
    }
}

/// Why this leaf could not be signed now, or copied; `None` if it could, or is there.
pub(crate) fn why_not_signed(draft: &Draft<'_>, leaf: Leaf) -> Option<NotSigned> {
    let Some(seen) = draft.seen.certificates.as_ref() else { return Some(NotSigned::NoTls) };
    if seen.leaves.contains_key(&leaf) {
        return None;
    }
    match draft.seen.signing(seen, &draft.record, leaf.ca()) {
        Signing::With(_, authority) if seen.can_have(leaf, authority, draft.now) => None,
        Signing::With(_, authority) if authority.keyless => Some(why_not_given(draft, seen, leaf)),
        Signing::With(..) => Some(NotSigned::Ended(seen.authority_name(leaf.ca()))),
        Signing::ToCreate => Some(NotSigned::NotCreated(seen.authority_name(leaf.ca()))),
        Signing::Lost(loss) => Some(NotSigned::Lost { secret: seen.authority_name(leaf.ca()), loss }),
    }
}

/// Why a leaf that comes from somewhere else cannot be copied.
fn why_not_given(draft: &Draft<'_>, seen: &Certificates, leaf: Leaf) -> NotSigned {
    let Some(given) = &seen.given else { return NotSigned::NotNamed };
    let of_another = NotSigned::OfAnother { leaf, secret: given.secret.clone() };
    given.leaf(leaf, draft.now).err().map_or(of_another, NotSigned::NotGiven)
}

/// I4, for the Secret of an adopted cluster, and one to which somebody gave an owner.
pub(crate) fn keep(draft: &mut Draft<'_>, ca: Ca, seen: &AuthoritySecret) {
    if seen.owned || seen.incarnation.as_ref() != Some(&draft.seen.uid) {
        draft.write(Step::I4, KubeEffect::KeepAuthority { ca, observed: seen.observed.clone() });
    }
}

/// I1. Before any leaf is signed (R3).
fn record(draft: &mut Draft<'_>, ca: Ca, authority: &Authority) {
    let is_new = draft.record.authority_of(ca).is_none();
    if is_new || !draft.record.certificates.contains_key(&authority.fingerprint) {
        draft.write_record(Step::I1, |record| {
            record.record_authority(ca, authority.fingerprint.clone());
            record.keep_certificate(authority);
        });
    }
    let given = draft.seen.certificates.as_ref().and_then(|seen| seen.given.as_ref());
    let is_given = ca == Ca::Clients && given.is_some_and(|given| given.is(&authority.fingerprint));
    if is_given && !draft.record.given {
        draft.write_record(Step::I1, |record| record.given = true);
    }
    if is_new {
        resume(draft, ca);
    }
}

/// I1, where status was lost in the middle of a rotation, as bundles show: somebody may still present what another authority has signed, so that one is
/// forgotten only when nobody does. One that has not signed yet was never presented.
fn resume(draft: &mut Draft<'_>, ca: Ca) {
    let Some(seen) = draft.seen.certificates.as_ref().filter(|_| draft.record.rotation.is_none()) else {
        return;
    };
    let next = seen.authorities.get(&ca).and_then(|secret| secret.next.as_ref());
    let mut signers = seen.stray_signers(&draft.record, ca, |_| true).into_iter();
    let strays = seen.strays(&draft.record, ca);
    let mut trusted = strays.into_iter().filter(|one| next.is_none_or(|next| next.fingerprint != *one));
    if let Some(from) = signers.next().or_else(|| trusted.next()) {
        rotate::resume(draft, ca, from, Step::I1);
    }
}

/// I2, I3.
fn sign(draft: &mut Draft<'_>, seen: &Certificates) {
    for leaf in draft.record.leaves() {
        let signing = draft.seen.signing(seen, &draft.record, leaf.ca());
        let Signing::With(secret, authority) = signing else { continue };
        let present = seen.leaves.get(&leaf);
        if !seen.can_have(leaf, authority, draft.now) {
            match present {
                None if authority.keyless => wait_for_given(draft, seen),
                None => {
                    let secret = seen.authority_name(leaf.ca());
                    draft.wait(Waiting::Authority(AuthorityWait::Ended(secret)));
                }
                Some(_) => {}
            }
            continue;
        }
        let by = authority.fingerprint.clone();
        // C4 gives it the place of the signer first: what is there shows after a loss of status which one signs.
        if !secret.is_first(&by) {
            continue;
        }
        match present {
            None => {
                draft.write(Step::I2, KubeEffect::IssueLeaf { leaf, by });
            }
            Some(_) if leaf == Leaf::Server && safety::was_reached(draft.view()).is_err() => {}
            Some(secret) if seen.is_due(leaf, authority, draft.now) => {
                propose_renewal(draft, leaf, secret, authority);
            }
            Some(_) => {}
        }
    }
}

/// A leaf that is missing comes from somewhere else, and is not there, or is of another authority.
fn wait_for_given(draft: &mut Draft<'_>, seen: &Certificates) {
    let why = match &seen.given {
        None => NotTaken::NotNamed,
        Some(given) => match given.usable(&draft.record, draft.now) {
            Ok(_) => NotTaken::OfAnother(given.secret.clone()),
            Err(why) => NotTaken::Unusable { secret: given.secret.clone(), why },
        },
    };
    draft.wait(Waiting::Authority(AuthorityWait::Refused(why)));
}

fn propose_renewal(draft: &mut Draft<'_>, leaf: Leaf, secret: &LeafSecret, authority: &Authority) {
    let (by, observed) = (authority.fingerprint.clone(), secret.observed.clone());
    draft.write(Step::I3, KubeEffect::RenewLeaf { leaf, by, observed });
}
