//! What a disk has of its cluster's log.
//!
//! An entry of which nothing stays behind has a place in the log (an index) and none in the model's list of entries. Otherwise
//! no two states of a cluster would ever be the same.

use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};

use quorate_model::auth::{Clients, Marked, Root};
use quorate_model::version::Minor;

use super::Alarm;

/// How far apart two positions are, at most, in the hash of a state.
const FAR: u64 = 2;

/// A prefix of a cluster's log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// The number of its entries that are in the model's list.
    pub len: usize,
    /// The number of its other entries: the first entry of each term, and AlarmList.
    pub without_effect: u64,
    /// The term of its last entry.
    pub term: u64,
    /// The size of the database in MiB, in histories in which sizes matter.
    pub mib: u64,
    /// The alarms after it, of any member.
    pub alarms: BTreeSet<Alarm>,
    /// Auth is enabled after it.
    pub auth: bool,
    /// How far the user root is after it.
    pub root: Root,
    /// The user root has a password of somebody's after it.
    pub root_has_password: bool,
    /// Etcd has the role root after it.
    pub has_root_role: bool,
    /// The other users that have the role root after it.
    pub other_roots: BTreeSet<String>,
    /// The users after it that have the names of users of EtcdUsers, each with its role.
    pub users: BTreeSet<Marked>,
    /// Who the clients of the cluster are after it.
    pub clients: Clients,
    /// The users after it that people made.
    pub by_hand: BTreeSet<String>,
    /// The cluster version after it: no older binary runs on it.
    pub cluster_version: Option<Minor>,
    /// The minor version that it is being downgraded to, after it.
    pub downgrade: Option<Minor>,
}

impl Stored {
    /// The index of its last entry.
    pub fn index(&self) -> u64 {
        1 + self.len as u64 + self.without_effect
    }

    /// Hashes it beside the longest prefix that there is. Terms and indexes count only relative to that.
    pub fn hash_beside(&self, tip: &Self, hasher: &mut impl Hasher) {
        let Self { len, without_effect, term, mib, alarms, auth, root, cluster_version, downgrade, .. } =
            self;
        let Self { root_has_password, has_root_role, other_roots, users, by_hand, clients, .. } = self;
        let behind = tip.without_effect.saturating_sub(*without_effect).min(FAR);
        (len, behind, tip.term.saturating_sub(*term).min(FAR)).hash(hasher);
        (mib, alarms, auth, root, cluster_version, downgrade).hash(hasher);
        (root_has_password, has_root_role, other_roots, users, by_hand, clients).hash(hasher);
    }
}
