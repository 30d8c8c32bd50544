//! The writes of a pass: requests to the Kubernetes API and calls to etcd. Each is sent at most once, within a deadline, and
//! only while this operator leads. `quorate_reconcile` decides what follows from a reply.

use std::collections::BTreeSet;

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Api;
use kube::api::{GetParams, ListParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use quorate_api::EtcdUser;
use quorate_etcd::{CallError as EtcdError, MemberClient};
use quorate_manifests::{Act, Kind, Write, cert_manager};
use quorate_model::effect::EtcdCall;
use quorate_model::mutants::{Rule, is_broken};
use quorate_model::snapshot::Alarm;
use quorate_model::{Instant, MemberName};
use quorate_reconcile::{CallError, Object, WriteError};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::controllers::cluster::observe::count;
use crate::controllers::cluster::{Shared, auth};
use crate::runtime::lease::WRITE_DEADLINE;
use crate::runtime::write::refusal;

/// How many CertificateRequests are read.
const REQUESTS: u32 = 200;

/// Sends a write. Returns the current object, if it exists.
pub(super) async fn write(
    shared: &Shared,
    write: &Write,
    not_after: Option<Instant>,
) -> Result<Option<Object>, WriteError> {
    let request = write.http().map_err(|error| WriteError::Invalid(error.to_string()))?;
    let permit = shared.runtime.writers.acquire(&write.namespace).await;
    if !shared.runtime.leadership.may_act() {
        shared.runtime.metrics.dropped_write();
        return Err(WriteError::NotLeading);
    }
    // Checked here, because a write may have waited long for its turn.
    if is_too_late(shared, not_after) {
        return Err(WriteError::Outdated);
    }
    let reply = match &write.act {
        Act::Evict { .. } => evict(shared, write, request).await,
        Act::Create(_) | Act::Patch(_) | Act::PatchStatus(_) | Act::Delete { .. } => {
            send(shared, request).await
        }
    };
    permit.ended(&reply);
    let reply = reply?;
    let leaves_nothing = matches!(write.act, Act::Evict { .. } | Act::Delete { .. });
    // The reply to an eviction, and for an object that is deleted at once, is only "Success".
    if leaves_nothing && !reply["metadata"]["uid"].is_string() {
        return Ok(None);
    }
    parsed(write.kind, reply).map(Some)
}

/// Asks whether a creation would be admitted. Nothing is created, so any operator may ask.
pub(super) async fn dry_run(shared: &Shared, write: &Write) -> Result<(), WriteError> {
    let Some(request) = write.dry_run() else {
        return Err(WriteError::Invalid(format!("nothing is created: {}", write.describe())));
    };
    let request = request.map_err(|error| WriteError::Invalid(error.to_string()))?;
    let permit = shared.runtime.writers.acquire(&write.namespace).await;
    let reply = send(shared, request).await;
    permit.ended(&reply);
    reply.map(drop)
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
    // The deadline is also that of the turn: what waits longer than an answer may take is no answer.
    let reply = timeout(WRITE_DEADLINE, async {
        let _permit = shared.runtime.readers.acquire().await;
        send(shared, request).await
    });
    match reply.await.unwrap_or_else(|_| Err(unanswered())) {
        Ok(object) => parsed(kind, object).map(Some),
        Err(WriteError::Missing(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The newest CertificateRequests of cert-manager in a namespace, of which that of each Certificate says why it is not issued.
pub(super) async fn certificate_requests(shared: &Shared, namespace: &str) -> Result<Vec<Value>, String> {
    let kind = GroupVersionKind::gvk(cert_manager::GROUP, cert_manager::VERSION, "CertificateRequest");
    let resource = ApiResource::from_gvk_with_plural(&kind, "certificaterequests");
    let requests: Api<DynamicObject> =
        Api::namespaced_with(shared.runtime.client.clone(), namespace, &resource);
    let how = ListParams::default().limit(REQUESTS);
    let listed = timeout(WRITE_DEADLINE, async {
        let _permit = shared.runtime.readers.acquire().await;
        requests.list(&how).await
    });
    match listed.await {
        Ok(Ok(list)) => Ok(list.items.iter().map(|one| json!(one)).collect()),
        Ok(Err(error)) => Err(crate::runtime::watch::chain(&error)),
        Err(_) => Err(unanswered().to_string()),
    }
}

/// The uids of the EtcdUsers of a namespace, as the API server has them now: no old list is taken, and one that it does not have whole is none.
pub(super) async fn uids_of_users(shared: &Shared, namespace: &str) -> Result<BTreeSet<String>, WriteError> {
    let users = Api::<EtcdUser>::namespaced(shared.runtime.client.clone(), namespace);
    let listed = timeout(WRITE_DEADLINE, async {
        let _permit = shared.runtime.readers.acquire().await;
        users.list_metadata(&ListParams::default()).await
    });
    let listed = listed.await.map_err(|_| unanswered())?.map_err(|error| failed(&error))?;
    if listed.metadata.continue_.as_deref().is_some_and(|more| !more.is_empty()) {
        return Err(WriteError::Unknown("the list of EtcdUsers is not whole".to_owned()));
    }
    Ok(listed.items.into_iter().filter_map(|user| user.metadata.uid).collect())
}

/// Makes one call at one member.
pub(super) async fn call(
    shared: &Shared,
    at: MemberName,
    client: Option<MemberClient>,
    call: EtcdCall,
    not_after: Option<Instant>,
) -> Result<(), CallError> {
    let client = client.ok_or(CallError::NoConnection(at))?;
    if !shared.runtime.leadership.may_act() {
        shared.runtime.metrics.dropped_write();
        return Err(CallError::NotLeading);
    }
    if is_too_late(shared, not_after) {
        return Err(CallError::Outdated);
    }
    let (method, called) = match call {
        EtcdCall::AddLearner { peer_url, .. } => {
            ("member_add", client.member_add_learner(&peer_url).await.map(drop))
        }
        EtcdCall::Promote { id, .. } => ("member_promote", client.member_promote(id).await.map(drop)),
        EtcdCall::RemoveMember { id, .. } => ("member_remove", client.member_remove(id).await.map(drop)),
        EtcdCall::MoveLeadership { to_id, .. } => ("move_leader", client.move_leader(to_id).await.map(drop)),
        EtcdCall::Downgrade { action, to } => ("downgrade", client.downgrade(action, to).await),
        EtcdCall::Disarm { member, kind } => ("alarm_disarm", client.disarm(Alarm { member, kind }).await),
        EtcdCall::Compact { revision } => ("compact", client.compact(revision).await),
        EtcdCall::Defragment { .. } => ("defragment", client.defragment().await),
        EtcdCall::Auth { change } => auth::change(&client, change).await,
        EtcdCall::DeleteUser { user } => auth::revoke(&client, &user, false).await,
        EtcdCall::DeleteRole { user } => auth::revoke(&client, &user, true).await,
    };
    count(&shared.metrics, method, called).map_err(|error| match error {
        EtcdError::Refused(refusal, message) => CallError::Refused(refusal, message),
        EtcdError::Unknown(message) => CallError::Unknown(message),
        EtcdError::Unreachable(message) => CallError::Unreachable(message),
    })
}

/// Sends an eviction. 429: a budget admits none now. 500: several budgets select the Pod; they are named.
async fn evict(shared: &Shared, write: &Write, request: http::Request<Vec<u8>>) -> Result<Value, WriteError> {
    let client = &shared.runtime.client;
    match timeout(WRITE_DEADLINE, client.request::<Value>(request)).await {
        // Without a budget it is the API server that has too many requests.
        Ok(Err(kube::Error::Api(status))) if status.code == 429 && status.message.contains("budget") => {
            let causes = status.details.iter().flat_map(|details| &details.causes);
            let causes: Vec<&str> = causes.map(|cause| cause.message.as_str()).collect();
            let (message, causes) = (status.message.trim_end_matches('.'), causes.join(" "));
            Err(WriteError::Blocked(format!("{message}. {causes}").trim_end().to_owned()))
        }
        Ok(Err(kube::Error::Api(status)))
            if status.code == 500 && status.message.contains("more than one PodDisruptionBudget") =>
        {
            let budgets = Api::<PodDisruptionBudget>::namespaced(client.clone(), &write.namespace);
            let listed = timeout(WRITE_DEADLINE, budgets.list(&ListParams::default())).await;
            let listed = listed.ok().and_then(Result::ok).map(|list| list.items).unwrap_or_default();
            let names: Vec<String> = listed.iter().map(kube::ResourceExt::name_any).collect();
            let message = status.message.trim_end_matches('.');
            Err(WriteError::Blocked(format!(
                "{message}. PodDisruptionBudgets in namespace {}: {}",
                write.namespace,
                names.join(", ")
            )))
        }
        Ok(reply) => reply.map_err(|error| failed(&error)),
        Err(_) => Err(unanswered()),
    }
}

/// R18: what the request rests on was observed too long ago.
fn is_too_late(shared: &Shared, not_after: Option<Instant>) -> bool {
    let too_late = not_after.is_some_and(|not_after| shared.runtime.clock.now() > not_after);
    if too_late && !is_broken(Rule::R18) {
        shared.runtime.metrics.dropped_write();
        return true;
    }
    false
}

async fn send(shared: &Shared, request: http::Request<Vec<u8>>) -> Result<Value, WriteError> {
    match timeout(WRITE_DEADLINE, shared.runtime.client.request::<Value>(request)).await {
        Ok(reply) => reply.map_err(|error| failed(&error)),
        Err(_) => Err(unanswered()),
    }
}

fn unanswered() -> WriteError {
    WriteError::Unknown(format!("no answer within {WRITE_DEADLINE:?}"))
}

fn failed(error: &kube::Error) -> WriteError {
    match error {
        kube::Error::Api(status) => refusal(status),
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
