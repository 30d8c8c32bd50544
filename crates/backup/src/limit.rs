//! How fast a snapshot is read from the member: a bucket of tokens that holds what a few milliseconds give.

use std::fmt;
use std::num::NonZeroU64;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use quorate_api::job::{Failure, FailureKind};
use quorate_api::quantity;
use tokio::time::{Instant, sleep_until};

/// What the bucket holds, as a time: timers are not much finer.
const HELD: Duration = Duration::from_millis(10);

/// The limit of a stream.
pub(crate) struct Limit {
    /// Bytes a second.
    rate: NonZeroU64,
    so_far: Mutex<SoFar>,
}

#[derive(Clone, Copy, Default)]
struct SoFar {
    /// When what was taken is paid for.
    paid: Option<Instant>,
    waited: Duration,
}

impl Limit {
    /// Of so many bytes a second. None at all is no limit.
    pub(crate) fn new(rate: u64) -> Option<Self> {
        NonZeroU64::new(rate).map(|rate| Self { rate, so_far: Mutex::default() })
    }

    /// How long so many bytes take.
    pub(crate) fn time_for(&self, bytes: u64) -> Duration {
        let nanoseconds = u128::from(bytes) * 1_000_000_000 / u128::from(self.rate.get());
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }

    /// How many bytes come in this time.
    pub(crate) fn bytes_in(&self, time: Duration) -> u64 {
        self.rate.get().saturating_mul(time.as_secs())
    }

    /// Bytes were taken. What was not taken in time, since the store was slow, is not made up for.
    pub(crate) fn took(&self, bytes: u64) {
        let now = Instant::now();
        let least = now.checked_sub(HELD).unwrap_or(now);
        self.change(|so_far| {
            so_far.paid = Some(so_far.paid.map_or(now, |paid| paid.max(least)) + self.time_for(bytes));
        });
    }

    /// Waits until more may be taken.
    pub(crate) async fn admits(&self) {
        let now = Instant::now();
        if let Some(paid) = self.change(|so_far| so_far.paid).filter(|paid| *paid > now + HELD) {
            sleep_until(paid).await;
            self.change(|so_far| so_far.waited += now.elapsed());
        }
    }

    /// For how long the stream has waited for the limit.
    pub(crate) fn waited(&self) -> Duration {
        self.change(|so_far| so_far.waited)
    }

    /// The failure of who asked for it.
    pub(crate) fn is_too_low(&self, why: &str) -> Failure {
        Failure::new(FailureKind::LimitTooLow, format!("{self} {why}, in another EtcdBackup"))
    }

    fn change<T>(&self, change: impl FnOnce(&mut SoFar) -> T) -> T {
        change(&mut self.so_far.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "spec.rateLimit ({} a second)", quantity::text(self.rate.get()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    /// As etcd sends.
    const CHUNK: u64 = 32 << 10;

    /// Takes so many chunks; each comes after this time.
    async fn take(limit: &Limit, chunks: u64, each: Duration) -> Duration {
        let began = Instant::now();
        for _ in 0..chunks {
            limit.admits().await;
            tokio::time::sleep(each).await;
            limit.took(CHUNK);
        }
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn o08_a_stream_is_as_fast_as_its_limit_and_not_faster() {
        for rate in [MIB / 16, MIB, 20 * MIB, 500 * MIB] {
            let limit = Limit::new(rate).unwrap();
            let took = take(&limit, 10 * rate / CHUNK, Duration::ZERO).await;
            assert!(took >= Duration::from_millis(9_400), "{rate}: {took:?}");
            assert!(took <= Duration::from_millis(10_100), "{rate}: {took:?}");
            assert!(limit.waited() >= Duration::from_secs(9), "{rate}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn o08_what_a_slow_store_left_is_not_made_up_for_in_a_burst() {
        let limit = Limit::new(MIB).unwrap();
        let slow = take(&limit, 32, Duration::from_secs(1)).await;
        assert!(limit.waited() < slow / 20, "the store is slower than the limit: {:?}", limit.waited());
        let took = take(&limit, 320, Duration::ZERO).await;
        assert!(took >= Duration::from_millis(9_900), "{took:?}");
    }
}
