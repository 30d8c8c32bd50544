//! Leaders. The members of a quorum that acknowledge elect one as soon as they can, and depose one that does not.

use quorate_model::{ClusterId, Instant, MemberId, Span};

use super::{Dir, Entry, Etcd, Process, Stored};

/// How long a leader tries to hand over (etcd's default election timeout). Meanwhile raft drops proposals.
pub(super) const ELECTION_TIMEOUT: Span = Span::seconds(1);

impl Etcd {
    /// Keeps the leader while a quorum acknowledges its heartbeats; otherwise elects the reachable voter with the most entries.
    pub(super) fn elect(&mut self, cluster: ClusterId) -> bool {
        let Some(group) = self.group(cluster) else { return false };
        let before = group.leader;
        if before.is_some_and(|leader| self.keeps_leading(cluster, leader)) {
            return false;
        }
        let mut able: Vec<(Stored, MemberId)> = self
            .up(cluster)
            .filter(|(_, _, dir)| self.wins(cluster, dir.member))
            .map(|(_, _, dir)| (dir.stored.clone(), dir.member))
            .collect();
        // The most entries first; among equals by rank.
        able.sort_by_key(|(stored, member)| (std::cmp::Reverse(stored.index()), self.rank(cluster, *member)));
        let Some((stored, leader)) = able.into_iter().next() else {
            if let Some(group) = self.group_mut(cluster) {
                group.lead(None);
            }
            return before.is_some();
        };
        self.lose_entries_after(cluster, &stored);
        self.make_leader(cluster, leader);
        true
    }

    /// A member begins a term as the leader.
    pub(super) fn make_leader(&mut self, cluster: ClusterId, leader: MemberId) {
        if let Some(group) = self.group_mut(cluster) {
            group.lead(Some(leader));
        }
        // To vote is to write. A member that cannot write knows only that there is a new term.
        let asked: Vec<String> = self.up(cluster).map(|(at, ..)| at.clone()).collect();
        for at in &asked {
            let votes = self.voter_behind(cluster, at).is_some_and(|member| member != leader);
            if votes {
                self.meet_bad_disk(at, None, false);
            }
        }
    }

    /// A leadership transfer that did not come about in time is given up.
    pub(super) fn give_up_transfer(&mut self, cluster: ClusterId, now: Instant) -> bool {
        let over =
            |group: &super::Group| group.transfer.is_some_and(|(_, since)| now - since >= ELECTION_TIMEOUT);
        let is_over = self.group(cluster).is_some_and(over);
        if let Some(group) = self.group_mut(cluster).filter(|_| is_over) {
            group.transfer = None;
        }
        is_over
    }

    /// The new leader lacks entries that a quorum had stored: they are lost.
    fn lose_entries_after(&mut self, cluster: ClusterId, kept: &Stored) {
        let gone = self.take_entries_after(cluster, kept);
        let Some(group) = self.group_mut(cluster) else { return };
        group.lost.extend(gone.iter().filter_map(|entry| match entry {
            Entry::Write(write) => Some(*write),
            Entry::Conf(_) => None,
        }));
    }

    /// Cuts the log, and what the disks have of it.
    pub(super) fn take_entries_after(&mut self, cluster: ClusterId, kept: &Stored) -> Vec<Entry> {
        let Some(group) = self.group_mut(cluster) else { return Vec::new() };
        if kept.index() >= group.tip.index() {
            return Vec::new();
        }
        let gone = group.log.split_off(kept.len.min(group.log.len()));
        // The next entry belongs to a later term than those that are lost.
        group.tip = Stored { term: group.tip.term, ..kept.clone() };
        for dir in self.dirs.values_mut().filter(|dir| dir.cluster == cluster) {
            if dir.stored.index() > kept.index() {
                dir.stored = kept.clone();
            }
        }
        gone
    }

    /// Whether a leader stays: it and a quorum of the voters in its own log acknowledge heartbeats.
    fn keeps_leading(&self, cluster: ClusterId, leader: MemberId) -> bool {
        self.has_behind(cluster, leader, |process| process.stuck.is_none())
    }

    /// Whether a member would be elected: it is a voter in the configuration of its own log, and a quorum of it votes for it.
    fn wins(&self, cluster: ClusterId, candidate: MemberId) -> bool {
        self.has_behind(cluster, candidate, |process| self.stores(process))
    }

    /// Whether a quorum of the voters in a member's own log, itself included, is up, has no more entries than it, and fulfils
    /// this.
    fn has_behind(&self, cluster: ClusterId, member: MemberId, fulfils: impl Fn(&Process) -> bool) -> bool {
        let Some(group) = self.group(cluster) else { return false };
        let Some((_, process, own)) = self.up(cluster).find(|(_, _, dir)| dir.member == member) else {
            return false;
        };
        let conf = self.as_raft_has_it(group.conf_at(own.stored.len));
        // A member that joins has no configuration before its first entries.
        let knows = own.stored.len > 0 || group.bootstrap_conf.members.contains_key(&member);
        let counts = |process: &Process, dir: &Dir| {
            conf.is_voter(dir.member) && dir.stored.index() <= own.stored.index() && fulfils(process)
        };
        let behind = self.up(cluster).filter(|(_, process, dir)| counts(process, dir)).count();
        knows && conf.is_voter(member) && fulfils(process) && behind >= conf.quorum()
    }

    /// The member of a process, if it is a voter by its own log.
    fn voter_behind(&self, cluster: ClusterId, at: &str) -> Option<MemberId> {
        let dir = self.dir_of(self.processes.get(at)?)?;
        let conf = self.as_raft_has_it(self.group(cluster)?.conf_at(dir.stored.len));
        conf.is_voter(dir.member).then_some(dir.member)
    }

    /// The order among equals, by peer URL: the same in a run and in its replay.
    fn rank(&self, cluster: ClusterId, member: MemberId) -> Option<String> {
        let peer = self.group(cluster)?.conf().members.get(&member)?;
        Some(peer.url.as_str().to_owned())
    }
}
