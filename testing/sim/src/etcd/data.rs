//! Data that contradict the log, or the member list, on a disk that works. The member goes on serving, follows its leader and stores
//! what is new.

use std::borrow::Cow;
use std::collections::BTreeSet;

use quorate_model::quorum::has_quorum;
use quorate_model::snapshot::KeysHash;
use quorate_model::{ClusterId, Instant, MemberId, Minor, Revision};

use super::calls::Reply;
use super::replicated::Role;
use super::start::hash;
use super::{Alarm, AlarmKind, Conf, Dir, Entry, Etcd, Failed, Group, Stored};

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
    /// The data of a member come to differ from the log. etcd compares hashes and raises an alarm (`corrupt.go`): in 3.5 for no member;
    /// later for this one, if a quorum of members has the same hash, else for no member; and where the leader differs, its periodic check
    /// names a follower. Returns whether the alarm was committed.
    pub fn damage(&mut self, at: &str) -> bool {
        let Some(process) = self.processes.get(at) else { return false };
        let names_nobody = process.launch.version.line() == Minor(3, 5);
        let Some(own) = self.dir_of(process).cloned() else { return false };
        let Some(group) = self.group(own.cluster).filter(|_| !own.differs) else { return false };
        let is_sound = |dir: &&Dir| dir.cluster == own.cluster && dir.member != own.member && !dir.differs;
        let sound = self.dirs.values().filter(is_sound).count();
        // Nobody to compare it with.
        if sound == 0 {
            return false;
        }
        let is_known = has_quorum(sound, group.conf().members.len()) && !names_nobody;
        let follower = group.conf().voters().find(|voter| *voter != own.member);
        let member = match (is_known, group.leader() == Some(own.member)) {
            (false, _) => MemberId(0),
            (true, true) => follower.unwrap_or(own.member),
            (true, false) => own.member,
        };
        let is_raised = self.raise_alarm(own.cluster, Alarm { member, kind: AlarmKind::Corrupt });
        self.change_data_of(at, |dir| dir.differs = is_raised);
        is_raised
    }

    /// A member begins with a hash, which takes it until then. Returns whether it answers.
    pub fn begin_hash(&mut self, at: &str, until: Instant) -> bool {
        let answers = self.serving(at).is_ok();
        if let Some(process) = self.processes.get_mut(at).filter(|_| answers) {
            process.hashes_until = Some(until);
        }
        answers
    }

    /// The members whose hash is done answer again.
    pub fn end_hashes(&mut self, now: Instant) {
        for process in self.processes.values_mut() {
            process.hashes_until.take_if(|until| *until <= now);
        }
    }

    /// The processes that make a hash.
    pub fn hashing(&self) -> impl Iterator<Item = &str> {
        self.processes().filter(|(_, process)| process.hashes_until.is_some()).map(|(at, _)| at)
    }

    /// The hash that a member makes of its keys, from its own disk. Of data that differ each has a hash of its own.
    pub fn hash_kv(&self, at: &str) -> Reply<KeysHash> {
        let revision = self.status(at)?.revision;
        self.may(at, Role::Root)?;
        let (process, dir, group) = self.serving(at)?;
        if process.stuck.is_some() {
            return Err(Failed::Unknown);
        }
        let held = group.log().get(..dir.stored.len).unwrap_or(group.log());
        let writes: Vec<&Entry> = held.iter().filter(|entry| matches!(entry, Entry::Write(_))).collect();
        let wrong = dir.differs.then_some(dir.member);
        let [_, _, _, _, high @ ..] = hash(&(writes, wrong)).to_be_bytes();
        Ok(KeysHash {
            member_id: dir.member,
            hash: u32::from_be_bytes(high),
            revision,
            compacted: Revision(0),
            latest: revision,
        })
    }

    /// A follower becomes a learner to raft, and stays a voter by the list. Returns whether it was a voter to both.
    pub fn forget_promotion(&mut self, at: &str) -> bool {
        let Some(own) = self.processes.get(at).and_then(|process| self.dir_of(process)) else { return false };
        let Some(group) = self.group(own.cluster) else { return false };
        let voted = group.leader() != Some(own.member) && !own.is_learner(group);
        voted && self.change_data_of(at, |dir| dir.unpromoted = true)
    }

    /// All data are again what the log says, but for those in these directories. Returns whether some were not.
    pub fn mend_data(&mut self, but: &BTreeSet<String>) -> bool {
        let dirs = self.dirs.iter_mut().filter(|(at, _)| !but.contains(*at)).map(|(_, dir)| dir);
        let wrong = dirs.filter(|dir| dir.differs || dir.unpromoted);
        wrong.map(|dir| (dir.differs, dir.unpromoted) = (false, false)).count() > 0
    }

    /// Whether the data of a voter of this cluster differ from the log.
    pub fn has_wrong_data(&self, cluster: ClusterId) -> bool {
        let is_voter = |dir: &Dir| self.group(cluster).is_some_and(|group| group.conf().is_voter(dir.member));
        self.dirs.values().any(|dir| dir.cluster == cluster && dir.differs && is_voter(dir))
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
