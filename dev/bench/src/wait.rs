//! Polls until a condition is met.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

const PACE: Duration = Duration::from_millis(50);

/// Polls until nothing is left to wait for; fails with what was left last. A request that fails is made again until then: one lost
/// reply does not end a measurement.
pub async fn until(
    what: &str,
    patience: Duration,
    mut left: impl AsyncFnMut() -> Result<Option<String>>,
) -> Result<()> {
    let start = Instant::now();
    loop {
        let left = match left().await {
            Ok(None) => return Ok(()),
            Ok(Some(left)) => left,
            Err(error) => format!("{error:#}"),
        };
        if start.elapsed() > patience {
            bail!("{what}: not after {patience:?}: {left}");
        }
        tokio::time::sleep(PACE).await;
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[tokio::test]
    async fn a_request_that_fails_is_made_again_until_the_time_is_up() {
        let mut asked = 0;
        until("it is there", Duration::from_secs(10), async || {
            asked += 1;
            if asked < 3 { Err(anyhow!("connection reset")) } else { Ok(None) }
        })
        .await
        .unwrap();
        let never = until("it is there", Duration::ZERO, async || Err(anyhow!("connection reset"))).await;
        assert_eq!(never.unwrap_err().to_string(), "it is there: not after 0ns: connection reset");
    }
}
