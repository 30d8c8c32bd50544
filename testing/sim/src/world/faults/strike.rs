//! The effect of each fault on the world.

use std::sync::Arc;

use quorate_api::keys;
use quorate_apistore::fields::{annotation, deleting, label, name, uid};
use quorate_apistore::store::{DeleteOptions, Part};
use quorate_manifests::Kind;
use quorate_model::ClusterId;
use quorate_model::snapshot::FRESH;
use serde_json::{Value, json};

use super::lasting::REFUSALS;
use super::{Fault, Patch, Stopping};
use crate::etcd::{Disk, State};
use crate::world::World;
use crate::world::former_leader::Turn;
use crate::world::kubelet::{Running, delete};
use crate::world::objects::{KINDS, key, resource};
use crate::world::operator::{At, Operator};
use crate::world::wire::RequestOutcome;

impl World {
    /// Carries a fault out. `false` if it cannot happen now.
    pub(super) fn apply_fault(&mut self, fault: &Fault) -> bool {
        match fault {
            Fault::Swap(member) => {
                let Some(at) = self.process_of(member) else { return false };
                let swapped = self.etcd.swap(&at, self.now);
                self.faults.data_destroyed.insert(member.clone());
                self.faults.foreign.extend(swapped);
                swapped.is_some()
            }
            Fault::OldList => {
                // A younger list still counts as fresh.
                let had = self
                    .operator
                    .last_list
                    .as_ref()
                    .is_some_and(|list| self.operators_time() - list.at > FRESH);
                self.operator.old_list = had;
                self.operator.rested_on = None;
                had
            }
            Fault::Rogue(rogue) => {
                self.operator.rested_on = None;
                self.operator.rogue.push(rogue.clone());
                true
            }
            Fault::Crash => {
                let within = matches!(self.operator.at, At::Within(_));
                self.operator = Operator::default();
                self.clients_wait_anew();
                within
            }
            Fault::Request(outcome) => {
                let unset = self.request_outcome == RequestOutcome::Done;
                self.request_outcome = *outcome;
                unset
            }
            Fault::Stale(kind, back) => {
                let Some(view) = self.earlier(kind, *back) else { return false };
                let between = matches!(self.operator.at, At::Between);
                self.operator.stale = Some(view);
                self.operator.rested_on = None;
                between
            }
            Fault::TimeTravel(kind, back) => {
                let Some(view) = self.earlier(kind, *back) else { return false };
                self.operator = Operator { stale: Some(view), ..Operator::default() };
                self.clients_wait_anew();
                true
            }
            Fault::TwoLead => self.change_leader(Turn::Leaders),
            Fault::Paused => self.change_leader(Turn::WhenAllRests),
            Fault::Expired => {
                let reached = self.etcd.processes_mut().filter(|process| !process.cut);
                reached.map(|process| process.cut = true).count() > 0
            }
            Fault::OtherPatch(member, patch) => {
                let at = self.process_of(member);
                let Some(process) = at.and_then(|at| self.etcd.process_mut(&at)) else { return false };
                let version = &mut process.launch.version;
                let other = match patch {
                    Patch::Next => version.patch.checked_add(1),
                    Patch::Before => version.patch.checked_sub(1),
                };
                other.map(|other| version.patch = other).is_some()
            }
            Fault::NoStore(member) => self.faults.no_store.insert(member.clone()),
            Fault::RemovedByHand(member) => self.remove_by_hand(member),
            Fault::KillPod(member) => self.kill_pod(member),
            Fault::DeletePod(member) => self.lingers(member) && self.delete_pod(member),
            Fault::Lingers(member) => self.lingers(member),
            Fault::Drain(member) => self.drain(member),
            Fault::SecondBudget => self.add_second_budget(),
            Fault::OtherOperator(named) => self.add_object_of_other_operator(named),
            Fault::BudgetsBehind => !std::mem::replace(&mut self.faults.budgets_behind, true),
            Fault::Refuse(kind, named) => self.faults.refused.insert((kind.clone(), named.clone())),
            Fault::ReadsFail(of) => self.faults.unread.insert(*of),
            Fault::Arrives => self.late_request_arrives().is_some(),
            Fault::Restored(with_status) => self.is_restored(*with_status),
            Fault::StoreGoesBack(back) => self.store_goes_back(*back),
            Fault::ReuseAddress(member) => self.reuse_address(member),
            Fault::OthersTakeAddress(member) => self.others_take_address(member),
            Fault::ClientWrites => self.client_writes(),
            Fault::ManyWrites(mib) => {
                let Some(cluster) = self.record().cluster_id else { return false };
                self.etcd.grow(cluster, *mib)
            }
            Fault::ClientsOnNames => !std::mem::replace(&mut self.faults.clients_on_names, true),
            Fault::ClockSet(clock, by) => self.set_clock(*clock, *by),
            Fault::Stays(fault) => self.apply_fault(fault) && self.stays(fault),
            Fault::KillProcess(member) => self.kill_process(member),
            Fault::Slow(member) => {
                let waits =
                    self.object(Kind::Pod, member).is_some_and(|pod| !self.pods.contains_key(uid(&pod)));
                waits && self.faults.slow.insert(member.clone())
            }
            Fault::RefusedByKubelet(member) => {
                let waits =
                    self.object(Kind::Pod, member).is_some_and(|pod| !self.pods.contains_key(uid(&pod)));
                waits && self.faults.refused_by_kubelet.insert(member.clone())
            }
            Fault::LoseNode(member) => self.cut(member) && self.faults.on_lost_node.insert(member.clone()),
            Fault::Cut(member) => self.cut(member),
            Fault::CutFromPeers(member) => {
                let process = self.process_of(member).and_then(|at| self.etcd.process_mut(&at));
                let reached = process.filter(|process| !process.cut && !process.isolated);
                reached.map(|process| process.isolated = true).is_some()
            }
            Fault::Lag(member) => {
                let at = self.process_of(member);
                let process = at.and_then(|at| self.etcd.process_mut(&at)).filter(|process| !process.lags);
                process.map(|process| process.lags = true).is_some()
            }
            Fault::HangDisk(member) => self.break_disk(member, Disk::Hung),
            Fault::FillDisk(member) => self.break_disk(member, Disk::Full),
            Fault::ReadOnlyDisk(member) => self.break_disk(member, Disk::ReadOnly),
            Fault::SlowDisk(member) => self.break_disk(member, Disk::Slow),
            Fault::NodeShutsDown(member) => self.shut_down_node(member),
            Fault::NodeGone(member) => self.lose_node_for_good(member),
            Fault::NodeCreatedAgain(member) => {
                self.lose_node_for_good(member) && self.faults.created_again.insert(member.clone())
            }
            Fault::LoseVolume(member) => self.lose_volume(member),
            Fault::DeleteClaim(member) => self.delete_claim(member),
            Fault::WentBack(member) => self.volumes_go_back(member),
            Fault::Wipe(member) => self.wipe(member),
            Fault::EmptyMount(member) => self.mount_empty(member),
            Fault::Alarm(member) => self.process_of(member).is_some_and(|at| self.etcd.fill(&at)),
            Fault::Damage(member) => self.process_of(member).is_some_and(|at| self.etcd.damage(&at)),
            Fault::ForgetPromotion(member) => {
                self.process_of(member).is_some_and(|at| self.etcd.forget_promotion(&at))
            }
            Fault::EnableAuth => {
                let Some(cluster) = self.record().cluster_id else { return false };
                self.etcd.set_auth(cluster, true)
            }
            Fault::PlantUser(planted) => self.plant_user(*planted),
            Fault::WipeUnder(member) => self.wipe_under(member),
            Fault::Touch(kind, named) => self.touch(kind, named),
            Fault::Remove(kind, named) => {
                let Some(kind) = kind_called(kind) else { return false };
                let object = self.object(kind, named);
                object.is_some_and(|object| delete(&self.store, kind, &object, Some(0)))
            }
            Fault::SpoilStatus(field) => self.spoil_status(field),
            Fault::LoseStatus => {
                let key = key(Kind::Cluster, &self.at, &self.at.name);
                let had = self
                    .object(Kind::Cluster, &self.at.name)
                    .is_some_and(|cluster| cluster["status"].is_object());
                let is_unidentified = !self.identifies_itself();
                let lost = self.change(&key, Part::Status, |cluster| {
                    cluster.as_object_mut().and_then(|fields| fields.remove("status"));
                });
                self.faults.status_lost |= had && lost.is_ok();
                self.faults.unidentified |= had && lost.is_ok() && is_unidentified;
                self.oracle.forget_names();
                had && lost.is_ok()
            }
        }
    }

    /// The version before the last so many changes of a kind.
    fn earlier(&self, kind: &str, back: u32) -> Option<(Kind, u64)> {
        let kind = kind_called(kind)?;
        let (changes, _) = self.store.changes(&resource(kind), 0).ok()?;
        let back = usize::try_from(back).ok()?;
        let place = changes.len().checked_sub(back)?;
        Some((kind, changes.get(place)?.version - 1))
    }

    /// The Pod in which the process of a member runs.
    pub(super) fn process_of(&self, member: &str) -> Option<String> {
        let (at, _) =
            self.pods.iter().find(|(at, pod)| pod.member == member && self.etcd.process(at).is_some())?;
        Some(at.clone())
    }

    pub(in crate::world) fn kill_pod(&mut self, member: &str) -> bool {
        if self.faults.on_lost_node.contains(member) {
            return false;
        }
        let Some(pod) = self.object(Kind::Pod, member) else { return false };
        self.note_memory_lost_with(&pod);
        self.pods.remove(uid(&pod));
        self.etcd.stop(uid(&pod));
        delete(&self.store, Kind::Pod, &pod, Some(0))
    }

    /// A fault that has struck does not end by itself. `false` if it is none that lasts.
    fn stays(&mut self, fault: &Fault) -> bool {
        match fault {
            Fault::LoseNode(member)
            | Fault::Slow(member)
            | Fault::Cut(member)
            | Fault::CutFromPeers(member)
            | Fault::Lag(member)
            | Fault::HangDisk(member)
            | Fault::FillDisk(member)
            | Fault::ReadOnlyDisk(member)
            | Fault::SlowDisk(member)
            | Fault::Damage(member) => self.faults.for_good.insert(member.clone()),
            Fault::Refuse(..) => self.faults.for_good.insert(REFUSALS.to_owned()),
            Fault::ReadsFail(of) => self.faults.unread_stays.insert(*of),
            Fault::ClockSet(..) => {
                self.faults.clocks_stay = true;
                true
            }
            _ => false,
        }
    }

    /// A running Pod will take time to stop.
    fn lingers(&mut self, member: &str) -> bool {
        let pod = self.object(Kind::Pod, member).filter(|pod| self.pods.contains_key(uid(pod)));
        pod.is_some_and(|pod| self.faults.stopping.insert(uid(&pod).to_owned(), Stopping::Serves).is_none())
    }

    /// Somebody deletes a Pod as `kubectl delete` does.
    fn delete_pod(&mut self, member: &str) -> bool {
        let Some(pod) = self.object(Kind::Pod, member).filter(|pod| !deleting(pod)) else { return false };
        self.note_memory_lost_with(&pod);
        delete(&self.store, Kind::Pod, &pod, None)
    }

    /// A Pod goes that may have its data in memory.
    pub(in crate::world) fn note_memory_lost_with(&mut self, pod: &Value) {
        if self.pods.get(uid(pod)).is_some_and(|running| running.dir.starts_with("memory of")) {
            self.faults.data_destroyed.insert(name(pod).to_owned());
        }
    }

    pub(in crate::world) fn kill_process(&mut self, member: &str) -> bool {
        let Some(process) = self.process_of(member).and_then(|at| self.etcd.process_mut(&at)) else {
            return false;
        };
        if process.state != State::Running || process.cut {
            return false;
        }
        process.state = State::Ended("killed".to_owned());
        process.serves = false;
        true
    }

    fn cut(&mut self, member: &str) -> bool {
        let process = self.process_of(member).and_then(|at| self.etcd.process_mut(&at));
        process.filter(|process| !process.cut).map(|process| process.cut = true).is_some()
    }

    /// The data directory is emptied under a running Pod, and etcd ends. Only its container starts again.
    fn wipe_under(&mut self, member: &str) -> bool {
        let Some(dir) = self.pods.values().find(|pod| pod.member == member).map(|pod| pod.dir.clone()) else {
            return false;
        };
        if self.etcd.dir(&dir).is_none() || !self.kill_process(member) {
            return false;
        }
        self.etcd.wipe(&dir);
        self.faults.data_destroyed.insert(member.to_owned())
    }

    /// The kubelet stops etcd and writes that the Pod has failed. Nobody deletes the Pod but the operator.
    fn shut_down_node(&mut self, member: &str) -> bool {
        let Some(pod) = self.object(Kind::Pod, member).filter(|pod| !deleting(pod)) else { return false };
        if self.faults.on_lost_node.contains(member) || !self.pods.contains_key(uid(&pod)) {
            return false;
        }
        self.note_memory_lost_with(&pod);
        self.pods.remove(uid(&pod));
        self.etcd.stop(uid(&pod));
        let message = "Pod was terminated in response to imminent node shutdown.";
        self.write_status_of(&pod, json!({ "phase": "Failed", "reason": "Terminated", "message": message }))
    }

    /// Only a disk with a Pod on it: another one meets no write.
    fn break_disk(&mut self, member: &str, disk: Disk) -> bool {
        let on_disk = |pod: &&Running| pod.member == member && !pod.dir.starts_with("memory of");
        let Some(dir) = self.pods.values().find(on_disk).map(|pod| pod.dir.clone()) else { return false };
        let works = self.etcd.disk(&dir) == Disk::Works;
        if works {
            self.etcd.set_disk(&dir, disk);
        }
        works
    }

    fn lose_volume(&mut self, member: &str) -> bool {
        let Some(volume) = self.object(Kind::Volume, member) else { return false };
        if self.faults.on_lost_node.contains(member) {
            return false;
        }
        let had_data = self.etcd.dir(uid(&volume)).is_some();
        self.kill_pod(member);
        if had_data {
            self.faults.data_destroyed.insert(member.to_owned());
        }
        let options = DeleteOptions { uid: Some(uid(&volume).to_owned()), ..DeleteOptions::default() };
        self.etcd.wipe(uid(&volume));
        self.identities.remove(uid(&volume));
        self.store.delete(&key(Kind::Volume, &self.at, member), &options).is_ok()
    }

    /// Somebody deletes a claim as `kubectl delete pvc` does. Nothing else happens: its Pod runs on, and its data are there.
    fn delete_claim(&mut self, member: &str) -> bool {
        let Some(volume) = self.object(Kind::Volume, member).filter(|volume| !deleting(volume)) else {
            return false;
        };
        delete(&self.store, Kind::Volume, &volume, None)
            && self.faults.claims_deleted.insert(member.to_owned())
    }

    /// Kubernetes deletes the Pods of a node that does not exist. The claim stays, and nothing can mount it any more.
    fn lose_node_for_good(&mut self, member: &str) -> bool {
        let on_disk = |pod: &Running| pod.member == member && !pod.dir.starts_with("memory of");
        if self.faults.on_lost_node.contains(member) || !self.pods.values().any(on_disk) {
            return false;
        }
        self.kill_pod(member);
        self.faults.data_destroyed.insert(member.to_owned());
        self.faults.gone.insert(member.to_owned())
    }

    /// Somebody restores volumes while the cluster sleeps: that of a member, or all, if the name is empty.
    fn volumes_go_back(&mut self, member: &str) -> bool {
        let record = self.record();
        let Some(cluster) = record.cluster_id.filter(|_| record.hibernating) else { return false };
        let volumes = self.objects(Kind::Volume);
        let is_meant =
            |volume: &&Arc<Value>| !deleting(volume) && (member.is_empty() || name(volume) == member);
        let unused = |volume: &&Arc<Value>| self.pods.values().all(|pod| pod.dir != uid(volume));
        let meant: Vec<&Arc<Value>> = volumes.iter().filter(is_meant).filter(unused).collect();
        let mut any = false;
        for volume in meant {
            any |= self.etcd.go_back(uid(volume));
        }
        if any {
            self.faults.taken_away.insert(cluster);
        }
        any
    }

    fn wipe(&mut self, member: &str) -> bool {
        let running = self.pods.iter().find(|(_, pod)| pod.member == member);
        let running = running.map(|(at, pod)| (at.clone(), pod.dir.clone()));
        let at_rest = || self.object(Kind::Volume, member).map(|volume| uid(&volume).to_owned());
        let Some(dir) = running.as_ref().map(|(_, dir)| dir.clone()).or_else(at_rest) else { return false };
        let had_data = self.etcd.dir(&dir).is_some();
        if self.faults.on_lost_node.contains(member) || (running.is_none() && !had_data) {
            return false;
        }
        if had_data {
            self.faults.data_destroyed.insert(member.to_owned());
        }
        self.faults.taken_away.extend(self.nobody_knows_of(&dir, member));
        self.etcd.wipe(&dir);
        self.identities.remove(&dir);
        // All containers of the Pod start again, the guard as well.
        if let Some((at, _)) = running {
            self.etcd.stop(&at);
            self.pods.remove(&at);
        }
        true
    }

    /// The cluster of which this directory is all there is, before its Pod is labelled joined. Nothing says until then that a client, who
    /// knows the name of the member, may have written to it.
    fn nobody_knows_of(&self, dir: &str, member: &str) -> Option<ClusterId> {
        let cluster = self.etcd.dir(dir)?.cluster;
        let is_alone = self.etcd.group(cluster)?.conf().voters().count() == 1;
        let pod = self.object(Kind::Pod, member)?;
        let has_joined = annotation(&pod, keys::JOINED).or(label(&pod, keys::JOINED)).is_some();
        (is_alone && !has_joined).then_some(cluster)
    }

    fn mount_empty(&mut self, member: &str) -> bool {
        let on_disk = |pod: &Running| pod.member == member && !pod.dir.starts_with("memory of");
        let running =
            self.pods.iter().find(|(_, pod)| on_disk(pod)).map(|(at, pod)| (at.clone(), pod.dir.clone()));
        let Some((at, dir)) = running else { return false };
        if self.faults.on_lost_node.contains(member) || self.etcd.dir(&dir).is_none() {
            return false;
        }
        self.etcd.stop(&at);
        self.pods.remove(&at);
        self.faults.empty_mounts.insert(member.to_owned())
    }

    fn touch(&mut self, kind: &str, named: &str) -> bool {
        let Some(kind) = kind_called(kind) else { return false };
        let touched = self.change(&key(kind, &self.at, named), Part::Main, |object| match kind {
            Kind::Service => object["spec"]["publishNotReadyAddresses"] = Value::Bool(false),
            Kind::Budget => object["spec"]["minAvailable"] = Value::from(0),
            // The watch of claims selects on it.
            Kind::Volume => {
                let labels = object["metadata"]["labels"].as_object_mut();
                labels.map(|labels| labels.remove(keys::CLUSTER));
            }
            Kind::Pod
            | Kind::Cluster
            | Kind::Secret
            | Kind::NetworkPolicy
            | Kind::Certificate
            | Kind::Backup => {
                object["metadata"]["labels"]["example.org/touched"] = Value::from("yes");
            }
        });
        touched.is_ok() && !self.object(kind, named).is_some_and(|object| deleting(&object))
    }
}

fn kind_called(called: &str) -> Option<Kind> {
    KINDS.into_iter().find(|kind| kind.as_str() == called)
}
