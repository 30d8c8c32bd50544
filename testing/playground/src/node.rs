//! The nodes: what kubelets do, for Pods whose containers are processes of this machine.
//!
//! - `pod`: one Pod from first sight to end; `container`: one of its containers
//! - `probe`: startup, readiness and liveness
//! - `status`: from what is known to what the API is told
//! - `volumes`, `env`, `images`, `logs`: what a container is made of and leaves behind
//! - `machines`: the Node objects
//!
//! It talks to the API through a client, as a kubelet does, and knows nothing of etcd.

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
use nix::sys::signal::Signal;
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

pub use cache::Cache;
pub use logs::ContainerLogs;
pub use machines::NoSuchNode;
pub use pod::Order;
pub use volumes::directory;

/// All nodes.
#[derive(Clone)]
pub struct Nodes {
    shared: Arc<Shared>,
}

/// What Pods share.
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
    board: Mutex<Board>,
    /// Counts Pods that have ended.
    ended: watch::Sender<u64>,
}

#[derive(Default)]
struct Board {
    /// All Pods there are, by uid.
    known: BTreeMap<String, Arc<Pod>>,
    running: BTreeMap<String, (Arc<PodRun>, AbortHandle)>,
    /// Nodes that are switched off.
    dark: BTreeSet<String>,
    /// Nothing is started any more.
    closed: bool,
}

/// What the nodes need.
pub struct Setup {
    /// The API.
    pub client: Client,
    /// The directory.
    pub home: Home,
    /// The etcd programs.
    pub programs: Programs,
    /// Addresses.
    pub ledger: Arc<Ledger>,
    /// How many nodes.
    pub nodes: u8,
    /// The first wait of a container that keeps ending.
    pub crash_back_off: Duration,
}

impl Nodes {
    /// Makes the Node objects and begins to watch what the nodes must know.
    pub async fn start(setup: Setup, tasks: &mut JoinSet<()>) -> anyhow::Result<Self> {
        let Setup { client, home, programs, ledger, nodes, crash_back_off } = setup;
        let cache = Cache::start(&client, tasks);
        let shared = Shared {
            images: Images::new(programs, home.program()),
            launcher: Launcher::new(home.clone()),
            events: Events::new(client.clone()),
            names: Names::new(home.hosts())?,
            board: Mutex::default(),
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

    /// Runs what Pods the API has, for as long as it is polled.
    pub async fn run(&self) {
        let api: Api<Pod> = Api::all(self.shared.client.clone());
        let mut events = std::pin::pin!(watcher(api, watcher::Config::default()).default_backoff());
        let mut services = self.shared.cache.changes();
        let mut listed = BTreeSet::new();
        loop {
            tokio::select! {
                event = events.try_next() => match event {
                    Ok(Some(Event::Apply(pod))) => self.seen(pod),
                    Ok(Some(Event::InitApply(pod))) => {
                        listed.insert(pod.uid().unwrap_or_default());
                        self.seen(pod);
                    }
                    Ok(Some(Event::Delete(pod))) => self.gone(&pod.uid().unwrap_or_default()),
                    Ok(Some(Event::Init)) => listed.clear(),
                    Ok(Some(Event::InitDone)) => self.gone_but(&listed),
                    Ok(None) => return,
                    Err(error) => tracing::warn!(%error, "watching Pods"),
                },
                Ok(()) = services.changed() => self.publish(),
            }
        }
    }

    /// Ends all processes, each in its own time up to `grace`, and starts no more. The objects stay as they are: the
    /// next playground goes on from there.
    pub async fn stop(&self, grace: Duration) {
        let mut ended = self.shared.ended.subscribe();
        {
            let mut board = self.board();
            board.closed = true;
            for (run, _) in board.running.values() {
                run.retire(grace);
            }
        }
        while !self.board().running.is_empty() {
            let _ = ended.changed().await;
        }
    }

    /// Objects that nodes know.
    pub fn cache(&self) -> &Cache {
        &self.shared.cache
    }

    /// Does something to the processes of a Pod; how many containers were told, nothing if there is no such Pod.
    pub fn order(&self, namespace: &str, name: &str, order: Order) -> Option<usize> {
        Some(self.find(namespace, name)?.order(order))
    }

    /// Kills all containers of Pods with this volume, as a disk that dies under them.
    pub fn kill_users_of(&self, namespace: &str, claim: &str) {
        let uses = |pod: &Pod| {
            pod.namespace().as_deref() == Some(namespace)
                && pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()).any(|volume| {
                    volume.persistent_volume_claim.as_ref().is_some_and(|source| source.claim_name == claim)
                })
        };
        let board = self.board();
        for (run, _) in board.running.values().filter(|(run, _)| uses(&run.pod())) {
            run.order(Order { container: None, signal: Signal::SIGKILL, out_of_memory: false });
        }
    }

    /// Switches a node off: its processes end, and nobody tells.
    pub async fn switch_off(&self, node: &str) -> Result<(), NoSuchNode> {
        machines::exists(&self.shared, node)?;
        {
            let mut board = self.board();
            board.dark.insert(node.to_owned());
            board.running.retain(|_, (run, task)| {
                let stays = node_of(&run.pod()) != node;
                if !stays {
                    task.abort();
                }
                stays
            });
        }
        machines::lost(&self.shared, node).await;
        Ok(())
    }

    /// Switches a node on again.
    pub async fn switch_on(&self, node: &str) -> Result<(), NoSuchNode> {
        machines::exists(&self.shared, node)?;
        let theirs: Vec<Arc<Pod>> = {
            let mut board = self.board();
            board.dark.remove(node);
            board.known.values().filter(|pod| node_of(pod) == node).cloned().collect()
        };
        machines::found(&self.shared, node).await;
        for pod in theirs {
            self.take_over(pod);
        }
        Ok(())
    }

    fn seen(&self, pod: Pod) {
        let pod = Arc::new(pod);
        let uid = pod.uid().unwrap_or_default();
        self.board().known.insert(uid, pod.clone());
        // Before the Pod starts, so that it is known by name to its peers from the first moment.
        self.publish();
        self.take_over(pod);
    }

    fn take_over(&self, pod: Arc<Pod>) {
        let node = node_of(&pod).to_owned();
        let uid = pod.uid().unwrap_or_default();
        let mut board = self.board();
        if let Some((run, _)) = board.running.get(&uid) {
            run.observe(pod);
            return;
        }
        let over = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        let over = matches!(over, Some("Succeeded" | "Failed")) && pod.metadata.deletion_timestamp.is_none();
        if board.closed
            || node.is_empty()
            || over
            || board.dark.contains(&node)
            || machines::exists(&self.shared, &node).is_err()
        {
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
                Box::pin(run.live()).await;
                nodes.board().running.remove(&uid);
                nodes.shared.ended.send_modify(|count| *count += 1);
            }
        });
        board.running.insert(uid, (run, task.abort_handle()));
    }

    fn gone(&self, uid: &str) {
        let mut board = self.board();
        if let Some((run, _)) = board.running.get(uid) {
            run.forced();
        }
        let last = board.known.remove(uid);
        drop(board);
        self.shared.ledger.release_pod(uid);
        self.shared.events.forget(uid);
        self.publish();
        if let Some(pod) = last {
            self.forget_logs(&pod);
        }
    }

    /// Logs stay for as long as a Pod of that name exists.
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

    fn gone_but(&self, listed: &BTreeSet<String>) {
        let known: BTreeSet<String> =
            self.board().known.keys().cloned().chain(self.shared.ledger.pods()).collect();
        for uid in known.difference(listed) {
            self.gone(uid);
        }
        // What Pods of an earlier time left on the nodes.
        for entry in std::fs::read_dir(self.shared.home.pods()).into_iter().flatten().flatten() {
            let uid = entry.file_name().to_string_lossy().into_owned();
            if !listed.contains(&uid) && !self.board().running.contains_key(&uid) {
                volumes::tear_down(&self.shared.home, &uid);
            }
        }
    }

    fn publish(&self) {
        let pods: Vec<(Arc<Pod>, Ipv4Addr)> = {
            let board = self.board();
            let over = |pod: &Pod| {
                let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
                matches!(phase, Some("Succeeded" | "Failed"))
            };
            let living = board.known.iter().filter(|(_, pod)| !over(pod));
            living.map(|(uid, pod)| (pod.clone(), self.shared.ledger.pod_address(uid))).collect()
        };
        self.shared.names.publish(&pods, &self.shared.cache.services());
    }

    fn find(&self, namespace: &str, name: &str) -> Option<Arc<PodRun>> {
        let board = self.board();
        let mut runs = board.running.values().map(|(run, _)| run);
        runs.find(|run| is_named(&run.pod(), namespace, name)).cloned()
    }

    fn find_known(&self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        self.board().known.values().find(|pod| is_named(pod, namespace, name)).cloned()
    }

    fn board(&self) -> MutexGuard<'_, Board> {
        self.shared.board.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_named(pod: &Pod, namespace: &str, name: &str) -> bool {
    pod.namespace().as_deref() == Some(namespace) && pod.name_any() == name
}

fn node_of(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default()
}
