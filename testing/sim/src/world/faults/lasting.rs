//! Faults that last until all else is at rest, and the traces of those that do not end.

use std::collections::{BTreeMap, BTreeSet};

use quorate_apistore::fields::{deleting, name, uid};
use quorate_manifests::Kind;
use quorate_model::auth::Marked;
use quorate_model::{ClusterId, Instant, MemberId};

use super::Unread;
use crate::etcd::{Disk, Group};
use crate::world::World;
use crate::world::clocks::Ahead;

/// The faults that last, and what faults have destroyed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LastingFaults {
    /// Members whose Pods do not start.
    pub slow: BTreeSet<String>,
    /// Members whose kubelets refuse their Pods.
    pub refused_by_kubelet: BTreeSet<String>,
    /// Members on nodes that are out of reach.
    pub on_lost_node: BTreeSet<String>,
    /// Members whose volumes were on the disk of a node that does not exist any more.
    pub gone: BTreeSet<String>,
    /// Those of them whose node has a name that another machine has now: their volumes cannot be mounted.
    pub created_again: BTreeSet<String>,
    /// Members whose volumes are mounted empty.
    pub empty_mounts: BTreeSet<String>,
    /// Members whose agents do not reach the store with the snapshot.
    pub no_store: BTreeSet<String>,
    /// Pods, by uid, that take time to stop once they are deleted.
    pub stopping: BTreeMap<String, Stopping>,
    /// Pods, by uid, whose nodes are being drained.
    pub drained: BTreeSet<String>,
    /// Budgets are not counted.
    pub budgets_behind: bool,
    /// Objects, by kind and name, that the API server refuses to create or change.
    pub refused: BTreeSet<(String, String)>,
    /// What the API server answers no reads of.
    pub unread: BTreeSet<Unread>,
    /// Those of them that fail until a person acts.
    pub unread_stays: BTreeSet<Unread>,
    /// Members whose faults do not end until a person acts. An empty name is that of the refusals.
    pub for_good: BTreeSet<String>,
    /// The Pod, by uid, whose address the next one gets.
    pub reused: Option<String>,
    /// The Pod, by uid, at whose address a member of another cluster answers.
    pub others_at: Option<String>,
    /// Clients write through the names of members, too.
    pub clients_on_names: bool,
    /// How far clocks are ahead.
    pub clocks: Ahead,
    /// Nobody sets them right.
    pub clocks_stay: bool,
    /// Members whose data were destroyed by a fault.
    pub data_destroyed: BTreeSet<String>,
    /// Members whose claims somebody deleted.
    pub claims_deleted: BTreeSet<String>,
    /// Clusters of which the storage took acknowledged writes away: volumes went back while they slept, or nothing was left.
    pub taken_away: BTreeSet<ClusterId>,
    /// Members that somebody removed with etcdctl, and when.
    pub removed_by_hand: BTreeMap<MemberId, Instant>,
    /// When etcd's auth was enabled first.
    pub auth_since: Option<Instant>,
    /// The EtcdUsers that there are.
    pub etcd_users: BTreeSet<Marked>,
    /// Clusters whose data a fault put on a volume.
    pub foreign: BTreeSet<ClusterId>,
    /// The field of status that was spoiled, and its value before as JSON.
    pub spoiled: Option<(String, String)>,
    /// The status was lost.
    pub status_lost: bool,
    /// With the status something was lost that nothing else records. A person has to restore it.
    pub unidentified: bool,
}

/// How far a Pod is that takes time to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stopping {
    /// Its etcd serves on, with the Pod Ready.
    Serves,
    /// Its etcd has stopped; the kubelet has not confirmed yet.
    Stopped,
}

/// The entry of `for_good` that stands for the refusals of the API server.
pub(super) const REFUSALS: &str = "";

impl LastingFaults {
    /// Whether the API server refuses to create or change an object.
    pub fn refuses(&self, kind: &str, name: &str) -> bool {
        let refuses = |named: &str| self.refused.contains(&(kind.to_owned(), named.to_owned()));
        refuses(name) || refuses("")
    }

    /// Whether all that the API server refuses is Pods of these members, which do not run.
    pub fn refuses_nobody_but(&self, sick: &BTreeSet<String>) -> bool {
        self.refused.iter().all(|(kind, name)| kind == "Pod" && (name.is_empty() || sick.contains(name)))
    }

    /// The API server refuses nothing any more. Returns whether it did.
    pub fn end_refusals(&mut self) -> bool {
        let stayed = self.for_good.remove(REFUSALS);
        let any = !self.refused.is_empty();
        self.refused.clear();
        stayed || any
    }

    fn first_that_ends(&self, of: &BTreeSet<String>) -> Option<String> {
        of.iter().find(|member| !self.for_good.contains(*member)).cloned()
    }

    /// A description of each of them.
    pub fn words(&self) -> Vec<String> {
        let Self {
            slow,
            refused_by_kubelet,
            on_lost_node,
            gone,
            created_again,
            empty_mounts,
            no_store,
            stopping,
            drained,
            budgets_behind,
            refused,
            unread,
            unread_stays,
            for_good,
            reused,
            others_at,
            clients_on_names,
            clocks,
            clocks_stay,
            data_destroyed,
            claims_deleted,
            taken_away,
            removed_by_hand,
            auth_since: _,
            etcd_users,
            foreign,
            spoiled,
            status_lost,
            unidentified,
        } = self;
        let mut words = Vec::new();
        words.extend(slow.iter().map(|member| format!("Pod {member} does not start")));
        words.extend(
            refused_by_kubelet.iter().map(|member| format!("the kubelet of {member} refuses its Pods")),
        );
        words.extend(on_lost_node.iter().map(|member| format!("the node of {member} is out of reach")));
        words.extend(gone.iter().map(|member| format!("the node of {member} does not exist any more")));
        words.extend(
            created_again
                .iter()
                .map(|member| format!("another machine has the name of the node of {member}")),
        );
        words.extend(empty_mounts.iter().map(|member| format!("the volume of {member} is mounted empty")));
        words.extend(
            no_store.iter().map(|member| format!("{member} does not reach the store of the snapshot")),
        );
        words.extend(stopping.iter().map(|(pod, how)| match how {
            Stopping::Serves => format!("Pod with uid {pod} takes time to stop"),
            Stopping::Stopped => format!("Pod with uid {pod} has stopped, and its kubelet has not confirmed"),
        }));
        words.extend(drained.iter().map(|pod| format!("the node of the Pod with uid {pod} is drained")));
        words.extend(budgets_behind.then(|| "the disruption controller is behind".to_owned()));
        words.extend(
            refused.iter().map(|(kind, named)| format!("the API server refuses to write {kind} {named}")),
        );
        words.extend(unread.iter().map(|of| format!("the API server answers no read of {}", of.as_str())));
        words.extend(unread_stays.iter().map(|of| format!("reads of {} go on failing", of.as_str())));
        words.extend(for_good.iter().map(|member| match member.as_str() {
            REFUSALS => "what the API server refuses stays refused".to_owned(),
            member => format!("the fault of {member} does not end"),
        }));
        words.extend(reused.iter().map(|pod| format!("the address of the Pod with uid {pod} is used again")));
        words
            .extend(others_at.iter().map(|pod| format!("others have the address of the Pod with uid {pod}")));
        words.extend(clients_on_names.then(|| "clients write through the names of members".to_owned()));
        words.extend(clocks.words());
        words.extend(clocks_stay.then(|| "nobody sets the clocks right".to_owned()));
        words.extend(data_destroyed.iter().map(|member| format!("the data of {member} were destroyed")));
        words.extend(claims_deleted.iter().map(|member| format!("somebody deleted the claim of {member}")));
        words.extend(
            taken_away.iter().map(|cluster| format!("the storage took writes of cluster {cluster} away")),
        );
        words.extend(removed_by_hand.keys().map(|id| format!("somebody removed member {id}")));
        words.extend(etcd_users.iter().map(|user| format!("EtcdUser {} exists", user.name())));
        words.extend(foreign.iter().map(|cluster| format!("cluster {cluster} is not this EtcdCluster's")));
        words.extend(
            spoiled.iter().map(|(field, _)| format!("status.{field} is not what the operator wrote")),
        );
        words.extend(status_lost.then(|| "the status was lost".to_owned()));
        words.extend(unidentified.then(|| "nothing else records what status did".to_owned()));
        words
    }
}

impl World {
    /// Ends one fault that lasts, and describes it; `None` if none is left.
    pub(in crate::world) fn end_a_lasting_fault(&mut self) -> Option<String> {
        if let Some(line) = self.restore_authority() {
            return Some(line);
        }
        if let Some(line) = self.set_clocks_right() {
            return Some(line);
        }
        if let Some(line) = self.put_status_right() {
            return Some(line);
        }
        if let Some(member) = self.faults.first_that_ends(&self.faults.slow) {
            self.faults.slow.remove(&member);
            return Some(format!("Pod {member} is no longer slow to start"));
        }
        if let Some(member) = self.faults.refused_by_kubelet.pop_first() {
            return Some(format!("the kubelet of {member} admits its Pod"));
        }
        if self.faults.reused.take().is_some() || self.faults.others_at.take().is_some() {
            return Some("addresses are those of the Pods again".to_owned());
        }
        if std::mem::take(&mut self.faults.clients_on_names) {
            return Some("clients use the client Service only".to_owned());
        }
        if std::mem::take(&mut self.faults.budgets_behind) {
            return Some("the disruption controller counts budgets again".to_owned());
        }
        if self.remove_second_budget() {
            return Some("somebody deletes their budget".to_owned());
        }
        if self.remove_objects_of_other_operator() {
            return Some("the objects of the other operator are gone".to_owned());
        }
        if let Some(line) = self.stop_a_lingering_pod() {
            return Some(line);
        }
        if !self.faults.for_good.contains(REFUSALS) && self.faults.end_refusals() {
            return Some("the API server refuses nothing any more".to_owned());
        }
        let mut ends = self.faults.unread.difference(&self.faults.unread_stays);
        if let Some(of) = ends.next().copied() {
            self.faults.unread.remove(&of);
            return Some(format!("the API server answers reads of {} again", of.as_str()));
        }
        if let Some(member) = self.faults.first_that_ends(&self.faults.on_lost_node) {
            self.faults.on_lost_node.remove(&member);
            let now = self.now;
            if let Some(process) = self.process_of(&member).and_then(|at| self.etcd.process_mut(&at)) {
                (process.cut, process.since) = (false, now);
            }
            return Some(format!("the node of {member} is back"));
        }
        if let Some(member) = self.faults.first_that_ends(&self.faults.empty_mounts) {
            self.faults.empty_mounts.remove(&member);
            return Some(format!("the volume of {member} is mounted with its data again"));
        }
        if let Some(member) = self.faults.no_store.pop_first() {
            return Some(format!("{member} reaches the store of the snapshot again"));
        }
        if self.faults.drained.pop_first().is_some() {
            return Some("a drain is given up".to_owned());
        }
        let stay_wrong: BTreeSet<String> = self
            .etcd
            .processes()
            .filter(|(_, process)| self.faults.for_good.contains(&process.launch.name))
            .map(|(_, process)| process.launch.dir.clone())
            .collect();
        if self.etcd.mend_data(&stay_wrong) {
            return Some("a person puts the data of members right".to_owned());
        }
        if let Some(line) = self.repair_a_disk().or_else(|| self.disarm_alarms()) {
            return Some(line);
        }
        let for_good = &self.faults.for_good;
        let process = self.etcd.processes_mut().find(|process| {
            (process.cut || process.isolated || process.lags) && !for_good.contains(&process.launch.name)
        })?;
        (process.cut, process.isolated, process.lags) = (false, false, false);
        process.since = self.now;
        let member = &process.launch.name;
        Some(format!("{member} and its peers reach each other again"))
    }

    /// A person disarms the alarms and disables auth, as soon as a quorum takes that.
    fn disarm_alarms(&mut self) -> Option<String> {
        let clusters: Vec<ClusterId> = self.etcd.groups().map(Group::id).collect();
        // Not while data differ: then the alarm is what keeps clients from them.
        let right: Vec<ClusterId> =
            clusters.iter().copied().filter(|cluster| !self.etcd.has_wrong_data(*cluster)).collect();
        if right.iter().any(|cluster| self.etcd.disarm(*cluster)) {
            return Some("a person disarms the alarms".to_owned());
        }
        // What the spec orders, or ordered, is nobody's accident.
        let cluster = self.object(Kind::Cluster, &self.at.name);
        let is_wanted = cluster.is_some_and(|cluster| cluster["spec"]["auth"]["enabled"] == true);
        if is_wanted || self.record().auth.is_some() {
            return None;
        }
        let disabled = clusters.iter().any(|cluster| self.etcd.set_auth(*cluster, false));
        disabled.then(|| "a person disables auth".to_owned())
    }

    fn repair_a_disk(&mut self) -> Option<String> {
        let member_on =
            |dir: &str| self.pods.values().find(|pod| pod.dir == dir).map(|pod| pod.member.clone());
        let bad = self.etcd.bad_disks().map(|(dir, _)| (dir.to_owned(), member_on(dir).unwrap_or_default()));
        let (dir, member) = bad.into_iter().find(|(_, member)| !self.faults.for_good.contains(member))?;
        self.etcd.set_disk(&dir, Disk::Works);
        Some(format!("the disk of {member} works again"))
    }

    /// A Pod that takes time to stop goes one step further: its etcd stops, then the kubelet confirms.
    fn stop_a_lingering_pod(&mut self) -> Option<String> {
        let pods = self.objects(Kind::Pod);
        let named = |at: &str| pods.iter().find(|pod| uid(pod) == at).map(|pod| name(pod).to_owned());
        let (at, how) = self.faults.stopping.pop_first()?;
        let Some(member) = named(&at) else {
            return Some("a Pod that was to stop slowly is gone".to_owned());
        };
        let is_deleted = pods.iter().any(|pod| uid(pod) == at && deleting(pod));
        Some(match how {
            Stopping::Serves if is_deleted => {
                self.faults.stopping.insert(at, Stopping::Stopped);
                format!("etcd stops in Pod {member}")
            }
            Stopping::Serves => format!("Pod {member} would stop at once again"),
            Stopping::Stopped => format!("the kubelet confirms that Pod {member} has stopped"),
        })
    }
}
