//! What Jobs do with the store, and what they answer.

use std::sync::Arc;

use k8s_openapi::api::batch::v1::Job;
use kube_core::ResourceExt as _;
use quorate_api::EtcdBackup;
use quorate_api::job::{
    Answer, BackupOrder, Failure, FailureKind, LookOrder, Looked, Manifest, ObjectMark, ReadObject, Verified,
    VerifyOrder,
};
use quorate_orders::JobOutcome;
use serde_json::json;

use super::{BUCKET, Kept, Of, World, hash_of, timestamp};

/// An object in a store.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Object {
    /// The uid of the EtcdBackup that it is of.
    pub uid: String,
    pub cluster_id: String,
    /// When it was written, by the true time.
    pub taken: i64,
    /// It has its manifest.
    pub whole: bool,
    /// It cannot be restored, which only a restore test finds.
    pub broken: bool,
    /// How often it was written: what the store says of it beside its size.
    pub writes: u32,
    /// Its bytes are not those that its EtcdBackup wrote. Its manifest and its size are.
    pub spoilt: bool,
}

/// What a Job is to do.
#[derive(Clone, Debug)]
pub enum Work {
    Backup(Box<BackupOrder>),
    Remove,
    Look(Box<LookOrder>),
    Test(Box<VerifyOrder>),
}

/// How a Job ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ends {
    Well,
    /// It failed and has written nothing.
    Unwritten,
    /// It failed after it wrote the object, and before the manifest.
    Written,
    /// It is whole in the store, and the Pod is lost before it answers.
    Lost,
}

/// A Job with its Pod.
#[derive(Clone, Debug)]
pub struct SimJob {
    pub job: Job,
    pub work: Work,
    /// The EtcdBackup that it is of; empty: the schedule's.
    pub backup: String,
    pub uid: String,
    /// Where the object of a backup is.
    pub place: String,
    pub outcome: Option<JobOutcome>,
}

impl SimJob {
    pub fn name(&self) -> String {
        self.job.name_any()
    }

    pub fn kept(self) -> Kept<Self> {
        let text = format!(
            "{} {:?} {:?} {:?}",
            self.name(),
            self.job.metadata.creation_timestamp,
            self.work,
            self.outcome
        );
        Kept { hash: hash_of(&text), object: Arc::new(self) }
    }
}

/// Where the object of a backup is.
pub fn place(backup: &EtcdBackup) -> String {
    let bucket = backup.spec.destination.s3.as_ref().map(|s3| s3.bucket.clone()).unwrap_or_default();
    format!("{bucket}/{}", quorate_manifests::backup::key(backup))
}

impl World {
    /// The first Job that has not ended.
    pub(super) fn running_job(&self) -> Option<String> {
        self.jobs.iter().find(|(_, job)| job.object.outcome.is_none()).map(|(name, _)| name.clone())
    }

    /// Creates a Job; `false`: its name is taken.
    pub(super) fn create_job(&mut self, name: &str, work: Work, of: Option<&EtcdBackup>) -> bool {
        if self.jobs.contains_key(name) {
            return false;
        }
        self.remember();
        let mut job = Job::default();
        job.metadata.name = Some(name.to_owned());
        job.metadata.creation_timestamp = Some(self.api_time());
        job.metadata.resource_version = Some(self.next_version());
        let (backup, uid) = of.map(|of| (of.name_any(), of.uid().unwrap_or_default())).unwrap_or_default();
        let place = of.map(place).unwrap_or_default();
        let made = SimJob { job, work, backup, uid, place, outcome: None };
        self.touch_job(&made);
        self.jobs.insert(name.to_owned(), made.kept());
        true
    }

    fn touch_job(&mut self, job: &SimJob) {
        if job.backup.is_empty() {
            self.dirty.insert(Of::Schedule);
        } else if self.backups.contains_key(&job.backup) {
            self.dirty.insert(Of::Backup(job.backup.clone()));
        }
    }

    /// A Job ends.
    pub(super) fn end_job(&mut self, name: &str, how: Ends) {
        let Some(kept) = self.jobs.get(name) else { return };
        let mut job = (*kept.object).clone();
        let answer = self.work(&job, how);
        self.remember();
        self.tell(|| format!("Job {name} ends ({how:?}): {}", words(&answer)));
        job.outcome = Some(match how {
            Ends::Lost => JobOutcome::Lost("its Pod is gone".to_owned()),
            Ends::Well | Ends::Unwritten | Ends::Written => JobOutcome::Answered(answer),
        });
        self.touch_job(&job);
        self.jobs.insert(name.to_owned(), job.kept());
    }

    /// What its Pod does to the store.
    pub(super) fn work(&mut self, job: &SimJob, how: Ends) -> Answer {
        let failed = |kind, wrote| {
            let mut failure = Failure::new(kind, "it failed");
            failure.wrote = wrote;
            Answer::Failed(failure)
        };
        match &job.work {
            Work::Backup(order) => {
                self.truth.ran(&job.uid, how == Ends::Unwritten || !self.credentials);
                if how == Ends::Unwritten {
                    return failed(FailureKind::SnapshotFailed, Some(false));
                }
                if order.origin.cluster_id.as_deref().is_some_and(|id| id != self.cluster_id) {
                    return failed(FailureKind::NoSource, Some(false));
                }
                if !self.credentials {
                    return failed(FailureKind::StoreForbidden, Some(false));
                }
                let known = self.store.get(&job.place).filter(|known| known.whole);
                let object = known.cloned().unwrap_or_else(|| Object {
                    uid: job.uid.clone(),
                    cluster_id: self.cluster_id.to_owned(),
                    taken: self.now,
                    whole: how != Ends::Written,
                    broken: false,
                    writes: 1,
                    spoilt: false,
                });
                let manifest = self.manifest(order, &object);
                self.store.insert(job.place.clone(), object);
                self.lost.remove(&job.place);
                if how == Ends::Written {
                    return failed(FailureKind::StoreUnavailable, Some(true));
                }
                Answer::BackedUp(manifest)
            }
            _ if how == Ends::Unwritten || how == Ends::Written => {
                failed(FailureKind::StoreUnavailable, None)
            }
            _ if !self.credentials => failed(FailureKind::StoreForbidden, None),
            Work::Remove => {
                self.judge_removal(job);
                let is_other = self.store.get(&job.place).is_some_and(|object| object.uid != job.uid);
                if is_other {
                    return failed(FailureKind::NotOurs, None);
                }
                self.lose(&job.place);
                Answer::Removed
            }
            Work::Look(order) => {
                let bucket = order.destination.s3.as_ref().map(|s3| s3.bucket.clone()).unwrap_or_default();
                let mut looked = Looked::default();
                for one in &order.objects {
                    match self.store.get(&format!("{bucket}/{}", one.key)).filter(|object| object.whole) {
                        None => looked.gone.push(one.backup.clone()),
                        Some(object) if one.read && object.spoilt => looked.changed.push(one.backup.clone()),
                        Some(object) if one.read => {
                            looked
                                .read
                                .push(ReadObject { backup: one.backup.clone(), mark: Some(mark(object)) });
                        }
                        Some(object) if one.mark != Some(mark(object)) => {
                            looked.rewritten.push(one.backup.clone());
                        }
                        Some(_) => {}
                    }
                }
                Answer::Looked(looked)
            }
            Work::Test(order) => {
                let place = format!("{BUCKET}/{}", order.source.key);
                match self.store.get(&place).filter(|object| object.whole) {
                    None => failed(FailureKind::NotInStore, None),
                    Some(object) if object.broken || object.spoilt => failed(FailureKind::Mismatch, None),
                    Some(_) => Answer::Verified(Verified::default()),
                }
            }
        }
    }

    fn manifest(&self, order: &BackupOrder, object: &Object) -> Manifest {
        Manifest {
            format: 1,
            origin: order.origin.clone(),
            key: order.key.clone(),
            stored_bytes: 100,
            stored_sha256: format!("{}-{}", object.uid, object.taken),
            mark: Some(mark(object)),
            // It never falls, whatever the clocks say.
            revision: object.taken,
            etcd_version: "3.6.16".to_owned(),
            cluster_id: object.cluster_id.clone(),
            member: "demo-0".to_owned(),
            finished: timestamp(self.now + self.nodes).to_string(),
            ..Manifest::default()
        }
    }

    /// An object leaves the store.
    pub(super) fn lose(&mut self, place: &str) {
        if let Some(object) = self.store.remove(place) {
            self.lost.insert(place.to_owned(), (object, self.now));
        }
    }
}

fn mark(object: &Object) -> ObjectMark {
    ObjectMark { etag: Some(object.writes.to_string()), ..ObjectMark::default() }
}

fn words(answer: &Answer) -> String {
    json!(answer).to_string().chars().take(120).collect()
}
