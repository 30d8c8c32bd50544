//! The Kubernetes objects of a cluster, named by what they are for. `manifests` knows their kinds and names.

use crate::names::MemberName;

/// An object that the operator creates for a cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ManagedObject {
    /// The volume of a member.
    Volume(MemberName),
    /// The Pod of a member.
    Pod(MemberName),
    /// The PodDisruptionBudget.
    DisruptionBudget,
    /// A Secret with certificates, by its name.
    Secret(String),
    /// The Secret with all that an application connects with.
    Connection,
    /// The headless Service by which members resolve each other.
    PeerService,
    /// The Service that clients use.
    ClientService,
}
