//! Data that were restored from a snapshot: a cluster that begins with keys.
//!
//! Every member restores by itself, with the ids of a static bootstrap. So a member that began with nothing under the same token passes for
//! one of them: raft does not notice that its keys differ. `astray` notes it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use quorate_model::auth::{Clients, Marked, Root};

use super::start::bootstrap_member_id;
use super::{Alarm, Conf, Dir, Etcd, Group, Launch, Peer, Stored};

/// What a snapshot has.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Snap {
    /// The writes in it.
    pub writes: Vec<u64>,
    /// The alarms of the cluster that it is of.
    pub alarms: BTreeSet<Alarm>,
    /// Whether auth was enabled in the cluster that it is of, and how far its user root was.
    pub auth: (bool, Root),
    /// Its users with the names of users of EtcdUsers.
    pub users: BTreeSet<Marked>,
    /// Who its clients are.
    pub clients: Clients,
    /// Those that people made.
    pub by_hand: BTreeSet<String>,
    /// Its revision, with what it is raised by.
    pub revision: i64,
}

impl Etcd {
    /// The agent of a member has restored a snapshot into its empty data directory, for the cluster and the member of these flags.
    pub fn restore(&mut self, launch: &Launch, snap: &Arc<Snap>) {
        let member = bootstrap_member_id(&launch.url, &launch.token);
        let id = launch.bootstrap_cluster_id();
        let stored = Stored {
            alarms: snap.alarms.clone(),
            auth: snap.auth.0,
            root: snap.auth.1,
            users: snap.users.clone(),
            by_hand: snap.by_hand.clone(),
            clients: snap.clients,
            has_root_role: matches!(snap.auth.1, Root::NotGranted | Root::Ready),
            cluster_version: Some(launch.version.line()),
            ..Stored::default()
        };
        if self.group(id).is_none() {
            self.groups.push(Arc::new(Group {
                id,
                bootstrap_conf: Conf { members: Self::bootstrap_members(launch), ..Conf::default() },
                log: Vec::new(),
                tip: stored.clone(),
                transfer: None,
                leader: None,
                deposed: None,
                matched: BTreeMap::new(),
                stored: BTreeSet::new(),
                lost: Vec::new(),
                began_with: Some(snap.clone()),
                before_last_write: None,
            }));
        }
        let astray = self.group(id).is_some_and(|group| group.began_with.as_ref() != Some(snap));
        self.dirs.insert(launch.dir.clone(), Dir { stored, astray, ..Dir::empty(id, member) });
    }

    pub(super) fn bootstrap_members(launch: &Launch) -> BTreeMap<quorate_model::MemberId, Peer> {
        let peer = |url: &quorate_model::PeerUrl| {
            let peer = Peer { url: url.clone(), name: String::new(), is_learner: false, started: false };
            (bootstrap_member_id(url, &launch.token), peer)
        };
        launch.peers.iter().map(|(_, url)| peer(url)).collect()
    }
}

impl Group {
    /// The snapshot that its members were restored from, if they were.
    pub fn began_with(&self) -> Option<&Arc<Snap>> {
        self.began_with.as_ref()
    }
}
