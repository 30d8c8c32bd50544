//! One pass over one cluster: observe, validate, plan, execute, report.

use quorate_api::status::EtcdClusterStatus;
use quorate_api::{EtcdCluster, Explanation};
use quorate_manifests::certificate::{self, Certificate};
use quorate_manifests::{
    ClusterObjects, EventText, Invalid, Observation, Situation, events, invalid_status, snapshot, status,
    trouble,
};
use quorate_model::{ClusterRef, ClusterUid, Effect, Plan, Snapshot, Waiting};
use quorate_planner::plan;

use super::Shared;
use crate::controllers::cluster::execute::send::{self, SendError};
use crate::controllers::cluster::execute::{self, Scene, Stopped, carry_out, write_status};
use crate::controllers::cluster::look::{ClientTls, Credentials, MemberClients, look};
use crate::controllers::cluster::observe::{Foreigners, Own, Versions, View};
use crate::controllers::cluster::report;
use crate::runtime::controller::{Pass, Worker as Passes};
use crate::runtime::crash::Side;
use crate::runtime::events::Reported;
use crate::runtime::pace::Outcome;

/// What is kept of one cluster from pass to pass. All of it can be lost: it saves time and repetition, nothing else.
pub(crate) struct Worker {
    shared: Shared,
    cluster: ClusterRef,
    own: Own,
    lines: MemberClients,
    foreigners: Foreigners,
    reported: Reported,
    /// What the last pass saw or wrote.
    known: Versions,
    /// What the last pass did.
    done: Vec<Effect>,
    /// What the last pass could not do.
    trouble: Option<Explanation>,
}

impl Passes for Worker {
    fn has_news(&mut self) -> bool {
        self.own.view(&self.shared.indexes, &self.cluster).versions() != self.known
    }

    async fn pass(&mut self) -> Pass {
        self.read_what_the_watch_forgot().await;
        let view = self.own.view(&self.shared.indexes, &self.cluster);
        self.known = view.versions();
        let Some(read) = view.cluster.clone() else { return Pass::Gone };
        let ended = match &read.0 {
            Ok(cluster) => {
                self.pass_over(cluster, &view).await.unwrap_or_else(|stopped| self.stopped(stopped))
            }
            Err(invalid) => {
                // The resource definition lets nothing through that does not parse; an older one might.
                tracing::error!(error = %invalid.error, "the object can not be read, so nothing is done");
                Outcome::UserMustEdit
            }
        };
        self.own.add_to(&mut self.known);
        Pass::Ended(ended)
    }
}

impl Worker {
    pub(super) fn new(shared: Shared, cluster: ClusterRef) -> Self {
        Self {
            lines: MemberClients::over(shared.transport.clone()),
            shared,
            cluster,
            own: Own::default(),
            foreigners: Foreigners::default(),
            reported: Reported::default(),
            known: Versions::new(),
            done: Vec::new(),
            trouble: None,
        }
    }

    /// What can not be read now is read in the next pass.
    async fn read_what_the_watch_forgot(&mut self) {
        for (kind, name) in self.own.unconfirmed() {
            match send::read(&self.shared, kind, &self.cluster.namespace, &name).await {
                Ok(Some(object)) => self.own.stands(kind, object),
                Ok(None) => self.own.missing(kind, &name),
                Err(error) => tracing::debug!(kind = kind.as_str(), name, %error, "not read"),
            }
        }
    }

    async fn pass_over(&mut self, cluster: &EtcdCluster, view: &View) -> Result<Outcome, Stopped> {
        let uid = ClusterUid::new(cluster.metadata.uid.clone().unwrap_or_default());
        let conflicts = self.foreigners.look(&self.shared, &self.cluster, &uid).await;
        let objects = view.seen(cluster, conflicts);
        let Observation { snapshot: mut seen, refused } = match snapshot(&objects, &self.shared.defaults) {
            Ok(sight) => sight,
            Err(invalid) => return self.refuse(cluster, &invalid).await,
        };
        self.lines.speak(speech(&objects, &seen));
        let (clock, metrics) = (&self.shared.runtime.clock, &self.shared.metrics);
        seen.etcd = look(&seen, &mut self.lines, clock, metrics).await;

        let now = clock.now();
        let plan = plan(&seen, now);
        report::show(&self.shared, &seen, &plan, now);
        let situation = Situation { cluster, snapshot: &seen, refused: refused.as_ref(), plan: &plan, now };
        let status = status(&situation);
        let before = cluster.status.clone().unwrap_or_default();
        let trouble_before = self.trouble.clone();
        let cluster = &self.write_record(cluster, &plan, &status).await?;
        let told = events(&before, &trouble::with_trouble(status.clone(), trouble_before.as_ref()));
        report::tell(&self.shared, &mut self.reported, cluster, told, now);

        let Self { shared, cluster: at, lines, own, .. } = self;
        let scene =
            Scene { shared, cluster: at, objects: &objects, seen: &seen, record: &plan.record, lines };
        let carried = carry_out(&scene, cluster, &plan.effects, own).await;
        if let Err(stopped) = carried {
            self.report_trouble(cluster, &status, &stopped).await?;
            return Err(stopped);
        }
        self.trouble = None;
        Ok(self.ended(plan))
    }

    /// Writes status before any effect, whether or not anything is latched: it is true either way.
    async fn write_record(
        &mut self,
        cluster: &EtcdCluster,
        plan: &Plan,
        status: &EtcdClusterStatus,
    ) -> Result<EtcdCluster, Stopped> {
        let hook = self.shared.runtime.hook.clone();
        for step in &plan.recorded_steps {
            hook.reached(Side::Before, *step).await;
        }
        let status = trouble::with_trouble(status.clone(), self.trouble.as_ref());
        let written =
            execute::write_record(&self.shared, cluster, &status, &plan.effects, &mut self.own).await;
        for step in &plan.recorded_steps {
            let outcome = written.as_ref().map_or_else(SendError::as_label, |_| "ok");
            self.shared.metrics.effect(&step.to_string(), outcome);
        }
        let written = written.map_err(|error| Stopped::without_status(&self.cluster, &error))?;
        for step in &plan.recorded_steps {
            tracing::info!(%step, "recorded");
            hook.reached(Side::After, *step).await;
        }
        Ok(written.unwrap_or_else(|| cluster.clone()))
    }

    /// The spec can not be honoured, and nothing was ever committed that could be looked after instead.
    async fn refuse(&mut self, cluster: &EtcdCluster, invalid: &Invalid) -> Result<Outcome, Stopped> {
        let now = self.shared.runtime.clock.now();
        let status = invalid_status(cluster, invalid, now);
        write_status(&self.shared, cluster, &status, &mut self.own)
            .await
            .map_err(|error| Stopped::without_status(&self.cluster, &error))?;
        report::tell(&self.shared, &mut self.reported, cluster, vec![report::refused(invalid)], now);
        Ok(Outcome::UserMustEdit)
    }

    /// What could not be done stands in status until it is done.
    async fn report_trouble(
        &mut self,
        cluster: &EtcdCluster,
        status: &EtcdClusterStatus,
        stopped: &Stopped,
    ) -> Result<(), Stopped> {
        let Some(trouble) = &stopped.trouble else { return Ok(()) };
        let status = trouble::with_trouble(status.clone(), Some(trouble));
        let now = self.shared.runtime.clock.now();
        report::tell(
            &self.shared,
            &mut self.reported,
            cluster,
            vec![EventText::warning(trouble.clone())],
            now,
        );
        self.trouble = Some(trouble.clone());
        write_status(&self.shared, cluster, &status, &mut self.own)
            .await
            .map_err(|error| Stopped::without_status(&self.cluster, &error))
            .map(drop)
    }

    fn stopped(&mut self, stopped: Stopped) -> Outcome {
        if let Some(trouble) = &stopped.trouble {
            tracing::warn!(
                reason = %trouble.reason(),
                message = trouble.message(),
                "the pass ended before its plan did"
            );
        }
        self.done.clear();
        // The planner is to know of it at once; once it does, there is nothing more to learn.
        let news = stopped.foreign.is_some_and(|foreign| self.foreigners.met(foreign));
        if news { Outcome::Acted } else { stopped.ended }
    }

    /// Everything that was planned is done.
    fn ended(&mut self, plan: Plan) -> Outcome {
        let Plan { recorded_steps, effects, waiting, ended_by, record: _ } = plan;
        let protocol = ended_by.map_or_else(|| "none".to_owned(), |protocol| protocol.to_string());
        tracing::debug!(ended_by = protocol, effects = effects.len(), "the pass is carried out");
        let in_vain = recorded_steps.is_empty() && effects == self.done;
        let acted = !recorded_steps.is_empty() || !effects.is_empty();
        self.done = effects;
        match (acted, in_vain) {
            (true, true) => Outcome::NoProgress,
            (true, false) => Outcome::Acted,
            (false, _) => waiting.iter().map(waits).min().unwrap_or(Outcome::Calm),
        }
    }
}

/// How members are spoken to.
fn speech(objects: &ClusterObjects<'_>, seen: &Snapshot) -> ClientTls {
    if !seen.target().tls {
        return ClientTls::Plain;
    }
    let kept = certificate::kept(Certificate::Client, &objects.secrets, &seen.cluster, &seen.uid);
    kept.map_or(ClientTls::NotYet, |kept| {
        ClientTls::Tls(Credentials { ca: kept.ca.to_vec(), cert: kept.cert.to_vec(), key: kept.key.to_vec() })
    })
}

/// How soon it may look otherwise. What only shows in etcd has to be asked for; what shows in Kubernetes wakes us.
fn waits(waiting: &Waiting) -> Outcome {
    match waiting {
        Waiting::FirstLeader
        | Waiting::InSync(_)
        | Waiting::Objects
        | Waiting::Clearing(_)
        | Waiting::PodStarting(_)
        | Waiting::PodStopping(_)
        | Waiting::VolumeGoing(_)
        | Waiting::SafePoint(_) => Outcome::Waiting,
        Waiting::Quorum { .. } | Waiting::Sick(..) | Waiting::PodStuck(..) | Waiting::Unsafe(_) => {
            Outcome::Unwell
        }
        Waiting::Paused
        | Waiting::StatusFromNewerVersion(_)
        | Waiting::ForeignObjects(_)
        | Waiting::ExistingData { .. }
        | Waiting::UnknownPods(_)
        | Waiting::SplitBrain(_)
        | Waiting::WrongMember { .. }
        | Waiting::VolumeLost(_)
        | Waiting::UnmanagedMember(..)
        | Waiting::VersionRefused(_) => Outcome::UserMustEdit,
    }
}
