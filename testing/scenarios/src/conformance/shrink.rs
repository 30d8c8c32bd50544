//! Shortens a sequence that shows a difference.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::{Call, Difference};

/// How long to look for a shorter sequence.
const DEADLINE: Duration = Duration::from_secs(60);

/// Leaves out calls as long as the rest still shows the same difference. Returns the rest and its difference.
pub async fn shortest(
    calls: &[Call],
    found: Difference,
    mut again: impl AsyncFnMut(&[Call]) -> Result<Option<Difference>>,
) -> Result<(Vec<Call>, Difference)> {
    let (mut calls, mut found) = (calls[..=found.at].to_vec(), found);
    let start = Instant::now();
    let mut share = calls.len().div_ceil(2);
    while share > 0 {
        // The last call is the one that differs.
        let mut end = calls.len() - 1;
        while end > 0 && start.elapsed() < DEADLINE {
            let from = end.saturating_sub(share);
            let mut fewer = calls.clone();
            fewer.drain(from..end);
            if let Some(still) = again(&fewer).await?.filter(|still| still.what == found.what) {
                fewer.truncate(still.at + 1);
                (calls, found) = (fewer, still);
                end = from.min(calls.len() - 1);
            } else {
                end = from;
            }
        }
        share /= 2;
    }
    Ok((calls, found))
}
