//! The conditions: what holds, what does not, why, and since when.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use quorate_api::{ConditionType, Reason};
use quorate_model::quorum::quorum;
use quorate_model::record::Stage;
use quorate_model::{Instant, MemberName, Waiting};

use super::picture::Picture;
use super::time;

mod progressing;

/// What was found of one condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    /// `None` if it can not be told.
    holds: Option<bool>,
    reason: Reason,
    message: String,
}

impl Finding {
    pub(super) fn yes(reason: Reason, message: impl Into<String>) -> Self {
        Self { holds: Some(true), reason, message: message.into() }
    }

    pub(super) fn no(reason: Reason, message: impl Into<String>) -> Self {
        Self { holds: Some(false), reason, message: message.into() }
    }

    fn unknown(reason: Reason, message: impl Into<String>) -> Self {
        Self { holds: None, reason, message: message.into() }
    }
}

/// Writes findings into the conditions. The time of a condition changes only with its status.
pub(super) fn set(
    conditions: &mut Vec<Condition>,
    findings: impl IntoIterator<Item = (ConditionType, Finding)>,
    generation: Option<i64>,
    now: Instant,
) {
    for (type_, Finding { holds, reason, message }) in findings {
        let status = match holds {
            Some(true) => "True",
            Some(false) => "False",
            None => "Unknown",
        };
        let at = conditions.iter().position(|condition| condition.type_ == type_.as_str());
        let before = at.map(|at| &conditions[at]).filter(|before| before.status == status);
        let condition = Condition {
            last_transition_time: before
                .map_or_else(|| time(now), |before| before.last_transition_time.clone()),
            message,
            observed_generation: generation,
            reason: reason.as_str().to_owned(),
            status: status.to_owned(),
            type_: type_.as_str().to_owned(),
        };
        match at {
            Some(at) => conditions[at] = condition,
            None => conditions.push(condition),
        }
    }
}

pub(super) fn find(type_: ConditionType, picture: &Picture<'_>) -> Finding {
    match type_ {
        ConditionType::Available => available(picture),
        ConditionType::Progressing => progressing::find(picture),
        ConditionType::Degraded => degraded(picture),
        ConditionType::QuorumAvailable => quorum_available(picture),
        ConditionType::Bootstrapped => bootstrapped(picture),
        ConditionType::UpToDate => up_to_date(picture),
        ConditionType::TlsReady => tls_ready(picture),
        ConditionType::SplitBrain => split_brain(picture),
        ConditionType::ExistingData => existing_data(picture),
    }
}

fn available(picture: &Picture<'_>) -> Finding {
    if let Some(text) = picture.waits(split) {
        return Finding::no(Reason::SplitBrain, text);
    }
    if let Some(finding) = not_running(picture) {
        return finding;
    }
    if picture.has_quorum() {
        return Finding::yes(Reason::QuorumReached, available_message(picture));
    }
    without_quorum(picture)
}

fn quorum_available(picture: &Picture<'_>) -> Finding {
    if let Some(finding) = not_running(picture) {
        return finding;
    }
    if picture.has_quorum() {
        let voters = picture.record.voters().count();
        return Finding::yes(
            Reason::QuorumReached,
            format!("A quorum answers; {} of {voters} voters make one", quorum(voters)),
        );
    }
    without_quorum(picture)
}

fn degraded(picture: &Picture<'_>) -> Finding {
    let wrong =
        picture.waits(|waiting| matches!(waiting, Waiting::WrongMember { .. }).then(|| waiting.to_string()));
    if let Some(text) = wrong {
        return Finding::yes(Reason::UnknownMember, text);
    }
    if !picture.record.is_bootstrapped() {
        let stuck =
            picture.waits(|waiting| matches!(waiting, Waiting::PodStuck(..)).then(|| waiting.to_string()));
        return match stuck {
            Some(text) => Finding::yes(Reason::PodStuck, text),
            None => Finding::no(Reason::Bootstrapping, "The cluster is not founded yet"),
        };
    }
    if picture.record.hibernating {
        return Finding::no(Reason::Hibernated, "The cluster is at size zero");
    }
    if picture.seen.deleting {
        return Finding::no(Reason::Deleting, "The cluster is being deleted");
    }
    if picture.is_coming_up() {
        return coming_up(picture);
    }
    if !picture.sick.is_empty() {
        return Finding::yes(Reason::MemberUnhealthy, sick(picture));
    }
    let (voters, size) = (picture.record.voters().count(), picture.target().size);
    if voters < size {
        return Finding::yes(Reason::MembersMissing, format!("{voters} of {size} members are there"));
    }
    Finding::no(Reason::MembersHealthy, "Every member is healthy")
}

fn bootstrapped(picture: &Picture<'_>) -> Finding {
    let record = picture.record;
    match (record.cluster_id, record.abandoned) {
        (Some(id), _) => Finding::yes(Reason::Founded, format!("The cluster's id is {id}")),
        (None, Some(why)) => Finding::no(
            Reason::AttemptAbandoned,
            format!("Attempt {} was given up ({}); another one follows", record.attempt, why.as_str()),
        ),
        (None, None) => match picture.waits(existing) {
            Some(text) => Finding::no(Reason::ExistingData, text),
            None => Finding::no(Reason::Bootstrapping, "The cluster is not founded yet"),
        },
    }
}

fn up_to_date(picture: &Picture<'_>) -> Finding {
    let record = picture.record;
    if let Some(invalid) = picture.refused {
        return Finding::no(Reason::SpecInvalid, invalid.to_string());
    }
    let refused =
        picture.waits(|waiting| matches!(waiting, Waiting::VersionRefused(_)).then(|| waiting.to_string()));
    if let Some(why) = refused {
        return Finding::no(Reason::VersionRefused, why);
    }
    if !record.is_bootstrapped() {
        return Finding::no(Reason::Bootstrapping, "The cluster is not founded yet");
    }
    if record.target.as_ref() != Some(&picture.seen.desired) {
        let why =
            picture.waits(|waiting| matches!(waiting, Waiting::SafePoint(_)).then(|| waiting.to_string()));
        let why = why.unwrap_or_else(|| "An edit of the spec is not taken up yet".to_owned());
        return Finding::no(Reason::SpecPending, why);
    }
    if record.hibernating {
        let stopped = picture.seen.pods.is_empty();
        let reason = if stopped { Reason::Reconciled } else { Reason::Hibernating };
        return Finding { holds: Some(stopped), reason, message: "Size zero is asked for".to_owned() };
    }
    if picture.is_scaling() {
        let (voters, size) = (record.voters().count(), picture.target().size);
        return Finding::no(Reason::Scaling, format!("There are {voters} voters, {size} are asked for"));
    }
    let stale: Vec<&str> = picture.stale().into_iter().map(MemberName::as_str).collect();
    if !stale.is_empty() {
        let names = in_words(&stale, "still runs", "still run");
        return Finding::no(Reason::RollingOut, format!("{names} as before the last edit"));
    }
    Finding::yes(Reason::Reconciled, "What runs is what the spec asks for")
}

fn tls_ready(picture: &Picture<'_>) -> Finding {
    match (picture.target().tls, picture.seen.certificates) {
        (false, _) => {
            Finding::yes(Reason::TlsDisabled, "tls.provider is disabled: everything is in plain text")
        }
        (true, true) => Finding::yes(Reason::CertificatesIssued, "Every certificate stands"),
        (true, false) => Finding::no(Reason::CertificatesMissing, "Certificates are being made"),
    }
}

fn split_brain(picture: &Picture<'_>) -> Finding {
    match picture.waits(split) {
        Some(text) => Finding::yes(Reason::SplitBrain, text),
        None => Finding::no(Reason::OneCluster, "Every member that answers is of one cluster"),
    }
}

fn existing_data(picture: &Picture<'_>) -> Finding {
    match picture.waits(existing) {
        Some(text) => Finding::yes(Reason::ExistingData, text),
        None => Finding::no(Reason::NoExistingData, "No volumes of an earlier cluster are in the way"),
    }
}

/// Not yet, or not now, by intent.
fn not_running(picture: &Picture<'_>) -> Option<Finding> {
    let record = picture.record;
    if picture.seen.deleting {
        return Some(Finding::no(Reason::Deleting, "The cluster is being deleted"));
    }
    if record.hibernating {
        let text = "The cluster is at size zero and its volumes are kept; any other size wakes it";
        return Some(Finding::no(Reason::Hibernated, text));
    }
    if record.is_bootstrapped() {
        return None;
    }
    Some(match picture.waits(existing) {
        Some(text) => Finding::no(Reason::ExistingData, text),
        None => Finding::no(Reason::Bootstrapping, "The cluster is not founded yet"),
    })
}

fn existing(waiting: &Waiting) -> Option<String> {
    matches!(waiting, Waiting::ExistingData { .. } | Waiting::UnknownPods(_)).then(|| waiting.to_string())
}

fn split(waiting: &Waiting) -> Option<String> {
    matches!(waiting, Waiting::SplitBrain(_)).then(|| waiting.to_string())
}

fn available_message(picture: &Picture<'_>) -> String {
    let voters: Vec<&MemberName> = picture.record.voters().collect();
    let healthy = voters.len() - picture.sick.len();
    let mut message = format!("{healthy} of {} voters are healthy", voters.len());
    let size = picture.target().size;
    if size > 0 && size.is_multiple_of(2) {
        let _ = write!(message, ". {size} members survive no more losses than {}", size - 1);
    }
    let mut nodes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for voter in voters {
        if let Some(node) = picture.seen.pods.get(voter).and_then(|pod| pod.node.as_deref()) {
            nodes.entry(node).or_default().push(voter.as_str());
        }
    }
    for (node, members) in nodes.iter().filter(|(_, members)| members.len() > 1) {
        let _ = write!(message, ". {} node {node}", in_words(members, "is on", "share"));
    }
    message
}

fn without_quorum(picture: &Picture<'_>) -> Finding {
    if picture.is_coming_up() {
        return coming_up(picture);
    }
    if !picture.was_looked_at() {
        return Finding::unknown(Reason::NotObserved, "The members have not been asked yet");
    }
    Finding::no(Reason::QuorumLost, lost_quorum(picture))
}

fn coming_up(picture: &Picture<'_>) -> Finding {
    let names: Vec<&str> = picture.sick.iter().map(|(name, _)| name.as_str()).collect();
    let reason = if picture.is_waking() { Reason::Waking } else { Reason::Bootstrapping };
    Finding::no(reason, in_words(&names, "is on the way", "are on the way"))
}

/// What is lost, and what a human can do.
fn lost_quorum(picture: &Picture<'_>) -> String {
    let members = &picture.record.members;
    let counts = |stage| matches!(stage, Stage::Voter | Stage::Leaving(_));
    let voters = members.iter().filter(|(_, member)| counts(member.stage) && member.id.is_some());
    let voters: Vec<&MemberName> = voters.map(|(name, _)| name).collect();
    let answer = voters.iter().filter(|voter| picture.seen.status_of(voter, picture.now).is_some()).count();
    let mut message =
        format!("{answer} of {} voters answer, {} are needed", voters.len(), quorum(voters.len()));
    if let Some(why) = &picture.seen.etcd.list_failure {
        let _ = write!(message, " ({why})");
    }
    if !picture.sick.is_empty() {
        let _ = write!(message, ". {}", sick(picture));
    }
    message.push_str(
        ". Lost Pods are made again on their own volumes, and nothing else is done. Bring back the nodes and volumes of \
         these members; do not delete the volumes, they hold the data",
    );
    message
}

fn sick(picture: &Picture<'_>) -> String {
    let sick: Vec<String> = picture.sick.iter().map(|(name, why)| format!("{name}: {why}")).collect();
    sick.join(". ")
}

/// `a is`, `a and b are`, `a, b and c are`.
fn in_words(names: &[&str], one: &str, several: &str) -> String {
    match names {
        [] => String::new(),
        [name] => format!("{name} {one}"),
        [first @ .., last] => format!("{} and {last} {several}", first.join(", ")),
    }
}
