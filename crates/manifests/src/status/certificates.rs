//! What status reports about certificates: which authority signs, when they end, and what keeps them from being renewed.

use std::fmt::Write as _;

use quorate_api::Reason;
use quorate_api::status::{CertificatesStatus, EtcdClusterStatus};
use quorate_model::certificate::Validity;
use quorate_model::snapshot::{Authority, Certificates, Signing};
use quorate_model::{Instant, Leaf, Snapshot, Waiting};

use super::conditions::Finding;
use super::picture::Picture;
use super::time;
use super::waiting::text;

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
    let signing = picture.seen.signing(seen, picture.record);
    if let Some(ended) = ended(seen, picture.now) {
        let why = match &signing {
            Signing::Lost(_) => format!("{ended}. {}", lost(seen, &signing)),
            Signing::ToCreate | Signing::With(..) => ended,
        };
        return Finding::no(Reason::CertificateExpired, why);
    }
    match &signing {
        Signing::Lost(_) => Finding::no(Reason::AuthorityLost, lost(seen, &signing)),
        Signing::ToCreate => issuing(),
        Signing::With(_, authority) => of_leaves(picture, seen, authority),
    }
}

fn of_leaves(picture: &Picture<'_>, seen: &Certificates, authority: &Authority) -> Finding {
    let now = picture.now;
    let is_outdated = |leaf: &Leaf| {
        let content = seen.leaves.get(leaf).map(|secret| &secret.content);
        content.is_some_and(|content| content.as_ref().map_or(true, |leaf| now >= leaf.validity.overdue()))
    };
    if !seen.are_complete() {
        return issuing();
    }
    if authority.validity.is_in_future(now) {
        let begins = time(authority.validity.not_before).0;
        let text = format!(
            "the certificate authority in {} is not valid before {begins}: members and clients refuse what it signed until then. If \
             that is long, move the data to a new EtcdCluster: an authority is never replaced",
            seen.authority_name
        );
        return Finding::no(Reason::CertificatesMissing, text);
    }
    let mut unusable =
        seen.leaves.iter().filter_map(|(leaf, secret)| Some((leaf, secret.why_unusable(authority, now)?)));
    if let Some((leaf, why)) = unusable.next() {
        let next = match picture.seen.clock_differs {
            None => "It is being issued anew".to_owned(),
            Some(differs) => format!("It is issued anew when the operator's clock is right: it is {differs}"),
        };
        let text = format!("the {leaf} certificate cannot be used: {why}. {next}");
        return Finding::no(Reason::CertificatesMissing, text);
    }
    if ends_soon(authority.validity, now) {
        let ends = time(authority.validity.not_after).0;
        return Finding::yes(
            Reason::CertificateExpiring,
            format!(
                "the certificate authority in {} ends on {ends}, and no certificate is renewed beyond that. Plan to \
                 move the data to a new EtcdCluster before",
                seen.authority_name
            ),
        );
    }
    match Leaf::ALL.into_iter().find(is_outdated) {
        Some(leaf) => Finding::yes(Reason::CertificateExpiring, overdue(picture, seen, leaf)),
        None => Finding::yes(Reason::CertificatesIssued, "every certificate exists"),
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
    let why = if picture.seen.paused {
        "While spec.paused is true nothing is renewed: set it to false"
    } else {
        "Read the operator's log for what keeps it from writing Secrets of this namespace"
    };
    format!("the {leaf} certificate should have been renewed{ends}. {why}")
}

/// The certificate that has ended, if one has.
fn ended(seen: &Certificates, now: Instant) -> Option<String> {
    let authority = seen.authority.as_ref().and_then(|secret| secret.content.as_ref().ok());
    if authority.is_some_and(|authority| authority.validity.has_ended(now)) {
        return Some(text(&Waiting::AuthorityEnded(seen.authority_name.clone())));
    }
    Leaf::ALL.into_iter().find_map(|leaf| {
        let validity = seen.leaves.get(&leaf)?.content.as_ref().ok()?.validity;
        let ends = time(validity.not_after).0;
        validity
            .has_ended(now)
            .then(|| format!("the {leaf} certificate ended on {ends}: members and clients refuse it"))
    })
}

fn lost(seen: &Certificates, signing: &Signing<'_>) -> String {
    let Signing::Lost(loss) = signing else { return String::new() };
    let secret = seen.authority_name.clone();
    let mut message = text(&Waiting::AuthorityLost { secret, loss: loss.clone() });
    if let Some(ends) = seen.first_end() {
        let _ = write!(message, " before {}, when the first certificate ends", time(ends).0);
    }
    message
}
