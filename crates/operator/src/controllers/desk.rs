//! What the workers of EtcdBackups, EtcdBackupSchedules, EtcdRestores and EtcdUsers share: each is about one object, reads the caches of it and of
//! its Jobs, writes by single requests, and says in an event what failed.

use std::sync::Arc;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DeserializeGuard;
use kube::core::object::HasStatus;
use kube::runtime::watcher::Config;
use kube::{Resource as _, ResourceExt as _};
use quorate_api::{Explanation, Reason};
use quorate_model::{Instant, Step};
use quorate_orders::JobOutcome;
use quorate_reconcile::{Retry, WriteError};
use serde::Serialize;
use serde_json::json;

use super::refusal::outcomes;
use super::said::Said;
use crate::runtime::controller::{Pass, Runtime, Worker};
use crate::runtime::events::{Notice, Reported};
use crate::runtime::pace::Outcome;
use crate::runtime::watch::{Index, NamespacedName, Watched, Watches};
use crate::runtime::write::{Writer, status_patch};

/// A kind with a status, whose objects are written one by one.
pub(super) trait Kind: Watched + Serialize + HasStatus<Status: Serialize + Sync> {}

impl<K: Watched + Serialize + HasStatus<Status: Serialize + Sync>> Kind for K {}

/// Works on one object as long as it can be read.
pub(super) trait Clerk: Send + 'static {
    /// Its kind.
    type Kind: Kind;

    /// Where it works.
    fn desk(&mut self) -> &mut Desk<Self::Kind>;

    /// The version of the other cache whose changes are news of the object.
    fn beside(&self) -> u64;

    /// One pass.
    fn work(&mut self, object: &Self::Kind) -> impl Future<Output = Pass> + Send;
}

impl<C: Clerk> Worker for C {
    fn has_changes(&mut self) -> bool {
        let beside = self.beside();
        let desk = self.desk();
        desk.versions(beside) != desk.known
    }

    async fn pass(&mut self) -> Pass {
        let beside = self.beside();
        let desk = self.desk();
        desk.known = desk.versions(beside);
        let Some(cached) = desk.objects.get(&desk.root).objects.remove(&desk.root.name) else {
            return Pass::Gone;
        };
        match &cached.0 {
            Ok(object) => Box::pin(self.work(object)).await,
            Err(error) => {
                let kind = C::Kind::kind(&());
                tracing::error!(error = %error.error, "the {kind} does not parse, so nothing is done");
                Pass::Ended(Outcome::UserMustEdit)
            }
        }
    }
}

/// What belongs to the objects of a kind, by the label with their name.
#[derive(Clone, Default)]
pub(super) struct Owned {
    jobs: Index<Job>,
    pods: Index<Pod>,
}

impl Owned {
    pub(super) fn watch(&self, watches: &mut Watches<'_>, label: &'static str) {
        let labelled = Config::default().labels(label);
        watches.add_by(&labelled, &self.jobs, move |job: &Job| by_label(&job.metadata, label));
        watches.add_by(&labelled, &self.pods, move |pod: &Pod| by_label(&pod.metadata, label));
    }

    pub(super) fn remove_if_empty(&self, root: &NamespacedName) {
        self.jobs.remove_if_empty(root);
        self.pods.remove_if_empty(root);
    }
}

/// The object that a label names.
pub(super) fn by_label(meta: &ObjectMeta, label: &str) -> Option<NamespacedName> {
    Some(NamespacedName::new(meta.namespace.as_ref()?, meta.labels.as_ref()?.get(label)?))
}

/// Why the API server does not create an object. `None`: it exists, maybe since before a crash and not yet in the cache.
pub(super) fn refused<T>(created: Result<T, WriteError>) -> Result<Option<String>, WriteError> {
    match created {
        Ok(_) | Err(WriteError::Exists) => Ok(None),
        Err(WriteError::Invalid(text) | WriteError::Forbidden(text)) => Ok(Some(text)),
        Err(error) => Err(error),
    }
}

/// Where a worker reads and writes its object.
pub(super) struct Desk<K> {
    pub(super) runtime: Runtime,
    pub(super) root: NamespacedName,
    objects: Index<DeserializeGuard<K>>,
    owned: Owned,
    reported: Reported,
    said: Said,
    /// The versions of the caches that the last pass saw.
    known: [u64; 4],
}

impl<K: Kind> Desk<K> {
    pub(super) fn new(
        runtime: &Runtime,
        root: &NamespacedName,
        objects: &Index<DeserializeGuard<K>>,
        owned: Owned,
    ) -> Self {
        let (runtime, root, objects) = (runtime.clone(), root.clone(), objects.clone());
        let (reported, said) = (Reported::default(), Said::default());
        Self { runtime, root, objects, owned, reported, said, known: [0; 4] }
    }

    /// Writes objects of a kind in the namespace.
    pub(super) fn writer<O>(&self) -> Writer<'_, O>
    where
        O: Watched + Serialize,
    {
        Writer::new(&self.runtime, &self.root.namespace)
    }

    pub(super) async fn write_status(
        &self,
        step: Step,
        seen: &K,
        status: &K::Status,
    ) -> Result<K, WriteError> {
        self.writer().patch_status(step, seen, status_patch(seen.status(), status)).await
    }

    /// With or without this finalizer, beside those of others.
    pub(super) async fn set_finalizer(
        &self,
        step: Step,
        seen: &K,
        finalizer: &str,
        is_set: bool,
    ) -> Result<K, WriteError> {
        let others = seen.finalizers().iter().map(String::as_str).filter(|other| *other != finalizer);
        let all: Vec<&str> = others.chain(is_set.then_some(finalizer)).collect();
        self.writer().patch_metadata(step, seen, json!({ "finalizers": all })).await
    }

    /// What is created or deleted is so for the object as it is, and not for what an outdated cache has of it.
    pub(super) async fn is_current(&self, seen: &K) -> Result<(), WriteError> {
        let kind = K::kind(&());
        match self.writer::<K>().read(&self.root.name).await? {
            Some(now) if now.meta().resource_version == seen.meta().resource_version => Ok(()),
            Some(_) => Err(WriteError::Changed(format!("the {kind} has changed"))),
            None => Err(WriteError::Missing(format!("the {kind} is gone"))),
        }
    }

    /// The Jobs of this object. Those of an earlier one of its name go with that.
    pub(super) fn jobs(&self, owner: &K) -> Vec<Arc<Job>> {
        let own = |job: &Arc<Job>| {
            let mut owners = job.metadata.owner_references.iter().flatten();
            owners.any(|of| Some(&of.uid) == owner.meta().uid.as_ref())
        };
        self.owned.jobs.get(&self.root).objects.into_values().filter(own).collect()
    }

    pub(super) fn pods(&self) -> Vec<Arc<Pod>> {
        self.owned.pods.get(&self.root).objects.into_values().collect()
    }

    /// What its Jobs have come to.
    pub(super) async fn outcomes<'a>(
        &self,
        jobs: &'a [Arc<Job>],
        pods: &[Arc<Pod>],
        now: Instant,
    ) -> Vec<(&'a Job, JobOutcome)> {
        outcomes(&self.runtime, &self.said, jobs, pods, now).await
    }

    /// Creates a Job, or says why it is [refused].
    pub(super) async fn create_job(&self, step: Step, job: &Job) -> Result<Option<String>, WriteError> {
        refused(self.writer::<Job>().create_admitted(step, job).await)
    }

    /// A Job of this object that is not being deleted.
    pub(super) fn job(&self, owner: &K, name: &str) -> Option<Arc<Job>> {
        let mut jobs = self.jobs(owner).into_iter();
        let found = jobs.find(|job| job.metadata.name.as_deref() == Some(name));
        found.filter(|job| job.metadata.deletion_timestamp.is_none())
    }

    pub(super) fn tell(&mut self, about: &K, warning: bool, what: Explanation) {
        let at = self.runtime.clock.now();
        let notice = Notice { about: about.object_ref(&()), warning, what, at };
        self.runtime.events.publish(&mut self.reported, notice);
    }

    /// What a pass comes to whose write was not done.
    pub(super) fn stopped(&mut self, about: &K, error: &WriteError) -> Outcome {
        match error.retry() {
            retry @ (Retry::Failed | Retry::Unanswered) => {
                tracing::warn!(%error, "the pass ended before its act");
                let what = Explanation::new(Reason::WriteRefused, format!("a write failed: {error}"));
                self.tell(about, true, what);
                retry.into()
            }
            retry @ Retry::Throttled(_) => retry.into(),
            Retry::Now | Retry::Soon | Retry::Refused | Retry::Degraded => Outcome::Waiting,
        }
    }

    fn versions(&self, beside: u64) -> [u64; 4] {
        let (Owned { jobs, pods }, root) = (&self.owned, &self.root);
        [self.objects.get(root).seen, jobs.get(root).seen, pods.get(root).seen, beside]
    }
}
