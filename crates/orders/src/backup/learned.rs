//! What backups learn from one another: that a store is too slow for etcd, so that not each of a schedule begins with an attempt in vain.

use kube_core::ResourceExt as _;
use quorate_api::EtcdBackup;
use quorate_model::{Instant, Span};

const MIB: u64 = 1 << 20;
/// The least database for which a volume is asked, in bytes.
const LEAST: u64 = 512 * MIB;
/// For how long it counts. Then one is written straight into the store again: that may have become faster.
const COUNTS_FOR: Span = Span::seconds(7 * 24 * 3600);

/// The next snapshot is written to a volume first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Learned {
    /// Bytes of the volume.
    pub bytes: u64,
    /// When an attempt was too slow.
    pub since: Instant,
}

/// What others of the same etcd, with the same destination, have learned within a week.
pub fn learned<'a>(
    own: &EtcdBackup,
    others: impl Iterator<Item = &'a EtcdBackup>,
    now: Instant,
) -> Option<Learned> {
    let of = |other: &EtcdBackup| {
        let is_like = other.uid() != own.uid()
            && other.namespace() == own.namespace()
            && other.spec.source == own.spec.source
            && other.spec.destination.is_same_place(&own.spec.destination);
        let status = other.status.as_ref().filter(|_| is_like)?;
        let since = Instant(status.too_slow_since.as_ref()?.0.as_millisecond());
        // The database may have grown.
        let now_needed = status.result.as_ref().map(|result| scratch(result.snapshot_bytes));
        let bytes = status.scratch_bytes?.max(now_needed.unwrap_or_default());
        (now - since <= COUNTS_FOR).then_some(Learned { bytes, since })
    };
    let found = others.filter_map(of);
    found
        .reduce(|one, other| Learned { bytes: one.bytes.max(other.bytes), since: one.since.max(other.since) })
}

/// The bytes of a volume for a database: it grows meanwhile.
pub(super) fn scratch(database: u64) -> u64 {
    let database = database.max(LEAST);
    database.saturating_add(database / 5).div_ceil(MIB).saturating_mul(MIB)
}
