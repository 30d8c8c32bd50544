//! The Lease object: who holds it by our own clock, and how it is taken, renewed and released.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use tokio::time::Instant;

/// The Lease as it last changed, and the time of that change by our own clock.
#[derive(Debug, Default)]
pub(super) struct ObservedLease(Option<(LeaseSpec, Instant)>);

/// Who holds the Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    /// This operator.
    Us,
    /// No operator: it does not exist, was released, or has expired.
    Nobody,
    /// Another operator, of this identity.
    Other(String),
}

impl ObservedLease {
    /// Takes note of the Lease as it was read. Its times come from the holder's clock, so only a change of them counts.
    pub(super) fn update(&mut self, lease: &Lease, now: Instant) {
        let spec = lease.spec.clone().unwrap_or_default();
        if self.0.as_ref().is_none_or(|(known, _)| *known != spec) {
            self.0 = Some((spec, now));
        }
    }

    /// Whether it was ever read.
    pub(super) fn is_known(&self) -> bool {
        self.0.is_some()
    }

    /// Who holds it.
    pub(super) fn holder(&self, us: &str, now: Instant) -> Holder {
        let Some((spec, changed)) = &self.0 else { return Holder::Nobody };
        let seconds = u64::try_from(spec.lease_duration_seconds.unwrap_or(0)).unwrap_or(0);
        match spec.holder_identity.as_deref() {
            None | Some("") => Holder::Nobody,
            Some(holder) if holder == us => Holder::Us,
            Some(_) if now >= *changed + Duration::from_secs(seconds) => Holder::Nobody,
            Some(holder) => Holder::Other(holder.to_owned()),
        }
    }
}

/// The Lease where none exists.
pub(super) fn first(name: &str, us: &str, lasts: Duration, now: Timestamp) -> Lease {
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    next(&Lease { metadata, spec: None }, us, lasts, now)
}

/// The Lease taken over or renewed.
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

/// The Lease released: the next candidate takes it at once.
pub(super) fn released(lease: &Lease, now: Timestamp) -> Lease {
    let spec = LeaseSpec {
        holder_identity: Some(String::new()),
        lease_duration_seconds: Some(1),
        renew_time: Some(MicroTime(now)),
        ..lease.spec.clone().unwrap_or_default()
    };
    Lease { metadata: identity(lease), spec: Some(spec) }
}

/// Name and precondition. The rest of the metadata is not sent.
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
    async fn a_lease_expires_when_it_was_seen_unchanged_for_its_whole_duration() {
        let mut lease = ObservedLease::default();
        lease.update(&held_by("other", 0), Instant::now());
        tokio::time::advance(Duration::from_secs(14)).await;
        assert_eq!(lease.holder("us", Instant::now()), Holder::Other("other".to_owned()));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(lease.holder("us", Instant::now()), Holder::Nobody);
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewal_counts_from_when_it_was_seen_by_our_own_clock() {
        let mut lease = ObservedLease::default();
        lease.update(&held_by("other", 1_000_000), Instant::now());
        tokio::time::advance(Duration::from_secs(14)).await;
        // The holder's clock runs backwards; only the change counts.
        lease.update(&held_by("other", 5), Instant::now());
        tokio::time::advance(Duration::from_secs(14)).await;
        lease.update(&held_by("other", 5), Instant::now());
        assert_eq!(lease.holder("us", Instant::now()), Holder::Other("other".to_owned()));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(lease.holder("us", Instant::now()), Holder::Nobody);
    }

    #[tokio::test(start_paused = true)]
    async fn a_released_lease_is_free_at_once_and_a_takeover_counts_as_a_transition() {
        let mut lease = ObservedLease::default();
        let released = released(&held_by("other", 0), Timestamp::UNIX_EPOCH);
        lease.update(&released, Instant::now());
        assert_eq!(lease.holder("us", Instant::now()), Holder::Nobody);
        let taken = next(&released, "us", LASTS, Timestamp::from_second(9).unwrap());
        assert_eq!(taken.spec.as_ref().unwrap().lease_transitions, Some(1));
        let renewed = next(&taken, "us", LASTS, Timestamp::from_second(11).unwrap()).spec.unwrap();
        assert_eq!(renewed.lease_transitions, Some(1));
        assert_eq!(renewed.acquire_time, taken.spec.unwrap().acquire_time);
    }
}
