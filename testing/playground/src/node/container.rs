//! One container: found, made, started, watched, restarted, until its Pod stops or its work is done.

mod making;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Container;
use nix::sys::signal::Signal;
use tokio::sync::{broadcast, mpsc};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::back_off::{BackOff, shown};
use super::events::Kind;
use super::pod::{Order, PodRun};
use super::probe::{Checks, Finding, InContainer};
use super::state::{ContainerPhase, ContainerState, Ended};
use crate::clock::now;
use crate::process::{Exit, Process};
use making::Made;

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
    /// That container.
    pub fn new(run: Arc<PodRun>, name: &str, is_init: bool) -> Self {
        Self { run, name: name.to_owned(), is_init }
    }

    /// Runs it as often as its Pod's restart policy says. The end of its last run, or nothing if the Pod stopped before
    /// it ever ran.
    pub async fn keep(self) -> Option<Ended> {
        let mut back_off = BackOff::new(self.run.crash_back_off());
        loop {
            let ended = self.once().await?;
            self.update(|state| {
                state.phase = ContainerPhase::Terminated(ended.clone());
                (state.started, state.ready) = (false, false);
            });
            if self.run.stopping() || !self.is_to_run_again(ended.code) {
                return Some(ended);
            }
            let lasted = ended.until.duration_since(ended.since).unsigned_abs();
            let wait = back_off.after(lasted);
            if !wait.is_zero() && !self.wait_out(wait, &ended).await {
                return Some(ended);
            }
            self.update(|state| {
                state.restarts += 1;
                state.last = Some(ended);
            });
        }
    }

    fn is_to_run_again(&self, code: i32) -> bool {
        let policy = self.run.restart_policy();
        match policy.as_str() {
            "Never" => false,
            "OnFailure" => code != 0,
            _ => !self.is_init || code != 0,
        }
    }

    /// Waits in CrashLoopBackOff; false if the Pod stops meanwhile.
    async fn wait_out(&self, wait: Duration, ended: &Ended) -> bool {
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
        self.tell(Kind::Warning, "BackOff", &message).await;
        tokio::select! {
            () = sleep(wait) => true,
            () = self.run.stopped() => false,
        }
    }

    /// One run, from image to end; nothing if the Pod stopped before it began.
    async fn once(&self) -> Option<Ended> {
        let made = self.make().await?;
        match self.start(made) {
            Ok(running) => {
                let message = format!("Created container: {}", self.name);
                let told = async {
                    self.tell(Kind::Normal, "Created", &message).await;
                    self.tell(Kind::Normal, "Started", &format!("Started container {}", self.name)).await;
                };
                // What is told must not delay what happens.
                let (ended, ()) = tokio::join!(self.watch(running), told);
                Some(ended)
            }
            Err(why) => {
                self.tell(Kind::Warning, "Failed", &format!("Error: {why}")).await;
                Some(self.cannot_run(&why))
            }
        }
    }

    fn start(&self, made: Made) -> Result<Running, String> {
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

    /// Until it has ended, whatever the reason.
    async fn watch(&self, mut running: Running) -> Ended {
        let (told, mut findings) = mpsc::channel(8);
        let checks = running.checks.clone();
        let checking = async {
            if !self.is_init {
                checks.run(told).await;
            }
            std::future::pending::<()>().await;
        };
        tokio::pin!(checking);
        let mut orders = self.run.orders();
        let mut stop = self.run.stop();
        let mut pod = self.run.watch();
        let (mut kill_at, mut out_of_memory) = (None::<Instant>, false);
        stop.mark_changed();
        let exit = loop {
            tokio::select! {
                exit = running.process.wait() => break exit,
                () = &mut checking => {}
                Some(finding) = findings.recv() => {
                    if let Some(grace) = self.found(finding).await {
                        kill_at = Some(self.terminate(&running.process, kill_at, Instant::now() + grace));
                    }
                }
                order = orders.recv() => match order {
                    Ok(order) => out_of_memory |= self.obey(&running.process, &order),
                    Err(broadcast::error::RecvError::Lagged(_) | broadcast::error::RecvError::Closed) => {}
                },
                Ok(()) = stop.changed() => {
                    let asked = *stop.borrow_and_update();
                    if let Some(until) = asked {
                        if kill_at.is_none() {
                            self.tell_stopping();
                        }
                        kill_at = Some(self.terminate(&running.process, kill_at, until));
                    }
                }
                Ok(()) = pod.changed(), if kill_at.is_none() => {
                    if self.spec().is_some_and(|container| container.image != Some(running.image.clone())) {
                        let message = format!("Container {} definition changed, will be restarted", self.name);
                        self.tell(Kind::Normal, "Killing", &message).await;
                        kill_at = Some(self.terminate(&running.process, kill_at, Instant::now() + self.run.grace()));
                    }
                }
                () = sleep_until(kill_at.unwrap_or_else(Instant::now)), if kill_at.is_some() => {
                    running.process.signal_all(Signal::SIGKILL);
                    kill_at = Some(Instant::now() + Duration::from_secs(1));
                }
            }
        };
        // What it said last is on its way through a pipe.
        let _ = timeout(Duration::from_secs(1), &mut running.logs).await;
        self.ended(&running, &exit, out_of_memory)
    }

    /// Takes in what a probe found; how long the container has to end, if it is to.
    async fn found(&self, finding: Finding) -> Option<Duration> {
        match finding {
            Finding::Started => self.update(|state| state.started = true),
            Finding::Ready(ready) => self.update(|state| state.ready = ready),
            Finding::Unhealthy(what, why) => {
                let message = format!("{} probe failed: {why}", what.shown());
                self.tell(Kind::Warning, "Unhealthy", &message).await;
            }
            Finding::Failed(what) => {
                let probe = what.shown().to_lowercase();
                let message = format!("Container {} failed {probe} probe, will be restarted", self.name);
                self.tell(Kind::Normal, "Killing", &message).await;
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

    /// Does to the process what a fault asks for; whether it is to look as if memory had run out.
    fn obey(&self, process: &Process, order: &Order) -> bool {
        if order.container.as_ref().is_some_and(|name| *name != self.name) {
            return false;
        }
        process.signal_all(order.signal);
        order.out_of_memory
    }

    fn ended(&self, running: &Running, exit: &Exit, out_of_memory: bool) -> Ended {
        if let Some(why) = &exit.not_started {
            return Ended { id: running.id.clone(), since: running.since, ..self.cannot_run(why) };
        }
        let reason = match exit.code {
            0 => "Completed",
            _ if out_of_memory => "OOMKilled",
            _ => "Error",
        };
        Ended {
            code: exit.code,
            reason: reason.to_owned(),
            message: self.last_words(exit.code, running.restart),
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

    /// Tells while it happens: what is told must not delay it.
    fn tell_stopping(&self) {
        if self.run.is_retired() {
            return;
        }
        let (run, name) = (self.run.clone(), self.name.clone());
        tokio::spawn(async move {
            run.tell(Some(&name), Kind::Normal, "Killing", &format!("Stopping container {name}")).await;
        });
    }

    async fn tell(&self, kind: Kind, reason: &str, message: &str) {
        self.run.tell(Some(&self.name), kind, reason, message).await;
    }

    fn update(&self, change: impl FnOnce(&mut ContainerState)) {
        self.run.update(&self.name, self.is_init, change);
    }

    fn state<T>(&self, read: impl FnOnce(&ContainerState) -> T) -> T {
        self.run.read(&self.name, self.is_init, read)
    }

    /// As the Pod has it now: its image may be edited.
    fn spec(&self) -> Option<Container> {
        let pod = self.run.pod();
        let spec = pod.spec.as_ref()?;
        let list =
            if self.is_init { spec.init_containers.as_deref().unwrap_or_default() } else { &spec.containers };
        list.iter().find(|container| container.name == self.name).cloned()
    }
}
