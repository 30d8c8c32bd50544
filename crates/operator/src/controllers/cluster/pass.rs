//! Drives one pass of `quorate_reconcile` with real calls, and reports the results: crash points, metrics, logs, events.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::{BoxFuture, ready};
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use quorate_api::Explanation;
use quorate_etcd::MemberClient;
use quorate_model::{ClusterRef, Effect, MemberName, Plan, Step, Waiting};
use quorate_reconcile::{
    Command, CommandId, EffectError, Event, Memory, Pass, PassEnd, Planned, Purpose, Reply, Retry, Task,
    Versions, WriteError,
};
use quorate_status::{EventText, Weight, events, trouble, weight};
use tokio::time::Instant;

use super::Shared;
use crate::controllers::cluster::observe::{
    ConnectError, MemberClients, client_tls, connect, entry, free_space, keys_hash, member_list, prove,
    shown, status,
};
use crate::controllers::cluster::publish::{self, Publication};
use crate::controllers::cluster::report;
use crate::controllers::cluster::waves::Wanted;
use crate::controllers::cluster::{auth, backup, execute, node_says, site};
use crate::controllers::tls;
use crate::runtime::controller::{Pass as Passed, Runtime, Worker as Passes};
use crate::runtime::crash::CrashSide;
use crate::runtime::events::Reported;
use crate::runtime::pace::Outcome;

/// What the operator keeps about one cluster between passes. All of it can be lost: it only saves time and repetition.
pub(crate) struct Worker {
    shared: Shared,
    cluster: ClusterRef,
    memory: Memory,
    clients: MemberClients,
    reported: Reported,
    /// The versions that the last pass observed or wrote.
    known: Versions,
    /// The effects of the last pass.
    done: Vec<Effect>,
    publication: Publication,
    wanted: Wanted,
}

impl Passes for Worker {
    fn has_changes(&mut self) -> bool {
        self.observed_versions() != self.known || self.publication.has_news(&self.shared, &self.cluster)
    }

    async fn pass(&mut self) -> Passed {
        let shared = self.shared.clone();
        let clock = &shared.runtime.clock;
        let now = shared.runtime.api_clock.present().earliest;
        let turn = shared.waves.turn(
            &shared.indexes.clusters,
            &shared.defaults,
            (&self.cluster, &mut self.wanted),
            now,
        );
        self.memory.set_defaults_turn(turn);
        self.memory.set_backup_health(backup::health(&shared, &self.cluster, clock.now()));
        self.memory.set_running_backups(backup::running(&shared, &self.cluster, clock.now()));
        self.memory.set_users_to_come(auth::users_to_come(&shared, &self.cluster));
        publish::begin(&shared, &self.cluster, &mut self.memory);
        let mut pass = Pass::new(self.cluster.clone(), shared.defaults.clone(), &self.memory, clock.now());
        pass.see_clocks(&mut self.memory, shared.runtime.api_clock.difference());
        let mut under_way = FuturesUnordered::new();
        let mut begun = BTreeSet::new();
        loop {
            // A signal ends the pass as soon as no request is under way. The next operator goes on, as after a crash.
            if under_way.is_empty() && is_acting(&pass) && shared.runtime.stop.is_cancelled() {
                return Passed::Ended(Outcome::Waiting);
            }
            while let Some(command) = pass.next(&mut self.memory) {
                let Command { id, purpose, .. } = command;
                let steps = if begun.insert(purpose) { steps(purpose, &pass) } else { Vec::new() };
                let call = self.carry_out(&shared, &pass, command);
                under_way.push(after_crash_points(&shared, steps, id, call));
            }
            let Some((id, reply, took)) = under_way.next().await else { break };
            pass.see_clocks(&mut self.memory, shared.runtime.api_clock.difference());
            let event = pass.reply(&mut self.memory, id, reply, clock.now());
            if let (Some(event), Some(planned)) = (event, pass.planned()) {
                self.note(&event, planned, took).await;
            }
        }
        // Before the report: it reads the caches again, which forgets what the watches have confirmed meanwhile. An own
        // write that is not known here would pass for news and end the back-off.
        self.memory.add_to(&mut self.known);
        let ended = self.ended(&pass);
        let waits_for_issuer = pass.planned().is_some_and(|planned| planned.waits_for_issuer());
        let issued = waits_for_issuer.then_some(Outcome::Degraded);
        let published = self.publication.keep(&shared, &pass, &mut self.memory).await;
        let Passed::Ended(ended) = ended else { return ended };
        let ended = [issued, published].into_iter().flatten().fold(ended, Outcome::min);
        // The next pass is due in seconds.
        if ended >= Outcome::Degraded {
            self.clients.rest();
        }
        Passed::Ended(ended)
    }
}

impl Worker {
    pub(super) fn new(shared: Shared, cluster: ClusterRef) -> Self {
        Self {
            clients: MemberClients::over(shared.transport.clone(), shared.kept.clone()),
            shared,
            cluster,
            memory: Memory::default(),
            reported: Reported::default(),
            known: Versions::new(),
            done: Vec::new(),
            publication: Publication::default(),
            wanted: Wanted::default(),
        }
    }

    /// Starts the call that a command asks for.
    fn carry_out<'a>(&mut self, shared: &'a Shared, pass: &Pass, command: Command) -> BoxFuture<'a, Reply> {
        let Command { task, not_after, .. } = command;
        match task {
            Task::Caches => {
                self.known = self.observed_versions();
                let caches = shared.indexes.caches(&self.cluster);
                ready(Reply::Caches(Box::new(caches))).boxed()
            }
            Task::Read { kind, name } => {
                let namespace = self.cluster.namespace.clone();
                async move { Reply::Object(execute::read(shared, kind, &namespace, &name).await) }.boxed()
            }
            Task::Status { member } => {
                let client = self.connect(pass, &member);
                async move { Reply::Status(status(shared, client).await) }.boxed()
            }
            Task::FreeSpace { member } => {
                let pod = pass.observed().and_then(|(observed, _)| observed.pods.get(&member));
                let ip = pod.and_then(|pod| pod.ip.clone());
                async move { Reply::FreeSpace(free_space(&shared.transport, ip).await) }.boxed()
            }
            Task::Handshake { member, ca } => {
                let observed = pass.observed().map(|(observed, _)| observed);
                let at = observed.map(|observed| observed.cluster.dns_name(&member));
                let pod = observed.and_then(|observed| observed.pods.get(&member));
                let ip = pod.and_then(|pod| pod.ip.clone());
                let name = at.unwrap_or_default();
                async move { Reply::Handshake(shown(&shared.transport, ip, ca, &name).await) }.boxed()
            }
            Task::MemberList { at } => {
                let client = self.connect(pass, &at);
                async move { Reply::List(member_list(shared, at, client).await) }.boxed()
            }
            Task::Auth { at, is_ours } => {
                let client = self.connect(pass, &at);
                let namespace = self.cluster.namespace.clone();
                async move { Reply::Auth(auth::look(shared, client, &namespace, is_ours).await) }.boxed()
            }
            Task::Hash { member, revision } => {
                let client = self.connect(pass, &member);
                async move { Reply::Hash(keys_hash(shared, client, revision).await) }.boxed()
            }
            Task::ProveProgress { at, members } => {
                let members: Vec<_> =
                    members.into_iter().map(|member| (member.clone(), self.connect(pass, &member))).collect();
                async move { Reply::Proved(prove(shared, &at, members).await) }.boxed()
            }
            Task::Entry { at } => {
                let client = self.connect(pass, &at);
                async move { Reply::Entry(entry(shared, &at, client).await) }.boxed()
            }
            Task::Site { question, .. } => {
                async move { Reply::Site(site::read(shared, &question).await) }.boxed()
            }
            Task::NodeSays { pod: uid, .. } => {
                let namespace = self.cluster.namespace.clone();
                async move { Reply::NodeSays(node_says::read(shared, &namespace, &uid).await) }.boxed()
            }
            Task::DryRun(write) => {
                async move { Reply::DryRun(execute::dry_run(shared, &write).await) }.boxed()
            }
            Task::CertificateRequests => {
                let namespace = self.cluster.namespace.clone();
                async move {
                    Reply::CertificateRequests(execute::certificate_requests(shared, &namespace).await)
                }
                .boxed()
            }
            Task::Write(write) => {
                async move { Reply::Written(execute::write(shared, &write, not_after).await) }.boxed()
            }
            Task::Call { at, call } => {
                let client = self.clients.open(&at);
                async move { Reply::Called(execute::call(shared, at, client, call, not_after).await) }.boxed()
            }
            Task::Generate(order) => {
                let made = tls::generate(&order);
                ready(Reply::Keys(made.map_err(|error| crate::runtime::watch::chain(&error)))).boxed()
            }
        }
    }

    /// Reports the result of a reply, and stops at crash points.
    async fn note(&mut self, event: &Event, planned: &Planned, took: Duration) {
        let Shared { runtime: Runtime { hook, clock, .. }, metrics, .. } = &self.shared;
        match event {
            Event::Planned => report::show(&self.shared, planned),
            Event::Recorded(recorded) => {
                for step in &planned.plan.recorded_steps {
                    let outcome = recorded.as_ref().map_or_else(WriteError::as_label, |()| "ok");
                    metrics.effect(&step.to_string(), outcome);
                    if recorded.is_ok() {
                        tracing::info!(%step, "recorded");
                        metrics.acted(&self.cluster, clock.now());
                        hook.reached(CrashSide::After, *step).await;
                    }
                }
                if let (Ok(()), Ok(cluster)) = (recorded, &planned.cluster.0) {
                    let before = cluster.status.clone().unwrap_or_default();
                    let texts = events(&before, &planned.status);
                    report::tell(&self.shared, &mut self.reported, cluster, texts, planned.at);
                }
            }
            Event::Effect(place, result) => {
                let effect = &planned.effects()[*place];
                let step = effect.step();
                metrics.effect_took(&step.to_string(), took);
                metrics
                    .effect(&step.to_string(), result.as_ref().map_or_else(EffectError::as_label, |()| "ok"));
                match result {
                    Ok(()) => {
                        tracing::info!(%step, %effect, "done");
                        metrics.acted(&self.cluster, clock.now());
                        hook.reached(CrashSide::After, step).await;
                    }
                    // The end of the pass logs it, if it is to be reported.
                    Err(error) => tracing::debug!(%step, %effect, %error, "not done"),
                }
            }
        }
    }

    fn ended(&mut self, pass: &Pass) -> Passed {
        let outcome = match pass.end() {
            Some(PassEnd::Gone) => return Passed::Gone,
            Some(PassEnd::Unreadable(error)) => {
                // The CRD accepts only what parses; an older CRD may accept more.
                tracing::error!(error, "the EtcdCluster does not parse, so nothing is done");
                Outcome::UserMustEdit
            }
            Some(PassEnd::SpecInvalid(invalid)) => {
                self.looked_at();
                self.tell_now(report::refused(invalid));
                Outcome::UserMustEdit
            }
            Some(PassEnd::StatusNotWritten { error, failure }) => {
                if error.retry() >= Retry::Failed {
                    warn(&trouble::status_not_written(&self.cluster.to_string(), &error.to_string()));
                }
                self.stopped(failure.as_ref());
                error.retry().into()
            }
            Some(PassEnd::Stopped(stop)) => {
                self.stopped(stop.failure.as_ref());
                stop.retry.into()
            }
            Some(PassEnd::Done) => {
                pass.planned().map_or(Outcome::Idle, |planned| {
                    let done = self.done(&planned.plan, planned.is_idle() && !planned.is_nearly_full());
                    // Looked at closely, so that status reports a lost quorum when the doubt ends; and so that the next member is
                    // compared.
                    if planned.is_in_doubt() || planned.compares() {
                        done.min(Outcome::Waiting)
                    } else {
                        done
                    }
                })
            }
            // No command is left, and none is under way: a reply was not understood.
            None => Outcome::Failed,
        };
        Passed::Ended(outcome)
    }

    fn stopped(&mut self, failure: Option<&Explanation>) {
        self.done.clear();
        if let Some(failure) = failure {
            warn(failure);
            self.tell_now(EventText::warning(failure.clone()));
        }
    }

    /// Every effect of the plan was carried out.
    fn done(&mut self, plan: &Plan, is_idle: bool) -> Outcome {
        let Plan { recorded_steps, effects, waiting, ended_by, .. } = plan;
        let protocol = ended_by.map_or_else(|| "none".to_owned(), |protocol| protocol.to_string());
        tracing::debug!(ended_by = protocol, effects = effects.len(), "the pass is carried out");
        let no_progress = recorded_steps.is_empty() && *effects == self.done;
        let acted = !recorded_steps.is_empty() || !effects.is_empty();
        self.done.clone_from(effects);
        match (acted, no_progress) {
            (true, true) => Outcome::NoProgress,
            (true, false) => Outcome::Acted,
            (false, _) => {
                let otherwise = if is_idle { Outcome::Idle } else { Outcome::Degraded };
                waiting.iter().map(waits).min().unwrap_or(otherwise)
            }
        }
    }

    /// There is no plan to report of: status is as the last write left it.
    fn looked_at(&mut self) {
        let view = self.memory.overlay(&self.cluster, self.shared.indexes.caches(&self.cluster));
        let cluster = view.cluster.as_ref().and_then(|cluster| cluster.0.as_ref().ok());
        let status = cluster.and_then(|cluster| cluster.status.clone()).unwrap_or_default();
        self.shared.metrics.looked_at(&self.cluster, &status, self.shared.runtime.clock.now());
    }

    fn tell_now(&mut self, text: EventText) {
        let view = self.memory.overlay(&self.cluster, self.shared.indexes.caches(&self.cluster));
        if let Some(Ok(cluster)) = view.cluster.as_ref().map(|cluster| &cluster.0) {
            let now = self.shared.runtime.clock.now();
            report::tell(&self.shared, &mut self.reported, cluster, vec![text], now);
        }
    }

    /// The connection to a member of the cluster as it was observed.
    fn connect(&mut self, pass: &Pass, member: &MemberName) -> Result<MemberClient, ConnectError> {
        let (observed, view) = pass.observed().ok_or(ConnectError::NoAddress)?;
        self.clients.use_tls(client_tls(view, observed));
        self.clients.keep(&observed.pods);
        connect(&mut self.clients, observed, member)
    }

    fn observed_versions(&mut self) -> Versions {
        self.memory.overlay(&self.cluster, self.shared.indexes.caches(&self.cluster)).versions()
    }
}

/// Whether it has planned and not ended.
fn is_acting(pass: &Pass) -> bool {
    pass.planned().is_some() && pass.end().is_none()
}

fn warn(failure: &Explanation) {
    tracing::warn!(reason = %failure.reason(), message = failure.message(), "the pass ended before its plan did");
}

/// The protocol steps that a command is the first of.
fn steps(purpose: Purpose, pass: &Pass) -> Vec<Step> {
    let Some(planned) = pass.planned() else { return Vec::new() };
    match purpose {
        Purpose::Observe | Purpose::Report => Vec::new(),
        Purpose::Record => planned.plan.recorded_steps.clone(),
        Purpose::Effect(place) => planned.effects().get(place).map(Effect::step).into_iter().collect(),
    }
}

/// The reply, and how long it took.
async fn after_crash_points(
    shared: &Shared,
    steps: Vec<Step>,
    id: CommandId,
    call: BoxFuture<'_, Reply>,
) -> (CommandId, Reply, Duration) {
    for step in steps {
        shared.runtime.hook.reached(CrashSide::Before, step).await;
    }
    let sent = Instant::now();
    let reply = call.await;
    (id, reply, sent.elapsed())
}

/// How soon its state may change. A change in etcd is found by polling; a change in Kubernetes starts a pass.
fn waits(waiting: &Waiting) -> Outcome {
    match weight(waiting) {
        Weight::Moves => Outcome::Waiting,
        // Each of the clusters that wait looks now and then, so that one of them soon finds that it may.
        Weight::Queues => Outcome::Idle,
        Weight::Waits => Outcome::Degraded,
        Weight::NeedsPerson => Outcome::UserMustEdit,
    }
}
