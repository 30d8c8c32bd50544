//! What lies between the operator and the rest: every write and call passes here once, and meets its outcome.

use std::sync::Arc;

use quorate_apistore::fields::{deleting, name};
use quorate_apistore::patch::{self, PatchKind};
use quorate_apistore::store::{DeleteOptions, Deleted, Part, Propagation};
use quorate_apistore::{ApiError, ObjectKey};
use quorate_manifests::{Act, Kind, Write};
use quorate_model::{MemberId, PeerUrl};
use serde_json::{Value, json};

use super::World;
use super::objects::resource;
use crate::etcd::{Failed, Refusal};

/// A request on its way.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    /// To the Kubernetes API.
    Kube(Write),
    /// MemberAdd at the process in this Pod.
    Add {
        /// The Pod.
        at: String,
        /// The peer URL.
        url: PeerUrl,
    },
    /// MemberPromote.
    Promote {
        /// The Pod.
        at: String,
        /// The learner.
        id: MemberId,
    },
    /// MemberRemove.
    Remove {
        /// The Pod.
        at: String,
        /// The member.
        id: MemberId,
    },
    /// MoveLeader.
    Lead {
        /// The Pod of the leader.
        at: String,
        /// The next leader.
        to: MemberId,
    },
}

/// What becomes of the next request.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum RequestOutcome {
    /// It arrives, and so does the reply.
    #[default]
    Done,
    /// It arrives, the reply does not (F3).
    ReplyLost,
    /// It never arrives, and looks the same (F4, F12).
    Lost,
    /// It arrives when all else has come to rest, long after it was given up (F5).
    Late,
    /// It arrives twice; the second reply counts (F6).
    Twice,
    /// Somebody else changes the object just before (F11).
    Raced,
}

/// What the operator learns of a request.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Done; the object as it is now, if there is one.
    Done(Option<Arc<Value>>),
    /// The name is taken.
    Exists,
    /// It is not as it was seen.
    Changed,
    /// It is not there.
    Missing,
    /// Refused for good, or for now.
    Refused(String),
    /// No reply.
    Unknown,
}

impl RequestOutcome {
    /// Every outcome.
    pub const ALL: [Self; 6] =
        [Self::Done, Self::ReplyLost, Self::Lost, Self::Late, Self::Twice, Self::Raced];

    /// Its name in tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::ReplyLost => "reply lost",
            Self::Lost => "lost",
            Self::Late => "late",
            Self::Twice => "twice",
            Self::Raced => "raced",
        }
    }
}

impl World {
    /// Sends a request; its outcome is used up.
    pub(super) fn send(&mut self, call: Call) -> Outcome {
        match std::mem::take(&mut self.request_outcome) {
            RequestOutcome::Done => self.deliver(&call),
            RequestOutcome::ReplyLost => {
                self.deliver(&call);
                Outcome::Unknown
            }
            RequestOutcome::Lost => Outcome::Unknown,
            RequestOutcome::Late => {
                self.late.push(call);
                Outcome::Unknown
            }
            RequestOutcome::Twice => {
                self.deliver(&call);
                self.deliver(&call)
            }
            RequestOutcome::Raced => {
                self.race(&call);
                self.deliver(&call)
            }
        }
    }

    /// A request arrives.
    pub(super) fn deliver(&mut self, call: &Call) -> Outcome {
        self.oracle_on_arrival(call);
        let reply = match call {
            Call::Kube(write) => return self.deliver_write(write),
            Call::Add { at, url } => self.etcd.add_learner(at, url, self.now).map(drop),
            Call::Promote { at, id } => self.etcd.promote(at, *id),
            Call::Remove { at, id } => self.etcd.remove(at, *id, self.now),
            Call::Lead { at, to } => self.etcd.move_leader(at, *to),
        };
        match reply {
            Ok(()) => Outcome::Done(None),
            Err(Failed::Refused(refusal)) => Outcome::Refused(refused(refusal)),
            Err(Failed::Unknown | Failed::Unreachable) => Outcome::Unknown,
        }
    }

    fn deliver_write(&mut self, write: &Write) -> Outcome {
        let key = ObjectKey::new(resource(write.kind), write.namespace.clone(), write.name.clone());
        let merge = |part, wish: &Value| {
            self.store.modify(&key, part, false, |old| {
                patch::apply(PatchKind::Merge, old, wish)
                    .map_err(|error| ApiError::bad_request(error.to_string()))
            })
        };
        let reply = match &write.act {
            Act::Create(object) => self.store.create(&key.resource, &key.namespace, object.clone(), false),
            Act::Patch(wish) => merge(Part::Main, wish),
            Act::PatchStatus(wish) => merge(Part::Status, wish),
            Act::Delete { uid, resource_version } => {
                let options = DeleteOptions {
                    uid: Some(uid.clone()),
                    resource_version: Some(resource_version.clone()),
                    propagation: Propagation::Background,
                    ..DeleteOptions::default()
                };
                match self.store.delete(&key, &options) {
                    Ok(Deleted::Gone(_)) => return Outcome::Done(None),
                    Ok(Deleted::Marked(object)) => Ok(object),
                    Err(error) => Err(error),
                }
            }
        };
        match reply {
            Ok(object) => Outcome::Done(Some(Arc::new(object))),
            Err(error) => match (error.code, error.reason) {
                (409, "AlreadyExists") => Outcome::Exists,
                (409 | 412, _) => Outcome::Changed,
                (404, _) => Outcome::Missing,
                (_, _) => Outcome::Refused(error.message),
            },
        }
    }

    /// Somebody annotates the object that a request is about.
    fn race(&mut self, call: &Call) {
        let Call::Kube(write) = call else { return };
        let key = ObjectKey::new(resource(write.kind), write.namespace.clone(), write.name.clone());
        if let Some(object) = self.store.shared(&key).filter(|object| !deleting(object)) {
            let mut changed = Value::clone(&object);
            changed["metadata"]["annotations"]["example.org/touched"] = json!(format!("{:?}", write.kind));
            let touched = annotation_of(&object) + 1;
            changed["metadata"]["annotations"]["example.org/times"] = json!(touched.to_string());
            debug_assert_eq!(name(&object), write.name);
            let _ = self.store.update(&key, Part::Main, changed, false);
        }
    }
}

fn annotation_of(object: &Value) -> u32 {
    let times = quorate_apistore::fields::annotation(object, "example.org/times");
    times.and_then(|times| times.parse().ok()).unwrap_or(0)
}

fn refused(refusal: Refusal) -> String {
    format!("{refusal:?}")
}

impl Call {
    /// In words, for the story.
    pub fn words(&self) -> String {
        match self {
            Self::Kube(Write { kind, name, act, .. }) => {
                let act = match act {
                    Act::Create(_) => "create",
                    Act::Patch(_) => "patch",
                    Act::PatchStatus(_) => "write the status of",
                    Act::Delete { .. } => "delete",
                };
                format!("{act} {} {name}", Kind::as_str(*kind))
            }
            Self::Add { url, .. } => format!("MemberAdd {url}"),
            Self::Promote { id, .. } => format!("MemberPromote {id}"),
            Self::Remove { id, .. } => format!("MemberRemove {id}"),
            Self::Lead { to, .. } => format!("MoveLeader to {to}"),
        }
    }
}
