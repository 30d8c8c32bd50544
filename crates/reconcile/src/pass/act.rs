//! From the plan to its last effect: the record is written first, then one group of effects after another. Effects of a
//! group run in parallel; the first that fails ends the pass when its group is done, unless all of the group are best-effort.

use std::sync::Arc;

use kube_core::DeserializeGuard;
use quorate_api::EtcdCluster;
use quorate_manifests::record::witness;
use quorate_manifests::request::{write_record, write_status};
use quorate_manifests::{AgentDelivery, Context, Invalid, Request, Write, request};
#[cfg(feature = "mutants")]
use quorate_model::Plan;
use quorate_model::snapshot::FRESH;
use quorate_model::{
    ClockDifference, ClusterRef, ClusterUid, Effect, EtcdCall, Instant, KubeEffect, Snapshot, Span,
};
use quorate_status::invalid_status;
use quorate_status::trouble::{self, with_trouble};

use super::certificates::Issue;
use super::write::{Owner, WriteEnd, WriteFailure, WriteRun};
use super::{Event, PassEnd, Planned, Stop, Upcoming, parsed, uid};
use crate::command::{Command, CommandId, Purpose, Reply, Task};
use crate::memory::Memory;
use crate::objects::{Object, ReadCluster};
use crate::reply::{CallError, EffectError, Retry, WriteError, lost_reply_counts_as_done};

/// How long an eviction may be refused before status reports it: drains take their turn.
const BLOCKED_FOR_LONG: Span = Span::seconds(60);

/// The record was not stored whole. The next pass reports it.
const NOT_STORED: Stop = Stop { retry: Retry::Degraded, failure: None };

/// R23: the plan was made by a clock that is not believed any more, or when none was believed. The next pass plans anew.
const BY_WRONG_CLOCK: Stop = Stop { retry: Retry::Now, failure: None };

/// The state of the second half of a pass.
#[derive(Clone, Debug)]
pub(super) struct Acting {
    /// The EtcdCluster as it was written last.
    cluster: Arc<ReadCluster>,
    basis: Basis,
    phase: Phase,
    /// The failure of a best-effort effect.
    set_aside: Option<Stop>,
    /// R23: nothing of the plan is begun any more.
    is_void: bool,
}

#[derive(Clone, Debug)]
enum Basis {
    Plan(Arc<Planned>),
    /// The spec is invalid, and nothing was committed.
    Refused(Box<Refused>),
}

#[derive(Clone, Debug)]
enum Phase {
    /// The status is to be written, or is being written.
    Record(Option<WriteRun>),
    Effects(Group),
    /// Why the pass ended is to be written to status, or is being written.
    Report(Stop, Option<WriteRun>),
    Ended(PassEnd),
}

#[derive(Clone, Debug)]
struct Refused {
    invalid: Invalid,
    now: Instant,
    at: ClusterRef,
    uid: ClusterUid,
}

/// Effects that run in parallel.
#[derive(Clone, Debug)]
struct Group {
    /// Their places in the plan: from `begin` up to, not including, `end`.
    begin: usize,
    end: usize,
    /// The place of the next one to begin.
    next: usize,
    running: Vec<Running>,
    /// The first of them that failed, by its place.
    failed: Option<(usize, Stop)>,
}

/// An effect that was begun and has not ended.
#[derive(Clone, Debug)]
struct Running {
    place: usize,
    what: What,
    /// Its commands are not sent after this moment.
    not_after: Option<Instant>,
}

#[derive(Clone, Debug)]
enum What {
    Write(WriteRun),
    Call,
    Certificate(Box<Issue>),
}

impl Acting {
    pub(super) fn new(planned: Arc<Planned>) -> Self {
        Self {
            cluster: planned.cluster.clone(),
            basis: Basis::Plan(planned),
            phase: Phase::Record(None),
            set_aside: None,
            is_void: false,
        }
    }

    /// Only reports that the spec is invalid.
    pub(super) fn refuse(at: ClusterRef, cluster: Arc<ReadCluster>, invalid: Invalid, now: Instant) -> Self {
        let uid = uid(&cluster);
        let basis = Basis::Refused(Box::new(Refused { invalid, now, at, uid }));
        Self { cluster, basis, phase: Phase::Record(None), set_aside: None, is_void: false }
    }

    pub(super) fn planned(&self) -> Option<&Arc<Planned>> {
        match &self.basis {
            Basis::Plan(planned) => Some(planned),
            Basis::Refused(_) => None,
        }
    }

    pub(super) fn end(&self) -> Option<&PassEnd> {
        match &self.phase {
            Phase::Ended(end) => Some(end),
            Phase::Record(_) | Phase::Effects(_) | Phase::Report(..) => None,
        }
    }

    pub(super) fn remaining(&self) -> &[Effect] {
        let next = match &self.phase {
            Phase::Record(_) => 0,
            Phase::Effects(group) => group.next,
            Phase::Report(..) | Phase::Ended(_) => return &[],
        };
        self.effects().get(next..).unwrap_or_default()
    }

    pub(super) fn stop(&self) -> Option<&Stop> {
        let failed = match &self.phase {
            Phase::Effects(group) => group.failed.as_ref().map(|(_, stop)| stop),
            Phase::Report(stop, _) => Some(stop),
            Phase::Record(_) | Phase::Ended(_) => None,
        };
        failed.or(self.set_aside.as_ref())
    }

    #[cfg(feature = "mutants")]
    pub(super) fn change_plan(&mut self, change: impl FnOnce(&Snapshot, &mut Plan)) {
        if let (Basis::Plan(planned), Phase::Record(None)) = (&mut self.basis, &self.phase) {
            let planned = Arc::make_mut(planned);
            change(&planned.snapshot, &mut planned.plan);
            planned.make_status();
        }
    }

    pub(super) fn upcoming(&self) -> Option<Upcoming> {
        let upcoming = |purpose, changes_something| Some(Upcoming { purpose, changes_something });
        let of_status = |purpose, run: &Option<WriteRun>| match run {
            None => upcoming(purpose, true),
            Some(run) => run.is_due().then_some(Upcoming { purpose, changes_something: false }),
        };
        match &self.phase {
            Phase::Record(run) => of_status(Purpose::Record, run),
            Phase::Report(_, run) => of_status(Purpose::Report, run),
            Phase::Effects(group) => {
                let due = group.running.iter().find_map(|running| {
                    let changes_something = running.upcoming()?;
                    Some(Upcoming { purpose: Purpose::Effect(running.place), changes_something })
                });
                due.or_else(|| {
                    (group.next < group.end)
                        .then_some(Upcoming { purpose: Purpose::Effect(group.next), changes_something: true })
                })
            }
            Phase::Ended(_) => None,
        }
    }

    /// R23: takes how far the operator's clock is from the API server's now.
    pub(super) fn see_clocks(&mut self, differs: Option<ClockDifference>) {
        let planned = self.planned();
        // For good: of a plan that was void for a moment something may have been left out that the rest needs.
        self.is_void |= planned.is_some_and(|planned| planned.snapshot.clock_differs != differs);
        self.end_if_void();
    }

    /// Nothing more of a plan is begun that is void. What was sent is waited for.
    fn end_if_void(&mut self) {
        if !self.is_void {
            return;
        }
        let stop = match &mut self.phase {
            Phase::Record(None) => BY_WRONG_CLOCK,
            Phase::Effects(group) => {
                group.running.retain(|running| running.upcoming() != Some(true));
                group.end = group.next;
                if !group.running.is_empty() {
                    return;
                }
                group.failed.take().map_or(BY_WRONG_CLOCK, |(_, stop)| stop)
            }
            Phase::Record(Some(_)) | Phase::Report(..) | Phase::Ended(_) => return,
        };
        self.phase = Phase::Ended(PassEnd::Stopped(stop));
    }

    pub(super) fn next(&mut self, memory: &mut Memory) -> Option<Command> {
        self.end_if_void();
        match &mut self.phase {
            Phase::Record(Some(run)) => Some(of_status(Purpose::Record, run.next()?)),
            Phase::Report(_, Some(run)) => Some(of_status(Purpose::Report, run.next()?)),
            Phase::Record(None) => {
                let Some(write) = self.record() else {
                    self.recorded(memory);
                    return self.next(memory);
                };
                self.phase = Phase::Record(Some(WriteRun::new(&write)));
                Some(of_status(Purpose::Record, Task::Write(write)))
            }
            Phase::Report(stop, None) => {
                let stop = stop.clone();
                let Some(write) = report(&self.basis, &self.cluster, &stop) else {
                    self.phase = Phase::Ended(PassEnd::Stopped(stop));
                    return None;
                };
                self.phase = Phase::Report(stop, Some(WriteRun::new(&write)));
                Some(of_status(Purpose::Report, Task::Write(write)))
            }
            Phase::Effects(_) => self.next_of_effects(),
            Phase::Ended(_) => None,
        }
    }

    /// Takes the reply to a command.
    pub(super) fn reply(
        &mut self,
        memory: &mut Memory,
        id: CommandId,
        reply: Reply,
        now: Instant,
    ) -> Option<Event> {
        match &mut self.phase {
            Phase::Record(None) | Phase::Report(_, None) | Phase::Ended(_) => None,
            Phase::Record(Some(run)) => {
                let ended = run.reply(memory, self.basis.owner(), reply, now)?;
                let written = self.status_written(ended);
                let recorded = written.clone().and_then(|()| self.is_stored());
                match &recorded {
                    Ok(()) => self.recorded(memory),
                    Err(_) if written.is_ok() => self.phase = Phase::Ended(PassEnd::Stopped(NOT_STORED)),
                    Err(error) => {
                        let error = error.clone();
                        self.phase = Phase::Ended(PassEnd::StatusNotWritten { error, failure: None });
                    }
                }
                Some(Event::Recorded(recorded))
            }
            Phase::Report(stop, Some(run)) => {
                let ended = run.reply(memory, self.basis.owner(), reply, now)?;
                let stop = stop.clone();
                self.phase = Phase::Ended(match self.status_written(ended) {
                    Ok(()) => PassEnd::Stopped(stop),
                    Err(error) => PassEnd::StatusNotWritten { error, failure: stop.failure },
                });
                None
            }
            Phase::Effects(_) => self.reply_to_effect(memory, id, reply, now),
        }
    }

    fn effects(&self) -> &[Effect] {
        self.planned().map_or(&[], |planned| planned.effects())
    }

    /// The write that comes before all effects, if one is needed.
    fn record(&self) -> Option<Write> {
        let cluster = parsed(&self.cluster)?;
        match &self.basis {
            Basis::Plan(planned) => write_record(cluster, &planned.status, planned.effects()),
            Basis::Refused(refused) => {
                write_status(cluster, &invalid_status(cluster, &refused.invalid, refused.now))
            }
        }
    }

    /// The record is in status: effects may begin.
    fn recorded(&mut self, memory: &mut Memory) {
        match &self.basis {
            Basis::Plan(_) => {
                self.begin_group(memory, 0);
            }
            Basis::Refused(refused) => {
                self.phase = Phase::Ended(PassEnd::SpecInvalid(refused.invalid.clone()));
            }
        }
    }

    /// R22: whether the API server has the record as it was written. Else the next pass would forget what this one begins.
    fn is_stored(&self) -> Result<(), WriteError> {
        // Where a test breaks R8, there may be no reply to compare with.
        if lost_reply_counts_as_done() {
            return Ok(());
        }
        let (Basis::Plan(planned), Some(stored)) = (&self.basis, parsed(&self.cluster)) else {
            return Ok(());
        };
        let stored = stored.status.clone().unwrap_or_default();
        let is_as_written = stored.record_hash == planned.status.record_hash && witness::is_whole(&stored);
        // A record that is in doubt is not written.
        if is_as_written || planned.snapshot.record_doubt.is_some() {
            return Ok(());
        }
        Err(WriteError::Unknown(
            "it stored another record than the one that was written: look at the CustomResourceDefinition of EtcdClusters".to_owned(),
        ))
    }

    fn status_written(&mut self, ended: WriteEnd) -> Result<(), WriteError> {
        match ended {
            WriteEnd::Done(Some(Object::Cluster(cluster))) => match &cluster.0 {
                Ok(_) => {
                    self.cluster = with_judged_spec(&self.basis, cluster);
                    Ok(())
                }
                Err(invalid) => Err(WriteError::Unknown(invalid.error.clone())),
            },
            WriteEnd::Done(None) if lost_reply_counts_as_done() => Ok(()),
            WriteEnd::Done(_) => Err(WriteError::Unknown("the reply is no EtcdCluster".to_owned())),
            WriteEnd::Failed(failure) => Err(failure.error),
        }
    }

    /// Begins the next group. After the last one the pass ends.
    fn begin_group(&mut self, memory: &mut Memory, begin: usize) {
        let effects = self.effects();
        let mut groups = effects.get(begin..).unwrap_or_default().chunk_by(Effect::runs_in_parallel_with);
        let end = groups.next().map(|group| begin + group.len());
        match (end, self.set_aside.take()) {
            (Some(end), set_aside) => {
                self.set_aside = set_aside;
                let group = Group { begin, end, next: begin, running: Vec::new(), failed: None };
                self.phase = Phase::Effects(group);
            }
            // A protocol may be in progress, so the next pass follows sooner than after a failure.
            (None, Some(Stop { retry, failure })) => {
                let retry = match retry {
                    Retry::Now | Retry::Throttled(_) => retry,
                    Retry::Soon | Retry::Refused | Retry::Degraded | Retry::Failed | Retry::Unanswered => {
                        Retry::Degraded
                    }
                };
                self.end_early(memory, Stop { retry, failure });
            }
            (None, None) => {
                (memory.failure, memory.blocked_since) = (None, None);
                self.phase = Phase::Ended(PassEnd::Done);
            }
        }
    }

    /// Ends the pass after a failure. Status reports the failure until a pass carries out its whole plan.
    fn end_early(&mut self, memory: &mut Memory, stop: Stop) {
        self.phase = match &stop.failure {
            Some(failure) => {
                memory.failure = Some(failure.clone());
                Phase::Report(stop, None)
            }
            None => Phase::Ended(PassEnd::Stopped(stop)),
        };
    }

    fn next_of_effects(&mut self) -> Option<Command> {
        let Phase::Effects(group) = &mut self.phase else { return None };
        for running in &mut group.running {
            if let Some(task) = running.next() {
                return Some(running.command(task));
            }
        }
        let place = group.next;
        if place == group.end {
            return None;
        }
        group.next += 1;
        let Basis::Plan(planned) = &self.basis else { return None };
        let (running, task) = begin(planned, &self.cluster, place)?;
        let command = running.command(task);
        group.running.push(running);
        Some(command)
    }

    fn reply_to_effect(
        &mut self,
        memory: &mut Memory,
        id: CommandId,
        reply: Reply,
        now: Instant,
    ) -> Option<Event> {
        let Phase::Effects(group) = &mut self.phase else { return None };
        let owner = self.basis.owner();
        let place = id.0;
        let nth = group.running.iter().position(|running| running.place == place)?;
        if let (Basis::Plan(planned), Reply::Called(called)) = (&self.basis, &reply)
            && let Some(call) = planned.effects().get(place).and_then(Effect::as_etcd)
        {
            memory.recent.called(&planned.snapshot, call, called, now);
            if matches!(call, EtcdCall::Auth { .. }) {
                // It may arrive late, so what was seen before says nothing any more.
                memory.auth = None;
            }
            if matches!(call, EtcdCall::DeleteUser { .. } | EtcdCall::DeleteRole { .. })
                && let Some((_, seen)) = &mut memory.auth
            {
                // What is left of them is looked at again, and what it says of all else holds.
                seen.at = Instant(0);
            }
            if matches!(called, Err(CallError::Refused(why, _)) if why.is_about_caller()) {
                // A person has enabled it since it was seen to be off.
                memory.auth = memory.auth.take().filter(|(_, seen)| seen.enabled);
            }
        }
        let ended = group.running[nth].reply(memory, owner, reply, now)?;
        group.running.remove(nth);
        if let Basis::Plan(planned) = &self.basis
            && let Some(effect) = planned.effects().get(place).and_then(Effect::as_kube)
        {
            let generation = parsed(&planned.cluster).and_then(|cluster| cluster.metadata.generation);
            memory.issuing.ended(effect, ended.as_ref().map(drop).map_err(Failed::write), generation, now);
        }
        let result = match ended {
            Ok(Some(Object::Cluster(cluster))) => {
                // Later effects of this plan must not be rejected because of earlier ones.
                if cluster.0.is_ok() {
                    self.cluster = with_judged_spec(&self.basis, cluster);
                }
                Ok(())
            }
            Ok(_) => Ok(()),
            Err(failed) => {
                let blocked = failed.is_blocked().then(|| *memory.blocked_since.get_or_insert(now));
                let blocked_for_long = blocked.is_some_and(|since| now - since >= BLOCKED_FOR_LONG);
                if let Basis::Plan(planned) = &self.basis
                    && group.failed.as_ref().is_none_or(|(first, _)| place < *first)
                {
                    let effect = &planned.effects()[place];
                    let stop = failed.stop(effect, &planned.snapshot, blocked_for_long, now);
                    group.failed = Some((place, stop));
                }
                Err(failed.error())
            }
        };
        self.end_group(memory);
        Some(Event::Effect(place, result))
    }

    /// If every effect of the group has ended, begins the next group or ends the pass.
    fn end_group(&mut self, memory: &mut Memory) {
        let Phase::Effects(group) = &mut self.phase else { return };
        if !group.running.is_empty() || group.next < group.end {
            return;
        }
        let (begin, end) = (group.begin, group.end);
        let is_best_effort = self.basis.effects()[begin..end].iter().all(Effect::is_best_effort);
        match group.failed.take() {
            Some((_, stop)) if !is_best_effort => self.end_early(memory, stop),
            Some((_, stop)) => {
                self.set_aside.get_or_insert(stop);
                self.begin_group(memory, end);
            }
            None => self.begin_group(memory, end),
        }
    }
}

impl Basis {
    fn effects(&self) -> &[Effect] {
        match self {
            Self::Plan(planned) => planned.effects(),
            Self::Refused(_) => &[],
        }
    }

    fn owner(&self) -> Owner<'_> {
        match self {
            Self::Plan(planned) => Owner { at: &planned.snapshot.cluster, uid: &planned.snapshot.uid },
            Self::Refused(refused) => Owner { at: &refused.at, uid: &refused.uid },
        }
    }
}

/// An effect that was not carried out.
enum Failed {
    Write(WriteFailure),
    Call(CallError),
}

impl Failed {
    /// Why a write was not carried out.
    fn write(&self) -> Option<&WriteError> {
        match self {
            Self::Write(failure) => Some(&failure.error),
            Self::Call(_) => None,
        }
    }

    fn is_blocked(&self) -> bool {
        matches!(self, Self::Write(WriteFailure { error: WriteError::Blocked(_), .. }))
    }

    fn stop(&self, effect: &Effect, observed: &Snapshot, blocked_for_long: bool, now: Instant) -> Stop {
        match self {
            Self::Call(error) => {
                let failure = match error.retry() {
                    Retry::Failed | Retry::Unanswered => {
                        Some(trouble::membership_change_refused(&effect.to_string(), &error.to_string()))
                    }
                    // A temporary refusal is reported by what the plan waits for.
                    Retry::Now | Retry::Soon | Retry::Refused | Retry::Degraded | Retry::Throttled(_) => None,
                };
                Stop { retry: error.retry(), failure }
            }
            Self::Write(WriteFailure { error, what, is_news, conflict }) => {
                let retry = match (is_news, conflict) {
                    // The planner observes news at once. A known conflict needs no early pass.
                    (true, _) => Retry::Now,
                    (false, true) => Retry::Degraded,
                    (false, false) => error.retry(),
                };
                let failure = match error {
                    // A name that is taken is reported by the planner, which observes it in the next pass.
                    WriteError::NotLeading
                    | WriteError::Outdated
                    | WriteError::Exists
                    | WriteError::Changed(_)
                    | WriteError::Missing(_)
                    // It is no fault of the cluster, and the more is written about it the longer it lasts.
                    | WriteError::Throttled(..) => None,
                    WriteError::Blocked(why) => {
                        blocked_for_long.then(|| trouble::eviction_blocked(what, why))
                    }
                    WriteError::Invalid(_) | WriteError::Forbidden(_) if *is_news => None,
                    WriteError::Invalid(why) | WriteError::Forbidden(why) => Some(match effect.as_kube() {
                        Some(KubeEffect::ExpandVolume { member, .. }) => {
                            trouble::expansion_refused(what, why, member)
                        }
                        Some(_) | None => trouble::write_refused(what, why, observed, now),
                    }),
                    WriteError::Unknown(why) => Some(trouble::api_unavailable(what, why)),
                };
                Stop { retry, failure }
            }
        }
    }

    fn error(self) -> EffectError {
        match self {
            Self::Write(failure) => failure.error.into(),
            Self::Call(error) => error.into(),
        }
    }
}

impl Running {
    /// A command is named by the place of its effect: one effect has at most one command at a time.
    fn command(&self, task: Task) -> Command {
        let (id, purpose) = (CommandId(self.place), Purpose::Effect(self.place));
        Command { id, purpose, task, not_after: self.not_after }
    }

    /// The next command that can be issued before further replies arrive.
    fn next(&mut self) -> Option<Task> {
        match &mut self.what {
            What::Write(run) => run.next(),
            What::Call => None,
            What::Certificate(issue) => issue.next(),
        }
    }

    /// Whether the next command may change anything; `None` if none can be issued now.
    fn upcoming(&self) -> Option<bool> {
        match &self.what {
            What::Write(run) => run.is_due().then_some(false),
            What::Call => None,
            What::Certificate(issue) => issue.upcoming(),
        }
    }

    /// Takes a reply; the outcome once the effect has ended.
    fn reply(
        &mut self,
        memory: &mut Memory,
        owner: Owner<'_>,
        reply: Reply,
        now: Instant,
    ) -> Option<Result<Option<Object>, Failed>> {
        let failed = |failure: WriteFailure| Some(Err(Failed::Write(failure)));
        match &mut self.what {
            What::Write(run) => match run.reply(memory, owner, reply, now)? {
                WriteEnd::Done(object) => Some(Ok(object)),
                WriteEnd::Failed(failure) => failed(failure),
            },
            What::Certificate(issue) => match issue.reply(memory, owner, reply, now)? {
                Ok(()) => Some(Ok(None)),
                Err(failure) => failed(failure),
            },
            What::Call => {
                let called = if let Reply::Called(called) = reply {
                    called
                } else {
                    Err(CallError::Unknown("the reply is not one to this request".to_owned()))
                };
                match called {
                    Ok(()) => Some(Ok(None)),
                    Err(CallError::Unknown(_)) if lost_reply_counts_as_done() => Some(Ok(None)),
                    Err(error) => Some(Err(Failed::Call(error))),
                }
            }
        }
    }
}

/// R26: the EtcdCluster as the API server stored it last, with the spec that the plan was made on. A newer one was not judged yet, or was refused.
fn with_judged_spec(basis: &Basis, stored: Arc<ReadCluster>) -> Arc<ReadCluster> {
    let Basis::Plan(planned) = basis else { return stored };
    match (parsed(&planned.cluster), parsed(&stored)) {
        (Some(judged), Some(newer)) if judged.spec != newer.spec => {
            let judged = EtcdCluster { spec: judged.spec.clone(), ..newer.clone() };
            Arc::new(DeserializeGuard(Ok(judged)))
        }
        _ => stored,
    }
}

/// Begins an effect, and returns its first command.
fn begin(planned: &Planned, cluster: &ReadCluster, place: usize) -> Option<(Running, Task)> {
    let cluster = parsed(cluster)?;
    let effect = planned.effects().get(place)?;
    let not_after = effect.is_destructive().then(|| planned.observed_at() + FRESH);
    let (what, task) = match effect {
        Effect::Etcd { at, call, .. } => (What::Call, Task::Call { at: at.clone(), call: call.clone() }),
        Effect::Kube { write, .. } => {
            let objects = planned.view.objects(cluster, planned.conflicts.clone());
            let context = Context {
                cluster,
                seen: &objects,
                snapshot: &planned.snapshot,
                record: &planned.plan.record,
                defaults: &planned.defaults,
                now: planned.at,
            };
            match request(write, &context) {
                Request::Write(write) => {
                    let run = WriteRun::new(&write);
                    let may_fall_back = planned.defaults.agent_delivery == AgentDelivery::ImageVolumeFirst;
                    let tries = may_fall_back && write.has_image_volume();
                    let run = if tries { run.tries_image_volume() } else { run };
                    (What::Write(run), Task::Write(write))
                }
                Request::Certificate(order) => {
                    let (issue, task) = Issue::begin(order);
                    (What::Certificate(Box::new(issue)), task)
                }
            }
        }
    };
    Some((Running { place, what, not_after }, task))
}

fn of_status(purpose: Purpose, task: Task) -> Command {
    Command { id: CommandId(0), purpose, task, not_after: None }
}

/// The write that reports in status why the pass ended, if one is needed.
fn report(basis: &Basis, cluster: &ReadCluster, stop: &Stop) -> Option<Write> {
    let Basis::Plan(planned) = basis else { return None };
    let status = with_trouble(planned.status.clone(), stop.failure.as_ref());
    write_status(parsed(cluster)?, &status)
}
