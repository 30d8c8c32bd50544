//! What the writers know of their writes: acknowledged with a revision, or not known to be done. And the pauses between.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

/// Each writer has this many keys, so that a database stays small.
const KEYS: u64 = 64;

/// Around a change of leader: how much earlier or later a write of it may begin. Replies of several members arrive in any order.
const TOLERANCE: Duration = Duration::from_millis(500);

/// How many messages of failures a line shows.
const SHOWN: usize = 3;

/// A write: its number says which key it has, and is in its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Write {
    pub(super) writer: usize,
    pub(super) number: u64,
}

impl Write {
    /// Below the prefix of this test.
    pub(super) fn key(self, prefix: &str) -> String {
        format!("{prefix}{}/{:02}", self.writer, self.number % KEYS)
    }

    pub(super) fn value(self) -> String {
        format!("{} {}", self.writer, self.number)
    }

    /// The write that has this value.
    pub(super) fn of(value: &[u8]) -> Option<Self> {
        let (writer, number) = std::str::from_utf8(value).ok()?.split_once(' ')?;
        Some(Self { writer: writer.parse().ok()?, number: number.parse().ok()? })
    }
}

/// All writes of one test.
#[derive(Debug)]
pub(super) struct Journal {
    start: Instant,
    /// By revision.
    pub(super) acknowledged: BTreeMap<i64, Write>,
    /// Perhaps done, perhaps not.
    pub(super) unknown: Vec<Failure>,
    leaders: Vec<LeaderChange>,
    term: u64,
    last: Option<Instant>,
    longest: Pause,
    lap: Pause,
}

/// A write that was not acknowledged.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) write: Write,
    start: Instant,
    message: String,
}

/// Between the last reply with the old term and the first one with the new.
#[derive(Debug)]
struct LeaderChange {
    from: Instant,
    until: Instant,
}

/// A time without any acknowledged write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pause {
    /// When it began, since the first acknowledged write.
    pub at: Duration,
    /// How long it was.
    pub length: Duration,
}

/// What came of the writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// How long the writers wrote.
    pub time: Duration,
    /// How many writes were acknowledged.
    pub acknowledged: usize,
    /// How many writes have no known outcome, without those that raft dropped.
    pub failed: usize,
    /// How many writes raft dropped while leadership changed.
    pub dropped: usize,
    /// How often leadership changed.
    pub leader_changes: usize,
    /// The longest time in which no writer had a write acknowledged.
    pub pause: Pause,
    /// How often a watch was interrupted, and went on elsewhere.
    pub resumed: usize,
    /// How many calls of the witness were judged to be linearizable.
    pub linearizable: usize,
    /// The messages of the failed ones, each once with its count.
    pub messages: BTreeMap<String, usize>,
}

impl Journal {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            start: now,
            acknowledged: BTreeMap::new(),
            unknown: Vec::new(),
            leaders: Vec::new(),
            term: 0,
            last: None,
            longest: Pause::default(),
            lap: Pause::default(),
        }
    }

    /// A write was acknowledged.
    pub(super) fn acknowledge(&mut self, write: Write, revision: i64, term: u64, now: Instant) {
        self.acknowledged.insert(revision, write);
        let last = *self.last.get_or_insert(now);
        if self.acknowledged.len() == 1 {
            self.start = now;
        }
        if term > self.term {
            if self.term > 0 {
                self.leaders.push(LeaderChange { from: last, until: now });
            }
            self.term = term;
        }
        self.pause_until(now);
        self.last = Some(now);
    }

    /// A write has no known outcome.
    pub(super) fn fail(&mut self, write: Write, start: Instant, message: String) {
        self.unknown.push(Failure { write, start, message });
    }

    /// The longest pause since the last call of this.
    pub(super) fn lap(&mut self, now: Instant) -> Pause {
        self.pause_until(now);
        std::mem::take(&mut self.lap)
    }

    /// What came of the writes.
    pub(super) fn figures(&mut self, now: Instant) -> Figures {
        self.pause_until(now);
        let (dropped, failed): (Vec<&Failure>, Vec<&Failure>) =
            self.unknown.iter().partition(|failure| self.dropped(failure));
        let mut messages = BTreeMap::new();
        for failure in &failed {
            *messages.entry(failure.message.clone()).or_insert(0) += 1;
        }
        Figures {
            time: now - self.start,
            acknowledged: self.acknowledged.len(),
            failed: failed.len(),
            dropped: dropped.len(),
            leader_changes: self.leaders.len(),
            pause: self.longest,
            resumed: 0,
            linearizable: 0,
            messages,
        }
    }

    fn pause_until(&mut self, now: Instant) {
        let Some(last) = self.last else { return };
        let pause = Pause { at: last - self.start, length: now - last };
        for longest in [&mut self.longest, &mut self.lap] {
            if pause.length > longest.length {
                *longest = pause;
            }
        }
    }

    /// Raft drops proposals while a leadership transfer is pending, and after a leader was lost: at once on the leader itself,
    /// without a word where another member forwarded it, which then answers that the request timed out.
    fn dropped(&self, failure: &Failure) -> bool {
        let of_raft =
            ["etcdserver: request timed out", "raft proposal dropped", "etcdserver: leader changed"];
        of_raft.iter().any(|message| failure.message.contains(message))
            && self.leaders.iter().any(|change| {
                failure.start + TOLERANCE >= change.from && failure.start <= change.until + TOLERANCE
            })
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { time, acknowledged, failed, dropped, leader_changes, pause, .. } = self;
        let Self { resumed, linearizable, messages, .. } = self;
        write!(
            f,
            "{acknowledged} acknowledged in {:.1} s, {failed} failed, {dropped} dropped in {leader_changes} leader changes, \
             longest pause {:.3} s at {:.1} s, watches resumed {resumed} times, \
             {linearizable} calls linearizable",
            time.as_secs_f64(),
            pause.length.as_secs_f64(),
            pause.at.as_secs_f64()
        )?;
        let mut most: Vec<_> = messages.iter().collect();
        most.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        for (message, count) in most.into_iter().take(SHOWN) {
            write!(f, "; {count} failed with {message:?}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(number: u64) -> Write {
        Write { writer: 0, number }
    }

    fn at(start: Instant, millis: u64) -> Instant {
        start + Duration::from_millis(millis)
    }

    #[test]
    fn a_write_is_known_by_its_value() {
        let write = Write { writer: 7, number: 1234 };
        assert_eq!(Write::of(write.value().as_bytes()), Some(write));
        assert_eq!(write.key("w/"), "w/7/18");
    }

    #[test]
    fn the_pause_is_the_longest_time_without_an_acknowledged_write_and_ends_with_the_test() {
        let start = Instant::now();
        let mut journal = Journal::new(start);
        for (number, revision, millis) in [(1, 1, 100), (2, 2, 150), (3, 3, 900), (4, 4, 950)] {
            journal.acknowledge(write(number), revision, 2, at(start, millis));
        }
        let pause = |at: u64, length: u64| Pause {
            at: Duration::from_millis(at),
            length: Duration::from_millis(length),
        };
        assert_eq!(journal.figures(at(start, 1000)).pause, pause(50, 750));
        assert_eq!(journal.lap(at(start, 1000)), pause(50, 750));
        assert_eq!(journal.lap(at(start, 1000)), pause(850, 50), "one that lasts is in both laps");
        assert_eq!(journal.figures(at(start, 3000)).pause, pause(850, 2050));
    }

    #[test]
    fn only_what_raft_drops_while_leadership_changes_is_counted_apart() {
        let start = Instant::now();
        let mut journal = Journal::new(start);
        journal.acknowledge(write(1), 1, 2, at(start, 0));
        journal.acknowledge(write(2), 2, 2, at(start, 5000));
        journal.fail(write(3), at(start, 5010), "etcdserver: request timed out".to_owned());
        journal.fail(write(4), at(start, 5010), "connection reset".to_owned());
        journal.fail(write(5), at(start, 2000), "etcdserver: request timed out".to_owned());
        journal.acknowledge(write(6), 3, 3, at(start, 5100));
        let figures = journal.figures(at(start, 13_000));
        assert_eq!((figures.dropped, figures.failed, figures.leader_changes), (1, 2, 1));
        assert_eq!(figures.messages.len(), 2);
    }
}
