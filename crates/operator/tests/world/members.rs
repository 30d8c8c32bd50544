//! Nodes that run one program: etcd, modelled (`quorate_sim`). Every Pod gets an address of its own; what is dialled there
//! is answered in this process, over memory, by a gRPC server that speaks for the member.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quorate_apistore::Store;
use quorate_etcd::wire::cluster_server::ClusterServer;
use quorate_etcd::wire::maintenance_server::MaintenanceServer;
use quorate_etcd::{Stream, Transport};
use quorate_manifests::Write;
use quorate_operator::Clock;
use quorate_sim::etcd::State;
use quorate_sim::world::World as Nodes;
use quorate_sim::world::faults::Fault;
use quorate_sim::world::kubelet::address_of;
use tokio::io::{DuplexStream, duplex};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::serve::Member;

/// How long kubelets and etcd take for what they do.
const LATENCY: Duration = Duration::from_millis(20);

/// How often they look although nothing happened: a process that ended is started again.
const TICK: Duration = Duration::from_secs(1);

/// The nodes and what runs on them.
#[derive(Clone)]
pub struct Members(Arc<Inner>);

struct Inner {
    nodes: Mutex<Nodes>,
    clock: Clock,
    moved: Notify,
    outside: Mutex<Outside>,
}

/// What is not etcd's own.
struct Outside {
    /// Members that take connections and never answer.
    hung: BTreeSet<String>,
    /// Open connections, by the Pod they lead to.
    lines: Vec<(String, CancellationToken)>,
    /// What becomes of a call.
    gate: Box<dyn FnMut(&Asked) -> Answer + Send>,
    /// Every call that was to change something, as it was sent.
    asked: Vec<Asked>,
    /// Every change of membership or leadership that was made.
    changes: Vec<String>,
}

/// A call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// At this member.
    pub at: String,
    /// `MemberAdd`, ...
    pub call: &'static str,
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It arrives, and so does the reply.
    Done,
    /// It arrives, and there is no answer.
    Never,
    /// It is refused in these words, and not done.
    Refused(tonic::Code, &'static str),
    /// It is done, and these words are the reply.
    RefusedAfter(tonic::Code, &'static str),
    /// The connection breaks before it arrives.
    NotSent,
    /// The connection breaks after it was done.
    ReplyLost,
    /// It arrives twice; the second reply counts.
    Twice,
    /// It arrives after this, and so does the reply.
    Slow(Duration),
    /// It is done after this, whether or not anybody waits.
    Late(Duration),
}

impl Members {
    pub fn new(store: Store, clock: Clock) -> Self {
        let nodes = Mutex::new(Nodes::around(store, clock.now()));
        let outside = Outside {
            hung: BTreeSet::new(),
            lines: Vec::new(),
            gate: Box::new(|_| Answer::Done),
            asked: Vec::new(),
            changes: Vec::new(),
        };
        Self(Arc::new(Inner { nodes, clock, moved: Notify::new(), outside: Mutex::new(outside) }))
    }

    /// Runs whatever Pods there are, until dropped.
    pub async fn run(&self, store: Store) {
        let mut changed = store.subscribe();
        loop {
            self.go();
            tokio::select! {
                _ = changed.changed() => {}
                () = self.0.moved.notified() => {}
                () = tokio::time::sleep(TICK) => {}
            }
            tokio::time::sleep(LATENCY).await;
        }
    }

    /// The way to the members.
    pub fn transport(&self) -> Transport {
        let members = self.clone();
        Transport::instead(move |address| members.clone().dial(address))
    }

    /// From now on this member takes connections and never answers.
    pub fn hang(&self, member: &str) {
        self.outside().hung.insert(member.to_owned());
    }

    /// From now on this decides what becomes of calls.
    pub fn gate(&self, gate: impl FnMut(&Asked) -> Answer + Send + 'static) {
        self.outside().gate = Box::new(gate);
    }

    /// Something goes wrong, if there is anything it could happen to.
    pub fn strike(&self, fault: &Fault) -> bool {
        let mut nodes = self.nodes();
        nodes.now = self.0.clock.now();
        let struck = nodes.strike(fault);
        drop(nodes);
        self.0.moved.notify_one();
        struck
    }

    /// Nothing goes wrong any more.
    pub fn heal(&self) {
        let now = self.0.clock.now();
        self.nodes().end_lasting_faults(now);
        let mut outside = self.outside();
        outside.hung.clear();
        outside.gate = Box::new(|_| Answer::Done);
        drop(outside);
        self.0.moved.notify_one();
    }

    /// What goes on being wrong ends; calls still meet what the gate says.
    pub fn end_lasting_faults(&self) {
        let now = self.0.clock.now();
        self.nodes().end_lasting_faults(now);
        self.0.moved.notify_one();
    }

    /// Where everything must end; else what is missing.
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

    /// The member with the highest number leads from now on.
    pub fn lead_by_the_last(&self) {
        let mut nodes = self.nodes();
        let found = nodes.etcd.groups().find_map(|group| {
            let leader = group.leader()?;
            let (last, _) = group.conf().members.iter().max_by_key(|(_, peer)| peer.name.clone())?;
            let at = |(at, process): (&str, &quorate_sim::etcd::Process)| {
                (nodes.etcd.dir_of(process)?.member == leader).then(|| at.to_owned())
            };
            Some((nodes.etcd.processes().find_map(at)?, *last))
        });
        let Some((at, last)) = found else { return };
        let moved = nodes.etcd.move_leader(&at, last);
        assert!(moved.is_ok(), "{moved:?}");
    }

    /// The model, as it is now.
    pub fn nodes(&self) -> MutexGuard<'_, Nodes> {
        self.0.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every change of membership or leadership that was made.
    pub fn changes(&self) -> Vec<String> {
        self.outside().changes.clone()
    }

    /// Every call that was to change something.
    pub fn asked(&self) -> Vec<Asked> {
        self.outside().asked.clone()
    }

    /// The members that etcd has, whether or not they run.
    pub fn names(&self) -> Vec<String> {
        let nodes = self.nodes();
        let peers = nodes.etcd.groups().flat_map(|group| group.conf().members.values());
        let mut names: Vec<String> = peers.map(|peer| host(peer.url.as_str())).collect();
        names.sort();
        names
    }

    /// The ids of the clusters that ever had data.
    pub fn cluster_ids(&self) -> Vec<String> {
        self.nodes().etcd.groups().map(|group| group.id().to_string()).collect()
    }

    /// The name of the leader.
    pub fn leader(&self) -> Option<String> {
        let nodes = self.nodes();
        nodes.etcd.groups().find_map(|group| {
            let peer = group.conf().members.get(&group.leader()?)?;
            Some(host(peer.url.as_str()))
        })
    }

    /// A write arrives at the API server.
    pub fn judge(&self, write: Write) {
        let mut nodes = self.nodes();
        nodes.now = self.0.clock.now();
        if write.namespace == nodes.at.namespace && write.name.starts_with(&nodes.at.name) {
            nodes.arrives(write);
        }
    }

    fn outside(&self) -> MutexGuard<'_, Outside> {
        self.0.outside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn go(&self) {
        let mut nodes = self.nodes();
        nodes.go_without_operator(self.0.clock.now());
        // With a process its connections end.
        let runs = |at: &str| nodes.etcd.process(at).is_some_and(|one| !matches!(one.state, State::Ended(_)));
        self.outside().lines.retain(|(at, line)| {
            if !runs(at) {
                line.cancel();
            }
            !line.is_cancelled()
        });
    }

    async fn dial(self, address: SocketAddr) -> io::Result<Stream> {
        let to = {
            let nodes = self.nodes();
            let mut there =
                nodes.etcd.processes().filter(|(at, _)| IpAddr::V6(address_of(at)) == address.ip());
            there.next().map(|(at, process)| {
                (at.to_owned(), process.launch.name.clone(), process.cut, process.state.clone())
            })
        };
        match to {
            // Nobody has the address, or nobody reaches it.
            None | Some((_, _, true, _)) => std::future::pending().await,
            Some((_, _, false, State::Starting | State::Ended(_))) => {
                Err(io::ErrorKind::ConnectionRefused.into())
            }
            Some((at, name, false, State::Running)) => Ok(Box::new(self.connect(at, name))),
        }
    }

    fn connect(&self, at: String, name: String) -> DuplexStream {
        let (ours, mut near) = duplex(1 << 16);
        let (mut far, theirs) = duplex(1 << 16);
        let line = CancellationToken::new();
        self.outside().lines.push((at.clone(), line.clone()));
        let hangs = self.hangs(&name);
        let member = Member { at, name, members: self.clone(), line: line.clone() };
        tokio::spawn(async move {
            // A process that is stopped: the kernel takes the connection, and nobody reads.
            if hangs {
                line.cancelled().await;
            }
            let _ = line.run_until_cancelled(tokio::io::copy_bidirectional(&mut near, &mut far)).await;
        });
        let router = tonic::transport::Server::builder()
            .add_service(ClusterServer::new(member.clone()))
            .add_service(MaintenanceServer::new(member));
        let incoming = tokio_stream::once(Ok::<_, io::Error>(theirs));
        tokio::spawn(async move {
            let _ = router.serve_with_incoming(incoming).await;
        });
        ours
    }

    pub(super) fn hangs(&self, member: &str) -> bool {
        self.outside().hung.contains(member)
    }

    /// What becomes of a call that is to change something, or to tell.
    pub(super) fn fate(&self, asked: Asked) -> Answer {
        let mut outside = self.outside();
        let fate = (outside.gate)(&asked);
        if !["Status", "MemberList"].contains(&asked.call) {
            outside.asked.push(asked);
        }
        fate
    }

    /// Something was changed.
    pub(super) fn changed(&self, what: String) {
        self.outside().changes.push(what);
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
