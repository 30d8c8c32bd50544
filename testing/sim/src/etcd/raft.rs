//! Leaders, replication and commits. All of it happens as soon as it can: what is slow is made so by `cut` and `lags`.

use quorate_model::{ClusterId, Instant, MemberId};

use super::{Conf, Entry, Etcd, State};

impl Etcd {
    /// Lets everything happen that can happen by itself. Whether anything did.
    pub fn settle(&mut self, now: Instant) -> bool {
        let mut any = false;
        // Each round either starts or ends a process, elects, replicates or publishes, and none of them comes back.
        while self.start_processes(now) | self.lead_and_follow(now) {
            any = true;
        }
        any
    }

    /// A client's write at a cluster; whether it was acknowledged.
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
            any |= self.stumble(id, now);
            any |= self.replicate(id);
            any |= self.publish(id);
            any |= self.expel(id, now);
        }
        any
    }

    /// Keeps the leader while it has its quorum; else elects the reachable voter that holds most.
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
        // Most entries first; among equals the one that was first in the cluster.
        able.sort_by_key(|(len, member)| (std::cmp::Reverse(*len), self.rank(cluster, *member)));
        let leader = able.first().copied();
        let Some(group) = self.group_mut(cluster) else { return false };
        group.lead(leader.map(|(_, member)| member));
        if let Some((len, _)) = leader
            && len < group.log.len()
        {
            // What a quorum had stored is forgotten.
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

    /// Whether a member would be elected: a voter of the configuration it believes, with the votes of a quorum of it.
    fn has_votes(&self, cluster: ClusterId, candidate: MemberId) -> bool {
        let Some(group) = self.group(cluster) else { return false };
        let Some((_, _, own)) = self.up(cluster).find(|(_, _, dir)| dir.member == candidate) else {
            return false;
        };
        let conf = group.conf_at(own.len);
        // A member that joins knows of nobody before its first entries.
        let knows = own.len > 0 || group.founders.members.contains_key(&candidate);
        let votes =
            self.up(cluster).filter(|(_, _, dir)| conf.is_voter(dir.member) && dir.len <= own.len).count();
        knows && conf.is_voter(candidate) && votes >= conf.quorum()
    }

    /// Founders by their place in the configuration, others by the order of their ids: the same for a run and its replay.
    fn rank(&self, cluster: ClusterId, member: MemberId) -> Option<String> {
        let peer = self.group(cluster)?.conf().members.get(&member)?;
        Some(peer.url.as_str().to_owned())
    }

    /// A member that holds less than the leader knows it to have stored is told to commit what it does not have, and panics
    /// ("tocommit is out of range"): so does one whose data were emptied, until another member leads.
    fn stumble(&mut self, cluster: ClusterId, now: Instant) -> bool {
        let Some(group) = self.group(cluster) else { return false };
        let forgot: Vec<String> = self
            .up(cluster)
            .filter(|(_, _, dir)| group.matched(dir.member).is_some_and(|matched| dir.len < matched))
            .map(|(at, ..)| at.clone())
            .collect();
        for at in &forgot {
            self.end(at, "tocommit is out of range: was the raft log corrupted, truncated, or lost?", now);
        }
        !forgot.is_empty()
    }

    /// Gives every reachable member what it lacks. One that lags gets it only where the quorum needs it.
    pub(super) fn replicate(&mut self, cluster: ClusterId) -> bool {
        let Some(group) = self.group(cluster) else { return false };
        if group.leader.is_none() {
            return false;
        }
        let (len, conf) = (group.log.len(), group.conf());
        let voters = self.up(cluster).filter(|(_, _, dir)| conf.is_voter(dir.member));
        let prompt = voters.filter(|(_, process, _)| !process.lags).count();
        let needed = prompt < conf.quorum();
        let takes: Vec<String> = self
            .up(cluster)
            .filter(|(_, _, dir)| dir.len < len)
            .filter(|(_, process, dir)| {
                // Who is removed is sent its removal, and nothing if it was not there then.
                let leaves = conf.removed.contains(&dir.member) && dir.len + 1 == len;
                let member = leaves || conf.members.contains_key(&dir.member);
                member && (!process.lags || (needed && conf.is_voter(dir.member)))
            })
            .map(|(_, process, _)| process.launch.dir.clone())
            .collect();
        for dir in &takes {
            if let Some(dir) = self.dirs.get_mut(dir) {
                dir.len = len;
            }
        }
        self.match_up(cluster);
        !takes.is_empty()
    }

    /// The leader hears from every reachable member what it has stored.
    fn match_up(&mut self, cluster: ClusterId) {
        let heard: Vec<(MemberId, usize)> =
            self.up(cluster).map(|(_, _, dir)| (dir.member, dir.len)).collect();
        let Some(group) = self.group_mut(cluster) else { return };
        let members = group.conf().members.clone();
        group.matched.retain(|member, _| members.contains_key(member));
        group.stored.extend(heard.iter().filter(|(_, len)| *len > 0).map(|(member, _)| *member));
        for (member, len) in heard.into_iter().filter(|(member, _)| members.contains_key(member)) {
            let matched = group.matched.entry(member).or_default();
            *matched = len.max(*matched);
        }
    }

    /// A member that has caught up tells everybody its name and client URLs, and begins to serve.
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

    /// A member that was removed ends when it learns so: while it serves, from its own log; else from a peer that knows and
    /// that it knows. Started again beside nobody who knows, it waits: its log need not say that its removal was committed.
    fn expel(&mut self, cluster: ClusterId, now: Instant) -> bool {
        let Some(group) = self.group(cluster) else { return false };
        let gone: Vec<String> = self
            .up(cluster)
            .filter(|(_, process, own)| {
                let known = group.conf_at(own.len);
                self.up(cluster).any(|(_, _, other)| {
                    let itself = other.member == own.member && process.serves;
                    // One that joins knows those it was started with. (Started a second time it knows nobody.)
                    let met = other.member != own.member
                        && (own.len == 0 || known.members.contains_key(&other.member));
                    (itself || met) && group.conf_at(other.len).removed.contains(&own.member)
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
