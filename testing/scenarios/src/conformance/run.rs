//! The comparison: after each call its answers, and after each write all objects.

use std::collections::BTreeSet;
use std::fmt;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::Value;

use super::mask::Answer;
use super::side::Raw;
use super::{Call, Kind, Side, Verb};

/// How long the controllers of the real Kubernetes may take.
const DEADLINE: Duration = Duration::from_secs(6);

/// localkube and a real Kubernetes.
pub struct Pair {
    /// localkube.
    pub ours: Side,
    /// The real Kubernetes.
    pub real: Side,
}

/// Where the two differ.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The index of the call.
    pub at: usize,
    /// What differs: the answer, or the objects of a kind after the call.
    pub what: String,
    /// localkube's answer.
    pub ours: Answer,
    /// The real Kubernetes' answer.
    pub real: Answer,
}

/// Sends the calls to both sides, up to the first difference.
pub async fn run(pair: &mut Pair, calls: &[Call]) -> Result<Option<Difference>> {
    let kinds: BTreeSet<Kind> = calls.iter().map(|call| call.kind).collect();
    for (at, call) in calls.iter().enumerate() {
        let difference = |what: String, (ours, real)| Some(Difference { at, what, ours, real });
        if let Some(answers) = compare(pair, call).await? {
            return Ok(difference("the answer".to_owned(), answers));
        }
        if !call.writes() {
            continue;
        }
        pair.ours.settle();
        pair.real.settle();
        for kind in &kinds {
            if let Some(answers) = compare(pair, &Call::of(Verb::Get, *kind, "")).await? {
                return Ok(difference(format!("afterwards {}", kind.plural()), answers));
            }
        }
    }
    Ok(None)
}

/// Sends a call to both sides. Reads are repeated until they agree, because the real controllers run concurrently.
async fn compare(pair: &mut Pair, call: &Call) -> Result<Option<(Answer, Answer)>> {
    let start = Instant::now();
    loop {
        let [ours, real]: [Raw; 2] = [pair.ours.perform(call).await?, pair.real.perform(call).await?];
        let answers = (pair.ours.comparable(&ours), pair.real.comparable(&real));
        let agree = answers.0 == answers.1;
        let is_read = call.verb == Verb::Get || call.verb == Verb::Watch;
        if agree || !is_read || start.elapsed() > DEADLINE {
            pair.ours.remember(call, &ours);
            pair.real.remember(call, &real);
            return Ok((!agree).then_some(answers));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(to, "{} differs:", self.what)?;
        if self.ours.code != self.real.code {
            writeln!(to, "  HTTP {} here, {} there", self.ours.code, self.real.code)?;
            return writeln!(to, "  here:  {}\n  there: {}", self.ours.body, self.real.body);
        }
        write_difference(to, "", Some(&self.ours.body), Some(&self.real.body))
    }
}

/// Writes only what differs.
fn write_difference(
    to: &mut fmt::Formatter<'_>,
    path: &str,
    ours: Option<&Value>,
    real: Option<&Value>,
) -> fmt::Result {
    match (ours, real) {
        (ours, real) if ours == real => Ok(()),
        (Some(Value::Object(ours)), Some(Value::Object(real))) => {
            let keys: BTreeSet<&String> = ours.keys().chain(real.keys()).collect();
            keys.into_iter().try_for_each(|key| {
                write_difference(to, &format!("{path}.{key}"), ours.get(key), real.get(key))
            })
        }
        (Some(Value::Array(ours)), Some(Value::Array(real))) if ours.len() == real.len() => (0..ours.len())
            .try_for_each(|index| {
                write_difference(to, &format!("{path}[{index}]"), ours.get(index), real.get(index))
            }),
        (ours, real) => {
            let shown = |side: Option<&Value>| side.map_or("nothing".to_owned(), ToString::to_string);
            writeln!(to, "  {path}: {} here, {} there", shown(ours), shown(real))
        }
    }
}
