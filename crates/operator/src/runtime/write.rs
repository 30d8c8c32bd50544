//! Writes of the controllers whose objects are few and typed: one request each, within a deadline, and only while this operator leads.

use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy};
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource};
use quorate_reconcile::WriteError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::runtime::controller::Runtime;
use crate::runtime::lease::WRITE_DEADLINE;
use crate::runtime::watch::chain;

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
    pub(crate) async fn create(&self, object: &K) -> Result<K, WriteError> {
        let _permit = self.may_write().await?;
        reply(timeout(WRITE_DEADLINE, self.api.create(&PostParams::default(), object)).await)
    }

    /// Changes the metadata of an object, if it is still as it was observed.
    pub(crate) async fn patch_metadata(&self, seen: &K, metadata: Value) -> Result<K, WriteError> {
        let _permit = self.may_write().await?;
        let patch = Patch::Merge(preconditioned(seen, json!({ "metadata": metadata })));
        let name = seen.meta().name.clone().unwrap_or_default();
        reply(timeout(WRITE_DEADLINE, self.api.patch(&name, &PatchParams::default(), &patch)).await)
    }

    /// Writes the status of an object, if it is still as it was observed.
    pub(crate) async fn patch_status(&self, seen: &K, status: Value) -> Result<K, WriteError> {
        let _permit = self.may_write().await?;
        let patch = Patch::Merge(preconditioned(seen, json!({ "metadata": {}, "status": status })));
        let name = seen.meta().name.clone().unwrap_or_default();
        reply(timeout(WRITE_DEADLINE, self.api.patch_status(&name, &PatchParams::default(), &patch)).await)
    }

    /// Deletes an object, if it is still as it was observed. What it owns is deleted in the background.
    #[expect(clippy::disallowed_methods, reason = "with uid and resourceVersion")]
    pub(crate) async fn delete(&self, seen: &K) -> Result<(), WriteError> {
        let _permit = self.may_write().await?;
        let meta = seen.meta();
        let preconditions =
            Preconditions { uid: meta.uid.clone(), resource_version: meta.resource_version.clone() };
        let how = DeleteParams {
            preconditions: Some(preconditions),
            propagation_policy: Some(PropagationPolicy::Background),
            ..DeleteParams::default()
        };
        let name = meta.name.clone().unwrap_or_default();
        reply(timeout(WRITE_DEADLINE, self.api.delete(&name, &how)).await).map(drop)
    }

    async fn may_write(&self) -> Result<tokio::sync::SemaphorePermit<'a>, WriteError> {
        // The semaphore is never closed.
        let permit = self.runtime.writers.acquire().await.map_err(|_| WriteError::NotLeading)?;
        if self.runtime.leadership.may_act() {
            return Ok(permit);
        }
        self.runtime.metrics.dropped_write();
        Err(WriteError::NotLeading)
    }
}

/// A merge patch for this object and this version of it.
fn preconditioned(seen: &impl Resource, mut patch: Value) -> Value {
    patch["metadata"]["uid"] = json!(seen.meta().uid);
    patch["metadata"]["resourceVersion"] = json!(seen.meta().resource_version);
    patch
}

fn reply<T>(reply: Result<kube::Result<T>, tokio::time::error::Elapsed>) -> Result<T, WriteError> {
    match reply {
        Ok(Ok(object)) => Ok(object),
        Ok(Err(kube::Error::Api(status))) => {
            Err(WriteError::from_status(status.code, &status.reason, status.message.clone()))
        }
        Ok(Err(error)) => Err(WriteError::Unknown(chain(&error))),
        Err(_) => Err(WriteError::Unknown(format!("no answer within {WRITE_DEADLINE:?}"))),
    }
}
