//! The settings of etcd that matter most, typed.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rules::{self, rule};

/// The settings of etcd that matter most. Absent fields keep the default of the operator or of etcd.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = rules::etcd()))]
pub struct EtcdOptions {
    /// The size of the database at which etcd refuses further writes (alarm NOSPACE), such as 2Gi. It must fit on the
    /// volume, which also holds the log and snapshots. Absent: derived from the volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "rules::quantity")]
    pub quota_backend_bytes: Option<Quantity>,

    /// How etcd compacts old revisions by itself: "periodic" (those older than a time; the default) or "revision" (all
    /// but the latest so many). It takes effect together with `autoCompactionRetention`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "AutoCompactionMode")]
    pub auto_compaction_mode: Option<AutoCompactionMode>,

    /// What auto-compaction keeps. In mode periodic a time such as 30m or 8h (a bare number means hours), in mode
    /// revision a number of revisions such as 1000; "0" turns it off.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub auto_compaction_retention: Option<String>,

    /// How many transactions etcd applies between two snapshots of its log.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<i64>", extend("x-kubernetes-validations" = [
        rule("self >= 1", "etcd.snapshotCount must be at least 1"),
    ]))]
    pub snapshot_count: Option<u64>,

    /// Milliseconds between two heartbeats of the leader; about the round trip between members. etcd's default is 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<i32>", extend("x-kubernetes-validations" = [
        rule("self >= 1", "etcd.heartbeatInterval must be at least 1 (milliseconds)"),
    ]))]
    pub heartbeat_interval: Option<u32>,

    /// Milliseconds without a heartbeat after which a member calls an election; at least five heartbeats, at most
    /// 50000. etcd's default is 1000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<i32>", extend("x-kubernetes-validations" = [
        rule("self <= 50000", "etcd.electionTimeout must be at most 50000 (milliseconds): etcd accepts no more"),
    ]))]
    pub election_timeout: Option<u32>,
}

/// How etcd compacts old revisions by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum AutoCompactionMode {
    /// Those older than a time.
    Periodic,
    /// All but the latest so many.
    Revision,
}

impl AutoCompactionMode {
    /// The value in etcd.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Periodic => "periodic",
            Self::Revision => "revision",
        }
    }
}
