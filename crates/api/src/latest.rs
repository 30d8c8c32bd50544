//! The newest backup in a store, as the spec of a restore asks for it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::destination::Destination;
use crate::rules::{self, rule};

/// The newest whole backup that a store has of a cluster. The operator creates an EtcdBackup that finds it once, by the
/// manifests, and has it in its status.
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
