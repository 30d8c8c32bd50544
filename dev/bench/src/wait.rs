//! Polls until a condition is met.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

const PACE: Duration = Duration::from_millis(50);

/// Polls until nothing is left to wait for; fails with what was left last.
pub async fn until(
    what: &str,
    patience: Duration,
    mut left: impl AsyncFnMut() -> Result<Option<String>>,
) -> Result<()> {
    let start = Instant::now();
    while let Some(left) = left().await.with_context(|| what.to_owned())? {
        if start.elapsed() > patience {
            bail!("{what}: not after {patience:?}: {left}");
        }
        tokio::time::sleep(PACE).await;
    }
    Ok(())
}
