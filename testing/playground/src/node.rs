//! The nodes: what kubelets do, for Pods whose containers are processes of this machine.
//!
//! - `pod`: the life of one Pod; `container`: one of its containers
//! - `probe`: startup, readiness and liveness
//! - `status`: the status of a Pod from the states of its containers
//! - `volumes`, `env`, `images`, `logs`: the parts of a container
//! - `machines`: the Node objects; `partition`: nodes that are cut off
//!
//! It uses the API through a client, as a kubelet does, and has no knowledge of etcd.

mod back_off;
mod cache;
mod container;
mod env;
mod events;
mod expand;
mod images;
mod logs;
mod machines;
mod partition;
mod pod;
mod probe;
mod state;
mod status;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use crate::builds::Builds;
use crate::home::Home;
use crate::ledger::Ledger;
use crate::names::Names;
use crate::process::Launcher;
use env::Placed;
use events::Events;
use images::Images;
use pod::PodRun;

pub(crate) use back_off::BackOff;
use cache::Cache;
pub use logs::ContainerLogs;
pub(crate) use partition::Partition;
pub use volumes::directory;

/// The annotation of a node that is cut off from the others.
pub(crate) const PARTITIONED: &str = "playground.operator.etcd.io/partitioned";
/// The annotation of a node that is stopped.
pub(crate) const STOPPED: &str = "playground.operator.etcd.io/stopped";

/// How often connections over the border of a partition are shut down.
const SWEEP: Duration = Duration::from_millis(100);

/// All nodes.
#[derive(Clone)]
pub struct Nodes {
    shared: Arc<Shared>,
}

/// What all Pods share.
pub(crate) struct Shared {
    client: Client,
    home: Home,
    images: Images,
    launcher: Launcher,
    events: Events,
    cache: Cache,
    ledger: Arc<Ledger>,
    names: Names,
    crash_back_off: Duration,
    nodes: u8,
    /// The nodes that are stopped.
    stopped: Mutex<BTreeSet<String>>,
    pods: Mutex<Pods>,
    /// Counts Pods whose run has ended.
    ended: watch::Sender<u64>,
}

#[derive(Default)]
struct Pods {
    /// All Pods of the API, by uid.
    known: BTreeMap<String, Arc<Pod>>,
    running: BTreeMap<String, (Arc<PodRun>, AbortHandle)>,
    /// No more Pods are started.
    closed: bool,
}

/// What the nodes need to start.
pub struct Setup {
    /// The API.
    pub client: Client,
    /// The playground's directory.
    pub home: Home,
    /// The etcd programs, and the builds of others.
    pub etcd: Arc<Builds>,
    /// Assigned addresses.
    pub ledger: Arc<Ledger>,
    /// The number of nodes.
    pub nodes: u8,
    /// The first delay of CrashLoopBackOff.
    pub crash_back_off: Duration,
}

impl Nodes {
    /// Creates the Node objects and starts the watches.
    pub async fn start(setup: Setup, tasks: &mut JoinSet<()>) -> anyhow::Result<Self> {
        let Setup { client, home, etcd, ledger, nodes, crash_back_off } = setup;
        let cache = Cache::start(&client, tasks);
        let shared = Shared {
            images: Images::new(etcd, home.program()),
            launcher: Launcher::new(home.clone()),
            events: Events::new(client.clone()),
            names: Names::new((1..=nodes).map(machines::name).map(|node| (node.clone(), home.hosts(&node))))?,
            stopped: Mutex::default(),
            pods: Mutex::default(),
            ended: watch::Sender::new(0),
            client,
            home,
            cache,
            ledger,
            crash_back_off,
            nodes,
        };
        std::fs::write(shared.home.resolv_conf(), "# Names come from /etc/hosts.\n")?;
        machines::register(&shared).await?;
        shared.cache.ready().await;
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Runs the Pods of the API while this future is polled.
    pub async fn run(&self) {
        let api: Api<Pod> = Api::all(self.shared.client.clone());
        let mut events = std::pin::pin!(watcher(api, watcher::Config::default()).default_backoff());
        let mut changes = self.shared.cache.changes();
        let mut sweep = tokio::time::interval(SWEEP);
        self.power().await;
        let mut listed = BTreeSet::new();
        loop {
            tokio::select! {
                event = events.try_next() => match event {
                    Ok(Some(Event::Apply(pod))) => self.applied(pod),
                    Ok(Some(Event::InitApply(pod))) => {
                        listed.insert(pod.uid().unwrap_or_default());
                        self.applied(pod);
                    }
                    Ok(Some(Event::Delete(pod))) => self.deleted(&pod.uid().unwrap_or_default()),
                    Ok(Some(Event::Init)) => listed.clear(),
                    Ok(Some(Event::InitDone)) => self.keep_only(&listed),
                    Ok(None) => return,
                    Err(error) => tracing::warn!(%error, "cannot watch Pods"),
                },
                Ok(()) = changes.changed() => {
                    self.publish();
                    self.power().await;
                }
                _ = sweep.tick() => self.sever().await,
            }
        }
    }

    /// Stops all processes within `grace`, and starts no more. The objects stay unchanged: the next playground
    /// continues with them.
    pub async fn stop(&self, grace: Duration) {
        let mut ended = self.shared.ended.subscribe();
        {
            let mut pods = self.pods();
            pods.closed = true;
            for (run, _) in pods.running.values() {
                run.retire(grace);
            }
        }
        while !self.pods().running.is_empty() {
            let _ = ended.changed().await;
        }
    }

    fn applied(&self, pod: Pod) {
        let pod = Arc::new(pod);
        let uid = pod.uid().unwrap_or_default();
        self.pods().known.insert(uid, pod.clone());
        // Publish the Pod's name before it starts, so that its peers can resolve it.
        self.publish();
        self.take_over(pod);
    }

    fn take_over(&self, pod: Arc<Pod>) {
        let node = node_of(&pod).to_owned();
        let uid = pod.uid().unwrap_or_default();
        let mut pods = self.pods();
        if let Some((run, _)) = pods.running.get(&uid) {
            run.observe(pod);
            return;
        }
        let over = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        // A Pod that is being deleted and has stopped waits for its finalizers only.
        let stopped = pod.metadata.deletion_timestamp.is_none()
            || pod.metadata.deletion_grace_period_seconds == Some(0);
        let over = matches!(over, Some("Succeeded" | "Failed")) && stopped;
        let off = self.shared.cache.nodes_with(STOPPED).contains(&node);
        if pods.closed || off || node.is_empty() || over || !machines::exists(&self.shared, &node) {
            return;
        }
        let host = machines::address(&self.shared, &node);
        let placed = Placed { ip: self.shared.ledger.pod_address(&uid), host };
        let run = PodRun::new(self.shared.clone(), pod.clone(), placed);
        run.observe(pod);
        let nodes = self.clone();
        let task = tokio::spawn({
            let run = run.clone();
            async move {
                let uid = run.uid().to_owned();
                Box::pin(run.run()).await;
                nodes.pods().running.remove(&uid);
                nodes.shared.ended.send_modify(|count| *count += 1);
            }
        });
        pods.running.insert(uid, (run, task.abort_handle()));
    }

    fn deleted(&self, uid: &str) {
        let mut pods = self.pods();
        if let Some((run, _)) = pods.running.get(uid) {
            run.force_delete();
        }
        let last = pods.known.remove(uid);
        drop(pods);
        self.shared.ledger.release_pod(uid);
        self.shared.events.forget(uid);
        self.publish();
        if let Some(pod) = last {
            self.forget_logs(&pod);
        }
    }

    /// Logs are kept while a Pod of that name exists.
    fn forget_logs(&self, pod: &Pod) {
        let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
        if self.find_known(&namespace, &name).is_some() {
            return;
        }
        let spec = pod.spec.clone().unwrap_or_default();
        for container in spec.init_containers.iter().flatten().chain(&spec.containers) {
            ContainerLogs::of(&self.shared.home.logs(), &namespace, &name, &container.name).delete();
        }
    }

    fn keep_only(&self, listed: &BTreeSet<String>) {
        let known: BTreeSet<String> =
            self.pods().known.keys().cloned().chain(self.shared.ledger.pods()).collect();
        for uid in known.difference(listed) {
            self.deleted(uid);
        }
        // Remove the directories of Pods that no longer exist.
        for entry in std::fs::read_dir(self.shared.home.pods()).into_iter().flatten().flatten() {
            let uid = entry.file_name().to_string_lossy().into_owned();
            if !listed.contains(&uid) && !self.pods().running.contains_key(&uid) {
                volumes::tear_down(&self.shared.home, &uid);
            }
        }
    }

    fn publish(&self) {
        self.shared.names.publish(&self.living(), &self.shared.cache.services(), &self.partition());
    }

    fn living(&self) -> Vec<(Arc<Pod>, Ipv4Addr)> {
        let pods = self.pods();
        let over = |pod: &Pod| {
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            matches!(phase, Some("Succeeded" | "Failed"))
        };
        let living = pods.known.iter().filter(|(_, pod)| !over(pod));
        living.map(|(uid, pod)| (pod.clone(), self.shared.ledger.pod_address(uid))).collect()
    }

    fn partition(&self) -> Partition {
        Partition { nodes: self.shared.cache.nodes_with(PARTITIONED), nowhere: self.shared.ledger.nowhere() }
    }

    /// Shuts down connections over the border of a partition, if there is one.
    async fn sever(&self) {
        let partition = self.partition();
        if partition.nodes.is_empty() {
            return;
        }
        let living = self.living();
        let home = self.shared.home.clone();
        let sever = move || {
            let processes = processes_of(&home, living.iter().map(|(pod, _)| pod));
            let node_by_address = |(pod, ip): &(Arc<Pod>, Ipv4Addr)| (*ip, node_of(pod).to_owned());
            partition.sever(&processes, &living.iter().map(node_by_address).collect());
        };
        let _ = tokio::task::spawn_blocking(sever).await;
    }

    /// Stops the nodes that were stopped since the last call, and starts those that were started.
    async fn power(&self) {
        let off = self.shared.cache.nodes_with(STOPPED);
        let before = std::mem::replace(
            &mut *self.shared.stopped.lock().unwrap_or_else(PoisonError::into_inner),
            off.clone(),
        );
        for node in off.difference(&before) {
            let gone: Vec<Arc<Pod>> = {
                let mut pods = self.pods();
                let here =
                    pods.known.values().filter(|pod| node_of(pod) == node).cloned().collect::<Vec<_>>();
                for pod in &here {
                    // Nobody is left who would report the end of its processes or start them again.
                    if let Some((_, task)) = pods.running.remove(&pod.uid().unwrap_or_default()) {
                        task.abort();
                    }
                }
                here
            };
            for process in processes_of(&self.shared.home, &gone) {
                let _ = kill(Pid::from_raw(process.pid), Signal::SIGKILL);
            }
            machines::report_lost(&self.shared, node, &gone).await;
        }
        for node in before.difference(&off) {
            machines::report_ready(&self.shared, node).await;
            let here: Vec<Arc<Pod>> =
                self.pods().known.values().filter(|pod| node_of(pod) == node).cloned().collect();
            for pod in here {
                self.take_over(pod);
            }
        }
    }

    fn find_known(&self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        self.pods().known.values().find(|pod| is_named(pod, namespace, name)).cloned()
    }

    fn pods(&self) -> MutexGuard<'_, Pods> {
        self.shared.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_named(pod: &Pod, namespace: &str, name: &str) -> bool {
    pod.namespace().as_deref() == Some(namespace) && pod.name_any() == name
}

/// The processes of these Pods' containers, with those that they started.
fn processes_of<'a>(home: &Home, pods: impl IntoIterator<Item = &'a Arc<Pod>>) -> Vec<partition::Placed> {
    let running = Launcher::running(home);
    let mut processes = Vec::new();
    for pod in pods {
        let prefix = format!("{}/{}/", pod.namespace().unwrap_or_default(), pod.name_any());
        for (_, process) in running.iter().filter(|(name, _)| name.starts_with(&prefix)) {
            let all = process.children().into_iter().chain([process.clone()]);
            processes
                .extend(all.map(|one| partition::Placed { node: node_of(pod).to_owned(), pid: one.pid }));
        }
    }
    processes
}

pub(crate) fn node_of(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default()
}
