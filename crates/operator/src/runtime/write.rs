//! Writes of the controllers whose objects are few and typed: one request each, within a deadline, and only while this operator leads.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, ServiceAccount};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy};
use kube::core::{NamespaceResourceScope, Status};
use kube::{Api, Resource};
use quorate_manifests::merge_patch;
use quorate_model::Step;
use quorate_model::crash_point::CrashSide;
use quorate_orders::admission::{Used, refused, used_by};
use quorate_reconcile::WriteError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::runtime::controller::Runtime;
use crate::runtime::lease::WRITE_DEADLINE;
use crate::runtime::watch::chain;

/// The longest time in seconds that the API server may ask for.
const LONGEST_THROTTLE: u32 = 60;

/// The objects of one kind in one namespace.
pub(crate) struct Writer<'a, K> {
    runtime: &'a Runtime,
    api: Api<K>,
}

impl<'a, K> Writer<'a, K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Serialize
        + DeserializeOwned
        + std::fmt::Debug,
{
    /// Writes in a namespace.
    pub(crate) fn new(runtime: &'a Runtime, namespace: &str) -> Self {
        Self { runtime, api: Api::namespaced(runtime.client.clone(), namespace) }
    }

    /// The object as it is now, not as the watch has it.
    pub(crate) async fn read(&self, name: &str) -> Result<Option<K>, WriteError> {
        reply(timeout(WRITE_DEADLINE, self.api.get_opt(name)).await)
    }

    /// Creates an object; refused if its name is taken.
    pub(crate) async fn create(&self, step: Step, object: &K) -> Result<K, WriteError> {
        let how = PostParams::default();
        self.at(step, self.api.create(&how, object)).await
    }

    /// Changes the metadata of an object, if it is still as it was observed.
    pub(crate) async fn patch_metadata(
        &self,
        step: Step,
        seen: &K,
        metadata: Value,
    ) -> Result<K, WriteError> {
        let patch = Patch::Merge(preconditioned(seen, json!({ "metadata": metadata })));
        let name = seen.meta().name.clone().unwrap_or_default();
        self.at(step, self.api.patch(&name, &PatchParams::default(), &patch)).await
    }

    /// Changes an object by a merge patch with preconditions of its own.
    pub(crate) async fn patch(&self, step: Step, name: &str, patch: &Value) -> Result<K, WriteError> {
        self.at(step, self.api.patch(name, &PatchParams::default(), &Patch::Merge(patch))).await
    }

    /// Writes the status of an object, if it is still as it was observed.
    pub(crate) async fn patch_status(&self, step: Step, seen: &K, status: Value) -> Result<K, WriteError> {
        let patch = Patch::Merge(preconditioned(seen, json!({ "metadata": {}, "status": status })));
        let name = seen.meta().name.clone().unwrap_or_default();
        self.at(step, self.api.patch_status(&name, &PatchParams::default(), &patch)).await
    }

    /// Deletes an object, if it is still as it was observed. What it owns is deleted in the background.
    #[expect(clippy::disallowed_methods, reason = "with uid and resourceVersion")]
    pub(crate) async fn delete(&self, step: Step, seen: &K) -> Result<(), WriteError> {
        let meta = seen.meta();
        let preconditions =
            Preconditions { uid: meta.uid.clone(), resource_version: meta.resource_version.clone() };
        let how = DeleteParams {
            preconditions: Some(preconditions),
            propagation_policy: Some(PropagationPolicy::Background),
            ..DeleteParams::default()
        };
        let name = meta.name.clone().unwrap_or_default();
        self.at(step, self.api.delete(&name, &how)).await.map(drop)
    }

    async fn at<T>(&self, step: Step, write: impl Future<Output = kube::Result<T>>) -> Result<T, WriteError> {
        write_at(self.runtime, step, self.namespace(), write).await
    }

    fn namespace(&self) -> &str {
        self.api.namespace().unwrap_or_default()
    }
}

impl Writer<'_, Job> {
    /// Creates a Job, unless it uses what is not for backups. That is forbidden.
    pub(crate) async fn create_admitted(&self, step: Step, job: &Job) -> Result<Job, WriteError> {
        let accounts = Writer::<ServiceAccount>::new(self.runtime, self.namespace());
        let claims = Writer::<PersistentVolumeClaim>::new(self.runtime, self.namespace());
        for used in used_by(job) {
            let found = match &used {
                Used::Identity(name) => accounts.read(name).await?.map(|account| account.metadata),
                Used::Claim(name) => claims.read(name).await?.map(|claim| claim.metadata),
            };
            if let Some(why) = refused(&used, found.as_ref()) {
                return Err(WriteError::Forbidden(why));
            }
        }
        self.create(step, job).await
    }
}

/// One write for an object of this namespace: a numbered step, before and after which the process may end.
pub(crate) async fn write_at<T>(
    runtime: &Runtime,
    step: Step,
    namespace: &str,
    write: impl Future<Output = kube::Result<T>>,
) -> Result<T, WriteError> {
    runtime.hook.reached(CrashSide::Before, step).await;
    let written = in_turn(runtime, namespace, write).await?;
    runtime.hook.reached(CrashSide::After, step).await;
    Ok(written)
}

/// One write when it is the turn of its namespace.
async fn in_turn<T>(
    runtime: &Runtime,
    namespace: &str,
    write: impl Future<Output = kube::Result<T>>,
) -> Result<T, WriteError> {
    let permit = runtime.writers.acquire(namespace).await;
    if !runtime.leadership.may_act() {
        runtime.metrics.dropped_write();
        return Err(WriteError::NotLeading);
    }
    let written = reply(timeout(WRITE_DEADLINE, write).await);
    permit.ended(&written);
    written
}

/// The merge patch that makes one status of another.
pub(crate) fn status_patch<S: Serialize>(before: Option<&S>, after: &S) -> Value {
    merge_patch(&json!(before), &json!(after)).unwrap_or_else(|| json!({}))
}

/// A merge patch for this object and this version of it.
fn preconditioned(seen: &impl Resource, mut patch: Value) -> Value {
    patch["metadata"]["uid"] = json!(seen.meta().uid);
    patch["metadata"]["resourceVersion"] = json!(seen.meta().resource_version);
    patch
}

/// The class of what the API server says instead of the object.
pub(crate) fn refusal(status: &Status) -> WriteError {
    let error = WriteError::from_status(status.code, &status.reason, status.message.clone());
    let after = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
    match error {
        WriteError::Throttled(_, why) if after > 0 => WriteError::Throttled(after.min(LONGEST_THROTTLE), why),
        error @ (WriteError::NotLeading
        | WriteError::Outdated
        | WriteError::Exists
        | WriteError::Changed(_)
        | WriteError::Missing(_)
        | WriteError::Invalid(_)
        | WriteError::Forbidden(_)
        | WriteError::Blocked(_)
        | WriteError::Throttled(..)
        | WriteError::Unknown(_)) => error,
    }
}

/// The reply of the API server within the deadline.
pub(crate) fn reply<T>(reply: Result<kube::Result<T>, tokio::time::error::Elapsed>) -> Result<T, WriteError> {
    match reply {
        Ok(Ok(object)) => Ok(object),
        Ok(Err(kube::Error::Api(status))) => Err(refusal(&status)),
        Ok(Err(error)) => Err(WriteError::Unknown(chain(&error))),
        Err(_) => Err(WriteError::Unknown(format!("no answer within {WRITE_DEADLINE:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the API server makes of a merge patch, by the algorithm of RFC 7386.
    fn merged(target: &Value, patch: &Value) -> Value {
        let Value::Object(patch) = patch else { return patch.clone() };
        let mut target = target.as_object().cloned().unwrap_or_default();
        for (field, value) in patch {
            if value.is_null() {
                target.remove(field);
            } else {
                let merged = merged(target.get(field).unwrap_or(&Value::Null), value);
                target.insert(field.clone(), merged);
            }
        }
        Value::Object(target)
    }

    #[test]
    fn o15_a_status_is_written_as_it_is_also_where_an_inner_object_has_lost_a_field() {
        let failed =
            json!({"look": {"jobName": "a", "failed": "t", "reason": "r", "deep": {"x": 1, "y": 2}}, "n": 1});
        let table = [
            (json!({"look": {"jobName": "b"}, "n": 2}), "a fresh try"),
            (json!({"look": {"jobName": "b", "deep": {"y": 3}}}), "deeper"),
            (json!({"n": 1}), "the whole of it"),
            (json!({"look": [{"jobName": "b"}]}), "an array for an object"),
            (json!({"look": {"failed": {"at": "t"}}}), "an object for a text"),
            (json!({}), "nothing"),
        ];
        for (after, what) in table {
            let patch = status_patch(Some(&failed), &after);
            assert_eq!(merged(&failed, &patch), after, "{what}: {patch}");
            assert_eq!(merged(&Value::Null, &status_patch(None, &after)), after, "{what}");
        }
        let listed = json!({"conditions": [{"type": "A", "reason": "r"}]});
        let shorter = json!({"conditions": [{"type": "A"}]});
        assert_eq!(status_patch(Some(&listed), &shorter), shorter);
    }
}
