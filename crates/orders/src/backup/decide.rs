//! What is next for an EtcdBackup: a pure function of what is observed. The status is written first; the act follows only when that
//! succeeded.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use quorate_api::backup::{BackupCondition, BackupPhase, BackupResult, DeletionPolicy, EtcdBackupStatus};
use quorate_api::job::{
    BackupOrder, Failure, FailureKind, InspectOrder, Manifest, SIGNING_KEY, SIGNING_KEY_BYTES,
    SIGNING_SECRET, Task as _,
};
use quorate_api::status::{EtcdClusterStatus, MemberStatus};
use quorate_api::{ConditionType, EtcdBackup, EtcdCluster, Explanation, Reason, conditions, duration, keys};
use quorate_manifests::backup::{self, ExistingOrder, Of};
use quorate_manifests::record;
use quorate_model::{Backoff, ClusterId, Instant, MemberName, Span};

use super::bound::Place;
use super::learned::{self, Learned};
use super::{ending, existing};
use crate::outcome::{JobOutcome, Reply};
use crate::ready;
use crate::time::timestamp;

/// The delays before the next attempt.
pub(super) const DELAYS: Backoff = Backoff { first: Span::seconds(30), longest: Span::seconds(600) };

/// How long in milliseconds a view of an EtcdBackup can be older than its Job: what is written is in the cache long before.
const OLD_VIEW: i64 = 60_000;

/// What is observed of an EtcdBackup.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The backup.
    pub backup: &'a EtcdBackup,
    /// The EtcdCluster that it names, if it exists.
    pub cluster: Option<&'a EtcdCluster>,
    /// The EtcdCluster that its endpoints belong to, if that does not allow its destination.
    pub refusing: Option<&'a EtcdCluster>,
    /// The EtcdCluster that has its destination as the volume of a member.
    pub owner_of_claim: Option<&'a EtcdCluster>,
    /// The name of the backup that it has to wait for; while it is being deleted: whose object is removed before its own.
    pub waits_for: Option<&'a str>,
    /// What an earlier one of the same etcd with the same destination has learned.
    pub learned: Option<Learned>,
    /// Its place in the queue over all clusters, if as many backups run as may.
    pub place: Option<Place>,
    /// A Pod of the Job of its last attempt has started.
    pub has_started: bool,
    /// Its Jobs, with what they have come to.
    pub jobs: &'a [(&'a Job, JobOutcome)],
    /// How many Pods of its Jobs have not ended.
    pub running_pods: usize,
    /// How many removals of other objects from the same destination have failed.
    pub failed_removals: u32,
    /// Every EtcdBackup of the namespace is being deleted.
    pub all_go: bool,
    /// Who still restores from its object.
    pub used_by: Option<&'a User>,
    /// It was created for a restore that does not wait for it any more.
    pub is_given_up: bool,
    /// The time.
    pub now: Instant,
}

impl<'a> Seen<'a> {
    /// The backup alone, and nothing beside it.
    pub fn only(backup: &'a EtcdBackup, now: Instant) -> Self {
        Self {
            backup,
            cluster: None,
            refusing: None,
            owner_of_claim: None,
            waits_for: None,
            learned: None,
            place: None,
            has_started: false,
            jobs: &[],
            running_pods: 0,
            failed_removals: 0,
            all_go: false,
            used_by: None,
            is_given_up: false,
            now,
        }
    }
}

/// Who still needs the object of an EtcdBackup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum User {
    /// An EtcdCluster whose members restore from it.
    Cluster(String),
    /// An EtcdRestore that is not over.
    Restore(String),
}

/// What is next.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The status as it is to be.
    pub status: EtcdBackupStatus,
    /// What is done when it is written.
    pub act: Act,
    /// What is reported as an event.
    pub event: Option<(bool, Explanation)>,
}

/// One act.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// Adds the operator's finalizer.
    AddFinalizer,
    /// Removes it.
    RemoveFinalizer,
    /// The Job of the attempt in the status.
    Backup {
        /// The order.
        order: Box<BackupOrder>,
        /// The Secret of the client certificate.
        tls_secret: Option<String>,
        /// How long it may take.
        seconds: i64,
    },
    /// The Job of the try in the status to see the object of one that stands for an existing one.
    Inspect {
        /// The order.
        order: Box<ExistingOrder>,
        /// How long it may take.
        seconds: i64,
    },
    /// The Job of the removal in the status.
    Remove,
    /// Deletes this Job.
    DeleteJob(String),
    /// Nothing: a change in Kubernetes, or this time, starts the next pass.
    Wait(Option<Instant>),
    /// Nothing is left to do.
    Rest,
}

/// What is next.
pub fn decide(seen: Seen<'_>) -> Decision {
    let mut decision = next(seen);
    // What is cached of one that has ended lacks conditions, and whoever changes it sums them up. One without the finalizer may be gone any
    // moment.
    if !has_ended(seen.backup)
        && (seen.backup.metadata.deletion_timestamp.is_none() || has_finalizer(seen.backup))
    {
        ready::backup(seen.backup, &mut decision.status, seen.now);
    }
    decision
}

fn next(seen: Seen<'_>) -> Decision {
    let mut status = seen.backup.status.clone().unwrap_or_default();
    if seen.backup.metadata.deletion_timestamp.is_some() {
        return ending::decide(seen, status);
    }
    if seen.backup.spec.existing.is_some() {
        return existing::decide(seen, status);
    }
    if let Some(why) = existing::lost(seen.backup, &status) {
        return failed(seen, status, why);
    }
    match status.phase {
        Some(BackupPhase::Complete | BackupPhase::Failed) => after_the_end(seen, status),
        Some(BackupPhase::Pending | BackupPhase::Running | BackupPhase::Deleting) | None => {
            if status.cluster_id.is_none() {
                status.cluster_id =
                    seen.cluster.and_then(|cluster| cluster.status.as_ref()?.cluster_id.clone());
            }
            if !has_finalizer(seen.backup) {
                return Decision { status, act: Act::AddFinalizer, event: None };
            }
            let is_under_way = status.attempts > 0 && status.next_attempt.is_none();
            if !is_under_way && let Some(why) = is_of_other_data(seen, &status) {
                return failed(seen, status, why);
            }
            if is_under_way { attempt(seen, status) } else { begin(seen, status) }
        }
    }
}

/// Whether it is complete or has failed, and nobody deletes it.
pub fn has_ended(backup: &EtcdBackup) -> bool {
    let phase = backup.status.as_ref().and_then(|status| status.phase);
    backup.metadata.deletion_timestamp.is_none()
        && matches!(phase, Some(BackupPhase::Complete | BackupPhase::Failed))
}

/// Takes off a backup that has ended what nobody reads of it: there are many of them. Of its conditions those stay that say how it ended,
/// and whether its object is in the store. No status is written that rests on it.
pub fn cut(backup: &mut EtcdBackup) {
    if !has_ended(backup) {
        return;
    }
    if let Some(status) = &mut backup.status {
        let in_store = BackupCondition::InStore.as_str();
        let ends = [BackupCondition::Complete, BackupCondition::Failed].map(BackupCondition::as_str);
        let is_read = |one: &Condition| {
            one.type_ == in_store
                || (conditions::holds(one) == Some(true) && ends.contains(&one.type_.as_str()))
        };
        status.conditions.retain(is_read);
        status.conditions.shrink_to_fit();
    }
}

/// Whether it has the operator's finalizer.
pub fn has_finalizer(backup: &EtcdBackup) -> bool {
    backup.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == keys::BACKUP_FINALIZER)
}

/// Whether the queue decides about it: only then the others are looked at.
pub fn is_in_queue(backup: &EtcdBackup) -> bool {
    let phase = backup.status.as_ref().and_then(|status| status.phase);
    has_finalizer(backup)
        && backup.spec.existing.is_none()
        && matches!(phase, None | Some(BackupPhase::Pending))
}

/// Whether a Pod is of a Job of this EtcdBackup, which may be gone already: the name of the Job has the uid. Any Pod may have the label, and
/// must not hold up the removal.
pub fn is_of(pod: &Pod, backup: &EtcdBackup) -> bool {
    let uid = backup.metadata.uid.as_deref().unwrap_or_default();
    let names = [format!("backup-{uid}-"), format!("remove-backup-{uid}-")];
    let mut owners = pod.metadata.owner_references.iter().flatten();
    owners.any(|owner| owner.kind == "Job" && names.iter().any(|name| owner.name.starts_with(name)))
}

/// Whether a Pod is of the Job of the last attempt. One of an earlier attempt may run on, on a node that is gone.
pub fn is_of_attempt(pod: &Pod, backup: &EtcdBackup) -> bool {
    let job = backup.status.as_ref().and_then(|status| status.job_name.as_ref());
    let mut owners = pod.metadata.owner_references.iter().flatten();
    job.is_some_and(|job| owners.any(|owner| owner.kind == "Job" && owner.name == *job))
}

/// Whether a Pod has not ended: it may still write.
pub fn runs(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    !matches!(phase, Some("Succeeded" | "Failed"))
}

/// Whether the container of a Pod has run: it has its volumes, its image and a node.
pub fn has_started(pod: &Pod) -> bool {
    let mut containers = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    containers.any(|container| {
        container.state.as_ref().is_some_and(|state| state.running.is_some() || state.terminated.is_some())
    })
}

/// The status in one of its states.
pub fn state(
    seen: Seen<'_>,
    mut status: EtcdBackupStatus,
    phase: BackupPhase,
    holds: BackupCondition,
    why: &Explanation,
) -> EtcdBackupStatus {
    status.phase = Some(phase);
    if phase != BackupPhase::Running || seen.has_started {
        status.not_started_since = None;
    }
    for type_ in BackupCondition::STATES {
        let generation = seen.backup.metadata.generation;
        conditions::set(
            &mut status.conditions,
            type_.as_str(),
            type_ == holds,
            why,
            generation,
            timestamp(seen.now),
        );
    }
    ready::backup(seen.backup, &mut status, seen.now);
    status
}

/// Whether it is waited until then. A time beyond the longest delay is of a clock that was ahead, and would hold up the schedule as well.
pub(super) fn is_put_off(next: i64, now: Instant, longest: Span) -> bool {
    next > now.0 && Instant(next) - now <= longest
}

/// It is complete or has failed: its Job goes, and the finalizer where no object has to be removed later.
fn after_the_end(seen: Seen<'_>, status: EtcdBackupStatus) -> Decision {
    let act = match seen.jobs.first() {
        Some((job, _)) => Act::DeleteJob(job.metadata.name.clone().unwrap_or_default()),
        None if has_finalizer(seen.backup) && seen.backup.spec.deletion_policy == DeletionPolicy::Retain => {
            Act::RemoveFinalizer
        }
        None => Act::Rest,
    };
    Decision { status, act, event: None }
}

/// What comes before the next attempt: an old view is waited out, the Job of one that failed goes, and its delay passes.
pub(super) fn before_the_next(seen: Seen<'_>, status: &EtcdBackupStatus) -> Option<Act> {
    if let Some(known) = seen.jobs.iter().find_map(|(job, _)| known_at(seen, status, job)) {
        return Some(Act::Wait(Some(known)));
    }
    if let Some((job, _)) = seen.jobs.first() {
        return Some(Act::DeleteJob(job.metadata.name.clone().unwrap_or_default()));
    }
    let next = status.next_attempt.as_ref().map(|next| next.0.as_millisecond());
    let next = next.filter(|next| is_put_off(*next, seen.now, DELAYS.longest));
    next.map(|next| Act::Wait(Some(Instant(next))))
}

/// An attempt is recorded before its Job is created. So a Job of the next one, created a moment ago, says that this EtcdBackup is an old view of
/// it: its answer is not lost for that. When it is known better: then the view is new, or the status was lost.
fn known_at(seen: Seen<'_>, status: &EtcdBackupStatus, job: &Job) -> Option<Instant> {
    let uid = seen.backup.metadata.uid.as_deref().unwrap_or_default();
    let named = match seen.backup.spec.existing {
        Some(_) => InspectOrder::job_name,
        None => BackupOrder::job_name,
    };
    let next = named(uid, status.attempts.saturating_add(1));
    let created = job.metadata.creation_timestamp.as_ref()?.0.as_millisecond();
    let is_new = (0..OLD_VIEW).contains(&seen.now.0.saturating_sub(created));
    (is_new && job.metadata.name.as_deref() == Some(&next)).then(|| Instant(created + OLD_VIEW))
}

/// No attempt is under way: the next one begins, or it is waited.
fn begin(seen: Seen<'_>, mut status: EtcdBackupStatus) -> Decision {
    if let Some(act) = before_the_next(seen, &status) {
        return Decision { status, act, event: None };
    }
    let order = match order(seen).and_then(|order| not_beside_defragmentation(seen).map(|()| order)) {
        Ok(order) => order,
        Err(Refusal::Never(why)) => return failed(seen, status, why),
        Err(Refusal::NotYet(why)) => {
            let status = state(seen, status, BackupPhase::Pending, BackupCondition::Pending, &why);
            return Decision { status, act: Act::Wait(None), event: None };
        }
    };
    if let Some(other) = seen.waits_for {
        let text = format!("EtcdBackup {other} of the same etcd comes first: one is taken at a time");
        let why = Explanation::new(Reason::BackupQueued, text);
        let status = state(seen, status, BackupPhase::Pending, BackupCondition::Pending, &why);
        return Decision { status, act: Act::Wait(None), event: None };
    }
    if let Some(place) = seen.place {
        let why = Explanation::new(Reason::BackupLimitReached, place.to_string());
        let status = state(seen, status, BackupPhase::Pending, BackupCondition::Pending, &why);
        return Decision { status, act: Act::Wait(None), event: None };
    }
    if status.attempts == 0
        && status.scratch_bytes.is_none()
        && let Some(Learned { bytes, since }) = seen.learned
    {
        // Recorded first: the order and the volume of the Job go by what the status has.
        status.scratch_bytes = Some(bytes);
        status.too_slow_since = Some(Time(timestamp(since)));
        return Decision { status, act: Act::Wait(Some(seen.now)), event: None };
    }
    start(seen, &mut status);
    if deadline(seen.backup, &status, seen.now) <= seen.now.0 {
        return out_of_time(seen, status);
    }
    let uid = seen.backup.metadata.uid.as_deref().unwrap_or_default();
    let name = BackupOrder::job_name(uid, status.attempts);
    status.job_name = Some(name.clone());
    let why =
        Explanation::new(Reason::BackupRunning, format!("Job {name} takes it, attempt {}", status.attempts));
    let mut status = state(seen, status, BackupPhase::Running, BackupCondition::Running, &why);
    // What has started is of an earlier attempt.
    status.not_started_since = Some(Time(timestamp(seen.now)));
    let act = create(seen, &status, order);
    Decision { status, act, event: None }
}

/// Another attempt begins.
pub(super) fn start(seen: Seen<'_>, status: &mut EtcdBackupStatus) {
    status.attempts = status.attempts.saturating_add(1);
    status.next_attempt = None;
    status.started.get_or_insert_with(|| Time(timestamp(seen.now)));
}

/// An attempt is under way.
fn attempt(seen: Seen<'_>, status: EtcdBackupStatus) -> Decision {
    let name = status.job_name.clone().unwrap_or_default();
    let job = seen.jobs.iter().find(|(job, _)| job.metadata.name.as_deref() == Some(&name));
    let is_late = deadline(seen.backup, &status, seen.now) <= seen.now.0;
    let Some((job, outcome)) = job else {
        if is_late {
            return out_of_time(seen, status);
        }
        // It was recorded and not created, or somebody deleted it: its name lets it exist once.
        if let Some(why) = is_of_other_data(seen, &status) {
            return failed(seen, status, why);
        }
        return match order(seen) {
            Ok(order) => {
                let act = create(seen, &status, order);
                Decision { status, act, event: None }
            }
            Err(Refusal::Never(why)) => failed(seen, status, why),
            Err(Refusal::NotYet(why)) => try_again(seen, status, &why),
        };
    };
    match outcome.of::<BackupOrder>() {
        Reply::Running(Some(stuck)) if is_late => late(seen, status, &format!(". {stuck}")),
        Reply::Running(None) if is_late => out_of_time(seen, status),
        Reply::Running(stuck) => {
            let text = match stuck {
                Some(stuck) => format!("Job {name} takes it, attempt {}. {stuck}", status.attempts),
                None => format!("Job {name} takes it, attempt {}", status.attempts),
            };
            let why = Explanation::new(Reason::BackupRunning, text);
            let ends = Instant(deadline(seen.backup, &status, seen.now));
            let status = state(seen, status, BackupPhase::Running, BackupCondition::Running, &why);
            Decision { status, act: Act::Wait(Some(ends)), event: None }
        }
        Reply::Done(manifest) => complete(seen, status, manifest),
        Reply::Failed(failure) => {
            let why = Explanation::new(failure.kind.into(), failure.message.clone());
            let mut status = status;
            if let Some(bytes) = scratch(failure) {
                // It stays: what was too slow once is too slow again.
                status.scratch_bytes = status.scratch_bytes.max(Some(bytes));
                status.too_slow_since = Some(Time(timestamp(seen.now)));
            }
            if failure.wrote == Some(false) && has_one_pod(job) {
                status.attempts_without_write = status.attempts_without_write.saturating_add(1);
            }
            if failure.kind.may_pass() { try_again(seen, status, &why) } else { failed(seen, status, why) }
        }
        Reply::NotAsked => {
            let text =
                format!("Job {name} answered what it was not asked: its image is not that of this operator");
            failed(seen, status, Explanation::new(Reason::JobFailed, text))
        }
        Reply::Lost(text) => try_again(seen, status, &Explanation::new(Reason::JobFailed, text)),
    }
}

/// Whether the Pod that answers is the only one that the Job had. After the loss of a node there may be two, and one answers for itself.
fn has_one_pod(job: &Job) -> bool {
    let Some(status) = &job.status else { return true };
    let count = |number: Option<i32>| number.unwrap_or_default();
    count(status.active).max(count(status.failed)) + count(status.terminating) <= 1
}

fn complete(seen: Seen<'_>, mut status: EtcdBackupStatus, manifest: &Manifest) -> Decision {
    if Some(&manifest.origin.backup_uid) != seen.backup.metadata.uid.as_ref() {
        let text = format!("the object {} belongs to another EtcdBackup", manifest.key);
        return failed(seen, status, Explanation::new(Reason::ObjectNotOwned, text));
    }
    if let Some(first) = status.cluster_id.clone().filter(|first| differ(first, &manifest.cluster_id)) {
        let text = format!(
            "the object {} is of cluster {}, and {}",
            manifest.key,
            manifest.cluster_id,
            was_ordered_of(&first)
        );
        return failed(seen, status, Explanation::new(Reason::ClusterIDMismatch, text));
    }
    let url = seen.backup.spec.destination.url(&manifest.key);
    let unsigned = match manifest.signature {
        Some(_) => String::new(),
        None => format!(
            ". Its manifest is not signed: Secret {SIGNING_SECRET} has no entry {SIGNING_KEY} of {SIGNING_KEY_BYTES} bytes or more"
        ),
    };
    let text =
        format!("{url} has revision {} of etcd {}{unsigned}", manifest.revision, manifest.etcd_version);
    let why = Explanation::new(Reason::BackupComplete, text);
    status.result = Some(BackupResult::new(manifest, url));
    let status = state(seen, status, BackupPhase::Complete, BackupCondition::Complete, &why);
    Decision { status, act: Act::Wait(Some(seen.now)), event: Some((false, why)) }
}

/// The bytes of the volume to which the next attempt writes the snapshot first, if this one was too slow.
fn scratch(failure: &Failure) -> Option<u64> {
    (failure.kind == FailureKind::TooSlow)
        .then(|| learned::scratch(failure.database_bytes.unwrap_or_default()))
}

/// The next attempt, where one is left and the deadline admits it.
pub(super) fn try_again(seen: Seen<'_>, mut status: EtcdBackupStatus, why: &Explanation) -> Decision {
    let next = (seen.now + DELAYS.after(status.attempts)).0;
    let (attempts, retries) = (status.attempts, seen.backup.spec.retries);
    // A look costs nobody anything.
    let is_last = attempts > retries && seen.backup.spec.existing.is_none();
    if is_last || next >= deadline(seen.backup, &status, seen.now) {
        let text = format!("{}. It was tried {attempts} times", why.message());
        return failed(seen, status, Explanation::new(why.reason(), text));
    }
    status.next_attempt = Some(Time(timestamp(Instant(next))));
    let text =
        format!("attempt {attempts} failed, and the next one follows: {}: {}", why.reason(), why.message());
    let why = Explanation::new(Reason::RetryPending, text);
    let status = state(seen, status, BackupPhase::Pending, BackupCondition::Pending, &why);
    Decision { status, act: Act::Wait(Some(Instant(next))), event: Some((true, why)) }
}

pub(super) fn out_of_time(seen: Seen<'_>, status: EtcdBackupStatus) -> Decision {
    late(seen, status, "")
}

/// Out of time, and what it waited for.
pub(super) fn late(seen: Seen<'_>, status: EtcdBackupStatus, waited: &str) -> Decision {
    let text = format!("it was not complete within spec.deadline ({}){waited}", seen.backup.spec.deadline);
    failed(seen, status, Explanation::new(Reason::DeadlineExceeded, text))
}

pub(super) fn failed(seen: Seen<'_>, mut status: EtcdBackupStatus, why: Explanation) -> Decision {
    status.next_attempt = None;
    let status = state(seen, status, BackupPhase::Failed, BackupCondition::Failed, &why);
    Decision { status, act: Act::Wait(Some(seen.now)), event: Some((true, why)) }
}

fn create(
    seen: Seen<'_>,
    status: &EtcdBackupStatus,
    (mut order, tls_secret): (BackupOrder, Option<String>),
) -> Act {
    let seconds = (deadline(seen.backup, status, seen.now) - seen.now.0) / 1000;
    order.seconds = order.rate_limit.and_then(|_| u64::try_from(seconds).ok());
    Act::Backup { order: Box::new(order), tls_secret, seconds }
}

/// When it has failed, in milliseconds since the Unix epoch.
pub(super) fn deadline(backup: &EtcdBackup, status: &EtcdBackupStatus, now: Instant) -> i64 {
    let started = status.started.as_ref().map_or(now.0, |started| started.0.as_millisecond());
    let seconds = duration::seconds(&backup.spec.deadline).and_then(|seconds| i64::try_from(seconds).ok());
    started.saturating_add(seconds.unwrap_or(3600).saturating_mul(1000))
}

/// Why no attempt can begin.
enum Refusal {
    Never(Explanation),
    NotYet(Explanation),
}

fn order(seen: Seen<'_>) -> Result<(BackupOrder, Option<String>), Refusal> {
    let backup = seen.backup;
    let not_yet = |reason, text: String| Refusal::NotYet(Explanation::new(reason, text));
    if let Some(cluster) = seen.refusing {
        return Err(Refusal::Never(not_allowed(backup, cluster)));
    }
    if let Some(why) = claim_refused(seen) {
        return Err(Refusal::Never(why));
    }
    let of = match (&backup.spec.source.cluster, &backup.spec.source.endpoints) {
        (_, Some(endpoints)) => Of::Endpoints(endpoints),
        (name, None) => {
            let name = name.as_deref().unwrap_or_default();
            let cluster = seen.cluster.ok_or_else(|| {
                not_yet(Reason::ClusterNotFound, format!("there is no EtcdCluster {name} in this namespace"))
            })?;
            if is_of_another(backup, cluster) {
                let text = format!(
                    "the EtcdCluster {name} that it was to be taken of is gone, and this is another one"
                );
                return Err(Refusal::Never(Explanation::new(Reason::ClusterNotFound, text)));
            }
            let policy = cluster.spec.backup.clone().unwrap_or_default();
            if !policy.allows(&backup.spec.destination) {
                return Err(Refusal::Never(not_allowed(backup, cluster)));
            }
            if !backup.spec.without_quorum && !has_quorum(cluster) {
                let text = format!("EtcdCluster {name} has no quorum now; the backup waits for it");
                return Err(not_yet(Reason::ClusterNotServing, text));
            }
            let undecided = cluster.status.as_ref().filter(|status| is_undecided(status));
            if let Some(status) = undecided.filter(|_| !backup.spec.without_quorum) {
                return Err(not_yet(Reason::DataInconsistent, undecided_text(name, status)));
            }
            Of::Cluster(cluster)
        }
    };
    let order = backup::backup_order(backup, of)
        .ok_or_else(|| not_yet(Reason::ClusterNotServing, "the EtcdCluster has no voter now".to_owned()))?;
    Ok((order, backup::tls_secret(backup, of)))
}

/// Why its claim is not mounted: it is the volume of a member.
pub(super) fn claim_refused(seen: Seen<'_>) -> Option<Explanation> {
    let cluster = seen.owner_of_claim?;
    let text = format!(
        "the claim of destination.pvc is the volume of a member of EtcdCluster {}: choose another claim in another EtcdBackup",
        cluster.metadata.name.as_deref().unwrap_or_default()
    );
    Some(Explanation::new(Reason::DestinationNotAllowed, text))
}

/// Why no attempt can be of the data that it was ordered of, if other data have taken their place: by a restore in place, by the recovery of a
/// quorum, or with another EtcdCluster of that name.
fn is_of_other_data(seen: Seen<'_>, status: &EtcdBackupStatus) -> Option<Explanation> {
    let first = status.cluster_id.as_ref()?;
    let cluster = seen.cluster?;
    let present = cluster.status.as_ref()?.cluster_id.as_ref().filter(|present| differ(first, present))?;
    let name = cluster.metadata.name.as_deref().unwrap_or_default();
    let text = format!("EtcdCluster {name} has cluster ID {present} now, and {}", was_ordered_of(first));
    Some(Explanation::new(Reason::ClusterIDMismatch, text))
}

fn was_ordered_of(first: &str) -> String {
    format!(
        "this EtcdBackup was ordered of {first}, whose data are given up: it is not taken of others. For the present data, create another \
         EtcdBackup. Volumes with the earlier data may be kept: status.quarantinedVolumes of the EtcdCluster lists them"
    )
}

/// Whether two cluster IDs are those of different clusters. What cannot be read as one tells nothing.
fn differ(one: &str, other: &str) -> bool {
    let id = |text: &str| text.parse::<ClusterId>().ok();
    matches!((id(one), id(other)), (Some(one), Some(other)) if one != other)
}

/// Whether data of its members were found to differ, and neither whose are wrong nor that a quorum has the same.
fn is_undecided(cluster: &EtcdClusterStatus) -> bool {
    record::from_status(cluster).is_undecided() && cluster.data_agreed_by.is_empty()
}

/// Only before an attempt begins. The Job of one that is recorded may read the snapshot already, so a defragmentation waits for it.
fn not_beside_defragmentation(seen: Seen<'_>) -> Result<(), Refusal> {
    let spec = &seen.backup.spec;
    let cluster = seen.cluster.filter(|_| spec.source.endpoints.is_none() && !spec.without_quorum);
    let Some(member) = cluster.and_then(|cluster| defragmenting(cluster, seen.now)) else { return Ok(()) };
    let text = format!(
        "{member} of EtcdCluster {} is being defragmented; the backup waits for the end of that, since a member that is does not send a \
         snapshot",
        spec.source.cluster.as_deref().unwrap_or_default()
    );
    Err(Refusal::NotYet(Explanation::new(Reason::Defragmenting, text)))
}

/// The member that the operator defragments, unless that was ordered too long ago: nothing ends the record while the cluster is paused or being
/// deleted.
fn defragmenting(cluster: &EtcdCluster, now: Instant) -> Option<MemberName> {
    let ordered = record::from_status(cluster.status.as_ref()?).defragmenting?;
    ordered.may_go_on(now).then_some(ordered.member)
}

/// What it waits for, with the members that keep it from going on.
fn undecided_text(name: &str, cluster: &EtcdClusterStatus) -> String {
    let why = |member: &MemberStatus| member.reason.clone().unwrap_or_else(|| "not healthy".to_owned());
    let sick = cluster.members.iter().filter(|member| !member.healthy && !member.is_learner);
    let sick: Vec<String> = sick.map(|member| format!("{}: {}", member.name, why(member))).collect();
    let sick = if sick.is_empty() { String::new() } else { format!(" ({})", sick.join("; ")) };
    format!(
        "the data of members of EtcdCluster {name} differ, and no quorum of them is seen to have the same{sick}; the backup waits until one is. \
         Make every voter run; the condition Progressing of the EtcdCluster and the runbook (DataInconsistent) say how one that etcd's \
         check at the start keeps out is compared. To save what one member has now, create an EtcdBackup with spec.withoutQuorum: true"
    )
}

/// Whether the operator created it for an earlier EtcdCluster of this name, which had other data.
fn is_of_another(backup: &EtcdBackup, cluster: &EtcdCluster) -> bool {
    let annotations = backup.metadata.annotations.as_ref();
    let uid = annotations.and_then(|annotations| annotations.get(keys::CLUSTER_UID));
    uid.is_some() && uid != cluster.metadata.uid.as_ref()
}

fn not_allowed(backup: &EtcdBackup, cluster: &EtcdCluster) -> Explanation {
    // With the server: an entry without it, or with another one, looks as if it allowed the place.
    let place = backup.spec.destination.url("");
    let server = backup.spec.destination.endpoint().map(|endpoint| format!(" with the endpoint {endpoint}"));
    let ca = backup.spec.destination.ca_secret().map(|secret| format!(" with the caSecret {secret}"));
    let text = format!(
        "spec.backup.allowedStores of EtcdCluster {} does not have {place}{}{}: add it there, or choose another destination in another \
         EtcdBackup",
        cluster.metadata.name.as_deref().unwrap_or_default(),
        server.unwrap_or_default(),
        ca.unwrap_or_default()
    );
    Explanation::new(Reason::DestinationNotAllowed, text)
}

fn has_quorum(cluster: &EtcdCluster) -> bool {
    let all = cluster.status.iter().flat_map(|status| &status.conditions);
    conditions::is_true(all, ConditionType::QuorumAvailable.as_str())
}
