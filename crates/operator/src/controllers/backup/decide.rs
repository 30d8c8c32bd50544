//! What is next for an EtcdBackup: a pure function of what is observed. The status is written first; the act follows only when that
//! succeeded.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use quorate_api::backup::{BackupCondition, BackupPhase, BackupResult, DeletionPolicy, EtcdBackupStatus};
use quorate_api::job::{Answer, BackupOrder, Manifest};
use quorate_api::status::EtcdClusterStatus;
use quorate_api::{EtcdBackup, EtcdCluster, Explanation, Reason, duration, keys};
use quorate_manifests::backup::{self, Of};
use quorate_manifests::record;
use quorate_model::Instant;

use super::conditions::{ConditionValue, set};
use super::ending;
use super::outcome::JobOutcome;
use crate::runtime::clock::timestamp;

/// The delay before the second attempt, in milliseconds; it doubles with each.
const FIRST_DELAY: i64 = 30_000;
/// The longest delay.
const LONGEST_DELAY: i64 = 600_000;

/// What is observed of an EtcdBackup.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen<'a> {
    pub(super) backup: &'a EtcdBackup,
    /// The EtcdCluster that it names, if it exists.
    pub(super) cluster: Option<&'a EtcdCluster>,
    /// The EtcdCluster that its endpoints belong to, if that does not allow its destination.
    pub(super) refusing: Option<&'a EtcdCluster>,
    /// The name of the backup that it has to wait for.
    pub(super) waits_for: Option<&'a str>,
    /// Its Jobs, with what they have come to.
    pub(super) jobs: &'a [(&'a Job, JobOutcome)],
    /// How many Pods of its Jobs have not ended.
    pub(super) running_pods: usize,
    /// Who still restores from its object.
    pub(super) used_by: Option<&'a User>,
    pub(super) now: Instant,
}

/// Who still needs the object of an EtcdBackup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum User {
    /// An EtcdCluster whose members restore from it.
    Cluster(String),
    /// An EtcdRestore that is not over.
    Restore(String),
}

/// What is next.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Decision {
    /// The status as it is to be.
    pub(super) status: EtcdBackupStatus,
    /// What is done when it is written.
    pub(super) act: Act,
    /// What is reported as an event.
    pub(super) event: Option<(bool, Explanation)>,
}

/// One act.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Act {
    AddFinalizer,
    RemoveFinalizer,
    /// The Job of the attempt in the status.
    Backup {
        order: Box<BackupOrder>,
        tls_secret: Option<String>,
        seconds: i64,
    },
    /// The Job of the removal in the status.
    Remove,
    DeleteJob(String),
    /// Nothing: a change in Kubernetes, or this time, starts the next pass.
    Wait(Option<Instant>),
    /// Nothing is left to do.
    Rest,
}

/// What is next.
pub(super) fn decide(seen: Seen<'_>) -> Decision {
    let status = seen.backup.status.clone().unwrap_or_default();
    if seen.backup.metadata.deletion_timestamp.is_some() {
        return ending::decide(seen, status);
    }
    match status.phase {
        Some(BackupPhase::Complete | BackupPhase::Failed) => after_the_end(seen, status),
        Some(BackupPhase::Pending | BackupPhase::Running | BackupPhase::Deleting) | None => {
            if !has_finalizer(seen.backup) {
                return Decision { status, act: Act::AddFinalizer, event: None };
            }
            let is_under_way = status.attempts > 0 && status.next_attempt.is_none();
            if is_under_way { attempt(seen, status) } else { begin(seen, status) }
        }
    }
}

/// Whether it has the operator's finalizer.
pub(super) fn has_finalizer(backup: &EtcdBackup) -> bool {
    backup.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == keys::BACKUP_FINALIZER)
}

/// The status in one of its states.
pub(super) fn state(
    seen: Seen<'_>,
    mut status: EtcdBackupStatus,
    phase: BackupPhase,
    holds: BackupCondition,
    why: &Explanation,
) -> EtcdBackupStatus {
    status.phase = Some(phase);
    for type_ in BackupCondition::ALL {
        let is = if type_ == holds { ConditionValue::True } else { ConditionValue::False };
        set(&mut status.conditions, type_.as_str(), is, why, seen.backup.metadata.generation, seen.now);
    }
    status
}

/// The delay after so many failed attempts, in milliseconds.
pub(super) fn delay(failed: u32) -> i64 {
    let doubled = failed.saturating_sub(1).min(16);
    FIRST_DELAY.saturating_mul(1 << doubled).min(LONGEST_DELAY)
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

/// No attempt is under way: the next one begins, or it is waited.
fn begin(seen: Seen<'_>, mut status: EtcdBackupStatus) -> Decision {
    // The Job of an attempt that failed is deleted before the next one begins.
    if let Some((job, _)) = seen.jobs.first() {
        let act = Act::DeleteJob(job.metadata.name.clone().unwrap_or_default());
        return Decision { status, act, event: None };
    }
    if let Some(next) = status.next_attempt.as_ref().map(|next| next.0.as_millisecond())
        && next > seen.now.0
    {
        return Decision { status, act: Act::Wait(Some(Instant(next))), event: None };
    }
    let order = match order(seen) {
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
    status.attempts += 1;
    status.next_attempt = None;
    status.started.get_or_insert_with(|| Time(timestamp(seen.now)));
    if deadline(seen, &status) <= seen.now.0 {
        return out_of_time(seen, status);
    }
    let uid = seen.backup.metadata.uid.as_deref().unwrap_or_default();
    let name = quorate_manifests::job::backup_name(uid, status.attempts);
    status.job_name = Some(name.clone());
    let why =
        Explanation::new(Reason::BackupRunning, format!("Job {name} takes it, attempt {}", status.attempts));
    let status = state(seen, status, BackupPhase::Running, BackupCondition::Running, &why);
    let act = create(seen, &status, order);
    Decision { status, act, event: None }
}

/// An attempt is under way.
fn attempt(seen: Seen<'_>, status: EtcdBackupStatus) -> Decision {
    let name = status.job_name.clone().unwrap_or_default();
    let job = seen.jobs.iter().find(|(job, _)| job.metadata.name.as_deref() == Some(&name));
    let is_late = deadline(seen, &status) <= seen.now.0;
    let Some((_, outcome)) = job else {
        if is_late {
            return out_of_time(seen, status);
        }
        // It was recorded and not created, or somebody deleted it: its name lets it exist once.
        return match order(seen) {
            Ok(order) => {
                let act = create(seen, &status, order);
                Decision { status, act, event: None }
            }
            Err(Refusal::Never(why)) => failed(seen, status, why),
            Err(Refusal::NotYet(why)) => try_again(seen, status, &why),
        };
    };
    match outcome {
        JobOutcome::Running(_) if is_late => out_of_time(seen, status),
        JobOutcome::Running(stuck) => {
            let text = match stuck {
                Some(stuck) => format!("Job {name} takes it, attempt {}. {stuck}", status.attempts),
                None => format!("Job {name} takes it, attempt {}", status.attempts),
            };
            let why = Explanation::new(Reason::BackupRunning, text);
            let ends = Instant(deadline(seen, &status));
            let status = state(seen, status, BackupPhase::Running, BackupCondition::Running, &why);
            Decision { status, act: Act::Wait(Some(ends)), event: None }
        }
        JobOutcome::Answered(Answer::BackedUp(manifest)) => complete(seen, status, manifest),
        JobOutcome::Answered(Answer::Failed(failure)) => {
            let why = Explanation::new(failure.kind.into(), failure.message.clone());
            if failure.kind.may_pass() { try_again(seen, status, &why) } else { failed(seen, status, why) }
        }
        JobOutcome::Answered(
            Answer::Removed
            | Answer::Read(_)
            | Answer::Verified(_)
            | Answer::Stored(_)
            | Answer::NothingStored(_),
        ) => {
            let text =
                format!("Job {name} answered what it was not asked: its image is not that of this operator");
            failed(seen, status, Explanation::new(Reason::JobFailed, text))
        }
        JobOutcome::Lost(text) => try_again(seen, status, &Explanation::new(Reason::JobFailed, text.clone())),
    }
}

fn complete(seen: Seen<'_>, mut status: EtcdBackupStatus, manifest: &Manifest) -> Decision {
    if Some(&manifest.origin.backup_uid) != seen.backup.metadata.uid.as_ref() {
        let text = format!("the object {} belongs to another EtcdBackup", manifest.key);
        return failed(seen, status, Explanation::new(Reason::ObjectNotOwned, text));
    }
    let url = seen.backup.spec.destination.url(&manifest.key);
    let text = format!("{url} has revision {} of etcd {}", manifest.revision, manifest.etcd_version);
    let why = Explanation::new(Reason::BackupComplete, text);
    status.result = Some(BackupResult::new(manifest, url));
    let status = state(seen, status, BackupPhase::Complete, BackupCondition::Complete, &why);
    Decision { status, act: Act::Wait(Some(seen.now)), event: Some((false, why)) }
}

/// The next attempt, where one is left and the deadline admits it.
fn try_again(seen: Seen<'_>, mut status: EtcdBackupStatus, why: &Explanation) -> Decision {
    let next = seen.now.0.saturating_add(delay(status.attempts));
    let (attempts, retries) = (status.attempts, seen.backup.spec.retries);
    if attempts > retries || next >= deadline(seen, &status) {
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

fn out_of_time(seen: Seen<'_>, status: EtcdBackupStatus) -> Decision {
    let text = format!("it was not complete within spec.deadline ({})", seen.backup.spec.deadline);
    failed(seen, status, Explanation::new(Reason::DeadlineExceeded, text))
}

fn failed(seen: Seen<'_>, mut status: EtcdBackupStatus, why: Explanation) -> Decision {
    status.next_attempt = None;
    let status = state(seen, status, BackupPhase::Failed, BackupCondition::Failed, &why);
    Decision { status, act: Act::Wait(Some(seen.now)), event: Some((true, why)) }
}

fn create(
    seen: Seen<'_>,
    status: &EtcdBackupStatus,
    (order, tls_secret): (BackupOrder, Option<String>),
) -> Act {
    let seconds = (deadline(seen, status) - seen.now.0) / 1000;
    Act::Backup { order: Box::new(order), tls_secret, seconds }
}

/// When it has failed, in milliseconds since the Unix epoch.
fn deadline(seen: Seen<'_>, status: &EtcdBackupStatus) -> i64 {
    let started = status.started.as_ref().map_or(seen.now.0, |started| started.0.as_millisecond());
    let seconds =
        duration::seconds(&seen.backup.spec.deadline).and_then(|seconds| i64::try_from(seconds).ok());
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
            if !backup.spec.without_quorum && cluster.status.as_ref().is_some_and(is_undecided) {
                let text = format!(
                    "the data of members of EtcdCluster {name} differ, and it is not known whose are wrong; the backup waits until they agree or \
                     the wrong one is found"
                );
                return Err(not_yet(Reason::DataInconsistent, text));
            }
            Of::Cluster(cluster)
        }
    };
    let order = backup::backup_order(backup, of)
        .ok_or_else(|| not_yet(Reason::ClusterNotServing, "the EtcdCluster has no voter now".to_owned()))?;
    Ok((order, backup::tls_secret(backup, of)))
}

/// Whether data of its members were found to differ, and not whose are wrong.
fn is_undecided(cluster: &EtcdClusterStatus) -> bool {
    record::from_status(cluster).is_undecided()
}

/// Whether the operator created it for an earlier EtcdCluster of this name, which had other data.
fn is_of_another(backup: &EtcdBackup, cluster: &EtcdCluster) -> bool {
    let annotations = backup.metadata.annotations.as_ref();
    let uid = annotations.and_then(|annotations| annotations.get(keys::CLUSTER_UID));
    uid.is_some() && uid != cluster.metadata.uid.as_ref()
}

fn not_allowed(backup: &EtcdBackup, cluster: &EtcdCluster) -> Explanation {
    let place = backup.spec.destination.url("");
    let text = format!(
        "spec.backup.allowedStores of EtcdCluster {} does not have {place}: add it there, or choose another destination in another \
         EtcdBackup",
        cluster.metadata.name.as_deref().unwrap_or_default()
    );
    Explanation::new(Reason::DestinationNotAllowed, text)
}

fn has_quorum(cluster: &EtcdCluster) -> bool {
    let mut conditions = cluster.status.iter().flat_map(|status| &status.conditions);
    conditions.any(|condition| condition.type_ == "QuorumAvailable" && condition.status == "True")
}
