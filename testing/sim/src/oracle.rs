//! What must never happen, checked after every step against the whole truth, which the operator does not see.
//!
//! S1 to S10 and the rules R1 to R10 as far as they show in what is done. Data are the last judge: a write that was
//! acknowledged is in the log of its cluster for ever.
//!
//! - `property`: what must hold; `truth`: what was true when the operator looked
//! - this file: what it plans and does, by that truth; `state`: what arrives, and what must hold at any moment

mod property;
mod state;
mod truth;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

use quorate_api::status::EtcdClusterStatus;
use quorate_model::effect::Boot;
use quorate_model::quorum::has_quorum;
use quorate_model::{ClusterId, Effect, EtcdCall, KubeEffect, MemberId, Plan, Record, Snapshot, Version};

pub use property::{Property, Violation};
pub use truth::Truth;

/// What was noticed so far.
#[derive(Clone, Debug, Default)]
pub struct Oracle {
    violations: Vec<Violation>,
    /// Which clusters acknowledged writes, by the incarnation they served for.
    served: BTreeMap<String, BTreeSet<ClusterId>>,
    volumes_used: BTreeMap<String, String>,
    late_volumes: BTreeSet<String>,
    /// Which version ran last on which data.
    versions: BTreeMap<String, Version>,
    /// The uids that the cluster had.
    incarnations: BTreeSet<String>,
    /// It was last said that data go with the cluster.
    forgoes_data: bool,
}

impl Oracle {
    /// What was violated, first things first.
    pub fn violation(&self) -> Option<&Violation> {
        self.violations.first()
    }

    /// Notes a violation.
    pub fn object_to(&mut self, property: Property, how: impl Into<String>) {
        self.violations.push(Violation { property, how: how.into() });
    }

    /// What of it decides on what follows.
    pub fn fingerprint(&self, hasher: &mut impl Hasher) {
        (&self.violations, &self.served, &self.volumes_used, &self.late_volumes, &self.versions).hash(hasher);
        (&self.incarnations, self.forgoes_data).hash(hasher);
    }

    /// A Pod uses the volume of this name.
    pub fn uses_volume(&mut self, name: &str, volume: &str) {
        if self.late_volumes.contains(volume) {
            return;
        }
        let first = self.volumes_used.entry(name.to_owned()).or_insert_with(|| volume.to_owned());
        if *first != volume && !volume.starts_with("memory of") {
            let how = format!("{name} is run on {volume}, after {first}");
            self.object_to(Property::NamesAreUsedOnce, how);
        }
    }

    /// A call from long ago made this volume: nobody asks for it by now, and the name may have been used meanwhile.
    pub fn came_late(&mut self, volume: &str) {
        self.late_volumes.insert(volume.to_owned());
    }

    /// etcd of this version starts on these data.
    pub fn runs(&mut self, dir: &str, version: Version) {
        let before = self.versions.insert(dir.to_owned(), version);
        let goes = |from: Version| from.major == version.major && version.minor.wrapping_sub(from.minor) <= 1;
        if let Some(from) = before.filter(|from| !goes(*from)) {
            self.object_to(
                Property::VersionsGoForward,
                format!("{version} runs on the data of {from} ({dir})"),
            );
        }
    }

    /// With status everything that remembers a name may be gone.
    pub fn forget_names(&mut self) {
        self.volumes_used.clear();
        self.versions.clear();
    }

    /// A cluster acknowledged a client's write.
    pub fn acknowledged(&mut self, cluster: ClusterId, incarnation: &str) {
        let served = self.served.entry(incarnation.to_owned()).or_default();
        served.insert(cluster);
        if served.len() > 1 {
            let how = format!("clusters {served:?} both acknowledged writes for {incarnation}");
            self.object_to(Property::OneClusterId, how);
        }
    }

    /// A plan, and the status that is written before it.
    pub fn plan(&mut self, seen: &Snapshot, plan: &Plan, status: &EtcdClusterStatus, truth: &Truth) {
        let available = status.conditions.iter().any(|one| one.type_ == "Available" && one.status == "True");
        self.count_disruptions(seen, plan, truth);
        if available && seen.list(truth.now).is_none() {
            self.object_to(Property::AvailableMeansQuorum, "Available is True without a list by quorum");
        }
        let said = without_versions(quorate_manifests::record::from_status(status));
        if said != without_versions(plan.record.clone()) {
            let how = format!("status says {said:?}, the plan intends {:?}", plan.record);
            self.object_to(Property::IntentBeforeEffect, how);
        }
    }

    /// Effects of one plan that each take a healthy voter away.
    fn count_disruptions(&mut self, seen: &Snapshot, plan: &Plan, truth: &Truth) {
        let Some(conf) = truth.conf.as_ref().filter(|_| !seen.deleting && !plan.record.hibernating) else {
            return;
        };
        let healthy_voter = |id: &MemberId| conf.is_voter(*id) && truth.healthy.contains(id);
        let takes = |effect: &&Effect| match effect {
            Effect::Etcd { call: EtcdCall::RemoveMember { id, .. }, .. } => healthy_voter(id),
            Effect::Kube { write: KubeEffect::DeletePod { pod, .. }, .. } => {
                truth.members.get(pod.as_str()).is_some_and(healthy_voter)
            }
            Effect::Kube { .. } | Effect::Etcd { .. } => false,
        };
        let taken = plan.effects.iter().filter(takes).count();
        if taken > 1 {
            self.object_to(
                Property::QuorumStays,
                format!("{taken} healthy voters are disrupted by one plan"),
            );
        }
        if plan.effects.iter().filter(|effect| effect.changes_membership()).count() > 1 {
            self.object_to(Property::OneChangeAtATime, "two changes of membership in one plan");
        }
    }

    /// What a change of membership rests on.
    fn judge_basis(&mut self, seen: &Snapshot, plan: &Plan, effect: &Effect, truth: &Truth) {
        if !effect.changes_membership() {
            return;
        }
        let now = truth.now;
        if seen.list(now).is_none() {
            self.object_to(Property::ListsAreFresh, format!("{effect} without a fresh list"));
        }
        if seen.deleting || plan.record.hibernating {
            self.object_to(Property::QuorumStays, format!("{effect} while the cluster is put to rest"));
        }
        if let (Some(EtcdCall::RemoveMember { member, id, .. }), Some(conf)) = (effect.as_etcd(), &truth.conf)
            && conf
                .members
                .get(id)
                .is_some_and(|peer| !peer.url.as_str().contains(&seen.cluster.dns_name(member)))
        {
            self.object_to(Property::MembersAreIdAndUrl, format!("{effect}, but that is not {member}"));
        }
    }

    /// A Pod that is made.
    fn judge_start(&mut self, plan: &Plan, effect: &Effect) {
        let Some(KubeEffect::CreatePod { member, .. }) = effect.as_kube() else { return };
        if plan.record.hibernating || !plan.record.members.contains_key(member) {
            self.object_to(Property::IntentBeforeEffect, format!("{effect}, which status does not promise"));
        }
    }

    /// What is deleted is what was seen.
    fn judge_sight(&mut self, seen: &Snapshot, effect: &Effect) {
        let as_seen = match effect.as_kube() {
            Some(KubeEffect::DeletePod { member, pod, resource_version }) => seen
                .pods
                .get(member)
                .is_some_and(|seen| seen.uid == *pod && seen.resource_version == *resource_version),
            Some(KubeEffect::DeleteVolume { member, volume, resource_version }) => seen
                .volumes
                .get(member)
                .is_some_and(|seen| seen.uid == *volume && seen.resource_version == *resource_version),
            Some(_) | None => true,
        };
        if !as_seen {
            self.object_to(Property::DestroysOnlyWhatWasSeen, format!("{effect}, which was not seen so"));
        }
    }

    /// An effect that is about to be carried out, judged by what was true when the operator looked.
    pub fn effect(&mut self, seen: &Snapshot, plan: &Plan, effect: &Effect, truth: &Truth) {
        if truth.answering.len() > 1 && !seen.deleting {
            let how = format!("{effect} while {:?} answer", truth.answering);
            self.object_to(Property::SplitBrainStopsAll, how);
        }
        self.judge_basis(seen, plan, effect, truth);
        self.judge_sight(seen, effect);
        self.judge_start(plan, effect);
        match effect {
            Effect::Kube { write, .. } => self.judge_kube(seen, plan, write, truth),
            Effect::Etcd { call, .. } => self.judge_call(call, truth),
        }
    }

    fn judge_kube(&mut self, seen: &Snapshot, plan: &Plan, effect: &KubeEffect, truth: &Truth) {
        match effect {
            KubeEffect::CreatePod { boot: Boot::New, member, .. } | KubeEffect::UngatePod { member, .. } => {
                if plan.record.cluster_id.is_some() || seen.record.cluster_id.is_some() {
                    self.object_to(Property::NoNewAfterLatch, format!("{member} is started as new"));
                }
            }
            KubeEffect::DeletePod { member, pod, .. } => {
                let id = truth.members.get(pod.as_str());
                let stays = seen.deleting || plan.record.hibernating || plan.record.cluster_id.is_none();
                let (Some(id), Some(conf), false) = (id, &truth.conf, stays) else { return };
                if !truth.healthy.contains(id) || !conf.is_voter(*id) {
                    return;
                }
                if let Some(sick) = conf.voters().find(|voter| !truth.healthy.contains(voter)) {
                    let how = format!("healthy voter {member} is disrupted while {sick} is not healthy");
                    self.object_to(Property::QuorumStays, how);
                }
                let others = conf.voters().filter(|other| other != id);
                let left = others.filter(|other| truth.healthy.contains(other)).count();
                if left < conf.quorum() && (plan.record.is_in_memory() || conf.voters().count() > 2) {
                    let how = format!("without {member} only {left} voters are healthy");
                    self.object_to(Property::QuorumStays, how);
                }
            }
            KubeEffect::DeleteVolume { member, .. } => {
                if seen.pods.contains_key(member) {
                    self.object_to(
                        Property::DataOutliveMembers,
                        format!("{effect} under a Pod that was seen"),
                    );
                }
            }
            KubeEffect::AddFinalizer
            | KubeEffect::RemoveFinalizer
            | KubeEffect::ApplyPeerService
            | KubeEffect::ApplyClientService
            | KubeEffect::ApplyBudget { .. }
            | KubeEffect::IssueCertificates
            | KubeEffect::CreateVolume { .. }
            | KubeEffect::AnnotateVolume { .. }
            | KubeEffect::ExpandVolume { .. }
            | KubeEffect::CreatePod { .. }
            | KubeEffect::LabelJoined { .. } => {}
        }
    }

    fn judge_call(&mut self, call: &EtcdCall, truth: &Truth) {
        let Some(conf) = &truth.conf else { return };
        match call {
            EtcdCall::RemoveMember { member, id, .. } => {
                if !conf.is_voter(*id) {
                    return;
                }
                let left: Vec<MemberId> = conf.voters().filter(|voter| voter != id).collect();
                let of = left.len();
                let healthy = left.iter().filter(|voter| truth.healthy.contains(voter)).count();
                if !has_quorum(healthy, of) {
                    let how = format!("without {member} only {healthy} of {of} voters are healthy");
                    self.object_to(Property::QuorumStays, how);
                }
            }
            EtcdCall::AddLearner { member, .. } => {
                if let Some(dead) = conf.voters().find(|voter| !truth.healthy.contains(voter)) {
                    let how = format!("{member} is added while voter {dead} is not healthy");
                    self.object_to(Property::RemoveBeforeAdd, how);
                }
                if conf.members.values().any(|peer| peer.is_learner) {
                    self.object_to(Property::OneChangeAtATime, format!("{member} is added beside a learner"));
                }
            }
            EtcdCall::Promote { .. } | EtcdCall::MoveLeadership { .. } => {}
        }
    }
}

/// Which version a member runs is seen anew in every pass; nothing is intended by it.
fn without_versions(mut record: Record) -> Record {
    record.members.values_mut().for_each(|member| member.version = None);
    record
}
