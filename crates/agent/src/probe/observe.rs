//! Observes the member, one request at a time however many callers ask.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use quorate_etcd::{CallError, MemberStatus, Read, Refusal};
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;

use super::credentials::Credentials;
use crate::log;

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
    /// What it reported; `None` if it did not answer, or did not want to say.
    pub(super) status: Option<MemberStatus>,
}

/// The member that is observed.
pub(super) struct Watch {
    address: SocketAddr,
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
            address: credentials.address(),
            observer: Mutex::new(Observer { credentials, begun: None, answered: false }),
            last: watch::Sender::new(Observation { ready: not_yet, silent_since: None, status: None }),
        }
    }

    /// The address of the member.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
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
        let mut answered = None;
        loop {
            let Ok(observation) = tokio::time::timeout_at(end, self.observe()).await else {
                // What the member was a moment ago counts more than that the last look was cut off.
                return Err(answered.unwrap_or_else(|| self.no_answer(wait)));
            };
            let Err(why) = observation.ready else { return Ok(()) };
            let again = Instant::now() + PACE;
            if again >= end {
                return Err(why);
            }
            answered = Some(why);
            tokio::time::sleep_until(again).await;
        }
    }

    /// Why a member is not ready that gave no answer within `wait`.
    fn no_answer(&self, wait: Duration) -> String {
        let no_answer = format!("no answer within {wait:?}");
        match self.last().ready {
            Ok(()) => no_answer,
            Err(before) => format!("{no_answer}; before: {before}"),
        }
    }

    fn record(&self, observation: Observation) {
        match (&self.last.borrow().ready, &observation.ready) {
            (Err(_), Ok(())) => log::info("ready"),
            (Ok(()), Err(why)) => log::info(&format!("not ready any more: {why}")),
            (Ok(()), Ok(())) | (Err(_), Err(_)) => {}
        }
        self.last.send_replace(observation);
    }
}

impl Observer {
    async fn observe(&mut self, begun: Instant, silent_since: Option<Instant>) -> Observation {
        match self.ask().await {
            Ok(Answer { ready, status }) => {
                self.answered = true;
                Observation { ready, silent_since: None, status }
            }
            Err(NoAnswer { why, gone }) => {
                // The process is gone. The next one must first answer once before its silence counts as a hang.
                self.answered &= !gone;
                let silent_since = self.answered.then(|| silent_since.unwrap_or(begun));
                Observation { ready: Err(why), silent_since, status: None }
            }
        }
    }

    /// What the member answers; or why it does not.
    async fn ask(&mut self) -> Result<Answer, NoAnswer> {
        // Without credentials nothing is known of the process, so this does not count as its silence.
        let client = self.credentials.client().map_err(|why| NoAnswer { why, gone: true })?;
        let status = match client.status().await {
            Ok(status) => Some(status),
            Err(error) if is_refused_by_auth(&error) => None,
            Err(error) => return Err(error.into()),
        };
        let is_learner = match &status {
            Some(status) => status.is_learner,
            // A learner refuses the list before etcd asks for a user.
            None => match client.member_list(false).await {
                Ok(_) => false,
                Err(error) if is_refused_by_auth(&error) => false,
                Err(error) if error.refusal() == Some(Refusal::NotSupportedForLearner) => true,
                Err(error) => return Err(error.into()),
            },
        };
        if is_learner {
            return Ok(Answer { ready: Err("the member is a learner".to_owned()), status });
        }
        let ready = match client.get(KEY, Read::Serializable).await {
            Ok(_) => Ok(()),
            Err(error) if is_refused_by_auth(&error) => Ok(()),
            // It answers its status, which it has in memory, and not a read: a hang of the store counts as silence.
            Err(error) => return Err(NoAnswer { why: format!("a local read failed: {error}"), gone: false }),
        };
        Ok(Answer { ready, status })
    }
}

/// Whether etcd's auth refused the call: a living member did, after it had looked the user up in its store.
fn is_refused_by_auth(error: &CallError) -> bool {
    // Where users or roles change meanwhile, the next call is judged by what holds then.
    error.refusal().is_some_and(|why| why.is_about_caller() || why == Refusal::AuthRevisionOld)
}

struct Answer {
    ready: Result<(), String>,
    status: Option<MemberStatus>,
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
