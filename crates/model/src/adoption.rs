//! Why volumes of an earlier cluster are not adopted: they are not the volumes of one cluster at one moment, or something uses them.
//!
//! What is known of a volume is its identity annotation and how its claim came into being. Whether its data are an older copy than those of
//! another volume is not known: etcd resumes any of them.

use std::collections::BTreeMap;

use strum::{IntoStaticStr, VariantNames};

use crate::ids::{ClusterId, MemberId};
use crate::names::{ClusterUid, MemberName, Token};

/// Why the volumes with one cluster id are not adopted.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
pub enum Unadoptable {
    /// Pods with the names of members exist, and this EtcdCluster does not own them. They may run etcd on these very volumes.
    InUse(Vec<String>),
    /// The volumes have several tokens: they belong to several bootstraps.
    SeveralTokens(BTreeMap<Token, Vec<MemberName>>),
    /// Two volumes have the identity of one member: one is a copy.
    SameMember(MemberId, Vec<MemberName>),
    /// There are several volumes, and these are copies or may be: each shows another moment. What a person says of copies, if it is of others.
    Copies(BTreeMap<MemberName, String>, Option<SaysNothing>),
    /// The status of the earlier cluster records more voters than there are volumes for: they can form no quorum.
    TooFew {
        /// The volumes that there are.
        there: Vec<MemberName>,
        /// The voters by that status.
        voters: Vec<MemberName>,
    },
}

/// What a person says of copies, where it says nothing of these volumes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaysNothing {
    /// The annotation, or its beginning.
    pub given: String,
    /// The cluster id that it would need.
    pub cluster: ClusterId,
    /// The uid of the EtcdCluster that it would need.
    pub uid: ClusterUid,
}

/// What the status of another object, such as one that a backup of Kubernetes' objects brought back, says of that object's cluster. It decides
/// nothing but what is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Earlier {
    /// Its cluster id.
    pub cluster_id: ClusterId,
    /// Its voters.
    pub voters: Vec<MemberName>,
    /// Volumes of an earlier cluster existed since: if there are none any more, a person deleted them.
    pub had_volumes: bool,
}
