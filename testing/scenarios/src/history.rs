//! What clients of a cluster called and what they were answered, and whether a single copy of the store would have answered the
//! same: their calls are linearizable, and the watches of the same keys reported what etcd's documents promise.
//!
//! - [`History`]: calls and watches, a file that replays (`cargo xtask history FILE`)
//! - [`History::judge`]: the verdict. The search for an order is porcupine's (`tools/porcupine`), as in etcd's own robustness tests
//!
//! A write without a known outcome may have taken effect at any later time, or never. Every value is written once, so whoever
//! saw the value knows that it did, and at which revision; one that nobody saw changes no reply, and is left out. This is why the
//! search has nothing to guess, and takes less than a second.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Calls of clients, and what watches reported, by one clock that never goes back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// In any order.
    pub operations: Vec<Operation>,
    /// Of all keys of this history.
    pub watches: Vec<Watch>,
}

/// One call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    /// Which client called.
    pub client: usize,
    /// When it was sent, in nanoseconds.
    pub call: u64,
    /// When the client had the answer, or gave up.
    pub end: u64,
    /// What was asked for.
    pub request: Request,
    /// What came of it.
    pub outcome: Outcome,
}

/// What a client asks for. No two requests write the same value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Writes a value.
    Put {
        /// The key.
        key: String,
        /// The value.
        value: String,
    },
    /// Reads a key, linearizably.
    Read {
        /// The key.
        key: String,
    },
    /// Writes a value if a condition holds; else reads the key.
    Swap {
        /// The key.
        key: String,
        /// The condition.
        condition: Condition,
        /// The value.
        value: String,
    },
}

/// Of a swap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// The key was last written at this revision; 0 if it does not exist.
    Revision(i64),
    /// The key has this value.
    Value(String),
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It was answered.
    Done(Reply),
    /// It was refused, and certainly has no effect.
    Refused(String),
    /// It may have an effect at any time after the call, or none.
    Unknown(String),
}

/// An answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// The revision of the store; of a write, its own.
    pub revision: i64,
    /// Whether a swap wrote.
    pub swapped: bool,
    /// What a read found, or a swap that did not write.
    pub found: Option<Found>,
}

/// What is under a key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// Its value.
    pub value: String,
    /// The revision at which it was written.
    pub revision: i64,
}

/// What one watch reported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watch {
    /// The first revision that it was to report.
    pub from: i64,
    /// In the order of their arrival, over all its connections.
    pub events: Vec<Event>,
}

/// A change, as a watch reported it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When it arrived, in nanoseconds.
    pub at: u64,
    /// The key.
    pub key: String,
    /// Its value and revision. The value of a key that was deleted is empty.
    pub found: Found,
}

impl Request {
    /// The key.
    pub fn key(&self) -> &str {
        let (Self::Put { key, .. } | Self::Read { key } | Self::Swap { key, .. }) = self;
        key
    }

    /// What it writes, if it writes.
    pub fn value(&self) -> Option<&str> {
        match self {
            Self::Put { value, .. } | Self::Swap { value, .. } => Some(value),
            Self::Read { .. } => None,
        }
    }
}

impl Operation {
    /// The revision of its write, if it is known to have written.
    pub(crate) fn written(&self) -> Option<i64> {
        match (&self.request, &self.outcome) {
            (Request::Put { .. }, Outcome::Done(reply)) => Some(reply.revision),
            (Request::Swap { .. }, Outcome::Done(reply)) if reply.swapped => Some(reply.revision),
            (_, Outcome::Done(_) | Outcome::Refused(_) | Outcome::Unknown(_)) => None,
        }
    }
}

/// A value that somebody saw.
#[derive(Clone, Copy)]
struct Seen {
    revision: i64,
    /// The earliest time at which somebody had seen it.
    by: u64,
}

impl History {
    /// Whether one copy of the store would have answered like this, and the watches reported what it did. With a path: a drawing
    /// of calls that have no order.
    ///
    /// # Errors
    /// They are not, and why.
    pub fn judge(&self, drawing: Option<&Path>) -> Result<()> {
        let faults = self.faults();
        ensure!(faults.is_empty(), "{}", crate::writer::brief(&faults));
        let mut judge = Command::new(crate::tool("porcupine", "etcd")?);
        judge.args(drawing).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut judge = judge.spawn().context("cannot run porcupine")?;
        let mut stdin = judge.stdin.take().context("its stdin is a pipe")?;
        stdin.write_all(&serde_json::to_vec(&self.order())?)?;
        drop(stdin);
        let output = judge.wait_with_output()?;
        let printed = String::from_utf8_lossy(&output.stdout);
        ensure!(output.status.success(), "{}", printed.trim());
        Ok(())
    }

    /// From a file.
    pub fn read(file: &Path) -> Result<Self> {
        let text = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        serde_json::from_slice(&text).with_context(|| format!("{} is no history", file.display()))
    }

    /// Into a file.
    pub fn write(&self, file: &Path) -> Result<()> {
        std::fs::write(file, serde_json::to_vec(self)?)
            .with_context(|| format!("cannot write {}", file.display()))
    }

    /// A line for each promise about watches that is broken, and for each value that cannot be there. Those promises are etcd's, of
    /// its API guarantees: ordered, unique, reliable, resumable.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let truth = self.truth(&mut faults);
        for (number, watch) in self.watches.iter().enumerate() {
            let mut last = watch.from - 1;
            for Event { found, .. } in &watch.events {
                // Also over its connections: it was resumed after the last revision that it had reported.
                if found.revision <= last {
                    faults.push(format!("watch {number} reported {} after {last}", found.revision));
                }
                last = last.max(found.revision);
            }
            let reported: BTreeSet<i64> = watch.events.iter().map(|event| event.found.revision).collect();
            for (revision, (key, value)) in truth.range(watch.from..=last.max(watch.from)) {
                if *revision <= last && !reported.contains(revision) {
                    faults.push(format!("watch {number} did not report {key}={value:?} of {revision}"));
                }
            }
        }
        let seen = self.seen();
        for operation in &self.operations {
            let Some((value, seen)) =
                operation.request.value().and_then(|value| Some((value, seen.get(value)?)))
            else {
                continue;
            };
            let why = match &operation.outcome {
                Outcome::Refused(why) => why,
                Outcome::Done(_) if operation.written().is_none() => "its condition did not hold",
                Outcome::Done(_) | Outcome::Unknown(_) => continue,
            };
            faults.push(format!("{value:?} is there at {}, but was not written: {why}", seen.revision));
        }
        faults
    }

    /// Which write each revision is, as far as anybody knows. What contradicts it is a fault.
    fn truth(&self, faults: &mut Vec<String>) -> BTreeMap<i64, (&str, &str)> {
        let writes: BTreeMap<&str, &Operation> =
            self.operations.iter().filter_map(|one| Some((one.request.value()?, one))).collect();
        let mut truth: BTreeMap<i64, (&str, &str)> = BTreeMap::new();
        let mut note = |revision, key, value, who: &str| {
            let known = truth.entry(revision).or_insert((key, value));
            if *known != (key, value) {
                faults.push(format!("{who} has {key}={value:?} at {revision}, others have {known:?}"));
            } else if writes.get(value).is_none_or(|one| one.request.key() != key) {
                faults.push(format!("{who} has {key}={value:?} at {revision}, which nobody wrote"));
            } else if writes[value].written().is_some_and(|written| written != revision) {
                faults.push(format!("{who} has {key}={value:?} at {revision}, which is another write's"));
            }
        };
        for operation in &self.operations {
            if let (Some(revision), Some(value)) = (operation.written(), operation.request.value()) {
                note(revision, operation.request.key(), value, "an acknowledged write");
            }
            if let Outcome::Done(Reply { found: Some(found), .. }) = &operation.outcome {
                note(found.revision, operation.request.key(), &found.value, "a read");
            }
        }
        for Event { key, found, .. } in self.watches.iter().flat_map(|watch| &watch.events) {
            note(found.revision, key, &found.value, "a watch");
        }
        let mut at: BTreeMap<&str, i64> = BTreeMap::new();
        for (revision, (key, value)) in &truth {
            if let Some(before) = at.insert(value, *revision) {
                faults.push(format!("{key}={value:?} took effect at {before} and at {revision}"));
            }
        }
        truth
    }

    /// Values that reads or watches have seen.
    fn seen(&self) -> BTreeMap<&str, Seen> {
        let reads = self.operations.iter().filter_map(|one| match &one.outcome {
            Outcome::Done(reply) => Some((reply.found.as_ref()?, one.end)),
            Outcome::Refused(_) | Outcome::Unknown(_) => None,
        });
        let events = self.watches.iter().flat_map(|watch| &watch.events);
        let mut seen = BTreeMap::new();
        for (found, by) in reads.chain(events.map(|event| (&event.found, event.at))) {
            let first = seen.entry(found.value.as_str()).or_insert(Seen { revision: found.revision, by });
            first.by = first.by.min(by);
        }
        seen
    }

    /// The operations that must have an order, as the judge reads them. A write without a known outcome whose value was seen took effect
    /// before it was seen.
    fn order(&self) -> Vec<Value> {
        let seen = self.seen();
        let operations = self.operations.iter().filter_map(|one| match (&one.outcome, one.request.value()) {
            (Outcome::Done(reply), _) => Some(judged(one, reply, one.end)),
            (Outcome::Unknown(_), Some(value)) => {
                let Seen { revision, by } = *seen.get(value)?;
                let reply = Reply { revision, swapped: true, found: None };
                // Seen before it was called: no order has both.
                Some(judged(one, &reply, by.max(one.call)))
            }
            (Outcome::Unknown(_), None) | (Outcome::Refused(_), _) => None,
        });
        operations.collect()
    }

    /// A line for each key of a store that lacks its last write up to a revision. It may have a later one.
    pub(crate) fn lost(&self, stored: &BTreeMap<String, Found>, up_to: i64) -> Vec<String> {
        let truth = self.truth(&mut Vec::new());
        let last: BTreeMap<&str, (i64, &str)> =
            truth.range(..=up_to).map(|(revision, (key, value))| (*key, (*revision, *value))).collect();
        let later = |found: &Found| {
            let unknown =
                |one: &Operation| one.written().is_none() && matches!(one.outcome, Outcome::Unknown(_));
            truth.get(&found.revision).is_some_and(|(_, value)| *value == found.value)
                || self.operations.iter().any(|one| unknown(one) && one.request.value() == Some(&found.value))
        };
        let mut lost = Vec::new();
        for (key, (revision, value)) in last {
            let found = stored.get(key);
            let is_there = |found: &Found| {
                found.revision == revision && found.value == value
                    || found.revision > revision && later(found)
            };
            if !found.is_some_and(is_there) {
                lost.push(format!("{key}: {value:?} is of revision {revision}; it has {found:?}"));
            }
        }
        lost
    }
}

/// In the words of the judge.
fn judged(operation: &Operation, reply: &Reply, end: u64) -> Value {
    let Operation { client, call, request, .. } = operation;
    let mut judged = json!({
        "client": client, "call": call, "return": end, "key": request.key(), "value": request.value().unwrap_or_default(),
        "revision": reply.revision, "swapped": reply.swapped, "found": reply.found.clone().unwrap_or_default(),
    });
    let kind = match request {
        Request::Put { .. } => "put",
        Request::Read { .. } => "read",
        Request::Swap { condition, .. } => {
            match condition {
                Condition::Revision(revision) => judged["if_revision"] = json!(revision),
                Condition::Value(value) => judged["if_value"] = json!(value),
            }
            "swap"
        }
    };
    judged["kind"] = json!(kind);
    judged
}
