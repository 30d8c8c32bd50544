//! Times as status has them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use quorate_model::Instant;

pub(super) fn micro(at: Instant) -> MicroTime {
    MicroTime(timestamp(at))
}

pub(super) fn timestamp(at: Instant) -> Timestamp {
    Timestamp::from_millisecond(at.0).unwrap_or(Timestamp::UNIX_EPOCH)
}
