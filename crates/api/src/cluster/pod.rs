//! What the user adds to the Pods of members.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Affinity, PodSecurityContext, Toleration, TopologySpreadConstraint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rules::{self, rule};

/// What is added to the Pods of members.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PodTemplate {
    /// Labels and annotations for the Pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<PodMetadata>,
    /// The spec of the Pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec: Option<PodSpec>,
}

/// Labels and annotations for the Pods of members.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PodMetadata {
    /// Labels for the Pods, besides those of the operator.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "rules::labels")]
    pub labels: BTreeMap<String, String>,
    /// Annotations for the Pods, besides those of the operator.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "rules::annotations")]
    pub annotations: BTreeMap<String, String>,
}

/// The spec of the Pods of members. Its fields mean what they mean in a Pod.
///
/// A field that goes into the Pod unchanged is added here and in `manifests::pod::pass_through`, and nowhere else.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// Requests and limits of the etcd container. Where neither a request nor a limit is given, the operator requests 50m of cpu,
    /// and 100Mi of memory: what an idle member needs, so that it is neither the first to be killed nor starved. Go's runtime is
    /// told the limits (GOMEMLIMIT, GOMAXPROCS).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,

    /// Node and Pod affinity. Without a podAntiAffinity here, the operator writes the one that spec.placement asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "rules::of_kubernetes::<Affinity>")]
    pub affinity: Option<Affinity>,

    /// Labels that a node must have.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "rules::node_selector")]
    pub node_selector: Option<BTreeMap<String, String>>,

    /// The name of the PriorityClass. Absent: that of the operator's flag --default-priority-class. The chart creates
    /// the class quorate-etcd and sets the flag to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub priority_class_name: Option<String>,

    /// The name of the RuntimeClass.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub runtime_class_name: Option<String>,

    /// The scheduler that places the Pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub scheduler_name: Option<String>,

    /// The ServiceAccount of the Pods. Its token is not mounted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub service_account_name: Option<String>,

    /// Seconds for a stop. Absent: what a stop needs that clients do not notice, which is 15 plus two election timeouts, and at
    /// least 30. Less than it needs is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<i32>", extend("x-kubernetes-validations" = [
        rule("self <= 3600", "podTemplate.spec.terminationGracePeriodSeconds must be at most 3600"),
    ]))]
    pub termination_grace_period_seconds: Option<u32>,

    /// Taints that the Pods tolerate.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "rules::of_kubernetes::<Vec<Toleration>>")]
    pub tolerations: Option<Vec<Toleration>>,

    /// How the Pods are spread. Absent: as spec.placement asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "rules::of_kubernetes::<Vec<TopologySpreadConstraint>>")]
    pub topology_spread_constraints: Option<Vec<TopologySpreadConstraint>>,

    /// The user, groups and profiles of the Pods. A field that is given replaces the one of the operator, which are: runAsUser,
    /// runAsGroup and fsGroup 10001, runAsNonRoot true, fsGroupChangePolicy OnRootMismatch, seccompProfile RuntimeDefault. What
    /// the restricted Pod Security standard does not admit is refused. runAsUser is fixed once the cluster is bootstrapped.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "rules::security_context")]
    pub security_context: Option<PodSecurityContext>,
}

/// Requests and limits of the etcd container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = rules::resources()))]
pub struct Resources {
    /// What is reserved on the node, by resource: cpu, memory, ephemeral-storage, hugepages-SIZE.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "rules::quantities")]
    pub requests: BTreeMap<String, Quantity>,
    /// The most that etcd may use, by resource.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "rules::quantities")]
    pub limits: BTreeMap<String, Quantity>,
}
