//! A status that somebody else wrote: every value may be missing, of another type, at the edge of what is possible, or twice. Whatever of it
//! the API server would hand out is read, planned on and reported without a panic, and the pass does not take for ever.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use crate::world::{World, plain};
use quorate_api::EtcdCluster;
use quorate_manifests::Kind;
use serde_json::{Value, json};

/// Statuses that are tried; many more in `cargo xtask test --full`.
fn rounds() -> u64 {
    if std::env::var_os("QUORATE_TEST_FULL").is_some() { 300_000 } else { 5000 }
}

const LONGEST: Duration = Duration::from_secs(5);

/// A sequence of numbers (xorshift), the same in every run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound.max(1) as u64).unwrap()
    }

    fn value(&mut self, others: &[Value]) -> Value {
        match self.below(24) {
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
            // One of the values that are there, in a place where it does not belong.
            _ => others[self.below(others.len())].clone(),
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

/// Changes one place of a tree.
fn damage(value: &mut Value, chance: &mut Chance, others: &[Value]) {
    let goes_on = chance.below(6) > 0;
    match value {
        Value::Object(fields) if goes_on && !fields.is_empty() => {
            let at = chance.below(fields.len());
            let key = fields.keys().nth(at).cloned().unwrap_or_default();
            if chance.below(12) == 0 {
                fields.remove(&key);
            } else if let Some(inner) = fields.get_mut(&key) {
                damage(inner, chance, others);
            }
        }
        Value::Array(items) if goes_on && !items.is_empty() => {
            let at = chance.below(items.len());
            match chance.below(12) {
                0 => drop(items.remove(at)),
                1 => items.push(items[at].clone()),
                _ => damage(&mut items[at], chance, others),
            }
        }
        _ => *value = chance.value(others),
    }
}

#[test]
fn no_status_that_can_be_read_makes_a_pass_panic_or_hang() {
    let worlds = [World::running(3), hibernating(), World::new(&plain(3))];
    let mut read = 0;
    for round in 0..rounds() {
        let chance = &mut Chance(round.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let world = &worlds[chance.below(worlds.len())];
        let mut cluster = world.objects[&(Kind::Cluster, "demo".to_owned())].clone();
        let mut others = Vec::new();
        all_of(&cluster["status"], &mut others);
        for _ in 0..=chance.below(3) {
            damage(&mut cluster["status"], chance, &others);
        }
        if serde_json::from_value::<EtcdCluster>(cluster.clone()).is_err() {
            continue;
        }
        read += 1;
        let mut damaged = world.clone();
        damaged.put(Kind::Cluster, cluster.clone());
        let begun = Instant::now();
        let ends = catch_unwind(AssertUnwindSafe(|| drop(damaged.observe())));
        assert!(ends.is_ok(), "round {round} panics: {:#}", cluster["status"]);
        assert!(begun.elapsed() < LONGEST, "round {round} takes {:?}", begun.elapsed());
    }
    assert!(read > rounds() / 5, "only {read} statuses could be read");
}

fn hibernating() -> World {
    let mut world = World::running(3);
    world.edit(Kind::Cluster, "demo", |cluster| cluster["spec"]["size"] = json!(0));
    world.settle();
    world
}
