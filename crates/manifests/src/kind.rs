//! The kinds of objects of a cluster, and their API paths.

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube_core::Resource;
use quorate_api::{EtcdBackup, EtcdCluster};

use crate::cert_manager::object::Certificate;

/// A kind of object that is read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The EtcdCluster itself.
    Cluster,
    /// A member's Pod.
    Pod,
    /// A member's volume.
    Volume,
    /// A Service.
    Service,
    /// The budget.
    Budget,
    /// A Secret with certificates.
    Secret,
    /// The policy of the network.
    NetworkPolicy,
    /// A Certificate of cert-manager. No watch shows it, as cert-manager need not be installed.
    Certificate,
    /// An EtcdBackup. Its own controller watches it: for a cluster it is read by name.
    Backup,
}

impl Kind {
    /// As Kubernetes writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cluster => "EtcdCluster",
            Self::Pod => "Pod",
            Self::Volume => "PersistentVolumeClaim",
            Self::Service => "Service",
            Self::Budget => "PodDisruptionBudget",
            Self::Secret => "Secret",
            Self::NetworkPolicy => "NetworkPolicy",
            Self::Certificate => "Certificate",
            Self::Backup => "EtcdBackup",
        }
    }

    /// The path under which the API serves those of one namespace.
    pub fn collection(self, namespace: &str) -> String {
        let namespace = Some(namespace);
        match self {
            Self::Cluster => EtcdCluster::url_path(&(), namespace),
            Self::Pod => Pod::url_path(&(), namespace),
            Self::Volume => PersistentVolumeClaim::url_path(&(), namespace),
            Self::Service => Service::url_path(&(), namespace),
            Self::Budget => PodDisruptionBudget::url_path(&(), namespace),
            Self::Secret => Secret::url_path(&(), namespace),
            Self::NetworkPolicy => NetworkPolicy::url_path(&(), namespace),
            Self::Certificate => Certificate::url_path(&(), namespace),
            Self::Backup => EtcdBackup::url_path(&(), namespace),
        }
    }

    /// An object as text: `Service default/demo`.
    pub fn called(self, namespace: &str, name: &str) -> String {
        format!("{} {namespace}/{name}", self.as_str())
    }
}
