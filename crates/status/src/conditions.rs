//! The conditions: which are true, why, and since when.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use quorate_api::{ConditionType, Explanation, Reason, conditions};
use quorate_model::effect::{AuthWait, RecoveryWait};
use quorate_model::quorum::quorum;
use quorate_model::record::{Loss, Stage};
use quorate_model::snapshot::DefaultsTurn;
use quorate_model::{Instant, MemberName, Target, Waiting};

use super::picture::Picture;
use super::waiting::{explain, text};
use super::{auth, backups, certificates, data_store, ready, time};

mod available;
mod progressing;
mod version;

/// The status, reason and message of one condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    /// `None` if it is unknown.
    pub(super) holds: Option<bool>,
    pub(super) why: Explanation,
}

impl Finding {
    pub(super) fn yes(reason: Reason, message: impl Into<String>) -> Self {
        Self { holds: Some(true), why: Explanation::new(reason, message) }
    }

    pub(super) fn no(reason: Reason, message: impl Into<String>) -> Self {
        Self::because(Explanation::new(reason, message))
    }

    /// The condition is false.
    pub(super) fn because(why: Explanation) -> Self {
        Self { holds: Some(false), why }
    }

    fn unknown(reason: Reason, message: impl Into<String>) -> Self {
        Self { holds: None, why: Explanation::new(reason, message) }
    }
}

/// Writes findings into the conditions, and removes those of which there is none.
pub(super) fn set(
    conditions: &mut Vec<Condition>,
    findings: impl IntoIterator<Item = (ConditionType, Option<Finding>)>,
    generation: Option<i64>,
    now: Instant,
) {
    for (type_, finding) in findings {
        match finding {
            Some(Finding { holds, why }) => {
                conditions::set(conditions, type_.as_str(), holds, &why, generation, time(now).0);
            }
            None => conditions.retain(|condition| condition.type_ != type_.as_str()),
        }
    }
}

/// All of them, in the order in which status shows them.
pub(super) fn all(picture: &Picture<'_>) -> Vec<(ConditionType, Option<Finding>)> {
    let details = ConditionType::ALL.into_iter().filter_map(|type_| Some((type_, find(type_, picture)?)));
    let mut found: BTreeMap<ConditionType, Finding> = details.collect();
    let ready = ready::find(picture, &found);
    found.insert(ConditionType::Ready, ready);
    found.insert(ConditionType::Stalled, ready::stalled(picture));
    ConditionType::ALL.map(|type_| (type_, found.remove(&type_))).into()
}

fn find(type_: ConditionType, picture: &Picture<'_>) -> Option<Finding> {
    Some(match type_ {
        // They sum up the others.
        ConditionType::Ready | ConditionType::Stalled => return None,
        ConditionType::Available => available::find(picture),
        ConditionType::Progressing => progressing::find(picture),
        ConditionType::Degraded => degraded(picture),
        ConditionType::QuorumAvailable => quorum_available(picture),
        ConditionType::Bootstrapped => bootstrapped(picture),
        ConditionType::UpToDate => up_to_date(picture),
        ConditionType::TlsReady => certificates::ready(picture),
        ConditionType::AuthReady => return auth::find(picture),
        ConditionType::DataStoreReady => return data_store::find(picture),
        ConditionType::SplitBrain => split_brain(picture),
        ConditionType::ExistingData => existing_data(picture),
        ConditionType::SingleMemberRecoveryActive => recovery_active(picture),
        ConditionType::VersionUpgradeBlocked => version::blocked(picture),
        ConditionType::BackupHealthy => return backups::find(picture),
    })
}

fn quorum_available(picture: &Picture<'_>) -> Finding {
    if let Some(finding) = not_running(picture) {
        return finding;
    }
    if picture.has_quorum() {
        let voters = picture.record.voters().count();
        return Finding::yes(
            Reason::QuorumReached,
            format!(
                "a quorum of the {voters} voters answers; it takes {}{}",
                quorum(voters),
                spent_order(picture)
            ),
        );
    }
    without_quorum(picture)
}

/// An order that was followed, or was given while a quorum answered. Left there, it would look like one for the next time.
fn spent_order(picture: &Picture<'_>) -> String {
    match &picture.seen.recover_from {
        None => String::new(),
        Some(from) => format!(
            ". The annotation operator.etcd.io/recover-quorum-from={from} has no effect while a quorum answers: remove it"
        ),
    }
}

fn degraded(picture: &Picture<'_>) -> Finding {
    let wrong =
        picture.waits(|waiting| matches!(waiting, Waiting::WrongMember { .. }).then(|| text(waiting)));
    if let Some(text) = wrong {
        return Finding::yes(Reason::MemberMismatch, text);
    }
    if let Some(why) = data_went_back(picture) {
        return Finding { holds: Some(true), why };
    }
    if let Some(why) = claims_terminating(picture) {
        return Finding { holds: Some(true), why };
    }
    if !picture.record.is_bootstrapped() {
        let stuck = picture.waits(|waiting| {
            matches!(waiting, Waiting::PodStuck(..) | Waiting::NotRestored(..)).then(|| explain(waiting))
        });
        return match stuck {
            Some(why) => Finding { holds: Some(true), why },
            None => Finding::no(Reason::Bootstrapping, "the cluster is not bootstrapped yet"),
        };
    }
    if picture.record.hibernating {
        let lost = picture.waits(|waiting| matches!(waiting, Waiting::VolumeLost(_)).then(|| text(waiting)));
        return match lost {
            Some(text) => Finding::yes(Reason::VolumeLost, text),
            None => Finding::no(Reason::Hibernated, "the cluster is at size zero"),
        };
    }
    if picture.is_ending() {
        return Finding::no(Reason::Deleting, "the cluster is being deleted");
    }
    if let Some(why) = picture.recovers() {
        return Finding { holds: Some(true), why };
    }
    if let Some(why) = picture.restores_in_place() {
        // An order is carried out: that is no fault, unless something holds it up.
        return Finding { holds: Some(why.reason() == Reason::PodNotTerminated), why };
    }
    if picture.is_coming_up() {
        return coming_up(picture);
    }
    if !picture.sick.is_empty() {
        return Finding::yes(Reason::MemberUnhealthy, sick(picture));
    }
    let (voters, size) = (picture.record.voters().count(), picture.target().size);
    if voters < size {
        let failed =
            picture.waits(|waiting| matches!(waiting, Waiting::LearnersFailed { .. }).then(|| text(waiting)));
        let why = failed.map_or_else(|| "; the others are being added".to_owned(), |why| format!(". {why}"));
        return Finding::yes(Reason::MembersMissing, format!("{voters} of {size} members exist{why}"));
    }
    Finding::no(Reason::MembersHealthy, "every member is healthy")
}

/// Whether the cluster woke with older data than it was stopped with.
pub(super) fn data_went_back(picture: &Picture<'_>) -> Option<Explanation> {
    picture.waits(|waiting| matches!(waiting, Waiting::DataWentBack { .. }).then(|| explain(waiting)))
}

/// Every member whose data go with its Pod, and who else is not healthy.
fn claims_terminating(picture: &Picture<'_>) -> Option<Explanation> {
    let is_one = |waiting: &&Waiting| matches!(waiting, Waiting::ClaimTerminating { .. });
    let mut texts: Vec<String> = picture.plan.waiting.iter().filter(is_one).map(text).collect();
    if texts.is_empty() {
        return None;
    }
    texts.extend((!picture.sick.is_empty()).then(|| sick(picture)));
    Some(Explanation::new(Reason::ClaimTerminating, texts.join(". ")))
}

fn bootstrapped(picture: &Picture<'_>) -> Finding {
    let record = picture.record;
    match (record.cluster_id, record.abandoned) {
        (Some(id), _) => Finding::yes(Reason::Bootstrapped, format!("the cluster ID is {id}")),
        (None, Some(why)) => Finding::no(
            Reason::BootstrapAbandoned,
            format!(
                "bootstrap attempt {} was abandoned because {}; a new attempt follows",
                record.attempt,
                why.as_str()
            ),
        ),
        (None, None) => match (picture.waits(existing), picture.waits(not_restored)) {
            (Some(text), _) => Finding::no(Reason::ExistingData, text),
            (None, Some(why)) => Finding::because(why),
            (None, None) => Finding::no(Reason::Bootstrapping, "the cluster is not bootstrapped yet"),
        },
    }
}

/// Why the cluster does not begin with its snapshot.
fn not_restored(waiting: &Waiting) -> Option<Explanation> {
    matches!(waiting, Waiting::NoSnapshot(_) | Waiting::NotRestored(..)).then(|| explain(waiting))
}

fn up_to_date(picture: &Picture<'_>) -> Finding {
    let record = picture.record;
    if let Some(invalid) = picture.refused {
        return Finding::no(Reason::SpecInvalid, invalid.to_string());
    }
    let told = picture.waits(|waiting| {
        let holds = matches!(
            waiting,
            Waiting::VersionRefused(_)
                | Waiting::UpgradeBackup(_)
                | Waiting::UpgradeBackupFailed(_)
                | Waiting::Downgrading(_)
                | Waiting::Wave(_)
                | Waiting::EditedTooLate(_)
                | Waiting::Auth(AuthWait::Changing(_) | AuthWait::StaysOn(_) | AuthWait::OffRefused(_))
        );
        holds.then(|| explain(waiting))
    });
    if let Some(why) = told {
        return Finding::because(why);
    }
    if !record.is_bootstrapped() {
        return Finding::no(Reason::Bootstrapping, "the cluster is not bootstrapped yet");
    }
    let waits_on_purpose = waits_for_the_next_change(picture);
    if record.target.as_ref() != Some(&picture.seen.desired) && !waits_on_purpose {
        let why = picture.waits(|waiting| matches!(waiting, Waiting::SafePoint(_)).then(|| text(waiting)));
        let why = why.unwrap_or_else(|| "an edit of the spec is not committed yet".to_owned());
        return Finding::no(Reason::SpecPending, why);
    }
    if record.hibernating {
        let stopped = picture.seen.pods.is_empty();
        let reason = if stopped { Reason::Reconciled } else { Reason::Hibernating };
        let why = Explanation::new(reason, "spec.size is zero");
        return Finding { holds: Some(stopped), why };
    }
    if picture.is_scaling() {
        return Finding::no(Reason::Scaling, scaling(picture));
    }
    let stale: Vec<&str> = picture.stale().into_iter().map(MemberName::as_str).collect();
    if !stale.is_empty() {
        let names = in_words(&stale, "runs", "run");
        return Finding::no(Reason::RollingOut, format!("{names} with an earlier Pod template"));
    }
    let not_run = picture.voters_lacking(|pod| pod.runs);
    if !not_run.is_empty() {
        return Finding::no(Reason::MembersMissing, in_words(&not_run, "does not run", "do not run"));
    }
    let small = smaller_volumes(picture);
    if !small.is_empty() {
        let volumes = in_words(&small, "has", "have");
        let text = format!(
            "of the volumes, {volumes} not grown to spec.storageSpec.volumeSizeRequest yet. If it lasts, kubectl describe pvc {} says why",
            small[0]
        );
        return Finding::no(Reason::VolumeGrowing, text);
    }
    Finding::yes(
        Reason::Reconciled,
        if waits_on_purpose {
            "every member matches the spec. New defaults of the operator come with the next change of it, as \
             spec.updates.operatorDefaults says"
        } else {
            "every member matches the spec"
        },
    )
}

/// The voters whose volumes are known to be smaller than the spec asks for, and are not just waiting for their next mount.
fn smaller_volumes<'a>(picture: &Picture<'a>) -> Vec<&'a str> {
    let wanted = picture.target().storage.bytes;
    let is_smaller = |voter: &&MemberName| {
        let volume = picture.seen.volumes.get(*voter).filter(|volume| !volume.grows_at_mount);
        volume.and_then(|volume| volume.capacity).is_some_and(|capacity| capacity < wanted)
    };
    picture.record.voters().filter(is_smaller).map(MemberName::as_str).collect()
}

/// Who comes and who goes. How many voters there are explains the rest, and says nothing where that is the size.
fn scaling(picture: &Picture<'_>) -> String {
    let record = picture.record;
    let at = |is: fn(Stage) -> bool| -> Vec<&str> {
        let members = record.members.iter().filter(|(_, member)| is(member.stage));
        members.map(|(name, _)| name.as_str()).collect()
    };
    let joining = at(|stage| stage == Stage::Joining);
    let leaving = at(|stage| matches!(stage, Stage::Leaving(_)));
    let mut parts = vec![
        in_words(&joining, "is being added", "are being added"),
        in_words(&leaving, "is being removed", "are being removed"),
    ];
    let replaced = record.replacement.as_ref().map(|replacement| replacement.member.as_str());
    let replaced = replaced.filter(|replaced| !leaving.contains(replaced));
    parts.extend(replaced.map(|replaced| format!("{replaced} is being replaced")));
    let (voters, size) = (record.voters().count(), picture.target().size);
    if voters != size {
        let are = if voters == 1 { "is 1 voter".to_owned() } else { format!("are {voters} voters") };
        parts.push(format!("there {are}, and spec.size is {size}"));
    }
    parts.retain(|part| !part.is_empty());
    parts.join("; ")
}

fn waits_for_the_next_change(picture: &Picture<'_>) -> bool {
    let seen = picture.seen;
    let differs = |target: &Target| seen.desired.differs_by_operator_only(target);
    seen.defaults == DefaultsTurn::OnNextChange && picture.record.target.as_ref().is_some_and(differs)
}

fn split_brain(picture: &Picture<'_>) -> Finding {
    match picture.waits(split) {
        Some(text) => Finding::yes(Reason::SplitBrain, text),
        None => Finding::no(Reason::SingleClusterID, "every member that answers belongs to one cluster"),
    }
}

fn existing_data(picture: &Picture<'_>) -> Finding {
    match picture.waits(existing) {
        Some(text) => Finding::yes(Reason::ExistingData, text),
        None => Finding::no(Reason::NoExistingData, "there are no volumes of an earlier cluster"),
    }
}

fn recovery_active(picture: &Picture<'_>) -> Finding {
    if let Some(replacement) = &picture.record.replacement {
        let (member, loss) = (&replacement.member, replacement.loss);
        let step = picture.next_step();
        let step = if step.is_empty() { String::new() } else { format!(". {step}") };
        let is_unnamed = loss == Loss::Ordered && !picture.seen.is_ordered_to_be_replaced(member);
        let goes_on = match (is_unnamed, is_removed(picture, member)) {
            (false, true | false) => String::new(),
            (true, true) => {
                format!(". {member} is removed, so this goes on, with or without the annotation")
            }
            (true, false) => format!(
                ". The annotation was removed. Once the present halt is over this is withdrawn, unless {member} is not healthy and another \
                 has its place"
            ),
        };
        return Finding::yes(Reason::Replacing, format!("{member} is being replaced: {loss}{step}{goes_on}"));
    }
    let kept_off = picture.waits(|waiting| {
        let keeps_off = matches!(waiting, Waiting::MayBeLost { .. } | Waiting::ReplacementDisabled { .. });
        keeps_off.then(|| explain(waiting))
    });
    kept_off
        .map_or_else(|| Finding::no(Reason::NoReplacement, "no member is being replaced"), Finding::because)
}

/// Whether a member is being removed, or the list of members is known and lacks it.
fn is_removed(picture: &Picture<'_>, member: &MemberName) -> bool {
    let (seen, record, now) = (picture.seen, picture.record, picture.now);
    let leaves = record.members.get(member).is_some_and(|member| matches!(member.stage, Stage::Leaving(_)));
    leaves || (seen.list(now).is_some() && seen.listed(record, member, now).is_none())
}

/// The cluster does not run yet, or is stopped on purpose.
fn not_running(picture: &Picture<'_>) -> Option<Finding> {
    let record = picture.record;
    if picture.is_ending() {
        return Some(Finding::no(Reason::Deleting, "the cluster is being deleted"));
    }
    if record.hibernating {
        let text = "the cluster is at size zero and its volumes are kept. Any other spec.size wakes it";
        return Some(Finding::no(Reason::Hibernated, text));
    }
    if let Some(why) = picture.recovers().or_else(|| picture.restores_in_place()) {
        return Some(Finding::because(why));
    }
    if record.is_bootstrapped() {
        return None;
    }
    Some(match picture.waits(existing) {
        Some(text) => Finding::no(Reason::ExistingData, text),
        None => Finding::no(Reason::Bootstrapping, "the cluster is not bootstrapped yet"),
    })
}

fn existing(waiting: &Waiting) -> Option<String> {
    let why = explain(waiting);
    (why.reason() == Reason::ExistingData).then(|| why.message().to_owned())
}

fn split(waiting: &Waiting) -> Option<String> {
    matches!(waiting, Waiting::SplitBrain(_)).then(|| text(waiting))
}

fn without_quorum(picture: &Picture<'_>) -> Finding {
    if picture.is_coming_up() {
        return coming_up(picture);
    }
    if !picture.was_looked_at() {
        return Finding::unknown(Reason::NotObserved, "the members have not been asked yet");
    }
    // Also while it is paused, when the plan waits for nothing else.
    if let Some(kept_out) = picture.seen.kept_out_by_auth(picture.record, picture.now) {
        return Finding::unknown(Reason::AuthEnabled, text(&Waiting::Auth(AuthWait::KeptOut(kept_out))));
    }
    Finding::no(Reason::QuorumLost, lost_quorum(picture))
}

fn coming_up(picture: &Picture<'_>) -> Finding {
    let names: Vec<&str> = picture.sick.iter().map(|(name, _)| name.as_str()).collect();
    let reason = if picture.is_waking() { Reason::Waking } else { Reason::Bootstrapping };
    if names.is_empty() {
        return Finding::no(reason, "the client Service has no endpoint yet");
    }
    Finding::no(reason, in_words(&names, "is starting", "are starting"))
}

/// What is lost, and what a person can do.
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
        ". Lost Pods are restarted on their own volumes, and nothing else is done. Bring back the nodes and volumes of \
         these members. Do not delete the volumes: they hold the data",
    );
    if let Some(refused) = picture.waits(|waiting| {
        matches!(waiting, Waiting::Recovery(RecoveryWait::Refused(_))).then(|| text(waiting))
    }) {
        let _ = write!(message, ". {refused}");
    } else if is_lost_for_long(picture) {
        message.push_str(&last_resort(picture));
    }
    message
}

/// Whether no quorum has answered for as long as the spec waits for a member.
fn is_lost_for_long(picture: &Picture<'_>) -> bool {
    let since = picture.seen.etcd.unserved_since;
    since.is_some_and(|since| picture.now - since >= picture.seen.replacement_policy.grace)
}

/// The order that recovers the quorum from one member, and what is known of what that would lose.
fn last_resort(picture: &Picture<'_>) -> String {
    let knows = |member: &MemberName| {
        let committed = picture.seen.status_of(member, picture.now)?.committed;
        Some(format!("{member} knows entries up to {committed} to be committed"))
    };
    let known: Vec<String> = picture.record.members.keys().filter_map(knows).collect();
    let mut text = String::from(
        ". If too few of them can ever come back, the cluster can be recovered from what one member has committed: annotate \
         it with operator.etcd.io/recover-quorum-from=auto, or with the name of a member. What only the others have is lost \
         then. The runbook has what to check before (QuorumLost)",
    );
    if !known.is_empty() {
        let _ = write!(text, ". {}", known.join(", "));
    }
    text
}

fn sick(picture: &Picture<'_>) -> String {
    let sick: Vec<String> = picture.sick.iter().map(|(name, why)| format!("{name}: {why}")).collect();
    sick.join(". ")
}

/// `a is`, `a and b are`, `a, b and c are`.
pub(super) fn in_words(names: &[&str], one: &str, several: &str) -> String {
    match names {
        [] => String::new(),
        [name] => format!("{name} {one}"),
        [first @ .., last] => format!("{} and {last} {several}", first.join(", ")),
    }
}
