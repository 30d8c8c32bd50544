//! What a planner gone wrong would propose. The protocols look before they propose, so that most safety checks are never
//! needed; here anything is proposed at any time, and safety alone stands before the data.

use std::fmt;

use quorate_manifests::Kind;
use quorate_model::effect::Boot;
use quorate_model::record::{Leaving, Member, Stage};
use quorate_model::{Effect, EtcdCall, Instant, KubeEffect, MemberName, Plan, Record, Snapshot, Step, Uid};
use quorate_planner::safety::{Scene, permits};
use serde::{Deserialize, Serialize};

use super::World;

/// A proposal out of nowhere.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RogueEffect {
    /// Delete a Pod.
    DeletePod(String),
    /// Delete a Pod of that name with another uid.
    DeleteUnseen(String),
    /// Give a member up and delete its volume.
    DeleteVolume(String),
    /// Delete a volume of a member that stays.
    DeleteKept(String),
    /// Start a member as new.
    StartNew(String),
    /// Start a member on its data.
    Resume(String),
    /// Let a Pod that was held back begin.
    Release(String),
    /// Make a member's volume.
    MakeVolume(String),
    /// Add a member.
    Add,
    /// Promote a learner.
    Promote(String),
    /// Give a member up and remove it.
    Remove(String),
    /// Remove another than the one that is given up.
    RemoveAnother(String),
}

impl World {
    /// Everything that could be proposed now.
    pub(super) fn rogue_effects(&self) -> Vec<RogueEffect> {
        let mut rogue = vec![RogueEffect::Add];
        for member in self.record().members.keys() {
            let member = member.as_str().to_owned();
            rogue.extend([
                RogueEffect::DeletePod(member.clone()),
                RogueEffect::DeleteUnseen(member.clone()),
                RogueEffect::DeleteVolume(member.clone()),
                RogueEffect::DeleteKept(member.clone()),
                RogueEffect::StartNew(member.clone()),
                RogueEffect::Resume(member.clone()),
                RogueEffect::Release(member.clone()),
                RogueEffect::MakeVolume(member.clone()),
                RogueEffect::Promote(member.clone()),
                RogueEffect::Remove(member.clone()),
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
            Self::DeleteKept(_) => "rogue: delete kept volume",
            Self::StartNew(_) => "rogue: start as new",
            Self::Resume(_) => "rogue: resume",
            Self::Release(_) => "rogue: release",
            Self::MakeVolume(_) => "rogue: make volume",
            Self::Add => "rogue: add",
            Self::Promote(_) => "rogue: promote",
            Self::Remove(_) => "rogue: remove",
            Self::RemoveAnother(_) => "rogue: remove another",
        }
    }

    /// Joins a plan, if safety lets it; whether it did.
    pub fn join(&self, seen: &Snapshot, plan: &mut Plan, now: Instant) -> bool {
        let mut record = plan.record.clone();
        let Some(effect) = self.effect(seen, &mut record, now) else { return false };
        let scene = Scene { seen, record: &record, now, before: &plan.effects };
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

    fn effect(&self, seen: &Snapshot, record: &mut Record, now: Instant) -> Option<Effect> {
        let via = || seen.etcd.list.as_ref().map(|list| list.via.clone());
        let listed = |name: &MemberName| {
            let id = record.members.get(name).and_then(|member| member.id)?;
            seen.etcd.list.as_ref()?.members.iter().find(|listed| listed.id == id).cloned()
        };
        match self {
            Self::DeletePod(member) => {
                let member = MemberName::new(member.as_str());
                let pod = seen.pods.get(&member)?;
                let (pod, resource_version) = (pod.uid.clone(), pod.resource_version.clone());
                Some(Effect::kube(Step::U5, KubeEffect::DeletePod { member, pod, resource_version }))
            }
            Self::DeleteUnseen(member) => {
                let member = MemberName::new(member.as_str());
                let resource_version = seen.pods.get(&member)?.resource_version.clone();
                let pod = Uid::new("another");
                Some(Effect::kube(Step::U5, KubeEffect::DeletePod { member, pod, resource_version }))
            }
            Self::DeleteVolume(member) => {
                let member = MemberName::new(member.as_str());
                give_up(record, &member, Leaving::Lost, now);
                delete_volume(seen, member)
            }
            Self::DeleteKept(member) => delete_volume(seen, MemberName::new(member.as_str())),
            Self::StartNew(member) => Some(start(seen, record, member, Boot::New)),
            Self::Resume(member) => Some(start(seen, record, member, Boot::Resume)),
            Self::Release(member) => {
                let member = MemberName::new(member.as_str());
                let pod = seen.pods.get(&member)?.uid.clone();
                Some(Effect::kube(Step::BR, KubeEffect::UngatePod { member, pod }))
            }
            Self::MakeVolume(member) => {
                let member = MemberName::new(member.as_str());
                Some(Effect::kube(Step::G2, KubeEffect::CreateVolume { member }))
            }
            Self::Add => {
                let member = seen.cluster.member(record.next_ordinal);
                record.next_ordinal = record.next_ordinal.next();
                let joins =
                    Member { stage: Stage::Joining, id: None, volume: None, version: None, since: now };
                record.members.insert(member.clone(), joins);
                let call = EtcdCall::AddLearner { peer_url: seen.peer_url(&member), member };
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
                give_up(record, &member, Leaving::Shrink, now);
                let call = EtcdCall::RemoveMember { member, id: listed.id, peer_url: listed.peer_url };
                Some(Effect::etcd(Step::S3, via()?, call))
            }
            Self::RemoveAnother(member) => {
                let member = MemberName::new(member.as_str());
                let own = listed(&member)?;
                let list = seen.etcd.list.as_ref()?;
                let other = list.members.iter().find(|other| other.id != own.id && !other.is_learner)?.id;
                give_up(record, &member, Leaving::Shrink, now);
                let call = EtcdCall::RemoveMember { member, id: other, peer_url: own.peer_url };
                Some(Effect::etcd(Step::S3, via()?, call))
            }
        }
    }
}

fn give_up(record: &mut Record, member: &MemberName, why: Leaving, now: Instant) {
    if let Some(member) = record.members.get_mut(member) {
        (member.stage, member.since) = (Stage::Leaving(why), now);
    }
}

fn delete_volume(seen: &Snapshot, member: MemberName) -> Option<Effect> {
    let volume = seen.volumes.get(&member)?;
    let (volume, resource_version) = (volume.uid.clone(), volume.resource_version.clone());
    Some(Effect::kube(Step::S5, KubeEffect::DeleteVolume { member, volume, resource_version }))
}

fn start(seen: &Snapshot, record: &Record, member: &str, boot: Boot) -> Effect {
    let peers = record.members.keys().map(|name| (name.clone(), seen.peer_url(name))).collect();
    let step = match boot {
        Boot::New => Step::B4,
        Boot::Join => Step::G4,
        Boot::Resume => Step::W1,
    };
    Effect::kube(step, KubeEffect::CreatePod { member: MemberName::new(member), boot, peers })
}

impl fmt::Display for RogueEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DeletePod(member) => write!(f, "delete Pod {member}"),
            Self::DeleteUnseen(member) => write!(f, "delete another Pod {member} than was seen"),
            Self::DeleteVolume(member) => write!(f, "give {member} up and delete its volume"),
            Self::DeleteKept(member) => write!(f, "delete the volume of {member}"),
            Self::StartNew(member) => write!(f, "start {member} as new"),
            Self::Resume(member) => write!(f, "start {member} on its data"),
            Self::Release(member) => write!(f, "release Pod {member}"),
            Self::MakeVolume(member) => write!(f, "make a volume for {member}"),
            Self::Add => f.write_str("add a member"),
            Self::Promote(member) => write!(f, "promote {member}"),
            Self::Remove(member) => write!(f, "give {member} up and remove it"),
            Self::RemoveAnother(member) => write!(f, "give {member} up and remove another"),
        }
    }
}
