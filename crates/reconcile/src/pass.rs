//! One pass: observe -> validate -> plan -> write the record to status -> carry the effects out, in order. The first effect
//! that fails ends the pass, except best-effort ones. Status reports why a pass ended early.
//!
//! - this file: [`Pass`], and how it ends
//! - `observe`: from the caches to a plan; `names`: what is read before the first act; `progress`: the proof of progress; `claims`: the claims of Pods that it ends; `act`: from the plan to its last effect
//! - `write`: one write and what its reply asks for; `certificates`: a certificate and the write of its Secret

mod act;
mod certificates;
mod claims;
mod names;
mod observe;
mod progress;
mod quota;
mod rehearsal;
mod unlabelled;
mod write;

use std::sync::Arc;

use kube_core::Resource as _;
use quorate_api::status::EtcdClusterStatus;
use quorate_api::{EtcdCluster, Explanation};
use quorate_manifests::{Defaults, Invalid, NameConflict};
use quorate_model::mutants::{Rule, is_broken};
use quorate_model::snapshot::FRESH;
use quorate_model::{ClockDifference, ClusterRef, ClusterUid, Effect, Instant, Plan, Snapshot};
use quorate_status::trouble::with_trouble;
use quorate_status::{BackupHealth, DataStoreHealth, Situation, status};

use crate::command::{Command, CommandId, Purpose, Reply};
use crate::memory::Memory;
use crate::objects::{ClusterView, ReadCluster};
use crate::reply::{EffectError, Retry, WriteError};
use act::Acting;
use observe::Observing;

/// One pass over one cluster, as far as it has come.
#[derive(Clone, Debug)]
pub struct Pass(Stage);

#[derive(Clone, Debug)]
enum Stage {
    Observe(Box<Observing>),
    Act(Acting),
    Ended(PassEnd, Option<Arc<Planned>>),
}

/// A plan, and what it was made on.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The EtcdCluster as it was observed.
    pub cluster: Arc<ReadCluster>,
    /// The objects as they were observed.
    pub view: ClusterView,
    /// The snapshot as it was observed.
    pub snapshot: Snapshot,
    /// The plan.
    pub plan: Plan,
    /// The status that goes with it, with what the last pass could not do.
    pub status: EtcdClusterStatus,
    /// What of the spec is invalid.
    pub refused: Option<Invalid>,
    /// When it was made.
    pub at: Instant,
    /// What is known about backups of the cluster, if a schedule names it.
    pub backups: Option<BackupHealth>,
    /// What is known about its DataStore of Kamaji, if one is asked for or left.
    pub data_store: Option<DataStoreHealth>,
    conflicts: Vec<NameConflict>,
    last_failure: Option<Explanation>,
    defaults: Arc<Defaults>,
    compares: bool,
}

/// How a pass ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PassEnd {
    /// The EtcdCluster does not exist.
    Gone,
    /// The EtcdCluster does not parse. Nothing is done.
    Unreadable(String),
    /// The spec is invalid, and no earlier target was committed. Status reports it.
    SpecInvalid(Invalid),
    /// Status could not be written. Nothing else was done after that.
    StatusNotWritten {
        /// Why.
        error: WriteError,
        /// What else could not be done, if that was to be reported.
        failure: Option<Explanation>,
    },
    /// An effect was not carried out.
    Stopped(Stop),
    /// Every effect of the plan was carried out.
    Done,
}

/// What ended a pass early.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Stop {
    /// When the next pass follows.
    pub retry: Retry,
    /// What status and events report, if anything.
    pub failure: Option<Explanation>,
}

/// What happened with a reply, for reports and crash points.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The plan is made.
    Planned,
    /// The record was written to status, or was not.
    Recorded(Result<(), WriteError>),
    /// The effect with this index in the plan was carried out, or was not.
    Effect(usize, Result<(), EffectError>),
}

/// What the next command is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upcoming {
    /// What it serves.
    pub purpose: Purpose,
    /// Whether it may change anything outside the operator.
    pub changes_something: bool,
}

impl Pass {
    /// A pass that has not observed anything yet.
    pub fn new(at: ClusterRef, defaults: Arc<Defaults>, memory: &Memory, now: Instant) -> Self {
        Self(Stage::Observe(Box::new(Observing::new(at, defaults, memory, now))))
    }

    /// R23: how far the operator's clock is from the API server's now, if it is too far. It is to be told before the first command, and
    /// before each reply, which comes with a time. A plan that was made when the clocks agreed is not carried out any further once they
    /// differ, nor the other way round: the next pass plans anew.
    pub fn see_clocks(&mut self, memory: &mut Memory, differs: Option<ClockDifference>) {
        let has_begun = !matches!(&self.0, Stage::Observe(observing) if observing.observed().is_none());
        if has_begun && is_broken(Rule::R23) {
            return;
        }
        memory.clock_differs = differs;
        match &mut self.0 {
            Stage::Observe(observing) => observing.see_clocks(differs),
            Stage::Act(acting) => acting.see_clocks(differs),
            Stage::Ended(..) => {}
        }
        self.end_if_done();
    }

    /// The next command, if one can be issued before further replies arrive.
    pub fn next(&mut self, memory: &mut Memory) -> Option<Command> {
        let command = match &mut self.0 {
            Stage::Observe(observing) => observing.next(),
            Stage::Act(acting) => acting.next(memory),
            Stage::Ended(..) => None,
        };
        self.end_if_done();
        command
    }

    /// Describes the command that [`Pass::next`] returns next, without issuing it.
    pub fn upcoming(&self) -> Option<Upcoming> {
        match &self.0 {
            Stage::Observe(observing) => observing.upcoming(),
            Stage::Act(acting) => acting.upcoming(),
            Stage::Ended(..) => None,
        }
    }

    /// Takes the reply to a command.
    pub fn reply(&mut self, memory: &mut Memory, id: CommandId, reply: Reply, now: Instant) -> Option<Event> {
        let event = match &mut self.0 {
            Stage::Observe(observing) => {
                observing.reply(memory, id, reply, now);
                let next = observing.advance(memory, now)?;
                let planned = matches!(&next, Stage::Act(acting) if acting.planned().is_some());
                self.0 = next;
                planned.then_some(Event::Planned)
            }
            Stage::Act(acting) => acting.reply(memory, id, reply, now),
            Stage::Ended(..) => None,
        };
        self.end_if_done();
        event
    }

    /// How it ended, once it has.
    pub fn end(&self) -> Option<&PassEnd> {
        match &self.0 {
            Stage::Ended(end, _) => Some(end),
            Stage::Observe(_) | Stage::Act(_) => None,
        }
    }

    /// The snapshot and the view, as soon as they are made; without etcd's part until all members were asked.
    pub fn observed(&self) -> Option<(&Snapshot, &ClusterView)> {
        match &self.0 {
            Stage::Observe(observing) => observing.observed(),
            Stage::Act(_) | Stage::Ended(..) => {
                self.planned().map(|planned| (&planned.snapshot, &planned.view))
            }
        }
    }

    /// The plan and what it was made on, as soon as it is made.
    pub fn planned(&self) -> Option<&Arc<Planned>> {
        match &self.0 {
            Stage::Observe(_) => None,
            Stage::Act(acting) => acting.planned(),
            Stage::Ended(_, planned) => planned.as_ref(),
        }
    }

    /// The effects that were not begun.
    pub fn remaining(&self) -> &[Effect] {
        match &self.0 {
            Stage::Act(acting) => acting.remaining(),
            Stage::Observe(_) | Stage::Ended(..) => &[],
        }
    }

    /// What failed so far, while the rest of its group or the rest of the plan goes on.
    pub fn stop(&self) -> Option<&Stop> {
        match &self.0 {
            Stage::Act(acting) => acting.stop(),
            Stage::Observe(_) | Stage::Ended(..) => None,
        }
    }

    /// The pass makes a proof of progress, whatever the planner says.
    #[cfg(feature = "mutants")]
    pub fn always_prove(&mut self) {
        if let Stage::Observe(observing) = &mut self.0 {
            observing.always_prove();
        }
    }

    /// Changes the plan before its record is written, as a planner with a defect would.
    #[cfg(feature = "mutants")]
    pub fn change_plan(&mut self, change: impl FnOnce(&Snapshot, &mut Plan)) {
        if let Stage::Act(acting) = &mut self.0 {
            acting.change_plan(change);
        }
    }

    fn end_if_done(&mut self) {
        if let Stage::Act(acting) = &self.0
            && let Some(end) = acting.end()
        {
            self.0 = Stage::Ended(end.clone(), acting.planned().cloned());
        }
    }
}

impl Planned {
    /// The effects.
    pub fn effects(&self) -> &[Effect] {
        &self.plan.effects
    }

    /// Whether nothing is to be done, nothing is waited on, and nothing asks for attention. Then the next look may take its time.
    pub fn is_idle(&self) -> bool {
        let has_voters = self.plan.record.voters().next().is_some() && !self.plan.record.hibernating;
        if has_voters {
            return self.plan.is_settled() && self.snapshot.is_well(self.at);
        }
        // Stopped: the protocol that stopped it ends every pass.
        self.plan.does_nothing() && self.plan.waiting.is_empty()
    }

    /// Whether an alarm NOSPACE may come soon. Then the next look takes less time.
    pub fn is_nearly_full(&self) -> bool {
        self.snapshot.is_nearly_full(self.at)
    }

    /// Whether it will soon be certain that the quorum is lost, or that it is not.
    pub fn is_in_doubt(&self) -> bool {
        self.snapshot.is_in_doubt(self.at)
    }

    /// Whether a comparison of the members' data has begun and not ended. Then the next member is asked in the next pass.
    pub fn compares(&self) -> bool {
        self.compares
    }

    /// Whether what cert-manager was asked for is not as it should be, which no watch shows. Then the next look takes less time.
    pub fn waits_for_issuer(&self) -> bool {
        self.snapshot.issuance.is_pending
    }

    /// When the oldest part of what was observed of etcd was observed; without etcd, when the plan was made.
    fn observed_at(&self) -> Instant {
        let etcd = &self.snapshot.etcd;
        let answers = etcd.answers.values().map(|answer| answer.at);
        let fresh = answers.chain(etcd.list.as_ref().map(|list| list.at)).filter(|at| self.at - *at <= FRESH);
        fresh.min().unwrap_or(self.at)
    }

    fn situation<'a>(&'a self, cluster: &'a EtcdCluster) -> Situation<'a> {
        let Self { snapshot, plan, refused, at, .. } = self;
        Situation {
            cluster,
            snapshot,
            refused: refused.as_ref(),
            plan,
            backups: self.backups.as_ref(),
            data_store: self.data_store.as_ref(),
            now: *at,
        }
    }

    fn make_status(&mut self) {
        if let Some(cluster) = parsed(&self.cluster) {
            self.status = with_trouble(status(&self.situation(cluster)), self.last_failure.as_ref());
        }
    }
}

/// The EtcdCluster, unless it does not parse.
fn parsed(cluster: &ReadCluster) -> Option<&EtcdCluster> {
    cluster.0.as_ref().ok()
}

fn uid(cluster: &ReadCluster) -> ClusterUid {
    ClusterUid::new(cluster.meta().uid.clone().unwrap_or_default())
}
