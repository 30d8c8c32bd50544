//! What status reports about certificates: which authority signs, when they end, and what keeps them from being renewed.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use quorate_api::status::{CertificatesStatus, EtcdClusterStatus};
use quorate_api::{Reason, keys};
use quorate_model::certificate::Validity;
use quorate_model::effect::AuthorityWait;
use quorate_model::snapshot::{Authority, AuthoritySecret, Certificates, Signing};
use quorate_model::{Ca, Instant, Leaf, Snapshot, Waiting};

use super::conditions::Finding;
use super::picture::Picture;
use super::time;
use super::waiting::{self, clients_have_time, text};

/// The figures beside the recorded ones.
pub(super) fn status(written: &EtcdClusterStatus, seen: &Snapshot) -> Option<CertificatesStatus> {
    let own = written.certificates.clone().unwrap_or_default();
    let not_after = seen.certificates.as_ref().and_then(Certificates::first_end).map(time);
    Some(CertificatesStatus { not_after, ..own }).filter(|own| *own != CertificatesStatus::default())
}

/// The condition TLSReady.
pub(super) fn ready(picture: &Picture<'_>) -> Finding {
    let Some(seen) = &picture.seen.certificates else {
        return Finding::yes(Reason::TlsDisabled, "tls.provider is disabled: all traffic is in plain text");
    };
    let all = Ca::ALL.map(|ca| (ca, picture.seen.signing(seen, picture.record, ca)));
    let lost = all.iter().find_map(|(ca, signing)| lost(seen, *ca, signing));
    if let Some(ended) = ended(seen, picture.now) {
        let why = lost.map_or(ended.clone(), |lost| format!("{ended}. {lost}"));
        return Finding::no(Reason::CertificateExpired, why);
    }
    if let Some(lost) = lost {
        return Finding::no(Reason::AuthorityLost, lost);
    }
    let is_refused = |waiting: &&Waiting| matches!(waiting, Waiting::Authority(AuthorityWait::Refused(_)));
    if let Some(waiting) = picture.plan.waiting.iter().find(is_refused) {
        return Finding::no(Reason::AuthorityRefused, text(waiting));
    }
    let authority = |(ca, signing): (Ca, Signing<'_>)| match signing {
        Signing::With(_, authority) => Some((ca, authority.clone())),
        Signing::ToCreate | Signing::Lost(_) => None,
    };
    let count = all.len();
    let authorities: BTreeMap<Ca, Authority> = all.into_iter().filter_map(authority).collect();
    if authorities.len() == count { of_leaves(picture, seen, &authorities) } else { issuing() }
}

fn of_leaves(picture: &Picture<'_>, seen: &Certificates, authorities: &BTreeMap<Ca, Authority>) -> Finding {
    let now = picture.now;
    let is_outdated = |leaf: &Leaf| {
        let content = seen.leaves.get(leaf).map(|secret| &secret.content);
        content.is_some_and(|content| content.as_ref().map_or(true, |leaf| now >= leaf.validity.overdue()))
    };
    if !seen.are_complete(picture.record) {
        return issuing();
    }
    let in_future = authorities.iter().find(|(_, authority)| authority.validity.is_in_future(now));
    if let Some((ca, authority)) = in_future {
        let begins = time(authority.validity.not_before).0;
        let text = format!(
            "the certificate authority in {} is not valid before {begins}: members and clients refuse what it signed until then. If \
             that is long, let another one take its place: annotate the EtcdCluster with {}={ca}",
            seen.authority_name(*ca),
            keys::ROTATE_CA
        );
        return Finding::no(Reason::CertificatesMissing, text);
    }
    let signer = |leaf: &Leaf| authorities.get(&leaf.ca());
    let mut unusable = seen.leaves.iter().filter_map(|(leaf, secret)| {
        let signer = signer(leaf)?;
        // One of the earlier authority is good until the rotation ends, which it does not where none of the new one comes.
        let of_new = || secret.why_unusable(signer, now).filter(|_| !seen.can_have(*leaf, signer, now));
        let why = secret.why_unusable_in(picture.record, *leaf, signer, now).or_else(of_new)?;
        Some((*leaf, signer, why))
    });
    if let Some((leaf, signer, why)) = unusable.next() {
        let next = if seen.can_have(leaf, signer, now) {
            "It is being issued anew".to_owned()
        } else {
            lacking(seen, leaf, signer, now)
        };
        let text = format!("the {leaf} certificate cannot be used: {why}. {next}");
        return Finding::no(Reason::CertificatesMissing, text);
    }
    // Before what ends soon: the authority that comes cures that, and the time of clients is shorter.
    if let Some(why) = held_up(picture) {
        return Finding::no(Reason::RotationHeldUp, why);
    }
    if let Some(found) = clients_must_follow(picture) {
        return found;
    }
    if let Some((ca, authority)) = authorities.iter().find(|(_, own)| ends_soon(own.validity, now)) {
        let ends = time(authority.validity.not_after).0;
        let named = seen.given.as_ref().filter(|_| *ca == Ca::Clients);
        let cure = match named {
            Some(named) => format!("Put another one into {}, and it takes its place", named.secret),
            None => format!(
                "Another one takes its place: if that is not under way, annotate the EtcdCluster with {}={ca}",
                keys::ROTATE_CA
            ),
        };
        let secret = seen.authority_name(*ca);
        return Finding::yes(
            Reason::CertificateExpiring,
            format!(
                "the certificate authority in {secret} ends on {ends}, and no certificate is renewed beyond that. {cure}"
            ),
        );
    }
    // It ends before anybody here can have another one.
    let is_keyless = |leaf: &Leaf| leaf.ca() == Ca::Clients && seen.keyless().is_some();
    if let Some(leaf) = picture.record.leaves().find(|leaf| is_keyless(leaf) && is_outdated(leaf)) {
        return Finding::yes(Reason::CertificateExpiring, overdue(picture, seen, leaf));
    }
    let rotates = |waiting: &&Waiting| matches!(waiting, Waiting::Authority(AuthorityWait::Rotating(..)));
    if let Some(waiting) = picture.plan.waiting.iter().find(rotates) {
        return Finding::yes(Reason::RotatingAuthority, text(waiting));
    }
    let is_refused = |waiting: &&Waiting| matches!(waiting, Waiting::Authority(AuthorityWait::NotRotated(_)));
    if let Some(waiting) = picture.plan.waiting.iter().find(is_refused) {
        return Finding::yes(Reason::RotationRefused, text(waiting));
    }
    match picture.record.leaves().find(is_outdated) {
        Some(leaf) => Finding::yes(Reason::CertificateExpiring, overdue(picture, seen, leaf)),
        None => Finding::yes(Reason::CertificatesIssued, complete(seen)),
    }
}

/// While clients have time in a rotation, ordered or not, whoever does not follow is cut off at its end. A pause does not stop that time.
fn clients_must_follow(picture: &Picture<'_>) -> Option<Finding> {
    let rotation = picture.record.rotation.as_ref()?;
    let until = picture.seen.clients_have_until(rotation).filter(|until| picture.now < *until)?;
    let is_last = picture.seen.rotation_policy.is_nearly_over(until, picture.now);
    let reason = if is_last { Reason::ClientsCutOffSoon } else { Reason::ClientsMustFollow };
    Some(Finding::yes(reason, clients_have_time(rotation, until)))
}

/// What a rotation has been waiting for too long. At size zero no member can be seen.
fn held_up(picture: &Picture<'_>) -> Option<String> {
    let now = picture.seen.present(picture.now).earliest;
    let waits = picture.plan.waiting.iter().filter(|_| !picture.record.hibernating);
    let mut late = waits.filter_map(|waiting| {
        let Waiting::Authority(AuthorityWait::Rotating(rotation, why)) = waiting else { return None };
        let from = rotation.held_up_from(&picture.seen.rotation_policy);
        (now >= from).then(|| waiting::held_up(rotation, why))
    });
    late.next()
}

/// What a person has to do for a leaf that cannot be made here.
fn lacking(seen: &Certificates, leaf: Leaf, signer: &Authority, now: Instant) -> String {
    let Some(given) = seen.given.as_ref().filter(|_| signer.keyless) else {
        return "None can be issued: the authority has ended, or its key is somewhere else and spec.tls does not say where".to_owned();
    };
    let found = match given.leaf(leaf, now) {
        Ok(_) => "what is there is of another authority".to_owned(),
        Err(why) => why,
    };
    format!(
        "It comes from where {} does, and {found}. Members and clients go on with the earlier one, whose authority stays trusted. Put the {leaf} \
         certificate there that authority {} has signed",
        given.secret, signer.fingerprint
    )
}

/// What the issuer says is of the next certificates only.
fn complete(seen: &Certificates) -> String {
    match seen.given.as_ref().and_then(|given| given.issuer_says.as_ref()) {
        None => "every certificate exists".to_owned(),
        Some(says) => {
            format!("every certificate exists. For the next ones look at what comes of this: {says}")
        }
    }
}

fn issuing() -> Finding {
    Finding::no(Reason::CertificatesMissing, "certificates are being issued")
}

/// In the last tenth of its life.
fn ends_soon(Validity { not_before, not_after }: Validity, now: Instant) -> bool {
    (not_after - now).0 < (not_after - not_before).0 / 10
}

fn overdue(picture: &Picture<'_>, seen: &Certificates, leaf: Leaf) -> String {
    let ends =
        seen.leaves.get(&leaf).and_then(|secret| Some(secret.content.as_ref().ok()?.validity.not_after));
    let ends = ends.map(|ends| format!(" and ends on {}", time(ends).0)).unwrap_or_default();
    let comes = seen.given.as_ref().filter(|_| leaf.ca() == Ca::Clients && seen.keyless().is_some());
    let why = if let Some(given) = comes {
        let found = given.leaf(leaf, picture.now).err().map(|why| format!(": {why}")).unwrap_or_default();
        format!(
            "It comes from where {} does, and none that is newer is there{found}. The authority cannot sign here: once it has ended, clients are refused",
            given.secret
        )
    } else {
        "Read the operator's log for what keeps it from writing Secrets of this namespace".to_owned()
    };
    format!("the {leaf} certificate should have been renewed{ends}. {why}")
}

/// The certificate that has ended, if one has.
fn ended(seen: &Certificates, now: Instant) -> Option<String> {
    let has_ended = |secret: &AuthoritySecret| {
        secret.content.as_ref().is_ok_and(|authority| authority.validity.has_ended(now))
    };
    if let Some((ca, _)) = seen.authorities.iter().find(|(_, secret)| has_ended(secret)) {
        return Some(text(&Waiting::Authority(AuthorityWait::Ended(seen.authority_name(*ca)))));
    }
    seen.leaves.iter().find_map(|(leaf, secret)| {
        let validity = secret.content.as_ref().ok()?.validity;
        let ends = time(validity.not_after).0;
        validity
            .has_ended(now)
            .then(|| format!("the {leaf} certificate ended on {ends}: members and clients refuse it"))
    })
}

fn lost(seen: &Certificates, ca: Ca, signing: &Signing<'_>) -> Option<String> {
    let Signing::Lost(loss) = signing else { return None };
    let secret = seen.authority_name(ca);
    let mut message = text(&Waiting::Authority(AuthorityWait::Lost { secret, loss: loss.clone() }));
    if let Some(ends) = seen.first_end() {
        let _ = write!(message, " before {}, when the first certificate ends", time(ends).0);
    }
    Some(message)
}
