//! The HTTP routes.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::extract::{ConnectInfo, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use quorate_api::job;
use serde::Deserialize;
use tokio::time::Instant;

use super::observe::{PACE, Watch};
use super::{Refusal, Volume, facts};

/// How long `/readyz` holds a request of a member that was ready before and is not.
const WAIT: Duration = Duration::from_millis(800);

/// How long it holds one of a member that was never ready: as long as most starts take, and a little less than the kubelet waits for
/// an answer (the timeout of the readiness probe). So the first request learns of readiness, and not one that comes a period later.
const FIRST_WAIT: Duration = Duration::from_millis(4500);

/// How old an observation may be that makes a member ready. A kubelet asks every second, etcd is asked every third time.
const FRESH: Duration = Duration::from_millis(2500);

const SHORTEST_WAIT: Duration = Duration::from_millis(200);
const LONGEST_WAIT: Duration = Duration::from_secs(2);
const OBSERVE: Duration = Duration::from_millis(500);

type Answer = (StatusCode, String);

#[derive(Deserialize)]
struct Wait {
    /// In milliseconds.
    wait: Option<u64>,
}

/// What the answers rest on.
#[derive(Clone)]
pub(super) struct Answers {
    pub(super) watch: Arc<Watch>,
    pub(super) grace: Duration,
    pub(super) volume: Arc<OnceLock<Volume>>,
    pub(super) refusal: Refusal,
}

pub(super) fn router(answers: Answers) -> Router {
    let routes = Router::new().route("/readyz", get(readyz)).route("/healthz", get(healthz));
    routes.route("/facts", get(facts_of)).route(job::VOLUME_PATH, get(volume)).with_state(answers)
}

/// A volume that hangs comes first: it is the cause of whatever else is found.
async fn readyz(State(answers): State<Answers>, Query(asked): Query<Wait>) -> Answer {
    let wait = asked.limited().unwrap_or(if answers.watch.was_ready() { WAIT } else { FIRST_WAIT });
    let end = Instant::now() + wait;
    while let Some(why) = answers.refusal() {
        if Instant::now() >= end {
            return answer(Err(why));
        }
        tokio::time::sleep_until(end.min(Instant::now() + PACE)).await;
    }
    if let Err(why) = answers.volume.get().map_or(Ok(()), |volume| volume.canary.check()) {
        return answer(Err(why));
    }
    if asked.wait.is_none() && answers.watch.is_ready_since(FRESH) {
        return answer(Ok(()));
    }
    answer(answers.watch.wait(wait, end).await)
}

/// Observes, but not for longer than a kubelet waits: a member that answers slowly does not hang yet.
async fn healthz(State(Answers { watch, grace, .. }): State<Answers>) -> Answer {
    let _ = tokio::time::timeout(OBSERVE, watch.observe()).await;
    match watch.last().silent_since.map(|since| since.elapsed()) {
        Some(silent) if silent > grace => answer(Err(format!("hung: no answer for {} s", silent.as_secs()))),
        Some(_) | None => answer(Ok(())),
    }
}

/// Without credentials, so only for processes of the Pod itself.
async fn facts_of(State(answers): State<Answers>, ConnectInfo(from): ConnectInfo<SocketAddr>) -> Response {
    let own = answers.watch.address().ip();
    if !from.ip().is_loopback() && from.ip() != own {
        return (StatusCode::FORBIDDEN, "facts are served inside the Pod only\n").into_response();
    }
    Json(facts::facts(&answers.watch, answers.volume.get()).await).into_response()
}

/// For the operator. It comes without credentials, as the kubelet does: two numbers tell nothing of the data.
async fn volume(State(answers): State<Answers>) -> Response {
    let unknown = |why: String| answer(Err(why)).into_response();
    let Some(Volume { canary, .. }) = answers.volume.get() else {
        return unknown("the volume was not looked at yet".to_owned());
    };
    if let Err(why) = canary.check() {
        return unknown(why);
    }
    match canary.space() {
        Some(space) => {
            Json(job::VolumeSpace { free_bytes: space.free, volume_bytes: space.all }).into_response()
        }
        None => unknown("the free space is not known".to_owned()),
    }
}

fn answer(answer: Result<(), String>) -> Answer {
    match answer {
        Ok(()) => (StatusCode::OK, "ok\n".to_owned()),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    }
}

impl Answers {
    /// Why etcd is not started yet.
    fn refusal(&self) -> Option<String> {
        self.refusal.lock().ok().and_then(|refusal| refusal.clone())
    }
}

impl Wait {
    fn limited(&self) -> Option<Duration> {
        Some(Duration::from_millis(self.wait?).clamp(SHORTEST_WAIT, LONGEST_WAIT))
    }
}
