//! Waiting for what is asked for again and again.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

const PACE: Duration = Duration::from_millis(50);

/// Asks until the answer is that there is nothing left to wait for; fails with what was waited for last.
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
