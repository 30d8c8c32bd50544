//! Changes of membership and of the leader, and why a member refuses them (etcd's `server.go`: `mayAddMember`,
//! `mayRemoveMember`, `mayPromote`; `membership/cluster.go`: `ValidateConfigurationChange`).

use quorate_model::quorum::quorum;
use quorate_model::{ClusterId, Instant, MemberId, PeerUrl, Refusal};

use super::calls::Reply;
use super::replicated::Role;
use super::start::hash;
use super::{Conf, Disk, Entry, Etcd, Failed, Peer};

impl Etcd {
    /// MemberAdd as a learner.
    pub fn add_learner(&mut self, at: &str, url: &PeerUrl, now: Instant) -> Reply<MemberId> {
        self.may(at, Role::Root)?;
        let (_, dir, group) = self.voting(at)?;
        // `isConnectedToQuorumAfterAddingNewMemberSince`, from what this member itself knows: no leader is needed to refuse.
        let voters = group.conf_at(dir.stored.len).voters().count();
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
        self.may(at, Role::Root)?;
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
        self.may(at, Role::Root)?;
        let (_, dir, group) = self.voting(at)?;
        let known = group.conf_at(dir.stored.len);
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

    /// MoveLeader, which only the leader does. If the target does not take over within an election timeout, the leader stays,
    /// and there was no reply in time. Until then proposals are dropped.
    pub fn move_leader(&mut self, at: &str, to: MemberId, now: Instant) -> Reply<()> {
        self.may(at, Role::Root)?;
        let (_, dir, group) = self.voting(at)?;
        let (cluster, own) = (group.id, dir.member);
        if group.leader != Some(own) {
            return Err(Failed::Refused(Refusal::NotLeader));
        }
        if !group.conf().is_voter(to) {
            return Err(Failed::Refused(Refusal::BadLeaderTransferee));
        }
        if to == own {
            return Ok(());
        }
        let tip = group.tip.index();
        let target = self.up(cluster).find(|(_, _, dir)| dir.member == to);
        let able = target.is_some_and(|(_, process, dir)| {
            // Its own vote comes after the leader has given the transfer up.
            let votes_in_time = self.stores(process) && self.disk(&process.launch.dir) != Disk::Slow;
            // A learner does not campaign (raft's `promotable`).
            votes_in_time && !dir.unpromoted && dir.stored.index() == tip
        });
        if able {
            self.make_leader(cluster, to);
            self.replicate(cluster);
            return Ok(());
        }
        // It is asked to campaign, and the first thing to do for that is to write.
        let asked = target.map(|(at, ..)| at.clone());
        asked.map(|at| self.meet_bad_disk(&at, None, false));
        if let Some(group) = self.group_mut(cluster) {
            group.transfer = Some((to, now));
        }
        Err(Failed::Unknown)
    }

    /// What is committed was agreed upon by a quorum of the configuration before it.
    fn change(&mut self, cluster: ClusterId, conf: Conf) -> Reply<()> {
        if self.commit(cluster, Entry::Conf(conf.into())) { Ok(()) } else { Err(Failed::Unknown) }
    }
}
