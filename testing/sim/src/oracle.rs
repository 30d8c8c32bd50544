//! The properties that must hold, checked after every step against the whole state of the world, which the operator does not
//! observe.
//!
//! They are S1 to S10, and the rules R1 to R12 as far as effects show them. The last check is that of the data: the log of a
//! cluster keeps every acknowledged write.
//!
//! The truth is etcd's log and the disks, never the operator's own definition of a healthy member.
//!
//! - `property`: the properties; `truth`: what is true at a moment
//! - `clients`: where clients are sent, and whether they are served; `clocks`: what is done by the time
//! - this file: checks of plans and effects; `disruption`: of effects that disrupt voters; `state`: of requests on arrival, and of
//!   the state at any moment

mod clients;
mod clocks;
mod disruption;
mod property;
mod state;
mod truth;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

use quorate_api::status::EtcdClusterStatus;
use quorate_model::effect::Boot;
use quorate_model::snapshot::SERVED_WITHIN;
use quorate_model::{
    ClusterId, Effect, EtcdCall, Instant, KubeEffect, MemberId, MemberName, Minor, Plan, Record, Snapshot,
    Span, Version,
};

use crate::etcd::{AlarmKind, Conf};

pub use disruption::Landing;
pub use property::{Property, Violation};
pub use truth::Truth;

/// How long after the end of a quorum status may still report it: until the next look at a calm cluster, and while that may be an
/// election.
const TOLD_WITHIN: Span = Span::seconds(45);

/// The violations so far, and what the checks need to remember.
#[derive(Clone, Debug, Default)]
pub struct Oracle {
    violations: Vec<Violation>,
    quorum_ran_at: Option<Instant>,
    /// The clusters that acknowledged writes, by the uid of the EtcdCluster for which they served.
    served: BTreeMap<String, BTreeSet<ClusterId>>,
    volumes_used: BTreeMap<String, String>,
    late_volumes: BTreeSet<String>,
    /// The version that ran last on each data directory.
    versions: BTreeMap<String, Version>,
    /// The uids that the EtcdCluster had.
    incarnations: BTreeSet<String>,
    /// The retention policy of the last spec deletes the data with the cluster.
    forgoes_data: bool,
    /// The members whose Pods the operator has deleted, and that are not healthy again.
    ordered: BTreeSet<MemberId>,
    /// The clusters that a person ordered to replace by the data of a snapshot.
    replaceable: BTreeSet<ClusterId>,
    /// Those that were replaced. Their acknowledged writes are given up, and they acknowledge no more.
    given_up: BTreeSet<ClusterId>,
    /// When each Pod, by uid, was an endpoint of the client Service last.
    endpoint_until: BTreeMap<String, Instant>,
    /// When each volume, by uid, was quarantined.
    quarantined_at: BTreeMap<String, Instant>,
    /// Since when status records that a member may be lost.
    suspected_at: BTreeMap<MemberName, Instant>,
    /// The last write that the operator knew of when status recorded that the cluster sleeps.
    slept_with: Option<(ClusterId, u64)>,
    /// The endpoints, Pods by uid, behind which a client is not served although a quorum serves, and since when.
    misled_since: BTreeMap<String, Instant>,
    /// A clock was set.
    clock_was_set: bool,
    /// Whether the spec named a snapshot when the first attempt to begin was recorded, by the uid of the EtcdCluster.
    begins_with_snapshot: BTreeMap<String, bool>,
}

impl Oracle {
    /// The first violation.
    pub fn violation(&self) -> Option<&Violation> {
        self.violations.first()
    }

    /// Adds a violation.
    pub fn add_violation(&mut self, property: Property, how: impl Into<String>) {
        self.violations.push(Violation { property, how: how.into() });
    }

    /// Hashes what has an effect on later checks.
    pub fn fingerprint(&self, hasher: &mut impl Hasher) {
        (&self.violations, &self.served, &self.volumes_used, &self.late_volumes, &self.versions).hash(hasher);
        (&self.incarnations, self.forgoes_data, &self.ordered).hash(hasher);
        (&self.replaceable, &self.given_up, self.slept_with).hash(hasher);
        for at in self.misled_since.keys() {
            at.hash(hasher);
        }
    }

    /// A Pod uses the volume of this name.
    pub fn uses_volume(&mut self, name: &str, volume: &str) {
        if self.late_volumes.contains(volume) {
            return;
        }
        let first = self.volumes_used.entry(name.to_owned()).or_insert_with(|| volume.to_owned());
        if *first != volume && !volume.starts_with("memory of") {
            let how = format!("{name} runs on {volume}, and ran on {first} before");
            self.add_violation(Property::NamesAreUsedOnce, how);
        }
    }

    /// A late request created this volume. It is no longer desired, and its name may have been used in the meantime.
    pub fn late_volume(&mut self, volume: &str) {
        self.late_volumes.insert(volume.to_owned());
    }

    /// etcd of this version starts on this data directory, whose data are of this cluster version.
    pub fn runs(&mut self, dir: &str, version: Version, data: Option<Minor>) {
        let before = self.versions.insert(dir.to_owned(), version);
        let goes = |from: Version| from.major == version.major && from.minor.abs_diff(version.minor) <= 1;
        if let Some(from) = before.filter(|from| !goes(*from)) {
            self.add_violation(
                Property::VersionsGoForward,
                format!("{version} runs on the data of {from} ({dir})"),
            );
        }
        if let Some(data) = data.filter(|data| version.major > 0 && version.line() < *data) {
            let how = format!("{version} starts on data of cluster version {data} ({dir}), and panics");
            self.add_violation(Property::VersionsGoForward, how);
        }
    }

    /// The status was lost, and with it perhaps every record of a name.
    pub fn forget_names(&mut self) {
        self.volumes_used.clear();
        self.versions.clear();
        self.slept_with = None;
    }

    /// What recorded names was lost, and of others than these nothing is left.
    pub fn forget_names_but(&mut self, is_left: impl Fn(&str) -> bool) {
        self.volumes_used.retain(|name, _| is_left(name));
    }

    /// A person ordered to replace the data of this cluster.
    pub fn may_be_replaced(&mut self, cluster: ClusterId) {
        self.replaceable.insert(cluster);
    }

    /// Status records that another incarnation took the place of this cluster.
    pub fn is_replaced(&mut self, cluster: ClusterId, incarnation: &str) {
        if !self.given_up.insert(cluster) {
            return;
        }
        self.served.entry(incarnation.to_owned()).or_default().remove(&cluster);
        if !self.replaceable.contains(&cluster) {
            let how = format!("cluster {cluster} is replaced, and nobody ordered it");
            self.add_violation(Property::OneClusterId, how);
        }
    }

    /// Whether another incarnation took the place of this cluster.
    pub fn is_given_up(&self, cluster: ClusterId) -> bool {
        self.given_up.contains(&cluster)
    }

    /// A cluster acknowledged a client's write.
    pub fn acknowledged(&mut self, cluster: ClusterId, incarnation: &str) {
        if self.given_up.contains(&cluster) {
            let how = format!("cluster {cluster}, which was replaced, acknowledged a write");
            self.add_violation(Property::OneClusterId, how);
        }
        let served = self.served.entry(incarnation.to_owned()).or_default();
        served.insert(cluster);
        if served.len() > 1 {
            let how = format!("clusters {served:?} both acknowledged writes for {incarnation}");
            self.add_violation(Property::OneClusterId, how);
        }
    }

    /// Checks a plan, and the status that is written before its effects.
    pub fn plan(&mut self, observed: &Snapshot, plan: &Plan, status: &EtcdClusterStatus, truth: &Truth) {
        let available = status.conditions.iter().any(|one| one.type_ == "Available" && one.status == "True");
        self.see_who_is_back(truth);
        self.count_disruptions(observed, plan, truth);
        self.see_quorum(truth);
        let served = observed.etcd.quorum_at.is_some_and(|at| truth.shown - at <= SERVED_WITHIN);
        let ran = self.quorum_ran_at.is_some_and(|at| truth.now - at <= TOLD_WITHIN);
        if available && !(served && ran) {
            self.add_violation(
                Property::AvailableMeansQuorum,
                format!("Available is True; a quorum served of late: {served}; one ran of late: {ran}"),
            );
        }
        let recorded = without_versions(quorate_manifests::record::from_status(status));
        if recorded != without_versions(plan.record.clone()) {
            let how = format!("status records {recorded:?}, the plan intends {:?}", plan.record);
            self.add_violation(Property::IntentBeforeEffect, how);
        }
    }

    /// Notes when a quorum last ran in truth. Which members those are is not known while status is lost.
    pub(crate) fn see_quorum(&mut self, truth: &Truth) {
        let runs = |voter: &MemberId| truth.members.values().any(|id| id == voter);
        let has_quorum = |conf: &Conf| conf.voters().filter(|voter| runs(voter)).count() >= conf.quorum();
        if truth.conf.as_ref().is_none_or(has_quorum) {
            self.quorum_ran_at = Some(truth.now);
        }
    }

    /// Checks that one plan disrupts at most one healthy voter and changes membership at most once.
    fn count_disruptions(&mut self, observed: &Snapshot, plan: &Plan, truth: &Truth) {
        let Some(conf) = truth.conf.as_ref().filter(|_| {
            !observed.deleting
                && !plan.record.hibernating
                && plan.record.next_incarnation.is_none()
                && plan.record.quorum_recovery.is_none()
        }) else {
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
            self.add_violation(
                Property::QuorumStays,
                format!("{taken} healthy voters are disrupted by one plan"),
            );
        }
        if plan.effects.iter().filter(|effect| effect.changes_membership()).count() > 1 {
            self.add_violation(Property::OneChangeAtATime, "two changes of membership in one plan");
        }
    }

    /// Checks the member list on which a change of membership is based.
    fn judge_basis(&mut self, observed: &Snapshot, plan: &Plan, effect: &Effect, truth: &Truth) {
        if !effect.changes_membership() {
            return;
        }
        if observed.list_just_read(truth.shown).is_none() {
            self.add_violation(Property::ListsAreFresh, format!("{effect} without a fresh list"));
        }
        if observed.deleting || plan.record.hibernating {
            self.add_violation(
                Property::QuorumStays,
                format!("{effect} while the cluster is deleted or hibernates"),
            );
        }
        if let (Some(EtcdCall::RemoveMember { member, id, .. }), Some(conf)) = (effect.as_etcd(), &truth.conf)
            && conf
                .members
                .get(id)
                .is_some_and(|peer| !peer.url.as_str().contains(&observed.cluster.dns_name(member)))
        {
            self.add_violation(Property::MembersAreIdAndUrl, format!("{effect}, but that is not {member}"));
        }
    }

    /// Checks that status records the member of a Pod that is created.
    fn judge_start(&mut self, plan: &Plan, effect: &Effect) {
        let Some(KubeEffect::CreatePod { member, .. }) = effect.as_kube() else { return };
        if plan.record.hibernating || !plan.record.members.contains_key(member) {
            self.add_violation(
                Property::IntentBeforeEffect,
                format!("{effect}, which status does not record"),
            );
        }
    }

    /// Checks that a delete names the uid and the resourceVersion that were observed.
    fn judge_precondition(&mut self, observed: &Snapshot, effect: &Effect) {
        let as_observed = match effect.as_kube() {
            Some(KubeEffect::DeletePod { member, pod, resource_version }) => {
                observed.pods.get(member).is_some_and(|observed| {
                    observed.uid == *pod && observed.resource_version == *resource_version
                })
            }
            Some(KubeEffect::DeleteVolume { member, volume, resource_version }) => {
                observed.volumes.get(member).is_some_and(|observed| {
                    observed.uid == *volume && observed.resource_version == *resource_version
                })
            }
            Some(_) | None => true,
        };
        if !as_observed {
            self.add_violation(
                Property::DestroysOnlyWhatWasObserved,
                format!("{effect}, which was not observed like that"),
            );
        }
    }

    /// Checks an effect that is about to be carried out.
    pub fn effect(&mut self, observed: &Snapshot, plan: &Plan, effect: &Effect, landing: Landing<'_>) {
        let truth = landing.observed;
        if truth.answering.len() > 1 && !observed.deleting {
            let how = format!("{effect} while {:?} answer", truth.answering);
            self.add_violation(Property::SplitBrainStopsAll, how);
        }
        self.judge_basis(observed, plan, effect, truth);
        self.judge_precondition(observed, effect);
        self.judge_start(plan, effect);
        self.see_who_is_back(landing.now);
        self.judge_disruption(observed, plan, effect, landing);
        match effect {
            Effect::Kube { write, .. } => self.judge_kube(observed, plan, write),
            Effect::Etcd { call, .. } => self.judge_call(call, truth),
        }
    }

    fn judge_kube(&mut self, observed: &Snapshot, plan: &Plan, effect: &KubeEffect) {
        match effect {
            KubeEffect::CreatePod { boot: Boot::New | Boot::Restore, member, .. }
            | KubeEffect::UngatePod { member, .. } => {
                if plan.record.cluster_id.is_some() || observed.record.cluster_id.is_some() {
                    self.add_violation(Property::NoNewAfterClusterId, format!("{member} is started as new"));
                }
            }
            KubeEffect::DeleteVolume { member, .. } => {
                if observed.pods.contains_key(member) {
                    self.add_violation(
                        Property::DataOutliveMembers,
                        format!("{effect} under a Pod that was observed"),
                    );
                }
            }
            KubeEffect::AddFinalizer
            | KubeEffect::RemoveFinalizer
            | KubeEffect::Apply(_)
            | KubeEffect::Delete { .. }
            | KubeEffect::ApplyMetadata { .. }
            | KubeEffect::CreateBackup { .. }
            | KubeEffect::CreateAuthority { .. }
            | KubeEffect::KeepAuthority { .. }
            | KubeEffect::MakeNextAuthority { .. }
            | KubeEffect::ArrangeAuthority { .. }
            | KubeEffect::WriteTrust { .. }
            | KubeEffect::IssueLeaf { .. }
            | KubeEffect::RenewLeaf { .. }
            | KubeEffect::CreateCertificate { .. }
            | KubeEffect::ChangeCertificate { .. }
            | KubeEffect::CreateVolume { .. }
            | KubeEffect::AnnotateVolume { .. }
            | KubeEffect::QuarantineVolume { .. }
            | KubeEffect::ExpandVolume { .. }
            | KubeEffect::CreatePod { .. }
            | KubeEffect::EvictPod { .. }
            | KubeEffect::DeletePod { .. }
            | KubeEffect::LabelJoined { .. }
            | KubeEffect::LabelServes { .. }
            | KubeEffect::LeadClientsAway { .. } => {}
        }
    }

    /// etcd itself refuses a second learner, so what counts is what was true at the observation.
    fn judge_call(&mut self, call: &EtcdCall, truth: &Truth) {
        let Some(conf) = &truth.conf else { return };
        let changes_by_choice = match call {
            EtcdCall::AddLearner { .. } | EtcdCall::Promote { .. } => true,
            EtcdCall::RemoveMember { id, .. } => conf.is_voter(*id) && truth.is_free_of_faults(*id),
            EtcdCall::MoveLeadership { .. }
            | EtcdCall::Downgrade { .. }
            | EtcdCall::Compact { .. }
            | EtcdCall::Defragment { .. }
            | EtcdCall::Auth { .. }
            | EtcdCall::DeleteUser { .. }
            | EtcdCall::DeleteRole { .. }
            | EtcdCall::Disarm { .. } => false,
        };
        if changes_by_choice && truth.lines.len() > 1 {
            let how = format!("{call} while members run {:?}", truth.lines);
            self.add_violation(Property::MembershipStaysWhileMixed, how);
        }
        match call {
            EtcdCall::AddLearner { member, .. } => {
                if conf.members.values().any(|peer| peer.is_learner) {
                    self.add_violation(
                        Property::OneChangeAtATime,
                        format!("{member} is added beside a learner"),
                    );
                }
            }
            EtcdCall::RemoveMember { .. }
            | EtcdCall::Promote { .. }
            | EtcdCall::MoveLeadership { .. }
            | EtcdCall::Downgrade { .. }
            | EtcdCall::Auth { .. }
            | EtcdCall::DeleteUser { .. }
            | EtcdCall::DeleteRole { .. }
            | EtcdCall::Defragment { .. } => {}
            EtcdCall::Disarm { member, kind } => {
                let is_full = conf.members.keys().any(|member| truth.full.contains(member));
                let holds = match kind {
                    AlarmKind::NoSpace => is_full || truth.differs,
                    AlarmKind::Corrupt => truth.is_last_alarm_of_wrong_data(*member),
                };
                if holds {
                    self.add_violation(Property::AlarmsHold, format!("{call}, but its cause is not gone"));
                }
            }
            EtcdCall::Compact { .. } => {
                if !truth.compacts {
                    self.add_violation(Property::HistoryIsKept, format!("{call}, which only clients may"));
                }
            }
        }
    }
}

/// The version that a member runs is observed anew in every pass. It is no intent.
fn without_versions(mut record: Record) -> Record {
    record.members.values_mut().for_each(|member| member.version = None);
    record
}
