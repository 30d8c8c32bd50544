//! What is next for an EtcdBackupSchedule: a pure function of what is observed.
//!
//! A backup is created before the status records its time. Its name is made of the schedule's uid and of that time, so the same time
//! never has two. A time that is recorded is never used again, and of the times that were missed only the last one is made up for.
//! `spec.spread` delays what a time begins, and not the time: so it may be edited.

use std::collections::{BTreeSet, HashMap};

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube_core::ResourceExt;
use quorate_api::backup::{BackupPhase, EtcdBackupSpec, JobTemplate};
use quorate_api::job::{ListOrder, LookOrder, VerifyOrder};
use quorate_api::schedule::EtcdBackupScheduleStatus;
use quorate_api::{EtcdBackup, EtcdBackupSchedule, Explanation, Reason, duration, keys};
use quorate_model::{ClockDifference, Instant, Present};

use super::cron::CronTimes;
use super::look::{self, Sighting};
use super::retention::{GoodBackup, prunable};
use super::{catalog, order, report, verify};
use crate::gate::{Judge, Scene, Unsafe, is_at_one_place};
use crate::outcome::JobOutcome;
use crate::time::timestamp;

/// Milliseconds by which the clocks of the operator and of the API server may differ.
const CLOCKS: i64 = 60_000;

/// How many deletions are proposed at once: more than a pass carries out, because some may be refused at the act.
const PROPOSED: usize = 20;

/// How many times that were missed are counted at once: an operator that was down for a year does not go through all of them.
const COUNTED: u32 = 1000;

/// What is observed of an EtcdBackupSchedule.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The schedule.
    pub schedule: &'a EtcdBackupSchedule,
    /// The EtcdBackups that it created.
    pub backups: &'a [&'a EtcdBackup],
    /// All EtcdBackups of the namespace, while an order to list the store is under way ([`is_listing`](super::is_listing)).
    pub others: &'a [&'a EtcdBackup],
    /// The Jobs of its restore tests, of its looks into the store and of lists of it, with what they have come to.
    pub jobs: &'a [(&'a Job, JobOutcome)],
    /// How far the clock is from the API server's, if it is too far.
    pub clock: Option<ClockDifference>,
    /// The time.
    pub now: Instant,
}

/// What is next.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Done before the status is written. If it fails, the status is not written.
    pub first: Option<FirstWrite>,
    /// EtcdBackups that stand for what the store has. Created before the status is written, unless they exist.
    pub records: Vec<EtcdBackup>,
    /// What a look into the store found. Written into the EtcdBackups, also before the status.
    pub sightings: Vec<Sighting>,
    /// The status as it is to be.
    pub status: EtcdBackupScheduleStatus,
    /// Done when it is written.
    pub then: NextAct,
    /// What is reported as events.
    pub events: Vec<(bool, Explanation)>,
}

/// What is done before the status is written.
#[derive(Clone, Debug, PartialEq)]
pub enum FirstWrite {
    /// Creates this EtcdBackup.
    Create(Box<EtcdBackup>),
}

/// What is done after the status is written.
#[derive(Clone, Debug, PartialEq)]
pub enum NextAct {
    /// Deletes these EtcdBackups, the oldest first. The gate judges each once more.
    Prune(Vec<Pruning>),
    /// The Job of the restore test in the status.
    Test {
        /// The order.
        order: Box<VerifyOrder>,
        /// The version of etcd that the backup is of.
        etcd_version: String,
    },
    /// The Job of the look in the status.
    Look {
        /// The order.
        order: Box<LookOrder>,
        /// What a backup adds to the Pods of its Jobs.
        job_template: Option<Box<JobTemplate>>,
    },
    /// The Job that lists a page of what the store has.
    List {
        /// The number of the try.
        attempt: u32,
        /// The order.
        order: Box<ListOrder>,
    },
    /// Deletes this Job.
    DeleteJob(String),
    /// Nothing until then, or until a change in Kubernetes.
    Wait(Option<Instant>),
    /// Only an edit helps.
    Edit,
}

/// An EtcdBackup that no rule keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pruning {
    /// Its name.
    pub name: String,
    /// The good one that stays. It is read from the API server before.
    pub keeper: Option<String>,
}

/// What a time of the schedule waits for, which has come.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HeldUp {
    /// Another backup of the schedule is active.
    Active(Instant),
    /// An EtcdBackup that is not the schedule's has its name.
    Taken(Instant),
}

/// What is next.
pub fn decide(seen: Seen<'_>) -> Decision {
    decide_beside(seen, &[])
}

/// What is next, where EtcdBackups that are not the schedule's have these names: nothing is created under them.
pub fn decide_beside(seen: Seen<'_>, taken: &[String]) -> Decision {
    let Seen { schedule, now, .. } = seen;
    let spec = &schedule.spec;
    let mut status = report::figures(seen);
    let delay = delay(schedule);
    let read =
        |text: &str| CronTimes::read(text, spec.time_zone.as_deref(), now).map(|times| times.late_by(delay));
    let times = match read(&spec.schedule) {
        Ok(times) => times,
        Err(text) => return invalid(seen, status, text),
    };
    let tests = match spec.verify.as_ref().map(|verify| read(&verify.schedule)).transpose() {
        Ok(tests) => tests,
        Err(text) => return invalid(seen, status, format!("spec.verify: {text}")),
    };
    let mut events = Vec::new();
    let mut first = None;
    let mut held_up = None;
    // A backup of a time that is still to come by the API server's clock would be nobody's, and would have the name when that comes.
    let by_api = Present::new(now, seen.clock).earliest;
    let ahead = now - by_api;
    if spec.suspend {
        status.next = None;
    } else {
        let created = schedule.metadata.creation_timestamp.as_ref().map_or(by_api, at);
        let recorded = status.last_scheduled.as_ref().map(at);
        let since = times.since(recorded, created, by_api);
        if recorded.is_some_and(|recorded| since < recorded) {
            status.last_scheduled = Some(Time(timestamp(since)));
        }
        // What came while it was suspended, or before the times were edited, was not missed.
        let is_edited = schedule.status.as_ref().and_then(|status| status.observed_generation)
            != schedule.metadata.generation;
        let is_first = spec.immediate && recorded.is_none();
        let in_time = times.due(since, by_api).map(|due| (due, times.begin_of(due)));
        let due = in_time.or(is_first.then_some((created, created)));
        if let Some((due, _)) = due {
            let before = times.last(since, Instant(due.0 - 1000));
            if is_edited {
                status.last_scheduled =
                    before.map(|before| Time(timestamp(before))).or(status.last_scheduled);
            } else if let Some(before) = before {
                count_missed(&mut status, &times, since, before);
            }
        }
        match due {
            Some((due, begin)) if is_too_late(schedule, begin, by_api) => {
                let text =
                    format!("the backup of {} is left out: spec.startingDeadline is over", timestamp(due));
                events.push((true, Explanation::new(Reason::BackupMissed, text)));
                add_missed(&mut status, 1, due);
                status.last_scheduled = Some(Time(timestamp(due)));
            }
            // It waits for the one that is under way, and is made up for then.
            Some((due, _)) if !status.active.is_empty() && !exists(seen, &name(schedule, due)) => {
                held_up = Some(HeldUp::Active(due));
            }
            // The time is not used up: the backup is taken once the name is free, or the next one in its time.
            Some((due, _)) if taken.contains(&name(schedule, due)) => held_up = Some(HeldUp::Taken(due)),
            Some((due, _)) => {
                if let Some(text) = taken_by_old(&seen, due) {
                    events.push((true, Explanation::new(Reason::BackupMissed, text)));
                    add_missed(&mut status, 1, due);
                }
                first = create(seen, &name(schedule, due), child(schedule, due));
                status.last_scheduled = Some(Time(timestamp(due)));
            }
            None => {}
        }
        let since = status.last_scheduled.as_ref().map_or(created, at);
        status.next = times.next_begin(since, by_api).map(|next| Time(timestamp(next)));
    }
    if first.is_none() {
        first = order::decide(seen, taken, &mut status, &mut events);
    }
    report::ready(seen, &mut status, held_up);
    let listed = catalog::decide(seen, &mut status, &mut events);
    let test = verify::decide(seen, &mut status, tests.as_ref(), &mut events);
    let due = prune(seen, &status, &times);
    let look = look::decide(seen, &mut status, &due.unseen, &mut events);
    let next = status.next.as_ref().map(|next| at(next) + ahead);
    let wake = [next, test.wake, listed.wake, look.wake].into_iter().flatten().min();
    let prune = (!due.pruned.is_empty()).then_some(NextAct::Prune(due.pruned));
    let then = test.then.or(listed.then).or(look.then).or(prune).unwrap_or(NextAct::Wait(wake));
    Decision { first, records: listed.records, sightings: look.sightings, status, then, events }
}

/// The time that a backup of the schedule was created for.
pub(crate) fn scheduled(backup: &EtcdBackup) -> Option<Instant> {
    let written = backup.metadata.annotations.as_ref()?.get(keys::SCHEDULED_AT)?;
    Some(Instant(written.parse::<jiff::Timestamp>().ok()?.as_millisecond()))
}

/// Whether a time is still to come: a backup of it was taken while the clocks of the operator and of the API server were ahead. It would be
/// the newest for as long as they were, and each later one would go in its favour. So it neither stays for others nor counts for anything
/// until its time has come, and then [`is_not_older_data`] keeps what was taken since from going for it.
pub(crate) fn is_to_come(due: Instant, now: Instant) -> bool {
    due.0.saturating_sub(now.0) > CLOCKS
}

/// Whether a backup has no older data than another one of the same etcd cluster, whose revisions never fall. One that was taken while the
/// clocks were ahead is of a late time, and of early data.
pub(crate) fn is_not_older_data(one: &EtcdBackup, other: &EtcdBackup) -> bool {
    revision(one) >= revision(other)
}

fn revision(backup: &EtcdBackup) -> Option<i64> {
    Some(backup.status.as_ref()?.result.as_ref()?.revision)
}

/// Whether this incarnation of the schedule created the backup. A copy of one has its annotations under another name, and a time that was
/// still to come when it was created is not of the schedule either: neither may push what is into the ranks of what is deleted. One that stands
/// for an object that was there before it is of no schedule, whatever it is called: what it stands for was taken at another time.
pub fn is_of(backup: &EtcdBackup, schedule: &EtcdBackupSchedule) -> bool {
    if backup.spec.existing.is_some() {
        return false;
    }
    let uid = backup.annotations().get(keys::SCHEDULE_UID);
    let created = backup.metadata.creation_timestamp.as_ref().map(|created| created.0.as_millisecond());
    let is_its_name = scheduled(backup).is_some_and(|due| {
        let ordered = backup.annotations().get(keys::BACKUP_NOW).map(|word| order::name(schedule, word));
        let own = backup.name_any();
        (own == name(schedule, due) || Some(own) == ordered)
            && created.is_none_or(|created| due.0 <= created + CLOCKS)
    });
    uid.is_some() && uid == schedule.metadata.uid.as_ref() && is_its_name
}

/// Whether a backup exists and can be restored from, as far as is known.
pub fn is_good(backup: &EtcdBackup) -> bool {
    backup.metadata.deletion_timestamp.is_none()
        && backup.status.as_ref().is_some_and(|status| status.result.is_some())
        && !look::is_gone(backup)
}

/// The phase of a backup.
pub(crate) fn phase(backup: &EtcdBackup) -> BackupPhase {
    backup.status.as_ref().and_then(|status| status.phase).unwrap_or(BackupPhase::Pending)
}

/// A time in status.
pub(crate) fn at(time: &Time) -> Instant {
    Instant(time.0.as_millisecond())
}

/// The good backups, the newest first.
pub(crate) fn good<'a>(seen: &Seen<'a>) -> Vec<(Instant, &'a EtcdBackup)> {
    let mut found = complete(seen);
    found.retain(|(_, backup)| !look::is_gone(backup));
    found
}

/// The good backups that are where the schedule writes now, the newest first. Who may create EtcdBackups may give one all annotations of the
/// schedule, and a bucket of his own: that one is no backup of the schedule to be tested or to be counted.
pub(crate) fn good_here<'a>(seen: &Seen<'a>) -> Vec<(Instant, &'a EtcdBackup)> {
    let mut found = good(seen);
    found.retain(|(_, backup)| is_at_one_place(&backup.spec, &seen.schedule.spec.backup_template.spec));
    found
}

/// The backups that are complete, the newest first: also those that are not in the store any more.
pub(crate) fn complete<'a>(seen: &Seen<'a>) -> Vec<(Instant, &'a EtcdBackup)> {
    in_phase(seen, BackupPhase::Complete)
}

/// The backups in a phase that are not being deleted and whose time has come, the newest first.
pub(crate) fn in_phase<'a>(seen: &Seen<'a>, wanted: BackupPhase) -> Vec<(Instant, &'a EtcdBackup)> {
    let of_phase = seen.backups.iter().filter(|backup| phase(backup) == wanted && !is_going(backup));
    let mut found: Vec<_> = of_phase.filter_map(|backup| Some((scheduled(backup)?, *backup))).collect();
    found.retain(|(at, _)| !is_to_come(*at, seen.now));
    found.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    found
}

/// The id of the etcd cluster that a good backup is of.
pub(crate) fn cluster_id(backup: &EtcdBackup) -> &str {
    let result = backup.status.as_ref().and_then(|status| status.result.as_ref());
    result.map_or("", |result| result.cluster_id.as_str())
}

fn is_going(backup: &EtcdBackup) -> bool {
    backup.metadata.deletion_timestamp.is_some()
}

fn invalid(seen: Seen<'_>, mut status: EtcdBackupScheduleStatus, text: String) -> Decision {
    status.next = None;
    report::not_ready(seen, &mut status, &Explanation::new(Reason::ScheduleInvalid, text));
    let (records, sightings) = (Vec::new(), Vec::new());
    Decision { first: None, records, sightings, status, then: NextAct::Edit, events: Vec::new() }
}

fn is_too_late(schedule: &EtcdBackupSchedule, begin: Instant, now: Instant) -> bool {
    let deadline = schedule.spec.starting_deadline.as_deref().and_then(duration::seconds);
    deadline
        .and_then(|seconds| i64::try_from(seconds).ok())
        .is_some_and(|seconds| now.0 - begin.0 > seconds * 1000)
}

/// By how many milliseconds what is due begins late: always the same of one schedule, and less than `spec.spread`.
pub(crate) fn delay(schedule: &EtcdBackupSchedule) -> i64 {
    let spread = schedule.spec.spread.as_deref().and_then(duration::seconds).unwrap_or_default();
    let place = hash(schedule.metadata.uid.as_deref().unwrap_or_default()).checked_rem(spread);
    place.and_then(|seconds| i64::try_from(seconds).ok()).unwrap_or_default().saturating_mul(1000)
}

/// FNV-1a: the same in every release.
pub(crate) fn hash(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The name of the backup of a time: the end of the schedule's uid, so that a schedule of the same name has others, and the minute.
pub(crate) fn name(schedule: &EtcdBackupSchedule, due: Instant) -> String {
    format!("{}{:08}", prefix(schedule), due.0 / 60_000)
}

/// What the names of its backups begin with.
pub(crate) fn prefix(schedule: &EtcdBackupSchedule) -> String {
    let uid = schedule.uid().unwrap_or_default();
    let end = uid.get(uid.len().saturating_sub(4)..).unwrap_or_default();
    format!("{}-{end}", schedule.name_any())
}

/// Creates a backup under this name, unless it exists: a crash came before the record of it.
pub(crate) fn create(seen: Seen<'_>, name: &str, mut child: EtcdBackup) -> Option<FirstWrite> {
    if exists(seen, name) {
        return None;
    }
    child.metadata.name = Some(name.to_owned());
    Some(FirstWrite::Create(Box::new(child)))
}

/// Why nothing is taken for a time: a backup of clocks that were ahead has its name, and has older data than one of an earlier time.
fn taken_by_old(seen: &Seen<'_>, due: Instant) -> Option<String> {
    let all = complete(seen);
    let (_, taken) = all.iter().find(|(_, one)| one.name_any() == name(seen.schedule, due))?;
    all.iter().find(|(at, one)| {
        *at < due && cluster_id(one) == cluster_id(taken) && !is_not_older_data(taken, one)
    })?;
    Some(format!(
        "the backup of {} is left out: EtcdBackup {} has its name, and was taken earlier, while the clocks were ahead. The next one is taken \
         in time; for one before that, set the annotation {} of the schedule to a new word",
        timestamp(due),
        taken.name_any(),
        keys::BACKUP_NOW
    ))
}

/// Counts the times after `since` up to this one, for which no backup is taken any more. Each counts once.
fn count_missed(status: &mut EtcdBackupScheduleStatus, times: &CronTimes, since: Instant, before: Instant) {
    // One of a clock that was ahead hides none.
    let counted = status.last_missed.as_ref().map(at).filter(|counted| *counted <= before);
    let mut last = counted.map_or(since, |counted| counted.max(since));
    let mut missed = 0;
    while missed < COUNTED
        && let Some(next) = times.next(last).filter(|next| *next <= before)
    {
        (missed, last) = (missed + 1, next);
    }
    if missed > 0 {
        add_missed(status, missed, before);
    }
}

fn add_missed(status: &mut EtcdBackupScheduleStatus, missed: u32, last: Instant) {
    status.missed = status.missed.saturating_add(missed);
    status.last_missed = Some(Time(timestamp(last)));
}

fn exists(seen: Seen<'_>, name: &str) -> bool {
    seen.backups.iter().any(|backup| backup.name_any() == name)
}

/// The backup of a time.
pub(crate) fn child(schedule: &EtcdBackupSchedule, due: Instant) -> EtcdBackup {
    let template = &schedule.spec.backup_template;
    let mut metadata = template.metadata.clone().unwrap_or_default();
    metadata.labels.insert(keys::SCHEDULE.to_owned(), schedule.name_any());
    metadata.annotations.insert(keys::SCHEDULE_UID.to_owned(), schedule.uid().unwrap_or_default());
    metadata.annotations.insert(keys::SCHEDULED_AT.to_owned(), timestamp(due).to_string());
    metadata.annotations.remove(keys::BACKUP_NOW);
    let metadata = ObjectMeta {
        namespace: schedule.namespace(),
        labels: Some(metadata.labels),
        annotations: Some(metadata.annotations),
        ..ObjectMeta::default()
    };
    // A schedule of before the rule that refuses it may have it.
    let spec = EtcdBackupSpec { without_quorum: false, existing: None, ..template.spec.clone() };
    EtcdBackup { metadata, spec, status: None }
}

/// What is to be deleted.
#[derive(Debug, Default)]
struct Due<'a> {
    pruned: Vec<Pruning>,
    /// Those that would have to stay for others, and were not seen in the store lately.
    unseen: Vec<&'a EtcdBackup>,
}

/// What no rule keeps. Failed ones are kept by number. One that is gone from the store keeps no place for itself: the rules count what is
/// there. Its record goes once it would have gone in any case, also as the last one of an earlier etcd cluster.
fn prune<'a>(seen: Seen<'a>, status: &EtcdBackupScheduleStatus, times: &CronTimes) -> Due<'a> {
    let spec = &seen.schedule.spec;
    if spec.suspend {
        return Due::default();
    }
    let tested = seen.schedule.status.as_ref().and_then(|status| status.test.as_ref());
    let row = |(at, backup): (Instant, &EtcdBackup)| {
        let result = backup.status.as_ref().and_then(|status| status.result.as_ref());
        GoodBackup {
            name: backup.name_any(),
            at,
            zoned: times.zoned(at),
            bytes: result.map_or(0, |result| result.stored_bytes),
            cluster_id: cluster_id(backup).to_owned(),
            is_in_use: backup.finalizers().iter().any(|finalizer| finalizer == keys::RESTORE_FINALIZER)
                || tested.is_some_and(|test| test.backup == backup.name_any()),
            is_gone: look::is_gone(backup),
            is_doubtful: verify::is_doubtful(status, backup, scheduled(backup).unwrap_or(at)),
        }
    };
    let rules = spec.retention.clone().unwrap_or_default();
    let (there, all) = (by_data(good(&seen)), by_data(complete(&seen)));
    let mut names = BTreeSet::new();
    for place in places(&all) {
        // What is elsewhere, and not where the schedule writes now, pushes nothing out.
        let of_place = |one: &EtcdBackup| is_at_one_place(&one.spec, place);
        let counts =
            |one: &EtcdBackup| of_place(one) || is_at_one_place(&one.spec, &spec.backup_template.spec);
        let rows = |of: &[(Instant, &EtcdBackup)]| -> Vec<GoodBackup> {
            of.iter().filter(|(_, one)| counts(one)).map(|one| row(*one)).collect()
        };
        let goes = |names: Vec<String>, is: &dyn Fn(&EtcdBackup) -> bool| -> Vec<String> {
            let own: BTreeSet<String> = all
                .iter()
                .filter(|(_, one)| of_place(one) && is(one))
                .map(|(_, one)| one.name_any())
                .collect();
            names.into_iter().filter(|name| own.contains(name)).collect()
        };
        names.extend(goes(prunable(&rules, &rows(&there), seen.now), &|_| true));
        if all.len() > there.len() {
            names.extend(goes(prunable(&rules, &rows(&all), seen.now), &look::is_gone));
        }
    }
    // The oldest first.
    let mut names: Vec<String> =
        all.iter().rev().map(|(_, one)| one.name_any()).filter(|name| names.contains(name)).collect();
    let failed = in_phase(&seen, BackupPhase::Failed);
    names.extend(failed.iter().skip(spec.history_limit.failed as usize).map(|(_, backup)| backup.name_any()));
    // What the gate would refuse for now is not proposed: it would be in each pass. Who uses a backup is asked at the act.
    let scene = Scene {
        schedule: seen.schedule,
        status,
        backups: seen.backups,
        used: &BTreeSet::new(),
        clock: seen.clock,
        now: seen.now,
    };
    if names.is_empty() {
        return Due::default();
    }
    let judge = Judge::of(scene);
    let by_name: HashMap<&str, &EtcdBackup> =
        seen.backups.iter().filter_map(|one| Some((one.metadata.name.as_deref()?, *one))).collect();
    let mut due = Due::default();
    for name in names {
        if due.pruned.len() == PROPOSED {
            break;
        }
        let Some(backup) = by_name.get(name.as_str()) else { continue };
        let keeper = judge.keeper(backup);
        let keeper_name = keeper.map(ResourceExt::name_any);
        match judge.may_prune(backup, keeper) {
            Ok(()) => due.pruned.push(Pruning { name, keeper: keeper_name }),
            Err(Unsafe::KeeperNotSeen) => {
                due.unseen.extend(keeper_name.and_then(|keeper| by_name.get(keeper.as_str())));
            }
            Err(_) => {}
        }
    }
    due.unseen.dedup_by(|one, other| one.metadata.name == other.metadata.name);
    due
}

/// Their times for the rules, the newest first: none is newer than one of the same etcd cluster that has a higher revision. So what was taken
/// while the clocks were ahead counts as the old one that it is.
fn by_data(mut found: Vec<(Instant, &EtcdBackup)>) -> Vec<(Instant, &EtcdBackup)> {
    found.sort_by_key(|(at, one)| std::cmp::Reverse((revision(one), *at)));
    let mut least: HashMap<&str, Instant> = HashMap::new();
    for (at, one) in &mut found {
        let least = least.entry(cluster_id(one)).or_insert(*at);
        *least = (*least).min(*at);
        *at = *least;
    }
    // Stable: of one time, the one with the higher revision is the newer one.
    found.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    found
}

/// The different places of backups.
fn places<'a>(backups: &[(Instant, &'a EtcdBackup)]) -> Vec<&'a EtcdBackupSpec> {
    let mut places: Vec<&EtcdBackupSpec> = Vec::new();
    for (_, backup) in backups {
        if !places.iter().any(|place| is_at_one_place(&backup.spec, place)) {
            places.push(&backup.spec);
        }
    }
    places
}
