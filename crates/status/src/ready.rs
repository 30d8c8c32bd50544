//! The conditions that tools read: `Ready`, what they wait for, and `Stalled`, when waiting is in vain. Both sum up the other conditions and
//! what the plan waits on, so that they never contradict those.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use quorate_api::status::EtcdClusterStatus;
use quorate_api::{ConditionType, Explanation, Reason, conditions};
use quorate_model::Waiting;
use quorate_model::effect::RecoveryWait;
use quorate_model::restore::RestoreCause;

use super::conditions::{Finding, data_went_back, in_words};
use super::picture::Picture;
use super::waiting::{Weight, explain, weight};

/// The longest summary, in characters: a row of a table still fits on a screen.
const SUMMARY: usize = 64;

/// The other conditions.
pub(super) type Details = BTreeMap<ConditionType, Finding>;

/// Whether the cluster is as its spec asks for, and if not, the nearest cause.
pub(super) fn find(picture: &Picture<'_>, details: &Details) -> Finding {
    let of = |type_| &details[&type_];
    let (available, degraded) = (of(ConditionType::Available), of(ConditionType::Degraded));
    let (up_to_date, progressing) = (of(ConditionType::UpToDate), of(ConditionType::Progressing));
    if picture.is_deleted() {
        return Finding::because(progressing.why.clone());
    }
    // Why clients are not served then says more than that they are not.
    if let Some(why) = data_went_back(picture) {
        return Finding::because(why);
    }
    // That clients are not served comes before what a person has to decide: `Stalled` has that.
    if is_outage(available) {
        return available.clone();
    }
    if let Some(why) = needs_person(picture) {
        return Finding::because(why);
    }
    // A cluster that grows lacks members, too: what its growth waits for says more.
    if degraded.holds == Some(true) && degraded.why.reason() != Reason::MembersMissing {
        return Finding::because(degraded.why.clone());
    }
    if rests(picture, up_to_date) {
        let text = "the cluster is at size zero, as spec.size asks for, and its volumes are kept. Any other spec.size wakes it";
        return Finding::yes(Reason::Hibernated, text);
    }
    if available.holds != Some(true) {
        // It comes up or goes down: what that waits for says more than that nobody is served.
        let has_cause = progressing.why.reason() != Reason::Reconciled;
        return Finding::because(if has_cause { &progressing.why } else { &available.why }.clone());
    }
    if of(ConditionType::TlsReady).holds == Some(false) {
        return Finding::because(of(ConditionType::TlsReady).why.clone());
    }
    // New defaults of the operator are not in the spec: which wave they come with is no matter of the cluster.
    let waits_for_wave = up_to_date.why.reason() == Reason::WaitingForWave;
    if up_to_date.holds != Some(true) && !waits_for_wave {
        return Finding::because(change(picture, up_to_date, progressing));
    }
    let not_ready = picture.voters_lacking(|pod| pod.ready);
    if !not_ready.is_empty() {
        let reason = if picture.is_coming_up() { degraded.why.reason() } else { Reason::MemberUnhealthy };
        return Finding::no(reason, in_words(&not_ready, "is not ready", "are not ready"));
    }
    if picture.seen.paused {
        let text = format!(
            "paused, and as the spec asks for. While spec.paused is true, lost Pods are restarted on their own volumes, and nothing else \
             is done. {}",
            available.why.message()
        );
        return Finding::yes(Reason::Paused, text);
    }
    let why = warning(details).or(waits_for_wave.then_some(&up_to_date.why));
    match why {
        Some(why) => Finding::yes(why.reason(), why.message()),
        None => Finding::yes(Reason::Reconciled, available.why.message()),
    }
}

/// Whether nothing goes on before a person acts.
pub(super) fn stalled(picture: &Picture<'_>) -> Finding {
    match needs_person(picture) {
        Some(why) => Finding { holds: Some(true), why },
        None => Finding::no(Reason::NotStalled, "nothing waits for a person"),
    }
}

/// What a person has to decide or to correct, if anything. A refused spec hinders no deletion.
fn needs_person(picture: &Picture<'_>) -> Option<Explanation> {
    let waiting = picture.waits(|waiting| stalls(waiting).then(|| explain(waiting)));
    let refused = picture.refused.filter(|_| !picture.is_deleted());
    waiting.or_else(|| refused.map(|invalid| Explanation::new(Reason::SpecInvalid, invalid.to_string())))
}

/// Whether only a person ends this wait, and it is a fault. Whoever pauses a cluster wants that. The operator's clock is no fault of a
/// cluster: where something waits for it, `Ready` is False for that.
fn stalls(waiting: &Waiting) -> bool {
    let is_meant = matches!(waiting, Waiting::Paused | Waiting::ClockDiffers(_));
    let is_refused_order =
        matches!(waiting, Waiting::Recovery(RecoveryWait::Refused(_)) | Waiting::UpgradeBackupFailed(_));
    is_refused_order || is_refused_snapshot(waiting) || (weight(waiting) == Weight::NeedsPerson && !is_meant)
}

/// The cluster begins with no snapshot unless its spec is corrected, or somebody chooses one.
fn is_refused_snapshot(waiting: &Waiting) -> bool {
    let cause = match waiting {
        Waiting::NoSnapshot(why) => why.cause(),
        Waiting::NotRestored(_, why) => why.cause(),
        _ => return false,
    };
    matches!(cause, RestoreCause::Refused | RestoreCause::Ambiguous | RestoreCause::Stale)
}

/// Clients are not served, or nobody knows, and no change that was asked for explains it.
fn is_outage(available: &Finding) -> bool {
    let reason = available.why.reason();
    available.holds.is_none()
        || matches!(
            reason,
            Reason::QuorumLost | Reason::AlarmActive | Reason::NoEndpoint | Reason::SplitBrain
        )
}

/// It is at size zero, and that is what the spec asks for.
fn rests(picture: &Picture<'_>, up_to_date: &Finding) -> bool {
    let record = picture.record;
    if record.is_bootstrapped() {
        return record.hibernating && up_to_date.holds == Some(true);
    }
    let never_began = record.members.is_empty() && record.abandoned.is_none();
    never_began && picture.seen.desired.size == 0 && record.next_incarnation.is_none()
}

/// What the change of the spec that is not carried out yet waits for.
fn change(picture: &Picture<'_>, up_to_date: &Finding, progressing: &Finding) -> Explanation {
    if picture.seen.paused {
        let why = up_to_date.why.message().trim_end_matches('.');
        let text = format!("spec.paused is true, so this waits: {why}. Set spec.paused to false to continue");
        return Explanation::new(Reason::Paused, text);
    }
    let is_under_way = progressing.holds == Some(true);
    if is_under_way { &progressing.why } else { &up_to_date.why }.clone()
}

/// What a person should know of a cluster that is ready.
fn warning(details: &Details) -> Option<&Explanation> {
    let version = &details[&ConditionType::VersionUpgradeBlocked].why;
    let unsound = Some(version).filter(|why| why.reason() == Reason::KnownCorruptVersion);
    let backups = details.get(&ConditionType::BackupHealthy).filter(|finding| finding.holds == Some(false));
    let tls = &details[&ConditionType::TlsReady].why;
    let of_certificates = [
        Reason::CertificateExpiring,
        Reason::RotatingAuthority,
        Reason::ClientsMustFollow,
        Reason::ClientsCutOffSoon,
    ];
    let certificates = Some(tls).filter(|why| of_certificates.contains(&why.reason()));
    unsound.or(backups.map(|finding| &finding.why)).or(certificates)
}

/// A write or a call that failed is why the cluster does not get ready, unless clients are not served or a person is needed: that matters
/// more.
pub(crate) fn with_trouble(status: &mut EtcdClusterStatus, trouble: &Explanation) {
    if conditions::is_true(&status.conditions, ConditionType::Stalled.as_str()) {
        return;
    }
    let outages = [Reason::QuorumLost, Reason::AlarmActive, Reason::NoEndpoint, Reason::SplitBrain];
    let is_outage = |reason: &str| outages.iter().any(|outage| outage.as_str() == reason);
    let type_ = ConditionType::Ready.as_str();
    if conditions::find_false(&status.conditions, type_).is_some_and(|ready| !is_outage(&ready.reason)) {
        conditions::explain(&mut status.conditions, type_, trouble);
        status.summary = summary(&status.conditions);
    }
}

/// The first sentence of the message of `Ready`, cut for tables.
pub(super) fn summary(conditions: &[Condition]) -> Option<String> {
    let ready = conditions::find(conditions, ConditionType::Ready.as_str())?;
    let sentence = ready.message.split(". ").next().unwrap_or_default().trim_end_matches('.');
    if sentence.chars().count() <= SUMMARY {
        return Some(sentence.to_owned());
    }
    let cut: String = sentence.chars().take(SUMMARY - 1).collect();
    let cut = cut.rsplit_once(' ').map_or(cut.as_str(), |(whole, _)| whole);
    Some(format!("{}…", cut.trim_end_matches([',', ':', ';', '('])))
}
