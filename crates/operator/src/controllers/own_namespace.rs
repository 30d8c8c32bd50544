//! The end of an operator whose own namespace is being deleted, with its objects in it.
//!
//! Kubernetes deletes the Pods of a namespace first, this operator's among them, and everything else once no Pod is left. Then nobody takes the
//! operator's finalizers off, and the namespace stays for good. So an operator that is asked to end asks whether its own namespace is being
//! deleted, which is never taken back, and if so takes them off: what they are there for, the end of the namespace does, or forbids.
//!
//! Every replica does so, whether it holds the lease or not: the one that holds it may have been killed. `docs/protocols/delete.md` says why
//! R13 is not for these writes.

use std::time::Duration;

use futures::FutureExt as _;
use futures::stream::{self, StreamExt as _};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::core::{DeserializeGuard, NamespaceResourceScope};
use kube::{Resource, ResourceExt as _};
use quorate_api::backup::DeletionPolicy;
use quorate_api::{EtcdBackup, EtcdCluster, EtcdUser, keys};
use quorate_orders::backup::abandoned;
use quorate_reconcile::WriteError;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use crate::runtime::lease::WRITE_DEADLINE;
use crate::runtime::write::reply;

/// How long all of it may take: less than the time that Kubernetes gives the operator's Pod to end (30 s, in the chart).
const BOUND: Duration = Duration::from_secs(20);

/// When the question is asked for the last time: while workers end, so that the lease of an ordinary restart is let go soon.
const ASKS_FOR: Duration = Duration::from_secs(8);

/// The delay after what may succeed next time.
const RETRY: Duration = Duration::from_secs(1);

/// How many writes may be under way.
const AT_A_TIME: usize = 16;

/// The namespace of an operator that is ending.
pub(crate) struct OwnNamespace {
    client: kube::Client,
    name: String,
    begun: Instant,
}

impl OwnNamespace {
    /// Of an operator that was asked to end just now.
    pub(crate) fn new(client: kube::Client, name: String) -> Self {
        Self { client, name, begun: Instant::now() }
    }

    /// Whether it is being deleted. False as well where that cannot be asked.
    pub(crate) async fn is_going(&self) -> bool {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        loop {
            let error = match reply(timeout(WRITE_DEADLINE, namespaces.get(&self.name)).await) {
                Ok(namespace) => return namespace.metadata.deletion_timestamp.is_some(),
                Err(error) => error,
            };
            if is_final(&error) || self.begun.elapsed() + RETRY > ASKS_FOR {
                tracing::warn!(namespace = %self.name, %error, "whether the operator's own namespace is being deleted cannot be asked: no finalizer is taken off");
                return false;
            }
            sleep(RETRY).await;
        }
    }

    /// Takes the operator's finalizers off everything in it. No worker may run any more: it would put them back.
    pub(crate) async fn let_all_go(&self) {
        tracing::info!(namespace = %self.name, "the operator's own namespace is being deleted: its finalizers are taken off");
        loop {
            let (clusters, backups, users) = tokio::join!(
                self.let_go(keys::FINALIZER, cluster),
                self.let_go(keys::BACKUP_FINALIZER, backup),
                self.let_go(keys::USER_FINALIZER, user)
            );
            // Of the same objects, so after the first.
            let published = self.let_go(keys::DATA_STORE_FINALIZER, data_store).await;
            let replies = [clusters, backups, users, published];
            let errors: Vec<WriteError> = replies.into_iter().filter_map(Result::err).collect();
            let Some(error) = errors.first() else { return };
            if errors.iter().all(is_final) || !self.has_time() {
                tracing::error!(namespace = %self.name, %error, "finalizers are left, and nobody takes them off any more");
                return;
            }
            sleep(RETRY).await;
        }
    }

    /// One round over the objects of a kind. Returns an error if one may be left with the finalizer.
    async fn let_go<K>(
        &self,
        finalizer: &'static str,
        what_is_left: fn(&K) -> Option<String>,
    ) -> Result<(), WriteError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
        K: Clone + DeserializeOwned + std::fmt::Debug + Send + Sync + 'static,
    {
        // One that cannot be read has its finalizer, too.
        let api: Api<DeserializeGuard<K>> = Api::namespaced(self.client.clone(), &self.name);
        let listed = reply(timeout(WRITE_DEADLINE, api.list(&ListParams::default())).await)?;
        let held =
            listed.items.into_iter().filter(|object| object.finalizers().iter().any(|one| one == finalizer));
        let taken_off =
            stream::iter(held).map(|object| take_off(api.clone(), object, finalizer, what_is_left).boxed());
        let replies: Vec<Result<(), WriteError>> = taken_off.buffer_unordered(AT_A_TIME).collect().await;
        // What may succeed next time decides: only then another round is of use.
        let mut errors: Vec<WriteError> = replies.into_iter().filter_map(Result::err).collect();
        errors.sort_by_key(is_final);
        errors.into_iter().next().map_or(Ok(()), Err)
    }

    /// Whether another round would end in time.
    fn has_time(&self) -> bool {
        self.begun.elapsed() + RETRY + WRITE_DEADLINE < BOUND
    }
}

/// Takes a finalizer off an object, if it is still as it was listed.
async fn take_off<K>(
    api: Api<DeserializeGuard<K>>,
    object: DeserializeGuard<K>,
    finalizer: &'static str,
    what_is_left: fn(&K) -> Option<String>,
) -> Result<(), WriteError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    let others: Vec<&String> = object.finalizers().iter().filter(|one| *one != finalizer).collect();
    let patch = Patch::Merge(json!({ "metadata": {
        "uid": object.uid(), "resourceVersion": object.resource_version(), "finalizers": others,
    } }));
    let (name, how) = (object.name_any(), PatchParams::default());
    match reply(timeout(WRITE_DEADLINE, api.patch_metadata(&name, &how, &patch)).await) {
        Ok(_) => {}
        Err(WriteError::Missing(_)) => return Ok(()),
        Err(error) => return Err(error),
    }
    if let Some(left) = object.0.as_ref().ok().and_then(what_is_left) {
        tracing::warn!(kind = %K::kind(&()), name, "goes with its namespace: {left}");
    } else {
        tracing::info!(kind = %K::kind(&()), name, "goes with its namespace");
    }
    Ok(())
}

/// What an EtcdCluster goes without.
fn cluster(cluster: &EtcdCluster) -> Option<String> {
    let deletion = cluster.spec.deletion.as_ref()?;
    deletion.final_backup.as_ref()?;
    Some("without the backup that spec.deletion.finalBackup asks for".to_owned())
}

/// What an EtcdCluster leaves that is in no namespace.
fn data_store(cluster: &EtcdCluster) -> Option<String> {
    let name = cluster.metadata.annotations.as_ref()?.get(keys::KAMAJI_DATA_STORE)?;
    Some(format!("DataStore {name} of Kamaji stays, and leads to nothing"))
}

/// What an EtcdBackup leaves.
fn backup(backup: &EtcdBackup) -> Option<String> {
    let may_exist =
        backup.status.as_ref().is_some_and(|status| status.attempts > status.attempts_without_write);
    let goes = backup.spec.deletion_policy == DeletionPolicy::Delete && may_exist;
    goes.then(|| abandoned(backup, "with its namespace").message().to_owned())
}

/// An EtcdUser goes with its EtcdCluster, which is in the same namespace.
fn user(_: &EtcdUser) -> Option<String> {
    None
}

/// Whether the same would be answered to the next try.
fn is_final(error: &WriteError) -> bool {
    match error {
        WriteError::Forbidden(_) | WriteError::Invalid(_) | WriteError::Missing(_) => true,
        WriteError::NotLeading
        | WriteError::Outdated
        | WriteError::Exists
        | WriteError::Changed(_)
        | WriteError::Blocked(_)
        | WriteError::Throttled(..)
        | WriteError::Unknown(_) => false,
    }
}
