//! What is done for the databases of the members.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rules::{self, rule};

/// What is done for the databases of the members.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MaintenanceSpec {
    /// When a database reaches its quota, etcd refuses writes (alarm NOSPACE). While this is true (the default), the operator
    /// defragments the members that are full, one after another, and disarms the alarm once every member is below nine tenths of
    /// its quota. It compacts the history of the keys first, but only where etcd.autoCompactionRetention makes etcd do so anyway.
    pub no_space_remedy: bool,

    /// When members are defragmented although no database is full. Absent: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DefragSpec")]
    pub defrag: Option<DefragSpec>,
}

/// When members are defragmented although no database is full: one after another, the leader last, while every member is healthy.
/// A member answers nothing while it is defragmented.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DefragSpec {
    /// Whether it is done at all.
    pub enabled: bool,

    /// The free share of the database file from which on it is done, such as "0.5" (the default).
    #[schemars(length(max = 8), extend("x-kubernetes-validations" = [
        rule("self.matches('^0?[.][0-9]{1,2}$')", "maintenance.defrag.minFreeRatio must be a share such as 0.5 or 0.25"),
    ]))]
    pub min_free_ratio: String,

    /// The free part of the database file from which on it is done, such as 100Mi (the default). Both must be reached.
    #[schemars(schema_with = "rules::quantity")]
    pub min_free_bytes: Quantity,

    /// The time of the day in UTC in which a defragmentation may begin, such as 02:00-05:00. Absent: at any time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = 11), extend("x-kubernetes-validations" = [
        rule("self.matches('^([01][0-9]|2[0-3]):[0-5][0-9]-([01][0-9]|2[0-3]):[0-5][0-9]$')",
            "maintenance.defrag.window must be a time of the day in UTC such as 02:00-05:00"),
    ]))]
    pub window: Option<String>,
}

impl Default for MaintenanceSpec {
    fn default() -> Self {
        Self { no_space_remedy: true, defrag: None }
    }
}

impl Default for DefragSpec {
    fn default() -> Self {
        Self {
            enabled: false,
            min_free_ratio: "0.5".to_owned(),
            min_free_bytes: Quantity("100Mi".to_owned()),
            window: None,
        }
    }
}
