//! What readers of outside data may meet: files and JSON that begin as they should be, and are changed in places. The changes are the same in
//! every run, so a round that fails fails again.
//!
//! A reader may refuse such a thing, or read what is there. It must not panic, not read for ever, and not ask for memory by a number that it
//! read. [`each_round`] sees to the first two.
//!
//! `corpus` has what the changes begin with. What once broke a reader stays there.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// No round may take longer. Each is done in a few milliseconds.
pub const LONGEST: Duration = Duration::from_secs(5);

/// Numbers that readers trip over.
const EDGES: [u64; 12] =
    [0, 1, 7, 8, 0x7f, 0xff, 0xffff, 0x7fff_ffff, 0xffff_ffff, 1 << 55, i64::MAX as u64, u64::MAX];

/// A sequence of numbers (xorshift).
#[derive(Clone, Debug)]
pub struct Chance(u64);

/// Calls `read` in each of `rounds`, of which a run with `--full` has `factor` times as many (`QUORATE_TEST_FULL`). Panics with the number of the
/// round that panics or takes too long.
pub fn each_round(rounds: u64, factor: u64, read: impl Fn(&mut Chance)) {
    let is_full = std::env::var_os("QUORATE_TEST_FULL").is_some();
    for round in 0..rounds * if is_full { factor } else { 1 } {
        let begun = Instant::now();
        let ends = catch_unwind(AssertUnwindSafe(|| read(&mut Chance::of(round))));
        assert!(ends.is_ok(), "round {round} panics");
        assert!(begun.elapsed() < LONGEST, "round {round} takes {:?}", begun.elapsed());
    }
}

/// The values of a corpus, one a line.
///
/// # Panics
///
/// If a line is no JSON.
pub fn values(corpus: &str) -> Vec<Value> {
    corpus.lines().map(|line| serde_json::from_str(line).expect("a line of a corpus is JSON")).collect()
}

/// Answers of Jobs, as termination messages have them.
pub const ANSWERS: &str = include_str!("../corpus/answers.jsonl");
/// Manifests of backups.
pub const MANIFESTS: &str = include_str!("../corpus/manifests.jsonl");
/// EtcdBackups, EtcdBackupSchedules, EtcdRestores and EtcdUsers with their status.
pub const ORDERS: &str = include_str!("../corpus/orders.jsonl");
/// Termination messages of members.
pub const LAST_WORDS: &str = include_str!("../corpus/last-words.jsonl");

impl Chance {
    /// That of a round.
    pub fn of(round: u64) -> Self {
        Self(round.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below this one; 0 below 0.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.number() % bound.max(1) as u64).unwrap_or_default()
    }

    /// One of these.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }

    /// Changes some places of a file. An empty one stays empty.
    pub fn damage(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len());
            if at >= bytes.len() {
                return;
            }
            match self.below(6) {
                0 => bytes[at] ^= 1 << self.below(8),
                1 => bytes[at] = self.number().to_le_bytes()[0],
                2 => bytes.truncate(at.max(1)),
                3 => {
                    let (from, length) = (self.below(bytes.len()), self.below(64));
                    let part: Vec<u8> = bytes.iter().skip(from).take(length).copied().collect();
                    bytes.splice(at..at, part);
                }
                _ => {
                    let (edge, width) = (self.one_of(&EDGES).to_le_bytes(), *self.one_of(&[1, 2, 4, 8]));
                    for (byte, edge) in bytes[at..].iter_mut().zip(&edge[..width]) {
                        *byte = *edge;
                    }
                }
            }
        }
    }

    /// Changes up to this many places of a value, also to values of it that do not belong there.
    pub fn damage_value(&mut self, value: &mut Value, most: usize) {
        let mut others = Vec::new();
        all_of(value, &mut others);
        for _ in 0..self.below(most + 1) {
            self.damage_place(value, &others);
        }
    }

    /// A value as text, in one of four rounds damaged as text as well.
    pub fn text(&mut self, value: &Value) -> String {
        let mut text = value.to_string().into_bytes();
        if self.below(4) == 0 {
            self.damage(&mut text);
        }
        String::from_utf8_lossy(&text).into_owned()
    }

    fn damage_place(&mut self, value: &mut Value, others: &[Value]) {
        let goes_on = self.below(6) > 0;
        match value {
            Value::Object(fields) if goes_on && !fields.is_empty() => {
                let at = self.below(fields.len());
                let key = fields.keys().nth(at).cloned().unwrap_or_default();
                if self.below(12) == 0 {
                    fields.remove(&key);
                } else if let Some(inner) = fields.get_mut(&key) {
                    self.damage_place(inner, others);
                }
            }
            Value::Array(items) if goes_on && !items.is_empty() => {
                let at = self.below(items.len());
                match self.below(12) {
                    0 => drop(items.remove(at)),
                    1 => items.push(items[at].clone()),
                    _ => self.damage_place(&mut items[at], others),
                }
            }
            Value::String(text) if goes_on && self.below(3) == 0 => {
                let mut bytes = std::mem::take(text).into_bytes();
                self.damage(&mut bytes);
                *text = String::from_utf8_lossy(&bytes).into_owned();
            }
            _ => *value = self.any_value(others),
        }
    }

    fn any_value(&mut self, others: &[Value]) -> Value {
        match self.below(28) {
            0 => Value::Null,
            1 => json!(true),
            2 => json!([]),
            3 => json!({}),
            4 => json!(""),
            5 => json!("x".repeat(70_000)),
            6 => json!("\u{0}\u{202e}\u{10ffff}"),
            7 => json!("../../etc"),
            8 => json!("18446744073709551615"),
            9 => json!("ffffffffffffffff"),
            10 => json!("-1"),
            11 => json!("0001-01-01T00:00:00Z"),
            12 => json!("9999-12-31T23:59:59Z"),
            13 => json!("demo-4294967295"),
            14 => json!("demo-18446744073709551615"),
            15 => json!("99999.99999.99999"),
            16 => json!(-1),
            17 => json!(i64::MIN),
            18 => json!(u64::MAX),
            19 => json!(u32::MAX),
            20 => json!(0),
            21 => json!(i64::MAX),
            22 => json!("-009999-01-02T01:59:59Z"),
            23 => json!(f64::MAX),
            // One of the values that are there, in a place where it does not belong.
            _ => self.one_of(others).clone(),
        }
    }
}

/// Every value of a tree, with the inner ones.
fn all_of(value: &Value, into: &mut Vec<Value>) {
    into.push(value.clone());
    match value {
        Value::Object(fields) => fields.values().for_each(|inner| all_of(inner, into)),
        Value::Array(items) => items.iter().for_each(|inner| all_of(inner, into)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_damages_in_the_same_way_in_each_run_and_no_two_rounds_do() {
        let damaged = |round| {
            let mut value = values(ANSWERS)[0].clone();
            Chance::of(round).damage_value(&mut value, 3);
            value
        };
        let distinct: std::collections::BTreeSet<String> =
            (0..200).map(|round| damaged(round).to_string()).collect();
        assert!(distinct.len() > 100, "{}", distinct.len());
        assert!((0..200).all(|round| damaged(round) == damaged(round)));
    }

    #[test]
    #[should_panic(expected = "round 3 panics")]
    fn a_round_that_panics_is_named() {
        let rounds = std::cell::Cell::new(0);
        each_round(5, 1, |_| {
            rounds.set(rounds.get() + 1);
            assert!(rounds.get() < 4);
        });
    }
}
