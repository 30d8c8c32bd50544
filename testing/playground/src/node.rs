//! The nodes: what kubelets do, for Pods whose containers are processes of this machine.
//!
//! - `pod`: the life of one Pod; `container`: one of its containers
//! - `probe`: startup, readiness and liveness
//! - `status`: the status of a Pod from the states of its containers
//! - `volumes`, `env`, `images`, `logs`: the parts of a container
//! - `machines`: the Node objects
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
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use crate::home::Home;
use crate::ledger::Ledger;
use crate::names::Names;
use crate::process::Launcher;
use crate::programs::Programs;
use env::Placed;
use events::Events;
use images::Images;
use pod::PodRun;

use cache::Cache;
pub use logs::ContainerLogs;
pub use volumes::directory;

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
    /// The etcd programs.
    pub programs: Programs,
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
        let Setup { client, home, programs, ledger, nodes, crash_back_off } = setup;
        let cache = Cache::start(&client, tasks);
        let shared = Shared {
            images: Images::new(programs, home.program()),
            launcher: Launcher::new(home.clone()),
            events: Events::new(client.clone()),
            names: Names::new(home.hosts())?,
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
        let mut services = self.shared.cache.changes();
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
                Ok(()) = services.changed() => self.publish(),
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
        let over = matches!(over, Some("Succeeded" | "Failed")) && pod.metadata.deletion_timestamp.is_none();
        if pods.closed || node.is_empty() || over || !machines::exists(&self.shared, &node) {
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
        let pods: Vec<(Arc<Pod>, Ipv4Addr)> = {
            let pods = self.pods();
            let over = |pod: &Pod| {
                let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
                matches!(phase, Some("Succeeded" | "Failed"))
            };
            let living = pods.known.iter().filter(|(_, pod)| !over(pod));
            living.map(|(uid, pod)| (pod.clone(), self.shared.ledger.pod_address(uid))).collect()
        };
        self.shared.names.publish(&pods, &self.shared.cache.services());
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

fn node_of(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default()
}
