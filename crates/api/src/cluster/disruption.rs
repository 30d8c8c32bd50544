//! How members are protected from drains and other evictions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How members are protected from drains and other evictions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DisruptionSpec {
    /// Which evictions the PodDisruptionBudget of the cluster admits. OneAtATime (the default): one Pod at a time. A cluster of
    /// one or two members is out of service while one of its Pods is evicted. Quorum: as many as leave a quorum ready; a cluster
    /// of one or two members admits none, and blocks the drain of its nodes. None: there is no budget; drains may stop the
    /// cluster. While a ready member does not store what is written, the budget admits no eviction at all.
    pub pod_disruption_budget: PodDisruptionBudgetPolicy,
}

/// Which evictions the PodDisruptionBudget admits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PodDisruptionBudgetPolicy {
    /// One Pod at a time, also of a cluster of one or two members.
    #[default]
    OneAtATime,
    /// As many as leave a quorum ready.
    Quorum,
    /// There is no budget.
    None,
}
