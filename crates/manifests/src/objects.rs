//! The objects of one cluster as they were observed.

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use quorate_api::{EtcdCluster, EtcdRestore};
use quorate_model::{ClusterRef, MemberName};

use crate::kind::Kind;

/// The observed objects with the label of the cluster, and the names that the executor found taken.
#[derive(Clone, Debug)]
pub struct ClusterObjects<'a> {
    /// The EtcdCluster.
    pub cluster: &'a EtcdCluster,
    /// Pods.
    pub pods: Vec<&'a Pod>,
    /// Volumes.
    pub volumes: Vec<&'a PersistentVolumeClaim>,
    /// Services.
    pub services: Vec<&'a Service>,
    /// Budgets.
    pub budgets: Vec<&'a PodDisruptionBudget>,
    /// Secrets, with their data.
    pub secrets: Vec<&'a Secret>,
    /// Policies of the network.
    pub network_policies: Vec<&'a NetworkPolicy>,
    /// The EtcdRestores that name the cluster.
    pub restores: Vec<&'a EtcdRestore>,
    /// Objects that the executor could not create because the name was taken. Those that belong to the cluster are left out.
    pub conflicts: Vec<NameConflict>,
}

/// An object that has one of our names and is not owned by this EtcdCluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameConflict {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// What made it, if the object shows that: see [`labels::made_by`](crate::labels::made_by). Of a name that could not be read, why.
    pub made_by: Option<String>,
}

/// Which cluster an EtcdCluster is.
pub fn cluster_ref(cluster: &EtcdCluster) -> ClusterRef {
    let meta = &cluster.metadata;
    ClusterRef::new(meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
}

/// The member that an object of one is named after.
pub(crate) fn member_name(meta: &ObjectMeta, at: &ClusterRef) -> Option<MemberName> {
    let name = MemberName::new(meta.name.as_ref()?);
    at.ordinal(&name).map(|_| name)
}
