//! A plan in the making: what was seen, the record as it will be, and the effects that safety let pass.

use std::ops::ControlFlow;

use quorate_model::record::{Member, Stage};
use quorate_model::snapshot::{Listed, Pod, StatusReply, Volume};
use quorate_model::{
    Effect, Instant, KubeEffect, MemberName, Ordinal, Plan, Record, Snapshot, Step, Waiting,
};

use crate::safety::{self, Scene};

/// Whether the protocols after this one may still run in this pass.
pub(crate) type Flow = ControlFlow<()>;

/// Nothing after this one runs.
pub(crate) const DONE: Flow = ControlFlow::Break(());
/// The next one may run.
pub(crate) const ON: Flow = ControlFlow::Continue(());

pub(crate) struct Draft<'a> {
    pub(crate) seen: &'a Snapshot,
    pub(crate) now: Instant,
    pub(crate) record: Record,
    recorded_steps: Vec<Step>,
    effects: Vec<Effect>,
    waiting: Vec<Waiting>,
}

/// Does it for every member, also after one that is not done; whether all are done.
pub(crate) fn for_all(members: &[MemberName], mut done: impl FnMut(&MemberName) -> bool) -> bool {
    let mut all = true;
    for member in members {
        all &= done(member);
    }
    all
}

impl<'a> Draft<'a> {
    pub(crate) fn new(seen: &'a Snapshot, now: Instant) -> Self {
        Self {
            seen,
            now,
            record: seen.record.clone(),
            recorded_steps: Vec::new(),
            effects: Vec::new(),
            waiting: Vec::new(),
        }
    }

    pub(crate) fn finish(self) -> Plan {
        let recorded_steps = if self.record == self.seen.record { Vec::new() } else { self.recorded_steps };
        Plan { record: self.record, recorded_steps, effects: self.effects, waiting: self.waiting }
    }

    /// Changes the record; status is written before any effect of this plan.
    pub(crate) fn write_record(&mut self, step: Step, change: impl FnOnce(&mut Record)) {
        let before = self.record.clone();
        change(&mut self.record);
        if self.record != before && !self.recorded_steps.contains(&step) {
            self.recorded_steps.push(step);
        }
    }

    /// Adds an effect if it is safe; otherwise says why not. Whether it was added.
    pub(crate) fn propose(&mut self, effect: Effect) -> bool {
        let scene = Scene { seen: self.seen, record: &self.record, now: self.now, before: &self.effects };
        match safety::permits(&scene, &effect) {
            Ok(()) => {
                self.effects.push(effect);
                true
            }
            Err(why) => {
                self.wait(Waiting::Unsafe(why));
                false
            }
        }
    }

    /// Says what is waited on, once.
    pub(crate) fn wait(&mut self, waiting: Waiting) {
        if !self.waiting.contains(&waiting) {
            self.waiting.push(waiting);
        }
    }

    /// Puts a member into a stage, from now on.
    pub(crate) fn enter(&mut self, step: Step, member: &MemberName, stage: Stage) {
        let now = self.now;
        self.write_record(step, |record| {
            if let Some(member) = record.members.get_mut(member) {
                member.stage = stage;
                member.since = now;
            }
        });
    }

    /// Promises the next name to a new member (R2).
    pub(crate) fn promise_name(&mut self, step: Step, stage: Stage) -> MemberName {
        let ordinal = self.next_ordinal();
        let name = self.seen.cluster.member(ordinal);
        let member = Member { stage, id: None, volume: None, version: None, since: self.now };
        self.write_record(step, |record| {
            record.next_ordinal = ordinal.next();
            record.members.insert(name.clone(), member);
        });
        name
    }

    /// The first ordinal that nothing seen or recorded ever used.
    pub(crate) fn next_ordinal(&self) -> Ordinal {
        let cluster = &self.seen.cluster;
        let listed = self.seen.etcd.list.iter().flat_map(|list| &list.members);
        self.record
            .members
            .keys()
            .chain(self.seen.pods.keys())
            .chain(self.seen.volumes.keys())
            .filter_map(|name| cluster.ordinal(name))
            .chain(listed.filter_map(|listed| self.ordinal_of(listed)))
            .map(Ordinal::next)
            .fold(self.record.next_ordinal, Ord::max)
    }

    /// The ordinal of a listed member whose peer URL is one of ours.
    pub(crate) fn ordinal_of(&self, listed: &Listed) -> Option<Ordinal> {
        let host = listed.peer_url.as_str().split("://").nth(1)?.split('.').next()?;
        let name = MemberName::new(host);
        let ordinal = self.seen.cluster.ordinal(&name)?;
        (self.seen.peer_url(&name) == listed.peer_url).then_some(ordinal)
    }

    pub(crate) fn pod(&self, member: &MemberName) -> Option<&'a Pod> {
        self.seen.pods.get(member)
    }

    pub(crate) fn volume(&self, member: &MemberName) -> Option<&'a Volume> {
        self.seen.volumes.get(member)
    }

    /// The volume that was latched as a member's is gone, or is another one under its name.
    pub(crate) fn lost_its_volume(&self, member: &MemberName) -> bool {
        let latched = self.record.members.get(member).and_then(|member| member.volume.as_ref());
        latched.is_some() && self.volume(member).map(|volume| &volume.uid) != latched
    }

    pub(crate) fn status_of(&self, member: &MemberName) -> Option<&'a StatusReply> {
        self.seen.status_of(member, self.now)
    }

    pub(crate) fn listed(&self, member: &MemberName) -> Option<&'a Listed> {
        self.seen.listed(&self.record, member, self.now)
    }

    pub(crate) fn is_listed_voter(&self, member: &MemberName) -> bool {
        self.listed(member).is_some_and(|listed| !listed.is_learner)
    }

    pub(crate) fn member_of(&self, listed: &Listed) -> Option<MemberName> {
        self.seen.member_of(&self.record, listed)
    }

    /// The member that serves the list, at which membership calls are made (R9).
    pub(crate) fn via(&self) -> Option<&'a MemberName> {
        self.seen.list(self.now).map(|list| &list.via)
    }

    pub(crate) fn is_leader(&self, member: &MemberName) -> bool {
        let leader = self.seen.leader(self.now);
        leader.is_some() && leader == self.record.members.get(member).and_then(|member| member.id)
    }

    /// Deletes a Pod as it was seen, or waits for it to be gone. `true` once it is gone.
    pub(crate) fn clear_pod(&mut self, step: Step, member: &MemberName) -> bool {
        let Some(pod) = self.pod(member) else { return true };
        if !pod.terminating {
            let delete = KubeEffect::DeletePod {
                member: member.clone(),
                pod: pod.uid.clone(),
                resource_version: pod.resource_version.clone(),
            };
            self.propose(Effect::kube(step, delete));
        }
        self.wait(Waiting::PodStopping(member.clone()));
        false
    }

    /// Deletes a volume as it was seen, or waits for it to be gone. `true` once it is gone.
    pub(crate) fn clear_volume(&mut self, step: Step, member: &MemberName) -> bool {
        let Some(volume) = self.volume(member) else { return true };
        if volume.cluster_uid.as_ref() != Some(&self.seen.uid) {
            return true;
        }
        if !volume.terminating {
            let delete = KubeEffect::DeleteVolume {
                member: member.clone(),
                volume: volume.uid.clone(),
                resource_version: volume.resource_version.clone(),
            };
            self.propose(Effect::kube(step, delete));
        }
        self.wait(Waiting::VolumeGoing(member.clone()));
        false
    }
}
