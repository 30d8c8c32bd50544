//! What the operator's flags say where specs say nothing, and why a spec cannot be carried out.

use std::collections::BTreeMap;
use std::fmt;

use quorate_api::cluster::DEFAULT_IMAGE_REGISTRY;

use crate::certificate::verify::Verifier;
use crate::images::AllowedImages;

/// The default image of the agent. It is part of the operator's program; this is the image of the same release,
/// as `cargo xtask image` writes it.
pub const DEFAULT_AGENT_IMAGE: &str = concat!("quorate:", env!("CARGO_PKG_VERSION"));

/// The defaults from the operator's flags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defaults {
    /// The etcd image repository of clusters whose spec names none.
    pub image_registry: String,
    /// The images that objects may name.
    pub allowed_images: AllowedImages,
    /// The proxies that Jobs may be given.
    pub allowed_proxies: Vec<String>,
    /// The ClusterIssuers of cert-manager that EtcdClusters may name; `*` is any.
    pub allowed_cluster_issuers: Vec<String>,
    /// The namespaces whose EtcdClusters may become DataStores of Kamaji; `*` is any.
    pub kamaji_namespaces: Vec<String>,
    /// The image that the agent comes from.
    pub agent_image: String,
    /// How the agent comes into Pods.
    pub agent_delivery: AgentDelivery,
    /// The family of Pods' addresses.
    pub ip_family: IpFamily,
    /// The PriorityClass of Pods whose template names none.
    pub priority_class: Option<String>,
    /// The operator's own Pods, which a NetworkPolicy lets in; `None`: it runs elsewhere, or in the network of a node.
    pub operator_pods: Option<OperatorPods>,
    /// Who verifies the certificates of others.
    pub verifier: Verifier,
}

/// Where the operator's own Pods are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorPods {
    /// Their namespace.
    pub namespace: String,
    /// Labels that all of them have, of any release.
    pub labels: BTreeMap<String, String>,
}

/// How the agent's program comes into a Pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AgentDelivery {
    /// By an init container, which copies it. Works everywhere.
    #[default]
    InitContainer,
    /// By an image volume; by an init container in clusters where that failed.
    ImageVolumeFirst,
    /// By an image volume.
    ImageVolume,
}

/// The family of the addresses of Pods: of the first one, where they have two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IpFamily {
    /// Such as 10.1.2.3.
    #[default]
    V4,
    /// Such as fd00::1.
    V6,
}

impl IpFamily {
    /// The Pod's address as a part of a URL. Kubernetes fills in the address. etcd from 3.6.6 on refuses brackets around an
    /// IPv4 address.
    pub(crate) fn pod_host(self) -> &'static str {
        match self {
            Self::V4 => "$(POD_IP)",
            Self::V6 => "[$(POD_IP)]",
        }
    }
}

/// Why a spec cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Invalid {
    /// Which field.
    pub field: String,
    /// What is wrong and what to do.
    pub message: String,
}

impl Invalid {
    pub(crate) fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            image_registry: DEFAULT_IMAGE_REGISTRY.to_owned(),
            allowed_images: AllowedImages::default(),
            allowed_proxies: Vec::new(),
            allowed_cluster_issuers: Vec::new(),
            kamaji_namespaces: Vec::new(),
            agent_image: DEFAULT_AGENT_IMAGE.to_owned(),
            agent_delivery: AgentDelivery::default(),
            ip_family: IpFamily::default(),
            priority_class: None,
            operator_pods: None,
            verifier: Verifier::default(),
        }
    }
}
