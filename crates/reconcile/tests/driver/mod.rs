//! Drives a pass step by step. The test gives every reply.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use quorate_api::keys;
use quorate_api::status::EtcdClusterStatus;
use quorate_manifests::certificate::KeyPair;
use quorate_manifests::{Act, Defaults, Kind, Write};
use quorate_model::snapshot::Answer;
use quorate_model::{ClockDifference, ClusterRef, Effect, Instant};
use quorate_reconcile::{
    Caches, ClusterView, Command, Event, Memory, Object, Pass, PassEnd, Purpose, Reply, Task, WriteError,
};
use serde_json::{Value, json};

/// The uid of the EtcdCluster.
pub const OWN_UID: &str = "now";

/// The uid of another EtcdCluster.
pub const OTHER_UID: &str = "before";

pub struct Driver {
    pub memory: Memory,
    pub caches: Caches,
    /// The reply to the read of each name conflict, in order.
    pub conflicts: Vec<Option<Object>>,
    pub now: Instant,
    pass: Pass,
}

impl Driver {
    /// A pass that observed a new cluster and planned these effects.
    pub fn planning(effects: Vec<Effect>) -> Self {
        Self::with_clock(None, effects)
    }

    /// The same, while the operator's clock is so far from the API server's.
    pub fn with_clock(differs: Option<ClockDifference>, effects: Vec<Effect>) -> Self {
        let (mut memory, now) = (Memory::default(), Instant(1_800_000_000_000));
        let mut caches = Caches::default();
        if let Object::Cluster(cluster) = cluster(1) {
            caches.clusters.objects.insert("demo".to_owned(), cluster);
            caches.clusters.seen = 1;
        }
        let mut pass = new_pass(&memory, now);
        pass.see_clocks(&mut memory, differs);
        let mut driver = Self { memory, caches, conflicts: Vec::new(), now, pass };
        driver.observe(effects);
        driver
    }

    /// A pass whose record was written.
    pub fn acting(effects: Vec<Effect>) -> Self {
        let mut driver = Self::planning(effects);
        driver.record();
        driver
    }

    /// Begins the next pass, and runs it up to its plan.
    pub fn next_pass(&mut self, effects: Vec<Effect>) {
        self.pass = new_pass(&self.memory, self.now);
        self.observe(effects);
    }

    /// The first command of the next pass.
    pub fn first_command_of_the_next_pass(&mut self) -> Command {
        self.pass = new_pass(&self.memory, self.now);
        self.only()
    }

    /// The cluster is being deleted, and has this Pod: the first read of the next pass.
    pub fn first_read_while_the_cluster_is_deleted(&mut self, pod: &str) -> Command {
        if let Object::Cluster(cluster) = deleted_cluster(2) {
            self.caches.clusters.objects.insert("demo".to_owned(), cluster);
            self.caches.clusters.seen = 2;
        }
        let mut metadata = owned(pod, OWN_UID);
        metadata["labels"] = json!({ keys::CLUSTER: "demo" });
        if let Object::Pod(object) = object(Kind::Pod, &json!({ "metadata": metadata })) {
            self.caches.pods.objects.insert(pod.to_owned(), object);
        }
        self.pass = new_pass(&self.memory, self.now);
        loop {
            let command = self.only();
            let reply = match command.task {
                Task::Read { .. } => return command,
                Task::Caches => Reply::Caches(Box::new(self.caches.clone())),
                Task::Status { .. } => {
                    Reply::Status(Answer { at: self.now, reply: Err("no answer".to_owned()) })
                }
                other => panic!("not expected of a cluster that is deleted: {other:?}"),
            };
            self.pass.reply(&mut self.memory, command.id, reply, self.now);
        }
    }

    pub fn sees_clocks(&mut self, differs: Option<ClockDifference>) {
        self.pass.see_clocks(&mut self.memory, differs);
    }

    pub fn record(&mut self) {
        let record = self.only();
        assert_eq!(record.purpose, Purpose::Record);
        let stored = self.stored(&record, 8);
        self.writes(&record, Ok(Some(stored)));
    }

    pub fn next(&mut self) -> Option<Command> {
        self.pass.next(&mut self.memory)
    }

    /// The next command. Panics if there is none.
    #[track_caller]
    pub fn only(&mut self) -> Command {
        self.next().expect("there is a command")
    }

    /// All commands that can be issued now.
    pub fn all(&mut self) -> Vec<Command> {
        std::iter::from_fn(|| self.next()).collect()
    }

    pub fn replies(&mut self, command: &Command, reply: Reply) -> Option<Event> {
        self.pass.reply(&mut self.memory, command.id, reply, self.now)
    }

    pub fn writes(&mut self, command: &Command, reply: Result<Option<Object>, WriteError>) -> Option<Event> {
        assert!(matches!(command.task, Task::Write(_)), "{command:?}");
        self.replies(command, Reply::Written(reply))
    }

    pub fn reads(&mut self, command: &Command, reply: Result<Option<Object>, WriteError>) -> Option<Event> {
        assert!(matches!(command.task, Task::Read { .. }), "{command:?}");
        self.replies(command, Reply::Object(reply))
    }

    /// The next command must ask for keys. Replies with keys, and returns the write that follows.
    pub fn generate_keys(&mut self) -> Command {
        let command = self.only();
        self.reply_with_keys(&command)
    }

    /// Replies to a command that asks for keys, and returns the write that follows.
    pub fn reply_with_keys(&mut self, command: &Command) -> Command {
        assert!(matches!(command.task, Task::Generate(_)), "{command:?}");
        self.replies(command, keys());
        self.only()
    }

    #[track_caller]
    pub fn end(&self) -> &PassEnd {
        self.pass.end().expect("the pass has ended")
    }

    /// The objects that a pass would observe now.
    pub fn view(&self) -> ClusterView {
        self.memory.clone().overlay(&at(), self.caches.clone())
    }

    /// The status that a pass would observe now.
    pub fn status(&self) -> EtcdClusterStatus {
        let cluster = self.view().cluster.unwrap();
        cluster.0.as_ref().unwrap().status.clone().unwrap_or_default()
    }

    /// The EtcdCluster with the status that this command writes.
    pub fn stored(&self, command: &Command, version: u64) -> Object {
        let Task::Write(Write { act: Act::PatchStatus(patch), .. }) = &command.task else {
            panic!("{command:?}")
        };
        let mut status = serde_json::to_value(self.status()).unwrap();
        for (field, value) in patch["status"].as_object().into_iter().flatten() {
            status[field] = value.clone();
        }
        cluster_with(version, &status)
    }

    /// The version of the EtcdCluster that a pass would observe now.
    pub fn observed_version(&self) -> String {
        let cluster = self.view().cluster.unwrap();
        cluster.0.as_ref().unwrap().metadata.resource_version.clone().unwrap()
    }

    /// The effects of the plan.
    pub fn effects(&self) -> Vec<Effect> {
        self.pass.planned().expect("there is a plan").effects().to_vec()
    }

    /// The foreign objects in the snapshot.
    pub fn foreign(&self) -> Vec<String> {
        self.pass.observed().unwrap().0.foreign.values().cloned().collect()
    }

    fn observe(&mut self, effects: Vec<Effect>) {
        let mut conflicts = std::mem::take(&mut self.conflicts).into_iter();
        while self.pass.upcoming().is_some_and(|upcoming| upcoming.purpose == Purpose::Observe) {
            let command = self.only();
            let reply = match command.task {
                Task::Caches => Reply::Caches(Box::new(self.caches.clone())),
                Task::Read { .. } => Reply::Object(Ok(conflicts.next().flatten())),
                other => panic!("not expected of a cluster without members: {other:?}"),
            };
            self.pass.reply(&mut self.memory, command.id, reply, self.now);
        }
        self.pass.change_plan(|_, plan| plan.effects = effects);
    }
}

pub fn keys() -> Reply {
    Reply::Keys(Ok(KeyPair { cert: "second".to_owned(), key: "key".to_owned() }))
}

fn new_pass(memory: &Memory, now: Instant) -> Pass {
    Pass::new(at(), Arc::new(Defaults::default()), memory, now)
}

fn at() -> ClusterRef {
    ClusterRef::new("default", "demo")
}

/// The EtcdCluster.
pub fn cluster(version: u64) -> Object {
    cluster_with(version, &Value::Null)
}

/// The EtcdCluster with this status.
pub fn cluster_with(version: u64, status: &Value) -> Object {
    let metadata = json!({ "name": "demo", "namespace": "default", "uid": OWN_UID, "resourceVersion": version.to_string() });
    let mut cluster = json!({
        "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdCluster", "metadata": metadata,
        "spec": { "size": 3, "version": "3.6.16" },
    });
    if status.is_object() {
        cluster["status"] = status.clone();
    }
    object(Kind::Cluster, &cluster)
}

/// The EtcdCluster after somebody deleted it.
fn deleted_cluster(version: u64) -> Object {
    let Object::Cluster(read) = cluster(version) else { unreachable!("it is an EtcdCluster") };
    let mut cluster = serde_json::to_value(read.0.as_ref().unwrap()).unwrap();
    cluster["metadata"]["deletionTimestamp"] = json!("2026-11-27T00:00:00Z");
    cluster["metadata"]["finalizers"] = json!([keys::FINALIZER]);
    object(Kind::Cluster, &cluster)
}

pub fn pod(uid: &str, version: u64) -> Object {
    let metadata = json!({ "name": "demo-0", "uid": uid, "resourceVersion": version.to_string() });
    object(Kind::Pod, &json!({ "metadata": metadata }))
}

pub fn parsed_pod(uid: &str, version: u64) -> Pod {
    let Object::Pod(pod) = pod(uid, version) else { unreachable!("it is a Pod") };
    Pod::clone(&pod)
}

/// An object that is controlled by the EtcdCluster with this uid.
pub fn owned_by(kind: Kind, name: &str, uid: &str) -> Object {
    object(kind, &json!({ "metadata": owned(name, uid) }))
}

/// A volume that was created for the EtcdCluster with this uid.
pub fn volume(uid: &str) -> Object {
    let metadata = json!({
        "name": "demo-0", "uid": "volume", "resourceVersion": "5",
        "labels": { keys::CLUSTER: "demo" }, "annotations": { keys::CLUSTER_UID: uid },
    });
    object(Kind::Volume, &json!({ "metadata": metadata }))
}

pub fn parsed_volume(uid: &str) -> Arc<PersistentVolumeClaim> {
    let Object::Volume(claim) = volume(uid) else { unreachable!("it is a claim") };
    claim
}

/// A complete Secret of the EtcdCluster, with this text as its certificate.
pub fn secret(name: &str, cert: &str) -> Object {
    let data = |text: &str| k8s_openapi::ByteString(text.as_bytes().to_vec());
    let data = json!({ "ca.crt": data("first"), "tls.crt": data(cert), "tls.key": data("key") });
    object(Kind::Secret, &json!({ "metadata": owned(name, OWN_UID), "data": data }))
}

pub fn object(kind: Kind, object: &Value) -> Object {
    Object::parse(kind, object.clone()).unwrap()
}

fn owned(name: &str, uid: &str) -> Value {
    json!({
        "name": name, "namespace": "default", "uid": format!("uid of {name}"), "resourceVersion": "5",
        "labels": { keys::CLUSTER: "demo", keys::MANAGED_BY: keys::MANAGED_BY_VALUE },
        "ownerReferences": [{
            "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdCluster", "name": "demo", "uid": uid,
            "controller": true,
        }],
    })
}
