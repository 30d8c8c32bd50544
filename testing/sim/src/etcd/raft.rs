//! Replication and commits. Everything happens as soon as it can; `cut`, `lags` and bad disks delay it.

use quorate_model::{ClusterId, Instant, MemberId};

use super::{Conf, Dir, Entry, Etcd, Group, Process, State};

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

    /// A client's write to a cluster. Returns whether it was acknowledged. While there is an alarm, it is refused.
    pub fn write(&mut self, cluster: ClusterId, write: u64) -> bool {
        let refused = self.group(cluster).is_none_or(|group| !group.tip.alarms.is_empty());
        !refused && self.commit(cluster, Entry::Write(write))
    }

    /// Appends an entry if the disks of a quorum store it. Returns whether the leader acknowledges it. A leader whose own disk
    /// does not store it sends it to the others beside writing it, so it is committed, and nobody acknowledges it.
    pub(super) fn commit(&mut self, cluster: ClusterId, entry: Entry) -> bool {
        self.commit_as(cluster, |group| {
            if matches!(entry, Entry::Write(_)) {
                group.before_last_write = Some(group.tip.clone());
            }
            group.log.push(entry);
            group.tip.len = group.log.len();
        })
    }

    /// Appends an entry without an effect. Returns whether the leader acknowledges it.
    pub(super) fn commit_nothing(&mut self, cluster: ClusterId) -> bool {
        self.commit_as(cluster, |group| group.tip.without_effect += 1)
    }

    pub(super) fn commit_as(&mut self, cluster: ClusterId, append: impl FnOnce(&mut Group)) -> bool {
        let Some(group) = self.group(cluster) else { return false };
        // While a leadership transfer is pending, raft drops proposals.
        let Some(leader) = group.leader.filter(|_| group.transfer.is_none()) else { return false };
        let conf = self.as_raft_has_it(group.conf());
        let storing = |(_, process, dir): &(&String, &Process, &Dir)| {
            conf.is_voter(dir.member) && self.stores(process) && process.stuck.is_none()
        };
        let is_stored = self.up(cluster).filter(storing).count() >= conf.quorum();
        let acknowledges = self.up(cluster).any(|up| up.2.member == leader && self.stores(up.1));
        if is_stored && let Some(group) = self.group_mut(cluster) {
            append(group);
        }
        // The leader sends it in any case.
        self.write_to_bad_disks(cluster);
        if is_stored {
            self.replicate(cluster);
        }
        is_stored && acknowledges
    }

    /// Every member has to store an entry. Those whose disks do not work wait or end.
    fn write_to_bad_disks(&mut self, cluster: ClusterId) -> bool {
        let Some(group) = self.group(cluster) else { return false };
        let Some(leader) = group.leader else { return false };
        let bad: Vec<(String, bool)> = self
            .up(cluster)
            .filter(|(_, process, dir)| {
                group.conf().members.contains_key(&dir.member) && !process.lags && !self.stores(process)
            })
            .map(|(at, _, dir)| (at.clone(), dir.member != leader))
            .collect();
        let mut any = false;
        for (at, ahead) in &bad {
            any |= self.meet_bad_disk(at, Some(leader), *ahead);
        }
        any
    }

    fn lead_and_follow(&mut self, now: Instant) -> bool {
        let ids: Vec<ClusterId> = self.groups().map(super::Group::id).collect();
        let mut any = false;
        for id in ids {
            any |= self.give_up_transfer(id, now);
            any |= self.elect(id);
            any |= self.end_members_that_lost_entries(id, now);
            any |= self.replicate(id);
            any |= self.publish(id);
            any |= self.move_cluster_version(id);
            any |= self.end_removed_members(id, now);
        }
        any
    }

    /// Ends each member that has fewer entries than the leader knows it to have stored. The leader makes it commit entries
    /// that it does not have, and it panics ("tocommit is out of range"). A member whose data were emptied does so until
    /// another member leads.
    fn end_members_that_lost_entries(&mut self, cluster: ClusterId, now: Instant) -> bool {
        let Some(group) = self.group(cluster) else { return false };
        let ended: Vec<String> = self
            .up(cluster)
            .filter(|(_, _, dir)| group.matched(dir.member).is_some_and(|matched| dir.stored.len < matched))
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
        let (tip, conf) = (group.tip.clone(), self.as_raft_has_it(group.conf()));
        let behind = |(_, process, dir): &(&String, &Process, &Dir)| {
            let is_behind = dir.stored.index() < tip.index();
            // A removed member is sent the entry of its removal, unless it lacks more than that.
            let leaves = conf.removed.contains(&dir.member) && dir.stored.len + 1 == tip.len;
            let member = leaves || conf.members.contains_key(&dir.member);
            is_behind && member && process.stuck.is_none()
        };
        let prompt = self
            .up(cluster)
            .filter(|(_, process, dir)| conf.is_voter(dir.member) && !process.lags && self.stores(process));
        let needed = prompt.count() < conf.quorum();
        let (receivers, bad): (Vec<_>, Vec<_>) = self
            .up(cluster)
            .filter(behind)
            .filter(|(_, process, dir)| !process.lags || (needed && conf.is_voter(dir.member)))
            .map(|(at, process, _)| (at.clone(), process.launch.dir.clone()))
            .partition(|(_, dir)| self.stores_on(dir));
        let leader = group.leader;
        let mut any = !receivers.is_empty();
        for (at, _) in &bad {
            any |= self.meet_bad_disk(at, leader, true);
        }
        for (_, dir) in &receivers {
            if let Some(dir) = self.dirs.get_mut(dir) {
                dir.stored = tip.clone();
            }
        }
        self.match_up(cluster);
        any
    }

    /// Every reachable member reports to the leader what it has stored.
    fn match_up(&mut self, cluster: ClusterId) {
        let reported: Vec<(MemberId, usize)> = self
            .up(cluster)
            .filter(|(_, process, _)| process.stuck.is_none())
            .map(|(_, _, dir)| (dir.member, dir.stored.len))
            .collect();
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
                !process.serves
                    && process.stuck.is_none()
                    && dir.stored.len == len
                    && group.conf().members.contains_key(&dir.member)
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
                let known = group.conf_at(own.stored.len);
                self.up(cluster).any(|(_, _, other)| {
                    let itself = other.member == own.member && process.serves;
                    // A member that joins knows the peers it was started with. (If it is started a second time, it knows none.)
                    let is_known_peer = other.member != own.member
                        && (own.stored.len == 0 || known.members.contains_key(&other.member));
                    (itself || is_known_peer) && group.conf_at(other.stored.len).removed.contains(&own.member)
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
