//! The Kubernetes objects of a cluster, named by what they are for. `manifests` knows their kinds and names.

use std::fmt;

use crate::certificate::{Ca, Leaf};
use crate::names::{MemberName, Uid};

/// An object that the operator creates for a cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ManagedObject {
    /// The volume of a member.
    Volume(MemberName),
    /// The Pod of a member.
    Pod(MemberName),
    /// The PodDisruptionBudget.
    DisruptionBudget,
    /// The NetworkPolicy.
    NetworkPolicy,
    /// A Secret with certificates, by its name.
    Secret(String),
    /// The Secret with all that an application connects with.
    Connection,
    /// The headless Service by which members resolve each other.
    PeerService,
    /// The Service that clients use.
    ClientService,
}

/// An object that is applied as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppliedObject {
    /// The headless peer Service.
    PeerService,
    /// The client Service.
    ClientService,
    /// The Secret with all that an application connects with.
    Connection,
    /// The PodDisruptionBudget.
    Budget {
        /// How many ready voters must stay.
        min_available: usize,
        /// The member whose Pod it does not select.
        excludes: Option<MemberName>,
    },
    /// The NetworkPolicy.
    NetworkPolicy,
}

/// An object that is deleted. Pods and volumes are not among them: rules of their own say when they go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletedObject {
    /// The PodDisruptionBudget, which the spec does not want.
    Budget,
    /// The NetworkPolicy, which the spec does not want.
    NetworkPolicy,
    /// The Secret of an authority.
    Authority(Ca),
    /// A Certificate, on which nothing rests any more.
    Certificate(Leaf),
    /// The Secret that cert-manager wrote for a Certificate of this cluster. While there is the Certificate, cert-manager issues it anew.
    Issued(Leaf),
}

/// An object as it was observed: the precondition of a write to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedObject {
    /// This object and no later one.
    pub uid: Uid,
    /// As it was observed.
    pub resource_version: String,
}

impl ObservedObject {
    /// The object with this uid, at this version.
    pub fn new(uid: impl Into<String>, resource_version: impl Into<String>) -> Self {
        Self { uid: Uid::new(uid), resource_version: resource_version.into() }
    }
}

impl AppliedObject {
    /// The object that it is.
    pub fn managed(&self) -> ManagedObject {
        match self {
            Self::PeerService => ManagedObject::PeerService,
            Self::ClientService => ManagedObject::ClientService,
            Self::Connection => ManagedObject::Connection,
            Self::Budget { .. } => ManagedObject::DisruptionBudget,
            Self::NetworkPolicy => ManagedObject::NetworkPolicy,
        }
    }
}

impl fmt::Display for ManagedObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Volume(member) => write!(f, "volume {member}"),
            Self::Pod(member) => write!(f, "Pod {member}"),
            Self::DisruptionBudget => f.write_str("the PodDisruptionBudget"),
            Self::NetworkPolicy => f.write_str("the NetworkPolicy"),
            Self::Secret(name) => write!(f, "Secret {name}"),
            Self::Connection => f.write_str("the Secret to connect with"),
            Self::PeerService => f.write_str("the peer Service"),
            Self::ClientService => f.write_str("the client Service"),
        }
    }
}

impl fmt::Display for AppliedObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PeerService | Self::ClientService | Self::NetworkPolicy => self.managed().fmt(f),
            Self::Connection => f.write_str("the connection Secret"),
            Self::Budget { min_available, excludes } => {
                write!(f, "the PodDisruptionBudget (minAvailable {min_available}")?;
                excludes.iter().try_for_each(|member| write!(f, ", without Pod {member}"))?;
                f.write_str(")")
            }
        }
    }
}

impl fmt::Display for DeletedObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Budget => ManagedObject::DisruptionBudget.fmt(f),
            Self::NetworkPolicy => ManagedObject::NetworkPolicy.fmt(f),
            Self::Authority(ca) => write!(f, "the Secret of the certificate authority of {ca}"),
            Self::Certificate(leaf) => write!(f, "the Certificate of {leaf}"),
            Self::Issued(leaf) => write!(f, "the Secret that cert-manager wrote for {leaf}"),
        }
    }
}
