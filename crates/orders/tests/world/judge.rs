//! What must hold, by the store's truth and the true time.

use std::collections::{BTreeMap, BTreeSet};

use kube_core::ResourceExt as _;
use quorate_api::backup::{BackupPhase, DeletionPolicy};
use quorate_api::{EtcdBackup, duration, keys};

use super::jobs::SimJob;
use super::stands::Sight;
use super::store::{Object, place};
use super::{BOUND, BUCKET, DAY, HOUR, Kept, MINUTE, World};

/// For how long what was in the store may have been gone before an older one is deleted in its favour: 15 minutes of the product, and one.
const SEEN: i64 = 16 * MINUTE;

/// A property.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Property {
    /// The last good backup of an etcd cluster stays, its object and its EtcdBackup; and what stays for another was in the store lately.
    LastGoodStays,
    /// What the schedule did not make is not deleted by it.
    OnlyItsOwn,
    /// What a rule of the spec keeps, as the API server has it, stays; and all, while that is suspended.
    RulesHold,
    /// A clock that is set makes one backup too old at most.
    OneATime,
    /// No deletion is decided by a clock that differs.
    ClocksAgree,
    /// What is under way is not deleted, nor what a restore needs.
    NotInUse,
    /// An object is removed only for an EtcdBackup that is being deleted and whose object is to go.
    RemovedByOrder,
    /// What was never written is not removed: a store that refuses would hold up the deletion.
    NothingToRemove,
    /// No object is left without its EtcdBackup, unless that is reported.
    NothingLeft,
    /// A time is run once.
    RunOnce,
    /// And not lost, once all is mended.
    NotLost,
    /// All comes to rest.
    ComesToRest,
    /// Retention holds in the end.
    RetentionHolds,
    /// What stands for an object has one that it names, that the EtcdCluster wrote, and that was whole when it was found.
    StandsForOwn,
    /// And, where it was to be the newest, none was newer then.
    FindsNewest,
    /// It stands for that one from then on.
    FoundOnce,
    /// A restore gets what the EtcdCluster wrote, or nothing.
    RestoresOwn,
    /// A bucket with versions has what each complete backup wrote.
    VersionsStay,
    /// A list makes EtcdBackups for what the EtcdCluster wrote, and for nothing else.
    CatalogOwn,
    /// An object gets one at most.
    OneEach,
    /// And once the list has ended, each object has one.
    CatalogWhole,
}

/// What only the world knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Truth {
    /// How many EtcdBackups had each name.
    names: BTreeMap<String, u32>,
    /// The uids of those that the schedule created.
    made: BTreeSet<String>,
    /// The times that were run.
    run: BTreeSet<String>,
    /// Those of them that were still to come: by clocks that were ahead. Nothing is taken for them once they come, and that is reported.
    early: BTreeSet<String>,
    /// Deletions of good backups that were too young.
    young: u32,
    /// How often a clock was set ahead.
    pub jumps: u32,
    /// A clock was set back, so it shows some times twice.
    pub set_back: bool,
    /// The store has refused: a removal may rest for hours then.
    pub refused: bool,
    /// The uids that an attempt was recorded for, and those of which a Pod ran that may have written.
    pub recorded: BTreeSet<String>,
    wrote: BTreeSet<String>,
    clean: BTreeSet<String>,
    pub abandoned: BTreeSet<String>,
    pub deleted_by_person: BTreeSet<String>,
    pub missed: usize,
    /// The bytes that Jobs of the EtcdCluster wrote.
    pub own: BTreeSet<u64>,
    /// What the store had when a Job looked, by its name.
    pub sights: BTreeMap<String, Sight>,
    /// How many orders there were, how many words of a list, EtcdBackups that stand for an object, and restores.
    pub orders: u32,
    pub words: u32,
    pub stands: u32,
    pub restores: u32,
    /// When the last list was begun, and the uids and keys of those that were deleted since.
    pub listed_since: i64,
    pub gone: BTreeSet<String>,
    /// Another Kubernetes has the same key; a Job has answered about what it was not asked; the clocks of nodes were set.
    pub shared: bool,
    pub astray: bool,
    pub nodes_set: bool,
}

impl Truth {
    pub fn next_uid(&mut self, name: &str, by_schedule: bool) -> String {
        let count = self.names.entry(name.to_owned()).or_default();
        *count += 1;
        let uid = format!("uid-{name}-{count}");
        if by_schedule {
            self.made.insert(uid.clone());
        }
        uid
    }

    pub fn made_by_schedule(&self, backup: &EtcdBackup) -> bool {
        backup.uid().is_some_and(|uid| self.made.contains(&uid))
    }

    /// Somebody deletes an EtcdBackup.
    pub fn goes(&mut self, backup: &EtcdBackup) {
        self.gone.extend(backup.uid());
        self.gone.extend(backup.spec.existing.as_ref().map(|existing| existing.key.clone()));
    }

    /// A Pod of a backup has run.
    pub fn ran(&mut self, uid: &str, is_clean: bool) {
        let of = if is_clean { &mut self.clean } else { &mut self.wrote };
        of.insert(uid.to_owned());
    }
}

impl World {
    /// The object of a backup, if it was good so lately.
    fn good_within(&self, backup: &EtcdBackup, time: i64) -> Option<&Object> {
        let at = place(backup);
        if !at.starts_with(&format!("{BUCKET}/")) {
            return None;
        }
        let there = self.store.get(&at).filter(|object| object.is_own() && !object.is_spoilt());
        let lost =
            || self.lost.get(&at).filter(|(_, when)| *when > self.now - time).map(|(object, _)| object);
        let uid = backup.uid().unwrap_or_default();
        there.or_else(lost).filter(|object| object.is_own() && object.uid == uid)
    }

    fn is_doubtful(&self, object: &Object) -> bool {
        // That a test has found it out, is the product's to know.
        object.broken && self.setup.tested
    }

    /// The schedule deletes an EtcdBackup: the request lands.
    pub(super) fn judge_deletion(&mut self, name: &str) {
        let Some(backup) = self.backups.get(name).map(|kept| kept.object.clone()) else { return };
        let uid = backup.uid().unwrap_or_default();
        let is_made = self.truth.made.contains(&uid);
        // One that has all that the schedule gives to its own is distinguished by nobody.
        let is_others = backup.spec.existing.is_some() || name.starts_with("nightly");
        if !is_made && (name == "copy" || is_ahead(&backup) || is_others) {
            self.violate(Property::OnlyItsOwn, format!("{name} is not the schedule's"));
        }
        let spec = self.schedule.object.spec.clone();
        if spec.suspend {
            self.violate(Property::RulesHold, format!("{name} is deleted while the schedule is suspended"));
        }
        if self.needed_place() == Some(place(&backup)) {
            self.violate(Property::NotInUse, format!("{name} is deleted, and a restore needs it"));
        }
        let runs = self.jobs.values().any(|job| {
            job.object.uid == uid && job.object.outcome.is_none() && job.object.name().starts_with("backup-")
        });
        let has_failed =
            backup.status.as_ref().is_some_and(|status| status.phase == Some(BackupPhase::Failed));
        if runs && !has_failed {
            self.violate(Property::NotInUse, format!("{name} is deleted while its Job runs"));
        }
        let Some(object) = self.good_within(&backup, 0).cloned() else {
            let phase = backup.status.as_ref().and_then(|status| status.phase);
            if matches!(phase, None | Some(BackupPhase::Pending | BackupPhase::Running)) {
                self.violate(Property::NotInUse, format!("{name} is deleted before it has ended"));
            }
            return;
        };
        // Those that failed go by their number.
        if !has_failed && (self.operator - self.api).abs() > BOUND {
            self.violate(Property::ClocksAgree, format!("{name} is deleted, and the clocks differ"));
        }
        let stays = self.backups.iter().any(|(other, kept)| {
            let is_there = other != name && kept.object.metadata.deletion_timestamp.is_none();
            let good = self.good_within(&kept.object, SEEN);
            is_there
                && good.is_some_and(|good| {
                    good.cluster_id == object.cluster_id
                        && (good.taken >= object.taken || self.is_doubtful(&object))
                        && (!self.is_doubtful(good) || self.is_doubtful(&object) || !self.is_known(good))
                })
        });
        if !stays {
            self.violate(
                Property::LastGoodStays,
                format!("{name} is deleted, and no newer one of its cluster is good"),
            );
        }
        // No rule is about those that failed, though a Pod may have written the object all the same.
        if has_failed {
            return;
        }
        let rules = spec.retention.unwrap_or_default();
        // Rules are what is due; the gate has others.
        if let Some(last) = rules.keep_last.filter(|_| !self.setup.rogue) {
            let newer = self.backups.iter().filter(|(other, kept)| {
                // That one is gone is the product's to find out.
                let good = self.good_within(&kept.object, 365 * DAY);
                let is_newer = good.is_some_and(|good| good.taken >= object.taken);
                other.as_str() != name && has_result(kept) && is_newer
            });
            if newer.count() < last as usize {
                self.violate(Property::RulesHold, format!("{name} is deleted, and keepLast is {last}"));
            }
        }
        if let Some(seconds) = rules.max_age.as_deref().and_then(duration::seconds) {
            let limit = i64::try_from(seconds).unwrap_or(i64::MAX) * 1000;
            if is_made && self.now - object.taken < limit - HOUR {
                self.truth.young += 1;
                if self.truth.young > self.truth.jumps {
                    self.violate(
                        Property::OneATime,
                        format!("{name} is the {}th that is deleted too young", self.truth.young),
                    );
                }
            }
        }
    }

    /// Whether the schedule knows by a test that an object is broken.
    fn is_known(&self, object: &Object) -> bool {
        let status = self.schedule.object.status.as_ref();
        let mut failed = status.iter().flat_map(|status| &status.failed_tests);
        failed.any(|failed| object.uid.contains(&failed.backup))
    }

    /// A Pod is about to remove an object.
    pub(super) fn judge_removal(&mut self, job: &SimJob) {
        let Some(object) = self.store.get(&job.place).cloned() else { return };
        let backup = self
            .backups
            .get(&job.backup)
            .map(|kept| kept.object.clone())
            .filter(|backup| backup.uid().as_ref() == Some(&job.uid));
        let is_ordered = backup.as_ref().is_some_and(|backup| {
            backup.metadata.deletion_timestamp.is_some()
                && backup.spec.deletion_policy == DeletionPolicy::Delete
        });
        if !is_ordered {
            self.violate(Property::RemovedByOrder, format!("the object of {} is removed", object.uid));
        }
    }

    /// An object is removed. What an intruder wrote in its place goes with it.
    pub(super) fn judge_removed(&mut self, job: &SimJob) {
        let others = self.store.get(&job.place).filter(|object| object.uid != job.uid);
        if let Some(object) = others.map(|object| object.uid.clone()) {
            self.violate(
                Property::RemovedByOrder,
                format!("the object of {object} is removed for {}", job.uid),
            );
        }
    }

    /// A Job of a removal is created.
    pub(super) fn judge_removal_job(&mut self, backup: &EtcdBackup) {
        let uid = backup.uid().unwrap_or_default();
        if backup.metadata.deletion_timestamp.is_none()
            || backup.spec.deletion_policy != DeletionPolicy::Delete
            || backup.spec.existing.is_some()
        {
            self.violate(Property::RemovedByOrder, format!("the object of {uid} is removed"));
        }
        if self.needed_place() == Some(place(backup))
            && backup.status.as_ref().is_some_and(|status| status.removals <= 1)
        {
            self.violate(
                Property::NotInUse,
                format!("the object of {uid} is removed, and a restore needs it"),
            );
        }
        let began = self.truth.recorded.contains(&uid);
        let is_clean = self.truth.clean.contains(&uid) && !self.truth.wrote.contains(&uid);
        if !began || (is_clean && backup.status.as_ref().is_some_and(|status| status.attempts <= 1)) {
            self.violate(Property::NothingToRemove, format!("{uid} has written nothing, and is removed"));
        }
    }

    /// The schedule has created an EtcdBackup.
    pub(super) fn judge_creation(&mut self, child: &EtcdBackup) {
        let due = child.annotations().get(keys::SCHEDULED_AT).cloned().unwrap_or_default();
        if due
            .parse::<k8s_openapi::jiff::Timestamp>()
            .is_ok_and(|due| due.as_millisecond() > self.now + BOUND)
        {
            self.truth.early.insert(due.clone());
        }
        if !self.truth.run.insert(due.clone()) && !self.truth.set_back {
            self.violate(Property::RunOnce, format!("the time {due} is run twice"));
        }
    }

    /// All was mended, and two more times have come.
    pub(super) fn judge_end(&mut self) {
        self.judge_versions();
        self.judge_stands_end();
        let due = |ago: i64| super::timestamp((self.now.div_euclid(HOUR) - ago) * HOUR).to_string();
        let is_told = [due(0), due(1)].iter().any(|due| self.truth.early.contains(due));
        for due in [due(0), due(1)] {
            if !self.truth.run.contains(&due) {
                self.violate(Property::NotLost, format!("nothing was taken for {due}"));
            }
        }
        let newest = self.backups.values().rfind(|kept| self.is_own(kept)).map(|kept| kept.object.clone());
        if !is_told && newest.is_none_or(|newest| self.good_within(&newest, 0).is_none()) {
            self.violate(Property::NotLost, "the newest backup is not good".to_owned());
        }
        let left = self.store.iter().find(|(_, object)| {
            let is_gone = self.backups.values().all(|kept| kept.object.uid().as_ref() != Some(&object.uid));
            is_gone
                && self.setup.policy == "Delete"
                && self.truth.made.contains(&object.uid)
                && !self.truth.abandoned.contains(&object.uid)
        });
        if let Some((place, _)) = left {
            self.violate(Property::NothingLeft, format!("{place} is left, and nobody knows"));
        }
        let going = self
            .backups
            .iter()
            .find(|(_, kept)| kept.object.metadata.deletion_timestamp.is_some())
            .map(|(name, _)| name.clone());
        if let Some(going) = going.filter(|_| !self.truth.refused) {
            self.violate(Property::ComesToRest, format!("{going} is still being deleted"));
        }
        let rules = self.schedule.object.spec.retention.clone().unwrap_or_default();
        let age = rules.max_age.as_deref().and_then(duration::seconds).map(|seconds| seconds / 3600 + 2);
        let most = age.unwrap_or(0).max(u64::from(rules.keep_last.unwrap_or(0)));
        let own = self.backups.values().filter(|kept| self.is_own(kept) && has_result(kept));
        let good: Vec<&Object> = own.filter_map(|kept| self.good_within(&kept.object, 0)).collect();
        let clusters = good.iter().map(|object| &object.cluster_id).collect::<BTreeSet<_>>().len();
        let broken = usize::from(good.iter().any(|object| object.broken));
        let count = good.len();
        // By a clock that was set the gate keeps more, until the times that it knows are over.
        let was_set = self.truth.jumps > 0 || self.truth.set_back;
        let too_many =
            u64::try_from(count.saturating_sub(clusters - clusters.min(1) + broken)).unwrap_or(0) > most;
        if too_many && !was_set {
            let uids: Vec<String> = good.iter().map(|object| object.uid.clone()).collect();
            self.violate(
                Property::RetentionHolds,
                format!("{count} are kept, and the rules say {most}: {}", uids.join(", ")),
            );
        }
    }

    /// Made by the schedule while clocks agreed: others are nobody's.
    fn is_own(&self, kept: &Kept<EtcdBackup>) -> bool {
        let backup = &kept.object;
        let due = backup
            .annotations()
            .get(keys::SCHEDULED_AT)
            .and_then(|due| due.parse::<k8s_openapi::jiff::Timestamp>().ok());
        let created =
            backup.metadata.creation_timestamp.as_ref().map_or(0, |created| created.0.as_millisecond());
        let is_made = backup.uid().is_some_and(|uid| self.truth.made.contains(&uid));
        is_made
            && due.is_some_and(|due| due.as_millisecond() <= created + BOUND)
            && created <= self.now + BOUND
    }
}

/// One that has failed may have an object, and is no good one to anybody.
fn has_result(kept: &Kept<EtcdBackup>) -> bool {
    let is_going = kept.object.metadata.deletion_timestamp.is_some();
    !is_going && kept.object.status.as_ref().is_some_and(|status| status.result.is_some())
}

/// It is of a time that was still to come when it was created.
fn is_ahead(backup: &EtcdBackup) -> bool {
    let due = backup.annotations().get(keys::SCHEDULED_AT).cloned().unwrap_or_default();
    let due =
        due.parse::<k8s_openapi::jiff::Timestamp>().map_or(0, k8s_openapi::jiff::Timestamp::as_millisecond);
    backup
        .metadata
        .creation_timestamp
        .as_ref()
        .is_some_and(|created| due > created.0.as_millisecond() + BOUND)
}
