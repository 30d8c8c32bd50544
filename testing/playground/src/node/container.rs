//! One container: prepared, started, watched and restarted, until its Pod stops or its work is done.

mod preparation;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Container;
use nix::sys::signal::Signal;
use tokio::sync::{broadcast, mpsc};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::back_off::{BackOff, shown};
use super::events::Kind;
use super::pod::PodRun;
use super::probe::{Checks, Finding, InContainer};
use super::state::{ContainerPhase, ContainerState, Ended};
use crate::clock::now;
use crate::process::{Exit, Process};
use preparation::Prepared;

/// One container of a Pod.
pub struct Runner {
    run: Arc<PodRun>,
    name: String,
    is_init: bool,
}

/// A container that runs.
struct Running {
    process: Process,
    image: String,
    since: jiff::Timestamp,
    id: String,
    restart: i32,
    checks: Checks,
    logs: tokio::task::JoinHandle<()>,
}

impl Runner {
    /// A container of this Pod.
    pub fn new(run: Arc<PodRun>, name: &str, is_init: bool) -> Self {
        Self { run, name: name.to_owned(), is_init }
    }

    /// Runs the container as often as the Pod's restart policy allows. Returns the end of its last run, `None` if the
    /// Pod stopped before the first.
    pub async fn keep(self) -> Option<Ended> {
        let mut back_off = BackOff::new(self.run.crash_back_off());
        loop {
            let ended = self.once().await?;
            self.update(|state| {
                state.phase = ContainerPhase::Terminated(ended.clone());
                (state.started, state.ready) = (false, false);
            });
            if self.run.stopping() || !self.restarts_after(ended.code) {
                return Some(ended);
            }
            let lasted = ended.until.duration_since(ended.since).unsigned_abs();
            let wait = back_off.after(lasted);
            if !wait.is_zero() && !self.wait_back_off(wait, &ended).await {
                return Some(ended);
            }
            self.update(|state| {
                state.restarts += 1;
                state.last = Some(ended);
            });
        }
    }

    fn restarts_after(&self, code: i32) -> bool {
        let policy = self.run.restart_policy();
        match policy.as_str() {
            "Never" => false,
            "OnFailure" => code != 0,
            _ => !self.is_init || code != 0,
        }
    }

    /// Waits in CrashLoopBackOff. `false` if the Pod stops meanwhile.
    async fn wait_back_off(&self, wait: Duration, ended: &Ended) -> bool {
        let pod = self.run.title();
        self.update(|state| {
            state.phase = ContainerPhase::Waiting {
                reason: "CrashLoopBackOff".to_owned(),
                message: Some(format!(
                    "back-off {} restarting failed container={} pod={pod}",
                    shown(wait),
                    self.name
                )),
            };
            state.last = Some(ended.clone());
        });
        let message = format!("Back-off restarting failed container {} in pod {pod}", self.name);
        self.record(Kind::Warning, "BackOff", &message).await;
        tokio::select! {
            () = sleep(wait) => true,
            () = self.run.stopped() => false,
        }
    }

    /// One run, from image to exit. `None` if the Pod stopped before the start.
    async fn once(&self) -> Option<Ended> {
        let made = self.make().await?;
        if self.run.stopping() {
            return None;
        }
        match self.start(made) {
            Ok(running) => {
                let message = format!("Created container: {}", self.name);
                let events = async {
                    self.record(Kind::Normal, "Created", &message).await;
                    self.record(Kind::Normal, "Started", &format!("Started container {}", self.name)).await;
                };
                // Recording events must not delay the container.
                let (ended, ()) = tokio::join!(self.watch(running), events);
                Some(ended)
            }
            Err(why) => {
                self.record(Kind::Warning, "Failed", &format!("Error: {why}")).await;
                Some(self.cannot_run(&why))
            }
        }
    }

    fn start(&self, made: Prepared) -> Result<Running, String> {
        let restart = self.state(|state| state.restarts);
        let (output, logs) = self.run.logs(&self.name).begin(restart).map_err(|error| error.to_string())?;
        let title = self.run.process_name(&self.name);
        let env = made.spec.env.clone();
        let process =
            self.run.launcher().spawn(&title, made.spec, output).map_err(|error| error.to_string())?;
        let name = format!("{title}/exec");
        let inside = InContainer { name, launcher: self.run.launcher().clone(), pid: process.pid(), env };
        let checks = Checks::of(&made.container, self.run.ip(), &inside);
        let (since, id) = (now(), self.run.container_id(&self.name, restart));
        self.update(|state| {
            state.image.clone_from(&made.image_name);
            state.image_id.clone_from(&made.image_id);
            state.phase = ContainerPhase::Running { since, id: id.clone() };
            (state.started, state.ready) = (false, false);
        });
        Ok(Running { process, image: made.image_name, since, id, restart, checks, logs })
    }

    /// Watches the container until it exits.
    async fn watch(&self, mut running: Running) -> Ended {
        let (findings_out, mut findings) = mpsc::channel(8);
        let checks = running.checks.clone();
        let checking = async {
            if !self.is_init {
                checks.run(findings_out).await;
            }
            std::future::pending::<()>().await;
        };
        tokio::pin!(checking);
        let mut signals = self.run.signals();
        let mut stop = self.run.stop();
        let mut pod = self.run.watch();
        let mut kill_at = None::<Instant>;
        stop.mark_changed();
        let exit = loop {
            tokio::select! {
                exit = running.process.wait() => break exit,
                () = &mut checking => {}
                Some(finding) = findings.recv() => {
                    if let Some(grace) = self.handle(finding).await {
                        kill_at = Some(self.terminate(&running.process, kill_at, Instant::now() + grace));
                    }
                }
                signal = signals.recv() => match signal {
                    Ok(signal) => running.process.signal_all(signal),
                    Err(broadcast::error::RecvError::Lagged(_) | broadcast::error::RecvError::Closed) => {}
                },
                Ok(()) = stop.changed() => {
                    let asked = *stop.borrow_and_update();
                    if let Some(until) = asked {
                        if kill_at.is_none() {
                            self.report_stopping();
                        }
                        kill_at = Some(self.terminate(&running.process, kill_at, until));
                    }
                }
                Ok(()) = pod.changed(), if kill_at.is_none() => {
                    if self.spec().is_some_and(|container| container.image != Some(running.image.clone())) {
                        let message = format!("Container {} definition changed, will be restarted", self.name);
                        self.record(Kind::Normal, "Killing", &message).await;
                        kill_at = Some(self.terminate(&running.process, kill_at, Instant::now() + self.run.grace()));
                    }
                }
                () = sleep_until(kill_at.unwrap_or_else(Instant::now)), if kill_at.is_some() => {
                    running.process.signal_all(Signal::SIGKILL);
                    kill_at = Some(Instant::now() + Duration::from_secs(1));
                }
            }
        };
        // The last lines of output are still in the pipe.
        let _ = timeout(Duration::from_secs(1), &mut running.logs).await;
        self.ended(&running, &exit)
    }

    /// Handles a finding of a probe. Returns the grace period if the container must stop.
    async fn handle(&self, finding: Finding) -> Option<Duration> {
        match finding {
            Finding::Started => self.update(|state| state.started = true),
            Finding::Ready(ready) => self.update(|state| state.ready = ready),
            Finding::Unhealthy(what, why) => {
                let message = format!("{} probe failed: {why}", what.shown());
                self.record(Kind::Warning, "Unhealthy", &message).await;
            }
            Finding::Failed(what) => {
                let probe = what.shown().to_lowercase();
                let message = format!("Container {} failed {probe} probe, will be restarted", self.name);
                self.record(Kind::Normal, "Killing", &message).await;
                return Some(self.run.grace());
            }
        }
        None
    }

    fn terminate(&self, process: &Process, before: Option<Instant>, until: Instant) -> Instant {
        self.update(|state| state.ready = false);
        if before.is_none() {
            process.signal(Signal::SIGTERM);
        }
        before.map_or(until, |before| before.min(until))
    }

    fn ended(&self, running: &Running, exit: &Exit) -> Ended {
        if let Some(why) = &exit.not_started {
            return Ended { id: running.id.clone(), since: running.since, ..self.cannot_run(why) };
        }
        let reason = if exit.code == 0 { "Completed" } else { "Error" };
        Ended {
            code: exit.code,
            reason: reason.to_owned(),
            message: self.termination_message(exit.code, running.restart),
            since: running.since,
            until: now(),
            id: running.id.clone(),
        }
    }

    fn cannot_run(&self, why: &str) -> Ended {
        let at = now();
        Ended {
            code: 128,
            reason: "ContainerCannotRun".to_owned(),
            message: Some(format!("failed to create containerd task: failed to create shim task: {why}")),
            since: at,
            until: at,
            id: self.run.container_id(&self.name, self.state(|state| state.restarts)),
        }
    }

    /// Records the event in the background, so that it does not delay the stop.
    fn report_stopping(&self) {
        if self.run.is_retired() {
            return;
        }
        let (run, name) = (self.run.clone(), self.name.clone());
        tokio::spawn(async move {
            run.record(Some(&name), Kind::Normal, "Killing", &format!("Stopping container {name}")).await;
        });
    }

    async fn record(&self, kind: Kind, reason: &str, message: &str) {
        self.run.record(Some(&self.name), kind, reason, message).await;
    }

    fn update(&self, change: impl FnOnce(&mut ContainerState)) {
        self.run.update(&self.name, self.is_init, change);
    }

    fn state<T>(&self, read: impl FnOnce(&ContainerState) -> T) -> T {
        self.run.read(&self.name, self.is_init, read)
    }

    /// The current spec: the image may have been edited.
    fn spec(&self) -> Option<Container> {
        let pod = self.run.pod();
        let spec = pod.spec.as_ref()?;
        let list =
            if self.is_init { spec.init_containers.as_deref().unwrap_or_default() } else { &spec.containers };
        list.iter().find(|container| container.name == self.name).cloned()
    }
}
