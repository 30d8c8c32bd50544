//! The proposals of a rogue planner. The protocols check before they propose, so most safety checks rarely refuse anything.
//! The rogue planner proposes anything at any time, and only the safety checks protect the data.

use std::fmt;

use quorate_manifests::Kind;
use quorate_model::effect::Boot;
use quorate_model::record::{Leaving, Member, Stage};
use quorate_model::snapshot::AlarmKind;
use quorate_model::{Effect, EtcdCall, Instant, KubeEffect, MemberName, Plan, Record, Snapshot, Step, Uid};
use quorate_planner::safety::{Scene, permits};
use serde::{Deserialize, Serialize};

use super::World;
use super::auth::of_etcd_user;

/// A proposal of the rogue planner.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RogueEffect {
    /// Delete a Pod.
    DeletePod(String),
    /// Delete a Pod of that name with another uid.
    DeleteUnseen(String),
    /// Record a member as leaving and delete its volume.
    DeleteVolume(String),
    /// Record a member as lost and delete its volume.
    DeleteLost(String),
    /// Delete a volume of a member that stays.
    DeleteKept(String),
    /// Start a member as new.
    StartNew(String),
    /// Start a member on its data.
    Resume(String),
    /// Remove the scheduling gate of a Pod.
    Ungate(String),
    /// Create a member's volume.
    CreateVolume(String),
    /// Add a member.
    Add,
    /// Promote a learner.
    Promote(String),
    /// Record a member as leaving and remove it.
    Remove(String),
    /// Record a member as lost and remove it.
    Replace(String),
    /// Record a member as leaving and remove another one.
    RemoveAnother(String),
    /// Disarm an alarm of a member.
    Disarm(String),
    /// Compact the history.
    Compact,
    /// Revoke the user of an EtcdUser.
    RevokeUser,
}

impl World {
    /// All proposals that are possible now.
    pub(super) fn rogue_effects(&self) -> Vec<RogueEffect> {
        let mut rogue = vec![RogueEffect::Add];
        for member in self.record().members.keys() {
            let member = member.as_str().to_owned();
            rogue.extend([
                RogueEffect::DeletePod(member.clone()),
                RogueEffect::DeleteUnseen(member.clone()),
                RogueEffect::DeleteVolume(member.clone()),
                RogueEffect::DeleteLost(member.clone()),
                RogueEffect::DeleteKept(member.clone()),
                RogueEffect::StartNew(member.clone()),
                RogueEffect::Resume(member.clone()),
                RogueEffect::Ungate(member.clone()),
                RogueEffect::CreateVolume(member.clone()),
                RogueEffect::Promote(member.clone()),
                RogueEffect::Remove(member.clone()),
                RogueEffect::Replace(member.clone()),
                RogueEffect::RemoveAnother(member),
            ]);
        }
        debug_assert!(self.names(Kind::Cluster).len() <= 1);
        rogue
    }
}

impl RogueEffect {
    /// Its kind, for counting.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::DeletePod(_) => "rogue: delete Pod",
            Self::DeleteUnseen(_) => "rogue: delete another Pod",
            Self::DeleteVolume(_) => "rogue: delete volume",
            Self::DeleteLost(_) => "rogue: delete lost volume",
            Self::DeleteKept(_) => "rogue: delete kept volume",
            Self::StartNew(_) => "rogue: start as new",
            Self::Resume(_) => "rogue: resume",
            Self::Ungate(_) => "rogue: release",
            Self::CreateVolume(_) => "rogue: make volume",
            Self::Add => "rogue: add",
            Self::Promote(_) => "rogue: promote",
            Self::Remove(_) => "rogue: remove",
            Self::Replace(_) => "rogue: replace",
            Self::RemoveAnother(_) => "rogue: remove another",
            Self::Disarm(_) => "rogue: disarm",
            Self::Compact => "rogue: compact",
            Self::RevokeUser => "rogue: revoke user",
        }
    }

    /// Adds itself to a plan, if the safety checks permit it. Returns whether they did.
    pub fn join(&self, observed: &Snapshot, plan: &mut Plan, now: Instant) -> bool {
        let mut record = plan.record.clone();
        // R24 protects clients, not data: without this it would refuse most removals, and the other checks would show nothing.
        let observed = &without_clients(observed, now);
        let Some(effect) = self.effect(observed, &mut record, now) else { return false };
        let scene = Scene { seen: observed, record: &record, now, before: &plan.effects };
        if permits(&scene, &effect).is_err() {
            return false;
        }
        if plan.record != record {
            plan.record = record;
            plan.recorded_steps.push(Step::P1);
        }
        plan.effects.push(effect);
        true
    }

    fn effect(&self, observed: &Snapshot, record: &mut Record, now: Instant) -> Option<Effect> {
        let via = || observed.etcd.list.as_ref().map(|list| list.via.clone());
        let listed = |name: &MemberName| {
            let id = record.members.get(name).and_then(|member| member.id)?;
            observed.etcd.list.as_ref()?.members.iter().find(|listed| listed.id == id).cloned()
        };
        match self {
            Self::DeletePod(member) => {
                let member = MemberName::new(member.as_str());
                let pod = observed.pods.get(&member)?;
                let serves = pod.ready && observed.is_healthy(&member, now);
                let (pod, resource_version) = (pod.uid.clone(), pod.resource_version.clone());
                Some(Effect::kube(
                    Step::U5,
                    // A Pod that serves is taken as the planner takes it.
                    if serves {
                        KubeEffect::EvictPod { member, pod }
                    } else {
                        KubeEffect::DeletePod { member, pod, resource_version }
                    },
                ))
            }
            Self::DeleteUnseen(member) => {
                let member = MemberName::new(member.as_str());
                let resource_version = observed.pods.get(&member)?.resource_version.clone();
                let pod = Uid::new("another");
                Some(Effect::kube(Step::U5, KubeEffect::DeletePod { member, pod, resource_version }))
            }
            Self::DeleteVolume(member) => {
                let member = MemberName::new(member.as_str());
                record_leaving(record, &member, Leaving::Shrink, now);
                delete_volume(observed, member)
            }
            Self::DeleteLost(member) => {
                let member = MemberName::new(member.as_str());
                record_leaving(record, &member, Leaving::Lost, now);
                delete_volume(observed, member)
            }
            Self::DeleteKept(member) => delete_volume(observed, MemberName::new(member.as_str())),
            Self::StartNew(member) => Some(start(observed, record, member, Boot::New)),
            Self::Resume(member) => Some(start(observed, record, member, Boot::Resume)),
            Self::Ungate(member) => {
                let member = MemberName::new(member.as_str());
                let pod = observed.pods.get(&member)?.uid.clone();
                Some(Effect::kube(Step::BR, KubeEffect::UngatePod { member, pod }))
            }
            Self::CreateVolume(member) => {
                let member = MemberName::new(member.as_str());
                Some(Effect::kube(Step::G2, KubeEffect::CreateVolume { member }))
            }
            Self::Add => {
                let member = observed.cluster.member(record.next_ordinal);
                record.next_ordinal = record.next_ordinal.next();
                let joins =
                    Member { stage: Stage::Joining, id: None, volume: None, version: None, since: now };
                record.members.insert(member.clone(), joins);
                let call = EtcdCall::AddLearner { peer_url: observed.peer_url(&member), member };
                Some(Effect::etcd(Step::G3, via()?, call))
            }
            Self::Promote(member) => {
                let member = MemberName::new(member.as_str());
                let id = listed(&member)?.id;
                Some(Effect::etcd(Step::G6, via()?, EtcdCall::Promote { member, id }))
            }
            Self::Remove(member) => {
                let member = MemberName::new(member.as_str());
                let listed = listed(&member)?;
                record_leaving(record, &member, Leaving::Shrink, now);
                let call = EtcdCall::RemoveMember { member, id: listed.id, peer_url: listed.peer_url };
                Some(Effect::etcd(Step::S3, via()?, call))
            }
            Self::Replace(member) => {
                let member = MemberName::new(member.as_str());
                let listed = listed(&member)?;
                record_leaving(record, &member, Leaving::Lost, now);
                let call = EtcdCall::RemoveMember { member, id: listed.id, peer_url: listed.peer_url };
                Some(Effect::etcd(Step::P3, via()?, call))
            }
            Self::RemoveAnother(member) => {
                let member = MemberName::new(member.as_str());
                let own = listed(&member)?;
                let list = observed.etcd.list.as_ref()?;
                let other = list.members.iter().find(|other| other.id != own.id && !other.is_learner)?.id;
                record_leaving(record, &member, Leaving::Shrink, now);
                let call = EtcdCall::RemoveMember { member, id: other, peer_url: own.peer_url };
                Some(Effect::etcd(Step::S3, via()?, call))
            }
            Self::Disarm(member) => {
                let member = listed(&MemberName::new(member.as_str()))?.id;
                let call = EtcdCall::Disarm { member, kind: AlarmKind::NoSpace };
                Some(Effect::etcd(Step::N5, via()?, call))
            }
            Self::Compact => {
                let via = via()?;
                let revision = observed.status_of(&via, now)?.revision;
                Some(Effect::etcd(Step::N1, via, EtcdCall::Compact { revision }))
            }
            Self::RevokeUser => {
                Some(Effect::etcd(Step::L10, via()?, EtcdCall::DeleteRole { user: of_etcd_user() }))
            }
        }
    }
}

fn record_leaving(record: &mut Record, member: &MemberName, why: Leaving, now: Instant) {
    if let Some(member) = record.members.get_mut(member) {
        (member.stage, member.since) = (Stage::Leaving(why), now);
    }
}

fn delete_volume(observed: &Snapshot, member: MemberName) -> Option<Effect> {
    let volume = observed.volumes.get(&member)?;
    let (volume, resource_version) = (volume.uid.clone(), volume.resource_version.clone());
    Some(Effect::kube(Step::S5, KubeEffect::DeleteVolume { member, volume, resource_version }))
}

fn start(observed: &Snapshot, record: &Record, member: &str, boot: Boot) -> Effect {
    let peers = record.members.keys().map(|name| (name.clone(), observed.peer_url(name))).collect();
    let step = match boot {
        Boot::New | Boot::Restore => Step::B4,
        Boot::Join => Step::G4,
        Boot::Resume => Step::W1,
        Boot::Read | Boot::Extract => Step::Q2,
    };
    Effect::kube(step, KubeEffect::CreatePod { member: MemberName::new(member), boot, peers })
}

impl fmt::Display for RogueEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DeletePod(member) => write!(f, "delete Pod {member}"),
            Self::DeleteUnseen(member) => {
                write!(f, "delete a Pod {member} with another uid than was observed")
            }
            Self::DeleteVolume(member) => write!(f, "record {member} as leaving and delete its volume"),
            Self::DeleteLost(member) => write!(f, "record {member} as lost and delete its volume"),
            Self::DeleteKept(member) => write!(f, "delete the volume of {member}"),
            Self::StartNew(member) => write!(f, "start {member} as new"),
            Self::Resume(member) => write!(f, "start {member} on its data"),
            Self::Ungate(member) => write!(f, "ungate Pod {member}"),
            Self::CreateVolume(member) => write!(f, "create a volume for {member}"),
            Self::Add => f.write_str("add a member"),
            Self::Promote(member) => write!(f, "promote {member}"),
            Self::Remove(member) => write!(f, "record {member} as leaving and remove it"),
            Self::Replace(member) => write!(f, "record {member} as lost and remove it"),
            Self::RemoveAnother(member) => write!(f, "record {member} as leaving and remove another one"),
            Self::Disarm(member) => write!(f, "disarm the alarm of {member}"),
            Self::Compact => f.write_str("compact the history"),
            Self::RevokeUser => f.write_str("revoke the user of an EtcdUser"),
        }
    }
}

/// The same, with every member's clients gone for long.
fn without_clients(observed: &Snapshot, now: Instant) -> Snapshot {
    let mut observed = observed.clone();
    for pod in observed.pods.values_mut() {
        (pod.serves, pod.served_until) = (false, Some(Instant(now.0 - 60_000)));
    }
    observed
}
