//! What is next for an EtcdBackup that stands for an object which is in the store already (`spec.existing`): a Job looks for that object, or for
//! the newest of a cluster, by manifest and size, and what it finds is the status. It is found once. Nothing is written to the store, nothing is
//! removed from it, and it holds up no backup: it has no finalizer, and its Job goes with it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_core::ResourceExt as _;
use quorate_api::backup::{
    BackupCondition, BackupPhase, BackupResult, EtcdBackupStatus, ExistingObject, FailedLook,
};
use quorate_api::job::{Answer, FindOrder, FoundBackup, InspectOrder, Task as _};
use quorate_api::{EtcdBackup, Explanation, Reason, keys};
use quorate_manifests::backup::{ExistingOrder, existing_order};
use quorate_model::Instant;

use super::decide::{
    Act, Decision, Seen, before_the_next, claim_refused, deadline, failed, has_finalizer, late, out_of_time,
    start, state, try_again,
};
use super::queue::{is_stuck, order, phase, rests};
use crate::outcome::{NOT_ASKED, Reply};
use crate::time::timestamp;

/// How many EtcdBackups of a namespace look for such an object at a time.
const AT_A_TIME: usize = 4;

/// What is next.
pub(super) fn decide(seen: Seen<'_>, status: EtcdBackupStatus) -> Decision {
    match status.phase {
        Some(BackupPhase::Complete | BackupPhase::Failed) => {
            let act = match seen.jobs.first() {
                Some((job, _)) => Act::DeleteJob(job.metadata.name.clone().unwrap_or_default()),
                None if has_finalizer(seen.backup) => Act::RemoveFinalizer,
                None => Act::Rest,
            };
            Decision { status, act, event: None }
        }
        Some(BackupPhase::Pending | BackupPhase::Running | BackupPhase::Deleting) | None => {
            let Some(order) = existing_order(seen.backup) else {
                // The definition refuses it; this also covers one that was edited.
                let text = "spec.existing needs source.cluster. Create another EtcdBackup with it";
                return failed(seen, status, Explanation::new(Reason::OrderRefused, text));
            };
            let is_under_way = status.attempts > 0 && status.next_attempt.is_none();
            if is_under_way { attempt(seen, status, order) } else { begin(seen, status, order) }
        }
    }
}

/// Why nothing is taken for one that the operator created with `spec.existing`, and that lost it to an older definition.
pub(super) fn lost(backup: &EtcdBackup, status: &EtcdBackupStatus) -> Option<Explanation> {
    let has_ended = matches!(status.phase, Some(BackupPhase::Complete | BackupPhase::Failed));
    let text = "the API server does not store spec.existing: the CustomResourceDefinition of EtcdBackups is older than the operator, or another \
                program's. No backup is taken. Apply the definitions of the operator's release: kubectl apply --server-side --force-conflicts -f \
                config/crd. Then delete this EtcdBackup, and order the list of the store by another word";
    let is_lost = !has_ended && backup.annotations().contains_key(keys::EXISTING_OBJECT);
    is_lost.then(|| Explanation::new(Reason::CrdTooOld, text))
}

/// The EtcdBackup that this one waits for: so many look for their object, or are older and have not. `None`: it may begin. What a restore waits
/// for waits for no other one.
pub fn inspects_before<'a>(
    own: &EtcdBackup,
    others: impl Iterator<Item = &'a EtcdBackup>,
    now: Instant,
) -> Option<&'a EtcdBackup> {
    if own.is_for_restore() {
        return None;
    }
    let counts = |other: &&EtcdBackup| {
        other.spec.existing.is_some()
            && other.uid() != own.uid()
            && other.namespace() == own.namespace()
            && other.metadata.deletion_timestamp.is_none()
            && match phase(other) {
                BackupPhase::Running => !is_stuck(other, now),
                BackupPhase::Pending => order(other) < order(own) && !rests(other, now),
                BackupPhase::Complete | BackupPhase::Failed | BackupPhase::Deleting => false,
            }
    };
    let mut before: Vec<&EtcdBackup> = others.filter(counts).collect();
    before.sort_by_key(|other| order(other));
    if before.len() < AT_A_TIME { None } else { before.first().copied() }
}

/// No try is under way: the next one begins, or it is waited.
fn begin(seen: Seen<'_>, mut status: EtcdBackupStatus, order: ExistingOrder) -> Decision {
    if let Some(act) = before_the_next(seen, &status) {
        return Decision { status, act, event: None };
    }
    if seen.is_given_up {
        let text =
            "the restore that it was created for does not wait for it any more, so it is not looked for";
        return failed(seen, status, Explanation::new(Reason::OrderExpired, text));
    }
    if let Some(why) = claim_refused(seen) {
        return failed(seen, status, why);
    }
    if let Some(other) = seen.waits_for {
        let text = format!("EtcdBackup {other} comes first: {AT_A_TIME} at a time look for their object");
        let why = Explanation::new(Reason::BackupQueued, text);
        let status = state(seen, status, BackupPhase::Pending, BackupCondition::Pending, &why);
        return Decision { status, act: Act::Wait(None), event: None };
    }
    start(seen, &mut status);
    if deadline(seen.backup, &status, seen.now) <= seen.now.0 {
        return out_of_time(seen, status);
    }
    let name =
        InspectOrder::job_name(seen.backup.metadata.uid.as_deref().unwrap_or_default(), status.attempts);
    let mut status = looks(seen, EtcdBackupStatus { job_name: Some(name), ..status }, None);
    // What has started is of an earlier try.
    status.not_started_since = Some(Time(timestamp(seen.now)));
    let act = inspect(seen, &status, order);
    Decision { status, act, event: None }
}

/// A try is under way.
fn attempt(seen: Seen<'_>, status: EtcdBackupStatus, order: ExistingOrder) -> Decision {
    let name = status.job_name.clone().unwrap_or_default();
    let job = seen.jobs.iter().find(|(job, _)| job.metadata.name.as_deref() == Some(&name));
    let is_late = deadline(seen.backup, &status, seen.now) <= seen.now.0;
    let Some((_, outcome)) = job else {
        if is_late {
            return out_of_time(seen, status);
        }
        // It was recorded and not created, or somebody deleted it: its name lets it exist once.
        let act = inspect(seen, &status, order);
        return Decision { status, act, event: None };
    };
    let found = |answer: &Answer| {
        let inspected = || {
            let manifest = InspectOrder::answered(answer)?.clone();
            Some(FoundBackup { manifest, ..FoundBackup::default() })
        };
        FindOrder::answered(answer).cloned().or_else(inspected)
    };
    match outcome.asked(found) {
        Reply::Running(stuck) if is_late => {
            let waited = stuck.map(|stuck| format!(". {stuck}")).unwrap_or_default();
            late(seen, status, &waited)
        }
        Reply::Running(stuck) => {
            let ends = Instant(deadline(seen.backup, &status, seen.now));
            let status = looks(seen, status, stuck);
            Decision { status, act: Act::Wait(Some(ends)), event: None }
        }
        Reply::Done(found) => complete(seen, status, &found),
        Reply::Failed(failure) => {
            let why = Explanation::new(failure.kind.into(), failure.message.clone());
            if failure.kind.may_pass() || is_waited_for(seen.backup) {
                look_again(seen, status, &why)
            } else {
                failed(seen, status, why)
            }
        }
        Reply::NotAsked => look_again(seen, status, &Explanation::new(Reason::JobFailed, NOT_ASKED)),
        Reply::Lost(text) => look_again(seen, status, &Explanation::new(Reason::JobFailed, text)),
    }
}

/// Whether a restore waits for it: a person may mend the store, or a backup come into it, and nothing else does what it does.
fn is_waited_for(backup: &EtcdBackup) -> bool {
    backup.spec.existing.as_ref().is_some_and(ExistingObject::is_by_place)
}

/// The next look follows. Why the last one failed stays until one succeeds: nothing else is known.
fn look_again(seen: Seen<'_>, mut status: EtcdBackupStatus, why: &Explanation) -> Decision {
    status.failed_look =
        Some(FailedLook { reason: why.reason().as_str().to_owned(), message: why.message().to_owned() });
    try_again(seen, status, why)
}

/// The object is there. The Job has compared it: what its image makes of an order is not known here.
fn complete(seen: Seen<'_>, mut status: EtcdBackupStatus, found: &FoundBackup) -> Decision {
    let (spec, FoundBackup { manifest, .. }) = (&seen.backup.spec, found);
    let Some(existing) = &spec.existing else {
        return Decision { status, act: Act::Wait(None), event: None };
    };
    let is_it = existing.is(&manifest.key, &manifest.stored_sha256)
        && manifest.stored_sha256.len() == 64
        && !manifest.key.is_empty();
    if !is_it || (!existing.is_by_place() && manifest.origin.cluster != spec.source.cluster) {
        let text =
            format!("the object {} is not the one that spec.existing and spec.source name", manifest.key);
        return failed(seen, status, Explanation::new(Reason::ChecksumMismatch, text));
    }
    let url = spec.destination.url(&manifest.key);
    let why = Explanation::new(Reason::BackupComplete, told(existing, &url, found));
    status.result = Some(BackupResult::new(manifest, url));
    status.failed_look = None;
    let status = state(seen, status, BackupPhase::Complete, BackupCondition::Complete, &why);
    Decision { status, act: Act::Wait(Some(seen.now)), event: Some((false, why)) }
}

/// What was found, for people.
fn told(existing: &ExistingObject, url: &str, found: &FoundBackup) -> String {
    let FoundBackup { manifest, age, seen, skipped } = found;
    if existing.without_manifest && manifest.started.is_empty() {
        return format!(
            "{url} is in the store. No manifest that can be believed describes it, so its revision, its version, and whose data it has are not \
             known before it is read"
        );
    }
    let unsigned = match manifest.signature {
        Some(_) => "",
        None => ". No key of this namespace has signed that manifest",
    };
    let what = format!(
        "begun at {}, revision {} of etcd {}",
        manifest.started, manifest.revision, manifest.etcd_version
    );
    if existing.latest.is_none() {
        return format!("{url} is in the store, by its manifest and size: {what}{unsigned}");
    }
    let left_out = match &skipped[..] {
        [] => String::new(),
        notes => format!(". Left out: {}", notes.join("; ")),
    };
    format!(
        "{url} is the newest backup, by its manifest and size: {what}, of cluster ID {}, {age} old when it was found{unsigned}. {seen}{left_out}",
        manifest.cluster_id
    )
}

/// The status while a Job looks for it.
fn looks(seen: Seen<'_>, status: EtcdBackupStatus, stuck: Option<&str>) -> EtcdBackupStatus {
    let name = status.job_name.as_deref().unwrap_or_default();
    let stuck = stuck.map(|stuck| format!(". {stuck}")).unwrap_or_default();
    let what = what(seen.backup);
    let text = format!("Job {name} looks for {what}, attempt {}{stuck}", status.attempts);
    let why = Explanation::new(Reason::BackupRunning, text);
    state(seen, status, BackupPhase::Running, BackupCondition::Running, &why)
}

/// What is looked for, for people.
fn what(backup: &EtcdBackup) -> String {
    let spec = &backup.spec;
    let Some(existing) = &spec.existing else { return String::new() };
    let Some(latest) = &existing.latest else {
        return format!("the object {}", spec.destination.url(&existing.key));
    };
    let own = backup.metadata.namespace.as_deref().unwrap_or_default();
    let of = match (&latest.cluster, &latest.cluster_id) {
        (Some(cluster), None) => {
            format!("EtcdCluster {}/{cluster}", latest.cluster_namespace.as_deref().unwrap_or(own))
        }
        (cluster, id) => {
            let of =
                cluster.as_ref().map_or_else(String::new, |cluster| format!(" of EtcdCluster {cluster}"));
            format!("cluster ID {}{of}", id.as_deref().unwrap_or_default())
        }
    };
    format!("the newest backup of {of} in {}", spec.destination.url(""))
}

fn inspect(seen: Seen<'_>, status: &EtcdBackupStatus, order: ExistingOrder) -> Act {
    let longest = match &order {
        ExistingOrder::Inspect(_) => LONGEST_LOOK,
        ExistingOrder::Find(_) => LONGEST_SEARCH,
    };
    let seconds = (deadline(seen.backup, status, seen.now) - seen.now.0) / 1000;
    Act::Inspect { order: Box::new(order), seconds: seconds.min(longest) }
}

/// How many seconds a Job has for it: a Pod that hangs does not hold it up until the deadline.
const LONGEST_LOOK: i64 = 600;
/// How many it has for the newest of a store: a bucket may have millions of objects.
const LONGEST_SEARCH: i64 = 3600;
