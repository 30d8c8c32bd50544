//! What clients may ask a member, and why it refuses (etcd's `server.go`: `mayAddMember`, `mayRemoveMember`,
//! `mayPromote`; `membership/cluster.go`: `ValidateConfigurationChange`).

use quorate_model::quorum::quorum;
use quorate_model::snapshot::StatusReply;
use quorate_model::{ClusterId, Instant, MemberId, PeerUrl, Refusal, Revision};

use super::start::hash;
use super::{Conf, Entry, Etcd, Group, HEALTH_INTERVAL_MS, Peer, State};

/// Why a call brought nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failed {
    /// The member answered that it will not.
    Refused(Refusal),
    /// There was no answer.
    Unknown,
    /// Nobody is there.
    Unreachable,
}

type Reply<T> = Result<T, Failed>;

impl Etcd {
    /// A member's Status, from what it holds itself.
    pub fn status(&self, at: &str) -> Reply<StatusReply> {
        let (process, dir, group) = self.serving(at)?;
        let is_learner = group.conf_at(dir.len).members.get(&dir.member).is_some_and(|peer| peer.is_learner);
        let unnoticed = group.deposed.filter(|_| is_learner);
        let leader = self.follows(at, group).then_some(group.leader).flatten().or(unnoticed);
        let mut errors: Vec<String> = process.alarms.clone();
        if leader.is_none() {
            errors.push("etcdserver: no leader".to_owned());
        }
        let held = group.log.get(..dir.len).unwrap_or(&group.log);
        let writes = held.iter().filter(|entry| matches!(entry, Entry::Write(_))).count();
        Ok(StatusReply {
            cluster_id: group.id,
            member_id: dir.member,
            leader,
            is_learner,
            applied: dir.len as u64 + 1,
            revision: Revision(i64::try_from(writes).unwrap_or(i64::MAX) + 1),
            version: process.launch.version,
            errors,
        })
    }

    /// The member list by consensus.
    pub fn member_list(&self, at: &str) -> Reply<(ClusterId, Conf)> {
        let group = self.consenting(at)?;
        Ok((group.id, group.conf().clone()))
    }

    /// MemberAdd as a learner.
    pub fn add_learner(&mut self, at: &str, url: &PeerUrl, now: Instant) -> Reply<MemberId> {
        let (_, dir, group) = self.voting(at)?;
        // `isConnectedToQuorumAfterAddingNewMemberSince`, from what this member itself knows: no leader is needed to refuse.
        let voters = group.conf_at(dir.len).voters().count();
        if voters > 1 && self.connected(at, now)? < quorum(voters + 1) {
            return Err(Failed::Refused(Refusal::UnhealthyCluster));
        }
        let group = self.consenting(at)?;
        let cluster = group.id;
        let mut conf = group.conf().clone();
        if conf.by_url(url).is_some() {
            return Err(Failed::Refused(Refusal::PeerUrlExists));
        }
        if conf.members.values().any(|peer| peer.is_learner) {
            return Err(Failed::Refused(Refusal::TooManyLearners));
        }
        self.added += 1;
        let id = MemberId(hash(&(url.as_str(), cluster.0, self.added)));
        let peer = Peer { url: url.clone(), name: String::new(), is_learner: true, started: false };
        conf.members.insert(id, peer);
        self.change(cluster, conf)?;
        Ok(id)
    }

    /// MemberPromote, which the leader answers, whoever is asked.
    pub fn promote(&mut self, at: &str, id: MemberId) -> Reply<()> {
        let group = self.consenting(at)?;
        let cluster = group.id;
        let mut conf = group.conf().clone();
        let voters = conf.voters().count();
        let started = conf.started_voters(None);
        let Some(peer) = conf.members.get_mut(&id) else {
            return Err(Failed::Refused(Refusal::MemberNotFound));
        };
        // `isLearnerReady`: what the leader remembers of it is 90 % of its own log, be it there or not. Asked first, also of
        // a voter.
        if group.matched(id).unwrap_or(0) * 10 < group.log.len() * 9 {
            return Err(Failed::Refused(Refusal::LearnerNotReady));
        }
        // `IsReadyToPromoteMember`: of the voters to be, the started ones must be a quorum; it counts as one of them.
        if started + 1 < quorum(voters + 1) {
            return Err(Failed::Refused(Refusal::NotEnoughStartedMembers));
        }
        if !peer.is_learner {
            return Err(Failed::Refused(Refusal::MemberNotLearner));
        }
        peer.is_learner = false;
        self.change(cluster, conf)
    }

    /// MemberRemove.
    pub fn remove(&mut self, at: &str, id: MemberId, now: Instant) -> Reply<()> {
        let (_, dir, group) = self.voting(at)?;
        let known = group.conf_at(dir.len);
        if !known.members.get(&id).is_some_and(|peer| peer.is_learner) {
            // `IsReadyToRemoveVotingMember`: the started among the rest must be a quorum of the rest. So the last of all can
            // not be removed. Asked also where there is no such member.
            let rest = known.voters().filter(|voter| *voter != id).count();
            if known.started_voters(Some(id)) < quorum(rest) {
                return Err(Failed::Refused(Refusal::NotEnoughStartedMembers));
            }
            // A member that nobody is connected to may go; else those that were connected for 5 s must make a quorum.
            let is_up = self.up(group.id).any(|(_, _, dir)| dir.member == id);
            let active = self.connected(at, now)?;
            if is_up && active.saturating_sub(1) < 1 + (known.voters().count() - 1) / 2 {
                return Err(Failed::Refused(Refusal::UnhealthyCluster));
            }
        }
        let group = self.consenting(at)?;
        let cluster = group.id;
        let mut conf = group.conf().clone();
        if conf.members.remove(&id).is_none() {
            return Err(Failed::Refused(Refusal::MemberNotFound));
        }
        conf.removed.insert(id);
        self.change(cluster, conf)
    }

    /// MoveLeader, which only the leader does.
    pub fn move_leader(&mut self, at: &str, to: MemberId) -> Reply<()> {
        let (_, dir, group) = self.voting(at)?;
        let (cluster, own) = (group.id, dir.member);
        if group.leader != Some(own) {
            return Err(Failed::Refused(Refusal::NotLeader));
        }
        if !group.conf().is_voter(to) {
            return Err(Failed::Refused(Refusal::BadLeaderTransferee));
        }
        let able = self.up(cluster).any(|(_, _, dir)| dir.member == to && dir.len == group.log.len());
        if !able {
            return Err(Failed::Unknown);
        }
        if let Some(group) = self.group_mut(cluster) {
            group.lead(Some(to));
        }
        self.replicate(cluster);
        Ok(())
    }

    /// What is committed was agreed upon by a quorum of the configuration before it.
    fn change(&mut self, cluster: ClusterId, conf: Conf) -> Reply<()> {
        if self.commit(cluster, Entry::Conf(conf.into())) { Ok(()) } else { Err(Failed::Unknown) }
    }

    /// The member behind a process, if it answers clients at all.
    fn serving(&self, at: &str) -> Reply<(&super::Process, &super::Dir, &Group)> {
        let process = self.processes.get(at).filter(|process| !process.cut).ok_or(Failed::Unreachable)?;
        if process.state != State::Running {
            return Err(Failed::Unreachable);
        }
        // Its port takes connections from the start, and lets them wait until it has met a leader.
        if !process.serves {
            return Err(Failed::Unknown);
        }
        let dir = self.dir_of(process).ok_or(Failed::Unreachable)?;
        let group = self.group(dir.cluster).ok_or(Failed::Unreachable)?;
        Ok((process, dir, group))
    }

    /// The member behind a process, if it answers more than the little that learners do.
    fn voting(&self, at: &str) -> Reply<(&super::Process, &super::Dir, &Group)> {
        let (process, dir, group) = self.serving(at)?;
        if group.conf_at(dir.len).members.get(&dir.member).is_some_and(|peer| peer.is_learner) {
            return Err(Failed::Refused(Refusal::NotSupportedForLearner));
        }
        Ok((process, dir, group))
    }

    /// The cluster of a member that can ask a quorum.
    fn consenting(&self, at: &str) -> Reply<&Group> {
        let (_, _, group) = self.voting(at)?;
        if self.follows(at, group) { Ok(group) } else { Err(Failed::Unknown) }
    }

    /// Whether a process is in touch with the leader.
    fn follows(&self, at: &str, group: &Group) -> bool {
        group.leader.is_some() && self.up(group.id).any(|(up, ..)| up == at)
    }

    /// `numConnectedSince`: how many voters this member is connected to for long enough, itself included.
    fn connected(&self, at: &str, now: Instant) -> Reply<usize> {
        let (process, dir, group) = self.serving(at)?;
        let known = group.conf_at(dir.len);
        let ripe = |process: &super::Process| (now - process.since).0 >= HEALTH_INTERVAL_MS;
        let count = self
            .up(group.id)
            .filter(|(_, _, dir)| known.is_voter(dir.member))
            .filter(|(other, peer, _)| *other == at || (ripe(process) && ripe(peer)))
            .count();
        Ok(count)
    }
}
