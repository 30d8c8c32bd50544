//! The only place that reads the time. Everything else gets it as a value.

use std::time::{SystemTime, UNIX_EPOCH};

use quorate_model::Instant;

/// A clock.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    System,
    Runtime { epoch: Instant, begun: tokio::time::Instant },
}

impl Clock {
    /// The system's clock.
    pub fn system() -> Self {
        Self(Source::System)
    }

    /// A clock that shows `epoch` now and follows the clock of the tokio runtime. In a paused runtime it stops until every
    /// task sleeps, then jumps.
    pub fn of_runtime(epoch: Instant) -> Self {
        Self(Source::Runtime { epoch, begun: tokio::time::Instant::now() })
    }

    /// The time.
    pub fn now(&self) -> Instant {
        match &self.0 {
            Source::System => system_now(),
            Source::Runtime { epoch, begun } => {
                Instant(epoch.0 + i64::try_from(begun.elapsed().as_millis()).unwrap_or(i64::MAX - epoch.0))
            }
        }
    }
}

/// A time as Kubernetes writes it.
pub(crate) fn timestamp(at: Instant) -> jiff::Timestamp {
    jiff::Timestamp::from_millisecond(at.0).unwrap_or(jiff::Timestamp::UNIX_EPOCH)
}

#[expect(clippy::disallowed_methods, reason = "this is the edge at which time enters")]
fn system_now() -> Instant {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Instant(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_clock_of_the_runtime_follows_the_runtime() {
        let clock = Clock::of_runtime(Instant(1_000));
        assert_eq!(clock.now(), Instant(1_000));
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(clock.now(), Instant(4_000));
    }
}
