//! The connections of a client: one to each endpoint, made again whenever it ends, and the choice of one for each call. As in
//! etcd's client, a call waits until some connection is ready.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use super::connection::Connection;
use super::directory::{Directory, Endpoint};

/// gRPC's waits between attempts to connect: 1 s, and 1.6 times longer after each failure. Its longest is 120 s; tests are
/// shorter than that.
const BACKOFF: (Duration, f64, Duration) = (Duration::from_secs(1), 1.6, Duration::from_secs(5));

/// Connections through the client Service.
const THROUGH_SERVICE: usize = 2;

/// How a client chooses among the connections that are ready.
#[derive(Clone, Copy, Debug)]
pub(super) enum Choice {
    /// The member of this place in the list; the next one only while it is not ready.
    Home(usize),
    /// Every member in turn.
    RoundRobin(usize),
    /// The connection of this number through the client Service.
    Service(usize),
}

type Ready = BTreeMap<Endpoint, Connection>;

/// The connections of all clients of one test.
pub(super) struct Pool {
    directory: Arc<Directory>,
    ready: watch::Sender<Ready>,
}

impl Pool {
    pub(super) fn new(directory: Directory) -> Arc<Self> {
        Arc::new(Self { directory: Arc::new(directory), ready: watch::Sender::default() })
    }

    /// Keeps the connections while it is polled.
    pub(super) async fn run(&self) {
        tokio::join!(self.directory.run(), self.keep());
    }

    /// Waits until there is a connection for this choice.
    pub(super) async fn pick(&self, choice: Choice) -> Connection {
        let mut ready = self.ready.subscribe();
        loop {
            if let Some(connection) =
                choice.of(&self.directory.members().borrow(), &ready.borrow_and_update())
            {
                return connection;
            }
            // The sender lives as long as this.
            let _ = ready.changed().await;
        }
    }

    async fn keep(&self) {
        let mut members = self.directory.members();
        let mut tasks = JoinSet::new();
        let mut kept: BTreeMap<Endpoint, AbortHandle> = BTreeMap::new();
        loop {
            let mut desired: Vec<Endpoint> =
                members.borrow_and_update().iter().cloned().map(Endpoint::Member).collect();
            desired.extend((0..THROUGH_SERVICE).map(Endpoint::Service));
            kept.retain(|endpoint, task| {
                let keep = desired.contains(endpoint);
                if !keep {
                    task.abort();
                    self.ready.send_modify(|ready| drop(ready.remove(endpoint)));
                }
                keep
            });
            for endpoint in desired {
                kept.entry(endpoint.clone()).or_insert_with(|| {
                    tasks.spawn(keep_one(self.directory.clone(), self.ready.clone(), endpoint))
                });
            }
            if members.changed().await.is_err() {
                return;
            }
        }
    }
}

async fn keep_one(directory: Arc<Directory>, ready: watch::Sender<Ready>, endpoint: Endpoint) {
    let (first, factor, longest) = BACKOFF;
    let mut backoff = first;
    loop {
        let opened = async {
            let tls = directory.tls(&endpoint).await;
            Connection::open(directory.address(&endpoint).await?, tls.as_ref()).await
        };
        if let Ok((connection, closed)) = opened.await {
            ready.send_modify(|ready| drop(ready.insert(endpoint.clone(), connection)));
            closed.await;
            ready.send_modify(|ready| drop(ready.remove(&endpoint)));
            backoff = first;
        } else {
            tokio::time::sleep(backoff).await;
            backoff = backoff.mul_f64(factor).min(longest);
        }
    }
}

impl Choice {
    /// The choice for the next call.
    pub(super) fn next(self) -> Self {
        match self {
            Self::RoundRobin(turn) => Self::RoundRobin(turn.wrapping_add(1)),
            Self::Home(_) | Self::Service(_) => self,
        }
    }

    /// The choice after one that failed.
    pub(super) fn another(self) -> Self {
        match self {
            Self::Home(first) => Self::Home(first.wrapping_add(1)),
            Self::RoundRobin(_) | Self::Service(_) => self.next(),
        }
    }

    fn of(self, members: &[String], ready: &Ready) -> Option<Connection> {
        match self {
            Self::Service(number) => ready.get(&Endpoint::Service(number)).cloned(),
            Self::Home(first) | Self::RoundRobin(first) => (0..members.len()).find_map(|step| {
                let member = &members[first.wrapping_add(step) % members.len()];
                ready.get(&Endpoint::Member(member.clone())).cloned()
            }),
        }
    }
}
