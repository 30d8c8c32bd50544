//! A store with controllers and a clock that moves only on demand.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use jiff::Timestamp;
use quorate_apistore::fields::{items, text, uid};
use quorate_apistore::store::{DeleteOptions, Part, Propagation, Store};
use quorate_apistore::{ApiError, ObjectKey, ResourceKey};
use quorate_localkube::controllers::{Action, ControlPlane};
use serde_json::{Value, json};

pub struct Cluster {
    pub store: Store,
    plane: ControlPlane,
    clock: Arc<AtomicI64>,
}

impl Cluster {
    /// A cluster with ready nodes `node-1`, `node-2`, ...
    pub fn with_nodes(count: usize) -> Self {
        let clock = Arc::new(AtomicI64::new(1_700_000_000));
        let hand = clock.clone();
        let store =
            Store::new(Arc::new(move || Timestamp::from_second(hand.load(Ordering::SeqCst)).unwrap()));
        quorate_apistore::cluster_defaults::create(&store, "/volumes").unwrap();
        let cluster = Self { plane: ControlPlane::new(&store), store, clock };
        for number in 1..=count {
            cluster.node(&format!("node-{number}"));
        }
        cluster
    }

    pub fn node(&self, name: &str) {
        let node = json!({ "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name } } });
        self.create("nodes", node);
        let status = json!({
            "conditions": [{ "type": "Ready", "status": "True" }],
            "allocatable": { "cpu": "4", "memory": "8Gi", "pods": "110" },
        });
        self.set_status("nodes", name, status);
    }

    /// Runs the controllers until they settle, and checks that they do.
    pub fn settle(&mut self) {
        self.plane.settle();
        let version = self.store.version();
        assert_eq!(self.plane.settle(), 0, "settled controllers write nothing");
        assert_eq!(self.store.version(), version);
    }

    pub fn pass_seconds(&self, seconds: i64) {
        self.clock.fetch_add(seconds, Ordering::SeqCst);
    }

    pub fn create(&self, plural: &str, object: Value) -> Value {
        let key = key(plural, text(&object, "/metadata/name"));
        self.store.create(&key.resource, &key.namespace, object, false).unwrap()
    }

    /// A Pod with one container, merged with `more`.
    pub fn pod(&self, name: &str, more: &Value) -> Value {
        let mut pod = json!({
            "metadata": { "name": name, "labels": { "app": "demo" } },
            "spec": { "containers": [{ "name": "etcd", "image": "etcd" }] },
        });
        merge(&mut pod, more);
        self.create("pods", pod)
    }

    /// A Pod that mounts the claim of its name.
    pub fn pod_with_claim(&self, name: &str) -> Value {
        let volumes = json!([{ "name": "data", "persistentVolumeClaim": { "claimName": name } }]);
        self.pod(name, &json!({ "spec": { "volumes": volumes } }))
    }

    /// Reports a Pod's status as the kubelet does.
    pub fn run_pod(&self, name: &str, ip: &str, ready: bool) {
        let mut status = self.get("pods", name)["status"].clone();
        merge(&mut status, &json!({ "phase": "Running", "podIP": ip }));
        status["conditions"] = json!([{ "type": "Ready", "status": if ready { "True" } else { "False" } }]);
        self.set_status("pods", name, status);
    }

    pub fn claim(&self, name: &str, class: Option<&str>) -> Value {
        let mut claim = json!({
            "metadata": { "name": name },
            "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
        });
        if let Some(class) = class {
            claim["spec"]["storageClassName"] = json!(class);
        }
        self.create("persistentvolumeclaims", claim)
    }

    pub fn find(&self, plural: &str, name: &str) -> Option<Value> {
        self.store.get(&key(plural, name))
    }

    pub fn get(&self, plural: &str, name: &str) -> Value {
        self.find(plural, name).unwrap_or_else(|| panic!("{plural} {name:?} is not there"))
    }

    pub fn all(&self, plural: &str) -> Vec<Value> {
        self.store.list(&key(plural, "").resource, None).0
    }

    pub fn edit(&self, plural: &str, name: &str, change: &Value) {
        self.try_edit(plural, name, change).unwrap();
    }

    pub fn try_edit(&self, plural: &str, name: &str, change: &Value) -> Result<(), ApiError> {
        let change = |old: &Value| {
            let mut new = old.clone();
            merge(&mut new, change);
            Ok(new)
        };
        self.store.modify(&key(plural, name), Part::Main, false, change).map(drop)
    }

    pub fn bind(&self, pod: &str, node: &str) -> Result<(), ApiError> {
        Action::Bind { pod: self.get("pods", pod), node: node.to_owned() }.apply(&self.store)
    }

    pub fn set_status(&self, plural: &str, name: &str, status: Value) {
        let change = |old: &Value| {
            let mut new = old.clone();
            new["status"] = status;
            Ok(new)
        };
        self.store.modify(&key(plural, name), Part::Status, false, change).unwrap();
    }

    pub fn delete(&self, plural: &str, name: &str) {
        self.delete_as(plural, name, Propagation::Background);
    }

    pub fn delete_as(&self, plural: &str, name: &str, propagation: Propagation) {
        let options = DeleteOptions { propagation, ..DeleteOptions::default() };
        self.store.delete(&key(plural, name), &options).unwrap();
    }

    /// Removes a Pod as the kubelet does after its containers stopped.
    pub fn remove_pod(&self, name: &str) {
        let options = DeleteOptions { grace_period: Some(0), ..DeleteOptions::default() };
        self.store.delete(&key("pods", name), &options).unwrap();
    }

    pub fn node_of(&self, pod: &str) -> String {
        text(&self.get("pods", pod), "/spec/nodeName").to_owned()
    }

    /// `Reason: message` of every event about an object, and its count.
    pub fn events_of(&self, object: &Value) -> Vec<(String, i64)> {
        let events = self.all("events");
        let about = events.iter().filter(|event| text(event, "/involvedObject/uid") == uid(object));
        about
            .map(|event| {
                let line = format!("{}: {}", text(event, "/reason"), text(event, "/message"));
                (line, event["count"].as_i64().unwrap())
            })
            .collect()
    }

    pub fn names(&self, plural: &str) -> Vec<String> {
        self.all(plural).iter().map(|object| text(object, "/metadata/name").to_owned()).collect()
    }
}

/// Owner references to one object that block its foreground deletion.
pub fn owned_by(owner: &Value) -> Value {
    json!([{
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": true,
        "blockOwnerDeletion": true,
    }])
}

pub fn condition(object: &Value, kind: &str) -> Value {
    let found = items(object, "/status/conditions").iter().find(|one| one["type"] == kind);
    found.cloned().unwrap_or_default()
}

pub fn key(plural: &str, name: &str) -> ObjectKey {
    let group = match plural {
        "storageclasses" => "storage.k8s.io",
        "endpointslices" => "discovery.k8s.io",
        "poddisruptionbudgets" => "policy",
        "jobs" => "batch",
        "customresourcedefinitions" => "apiextensions.k8s.io",
        "etcdclusters" => "operator.etcd.io",
        _ => "",
    };
    let cluster_wide =
        ["nodes", "namespaces", "persistentvolumes", "storageclasses", "customresourcedefinitions"]
            .contains(&plural);
    ObjectKey::new(ResourceKey::new(group, plural), if cluster_wide { "" } else { "default" }, name)
}

fn merge(into: &mut Value, more: &Value) {
    match (into.as_object_mut(), more.as_object()) {
        (Some(into), Some(more)) => {
            for (key, value) in more {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        _ => *into = more.clone(),
    }
}
