//! The plan while it is made: the snapshot, the record as it will be, the effects that safety permits, and the acts that
//! several protocols share.

use std::ops::ControlFlow;

use quorate_model::effect::{Boot, Foreign, Rehearsal, Unsafe};
use quorate_model::record::{Leaving, Member, QuarantineCause, Stage};
use quorate_model::snapshot::{DOUBT_INTERVAL, Listed, PROOF_INTERVAL, Pod, StatusReply, Unhealthy, Volume};
use quorate_model::{
    AppliedObject, DeletedObject, Effect, EtcdCall, Instant, KubeEffect, Leaf, ManagedObject, MemberName,
    ObservedObject, Ordinal, PeerUrl, Plan, Protocol, Record, Snapshot, Span, Step, Waiting,
};

use crate::safety::{self, Scene};
use crate::{View, budget, restart};

/// Whether the protocols after this one may still run in this pass.
pub(crate) type Flow = ControlFlow<()>;

/// No protocol after this one runs.
pub(crate) const DONE: Flow = ControlFlow::Break(());
/// The next protocol may run.
pub(crate) const ON: Flow = ControlFlow::Continue(());

pub(crate) struct Draft<'a> {
    pub(crate) seen: &'a Snapshot,
    pub(crate) now: Instant,
    pub(crate) record: Record,
    recorded_steps: Vec<Step>,
    effects: Vec<Effect>,
    waiting: Vec<Waiting>,
    needs_proof: bool,
    rehearsal: Option<Box<Rehearsal>>,
}

/// How far an act has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Progress {
    /// It is done and was observed.
    Done,
    /// It was proposed or is waited on.
    Pending,
}

impl Progress {
    pub(crate) fn is_done(self) -> bool {
        self == Self::Done
    }
}

/// A pending act ends the pass.
impl From<Progress> for Flow {
    fn from(progress: Progress) -> Self {
        match progress {
            Progress::Done => ON,
            Progress::Pending => DONE,
        }
    }
}

/// Acts on every member, also after one that is pending. Done when all are.
pub(crate) fn for_all<T>(items: &[T], mut act: impl FnMut(&T) -> Progress) -> Progress {
    let mut all = Progress::Done;
    for item in items {
        if act(item) == Progress::Pending {
            all = Progress::Pending;
        }
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
            needs_proof: false,
            rehearsal: None,
        }
    }

    /// What is known, with the record as it is by now.
    pub(crate) fn view(&self) -> View<'_> {
        View { seen: self.seen, record: &self.record, now: self.now }
    }

    pub(crate) fn finish(self, ended_by: Option<Protocol>) -> Plan {
        let is_calm = ended_by.is_none() && self.via().is_some();
        let needs_proof = self.needs_proof || (is_calm && self.is_in_doubt());
        let proof_is_due = is_calm && self.proved_before(PROOF_INTERVAL);
        let recorded_steps = if self.record == self.seen.record { Vec::new() } else { self.recorded_steps };
        Plan {
            record: self.record,
            recorded_steps,
            effects: self.effects,
            waiting: self.waiting,
            ended_by,
            needs_proof,
            proof_is_due,
            rehearsal: self.rehearsal,
        }
    }

    /// Whether progress was not proved for this long: without an entry to apply, a member whose disk hangs looks healthy.
    fn proved_before(&self, age: Span) -> bool {
        self.seen.etcd.proved_at.is_none_or(|at| self.now - at >= age)
    }

    /// Whether the index alone makes a voter unhealthy. etcd does not report what it applied with a snapshot, so a proof decides.
    fn is_in_doubt(&self) -> bool {
        let lags = |voter| matches!(self.seen.health(voter, self.now), Err(Unhealthy::Lagging { .. }));
        self.proved_before(DOUBT_INTERVAL) && self.record.voters().any(lags)
    }

    /// Changes the record; status is written before any effect of this plan.
    pub(crate) fn write_record(&mut self, step: Step, change: impl FnOnce(&mut Record)) {
        let before = self.record.clone();
        change(&mut self.record);
        self.record.forget_certificates();
        if self.record != before && !self.recorded_steps.contains(&step) {
            self.recorded_steps.push(step);
        }
    }

    /// Changes what is recorded of a member, if one of this name is.
    pub(crate) fn write_member(&mut self, step: Step, member: &MemberName, change: impl FnOnce(&mut Member)) {
        self.write_record(step, |record| {
            if let Some(member) = record.members.get_mut(member) {
                change(member);
            }
        });
    }

    /// The names of all recorded members.
    pub(crate) fn members(&self) -> Vec<MemberName> {
        self.record.members.keys().cloned().collect()
    }

    /// The API server is asked about these effects, without carrying them out. One question in a pass.
    pub(crate) fn rehearse(&mut self, rehearsal: Rehearsal) {
        self.rehearsal.get_or_insert_with(|| Box::new(rehearsal));
    }

    /// K1: labels the Pod of a member as joined, if it is safe.
    pub(crate) fn label_joined(&mut self, member: &MemberName) {
        let Some(pod) = self.pod(member) else { return };
        self.write(Step::K1, KubeEffect::LabelJoined { member: member.clone(), pod: pod.uid.clone() });
    }

    /// R23: what is counted from now on counts from this clock.
    pub(crate) fn latest(&self) -> Instant {
        self.seen.present(self.now).latest
    }

    /// Whether an effect is safe now.
    pub(crate) fn judge(&self, effect: &Effect) -> Result<(), Unsafe> {
        let scene = Scene { seen: self.seen, record: &self.record, now: self.now, before: &self.effects };
        safety::permits(&scene, effect)
    }

    /// Waits for what forbids something, if anything does. Returns whether it does.
    pub(crate) fn wait_unless_safe(&mut self, judged: Result<(), Unsafe>) -> bool {
        let is_unsafe = judged.is_err();
        if let Err(why) = judged {
            self.wait(Waiting::Unsafe(why));
        }
        is_unsafe
    }

    /// Adds an effect if it is safe; otherwise the plan waits for what forbids it. Returns whether it was added.
    pub(crate) fn propose(&mut self, effect: Effect) -> bool {
        let judged = self.judge(&effect);
        if self.wait_unless_safe(judged) {
            return false;
        }
        self.effects.push(effect);
        true
    }

    /// Proposes to write an object.
    pub(crate) fn write(&mut self, step: Step, write: KubeEffect) -> bool {
        self.propose(Effect::kube(step, write))
    }

    /// Proposes a call to etcd, at this member.
    pub(crate) fn call(&mut self, step: Step, at: &MemberName, call: EtcdCall) -> bool {
        self.propose(Effect::etcd(step, at.clone(), call))
    }

    /// Applies an object. One of its name that this EtcdCluster does not own is never written, and does not prevent the rest: `halt` reports it.
    pub(crate) fn apply(&mut self, step: Step, object: AppliedObject) {
        if !self.seen.foreign.contains_key(&object.managed()) {
            self.write(step, KubeEffect::Apply(object));
        }
    }

    /// Deletes an object as it was observed.
    pub(crate) fn delete(&mut self, step: Step, object: DeletedObject, observed: &ObservedObject) {
        self.write(step, KubeEffect::Delete { object, observed: observed.clone() });
    }

    /// Takes back the restart of a member's Pod.
    pub(crate) fn withdraw_restart(&mut self, member: &MemberName) {
        self.effects.retain(|effect| {
            !matches!(effect.as_kube(), Some(KubeEffect::CreatePod { member: created, .. }) if created == member)
        });
        self.waiting.retain(|waiting| *waiting != Waiting::PodStarting(member.clone()));
    }

    /// Whether the plan has such a write already.
    fn writes(&self, is_so: impl FnMut(&KubeEffect) -> bool) -> bool {
        self.effects.iter().filter_map(Effect::as_kube).any(is_so)
    }

    /// Whether the plan annotates the volume of a member.
    pub(crate) fn annotates(&self, member: &MemberName) -> bool {
        self.writes(|write| matches!(write, KubeEffect::AnnotateVolume { member: annotated, .. } if annotated == member))
    }

    /// Whether the plan signs a leaf: its Secret changes.
    pub(crate) fn signs(&self, leaf: Leaf) -> bool {
        self.writes(|write| {
            matches!(write, KubeEffect::RenewLeaf { leaf: signed, .. } | KubeEffect::IssueLeaf { leaf: signed, .. } if *signed == leaf)
        })
    }

    /// Whether the plan changes an object already: one of a member, of all Secrets, or a Service or budget.
    pub(crate) fn changes(&self, object: &ManagedObject) -> bool {
        let applies = |write: &_| matches!(write, KubeEffect::Apply(applied) if applied.managed() == *object);
        let deletes = |write: &_, what: DeletedObject| matches!(write, KubeEffect::Delete { object, .. } if *object == what);
        self.writes(|write| match object {
            ManagedObject::Volume(volume) => matches!(
                write,
                KubeEffect::AnnotateVolume { member, .. }
                    | KubeEffect::ExpandVolume { member, .. }
                    | KubeEffect::QuarantineVolume { member, .. }
                    | KubeEffect::DeleteVolume { member, .. } if member == volume
            ),
            ManagedObject::Secret(_) => matches!(
                write,
                KubeEffect::KeepAuthority { .. }
                    | KubeEffect::Delete { object: DeletedObject::Authority(_), .. }
                    | KubeEffect::MakeNextAuthority { .. }
                    | KubeEffect::ArrangeAuthority { .. }
                    | KubeEffect::WriteTrust { .. }
                    | KubeEffect::RenewLeaf { .. }
            ),
            ManagedObject::DisruptionBudget => applies(write) || deletes(write, DeletedObject::Budget),
            ManagedObject::NetworkPolicy => applies(write) || deletes(write, DeletedObject::NetworkPolicy),
            ManagedObject::Connection | ManagedObject::PeerService | ManagedObject::ClientService => {
                applies(write)
            }
            // The operator changes the metadata of Pods by their revision.
            ManagedObject::Pod(_) => true,
        })
    }

    /// Takes back that clients are led to a member.
    pub(crate) fn withdraw_clients(&mut self, member: &MemberName) {
        self.effects.retain(|effect| {
            !matches!(effect.as_kube(), Some(KubeEffect::LabelServes { member: led_to, .. }) if led_to == member)
        });
    }

    /// Adds what is waited on, once.
    pub(crate) fn wait(&mut self, mut waiting: Waiting) {
        if let Waiting::PodStopping(member) = &waiting
            && self.pod(member).is_some_and(|pod| pod.is_stuck(self.now))
        {
            let node = self.pod(member).and_then(|pod| pod.node.clone());
            waiting = Waiting::PodStopsLate { member: member.clone(), node };
        }
        self.needs_proof |= matches!(waiting, Waiting::Unsafe(Unsafe::NotProven(_)));
        if !self.waiting.contains(&waiting) {
            self.waiting.push(waiting);
        }
    }

    /// Records that a member enters a stage now.
    pub(crate) fn enter(&mut self, step: Step, member: &MemberName, stage: Stage) {
        let now = self.latest();
        self.write_member(step, member, |member| (member.stage, member.since) = (stage, now));
    }

    /// Records the next name for a new member (R2).
    pub(crate) fn record_name(&mut self, step: Step, stage: Stage) -> MemberName {
        let ordinal = self.next_ordinal();
        let name = self.seen.cluster.member(ordinal);
        let member = Member { stage, id: None, volume: None, version: None, since: self.latest() };
        self.write_record(step, |record| {
            record.next_ordinal = ordinal.next();
            record.members.insert(name.clone(), member);
        });
        name
    }

    /// The first ordinal that nothing observed or recorded ever used.
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

    pub(crate) fn status_of(&self, member: &MemberName) -> Option<&'a StatusReply> {
        self.seen.status_of(member, self.now)
    }

    pub(crate) fn listed(&self, member: &MemberName) -> Option<&'a Listed> {
        self.seen.listed(&self.record, member, self.now)
    }

    /// The member that serves the list, at which membership calls are made (R9).
    pub(crate) fn via(&self) -> Option<&'a MemberName> {
        self.seen.list(self.now).map(|list| &list.via)
    }

    /// Creates a new member's volume and records its uid.
    pub(crate) fn create_volume(&mut self, step: Step, member: &MemberName) -> Progress {
        if self.view().recorded(member).is_some_and(|member| member.volume.is_some()) {
            return Progress::Done;
        }
        match self.volume(member) {
            Some(volume) if self.view().is_own(volume) && volume.quarantine.is_none() => {
                self.write_member(step, member, |member| member.volume = Some(volume.uid.clone()));
                return Progress::Done;
            }
            Some(_) => {
                let name = format!("PersistentVolumeClaim {}/{member}", self.seen.cluster.namespace);
                self.wait(Waiting::ForeignObjects(vec![Foreign::Object(name)]));
            }
            None => {
                self.write(step, KubeEffect::CreateVolume { member: member.clone() });
            }
        }
        Progress::Pending
    }

    /// Deletes a Pod as it was observed, or waits until it is gone.
    pub(crate) fn delete_pod(&mut self, step: Step, member: &MemberName) -> Progress {
        let Some(pod) = self.pod(member) else { return Progress::Done };
        let delete = KubeEffect::DeletePod {
            member: member.clone(),
            pod: pod.uid.clone(),
            resource_version: pod.resource_version.clone(),
        };
        if pod.terminating || self.deletes_pod(member) || self.write(step, delete) {
            self.wait(Waiting::PodStopping(member.clone()));
        }
        Progress::Pending
    }

    /// Creates the Pod of a member, and waits until it has started.
    pub(crate) fn start_pod(
        &mut self,
        step: Step,
        member: &MemberName,
        boot: Boot,
        peers: Vec<(MemberName, PeerUrl)>,
    ) {
        if self.write(step, KubeEffect::CreatePod { member: member.clone(), boot, peers }) {
            self.wait(Waiting::PodStarting(member.clone()));
        }
    }

    /// Deletes a Pod. What follows does not depend on that.
    pub(crate) fn end_pod(&mut self, step: Step, member: &MemberName) {
        let _ = self.delete_pod(step, member);
    }

    /// Whether the plan deletes the Pod of a member already.
    fn deletes_pod(&self, member: &MemberName) -> bool {
        self.writes(
            |write| matches!(write, KubeEffect::DeletePod { member: deleted, .. } if deleted == member),
        )
    }

    /// Takes a Pod away so that it is created again: one that serves is evicted (R16), another one is deleted.
    pub(crate) fn restart_pod(&mut self, step: Step, member: &MemberName) -> Progress {
        let Some(pod) = self.pod(member) else { return Progress::Done };
        if pod.terminating || self.deletes_pod(member) {
            return self.delete_pod(step, member);
        }
        let serves = pod.ready && self.view().is_sound(member);
        let (member, pod, resource_version) = (member.clone(), pod.uid.clone(), pod.resource_version.clone());
        let end = if serves {
            KubeEffect::EvictPod { member: member.clone(), pod }
        } else {
            KubeEffect::DeletePod { member: member.clone(), pod, resource_version }
        };
        let end = Effect::kube(step, end);
        // R27: the last question, since it is a request.
        match self.judge(&end).and_then(|()| safety::may_succeed(self.view(), &member)) {
            Ok(()) if serves && !budget::let_go(self, &member).is_done() => {}
            Ok(()) => {
                self.propose(end);
                self.wait(Waiting::PodStopping(member));
            }
            Err(why) => {
                if why == Unsafe::NotAdmitted(member.clone(), None) {
                    self.rehearse(restart::rehearse(self, &member));
                }
                self.wait(Waiting::Unsafe(why));
            }
        }
        Progress::Pending
    }

    /// Deletes a volume of this EtcdCluster as it was observed, or waits until it is gone.
    pub(crate) fn delete_volume(&mut self, step: Step, member: &MemberName) -> Progress {
        let volume = self.volume(member).filter(|volume| self.view().is_own(volume));
        let Some(volume) = volume else { return Progress::Done };
        if !volume.terminating {
            let delete = KubeEffect::DeleteVolume {
                member: member.clone(),
                volume: volume.uid.clone(),
                resource_version: volume.resource_version.clone(),
            };
            self.write(step, delete);
        }
        self.wait(Waiting::VolumeGoing(member.clone()));
        Progress::Pending
    }

    /// Quarantines the volume of a member that is not one any more. Done also where there is none, or a person deletes it.
    pub(crate) fn quarantine_volume(&mut self, step: Step, member: &MemberName, why: Leaving) -> Progress {
        let volume = self.volume(member).filter(|volume| self.view().is_own(volume));
        let Some(volume) = volume else { return Progress::Done };
        // It goes with its Pod. While a dead node keeps that, the claim is to say that its data are no voter's any more.
        let goes = volume.terminating && !self.pod(member).is_some_and(|pod| pod.is_stuck(self.now));
        if volume.quarantine.is_some() || goes {
            return Progress::Done;
        }
        self.quarantine(step, member, why.into())
    }

    /// Quarantines a volume as it was observed.
    pub(crate) fn quarantine(&mut self, step: Step, member: &MemberName, why: QuarantineCause) -> Progress {
        let Some(volume) = self.volume(member) else { return Progress::Done };
        // How long it is kept counts from here.
        let since = self.latest();
        let (member, volume) = (member.clone(), volume.uid.clone());
        self.write(step, KubeEffect::QuarantineVolume { member, volume, since, why });
        Progress::Pending
    }
}
