//! Startup, readiness and liveness probes of one container, run as the kubelet runs them: once each period,
//! immediately if the last one took longer than that; readiness right after startup.

mod act;

use std::net::Ipv4Addr;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Probe};
use tokio::sync::mpsc::Sender;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

pub use act::{Act, InContainer};

/// The delay between the start of a container and its first probe. A real kubelet's timer runs from before the start,
/// so there it is anything up to a period.
const FIRST_PROBE: Duration = Duration::from_millis(100);

/// One probe, with its defaults filled in.
#[derive(Clone, Debug)]
pub struct Check {
    what: ProbeKind,
    act: Act,
    delay: Duration,
    period: Duration,
    timeout: Duration,
    successes: u32,
    failures: u32,
}

/// The kind of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeKind {
    /// The other probes wait for it.
    Startup,
    /// Decides whether the container gets traffic.
    Readiness,
    /// Decides whether the container is restarted.
    Liveness,
}

/// All probes of a container.
#[derive(Clone, Debug)]
pub struct Checks {
    startup: Option<Check>,
    readiness: Option<Check>,
    liveness: Option<Check>,
}

/// A result of the probes of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The container has started.
    Started,
    /// The container is ready, or not.
    Ready(bool),
    /// One probe failed: an event.
    Unhealthy(ProbeKind, String),
    /// The container must be killed.
    Failed(ProbeKind),
}

impl ProbeKind {
    /// Its name in events.
    pub fn shown(self) -> &'static str {
        match self {
            Self::Startup => "Startup",
            Self::Readiness => "Readiness",
            Self::Liveness => "Liveness",
        }
    }
}

impl Checks {
    /// The probes of a container whose Pod has this address; `inside` runs commands in the container.
    pub fn of(container: &Container, ip: Ipv4Addr, inside: &InContainer) -> Self {
        let check =
            |what, probe: Option<&Probe>| probe.map(|probe| Check::new(what, probe, container, ip, inside));
        Self {
            startup: check(ProbeKind::Startup, container.startup_probe.as_ref()),
            readiness: check(ProbeKind::Readiness, container.readiness_probe.as_ref()),
            liveness: check(ProbeKind::Liveness, container.liveness_probe.as_ref()),
        }
    }

    /// Probes until the container must be killed; sends findings.
    pub async fn run(self, findings: Sender<Finding>) {
        if let Some(startup) = self.startup
            && !startup.decided(&findings).await
        {
            let _ = findings.send(Finding::Failed(ProbeKind::Startup)).await;
            return;
        }
        let _ = findings.send(Finding::Started).await;
        if self.readiness.is_none() {
            let _ = findings.send(Finding::Ready(true)).await;
        }
        tokio::join!(
            async {
                if let Some(readiness) = self.readiness {
                    readiness.follow(&findings).await;
                }
            },
            async {
                if let Some(liveness) = self.liveness {
                    liveness.watch(&findings).await;
                }
            }
        );
    }
}

impl Check {
    fn new(
        what: ProbeKind,
        probe: &Probe,
        container: &Container,
        ip: Ipv4Addr,
        inside: &InContainer,
    ) -> Self {
        let number = |value: Option<i32>, default: u32| {
            value.and_then(|value| u32::try_from(value).ok()).filter(|value| *value > 0).unwrap_or(default)
        };
        let seconds = |value: Option<i32>, default| Duration::from_secs(number(value, default).into());
        Self {
            what,
            act: Act::of(probe, container, ip, inside),
            delay: seconds(probe.initial_delay_seconds, 0),
            period: seconds(probe.period_seconds, 10),
            timeout: seconds(probe.timeout_seconds, 1),
            successes: number(probe.success_threshold, 1),
            failures: number(probe.failure_threshold, 3),
        }
    }

    /// `true` after enough successes in a row, `false` after enough failures.
    async fn decided(self, findings: &Sender<Finding>) -> bool {
        let mut series = Series::new(self);
        loop {
            match series.next(findings).await {
                Streak { good: true, enough: true } => return true,
                Streak { good: false, enough: true } => return false,
                Streak { enough: false, .. } => {}
            }
        }
    }

    /// Sends each change of readiness.
    async fn follow(self, findings: &Sender<Finding>) {
        let (mut series, mut ready) = (Series::new(self), false);
        loop {
            let Streak { good, enough } = series.next(findings).await;
            if enough && good != ready {
                ready = good;
                let _ = findings.send(Finding::Ready(ready)).await;
            }
        }
    }

    /// Sends each time enough probes failed in a row.
    async fn watch(self, findings: &Sender<Finding>) {
        let what = self.what;
        let mut series = Series::new(self);
        loop {
            if let Streak { good: false, enough: true } = series.next(findings).await {
                let _ = findings.send(Finding::Failed(what)).await;
            }
        }
    }
}

/// Equal results in a row.
#[derive(Clone, Copy, Debug)]
struct Streak {
    good: bool,
    /// Whether the threshold of the probe is reached.
    enough: bool,
}

struct Series {
    check: Check,
    ticks: Interval,
    last: Option<bool>,
    row: u32,
}

impl Series {
    fn new(check: Check) -> Self {
        let first = match check.what {
            ProbeKind::Startup => check.delay.max(FIRST_PROBE),
            ProbeKind::Readiness | ProbeKind::Liveness => check.delay,
        };
        let mut ticks = interval_at(Instant::now() + first, check.period);
        // As Go's ticker does: one tick waits for a slow probe, further ones are dropped.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        Self { check, ticks, last: None, row: 0 }
    }

    async fn next(&mut self, findings: &Sender<Finding>) -> Streak {
        self.ticks.tick().await;
        let answer = self.check.act.ask(self.check.timeout).await;
        let good = answer.is_ok();
        self.row = if self.last == Some(good) { self.row.saturating_add(1) } else { 1 };
        self.last = Some(good);
        if let Err(why) = answer {
            let _ = findings.send(Finding::Unhealthy(self.check.what, why)).await;
        }
        let threshold = if good { self.check.successes } else { self.check.failures };
        Streak { good, enough: self.row >= threshold }
    }
}
