//! What the controllers do with a decision: `crates/operator/src/controllers/{schedule,backup}/pass.rs`, one write at a time.

use std::sync::Arc;

use kube_core::ResourceExt;
use quorate_api::job::{BackupOrder, InspectOrder, ListOrder, RemoveOrder, Task as _};
use quorate_api::{EtcdBackup, EtcdBackupSchedule, keys};
use quorate_orders::backup::{self, Act, User};
use quorate_orders::gate::{self, Removal, Scene};
use quorate_orders::schedule::{self, FirstWrite, NextAct, Pruning, is_of};

use super::finds::Blind;
use super::jobs::Work;
use super::pass::{Pass, Plan, Stage, Stopped};
use super::{Of, SCHEDULE_UID, View, World};

impl World {
    pub(super) fn write(&mut self, pass: &mut Pass, stage: &Stage) -> Result<(), Stopped> {
        match (pass.plan.clone(), stage) {
            (Plan::Schedule(decision), stage) => self.write_schedule(pass, &decision, stage),
            (Plan::Backup(decision), stage) => self.write_backup(pass, &decision, stage),
        }
    }

    fn write_schedule(
        &mut self,
        pass: &mut Pass,
        decision: &schedule::Decision,
        stage: &Stage,
    ) -> Result<(), Stopped> {
        match stage {
            Stage::Create => {
                require(self.is_current(&pass.schedule))?;
                if let Some(FirstWrite::Create(child)) = &decision.first {
                    let is_new = self.create_backup((**child).clone(), true);
                    if is_new {
                        self.judge_creation(child);
                    }
                }
                Ok(())
            }
            Stage::Record(place) => {
                // Looked at before the first of them alone.
                let is_first = *place == 0 && !self.is_blind(Blind::PageFirst);
                require(!is_first || self.is_current(&pass.schedule))?;
                let record = &decision.records[*place];
                if !self.backups.contains_key(&record.name_any()) {
                    let seen: Vec<Arc<EtcdBackup>> = pass.view.backups.values().cloned().collect();
                    self.judge_record(record, &seen);
                    self.create_backup(record.clone(), false);
                }
                Ok(())
            }
            Stage::Sighting(place) => {
                let sighting = &decision.sightings[*place];
                let Some(seen) = pass.view.backups.get(&sighting.backup) else { return Ok(()) };
                if seen.status.as_ref().and_then(|status| status.last_look.as_ref()) == Some(&sighting.look) {
                    return Ok(());
                }
                if !self.backups.contains_key(&sighting.backup) {
                    return Ok(());
                }
                require(self.has(seen))?;
                let now = self.operator_now();
                let mut written = (**seen).clone();
                written.status = Some(sighting.status_of(seen, now));
                self.put_backup(written);
                Ok(())
            }
            Stage::Status => {
                require(self.is_current(&pass.schedule))?;
                let mut written = (*pass.schedule).clone();
                let before = written.status.replace(decision.status.clone());
                self.judge_list(&before.unwrap_or_default(), &decision.status);
                pass.schedule = self.put_schedule(written);
                Ok(())
            }
            Stage::Test => {
                require(self.is_current(&pass.schedule))?;
                let name =
                    decision.status.test.as_ref().map(|test| test.job_name.clone()).unwrap_or_default();
                if let NextAct::Test { order, .. } = &decision.then {
                    self.create_job(&name, Work::Test(order.clone()), None);
                }
                Ok(())
            }
            Stage::Look => {
                require(self.is_current(&pass.schedule))?;
                let name =
                    decision.status.look.as_ref().map(|look| look.job_name.clone()).unwrap_or_default();
                if let NextAct::Look { order, .. } = &decision.then {
                    self.create_job(&name, Work::Look(order.clone()), None);
                }
                Ok(())
            }
            Stage::List => {
                require(self.is_current(&pass.schedule))?;
                if let NextAct::List { attempt, order } = &decision.then {
                    self.create_job(
                        &ListOrder::job_name(SCHEDULE_UID, *attempt),
                        Work::List(order.clone()),
                        None,
                    );
                }
                Ok(())
            }
            Stage::DeleteJob(name) => self.delete_job(&pass.view, name),
            Stage::Prune(pruning) => self.prune(pass, decision, pruning),
            Stage::Finalizer(_) | Stage::Backup | Stage::Inspect | Stage::Remove { .. } => Ok(()),
        }
    }

    fn prune(
        &mut self,
        pass: &Pass,
        decision: &schedule::Decision,
        pruning: &Pruning,
    ) -> Result<(), Stopped> {
        let Pruning { name, keeper } = pruning;
        let Some(backup) = pass.view.backups.get(name) else { return Ok(()) };
        require(self.is_current(&pass.schedule))?;
        let rogue = self.setup.rogue;
        let of = |one: &&EtcdBackup| {
            one.labels().contains_key(keys::SCHEDULE) && (rogue || is_of(one, &pass.schedule))
        };
        let backups: Vec<&EtcdBackup> = pass.view.backups.values().map(|one| &**one).filter(of).collect();
        self.known_api = self.api;
        let stays =
            keeper.as_ref().and_then(|keeper| self.backups.get(keeper)).map(|kept| kept.object.clone());
        let used = backups.iter().filter(|one| self.is_used(one)).map(|one| one.name_any()).collect();
        let (clock, now) = (self.difference(), self.operator_now());
        let scene = Scene {
            schedule: &pass.schedule,
            status: &decision.status,
            backups: &backups,
            used: &used,
            clock,
            now,
        };
        if let Err(why) = gate::may_prune(&scene, backup, stays.as_deref()) {
            self.tell(|| format!("the gate: {}", why.name()));
            return Ok(());
        }
        require(self.has(backup))?;
        self.judge_deletion(name);
        self.delete_backup(name);
        Ok(())
    }

    fn write_backup(
        &mut self,
        pass: &mut Pass,
        decision: &backup::Decision,
        stage: &Stage,
    ) -> Result<(), Stopped> {
        let Some(backup) = pass.backup.clone() else { return Ok(()) };
        match stage {
            Stage::Status => {
                require(self.has(&backup) || self.is_blind(Blind::Current))?;
                if decision.status.attempts > 0 {
                    self.truth.recorded.insert(backup.uid().unwrap_or_default());
                }
                self.judge_stands(&backup, &decision.status);
                let written = EtcdBackup { status: Some(decision.status.clone()), ..(*backup).clone() };
                pass.backup = Some(self.put_backup(written));
                if self.restored_name() == Some(backup.name_any()) {
                    self.judge_restored();
                }
                Ok(())
            }
            Stage::Finalizer(with) => {
                require(self.has(&backup))?;
                let mut written = (*backup).clone();
                written.metadata.finalizers = with.then(|| vec![keys::BACKUP_FINALIZER.to_owned()]);
                self.put_backup(written);
                Ok(())
            }
            Stage::Backup => {
                require(self.has(&backup))?;
                let name = BackupOrder::job_name(&backup.uid().unwrap_or_default(), decision.status.attempts);
                let Act::Backup { order, .. } = &decision.act else { return Ok(()) };
                require(self.create_job(&name, Work::Backup(order.clone()), Some(&backup)))
            }
            Stage::Inspect => {
                require(self.has(&backup))?;
                let name =
                    InspectOrder::job_name(&backup.uid().unwrap_or_default(), decision.status.attempts);
                let Act::Inspect { order, .. } = &decision.act else { return Ok(()) };
                require(self.create_job(&name, Work::Inspect(order.clone()), Some(&backup)))
            }
            Stage::Remove { by_rogue } => {
                require(self.has(&backup))?;
                let mut status = decision.status.clone();
                if *by_rogue {
                    status.removals = 1;
                }
                let used_by = self.used_by(&backup);
                let running_pods = self.running_pods(&backup);
                let removal =
                    Removal { backup: &backup, status: &status, running_pods, used_by: used_by.as_ref() };
                let name = RemoveOrder::job_name(&backup.uid().unwrap_or_default(), status.removals);
                if let Err(why) = gate::may_remove(&removal) {
                    self.tell(|| format!("the gate: {}", why.name()));
                    if !by_rogue && !self.jobs.contains_key(&name) {
                        let held = backup::removal_held(status);
                        self.put_backup(EtcdBackup { status: Some(held), ..(*backup).clone() });
                    }
                    return Ok(());
                }
                self.judge_removal_job(&backup);
                require(self.create_job(&name, Work::Remove, Some(&backup)))
            }
            Stage::DeleteJob(name) => self.delete_job(&pass.view, name),
            Stage::Create
            | Stage::Record(_)
            | Stage::Sighting(_)
            | Stage::Test
            | Stage::Look
            | Stage::List
            | Stage::Prune(_) => Ok(()),
        }
    }

    fn delete_job(&mut self, view: &View, name: &str) -> Result<(), Stopped> {
        let Some(seen) = view.jobs.get(name) else { return Ok(()) };
        let Some(now) = self.jobs.get(name).map(|kept| kept.object.clone()) else { return Err(Stopped) };
        require(now.outcome == seen.outcome && now.job.metadata == seen.job.metadata)?;
        self.remember();
        self.jobs.remove(name);
        if now.outcome.is_none() {
            self.pods.push(now.clone());
        }
        if now.backup.is_empty() {
            self.dirty.insert(Of::Schedule);
        } else if self.backups.contains_key(&now.backup) {
            self.dirty.insert(Of::Backup(now.backup.clone()));
        }
        Ok(())
    }

    /// Creates an EtcdBackup; `false`: its name is taken.
    pub(super) fn create_backup(&mut self, mut child: EtcdBackup, by_schedule: bool) -> bool {
        let name = child.name_any();
        if self.backups.contains_key(&name) {
            return false;
        }
        let uid = self.truth.next_uid(&name, by_schedule);
        child.metadata.uid = Some(uid);
        child.metadata.creation_timestamp = Some(self.api_time());
        child.metadata.generation = Some(1);
        self.put_backup(child);
        true
    }

    /// The API server is asked to delete it.
    pub(super) fn delete_backup(&mut self, name: &str) {
        let Some(kept) = self.backups.get(name) else { return };
        let mut backup = (*kept.object).clone();
        self.truth.goes(&backup);
        let at = self.api_time();
        backup.metadata.deletion_timestamp.get_or_insert(at);
        self.put_backup(backup);
    }

    pub(super) fn is_current(&self, schedule: &EtcdBackupSchedule) -> bool {
        self.schedule.object.metadata.resource_version == schedule.metadata.resource_version
    }

    /// Whether the API server has this very version.
    pub(super) fn has(&self, backup: &EtcdBackup) -> bool {
        let now = self.backups.get(&backup.name_any());
        now.is_some_and(|now| now.object.metadata.resource_version == backup.metadata.resource_version)
    }

    pub(super) fn used_by(&self, backup: &EtcdBackup) -> Option<User> {
        let has_result = backup.status.as_ref().is_some_and(|status| status.result.is_some());
        (has_result && self.is_used(backup)).then(|| User::Restore("back".to_owned()))
    }

    pub(super) fn running_pods(&self, backup: &EtcdBackup) -> usize {
        let uid = backup.uid().unwrap_or_default();
        let of_jobs = self.jobs.values().filter(|job| job.object.uid == uid && job.object.outcome.is_none());
        of_jobs.count() + self.pods.iter().filter(|pod| pod.uid == uid).count()
    }
}

fn require(holds: bool) -> Result<(), Stopped> {
    if holds { Ok(()) } else { Err(Stopped) }
}
