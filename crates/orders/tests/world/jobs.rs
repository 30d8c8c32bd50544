//! What Jobs do with the store, and what they answer.

use std::sync::Arc;

use k8s_openapi::api::batch::v1::Job;
use kube_core::ResourceExt as _;
use quorate_api::EtcdBackup;
use quorate_api::job::{
    Answer, BackupOrder, Failure, FailureKind, ListOrder, LookOrder, Looked, Manifest, ObjectMark,
    ReadObject, Verified, VerifyOrder,
};
use quorate_manifests::backup::ExistingOrder;
use quorate_orders::JobOutcome;
use serde_json::json;

use super::store::{NEIGHBOR, Object, Signed, Writer, at, place, sha256};
use super::{BUCKET, Kept, Of, World, hash_of};

/// What a Job is to do.
#[derive(Clone, Debug)]
pub enum Work {
    Backup(Box<BackupOrder>),
    Remove,
    Look(Box<LookOrder>),
    Test(Box<VerifyOrder>),
    /// The object of an EtcdBackup that stands for one.
    Inspect(Box<ExistingOrder>),
    List(Box<ListOrder>),
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
    /// It is of another release, and answers about another object than the order names.
    Astray,
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
            Ends::Well | Ends::Unwritten | Ends::Written | Ends::Astray => JobOutcome::Answered(answer),
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
                let present =
                    if order.origin.cluster.as_deref() == Some("demo") { self.cluster_id } else { NEIGHBOR };
                if order.origin.cluster_id.as_deref().is_some_and(|id| id != present) {
                    return failed(FailureKind::NoSource, Some(false));
                }
                if !self.credentials {
                    return failed(FailureKind::StoreForbidden, Some(false));
                }
                let known = self.store.get(&job.place).filter(|object| object.is_whole());
                let said = known.and_then(|object| object.said.clone());
                let is_other = said.as_ref().is_some_and(|said| said.uid != job.uid);
                if is_other {
                    return failed(FailureKind::NotOurs, Some(false));
                }
                // Whoever writes to the store can say that the backup was taken.
                let is_taken = said.is_some_and(|said| said.signed == Signed::Namespace);
                let taken = known.filter(|_| is_taken).cloned();
                let is_new = taken.is_none();
                let mut object = taken.unwrap_or_else(|| self.taken(order, &job.uid, present));
                let manifest = object.said.as_ref().map(|said| said.manifest()).unwrap_or_default();
                let mark = if is_new {
                    object.said = object.said.filter(|_| how != Ends::Written);
                    self.put(&job.place, object)
                } else {
                    object.mark(self.setup.versioned)
                };
                if how == Ends::Written {
                    return failed(FailureKind::StoreUnavailable, Some(true));
                }
                Answer::BackedUp(Manifest { mark: Some(mark), ..manifest })
            }
            _ if how == Ends::Unwritten || how == Ends::Written => {
                failed(FailureKind::StoreUnavailable, None)
            }
            _ if !self.credentials => failed(FailureKind::StoreForbidden, None),
            Work::Remove => {
                self.judge_removal(job);
                let said = self.store.get(&job.place).and_then(|object| object.said.as_ref());
                // What has no manifest belongs to whoever has its key.
                if said.is_some_and(|said| said.uid != job.uid) {
                    return failed(FailureKind::NotOurs, None);
                }
                self.judge_removed(job);
                self.lose(&job.place);
                Answer::Removed
            }
            Work::Look(order) => Answer::Looked(self.looked(order)),
            Work::Test(order) => {
                let place = format!("{BUCKET}/{}", order.source.key);
                let found = self.store.get(&place).filter(|object| object.is_whole());
                let sha256 = found.and_then(|object| object.bytes).map(sha256);
                match found {
                    None => failed(FailureKind::NotInStore, None),
                    Some(object) if object.broken || sha256 != order.source.sha256 => {
                        failed(FailureKind::Mismatch, None)
                    }
                    Some(_) => Answer::Verified(Verified::default()),
                }
            }
            Work::Inspect(order) => {
                self.saw(&job.name());
                self.truth.astray |= how == Ends::Astray;
                match (&**order, how) {
                    (ExistingOrder::Inspect(order), Ends::Astray) => self.astray(Some(order)),
                    (ExistingOrder::Inspect(order), _) => self.inspected(order),
                    (ExistingOrder::Find(order), _) => self.found(order),
                }
            }
            Work::List(_) if how == Ends::Astray => {
                self.truth.astray = true;
                self.astray(None)
            }
            Work::List(order) => self.listed(order),
        }
    }

    /// What is in the store of what the order names.
    fn looked(&self, order: &LookOrder) -> Looked {
        let mut looked = Looked::default();
        for one in &order.objects {
            let place = at(&order.destination, &one.key);
            let found = self.store.get(&place).and_then(|object| Some((object, object.said.as_ref()?)));
            let Some((object, said)) = found.filter(|(object, _)| object.is_whole()) else {
                looked.gone.push(one.backup.clone());
                continue;
            };
            let mark = object.mark(self.setup.versioned);
            let bytes = object.bytes.map(sha256);
            if sha256(said.bytes) != one.sha256 || (one.read && bytes.as_ref() != Some(&one.sha256)) {
                looked.changed.push(one.backup.clone());
            } else if one.read {
                looked.read.push(ReadObject { backup: one.backup.clone(), mark: Some(mark) });
            } else if one.mark != Some(mark) {
                looked.rewritten.push(one.backup.clone());
            }
        }
        looked
    }

    /// An object comes into the store.
    fn put(&mut self, place: &str, mut object: Object) -> ObjectMark {
        let before = [self.store.get(place), self.lost.get(place).map(|(object, _)| object)];
        let written = before.into_iter().flatten().map(|object| object.writes).max();
        object.writes = written.unwrap_or_default() + 1;
        let mark = object.mark(self.setup.versioned);
        self.truth.own.extend(object.bytes.filter(|_| object.writer == Writer::Own));
        self.store.insert(place.to_owned(), object);
        self.lost.remove(place);
        mark
    }
}

fn words(answer: &Answer) -> String {
    json!(answer).to_string().chars().take(120).collect()
}
