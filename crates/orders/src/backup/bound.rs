//! At most so many backups at a time over all clusters (`--max-backups-running`), the oldest first. What an upgrade, a restore in place, a
//! deletion or a lost quorum waits for is never held up, and a backup that could not begin anyway holds up nobody: only those stand in line
//! whose status says that they wait for this.

use std::collections::{HashMap, HashSet};
use std::fmt;

use kube_core::ResourceExt as _;
use quorate_api::backup::{BackupCondition, BackupPhase, EtcdBackupStatus};
use quorate_api::{EtcdBackup, EtcdCluster, Reason, conditions};
use quorate_manifests::backup_before::{self, in_place};
use quorate_model::Instant;

use super::queue::{is_stuck, order, phase, rests};

/// How old in milliseconds what is known of all backups may be. What began meanwhile is known at once.
const KNOWN_FOR: i64 = 1000;
/// How long in milliseconds an attempt counts that no status confirms: what is written is in the cache long before. And for how long one
/// whose status is refused stands in no line.
const FORGOTTEN_AFTER: i64 = 60_000;

/// The place of a backup in the queue over all clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// How many begin before it.
    pub before: usize,
    /// How many may run at a time.
    pub limit: usize,
}

/// The bound on backups over all clusters, and what is known of those that run and that wait for it.
#[derive(Clone, Debug, Default)]
pub struct Bound {
    limit: usize,
    looked: Option<Instant>,
    /// Those that run, by uid.
    running: HashSet<String>,
    /// Those that wait for the bound, in turn.
    line: Vec<((Option<i64>, String), String)>,
    /// The attempts that were begun here and that the cache may lack, and when.
    begun: HashMap<String, (u32, Instant)>,
    /// Those whose status the API server refused, and when: they would hold up all others.
    refused: HashMap<String, Instant>,
}

impl Bound {
    /// At most so many; 0: any number.
    pub fn new(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Whether it holds up this backup at all. What an upgrade, a restore in place or a deletion waits for is read from the EtcdCluster that
    /// asks for it, since anybody who creates EtcdBackups may give one the name.
    pub fn holds(&self, backup: &EtcdBackup, cluster: Option<&EtcdCluster>) -> bool {
        let is_asked_for = |cluster: &EtcdCluster| {
            backup.spec.source.cluster == cluster.metadata.name
                && (backup_before::to_read(cluster).is_some_and(|name| name == backup.name_any())
                    || is_first_for_a_restore(backup, cluster))
        };
        self.limit > 0 && !backup.spec.without_quorum && !cluster.is_some_and(is_asked_for)
    }

    /// Whether all backups have to be looked at again.
    pub fn is_outdated(&self, now: Instant) -> bool {
        self.looked.is_none_or(|looked| !(0..KNOWN_FOR).contains(&now.0.saturating_sub(looked.0)))
    }

    /// Looks at all backups.
    pub fn look<'a>(&mut self, all: impl Iterator<Item = &'a EtcdBackup>, now: Instant) {
        self.looked = Some(now);
        self.running.clear();
        self.line.clear();
        let is_young = |at: Instant| (0..FORGOTTEN_AFTER).contains(&now.0.saturating_sub(at.0));
        self.refused.retain(|_, at| is_young(*at));
        let mut begun = HashMap::new();
        for backup in all {
            let uid = uid(backup);
            let attempts = backup.status.as_ref().map_or(0, |status| status.attempts);
            // A status that was lost never has so many again.
            let is_news = |known: &&(u32, Instant)| known.0 > attempts && is_young(known.1);
            if let Some(known) = self.begun.get(&uid).filter(is_news) {
                begun.insert(uid.clone(), *known);
            }
            if backup.metadata.deletion_timestamp.is_some() || backup.spec.existing.is_some() {
                continue;
            }
            match phase(backup) {
                BackupPhase::Running if !is_stuck(backup, now) => {
                    self.running.insert(uid);
                }
                BackupPhase::Pending
                    if backup.status.as_ref().is_some_and(waits_for_place)
                        && !rests(backup, now)
                        && !self.refused.contains_key(&uid) =>
                {
                    self.line.push((order(backup), uid));
                }
                BackupPhase::Running
                | BackupPhase::Pending
                | BackupPhase::Complete
                | BackupPhase::Failed
                | BackupPhase::Deleting => {}
            }
        }
        self.line.sort_unstable();
        self.begun = begun;
    }

    /// The place in the queue of a backup that it [`holds`](Self::holds); `None`: it may begin. What is known of an attempt of its own is not
    /// counted: it would wait for itself.
    pub fn place(&self, backup: &EtcdBackup) -> Option<Place> {
        if self.limit == 0 {
            return None;
        }
        let (own, own_uid) = (order(backup), uid(backup));
        let begun = self.begun.keys().filter(|uid| !self.running.contains(*uid));
        let running = self.running.iter().chain(begun).filter(|uid| **uid != own_uid).count();
        let end = self.line.partition_point(|(order, _)| *order < own);
        let before = self.line[..end].iter().filter(|(_, uid)| !self.begun.contains_key(uid)).count();
        (running + before >= self.limit).then_some(Place { before, limit: self.limit })
    }

    /// An attempt of this backup begins, whether or not the bound holds it up.
    pub fn begins(&mut self, backup: &EtcdBackup, attempts: u32, now: Instant) {
        if self.limit > 0 {
            self.begun.insert(uid(backup), (attempts, now));
        }
    }

    /// The attempt of this backup did not begin after all.
    pub fn takes_back(&mut self, backup: &EtcdBackup) {
        self.begun.remove(&uid(backup));
    }

    /// Nor did it, and the API server refuses its status: it leaves the line for a while.
    pub fn is_refused(&mut self, backup: &EtcdBackup, now: Instant) {
        self.takes_back(backup);
        if self.limit > 0 {
            let uid = uid(backup);
            self.line.retain(|(_, of)| *of != uid);
            self.refused.insert(uid, now);
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { before, limit } = *self;
        // Rounded, or else each backup that begins would be a write to each that waits.
        let step = if before > 100 { 100 } else { 10 };
        let ahead = match before {
            0 => "this one is next".to_owned(),
            1..=10 => format!("{before} begin before this one"),
            11.. => format!("about {} begin before this one", before.div_ceil(step) * step),
        };
        write!(
            f,
            "{limit} backups run over all clusters, and no more may (--max-backups-running={limit} of the operator): {ahead}"
        )
    }
}

/// Whether a backup waits for the bound, and for nothing else.
pub fn waits_for_place(status: &EtcdBackupStatus) -> bool {
    let pending = conditions::find_true(&status.conditions, BackupCondition::Pending.as_str());
    pending.is_some_and(|one| one.reason == Reason::BackupLimitReached.as_str())
}

/// Whether an EtcdRestore that the cluster would carry out waits for this backup, and for nothing else.
fn is_first_for_a_restore(backup: &EtcdBackup, cluster: &EtcdCluster) -> bool {
    let mut waiting = cluster.status.iter().flat_map(|status| &status.waiting_orders);
    waiting.any(|waiting| {
        let by = waiting.ordered_by.etcd_restore.as_ref();
        waiting.reason == Reason::RestoreBackupFirst.as_str()
            && by.is_some_and(|by| in_place::has_name_for(backup, &by.uid))
    })
}

fn uid(backup: &EtcdBackup) -> String {
    backup.metadata.uid.clone().unwrap_or_default()
}
