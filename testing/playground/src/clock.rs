//! The only place of this crate that reads time of day.

use jiff::Timestamp;

/// What time it is.
#[expect(clippy::disallowed_methods, reason = "this is the edge at which time enters")]
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}

/// As Kubernetes writes it in status: whole seconds.
pub(crate) fn seconds(at: Timestamp) -> k8s_openapi::apimachinery::pkg::apis::meta::v1::Time {
    k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
        Timestamp::from_second(at.as_second()).unwrap_or(Timestamp::UNIX_EPOCH),
    )
}
