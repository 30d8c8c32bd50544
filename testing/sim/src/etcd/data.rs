//! Data that contradict the log, or the member list, on a disk that works. The member goes on serving, follows its leader and stores
//! what is new.

use std::borrow::Cow;

use quorate_model::quorum::has_quorum;
use quorate_model::{ClusterId, MemberId};

use super::{Alarm, AlarmKind, Conf, Dir, Etcd, Group, Stored};

impl Dir {
    /// A data directory before its first entry.
    pub(super) fn empty(cluster: ClusterId, member: MemberId) -> Self {
        Self {
            cluster,
            member,
            stored: Stored::default(),
            corrupt: false,
            differs: false,
            unpromoted: false,
            full: false,
            astray: false,
        }
    }

    /// Whether its member takes itself for a learner.
    pub(super) fn is_learner(&self, group: &Group) -> bool {
        let conf = group.conf_at(self.stored.len);
        self.unpromoted || conf.members.get(&self.member).is_some_and(|peer| peer.is_learner)
    }
}

impl Etcd {
    /// The data of a member come to differ from the log. etcd compares hashes and raises an alarm: for this member, if a quorum of
    /// members has the same hash, else for no member (`corrupt.go`: `checkPeerHashes`). Returns whether the alarm was committed.
    pub fn damage(&mut self, at: &str) -> bool {
        let Some(own) = self.processes.get(at).and_then(|process| self.dir_of(process)).cloned() else {
            return false;
        };
        let Some(group) = self.group(own.cluster).filter(|_| !own.differs) else { return false };
        let is_sound = |dir: &&Dir| dir.cluster == own.cluster && dir.member != own.member && !dir.differs;
        let sound = self.dirs.values().filter(is_sound).count();
        let is_known = has_quorum(sound, group.conf().members.len());
        let member = if is_known { own.member } else { MemberId(0) };
        let is_raised = self.raise_alarm(own.cluster, Alarm { member, kind: AlarmKind::Corrupt });
        self.change_data_of(at, |dir| dir.differs = is_raised);
        is_raised
    }

    /// A follower becomes a learner to raft, and stays a voter by the list. Returns whether it was a voter to both.
    pub fn forget_promotion(&mut self, at: &str) -> bool {
        let Some(own) = self.processes.get(at).and_then(|process| self.dir_of(process)) else { return false };
        let Some(group) = self.group(own.cluster) else { return false };
        let voted = group.leader() != Some(own.member) && !own.is_learner(group);
        voted && self.change_data_of(at, |dir| dir.unpromoted = true)
    }

    /// All data are again what the log says. Returns whether some were not.
    pub fn mend_data(&mut self) -> bool {
        let wrong = self.dirs.values_mut().filter(|dir| dir.differs || dir.unpromoted);
        wrong.map(|dir| (dir.differs, dir.unpromoted) = (false, false)).count() > 0
    }

    /// A configuration as raft has it, which decides who counts.
    pub(super) fn as_raft_has_it<'a>(&self, conf: &'a Conf) -> Cow<'a, Conf> {
        let mut conf = Cow::Borrowed(conf);
        for dir in self.dirs.values().filter(|dir| dir.unpromoted) {
            if let Some(peer) = conf.to_mut().members.get_mut(&dir.member) {
                peer.is_learner = true;
            }
        }
        conf
    }

    pub(super) fn change_data_of(&mut self, at: &str, change: impl FnOnce(&mut Dir)) -> bool {
        let dir = self.processes.get(at).map(|process| process.launch.dir.clone());
        dir.and_then(|dir| self.dirs.get_mut(&dir)).map(change).is_some()
    }
}
