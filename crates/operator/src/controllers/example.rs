//! The smallest controller, for tests: a labelled ConfigMap owns a Secret of the same name. It shows what a second kind
//! needs, and that the runtime runs it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::PostParams;
use kube::runtime::watcher;
use quorate_etcd::Transport;
use quorate_manifests::Defaults;
use quorate_model::Instant;
use quorate_planner::fleet::Limit;

use super::Config;
use crate::run::Options;
use crate::runtime::clock::Clock;
use crate::runtime::controller::{Controller, Pass, Runtime, Worker};
use crate::runtime::crash::NoCrash;
use crate::runtime::pace::Outcome;
use crate::runtime::watch::{Index, NamespacedName, Watches, itself};

/// On the ConfigMap and on its Secret.
const LABEL: &str = "example.operator.etcd.io/owner";

#[derive(Clone)]
struct Example {
    runtime: Runtime,
    roots: Index<ConfigMap>,
    secrets: Index<Secret>,
    seen: Seen,
}

/// What tests see of it.
#[derive(Clone, Default)]
struct Seen {
    forgotten: Arc<Mutex<Vec<NamespacedName>>>,
    /// How many passes found nothing left to do.
    at_rest: Arc<AtomicUsize>,
    /// How many passes had no answer of the API server.
    unanswered: Arc<AtomicUsize>,
}

struct ExampleWorker {
    example: Example,
    root: NamespacedName,
    /// The version of the ConfigMap that the last pass saw.
    known: u64,
}

impl Controller for Example {
    type Root = ConfigMap;
    type Worker = ExampleWorker;
    const NAME: &'static str = "example";

    fn roots(&self) -> &Index<ConfigMap> {
        &self.roots
    }

    fn watch(&self, watches: &mut Watches<'_>) {
        watches.add(&watcher::Config::default().labels(LABEL), &self.roots, itself);
        watches.add(&watcher::Config::default().labels(LABEL), &self.secrets, by_label);
    }

    fn worker(&self, root: &NamespacedName) -> ExampleWorker {
        ExampleWorker { example: self.clone(), root: root.clone(), known: 0 }
    }

    fn forget(&self, root: &NamespacedName) {
        self.secrets.remove_if_empty(root);
        self.roots.remove_if_empty(root);
        self.seen.forgotten.lock().unwrap().push(root.clone());
    }
}

impl Worker for ExampleWorker {
    fn has_changes(&mut self) -> bool {
        self.example.roots.get(&self.root).seen != self.known || !self.example.secrets.contains(&self.root)
    }

    async fn pass(&mut self) -> Pass {
        let Example { runtime, roots, secrets, seen } = &self.example;
        self.known = roots.get(&self.root).seen;
        let Some(root) = roots.get(&self.root).objects.remove(&self.root.name) else { return Pass::Gone };
        if root.data.as_ref().is_some_and(|data| data.contains_key("hang")) {
            std::future::pending::<()>().await;
        }
        if root.data.as_ref().is_some_and(|data| data.contains_key("unanswered")) {
            seen.unanswered.fetch_add(1, Ordering::SeqCst);
            return Pass::Ended(Outcome::Unanswered);
        }
        if secrets.contains(&self.root) && root.immutable == Some(true) {
            seen.at_rest.fetch_add(1, Ordering::SeqCst);
            return Pass::AtRest;
        }
        if secrets.contains(&self.root) {
            return Pass::Ended(Outcome::Idle);
        }
        let metadata = labelled(&self.root.name);
        let api: Api<Secret> = Api::namespaced(runtime.client.clone(), &self.root.namespace);
        let created = api.create(&PostParams::default(), &Secret { metadata, ..Secret::default() }).await;
        Pass::Ended(created.map_or(Outcome::Failed, |_| Outcome::Waiting))
    }
}

fn by_label(meta: &ObjectMeta) -> Option<NamespacedName> {
    Some(NamespacedName::new(meta.namespace.as_ref()?, meta.labels.as_ref()?.get(LABEL)?))
}

fn labelled(name: &str) -> ObjectMeta {
    let labels = [(LABEL.to_owned(), name.to_owned())].into();
    ObjectMeta { name: Some(name.to_owned()), labels: Some(labels), ..ObjectMeta::default() }
}

/// What an operator of tests begins with: it listens nowhere and competes for no lease.
pub(super) fn options() -> Options {
    let Config { defaults, transport, kept_connections, max_rolling, max_backups } = config();
    Options {
        defaults,
        metrics: None,
        metrics_auth: false,
        health: None,
        leader_elect: false,
        namespaces: Vec::new(),
        workers: 1,
        hook: Arc::new(NoCrash),
        clock: Clock::of_runtime(Instant(1_800_000_000_000)),
        transport,
        kept_connections,
        max_rolling,
        max_backups,
        own_namespace: None,
    }
}

/// What its controllers begin with.
pub(super) fn config() -> Config {
    Config {
        defaults: Defaults::default(),
        transport: Transport::network(),
        kept_connections: 0,
        max_rolling: Limit::default(),
        max_backups: 0,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
    use k8s_openapi::jiff::Timestamp;
    use kube::api::{DeleteParams, Patch, PatchParams};
    use quorate_api::EtcdCluster;
    use quorate_localkube::LocalKube;
    use serde_json::json;
    use tokio::task::JoinHandle;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::controllers::add_all;
    use crate::run::{RunError, run_controllers};

    /// An operator with the product's controllers and the example, over an API in memory.
    struct World {
        client: kube::Client,
        seen: Seen,
        operator: JoinHandle<Result<(), RunError>>,
    }

    impl World {
        async fn new() -> Self {
            let kube = LocalKube::new(Arc::new(|| Timestamp::UNIX_EPOCH));
            let client = kube::Client::new(kube.service(), "default");
            let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
            for definition in quorate_api::crds() {
                definitions.create(&PostParams::default(), &definition).await.unwrap();
            }
            let seen = Seen::default();
            let operator = tokio::spawn(operator(client.clone(), seen.clone()));
            Self { client, seen, operator }
        }

        fn api<K>(&self) -> Api<K>
        where
            K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
        {
            Api::default_namespaced(self.client.clone())
        }

        async fn create_root(&self, name: &str, data: &[&str]) {
            let data = data.iter().map(|&key| (key.to_owned(), String::new())).collect();
            let root = ConfigMap { metadata: labelled(name), data: Some(data), ..ConfigMap::default() };
            self.api().create(&PostParams::default(), &root).await.unwrap();
        }

        async fn create_cluster(&self, name: &str) {
            let cluster = json!({
                "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdCluster",
                "metadata": {"name": name}, "spec": {"size": 3, "version": "3.6.16"},
            });
            let cluster: EtcdCluster = serde_json::from_value(cluster).unwrap();
            self.api().create(&PostParams::default(), &cluster).await.unwrap();
        }

        async fn secret_exists(&self, name: &str) -> bool {
            self.api::<Secret>().get_opt(name).await.unwrap().is_some()
        }

        async fn cluster_has_status(&self, name: &str) -> bool {
            self.api::<EtcdCluster>()
                .get(name)
                .await
                .unwrap()
                .status
                .is_some_and(|status| status.phase.is_some())
        }

        #[expect(clippy::disallowed_methods, reason = "the test is the user who deletes")]
        async fn delete<K>(&self, name: &str)
        where
            K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
            K: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
        {
            self.api::<K>().delete(name, &DeleteParams::default()).await.unwrap();
        }
    }

    impl Drop for World {
        fn drop(&mut self) {
            self.operator.abort();
        }
    }

    async fn operator(client: kube::Client, seen: Seen) -> Result<(), RunError> {
        run_controllers(client, options(), CancellationToken::new(), |fleets, registry| {
            add_all(fleets, registry, config());
            let runtime = fleets.runtime().clone();
            fleets.add(Example { runtime, roots: Index::default(), secrets: Index::default(), seen });
        })
        .await
    }

    async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
        for _ in 0..1000 {
            if holds().await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("not in time: {what}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_of_a_second_kind_is_worked_on_until_it_is_gone() {
        let world = World::new().await;
        world.create_root("one", &[]).await;
        until("the first pass creates the Secret", async || world.secret_exists("one").await).await;
        world.delete::<Secret>("one").await;
        until("the deleted Secret is created again", async || world.secret_exists("one").await).await;
        world.delete::<ConfigMap>("one").await;
        let forgotten = || world.seen.forgotten.lock().unwrap().clone();
        until("the worker ends", async || forgotten() == [NamespacedName::new("default", "one")]).await;
        world.delete::<Secret>("one").await;
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert!(!world.secret_exists("one").await, "nothing works on an object that is gone");
        world.create_root("one", &[]).await;
        until("its successor gets a worker", async || world.secret_exists("one").await).await;
    }

    #[tokio::test(start_paused = true)]
    async fn n10_an_object_for_which_nothing_is_left_to_do_is_looked_at_when_it_changes_and_never_by_time() {
        let world = World::new().await;
        world.create_root("one", &[]).await;
        until("the first pass creates the Secret", async || world.secret_exists("one").await).await;
        let change = async |change: serde_json::Value| {
            let roots = world.api::<ConfigMap>();
            roots.patch("one", &PatchParams::default(), &Patch::Merge(change)).await.unwrap();
        };
        let passes = || world.seen.at_rest.load(Ordering::SeqCst);
        change(json!({ "immutable": true })).await;
        until("it is at rest", async || passes() == 1).await;
        tokio::time::sleep(Duration::from_mins(60)).await;
        assert_eq!(passes(), 1, "no timer");
        change(json!({ "metadata": { "annotations": { "a": "b" } } })).await;
        until("it is looked at again", async || passes() == 2).await;
        world.delete::<Secret>("one").await;
        until("an object that it owns was deleted", async || world.secret_exists("one").await).await;
        world.delete::<ConfigMap>("one").await;
        let forgotten =
            || world.seen.forgotten.lock().unwrap().contains(&NamespacedName::new("default", "one"));
        until("nothing is kept of it", async || forgotten()).await;
    }

    #[tokio::test(start_paused = true)]
    async fn n11_what_the_api_server_does_not_answer_is_repeated_with_growing_delay_whatever_else_happens_to_the_object()
     {
        let world = World::new().await;
        world.create_root("one", &["unanswered"]).await;
        let passes = || world.seen.unanswered.load(Ordering::SeqCst);
        for change in 0..600 {
            let roots = world.api::<ConfigMap>();
            let change = Patch::Merge(json!({ "metadata": { "annotations": { "a": change.to_string() } } }));
            roots.patch("one", &PatchParams::default(), &change).await.unwrap();
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        // After 0.5 s, 1 s, 2 s and so on, at most 10 s.
        assert!((8..=11).contains(&passes()), "{} passes in a minute", passes());
    }

    #[tokio::test(start_paused = true)]
    async fn controllers_side_by_side_do_not_wait_for_each_other() {
        let world = World::new().await;
        world.create_cluster("before").await;
        until("the cluster has a pass", async || world.cluster_has_status("before").await).await;
        world.create_root("hangs", &["hang"]).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        world.create_root("one", &[]).await;
        world.create_cluster("after").await;
        until("an object of the same kind has a pass", async || world.secret_exists("one").await).await;
        until("an object of another kind has a pass", async || world.cluster_has_status("after").await).await;
        assert!(!world.secret_exists("hangs").await);
    }
}
