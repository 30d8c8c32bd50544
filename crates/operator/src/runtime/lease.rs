//! Leader election by Lease, as in client-go: the holder renews it and leads. A candidate takes it over when it has seen no
//! renewal for the whole duration by its **own** clock, so clocks may differ.
//!
//! A lease cannot stop a write that is already under way. So a leader acts only until the renew deadline, which is
//! shorter than the lease by more than any call lasts (R13), and every write carries preconditions.

mod term;

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::runtime::clock::{Clock, timestamp};
use term::{Holder, ObservedLease};

/// How long a write may last. Shorter than the time between [`RENEW_DEADLINE`] and [`DURATION`].
pub const WRITE_DEADLINE: Duration = Duration::from_secs(4);

/// How long after a renewal other candidates wait.
const DURATION: Duration = Duration::from_secs(15);

/// How long after a renewal the holder acts.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);

/// How often the holder renews it, and a candidate tries to take it.
const RETRY: Duration = Duration::from_secs(2);

/// The name of the Lease.
const NAME: &str = "quorate.operator.etcd.io";

/// Whether this operator leads. Checked right before every write.
#[derive(Clone, Debug)]
pub struct Leadership(watch::Receiver<Term>);

/// Until when this operator leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Term {
    /// There is no election.
    Endless,
    /// It has not led yet.
    None,
    /// Until this time, unless it renews.
    Until(Instant),
    /// It never leads again: the process ends.
    Over,
}

/// Competes for the lease and renews it.
#[derive(Debug)]
pub struct Elector {
    api: Api<Lease>,
    identity: String,
    clock: Clock,
    term: watch::Sender<Term>,
    observed: ObservedLease,
}

/// Leadership was lost.
#[derive(Debug, thiserror::Error)]
#[error("the lease was not renewed in time; another operator may lead now")]
pub struct LeaseLost;

/// Why the lease was neither taken nor renewed.
#[derive(Debug, thiserror::Error)]
enum TryError {
    #[error("{0} holds the lease")]
    HeldByOther(String),
    #[error("no reply within {WRITE_DEADLINE:?}")]
    TimedOut,
    #[error(transparent)]
    Api(#[from] kube::Error),
}

/// How long a renewal lets the holder act.
fn acting_time() -> Duration {
    #[cfg(feature = "mutants")]
    if quorate_planner::safety::mutants::is_broken(quorate_planner::safety::mutants::Rule::R13) {
        return DURATION * 100;
    }
    RENEW_DEADLINE
}

impl Leadership {
    /// Leadership without election, as long as the process runs.
    pub fn endless() -> Self {
        Self(watch::channel(Term::Endless).1)
    }

    /// Whether a write may be sent now.
    pub fn may_act(&self) -> bool {
        match *self.0.borrow() {
            Term::Endless => true,
            Term::Until(end) => Instant::now() < end,
            Term::None | Term::Over => false,
        }
    }

    /// Waits until this operator leads for the first time.
    pub async fn begun(&mut self) {
        // An error means that the elector ended, and the operator ends with it.
        let _ = self.0.wait_for(|term| matches!(term, Term::Endless | Term::Until(_))).await;
    }
}

impl Elector {
    /// Competes for the lease in `namespace` under the name `identity`.
    pub fn new(client: kube::Client, namespace: &str, identity: String, clock: Clock) -> (Self, Leadership) {
        let (term, receiver) = watch::channel(Term::None);
        let api = Api::namespaced(client, namespace);
        (Self { api, identity, clock, term, observed: ObservedLease::default() }, Leadership(receiver))
    }

    /// Competes and renews until `stop`, then releases the lease. Ends early if the lease is lost.
    pub async fn run(mut self, stop: CancellationToken) -> Result<(), LeaseLost> {
        let mut tick = tokio::time::interval(RETRY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                _ = tick.tick() => {}
            }
            let asked = Instant::now();
            match self.attempt().await {
                // Counted from before the request: no candidate can have seen the renewal earlier.
                Ok(()) => self.lead(asked + acting_time()),
                Err(error) => tracing::debug!(%error, "lease not taken"),
            }
            if self.is_over() {
                self.term.send_replace(Term::Over);
                return Err(LeaseLost);
            }
        }
        self.release().await;
        Ok(())
    }

    fn lead(&self, end: Instant) {
        if *self.term.borrow() == Term::None {
            tracing::info!(identity = %self.identity, "leading");
        }
        self.term.send_replace(Term::Until(end));
    }

    fn is_over(&self) -> bool {
        matches!(*self.term.borrow(), Term::Until(end) if Instant::now() >= end)
    }

    async fn attempt(&mut self) -> Result<(), TryError> {
        tokio::time::timeout(WRITE_DEADLINE, self.take_or_renew()).await.map_err(|_| TryError::TimedOut)?
    }

    async fn take_or_renew(&mut self) -> Result<(), TryError> {
        let Some(lease) = self.api.get_opt(NAME).await? else {
            // Somebody deleted it. Its holder does not know that yet, and acts until it is to be renewed.
            if let Holder::Other(name) = self.observed.holder(&self.identity, Instant::now()) {
                return Err(TryError::HeldByOther(name));
            }
            let lease = term::first(NAME, &self.identity, DURATION, timestamp(self.clock.now()));
            let created = self.api.create(&PostParams::default(), &lease).await?;
            self.observed.update(&created, Instant::now());
            return Ok(());
        };
        self.observed.update(&lease, Instant::now());
        match self.observed.holder(&self.identity, Instant::now()) {
            Holder::Other(name) => Err(TryError::HeldByOther(name)),
            Holder::Us | Holder::Nobody => {
                let next = term::next(&lease, &self.identity, DURATION, timestamp(self.clock.now()));
                let written = self.write(&next).await?;
                self.observed.update(&written, Instant::now());
                Ok(())
            }
        }
    }

    async fn release(&mut self) {
        if !matches!(self.term.send_replace(Term::Over), Term::Until(_)) {
            return;
        }
        let released = async {
            let lease = self.api.get(NAME).await?;
            let ours =
                lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_ref()) == Some(&self.identity);
            if ours {
                self.write(&term::released(&lease, timestamp(self.clock.now()))).await.map(drop)
            } else {
                Ok(())
            }
        };
        match tokio::time::timeout(WRITE_DEADLINE, released).await {
            Ok(Ok(())) => tracing::info!("lease released"),
            Ok(Err(error)) => tracing::warn!(%error, "lease not released; it expires by itself"),
            Err(_) => tracing::warn!("lease not released in time; it expires by itself"),
        }
    }

    /// Carries the resourceVersion that was read, so that only one of two candidates succeeds.
    async fn write(&self, lease: &Lease) -> kube::Result<Lease> {
        self.api.patch(NAME, &PatchParams::default(), &Patch::Merge(lease)).await
    }
}
