//! A namespace for one measurement, so that the one before has no effect on it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::{self as core, Pod, ServiceAccount};
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use serde_json::json;

use super::super::clusters::Clusters;
use super::super::wait::until;
use super::PATIENCE;
use super::rig::Rig;

/// How long Kubernetes may take to fill a new namespace.
const SOON: Duration = Duration::from_secs(30);

/// Deleted by [`Self::clear`], or else, without a wait, when it is dropped.
pub struct Namespace<'a> {
    name: String,
    client: Client,
    rig: &'a Rig,
    cleared: bool,
}

impl<'a> Namespace<'a> {
    /// A new one with the Pod Security standard that the operator's Pods meet.
    pub async fn create(rig: &'a Rig) -> Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("bench-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let client = rig.client(&name).await?;
        let labels = json!({"pod-security.kubernetes.io/enforce": "restricted"});
        let object = json!({"metadata": {"name": name, "labels": labels}});
        let namespaces: Api<core::Namespace> = Api::all(client.clone());
        namespaces.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
        let namespace = Self { name, client, rig, cleared: false };
        // Without it the API server refuses Pods.
        until(&format!("{} has its ServiceAccount", namespace.name), SOON, async || {
            let accounts: Api<ServiceAccount> = Api::default_namespaced(namespace.client());
            Ok(accounts.get_opt("default").await?.is_none().then(|| "it has none".to_owned()))
        })
        .await?;
        Ok(namespace)
    }

    /// A client with this default namespace.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Deletes it with all that is in it, and waits until it is gone.
    #[expect(clippy::disallowed_methods, reason = "the benchmark is the user who deletes")]
    pub async fn clear(mut self) -> Result<()> {
        let clusters = Clusters::new(self.client(), PATIENCE);
        let names = clusters.names().await?;
        futures::future::try_join_all(names.iter().map(|name| clusters.delete(name))).await?;
        // The deletion of a namespace with Pods is tried again only after their grace period, half a minute.
        let pods: Api<Pod> = Api::default_namespaced(self.client());
        pods.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
        until(&format!("no Pods are in {}", self.name), PATIENCE, async || {
            let left = pods.list(&ListParams::default()).await?.items.len();
            Ok((left > 0).then(|| format!("{left} left")))
        })
        .await?;
        let namespaces: Api<core::Namespace> = Api::all(self.client());
        namespaces.delete(&self.name, &DeleteParams::default()).await?;
        until(&format!("{} is gone", self.name), PATIENCE, async || {
            let left = namespaces.get_opt(&self.name).await?;
            Ok(left.map(|left| serde_json::to_string(&left.status).unwrap_or_default()))
        })
        .await?;
        self.cleared = true;
        Ok(())
    }
}

impl Drop for Namespace<'_> {
    fn drop(&mut self) {
        if self.cleared {
            return;
        }
        // By kubectl, because drop cannot await.
        if let Err(error) = self.rig.kubectl_now(&["delete", "namespace", "--wait=false", &self.name]) {
            eprintln!("deleting the namespace: {error:#}");
        }
    }
}
