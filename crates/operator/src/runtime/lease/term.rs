//! The arithmetic of the lease: what the record says, by the clock of the one who looks.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use tokio::time::Instant;

/// The record as it was last seen to change, and when that was by our own clock.
#[derive(Debug, Default)]
pub(super) struct ClusterObjects(Option<(LeaseSpec, Instant)>);

/// Who may write the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// We hold it.
    Ours,
    /// Nobody does any more.
    Free,
    /// This one does.
    Held(String),
}

impl ClusterObjects {
    /// The record looks like this now. Its times are of somebody else's clock and only compared for being different.
    pub(super) fn note(&mut self, lease: &Lease, now: Instant) {
        let spec = lease.spec.clone().unwrap_or_default();
        if self.0.as_ref().is_none_or(|(known, _)| *known != spec) {
            self.0 = Some((spec, now));
        }
    }

    /// Who may write it.
    pub(super) fn standing(&self, us: &str, now: Instant) -> Standing {
        let Some((spec, changed)) = &self.0 else { return Standing::Free };
        let seconds = u64::try_from(spec.lease_duration_seconds.unwrap_or(0)).unwrap_or(0);
        match spec.holder_identity.as_deref() {
            None | Some("") => Standing::Free,
            Some(holder) if holder == us => Standing::Ours,
            Some(_) if now >= *changed + Duration::from_secs(seconds) => Standing::Free,
            Some(holder) => Standing::Held(holder.to_owned()),
        }
    }
}

/// The record where there was none.
pub(super) fn first(name: &str, us: &str, lasts: Duration, now: Timestamp) -> Lease {
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    next(&Lease { metadata, spec: None }, us, lasts, now)
}

/// The record taken over or renewed.
pub(super) fn next(lease: &Lease, us: &str, lasts: Duration, now: Timestamp) -> Lease {
    let before = lease.spec.clone().unwrap_or_default();
    let renews = before.holder_identity.as_deref() == Some(us);
    let transitions = before.lease_transitions.unwrap_or(0);
    let spec = LeaseSpec {
        holder_identity: Some(us.to_owned()),
        lease_duration_seconds: Some(i32::try_from(lasts.as_secs()).unwrap_or(i32::MAX)),
        acquire_time: if renews { before.acquire_time.clone() } else { Some(MicroTime(now)) },
        renew_time: Some(MicroTime(now)),
        lease_transitions: Some(if renews || lease.spec.is_none() { transitions } else { transitions + 1 }),
        ..before
    };
    Lease { metadata: identity(lease), spec: Some(spec) }
}

/// The record let go: whoever looks next may have it.
pub(super) fn released(lease: &Lease, now: Timestamp) -> Lease {
    let spec = LeaseSpec {
        holder_identity: Some(String::new()),
        lease_duration_seconds: Some(1),
        renew_time: Some(MicroTime(now)),
        ..lease.spec.clone().unwrap_or_default()
    };
    Lease { metadata: identity(lease), spec: Some(spec) }
}

/// Name and precondition, nothing else of the metadata.
fn identity(lease: &Lease) -> ObjectMeta {
    ObjectMeta {
        name: lease.metadata.name.clone(),
        uid: lease.metadata.uid.clone(),
        resource_version: lease.metadata.resource_version.clone(),
        ..ObjectMeta::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LASTS: Duration = Duration::from_secs(15);

    fn held_by(holder: &str, second: i64) -> Lease {
        first("lease", holder, LASTS, Timestamp::from_second(second).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_is_free_once_it_was_seen_unchanged_for_its_whole_duration() {
        let mut seen = ClusterObjects::default();
        seen.note(&held_by("other", 0), Instant::now());
        tokio::time::advance(Duration::from_secs(14)).await;
        assert_eq!(seen.standing("us", Instant::now()), Standing::Held("other".to_owned()));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(seen.standing("us", Instant::now()), Standing::Free);
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewal_counts_from_when_it_was_seen_whatever_the_holders_clock_says() {
        let mut seen = ClusterObjects::default();
        seen.note(&held_by("other", 1_000_000), Instant::now());
        tokio::time::advance(Duration::from_secs(14)).await;
        // The holder's clock runs backwards; only the change counts.
        seen.note(&held_by("other", 5), Instant::now());
        tokio::time::advance(Duration::from_secs(14)).await;
        seen.note(&held_by("other", 5), Instant::now());
        assert_eq!(seen.standing("us", Instant::now()), Standing::Held("other".to_owned()));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(seen.standing("us", Instant::now()), Standing::Free);
    }

    #[tokio::test(start_paused = true)]
    async fn a_released_lease_is_free_at_once_and_a_takeover_counts_as_a_transition() {
        let mut seen = ClusterObjects::default();
        let let_go = released(&held_by("other", 0), Timestamp::UNIX_EPOCH);
        seen.note(&let_go, Instant::now());
        assert_eq!(seen.standing("us", Instant::now()), Standing::Free);
        let taken = next(&let_go, "us", LASTS, Timestamp::from_second(9).unwrap());
        assert_eq!(taken.spec.as_ref().unwrap().lease_transitions, Some(1));
        let renewed = next(&taken, "us", LASTS, Timestamp::from_second(11).unwrap()).spec.unwrap();
        assert_eq!(renewed.lease_transitions, Some(1));
        assert_eq!(renewed.acquire_time, taken.spec.unwrap().acquire_time);
    }
}
