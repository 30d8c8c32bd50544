//! What the controllers do with a decision: `crates/operator/src/controllers/{schedule,backup}/pass.rs`, one write at a time.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use k8s_openapi::api::batch::v1::Job;
use kube_core::ResourceExt;
use quorate_api::{EtcdBackup, EtcdBackupSchedule, keys};
use quorate_manifests::job::{backup_name, remove_name};
use quorate_orders::JobOutcome;
use quorate_orders::backup::{self, Act, User, is_in_queue};
use quorate_orders::gate::{self, Judge, Removal, Scene};
use quorate_orders::schedule::{self, FirstWrite, NextAct, Pruning, is_of};

use super::jobs::{SimJob, Work};
use super::{Kind, Of, View, World, hash_of};

/// A pass that is under way.
#[derive(Clone, Debug)]
pub struct Pass {
    pub of: Of,
    view: Arc<View>,
    plan: Plan,
    stages: Vec<Stage>,
    place: usize,
    /// The object as this pass has written it last.
    schedule: Arc<EtcdBackupSchedule>,
    backup: Option<Arc<EtcdBackup>>,
    hash: u64,
}

#[derive(Clone, Debug)]
enum Plan {
    Schedule(Arc<schedule::Decision>),
    Backup(Arc<backup::Decision>),
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
enum Stage {
    Create,
    Sighting(usize),
    Status,
    Test,
    Look,
    DeleteJob(String),
    Prune(Pruning),
    Finalizer(bool),
    Backup,
    Remove { by_rogue: bool },
}

/// What becomes of the next write of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reply {
    Comes,
    /// It was carried out, and nobody knows.
    Lost,
    /// It was not.
    NotSent,
}

/// A write that failed: the pass ends, and there is another one.
struct Stopped;

impl Pass {
    pub(super) fn hash(&self, world: &World) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.of, self.hash, self.place).hash(&mut hasher);
        world.is_current(&self.schedule).hash(&mut hasher);
        for (name, backup) in &self.view.backups {
            (name, world.has(backup)).hash(&mut hasher);
        }
        hasher.finish()
    }
}

impl World {
    /// The view of the next pass.
    fn seen(&mut self) -> View {
        let mut view = self.view();
        if let Some((kind, ago)) = self.stale.take()
            && let Some(old) = self.views.len().checked_sub(ago).and_then(|place| self.views.get(place))
        {
            match kind {
                Kind::Schedule => view.schedule = old.schedule.clone(),
                Kind::Backups => view.backups.clone_from(&old.backups),
                Kind::Jobs => view.jobs.clone_from(&old.jobs),
            }
        }
        view
    }

    /// A pass observes and decides.
    pub(super) fn begin(&mut self, of: Of) {
        let view = Arc::new(self.seen());
        match of {
            Of::Schedule => self.begin_schedule(view),
            Of::Backup(name) => self.begin_backup(name, &view),
        }
        if let Some(pass) = &self.pass {
            let stages = format!("{:?}", pass.stages);
            self.tell(|| format!("decided: {stages}"));
        }
    }

    fn begin_schedule(&mut self, view: Arc<View>) {
        let schedule = view.schedule.clone();
        let all = view.backups.values().map(|backup| &**backup);
        let rogue = self.setup.rogue;
        let backups: Vec<&EtcdBackup> = all
            .filter(|backup| {
                backup.labels().contains_key(keys::SCHEDULE) && (rogue || is_of(backup, &schedule))
            })
            .collect();
        let jobs: Vec<(&Job, JobOutcome)> = jobs_of(&view, "");
        let now = self.operator_now();
        let clock = self.difference();
        let mut decision = schedule::decide(schedule::Seen {
            schedule: &schedule,
            backups: &backups,
            others: &[],
            jobs: &jobs,
            clock,
            now,
        });
        self.truth.missed +=
            decision.events.iter().filter(|(_, what)| what.reason().to_string() == "BackupMissed").count();
        let wake = match &decision.then {
            NextAct::Wait(until) => until.map(|until| until.0 - now.0),
            NextAct::Prune(_)
            | NextAct::Test { .. }
            | NextAct::Look { .. }
            | NextAct::List { .. }
            | NextAct::DeleteJob(_)
            | NextAct::Edit => None,
        };
        if rogue && matches!(decision.then, NextAct::Wait(_) | NextAct::Prune(_)) {
            let used = BTreeSet::new();
            let judge = Judge::of(Scene {
                schedule: &schedule,
                status: &decision.status,
                backups: &backups,
                used: &used,
                clock,
                now,
            });
            let all = backups.iter().map(|one| Pruning {
                name: one.name_any(),
                keeper: judge.keeper(one).map(ResourceExt::name_any),
            });
            decision.then = NextAct::Prune(all.collect());
        }
        let mut stages = Vec::new();
        stages.extend(decision.first.iter().map(|_| Stage::Create));
        stages.extend((0..decision.sightings.len()).map(Stage::Sighting));
        if schedule.status.as_ref() != Some(&decision.status) {
            stages.push(Stage::Status);
        }
        match &decision.then {
            NextAct::Prune(pruned) => stages.extend(pruned.iter().cloned().map(Stage::Prune)),
            NextAct::Test { .. } => stages.push(Stage::Test),
            NextAct::Look { .. } => stages.push(Stage::Look),
            NextAct::DeleteJob(name) => stages.push(Stage::DeleteJob(name.clone())),
            // No history orders a list.
            NextAct::List { .. } | NextAct::Wait(_) | NextAct::Edit => {}
        }
        self.wake(&Of::Schedule, wake);
        self.enter(Pass {
            of: Of::Schedule,
            hash: hash_of(&format!("{:?}{stages:?}", serde_json::to_string(&decision.status))),
            plan: Plan::Schedule(Arc::new(decision)),
            schedule,
            view,
            stages,
            place: 0,
            backup: None,
        });
    }

    fn begin_backup(&mut self, name: String, view: &Arc<View>) {
        let Some(backup) = view.backups.get(&name).cloned() else { return };
        let now = self.operator_now();
        let is_going = backup.metadata.deletion_timestamp.is_some();
        let others = || view.backups.values().map(|other| &**other);
        let (waits_for, failed_removals, all_go) = if is_going {
            let queue = backup::removals(&backup, others(), now);
            (queue.waits_for, queue.failed, queue.all_go)
        } else if is_in_queue(&backup) {
            (backup::blocker(&backup, others(), now).map(ResourceExt::name_any), 0, false)
        } else {
            (None, 0, false)
        };
        let jobs: Vec<(&Job, JobOutcome)> = jobs_of(view, &backup.uid().unwrap_or_default());
        let used_by = self.used_by(&backup).filter(|_| is_going);
        let cluster = self.cluster.object.clone();
        let decision = backup::decide(backup::Seen {
            cluster: Some(&cluster),
            waits_for: waits_for.as_deref(),
            jobs: &jobs,
            running_pods: self.running_pods(&backup),
            failed_removals,
            all_go,
            used_by: used_by.as_ref(),
            ..backup::Seen::only(&backup, now)
        });
        if let Some((_, why)) = &decision.event
            && why.reason().to_string() == "ObjectAbandoned"
        {
            self.truth.abandoned.insert(backup.uid().unwrap_or_default());
        }
        let mut stages = Vec::new();
        if backup.status.as_ref() != Some(&decision.status)
            && decision.status != quorate_api::backup::EtcdBackupStatus::default()
        {
            stages.push(Stage::Status);
        }
        let wake = match &decision.act {
            Act::AddFinalizer => {
                stages.push(Stage::Finalizer(true));
                None
            }
            Act::RemoveFinalizer => {
                stages.push(Stage::Finalizer(false));
                None
            }
            Act::Backup { .. } => {
                stages.push(Stage::Backup);
                None
            }
            Act::Remove => {
                stages.push(Stage::Remove { by_rogue: false });
                None
            }
            Act::DeleteJob(name) => {
                stages.push(Stage::DeleteJob(name.clone()));
                None
            }
            Act::Wait(until) => until.map(|until| until.0 - now.0),
            // None of this world stands for an object of before.
            Act::Inspect { .. } | Act::Rest => None,
        };
        if self.setup.rogue && matches!(decision.act, Act::Rest) && jobs.is_empty() {
            stages.push(Stage::Remove { by_rogue: true });
        }
        let of = Of::Backup(name);
        self.wake(&of, wake);
        self.enter(Pass {
            hash: hash_of(&format!("{:?}{stages:?}", serde_json::to_string(&decision.status))),
            plan: Plan::Backup(Arc::new(decision)),
            of,
            schedule: view.schedule.clone(),
            view: view.clone(),
            stages,
            place: 0,
            backup: Some(backup.clone()),
        });
    }

    fn enter(&mut self, pass: Pass) {
        if !pass.stages.is_empty() {
            self.pass = Some(pass);
        }
    }

    fn wake(&mut self, of: &Of, after: Option<i64>) {
        match after {
            Some(after) => self.wakes.insert(of.clone(), self.now + after.max(1000)),
            None => self.wakes.remove(of),
        };
    }

    /// The next write of a pass.
    pub(super) fn carry(&mut self, mut pass: Pass, reply: Reply) {
        let stage = pass.stages[pass.place].clone();
        let of = pass.of.clone();
        self.tell(|| format!("{of:?}: {stage:?} {reply:?}"));
        let done = match reply {
            Reply::NotSent => Err(Stopped),
            Reply::Comes => self.write(&mut pass, &stage),
            Reply::Lost => self.write(&mut pass, &stage).and(Err(Stopped)),
        };
        if reply != Reply::NotSent {
            self.known_api = self.api;
        }
        pass.place += 1;
        match done {
            Ok(()) if pass.place < pass.stages.len() => self.pass = Some(pass),
            Ok(()) => {}
            Err(Stopped) => {
                self.tell(|| "the pass ends early".to_owned());
                self.dirty.insert(pass.of);
            }
        }
    }

    fn write(&mut self, pass: &mut Pass, stage: &Stage) -> Result<(), Stopped> {
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
                written.status = Some(decision.status.clone());
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
            Stage::DeleteJob(name) => self.delete_job(&pass.view, name),
            Stage::Prune(pruning) => self.prune(pass, decision, pruning),
            Stage::Finalizer(_) | Stage::Backup | Stage::Remove { .. } => Ok(()),
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
        let used = self.needed.iter().cloned().collect();
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
                require(self.has(&backup))?;
                if decision.status.attempts > 0 {
                    self.truth.recorded.insert(backup.uid().unwrap_or_default());
                }
                let written = EtcdBackup { status: Some(decision.status.clone()), ..(*backup).clone() };
                pass.backup = Some(self.put_backup(written));
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
                let name = backup_name(&backup.uid().unwrap_or_default(), decision.status.attempts);
                let Act::Backup { order, .. } = &decision.act else { return Ok(()) };
                require(self.create_job(&name, Work::Backup(order.clone()), Some(&backup)))
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
                let name = remove_name(&backup.uid().unwrap_or_default(), status.removals);
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
            Stage::Create | Stage::Sighting(_) | Stage::Test | Stage::Look | Stage::Prune(_) => Ok(()),
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
        let at = self.api_time();
        backup.metadata.deletion_timestamp.get_or_insert(at);
        self.put_backup(backup);
    }

    fn is_current(&self, schedule: &EtcdBackupSchedule) -> bool {
        self.schedule.object.metadata.resource_version == schedule.metadata.resource_version
    }

    /// Whether the API server has this very version.
    fn has(&self, backup: &EtcdBackup) -> bool {
        let now = self.backups.get(&backup.name_any());
        now.is_some_and(|now| now.object.metadata.resource_version == backup.metadata.resource_version)
    }

    fn used_by(&self, backup: &EtcdBackup) -> Option<User> {
        let has_result = backup.status.as_ref().is_some_and(|status| status.result.is_some());
        let is_needed = self.needed.as_ref() == Some(&backup.name_any());
        (is_needed && has_result).then(|| User::Restore("back".to_owned()))
    }

    fn running_pods(&self, backup: &EtcdBackup) -> usize {
        let uid = backup.uid().unwrap_or_default();
        let of_jobs = self.jobs.values().filter(|job| job.object.uid == uid && job.object.outcome.is_none());
        of_jobs.count() + self.pods.iter().filter(|pod| pod.uid == uid).count()
    }
}

/// The Jobs of an EtcdBackup, or of the schedule.
fn jobs_of<'a>(view: &'a View, uid: &str) -> Vec<(&'a Job, JobOutcome)> {
    let outcome = |job: &SimJob| job.outcome.clone().unwrap_or(JobOutcome::Running(None));
    let own = view.jobs.values().filter(|job| job.uid == uid);
    own.map(|job| (&job.job, outcome(job))).collect()
}

fn require(holds: bool) -> Result<(), Stopped> {
    if holds { Ok(()) } else { Err(Stopped) }
}
