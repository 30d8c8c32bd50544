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
                return too_slow(&format!(
                    "the database grew by {grown} bytes meanwhile, its quota is {quota}"
                ));
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

#[cfg(test)]
mod tests {
    use quorate_etcd::{Deadlines, Endpoint};
    use quorate_model::{ClusterId, MemberId, Revision, Version};

    use super::*;

    fn status() -> MemberStatus {
        MemberStatus {
            cluster_id: ClusterId(1),
            member_id: MemberId(2),
            version: Version::new(3, 6, 0),
            leader: None,
            is_learner: false,
            raft_term: 1,
            raft_index: 1,
            raft_applied_index: 1,
            db_size: 0,
            db_size_in_use: 0,
            db_size_quota: None,
            revision: Revision(1),
            alarms: Vec::new(),
            errors: Vec::new(),
            storage_version: None,
            downgrade: None,
        }
    }

    /// Whether a stream of so many bytes in each five seconds is ended within ten minutes.
    async fn is_ended(bytes: usize, pace: &Pace) -> Option<Failure> {
        // Nobody listens there.
        let nowhere = Endpoint::plain("127.0.0.1:1".parse().unwrap());
        let client = MemberClient::new(&nowhere, Deadlines::default()).unwrap();
        let streams = async {
            for _ in 0..120 {
                pace.received(bytes);
                tokio::time::sleep(LOOK).await;
            }
        };
        let status = status();
        tokio::select! {
            biased;
            () = streams => None,
            failure = pace.harms(&client, &status) => Some(failure),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_is_too_slow_is_ended_and_one_that_has_ended_is_not() {
        let failure = is_ended(4 << 20, &Pace::default()).await.expect("less than 1 MiB a second");
        assert_eq!(failure.kind, FailureKind::SnapshotFailed);
        assert!(failure.message.contains("spool"), "{}", failure.message);
        assert_eq!(is_ended(6 << 20, &Pace::default()).await, None);
        let ended = Pace::default();
        ended.ended();
        assert_eq!(is_ended(0, &ended).await, None, "the store may take its time then");
    }
}
