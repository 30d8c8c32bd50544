//! What lies between the operator and the rest: every write and call passes here once, and meets its outcome.

use std::sync::Arc;

use quorate_apistore::fields::{deleting, name};
use quorate_apistore::patch::{self, PatchKind};
use quorate_apistore::store::{DeleteOptions, Deleted, Part, Propagation};
use quorate_apistore::{ApiError, ObjectKey};
use quorate_manifests::{Act, Kind, Write};
use quorate_model::EtcdCall;
use quorate_reconcile::{CallError, WriteError};
use serde_json::{Value, json};

use super::World;
use super::objects::resource;
use crate::etcd::{Alarm, Failed};

/// A request on its way.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    /// To the Kubernetes API.
    Kube(Write),
    /// To etcd.
    Etcd {
        /// The Pod of the process that is asked.
        at: String,
        /// What it is asked for.
        call: EtcdCall,
    },
}

/// The reply to a request, as the operator gets it.
#[derive(Clone, Debug)]
pub enum Response {
    /// Of the Kubernetes API: the object as it is now, if it exists.
    Kube(Result<Option<Arc<Value>>, WriteError>),
    /// Of etcd.
    Etcd(Result<(), CallError>),
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
    pub(super) fn send(&mut self, call: Call) -> Response {
        match std::mem::take(&mut self.request_outcome) {
            RequestOutcome::Done => self.deliver(&call),
            RequestOutcome::ReplyLost => {
                self.deliver(&call);
                no_reply(&call)
            }
            RequestOutcome::Lost => no_reply(&call),
            RequestOutcome::Late => {
                let response = no_reply(&call);
                self.late.push(call);
                response
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
    pub(super) fn deliver(&mut self, call: &Call) -> Response {
        self.oracle_on_arrival(call);
        let (at, call) = match call {
            Call::Kube(write) => return Response::Kube(self.deliver_write(write)),
            Call::Etcd { at, call } => (at, call),
        };
        let reply = match call {
            EtcdCall::AddLearner { peer_url, .. } => self.etcd.add_learner(at, peer_url, self.now).map(drop),
            EtcdCall::Promote { id, .. } => self.etcd.promote(at, *id),
            EtcdCall::RemoveMember { id, .. } => self.etcd.remove(at, *id, self.now),
            EtcdCall::MoveLeadership { to_id, .. } => self.etcd.move_leader(at, *to_id, self.now),
            EtcdCall::Disarm { member, kind } => {
                self.etcd.disarm_one(at, Alarm { member: *member, kind: *kind })
            }
            EtcdCall::Downgrade { action, to } => self.etcd.downgrade(at, *action, *to),
            EtcdCall::Compact { .. } => self.etcd.compact(at),
            EtcdCall::Defragment { .. } => self.etcd.defragment(at),
            EtcdCall::DeleteUser { user } | EtcdCall::DeleteRole { user } => {
                self.judge_revocation(user);
                self.etcd.revoke(at, user, matches!(call, EtcdCall::DeleteRole { .. }))
            }
            EtcdCall::Auth { change } => {
                self.judge_auth(*change);
                self.etcd.change_auth(at, *change)
            }
        };
        Response::Etcd(reply.map_err(|failed| match failed {
            Failed::Refused(refusal) => CallError::Refused(refusal, format!("{refusal:?}")),
            Failed::Unknown => CallError::Unknown("no reply".to_owned()),
            Failed::Unreachable => CallError::Unreachable("nobody is there".to_owned()),
        }))
    }

    /// Whether the API server would admit a write, without carrying it out.
    pub(super) fn admit(&self, write: &Write) -> Result<(), WriteError> {
        // None is taken here: no spec of the World asks for one before an upgrade or its end.
        let is_taken = match &write.act {
            Act::Create(backup) => write.kind == Kind::Backup && backup.pointer("/spec/existing").is_none(),
            Act::Patch(_) | Act::PatchStatus(_) | Act::Evict { .. } | Act::Delete { .. } => false,
        };
        if is_taken || self.faults.refuses(write.kind.as_str(), &write.name) || !self.quota_admits(write) {
            let how = format!("{} is forbidden: a policy denies it", write.object());
            return Err(WriteError::Forbidden(how));
        }
        Ok(())
    }

    fn deliver_write(&mut self, write: &Write) -> Result<Option<Arc<Value>>, WriteError> {
        let key = ObjectKey::new(resource(write.kind), write.namespace.clone(), write.name.clone());
        // A quota is about what is created; a webhook or a missing right also about changes.
        let creates = matches!(write.act, Act::Create(_));
        let changes =
            matches!(write.act, Act::Patch(_)) && matches!(write.kind, Kind::Service | Kind::Secret);
        if creates || changes {
            self.admit(write)?;
        }
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
            Act::Evict { uid } => {
                let options = DeleteOptions { uid: Some(uid.clone()), ..DeleteOptions::default() };
                return match self.evict(&key, options) {
                    Ok(_) => Ok(None),
                    Err(error) if matches!(error.code, 429 | 500) => Err(WriteError::Blocked(error.message)),
                    Err(error) => Err(WriteError::from_status(error.code, error.reason, error.message)),
                };
            }
            Act::Delete { uid, resource_version } => {
                let options = DeleteOptions {
                    uid: Some(uid.clone()),
                    resource_version: Some(resource_version.clone()),
                    propagation: Propagation::Background,
                    ..DeleteOptions::default()
                };
                match self.store.delete(&key, &options) {
                    Ok(Deleted::Gone(_)) => return Ok(None),
                    Ok(Deleted::Marked(object)) => Ok(object),
                    Err(error) => Err(error),
                }
            }
        };
        let is_claim = write.kind == Kind::Volume;
        match if is_claim { reply.and_then(|_| self.bind(&key)) } else { reply } {
            Ok(object) => Ok(Some(Arc::new(object))),
            Err(error) => Err(WriteError::from_status(error.code, error.reason, error.message)),
        }
    }

    /// A claim is bound at once, to a volume of the size that it asks for, which grows when it asks for more.
    fn bind(&self, key: &ObjectKey) -> Result<Value, ApiError> {
        self.store.modify(key, Part::Status, false, |claim| {
            let mut bound = claim.clone();
            bound["status"]["phase"] = json!("Bound");
            bound["status"]["capacity"] = claim["spec"]["resources"]["requests"].clone();
            Ok(bound)
        })
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

/// Nobody replies.
fn no_reply(call: &Call) -> Response {
    match call {
        Call::Kube(_) => Response::Kube(Err(WriteError::Unknown("no reply".to_owned()))),
        Call::Etcd { .. } => Response::Etcd(Err(CallError::Unknown("no reply".to_owned()))),
    }
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
                    Act::Evict { .. } => "evict",
                    Act::Delete { .. } => "delete",
                };
                format!("{act} {} {name}", Kind::as_str(*kind))
            }
            Self::Etcd { call, .. } => call.to_string(),
        }
    }
}
