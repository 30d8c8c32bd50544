//! Leadership by Lease, as client-go has it: whoever renews it leads, and the others take it over when they have seen
//! it unrenewed for its whole duration by **their own** clock, so that clocks may differ.
//!
//! A lease can not stop a write that is already under way. So a leader acts only until the renew deadline, which is
//! shorter than the lease by more than any call lasts (R13), and every write carries preconditions besides.

mod term;

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::runtime::clock::{Clock, timestamp};
use term::{ClusterObjects, Standing};

/// How long a write may last. Shorter than what lies between [`RENEW_DEADLINE`] and [`DURATION`].
pub const WRITE_DEADLINE: Duration = Duration::from_secs(4);

/// How long the lease holds after a renewal, for others.
const DURATION: Duration = Duration::from_secs(15);

/// How long it holds after a renewal, for us.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);

/// How often it is renewed, or tried for.
const RETRY: Duration = Duration::from_secs(2);

/// The Lease's name.
const NAME: &str = "quorate.operator.etcd.io";

/// Whether we lead. Asked right before every write.
#[derive(Clone, Debug)]
pub struct Leadership(watch::Receiver<Term>);

/// Until when we lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Term {
    /// Without election: always.
    Endless,
    /// Not yet.
    None,
    /// Until then, unless it is renewed.
    Until(Instant),
    /// No more, for ever: the process ends.
    Over,
}

/// Competes for the lease and renews it.
#[derive(Debug)]
pub struct Elector {
    api: Api<Lease>,
    identity: String,
    clock: Clock,
    term: watch::Sender<Term>,
    seen: ClusterObjects,
}

/// Leadership was lost: somebody else may lead now.
#[derive(Debug, thiserror::Error)]
#[error("the lease was not renewed in time, so somebody else may lead now")]
pub struct LeaseLost;

/// Why a try for the lease did not succeed.
#[derive(Debug, thiserror::Error)]
enum TryError {
    #[error("{0} holds it")]
    Held(String),
    #[error("no answer within {WRITE_DEADLINE:?}")]
    Late,
    #[error(transparent)]
    Api(#[from] kube::Error),
}

/// How long a renewal lets us act.
fn for_us() -> Duration {
    #[cfg(feature = "mutants")]
    if quorate_planner::safety::mutants::is_broken("R13") {
        return DURATION * 100;
    }
    RENEW_DEADLINE
}

impl Leadership {
    /// There is no election: we lead as long as we run.
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

    /// Waits until we lead for the first time.
    pub async fn begun(&mut self) {
        // An error means the elector ended; whoever started it ends too.
        let _ = self.0.wait_for(|term| matches!(term, Term::Endless | Term::Until(_))).await;
    }
}

impl Elector {
    /// Competes for the lease in `namespace` under the name `identity`.
    pub fn new(client: kube::Client, namespace: &str, identity: String, clock: Clock) -> (Self, Leadership) {
        let (term, receiver) = watch::channel(Term::None);
        let api = Api::namespaced(client, namespace);
        (Self { api, identity, clock, term, seen: ClusterObjects::default() }, Leadership(receiver))
    }

    /// Competes and renews until `stop`, then lets the lease go; or until it was lost.
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
                // From before the request: nobody can have seen the renewal earlier.
                Ok(()) => self.lead(asked + for_us()),
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
        tokio::time::timeout(WRITE_DEADLINE, self.take_or_renew()).await.map_err(|_| TryError::Late)?
    }

    async fn take_or_renew(&mut self) -> Result<(), TryError> {
        let Some(lease) = self.api.get_opt(NAME).await? else {
            let lease = term::first(NAME, &self.identity, DURATION, timestamp(self.clock.now()));
            let created = self.api.create(&PostParams::default(), &lease).await?;
            self.seen.note(&created, Instant::now());
            return Ok(());
        };
        self.seen.note(&lease, Instant::now());
        match self.seen.standing(&self.identity, Instant::now()) {
            Standing::Held(by) => Err(TryError::Held(by)),
            Standing::Ours | Standing::Free => {
                let next = term::next(&lease, &self.identity, DURATION, timestamp(self.clock.now()));
                let written = self.write(&next).await?;
                self.seen.note(&written, Instant::now());
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
            Ok(Err(error)) => tracing::warn!(%error, "lease not released; it runs out by itself"),
            Err(_) => tracing::warn!("lease not released in time; it runs out by itself"),
        }
    }

    /// Carries the resourceVersion that was read, so that of two candidates one loses.
    async fn write(&self, lease: &Lease) -> kube::Result<Lease> {
        self.api.patch(NAME, &PatchParams::default(), &Patch::Merge(lease)).await
    }
}
