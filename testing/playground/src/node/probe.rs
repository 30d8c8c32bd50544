//! Startup, readiness and liveness of one container, asked as the kubelet asks: a look each period, at once when the
//! last one took longer than that; readiness right after startup.

mod act;

use std::net::Ipv4Addr;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Probe};
use tokio::sync::mpsc::Sender;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

pub use act::{Act, InContainer};

/// How long after its start a container is looked at for the first time. A real kubelet's timer runs from before the
/// start, so there it is anything up to a period.
const FIRST_LOOK: Duration = Duration::from_millis(100);

/// One probe, with its defaults filled in.
#[derive(Clone, Debug)]
pub struct Check {
    what: What,
    act: Act,
    delay: Duration,
    period: Duration,
    timeout: Duration,
    successes: u32,
    failures: u32,
}

/// What a probe is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The others wait for it.
    Startup,
    /// Whether it gets traffic.
    Readiness,
    /// Whether it is to be restarted.
    Liveness,
}

/// All probes of a container.
#[derive(Clone, Debug)]
pub struct Checks {
    startup: Option<Check>,
    readiness: Option<Check>,
    liveness: Option<Check>,
}

/// What the probes of a container found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// It has started.
    Started,
    /// It is ready, or not.
    Ready(bool),
    /// One look failed: an event.
    Unhealthy(What, String),
    /// It is to be killed.
    Failed(What),
}

impl What {
    /// As events name it.
    pub fn shown(self) -> &'static str {
        match self {
            Self::Startup => "Startup",
            Self::Readiness => "Readiness",
            Self::Liveness => "Liveness",
        }
    }
}

impl Checks {
    /// Those of a container of a Pod with this address; `inside` runs commands in the container.
    pub fn of(container: &Container, ip: Ipv4Addr, inside: &InContainer) -> Self {
        let check =
            |what, probe: Option<&Probe>| probe.map(|probe| Check::new(what, probe, container, ip, inside));
        Self {
            startup: check(What::Startup, container.startup_probe.as_ref()),
            readiness: check(What::Readiness, container.readiness_probe.as_ref()),
            liveness: check(What::Liveness, container.liveness_probe.as_ref()),
        }
    }

    /// Looks until the container is to be killed; tells what it finds.
    pub async fn run(self, tell: Sender<Finding>) {
        if let Some(startup) = self.startup
            && !startup.decided(&tell).await
        {
            let _ = tell.send(Finding::Failed(What::Startup)).await;
            return;
        }
        let _ = tell.send(Finding::Started).await;
        if self.readiness.is_none() {
            let _ = tell.send(Finding::Ready(true)).await;
        }
        tokio::join!(
            async {
                if let Some(readiness) = self.readiness {
                    readiness.follow(&tell).await;
                }
            },
            async {
                if let Some(liveness) = self.liveness {
                    liveness.watch(&tell).await;
                }
            }
        );
    }
}

impl Check {
    fn new(what: What, probe: &Probe, container: &Container, ip: Ipv4Addr, inside: &InContainer) -> Self {
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

    /// True once it succeeded often enough, false once it failed too often.
    async fn decided(self, tell: &Sender<Finding>) -> bool {
        let mut looks = Looks::begin(self);
        loop {
            match looks.next(tell).await {
                Row { good: true, enough: true } => return true,
                Row { good: false, enough: true } => return false,
                Row { enough: false, .. } => {}
            }
        }
    }

    /// Tells each time it turns.
    async fn follow(self, tell: &Sender<Finding>) {
        let (mut looks, mut ready) = (Looks::begin(self), false);
        loop {
            let Row { good, enough } = looks.next(tell).await;
            if enough && good != ready {
                ready = good;
                let _ = tell.send(Finding::Ready(ready)).await;
            }
        }
    }

    /// Tells each time it has failed too often in a row.
    async fn watch(self, tell: &Sender<Finding>) {
        let what = self.what;
        let mut looks = Looks::begin(self);
        loop {
            if let Row { good: false, enough: true } = looks.next(tell).await {
                let _ = tell.send(Finding::Failed(what)).await;
            }
        }
    }
}

/// Looks in a row that came out the same.
#[derive(Clone, Copy, Debug)]
struct Row {
    good: bool,
    /// As many as the probe's threshold asks for.
    enough: bool,
}

struct Looks {
    check: Check,
    ticks: Interval,
    last: Option<bool>,
    row: u32,
}

impl Looks {
    fn begin(check: Check) -> Self {
        let first = match check.what {
            What::Startup => check.delay.max(FIRST_LOOK),
            What::Readiness | What::Liveness => check.delay,
        };
        let mut ticks = interval_at(Instant::now() + first, check.period);
        // As Go's ticker: one tick waits while a look takes longer, further ones are dropped.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        Self { check, ticks, last: None, row: 0 }
    }

    async fn next(&mut self, tell: &Sender<Finding>) -> Row {
        self.ticks.tick().await;
        let answer = self.check.act.ask(self.check.timeout).await;
        let good = answer.is_ok();
        self.row = if self.last == Some(good) { self.row.saturating_add(1) } else { 1 };
        self.last = Some(good);
        if let Err(why) = answer {
            let _ = tell.send(Finding::Unhealthy(self.check.what, why)).await;
        }
        let threshold = if good { self.check.successes } else { self.check.failures };
        Row { good, enough: self.row >= threshold }
    }
}
