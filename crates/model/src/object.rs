//! The Kubernetes objects of a cluster, named by what they are for. `manifests` knows their kinds and names.

use std::fmt;

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
