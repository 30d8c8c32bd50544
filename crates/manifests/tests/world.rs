//! A minimal Kubernetes and etcd: requests change a map of JSON objects, and Pods run as soon as they are created. It shows
//! that objects are read back with the meaning with which they were written.
#![allow(missing_docs, reason = "each name says it")]

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Pod;
use quorate_api::cluster::TlsProvider;
use quorate_api::status::EtcdClusterStatus;
use quorate_api::{EtcdBackup, EtcdCluster};
use quorate_manifests::bootstrap;
use quorate_manifests::certificate::verify::{Presented, Verifier};
use quorate_manifests::certificate::{Generate, KeyAlgorithm, KeyPair, LeafContent};
use quorate_manifests::record::witness;
use quorate_manifests::{
    Act, ClusterObjects, Context, Defaults, Invalid, Kind, NameConflict, Observation, Request, Write,
    request, snapshot,
};
use quorate_model::auth::SeenAuth;
use quorate_model::certificate::Validity;
use quorate_model::effect::Successor;
use quorate_model::incarnation::{Admission, Admitted};
use quorate_model::quorum::has_quorum;
use quorate_model::snapshot::{
    Alarm, Answer, Database, DefragmentAttempt, Etcd, List, Listed, NearlyUsedUp, Proof, StatusReply,
};
use quorate_model::{
    ClusterId, Effect, EtcdCall, Instant, MemberId, MemberName, PeerUrl, Plan, Revision, Snapshot, Span,
    Version, Waiting,
};
use quorate_status::{BackupHealth, DataStoreHealth, EventText, Situation, events, status};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub const BEGIN: Instant = Instant(1_790_000_000_000);

#[derive(Clone)]
pub struct World {
    pub objects: BTreeMap<(Kind, String), Value>,
    pub members: Vec<Listed>,
    pub silent: BTreeSet<String>,
    /// etcd's auth refuses the operator.
    pub auth_without_user: bool,
    /// What was last seen of etcd's auth.
    pub auth: Option<SeenAuth>,
    /// The alarms that every member reports.
    pub alarms: Vec<Alarm>,
    /// The versions that members run, where it is not that of `plain`.
    pub versions: BTreeMap<String, Version>,
    /// The databases of members, where they are not empty.
    pub databases: BTreeMap<String, Database>,
    /// The volumes of which the agents report that little is free.
    pub nearly_used_up: BTreeMap<MemberName, NearlyUsedUp>,
    /// The defragmentations that the operator ordered.
    pub defragmentations: Vec<DefragmentAttempt>,
    pub conflicts: Vec<NameConflict>,
    pub now: Instant,
    /// Every event so far.
    pub events: Vec<EventText>,
    /// From the operator's flags.
    pub defaults: Defaults,
    /// The EtcdBackups that it has ordered, by name. One that stands for the object of a key has found it.
    pub etcd_backups: BTreeMap<String, EtcdBackup>,
    /// What schedules say about its backups.
    pub backups: Option<BackupHealth>,
    /// What is known about its DataStore of Kamaji.
    pub data_store: Option<DataStoreHealth>,
    version: u64,
    keys: u64,
    leader: Option<MemberId>,
}

/// The results of one observation and one plan.
pub struct Pass {
    pub observation: Observation,
    pub plan: Plan,
    pub status: EtcdClusterStatus,
}

impl World {
    /// A new EtcdCluster.
    pub fn new(spec: &Value) -> Self {
        let mut world = Self {
            objects: BTreeMap::new(),
            members: Vec::new(),
            etcd_backups: BTreeMap::new(),
            silent: BTreeSet::new(),
            auth_without_user: false,
            auth: None,
            alarms: Vec::new(),
            versions: BTreeMap::new(),
            databases: BTreeMap::new(),
            nearly_used_up: BTreeMap::new(),
            defragmentations: Vec::new(),
            conflicts: Vec::new(),
            now: BEGIN,
            events: Vec::new(),
            defaults: Defaults { verifier: Verifier::new(verify), ..Defaults::default() },
            backups: None,
            data_store: None,
            version: 0,
            keys: 0,
            leader: None,
        };
        world.put(Kind::Cluster, cluster(spec));
        world
    }

    /// A running cluster with this many members and without TLS.
    pub fn running(size: usize) -> Self {
        let mut world = Self::new(&plain(size));
        world.settle();
        world
    }

    pub fn cluster(&self) -> EtcdCluster {
        self.get(Kind::Cluster, "demo")
    }

    pub fn status(&self) -> EtcdClusterStatus {
        self.cluster().status.unwrap_or_default()
    }

    pub fn get<T: DeserializeOwned>(&self, kind: Kind, name: &str) -> T {
        serde_json::from_value(self.objects[&(kind, name.to_owned())].clone()).unwrap()
    }

    pub fn all<T: DeserializeOwned>(&self, kind: Kind) -> Vec<T> {
        let of_kind = self.objects.iter().filter(|((own, _), _)| *own == kind);
        of_kind.map(|(_, object)| serde_json::from_value(object.clone()).unwrap()).collect()
    }

    /// As the operator's cache has them, so every test here shows that what it leaves out is not read.
    fn pods(&self) -> Vec<Pod> {
        let mut pods: Vec<Pod> = self.all(Kind::Pod);
        pods.iter_mut().for_each(quorate_manifests::observe::cut);
        pods
    }

    /// Changes an object. The record in a status that this changes has its hash, as if the operator had written it.
    pub fn edit(&mut self, kind: Kind, name: &str, change: impl FnOnce(&mut Value)) {
        self.tamper(kind, name, |object| {
            let before = object["status"].clone();
            change(object);
            if kind == Kind::Cluster && object["status"] != before {
                let status = serde_json::from_value(object["status"].clone()).unwrap();
                object["status"]["recordHash"] = json!(witness::hash(&status));
            }
        });
    }

    /// Changes an object, and nothing else of it.
    pub fn tamper(&mut self, kind: Kind, name: &str, change: impl FnOnce(&mut Value)) {
        let mut object = self.objects.remove(&(kind, name.to_owned())).unwrap();
        change(&mut object);
        self.put(kind, object);
    }

    pub fn remove(&mut self, kind: Kind, name: &str) {
        self.objects.remove(&(kind, name.to_owned())).unwrap();
    }

    /// Creates or replaces an object: it gets a uid if it has none, and a new resourceVersion.
    pub fn put(&mut self, kind: Kind, mut object: Value) {
        self.version += 1;
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = json!(format!("uid-{}", self.version));
        }
        if kind == Kind::Budget {
            object["status"] = json!({
                "currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0,
            });
        }
        self.objects.insert((kind, name), object);
    }

    /// Observes and plans, and carries nothing out.
    pub fn observe(&self) -> Result<Pass, Invalid> {
        let cluster = self.cluster();
        let (pods, volumes) = (self.pods(), self.all(Kind::Volume));
        let (services, budgets, secrets) =
            (self.all(Kind::Service), self.all(Kind::Budget), self.all(Kind::Secret));
        let policies = self.all(Kind::NetworkPolicy);
        let seen = ClusterObjects {
            cluster: &cluster,
            pods: pods.iter().collect(),
            volumes: volumes.iter().collect(),
            services: services.iter().collect(),
            budgets: budgets.iter().collect(),
            secrets: secrets.iter().collect(),
            network_policies: policies.iter().collect(),
            restores: Vec::new(),
            conflicts: self.conflicts.clone(),
        };
        let mut observation = snapshot(&seen, &self.defaults)?;
        observation.snapshot.etcd = self.etcd(&observation.snapshot);
        if let Some(name) = bootstrap::backup_to_read(&cluster) {
            observation.snapshot.restore = bootstrap::by_backup(&cluster, Ok(self.etcd_backups.get(&name)));
        }
        let mut plan = quorate_planner::plan(&observation.snapshot, self.now);
        let etcd = &mut observation.snapshot.etcd;
        if (plan.needs_proof || plan.proof_is_due) && etcd.list.is_some() {
            etcd.proof = Some(Proof { at: self.now, index: 7 });
            etcd.proved_at = Some(self.now);
            plan = quorate_planner::plan(&observation.snapshot, self.now);
        }
        // Every Pod is admitted here.
        let asked = plan.rehearsal.as_deref().map(|rehearsal| rehearsal.of.clone());
        if let Some(Successor::Pod(member)) = asked {
            let admission = Admission { at: self.now, outcome: Admitted::Yes };
            observation.snapshot.successors.insert(member, admission);
            plan = quorate_planner::plan(&observation.snapshot, self.now);
        }
        let status = status(&Situation {
            cluster: observation.accepted.as_ref().unwrap_or(&cluster),
            snapshot: &observation.snapshot,
            refused: observation.refused.as_ref(),
            plan: &plan,
            backups: self.backups.as_ref(),
            data_store: self.data_store.as_ref(),
            now: self.now,
        });
        Ok(Pass { observation, plan, status })
    }

    /// The status for the same observation and plan, once their own status is written.
    pub fn status_again(&self, pass: &Pass) -> EtcdClusterStatus {
        let mut cluster = pass.observation.accepted.clone().unwrap_or_else(|| self.cluster());
        cluster.status = Some(pass.status.clone());
        status(&Situation {
            cluster: &cluster,
            snapshot: &pass.observation.snapshot,
            refused: pass.observation.refused.as_ref(),
            plan: &pass.plan,
            backups: self.backups.as_ref(),
            data_store: self.data_store.as_ref(),
            now: self.now,
        })
    }

    /// Observes, writes status, and carries out the plan. `false` if there was nothing to do.
    pub fn pass(&mut self) -> bool {
        let Pass { observation, plan, status } = self.observe().unwrap();
        let before = self.cluster();
        self.events.extend(events(&before.status.clone().unwrap_or_default(), &status));
        let written = quorate_manifests::request::write_status(&before, &status);
        let clients_leave = plan.waiting.iter().any(|wait| matches!(wait, Waiting::ClientsLeaving(_)));
        let idle = written.is_none() && plan.effects.is_empty() && !clients_leave;
        if let Some(write) = written {
            self.carry_out(&write);
        }
        for effect in &plan.effects {
            self.effect(effect, &observation, &plan);
        }
        self.run_pods();
        self.now = self.now + Span::seconds(1);
        !idle
    }

    pub fn settle(&mut self) {
        assert!((0..200).any(|_| !self.pass()), "does not come to rest: {:#?}", self.observe().unwrap().plan);
    }

    pub fn condition(&self, type_: &str) -> (String, String, String) {
        let status = self.observe().unwrap().status;
        let found = status.conditions.into_iter().find(|condition| condition.type_ == type_).unwrap();
        (found.status, found.reason, found.message)
    }

    fn effect(&mut self, effect: &Effect, observed: &Observation, plan: &Plan) {
        let mut cluster = self.cluster();
        if let Some(accepted) = &observed.accepted {
            cluster.spec = accepted.spec.clone();
        }
        let (pods, services) = (self.pods(), self.all(Kind::Service));
        let (budgets, secrets) = (self.all(Kind::Budget), self.all(Kind::Secret));
        let (volumes, policies) = (self.all(Kind::Volume), self.all(Kind::NetworkPolicy));
        let seen = ClusterObjects {
            cluster: &cluster,
            pods: pods.iter().collect(),
            volumes: volumes.iter().collect(),
            services: services.iter().collect(),
            budgets: budgets.iter().collect(),
            secrets: secrets.iter().collect(),
            network_policies: policies.iter().collect(),
            restores: Vec::new(),
            conflicts: Vec::new(),
        };
        let context = Context {
            cluster: &cluster,
            seen: &seen,
            snapshot: &observed.snapshot,
            record: &plan.record,
            defaults: &self.defaults,
            now: self.now,
        };
        let write = match effect {
            Effect::Kube { write, .. } => write,
            Effect::Etcd { call, .. } => return self.membership(call),
        };
        let write = match request(write, &context) {
            Request::Write(Write { kind: Kind::Backup, act: Act::Create(backup), .. }) => {
                return self.create_backup(backup);
            }
            Request::Write(write) => write,
            Request::Certificate(order) => {
                self.keys += 1;
                order.write(&generate(&order.generate, self.keys))
            }
        };
        self.carry_out(&write);
    }

    fn create_backup(&mut self, backup: Value) {
        let mut backup: EtcdBackup = serde_json::from_value(backup).unwrap();
        if let Some(object) = backup.spec.existing.as_ref().filter(|object| object.latest.is_none()) {
            let result = json!({ "key": object.key, "storedSha256": object.sha256 });
            backup.status = Some(
                serde_json::from_value(json!({ "phase": "Complete", "attempts": 1, "result": result }))
                    .unwrap(),
            );
        }
        self.etcd_backups.insert(backup.metadata.name.clone().unwrap(), backup);
    }

    fn carry_out(&mut self, write: &Write) {
        write.http().unwrap();
        let key = (write.kind, write.name.clone());
        match &write.act {
            Act::Create(object) => {
                assert!(!self.objects.contains_key(&key), "{} exists", write.object());
                self.put(write.kind, object.clone());
            }
            Act::Patch(patch) | Act::PatchStatus(patch) => {
                let mut object = self.objects.remove(&key).unwrap();
                let meta = &patch["metadata"];
                assert_eq!(meta["uid"], object["metadata"]["uid"], "{}", write.object());
                assert_eq!(
                    meta["resourceVersion"],
                    object["metadata"]["resourceVersion"],
                    "{}",
                    write.object()
                );
                merge(&mut object, patch);
                self.put(write.kind, object);
            }
            Act::Evict { uid } | Act::Delete { uid, .. } => {
                let object = self.objects.remove(&key).unwrap();
                assert_eq!(object["metadata"]["uid"], json!(uid));
            }
        }
    }

    fn membership(&mut self, call: &EtcdCall) {
        match call {
            EtcdCall::AddLearner { peer_url, .. } => self.join(peer_url.clone(), true),
            EtcdCall::Promote { id, .. } => {
                self.members
                    .iter_mut()
                    .filter(|member| member.id == *id)
                    .for_each(|member| member.is_learner = false);
            }
            EtcdCall::RemoveMember { id, .. } => self.members.retain(|member| member.id != *id),
            EtcdCall::MoveLeadership { to_id, .. } => self.leader = Some(*to_id),
            EtcdCall::Disarm { member, kind } => {
                self.alarms.retain(|alarm| *alarm != Alarm { member: *member, kind: *kind });
            }
            EtcdCall::Downgrade { .. }
            | EtcdCall::Compact { .. }
            | EtcdCall::Defragment { .. }
            | EtcdCall::Auth { .. }
            | EtcdCall::DeleteUser { .. }
            | EtcdCall::DeleteRole { .. } => {}
        }
    }

    fn join(&mut self, peer_url: PeerUrl, is_learner: bool) {
        self.version += 1;
        let id = MemberId(0xa0 + self.version);
        self.members.push(Listed { id, name: String::new(), peer_url, is_learner, started: true });
    }

    /// Runs every Pod that is not gated and has no status. Pods that start as new bootstrap the cluster.
    fn run_pods(&mut self) {
        let tls = self.cluster().spec.tls.provider != TlsProvider::Disabled;
        for pod in self.all::<Pod>(Kind::Pod).into_iter().filter(|pod| pod.status.is_none()) {
            let name = pod.metadata.name.unwrap();
            let mut spec = pod.spec.unwrap();
            if spec.scheduling_gates.is_some() {
                continue;
            }
            let args = spec.containers.remove(0).args.unwrap();
            if args.contains(&"--initial-cluster-state=new".to_owned()) {
                let scheme = if tls { "https" } else { "http" };
                self.join(PeerUrl::new(format!("{scheme}://{name}.demo.default.svc:2380")), false);
            }
            let ordinal = name.rsplit('-').next().unwrap();
            self.edit(Kind::Pod, &name, |pod| {
                pod["spec"]["nodeName"] = json!(format!("node-{ordinal}"));
                pod["status"] = running(&format!("10.0.0.{ordinal}"));
            });
        }
    }

    fn etcd(&self, seen: &Snapshot) -> Etcd {
        let at = self.now;
        let alive: Vec<(&MemberName, &Listed)> = seen
            .pods
            .iter()
            .filter(|(name, pod)| pod.ip.is_some() && !self.silent.contains(name.as_str()))
            .filter_map(|(name, _)| {
                let url = seen.peer_url(name);
                Some((name, self.members.iter().find(|member| member.peer_url == url)?))
            })
            .collect();
        let voters = self.members.iter().filter(|member| !member.is_learner).count();
        let healthy = alive.iter().filter(|(_, member)| !member.is_learner).count();
        let quorum = has_quorum(healthy, voters);
        let leads = alive.iter().find(|(_, member)| Some(member.id) == self.leader).or(alive.first());
        let leader = leads.filter(|_| quorum).map(|(_, member)| member.id);
        let mut answers: BTreeMap<MemberName, Answer> = BTreeMap::new();
        for (name, member) in &alive {
            let reply = StatusReply {
                cluster_id: ClusterId(0xc1),
                member_id: member.id,
                leader,
                is_learner: member.is_learner,
                committed: 7,
                applied: 7,
                revision: Revision(3),
                version: self.versions.get(name.as_str()).copied().unwrap_or(Version::new(3, 6, 16)),
                alarms: self.alarms.clone(),
                errors: Vec::new(),
                database: self.databases.get(name.as_str()).copied().unwrap_or_default(),
                storage_version: None,
                downgrade: None,
            };
            answers.insert((*name).clone(), Answer { at, reply: Ok(reply) });
        }
        for name in seen.pods.keys().filter(|name| self.silent.contains(name.as_str())) {
            answers
                .insert(name.clone(), Answer { at, reply: Err("it does not answer within 2s".to_owned()) });
        }
        if self.auth_without_user {
            let refused = "refused: etcdserver: user name is empty".to_owned();
            let running = answers.values_mut().filter(|answer| answer.reply.is_ok());
            running.for_each(|answer| answer.reply = Err(refused.clone()));
        }
        let list = leads.filter(|_| quorum && !self.auth_without_user).map(|(via, _)| List {
            at,
            cluster_id: ClusterId(0xc1),
            via: (*via).clone(),
            members: self.members.clone(),
        });
        let list_failure = list.is_none().then(|| "no voter that answers has a leader".to_owned());
        let defragmentations = self.defragmentations.clone();
        let nearly_used_up = self.nearly_used_up.clone();
        let auth = self.auth.clone();
        Etcd { list, list_failure, answers, defragmentations, nearly_used_up, auth, ..Etcd::default() }
    }
}

pub fn cluster(spec: &Value) -> Value {
    json!({
        "apiVersion": "operator.etcd.io/v1alpha1",
        "kind": "EtcdCluster",
        "metadata": {
            "name": "demo", "namespace": "default", "uid": "u-1", "generation": 1, "creationTimestamp": "2026-09-21T14:13:20Z",
        },
        "spec": spec,
    })
}

pub fn plain(size: usize) -> Value {
    json!({ "size": size, "version": "3.6.16", "tls": { "provider": "disabled" } })
}

pub fn running(ip: &str) -> Value {
    json!({
        "phase": "Running",
        "podIP": ip,
        "conditions": [{ "type": "Ready", "status": "True" }],
        "containerStatuses": [{
            "name": "etcd", "image": "etcd", "imageID": "", "ready": true, "restartCount": 0,
            "state": { "running": {} },
        }],
    })
}

pub fn merge(into: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    let fields = into.as_object_mut().unwrap();
    for (key, value) in patch {
        if value.is_null() {
            fields.remove(key);
        } else {
            merge(fields.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

/// A certificate with a key that is this number.
pub fn generate(order: &Generate, number: u64) -> KeyPair {
    let validity = |given: quorate_model::certificate::Validity| quorate_pki::Validity {
        not_before: given.not_before.0,
        not_after: given.not_after.0,
    };
    let made = match order {
        Generate::Authority { common_name, validity: given } => {
            quorate_pki::authority(common_name, number, validity(*given))
        }
        Generate::Leaf { authority, content } => {
            let given = validity(content.validity);
            quorate_pki::leaf(&authority.key, &content.common_name, &content.names, number, given)
        }
    };
    KeyPair { cert: made.cert, key: made.key }
}

/// The pair of the cluster's own clients, signed by this authority for this time.
pub fn client_of(authority: &KeyPair, validity: Validity, number: u64) -> KeyPair {
    let content = LeafContent {
        common_name: "quorate-client".to_owned(),
        organizations: Vec::new(),
        names: Vec::new(),
        server: false,
        validity,
        key: KeyAlgorithm::default(),
    };
    generate(&Generate::Leaf { authority: authority.clone(), content }, number)
}

/// Certificates with keys that are numbers by these, and real ones as the operator does.
fn verify(signer: &[u8], leaf: Option<Presented<'_>>) -> Result<(), String> {
    if quorate_pki::has_number(signer) {
        quorate_pki::verify(signer, leaf.map(|leaf| leaf.cert))
    } else {
        Verifier::default().judge(signer, leaf)
    }
}
