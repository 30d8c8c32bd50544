//! Writes to the Kubernetes API, and what their replies mean.

use futures::future::join_all;
use quorate_api::status::EtcdClusterStatus;
use quorate_api::{EtcdCluster, Explanation, Reason};
use quorate_manifests::certificate::{self, Certificate};
use quorate_manifests::{Act, Context, Kind, Request, Write, request, trouble};
use quorate_model::{Effect, KubeEffect};
use serde_json::Value;

use super::send::{self, SendError};
use super::{Scene, Stopped};
use crate::controllers::cluster::Shared;
use crate::controllers::cluster::observe::{Foreign, Own, is_ours};
use crate::controllers::cluster::tls::{self, IssueError, Pair};
use crate::runtime::pace::Outcome;

/// What the API server said of an object.
#[derive(Debug)]
pub(super) enum Reply {
    /// It looks like this now.
    Stands(Kind, Value),
    /// It is gone.
    Gone { kind: Kind, name: String, uid: String },
}

/// A write that was not done.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) error: SendError,
    /// What else was learnt, or done before it.
    replies: Vec<Reply>,
    foreign: Option<Foreign>,
    /// What status and events report, if anything.
    trouble: Option<Explanation>,
}

/// The write that an effect is.
pub(super) async fn carry_out(
    scene: &Scene<'_>,
    cluster: &EtcdCluster,
    effect: &KubeEffect,
) -> Result<Vec<Reply>, Failure> {
    let context = Context {
        cluster,
        seen: scene.objects,
        snapshot: scene.seen,
        record: scene.record,
        defaults: &scene.shared.defaults,
    };
    match request(effect, &context) {
        Request::Certificates => issue(scene, cluster).await,
        Request::Write(write) => written(scene, &write).await.map(|reply| vec![reply]),
    }
}

/// Brings the status of an EtcdCluster to this one. `None` if it is this one already.
pub(crate) async fn write_status(
    shared: &Shared,
    cluster: &EtcdCluster,
    status: &EtcdClusterStatus,
    own: &mut Own,
) -> Result<Option<EtcdCluster>, SendError> {
    send_status(shared, request::write_status(cluster, status), own).await
}

/// As [`write_status`], and makes sure that it stands so now where something is going to be done (R3).
pub(crate) async fn write_record(
    shared: &Shared,
    cluster: &EtcdCluster,
    status: &EtcdClusterStatus,
    effects: &[Effect],
    own: &mut Own,
) -> Result<Option<EtcdCluster>, SendError> {
    send_status(shared, request::write_record(cluster, status, effects), own).await
}

async fn send_status(
    shared: &Shared,
    write: Option<Write>,
    own: &mut Own,
) -> Result<Option<EtcdCluster>, SendError> {
    let Some(write) = write else { return Ok(None) };
    match send::write(shared, &write).await {
        Ok(object) => {
            let written = serde_json::from_value(object.clone())
                .map_err(|error| SendError::Unknown(error.to_string()))?;
            Reply::Stands(Kind::Cluster, object).note(own);
            Ok(Some(written))
        }
        Err(error) => {
            if let SendError::Changed(_) = &error
                && let Ok(Some(fresh)) = send::read(shared, write.kind, &write.namespace, &write.name).await
            {
                Reply::Stands(Kind::Cluster, fresh).note(own);
            }
            Err(error)
        }
    }
}

impl Reply {
    /// Remembers it until the watch tells the same.
    pub(super) fn note(self, own: &mut Own) {
        match self {
            Self::Stands(kind, object) => own.stands(kind, object),
            Self::Gone { kind, name, uid } => own.gone(kind, &name, &uid),
        }
    }

    /// The EtcdCluster, if it is what was written.
    pub(super) fn cluster(&self) -> Option<EtcdCluster> {
        match self {
            Self::Stands(Kind::Cluster, object) => serde_json::from_value(object.clone()).ok(),
            Self::Stands(..) | Self::Gone { .. } => None,
        }
    }

    fn deleted(write: &Write, uid: &str, reply: Value) -> Self {
        // The object as it waits for its end, or a mere "Success".
        let waits = reply["metadata"]["deletionTimestamp"].is_string()
            && (reply["metadata"]["deletionGracePeriodSeconds"] != 0
                || reply["metadata"]["finalizers"].as_array().is_some_and(|left| !left.is_empty()));
        if waits { Self::Stands(write.kind, reply) } else { Self::gone(write, uid) }
    }

    fn gone(write: &Write, uid: &str) -> Self {
        Self::Gone { kind: write.kind, name: write.name.clone(), uid: uid.to_owned() }
    }
}

impl Failure {
    fn new(error: SendError) -> Self {
        Self { error, replies: Vec::new(), foreign: None, trouble: None }
    }

    /// How the pass ends with it. What was learnt is remembered.
    pub(super) fn into_stopped(self, own: &mut Own) -> Stopped {
        self.replies.into_iter().for_each(|reply| reply.note(own));
        let ended = if self.foreign.is_some() { Outcome::Unwell } else { self.error.ended() };
        Stopped { ended, trouble: self.trouble, foreign: self.foreign }
    }

    /// With what status and events report of the write.
    fn of(self, write: &Write, scene: &Scene<'_>) -> Self {
        let now = scene.shared.runtime.clock.now();
        let trouble = match &self.error {
            // The planner reports a name that is taken: it observes it in the next pass.
            SendError::NotLeading | SendError::Exists | SendError::Changed(_) | SendError::Missing(_) => None,
            SendError::Invalid(why) | SendError::Forbidden(why) => {
                Some(trouble::write_refused(write, why, scene.seen, now))
            }
            SendError::Unknown(why) => Some(trouble::api_unavailable(write, why)),
        };
        Self { trouble, ..self }
    }
}

async fn written(scene: &Scene<'_>, write: &Write) -> Result<Reply, Failure> {
    replied(scene, write).await.map_err(|failure| failure.of(write, scene))
}

async fn replied(scene: &Scene<'_>, write: &Write) -> Result<Reply, Failure> {
    match (send::write(scene.shared, write).await, &write.act) {
        (Ok(reply), Act::Delete { uid, .. }) => Ok(Reply::deleted(write, uid, reply)),
        (Ok(object), Act::Create(_) | Act::Patch(_) | Act::PatchStatus(_)) => {
            Ok(Reply::Stands(write.kind, object))
        }
        (Err(error @ SendError::Missing(_)), Act::Delete { uid, .. }) => {
            absent(scene, write, uid, error).await
        }
        (Err(SendError::Exists), Act::Create(_)) => taken(scene, write).await,
        (Err(error @ SendError::Changed(_)), _) => {
            let fresh =
                send::read(scene.shared, write.kind, &write.namespace, &write.name).await.ok().flatten();
            let replies = fresh.into_iter().map(|object| Reply::Stands(write.kind, object)).collect();
            Err(Failure { replies, ..Failure::new(error) })
        }
        (Err(error), _) => Err(Failure::new(error)),
    }
}

/// What was to be gone is gone, if it really is: data are deleted on the strength of it, and a proxy that does not know the
/// path says the same.
async fn absent(scene: &Scene<'_>, write: &Write, uid: &str, error: SendError) -> Result<Reply, Failure> {
    match send::read(scene.shared, write.kind, &write.namespace, &write.name).await {
        Ok(Some(object)) if object["metadata"]["uid"] == uid => {
            Err(Failure { replies: vec![Reply::Stands(write.kind, object)], ..Failure::new(error) })
        }
        Ok(_) => Ok(Reply::gone(write, uid)),
        Err(error) => Err(Failure::new(error)),
    }
}

/// The name is taken. By us, if an earlier reply was lost or the cache is behind: then it is done. Else by somebody.
async fn taken(scene: &Scene<'_>, write: &Write) -> Result<Reply, Failure> {
    match send::read(scene.shared, write.kind, &write.namespace, &write.name).await {
        Ok(Some(object)) if is_ours(write.kind, &object, scene.cluster, &scene.seen.uid) => {
            let reply = Reply::Stands(write.kind, object);
            if write.kind == Kind::Secret && reply.pair().is_none() {
                let broken = format!(
                    "{} lacks one of ca.crt, tls.crt and tls.key; delete it to have it made anew",
                    write.object()
                );
                return Err(Failure { replies: vec![reply], ..Failure::new(SendError::Invalid(broken)) });
            }
            Ok(reply)
        }
        Ok(Some(_)) => {
            let foreign = Some(Foreign { kind: write.kind, name: write.name.clone() });
            Err(Failure { foreign, ..Failure::new(SendError::Exists) })
        }
        // Gone meanwhile: the next pass creates it.
        Ok(None) => Err(Failure::new(SendError::Exists)),
        Err(error) => Err(Failure::new(error)),
    }
}

/// Makes what is missing: first the authority, then the leaves it signs, side by side. A Secret that is there is taken as
/// it is, so that after a crash the same authority signs the rest.
async fn issue(scene: &Scene<'_>, cluster: &EtcdCluster) -> Result<Vec<Reply>, Failure> {
    let (at, uid) = (scene.cluster, &scene.seen.uid);
    let missing = certificate::missing(&scene.objects.secrets, at, uid);
    let now = scene.shared.runtime.clock.now();
    let failed = |error: IssueError| {
        let why = crate::runtime::watch::chain(&error);
        let what = Explanation::new(Reason::WriteRefused, format!("cannot issue certificates: {why}"));
        Failure { trouble: Some(what), ..Failure::new(SendError::Invalid(why)) }
    };
    let mut replies = Vec::new();
    let authority =
        if let Some(kept) = certificate::kept(Certificate::Authority, &scene.objects.secrets, at, uid) {
            Pair { cert: text(kept.cert), key: text(kept.key) }
        } else {
            let made = tls::authority(&certificate::authority_name(uid), now).map_err(failed)?;
            let write = certificate::secret(cluster, at, Certificate::Authority, &made.cert, made.borrowed());
            let reply = written(scene, &write).await?;
            let stands = reply.pair().unwrap_or(made);
            replies.push(reply);
            stands
        };
    let leaves = missing.into_iter().filter_map(|kind| Some((kind, kind.leaf(at)?)));
    let made: Result<Vec<Write>, IssueError> = leaves
        .map(|(kind, leaf)| {
            let made = tls::leaf(&authority, &leaf, now)?;
            Ok(certificate::secret(cluster, at, kind, &authority.cert, made.borrowed()))
        })
        .collect();
    let made = match made {
        Ok(made) => made,
        Err(error) => return Err(Failure { replies, ..failed(error) }),
    };
    let mut failure = None;
    for outcome in join_all(made.iter().map(|write| written(scene, write))).await {
        match outcome {
            Ok(reply) => replies.push(reply),
            Err(failed) => failure = failure.or(Some(failed)),
        }
    }
    match failure {
        None => Ok(replies),
        Some(mut failure) => {
            failure.replies.extend(replies);
            Err(failure)
        }
    }
}

impl Reply {
    /// The certificate and key in a Secret that was there before us.
    fn pair(&self) -> Option<Pair> {
        let Self::Stands(Kind::Secret, object) = self else { return None };
        let secret: k8s_openapi::api::core::v1::Secret = serde_json::from_value(object.clone()).ok()?;
        let data = secret.data?;
        let entry = |key: &str| data.get(key).map(|entry| text(&entry.0));
        // As `certificate::kept` has it: what that takes for missing must not count as made.
        entry(certificate::CA)?;
        Some(Pair { cert: entry(certificate::CERT)?, key: entry(certificate::KEY)? })
    }
}

fn text(pem: &[u8]) -> String {
    String::from_utf8_lossy(pem).into_owned()
}
