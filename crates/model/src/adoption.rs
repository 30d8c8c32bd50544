//! Why volumes of an earlier cluster are not adopted: they are not the volumes of one cluster at one moment, or something uses them.
//!
//! What is known of a volume is its identity annotation and how its claim came into being. Whether its data are an older copy than those of
//! another volume is not known: etcd resumes any of them.

use std::collections::BTreeMap;
use std::fmt;

use crate::ids::{ClusterId, MemberId};
use crate::names::{MemberName, Token};
use crate::quorum::quorum;

/// Why the volumes with one cluster id are not adopted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unadoptable {
    /// Pods with the names of members exist, and this EtcdCluster does not own them. They may run etcd on these very volumes.
    InUse(Vec<String>),
    /// The volumes have several tokens: they belong to several bootstraps.
    SeveralTokens(BTreeMap<Token, Vec<MemberName>>),
    /// Two volumes have the identity of one member: one is a copy.
    SameMember(MemberId, Vec<MemberName>),
    /// There are several volumes, and these are copies or may be: each shows another moment. What a person says of copies, if it is of others.
    Copies(BTreeMap<MemberName, String>, Option<String>),
    /// The status of the earlier cluster records more voters than there are volumes for: they can form no quorum.
    TooFew {
        /// The volumes that there are.
        there: Vec<MemberName>,
        /// The voters by that status.
        voters: Vec<MemberName>,
    },
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

impl fmt::Display for Unadoptable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse(pods) => write!(
                f,
                "this EtcdCluster does not own {}, which may run etcd on these volumes. A backup tool that restores Pods before the \
                 EtcdCluster leaves them so. Delete them (kubectl delete pod), and leave Pods out of what is restored",
                pods.join(", ")
            ),
            Self::SeveralTokens(by_token) => {
                let groups = by_token.iter().map(|(token, members)| format!("{} ({token})", names(members)));
                write!(
                    f,
                    "they come from several bootstraps: {}. Their data have nothing in common. Find out which ones have the data, and \
                     delete the others or move them to another name",
                    groups.collect::<Vec<_>>().join(" | ")
                )
            }
            Self::SameMember(id, members) => write!(
                f,
                "{} have the identity of one member, {id}, so one is a copy of the other. Keep the newer one, and delete the other",
                names(members)
            ),
            Self::Copies(copies, says) => {
                let copies = copies.iter().map(|(member, how)| format!("{member} ({how})"));
                write!(
                    f,
                    "these may be copies of the members' volumes: {}. Copies of several members, made one after another, are no backup: a \
                     write that etcd acknowledged may be on no quorum of them, and members may end up with different data. Delete these \
                     claims, and restore an EtcdBackup (spec.bootstrap.restore). Only if all of them are the original volumes, or were \
                     copied while no member ran, annotate this EtcdCluster with operator.etcd.io/adopt-copies=<the cluster ID>/<metadata.uid of this \
                     EtcdCluster> as well",
                    copies.collect::<Vec<_>>().join(", ")
                )?;
                says.as_ref().map_or(Ok(()), |says| write!(f, ". {says}"))
            }
            Self::TooFew { there, voters } => write!(
                f,
                "there are volumes of {} only, and by the status that came with this EtcdCluster its voters were {}: {} of them are \
                 needed for a quorum. Bring the other volumes back, or restore an EtcdBackup (spec.bootstrap.restore). If it had fewer \
                 members since, create this EtcdCluster again without its status",
                names(there),
                names(voters),
                quorum(voters.len())
            ),
        }
    }
}

fn names(members: &[MemberName]) -> String {
    members.iter().map(MemberName::as_str).collect::<Vec<_>>().join(", ")
}
