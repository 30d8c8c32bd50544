//! One Pod on its node, from its start to its deletion.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, Patch, PatchParams, Preconditions};
use nix::sys::signal::Signal;
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::sync::{broadcast, watch};
use tokio::time::{Instant, sleep, sleep_until};

use super::Shared;
use super::cache::Cache;
use super::container::Runner;
use super::env::Placed;
use super::events::Kind;
use super::images::Images;
use super::logs::ContainerLogs;
use super::state::{ContainerPhase, ContainerState, Ended};
use super::status::{OVERDUE, PodState, status};
use super::volumes::{self, Mounted};
use crate::clock::now;
use crate::home::Home;
use crate::process::Launcher;

/// The grace period of a Pod that was deleted by force.
const FORCED_GRACE: Duration = Duration::from_secs(1);

/// A Pod that this node runs.
pub struct PodRun {
    shared: Arc<Shared>,
    uid: String,
    placed: Placed,
    pod: watch::Sender<Arc<Pod>>,
    state: Mutex<PodState>,
    changed: watch::Sender<u64>,
    mounted: Mutex<Mounted>,
    stop: watch::Sender<Option<Instant>>,
    /// The object is being deleted, or is gone.
    deleted: watch::Sender<bool>,
    /// The node stops, and the object stays unchanged.
    retired: AtomicBool,
    signals: broadcast::Sender<Signal>,
}

impl PodRun {
    /// Takes a Pod over. If it ran before the node restarted, its earlier states come from its status.
    pub(super) fn new(shared: Arc<Shared>, pod: Arc<Pod>, placed: Placed) -> Arc<Self> {
        let spec = pod.spec.clone().unwrap_or_default();
        let old = pod.status.clone().unwrap_or_default();
        let state = |name: &str, image: Option<&String>, before: Option<&Vec<ContainerStatus>>| {
            let known = before.into_iter().flatten().find(|status| status.name == name);
            resumed(ContainerState::new(name, image.map_or("", String::as_str)), known)
        };
        let inits = spec.init_containers.iter().flatten();
        let inits =
            inits.map(|one| state(&one.name, one.image.as_ref(), old.init_container_statuses.as_ref()));
        let containers = spec.containers.iter();
        let containers =
            containers.map(|one| state(&one.name, one.image.as_ref(), old.container_statuses.as_ref()));
        let since = old.start_time.as_ref().map_or_else(now, |time| time.0);
        let state = PodState {
            since,
            ip: placed.ip,
            host: placed.host,
            inits: inits.collect(),
            containers: containers.collect(),
            overdue: false,
        };
        Arc::new(Self {
            uid: pod.uid().unwrap_or_default(),
            shared,
            placed,
            pod: watch::Sender::new(pod),
            state: Mutex::new(state),
            changed: watch::Sender::new(0),
            mounted: Mutex::default(),
            stop: watch::Sender::new(None),
            deleted: watch::Sender::new(false),
            retired: AtomicBool::new(false),
            signals: broadcast::Sender::new(8),
        })
    }

    /// Runs the Pod until it is deleted or the node stops.
    pub(super) async fn run(self: Arc<Self>) {
        tokio::select! {
            () = self.work() => {}
            () = self.keep_reporting() => {}
            () = self.keep_fresh() => {}
            () = self.keep_deadline() => {}
        }
        if self.is_retired() {
            return;
        }
        self.report().await;
        // A finished Pod stays until its object is deleted.
        let _ = self.deleted.subscribe().wait_for(|deleted| *deleted).await;
        if self.is_retired() {
            return;
        }
        volumes::tear_down(&self.shared.home, &self.uid);
        self.delete().await;
    }

    /// Receives a newer version of the object.
    pub(super) fn observe(&self, pod: Arc<Pod>) {
        let version = |pod: &Pod| pod.resource_version().and_then(|version| version.parse::<u64>().ok());
        if let Some(at) = &pod.metadata.deletion_timestamp {
            let seconds = pod.metadata.deletion_grace_period_seconds.unwrap_or(0).max(0);
            let left = Duration::try_from(at.0.duration_since(now())).unwrap_or_default();
            let grace = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
            self.stop_by(Instant::now() + left.min(grace).max(FORCED_GRACE));
            self.deleted.send_replace(true);
        }
        self.pod.send_if_modified(|known| {
            let newer = version(&pod) > version(known);
            if newer {
                *known = pod;
            }
            newer
        });
    }

    /// The object was deleted by force.
    pub(super) fn force_delete(&self) {
        self.stop_by(Instant::now() + FORCED_GRACE);
        self.deleted.send_replace(true);
    }

    /// Stops the processes because the node stops; the object stays unchanged.
    pub(super) fn retire(&self, grace: Duration) {
        self.retired.store(true, Ordering::Relaxed);
        // A paused process cannot handle SIGTERM.
        let _ = self.signals.send(Signal::SIGCONT);
        self.stop_by(Instant::now() + grace);
        self.deleted.send_replace(true);
    }

    /// Whether the node stops.
    pub fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Relaxed)
    }

    fn stop_by(&self, until: Instant) {
        self.stop.send_if_modified(|known| {
            let sooner = known.is_none_or(|known| until + Duration::from_millis(500) < known);
            if sooner {
                *known = Some(until);
            }
            sooner
        });
    }

    async fn work(self: &Arc<Self>) {
        if !self.mount().await {
            return;
        }
        let spec = self.pod().spec.clone().unwrap_or_default();
        for init in spec.init_containers.iter().flatten() {
            match Runner::new(self.clone(), &init.name, true).keep().await {
                Some(ended) if ended.code == 0 && !self.stopping() => {}
                Some(_) | None => return,
            }
        }
        for container in &spec.containers {
            self.update(&container.name, false, |state| {
                if matches!(state.phase, ContainerPhase::Waiting { .. }) {
                    state.phase = ContainerPhase::waiting("ContainerCreating");
                }
            });
        }
        let runners =
            spec.containers.iter().map(|container| Runner::new(self.clone(), &container.name, false));
        join_all(runners.map(Runner::keep)).await;
    }

    /// Prepares the volumes, retrying. `false` if the Pod stops meanwhile.
    async fn mount(&self) -> bool {
        // A certificate or a claim may come a moment later. Report only failures that last.
        let mut wait = Duration::from_millis(500);
        let mut report_at = Instant::now() + wait;
        loop {
            let mut changes = self.shared.cache.changes();
            let pod = self.pod();
            let made = volumes::set_up(&self.shared.home, &pod, self.placed, &self.shared.cache);
            let failed = match made {
                Ok(mounted) => {
                    *self.mounted.lock().unwrap_or_else(PoisonError::into_inner) = mounted;
                    return !self.stopping();
                }
                Err(failed) => failed,
            };
            tokio::select! {
                _ = changes.changed() => {}
                () = sleep_until(report_at) => {
                    self.record(None, Kind::Warning, "FailedMount", &failed.to_string()).await;
                    wait = (2 * wait).min(Duration::from_secs(122));
                    report_at = Instant::now() + wait;
                }
                () = self.stopped() => return false,
            }
        }
    }

    async fn keep_reporting(&self) {
        let mut changed = self.changed.subscribe();
        loop {
            self.report().await;
            if changed.changed().await.is_err() {
                return;
            }
        }
    }

    /// Updates mounted Secrets and ConfigMaps.
    async fn keep_fresh(&self) {
        let mut changes = self.shared.cache.changes();
        while changes.changed().await.is_ok() {
            if !self.mounted().is_empty() {
                volumes::refresh(&self.shared.home, &self.pod(), self.placed, &self.shared.cache);
            }
        }
        std::future::pending::<()>().await;
    }

    /// Stops the Pod once it has run for `activeDeadlineSeconds`. It has then failed; its object stays.
    async fn keep_deadline(&self) {
        let mut pod = self.watch();
        loop {
            let left = time_left(&pod.borrow_and_update(), self.lock().since);
            tokio::select! {
                () = sleep(left.unwrap_or_default()), if left.is_some() => break,
                changed = pod.changed() => if changed.is_err() { break },
            }
        }
        self.lock().overdue = true;
        self.changed.send_modify(|count| *count += 1);
        self.stop_by(Instant::now() + self.grace());
        self.record(None, Kind::Normal, "DeadlineExceeded", OVERDUE).await;
        std::future::pending::<()>().await;
    }

    /// Writes the status if it has changed.
    async fn report(&self) {
        if self.is_retired() {
            return;
        }
        let pod = self.pod();
        let state = self.lock().clone();
        let wanted = json!(status(&pod, &state, now()));
        let shown = json!(pod.status);
        let differs = wanted.as_object().into_iter().flatten().any(|(key, value)| shown[key] != *value);
        if !differs {
            return;
        }
        let patch = json!({"metadata": {"uid": self.uid}, "status": wanted});
        match self.api().patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(pod) => self.observe(Arc::new(pod)),
            Err(kube::Error::Api(refused)) if matches!(refused.code, 404 | 409) => {}
            Err(error) => tracing::warn!(pod = self.title(), %error, "cannot write the status of the Pod"),
        }
    }

    /// Deletes the object: all containers have stopped.
    #[expect(clippy::disallowed_methods, reason = "the kubelet is the one who ends the life of a Pod object")]
    async fn delete(&self) {
        let params = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: Some(Preconditions { uid: Some(self.uid.clone()), resource_version: None }),
            ..DeleteParams::default()
        };
        match self.api().delete(&self.pod().name_any(), &params).await {
            Ok(_) => {}
            Err(kube::Error::Api(refused)) if matches!(refused.code, 404 | 409) => {}
            Err(error) => tracing::warn!(pod = self.title(), %error, "cannot delete the Pod"),
        }
    }

    fn api(&self) -> Api<Pod> {
        Api::namespaced(self.shared.client.clone(), &self.pod().namespace().unwrap_or_default())
    }

    fn lock(&self) -> MutexGuard<'_, PodState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What its containers use.
impl PodRun {
    /// The latest version of the object.
    pub fn pod(&self) -> Arc<Pod> {
        self.pod.borrow().clone()
    }

    /// Notifies when the object changes.
    pub fn watch(&self) -> watch::Receiver<Arc<Pod>> {
        self.pod.subscribe()
    }

    /// Notifies when it must stop, and by when.
    pub fn stop(&self) -> watch::Receiver<Option<Instant>> {
        self.stop.subscribe()
    }

    /// Whether it must stop.
    pub fn stopping(&self) -> bool {
        self.stop.borrow().is_some()
    }

    /// Returns once it must stop.
    pub async fn stopped(&self) {
        let _ = self.stop.subscribe().wait_for(Option::is_some).await;
    }

    /// Signals for its processes.
    pub fn signals(&self) -> broadcast::Receiver<Signal> {
        self.signals.subscribe()
    }

    /// Changes the state of a container.
    pub fn update(&self, name: &str, is_init: bool, change: impl FnOnce(&mut ContainerState)) {
        let mut state = self.lock();
        if let Some(container) = select(&mut state, is_init).iter_mut().find(|one| one.name == name) {
            change(container);
        }
        drop(state);
        self.changed.send_modify(|count| *count += 1);
    }

    /// Reads the state of a container.
    pub fn read<T>(&self, name: &str, is_init: bool, read: impl FnOnce(&ContainerState) -> T) -> T {
        let mut state = self.lock();
        let known = select(&mut state, is_init).iter().find(|one| one.name == name);
        read(known.unwrap_or(&ContainerState::new(name, "")))
    }

    /// Records an event of the Pod or of one of its containers.
    pub async fn record(&self, container: Option<&str>, kind: Kind, reason: &str, message: &str) {
        self.shared.events.record(&self.pod(), container, kind, reason, message).await;
    }

    /// `name_namespace(uid)`, as the kubelet writes it.
    pub fn title(&self) -> String {
        let pod = self.pod();
        format!("{}_{}({})", pod.name_any(), pod.namespace().unwrap_or_default(), self.uid)
    }

    /// The name of a container's process.
    pub fn process_name(&self, container: &str) -> String {
        let pod = self.pod();
        format!("{}/{}/{container}", pod.namespace().unwrap_or_default(), pod.name_any())
    }

    /// Its uid.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// Its address.
    pub fn ip(&self) -> Ipv4Addr {
        self.placed.ip
    }

    /// Its address and that of its node.
    pub fn placed(&self) -> Placed {
        self.placed
    }

    /// Its volumes.
    pub fn mounted(&self) -> Mounted {
        self.mounted.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The id of a run of a container.
    pub fn container_id(&self, container: &str, restart: i32) -> String {
        let digest = Sha256::digest(format!("{}/{container}/{restart}", self.uid));
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("playground://{hex}")
    }

    /// The logs of a container.
    pub fn logs(&self, container: &str) -> ContainerLogs {
        let pod = self.pod();
        ContainerLogs::of(
            &self.shared.home.logs(),
            &pod.namespace().unwrap_or_default(),
            &pod.name_any(),
            container,
        )
    }

    /// Always, OnFailure or Never.
    pub fn restart_policy(&self) -> String {
        let policy = self.pod().spec.as_ref().and_then(|spec| spec.restart_policy.clone());
        policy.unwrap_or_else(|| "Always".to_owned())
    }

    /// The time between SIGTERM and SIGKILL.
    pub fn grace(&self) -> Duration {
        let seconds = self.pod().spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
        Duration::from_secs(seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(30))
    }

    /// The first delay of CrashLoopBackOff.
    pub fn crash_back_off(&self) -> Duration {
        self.shared.crash_back_off
    }

    /// Starts processes.
    pub fn launcher(&self) -> &Launcher {
        &self.shared.launcher
    }

    /// Finds images.
    pub fn images(&self) -> &Images {
        &self.shared.images
    }

    /// Other objects.
    pub fn cache(&self) -> &Cache {
        &self.shared.cache
    }

    /// The playground's directory.
    pub fn home(&self) -> &Home {
        &self.shared.home
    }
}

/// How long a Pod may still run.
fn time_left(pod: &Pod, since: jiff::Timestamp) -> Option<Duration> {
    let limit = pod.spec.as_ref()?.active_deadline_seconds?;
    let ran = now().duration_since(since).as_secs();
    Some(Duration::from_secs(u64::try_from(limit - ran).unwrap_or(0)))
}

fn select(state: &mut PodState, is_init: bool) -> &mut Vec<ContainerState> {
    if is_init { &mut state.inits } else { &mut state.containers }
}

/// Restores the state of a container from status. A container that was running when the node stopped has ended.
fn resumed(fresh: ContainerState, known: Option<&ContainerStatus>) -> ContainerState {
    let Some(known) = known else { return fresh };
    let ended = |since: Option<jiff::Timestamp>| Ended {
        code: 255,
        reason: "Unknown".to_owned(),
        message: None,
        since: since.unwrap_or_else(now),
        until: now(),
        id: known.container_id.clone().unwrap_or_default(),
    };
    let running = known.state.as_ref().and_then(|state| state.running.as_ref());
    let mut ends = [known.state.as_ref(), known.last_state.as_ref()].into_iter().flatten();
    let terminated = ends.find_map(|state| state.terminated.as_ref());
    let last = match (running, terminated) {
        (Some(running), _) => Some(ended(running.started_at.as_ref().map(|time| time.0))),
        (None, Some(before)) => Some(Ended {
            code: before.exit_code,
            reason: before.reason.clone().unwrap_or_default(),
            message: before.message.clone(),
            since: before.started_at.as_ref().map_or_else(now, |time| time.0),
            until: before.finished_at.as_ref().map_or_else(now, |time| time.0),
            id: before.container_id.clone().unwrap_or_default(),
        }),
        (None, None) => None,
    };
    let restarts = known.restart_count + i32::from(last.is_some());
    ContainerState { last, restarts, ..fresh }
}
