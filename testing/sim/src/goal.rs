//! The goal: the state in which every history must end once its faults have ended.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use quorate_api::EtcdCluster;
use quorate_api::keys;
use quorate_apistore::fields::{annotation, condition, deleting, name, text, uid};
use quorate_manifests::Kind;
use quorate_model::quorum::has_quorum;
use quorate_model::record::Stage;
use quorate_model::target::{Medium, Retention};
use quorate_model::{MemberId, MemberName, Record, Span, Version};

use serde_json::Value;

use crate::ending;
use crate::etcd::version_of_image;
use crate::oracle::{Property, Truth};
use crate::world::certificates::authorities;
use crate::world::{KINDS, World};

impl World {
    /// Whether the goal is reached; the error names what is missing.
    pub fn goal(&self) -> Result<(), String> {
        let Some(cluster) = self.object(Kind::Cluster, &self.at.name) else { return self.nothing_is_left() };
        if deleting(&cluster) && self.keeps_a_pod_for_its_claim() {
            // A person gives the data up, or saves them.
            return Ok(());
        }
        if deleting(&cluster) {
            return Err("the cluster is still being deleted".to_owned());
        }
        let uid_of_cluster = uid(&cluster).to_owned();
        let (record, cluster) = (self.record(), self.cluster().ok_or("the cluster does not parse")?);
        let desired = usize::try_from(cluster.spec.size).unwrap_or(usize::MAX);
        let mut pods = self.names(Kind::Pod);
        if self.is_paused() || self.needs_a_person(&record) {
            return Ok(());
        }
        // At size zero an order waits for a size.
        if let Some(order) = self.open_order().filter(|_| desired > 0) {
            return Err(format!("EtcdRestore {order} names the present cluster and is not carried out"));
        }
        if let Some(voter) = record.voters().find(|voter| self.is_claim_going(voter.as_str())) {
            return Err(format!("the claim of {voter} is being deleted"));
        }
        if desired == 0 {
            return if pods.is_empty() { Ok(()) } else { Err(format!("Pods are left: {pods:?}")) };
        }
        let Some(target) = record.target.as_ref() else {
            // An invalid spec, or one that does not go with the snapshot, bootstraps no cluster, and the status must report that.
            let progressing = condition_of(&cluster, "Progressing");
            let is_reported = progressing.is_some_and(|one| {
                let is_reported = one.reason == "SpecInvalid" || one.reason == "RestoreRefused";
                one.status == "False" && is_reported
            });
            return if is_reported { Ok(()) } else { Err("no target is recorded".to_owned()) };
        };
        let voters: Vec<&str> = record.voters().map(MemberName::as_str).collect();
        let is_left_behind = |name: &str| !voters.contains(&name) && self.is_left_behind(name);
        let mut strays = record.members.iter().filter(|(_, member)| member.stage != Stage::Voter);
        let stray = strays.find(|(name, _)| !is_left_behind(name.as_str()));
        let holds_nobody_up = record.members.keys().any(|name| is_left_behind(name.as_str()));
        pods.retain(|pod| !is_left_behind(pod));
        if let Some((name, member)) = stray {
            return Err(format!("{name} is still {:?}", member.stage));
        }
        if voters.len() != desired {
            return Err(format!("{} voters instead of {desired}", voters.len()));
        }
        if pods != voters {
            return Err(format!("Pods {pods:?} for voters {voters:?}"));
        }
        for pod in self.objects(Kind::Pod) {
            if condition(&pod, "Ready") != "True" && !is_left_behind(name(&pod)) {
                return Err(format!("Pod {} is not ready", name(&pod)));
            }
        }
        if target.storage.medium == Medium::Disk && target.storage.when_scaled == Retention::Delete {
            let mut volumes = self.names(Kind::Volume);
            // Volumes of an earlier EtcdCluster are left to a person.
            let uid = uid_of_cluster.as_str();
            let is_own = |volume: &String| {
                let volume = self.object(Kind::Volume, volume);
                volume.is_some_and(|volume| annotation(&volume, keys::CLUSTER_UID).is_none_or(|of| of == uid))
            };
            // That of a member that the operator did not choose to remove is kept.
            let is_quarantined = |volume: &String| {
                let volume = self.object(Kind::Volume, volume);
                volume.is_some_and(|volume| annotation(&volume, keys::QUARANTINED_SINCE).is_some())
            };
            volumes.retain(|volume| {
                !is_left_behind(volume)
                    && !is_quarantined(volume)
                    && (voters.contains(&volume.as_str()) || is_own(volume))
            });
            if volumes != voters {
                return Err(format!("volumes {volumes:?} for voters {voters:?}"));
            }
        }
        let group =
            record.cluster_id.and_then(|id| self.etcd.group(id)).ok_or("no cluster id is recorded")?;
        if group.leader().is_none() {
            return Err("the cluster has no leader".to_owned());
        }
        // What was recorded stays until it is ordered off. An order of a person at rest is carried out.
        if group.tip().auth != record.auth.is_some() {
            return Err(format!("auth is {}, and the record has {:?}", group.tip().auth, record.auth));
        }
        for (type_, desired) in [("Available", "True"), ("Progressing", "False"), ("Degraded", "False")] {
            let condition = condition_of(&cluster, type_);
            // The operator goes on trying to clear away what was left behind.
            let may_differ = holds_nobody_up && type_ != "Available";
            if !may_differ && condition.is_none_or(|condition| condition.status != desired) {
                return Err(format!(
                    "{type_} is not {desired}: {:?}",
                    condition.map(|condition| &condition.message)
                ));
            }
        }
        Ok(())
    }

    /// Whether the goal is reached and the cluster can be repaired. If it cannot, its status may still change with time.
    pub(crate) fn is_well(&self) -> bool {
        self.goal().is_ok() && !self.needs_a_person(&self.record())
    }

    /// Whether the operator cannot repair the cluster by itself. Then the goal is only that nothing else is lost.
    fn needs_a_person(&self, record: &Record) -> bool {
        let Some(target) = &record.target else { return self.faults.unidentified && self.asks_about_data() };
        if !self.faults.foreign.is_empty() {
            return true;
        }
        // The upgrade was finished when the edit to it was reverted. A person has to set that version again, or orders a downgrade.
        let desired = target.version.line();
        let data = record.cluster_id.and_then(|id| self.etcd.group(id)?.tip().cluster_version);
        if target.pod.image_has_version && data.is_some_and(|data| desired < data) {
            return true;
        }
        // Nothing of an image that names its own version goes back with spec.version. A person names another image.
        let cluster = self.cluster();
        let ordered_back_to = cluster.as_ref().and_then(|cluster| {
            let order = cluster.metadata.annotations.as_ref()?.get(keys::ALLOW_DOWNGRADE)?;
            order.parse::<Version>().ok()
        });
        let of_image = cluster.as_ref().and_then(|cluster| version_of_image(cluster.spec.image.as_deref()?));
        let newest = of_image.map_or(desired, |version| version.line().max(desired));
        if !target.pod.image_has_version && ordered_back_to.is_some_and(|to| to.line() < newest) {
            return true;
        }
        let claims_go = record.members.keys().any(|member| self.is_claim_going(member.as_str()));
        // What the runbook says can be done about it is done before this is asked.
        let replaces = cluster.is_some_and(|cluster| cluster.spec.recovery.enabled);
        let is_moved = replaces
            && record
                .cluster_id
                .is_some_and(|id| self.etcd.group(id).is_some_and(|group| group.leader().is_some()));
        if claims_go && (!is_moved || self.open_order().is_some()) {
            return true;
        }
        if self.can_replace_the_sick() || (replaces && self.operator_replaces_the_lost(record)) {
            return false;
        }
        let mut destroyed = self.faults.data_destroyed.iter();
        let of_a_member = destroyed.any(|member| record.members.keys().any(|name| name.as_str() == member));
        match target.storage.medium {
            // A person decides to replace a member whose data on a disk a fault destroyed.
            Medium::Disk => {
                let is_left_to_a_person = !replaces && self.lacks_a_volume(record);
                self.faults.unidentified
                    || of_a_member
                    || is_left_to_a_person
                    || !self.disks_have_quorum(record)
            }
            // In memory, data are lost with the Pod, and the cluster with a quorum of them. With one or two voters, or without
            // replacements, no member is ever restarted.
            Medium::Memory => {
                let leads = record.cluster_id.and_then(|id| self.etcd.group(id)?.leader()).is_some();
                self.faults.unidentified || !leads || !replaces || record.voters().count() <= 2
            }
        }
    }

    /// Whether status says that a person has to decide about what exists of the cluster.
    fn asks_about_data(&self) -> bool {
        let cluster = self.cluster();
        let condition = cluster.as_ref().and_then(|cluster| condition_of(cluster, "ExistingData"));
        condition.is_some_and(|condition| condition.status == "True")
    }

    /// Whether a claim is being deleted.
    fn is_claim_going(&self, claim: &str) -> bool {
        self.object(Kind::Volume, claim).is_some_and(|claim| deleting(&claim))
    }

    /// Whether a Pod is all that keeps a claim which is being deleted.
    fn keeps_a_pod_for_its_claim(&self) -> bool {
        self.names(Kind::Pod).iter().any(|pod| self.is_claim_going(pod))
    }

    /// Whether a voter has no volume. One that never started has lost no data with it.
    fn lacks_a_volume(&self, record: &Record) -> bool {
        record.voters().any(|voter| self.object(Kind::Volume, voter.as_str()).is_none())
    }

    /// Whether the operator replaces the members whose data a fault destroyed: the others are a quorum, and none of them is sick.
    fn operator_replaces_the_lost(&self, record: &Record) -> bool {
        let on_disk = record.target.as_ref().is_some_and(|target| target.storage.medium == Medium::Disk);
        let voters: Vec<&MemberName> = record.voters().collect();
        let is_lost = |voter: &&&MemberName| self.faults.data_destroyed.contains(voter.as_str());
        let lost = voters.iter().filter(is_lost).count();
        let truth = Truth::of(self);
        let is_well = |voter: &&MemberName| record.members[*voter].id.is_some_and(|id| truth.is_healthy(id));
        let others_well = voters.iter().filter(|voter| !is_lost(voter)).all(is_well);
        on_disk
            && lost > 0
            && others_well
            && has_quorum(voters.len() - lost, voters.len())
            && !self.faults.unidentified
            && self.faults.refused.is_empty()
            && self.disks_have_quorum(record)
    }

    /// Whether the volumes of a quorum of voters have their data. If not, nobody can bring the cluster back.
    fn disks_have_quorum(&self, record: &Record) -> bool {
        let Some(group) = record.cluster_id.and_then(|id| self.etcd.group(id)) else { return true };
        let has_data = |voter: &MemberId| {
            let mut dirs = self.etcd.dirs().filter_map(|dir| self.etcd.dir(dir));
            dirs.any(|dir| dir.cluster == group.id() && dir.member == *voter)
        };
        let voters: Vec<MemberId> = group.conf().voters().collect();
        has_quorum(voters.iter().filter(|voter| has_data(voter)).count(), voters.len())
    }

    /// Checks E1 and E2 once everything is at rest and all faults have ended.
    pub fn judge_rest(&mut self) {
        if self.oracle.violation().is_some() {
            return;
        }
        if let Err(missing) = self.goal() {
            self.oracle.add_violation(Property::GoalIsReached, missing);
            return;
        }
        let before = self.store.version();
        self.advance(Span::seconds(60));
        self.operate_at_rest();
        if self.store.version() != before {
            let how =
                format!("written although nothing had changed: {}", self.changes_after(before).join("; "));
            self.oracle.add_violation(Property::RestIsQuiet, how);
        } else if self.is_well()
            // Status was lost beside a spec that is refused: nothing is recorded before a person corrects it.
            && self.record().is_bootstrapped()
            && let Err(how) = self.trusts_only_what_is_recorded()
        {
            self.oracle.add_violation(Property::OnlyTheRecordedAreTrusted, how);
        } else if self.is_well()
            && let Some(how) = self.left_orphan()
        {
            self.oracle.add_violation(Property::OnlyOrphansAreRevoked, how);
        } else if self.is_well()
            && let Some(how) = self.clients_not_as_they_should_be()
        {
            self.oracle.add_violation(Property::ClientsHaveTime, how);
        }
    }

    /// The writes after a version, field by field.
    fn changes_after(&self, version: u64) -> Vec<String> {
        let changes = KINDS.into_iter().flat_map(|kind| self.changes(kind, version));
        changes
            .map(|change| {
                let before = change.before.as_deref().cloned().unwrap_or_default();
                let mut fields = ending::changes(&before, &change.object);
                fields.retain(|field| !field.contains("resourceVersion"));
                format!("{} {}: {}", change.resource.plural, name(&change.object), fields.join(" "))
            })
            .collect()
    }

    /// Whether everything that belonged to a deleted cluster is gone. Its authorities stay with its data. Like a volume they have no
    /// owner, so nothing collects one that a late request creates when the cluster is gone.
    fn nothing_is_left(&self) -> Result<(), String> {
        let has_data = !self.names(Kind::Volume).is_empty();
        let mut kept = authorities(&self.at).to_vec();
        kept.retain(|authority| has_data || self.came_while_the_cluster_ended(authority));
        for kind in [Kind::Pod, Kind::Service, Kind::Budget, Kind::Secret] {
            let mut left = self.names(kind);
            left.retain(|name| kind != Kind::Secret || !kept.contains(name));
            if !left.is_empty() {
                return Err(format!("{} are left: {left:?}", kind.as_str()));
            }
        }
        Ok(())
    }

    /// Whether this Secret was created when the cluster was being deleted or gone, as only a late request does.
    fn came_while_the_cluster_ended(&self, secret: &str) -> bool {
        let version = |secret: &Value| text(secret, "/metadata/resourceVersion").parse().ok();
        let created = self.object(Kind::Secret, secret).and_then(|secret| version(&secret));
        let since = created.and_then(|created| self.changes_since(Kind::Cluster, created));
        since.is_some_and(|changes| changes.iter().all(|change| deleting(&change.object)))
    }
}

fn condition_of<'a>(cluster: &'a EtcdCluster, type_: &str) -> Option<&'a Condition> {
    cluster.status.as_ref()?.conditions.iter().find(|one| one.type_ == type_)
}
