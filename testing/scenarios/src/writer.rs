//! Clients of a cluster: eight writers that write without rest, and three watches that are held open, like a kube-apiserver and
//! its neighbours. At the end every write that etcd acknowledged must be readable with its exact value, and every watch must
//! have reported it.
//!
//! - connections, choice of members and retries are those of etcd's client for Go: [`pool`], [`connection`], [`directory`]
//! - a write without a reply is unknown: it does not count as acknowledged, and may or may not be there
//! - [`witness`]: a few more clients, whose every call and reply is recorded and judged
//! - [`Figures`]: what a test prints in one line

mod connection;
mod directory;
mod journal;
mod pool;
mod verdict;
mod watcher;
mod witness;

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write as _;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use h2::Reason;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use quorate_etcd::wire::{KeyValue, PutRequest, RangeRequest, RangeResponse};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tonic::Status;

use crate::history::{Found, History};
use crate::{NamespaceClient, is_ready, until};
use connection::Connection;
use directory::{Directory, Endpoint};
pub use journal::{Figures, Pause};
use journal::{Journal, Write};
use pool::{Choice, Pool};
use verdict::Stored;
use watcher::Watcher;
use witness::Witness;

/// Spread over all members of up to five; some in turn over all of them, some through the client Service.
const WRITERS: [Choice; 8] = [
    Choice::Home(0),
    Choice::Home(1),
    Choice::Home(2),
    Choice::Home(3),
    Choice::Home(4),
    Choice::RoundRobin(0),
    Choice::Service(0),
    Choice::Service(1),
];

const WATCHES: [Choice; 3] = [Choice::Home(1), Choice::Home(2), Choice::Service(0)];

/// The shortest time from one write of a writer to its next. Eight writers without it would take both cores of a small machine
/// from everything else, and fill a small volume within minutes. `QUORATE_TEST_PACE` sets another one, in milliseconds: tests of
/// behaviour write less often than benchmarks.
fn pace() -> Duration {
    static PACE: OnceLock<Duration> = OnceLock::new();
    *PACE.get_or_init(|| {
        let set = std::env::var("QUORATE_TEST_PACE").ok().and_then(|millis| millis.parse().ok());
        Duration::from_millis(set.unwrap_or(20))
    })
}

/// Longer than etcd's own deadline for a request, so that etcd's answer arrives.
const CALL: Duration = Duration::from_secs(10);

/// After a failure, so that a writer that is refused at once does not spin.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// How long a write in flight is waited for at the end.
const AT_THE_END: Duration = Duration::from_secs(2);

/// How long watches may take to report all of it at the end.
const CATCH_UP: Duration = Duration::from_secs(30);

/// Writes and watches until it is stopped.
pub struct Writer {
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    task: JoinHandle<Result<Ended>>,
}

/// What the watches of the writers reported, and what the witness recorded.
type Ended = (Vec<Watcher<Option<Write>>>, History);

struct Shared {
    cluster: String,
    /// Of all keys.
    prefix: String,
    journal: Mutex<Journal>,
    witness: Witness,
}

impl Writer {
    /// Starts to write to a cluster that serves clients; returns once etcd has acknowledged a write, so that what a test does
    /// next is done under writes.
    ///
    /// # Errors
    /// No write is acknowledged before the deadline of [`until`].
    pub async fn start(namespace_client: &NamespaceClient, cluster: &str) -> Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        // Before an hour of a test is wasted.
        crate::tool("porcupine", "etcd")?;
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("writer-{count}/");
        let journal = Mutex::new(Journal::new(Instant::now()));
        let witness = Witness::new(&format!("witness-{}-{count}/", std::process::id()));
        let shared = Arc::new(Shared { cluster: cluster.to_owned(), prefix, journal, witness });
        let stop = watch::Sender::new(false);
        let task = tokio::spawn(run(namespace_client.clone(), shared.clone(), stop.subscribe()));
        let is_written = || !shared.journal().acknowledged.is_empty();
        until(&format!("{cluster} acknowledges a write"), async || {
            Ok(if is_written() { Ok(()) } else { Err("nothing was acknowledged".into()) })
        })
        .await?;
        Ok(Self { shared, stop, task })
    }

    /// The longest pause since the last call of this.
    pub fn lap(&self) -> Pause {
        self.shared.journal().lap(Instant::now())
    }

    /// What came of the writes until now.
    pub fn figures(&self) -> Figures {
        self.shared.journal().figures(Instant::now())
    }

    /// Stops the writers, and the watches once they have reported every acknowledged write.
    pub async fn stop(self) -> Result<Acknowledged> {
        let stopped = Instant::now();
        self.stop.send_replace(true);
        let (watchers, history) = self.task.await??;
        witness::judge(&history, &self.shared.cluster)?;
        let mut journal = self.shared.journal();
        let mut figures = journal.figures(stopped);
        for (number, watcher) in watchers.iter().enumerate() {
            let faults = verdict::faults_of_watch(&journal, &watcher.reported);
            ensure!(faults.is_empty(), "watch {number} of {}: {}", self.shared.cluster, brief(&faults));
            figures.resumed += watcher.opened.saturating_sub(1);
        }
        figures.linearizable = history.operations.len();
        drop(journal);
        Ok(Acknowledged { shared: self.shared, history, figures })
    }
}

impl Shared {
    fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes that etcd acknowledged.
pub struct Acknowledged {
    shared: Arc<Shared>,
    /// Of the witness.
    history: History,
    figures: Figures,
}

impl Acknowledged {
    /// Reads every write back with a linearizable read at each ready member, and prints the figures.
    pub async fn are_all_readable(&self, namespace_client: &NamespaceClient, cluster: &str) -> Result<()> {
        self.are_readable_as_of(namespace_client, cluster, i64::MAX).await
    }

    /// The same for what was written up to a revision: what a cluster has that was restored from a snapshot of that revision.
    pub async fn are_readable_as_of(
        &self,
        namespace_client: &NamespaceClient,
        cluster: &str,
        revision: i64,
    ) -> Result<()> {
        let mut lost = BTreeMap::new();
        let directory = Directory::new(namespace_client, cluster).await?;
        for pod in namespace_client.pods_of(cluster).await?.iter().filter(|pod| is_ready(pod)) {
            let name = pod.name_any();
            let (stored, of_witness) =
                self.read(&directory, pod).await.with_context(|| format!("cannot read at {name}"))?;
            let journal = self.shared.journal();
            ensure!(
                journal.acknowledged.keys().next().is_some_and(|first| *first <= revision),
                "no write was acknowledged before revision {revision}"
            );
            let mut faults = verdict::lost(&journal, &self.shared.prefix, &stored, revision);
            faults.extend(self.history.lost(&of_witness, revision));
            lost.insert(name, faults);
        }
        ensure!(!lost.is_empty(), "{cluster} has no ready member");
        let count = lost.values().map(Vec::len).max().unwrap_or_default();
        report(&format!("{cluster}: {count} lost, {}", self.figures));
        for (member, lost) in lost {
            ensure!(lost.is_empty(), "{member} has lost acknowledged writes: {}", brief(&lost));
        }
        Ok(())
    }

    /// What came of the writes.
    pub fn figures(&self) -> &Figures {
        &self.figures
    }

    /// What a member has of the writers, and of the witness.
    async fn read(
        &self,
        directory: &Directory,
        pod: &Pod,
    ) -> Result<(BTreeMap<String, Stored>, BTreeMap<String, Found>)> {
        let tls = directory.tls(&Endpoint::Member(pod.name_any())).await;
        let address = directory::address_of(pod).context("a ready Pod has no IP")?;
        let (connection, closed) = Connection::open(address, tls.as_ref()).await?;
        let both = async {
            let stored = range(&connection, &self.shared.prefix).await?;
            Ok::<_, anyhow::Error>((stored, range(&connection, &self.shared.witness.prefix).await?))
        };
        let (stored, of_witness) = tokio::select! {
            both = both => both?,
            () = closed => bail!("the connection was closed"),
        };
        let key = |kv: &KeyValue| String::from_utf8(kv.key.clone());
        let written = |kv: KeyValue| Stored { value: kv.value, revision: kv.mod_revision };
        let stored = stored.kvs.into_iter().map(|kv| Ok((key(&kv)?, written(kv))));
        let of_witness = of_witness.kvs.into_iter().map(|kv| Ok((key(&kv)?, witness::found(&kv))));
        Ok((stored.collect::<Result<_>>()?, of_witness.collect::<Result<_>>()?))
    }
}

/// All clients; ends when they are stopped and the watches have reported everything.
async fn run(
    namespace_client: NamespaceClient,
    shared: Arc<Shared>,
    stop: watch::Receiver<bool>,
) -> Result<Ended> {
    let pool = Pool::new(Directory::new(&namespace_client, &shared.cluster).await?);
    let witnessed = witness::run(&pool, &shared, stop.clone());
    let all = async { tokio::try_join!(write_and_watch(&pool, &shared, stop), witnessed) };
    tokio::select! {
        () = pool.run() => bail!("the connections end only with the writer"),
        ended = all => ended,
    }
}

async fn write_and_watch(
    pool: &Arc<Pool>,
    shared: &Arc<Shared>,
    mut stop: watch::Receiver<bool>,
) -> Result<Vec<Watcher<Option<Write>>>> {
    let first = tokio::select! {
        revision = revision(pool, &shared.prefix) => revision + 1,
        _ = stop.wait_for(|stop| *stop) => return Ok(Vec::new()),
    };
    let last = watch::Sender::new(None);
    let mut watches = JoinSet::new();
    for choice in WATCHES {
        let mut watcher =
            Watcher::new(pool.clone(), choice, &shared.prefix, first, |kv| Write::of(&kv.value));
        let until = last.subscribe();
        watches.spawn(async move { watcher.run(until).await.map(|()| watcher) });
    }
    let mut writers = JoinSet::new();
    for (writer, choice) in WRITERS.into_iter().enumerate() {
        writers.spawn(write(pool.clone(), shared.clone(), stop.clone(), writer, choice));
    }
    writers.join_all().await;
    let written = shared.journal().acknowledged.keys().next_back().copied();
    last.send_replace(Some(written.unwrap_or_default()));
    caught_up(watches).await
}

/// The watches, once they have reported everything.
async fn caught_up<T: 'static>(mut watches: JoinSet<Result<Watcher<T>>>) -> Result<Vec<Watcher<T>>> {
    let caught_up = async {
        let mut watchers = Vec::new();
        while let Some(watcher) = watches.join_next().await {
            watchers.push(watcher??);
        }
        Ok(watchers)
    };
    let caught_up = tokio::time::timeout(CATCH_UP, caught_up).await;
    caught_up.with_context(|| format!("a watch has not reported everything within {CATCH_UP:?}"))?
}

/// The revision of the store.
async fn revision(pool: &Pool, prefix: &str) -> i64 {
    for turn in 0.. {
        let connection = pool.pick(Choice::RoundRobin(turn)).await;
        if let Ok(reply) = range(&connection, prefix).await
            && let Some(header) = reply.header
        {
            return header.revision;
        }
        tokio::time::sleep(AFTER_FAILURE).await;
    }
    0
}

/// One writer.
async fn write(
    pool: Arc<Pool>,
    shared: Arc<Shared>,
    mut stop: watch::Receiver<bool>,
    writer: usize,
    mut choice: Choice,
) {
    for number in 1.. {
        let write = Write { writer, number };
        let start = Instant::now();
        let mut sent = None;
        let put = async {
            loop {
                choice = choice.next();
                let connection = pool.pick(choice).await;
                sent = Some(Instant::now());
                match put(&connection, &shared.prefix, write).await {
                    // As in gRPC: a call that was not sent is repeated on another connection.
                    Err(status) if never_sent(&status) => sent = None,
                    reply => return reply,
                }
                tokio::task::yield_now().await;
            }
        };
        let stopped = async {
            let _ = stop.wait_for(|stop| *stop).await;
            tokio::time::sleep(AT_THE_END).await;
        };
        let reply = tokio::select! {
            reply = put => reply,
            () = stopped => Err(Status::cancelled("the test ended before the reply")),
        };
        match (reply, sent) {
            (Ok((revision, term)), _) => {
                shared.journal().acknowledge(write, revision, term, Instant::now());
            }
            (Err(status), Some(sent)) => {
                shared.journal().fail(write, sent, message(&status));
                tokio::time::sleep(AFTER_FAILURE).await;
            }
            (Err(_), None) => {}
        }
        if *stop.borrow() {
            return;
        }
        tokio::time::sleep_until((start + pace()).into()).await;
    }
}

/// The revision of the write, and the term in which it was acknowledged.
async fn put(connection: &Connection, prefix: &str, write: Write) -> Result<(i64, u64), Status> {
    let request =
        PutRequest { key: write.key(prefix).into(), value: write.value().into(), ..PutRequest::default() };
    let reply = tokio::time::timeout(CALL, connection.kv().put(request)).await;
    let reply = reply.map_err(|_| Status::deadline_exceeded(format!("no reply within {CALL:?}")))??;
    let header = reply.into_inner().header.ok_or_else(|| Status::internal("a reply without a header"))?;
    Ok((header.revision, header.raft_term))
}

async fn range(connection: &Connection, prefix: &str) -> Result<RangeResponse> {
    let request = RangeRequest { key: prefix.into(), range_end: end_of(prefix), ..RangeRequest::default() };
    Ok(tokio::time::timeout(CALL, connection.kv().range(request)).await??.into_inner())
}

/// The end of the range of all keys with this prefix, which ends with an ASCII character.
fn end_of(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}

/// etcd never saw the request: the connection was closed before it was sent, or the server said that it stops before it read it.
fn never_sent(status: &Status) -> bool {
    let unread = |error: &h2::Error| {
        error.is_remote()
            && (error.is_go_away() && error.reason() == Some(Reason::NO_ERROR)
                || error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM))
    };
    causes(status).any(|cause| {
        cause.downcast_ref::<hyper::Error>().is_some_and(|error| error.is_canceled() || error.is_closed())
            || cause.downcast_ref::<h2::Error>().is_some_and(unread)
    })
}

/// The message with its causes, each once.
fn message(status: &Status) -> String {
    let causes = causes(status).skip(1).map(ToString::to_string);
    causes.fold(status.message().to_owned(), |text, cause| {
        if text.contains(&cause) { text } else { format!("{text}: {cause}") }
    })
}

fn causes<'a>(status: &'a Status) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(status as &(dyn Error + 'static)), |&error| error.source())
}

/// Prints a line, and adds it to the file that `cargo xtask test` shows at the end.
pub fn report(line: &str) {
    let test = std::env::var("NEXTEST_TEST_NAME").unwrap_or_default();
    let line = format!("writes: {test}: {line}");
    eprintln!("{line}");
    let Some(file) = std::env::var_os("QUORATE_TEST_FIGURES") else { return };
    let file = std::fs::OpenOptions::new().create(true).append(true).open(file);
    // One call for a line, since tests run side by side.
    if let Err(error) = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes())) {
        eprintln!("cannot write the figures: {error}");
    }
}

/// The first of them.
pub(crate) fn brief(faults: &[String]) -> String {
    let first = faults.iter().take(5).cloned().collect::<Vec<_>>().join("; ");
    if faults.len() > 5 { format!("{first}; and {} more", faults.len() - 5) } else { first }
}
