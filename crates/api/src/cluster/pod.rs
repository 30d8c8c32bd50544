//! What the Pods of members carry beyond what the operator gives them.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rules;

/// What the Pods of members carry beyond what the operator gives them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PodTemplate {
    /// Labels and annotations for the Pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<PodMetadata>,
    /// What the Pods ask of their nodes.
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

/// What the Pods of members ask of their nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// Requests and limits of the etcd container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
}

/// Requests and limits of the etcd container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = rules::resources()))]
pub struct Resources {
    /// What a node must have free, by resource: cpu, memory, ephemeral-storage, hugepages-SIZE.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "rules::quantities")]
    pub requests: BTreeMap<String, Quantity>,
    /// The most that etcd may use, by resource.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "rules::quantities")]
    pub limits: BTreeMap<String, Quantity>,
}
