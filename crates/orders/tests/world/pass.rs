//! What the controllers see and ask: `crates/operator/src/controllers/{schedule,backup}/pass.rs`. What comes of it is in `acts`.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use k8s_openapi::api::batch::v1::Job;
use kube_core::ResourceExt;
use quorate_api::{EtcdBackup, EtcdBackupSchedule, keys};
use quorate_manifests::restore;
use quorate_orders::JobOutcome;
use quorate_orders::backup::{self, Act, is_in_queue};
use quorate_orders::gate::{Judge, Scene};
use quorate_orders::schedule::{self, NextAct, Pruning, is_of};

use super::finds::Blind;
use super::jobs::SimJob;
use super::{Kind, Of, View, World, hash_of};

/// A pass that is under way.
#[derive(Clone, Debug)]
pub struct Pass {
    pub of: Of,
    pub(super) view: Arc<View>,
    pub(super) plan: Plan,
    pub(super) stages: Vec<Stage>,
    pub(super) place: usize,
    /// The object as this pass has written it last.
    pub(super) schedule: Arc<EtcdBackupSchedule>,
    pub(super) backup: Option<Arc<EtcdBackup>>,
    hash: u64,
}

#[derive(Clone, Debug)]
pub(super) enum Plan {
    Schedule(Arc<schedule::Decision>),
    Backup(Arc<backup::Decision>),
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Stage {
    Create,
    /// An EtcdBackup for what a list has.
    Record(usize),
    Sighting(usize),
    Status,
    Test,
    Look,
    List,
    DeleteJob(String),
    Prune(Pruning),
    Finalizer(bool),
    Backup,
    Inspect,
    Remove {
        by_rogue: bool,
    },
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
pub(super) struct Stopped;

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
        let is_listing = schedule::is_listing(&schedule) && !self.is_blind(Blind::Others);
        let others = is_listing.then(|| view.backups.values().map(|backup| &**backup));
        let others: Vec<&EtcdBackup> = others.into_iter().flatten().collect();
        let jobs: Vec<(&Job, JobOutcome)> = jobs_of(&view, "");
        let now = self.operator_now();
        let clock = self.difference();
        let mut decision = schedule::decide(schedule::Seen {
            schedule: &schedule,
            backups: &backups,
            others: &others,
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
        stages.extend((0..decision.records.len()).map(Stage::Record));
        stages.extend((0..decision.sightings.len()).map(Stage::Sighting));
        if schedule.status.as_ref() != Some(&decision.status) {
            stages.push(Stage::Status);
        }
        if self.is_blind(Blind::PageFirst) {
            stages.sort_by_key(|stage| matches!(stage, Stage::Record(_)));
        }
        match &decision.then {
            NextAct::Prune(pruned) => stages.extend(pruned.iter().cloned().map(Stage::Prune)),
            NextAct::Test { .. } => stages.push(Stage::Test),
            NextAct::Look { .. } => stages.push(Stage::Look),
            NextAct::DeleteJob(name) => stages.push(Stage::DeleteJob(name.clone())),
            NextAct::List { .. } => stages.push(Stage::List),
            NextAct::Wait(_) | NextAct::Edit => {}
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
        } else if backup.spec.existing.is_some() {
            (backup::inspects_before(&backup, others(), now).map(ResourceExt::name_any), 0, false)
        } else if is_in_queue(&backup) {
            (backup::blocker(&backup, others(), now).map(ResourceExt::name_any), 0, false)
        } else {
            (None, 0, false)
        };
        let jobs: Vec<(&Job, JobOutcome)> = jobs_of(view, &backup.uid().unwrap_or_default());
        let used_by = self.used_by(&backup).filter(|_| is_going);
        let cluster = match backup.spec.source.cluster.as_deref() {
            Some("demo") => self.cluster.object.clone(),
            Some(_) | None => self.neighbor.clone(),
        };
        let restore = self.restore.as_ref().map(|kept| &*kept.object);
        let is_given_up = backup.is_for_restore() && !restore::is_awaited(&backup, None, restore);
        let decision = backup::decide(backup::Seen {
            cluster: Some(&cluster),
            is_given_up,
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
            Act::Inspect { .. } => {
                stages.push(Stage::Inspect);
                None
            }
            Act::Wait(until) => until.map(|until| until.0 - now.0),
            Act::Rest => None,
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
}

/// The Jobs of an EtcdBackup, or of the schedule.
fn jobs_of<'a>(view: &'a View, uid: &str) -> Vec<(&'a Job, JobOutcome)> {
    let outcome = |job: &SimJob| job.outcome.clone().unwrap_or(JobOutcome::Running(None));
    let own = view.jobs.values().filter(|job| job.uid == uid);
    own.map(|job| (&job.job, outcome(job))).collect()
}
