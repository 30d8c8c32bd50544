//! Waits for a condition.

use std::fmt::Debug;
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Calls `ask` until it returns `Ok`, for at most 30 s. Then it panics with the last error.
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
