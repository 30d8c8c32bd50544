//! The conditions of an EtcdBackup, an EtcdBackupSchedule and an EtcdRestore.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use quorate_api::Explanation;
use quorate_model::Instant;

use crate::time::timestamp;

/// Whether a condition is true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionValue {
    /// It is.
    True,
    /// It is not.
    False,
    /// Nobody knows.
    Unknown,
}

/// Sets one condition. Its time changes only with its status.
pub fn set(
    conditions: &mut Vec<Condition>,
    type_: &str,
    is: ConditionValue,
    why: &Explanation,
    generation: Option<i64>,
    now: Instant,
) {
    let status = match is {
        ConditionValue::True => "True",
        ConditionValue::False => "False",
        ConditionValue::Unknown => "Unknown",
    };
    let at = conditions.iter().position(|condition| condition.type_ == type_);
    let before = at.map(|at| &conditions[at]).filter(|before| before.status == status);
    let condition = Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: why.reason().to_string(),
        message: why.message().to_owned(),
        last_transition_time: before
            .map_or_else(|| Time(timestamp(now)), |before| before.last_transition_time.clone()),
        observed_generation: generation,
    };
    match at {
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
}
