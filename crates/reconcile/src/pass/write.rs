//! One write, and what follows from its reply. After an unexpected reply the object is read, so that the next pass observes
//! its current state.

use k8s_openapi::api::core::v1::Secret;
use quorate_manifests::certificate::{self, Certificate};
use quorate_manifests::{Act, Kind, NameConflict, Write, labels};
use quorate_model::{ClusterRef, ClusterUid, Instant};

use super::unlabelled;
use crate::command::{Reply, Task};
use crate::memory::Memory;
use crate::objects::{Object, OfCluster as _};
use crate::ownership::{is_ours, is_visible};
use crate::reply::{WriteError, lost_reply_counts_as_done};

/// Why the API server refuses every Pod: quotas, a namespace that goes, credentials.
const EVERY_POD: [&str; 4] = ["exceeded quota", "failed quota", "is being terminated", "Unauthorized"];

/// A write that was sent.
#[derive(Clone, Debug)]
pub(super) struct WriteRun {
    kind: Kind,
    name: String,
    /// The write as text: `create Pod default/demo-2`.
    what: String,
    /// A Pod that gets the agent by an image volume, and by an init container if that is refused.
    by_image_volume: bool,
    sent: Sent,
    read: Follow,
}

#[derive(Clone, Debug)]
enum Sent {
    Create,
    Patch,
    Evict { uid: String },
    Delete { uid: String },
}

/// The read that follows a write.
#[derive(Clone, Debug)]
enum Follow {
    NotAsked,
    Due(Met),
    Issued(Met),
}

/// The reply that the read follows.
#[derive(Clone, Debug)]
enum Met {
    /// The eviction was admitted. The reply does not have the Pod.
    Evicted,
    Error(WriteError),
}

/// The cluster that a write is for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner<'a> {
    pub(super) at: &'a ClusterRef,
    pub(super) uid: &'a ClusterUid,
}

/// How a write ended.
#[derive(Clone, Debug)]
pub(super) enum WriteEnd {
    /// The object is in the desired state. The object, if it exists and is known.
    Done(Option<Object>),
    /// The write did not succeed, or its outcome is unknown.
    Failed(WriteFailure),
}

/// A write that did not succeed.
#[derive(Clone, Debug)]
pub(super) struct WriteFailure {
    pub(super) error: WriteError,
    /// The write as text: `create Pod default/demo-2`.
    pub(super) what: String,
    /// The planner does not know this yet, and plans something else once it does: the name is taken, or image volumes are
    /// refused.
    pub(super) is_news: bool,
    /// The name is taken.
    pub(super) conflict: bool,
}

impl WriteRun {
    /// The state of a write that is sent now.
    pub(super) fn new(write: &Write) -> Self {
        let sent = match &write.act {
            Act::Create(_) => Sent::Create,
            Act::Patch(_) | Act::PatchStatus(_) => Sent::Patch,
            Act::Evict { uid } => Sent::Evict { uid: uid.clone() },
            Act::Delete { uid, .. } => Sent::Delete { uid: uid.clone() },
        };
        let (kind, name, what) = (write.kind, write.name.clone(), write.describe());
        Self { kind, name, what, by_image_volume: false, sent, read: Follow::NotAsked }
    }

    /// If this Pod is refused, its image volume may be why.
    pub(super) fn tries_image_volume(mut self) -> Self {
        self.by_image_volume = true;
        self
    }

    /// The read that follows it, if it is due.
    pub(super) fn next(&mut self) -> Option<Task> {
        let Follow::Due(met) = &self.read else { return None };
        self.read = Follow::Issued(met.clone());
        Some(Task::Read { kind: self.kind, name: self.name.clone() })
    }

    /// Whether the read that follows it is due.
    pub(super) fn is_due(&self) -> bool {
        matches!(self.read, Follow::Due(_))
    }

    /// Takes a reply. Returns how the write ended, or `None` if a read follows.
    pub(super) fn reply(
        &mut self,
        memory: &mut Memory,
        owner: Owner<'_>,
        reply: Reply,
        now: Instant,
    ) -> Option<WriteEnd> {
        match (reply, &self.read) {
            (Reply::Written(written), Follow::NotAsked) => self.written(memory, written, now),
            (Reply::Object(read), Follow::Issued(met)) => {
                Some(self.read(memory, owner, met.clone(), read, now))
            }
            (_, Follow::NotAsked | Follow::Due(_) | Follow::Issued(_)) => {
                Some(self.failed(WriteError::Unknown("the reply is not one to this request".to_owned())))
            }
        }
    }

    fn written(
        &mut self,
        memory: &mut Memory,
        written: Result<Option<Object>, WriteError>,
        now: Instant,
    ) -> Option<WriteEnd> {
        let error = match (written, &self.sent) {
            (Ok(object), Sent::Delete { uid }) => {
                let left = object.filter(is_terminating);
                match &left {
                    Some(object) => memory.exists(object, now),
                    None => memory.gone(self.kind, &self.name, uid, now),
                }
                return Some(WriteEnd::Done(left));
            }
            (Ok(_), Sent::Evict { .. }) => {
                self.read = Follow::Due(Met::Evicted);
                return None;
            }
            (Ok(object), Sent::Create | Sent::Patch) => {
                if let Some(object) = &object {
                    memory.exists(object, now);
                }
                return Some(WriteEnd::Done(object));
            }
            (Err(error), Sent::Create | Sent::Patch | Sent::Evict { .. } | Sent::Delete { .. }) => error,
        };
        if let Some(why) = self.refused_image_volume(&error) {
            memory.image_volume_refused = Some(why);
            return Some(self.is_news(error));
        }
        // A namespace that ends admits nothing new any more, and a cluster that ends with it does so without its backup.
        if let (Kind::Backup, Some(why)) = (self.kind, error.namespace_ends()) {
            let before = memory.namespace_ends.replace(why.to_owned());
            return Some(if before.is_none() { self.is_news(error) } else { self.failed(error) });
        }
        let is_read = match &error {
            WriteError::Exists => matches!(self.sent, Sent::Create),
            WriteError::Missing(_) => matches!(self.sent, Sent::Evict { .. } | Sent::Delete { .. }),
            WriteError::Changed(_) => true,
            WriteError::Unknown(_) if lost_reply_counts_as_done() => return Some(WriteEnd::Done(None)),
            WriteError::NotLeading
            | WriteError::Outdated
            | WriteError::Invalid(_)
            | WriteError::Forbidden(_)
            | WriteError::Blocked(_)
            | WriteError::Throttled(..)
            | WriteError::Unknown(_) => false,
        };
        if !is_read {
            return Some(self.failed(error));
        }
        self.read = Follow::Due(Met::Error(error));
        None
    }

    fn read(
        &self,
        memory: &mut Memory,
        owner: Owner<'_>,
        met: Met,
        read: Result<Option<Object>, WriteError>,
        now: Instant,
    ) -> WriteEnd {
        let met = match met {
            Met::Evicted => return self.read_evicted(memory, read, now),
            Met::Error(met) => met,
        };
        let object = match read {
            Ok(object) => object,
            // Nothing was written, and the current state of the object is not known.
            Err(_) if matches!(met, WriteError::Changed(_)) => return self.failed(met),
            Err(error) => return self.failed(error),
        };
        match (&self.sent, object) {
            // The object exists and belongs to the cluster: an earlier reply was lost, or the cache is outdated. It is done.
            (Sent::Create, Some(object))
                if met == WriteError::Exists && is_ours(&object, owner.at, owner.uid) =>
            {
                memory.exists(&object, now);
                let is_looked_for = unlabelled::is_looked_for(&object, owner.at);
                if is_looked_for && !labels::is_labelled(object.meta(), owner.at) {
                    memory.unlabelled.insert((self.kind, self.name.clone()));
                }
                self.exists_and_is_ours(object, owner.at)
            }
            (Sent::Create, Some(object))
                if met == WriteError::Exists
                    && self.kind != Kind::Certificate
                    && !is_visible(&object, owner.at, owner.uid) =>
            {
                let made_by = labels::made_by(object.meta(), owner.uid);
                let conflict = NameConflict { kind: self.kind, name: self.name.clone(), made_by };
                let is_news = memory.conflicts.insert(conflict);
                let what = self.what.clone();
                WriteEnd::Failed(WriteFailure { error: met, what, is_news, conflict: true })
            }
            // 404 for a delete counts only once a read confirms it: data may be deleted because of it, and a proxy that does
            // not know the path also replies 404.
            (Sent::Evict { uid } | Sent::Delete { uid }, object)
                if matches!(met, WriteError::Missing(_))
                    && object.as_ref().is_none_or(|object| object.uid() != uid) =>
            {
                memory.gone(self.kind, &self.name, uid, now);
                WriteEnd::Done(None)
            }
            // The object belongs to the cluster and differs from the observed one. The next pass observes it. This includes a
            // volume of an earlier incarnation, about which the planner decides.
            (Sent::Create | Sent::Patch | Sent::Evict { .. } | Sent::Delete { .. }, object) => {
                if let Some(object) = &object {
                    memory.exists(object, now);
                }
                self.failed(met)
            }
        }
    }

    /// The eviction was admitted: the Pod is being deleted. If it was not read, the next pass observes it.
    fn read_evicted(
        &self,
        memory: &mut Memory,
        read: Result<Option<Object>, WriteError>,
        now: Instant,
    ) -> WriteEnd {
        let object = read.unwrap_or_default();
        match (&object, &self.sent) {
            (Some(object), _) => memory.exists(object, now),
            (None, Sent::Evict { uid } | Sent::Delete { uid }) => {
                memory.gone(self.kind, &self.name, uid, now);
            }
            (None, Sent::Create | Sent::Patch) => {}
        }
        WriteEnd::Done(object)
    }

    /// Why the API server, or its admission, refused a Pod with an image volume.
    fn refused_image_volume(&self, error: &WriteError) -> Option<String> {
        let (WriteError::Invalid(why) | WriteError::Forbidden(why)) = error else { return None };
        let of_every_pod = EVERY_POD.iter().any(|cause| why.contains(cause));
        (self.by_image_volume && !of_every_pod).then(|| why.clone())
    }

    fn is_news(&self, error: WriteError) -> WriteEnd {
        WriteEnd::Failed(WriteFailure { is_news: true, ..WriteFailure::new(error, self.what.as_str()) })
    }

    fn failed(&self, error: WriteError) -> WriteEnd {
        WriteEnd::Failed(WriteFailure::new(error, self.what.as_str()))
    }

    fn exists_and_is_ours(&self, object: Object, at: &ClusterRef) -> WriteEnd {
        let mut certificates = Certificate::ALL.into_iter().map(|certificate| certificate.secret_name(at));
        let has_certificate = certificates.any(|name| name == self.name);
        let is_whole = |secret: &Secret| !has_certificate || certificate::kept_in(secret).is_some();
        if Secret::of(&object).is_none_or(|secret| is_whole(secret)) {
            return WriteEnd::Done(Some(object));
        }
        let secret = self.kind.called(&at.namespace, &self.name);
        self.failed(WriteError::Invalid(format!(
            "{secret} lacks one of ca.crt, tls.crt and tls.key; delete it, and the operator creates it again"
        )))
    }
}

impl WriteFailure {
    /// The failure that is reported as `cannot {what}`.
    pub(super) fn new(error: WriteError, what: impl Into<String>) -> Self {
        Self { error, what: what.into(), is_news: false, conflict: false }
    }
}

/// Whether a deleted object still exists, because of its grace period or a finalizer.
fn is_terminating(object: &Object) -> bool {
    let meta = object.meta();
    meta.deletion_timestamp.is_some()
        && (meta.deletion_grace_period_seconds != Some(0)
            || meta.finalizers.as_ref().is_some_and(|left| !left.is_empty()))
}
