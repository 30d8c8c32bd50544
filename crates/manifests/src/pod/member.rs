//! The member that a Pod is for.

use quorate_api::EtcdCluster;
use quorate_model::effect::Boot;
use quorate_model::quorum_recovery::QuorumRecovery;
use quorate_model::restore::Restore;
use quorate_model::{ClusterId, ClusterRef, MemberName, PeerUrl, Target, Token};

use crate::defaults::IpFamily;

/// The container of etcd itself.
pub const ETCD: &str = "etcd";

/// The member of the Pod, and how it starts.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// The EtcdCluster, which will own it.
    pub cluster: &'a EtcdCluster,
    /// Which cluster.
    pub at: &'a ClusterRef,
    /// The committed target.
    pub target: &'a Target,
    /// `--initial-cluster-token`.
    pub token: &'a Token,
    /// The cluster ID, once it is recorded.
    pub cluster_id: Option<ClusterId>,
    /// The member.
    pub name: &'a MemberName,
    /// How etcd boots.
    pub boot: Boot,
    /// What it restores before etcd starts, if `boot` is [`Boot::Restore`].
    pub restore: Option<&'a Restore>,
    /// The recovery of the quorum, if one is under way.
    pub quorum_recovery: Option<&'a QuorumRecovery>,
    /// `--initial-cluster`.
    pub peers: &'a [(MemberName, PeerUrl)],
    /// The image of the agent.
    pub agent_image: &'a str,
    /// The agent comes by an image volume; otherwise by an init container.
    pub by_image_volume: bool,
    /// The generation of trust that its agent waits for.
    pub trust: u32,
    /// The family of its address.
    pub ip_family: IpFamily,
    /// Its PriorityClass, if the template names none.
    pub priority_class: Option<&'a str>,
}

impl<'a> Member<'a> {
    /// What its agent restores before etcd starts.
    pub(crate) fn restored_from(&self) -> Option<&'a Restore> {
        match self.boot {
            Boot::Restore => self.restore,
            Boot::New | Boot::Join | Boot::Resume | Boot::Read | Boot::Extract => None,
        }
    }
}
