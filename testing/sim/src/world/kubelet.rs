//! The nodes. They schedule Pods, mount volumes, run the guard, start etcd and report readiness. They model the scheduler, the
//! volume binder, the garbage collector and the kubelets, which make no choices here.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::Ipv6Addr;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use quorate_api::cluster::DEFAULT_IMAGE_REGISTRY;
use quorate_api::{keys, quantity};
use quorate_apistore::fields::{annotation, deleting, integer, items, name, text, uid};
use quorate_apistore::store::{DeleteOptions, Part, Propagation};
use quorate_apistore::{ObjectKey, Store};
use quorate_manifests::Kind;
use quorate_manifests::pod::ETCD;
use quorate_model::guard::{self, EtcdData, Expected, VolumeContents};
use quorate_model::quorum_recovery::NodeState;
use quorate_model::snapshot::Site;
use quorate_model::{ClusterUid, GuardVerdict, Instant, MemberName, PeerUrl, Token};
use serde_json::{Value, json};

use super::World;
use super::canary::Times;
use super::faults::Stopping;
use super::objects::{is_of_job, resource};
use crate::etcd::{Disk, Launch, State, version_of_image};

/// A Pod that a kubelet runs.
#[derive(Clone, Debug, Hash)]
pub struct Running {
    /// Its name, which is that of the member.
    pub member: String,
    /// The name of its data directory.
    pub dir: String,
    /// Its address.
    pub ip: String,
    /// The agent's termination message, if it did not start etcd: the guard refused it, or a restore failed.
    pub refused: Option<String>,
    /// The Pod remembers that etcd has written data on its volume.
    pub seen: bool,
    /// How often the container was restarted, at most `MANY` times.
    pub restarts: u32,
    /// The message with which the container ended last: etcd's, or the guard's report.
    pub last_words: Option<String>,
    /// The agent's answer, where etcd does not start: then the container has ended for good.
    pub answer: Option<String>,
}

/// Restarts are counted up to this number. The planner uses only whether there was one.
const MANY: u32 = 2;

impl World {
    /// Runs nodes and etcd until nothing is left to do. Returns whether anything changed.
    pub fn settle(&mut self) -> bool {
        self.rested_before_nodes = self.operator_rests();
        let before = self.nodes_fingerprint();
        self.note_hung_disks();
        self.note_sizes_of_volumes();
        let mut relaunched = BTreeSet::new();
        while self.collect_garbage()
            | self.issue_certificates()
            | self.stop_pods()
            | self.start_pods()
            | self.restart_processes(&mut relaunched)
            | self.etcd.settle(self.now)
            | self.write_pod_statuses()
            | self.write_budget_statuses()
            | self.drain_on()
        {}
        before != self.nodes_fingerprint()
    }

    /// Where sizes matter, etcd meets those of the volumes that its data are on.
    fn note_sizes_of_volumes(&mut self) {
        if !self.etcd.has_sizes() {
            return;
        }
        let volumes = self.objects(Kind::Volume);
        let size = |volume: &Arc<Value>| {
            let bytes = quantity::bytes(&Quantity(text(volume, "/status/capacity/storage").to_owned()))?;
            Some((uid(volume).to_owned(), bytes >> 20))
        };
        self.etcd.set_volumes(volumes.iter().filter_map(size).collect());
    }

    /// A hash of nodes and etcd. A process that starts again and ends as before does not change it.
    fn nodes_fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.etcd.fingerprint(self.now, &mut hasher);
        (&self.pods, &self.identities, self.store.version()).hash(&mut hasher);
        hasher.finish()
    }

    /// Deletes objects with the cluster that owns them, and data with their volume.
    fn collect_garbage(&mut self) -> bool {
        let owners: BTreeSet<String> =
            self.objects(Kind::Cluster).iter().map(|cluster| uid(cluster).to_owned()).collect();
        let mut any = false;
        for kind in [Kind::Pod, Kind::Service, Kind::Budget, Kind::Secret, Kind::Certificate] {
            for object in self.objects(kind) {
                let mut of =
                    items(&object, "/metadata/ownerReferences").iter().map(|owner| text(owner, "/uid"));
                if of.next().is_some_and(|of| !owners.contains(of))
                    && !deleting(&object)
                    && !is_of_job(&object)
                {
                    any |= delete(&self.store, kind, &object, None);
                }
            }
        }
        any |= self.release_volumes();
        let volumes: BTreeSet<String> =
            self.objects(Kind::Volume).iter().map(|volume| uid(volume).to_owned()).collect();
        let exists = |dir: &String| volumes.contains(dir) || self.pods.values().any(|pod| pod.dir == *dir);
        let gone: Vec<String> = self.dirs().into_iter().filter(|dir| !exists(dir)).collect();
        for dir in &gone {
            self.identities.remove(dir);
            self.etcd.wipe(dir);
            self.etcd.set_disk(dir, Disk::Works);
        }
        any | !gone.is_empty()
    }

    /// Removes a deleted volume once no Pod uses it (`kubernetes.io/pvc-protection`). Any Pod that has a node uses the claim that it names,
    /// also one that has ended.
    fn release_volumes(&mut self) -> bool {
        let mut any = false;
        let pods = self.objects(Kind::Pod);
        for volume in self.objects(Kind::Volume) {
            let is_named = |pod: &Arc<Value>| {
                claim_of(pod) == Some(name(&volume)) && !text(pod, "/spec/nodeName").is_empty()
            };
            let used = self.pods.values().any(|pod| pod.dir == uid(&volume)) || pods.iter().any(is_named);
            if !deleting(&volume) || used {
                continue;
            }
            if self.faults.claims_deleted.contains(name(&volume)) && self.etcd.dir(uid(&volume)).is_some() {
                self.faults.data_destroyed.insert(name(&volume).to_owned());
            }
            let key =
                ObjectKey::new(resource(Kind::Volume), text(&volume, "/metadata/namespace"), name(&volume));
            let freed = self.change(&key, Part::Main, |volume| {
                volume["metadata"].as_object_mut().and_then(|metadata| metadata.remove("finalizers"));
            });
            any |= freed.is_ok();
        }
        any
    }

    fn dirs(&self) -> BTreeSet<String> {
        let with_data = self.etcd.dirs();
        self.identities.keys().cloned().chain(with_data.map(str::to_owned)).collect()
    }

    /// Ends processes whose Pods are gone, and removes deleted Pods with their processes.
    fn stop_pods(&mut self) -> bool {
        let pods = self.member_pods();
        let existing: BTreeSet<String> = pods.iter().map(|pod| uid(pod).to_owned()).collect();
        let orphans: Vec<String> = self
            .pods
            .iter()
            .filter(|(uid, pod)| !existing.contains(*uid) && !self.faults.on_lost_node.contains(&pod.member))
            .map(|(uid, _)| uid.clone())
            .collect();
        for orphan in &orphans {
            self.pods.remove(orphan);
            self.etcd.stop(orphan);
        }
        let mut any = !orphans.is_empty();
        self.faults.stopping.retain(|uid, _| existing.contains(uid));
        for pod in pods.iter().filter(|pod| deleting(pod) && !self.faults.on_lost_node.contains(name(pod))) {
            match self.faults.stopping.get(uid(pod)) {
                Some(Stopping::Serves) => {}
                // Its volume stays mounted.
                Some(Stopping::Stopped) => {
                    any |= self.etcd.process(uid(pod)).is_some();
                    self.etcd.stop(uid(pod));
                }
                None => {
                    self.pods.remove(uid(pod));
                    self.etcd.stop(uid(pod));
                    // Finalizers keep one whose end was confirmed before.
                    let is_confirmed = integer(pod, "/metadata/deletionGracePeriodSeconds") == Some(0);
                    any |= !is_confirmed && delete(&self.store, Kind::Pod, pod, Some(0));
                }
            }
        }
        any
    }

    /// Starts Pods whose volume exists: the guard runs first, then etcd.
    fn start_pods(&mut self) -> bool {
        let mut any = false;
        for pod in self.member_pods() {
            let slow = self.faults.slow.contains(name(&pod))
                || self.faults.on_lost_node.contains(name(&pod))
                || self.faults.gone.contains(name(&pod));
            if self.pods.contains_key(uid(&pod)) || deleting(&pod) || slow {
                continue;
            }
            if !items(&pod, "/spec/schedulingGates").is_empty() || !self.secrets_exist(&pod) {
                continue;
            }
            let Some(dir) = self.volume_of(&pod) else { continue };
            if !self.has_node(&pod) {
                any |= self.is_told_of_no_node(&pod);
                continue;
            }
            // It was bound, and what it asks for is not free on the node any more.
            if self.faults.refused_by_kubelet.contains(name(&pod)) {
                let refused = json!({ "phase": "Failed", "reason": "OutOfcpu", "message": "Node didn't have enough resource" });
                any |= pod["status"]["phase"] != refused["phase"] && self.write_status_of(&pod, refused);
                continue;
            }
            if pod["status"]["phase"] == "Failed" {
                continue;
            }
            // Only one Pod at a time mounts a volume.
            if self.pods.values().any(|other| other.dir == dir) {
                continue;
            }
            self.oracle.uses_volume(name(&pod), &dir);
            let (answer, refused) = self.answer_or_prepare(&pod, &dir, false);
            let running = Running {
                member: name(&pod).to_owned(),
                dir: dir.clone(),
                ip: self.address_for(uid(&pod)),
                refused: refused.clone(),
                seen: false,
                restarts: 0,
                last_words: refused.clone(),
                answer: answer.clone(),
            };
            self.pods.insert(uid(&pod).to_owned(), running);
            if refused.is_none() && answer.is_none() {
                let launch = launch(&pod, &dir);
                if uses_default_image(&pod) && !self.faults.status_lost {
                    let data = self.etcd.dir(&dir).and_then(|own| own.stored.cluster_version);
                    self.oracle.runs(&dir, launch.version, data);
                }
                self.etcd.launch(uid(&pod), launch, self.now);
            }
            any = true;
        }
        any
    }

    /// Restarts every container that ended, once in each call of `settle`: the guard runs first, then etcd.
    fn restart_processes(&mut self, relaunched: &mut BTreeSet<String>) -> bool {
        let mut any = false;
        for pod in self.member_pods() {
            let at = uid(&pod).to_owned();
            let Some(running) = self.pods.get_mut(&at) else { continue };
            running.seen |= self.etcd.dir(&running.dir).is_some();
            let running = running.clone();
            let ended = self.etcd.process(&at).and_then(|process| match &process.state {
                State::Ended(words) => Some(words.clone()),
                State::Starting | State::Running => None,
            });
            let again = ended.is_some() || running.refused.is_some();
            if !again || deleting(&pod) || !relaunched.insert(at.clone()) {
                continue;
            }
            let (answer, refused) = self.answer_or_prepare(&pod, &running.dir, running.seen);
            let starts = refused.is_none() && answer.is_none();
            let next = Running {
                restarts: (running.restarts + 1).min(MANY),
                last_words: refused.clone().or(ended).or(running.last_words.clone()),
                refused,
                answer,
                ..running.clone()
            };
            any |= (next.restarts, &next.last_words, &next.refused, &next.answer)
                != (running.restarts, &running.last_words, &running.refused, &running.answer);
            if starts {
                self.etcd.launch(&at, launch(&pod, &next.dir), self.now);
            } else {
                self.etcd.stop(&at);
            }
            self.pods.insert(at, next);
        }
        any
    }

    /// Writes the status of every Pod.
    fn write_pod_statuses(&mut self) -> bool {
        let mut any = false;
        for pod in self.member_pods() {
            let status = match self.pods.get(uid(&pod)) {
                Some(running) => self.status_of(&pod, running),
                None if self.never_mounts(&pod) => mounting(&pod, self.kubelets_time()),
                None => continue,
            };
            if pod["status"] != status || text(&pod, "/spec/nodeName").is_empty() {
                any |= self.write_status_of(&pod, status);
            }
        }
        any
    }

    /// Whether its kubelet tries to mount its volume for ever.
    fn never_mounts(&self, pod: &Value) -> bool {
        let is_bound = items(pod, "/spec/schedulingGates").is_empty() && !deleting(pod);
        is_bound && self.faults.created_again.contains(name(pod)) && self.volume_of(pod).is_some()
    }

    pub(super) fn write_status_of(&self, pod: &Arc<Value>, status: Value) -> bool {
        let key = ObjectKey::new(resource(Kind::Pod), text(pod, "/metadata/namespace"), name(pod));
        if text(pod, "/spec/nodeName").is_empty() {
            let node = format!("node-of-{}", name(pod));
            let _ = self.store.bind(&key, &node);
        }
        self.change(&key, Part::Status, |pod| pod["status"] = status).is_ok()
    }

    fn status_of(&self, pod: &Value, running: &Running) -> Value {
        let at = uid(pod);
        if let Some(answer) = &running.answer {
            return finished(answer);
        }
        let process = self.etcd.process(at);
        // A partition does not keep a probe from etcd in its own Pod. The Pods of a node out of reach are set to not ready.
        let is_reached = !self.faults.on_lost_node.contains(&running.member);
        let ready = is_reached && self.etcd.is_ready(at) && self.is_canary_fresh(&running.dir);
        let times = Times::of(pod, running.restarts, ready, self.kubelets_time());
        let ended =
            |words: &str| json!({ "terminated": { "exitCode": 1, "message": words, "reason": "Error" } });
        let state = match process.map(|process| &process.state) {
            Some(State::Running | State::Starting) => json!({ "running": { "startedAt": times.started } }),
            Some(State::Ended(_)) | None => json!({ "waiting": { "reason": "CrashLoopBackOff" } }),
        };
        let etcd = json!({
            "name": ETCD, "image": "", "imageID": "", "ready": ready, "started": state["running"].is_object(),
            "restartCount": running.restarts, "state": state,
            "lastState": running.last_words.as_deref().map_or_else(|| json!({}), ended),
        });
        let condition = |kind| {
            // The message is for the fingerprint, which leaves times out.
            let message = times.is_lost().then_some("it was ready since the container was started");
            let status = if ready { "True" } else { "False" };
            json!({ "type": kind, "status": status, "lastTransitionTime": times.changed, "message": message })
        };
        let conditions = ["Ready", "ContainersReady"].map(condition);
        json!({
            "phase": "Running",
            "podIP": running.ip,
            "conditions": conditions,
            "containerStatuses": [etcd],
        })
    }

    /// What Kubernetes says about where the volume of a member can be used.
    pub(super) fn site_of(&self, member: &MemberName) -> Site {
        let again = self.faults.created_again.contains(member.as_str());
        let gone = !again && self.faults.gone.contains(member.as_str());
        let node = if gone {
            NodeState::Gone
        } else if self.faults.on_lost_node.contains(member.as_str()) {
            NodeState::NotReady
        } else {
            NodeState::Ready { since: Instant(0) }
        };
        Site {
            gone: gone.then(|| "its node does not exist any more".to_owned()),
            node: Some(node),
            served_on: None,
        }
    }

    /// Whether all Secrets that a Pod mounts exist. Without one of them its containers do not start.
    fn secrets_exist(&self, pod: &Value) -> bool {
        let mut mounted = items(pod, "/spec/volumes").iter().map(|volume| text(volume, "/secret/secretName"));
        mounted.all(|secret| secret.is_empty() || self.object(Kind::Secret, secret).is_some())
    }

    /// The name of the data directory of a Pod, if its volume can be mounted.
    fn volume_of(&self, pod: &Value) -> Option<String> {
        let claim = claim_of(pod)?;
        if claim.is_empty() {
            return Some(format!("memory of {}", uid(pod)));
        }
        let key = ObjectKey::new(resource(Kind::Volume), text(pod, "/metadata/namespace"), claim);
        let volume = self.store.shared(&key).filter(|volume| !deleting(volume))?;
        Some(uid(&volume).to_owned())
    }

    /// What the agent answers where etcd does not start; otherwise, what keeps it from starting.
    fn answer_or_prepare(&mut self, pod: &Value, dir: &str, seen: bool) -> (Option<String>, Option<String>) {
        match self.recover(pod, dir, seen) {
            Some(Ok(answer)) => (Some(answer), None),
            Some(Err(failed)) => (None, Some(failed)),
            None => (None, self.prepare(pod, dir, seen).err()),
        }
    }

    /// What the agent does before etcd starts. Fails with its termination message.
    fn prepare(&mut self, pod: &Value, dir: &str, seen: bool) -> Result<(), String> {
        self.restore(pod, dir, seen)?;
        self.guard(pod, dir, seen).map_err(|refusal| report(&refusal))
    }

    /// Runs the product's guard on the modelled volume. If etcd may start, the identity file is written.
    pub(super) fn guard(&mut self, pod: &Value, dir: &str, seen: bool) -> Result<(), (GuardVerdict, String)> {
        let args = flags(etcd_in(pod));
        let arg = |flag: &str| args.get(flag).cloned().unwrap_or_default();
        let joined = annotation(pod, keys::JOINED) == Some(keys::JOINED_VALUE);
        let expected = Expected {
            cluster_uid: ClusterUid::new(arg("--cluster-uid")),
            token: Token::new(arg("--token")),
            member: MemberName::new(arg("--member")),
            cluster_id: arg("--cluster-id").parse().ok(),
            data_required: joined || seen || matches!(arg("--expect").as_str(), "data" | "restored"),
        };
        let is_empty = self.faults.empty_mounts.contains(name(pod));
        let data = self.etcd.dir(dir).filter(|_| !is_empty);
        let contents = VolumeContents {
            identity: self.identities.get(dir).filter(|_| !is_empty),
            data: data.map_or(EtcdData::Absent, |data| EtcdData::Present { cluster_id: Some(data.cluster) }),
            corrupt: data.filter(|data| data.corrupt).map(|_| "the database does not open"),
        };
        let identity =
            guard::judge(&contents, &expected).map_err(|refused| (refused.verdict, refused.message))?;
        self.identities.insert(dir.to_owned(), identity);
        Ok(())
    }
}

/// The status of a Pod whose volume its kubelet cannot mount.
fn mounting(pod: &Value, now: Instant) -> Value {
    let now = jiff::Timestamp::from_millisecond(now.0).unwrap_or_default().to_string();
    let before = items(pod, "/status/conditions").iter().find(|one| one["type"] == "PodScheduled");
    let bound = before.map_or(now, |before| text(before, "/lastTransitionTime").to_owned());
    json!({
        "phase": "Pending",
        "conditions": [
            { "type": "PodScheduled", "status": "True", "lastTransitionTime": bound },
            { "type": "PodReadyToStartContainers", "status": "False", "lastTransitionTime": bound },
            { "type": "Ready", "status": "False", "lastTransitionTime": bound },
        ],
        "containerStatuses": [{
            "name": ETCD, "image": "", "imageID": "", "ready": false, "started": false, "restartCount": 0,
            "state": { "waiting": { "reason": "ContainerCreating" } }, "lastState": {},
        }],
    })
}

/// The status of a Pod whose only container has ended well, and does not start again.
fn finished(answer: &str) -> Value {
    let terminated = json!({ "exitCode": 0, "message": answer, "reason": "Completed" });
    json!({
        "phase": "Succeeded",
        "containerStatuses": [{
            "name": ETCD, "image": "", "imageID": "", "ready": false, "started": false, "restartCount": 0,
            "state": { "terminated": terminated }, "lastState": {},
        }],
    })
}

/// The claim that a Pod names for its data; empty where they are in memory.
pub(crate) fn claim_of(pod: &Value) -> Option<&str> {
    let data = items(pod, "/spec/volumes").iter().find(|volume| volume["name"] == "data")?;
    Some(text(data, "/persistentVolumeClaim/claimName"))
}

/// The guard's termination message.
fn report((verdict, why): &(GuardVerdict, String)) -> String {
    json!({ "verdict": verdict.as_str(), "message": why }).to_string()
}

/// Whether the image is one of the product's defaults. The version in an image that a user names is not known.
fn uses_default_image(pod: &Value) -> bool {
    etcd_in(pod).is_some_and(|etcd| text(etcd, "/image").starts_with(DEFAULT_IMAGE_REGISTRY))
}

/// The flags of etcd in a Pod's manifest.
pub(super) fn launch(pod: &Value, dir: &str) -> Launch {
    let etcd = etcd_in(pod);
    let args = flags(etcd);
    let arg = |flag: &str| args.get(flag).cloned().unwrap_or_default();
    let peers = arg("--initial-cluster");
    let peers = peers.split(',').filter_map(|peer| peer.split_once('='));
    Launch {
        name: arg("--name"),
        url: PeerUrl::new(arg("--initial-advertise-peer-urls")),
        peers: peers.map(|(name, url)| (name.to_owned(), PeerUrl::new(url))).collect(),
        new: arg("--initial-cluster-state") == "new",
        token: arg("--initial-cluster-token"),
        dir: dir.to_owned(),
        version: etcd
            .and_then(|etcd| version_of_image(text(etcd, "/image")))
            .unwrap_or(quorate_model::Version::new(0, 0, 0)),
    }
}

fn etcd_in(pod: &Value) -> Option<&Value> {
    items(pod, "/spec/containers").iter().find(|container| container["name"] == ETCD)
}

pub(super) fn flags(container: Option<&Value>) -> BTreeMap<String, String> {
    let args = container.map(|container| items(container, "/args")).unwrap_or_default();
    let pairs = args.iter().filter_map(|arg| arg.as_str()?.split_once('='));
    pairs.map(|(flag, value)| (flag.to_owned(), value.to_owned())).collect()
}

/// The address of a Pod, by its uid: each Pod has its own.
pub fn address_of(pod: &str) -> Ipv6Addr {
    let mut hasher = DefaultHasher::new();
    pod.hash(&mut hasher);
    Ipv6Addr::from_bits(0xfd00 << 112 | u128::from(hasher.finish()))
}

/// Deletes exactly this object. Returns whether that succeeded.
pub fn delete(store: &Store, kind: Kind, object: &Value, grace_period: Option<i64>) -> bool {
    let key = ObjectKey::new(resource(kind), text(object, "/metadata/namespace"), name(object));
    let options = DeleteOptions {
        uid: Some(uid(object).to_owned()),
        grace_period,
        propagation: Propagation::Background,
        ..DeleteOptions::default()
    };
    store.delete(&key, &options).is_ok()
}
