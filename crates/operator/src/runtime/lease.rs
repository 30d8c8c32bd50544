//! Leader election by Lease, as in client-go: the holder renews it and leads. A candidate takes it over when it has seen no
//! renewal for the whole duration by its **own** clock, so clocks may differ.
//!
//! A lease cannot stop a write that is already under way. So a leader acts only until the renew deadline, which is
//! shorter than the lease by more than any call lasts (R13), and every write carries preconditions.

mod term;

use std::time::Duration;

use futures::future::BoxFuture;
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

/// By how much the clock on the wall may go ahead until the lease counts as lost, until it is renewed. It is set now and then.
const SUSPENDED: quorate_model::Span = quorate_model::Span::seconds(2);

/// How often the holder renews it, and a candidate tries to take it.
const RETRY: Duration = Duration::from_secs(2);

/// The name of the Lease.
const NAME: &str = "quorate.operator.etcd.io";

/// Whether this operator leads. Checked right before every write.
#[derive(Clone, Debug)]
pub struct Leadership {
    term: watch::Receiver<Term>,
    clock: Clock,
}

/// Until when this operator leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Term {
    /// There is no election.
    Endless,
    /// It has not led yet.
    None,
    /// Until this time, unless it renews; and by the clock on the wall, if that comes first. While a machine is suspended only the
    /// latter goes on, and another operator may lead since.
    Until { end: Instant, on_the_wall: quorate_model::Instant },
    /// It never leads again: the process ends.
    Over,
}

/// Competes for the lease and renews it.
pub struct Elector {
    api: Api<Lease>,
    identity: String,
    clock: Clock,
    term: watch::Sender<Term>,
    observed: ObservedLease,
    has_work: HasWork,
    /// Since when there is no Lease, and this candidate has never seen one.
    missing_since: Option<Instant>,
    /// The resource version of the newest Lease that the API server has replied with.
    newest: u64,
}

/// Asks whether there is anything that another operator may be working on.
pub type HasWork = Box<dyn Fn() -> BoxFuture<'static, kube::Result<bool>> + Send + Sync>;

/// Leadership was lost.
#[derive(Debug, thiserror::Error)]
pub enum LeaseLost {
    /// Nobody knows who leads.
    #[error("the lease was not renewed in time; another operator may lead now")]
    NotRenewed,
    /// It was read that another one leads.
    #[error("{0} holds the lease now")]
    HeldByOther(String),
    /// The API server replied with an older Lease than before.
    #[error(
        "the data of Kubernetes went back in time: the API server has the Lease of resource version {found}, and had {newest}. What this process \
         watched is of a future that does not exist any more, so it begins anew"
    )]
    WentBack {
        /// The resource version of its last reply.
        found: u64,
        /// The newest that it replied with before.
        newest: u64,
    },
}

/// Why the lease was neither taken nor renewed.
#[derive(Debug, thiserror::Error)]
enum TryError {
    #[error("{0} holds the lease")]
    HeldByOther(String),
    #[error(
        "there is no lease; it may have been deleted a moment ago, and its holder leads until it has read that"
    )]
    Missing,
    #[error("no reply within {WRITE_DEADLINE:?}")]
    TimedOut,
    #[error("the Lease of resource version {found} was read after {newest}")]
    WentBack { found: u64, newest: u64 },
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
        Self { term: watch::channel(Term::Endless).1, clock: Clock::system() }
    }

    /// Of an operator that never leads.
    #[cfg(test)]
    pub fn none() -> Self {
        Self { term: watch::channel(Term::None).1, clock: Clock::system() }
    }

    /// Whether a write may be sent now.
    pub fn may_act(&self) -> bool {
        self.term.borrow().lasts(Instant::now(), self.clock.now())
    }

    /// Waits until this operator leads for the first time.
    pub async fn begun(&mut self) {
        // An error means that the elector ended, and the operator ends with it.
        let _ = self.term.wait_for(|term| matches!(term, Term::Endless | Term::Until { .. })).await;
    }
}

impl Term {
    fn lasts(self, now: Instant, on_the_clock: quorate_model::Instant) -> bool {
        match self {
            Self::Endless => true,
            Self::Until { end, on_the_wall } => now < end && on_the_clock < on_the_wall + SUSPENDED,
            Self::None | Self::Over => false,
        }
    }
}

impl Elector {
    /// Competes for the lease in `namespace` under the name `identity`. Where there is no Lease and `has_work` says so, the Lease may have been
    /// deleted; else this is the first operator.
    pub fn new(
        client: kube::Client,
        namespace: &str,
        identity: String,
        clock: Clock,
        has_work: HasWork,
    ) -> (Self, Leadership) {
        let (term, receiver) = watch::channel(Term::None);
        let api = Api::namespaced(client, namespace);
        let leadership = Leadership { term: receiver, clock: clock.clone() };
        let observed = ObservedLease::default();
        (Self { api, identity, clock, term, observed, has_work, missing_since: None, newest: 0 }, leadership)
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
            let (asked, on_the_wall) = (Instant::now(), self.clock.now());
            match self.attempt().await {
                // Counted from before the request: no candidate can have seen the renewal earlier.
                Ok(()) => {
                    let millis = u64::try_from(acting_time().as_millis()).unwrap_or(u64::MAX);
                    let on_the_wall = on_the_wall + quorate_model::Span(millis);
                    self.lead(Term::Until { end: asked + acting_time(), on_the_wall });
                }
                // It was read from the API server: whatever is left of the term, another one acts.
                Err(TryError::HeldByOther(holder)) if self.leads() => {
                    self.term.send_replace(Term::Over);
                    return Err(LeaseLost::HeldByOther(holder));
                }
                Err(TryError::WentBack { found, newest }) => {
                    self.term.send_replace(Term::Over);
                    return Err(LeaseLost::WentBack { found, newest });
                }
                Err(error) => tracing::debug!(%error, "lease not taken"),
            }
            if self.is_over() {
                self.term.send_replace(Term::Over);
                return Err(LeaseLost::NotRenewed);
            }
        }
        self.release().await;
        Ok(())
    }

    fn lead(&self, term: Term) {
        if *self.term.borrow() == Term::None {
            tracing::info!(identity = %self.identity, "leading");
        }
        self.term.send_replace(term);
    }

    fn leads(&self) -> bool {
        matches!(*self.term.borrow(), Term::Until { .. })
    }

    fn is_over(&self) -> bool {
        matches!(*self.term.borrow(), Term::Until { end, .. } if Instant::now() >= end)
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
            // Nor does a candidate that never saw it know whether it has a holder.
            if !self.observed.is_known() {
                let missing_since = *self.missing_since.get_or_insert_with(Instant::now);
                if missing_since.elapsed() < DURATION && (self.has_work)().await? {
                    return Err(TryError::Missing);
                }
            }
            let lease = term::first(NAME, &self.identity, DURATION, timestamp(self.clock.now()));
            let created = self.api.create(&PostParams::default(), &lease).await?;
            self.note_version(&created)?;
            self.observed.update(&created, Instant::now());
            return Ok(());
        };
        self.note_version(&lease)?;
        self.observed.update(&lease, Instant::now());
        match self.observed.holder(&self.identity, Instant::now()) {
            Holder::Other(name) => Err(TryError::HeldByOther(name)),
            Holder::Us | Holder::Nobody => {
                let next = term::next(&lease, &self.identity, DURATION, timestamp(self.clock.now()));
                let written = self.write(&next).await?;
                self.note_version(&written)?;
                self.observed.update(&written, Instant::now());
                Ok(())
            }
        }
    }

    /// Resource versions only grow, and each reply is of a read that the API server's store confirmed. One that is less than an earlier one is of a
    /// store that was restored: watches that go on from the later version would be silent until it is reached again.
    fn note_version(&mut self, lease: &Lease) -> Result<(), TryError> {
        let version = lease.metadata.resource_version.as_ref().and_then(|version| version.parse().ok());
        let Some(found) = version else { return Ok(()) };
        if found < self.newest {
            return Err(TryError::WentBack { found, newest: self.newest });
        }
        self.newest = found;
        Ok(())
    }

    async fn release(&mut self) {
        if !matches!(self.term.send_replace(Term::Over), Term::Until { .. }) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn m27_a_machine_that_was_suspended_does_not_act_on_the_lease_of_before() {
        let now = Instant::now();
        let at = |seconds: i64| quorate_model::Instant(seconds * 1000);
        let term = Term::Until { end: now + RENEW_DEADLINE, on_the_wall: at(110) };
        assert!(term.lasts(now + Duration::from_secs(5), at(105)));
        // A clock that is set by a second, or set back.
        assert!(term.lasts(now + Duration::from_secs(9), at(111)));
        assert!(term.lasts(now + Duration::from_secs(5), at(20)));
        assert!(!term.lasts(now + Duration::from_secs(5), at(112)), "suspended for seven seconds");
        assert!(!term.lasts(now + RENEW_DEADLINE, at(110)));
    }
}
