//! The Service by which clients reach the members.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rules::{self, rule};

/// The Service by which clients reach the members.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = rules::service()))]
pub struct ServiceSpec {
    /// ClusterIP (the default): clients in this Kubernetes cluster. NodePort and LoadBalancer: also clients outside of it. The names and
    /// addresses by which those connect belong into tls.providerCfg.autoCfg.altNames.
    #[serde(rename = "type")]
    pub service_type: ServiceType,

    /// Annotations for the Service, such as those that a load balancer is configured by. Others on it stay as they are.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "rules::annotations")]
    pub annotations: BTreeMap<String, String>,

    /// Labels for the Service, besides those of the operator. Others on it stay as they are.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "rules::labels")]
    pub labels: BTreeMap<String, String>,

    /// Which implementation serves a Service of type LoadBalancer. Absent: that of the Kubernetes cluster. Kubernetes fixes it while the type
    /// is LoadBalancer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = [
        rule("self.matches('^([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$')",
            "service.loadBalancerClass must be a name such as internal-vip or example.com/internal-vip"),
    ]))]
    pub load_balancer_class: Option<String>,

    /// Which members clients in this Kubernetes cluster are led to, where more than one serves: PreferClose or PreferSameZone those of their
    /// zone, PreferSameNode that of their node. Absent: all alike. Kubernetes knows it from 1.31 on, and the last two from 1.34 on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "TrafficDistribution")]
    pub traffic_distribution: Option<TrafficDistribution>,
}

/// How a Service is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ServiceType {
    /// From within the Kubernetes cluster.
    #[default]
    ClusterIP,
    /// Also by a port of every node.
    NodePort,
    /// Also by a load balancer.
    LoadBalancer,
}

/// Which endpoints of a Service are preferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TrafficDistribution {
    /// Those of the client's zone.
    PreferClose,
    /// Those of the client's zone.
    PreferSameZone,
    /// That of the client's node.
    PreferSameNode,
}

impl ServiceType {
    /// The value in Kubernetes.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClusterIP => "ClusterIP",
            Self::NodePort => "NodePort",
            Self::LoadBalancer => "LoadBalancer",
        }
    }
}

impl TrafficDistribution {
    /// The value in Kubernetes.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PreferClose => "PreferClose",
            Self::PreferSameZone => "PreferSameZone",
            Self::PreferSameNode => "PreferSameNode",
        }
    }
}
