//! The snapshot that a cluster of the world may begin with: its EtcdBackup, the object in the store, and what an agent does with it before
//! etcd starts.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use quorate_api::backup::EtcdBackup;
use quorate_api::job::{Answer, Failure, FailureKind, ORDER, RestoreOrder};
use quorate_api::keys;
use quorate_apistore::fields::{annotation, items, name, text};
use quorate_apistore::store::Part;
use quorate_apistore::{ObjectKey, ResourceKey};
use quorate_manifests::Kind;
use quorate_manifests::pod::ETCD;
use quorate_model::guard::VolumeIdentity;
use quorate_model::{ClusterUid, MemberId, MemberName, Token};
use serde::Deserialize;
use serde_json::{Value, json};

use super::World;
use super::kubelet::{flags, launch};
use crate::etcd::{Alarm, AlarmKind, Snap};

/// The EtcdBackup that exists in a world whose EtcdCluster names it.
pub const BACKUP: &str = "before";

/// Its hash.
const SHA256: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

/// The revision of the snapshot.
const REVISION: i64 = 4;

/// What it has: three writes, and an alarm of a member of the cluster that it is of.
static SNAP: LazyLock<Arc<Snap>> = LazyLock::new(|| {
    let alarm = Alarm { member: MemberId(0xdead), kind: AlarmKind::NoSpace };
    Arc::new(Snap {
        writes: vec![1 << 40, (1 << 40) + 1, (1 << 40) + 2],
        alarms: BTreeSet::from([alarm]),
        revision: REVISION,
    })
});

/// A spec that begins with that backup.
#[must_use]
pub fn restored(mut spec: Value) -> Value {
    spec["bootstrap"] = json!({ "restore": { "backupRef": { "name": BACKUP } } });
    spec
}

impl World {
    /// The EtcdBackup of this name.
    pub(super) fn backup(&self, name: &str) -> Option<EtcdBackup> {
        let backup = self.store.shared(&self.key_of_backup(name))?;
        EtcdBackup::deserialize(backup.as_ref()).ok()
    }

    /// Creates the complete EtcdBackup that a spec names.
    pub(super) fn create_backup(&self, spec: &Value) {
        let Some(name) = spec.pointer("/bootstrap/restore/backupRef/name").and_then(Value::as_str) else {
            return;
        };
        let backup = json!({
            "metadata": { "name": name, "namespace": self.at.namespace },
            "spec": { "source": { "cluster": "other" }, "destination": { "s3": { "bucket": "backups" } } },
        });
        let key = self.key_of_backup(name);
        let created = self.store.create(&key.resource, &self.at.namespace, backup, false);
        created.expect("the backup is valid");
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
            && order.initial_cluster == flags(etcd_in(pod)).remove("--initial-cluster").unwrap_or_default()
            && order.source.sha256.as_deref() == Some(SHA256);
        assert!(is_as_ordered, "the order contradicts the flags of etcd: {order:?}");
        let bump = i64::try_from(order.bump_revision).unwrap_or(i64::MAX);
        let snap = Snap { revision: SNAP.revision + bump, ..Snap::clone(&SNAP) };
        // Before the data, so that a crash between the two leaves no data without an identity.
        let identity = VolumeIdentity {
            cluster_uid: ClusterUid::new(flags(etcd_in(pod)).remove("--cluster-uid").unwrap_or_default()),
            token: Token::new(&*launch.token),
            member: MemberName::new(&*launch.name),
            data_seen: true,
        };
        self.identities.insert(dir.to_owned(), identity);
        self.etcd.restore(&launch, &Arc::new(snap));
        Ok(())
    }

    /// Whether the spec has the cluster begin with the snapshot.
    pub(crate) fn begins_with_snapshot(&self) -> bool {
        let cluster = self.object(Kind::Cluster, &self.at.name);
        cluster.is_some_and(|cluster| cluster.pointer("/spec/bootstrap/restore").is_some())
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
