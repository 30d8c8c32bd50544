//! What nodes, the scheduler and the controllers do for member Pods: bind them and their volumes, start their processes, report them ready,
//! count what the budget admits, and confirm their end.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result};
use futures::future::BoxFuture;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Client, Resource, ResourceExt as _};
use quorate_api::keys;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::clusters::Effects;
use super::etcd::{Etcds, Key, lock};
use super::pod::{conditions, container, launch, now};
use super::rack;
use super::serve::{Certificates, Member, Pem, serve};

/// How long a Pod takes from its binding to its process, and from its deletion to the end of that.
const STARTS_IN: Duration = Duration::from_millis(300);
const STOPS_IN: Duration = Duration::from_millis(300);

/// How many requests to the API server are under way at a time.
const AT_A_TIME: usize = 32;

/// How long a Pod that started waits for a quorum of its cluster.
const QUORUM: Duration = Duration::from_secs(60);

/// Blocks of the loopback range that neither playgrounds nor tests use.
const BLOCKS: std::ops::Range<u8> = 192..224;

/// All nodes.
#[derive(Clone)]
pub struct Nodes(Arc<Inner>);

struct Inner {
    client: Client,
    etcds: Etcds,
    effects: Effects,
    certificates: Certificates,
    block: u8,
    addresses: AtomicU32,
    requests: Semaphore,
    pods: Mutex<HashMap<String, Running>>,
    /// The nodes that are gone.
    lost: Mutex<BTreeSet<String>>,
    budgets: Mutex<HashMap<Key, Budget>>,
}

/// A Pod that runs.
#[derive(Clone)]
struct Running {
    key: Key,
    name: String,
    node: String,
    address: IpAddr,
    ready: bool,
    stop: CancellationToken,
}

#[derive(Clone)]
struct Budget {
    name: String,
    generation: i64,
    min_available: i32,
}

impl Nodes {
    /// No Pods yet.
    pub fn new(client: Client, etcds: Etcds, effects: Effects) -> Result<Self> {
        let is_free = |block: &u8| TcpListener::bind((Ipv4Addr::new(127, *block, 255, 254), 2379)).is_ok();
        let block = BLOCKS.into_iter().find(is_free).context("no block of loopback addresses is free")?;
        Ok(Self(Arc::new(Inner {
            client,
            etcds,
            effects,
            certificates: Certificates::default(),
            block,
            addresses: AtomicU32::new(0),
            requests: Semaphore::new(AT_A_TIME),
            pods: Mutex::default(),
            lost: Mutex::default(),
            budgets: Mutex::default(),
        })))
    }

    /// Runs everything until it is dropped.
    pub fn run(&self) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        let nodes = self.clone();
        tasks.spawn(self.watch::<Secret>(move |secret| nodes.secret(&secret)));
        let nodes = self.clone();
        tasks
            .spawn(self.watch::<PersistentVolumeClaim>(move |claim| Self::spawn(nodes.clone().claim(claim))));
        let nodes = self.clone();
        tasks.spawn(self.watch::<PodDisruptionBudget>(move |budget| nodes.budget(&budget)));
        let nodes = self.clone();
        tasks.spawn(self.watch::<Pod>(move |pod| Self::spawn(nodes.clone().pod(pod))));
        tasks
    }

    /// How many Pods are ready.
    pub fn ready(&self) -> usize {
        lock(&self.0.pods).values().filter(|pod| pod.ready).count()
    }

    /// The member of this name is cut off: nothing reaches it, and its Pod is not ready.
    pub async fn cut(&self, key: &Key, name: &str) -> Result<()> {
        let (uid, pod) = self.find(key, name)?;
        pod.stop.cancel();
        if let Some(etcd) = self.0.etcds.get(key) {
            let mut etcd = lock(&etcd);
            if let Some(member) = etcd.members.get_mut(name) {
                member.cut = true;
            }
            etcd.elect();
        }
        self.set_ready(&uid, false).await
    }

    /// It is reached again.
    pub async fn mend(&self, key: &Key, name: &str) -> Result<()> {
        let (uid, pod) = self.find(key, name)?;
        if let Some(etcd) = self.0.etcds.get(key) {
            if let Some(member) = lock(&etcd).members.get_mut(name) {
                member.cut = false;
            }
            let stop = CancellationToken::new();
            if let Some(pod) = lock(&self.0.pods).get_mut(&uid) {
                pod.stop = stop.clone();
            }
            let member = Member { name: name.to_owned(), etcd };
            serve(pod.address, member, key.clone(), self.0.certificates.clone(), stop).await?;
        }
        self.set_ready(&uid, true).await
    }

    /// Its Pod reports whether it is ready. The process goes on.
    pub async fn report(&self, key: &Key, name: &str, ready: bool) -> Result<()> {
        let (uid, _) = self.find(key, name)?;
        self.set_ready(&uid, ready).await
    }

    /// These nodes are gone: nothing reaches their members, their Pods are not ready, and are deleted without anybody who confirms it. The
    /// clusters that have a member there.
    #[expect(clippy::disallowed_methods, reason = "what evicts Pods from a node that is gone")]
    pub async fn lose(&self, nodes: &BTreeSet<String>) -> Result<BTreeSet<Key>> {
        lock(&self.0.lost).extend(nodes.iter().cloned());
        let gone = self.on(nodes);
        let cut = gone.iter().map(|(_, pod)| async {
            self.cut(&pod.key, &pod.name).await?;
            self.pods(&pod.key).delete(&pod.name, &DeleteParams::default()).await?;
            anyhow::Ok(())
        });
        stream::iter(cut).buffer_unordered(AT_A_TIME).try_collect::<()>().await?;
        Ok(gone.into_iter().map(|(_, pod)| pod.key).collect())
    }

    /// They are back, and confirm the end of their Pods.
    pub async fn find_again(&self, nodes: &BTreeSet<String>) -> Result<()> {
        lock(&self.0.lost).retain(|lost| !nodes.contains(lost));
        let ended = self
            .on(nodes)
            .into_iter()
            .map(|(uid, pod)| async move { self.end(&pod.key, &pod.name, uid).await });
        stream::iter(ended).buffer_unordered(AT_A_TIME).try_collect::<()>().await
    }

    /// The Pods that run on some nodes, by uid.
    fn on(&self, nodes: &BTreeSet<String>) -> Vec<(String, Running)> {
        let pods = lock(&self.0.pods);
        let there = pods.iter().filter(|(_, pod)| nodes.contains(&pod.node));
        there.map(|(uid, pod)| (uid.clone(), pod.clone())).collect()
    }

    fn find(&self, key: &Key, name: &str) -> Result<(String, Running)> {
        let pods = lock(&self.0.pods);
        let found = pods.iter().find(|(_, pod)| pod.key == *key && pod.name == name);
        let (uid, pod) = found.with_context(|| format!("{}/{name} does not run", key.0))?;
        Ok((uid.clone(), pod.clone()))
    }

    async fn set_ready(&self, uid: &str, ready: bool) -> Result<()> {
        let pod = {
            let mut pods = lock(&self.0.pods);
            let pod = pods.get_mut(uid).context("the Pod is gone")?;
            pod.ready = ready;
            pod.clone()
        };
        let status =
            json!({"status": {"conditions": conditions(ready), "containerStatuses": [container(ready)]}});
        self.pods(&pod.key).patch_status(&pod.name, &PatchParams::default(), &Patch::Merge(status)).await?;
        self.count(&pod.key).await
    }

    fn watch<K>(&self, changed: impl Fn(K) + Send + 'static) -> BoxFuture<'static, ()>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug + Send + 'static,
    {
        let api: Api<K> = Api::all(self.0.client.clone());
        let config = watcher::Config::default().labels(keys::CLUSTER);
        let mut events = Box::pin(watcher(api, config).default_backoff());
        Box::pin(async move {
            while let Some(event) = events.next().await {
                match event {
                    Ok(Event::Apply(object) | Event::InitApply(object)) => changed(object),
                    Ok(Event::Delete(mut object)) => {
                        // One whose end nobody waited for.
                        object.meta_mut().deletion_timestamp.get_or_insert(Time(now()));
                        changed(object);
                    }
                    Ok(Event::Init | Event::InitDone) => {}
                    Err(error) => eprintln!("nodes: {error}"),
                }
            }
        })
    }

    fn spawn(work: impl Future<Output = Result<()>> + Send + 'static) {
        tokio::spawn(async move {
            if let Err(error) = work.await {
                // An object that changed or went meanwhile comes again, or never.
                let is_late = error.downcast_ref::<kube::Error>().is_some_and(
                    |error| matches!(error, kube::Error::Api(status) if [404, 409].contains(&status.code)),
                );
                if !is_late {
                    eprintln!("nodes: {error:#}");
                }
            }
        });
    }

    fn secret(&self, secret: &Secret) {
        let Some(key) = key_of(secret) else { return };
        if secret.name_any() != format!("{}-server-tls", key.1) {
            return;
        }
        let entry = |name: &str| {
            secret
                .data
                .as_ref()
                .and_then(|data| data.get(name))
                .map(|entry| entry.0.clone())
                .unwrap_or_default()
        };
        self.0
            .certificates
            .set(key, Pem { ca: entry("ca.crt"), cert: entry("tls.crt"), key: entry("tls.key") });
    }

    /// Binds a volume; lets one go that is deleted.
    async fn claim(self, claim: PersistentVolumeClaim) -> Result<()> {
        let Some(key) = key_of(&claim) else { return Ok(()) };
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(self.0.client.clone(), &key.0);
        let (name, how) = (claim.name_any(), PatchParams::default());
        if claim.metadata.deletion_timestamp.is_some() {
            let freed = json!({"metadata": {"finalizers": null}});
            claims.patch(&name, &how, &Patch::Merge(freed)).await?;
            return Ok(());
        }
        let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending");
        if phase == "Bound" {
            return Ok(());
        }
        let _permit = self.0.requests.acquire().await?;
        let requested = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref()?.requests.clone());
        if claim.spec.as_ref().is_some_and(|spec| spec.volume_name.is_none()) {
            let volume = format!("pvc-{}", claim.uid().unwrap_or_default());
            claims.patch(&name, &how, &Patch::Merge(json!({"spec": {"volumeName": volume}}))).await?;
        }
        let bound =
            json!({"status": {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": requested}});
        claims.patch_status(&name, &how, &Patch::Merge(bound)).await?;
        Ok(())
    }

    fn budget(&self, budget: &PodDisruptionBudget) {
        let Some(key) = key_of(budget) else { return };
        let Some(IntOrString::Int(min_available)) =
            budget.spec.as_ref().and_then(|spec| spec.min_available.clone())
        else {
            return;
        };
        let generation = budget.metadata.generation.unwrap_or(0);
        let seen = Budget { name: budget.name_any(), generation, min_available };
        lock(&self.0.budgets).insert(key.clone(), seen);
        if budget.status.as_ref().and_then(|status| status.observed_generation) != Some(generation) {
            let nodes = self.clone();
            Self::spawn(async move { nodes.count(&key).await });
        }
    }

    /// What the disruption controller does.
    async fn count(&self, key: &Key) -> Result<()> {
        let Some(budget) = lock(&self.0.budgets).get(key).cloned() else { return Ok(()) };
        let (healthy, expected) = {
            let pods = lock(&self.0.pods);
            let own = || pods.values().filter(|pod| pod.key == *key);
            (own().filter(|pod| pod.ready).count(), own().count())
        };
        let (healthy, expected) = (i32::try_from(healthy)?, i32::try_from(expected)?);
        let status = json!({"status": {
            "observedGeneration": budget.generation, "currentHealthy": healthy, "desiredHealthy": budget.min_available,
            "expectedPods": expected, "disruptionsAllowed": (healthy - budget.min_available).max(0), "disruptedPods": null,
        }});
        let budgets: Api<PodDisruptionBudget> = Api::namespaced(self.0.client.clone(), &key.0);
        let _permit = self.0.requests.acquire().await?;
        budgets.patch_status(&budget.name, &PatchParams::default(), &Patch::Merge(status)).await?;
        Ok(())
    }

    async fn pod(self, pod: Pod) -> Result<()> {
        let Some(key) = key_of(&pod) else { return Ok(()) };
        let (Some(spec), Some(uid)) = (pod.spec.as_ref(), pod.uid()) else { return Ok(()) };
        let name = pod.name_any();
        let node = spec.node_name.clone();
        if pod.metadata.deletion_timestamp.is_some() {
            // Nobody confirms the end of one whose node is gone.
            let is_lost = node.is_some_and(|node| lock(&self.0.lost).contains(&node));
            return if is_lost { Ok(()) } else { self.end(&key, &name, uid).await };
        }
        if spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty()) {
            // Only the operator creates Pods.
            self.0.effects.note(&key);
            return Ok(());
        }
        let Some(node) = node else {
            let _permit = self.0.requests.acquire().await?;
            let node = rack::node_of(&key, &name);
            let binding = json!({
                "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "namespace": key.0},
                "target": {"apiVersion": "v1", "kind": "Node", "name": node},
            });
            let pods = self.pods(&key);
            pods.create_subresource::<_, Value>("binding", &name, &PostParams::default(), &binding).await?;
            return Ok(());
        };
        self.start(&pod, key, (name, node), uid).await
    }

    async fn start(&self, pod: &Pod, key: Key, (name, node): (String, String), uid: String) -> Result<()> {
        let stop = CancellationToken::new();
        let address = self.address();
        {
            let mut pods = lock(&self.0.pods);
            if pods.contains_key(&uid) {
                return Ok(());
            }
            let (key, name, stop) = (key.clone(), name.clone(), stop.clone());
            pods.insert(uid.clone(), Running { key, name, node, address, ready: false, stop });
        }
        tokio::time::sleep(STARTS_IN).await;
        let launch = launch(pod).with_context(|| format!("the Pod {name} starts no etcd"))?;
        let etcd = self.0.etcds.of(&key, &launch);
        let member = Member { name: name.clone(), etcd: etcd.clone() };
        serve(address, member, key.clone(), self.0.certificates.clone(), stop.clone()).await?;
        lock(&etcd).start(&name, &launch.version);
        let quorum = async {
            while !lock(&etcd).has_quorum() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let has_quorum = tokio::time::timeout(QUORUM, quorum).await.is_ok();
        if let Some(pod) = lock(&self.0.pods).get_mut(&uid) {
            pod.ready = has_quorum;
        }
        let status = json!({"status": {
            "phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "hostIP": "127.0.0.1",
            "hostIPs": [{"ip": "127.0.0.1"}], "startTime": now().to_string(), "qosClass": "Burstable",
            "conditions": conditions(has_quorum), "containerStatuses": [container(has_quorum)],
        }});
        {
            let _permit = self.0.requests.acquire().await?;
            self.pods(&key).patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await?;
        }
        self.count(&key).await
    }

    /// Ends its process, then confirms that.
    #[expect(clippy::disallowed_methods, reason = "the kubelet confirms the end of this very Pod")]
    async fn end(&self, key: &Key, name: &str, uid: String) -> Result<()> {
        let running = lock(&self.0.pods).remove(&uid);
        if let Some(running) = &running {
            tokio::time::sleep(STOPS_IN).await;
            running.stop.cancel();
            if let Some(etcd) = self.0.etcds.get(key) {
                let mut etcd = lock(&etcd);
                if let Some(member) = etcd.members.get_mut(name) {
                    member.cut = false;
                }
                etcd.stop(name);
            }
        }
        let how = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        let how = how.preconditions(kube::api::Preconditions { uid: Some(uid), resource_version: None });
        self.pods(key).delete(name, &how).await?;
        if running.is_some() { self.count(key).await } else { Ok(()) }
    }

    fn pods(&self, key: &Key) -> Api<Pod> {
        Api::namespaced(self.0.client.clone(), &key.0)
    }

    /// The next address. There are more of them than Pods, so none comes again soon.
    fn address(&self) -> IpAddr {
        let number = self.0.addresses.fetch_add(1, Ordering::Relaxed) % 64_000 + 1;
        let [.., high, low] = number.to_be_bytes();
        Ipv4Addr::new(127, self.0.block, high, low).into()
    }
}

fn key_of(object: &impl Resource) -> Option<Key> {
    Some((object.meta().namespace.clone()?, object.labels().get(keys::CLUSTER)?.clone()))
}
