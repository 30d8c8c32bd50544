//! Leaders, replication and commits. Everything happens as soon as it can; `cut` and `lags` delay it.

use quorate_model::{ClusterId, Instant, MemberId};

use super::{Conf, Entry, Etcd, State};

impl Etcd {
    /// Runs everything that happens without a call. Returns whether anything changed.
    pub fn settle(&mut self, now: Instant) -> bool {
        let mut any = false;
        // Each round starts or ends a process, elects, replicates or publishes. None of these is undone, so the loop ends.
        while self.start_processes(now) | self.lead_and_follow(now) {
            any = true;
        }
        any
    }

    /// A client's write to a cluster. Returns whether it was acknowledged.
    pub fn write(&mut self, cluster: ClusterId, write: u64) -> bool {
        self.commit(cluster, Entry::Write(write))
    }

    /// Appends an entry if the leader has a quorum for it.
    pub(super) fn commit(&mut self, cluster: ClusterId, entry: Entry) -> bool {
        let Some(group) = self.group(cluster) else { return false };
        if group.leader.is_none() {
            return false;
        }
        if let Some(group) = self.group_mut(cluster) {
            group.log.push(entry);
        }
        self.replicate(cluster);
        true
    }

    fn lead_and_follow(&mut self, now: Instant) -> bool {
        let ids: Vec<ClusterId> = self.groups().map(super::Group::id).collect();
        let mut any = false;
        for id in ids {
            any |= self.elect(id);
            any |= self.end_members_that_lost_entries(id, now);
            any |= self.replicate(id);
            any |= self.publish(id);
            any |= self.end_removed_members(id, now);
        }
        any
    }

    /// Keeps the leader while it has a quorum; otherwise elects the reachable voter with the most entries.
    fn elect(&mut self, cluster: ClusterId) -> bool {
        let Some(group) = self.group(cluster) else { return false };
        let before = group.leader;
        if before.is_some_and(|leader| self.has_votes(cluster, leader)) {
            return false;
        }
        let mut able: Vec<(usize, MemberId)> = self
            .up(cluster)
            .filter(|(_, _, dir)| self.has_votes(cluster, dir.member))
            .map(|(_, _, dir)| (dir.len, dir.member))
            .collect();
        // The most entries first; among equals by rank.
        able.sort_by_key(|(len, member)| (std::cmp::Reverse(*len), self.rank(cluster, *member)));
        let leader = able.first().copied();
        let Some(group) = self.group_mut(cluster) else { return false };
        group.lead(leader.map(|(_, member)| member));
        if let Some((len, _)) = leader
            && len < group.log.len()
        {
            // The new leader lacks entries that a quorum had stored: they are lost.
            let gone = group.log.split_off(len);
            group.lost.extend(gone.iter().filter_map(|entry| match entry {
                Entry::Write(write) => Some(*write),
                Entry::Conf(_) => None,
            }));
            for dir in self.dirs.values_mut().filter(|dir| dir.cluster == cluster) {
                dir.len = dir.len.min(len);
            }
        }
        before != leader.map(|(_, member)| member)
    }

    /// Whether a member would be elected: it is a voter in the configuration of its own log, and a quorum of it votes for it.
    fn has_votes(&self, cluster: ClusterId, candidate: MemberId) -> bool {
        let Some(group) = self.group(cluster) else { return false };
        let Some((_, _, own)) = self.up(cluster).find(|(_, _, dir)| dir.member == candidate) else {
            return false;
        };
        let conf = group.conf_at(own.len);
        // A member that joins has no configuration before its first entries.
        let knows = own.len > 0 || group.bootstrap_conf.members.contains_key(&candidate);
        let votes =
            self.up(cluster).filter(|(_, _, dir)| conf.is_voter(dir.member) && dir.len <= own.len).count();
        knows && conf.is_voter(candidate) && votes >= conf.quorum()
    }

    /// The order among equals, by peer URL: the same in a run and in its replay.
    fn rank(&self, cluster: ClusterId, member: MemberId) -> Option<String> {
        let peer = self.group(cluster)?.conf().members.get(&member)?;
        Some(peer.url.as_str().to_owned())
    }

    /// Ends each member that has fewer entries than the leader knows it to have stored. The leader makes it commit entries
    /// that it does not have, and it panics ("tocommit is out of range"). A member whose data were emptied does so until
    /// another member leads.
    fn end_members_that_lost_entries(&mut self, cluster: ClusterId, now: Instant) -> bool {
        let Some(group) = self.group(cluster) else { return false };
        let ended: Vec<String> = self
            .up(cluster)
            .filter(|(_, _, dir)| group.matched(dir.member).is_some_and(|matched| dir.len < matched))
            .map(|(at, ..)| at.clone())
            .collect();
        for at in &ended {
            self.end(at, "tocommit is out of range: was the raft log corrupted, truncated, or lost?", now);
        }
        !ended.is_empty()
    }

    /// Sends every reachable member the entries that it lacks. A member that lags gets them only where the quorum needs it.
    pub(super) fn replicate(&mut self, cluster: ClusterId) -> bool {
        let Some(group) = self.group(cluster) else { return false };
        if group.leader.is_none() {
            return false;
        }
        let (len, conf) = (group.log.len(), group.conf());
        let voters = self.up(cluster).filter(|(_, _, dir)| conf.is_voter(dir.member));
        let prompt = voters.filter(|(_, process, _)| !process.lags).count();
        let needed = prompt < conf.quorum();
        let receivers: Vec<String> = self
            .up(cluster)
            .filter(|(_, _, dir)| dir.len < len)
            .filter(|(_, process, dir)| {
                // A removed member is sent the entry of its removal, unless it lacks more than that.
                let leaves = conf.removed.contains(&dir.member) && dir.len + 1 == len;
                let member = leaves || conf.members.contains_key(&dir.member);
                member && (!process.lags || (needed && conf.is_voter(dir.member)))
            })
            .map(|(_, process, _)| process.launch.dir.clone())
            .collect();
        for dir in &receivers {
            if let Some(dir) = self.dirs.get_mut(dir) {
                dir.len = len;
            }
        }
        self.match_up(cluster);
        !receivers.is_empty()
    }

    /// Every reachable member reports to the leader what it has stored.
    fn match_up(&mut self, cluster: ClusterId) {
        let reported: Vec<(MemberId, usize)> =
            self.up(cluster).map(|(_, _, dir)| (dir.member, dir.len)).collect();
        let Some(group) = self.group_mut(cluster) else { return };
        let members = group.conf().members.clone();
        group.matched.retain(|member, _| members.contains_key(member));
        group.stored.extend(reported.iter().filter(|(_, len)| *len > 0).map(|(member, _)| *member));
        for (member, len) in reported.into_iter().filter(|(member, _)| members.contains_key(member)) {
            let matched = group.matched.entry(member).or_default();
            *matched = len.max(*matched);
        }
    }

    /// A member that has caught up publishes its name and client URLs, and begins to serve.
    fn publish(&mut self, cluster: ClusterId) -> bool {
        let Some(group) = self.group(cluster) else { return false };
        if group.leader.is_none() {
            return false;
        }
        let len = group.log.len();
        let next = self
            .up(cluster)
            .filter(|(_, process, dir)| {
                !process.serves && dir.len == len && group.conf().members.contains_key(&dir.member)
            })
            .map(|(at, process, dir)| (at.clone(), process.launch.name.clone(), dir.member))
            .next();
        let Some((at, name, member)) = next else { return false };
        let mut conf: Conf = group.conf().clone();
        if let Some(peer) = conf.members.get_mut(&member)
            && !(peer.started && peer.name == name)
        {
            (peer.name, peer.started) = (name, true);
            self.commit(cluster, Entry::Conf(conf.into()));
        }
        if let Some(process) = self.processes.get_mut(&at) {
            process.serves = true;
        }
        true
    }

    /// A removed member ends when it learns of its removal: from its own log while it serves, otherwise from a peer that it
    /// knows and that has the removal in its log. If it is started again without such a peer, it waits: its own log does not
    /// show that the removal was committed.
    fn end_removed_members(&mut self, cluster: ClusterId, now: Instant) -> bool {
        let Some(group) = self.group(cluster) else { return false };
        let gone: Vec<String> = self
            .up(cluster)
            .filter(|(_, process, own)| {
                let known = group.conf_at(own.len);
                self.up(cluster).any(|(_, _, other)| {
                    let itself = other.member == own.member && process.serves;
                    // A member that joins knows the peers it was started with. (If it is started a second time, it knows none.)
                    let is_known_peer = other.member != own.member
                        && (own.len == 0 || known.members.contains_key(&other.member));
                    (itself || is_known_peer) && group.conf_at(other.len).removed.contains(&own.member)
                })
            })
            .map(|(at, ..)| at.clone())
            .collect();
        for at in &gone {
            self.end(at, "the member has been permanently removed from the cluster", now);
        }
        !gone.is_empty()
    }

    fn end(&mut self, at: &str, words: &str, now: Instant) {
        if let Some(process) = self.processes.get_mut(at) {
            process.state = State::Ended(words.to_owned());
            process.serves = false;
            process.since = now;
        }
    }
}
