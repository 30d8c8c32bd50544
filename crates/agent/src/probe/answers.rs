//! The HTTP routes.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::routing::get;
use serde::Deserialize;

use super::observe::Watch;

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

pub(super) fn router(watch: Arc<Watch>, grace: Duration) -> Router {
    let healthz = move |State(watch): State<Arc<Watch>>| healthz(watch, grace);
    Router::new().route("/readyz", get(readyz)).route("/healthz", get(healthz)).with_state(watch)
}

async fn readyz(State(watch): State<Arc<Watch>>, Query(wait): Query<Wait>) -> Answer {
    answer(watch.wait(wait.limited()).await)
}

/// Observes, but not for longer than a kubelet waits: a member that answers slowly does not hang yet.
async fn healthz(watch: Arc<Watch>, grace: Duration) -> Answer {
    let _ = tokio::time::timeout(OBSERVE, watch.observe()).await;
    match watch.last().silent_since.map(|since| since.elapsed()) {
        Some(silent) if silent > grace => answer(Err(format!("hung: no answer for {} s", silent.as_secs()))),
        Some(_) | None => answer(Ok(())),
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
