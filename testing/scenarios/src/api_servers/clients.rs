//! Clients of API servers that write and watch without rest.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch};
use kube::{Client, ResourceExt};
use tokio::sync::watch as signal;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use crate::until;

/// How many write, each an object of its own.
const WRITERS: usize = 4;

/// The shortest time from one write of a writer to its next: two cores carry all of it.
const PACE: Duration = Duration::from_millis(50);

/// After a failure.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// Longer than any answer of an API server whose etcd serves. Its own limit is 60 s.
const CALL: Duration = Duration::from_secs(15);

/// The namespace that every API server makes by itself.
const NAMESPACE: &str = "default";

/// The key in each object with the number of its last write.
const KEY: &str = "written";

/// What etcd says of a proposal that raft dropped: at once where the leader was asked, 7 s later where another member had sent it on.
const OF_RAFT: [&str; 3] =
    ["raft proposal dropped", "possibly due to previous leader failure", "etcdserver: leader changed"];

/// What a member that does not lead says after those 7 s: only one that leads itself knows when leadership changed hands (`leadElectedTime` in
/// `etcdserver/server.go`, 3.6.16). A cluster that does not serve says the same.
const UNEXPLAINED: &str = "etcdserver: request timed out";

/// What a client says whose connection ended while it waited for an answer, and what an API server says in the last moment. A kube-apiserver ends
/// connections last, and this is the race that is left.
const CUT: [&str; 2] = ["connection closed before message completed", "apiserver is shutting down"];

/// They write and watch until they are stopped.
pub struct Clients {
    shared: Arc<Mutex<Journal>>,
    stop: signal::Sender<bool>,
    writers: JoinSet<Result<()>>,
    watch: JoinHandle<()>,
}

/// What came of the writes.
#[derive(Clone, Debug, Default)]
pub struct Served {
    /// How many writes were acknowledged.
    pub acknowledged: usize,
    /// How many raft dropped because leadership changed hands: those that were on their way.
    pub dropped: usize,
    /// How many were on their way to an API server that ended.
    pub cut: usize,
    /// How many others were not acknowledged, and with which messages.
    pub failed: BTreeMap<String, usize>,
    /// The longest time in which no writer had a write acknowledged.
    pub pause: Duration,
    /// How long they wrote.
    pub time: Duration,
    /// How often the watch began anew with a list.
    pub relists: usize,
}

#[derive(Default)]
struct Journal {
    served: Served,
    start: Option<Instant>,
    last: Option<Instant>,
    /// The last acknowledged number of each writer's object.
    acknowledged: BTreeMap<String, u64>,
    /// What the watch reported last.
    watched: BTreeMap<String, u64>,
}

impl Clients {
    /// Starts them; returns once every writer has had a write acknowledged.
    pub(super) async fn start(tenant: &str, client: impl AsyncFn() -> Result<Client>) -> Result<Self> {
        let shared = Arc::new(Mutex::new(Journal::default()));
        let stop = signal::Sender::new(false);
        let mut writers = JoinSet::new();
        for number in 0..WRITERS {
            let writer = Writer {
                objects: Api::namespaced(client().await?, NAMESPACE),
                name: format!("{tenant}-{number}"),
                shared: shared.clone(),
            };
            writers.spawn(writer.run(stop.subscribe()));
        }
        let objects: Api<ConfigMap> = Api::namespaced(client().await?, NAMESPACE);
        let watch = tokio::spawn(observe(objects, format!("{tenant}-"), shared.clone()));
        let clients = Self { shared, stop, writers, watch };
        until("every client of the API servers has written", async || {
            let written = lock(&clients.shared).acknowledged.len();
            Ok(if written == WRITERS { Ok(()) } else { Err(format!("{written} of {WRITERS}")) })
        })
        .await?;
        // What was waited for at the start is no pause.
        lock(&clients.shared).served.pause = Duration::ZERO;
        Ok(clients)
    }

    /// What came of the writes until now.
    pub fn served(&self) -> Served {
        lock(&self.shared).until(Instant::now())
    }

    /// Stops them, and the watch once it has reported every acknowledged write.
    ///
    /// # Errors
    /// An acknowledged write is gone, or the watch did not report it.
    pub async fn stop(mut self) -> Result<Served> {
        let served = self.served();
        self.stop.send_replace(true);
        while let Some(writer) = self.writers.join_next().await {
            writer??;
        }
        until("the watch has reported every write", async || {
            let journal = lock(&self.shared);
            let behind = journal
                .acknowledged
                .iter()
                .find(|(name, number)| journal.watched.get(*name).is_none_or(|watched| watched < number));
            Ok(behind.map_or(Ok(()), |behind| Err(format!("{behind:?}; {:?}", journal.watched))))
        })
        .await?;
        Ok(Served { relists: lock(&self.shared).served.relists, ..served })
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

impl Served {
    /// Fails where a write failed, but for so many that leaders which led no more dropped without a word, or where no writer had one acknowledged for this long:
    /// a cluster that does not serve shows as a pause.
    pub fn went_on(&self, most_unexplained: usize, pause: Duration) -> Result<()> {
        let others = self.failed.keys().filter(|message| !message.contains(UNEXPLAINED)).count();
        let count: usize = self.failed.values().sum();
        ensure!(others == 0 && count <= most_unexplained && self.pause < pause, "{self}");
        Ok(())
    }
}

impl fmt::Display for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { acknowledged, dropped, cut, failed, pause, time, relists } = self;
        let (time, pause) = (time.as_secs_f64(), pause.as_secs_f64());
        let count: usize = failed.values().sum();
        write!(
            f,
            "{acknowledged} acknowledged in {time:.1} s, {count} failed, {dropped} dropped by raft, {cut} on the way to an API server that ended, \
             longest pause {pause:.3} s, {relists} lists of the watch"
        )?;
        failed.iter().try_for_each(|(message, count)| write!(f, "; {count} failed with {message:?}"))
    }
}

impl Journal {
    fn acknowledge(&mut self, name: &str, number: u64) {
        let now = Instant::now();
        self.start.get_or_insert(now);
        self.served = self.until(now);
        self.served.acknowledged += 1;
        self.last = Some(now);
        self.acknowledged.insert(name.to_owned(), number);
    }

    fn fail(&mut self, message: String) {
        let served = &mut self.served;
        if OF_RAFT.iter().any(|word| message.contains(word)) {
            served.dropped += 1;
        } else if CUT.iter().any(|word| message.contains(word)) {
            served.cut += 1;
        } else {
            *served.failed.entry(message).or_default() += 1;
        }
    }

    fn until(&self, now: Instant) -> Served {
        let mut served = self.served.clone();
        served.pause = served.pause.max(self.last.map_or(Duration::ZERO, |last| now - last));
        served.time = self.start.map_or(Duration::ZERO, |start| now - start);
        served
    }
}

/// One of the writers.
struct Writer {
    objects: Api<ConfigMap>,
    name: String,
    shared: Arc<Mutex<Journal>>,
}

impl Writer {
    async fn run(self, stop: signal::Receiver<bool>) -> Result<()> {
        // Of earlier clients.
        let mut present = self.read(&stop).await?;
        let mut number = present.as_ref().and_then(written).unwrap_or_default();
        while !*stop.borrow() {
            let begun = Instant::now();
            number += 1;
            match self.write(present.take(), number).await {
                Ok(object) => {
                    lock(&self.shared).acknowledge(&self.name, number);
                    present = Some(object);
                    tokio::time::sleep(PACE.saturating_sub(begun.elapsed())).await;
                }
                Err(message) => {
                    let seconds = begun.elapsed().as_secs_f64();
                    eprintln!("{}: write {number} failed after {seconds:.1} s: {message}", self.name);
                    lock(&self.shared).fail(message);
                    tokio::time::sleep(AFTER_FAILURE).await;
                    present = self.read(&stop).await?;
                }
            }
        }
        Ok(())
    }

    #[expect(clippy::disallowed_methods, reason = "the test is the user who writes")]
    /// Creates the object, or replaces it as it was when it was answered last.
    async fn write(&self, present: Option<ConfigMap>, number: u64) -> Result<ConfigMap, String> {
        let mut object = present.unwrap_or_default();
        let is_new = object.metadata.resource_version.is_none();
        object.metadata.name = Some(self.name.clone());
        object.data = Some([(KEY.to_owned(), number.to_string())].into());
        let call = async {
            if is_new {
                self.objects.create(&PostParams::default(), &object).await
            } else {
                self.objects.replace(&self.name, &PostParams::default(), &object).await
            }
        };
        match timeout(CALL, call).await {
            Ok(Ok(object)) => Ok(object),
            Ok(Err(error)) => Err(text(&error)),
            Err(_) => Err(format!("no answer within {CALL:?}")),
        }
    }

    /// What is there after a failed write: no less than what was acknowledged.
    async fn read(&self, stop: &signal::Receiver<bool>) -> Result<Option<ConfigMap>> {
        loop {
            match timeout(CALL, self.objects.get_opt(&self.name)).await {
                Ok(Ok(object)) => {
                    let found = object.as_ref().and_then(written);
                    let acknowledged = lock(&self.shared).acknowledged.get(&self.name).copied();
                    ensure!(
                        found >= acknowledged,
                        "{}: {acknowledged:?} was acknowledged and {found:?} is there",
                        self.name
                    );
                    return Ok(object);
                }
                Ok(Err(_)) | Err(_) if *stop.borrow() => return Ok(None),
                Ok(Err(_)) | Err(_) => tokio::time::sleep(AFTER_FAILURE).await,
            }
        }
    }
}

/// Notes what the watch reports.
async fn observe(objects: Api<ConfigMap>, prefix: String, shared: Arc<Mutex<Journal>>) {
    let mut events = watch(objects, watcher::Config::default()).default_backoff().boxed();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Apply(object) | Event::InitApply(object)) => {
                let name = object.name_any();
                if let Some(number) = written(&object).filter(|_| name.starts_with(&prefix)) {
                    lock(&shared).watched.insert(name, number);
                }
            }
            Ok(Event::Init) => lock(&shared).served.relists += 1,
            Ok(Event::Delete(_) | Event::InitDone) => {}
            // It goes on by itself.
            Err(error) => eprintln!("the watch of {prefix}*: {:#}", anyhow!(error)),
        }
    }
}

fn written(object: &ConfigMap) -> Option<u64> {
    object.data.as_ref()?.get(KEY)?.parse().ok()
}

fn text(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        return status.message.clone();
    }
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

fn lock(shared: &Mutex<Journal>) -> MutexGuard<'_, Journal> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
