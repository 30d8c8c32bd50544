//! The writes of a pass: requests to the Kubernetes API and calls to etcd. Each is sent at most once, within a deadline, and
//! only while this operator leads. `quorate_reconcile` decides what follows from a reply.

use kube::api::GetParams;
use quorate_etcd::{CallError as EtcdError, MemberClient};
use quorate_manifests::{Act, Kind, Write};
use quorate_model::MemberName;
use quorate_model::effect::EtcdCall;
use quorate_reconcile::{CallError, Object, WriteError};
use serde_json::Value;
use tokio::time::timeout;

use crate::controllers::cluster::Shared;
use crate::controllers::cluster::observe::count;
use crate::runtime::lease::WRITE_DEADLINE;

/// Sends a write. Returns the current object, if it exists.
pub(super) async fn write(shared: &Shared, write: &Write) -> Result<Option<Object>, WriteError> {
    let request = write.http().map_err(|error| WriteError::Invalid(error.to_string()))?;
    // The semaphore is never closed. What is bounded is the load on the API server, nothing else waits in here.
    let _permit = shared.runtime.writers.acquire().await;
    if !shared.runtime.leadership.may_act() {
        shared.runtime.metrics.dropped_write();
        return Err(WriteError::NotLeading);
    }
    let reply = send(shared, request).await?;
    let is_delete = matches!(write.act, Act::Delete { .. });
    // The reply for an object that is deleted at once is only "Success".
    if is_delete && !reply["metadata"]["uid"].is_string() {
        return Ok(None);
    }
    parsed(write.kind, reply).map(Some)
}

/// Reads the current object; `None` if it does not exist.
pub(super) async fn read(
    shared: &Shared,
    kind: Kind,
    namespace: &str,
    name: &str,
) -> Result<Option<Object>, WriteError> {
    let path = kube::core::Request::new(kind.collection(namespace));
    let request =
        path.get(name, &GetParams::default()).map_err(|error| WriteError::Invalid(error.to_string()))?;
    match send(shared, request).await {
        Ok(object) => parsed(kind, object).map(Some),
        Err(WriteError::Missing(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Makes one call at one member.
pub(super) async fn call(
    shared: &Shared,
    at: MemberName,
    client: Option<MemberClient>,
    call: EtcdCall,
) -> Result<(), CallError> {
    let client = client.ok_or(CallError::NoConnection(at))?;
    if !shared.runtime.leadership.may_act() {
        shared.runtime.metrics.dropped_write();
        return Err(CallError::NotLeading);
    }
    let (method, called) = match call {
        EtcdCall::AddLearner { peer_url, .. } => {
            ("member_add", client.member_add_learner(&peer_url).await.map(drop))
        }
        EtcdCall::Promote { id, .. } => ("member_promote", client.member_promote(id).await.map(drop)),
        EtcdCall::RemoveMember { id, .. } => ("member_remove", client.member_remove(id).await.map(drop)),
        EtcdCall::MoveLeadership { to_id, .. } => ("move_leader", client.move_leader(to_id).await.map(drop)),
    };
    count(&shared.metrics, method, called).map_err(|error| match error {
        EtcdError::Refused(refusal, message) => CallError::Refused(refusal, message),
        EtcdError::Unknown(message) => CallError::Unknown(message),
        EtcdError::Unreachable(message) => CallError::Unreachable(message),
    })
}

async fn send(shared: &Shared, request: http::Request<Vec<u8>>) -> Result<Value, WriteError> {
    match timeout(WRITE_DEADLINE, shared.runtime.client.request::<Value>(request)).await {
        Ok(reply) => reply.map_err(|error| failed(&error)),
        Err(_) => Err(WriteError::Unknown(format!("no answer within {WRITE_DEADLINE:?}"))),
    }
}

fn failed(error: &kube::Error) -> WriteError {
    match error {
        kube::Error::Api(status) => {
            WriteError::from_status(status.code, &status.reason, status.message.clone())
        }
        error => WriteError::Unknown(crate::runtime::watch::chain(error)),
    }
}

fn parsed(kind: Kind, object: Value) -> Result<Object, WriteError> {
    Object::parse(kind, object)
        .map_err(|error| WriteError::Unknown(format!("the API server replied with something else: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_breaks_leaves_the_outcome_unknown() {
        let lost = kube::Error::ReadEvents(std::io::Error::other("reset"));
        assert!(matches!(failed(&lost), WriteError::Unknown(text) if text.contains("reset")));
    }
}
