//! The real operator and an in-memory Kubernetes in one process. A crash of the operator is a dropped future.
#![allow(missing_docs, reason = "each name says it")]

pub mod jobs;
pub mod members;
pub mod requests;
mod serve;
pub mod story;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use anyhow::{Result, bail};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use quorate_api::{EtcdCluster, EtcdClusterStatus};
use quorate_apistore::resources::{ObjectKey, ResourceKey};
use quorate_apistore::store::{Part, Uids};
use quorate_localkube::LocalKube;
use quorate_model::{Instant, Step};
use quorate_operator::crash::{CrashPoint, CrashSide, Hook, NoCrash};
use quorate_operator::{Clock, Options, RunError, run_with};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use members::Members;
pub use requests::{Log, RequestOutcome, Sent};

/// Longer than anything takes here, except what waits for a deadline of the planner. The clock is paused and jumps.
const DEADLINE: Duration = Duration::from_secs(600);

/// How often a test checks what it waits for.
const POLL: Duration = Duration::from_millis(250);

/// An arbitrary time.
const EPOCH: Instant = Instant(1_800_000_000_000);

/// Made once for all worlds of a test.
static DEFINITIONS: LazyLock<Vec<CustomResourceDefinition>> = LazyLock::new(quorate_api::crds);

pub struct World {
    pub kube: LocalKube,
    pub client: kube::Client,
    pub members: Members,
    /// The requests that operators sent.
    pub sent: Log,
    pub clock: Clock,
    controllers: JoinHandle<()>,
}

/// A running operator. Dropping it is a crash.
pub struct Operator {
    stop: CancellationToken,
    run: JoinHandle<Result<(), RunError>>,
}

impl World {
    pub async fn new() -> Result<Self> {
        let clock = Clock::of_runtime(EPOCH);
        let times = clock.clone();
        let now = move || k8s_openapi::jiff::Timestamp::from_millisecond(times.now().0).unwrap_or_default();
        let kube = LocalKube::new(Arc::new(now));
        // Uids are the same in every run.
        kube.store().set_uids(Uids::Counted);
        let client = kube::Client::new(kube.service(), "default");
        let members = Members::new(kube.store().clone(), clock.clone());
        let running = kube.clone();
        let controllers = tokio::spawn(async move { running.run_controllers().await });
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        for definition in DEFINITIONS.iter() {
            definitions.create(&PostParams::default(), definition).await?;
        }
        Ok(Self { kube, client, members, sent: Log::default(), clock, controllers })
    }

    /// Replaces the definition of EtcdClusters by one that has no schema for these fields of status and prunes what it has none for; without
    /// any, by the operator's own.
    pub fn definition_lacks(&self, fields: &[&str]) -> Result<()> {
        self.definition_of_lacks("EtcdCluster", fields)
    }

    /// The same of another kind.
    pub fn definition_of_lacks(&self, kind: &str, fields: &[&str]) -> Result<()> {
        let own = DEFINITIONS.iter().find(|crd| crd.spec.names.kind == kind);
        let mut definition = own.expect("it is one of them").clone();
        let schema = definition.spec.versions[0].schema.as_mut().expect("it has a schema");
        let properties = schema.open_api_v3_schema.as_mut().and_then(|all| all.properties.as_mut());
        let status = properties.and_then(|all| all.get_mut("status")).expect("it has a status");
        if !fields.is_empty() {
            status.x_kubernetes_preserve_unknown_fields = None;
        }
        status.properties.as_mut().expect("it has fields").retain(|name, _| !fields.contains(&name.as_str()));
        let spec = serde_json::to_value(&definition.spec)?;
        let definitions = ResourceKey::new("apiextensions.k8s.io", "customresourcedefinitions");
        let key = ObjectKey::new(definitions, "", definition.metadata.name.unwrap_or_default());
        let replaced = self.kube.store().modify(&key, Part::Main, false, |old| {
            let mut new = old.clone();
            new["spec"] = spec;
            Ok(new)
        });
        replaced.map(drop).map_err(|error| anyhow::anyhow!(error.message))
    }

    pub fn operator(&self) -> Operator {
        self.operator_over(self.client_through(|_| RequestOutcome::Open), |_| {})
    }

    pub fn operator_with(&self, hook: Arc<dyn Hook>) -> Operator {
        self.operator_over(self.client_through(|_| RequestOutcome::Open), |options| options.hook = hook)
    }

    pub fn operator_over(&self, client: kube::Client, change: impl FnOnce(&mut Options)) -> Operator {
        let mut options = Options {
            defaults: quorate_manifests::Defaults {
                kamaji_namespaces: vec!["default".to_owned()],
                ..quorate_manifests::Defaults::default()
            },
            metrics: None,
            metrics_auth: false,
            health: None,
            leader_elect: false,
            namespaces: Vec::new(),
            workers: 8,
            hook: Arc::new(NoCrash),
            clock: self.clock.clone(),
            transport: self.members.transport(),
            kept_connections: 100,
            max_rolling: quorate_planner::fleet::Limit::default(),
            max_backups: 0,
            own_namespace: None,
        };
        change(&mut options);
        let stop = CancellationToken::new();
        let run = tokio::spawn(run_with(client, options, stop.clone()));
        Operator { stop, run }
    }

    /// A client that logs every request and gives it the outcome that `decide` returns.
    pub fn client_through(
        &self,
        decide: impl Fn(&Sent) -> RequestOutcome + Send + Sync + 'static,
    ) -> kube::Client {
        requests::through(self.client.clone(), self.sent.clone(), self.members.clone(), decide)
    }

    pub async fn create_cluster(&self, spec: Value) -> Result<EtcdCluster> {
        self.create_cluster_named("demo", spec).await
    }

    pub async fn create_cluster_named(&self, name: &str, spec: Value) -> Result<EtcdCluster> {
        let object = json!({
            "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdCluster",
            "metadata": {"name": name}, "spec": spec,
        });
        let (clusters, cluster) = (self.api::<EtcdCluster>(), serde_json::from_value(object)?);
        Ok(Box::pin(clusters.create(&PostParams::default(), &cluster)).await?)
    }

    pub fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        Api::default_namespaced(self.client.clone())
    }

    pub async fn names<K>(&self) -> Result<Vec<String>>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
        K: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
    {
        let listed = self.api::<K>().list(&ListParams::default()).await?;
        Ok(listed.into_iter().filter_map(|object| object.meta().name.clone()).collect())
    }

    #[expect(clippy::disallowed_methods, reason = "the test is the user who deletes")]
    pub async fn delete<K>(&self, name: &str) -> Result<()>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
        K: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
    {
        self.api::<K>().delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    pub async fn status(&self) -> Result<EtcdClusterStatus> {
        Ok(self.api::<EtcdCluster>().get("demo").await?.status.unwrap_or_default())
    }

    /// The reason and message of a condition, if it has this status.
    pub async fn condition(&self, type_: &str, status: &str) -> Result<Option<(String, String)>> {
        let conditions = self.status().await?.conditions;
        let found = conditions.into_iter().find(|one| one.type_ == type_ && one.status == status);
        Ok(found.map(|one| (one.reason, one.message)))
    }

    /// Runs all Pods, until dropped.
    pub fn kubelet(&self) -> Running {
        let (members, store) = (self.members.clone(), self.kube.store().clone());
        Running(tokio::spawn(async move { members.run(store).await }))
    }

    /// How often objects were created and deleted.
    pub fn writes(&self) -> BTreeMap<String, u64> {
        self.kube.store().write_counts()
    }
}

/// Stops the operator at one point, and cancels `died`.
pub struct DieAt {
    pub point: CrashPoint,
    pub died: CancellationToken,
}

impl Hook for DieAt {
    fn reached(&self, side: CrashSide, step: Step) -> BoxFuture<'static, ()> {
        if (side, step) == (self.point.side, self.point.step) {
            self.died.cancel();
        }
        // A process that ended runs no other task either.
        if self.died.is_cancelled() {
            return futures::future::pending().boxed();
        }
        futures::future::ready(()).boxed()
    }
}

impl Operator {
    /// Stops the operator as SIGTERM does.
    pub async fn stop(mut self) -> Result<()> {
        self.stop.cancel();
        (&mut self.run).await??;
        Ok(())
    }

    pub fn has_ended(&self) -> bool {
        self.run.is_finished()
    }
}

/// A task that ends with the test.
pub struct Running(pub JoinHandle<()>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.run.abort();
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.controllers.abort();
    }
}

/// Waits until the check succeeds. After the deadline its last error is the failure.
pub async fn until(what: &str, mut check: impl AsyncFnMut() -> Result<Result<(), String>>) -> Result<()> {
    let deadline = tokio::time::Instant::now() + DEADLINE;
    loop {
        let not_yet = match check().await? {
            Ok(()) => return Ok(()),
            Err(not_yet) => not_yet,
        };
        if tokio::time::Instant::now() > deadline {
            bail!("{what}: {not_yet}");
        }
        tokio::time::sleep(POLL).await;
    }
}

pub async fn until_pods(world: &World, desired: &[&str]) -> Result<()> {
    until("the Pods exist", async || {
        let pods = world.names::<k8s_openapi::api::core::v1::Pod>().await?;
        Ok(if pods == desired {
            Ok(())
        } else {
            Err(format!("{pods:?}; {:#?}", world.status().await?.conditions))
        })
    })
    .await
}

pub async fn scale(world: &World, size: usize) -> Result<()> {
    let patch = Patch::Merge(json!({"spec": {"size": size}}));
    world.api::<EtcdCluster>().patch("demo", &PatchParams::default(), &patch).await?;
    Ok(())
}

/// Waits until the cluster has this many voters and is at rest.
pub async fn settled(world: &World, size: u32) -> Result<()> {
    until(&format!("{size} voters"), async || {
        let status = world.status().await?;
        let current = world.api::<EtcdCluster>().get("demo").await?.metadata.generation;
        let is = |type_: &str, desired: &str| {
            status.conditions.iter().any(|one| one.type_ == type_ && one.status == desired)
        };
        let settled = status.observed_generation == current
            && status.ready_replicas == size
            && status.current_replicas == size
            && is("Progressing", "False")
            && (size == 0 || is("Available", "True"));
        Ok(if settled { Ok(()) } else { Err(format!("{status:#?}")) })
    })
    .await
}

/// A spec without TLS, which modelled members do not have.
pub fn plain(size: usize) -> Value {
    json!({"size": size, "version": "3.6.16", "tls": {"provider": "disabled"}})
}

pub fn three_members() -> Value {
    json!({"size": 3, "version": "3.6.16"})
}
