//! Waiting without guessing how long.

use std::fmt::Debug;
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Asks until the answer is `Ok`, for at most 30 s; panics with the last answer otherwise.
pub async fn eventually<T, E: Debug>(what: &str, mut ask: impl AsyncFnMut() -> Result<T, E>) -> T {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(last) => assert!(Instant::now() < end, "not within 30 s: {what}; last: {last:?}"),
        }
        sleep(Duration::from_millis(50)).await;
    }
}
