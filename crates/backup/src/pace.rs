//! Whether a snapshot comes fast enough. etcd keeps a read transaction open until its last byte is taken. What is written meanwhile makes
//! the database file grow, because pages are not used again.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use quorate_api::job::{Failure, FailureKind};
use quorate_etcd::{MemberClient, MemberStatus};
use tokio::time::{Instant, interval_at};

/// How often it is checked.
const LOOK: Duration = Duration::from_secs(5);
/// The least bytes in each [`WINDOW`]: 1 MiB a second.
const FLOOR: u64 = 60 << 20;
const WINDOW: Duration = Duration::from_secs(60);
/// The quota of etcd where it does not report one.
const DEFAULT_QUOTA: u64 = 2 << 30;

/// How far the stream is.
#[derive(Default)]
pub(crate) struct Pace {
    received: AtomicU64,
    ended: AtomicBool,
}

impl Pace {
    /// Bytes have arrived.
    pub(crate) fn received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// etcd has sent all of it: what follows does not concern etcd.
    pub(crate) fn ended(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    /// Ends only when the stream harms etcd, with the reason.
    pub(crate) async fn harms(&self, client: &MemberClient, at_start: &MemberStatus) -> Failure {
        let quota = at_start.db_size_quota.unwrap_or(DEFAULT_QUOTA);
        let mut looks = interval_at(Instant::now() + LOOK, LOOK);
        let mut window = (Instant::now(), 0);
        loop {
            looks.tick().await;
            if self.ended.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
            let received = self.received.load(Ordering::Relaxed);
            if window.0.elapsed() >= WINDOW {
                if received - window.1 < FLOOR {
                    let bytes = received - window.1;
                    return too_slow(&format!("only {bytes} bytes came in {} s", WINDOW.as_secs()));
                }
                window = (Instant::now(), received);
            }
            // That the member does not answer now is noticed by the stream itself.
            if let Ok(now) = client.status().await
                && now.db_size.saturating_sub(at_start.db_size) > quota / 10
            {
                let grown = now.db_size - at_start.db_size;
                return too_slow(&format!("the database grew by {grown} bytes meanwhile, its quota is {quota}"));
            }
        }
    }
}

fn too_slow(why: &str) -> Failure {
    let message = format!(
        "the store takes the snapshot too slowly for etcd: {why}. The next try must write it to a volume of the Job first (spool)"
    );
    Failure::new(FailureKind::SnapshotFailed, message)
}
