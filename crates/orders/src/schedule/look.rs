//! Looks into the store: whether the objects of good backups are still there. A person, a lifecycle rule of the bucket or an intruder deletes
//! them without a word to Kubernetes. Each is looked for once a day, and before an older backup is deleted in favour of one that was not seen
//! lately. A look compares what the store says of an object. One object a day is read to its end, since nothing else shows that a disk has
//! spoilt it; so is one that seems to be written again. A look is recorded before its Job is created. One that fails says nothing about the
//! objects, and is repeated.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_core::ResourceExt;
use quorate_api::backup::{BackupCondition, BackupPhase, BackupResult, EtcdBackupStatus, LastLook};
use quorate_api::job::{FailureKind, LookOrder, Looked, ObjectMark, Task as _};
use quorate_api::schedule::{EtcdBackupScheduleStatus, ScheduleCondition, StoreLook};
use quorate_api::{Destination, EtcdBackup, Explanation, Reason, conditions};
use quorate_manifests::backup::look_order;
use quorate_model::{Instant, Span};

use super::decide::{NextAct, Seen, at, complete, phase};
use crate::outcome::{NOT_ASKED, Reply};
use crate::ready;
use crate::time::timestamp;

/// How long an object counts as seen, for a deletion in its favour. The Job of a look is created at its beginning and may take five minutes.
const FRESH: Span = Span::seconds(15 * 60);

/// How often each object is looked for.
const EACH: Span = Span::seconds(24 * 3600);

/// What was not seen for so long is looked for as well where a look is due.
const BESIDE: Span = Span::seconds(12 * 3600);

/// When a look that failed is repeated, and how often a backup is looked for while it is gone.
const AGAIN: Span = Span::seconds(3600);

/// How many objects one look is for: their names fit into a termination message, all of them.
const MOST: usize = 40;

/// How many objects that seem to be written again one look reads to their end.
const DOUBTFUL: usize = 3;

/// How many names a message has.
const NAMED: usize = 3;

/// The time that a Job needs to be created, for clocks that differ a little.
const CLOCKS: Span = Span::seconds(60);

/// What a look found of one backup.
#[derive(Clone, Debug, PartialEq)]
pub struct Sighting {
    /// The name of the EtcdBackup.
    pub backup: String,
    /// The look.
    pub look: LastLook,
    /// What its status says of it.
    why: Explanation,
}

/// What of an object was compared.
#[derive(Clone, Debug, PartialEq)]
enum Found {
    /// All of its bytes. The store said this of it before.
    Read(Option<ObjectMark>),
    /// What the store says of it.
    Marked,
    /// Its size alone.
    Sized,
    /// The store says something else of it than when it was written.
    Rewritten,
    Changed,
    Gone,
}

impl Found {
    fn of(looked: &Looked, backup: &String) -> Self {
        if let Some(read) = looked.read.iter().find(|read| read.backup == *backup) {
            return Self::Read(read.mark.clone());
        }
        let lists = [
            (&looked.gone, Self::Gone),
            (&looked.changed, Self::Changed),
            (&looked.rewritten, Self::Rewritten),
            (&looked.sized, Self::Sized),
        ];
        let named = lists.into_iter().find(|(list, _)| list.contains(backup));
        named.map_or(Self::Marked, |(_, found)| found)
    }

    /// Whether the object is what was written, as far as was compared.
    fn is_there(&self) -> bool {
        match self {
            Self::Read(_) | Self::Marked | Self::Sized => true,
            Self::Rewritten | Self::Changed | Self::Gone => false,
        }
    }

    /// What the EtcdBackup says of the object in its result.
    fn why(&self, result: &BackupResult) -> Explanation {
        let url = &result.url;
        let version = result.mark.as_ref().and_then(|mark| mark.version_id.as_ref());
        let version = version.filter(|_| !url.starts_with("pvc://"));
        let lost = |what: &str| {
            let is_lost = version.map_or_else(
                || "this backup cannot be restored".to_owned(),
                |version| format!("a restore takes version {version} of it, as long as the store keeps that"),
            );
            format!(
                "{url}, or the manifest beside it, {what}: {is_lost}. Find out what deletes in the store \
                 (a lifecycle rule, a person, an intruder). If it is needed no more, delete this EtcdBackup"
            )
        };
        let (reason, text) = match self {
            Self::Read(_) => (
                Reason::SeenInStore,
                "the last look read the object to its end: it has the SHA-256 of status.result".to_owned(),
            ),
            Self::Marked => (
                Reason::SeenInStore,
                "the object and its manifest were there at the last look. The size, the ETag, the version and the time of the object are \
                 those of its write, as far as the store tells them; its bytes were not read"
                    .to_owned(),
            ),
            Self::Sized => (
                Reason::SeenInStore,
                "the object and its manifest were there at the last look. Only the size of the object was compared: neither ETag, version \
                 nor time is recorded of its write"
                    .to_owned(),
            ),
            Self::Rewritten => (
                Reason::ChangedInStore,
                format!(
                    "{url} was written again since: it has another ETag, version or time. The next look, within an hour, reads it to its \
                     end and compares the SHA-256. Find out who writes in the store"
                ),
            ),
            Self::Changed => (Reason::GoneFromStore, lost("is not what was written")),
            Self::Gone => (Reason::GoneFromStore, lost("is not there any more")),
        };
        Explanation::new(reason, text)
    }
}

impl Sighting {
    /// The status of the backup with what was found, also in `Ready`. The backup is that of the API server: what is cached of one that has
    /// ended lacks conditions.
    pub fn status_of(&self, backup: &EtcdBackup, now: Instant) -> EtcdBackupStatus {
        let mut status = backup.status.clone().unwrap_or_default();
        status.last_look = Some(self.look.clone());
        let (type_, generation) = (BackupCondition::InStore.as_str(), backup.metadata.generation);
        conditions::set(
            &mut status.conditions,
            type_,
            self.look.found,
            &self.why,
            generation,
            timestamp(now),
        );
        ready::backup(backup, &mut status, now);
        status
    }
}

/// What is next for the looks.
#[derive(Debug, Default)]
pub(crate) struct Next {
    pub(crate) sightings: Vec<Sighting>,
    pub(crate) then: Option<NextAct>,
    pub(crate) wake: Option<Instant>,
}

/// Whether the last look found that the object of a backup is not what was written, or is not there.
pub(crate) fn is_gone(backup: &EtcdBackup) -> bool {
    let look = backup.status.as_ref().and_then(|status| status.last_look.as_ref());
    look.is_some_and(|look| !look.found)
}

/// Whether the object of a backup was seen so lately that an older one may be deleted in its favour.
pub(crate) fn is_fresh(backup: &EtcdBackup, now: Instant) -> bool {
    !is_gone(backup) && is_known_lately(backup, now)
}

/// Whether a look found lately that the object is gone.
pub(crate) fn is_gone_for_sure(backup: &EtcdBackup, now: Instant) -> bool {
    let look = backup.status.as_ref().and_then(|status| status.last_look.as_ref());
    look.is_some_and(|look| !look.found && !look.rewritten) && is_known_lately(backup, now)
}

fn is_known_lately(backup: &EtcdBackup, now: Instant) -> bool {
    last_known(backup, now).is_some_and(|known| now - known <= FRESH)
}

/// When somebody knew last whether the object is there: by the last look, or before the first one by the Job that wrote it. A time that is
/// still to come is of a clock that is wrong, and says nothing.
fn last_known(backup: &EtcdBackup, now: Instant) -> Option<Instant> {
    let status = backup.status.as_ref()?;
    let known = match &status.last_look {
        Some(look) => at(&look.time),
        None => written(backup)?,
    };
    (known - now <= CLOCKS).then_some(known)
}

/// When the Job wrote the object.
fn written(backup: &EtcdBackup) -> Option<Instant> {
    backup.status.as_ref()?.completed().map(at)
}

/// What is next. `needed`: those in whose favour others would be deleted, if they were seen.
pub(crate) fn decide(
    seen: Seen<'_>,
    status: &mut EtcdBackupScheduleStatus,
    needed: &[&EtcdBackup],
    events: &mut Vec<(bool, Explanation)>,
) -> Next {
    let next = match status.look.clone() {
        Some(look) if look.failed.is_none() => under_way(seen, status, &look, events),
        Some(_) | None => begin(seen, status, needed),
    };
    report(seen, status);
    next
}

/// A look is under way.
fn under_way(
    seen: Seen<'_>,
    status: &mut EtcdBackupScheduleStatus,
    look: &StoreLook,
    events: &mut Vec<(bool, Explanation)>,
) -> Next {
    let job = seen.jobs.iter().find(|(job, _)| job.metadata.name.as_ref() == Some(&look.job_name));
    let Some((job, outcome)) = job else {
        // It was recorded and not created, or somebody deleted it.
        let named = seen.backups.iter().copied().filter(|backup| look.backups.contains(&backup.name_any()));
        let then = ordered(seen, &named.collect::<Vec<_>>(), &look.read);
        if then.is_none() {
            status.look = None;
        }
        return Next { then, ..Next::default() };
    };
    let (reason, why) = match outcome.of::<LookOrder>() {
        Reply::Running(words) => {
            // Why its Pod cannot run is known only while the Job exists.
            if let (Some(words), Some(look)) = (words, &mut status.look) {
                look.message = Some(words.to_owned());
            }
            return Next::default();
        }
        Reply::Done(found) => {
            status.look = None;
            let sightings = sightings(seen, look, job, found, events);
            return Next { sightings, then: Some(NextAct::DeleteJob(look.job_name.clone())), wake: None };
        }
        Reply::Failed(failure) if failure.kind == FailureKind::NotInStore => {
            status.look = None;
            let all = Looked { gone: look.backups.clone(), ..Looked::default() };
            let sightings = sightings(seen, look, job, &all, events);
            return Next { sightings, then: Some(NextAct::DeleteJob(look.job_name.clone())), wake: None };
        }
        Reply::Failed(failure) => (failure.kind.into(), failure.message.clone()),
        Reply::NotAsked => (Reason::JobFailed, NOT_ASKED.to_owned()),
        Reply::Lost(text) => (Reason::JobFailed, with_last_words(text, look.message.as_deref())),
    };
    fail(status, reason, &why, seen.now);
    Next {
        then: Some(NextAct::DeleteJob(look.job_name.clone())),
        wake: Some(seen.now + AGAIN),
        ..Next::default()
    }
}

/// Why a Job was lost, with what kept its Pod from running while it was there.
pub(crate) fn with_last_words(lost: &str, words: Option<&str>) -> String {
    words.map_or_else(
        || lost.to_owned(),
        |words| format!("{}. Before that: {words}", lost.trim_end_matches('.')),
    )
}

/// The Job of the look in the status is refused.
pub fn look_refused(status: &mut EtcdBackupScheduleStatus, text: &str, now: Instant) {
    fail(status, Reason::WriteRefused, &format!("the Job is refused: {text}"), now);
}

fn fail(status: &mut EtcdBackupScheduleStatus, reason: Reason, why: &str, now: Instant) {
    if let Some(look) = &mut status.look {
        look.failed = Some(Time(timestamp(now)));
        look.reason = Some(reason.as_str().to_owned());
        look.message = Some(why.to_owned());
    }
}

/// Begins a look, if one is due.
fn begin(seen: Seen<'_>, status: &mut EtcdBackupScheduleStatus, needed: &[&EtcdBackup]) -> Next {
    let Seen { schedule, now, .. } = seen;
    // By a clock that differs it is not known what was seen when, and nothing is deleted.
    if schedule.spec.suspend || seen.clock.is_some() {
        return Next::default();
    }
    let failed = status.look.as_ref().and_then(|look| look.failed.as_ref()).map(at);
    let failed = failed.filter(|failed| *failed - now <= CLOCKS);
    if let Some(again) = failed.map(|failed| failed + AGAIN).filter(|again| *again > now) {
        return Next { wake: Some(again), ..Next::default() };
    }
    let all = complete(&seen);
    let due: Vec<(Instant, &EtcdBackup)> = all
        .iter()
        .map(|(_, backup)| {
            let wait = if is_gone(backup) { AGAIN } else { EACH };
            (last_known(backup, now).map_or(now, |known| known + wait), *backup)
        })
        .collect();
    let wake = due.iter().map(|(at, _)| *at).filter(|at| *at > now).min();
    // A claim that only one node can mount is not asked for by two Jobs.
    if seen.backups.iter().any(|backup| phase(backup) == BackupPhase::Running) {
        return Next { wake, ..Next::default() };
    }
    // Nothing is added while a backup waits, so nothing has to go. Once it is complete, it was seen itself.
    let needed = needed.iter().copied().filter(|_| status.active.is_empty());
    let due = due.iter().filter(|(at, _)| *at <= now).map(|(_, backup)| *backup);
    let wanted: Vec<&EtcdBackup> = needed.chain(due).collect();
    let place = |backup: &EtcdBackup| backup.spec.destination.clone();
    let is_at = |backup: &EtcdBackup, place: &Destination| backup.spec.destination.is_same_place(place);
    // A store that does not answer does not keep others from being looked at.
    let refused = status.look.take().and_then(|look| {
        seen.backups
            .iter()
            .find(|backup| look.backups.contains(&backup.name_any()))
            .map(|backup| place(backup))
    });
    let is_other = |backup: &EtcdBackup| refused.as_ref().is_none_or(|refused| !is_at(backup, refused));
    let first = wanted.iter().find(|backup| is_other(backup)).or(wanted.first());
    let Some(destination) = first.map(|first| place(first)) else { return Next { wake, ..Next::default() } };
    let beside = all.iter().map(|(_, backup)| *backup);
    let beside = beside.filter(|backup| last_known(backup, now).is_none_or(|known| now - known >= BESIDE));
    let mut looked_at: Vec<&EtcdBackup> = Vec::new();
    for backup in wanted.iter().copied().chain(beside).filter(|backup| is_at(backup, &destination)) {
        let is_new = looked_at.iter().all(|known| known.metadata.name != backup.metadata.name);
        if is_new && looked_at.len() < MOST {
            looked_at.push(backup);
        }
    }
    let uid = schedule.metadata.uid.as_deref().unwrap_or_default();
    let read = to_read(&all, &looked_at, now);
    // What was not as it was written is believed again by its bytes alone: a disk that spoils them changes nothing that the store says.
    looked_at.retain(|backup| !is_gone(backup) || read.contains(&backup.name_any()));
    let backups = looked_at.iter().map(|backup| backup.name_any()).collect();
    let job_name = LookOrder::job_name(uid, now.0 / 1000);
    let then = ordered(seen, &looked_at, &read);
    status.look = Some(StoreLook { job_name, backups, read, ..StoreLook::default() });
    Next { then, wake, ..Next::default() }
}

/// Whose objects this look reads to their end: those that were not as they were written, and once a day the one that was read longest ago.
fn to_read(all: &[(Instant, &EtcdBackup)], looked_at: &[&EtcdBackup], now: Instant) -> Vec<String> {
    let was_read = all.iter().filter_map(|(_, backup)| read_at(backup)).any(|read| now - read < EACH);
    // The Job that wrote it has sent all of it.
    let since = |backup: &EtcdBackup| read_at(backup).or_else(|| written(backup));
    let there = looked_at.iter().copied().filter(|backup| !is_gone(backup) && !was_read);
    let turn = there.filter_map(|backup| Some((since(backup)?, backup)));
    let turn = turn.filter(|(read, _)| now - *read >= EACH).min_by_key(|(read, _)| *read);
    let doubtful = looked_at.iter().copied().filter(|backup| is_gone(backup)).take(DOUBTFUL);
    doubtful.chain(turn.map(|(_, backup)| backup)).map(ResourceExt::name_any).collect()
}

/// When the object of a backup was read to its end by a look.
fn read_at(backup: &EtcdBackup) -> Option<Instant> {
    backup.status.as_ref()?.last_look.as_ref()?.read.as_ref().map(at)
}

/// The Job of a look for backups at one place. `None` if none of them is left. The credentials are those that the schedule has now, if it
/// writes there: the Secret that an old backup names may be gone.
fn ordered(seen: Seen<'_>, backups: &[&EtcdBackup], read: &[String]) -> Option<NextAct> {
    let mut order: LookOrder = look_order(backups, read)?;
    let present = &seen.schedule.spec.backup_template.spec.destination;
    if present.is_same_place(&order.destination) {
        order.destination = present.clone();
    }
    let job_template = backups.first()?.spec.job_template.clone();
    Some(NextAct::Look { order: Box::new(order), job_template })
}

/// What a look found, for each EtcdBackup that it was for and that still exists.
fn sightings(
    seen: Seen<'_>,
    look: &StoreLook,
    job: &Job,
    found: &Looked,
    events: &mut Vec<(bool, Explanation)>,
) -> Vec<Sighting> {
    // Its creation is before the look, and no clock but the API server's has to be right.
    let created = job.metadata.creation_timestamp.as_ref().map_or(seen.now, at);
    let time = Time(timestamp(created.min(seen.now)));
    let mut lost = Vec::new();
    let backups = complete(&seen).into_iter().map(|(_, backup)| backup);
    let looked_at = backups.filter(|backup| look.backups.contains(&backup.name_any()));
    let sightings = looked_at.map(|backup| {
        let name = backup.name_any();
        let found = Found::of(found, &name);
        let status = backup.status.as_ref();
        let result = status.and_then(|status| status.result.clone());
        let why = found.why(&result.unwrap_or_default());
        let is_there = found.is_there();
        if !is_there && !is_gone(backup) {
            lost.push(name.clone());
        }
        let before = status.and_then(|status| status.last_look.clone());
        let mut look = before.unwrap_or_else(|| LastLook::new(time.clone(), is_there));
        (look.time, look.found, look.rewritten) = (time.clone(), is_there, found == Found::Rewritten);
        if let Found::Read(mark) = found {
            (look.read, look.mark) = (Some(time.clone()), mark);
        }
        Sighting { backup: name, look, why }
    });
    let sightings = sightings.collect();
    if !lost.is_empty() {
        let text = format!("not in the store any more, or not what was written: EtcdBackup {}", list(&lost));
        events.push((true, Explanation::new(Reason::GoneFromStore, text)));
    }
    sightings
}

fn list(names: &[String]) -> String {
    let more = names.len().saturating_sub(NAMED);
    let named = names[..names.len() - more].join(", ");
    if more > 0 { format!("{named} and {more} more") } else { named }
}

/// That the newest backup is gone, and what is left; `None` if it is not.
pub(crate) fn newest_is_gone(seen: Seen<'_>) -> Option<Explanation> {
    let all = complete(&seen);
    let (_, newest) = all.first().filter(|(_, newest)| is_gone(newest))?;
    let left = all.iter().find(|(_, backup)| !is_gone(backup));
    let left = left.map_or_else(
        || "No backup of this schedule is in the store".to_owned(),
        |(_, backup)| format!("The newest one that is there is EtcdBackup {}", backup.name_any()),
    );
    let text = format!(
        "EtcdBackup {}, the newest, is not in the store any more, or is not what was written. {left}. Find out what deletes in the \
         store: a lifecycle rule, a person, an intruder. Then take another backup",
        newest.name_any()
    );
    Some(Explanation::new(Reason::GoneFromStore, text))
}

/// The condition InStore.
fn report(seen: Seen<'_>, status: &mut EtcdBackupScheduleStatus) {
    let all = complete(&seen);
    let type_ = ScheduleCondition::InStore.as_str();
    let Some((_, newest)) = all.first() else {
        status.conditions.retain(|condition| condition.type_ != type_);
        return;
    };
    let older: Vec<String> =
        all.iter().filter(|(_, one)| is_gone(one)).map(|(_, one)| one.name_any()).collect();
    let failed = status.look.as_ref().filter(|look| look.failed.is_some());
    let (is, why) = if let Some(why) = newest_is_gone(seen) {
        (Some(false), why)
    } else if let Some(failed) = failed {
        let known = failed.reason.as_deref().and_then(Reason::named);
        let text = format!(
            "nobody can look whether EtcdBackup {} is still in the store, and the look is repeated every hour: {}. Meanwhile older ones \
             are deleted only right after a new one is complete",
            list(&failed.backups),
            failed.message.as_deref().unwrap_or_default().trim_end_matches('.')
        );
        (None, Explanation::new(known.unwrap_or(Reason::JobFailed), text))
    } else {
        let time =
            last_known(newest, seen.now).map_or_else(String::new, |at| format!(" at {:.0}", timestamp(at)));
        let older = match older.as_slice() {
            [] => String::new(),
            older => {
                format!(". Older ones are gone from it, and cannot be restored: EtcdBackup {}", list(older))
            }
        };
        let text = format!("EtcdBackup {}, the newest, was in the store{time}{older}", newest.name_any());
        (Some(true), Explanation::new(Reason::SeenInStore, text))
    };
    conditions::set(
        &mut status.conditions,
        type_,
        is,
        &why,
        seen.schedule.metadata.generation,
        timestamp(seen.now),
    );
}
