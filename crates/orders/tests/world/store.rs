//! What the store has: objects, the manifests beside them, and whose they are in truth.

use std::sync::Arc;

use quorate_api::EtcdBackup;
use quorate_api::bootstrap::RestoreSource;
use quorate_api::job::{BackupOrder, Manifest, ObjectMark, Origin, Signature};

use super::{BEGIN, BUCKET, DAY, World, hash_of, timestamp};

/// The cluster ID of the EtcdCluster `other`, which has backups in the same bucket.
pub const NEIGHBOR: &str = "2222222222222222";

/// The cluster ID of an EtcdCluster in another Kubernetes, with the same namespace, name and bucket.
pub const ELSEWHERE: &str = "3333333333333333";

/// Whose data an object has. Only the world knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Writer {
    /// A Job of an EtcdBackup of the EtcdCluster that the schedule is of.
    Own,
    /// One of another EtcdCluster of the namespace.
    Neighbor,
    /// One of another Kubernetes, whose EtcdCluster has the same namespace and name.
    Elsewhere,
    /// Somebody who may write to the bucket.
    Intruder,
}

/// Who has signed a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Signed {
    Namespace,
    Another,
    Nobody,
}

/// What a manifest says, whether it is true or not.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Said {
    pub key: String,
    pub cluster: String,
    pub cluster_id: String,
    pub uid: String,
    pub backup: String,
    pub revision: i64,
    /// When its EtcdBackup was created, by the API server's clock; and when it was complete, by that of a node.
    pub ordered: i64,
    pub finished: i64,
    /// What tells the bytes from others that it describes.
    pub bytes: u64,
    pub signed: Signed,
}

/// An object in a store.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Object {
    /// The uid of the EtcdBackup that wrote it first.
    pub uid: String,
    /// Who wrote what it has now.
    pub writer: Writer,
    pub cluster_id: String,
    /// When it was written, by the true time.
    pub taken: i64,
    /// What tells its bytes from others, of the same size always. `None`: only the manifest is there.
    pub bytes: Option<u64>,
    /// The manifest beside it, if it has one.
    pub said: Option<Arc<Said>>,
    /// It cannot be restored, which only a restore test finds.
    pub broken: bool,
    /// How often it was written: what the store says of it beside its size.
    pub writes: u32,
}

impl Object {
    /// It has its manifest, whatever that says.
    pub fn is_whole(&self) -> bool {
        self.bytes.is_some() && self.said.is_some()
    }

    /// Its bytes are not those that its manifest says. The sizes are the same.
    pub fn is_spoilt(&self) -> bool {
        self.bytes != self.said.as_ref().map(|said| said.bytes)
    }

    /// It has what an EtcdBackup of the schedule's EtcdCluster wrote, as far as anybody can tell without reading all of it.
    pub fn is_own(&self) -> bool {
        self.writer == Writer::Own && self.is_whole()
    }

    pub fn mark(&self, versioned: bool) -> ObjectMark {
        let writes = self.writes.to_string();
        ObjectMark { version_id: versioned.then(|| writes.clone()), etag: Some(writes), modified: None }
    }
}

impl Said {
    /// The manifest, as a Job reads it. Its signature is there only where it is right.
    pub fn manifest(&self) -> Manifest {
        let signature = match self.signed {
            Signed::Namespace => Some(Signature { key_id: "k".to_owned(), hmac: "h".to_owned() }),
            Signed::Another | Signed::Nobody => None,
        };
        Manifest {
            format: 1,
            origin: Origin {
                namespace: "default".to_owned(),
                backup: self.backup.clone(),
                backup_uid: self.uid.clone(),
                cluster: Some(self.cluster.clone()),
                cluster_uid: None,
                cluster_id: Some(self.cluster_id.clone()),
            },
            key: self.key.clone(),
            stored_bytes: 100,
            stored_sha256: sha256(self.bytes),
            revision: self.revision,
            etcd_version: "3.6.16".to_owned(),
            cluster_id: self.cluster_id.clone(),
            member: "demo-0".to_owned(),
            ordered: Some(timestamp(self.ordered).to_string()),
            started: timestamp(self.finished).to_string(),
            finished: timestamp(self.finished).to_string(),
            signature,
            ..Manifest::default()
        }
    }
}

/// The SHA-256 of some bytes.
pub fn sha256(bytes: u64) -> String {
    format!("{bytes:016x}").repeat(4)
}

/// Where the object is that an EtcdBackup writes.
pub fn place(backup: &EtcdBackup) -> String {
    at(&backup.spec.destination, &quorate_manifests::backup::key(backup))
}

/// Where a key of a destination is.
pub fn at(destination: &quorate_api::Destination, key: &str) -> String {
    let bucket = destination.s3.as_ref().map(|s3| s3.bucket.clone()).unwrap_or_default();
    format!("{bucket}/{key}")
}

/// What somebody puts into the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// A backup of another Kubernetes with the same bucket, namespace and name.
    Elsewhere,
    /// Two of them, around all others, and that Kubernetes has the same key for signatures.
    SharedKey,
    /// An intruder's, of the cluster as it says, of now, and with more revisions than any.
    Forged,
    /// The newest one with its manifest, under another key.
    Copied,
}

impl World {
    /// What a Job writes that takes a backup now.
    pub(super) fn taken(&self, order: &BackupOrder, uid: &str, cluster_id: &str) -> Object {
        let bytes = hash_of(&format!("{uid} {}", self.now));
        let cluster = order.origin.cluster.clone().unwrap_or_default();
        let is_own = cluster == "demo";
        let ordered =
            order.ordered.as_ref().and_then(|text| text.parse::<k8s_openapi::jiff::Timestamp>().ok());
        let said = Said {
            key: order.key.clone(),
            cluster_id: cluster_id.to_owned(),
            uid: uid.to_owned(),
            backup: order.origin.backup.clone(),
            // It never falls, whatever the clocks say, and begins anew with another cluster. The neighbor has more.
            revision: if is_own { self.now - self.born + 1 } else { self.now },
            ordered: ordered.map_or(self.now, k8s_openapi::jiff::Timestamp::as_millisecond),
            finished: self.now + self.nodes,
            bytes,
            signed: Signed::Namespace,
            cluster,
        };
        Object {
            uid: uid.to_owned(),
            writer: if is_own { Writer::Own } else { Writer::Neighbor },
            cluster_id: cluster_id.to_owned(),
            taken: self.now,
            bytes: Some(bytes),
            said: Some(Arc::new(said)),
            broken: false,
            writes: 1,
        }
    }

    /// An object leaves the store. A bucket with versions keeps it.
    pub(super) fn lose(&mut self, place: &str) {
        if let Some(object) = self.store.remove(place) {
            if self.setup.versioned {
                self.earlier.insert((place.to_owned(), object.writes), object.clone());
            }
            // What matters is since when there is no good one.
            let is_good = object.is_own() && !object.is_spoilt();
            if is_good || !self.lost.contains_key(place) {
                self.lost.insert(place.to_owned(), (object, self.now));
            }
        }
    }

    /// Somebody writes again where an object is.
    pub(super) fn rewrite(&mut self, place: &str, change: impl FnOnce(&mut Object)) -> bool {
        let Some(mut object) = self.store.get(place).filter(|object| object.is_whole()).cloned() else {
            return false;
        };
        object.writes += 1;
        change(&mut object);
        self.lose(place);
        self.store.insert(place.to_owned(), object);
        true
    }

    /// An intruder's object and manifest, in the place of a backup. It says what a new one of the cluster would say.
    pub(super) fn deface(&mut self, place: &str) -> bool {
        let (now, id) = (self.now, self.cluster_id);
        self.rewrite(place, |object| {
            let bytes = hash_of(&format!("{now} forged"));
            let said = object.said.as_deref().cloned();
            object.writer = Writer::Intruder;
            object.bytes = Some(bytes);
            object.said = said.map(|said| Arc::new(forged(said, id, bytes, now)));
        })
    }

    /// Somebody puts an object into the bucket; `false`: it is there.
    pub(super) fn plant(&mut self, what: Planted) -> bool {
        let now = self.now;
        let mut put = |backup: &str, at: i64, writer: Writer, signed: Signed| {
            let id = match writer {
                Writer::Elsewhere => ELSEWHERE,
                Writer::Own | Writer::Neighbor | Writer::Intruder => self.cluster_id,
            };
            let uid = format!("uid-{backup}");
            let key = format!("default/demo/{backup}-{uid}.db.zst");
            let bytes = hash_of(&uid);
            let said = Said {
                key: key.clone(),
                cluster: "demo".to_owned(),
                cluster_id: id.to_owned(),
                uid: uid.clone(),
                backup: backup.to_owned(),
                revision: 0,
                ordered: at,
                finished: at,
                bytes,
                signed,
            };
            let object = Object {
                uid,
                writer,
                cluster_id: id.to_owned(),
                taken: at,
                bytes: Some(bytes),
                said: Some(Arc::new(Said { signed, ..forged(said, id, bytes, at) })),
                broken: false,
                writes: 1,
            };
            self.store.insert(format!("{BUCKET}/{key}"), object).is_none()
        };
        match what {
            Planted::Elsewhere => put("elsewhere", now, Writer::Elsewhere, Signed::Another),
            Planted::SharedKey => {
                self.truth.shared = true;
                put("shared-0", BEGIN - DAY, Writer::Elsewhere, Signed::Namespace)
                    && put("shared-1", now, Writer::Elsewhere, Signed::Namespace)
            }
            Planted::Forged => put("forged", now, Writer::Intruder, Signed::Nobody),
            Planted::Copied => {
                let Some(name) = self.named(super::Which::Newest) else { return false };
                let Some(object) = self.store.get(&place(&self.backups[&name].object)).cloned() else {
                    return false;
                };
                // A person may restore it by its place, and it is no backup.
                let copy = Object { writer: Writer::Intruder, uid: "copied".to_owned(), ..object };
                self.store.insert(format!("{BUCKET}/default/demo/zz-copied.db.zst"), copy).is_none()
            }
        }
    }

    /// What a Pod gets that restores: the version, if the store has it, or what the key has. All bytes are compared.
    pub(super) fn fetched(&self, source: &RestoreSource) -> Option<u64> {
        let place = at(&source.destination, &source.key);
        let version = || {
            let wanted = source.version_id.as_ref()?.parse::<u32>().ok()?;
            let present = self.store.get(&place).filter(|object| object.writes == wanted);
            present.or_else(|| self.earlier.get(&(place.clone(), wanted)))
        };
        let is_seen = self.setup.versioned && !self.is_blind(super::Blind::Version);
        let found = is_seen.then(version).flatten().or_else(|| self.store.get(&place));
        let bytes = found.and_then(|object| object.bytes);
        bytes.filter(|bytes| sha256(*bytes) == source.sha256 || self.is_blind(super::Blind::Bytes))
    }
}

/// What a manifest says that is made up: of now, with more revisions than any, and signed by nobody.
fn forged(said: Said, id: &str, bytes: u64, at: i64) -> Said {
    Said {
        cluster_id: id.to_owned(),
        revision: at.saturating_mul(2),
        ordered: at,
        finished: at,
        bytes,
        signed: Signed::Nobody,
        ..said
    }
}
