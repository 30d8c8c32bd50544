//! EtcdBackups that stand for an object which is there: who orders them, and what must hold of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::ResourceExt as _;
use quorate_api::backup::{BackupSource, EtcdBackupSpec, EtcdBackupStatus, ExistingObject};
use quorate_api::bootstrap::SnapshotOf;
use quorate_api::schedule::EtcdBackupScheduleStatus;
use quorate_api::{EtcdBackup, EtcdRestore, keys};
use quorate_manifests::{restore, restored};
use serde_json::{Value, json};

use super::judge::Property;
use super::store::{Object, Signed, Writer, at, place, sha256};
use super::{BUCKET, Kept, World};

/// Where the backups of the schedule's EtcdCluster are.
const UNDER: &str = "bucket/default/demo/";

/// What somebody orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// An EtcdBackup for the newest backup of the EtcdCluster.
    Latest,
    /// The same, of the cluster ID that it has now.
    LatestOfId,
    /// An EtcdBackup for the object of the newest complete one, by its key and SHA-256.
    ByKey,
    /// The same, and it names an object that the neighbor wrote.
    ByKeyOfNeighbor,
    /// A restore of the newest backup.
    RestoreLatest,
    /// A restore of the oldest object, by its place.
    RestoreSource,
    /// A list of the store.
    Catalog,
    /// The EtcdBackups were lost before.
    CatalogAfterLoss,
}

impl Order {
    pub const ALL: [Self; 7] = [
        Self::Latest,
        Self::LatestOfId,
        Self::ByKey,
        Self::ByKeyOfNeighbor,
        Self::RestoreLatest,
        Self::RestoreSource,
        Self::Catalog,
    ];
}

/// What the store had when a Job looked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sight {
    /// What the manifests say that EtcdBackups of the EtcdCluster wrote, each with its cluster ID.
    own: BTreeSet<(u64, String)>,
    /// What they say that another Kubernetes wrote which has the same key.
    shared: BTreeSet<u64>,
    /// The newest of its own, by the true time, and the newest of the present cluster ID.
    newest: Option<u64>,
    newest_of_id: Option<u64>,
}

impl World {
    /// Somebody orders something; `false`: it cannot be ordered now.
    pub(super) fn order(&mut self, what: Order) -> bool {
        let source = |cluster: &str| BackupSource { cluster: Some(cluster.to_owned()), endpoints: None };
        let of = |latest| ExistingObject { latest: Some(latest), ..ExistingObject::default() };
        let existing = match what {
            Order::Latest => of(SnapshotOf { cluster: Some("demo".to_owned()), ..SnapshotOf::default() }),
            Order::LatestOfId => {
                of(SnapshotOf { cluster_id: Some(self.cluster_id.to_owned()), ..SnapshotOf::default() })
            }
            Order::ByKey | Order::ByKeyOfNeighbor => {
                let wanted = if what == Order::ByKey { Writer::Own } else { Writer::Neighbor };
                let of_writer = |object: &&Object| object.writer == wanted && object.is_whole();
                let here = self.store.iter().filter(|(place, _)| place.starts_with(BUCKET));
                let newest = here.map(|(_, object)| object).filter(of_writer).max_by_key(|one| one.taken);
                let Some(said) = newest.and_then(|object| object.said.as_deref()) else { return false };
                ExistingObject {
                    key: said.key.clone(),
                    sha256: sha256(said.bytes),
                    ..ExistingObject::default()
                }
            }
            Order::RestoreLatest => {
                let destination = self.schedule.object.spec.backup_template.spec.destination.clone();
                return self
                    .order_restore(&json!({"latest": {"destination": destination, "cluster": "demo"}}));
            }
            Order::RestoreSource => {
                let destination = self.schedule.object.spec.backup_template.spec.destination.clone();
                let here = self.store.iter().filter(|(place, _)| place.starts_with(UNDER));
                let sound = here.map(|(_, object)| object).filter(|one| one.is_own() && !one.is_spoilt());
                let oldest = sound.min_by_key(|object| object.taken);
                let Some(said) = oldest.and_then(|object| object.said.clone()) else { return false };
                return self.order_restore(&json!({
                    "source": {"destination": destination, "key": said.key, "sha256": sha256(said.bytes)},
                }));
            }
            Order::CatalogAfterLoss => {
                self.forget();
                return self.order(Order::Catalog);
            }
            Order::Catalog => {
                self.truth.words += 1;
                let mut schedule = (*self.schedule.object).clone();
                let word = format!("word-{}", self.truth.words);
                schedule.annotations_mut().insert(keys::CATALOG.to_owned(), word);
                self.put_schedule(schedule);
                return true;
            }
        };
        self.truth.stands += 1;
        let spec = EtcdBackupSpec {
            source: source("demo"),
            existing: Some(existing),
            destination: self.schedule.object.spec.backup_template.spec.destination.clone(),
            deadline: "24h".to_owned(),
            ..EtcdBackupSpec::default()
        };
        let metadata = ObjectMeta {
            name: Some(format!("stands-{}", self.truth.stands)),
            namespace: Some("default".to_owned()),
            ..ObjectMeta::default()
        };
        self.create_backup(EtcdBackup { metadata, spec, status: None }, false)
    }

    /// An EtcdRestore is created, and the EtcdBackup for what it names by its place. There is one at a time.
    pub(super) fn order_restore(&mut self, snapshot: &Value) -> bool {
        if self.restore.is_some() {
            return false;
        }
        self.truth.restores += 1;
        let ordered: EtcdRestore = serde_json::from_value(json!({
            "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdRestore",
            "metadata": {
                "name": "back", "namespace": "default", "uid": format!("restore-{}", self.truth.restores),
                "creationTimestamp": self.api_time(),
            },
            "spec": {"clusterName": "demo", "clusterID": self.cluster_id, "snapshot": snapshot},
        }))
        .expect("an EtcdRestore");
        let made = restored::for_restore(&ordered, Some(&self.cluster.object));
        self.restore = Some(Kept::new(ordered));
        if let Some(made) = made {
            self.create_backup(made, false);
        }
        self.touch_all();
        self.judge_restored();
        true
    }

    /// All EtcdBackups are gone, and nobody has looked after their objects.
    pub(super) fn forget(&mut self) -> bool {
        self.remember();
        let all = std::mem::take(&mut self.backups);
        for kept in all.values() {
            self.truth.goes(&kept.object);
            self.truth.abandoned.extend(kept.object.uid());
        }
        let (own, of_backups): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.jobs).into_iter().partition(|(_, job)| job.object.backup.is_empty());
        self.jobs = own.into_iter().collect();
        let running = of_backups.into_iter().filter(|(_, job)| job.object.outcome.is_none());
        self.pods.extend(running.map(|(_, job)| job.object));
        self.wakes.retain(|of, _| *of == super::Of::Schedule);
        self.dirty.clear();
        self.touch_all();
        !all.is_empty()
    }

    /// The EtcdBackup that a restore reads.
    pub(super) fn restored_name(&self) -> Option<String> {
        let restore = &self.restore.as_ref()?.object;
        restore.spec.snapshot.backup_name(&restore.metadata)
    }

    /// Whether the operator knows that a restore needs this one.
    pub(super) fn is_used(&self, backup: &EtcdBackup) -> bool {
        let stands_for = |_: &str, name: &str| {
            self.backups.get(name).and_then(|kept| kept.object.stands_for().map(str::to_owned))
        };
        let needed = self.restore.as_ref().and_then(|kept| kept.object.needs());
        needed.is_some_and(|needed| needed.is(backup, stands_for))
    }

    /// Where the object is that a restore needs, once that is known.
    pub(super) fn needed_place(&self) -> Option<String> {
        let snapshot = &self.restore.as_ref()?.object.spec.snapshot;
        if let Some(source) = &snapshot.source {
            // Of one that has failed nobody knows that it has an object.
            let place = at(&source.destination, &source.key);
            let has_result = |kept: &&Kept<EtcdBackup>| {
                let status = kept.object.status.as_ref();
                self::place(&kept.object) == place && status.is_some_and(|status| status.result.is_some())
            };
            return self.backups.values().any(|kept| has_result(&kept)).then_some(place);
        }
        let backup = &self.backups.get(&self.restored_name()?)?.object;
        if backup.spec.existing.is_none() {
            return Some(place(backup));
        }
        let result = backup.status.as_ref()?.result.as_ref()?;
        Some(at(&backup.spec.destination, &result.key))
    }

    /// A Job looks into the store.
    pub(super) fn saw(&mut self, job: &str) {
        let here =
            || self.store.iter().filter(|(place, _)| place.starts_with(UNDER)).map(|(_, object)| object);
        let own = || here().filter(|object| object.is_own());
        let told = |object: &Object| object.said.as_ref().map_or(0, |said| said.bytes);
        let newest = own().max_by_key(|object| object.taken).map(told);
        let of_id = own().filter(|object| object.cluster_id == self.cluster_id);
        let of_shared = here().filter(|object| {
            let signed = object.said.as_ref().map(|said| said.signed);
            object.writer == Writer::Elsewhere && signed == Some(Signed::Namespace)
        });
        let sight = Sight {
            own: own().map(|object| (told(object), object.cluster_id.clone())).collect(),
            shared: of_shared.map(told).collect(),
            newest_of_id: of_id.max_by_key(|object| object.taken).map(told),
            newest,
        };
        self.truth.sights.insert(job.to_owned(), sight);
    }

    /// The status of an EtcdBackup that stands for an object is written.
    pub(super) fn judge_stands(&mut self, backup: &EtcdBackup, status: &EtcdBackupStatus) {
        let Some(existing) = backup.spec.existing.clone() else { return };
        let name = backup.name_any();
        let present = self.backups.get(&name).map(|kept| kept.object.clone());
        let before = present.and_then(|present| present.status.clone()?.result);
        let result = status.result.clone();
        if before.is_some() {
            if before != result {
                self.violate(Property::FoundOnce, format!("{name} stands for another object than before"));
            }
            return;
        }
        let Some(result) = result else { return };
        let is_named = existing.latest.is_some()
            || (existing.key == result.key && existing.sha256 == result.stored_sha256);
        if !is_named {
            self.violate(Property::StandsForOwn, format!("{name} has an object that it does not name"));
        }
        // A person has given its SHA-256, and that is all that is known of it.
        if existing.without_manifest {
            return;
        }
        let job = status.job_name.clone().unwrap_or_default();
        let sight = self.truth.sights.get(&job).cloned().unwrap_or_default();
        self.truth.sights.retain(|of, _| !of.contains(&backup.uid().unwrap_or_default()));
        let has = result.stored_sha256.get(..16).and_then(|text| u64::from_str_radix(text, 16).ok());
        let id = existing.latest.as_ref().and_then(|latest| latest.cluster_id.clone());
        let is_own =
            sight.own.iter().any(|(own, of)| Some(*own) == has && id.as_ref().is_none_or(|id| id == of));
        // What has the namespace's key and the name of the EtcdCluster is told apart by its cluster ID, which is in the status.
        let is_shared = existing.latest.is_none() && has.is_some_and(|has| sight.shared.contains(&has));
        if !is_own && !is_shared {
            self.violate(
                Property::StandsForOwn,
                format!("{name} has {has:x?}, which the EtcdCluster did not write, or not whole"),
            );
        }
        let newest = if id.is_some() { sight.newest_of_id } else { sight.newest };
        // An order of before the cluster was created anew means the earlier ID.
        let is_of_present = id.as_ref().is_none_or(|id| id == self.cluster_id);
        let is_newest = newest == has;
        if existing.latest.is_some() && is_of_present && !is_newest && !self.was_set() {
            self.violate(Property::FindsNewest, format!("{name} has {has:x?}, and {newest:x?} is newer"));
        }
    }

    /// By a clock that was set, times of different etcd clusters tell nothing.
    fn was_set(&self) -> bool {
        self.truth.jumps > 0 || self.truth.set_back
    }

    /// What a restore would get now.
    pub(super) fn judge_restored(&mut self) {
        let Some(restore) = self.restore.as_ref().map(|kept| kept.object.clone()) else { return };
        let backup =
            self.restored_name().and_then(|name| self.backups.get(&name)).map(|kept| kept.object.clone());
        let source = restore::object(&restore, backup.as_deref());
        let bytes = source.as_ref().and_then(|source| self.fetched(source));
        if let Some(bytes) = bytes.filter(|bytes| !self.truth.own.contains(bytes)) {
            self.violate(
                Property::RestoresOwn,
                format!("a restore gets {bytes:016x}, which the EtcdCluster did not write"),
            );
        }
    }

    /// A bucket with versions has what each complete backup wrote, whatever was done to its key.
    pub(super) fn judge_versions(&mut self) {
        if !self.setup.versioned {
            return;
        }
        let is_own = |backup: &&Arc<EtcdBackup>| {
            backup.spec.existing.is_none()
                && backup.metadata.deletion_timestamp.is_none()
                && self.truth.made_by_schedule(backup)
        };
        let all: Vec<_> = self.backups.values().map(|kept| kept.object.clone()).collect();
        for backup in all.iter().filter(is_own).cloned().collect::<Vec<_>>() {
            let Some(result) = backup.status.as_ref().and_then(|status| status.result.clone()) else {
                continue;
            };
            let restore: EtcdRestore = serde_json::from_value(json!({
                "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdRestore",
                "metadata": {"name": "try", "namespace": "default", "uid": "try"},
                "spec": {"clusterName": "demo", "clusterID": "1",
                    "snapshot": {"backupRef": {"name": backup.name_any()}}},
            }))
            .expect("an EtcdRestore");
            let source = restore::object(&restore, Some(&backup));
            let bytes = source.as_ref().and_then(|source| self.fetched(source));
            if bytes.map(sha256).as_ref() != Some(&result.stored_sha256) {
                let name = backup.name_any();
                self.violate(Property::VersionsStay, format!("{name} cannot be restored by its version"));
            }
        }
    }

    /// The schedule has created an EtcdBackup for what a list has.
    pub(super) fn judge_record(&mut self, record: &EtcdBackup, seen: &[Arc<EtcdBackup>]) {
        let Some(existing) = &record.spec.existing else {
            self.violate(Property::CatalogOwn, "a list has ordered a backup".to_owned());
            return;
        };
        let (name, key) = (record.name_any(), existing.key.clone());
        let of = at(&record.spec.destination, &key);
        let objects = [self.store.get(&of), self.lost.get(&of).map(|(object, _)| object)];
        let is_own = objects.into_iter().flatten().any(|object| {
            let signed = object.said.as_ref().map(|said| said.signed);
            object.writer == Writer::Own
                || (object.writer == Writer::Elsewhere && signed == Some(Signed::Namespace))
        });
        // What a Job of another release says is believed for where an object is: the EtcdBackup looks for it.
        if !of.starts_with(UNDER) || (!is_own && !self.truth.astray) {
            self.violate(
                Property::CatalogOwn,
                format!("{name} is created for {of}, which the EtcdCluster did not write"),
            );
        }
        let has_one = |other: &Arc<EtcdBackup>| {
            let is_it = match &other.spec.existing {
                Some(existing) => {
                    existing.key == key && existing.latest.is_none() && !existing.without_manifest
                }
                None => place(other) == of,
            };
            is_it && other.name_any() != name
        };
        let others = self.backups.values().map(|kept| &kept.object);
        let is_writer = |other: &&Arc<EtcdBackup>| other.spec.existing.is_none() && has_one(other);
        let of_list = |other: &&Arc<EtcdBackup>| other.name_any().starts_with("existing-") && has_one(other);
        let second = others.clone().find(is_writer).or_else(|| others.clone().find(of_list));
        if let Some(second) = second.or_else(|| seen.iter().find(|other| has_one(other))) {
            let second = second.name_any();
            self.violate(Property::OneEach, format!("{name} is created, and {second} has the same object"));
        }
    }

    /// The status of the schedule is written: a list may have begun or ended with it.
    pub(super) fn judge_list(&mut self, before: &EtcdBackupScheduleStatus, after: &EtcdBackupScheduleStatus) {
        let Some(list) = &after.catalog else { return };
        if before.catalog.as_ref().map(|list| &list.word) != Some(&list.word) {
            self.truth.listed_since = self.now;
            self.truth.gone.clear();
        }
        let was_over = before.catalog.as_ref().is_some_and(|list| list.finished.is_some());
        if was_over || list.finished.is_none() || list.reason.is_some() || self.truth.astray {
            return;
        }
        let is_left_out = |(of, object): &(&String, &Object)| {
            let key = of.strip_prefix("bucket/").unwrap_or(of);
            let has_one = self.backups.values().any(|kept| {
                let existing = kept.object.spec.existing.as_ref();
                existing.map_or_else(|| place(&kept.object) == **of, |existing| existing.key == key)
            });
            of.starts_with(UNDER)
                && object.is_own()
                && object.taken < self.truth.listed_since
                && !self.truth.gone.contains(&object.uid)
                && !self.truth.gone.contains(key)
                && !has_one
        };
        let left_out = self.store.iter().find(is_left_out).map(|(of, _)| of.clone());
        if let Some(of) = left_out.filter(|_| !self.truth.nodes_set) {
            self.violate(Property::CatalogWhole, format!("the list has ended, and {of} has no EtcdBackup"));
        }
    }

    /// All was mended: what stands for an object has found it, and each list has ended.
    pub(super) fn judge_stands_end(&mut self) {
        let list = self.schedule.object.status.as_ref().and_then(|status| status.catalog.clone());
        let has_ended = list.is_some_and(|list| list.finished.is_some());
        if self.truth.words > 0 && !has_ended {
            self.violate(Property::ComesToRest, "the list of the store has not ended".to_owned());
        }
        let is_doubtful =
            self.was_set() || self.truth.shared || self.truth.refused || self.truth.astray || self.born > 0;
        let is_lost = |backup: &&Arc<EtcdBackup>| {
            let Some(existing) = &backup.spec.existing else { return false };
            let has_result = backup.status.as_ref().is_some_and(|status| status.result.is_some());
            let is_there = |object: &Object| {
                let said = object.said.as_ref().map(|said| sha256(said.bytes));
                object.is_own() && (existing.latest.is_some() || said.as_ref() == Some(&existing.sha256))
            };
            !has_result
                && !backup.is_for_restore()
                && backup.metadata.deletion_timestamp.is_none()
                && self.store.iter().any(|(place, object)| place.starts_with(UNDER) && is_there(object))
        };
        let lost = self.backups.values().map(|kept| &kept.object).find(is_lost).map(|lost| lost.name_any());
        if let Some(lost) = lost.filter(|_| !is_doubtful) {
            self.violate(Property::NotLost, format!("{lost} has not found its object"));
        }
    }

    /// One that has all that the schedule gives to its own, and stands for an object.
    pub(super) fn standing_as_own(&self) -> Option<ExistingObject> {
        let newest =
            self.store.values().filter(|object| object.is_own()).max_by_key(|object| object.taken)?;
        let said = newest.said.as_ref()?;
        Some(ExistingObject {
            key: said.key.clone(),
            sha256: sha256(said.bytes),
            ..ExistingObject::default()
        })
    }
}
