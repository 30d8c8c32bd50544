//! Who reaches the members by the network.

use k8s_openapi::api::networking::v1::NetworkPolicyPeer;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rules;

/// Who reaches the members by the network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkPolicySpec {
    /// Whether the operator writes a NetworkPolicy, of the cluster's name, for the Pods of the members: peers are let in from members only,
    /// clients as clientsFrom says, the agent's port from the operator. What members themselves open is not restricted. Kubernetes needs a
    /// network that enforces it.
    pub enabled: bool,

    /// Who may open connections for clients (port 2379) besides the members, the operator and the Jobs of backups, which always may. Absent:
    /// everybody. An empty list: nobody else. A process in the network of its node, such as a kube-apiserver in a static Pod, has the address
    /// of the node: give it by ipBlock.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "rules::network_peers")]
    pub clients_from: Option<Vec<NetworkPolicyPeer>>,

    /// Who may read the metrics of etcd (port 2381), which need no certificate. Absent: everybody. An empty list: nobody.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "rules::network_peers")]
    pub metrics_from: Option<Vec<NetworkPolicyPeer>>,
}
