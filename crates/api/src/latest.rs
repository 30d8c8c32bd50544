//! The newest backup in a store: how a spec asks for it, and which one was found.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::destination::Destination;
use crate::job::FoundBackup;
use crate::rules::{self, rule};

/// The newest whole backup that a store has of a cluster. A Job finds it once, by the manifests, and status records which one it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::latest()))]
pub struct LatestBackup {
    /// The store, with the prefix that the backups were written with.
    pub destination: Destination,

    /// The name of the EtcdCluster that the backups are of. Where backups of several etcd clusters have it, the newest is taken only if the
    /// others end before it begins. Exactly one of `cluster` and `clusterID` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 52))]
    pub cluster: Option<String>,

    /// The namespace of that EtcdCluster, when the backups were taken. Absent: this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub cluster_namespace: Option<String>,

    /// The cluster ID that the backups are of: of one etcd cluster, whatever its name.
    #[serde(rename = "clusterID", default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), extend("x-kubernetes-validations" = [
        rule(
            "self.matches('^[0-9a-f]{1,16}$')",
            "clusterID must be up to 16 hexadecimal digits in lower case: clusterId of the manifest beside a backup, or status.clusterID of its \
             EtcdCluster",
        ),
    ]))]
    pub cluster_id: Option<String>,

    /// The newest backup that was finished before this time, such as 2026-11-24T02:00:00Z.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time", "maxLength" = 35))]
    pub before: Option<Time>,

    /// Also backups whose manifests no key of this namespace has signed. Whoever can add objects to the store can then decide what is restored.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_unsigned: bool,
}

/// The look for the newest backup, and the one that it found. Once there is one, no other is looked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LatestStatus {
    /// Counts the tries, from 1.
    pub attempt: u32,

    /// When this try failed. The next one follows by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<Time>,

    /// Why the last try that ended failed, in one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,

    /// Why it failed, and what to do; or what the Job waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,

    /// The backup that is restored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<FoundBackup>,
}
