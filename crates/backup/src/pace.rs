//! Whether a snapshot comes fast enough, and not faster than its order admits. etcd keeps a read transaction open until its last byte is
//! taken. What is written meanwhile makes the database file grow, because pages are not used again; and a defragmentation, with all locks
//! of the database, waits for the end.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use quorate_api::job::{BackupOrder, Failure, FailureKind};
use quorate_api::quantity;
use quorate_etcd::{CallError, MemberClient, MemberStatus};
use tokio::time::{Instant, interval_at};

use crate::Result;
use crate::limit::Limit;

/// How often it is checked.
const LOOK: Duration = Duration::from_secs(5);
/// The least bytes in each [`WINDOW`]: 1 MiB a second.
const FLOOR: u64 = 60 << 20;
const WINDOW: Duration = Duration::from_secs(60);
/// In so many looks, one after the other, a member has not answered, or has applied nothing of what is committed.
const STANDS_STILL: u32 = 2;
/// The quota of etcd where neither it nor the order says one.
const DEFAULT_QUOTA: u64 = 2 << 30;

/// How far the stream is.
#[derive(Default)]
pub(crate) struct Pace {
    received: AtomicU64,
    ended: AtomicBool,
    /// What the order says of the quota.
    quota: Option<u64>,
    /// It is written to a volume of the Job, and not into the store.
    spools: bool,
    limit: Option<Limit>,
}

impl Pace {
    /// Of a stream that this order asks for.
    pub(crate) fn of(order: &BackupOrder) -> Self {
        let limit = order.rate_limit.and_then(Limit::new);
        Self { quota: order.quota_bytes, spools: order.spool, limit, ..Self::default() }
    }

    /// Waits until the limit admits the next bytes.
    pub(crate) async fn admits(&self) {
        if let Some(limit) = &self.limit {
            limit.admits().await;
        }
    }

    /// Bytes have arrived.
    pub(crate) fn received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
        if let Some(limit) = &self.limit {
            limit.took(bytes as u64);
        }
    }

    /// etcd has sent all of it: what follows does not concern etcd.
    pub(crate) fn ended(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    /// Ends only when the stream harms etcd, with the reason.
    pub(crate) async fn harms(&self, client: &MemberClient, at_start: &MemberStatus) -> Failure {
        let quota = at_start.db_size_quota.or(self.quota).unwrap_or(DEFAULT_QUOTA);
        // Close to the quota a tenth of it would be the end of all writes.
        let may_grow = (quota / 10).min(quota.saturating_sub(at_start.db_size) / 2);
        let floor = self.limit.as_ref().map_or(FLOOR, |limit| FLOOR.min(limit.bytes_in(WINDOW) / 2));
        let began = Instant::now();
        let mut still = Still::default();
        let too_slow = |why: &str| self.too_slow(why, at_start.db_size);
        let mut looks = interval_at(Instant::now() + LOOK, LOOK);
        let mut window = (Instant::now(), 0);
        loop {
            looks.tick().await;
            if self.ended.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
            let received = self.received.load(Ordering::Relaxed);
            if window.0.elapsed() >= WINDOW {
                if received - window.1 < floor {
                    let bytes = received - window.1;
                    return too_slow(&format!("only {bytes} bytes came in {} s", WINDOW.as_secs()));
                }
                window = (Instant::now(), received);
            }
            let now = match client.status().await {
                Ok(now) => Some(now),
                // One that waits for the end of the stream sends on. Of one that is gone the stream ends by itself.
                Err(CallError::Unknown(_)) => None,
                Err(CallError::Refused(..) | CallError::Unreachable(_)) => continue,
            };
            if still.is_it(now.as_ref()) {
                return stands_still();
            }
            let Some(now) = now else { continue };
            let grown = now.db_size.saturating_sub(at_start.db_size);
            if grown > may_grow {
                let why = format!("the database grew by {grown} bytes meanwhile, its quota is {quota}");
                // Who has waited most of the time for the limit would have had it sooner without: a volume would not help.
                return match &self.limit {
                    Some(limit) if limit.waited() > began.elapsed() / 2 => limit.is_too_low(&format!(
                        "takes the snapshot too slowly for etcd: {why}. Raise it, or take the backup when less is written"
                    )),
                    Some(_) | None => too_slow(&why),
                };
            }
        }
    }

    fn too_slow(&self, why: &str, database: u64) -> Failure {
        let message = if self.spools {
            format!(
                "the volume of the Job takes the snapshot too slowly for etcd: {why}. Give the Job a faster one (spec.jobTemplate.scratch)"
            )
        } else {
            format!(
                "the store takes the snapshot too slowly for etcd: {why}. The next attempt writes it to a volume of the Job first"
            )
        };
        Failure { database_bytes: Some(database), ..Failure::new(FailureKind::TooSlow, message) }
    }
}

/// Refuses a limit that cannot admit the database in the time that the order has. etcd sends the whole file, with its free pages.
pub(crate) fn in_time(order: &BackupOrder, database: u64, log: fn(&str)) -> Result<()> {
    let Some(limit) = order.rate_limit.and_then(Limit::new) else { return Ok(()) };
    let takes = limit.time_for(database).as_secs();
    match order.seconds {
        Some(left) if takes >= left => Err(limit.is_too_low(&format!(
            "takes {takes} s for the database of {}, and of spec.deadline {left} s are left. Raise one of them",
            quantity::rounded(database)
        ))),
        Some(_) | None => {
            log(&format!("{limit} takes {takes} s for the database of {}", quantity::rounded(database)));
            Ok(())
        }
    }
}

/// Whether a member does nothing but send, look by look. From 3.6 on it does not even answer while a defragmentation waits.
#[derive(Default)]
struct Still {
    /// What it had applied.
    applied: u64,
    looks: u32,
}

impl Still {
    fn is_it(&mut self, now: Option<&MemberStatus>) -> bool {
        let stands = now.is_none_or(|now| {
            let stands = now.raft_applied_index == self.applied && now.raft_index > now.raft_applied_index;
            self.applied = now.raft_applied_index;
            stands
        });
        self.looks = if stands { self.looks + 1 } else { 0 };
        self.looks >= STANDS_STILL
    }
}

/// It would stand still until the end of the stream, and with a limit that may be an hour.
fn stands_still() -> Failure {
    let message = "the member did nothing but send its snapshot for 10 s, as where a defragmentation waits for the end of that, so the backup was \
                   ended. Take backups when nothing is defragmented, or with a higher spec.rateLimit";
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

    #[tokio::test(start_paused = true)]
    async fn o08_a_limit_below_the_floor_is_no_slow_store_and_a_store_that_is_slower_is_one() {
        let limited = |limit| Pace { limit: Limit::new(limit), ..Pace::default() };
        let second = 1 << 20;
        assert_eq!(is_ended(5 * second / 2, &limited(second as u64 / 2)).await, None, "as fast as it may");
        let failure = is_ended(second, &limited(second as u64 / 2)).await.expect("less than half of that");
        assert_eq!(failure.kind, FailureKind::TooSlow);
        let failure = is_ended(4 * second, &limited(20 << 20)).await.expect("a limit that is not reached");
        assert_eq!(failure.kind, FailureKind::TooSlow);
    }

    #[test]
    fn o08_a_limit_that_cannot_admit_the_database_before_the_deadline_is_refused_at_once() {
        let order = |rate_limit, seconds| BackupOrder { rate_limit, seconds, ..BackupOrder::default() };
        let judged = |rate_limit, seconds| in_time(&order(rate_limit, seconds), 8 << 30, |_| ());
        let failure = judged(Some(1 << 20), Some(3600)).unwrap_err();
        assert_eq!(failure.kind, FailureKind::LimitTooLow);
        assert_eq!(
            failure.message,
            "spec.rateLimit (1Mi a second) takes 8192 s for the database of 8Gi, and of spec.deadline 3600 s are left. Raise one of them, in \
             another EtcdBackup"
        );
        for (limit, seconds) in [(Some(20 << 20), Some(3600)), (Some(1 << 20), None), (None, Some(1))] {
            assert_eq!(judged(limit, seconds), Ok(()), "{limit:?} {seconds:?}");
        }
    }

    #[test]
    fn o08_a_member_that_applies_nothing_while_it_sends_is_let_go() {
        let at = |raft_applied_index, raft_index| {
            Some(MemberStatus { raft_applied_index, raft_index, ..status() })
        };
        let ends = |looks: &[Option<MemberStatus>]| {
            let mut still = Still::default();
            looks.iter().any(|look| still.is_it(look.as_ref()))
        };
        assert!(ends(&[at(5, 5), at(5, 9), at(5, 20)]), "a defragmentation waits for the stream, in 3.5");
        assert!(ends(&[at(5, 5), None, None]), "the same from 3.6 on");
        assert!(!ends(&[at(5, 5), None, at(6, 6), None, at(7, 7)]), "it is slow");
        assert!(!ends(&[at(5, 5), at(5, 5), at(5, 5), at(5, 5), at(5, 5)]), "nobody writes");
        assert!(!ends(&[at(5, 9), at(6, 19), at(7, 29), at(8, 39), at(9, 49)]), "it is behind, and goes on");
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
        assert_eq!(failure.kind, FailureKind::TooSlow);
        assert!(failure.message.contains("a volume of the Job"), "{}", failure.message);
        assert_eq!(is_ended(6 << 20, &Pace::default()).await, None);
        let ended = Pace::default();
        ended.ended();
        assert_eq!(is_ended(0, &ended).await, None, "the store may take its time then");
    }
}
