//! Observes the member, one request at a time however many callers ask.

use std::sync::Arc;
use std::time::Duration;

use quorate_etcd::{CallError, Read};
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;

use super::credentials::Credentials;

/// A key that nobody writes: what counts is that the read is answered.
const KEY: &str = "quorate/probe";

/// The time between two observations while a caller waits.
const PACE: Duration = Duration::from_millis(50);

/// The result of one observation.
#[derive(Clone, Debug)]
pub(super) struct Observation {
    /// The member votes and serves a local read; otherwise why not.
    pub(super) ready: Result<(), String>,
    /// Since when a process that once answered has not: it hangs.
    pub(super) silent_since: Option<Instant>,
}

/// The member that is observed.
pub(super) struct Watch {
    observer: Mutex<Observer>,
    last: watch::Sender<Observation>,
}

/// What an observation needs; locked while it runs.
struct Observer {
    credentials: Credentials,
    begun: Option<Instant>,
    answered: bool,
}

impl Watch {
    pub(super) fn new(credentials: Credentials) -> Self {
        let not_yet = Err("the member has not been asked yet".to_owned());
        Self {
            observer: Mutex::new(Observer { credentials, begun: None, answered: false }),
            last: watch::Sender::new(Observation { ready: not_yet, silent_since: None }),
        }
    }

    /// The last observation.
    pub(super) fn last(&self) -> Observation {
        self.last.borrow().clone()
    }

    /// Waits for an observation that began no earlier than this call. Callers that arrive while one runs share the next.
    /// An observation goes on when its caller leaves.
    pub(super) async fn observe(self: &Arc<Self>) -> Observation {
        let asked = Instant::now();
        let this = Arc::clone(self);
        let observing = tokio::spawn(async move {
            let mut observer = this.observer.lock().await;
            if observer.begun.is_none_or(|begun| begun < asked) {
                let begun = Instant::now();
                observer.begun = Some(begun);
                let observation = observer.observe(begun, this.last().silent_since).await;
                this.record(observation);
            }
        });
        observing.await.expect("observing does not panic");
        self.last()
    }

    /// Observes until the member is ready or the time is up; then says why it is not.
    pub(super) async fn wait(self: &Arc<Self>, wait: Duration) -> Result<(), String> {
        let end = Instant::now() + wait;
        loop {
            let Ok(observation) = tokio::time::timeout_at(end, self.observe()).await else {
                let waited = format!("no answer within {wait:?}");
                let before = self.last().ready.err();
                return Err(before.map_or(waited.clone(), |why| format!("{waited}; before: {why}")));
            };
            let again = Instant::now() + PACE;
            if observation.ready.is_ok() || again >= end {
                return observation.ready;
            }
            tokio::time::sleep_until(again).await;
        }
    }

    fn record(&self, observation: Observation) {
        match (&self.last.borrow().ready, &observation.ready) {
            (Err(_), Ok(())) => tracing::info!("ready"),
            (Ok(()), Err(why)) => tracing::info!("not ready any more: {why}"),
            (Ok(()), Ok(())) | (Err(_), Err(_)) => {}
        }
        self.last.send_replace(observation);
    }
}

impl Observer {
    async fn observe(&mut self, begun: Instant, silent_since: Option<Instant>) -> Observation {
        match self.ask().await {
            Ok(ready) => {
                self.answered = true;
                Observation { ready, silent_since: None }
            }
            Err(NoAnswer { why, gone }) => {
                // The process is gone. The next one must first answer once before its silence counts as a hang.
                self.answered &= !gone;
                let silent_since = self.answered.then(|| silent_since.unwrap_or(begun));
                Observation { ready: Err(why), silent_since }
            }
        }
    }

    /// Whether the member is ready; or why it does not answer.
    async fn ask(&mut self) -> Result<Result<(), String>, NoAnswer> {
        // Without credentials nothing is known of the process, so this does not count as its silence.
        let client = self.credentials.client().map_err(|why| NoAnswer { why, gone: true })?;
        let status = client.status().await.map_err(NoAnswer::from)?;
        if status.is_learner {
            return Ok(Err("the member is a learner".to_owned()));
        }
        let read = client.get(KEY, Read::Serializable).await;
        Ok(read.map(drop).map_err(|error| format!("a local read failed: {error}")))
    }
}

struct NoAnswer {
    why: String,
    /// There is no process that could hang.
    gone: bool,
}

impl From<CallError> for NoAnswer {
    fn from(error: CallError) -> Self {
        let gone = match &error {
            CallError::Unreachable(why) => why == "connection refused",
            CallError::Refused(..) | CallError::Unknown(_) => false,
        };
        Self { why: error.to_string(), gone }
    }
}
