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

use super::observe::Watch;
use super::{Refusal, Volume, facts};

/// In milliseconds; a little less than the second that a kubelet waits for an answer.
const WAIT: u64 = 800;
const SHORTEST_WAIT: u64 = 200;
const LONGEST_WAIT: u64 = 2000;
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
async fn readyz(State(answers): State<Answers>, Query(wait): Query<Wait>) -> Answer {
    let refusal = answers.refusal.lock().ok().and_then(|refusal| refusal.clone());
    if let Some(why) = refusal {
        return answer(Err(why));
    }
    if let Err(why) = answers.volume.get().map_or(Ok(()), |volume| volume.canary.check()) {
        return answer(Err(why));
    }
    answer(answers.watch.wait(wait.limited()).await)
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

impl Wait {
    fn limited(&self) -> Duration {
        Duration::from_millis(self.wait.unwrap_or(WAIT).clamp(SHORTEST_WAIT, LONGEST_WAIT))
    }
}
