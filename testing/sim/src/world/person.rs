//! The person who reads the status and follows `docs/runbook.md`, once all is at rest and a fault stays. What the runbook promises
//! is judged: after the person has done it, the goal must be reached.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use quorate_api::keys;
use quorate_apistore::fields::{annotation, condition, deleting, integer, items, label, name, text, uid};
use quorate_apistore::store::{DeleteOptions, Part};
use quorate_manifests::Kind;
use quorate_model::quorum::has_quorum;
use quorate_model::record::{Member, Stage};
use quorate_model::target::Medium;
use quorate_model::{MemberId, MemberName};
use serde_json::{Value, json};

use super::World;
use super::kubelet::{delete, launch};
use super::objects::key;
use super::operator::At;
use crate::oracle::{Property, Truth};

/// How far the person is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Remedy {
    /// Nothing was done yet.
    #[default]
    NotYet,
    /// The cluster was scaled in by the members that are sick for good, to remove them. With the size to go back to,
    /// and them.
    ScaledIn(i64, BTreeSet<String>),
    /// Whoever was sick was removed, and the cluster has its size again.
    Replaced,
}

impl World {
    /// The person takes the next step of the runbook, if there is one, and it is described.
    pub(super) fn person_acts(&mut self) -> Option<String> {
        let cluster = self.object(Kind::Cluster, &self.at.name).filter(|_| self.wide)?;
        if deleting(&cluster) || self.is_paused() {
            return self.mends();
        }
        // Status says what is not read, and nothing else goes on before that is mended.
        if let Some(line) = self.mends_reads() {
            return Some(line);
        }
        if let Some(line) = self.adopts() {
            return Some(line);
        }
        if let Some(line) = self.accepts_loss(&cluster) {
            return Some(line);
        }
        let size = integer(&cluster, "/spec/size").unwrap_or(0);
        match self.remedy.clone() {
            Remedy::NotYet if self.can_replace_the_sick() => {
                let sick = self.sick();
                let left = self.voters(&Truth::of(self)).len().saturating_sub(sick.len());
                let left = i64::try_from(left).unwrap_or(0);
                self.remedy = Remedy::ScaledIn(size, sick);
                self.resize(left).map(|()| format!("a person scales in to {left}"))
            }
            Remedy::ScaledIn(size, were_sick) => {
                self.judge_scale_in(&were_sick);
                self.remedy = Remedy::Replaced;
                self.faults.end_refusals();
                self.resize(size).map(|()| format!("a person scales out to {size} again"))
            }
            Remedy::NotYet | Remedy::Replaced => self.mends(),
        }
    }

    /// Members that status records and that vote: by status, or by etcd's list while status has them as joining yet.
    fn voters(&self, truth: &Truth) -> BTreeMap<String, Option<MemberId>> {
        let record = self.record();
        let votes = |member: &Member| match member.stage {
            Stage::Voter => true,
            Stage::Joining => member.id.is_some_and(|id| truth.is_voter(id)),
            Stage::Bootstrap | Stage::Leaving(_) => false,
        };
        let voters = record.members.iter().filter(|(_, member)| votes(member));
        voters.map(|(name, member)| (name.as_str().to_owned(), member.id)).collect()
    }

    /// The voters that are not healthy.
    fn sick(&self) -> BTreeSet<String> {
        let truth = Truth::of(self);
        let is_sick = |id: &Option<MemberId>| id.is_none_or(|id| !truth.is_healthy(id));
        self.voters(&truth).into_iter().filter(|(_, id)| is_sick(id)).map(|(name, _)| name).collect()
    }

    /// Whether voters are sick for good, while the others are a quorum.
    pub(crate) fn can_replace_the_sick(&self) -> bool {
        if !self.wide || self.remedy != Remedy::NotYet || self.faults.unidentified {
            return false;
        }
        let record = self.record();
        let of_disk = record.target.as_ref().is_some_and(|target| target.storage.medium == Medium::Disk);
        let (voters, sick) = (self.voters(&Truth::of(self)).len(), self.sick());
        let for_good = |member: &String| {
            self.faults.data_destroyed.contains(member)
                || self.faults.for_good.contains(member)
                || self.faults.refuses("Pod", member)
        };
        let size = record.target.as_ref().map_or(0, |target| target.size);
        of_disk
            && !sick.is_empty()
            && has_quorum(voters - sick.len(), voters)
            && sick.iter().all(for_good)
            && self.faults.refuses_nobody_but(&sick)
            // Growth may be held up by those who are sick.
            && voters <= size
            && self.faults.foreign.is_empty()
    }

    /// Whether a member was removed while the Pod that it leaves behind cannot go: its node never comes back. That holds nobody up.
    pub(crate) fn is_left_behind(&self, member: &str) -> bool {
        self.faults.on_lost_node.contains(member) && self.faults.for_good.contains(member)
    }

    /// After a scale-in whoever was sick is gone, and the others serve. As long as no Pod is created, a rollout that was under way may
    /// have stopped another member meanwhile.
    fn judge_scale_in(&mut self, were_sick: &BTreeSet<String>) {
        let sick = self.sick();
        let left: BTreeSet<_> = sick.intersection(were_sick).collect();
        // Who came to be sick for good since then is another matter, and the person has not read of it yet.
        let is_new = |member: &String| self.faults.for_good.contains(member) && !were_sick.contains(member);
        let how = if left.is_empty() {
            self.goal().err().filter(|_| self.faults.refused.is_empty() && !sick.iter().any(is_new))
        } else {
            Some(format!("{left:?} is still a voter and not healthy"))
        };
        if let Some(how) = how {
            let how = format!("the cluster was scaled in to remove {were_sick:?}: {how}");
            self.oracle.add_violation(Property::GoalIsReached, how);
        }
    }

    fn mends_reads(&mut self) -> Option<String> {
        if self.faults.unread.is_empty() {
            return None;
        }
        self.judge_without_reads();
        self.faults.unread.clear();
        self.faults.unread_stays.clear();
        Some("a person gives the operator the right to read again".to_owned())
    }

    /// While reads fail and nothing else is wrong, lost Pods are started all the same, a cluster whose data may go is deleted, and what waits
    /// says for what: E1 as far as reads do not matter.
    fn judge_without_reads(&mut self) {
        let Some(cluster) = self.object(Kind::Cluster, &self.at.name) else { return };
        let faults = &self.faults;
        let any_other = !faults.for_good.is_empty()
            || !faults.data_destroyed.is_empty()
            || !faults.claims_deleted.is_empty()
            || !faults.refused.is_empty()
            || !faults.foreign.is_empty()
            || faults.spoiled.is_some()
            || faults.status_lost
            || faults.clocks_stay;
        if any_other || self.is_paused() {
            return;
        }
        let record = self.record();
        let mut how = None;
        if deleting(&cluster) {
            let gives_data_up = text(&cluster, "/spec/storageSpec/retention/whenDeleted") == "Delete";
            how = gives_data_up.then(|| "the cluster is still there, and its data may go".to_owned());
        } else if !record.hibernating {
            // Of a claim that no watch shows, only a read tells whether it is there.
            let is_shown = |voter: &&MemberName| {
                let claim = self.object(Kind::Volume, voter.as_str());
                claim.is_none_or(|claim| label(&claim, keys::CLUSTER).is_some())
            };
            let mut shown = record.voters().filter(is_shown);
            let lost = shown.find(|voter| self.object(Kind::Pod, voter.as_str()).is_none());
            how = lost.map(|voter| format!("the Pod of {voter} is not started again"));
        }
        let words = |condition: &Value| {
            let message = text(condition, "/message");
            message.contains("not read") || message.contains("not be read")
        };
        let is_told = items(&cluster, "/status/conditions").iter().any(words);
        let how = how.or_else(|| self.goal().err().filter(|_| !is_told && !deleting(&cluster)));
        if let Some(how) = how {
            let how = format!("the API server answers no reads of {:?}: {how}", self.faults.unread);
            self.oracle.add_violation(Property::GoalIsReached, how);
        }
    }

    /// What stays is put right after all: a quota is raised, a Node that never comes back is deleted, a disk is replaced.
    fn mends(&mut self) -> Option<String> {
        if self.faults.end_refusals() {
            return Some("a person raises the quota".to_owned());
        }
        if let Some(line) = self.mends_reads() {
            return Some(line);
        }
        if let Some(line) = self.restarts_another_version() {
            return Some(line);
        }
        let member = self.faults.for_good.pop_first()?;
        if self.faults.on_lost_node.remove(&member) {
            self.node_is_deleted(&member);
            return Some(format!("a person deletes the Node of {member}, which never came back"));
        }
        Some(format!("a person mends what {member} runs on"))
    }

    /// Members of different versions are not compared. One that runs another one than its image's tag has now is restarted.
    fn restarts_another_version(&mut self) -> Option<String> {
        self.record().differ_since?;
        let pods = self.objects(Kind::Pod);
        let differs = |pod: &&Arc<Value>| {
            let process = self.etcd.process(uid(pod));
            process.is_some_and(|process| process.launch.version != launch(pod, &process.launch.dir).version)
        };
        let member = pods.iter().find(differs).map(|pod| name(pod).to_owned())?;
        let is_restarted = self.kill_process(&member);
        is_restarted.then(|| {
            format!("a person restarts {member}, which runs another version than its image's tag has")
        })
    }

    /// Kubernetes deletes the Pods of a Node that does not exist. The machine is off.
    fn node_is_deleted(&mut self, member: &str) {
        let gone: Vec<String> =
            self.pods.iter().filter(|(_, pod)| pod.member == member).map(|(at, _)| at.clone()).collect();
        for at in gone {
            let pod = self.object(Kind::Pod, member).filter(|pod| uid(pod) == at);
            if self.pods.get(&at).is_some_and(|running| running.dir.starts_with("memory of")) {
                self.faults.data_destroyed.insert(member.to_owned());
            }
            self.pods.remove(&at);
            self.etcd.stop(&at);
            let _ = pod.is_some_and(|pod| delete(&self.store, Kind::Pod, &pod, Some(0)));
        }
    }

    /// The person decides that the volumes of an earlier cluster are to be served.
    fn adopts(&mut self) -> Option<String> {
        let cluster = self.object(Kind::Cluster, &self.at.name)?;
        if condition(&cluster, "ExistingData") != "True" || annotation(&cluster, keys::ADOPT).is_some() {
            return None;
        }
        let volumes = self.objects(Kind::Volume);
        let id = volumes.iter().find_map(|volume| annotation(volume, keys::CLUSTER_ID));
        let Some(id) = id.map(str::to_owned) else { return self.deletes_volumes_without_an_id() };
        let adopted = self.change(&key(Kind::Cluster, &self.at, &self.at.name), Part::Main, |cluster| {
            cluster["metadata"]["annotations"][keys::ADOPT] = json!(id);
        });
        adopted.ok().map(|()| format!("a person adopts the data of cluster {id}"))
    }

    /// Volumes of a bootstrap that never got a cluster ID cannot be adopted.
    fn deletes_volumes_without_an_id(&mut self) -> Option<String> {
        let mut any = false;
        // Kubernetes keeps a volume as long as a Pod uses it.
        let free =
            |volume: &&Arc<Value>| !deleting(volume) && self.pods.values().all(|pod| pod.dir != uid(volume));
        for volume in self.objects(Kind::Volume).iter().filter(free) {
            any |= delete(&self.store, Kind::Volume, volume, None);
        }
        any.then(|| "a person deletes the volumes, which have no cluster ID".to_owned())
    }

    /// The person reads that the data went back, has no later ones, and accepts that.
    fn accepts_loss(&self, cluster: &Value) -> Option<String> {
        let conditions = items(cluster, "/status/conditions");
        if !conditions.iter().any(|condition| condition["reason"] == "DataWentBack") {
            return None;
        }
        let id = text(cluster, "/status/clusterID");
        let group = id.parse().ok().and_then(|id| self.etcd.group(id))?;
        let id = format!("{id}/{}", group.revision());
        let is_accepted = annotation(cluster, keys::ACCEPT_DATA_LOSS) == Some(id.as_str());
        let accepted = self.change(&key(Kind::Cluster, &self.at, &self.at.name), Part::Main, |cluster| {
            cluster["metadata"]["annotations"][keys::ACCEPT_DATA_LOSS] = json!(id);
        });
        (!is_accepted && accepted.is_ok()).then(|| "a person accepts that the data went back".to_owned())
    }

    fn resize(&self, size: i64) -> Option<()> {
        self.change_spec(|spec| spec["size"] = json!(size)).ok()
    }

    /// The EtcdCluster and its objects are lost, and a backup tool creates the EtcdCluster again, with its status or without it.
    /// Its volumes were kept, and each has its identity. An operator that acts for the EtcdCluster that was lost is not meant here:
    /// what it still sends names objects that are gone.
    pub(super) fn is_restored(&mut self, with_status: bool) -> bool {
        let Some(cluster) = self.object(Kind::Cluster, &self.at.name) else { return false };
        let between = matches!(self.operator.at, At::Between) && self.former_leader.is_none();
        let record = self.record();
        let has_identity = |voter: &MemberName| {
            let volume = self.object(Kind::Volume, voter.as_str());
            volume.is_some_and(|volume| annotation(&volume, keys::MEMBER_ID).is_some())
        };
        let known = record.cluster_id.is_some() && record.members.keys().all(has_identity);
        if !between || !known || !self.late.is_empty() || deleting(&cluster) {
            return false;
        }
        for kind in [Kind::Pod, Kind::Service, Kind::Budget, Kind::Secret] {
            for object in self.objects(kind) {
                let at = key(kind, &self.at, name(&object));
                if kind == Kind::Pod {
                    self.note_memory_lost_with(&object);
                    self.pods.remove(uid(&object));
                    self.etcd.stop(uid(&object));
                }
                let now = DeleteOptions { grace_period: Some(0), ..DeleteOptions::default() };
                let _ = self.store.delete(&at, &now);
            }
        }
        let at = key(Kind::Cluster, &self.at, &self.at.name);
        let freed = self.change(&at, Part::Main, |cluster| {
            cluster["metadata"].as_object_mut().and_then(|metadata| metadata.remove("finalizers"));
        });
        let deleted = freed.is_ok() && self.store.delete(&at, &DeleteOptions::default()).is_ok();
        let created = deleted && self.apply(&cluster["spec"]).is_ok();
        if created && with_status {
            let status = cluster["status"].clone();
            let _ = self.change(&at, Part::Status, |restored| restored["status"] = status);
        }
        debug_assert!(!created || text(&cluster, "/metadata/uid") != self.cluster_uid());
        self.oracle.forget_names();
        self.spec_changed();
        created
    }
}
