//! Checks against the state of the world: of requests as they arrive, and of the state itself at any moment.

use std::collections::BTreeSet;
use std::sync::Arc;

use quorate_api::keys;
use quorate_apistore::fields::{annotation, deleting, flag, items, name, text, uid};
use quorate_apistore::selectors::map_selects;
use quorate_manifests::{Act, Kind, Write};
use quorate_model::record::Stage;
use quorate_model::{Effect, KubeEffect, Plan, Record, Snapshot, Span};
use serde_json::Value;

use super::{Property, Truth, without_versions};
use crate::etcd::{Dir, Group, State};
use crate::world::World;
use crate::world::cert_manager::written_for;
use crate::world::certificates::authorities;
use crate::world::clocks::Ahead;
use crate::world::other_operator::is_of_other_operator;
use crate::world::wire::Call;

/// How long the data of a member are kept that the operator did not choose to remove: the default of the spec.
const KEPT: Span = Span::seconds(168 * 3600);

impl World {
    /// Checks a request that arrives against what is true at that moment.
    pub(crate) fn oracle_on_arrival(&mut self, call: &Call) {
        match call {
            Call::Kube(write) => self.judge_write(write),
            Call::Etcd { call, .. } => self.judge_time_of_call(call),
        }
    }

    /// Checks that the next Pod of a member that stays would be admitted, when its healthy Pod is ended. A refusal that began after the API
    /// server was asked in this pass is nobody's fault.
    pub(crate) fn judge_successor(&mut self, seen: &Snapshot, plan: &Plan, effect: &Effect) {
        let Effect::Kube {
            write: KubeEffect::EvictPod { member, pod } | KubeEffect::DeletePod { member, pod, .. },
            ..
        } = effect
        else {
            return;
        };
        let record = &plan.record;
        let all_end = seen.deleting
            || record.hibernating
            || record.next_incarnation.is_some()
            || record.quorum_recovery.is_some();
        let stays = record.members.get(member).is_some_and(|member| member.stage == Stage::Voter);
        let truth = Truth::of(self);
        let is_healthy = truth.members.get(pod.as_str()).is_some_and(|id| truth.is_healthy(*id));
        let was_asked = seen.successors.contains_key(member);
        if !all_end && stays && is_healthy && !was_asked && self.faults.refuses("Pod", member.as_str()) {
            let how = format!("{effect}, and the API server refuses its next Pod");
            self.oracle.add_violation(Property::SuccessorsAreAdmitted, how);
        }
    }

    /// Checks that the present status records the effect that is about to be carried out.
    pub(crate) fn judge_intent(&mut self, plan: &Plan, effect: &Effect) {
        let is_past_the_operator = self.faults.status_lost || self.faults.spoiled.is_some();
        if is_past_the_operator || self.object(Kind::Cluster, &self.at.name).is_none() {
            return;
        }
        let (recorded, intended) =
            (without_versions(Record::clone(&self.record())), without_versions(plan.record.clone()));
        if recorded != intended {
            let how = format!("{effect}, but status records {recorded:?} instead of {intended:?}");
            self.oracle.add_violation(Property::IntentBeforeEffect, how);
        }
    }

    /// What is found first is what a history violates. A quarantined volume that is deleted by a clock that was set is lost for that reason;
    /// without one, it also goes before its time because it is lost.
    fn judge_write(&mut self, write: &Write) {
        let there = self.object(write.kind, &write.name);
        let there = there.as_deref();
        if self.faults.clocks == Ahead::default() {
            self.judge_change(write, there);
            self.judge_time_of_write(write, there);
        } else {
            self.judge_time_of_write(write, there);
            self.judge_change(write, there);
        }
    }

    fn judge_change(&mut self, write: &Write, there: Option<&Value>) {
        self.judge_what_is_asked(write);
        match &write.act {
            Act::Create(_) => {}
            Act::Patch(patch) | Act::PatchStatus(patch) => {
                if text(patch, "/metadata/uid").is_empty() {
                    let how = format!("{} is changed without a uid", write.object());
                    self.oracle.add_violation(Property::DestroysOnlyWhatWasObserved, how);
                }
                self.judge_owner(write, there);
            }
            Act::Evict { uid: desired } => {
                if desired.is_empty() {
                    let how = format!("{} is evicted without a uid", write.object());
                    self.oracle.add_violation(Property::DestroysOnlyWhatWasObserved, how);
                }
                self.judge_owner(write, there.filter(|there| uid(there) == desired));
            }
            Act::Delete { uid: desired, resource_version } => {
                if desired.is_empty() || resource_version.is_empty() {
                    let how = format!("{} is deleted without a uid or a resourceVersion", write.object());
                    self.oracle.add_violation(Property::DestroysOnlyWhatWasObserved, how);
                }
                let same = there.filter(|there| {
                    uid(there) == desired && text(there, "/metadata/resourceVersion") == resource_version
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
        // If it is gone, a late request may still be from its time.
        let is_own = |owner: &str| match &cluster {
            Some(cluster) => uid(cluster) == owner,
            None => self.oracle.incarnations.contains(owner),
        };
        let is_owned = match write.kind {
            Kind::Cluster => is_own(uid(there)),
            Kind::Volume => {
                let adopts =
                    cluster.as_ref().is_some_and(|cluster| annotation(cluster, keys::ADOPT).is_some());
                adopts || annotation(there, keys::CLUSTER_UID).is_some_and(is_own)
            }
            // The certificate authorities are data: like a volume they outlive their EtcdCluster, and serve the next one of that name.
            Kind::Secret if authorities(&self.at).iter().any(|own| own == name(there)) => {
                let of_this_name = there.pointer("/metadata/labels").is_some_and(|labels| {
                    labels.get(keys::CLUSTER).and_then(Value::as_str) == Some(self.at.name.as_str())
                });
                of_this_name || annotation(there, keys::CLUSTER_UID).is_some_and(is_own)
            }
            // What cert-manager wrote for a Certificate of this EtcdCluster has no owner.
            Kind::Secret if written_for(there).is_some() => written_for(there).is_some_and(is_own),
            Kind::Pod
            | Kind::Service
            | Kind::Budget
            | Kind::Secret
            | Kind::NetworkPolicy
            | Kind::Certificate
            | Kind::Backup => {
                items(there, "/metadata/ownerReferences").iter().any(|owner| is_own(text(owner, "/uid")))
            }
        };
        if !is_owned || is_of_other_operator(there) {
            let how = format!("{} is not owned by this EtcdCluster and is changed", write.object());
            self.oracle.add_violation(Property::OnlyOwnedObjectsChange, how);
        }
    }

    fn judge_loss_of(&mut self, volume: &Value, member: &str) {
        let Some(dir) = self.etcd.dir(uid(volume)).cloned() else { return };
        let cluster = self.object(Kind::Cluster, &self.at.name.clone());
        let is_deleted = cluster.as_deref().is_none_or(deleting);
        let keeps = !self.oracle.forgoes_data;
        let group = self.etcd.group(dir.cluster);
        let served = group.is_some_and(|group| group.writes().next().is_some());
        let listed = group.is_some_and(|group| group.conf().members.contains_key(&dir.member));
        if is_deleted {
            // The data of a member that was removed before are deleted as they would have been.
            if keeps && served && listed {
                self.oracle.add_violation(
                    Property::DataOutliveMembers,
                    format!("the data of {member} were to be kept"),
                );
            }
            return;
        }
        // The operator did not choose to remove it, so its data may be all that is left of something.
        let kept_since = self.faults.removed_by_hand.get(&dir.member).filter(|_| served);
        if kept_since.is_some_and(|since| self.now - *since < KEPT) {
            let how =
                format!("the data of {member}, which somebody removed from etcd, are deleted within a week");
            self.oracle.add_violation(Property::DataOutliveMembers, how);
        }
        let recorded = self.record().cluster_id == Some(dir.cluster);
        if listed && (served || recorded) {
            let how = format!("the data of {member} are deleted while it is a member");
            self.oracle.add_violation(Property::DataOutliveMembers, how);
        }
        let used = self.etcd.processes().any(|(_, process)| process.launch.dir == uid(volume));
        if used && listed && (served || recorded) {
            let how = format!("the data of {member} are deleted while its Pod runs");
            self.oracle.add_violation(Property::DataOutliveMembers, how);
        }
    }

    /// Checks what must hold at any moment.
    pub(crate) fn check_for_harm(&mut self) {
        self.see_beginning();
        self.judge_trust();
        self.see_clients();
        self.see_suspected();
        self.judge_data_that_went_back();
        self.judge_incarnation();
        let mut violated = Vec::new();
        for group in self.etcd.groups() {
            // What the storage took away is not lost by anybody else. Then no client may be sent there.
            let lost = group.lost().first().filter(|_| !self.faults.taken_away.contains(&group.id()));
            if let Some(lost) = lost {
                let how = format!("cluster {} lost acknowledged write {lost}", group.id());
                violated.push((Property::AcknowledgedWritesStay, how));
            }
            if group.conf().members.values().filter(|peer| peer.is_learner).count() > 1 {
                violated.push((Property::OneChangeAtATime, "two learners".to_owned()));
            }
        }
        for (at, process) in self.etcd.processes().filter(|(_, process)| process.state == State::Running) {
            let Some(dir) = self.etcd.dir_of(process) else { continue };
            if let Some(how) = self.lacks_the_snapshot(dir, &process.launch.name) {
                violated.push((Property::SnapshotIsThere, format!("{} {how} ({at})", process.launch.name)));
            }
            if dir.stored.len > 0 {
                continue;
            }
            let group =
                self.etcd.group(dir.cluster).filter(|_| !self.faults.taken_away.contains(&dir.cluster));
            let votes = |group: &Group| {
                group.matters() && group.conf().is_voter(dir.member) && group.has_stored(dir.member)
            };
            if group.is_some_and(votes) {
                let how = format!("voter {} had data once and runs on none ({at})", process.launch.name);
                violated.push((Property::AcknowledgedWritesStay, how));
            }
        }
        let record = self.record();
        if let Some(recorded) = record.cluster_id {
            let others = self.etcd.groups().filter(|group| {
                group.id() != recorded
                    && group.leader().is_some()
                    && !self.faults.foreign.contains(&group.id())
            });
            for other in others {
                let has_our_member = other
                    .conf()
                    .members
                    .values()
                    .any(|peer| record.members.keys().any(|name| peer.name == name.as_str()));
                if has_our_member {
                    let how = format!(
                        "cluster {} has a leader beside {recorded}, which status records",
                        other.id()
                    );
                    violated.push((Property::OneClusterId, how));
                }
            }
        }
        for (property, how) in violated {
            if !self.oracle.violations.iter().any(|known| known.property == property) {
                self.oracle.add_violation(property, how);
            }
        }
    }

    /// Checks that another incarnation begins only where a person ordered it, and never beside members of the one before it that could still
    /// acknowledge writes: a quorum of them, under names that clients and peers resolve. A Pod that no Service selects has none.
    fn judge_incarnation(&mut self) {
        let record = self.record();
        let replaced = record.incarnation.as_ref().map(|present| present.replaced);
        if let Some(replaced) = replaced {
            let uid = self.cluster_uid();
            self.oracle.is_replaced(replaced, &uid);
        }
        let services = [self.at.name.clone(), format!("{}-client", self.at.name)];
        let services: Vec<_> = services.iter().filter_map(|name| self.object(Kind::Service, name)).collect();
        let pods = self.objects(Kind::Pod);
        let has_name = |pod: &&Arc<Value>| {
            services.iter().any(|service| map_selects(service.pointer("/spec/selector"), pod))
        };
        let named: BTreeSet<&str> = pods.iter().filter(has_name).map(|pod| uid(pod)).collect();
        let runs = |at: &Group| {
            let votes = |dir: &&Dir| dir.cluster == at.id() && at.conf().is_voter(dir.member);
            let running = self.etcd.processes().filter(|(_, process)| process.state == State::Running);
            let running = running.filter(|(at, _)| named.contains(at));
            running.filter_map(|(_, process)| self.etcd.dir_of(process)).filter(votes).count()
        };
        let of_earlier = |group: &&Group| self.oracle.is_given_up(group.id());
        let old = self.etcd.groups().filter(of_earlier).find(|group| runs(group) >= group.conf().quorum());
        let new = self.etcd.groups().filter(|group| !of_earlier(group)).find(|group| runs(group) > 0);
        if let (Some(old), Some(new)) = (old.map(Group::id), new.map(Group::id)) {
            let how = format!("a quorum of cluster {old}, which was replaced, runs beside members of {new}");
            self.oracle.add_violation(Property::OneClusterId, how);
        }
    }

    /// What the spec names when an attempt to begin is recorded is what the cluster begins with. Where status is lost before any member has
    /// started, another attempt follows. Once one has, the spec may say what it will.
    fn see_beginning(&mut self) {
        let Some(cluster) = self.object(Kind::Cluster, &self.at.name) else { return };
        let has = |path: &str| cluster.pointer(path).is_some();
        let (at, with_snapshot) = (uid(&cluster).to_owned(), has("/spec/bootstrap/restore"));
        if has("/status/bootstrap") || has("/status/clusterID") {
            self.oracle.begins_with_snapshot.entry(at).or_insert(with_snapshot);
        } else if self.etcd.groups().next().is_none() {
            self.oracle.begins_with_snapshot.remove(&at);
        }
    }

    /// Whether the cluster began with the snapshot: its spec named it when that was recorded.
    fn began_with_snapshot(&self) -> bool {
        let cluster = self.object(Kind::Cluster, &self.at.name);
        cluster.is_some_and(|cluster| self.oracle.begins_with_snapshot.get(uid(&cluster)) == Some(&true))
    }

    /// What a member runs on instead of the snapshot that the cluster begins with.
    fn lacks_the_snapshot(&self, dir: &Dir, member: &str) -> Option<&'static str> {
        if !self.begins_with_snapshot(member, self.began_with_snapshot())
            || self.faults.foreign.contains(&dir.cluster)
        {
            return None;
        }
        let snap = self.etcd.group(dir.cluster)?.began_with();
        if !snap.is_some_and(|snap| Self::is_the_snapshot(snap) || self.is_extracted(snap)) {
            return Some("is of a cluster that began without the snapshot");
        }
        dir.astray.then_some("began without the snapshot, beside members that have it")
    }

    /// Whether the spec pauses the operator.
    pub(crate) fn is_paused(&self) -> bool {
        let cluster = self.object(Kind::Cluster, &self.at.name);
        cluster.is_some_and(|cluster| flag(&cluster, "/spec/paused"))
    }
}
