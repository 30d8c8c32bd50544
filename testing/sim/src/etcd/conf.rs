//! Configurations of a cluster: its members, and those that were removed.

use std::collections::{BTreeMap, BTreeSet};

use quorate_model::quorum::quorum;
use quorate_model::{MemberId, PeerUrl};

/// A configuration of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Conf {
    /// Its members.
    pub members: BTreeMap<MemberId, Peer>,
    /// The removed members. Their ids are never used again.
    pub removed: BTreeSet<MemberId>,
}

/// A member of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Peer {
    /// Its peer URL.
    pub url: PeerUrl,
    /// Empty until it has published itself.
    pub name: String,
    /// It is a learner, and does not vote.
    pub is_learner: bool,
    /// It has published its client URLs.
    pub started: bool,
}

impl Conf {
    /// The voters.
    pub fn voters(&self) -> impl Iterator<Item = MemberId> {
        self.members.iter().filter(|(_, peer)| !peer.is_learner).map(|(id, _)| *id)
    }

    /// Whether a member is a voter.
    pub fn is_voter(&self, id: MemberId) -> bool {
        self.members.get(&id).is_some_and(|peer| !peer.is_learner)
    }

    /// The number of voters that ever started, without the given one.
    pub fn started_voters(&self, but: Option<MemberId>) -> usize {
        let voters = self.members.iter().filter(|(id, peer)| !peer.is_learner && Some(**id) != but);
        voters.filter(|(_, peer)| peer.started).count()
    }

    /// The number of voters that make a quorum.
    pub fn quorum(&self) -> usize {
        quorum(self.voters().count())
    }

    /// The member with this peer URL.
    pub fn by_url(&self, url: &PeerUrl) -> Option<MemberId> {
        self.members.iter().find(|(_, peer)| peer.url == *url).map(|(id, _)| *id)
    }
}
