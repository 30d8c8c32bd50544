//! Observes the member, one request at a time however many callers ask.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use quorate_etcd::{CallError, HandshakeError, MemberStatus, Read, Refusal, Transport, handshake};
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;

use super::credentials::Credentials;
use crate::log;

/// A key that nobody writes: what counts is that the read is answered.
const KEY: &str = "quorate/probe";

/// The time between two observations while a caller waits.
pub(super) const PACE: Duration = Duration::from_millis(50);

/// How long etcd may take to answer a TLS handshake without credentials.
const SIGN_OF_LIFE: Duration = Duration::from_millis(500);

/// The result of one observation.
#[derive(Clone, Debug)]
pub(super) struct Observation {
    /// The member votes and serves a local read, or did before there was no trust between it and the probe; otherwise why not.
    pub(super) ready: Result<(), String>,
    /// Since when a process that once answered has not: it hangs.
    pub(super) silent_since: Option<Instant>,
    /// What it reported; `None` if it did not answer, or did not want to say.
    pub(super) status: Option<MemberStatus>,
    /// When the observation began.
    begun: Instant,
}

/// The member that is observed.
pub(super) struct Watch {
    address: SocketAddr,
    observer: Mutex<Observer>,
    last: watch::Sender<Observation>,
    was_ready: AtomicBool,
}

/// What an observation needs; locked while it runs.
struct Observer {
    credentials: Credentials,
    begun: Option<Instant>,
    answered: bool,
    /// The process voted and served when it was last asked.
    served: bool,
    /// Why it cannot be asked, although it lives.
    distrust: Option<String>,
}

impl Watch {
    pub(super) fn new(credentials: Credentials) -> Self {
        let not_yet = Err("the member has not been asked yet".to_owned());
        Self {
            address: credentials.address(),
            observer: Mutex::new(Observer::new(credentials)),
            last: watch::Sender::new(Observation {
                ready: not_yet,
                silent_since: None,
                status: None,
                begun: Instant::now(),
            }),
            was_ready: AtomicBool::new(false),
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

    /// Whether the member was ready once since the agent started.
    pub(super) fn was_ready(&self) -> bool {
        self.was_ready.load(Ordering::Relaxed)
    }

    /// Whether the last observation began within this time and found the member ready.
    pub(super) fn is_ready_since(&self, age: Duration) -> bool {
        let last = self.last.borrow();
        last.ready.is_ok() && last.begun.elapsed() <= age
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

    /// Observes until the member is ready or the time is up, which was `wait` long; then says why it is not.
    pub(super) async fn wait(self: &Arc<Self>, wait: Duration, end: Instant) -> Result<(), String> {
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
        if observation.ready.is_ok() {
            self.was_ready.store(true, Ordering::Relaxed);
        }
        self.last.send_replace(observation);
    }
}

impl Observer {
    fn new(credentials: Credentials) -> Self {
        Self { credentials, begun: None, answered: false, served: false, distrust: None }
    }

    async fn observe(&mut self, begun: Instant, silent_since: Option<Instant>) -> Observation {
        let answer = match self.ask().await {
            Err(NoAnswer { why, cause: Cause::NotReached }) => {
                Err(NoAnswer { why, cause: self.look_for_life().await })
            }
            other => other,
        };
        match answer {
            Ok(Answer { ready, status }) => {
                self.answered = true;
                self.served = ready.is_ok();
                self.distrust = None;
                Observation { ready, silent_since: None, status, begun }
            }
            Err(NoAnswer { why, cause: Cause::Distrust }) => {
                self.answered = true;
                if self.distrust.as_ref() != Some(&why) {
                    log::info(&format!("etcd lives, and cannot be asked: {why}"));
                }
                self.distrust = Some(why.clone());
                // One Secret has the certificates of all members: what is wrong with it must not take all of them out of the Service.
                let ready = if self.served { Ok(()) } else { Err(why) };
                Observation { ready, silent_since: None, status: None, begun }
            }
            Err(NoAnswer { why, cause }) => {
                // The process is gone. The next one must first answer once before its silence counts as a hang.
                if cause == Cause::Gone {
                    self.answered = false;
                    self.served = false;
                }
                self.distrust = None;
                let silent_since = self.answered.then(|| silent_since.unwrap_or(begun));
                Observation { ready: Err(why), silent_since, status: None, begun }
            }
        }
    }

    /// What the member answers; or why it does not.
    async fn ask(&mut self) -> Result<Answer, NoAnswer> {
        let client = self.credentials.client().map_err(|why| NoAnswer { why, cause: Cause::NotReached })?;
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
            Err(error @ CallError::Unreachable(_)) => return Err(error.into()),
            // It answers its status, which it has in memory, and not a read: a hang of the store counts as silence.
            Err(error) => {
                return Err(NoAnswer { why: format!("a local read failed: {error}"), cause: Cause::Silent });
            }
        };
        Ok(Answer { ready, status })
    }

    /// Why etcd could not be asked: a certificate that one side refuses, or one that is missing, says nothing of the process. So this
    /// asks for a TLS handshake without credentials. A process that hangs lets the kernel accept the connection, and sends nothing.
    async fn look_for_life(&self) -> Cause {
        if !self.credentials.uses_tls() {
            return Cause::Silent;
        }
        let address = self.credentials.address();
        let name = address.ip().to_string();
        match handshake(&Transport::network(), address, &name, SIGN_OF_LIFE).await {
            // Also what is refused here was answered.
            Ok(_) | Err(HandshakeError::Handshake(_) | HandshakeError::Closed) => Cause::Distrust,
            Err(HandshakeError::Connect(error)) if error.kind() == ErrorKind::ConnectionRefused => {
                Cause::Gone
            }
            Err(
                HandshakeError::BadName(_)
                | HandshakeError::Connect(_)
                | HandshakeError::TimedOut(_)
                | HandshakeError::HandshakeTimedOut(_),
            ) => Cause::Silent,
        }
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
    cause: Cause,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// There is no process that could hang.
    Gone,
    /// No call was sent; why is to be found out.
    NotReached,
    /// The process lives: etcd and the probe do not trust each other.
    Distrust,
    /// The process did not answer.
    Silent,
}

impl From<CallError> for NoAnswer {
    fn from(error: CallError) -> Self {
        let cause = match &error {
            CallError::Unreachable(why) if why == "connection refused" => Cause::Gone,
            CallError::Unreachable(_) => Cause::NotReached,
            CallError::Refused(..) | CallError::Unknown(_) => Cause::Silent,
        };
        Self { why: error.to_string(), cause }
    }
}
