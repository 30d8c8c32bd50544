//! The snapshot that a cluster of the world may begin with: its EtcdBackup, the object in the store, and what an agent does with it before
//! etcd starts.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use quorate_api::job::{Answer, Failure, FailureKind, ORDER, RestoreOrder, Source};
use quorate_api::keys;
use quorate_apistore::fields::{annotation, items, name, text};
use quorate_apistore::store::{DeleteOptions, Part};
use quorate_apistore::{ObjectKey, ResourceKey};
use quorate_manifests::Kind;
use quorate_manifests::pod::ETCD;
use quorate_model::auth::{Clients, Marked, Root};
use quorate_model::guard::VolumeIdentity;
use quorate_model::{ClusterUid, MemberId, MemberName, Token};
use serde_json::{Value, json};

use super::World;
use super::kubelet::{flags, launch};
use crate::etcd::{Alarm, AlarmKind, Group, Snap};
use crate::oracle::Property;

/// The EtcdBackup that exists in a world whose EtcdCluster names it.
pub const BACKUP: &str = "before";

/// Its hash.
const SHA256: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

/// The revision of the snapshot.
const REVISION: i64 = 4;

/// What it has: three writes, an alarm of a member of the cluster that it is of, a user whose EtcdUser is gone, and one that a person made.
static SNAP: LazyLock<Arc<Snap>> = LazyLock::new(|| {
    let alarm = Alarm { member: MemberId(0xdead), kind: AlarmKind::NoSpace };
    Arc::new(Snap {
        writes: vec![1 << 40, (1 << 40) + 1, (1 << 40) + 2],
        alarms: BTreeSet::from([alarm]),
        auth: (false, Root::Missing),
        users: BTreeSet::from([Marked::new("of-before", "0000dead")]),
        clients: Clients::NoUser,
        by_hand: BTreeSet::from(["person".to_owned()]),
        revision: REVISION,
    })
});

/// A spec that begins with that backup, as the newest of its store.
#[must_use]
pub fn restored(mut spec: Value) -> Value {
    let latest = json!({ "destination": { "s3": { "bucket": "backups" } }, "cluster": "other" });
    spec["bootstrap"] = json!({ "restore": { "latest": latest } });
    spec
}

/// The same by the name of the EtcdBackup.
#[must_use]
pub fn restored_by_name(mut spec: Value) -> Value {
    spec["bootstrap"] = json!({ "restore": { "backupRef": { "name": BACKUP } } });
    spec
}

impl World {
    /// A person orders to restore the snapshot in place of the present data by an EtcdRestore of this name, or deletes the order.
    pub(super) fn order_restore(&mut self, order: &Value) -> Result<(), String> {
        let resource = ResourceKey::new(keys::GROUP, "etcdrestores");
        if let Some(deleted) = order.get("deleted").and_then(Value::as_str) {
            let key = ObjectKey::new(resource, &*self.at.namespace, deleted);
            return self
                .store
                .delete(&key, &DeleteOptions::default())
                .map(drop)
                .map_err(|error| error.message);
        }
        let Some(id) = self.record().cluster_id else {
            return Err("there is no cluster id to name".to_owned());
        };
        if self.object(Kind::Backup, BACKUP).is_none() {
            self.create_backup(BACKUP);
        }
        let object = json!({
            "metadata": { "name": order, "namespace": self.at.namespace },
            "spec": {
                "clusterName": self.at.name,
                "clusterID": id.to_string(),
                "snapshot": { "backupRef": { "name": BACKUP } },
            },
        });
        let created = self.store.create(&resource, &self.at.namespace, object, false);
        created.map_err(|error| error.message)?;
        // A Job reads the snapshot to its end. That is another controller's, and nothing begins before.
        let key = ObjectKey::new(resource, &*self.at.namespace, order.as_str().unwrap_or_default());
        // It reads it again every ten minutes.
        let read = json!({
            "snapshot": { "sha256": SHA256, "bytes": 20480, "time": "2999-01-01T00:00:00Z" },
            // So is the backup of what is given up.
            "backupBefore": { "name": "before-restore", "number": 1, "complete": "2999-01-01T00:00:00Z" },
        });
        self.change(&key, Part::Status, |order| order["status"] = read).expect("the status is valid");
        self.oracle.may_be_replaced(id);
        Ok(())
    }

    /// An order names the present cluster, and is not carried out.
    pub(crate) fn open_order(&self) -> Option<String> {
        let id = self.record().cluster_id?.to_string();
        let orders = self.store.objects(&ResourceKey::new(keys::GROUP, "etcdrestores"));
        let open = orders.iter().find(|order| text(order, "/spec/clusterID") == id);
        open.map(|order| name(order).to_owned())
    }

    /// A Job finds the object that an EtcdBackup stands for, which is another controller's: the same one, however often it is asked.
    pub(super) fn find_an_object(&mut self) -> Option<String> {
        let backups = self.store.objects(&ResourceKey::new(keys::GROUP, "etcdbackups"));
        let waits = backups.iter().find(|backup| {
            backup.pointer("/spec/existing").is_some() && backup.pointer("/status/result").is_none()
        })?;
        let name = name(waits).to_owned();
        self.complete_backup(&name);
        Some(format!("a Job finds the object of EtcdBackup {name}"))
    }

    /// Creates a complete EtcdBackup.
    pub(super) fn create_backup(&self, name: &str) {
        let backup = json!({
            "metadata": { "name": name, "namespace": self.at.namespace },
            "spec": { "source": { "cluster": "other" }, "destination": { "s3": { "bucket": "backups" } } },
        });
        let key = self.key_of_backup(name);
        let created = self.store.create(&key.resource, &self.at.namespace, backup, false);
        created.expect("the backup is valid");
        self.complete_backup(name);
    }

    /// Says in the status of an EtcdBackup that it has the object.
    fn complete_backup(&self, name: &str) {
        let key = self.key_of_backup(name);
        let status = json!({ "phase": "Complete", "attempts": 1, "result": {
            "url": "s3://backups/other/1", "key": "other/1", "size": "20Ki", "storedBytes": 20480,
            "storedSha256": SHA256, "snapshotBytes": 20480, "snapshotSha256": SHA256, "compressed": false,
            "encrypted": false, "revision": REVISION, "etcdVersion": "3.5.20", "clusterID": "1", "member": "other-0",
        } });
        self.change(&key, Part::Status, |backup| backup["status"] = status).expect("the status is valid");
    }

    fn key_of_backup(&self, name: &str) -> ObjectKey {
        ObjectKey::new(ResourceKey::new(keys::GROUP, "etcdbackups"), &*self.at.namespace, name)
    }

    /// What the agent does before its guard judges the volume, if the Pod orders a restore: it restores into an empty volume, unless
    /// the member is known to have had data. Fails with the termination message.
    pub(super) fn restore(&mut self, pod: &Value, dir: &str, seen: bool) -> Result<(), String> {
        let Some(order) = order(pod) else { return Ok(()) };
        let had_data = self.identities.get(dir).is_some_and(|identity| identity.data_seen);
        let joined = annotation(pod, keys::JOINED) == Some(keys::JOINED_VALUE);
        // Another mount than that of the volume: nothing is to be written there.
        let is_empty_mount = self.faults.empty_mounts.contains(name(pod));
        if self.etcd.dir(dir).is_some() || had_data || joined || seen || is_empty_mount {
            return Ok(());
        }
        if self.faults.no_store.contains(name(pod)) {
            let failure = Failure::new(FailureKind::StoreUnavailable, "the store does not answer");
            return Err(serde_json::to_string(&Answer::Failed(failure)).expect("it is plain data"));
        }
        let launch = launch(pod, dir);
        let is_as_ordered = order.name == launch.name
            && order.token == launch.token
            && order.peer_url == launch.url.as_str()
            && order.initial_cluster == flags(etcd_in(pod)).remove("--initial-cluster").unwrap_or_default();
        assert!(is_as_ordered, "the order contradicts the flags of etcd: {order:?}");
        let Some(found) = self.object_of(&order) else {
            let failure = Failure::new(FailureKind::NotInStore, "the object does not exist");
            return Err(serde_json::to_string(&Answer::Failed(failure)).expect("it is plain data"));
        };
        let bump = i64::try_from(order.raise(found.revision)).unwrap_or(i64::MAX);
        let snap = Snap { revision: found.revision + bump, ..Snap::clone(&found) };
        // Before the data, so that a crash between the two leaves no data without an identity.
        let identity = VolumeIdentity {
            cluster_uid: ClusterUid::new(flags(etcd_in(pod)).remove("--cluster-uid").unwrap_or_default()),
            token: Token::new(&*launch.token),
            member: MemberName::new(&*launch.name),
            data_seen: true,
        };
        self.identities.insert(dir.to_owned(), identity);
        self.judge_revision(&snap);
        self.etcd.restore(&launch, &Arc::new(snap));
        Ok(())
    }

    /// Clients know the revisions of the incarnation that made way. A watch from one of them would miss what comes below it.
    fn judge_revision(&mut self, snap: &Snap) {
        let replaced = self.record().incarnation.as_ref().map(|present| present.replaced);
        let known = replaced.and_then(|id| self.etcd.group(id)).map_or(0, Group::revision);
        if snap.revision <= known {
            let how = format!("restored at revision {}, and clients know {known}", snap.revision);
            self.oracle.add_violation(Property::AcknowledgedWritesStay, how);
        }
    }

    /// What the store has that the order names.
    fn object_of(&mut self, order: &RestoreOrder) -> Option<Arc<Snap>> {
        let Source { destination, key, sha256, version_id: _ } = &order.source;
        if destination.pvc.is_none() {
            assert_eq!(sha256.as_deref(), Some(SHA256), "the order names another object");
            return Some(SNAP.clone());
        }
        let snap = self.extracted(destination, key, sha256.as_deref())?;
        self.judge_recovery(&snap);
        Some(snap)
    }

    /// Whether this member is to have begun with a snapshot: its incarnation took the place of another one, or else its cluster began with one.
    pub(crate) fn begins_with_snapshot(&self, member: &str, cluster_does: bool) -> bool {
        let record = self.record();
        if let Some(present) = &record.incarnation {
            let ordinal = self.at.ordinal(&MemberName::new(member));
            return ordinal.is_some_and(|ordinal| ordinal >= present.first);
        }
        cluster_does
    }

    /// Whether what a cluster began with is that snapshot.
    pub(crate) fn is_the_snapshot(snap: &Snap) -> bool {
        snap.writes == SNAP.writes
    }

    /// Members whose Pods are to restore, and have not.
    pub(super) fn to_restore(&self) -> Vec<String> {
        let pods = self.objects(Kind::Pod);
        let waits = pods.iter().filter(|pod| {
            let has_data = self
                .pods
                .get(text(pod, "/metadata/uid"))
                .is_some_and(|run| self.etcd.dir(&run.dir).is_some());
            order(pod).is_some() && !has_data
        });
        waits.map(|pod| name(pod).to_owned()).collect()
    }
}

fn order(pod: &Value) -> Option<RestoreOrder> {
    let env = items(etcd_in(pod)?, "/env").iter().find(|env| env["name"] == ORDER)?;
    serde_json::from_str(text(env, "/value")).ok()
}

fn etcd_in(pod: &Value) -> Option<&Value> {
    items(pod, "/spec/containers").iter().find(|container| container["name"] == ETCD)
}
