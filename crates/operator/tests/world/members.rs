//! Nodes that run the model of etcd (`quorate_sim`). Every Pod gets its own address. A connection to it goes over memory to a
//! gRPC server in this process, which answers from the model.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quorate_apistore::Store;
use quorate_etcd::wire::cluster_server::ClusterServer;
use quorate_etcd::wire::kv_server::KvServer;
use quorate_etcd::wire::maintenance_server::MaintenanceServer;
use quorate_etcd::{Stream, Transport};
use quorate_manifests::Write;
use quorate_manifests::service::PROBE_PORT;
use quorate_operator::Clock;
use quorate_sim::etcd::State;
use quorate_sim::world::World as Nodes;
use quorate_sim::world::faults::Fault;
use quorate_sim::world::kubelet::address_of;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::serve::Member;

/// The reaction time of kubelets and etcd.
const LATENCY: Duration = Duration::from_millis(20);

/// The interval at which they act without a change: a process that ended is restarted.
const TICK: Duration = Duration::from_secs(1);

/// The nodes and what runs on them.
#[derive(Clone)]
pub struct Members(Arc<Inner>);

struct Inner {
    nodes: Mutex<Nodes>,
    clock: Clock,
    moved: Notify,
    network: Mutex<Network>,
}

/// Connections, calls and their outcomes: what the model of etcd does not contain.
struct Network {
    /// Members that accept connections and never reply.
    hung: BTreeSet<String>,
    /// What agents reply of the free space of their volumes, and its size.
    free_space: BTreeMap<String, (u64, u64)>,
    asked_for_free_space: usize,
    /// Open connections, with the name of their Pod.
    connections: Vec<(String, CancellationToken)>,
    /// Decides the outcome of a call.
    decide: Box<dyn FnMut(&Call) -> CallOutcome + Send>,
    /// Every change of membership or leadership that was carried out.
    changes: Vec<String>,
}

/// A call to a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The name of the member.
    pub member: String,
    /// `MemberAdd`, ...
    pub method: &'static str,
}

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallOutcome {
    /// It arrives, and so does the reply.
    Done,
    /// It does not arrive, and no reply comes.
    Never,
    /// It is not carried out, and refused with this code and message.
    Refused(tonic::Code, &'static str),
    /// It is carried out, and the reply is this code and message.
    RefusedAfter(tonic::Code, &'static str),
    /// The connection breaks before it arrives.
    NotSent,
    /// The connection breaks after it was carried out.
    ReplyLost,
    /// It arrives twice; the second reply counts.
    Twice,
    /// It arrives after this, and so does the reply.
    Slow(Duration),
    /// It is carried out after this, when the client no longer waits for the reply.
    Late(Duration),
}

impl Members {
    pub fn new(store: Store, clock: Clock) -> Self {
        let nodes = Mutex::new(Nodes::around(store, clock.now()));
        let network = Network {
            hung: BTreeSet::new(),
            free_space: BTreeMap::new(),
            asked_for_free_space: 0,
            connections: Vec::new(),
            decide: Box::new(|_| CallOutcome::Done),
            changes: Vec::new(),
        };
        Self(Arc::new(Inner { nodes, clock, moved: Notify::new(), network: Mutex::new(network) }))
    }

    /// Runs all Pods, until dropped.
    pub async fn run(&self, store: Store) {
        let mut changed = store.subscribe();
        loop {
            self.advance();
            tokio::select! {
                _ = changed.changed() => {}
                () = self.0.moved.notified() => {}
                () = tokio::time::sleep(TICK) => {}
            }
            tokio::time::sleep(LATENCY).await;
        }
    }

    /// The transport that connects to the members.
    pub fn transport(&self) -> Transport {
        let members = self.clone();
        Transport::instead(move |address| members.clone().dial(address))
    }

    /// From now on this member accepts connections and never replies.
    pub fn hang(&self, member: &str) {
        self.network().hung.insert(member.to_owned());
    }

    /// From now on the agent of this member replies with this free space of its volume, and this size, in bytes.
    pub fn free_space(&self, member: &str, free: u64, all: u64) {
        self.network().free_space.insert(member.to_owned(), (free, all));
    }

    /// How many requests for free space the agents got.
    pub fn asked_for_free_space(&self) -> usize {
        self.network().asked_for_free_space
    }

    /// From now on this decides the outcome of every call.
    pub fn decide_calls(&self, decide: impl FnMut(&Call) -> CallOutcome + Send + 'static) {
        self.network().decide = Box::new(decide);
    }

    /// Injects a fault. `false` if its object does not exist.
    pub fn strike(&self, fault: &Fault) -> bool {
        let mut nodes = self.nodes();
        nodes.now = self.0.clock.now();
        let struck = nodes.strike(fault);
        drop(nodes);
        self.0.moved.notify_one();
        struck
    }

    /// Ends all faults, and delivers all calls.
    pub fn heal(&self) {
        let now = self.0.clock.now();
        self.nodes().end_lasting_faults(now);
        let mut network = self.network();
        network.hung.clear();
        network.decide = Box::new(|_| CallOutcome::Done);
        drop(network);
        self.0.moved.notify_one();
    }

    /// Ends the faults that last. The outcome of calls stays as set.
    pub fn end_lasting_faults(&self) {
        let now = self.0.clock.now();
        self.nodes().end_lasting_faults(now);
        self.0.moved.notify_one();
    }

    /// The goal of the simulation; if it is not reached, what is missing.
    pub fn goal(&self) -> Result<(), String> {
        self.nodes().goal()
    }

    /// The goal, with every member in this version.
    pub fn goal_in(&self, version: &str) -> Result<(), String> {
        let nodes = self.nodes();
        let old = nodes.etcd.processes().find(|(_, process)| process.launch.version.to_string() != version);
        match old {
            Some((_, old)) => Err(format!("{} runs {}", old.launch.name, old.launch.version)),
            None => nodes.goal(),
        }
    }

    /// Makes the member with the highest ordinal the leader.
    pub fn move_leadership_to_the_last(&self) {
        let mut nodes = self.nodes();
        let leader_and_last = nodes.etcd.groups().find_map(|group| {
            let leader = group.leader()?;
            let (last, _) = group.conf().members.iter().max_by_key(|(_, peer)| peer.name.clone())?;
            let at = |(at, process): (&str, &quorate_sim::etcd::Process)| {
                (nodes.etcd.dir_of(process)?.member == leader).then(|| at.to_owned())
            };
            Some((nodes.etcd.processes().find_map(at)?, *last))
        });
        let Some((at, last)) = leader_and_last else { return };
        let moved = {
            let now = nodes.now;
            nodes.etcd.move_leader(&at, last, now)
        };
        assert!(moved.is_ok(), "{moved:?}");
    }

    /// The model.
    pub fn nodes(&self) -> MutexGuard<'_, Nodes> {
        self.0.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every change of membership or leadership that was carried out.
    pub fn changes(&self) -> Vec<String> {
        self.network().changes.clone()
    }

    /// The members in etcd's list, running or not.
    pub fn names(&self) -> Vec<String> {
        let nodes = self.nodes();
        let peers = nodes.etcd.groups().flat_map(|group| group.conf().members.values());
        let mut names: Vec<String> = peers.map(|peer| host(peer.url.as_str())).collect();
        names.sort();
        names
    }

    /// The ids of all clusters that were ever bootstrapped.
    pub fn cluster_ids(&self) -> Vec<String> {
        self.nodes().etcd.groups().map(|group| group.id().to_string()).collect()
    }

    /// How many alarms are active.
    pub fn alarms(&self) -> usize {
        self.nodes().etcd.groups().map(|group| group.tip().alarms.len()).sum()
    }

    /// The name of the leader.
    pub fn leader(&self) -> Option<String> {
        let nodes = self.nodes();
        nodes.etcd.groups().find_map(|group| {
            let peer = group.conf().members.get(&group.leader()?)?;
            Some(host(peer.url.as_str()))
        })
    }

    /// Passes a write that arrives at the API server to the checks of the simulation.
    pub fn observe_write(&self, write: Write) {
        let mut nodes = self.nodes();
        nodes.now = self.0.clock.now();
        if write.namespace == nodes.at.namespace && write.name.starts_with(&nodes.at.name) {
            nodes.arrives(write);
        }
    }

    fn network(&self) -> MutexGuard<'_, Network> {
        self.0.network.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn advance(&self) {
        let mut nodes = self.nodes();
        nodes.go_without_operator(self.0.clock.now());
        // The connections of a process end with it.
        let runs = |at: &str| nodes.etcd.process(at).is_some_and(|one| !matches!(one.state, State::Ended(_)));
        self.network().connections.retain(|(at, connection)| {
            if !runs(at) {
                connection.cancel();
            }
            !connection.is_cancelled()
        });
    }

    async fn dial(self, address: SocketAddr) -> io::Result<Stream> {
        if address.port() == PROBE_PORT {
            return self.dial_agent(address.ip());
        }
        let to = {
            let nodes = self.nodes();
            let mut there =
                nodes.etcd.processes().filter(|(at, _)| IpAddr::V6(address_of(at)) == address.ip());
            there.next().map(|(at, process)| {
                (at.to_owned(), process.launch.name.clone(), process.cut, process.state.clone())
            })
        };
        match to {
            // No process has the address, or the network is partitioned.
            None | Some((_, _, true, _)) => std::future::pending().await,
            Some((_, _, false, State::Starting | State::Ended(_))) => {
                Err(io::ErrorKind::ConnectionRefused.into())
            }
            Some((at, name, false, State::Running)) => Ok(Box::new(self.connect(at, name))),
        }
    }

    /// The agents of members serve nothing but the free space of their volumes, and most not even that.
    fn dial_agent(&self, ip: IpAddr) -> io::Result<Stream> {
        let name = {
            let nodes = self.nodes();
            let mut there = nodes.etcd.processes().filter(|(at, _)| IpAddr::V6(address_of(at)) == ip);
            there.next().map(|(_, process)| process.launch.name.clone())
        };
        let mut network = self.network();
        network.asked_for_free_space += 1;
        let space = name.and_then(|name| network.free_space.get(&name).copied());
        let (free, all) = space.ok_or(io::ErrorKind::ConnectionRefused)?;
        let (ours, mut theirs) = duplex(1 << 16);
        tokio::spawn(async move {
            let body = format!("{{\"freeBytes\":{free},\"volumeBytes\":{all}}}");
            let reply = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            let _ = theirs.read(&mut [0; 1024]).await;
            let _ = theirs.write_all(reply.as_bytes()).await;
        });
        Ok(Box::new(ours))
    }

    fn connect(&self, at: String, name: String) -> DuplexStream {
        let (ours, mut near) = duplex(1 << 16);
        let (mut far, theirs) = duplex(1 << 16);
        let connection = CancellationToken::new();
        self.network().connections.push((at.clone(), connection.clone()));
        let hangs = self.hangs(&name);
        let member = Member { at, name, members: self.clone(), connection: connection.clone() };
        tokio::spawn(async move {
            // A hung process: the kernel accepts the connection, and the process does not read.
            if hangs {
                connection.cancelled().await;
            }
            let _ = connection.run_until_cancelled(tokio::io::copy_bidirectional(&mut near, &mut far)).await;
        });
        let router = tonic::transport::Server::builder()
            .add_service(ClusterServer::new(member.clone()))
            .add_service(KvServer::new(member.clone()))
            .add_service(MaintenanceServer::new(member));
        let incoming = tokio_stream::once(Ok::<_, io::Error>(theirs));
        tokio::spawn(async move {
            let _ = router.serve_with_incoming(incoming).await;
        });
        ours
    }

    pub(super) fn hangs(&self, member: &str) -> bool {
        self.network().hung.contains(member)
    }

    /// The outcome of a call, as the test decides.
    pub(super) fn outcome_of(&self, call: &Call) -> CallOutcome {
        (self.network().decide)(call)
    }

    /// Logs a change of membership or leadership.
    pub(super) fn changed(&self, what: String) {
        self.network().changes.push(what);
        self.0.moved.notify_one();
    }

    pub(super) fn now(&self) -> quorate_model::Instant {
        self.0.clock.now()
    }
}

/// The member that a peer URL names.
pub fn host(url: &str) -> String {
    url.split("://").nth(1).and_then(|rest| rest.split('.').next()).unwrap_or_default().to_owned()
}
