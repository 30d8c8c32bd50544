//! EtcdBackups for what the store has, by the annotation `operator.etcd.io/catalog` of the schedule: after those that wrote it were lost with
//! their namespace. A Job lists a page of it, the newest first; for each object an EtcdBackup is created whose name is made of where the object is,
//! so that nothing is created twice; then the page is recorded, and the next one follows. The list is believed for nothing but where objects
//! are: each EtcdBackup looks for its own.
//!
//! The word is spent when it is taken up. It is carried out while the schedule is suspended, too, and whatever the clock says: nothing is
//! backed up, and nothing is deleted.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_core::ResourceExt as _;
use quorate_api::backup::{BackupPhase, ExistingObject};
use quorate_api::job::{ListOrder, ListedBackups, Task as _};
use quorate_api::schedule::{Catalog, EtcdBackupScheduleStatus};
use quorate_api::{EtcdBackup, EtcdBackupSchedule, Explanation, Reason, keys};
use quorate_manifests::catalog::{backup, order};
use quorate_model::{Instant, Span};

use super::decide::{NextAct, Seen, at, phase};
use crate::outcome::JobOutcome;
use crate::time::timestamp;

/// How many words are remembered.
const REMEMBERED: usize = 20;

/// The longest word, in characters.
const LONGEST: usize = 63;

/// How many EtcdBackups an order creates at most. Each is an object of the API server and a Pod for some seconds.
pub(crate) const MOST: u32 = 200;

/// How long after a try that failed the next one begins: each time a minute later, and no later than that.
const AGAIN_AFTER: (u64, u64) = (60, 600);

/// By how much clocks may differ.
const CLOCKS: Span = Span::seconds(60);

/// What is next for the order.
#[derive(Debug, Default)]
pub(crate) struct Next {
    pub(crate) records: Vec<EtcdBackup>,
    pub(crate) then: Option<NextAct>,
    pub(crate) wake: Option<Instant>,
}

/// Whether an order is under way: then all EtcdBackups of the namespace are looked at.
pub fn is_listing(schedule: &EtcdBackupSchedule) -> bool {
    let catalog = schedule.status.as_ref().and_then(|status| status.catalog.as_ref());
    catalog.is_some_and(|catalog| catalog.finished.is_none())
}

/// The Job of the try that is recorded, unless that has ended.
pub(crate) fn job_name(schedule: &EtcdBackupSchedule, status: &EtcdBackupScheduleStatus) -> Option<String> {
    let catalog = status.catalog.as_ref()?;
    let runs = catalog.finished.is_none() && catalog.failed.is_none();
    runs.then(|| ListOrder::job_name(schedule.metadata.uid.as_deref().unwrap_or_default(), catalog.attempt))
}

/// The API server refuses the Job of the try that is recorded, or an EtcdBackup.
pub fn catalog_refused(status: &mut EtcdBackupScheduleStatus, what: &str, text: &str, now: Instant) {
    if let Some(catalog) = &mut status.catalog {
        fail(catalog, Reason::WriteRefused, &format!("the API server refuses {what}: {text}"), now);
    }
}

/// What is next for the order.
pub(crate) fn decide(
    seen: Seen<'_>,
    status: &mut EtcdBackupScheduleStatus,
    events: &mut Vec<(bool, Explanation)>,
) -> Next {
    take_up(seen, status, events);
    let Some(catalog) = status.catalog.as_mut().filter(|catalog| catalog.finished.is_none()) else {
        return Next::default();
    };
    let generation = seen.schedule.metadata.generation.unwrap_or_default();
    if catalog.generation != generation {
        // Another place, perhaps: what was reached says nothing of it.
        *catalog = begun(&catalog.word, catalog.attempt.saturating_add(1), generation);
    }
    let Some(order) = order(seen.schedule, catalog.reached.as_ref()) else {
        let text = "spec.backupTemplate.spec.source is no EtcdCluster: what a store has of other etcds cannot be told apart. Name what is needed \
                    by EtcdBackups of your own (spec.existing)";
        catalog.reason = Some(Reason::OrderRefused.as_str().to_owned());
        end(seen, catalog, true, text, events);
        return Next::default();
    };
    if let Some(failed) = catalog.failed.as_ref().map(at).filter(|failed| *failed - seen.now <= CLOCKS) {
        let again = failed + again_after(catalog);
        if seen.now < again {
            return Next { wake: Some(again), ..Next::default() };
        }
    }
    if catalog.failed.take().is_some() {
        // Why it failed stays until a try succeeds: nothing else is known.
        catalog.attempt = catalog.attempt.saturating_add(1);
    }
    go_on(seen, catalog, order, events)
}

/// Takes up a word that is not spent. One that is under way ends with it.
fn take_up(seen: Seen<'_>, status: &mut EtcdBackupScheduleStatus, events: &mut Vec<(bool, Explanation)>) {
    let word = seen.schedule.annotations().get(keys::CATALOG).filter(|word| !word.is_empty());
    let Some(word) = word.filter(|word| !status.catalog_words.contains(word)) else { return };
    if word.chars().count() > LONGEST {
        let text =
            format!("the word of {} is longer than {LONGEST} characters: give a shorter one", keys::CATALOG);
        events.push((true, Explanation::new(Reason::CatalogEnded, text)));
        return;
    }
    let attempt = status.catalog.as_ref().map_or(0, |catalog| catalog.attempt).saturating_add(1);
    status.catalog = Some(begun(word, attempt, seen.schedule.metadata.generation.unwrap_or_default()));
    status.catalog_words.push(word.clone());
    let old = status.catalog_words.len().saturating_sub(REMEMBERED);
    status.catalog_words.drain(..old);
}

fn begun(word: &str, attempt: u32, generation: i64) -> Catalog {
    let message = "a Job lists what the store has".to_owned();
    Catalog { word: word.to_owned(), attempt, generation, message, ..Catalog::default() }
}

/// A try is recorded: its Job is created, or has answered.
fn go_on(
    seen: Seen<'_>,
    catalog: &mut Catalog,
    order: ListOrder,
    events: &mut Vec<(bool, Explanation)>,
) -> Next {
    let name =
        ListOrder::job_name(seen.schedule.metadata.uid.as_deref().unwrap_or_default(), catalog.attempt);
    let job = seen.jobs.iter().find(|(job, _)| job.metadata.name.as_ref() == Some(&name));
    let Some((_, outcome)) = job else {
        // A claim that only one node can mount is not asked for by two Jobs.
        if seen.backups.iter().any(|backup| phase(backup) == BackupPhase::Running) {
            return Next::default();
        }
        let then = NextAct::List { attempt: catalog.attempt, order: Box::new(order) };
        return Next { then: Some(then), ..Next::default() };
    };
    if let (JobOutcome::Running(Some(words)), None) = (outcome, &catalog.reason) {
        catalog.message.clone_from(words);
    }
    match outcome.of::<ListOrder>().ended() {
        None => Next::default(),
        Some(Ok(listed)) => {
            let records = page(seen, catalog, &order, listed.clone(), events);
            Next { records, then: Some(NextAct::DeleteJob(name)), wake: None }
        }
        Some(Err((reason, text))) => {
            fail(catalog, reason, &text, seen.now);
            let wake = Some(seen.now + again_after(catalog));
            Next { records: Vec::new(), then: Some(NextAct::DeleteJob(name)), wake }
        }
    }
}

/// A page is there: the EtcdBackups that it asks for, and the next page.
fn page(
    seen: Seen<'_>,
    catalog: &mut Catalog,
    order: &ListOrder,
    listed: ListedBackups,
    events: &mut Vec<(bool, Explanation)>,
) -> Vec<EtcdBackup> {
    let ListedBackups { mut backups, next, objects, of_cluster, skipped, notes } = listed;
    let under = format!("{}/{}/", order.cluster.namespace, order.cluster.name);
    // What the image of another release makes of the order is not known here.
    backups.retain(|object| object.key.starts_with(&under) && object.sha256.len() == 64);
    backups.truncate(order.most);
    let has_one =
        |object: &ExistingObject| seen.others.iter().any(|backup| stands_for(backup, order, &object.key));
    let (known, mut missing): (Vec<_>, Vec<_>) = backups.into_iter().partition(has_one);
    let room = usize::try_from(MOST.saturating_sub(catalog.created)).unwrap_or_default();
    let is_full = missing.len() > room;
    missing.truncate(room);
    let count = |of: &[ExistingObject]| u32::try_from(of.len()).unwrap_or(u32::MAX);
    catalog.created += count(&missing);
    catalog.recorded += count(&missing) + count(&known);
    (catalog.found, catalog.skipped) = (of_cluster, skipped);
    catalog.reason = None;
    catalog.failures = 0;
    let (word, place) = (&catalog.word, order.destination.url(&under));
    let left_out = match (skipped, notes.first()) {
        (0, _) => String::new(),
        (_, None) => format!(". {skipped} objects were left out"),
        (_, Some(why)) => {
            format!(". {skipped} objects were left out, such as: {}", why.trim_end_matches('.'))
        }
    };
    let so_far = format!(
        "{place} has {of_cluster} backups; there is an EtcdBackup for {} of them, {} of those created by {word}",
        catalog.recorded, catalog.created
    );
    match next {
        _ if of_cluster == 0 => {
            let text = format!(
                "{place} has no backup of this EtcdCluster: {objects} objects were seen there{left_out}. Check bucket, prefix and the name of \
                 the EtcdCluster, then order it by another word"
            );
            end(seen, catalog, true, &text, events);
        }
        more if is_full || (more.is_some() && catalog.created >= MOST) => {
            let text = format!(
                "{so_far}{left_out}. No more than {MOST} are created by a word, the newest. For an older one create an EtcdBackup of your own \
                 (spec.existing)"
            );
            end(seen, catalog, true, &text, events);
        }
        Some(next) => {
            catalog.reached = Some(next);
            catalog.attempt = catalog.attempt.saturating_add(1);
            catalog.message = format!("{so_far}{left_out}. The next page follows");
        }
        None => end(seen, catalog, false, &format!("{so_far}{left_out}"), events),
    }
    missing.iter().map(|object| backup(seen.schedule, object)).collect()
}

/// Whether an EtcdBackup is of this object: it wrote it, or stands for it.
fn stands_for(backup: &EtcdBackup, order: &ListOrder, key: &str) -> bool {
    // That of a restore goes with it.
    !backup.is_for_restore()
        && quorate_manifests::backup::object_key(backup) == key
        && backup.spec.destination.is_same_place(&order.destination)
}

fn end(
    seen: Seen<'_>,
    catalog: &mut Catalog,
    warning: bool,
    text: &str,
    events: &mut Vec<(bool, Explanation)>,
) {
    catalog.finished = Some(Time(timestamp(seen.now)));
    text.clone_into(&mut catalog.message);
    let text = format!("{}={}: {text}", keys::CATALOG, catalog.word);
    events.push((warning, Explanation::new(Reason::CatalogEnded, text)));
}

fn fail(catalog: &mut Catalog, reason: Reason, why: &str, now: Instant) {
    catalog.failures = catalog.failures.saturating_add(1);
    catalog.failed = Some(Time(timestamp(now)));
    catalog.reason = Some(reason.as_str().to_owned());
    let seconds = again_after(catalog).0 / 1000;
    catalog.message =
        format!("the last try failed: {}. It is tried again after {seconds} s", why.trim_end_matches('.'));
}

fn again_after(catalog: &Catalog) -> Span {
    let (first, most) = AGAIN_AFTER;
    Span::seconds((first * u64::from(catalog.failures.max(1))).min(most))
}
