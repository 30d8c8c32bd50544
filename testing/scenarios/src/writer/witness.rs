//! The witness: six clients that write, read and swap a handful of keys, through all members and the Service, and watches of
//! these keys. Every call and every reply is recorded; at the end they are judged: [`History`].
//!
//! - all clients are at the same key at the same time, so that their swaps meet
//! - a reply that is lost leaves an unknown outcome; only what etcd refuses before it proposes it to raft has certainly no effect

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use quorate_etcd::wire::compare::{CompareTarget, TargetUnion};
use quorate_etcd::wire::{
    Compare, KeyValue, PutRequest, RangeRequest, RequestOp, ResponseHeader, TxnRequest, request_op,
    response_op,
};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tonic::Status;

use super::connection::Connection;
use super::pool::{Choice, Pool};
use super::watcher::Watcher;
use super::{AFTER_FAILURE, AT_THE_END, CALL, Shared, WATCHES, caught_up, message, never_sent, revision};
use crate::history::{Condition, Event, Found, History, Operation, Outcome, Reply, Request, Watch};

const CLIENTS: [Choice; 6] = [
    Choice::Home(0),
    Choice::Home(1),
    Choice::Home(2),
    Choice::RoundRobin(0),
    Choice::Service(0),
    Choice::Service(1),
];

const KEYS: usize = 4;

/// How long all clients stay at one key.
const TURN: Duration = Duration::from_millis(500);

/// The shortest time from one call of a client to its next: 20 calls in a second, which is no load. It doubles with each
/// thousand calls of a client, so that the history of a long test is bounded too.
const PACE: Duration = Duration::from_millis(300);
const THOUSAND: u32 = 1000;

/// etcd answers so before it gives the request to raft, or when raft did not take it. Not when it has no space left: it may
/// have written all the same.
const REFUSED: [&str; 2] = ["etcdserver: too many requests", "raft proposal dropped"];

/// What the clients record.
pub(super) struct Witness {
    start: Instant,
    /// Of its keys.
    pub(super) prefix: String,
    operations: Mutex<Vec<Operation>>,
}

impl Witness {
    /// Nothing is recorded yet.
    pub(super) fn new(prefix: &str) -> Self {
        Self { start: Instant::now(), prefix: prefix.to_owned(), operations: Mutex::default() }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// The number of the key that is everybody's turn.
    fn turn(&self) -> usize {
        let turns = self.start.elapsed().as_millis() / TURN.as_millis();
        usize::try_from(turns % KEYS as u128).unwrap_or_default()
    }

    fn record(&self, operation: Operation) {
        self.operations.lock().unwrap_or_else(PoisonError::into_inner).push(operation);
    }
}

/// All clients and watches; ends when they are stopped and the watches have reported everything.
pub(super) async fn run(
    pool: &Arc<Pool>,
    shared: &Arc<Shared>,
    mut stop: watch::Receiver<bool>,
) -> Result<History> {
    let prefix = &shared.witness.prefix;
    let from = tokio::select! {
        revision = revision(pool, prefix) => revision + 1,
        _ = stop.wait_for(|stop| *stop) => return Ok(History::default()),
    };
    let last = watch::Sender::new(None);
    let mut watches = JoinSet::new();
    for choice in WATCHES {
        let recorder = shared.clone();
        let event = move |kv: KeyValue| {
            let key = String::from_utf8_lossy(&kv.key).into_owned();
            Event { at: recorder.witness.now(), key, found: found(&kv) }
        };
        let mut watcher = Watcher::new(pool.clone(), choice, prefix, from, event);
        let until = last.subscribe();
        watches.spawn(async move { watcher.run(until).await.map(|()| watcher) });
    }
    let mut clients = JoinSet::new();
    for (number, choice) in CLIENTS.into_iter().enumerate() {
        clients.spawn(client(pool.clone(), shared.clone(), stop.clone(), number, choice));
    }
    clients.join_all().await;
    let operations =
        std::mem::take(&mut *shared.witness.operations.lock().unwrap_or_else(PoisonError::into_inner));
    let written = operations.iter().filter_map(Operation::written).max();
    last.send_replace(Some(written.unwrap_or_default()));
    let events = |watcher: Watcher<Event>| watcher.reported.into_iter().map(|(_, event)| event).collect();
    let watches = caught_up(watches).await?.into_iter().map(|one| Watch { from, events: events(one) });
    Ok(History { watches: watches.collect(), operations })
}

/// Judges it. One that fails is kept.
pub(super) fn judge(history: &History, cluster: &str) -> Result<()> {
    let Err(fault) = history.judge(None) else { return Ok(()) };
    let test = std::env::var("NEXTEST_TEST_NAME").unwrap_or_default();
    let name: String =
        format!("history-{test}-{cluster}-{}.json", std::process::id()).replace(['/', ':'], "-");
    let folder = std::env::var_os("QUORATE_TEST_FIGURES")
        .and_then(|file| Some(PathBuf::from(file).parent()?.to_owned()))
        .unwrap_or_else(std::env::temp_dir);
    let file = folder.join(name);
    history.write(&file)?;
    Err(anyhow!("{cluster}: {fault}; the history is kept: cargo xtask history {}", file.display()))
}

/// What a reply has of a key.
pub(super) fn found(kv: &KeyValue) -> Found {
    Found { value: String::from_utf8_lossy(&kv.value).into_owned(), revision: kv.mod_revision }
}

/// One client.
async fn client(
    pool: Arc<Pool>,
    shared: Arc<Shared>,
    mut stop: watch::Receiver<bool>,
    client: usize,
    mut choice: Choice,
) {
    let witness = &shared.witness;
    let mut known: [Option<Found>; KEYS] = Default::default();
    for number in 0.. {
        let begun = Instant::now();
        let turn = witness.turn();
        let request = request(&witness.prefix, client, number, turn, known[turn].as_ref());
        let mut sent = None;
        let call = async {
            loop {
                choice = choice.next();
                let connection = pool.pick(choice).await;
                sent.get_or_insert_with(|| witness.now());
                match send(&connection, &request).await {
                    // As in gRPC: a call that was not sent is repeated on another connection.
                    Err(status) if never_sent(&status) => {}
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
            reply = call => reply,
            () = stopped => Err(Status::cancelled("the test ended before the reply")),
        };
        let outcome = match reply {
            Ok(reply) => {
                known[turn] = match (&reply.found, request.value()) {
                    (None, Some(value)) => Some(Found { value: value.to_owned(), revision: reply.revision }),
                    (found, _) => found.clone(),
                };
                Outcome::Done(reply)
            }
            Err(status) => {
                tokio::time::sleep(AFTER_FAILURE).await;
                let message = message(&status);
                let refused = REFUSED.iter().any(|refused| message.contains(refused));
                if refused { Outcome::Refused(message) } else { Outcome::Unknown(message) }
            }
        };
        if let Some(call) = sent {
            witness.record(Operation { client, call, end: witness.now(), request, outcome });
        }
        if *stop.borrow() {
            return;
        }
        let pace = PACE * 2_u32.saturating_pow(number / THOUSAND);
        tokio::select! {
            () = tokio::time::sleep_until((begun + pace).into()) => {}
            _ = stop.wait_for(|stop| *stop) => return,
        }
    }
}

/// Reads, swaps on what it read by revision and by value, and writes without asking.
fn request(prefix: &str, client: usize, number: u32, turn: usize, known: Option<&Found>) -> Request {
    let (key, value) = (format!("{prefix}{turn}"), format!("{client} {number}"));
    match (number % 5, known) {
        (0 | 2, _) => Request::Read { key },
        (3, Some(known)) => Request::Swap { key, condition: Condition::Value(known.value.clone()), value },
        (1 | 3, known) => {
            let revision = known.map_or(0, |known| known.revision);
            Request::Swap { key, condition: Condition::Revision(revision), value }
        }
        (_, _) => Request::Put { key, value },
    }
}

async fn send(connection: &Connection, request: &Request) -> Result<Reply, Status> {
    let reply = tokio::time::timeout(CALL, send_now(connection, request)).await;
    reply.map_err(|_| Status::deadline_exceeded(format!("no reply within {CALL:?}")))?
}

async fn send_now(connection: &Connection, request: &Request) -> Result<Reply, Status> {
    let revision = |header: Option<ResponseHeader>| {
        header.map(|header| header.revision).ok_or_else(|| Status::internal("a reply without a header"))
    };
    let put = |key: &String, value: &String| PutRequest {
        key: key.clone().into(),
        value: value.clone().into(),
        ..PutRequest::default()
    };
    let read = |key: &String| RangeRequest { key: key.clone().into(), ..RangeRequest::default() };
    match request {
        Request::Put { key, value } => {
            let reply = connection.kv().put(put(key, value)).await?.into_inner();
            Ok(Reply { revision: revision(reply.header)?, swapped: false, found: None })
        }
        Request::Read { key } => {
            let reply = connection.kv().range(read(key)).await?.into_inner();
            let found = reply.kvs.first().map(found);
            Ok(Reply { revision: revision(reply.header)?, swapped: false, found })
        }
        Request::Swap { key, condition, value } => {
            let (target, union) = match condition {
                Condition::Revision(revision) => (CompareTarget::Mod, TargetUnion::ModRevision(*revision)),
                Condition::Value(value) => (CompareTarget::Value, TargetUnion::Value(value.clone().into())),
            };
            let compare = Compare {
                target: target.into(),
                key: key.clone().into(),
                target_union: Some(union),
                ..Compare::default()
            };
            let success = RequestOp { request: Some(request_op::Request::RequestPut(put(key, value))) };
            let failure = RequestOp { request: Some(request_op::Request::RequestRange(read(key))) };
            let txn = TxnRequest { compare: vec![compare], success: vec![success], failure: vec![failure] };
            let reply = connection.kv().txn(txn).await?.into_inner();
            let found = match reply.responses.first().and_then(|one| one.response.as_ref()) {
                Some(response_op::Response::ResponseRange(range)) => range.kvs.first().map(found),
                Some(response_op::Response::ResponsePut(_)) | None => None,
            };
            Ok(Reply { revision: revision(reply.header)?, swapped: reply.succeeded, found })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_that_fails_is_kept_and_the_failure_says_how_to_judge_it_again() {
        let found = Found { value: "1 1".to_owned(), revision: 7 };
        let event = Event { at: 1, key: "witness-0/0".to_owned(), found };
        let watches = vec![Watch { from: 1, events: vec![event] }];
        let history = History { operations: Vec::new(), watches };
        let error = judge(&history, "demo").unwrap_err().to_string();
        assert!(error.contains("which nobody wrote"), "{error}");
        let (_, file) = error.split_once("cargo xtask history ").unwrap();
        assert_eq!(History::read(file.as_ref()).unwrap(), history);
        std::fs::remove_file(file).unwrap();
    }

    #[test]
    fn clients_read_swap_by_revision_and_by_value_and_put() {
        let known = Found { value: "0 1".to_owned(), revision: 7 };
        let request = |number, known| request("w/", 2, number, 1, known);
        let (key, swap) = ("w/1".to_owned(), |condition, number| Request::Swap {
            key: "w/1".to_owned(),
            condition,
            value: format!("2 {number}"),
        });
        assert_eq!(request(0, Some(&known)), Request::Read { key: key.clone() });
        assert_eq!(request(1, Some(&known)), swap(Condition::Revision(7), 1));
        assert_eq!(request(1, None), swap(Condition::Revision(0), 1));
        assert_eq!(request(3, Some(&known)), swap(Condition::Value("0 1".to_owned()), 3));
        assert_eq!(request(4, None), Request::Put { key, value: "2 4".to_owned() });
    }
}
