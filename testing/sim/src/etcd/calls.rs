//! What clients may ask a member, and whether it answers.

use quorate_model::snapshot::{Alarm, StatusReply};
use quorate_model::version::Minor;
use quorate_model::{ClusterId, Instant, MemberId, Refusal, Revision};

use super::replicated::Role;
use super::space;
use super::{Conf, Entry, Etcd, Group, HEALTH_INTERVAL_MS, State};

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

pub(super) type Reply<T> = Result<T, Failed>;

impl Etcd {
    /// A member's Status, from what it holds itself.
    pub fn status(&self, at: &str) -> Reply<StatusReply> {
        let (process, dir, group) = self.serving(at)?;
        let is_learner = dir.is_learner(group);
        let unnoticed = group.deposed.filter(|_| is_learner);
        let leader = match &process.stuck {
            Some(stuck) => stuck.leader,
            None => self.follows(at, group).then_some(group.leader).flatten().or(unnoticed),
        };
        let ahead = u64::from(process.stuck.as_ref().is_some_and(|stuck| stuck.ahead));
        // In 3.6 before 3.6.12 only root may ask.
        let root_only = process.launch.version.line() == Minor(3, 6) && process.launch.version.patch < 12;
        self.permits(process, &dir.stored, if root_only { Role::Root } else { Role::AnyUser })?;
        // An alarm without a member is an error to the operator.
        let (named, unnamed): (Vec<Alarm>, Vec<Alarm>) =
            dir.stored.alarms.iter().partition(|alarm| alarm.member != MemberId(0));
        let held = group.log.get(..dir.stored.len).unwrap_or(&group.log);
        let writes = held.iter().filter(|entry| matches!(entry, Entry::Write(_))).count();
        let reports_versions = process.launch.version.line() >= Minor(3, 6);
        Ok(StatusReply {
            cluster_id: group.id,
            member_id: dir.member,
            leader,
            is_learner,
            committed: dir.stored.index() + ahead,
            applied: dir.stored.index() + ahead,
            revision: Revision(
                i64::try_from(writes).unwrap_or(i64::MAX)
                    + group.began_with.as_ref().map_or(1, |snap| snap.revision),
            ),
            version: process.launch.version,
            alarms: named,
            errors: unnamed
                .iter()
                .map(|alarm| format!("alarm:{}", format!("{:?}", alarm.kind).to_uppercase()))
                .collect(),
            database: space::database(dir.full, dir.stored.mib),
            storage_version: dir.stored.cluster_version.filter(|_| reports_versions),
            downgrade: dir.stored.downgrade.filter(|_| reports_versions),
        })
    }

    /// Whether the probe beside a process finds it ready: it serves reads from its own data, and is a voter by them.
    pub fn is_ready(&self, at: &str) -> bool {
        let Some(process) = self.process(at) else { return false };
        let votes = |dir: &super::Dir| self.group(dir.cluster).is_some_and(|group| !dir.is_learner(group));
        let answers = process.serves && process.hashes_until.is_none();
        process.state == State::Running && answers && self.dir_of(process).is_some_and(votes)
    }

    /// The data of the member behind a process, if it answers clients at all.
    pub fn answering(&self, at: &str) -> Option<&super::Dir> {
        self.serving(at).ok().map(|(_, dir, _)| dir)
    }

    /// The member list by consensus.
    pub fn member_list(&self, at: &str) -> Reply<(ClusterId, Conf)> {
        let group = self.consenting(at)?;
        self.may(at, Role::AnyUser)?;
        Ok((group.id, group.conf().clone()))
    }

    /// AlarmList at a member: one entry in the log, without a revision.
    pub fn alarm_list(&mut self, at: &str) -> Reply<()> {
        let cluster = self.consenting(at)?.id;
        self.may(at, Role::AnyUser)?;
        if self.commit_nothing(cluster) { Ok(()) } else { Err(Failed::Unknown) }
    }

    /// A proof of progress: two AlarmList calls at a member. Returns the index that every member that stores has applied then.
    pub fn prove(&mut self, at: &str) -> Reply<u64> {
        self.alarm_list(at)?;
        self.alarm_list(at)?;
        self.status(at).map(|status| status.applied)
    }

    /// The member behind a process, if it answers clients at all.
    pub(super) fn serving(&self, at: &str) -> Reply<(&super::Process, &super::Dir, &Group)> {
        let process = self.processes.get(at).filter(|process| !process.cut).ok_or(Failed::Unreachable)?;
        if process.state != State::Running {
            return Err(Failed::Unreachable);
        }
        // Its port takes connections from the start, and lets them wait until it has met a leader.
        if !process.serves || process.hashes_until.is_some() {
            return Err(Failed::Unknown);
        }
        let dir = self.dir_of(process).ok_or(Failed::Unreachable)?;
        let group = self.group(dir.cluster).ok_or(Failed::Unreachable)?;
        Ok((process, dir, group))
    }

    /// Refuses what the operator may not ask a member where auth is enabled.
    pub(super) fn may(&self, at: &str, role: Role) -> Reply<()> {
        let (process, dir, _) = self.serving(at)?;
        self.permits(process, &dir.stored, role)
    }

    /// The member behind a process, if it answers more than the little that learners do.
    pub(super) fn voting(&self, at: &str) -> Reply<(&super::Process, &super::Dir, &Group)> {
        let (process, dir, group) = self.serving(at)?;
        if dir.is_learner(group) {
            return Err(Failed::Refused(Refusal::NotSupportedForLearner));
        }
        Ok((process, dir, group))
    }

    /// The cluster of a member that can ask a quorum.
    pub(super) fn consenting(&self, at: &str) -> Reply<&Group> {
        let (_, _, group) = self.voting(at)?;
        if self.follows(at, group) { Ok(group) } else { Err(Failed::Unknown) }
    }

    /// Whether a process is in touch with the leader.
    fn follows(&self, at: &str, group: &Group) -> bool {
        group.leader.is_some()
            && self.up(group.id).any(|(up, process, _)| up == at && process.stuck.is_none())
    }

    /// `numConnectedSince`: how many voters this member is connected to for long enough, itself included.
    pub(super) fn connected(&self, at: &str, now: Instant) -> Reply<usize> {
        let (process, dir, group) = self.serving(at)?;
        let known = group.conf_at(dir.stored.len);
        let ripe = |process: &super::Process| (now - process.since).0 >= HEALTH_INTERVAL_MS;
        let count = self
            .up(group.id)
            .filter(|(_, _, dir)| known.is_voter(dir.member))
            .filter(|(other, peer, _)| *other == at || (ripe(process) && ripe(peer)))
            .count();
        Ok(count)
    }
}
