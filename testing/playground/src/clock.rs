//! The only place in this crate that reads the time of day.

use jiff::Timestamp;

/// The current time.
#[expect(clippy::disallowed_methods, reason = "this is the edge at which time enters")]
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}

/// A time as status has it: whole seconds.
pub(crate) fn seconds(at: Timestamp) -> k8s_openapi::apimachinery::pkg::apis::meta::v1::Time {
    k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
        Timestamp::from_second(at.as_second()).unwrap_or(Timestamp::UNIX_EPOCH),
    )
}
