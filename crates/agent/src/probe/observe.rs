//! Looks at the member, one at a time whatever the number of those who ask.

use std::sync::Arc;
use std::time::Duration;

use quorate_etcd::{CallError, Read};
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;

use super::credentials::Credentials;

/// A key nobody writes: what counts is that the read is answered.
const KEY: &str = "quorate/probe";

/// How long between two looks for somebody who waits.
const PACE: Duration = Duration::from_millis(50);

/// What the last look found.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    /// The member answers; otherwise why not.
    pub(super) started: Result<(), String>,
    /// It votes and serves a local read; otherwise why not.
    pub(super) ready: Result<(), String>,
    /// Since when a process that once answered has not: it hangs.
    pub(super) silent_since: Option<Instant>,
}

/// The member under watch.
pub(super) struct Watch {
    looking: Mutex<Looking>,
    seen: watch::Sender<Seen>,
}

/// What it takes to look; held while looking.
struct Looking {
    credentials: Credentials,
    begun: Option<Instant>,
    answered: bool,
}

impl Watch {
    pub(super) fn new(credentials: Credentials) -> Self {
        let not_yet = || Err("the member has not been asked yet".to_owned());
        Self {
            looking: Mutex::new(Looking { credentials, begun: None, answered: false }),
            seen: watch::Sender::new(Seen { started: not_yet(), ready: not_yet(), silent_since: None }),
        }
    }

    /// What the last look found.
    pub(super) fn seen(&self) -> Seen {
        self.seen.borrow().clone()
    }

    /// Waits for a look that began no earlier than this call. Who comes while one is under way shares the next; it goes
    /// on if its caller turns away.
    pub(super) async fn look(self: &Arc<Self>) -> Seen {
        let asked = Instant::now();
        let this = Arc::clone(self);
        let look = tokio::spawn(async move {
            let mut looking = this.looking.lock().await;
            if looking.begun.is_none_or(|begun| begun < asked) {
                let begun = Instant::now();
                looking.begun = Some(begun);
                let seen = looking.look(begun, this.seen().silent_since).await;
                this.tell(seen);
            }
        });
        look.await.expect("looking does not panic");
        self.seen()
    }

    /// Looks until the answer is yes or the time is up; then why it is no.
    pub(super) async fn wait(
        self: &Arc<Self>,
        wait: Duration,
        desired: impl Fn(Seen) -> Result<(), String>,
    ) -> Result<(), String> {
        let end = Instant::now() + wait;
        loop {
            let Ok(seen) = tokio::time::timeout_at(end, self.look()).await else {
                let waited = format!("no answer within {wait:?}");
                return Err(desired(self.seen())
                    .err()
                    .map_or(waited.clone(), |why| format!("{waited}; before: {why}")));
            };
            let answer = desired(seen);
            let again = Instant::now() + PACE;
            if answer.is_ok() || again >= end {
                return answer;
            }
            tokio::time::sleep_until(again).await;
        }
    }

    fn tell(&self, seen: Seen) {
        match (&self.seen.borrow().ready, &seen.ready) {
            (Err(_), Ok(())) => tracing::info!("ready"),
            (Ok(()), Err(why)) => tracing::info!("not ready any more: {why}"),
            (Ok(()), Ok(())) | (Err(_), Err(_)) => {}
        }
        self.seen.send_replace(seen);
    }
}

impl Looking {
    async fn look(&mut self, begun: Instant, silent_since: Option<Instant>) -> Seen {
        match self.ask().await {
            Ok(ready) => {
                self.answered = true;
                Seen { started: Ok(()), ready, silent_since: None }
            }
            Err(NoAnswer { why, gone }) => {
                // The process is gone. The next one has its own start to make before it can be called hung.
                self.answered &= !gone;
                let silent_since = self.answered.then(|| silent_since.unwrap_or(begun));
                Seen { started: Err(why.clone()), ready: Err(why), silent_since }
            }
        }
    }

    /// Whether it is ready; or why it does not even answer.
    async fn ask(&mut self) -> Result<Result<(), String>, NoAnswer> {
        // Without credentials nothing is known of the process: that does not count as its silence.
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
    /// There is no process to be called hung.
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
