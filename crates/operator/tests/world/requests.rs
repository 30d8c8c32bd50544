//! The path between the operator and the API server: every request is logged here, and the test decides its outcome.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt};
use http::{Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, BodyStream, Full, StreamBody};
use kube::client::Body;
use quorate_manifests::{Act, Kind, Write};
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::members::Members;

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestOutcome {
    /// It arrives, and so does the reply.
    Open,
    /// It does not arrive, and no reply comes.
    Never,
    /// It arrives at a server that refuses it with this code and reason.
    Refused(u16, &'static str),
    /// It is carried out, and the server replies with this code and reason.
    RefusedAfter(u16, &'static str),
    /// The connection breaks before it arrives.
    NotSent,
    /// The connection breaks after it was carried out.
    ReplyLost,
    /// It arrives twice; the second reply counts.
    Twice,
    /// It arrives after this, and so does the reply.
    Slow(Duration),
    /// It arrives after this, when the client no longer waits for the reply.
    Late(Duration),
    /// It arrives, and the reply is kept for later.
    Keep,
    /// The first reply that was kept for this path is sent again.
    Replay,
}

/// A request that was sent.
#[derive(Clone, Debug)]
pub struct Sent {
    pub at: Instant,
    pub method: Method,
    pub path: String,
    pub query: String,
    pub body: Value,
}

/// Everything that was sent, in order.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    sent: Vec<Sent>,
    /// Replies, by path.
    replies: BTreeMap<String, Bytes>,
    /// Ends every open watch.
    cut: CancellationToken,
}

type Reply = Response<UnsyncBoxBody<Bytes, tower::BoxError>>;

/// A client whose requests get the outcome that `decide` returns.
pub fn through(
    inner: kube::Client,
    log: Log,
    members: Members,
    decide: impl Fn(&Sent) -> RequestOutcome + Send + Sync + 'static,
) -> kube::Client {
    let decide = Arc::new(decide);
    let service = tower::service_fn(move |request: Request<Body>| {
        let (inner, log, members) = (inner.clone(), log.clone(), members.clone());
        let decide = decide.clone();
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect_bytes().await?;
            let sent = Sent {
                at: Instant::now(),
                method: parts.method.clone(),
                path: parts.uri.path().to_owned(),
                query: parts.uri.query().unwrap_or_default().to_owned(),
                body: serde_json::from_slice(&body).unwrap_or_default(),
            };
            log.lock().sent.push(sent.clone());
            let outcome = decide(&sent);
            let again = || Request::from_parts(parts.clone(), Body::from(body.to_vec()));
            let arrive = async || {
                if let Some(write) = sent.as_write() {
                    members.observe_write(write);
                }
                let reply = inner.send(again()).await?;
                Ok::<Reply, kube::Error>(reply.map(|body| log.until_cut(body)))
            };
            match outcome {
                RequestOutcome::Open => arrive().await,
                RequestOutcome::Never => std::future::pending().await,
                RequestOutcome::Refused(code, reason) => Ok(refusal(code, reason)),
                RequestOutcome::RefusedAfter(code, reason) => {
                    arrive().await?;
                    Ok(refusal(code, reason))
                }
                RequestOutcome::NotSent => Err(broken()),
                RequestOutcome::Keep => {
                    let (parts, body) = arrive().await?.into_parts();
                    let body = body.collect().await.map_err(kube::Error::Service)?.to_bytes();
                    log.lock().replies.entry(sent.path.clone()).or_insert_with(|| body.clone());
                    Ok(Response::from_parts(parts, whole(body)))
                }
                RequestOutcome::Replay => {
                    let kept = log.lock().replies.get(&sent.path).cloned();
                    Ok(Response::new(whole(kept.expect("a reply was kept"))))
                }
                RequestOutcome::ReplyLost => {
                    let _ = arrive().await;
                    Err(broken())
                }
                RequestOutcome::Twice => {
                    let _ = arrive().await;
                    arrive().await
                }
                RequestOutcome::Slow(by) => {
                    tokio::time::sleep(by).await;
                    arrive().await
                }
                RequestOutcome::Late(by) => {
                    let (inner, request, write) = (inner.clone(), again(), sent.as_write());
                    tokio::spawn(async move {
                        tokio::time::sleep(by).await;
                        if let Some(write) = write {
                            members.observe_write(write);
                        }
                        let _ = inner.send(request).await;
                    });
                    std::future::pending().await
                }
            }
        }
    });
    kube::Client::new(service, "default")
}

fn refusal(code: u16, reason: &str) -> Reply {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "code": code, "reason": reason, "message": format!("{reason} by the test"),
    });
    Response::builder().status(code).body(whole(status.to_string().into())).expect("a plain answer")
}

fn whole(bytes: Bytes) -> UnsyncBoxBody<Bytes, tower::BoxError> {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

fn broken() -> kube::Error {
    kube::Error::ReadEvents(std::io::Error::other("the connection broke"))
}

impl Log {
    /// Every request so far.
    pub fn all(&self) -> Vec<Sent> {
        self.lock().sent.clone()
    }

    /// Breaks every open watch.
    pub fn cut_watches(&self) {
        std::mem::take(&mut self.lock().cut).cancel();
    }

    /// Forgets the replies that were kept.
    pub fn forget_replies(&self) {
        self.lock().replies.clear();
    }

    fn until_cut(&self, body: Body) -> UnsyncBoxBody<Bytes, tower::BoxError> {
        let cut = self.lock().cut.clone().cancelled_owned();
        let frames = TryStreamExt::map_err(BodyStream::new(body), tower::BoxError::from).take_until(cut);
        UnsyncBoxBody::new(StreamBody::new(frames))
    }

    /// Every write so far, without leases and events.
    pub fn writes(&self) -> Vec<Sent> {
        self.all().into_iter().filter(Sent::writes).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sent {
    /// Whether it creates a Pod that gets the agent by an image volume.
    pub fn has_image_volume(&self) -> bool {
        let volumes = self.body.pointer("/spec/volumes").and_then(Value::as_array);
        volumes.into_iter().flatten().any(|volume| volume.get("image").is_some())
    }

    /// Whether it creates a Pod.
    pub fn creates_pod(&self) -> bool {
        self.method == Method::POST && self.kind() == "pods"
    }

    /// Whether it is a write, of anything but a lease or an event.
    pub fn writes(&self) -> bool {
        self.method != Method::GET && !self.path.contains("/events") && !self.path.contains("/leases")
    }

    /// The kind of the object, with its subresource: `etcdclusters/status`.
    pub fn kind(&self) -> String {
        let parts: Vec<&str> = self.path.split('/').filter(|part| !part.is_empty()).collect();
        let at = parts.iter().position(|part| *part == "namespaces").map_or(parts.len(), |at| at + 2);
        match parts.get(at..).unwrap_or_default() {
            [kind, _, sub] => format!("{kind}/{sub}"),
            [kind, ..] => (*kind).to_owned(),
            [] => String::new(),
        }
    }

    /// The write that the operator sent, if this is one to an object of a cluster.
    fn as_write(&self) -> Option<Write> {
        let kind = match self.kind().split('/').next()? {
            "etcdclusters" => Kind::Cluster,
            "pods" => Kind::Pod,
            "persistentvolumeclaims" => Kind::Volume,
            "services" => Kind::Service,
            "poddisruptionbudgets" => Kind::Budget,
            "secrets" => Kind::Secret,
            "networkpolicies" => Kind::NetworkPolicy,
            _ => return None,
        };
        let parts: Vec<&str> = self.path.split('/').collect();
        let at = parts.iter().position(|part| *part == "namespaces")?;
        let namespace = (*parts.get(at + 1)?).to_owned();
        let name = || parts.get(at + 3).map(|name| (*name).to_owned());
        let text =
            |pointer: &str| self.body.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (name, act) = match self.method.as_str() {
            "POST" => (text("/metadata/name"), Act::Create(self.body.clone())),
            "PATCH" if self.path.ends_with("/status") => (name()?, Act::PatchStatus(self.body.clone())),
            "PATCH" => (name()?, Act::Patch(self.body.clone())),
            "DELETE" => {
                let uid = text("/preconditions/uid");
                (name()?, Act::Delete { uid, resource_version: text("/preconditions/resourceVersion") })
            }
            _ => return None,
        };
        Some(Write { kind, namespace, name, act })
    }
}
