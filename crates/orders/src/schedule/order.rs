//! A backup now, by the annotation `operator.etcd.io/backup-now` of the schedule. Its word is spent once: the name of the EtcdBackup is made
//! of it, and it is recorded after the creation. What cannot be carried out now is spent as well, so that no old order begins later.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_core::ResourceExt as _;
use quorate_api::schedule::{EtcdBackupScheduleStatus, SpentOrder};
use quorate_api::{EtcdBackupSchedule, Explanation, Reason, keys};
use quorate_model::Instant;

use super::decide::{FirstWrite, Seen, child, create, hash, prefix};
use crate::time::timestamp;

/// How many words are remembered.
const REMEMBERED: usize = 20;

/// The longest word, in characters.
const LONGEST: usize = 63;

/// Digits of the part of a name that is made of the word.
const DIGITS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// Whether a word waits until the clocks agree.
pub(crate) fn waits(seen: Seen<'_>, status: &EtcdBackupScheduleStatus) -> bool {
    let word = seen.schedule.annotations().get(keys::BACKUP_NOW);
    let is_open = |word: &String| {
        !word.is_empty()
            && word.chars().count() <= LONGEST
            && status.orders.iter().all(|spent| spent.word != *word)
    };
    seen.clock.is_some() && word.is_some_and(is_open)
}

/// The backup that is ordered, if its word is not spent. `taken`: the names that EtcdBackups have which are not the schedule's.
pub(crate) fn decide(
    seen: Seen<'_>,
    taken: &[String],
    status: &mut EtcdBackupScheduleStatus,
    events: &mut Vec<(bool, Explanation)>,
) -> Option<FirstWrite> {
    let Seen { schedule, now, .. } = seen;
    let word = schedule.annotations().get(keys::BACKUP_NOW).filter(|word| !word.is_empty())?;
    if status.orders.iter().any(|spent| spent.word == *word) {
        return None;
    }
    if word.chars().count() > LONGEST {
        let text = format!(
            "the word of {} is longer than {LONGEST} characters: give a shorter one",
            keys::BACKUP_NOW
        );
        events.push((true, Explanation::new(Reason::BackupMissed, text)));
        return None;
    }
    let time = Time(timestamp(now));
    if schedule.spec.suspend {
        let text = format!(
            "the backup by {}={word} is left out: spec.suspend is true. Set it to false, and order with another word",
            keys::BACKUP_NOW
        );
        events.push((true, Explanation::new(Reason::BackupMissed, text)));
        spend(status, SpentOrder { word: word.clone(), time, backup: None });
        return None;
    }
    // A time that is still to come by the API server's clock would make the backup nobody's: the word waits.
    if seen.clock.is_some() {
        return None;
    }
    let name = name(schedule, word);
    if taken.contains(&name) {
        let text = format!(
            "the backup by {}={word} is not taken: EtcdBackup {name} has its name, and is not of this schedule. Order with another word",
            keys::BACKUP_NOW
        );
        events.push((true, Explanation::new(Reason::BackupMissed, text)));
        spend(status, SpentOrder { word: word.clone(), time, backup: None });
        return None;
    }
    // Whole seconds, as the API server has them.
    let mut made = child(schedule, Instant(now.0 / 1000 * 1000));
    made.metadata.annotations.get_or_insert_default().insert(keys::BACKUP_NOW.to_owned(), word.clone());
    let first = create(seen, &name, made);
    let text = format!("EtcdBackup {name} is taken by {}={word}", keys::BACKUP_NOW);
    events.push((false, Explanation::new(Reason::BackupOrdered, text)));
    spend(status, SpentOrder { word: word.clone(), time, backup: Some(name) });
    first
}

/// The name of the backup that a word orders. Those of times have a digit where this has a letter.
pub(crate) fn name(schedule: &EtcdBackupSchedule, word: &str) -> String {
    let hash = hash(word);
    let part: String = (0..7)
        .map(|place| char::from(DIGITS[usize::try_from(hash >> (5 * place) & 31).unwrap_or_default()]))
        .collect();
    format!("{}n{part}", prefix(schedule))
}

fn spend(status: &mut EtcdBackupScheduleStatus, order: SpentOrder) {
    status.orders.push(order);
    let old = status.orders.len().saturating_sub(REMEMBERED);
    status.orders.drain(..old);
}
