//! What must never happen, checked after every step against the whole truth, which the operator does not see.
//!
//! S1 to S10 and the rules R1 to R10 as far as they show in what is done. Data are the last judge: a write that was
//! acknowledged is in the log of its cluster for ever.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{Hash, Hasher};

use quorate_api::keys;
use quorate_api::status::EtcdClusterStatus;
use quorate_localkube::fields::{annotation, deleting, flag, items, label, name, text, uid};
use quorate_manifests::{Act, Kind, Write};
use quorate_model::effect::Boot;
use quorate_model::quorum::has_quorum;
use quorate_model::{ClusterId, Effect, Instant, MemberId, MemberName, Plan, Record, Snapshot, Version};
use serde_json::Value;

use crate::etcd::{Conf, Group, State};
use crate::world::World;
use crate::world::wire::Call;

/// A property that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Violation {
    /// Which one.
    pub property: Property,
    /// How it was violated.
    pub how: String,
}

/// The properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Property {
    /// An acknowledged write is in the data of every later quorum.
    AcknowledgedWritesStay,
    /// S1: one cluster id per incarnation ever serves.
    OneClusterId,
    /// S2, R1: no `new` once the cluster id is recorded.
    NoNewAfterLatch,
    /// S3, R5: one change of membership and one learner at a time.
    OneChangeAtATime,
    /// S4, R5, R11: no healthy voter is disrupted while another is unhealthy, and the others stay a quorum.
    QuorumStays,
    /// S5, R10: data go only when a quorum has removed the member and its Pod is gone.
    DataOutliveMembers,
    /// S6, R3: whatever destroys says what it was seen as.
    DestroysOnlyWhatWasSeen,
    /// S7: nothing of somebody else's is touched.
    NothingForeignTouched,
    /// S9: Available only with a quorum that was seen.
    AvailableMeansQuorum,
    /// S10: data go forward one minor version at a time, and never back.
    VersionsGoForward,
    /// R2: a name, its URL and its volume are used once.
    NamesAreUsedOnce,
    /// R3: what was intended stands in status before anything is done.
    IntentBeforeEffect,
    /// R6: nothing is added while a voter is dead; members come as learners.
    RemoveBeforeAdd,
    /// R7: a member is its id and its URL together.
    MembersAreIdAndUrl,
    /// R9: membership changes on a fresh list by quorum only.
    ListsAreFresh,
    /// R12: with two cluster ids nothing is touched.
    SplitBrainStopsAll,
    /// E1: once faults end, the goal is reached.
    GoalIsReached,
    /// E2: at the goal nothing is written.
    RestIsQuiet,
    /// E3, and the account: where nothing is destroyed, things end as they do when nothing goes wrong, and nothing is made or
    /// deleted more often.
    EndsAsWithoutFaults,
}

/// What was true when the operator looked.
#[derive(Clone, Debug, Default)]
pub struct Truth {
    /// The configuration of the cluster that was latched, as a quorum has it.
    conf: Option<Conf>,
    /// Voters of it that run and are in touch with the leader.
    healthy: BTreeSet<MemberId>,
    /// The ids of all clusters whose members answer, save in Pods of an attempt that was given up.
    answering: BTreeSet<ClusterId>,
    /// Who runs in which Pod.
    members: BTreeMap<String, MemberId>,
    /// When.
    now: Instant,
}

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
        let takes = |effect: &&Effect| match effect {
            Effect::RemoveMember { id, .. } => conf.is_voter(*id) && truth.healthy.contains(id),
            Effect::DeletePod { pod, .. } => {
                let id = truth.members.get(pod.as_str());
                id.is_some_and(|id| conf.is_voter(*id) && truth.healthy.contains(id))
            }
            Effect::AddFinalizer
            | Effect::RemoveFinalizer
            | Effect::ApplyPeerService
            | Effect::IssueCertificates
            | Effect::CreateVolume { .. }
            | Effect::StampVolume { .. }
            | Effect::MarkJoined { .. }
            | Effect::ExpandVolume { .. }
            | Effect::CreatePod { .. }
            | Effect::DeleteVolume { .. }
            | Effect::AddLearner { .. }
            | Effect::Promote { .. }
            | Effect::MoveLeadership { .. }
            | Effect::ApplyClientService
            | Effect::ApplyBudget { .. } => false,
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
        if let (Effect::RemoveMember { member, id, .. }, Some(conf)) = (effect, &truth.conf)
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
        let Effect::CreatePod { member, .. } = effect else { return };
        if plan.record.hibernating || !plan.record.members.contains_key(member) {
            self.object_to(Property::IntentBeforeEffect, format!("{effect}, which status does not promise"));
        }
    }

    /// What is deleted is what was seen.
    fn judge_sight(&mut self, seen: &Snapshot, effect: &Effect) {
        let as_seen = match effect {
            Effect::DeletePod { member, pod, resource_version, .. } => seen
                .pods
                .get(member)
                .is_some_and(|seen| seen.uid == *pod && seen.resource_version == *resource_version),
            Effect::DeleteVolume { member, volume, resource_version, .. } => seen
                .volumes
                .get(member)
                .is_some_and(|seen| seen.uid == *volume && seen.resource_version == *resource_version),
            Effect::AddFinalizer
            | Effect::RemoveFinalizer
            | Effect::ApplyPeerService
            | Effect::IssueCertificates
            | Effect::CreateVolume { .. }
            | Effect::StampVolume { .. }
            | Effect::MarkJoined { .. }
            | Effect::ExpandVolume { .. }
            | Effect::CreatePod { .. }
            | Effect::AddLearner { .. }
            | Effect::Promote { .. }
            | Effect::RemoveMember { .. }
            | Effect::MoveLeadership { .. }
            | Effect::ApplyClientService
            | Effect::ApplyBudget { .. } => true,
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
            Effect::CreatePod { boot: Boot::New, member, .. } => {
                if plan.record.cluster_id.is_some() || seen.record.cluster_id.is_some() {
                    self.object_to(Property::NoNewAfterLatch, format!("{member} is started as new"));
                }
            }
            Effect::DeletePod { member, pod, .. } => {
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
            Effect::RemoveMember { member, id, .. } => {
                let Some(conf) = &truth.conf else { return };
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
            Effect::AddLearner { member, .. } => {
                let Some(conf) = &truth.conf else { return };
                if let Some(dead) = conf.voters().find(|voter| !truth.healthy.contains(voter)) {
                    let how = format!("{member} is added while voter {dead} is not healthy");
                    self.object_to(Property::RemoveBeforeAdd, how);
                }
                if conf.members.values().any(|peer| peer.is_learner) {
                    self.object_to(Property::OneChangeAtATime, format!("{member} is added beside a learner"));
                }
            }
            Effect::DeleteVolume { member, .. } => {
                if seen.pods.contains_key(member) {
                    self.object_to(
                        Property::DataOutliveMembers,
                        format!("{effect} under a Pod that was seen"),
                    );
                }
            }
            Effect::AddFinalizer
            | Effect::RemoveFinalizer
            | Effect::ApplyPeerService
            | Effect::IssueCertificates
            | Effect::CreateVolume { .. }
            | Effect::StampVolume { .. }
            | Effect::MarkJoined { .. }
            | Effect::ExpandVolume { .. }
            | Effect::CreatePod { .. }
            | Effect::Promote { .. }
            | Effect::MoveLeadership { .. }
            | Effect::ApplyClientService
            | Effect::ApplyBudget { .. } => {}
        }
    }
}

/// Which version a member runs is seen anew in every pass; nothing is intended by it.
fn without_versions(mut record: Record) -> Record {
    record.members.values_mut().for_each(|member| member.version = None);
    record
}

impl Hash for Truth {
    /// When it was is no matter.
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        (&self.conf, &self.healthy, &self.answering, &self.members).hash(hasher);
    }
}

impl Truth {
    /// What is true now.
    pub fn of(world: &World) -> Self {
        let record = world.record();
        let latched = record.cluster_id;
        // Names are recorded before their Pods are made, and Pods that serve are marked: what has neither is of an attempt given up.
        let strays: BTreeSet<String> = world
            .objects(Kind::Pod)
            .iter()
            .filter(|pod| {
                let unmarked = annotation(pod, keys::JOINED).or(label(pod, keys::JOINED)).is_none();
                unmarked && record.attempt > 0 && !record.members.contains_key(&MemberName::new(name(pod)))
            })
            .map(|pod| uid(pod).to_owned())
            .collect();
        let group = latched.and_then(|id| world.etcd.group(id));
        let runs = world.etcd.processes().filter(|(_, process)| process.state == State::Running);
        let members: BTreeMap<String, MemberId> = runs
            .filter_map(|(at, process)| Some((at.to_owned(), world.etcd.dir_of(process)?.member)))
            .collect();
        let statuses = world.etcd.processes().filter_map(|(at, _)| Some((at, world.etcd.status(at).ok()?)));
        let (mut healthy, mut answering) = (BTreeSet::new(), BTreeSet::new());
        for (at, status) in statuses {
            if !strays.contains(at) {
                answering.insert(status.cluster);
            }
            if Some(status.cluster) == latched && status.errors.is_empty() {
                healthy.insert(status.member);
            }
        }
        Self { conf: group.map(Group::conf).cloned(), healthy, answering, members, now: world.now }
    }
}

impl World {
    /// A request arrives: what it does is judged by what is true at that moment.
    pub(crate) fn oracle_on_arrival(&mut self, call: &Call) {
        match call {
            Call::Kube(write) => self.judge_write(write),
            Call::Add { .. } | Call::Promote { .. } | Call::Remove { .. } | Call::Lead { .. } => {}
        }
    }

    /// Whether the status that stands promises what is about to be done.
    pub(crate) fn judge_intent(&mut self, plan: &Plan, effect: &Effect) {
        if self.faults.forgotten || self.object(Kind::Cluster, &self.at.name).is_none() {
            return;
        }
        let (stands, intended) = (without_versions(self.record()), without_versions(plan.record.clone()));
        if stands != intended {
            let how = format!("{effect}, but status says {stands:?} instead of {intended:?}");
            self.oracle.object_to(Property::IntentBeforeEffect, how);
        }
    }

    fn judge_write(&mut self, write: &Write) {
        let there = self.object(write.kind, &write.name);
        let there = there.as_deref();
        match &write.act {
            Act::Create(_) => {}
            Act::Patch(wish) | Act::PatchStatus(wish) => {
                if text(wish, "/metadata/uid").is_empty() {
                    let how = format!("{} is changed whatever it is", write.object());
                    self.oracle.object_to(Property::DestroysOnlyWhatWasSeen, how);
                }
                self.judge_owner(write, there);
            }
            Act::Delete { uid: wanted, resource_version } => {
                if wanted.is_empty() || resource_version.is_empty() {
                    let how = format!("{} is deleted whatever it is", write.object());
                    self.oracle.object_to(Property::DestroysOnlyWhatWasSeen, how);
                }
                let same = there.filter(|there| {
                    uid(there) == wanted && text(there, "/metadata/resourceVersion") == resource_version
                });
                self.judge_owner(write, same);
                if let Some(volume) = same.filter(|_| write.kind == Kind::Volume).cloned() {
                    self.judge_loss_of(&volume, &write.name);
                }
            }
        }
    }

    fn judge_owner(&mut self, write: &Write, there: Option<&Value>) {
        let Some(there) = there else { return };
        let cluster = self.object(Kind::Cluster, &self.at.name.clone());
        if let Some(cluster) = &cluster {
            self.oracle.incarnations.insert(uid(cluster).to_owned());
            let policy = text(cluster, "/spec/storageSpec/retention/whenDeleted");
            self.oracle.forgoes_data = policy == "Delete";
        }
        // Where it is gone, a late request may be of it yet.
        let is_own = |owner: &str| match &cluster {
            Some(cluster) => uid(cluster) == owner,
            None => self.oracle.incarnations.contains(owner),
        };
        let ours = match write.kind {
            Kind::Cluster => is_own(uid(there)),
            Kind::Volume => {
                let adopts =
                    cluster.as_ref().is_some_and(|cluster| annotation(cluster, keys::ADOPT).is_some());
                adopts || annotation(there, keys::CLUSTER_UID).is_some_and(is_own)
            }
            Kind::Pod | Kind::Service | Kind::Budget | Kind::Secret => {
                items(there, "/metadata/ownerReferences").iter().any(|owner| is_own(text(owner, "/uid")))
            }
        };
        if !ours {
            let how = format!("{} belongs to somebody else and is changed", write.object());
            self.oracle.object_to(Property::NothingForeignTouched, how);
        }
    }

    fn judge_loss_of(&mut self, volume: &Value, member: &str) {
        let Some(dir) = self.etcd.dir(uid(volume)).cloned() else { return };
        let cluster = self.object(Kind::Cluster, &self.at.name.clone());
        let leaves = cluster.as_deref().is_none_or(deleting);
        let keeps = !self.oracle.forgoes_data;
        let group = self.etcd.group(dir.cluster);
        let served = group.is_some_and(|group| group.writes().next().is_some());
        let listed = group.is_some_and(|group| group.conf().members.contains_key(&dir.member));
        if leaves {
            // What belonged to a member that was removed before goes as it would have gone.
            if keeps && served && listed {
                self.oracle
                    .object_to(Property::DataOutliveMembers, format!("the data of {member} were to be kept"));
            }
            return;
        }
        let latched = self.record().cluster_id == Some(dir.cluster);
        if listed && (served || latched) {
            let how = format!("the data of {member} are deleted while it is a member");
            self.oracle.object_to(Property::DataOutliveMembers, how);
        }
        let used = self.etcd.processes().any(|(_, process)| process.launch.dir == uid(volume));
        if used && listed && (served || latched) {
            let how = format!("the data of {member} are deleted while its Pod runs");
            self.oracle.object_to(Property::DataOutliveMembers, how);
        }
    }

    /// What must hold whenever nothing is in the middle of happening.
    pub(crate) fn look_for_harm(&mut self) {
        let mut found = Vec::new();
        for group in self.etcd.groups() {
            if let Some(lost) = group.lost().first() {
                let how = format!("cluster {} has forgotten acknowledged write {lost}", group.id());
                found.push((Property::AcknowledgedWritesStay, how));
            }
            if group.conf().members.values().filter(|peer| peer.is_learner).count() > 1 {
                found.push((Property::OneChangeAtATime, "two learners".to_owned()));
            }
        }
        for (at, process) in self.etcd.processes().filter(|(_, process)| process.state == State::Running) {
            let Some(dir) = self.etcd.dir_of(process).filter(|dir| dir.len == 0) else { continue };
            let group = self.etcd.group(dir.cluster);
            let votes = |group: &Group| {
                group.matters() && group.conf().is_voter(dir.member) && group.has_stored(dir.member)
            };
            if group.is_some_and(votes) {
                let how = format!("voter {} had data once and runs on none ({at})", process.launch.name);
                found.push((Property::AcknowledgedWritesStay, how));
            }
        }
        let record = self.record();
        if let Some(latched) = record.cluster_id {
            let others = self.etcd.groups().filter(|group| {
                group.id() != latched
                    && group.leader().is_some()
                    && !self.faults.foreign.contains(&group.id())
            });
            for other in others {
                let ours = other
                    .conf()
                    .members
                    .values()
                    .any(|peer| record.members.keys().any(|name| peer.name == name.as_str()));
                if ours {
                    let how = format!("cluster {} has a leader beside the latched {latched}", other.id());
                    found.push((Property::OneClusterId, how));
                }
            }
        }
        for (property, how) in found {
            if !self.oracle.violations.iter().any(|known| known.property == property) {
                self.oracle.object_to(property, how);
            }
        }
    }

    /// Whether the spec asks for nothing to be done.
    pub(crate) fn is_paused(&self) -> bool {
        let cluster = self.object(Kind::Cluster, &self.at.name);
        cluster.is_some_and(|cluster| flag(&cluster, "/spec/paused"))
    }
}

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AcknowledgedWritesStay => "an acknowledged write stays",
            Self::OneClusterId => "S1: one cluster id",
            Self::NoNewAfterLatch => "S2: no new after the cluster id is latched",
            Self::OneChangeAtATime => "S3: one change of membership at a time",
            Self::QuorumStays => "S4: a quorum stays",
            Self::DataOutliveMembers => "S5: data outlive members",
            Self::DestroysOnlyWhatWasSeen => "S6: only what was seen is destroyed",
            Self::NothingForeignTouched => "S7: nothing foreign is touched",
            Self::AvailableMeansQuorum => "S9: Available means quorum",
            Self::VersionsGoForward => "S10: versions go forward, one minor at a time",
            Self::NamesAreUsedOnce => "R2: names are used once",
            Self::IntentBeforeEffect => "R3: intent before effect",
            Self::RemoveBeforeAdd => "R6: remove before add",
            Self::MembersAreIdAndUrl => "R7: a member is its id and its URL",
            Self::ListsAreFresh => "R9: membership changes on fresh lists only",
            Self::SplitBrainStopsAll => "R12: split brain stops everything",
            Self::GoalIsReached => "E1: the goal is reached once faults end",
            Self::RestIsQuiet => "E2: at the goal nothing is written",
            Self::EndsAsWithoutFaults => "E3: where nothing is destroyed, all ends as without faults",
        })
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.property, self.how)
    }
}
