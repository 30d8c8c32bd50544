//! Times as Kubernetes writes them.

use quorate_model::Instant;

/// A time as Kubernetes writes it.
pub(crate) fn timestamp(at: Instant) -> jiff::Timestamp {
    jiff::Timestamp::from_millisecond(at.0).unwrap_or(jiff::Timestamp::UNIX_EPOCH)
}
