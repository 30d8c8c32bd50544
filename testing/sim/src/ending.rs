//! How a history ended: the objects that stand, without what may differ between two ways to the same, and how often each was
//! made and deleted.

use std::collections::BTreeMap;

use quorate_apistore::fields::name;
use quorate_manifests::Kind;
use serde_json::{Map, Value};

use crate::fingerprint::PATH;
use crate::world::{KINDS, World};

/// Fields that tell of the way and not of the end, beside those of [`PATH`].
const OF_THE_WAY: [&str; 9] = [
    "uid",
    "phaseSince",
    "podIP",
    "lastState",
    "leaderID",
    "isLeader",
    "restartCount",
    "example.org/times",
    "example.org/touched",
];

/// Arguments of a Pod that tell how its member came to be.
const OF_THE_START: [&str; 4] =
    ["--initial-cluster=", "--initial-cluster-state=", "--expect=", "--cluster-id="];

/// What stands at the end, and what it took.
#[derive(Clone, Debug, PartialEq)]
pub struct Ending {
    /// The objects, by kind and name.
    pub objects: BTreeMap<(Kind, String), Value>,
    /// How often each was created and deleted.
    pub writes: BTreeMap<String, u64>,
}

impl Ending {
    /// That of a world at rest.
    pub fn of(world: &World) -> Self {
        let of_kind = |kind| world.objects(kind).into_iter().map(move |object| (kind, object));
        let objects = KINDS.into_iter().flat_map(of_kind).map(|(kind, object)| {
            let mut masked = Value::clone(&object);
            mask(&mut masked);
            ((kind, name(&object).to_owned()), masked)
        });
        Self { objects: objects.collect(), writes: world.store.write_counts() }
    }

    /// What is other than in that of the clean run, or took more.
    pub fn differs_from(&self, clean: &Self) -> Option<String> {
        self.stands_otherwise_than(clean).or_else(|| {
            let more = self
                .writes
                .iter()
                .find(|(what, times)| **times > clean.writes.get(*what).copied().unwrap_or(0));
            more.map(|(what, times)| format!("{what}: {times} times"))
        })
    }

    /// The first object that is other than in another ending, field by field.
    pub fn stands_otherwise_than(&self, other: &Self) -> Option<String> {
        let names = self.objects.keys().chain(other.objects.keys());
        names.into_iter().find_map(|at @ (kind, name)| {
            let (here, there) = (self.objects.get(at), other.objects.get(at));
            (here != there).then(|| {
                let plain = |object: Option<&Value>| object.cloned().unwrap_or_default();
                format!("{} {name}: {}", kind.as_str(), changes(&plain(there), &plain(here)).join(" "))
            })
        })
    }
}

/// What became of an object, field by field, in words.
pub(crate) fn changes(before: &Value, after: &Value) -> Vec<String> {
    json_patch::diff(before, after).iter().map(ToString::to_string).collect()
}

fn mask(object: &mut Value) {
    match object {
        Value::Object(fields) => {
            fields
                .retain(|field, _| !PATH.contains(&field.as_str()) && !OF_THE_WAY.contains(&field.as_str()));
            fields.values_mut().for_each(mask);
            // Somebody's annotation was all there was.
            fields.retain(|field, value| field != "annotations" || *value != Value::Object(Map::new()));
        }
        Value::Array(entries) => {
            let of_the_start = |entry: &Value| {
                entry.as_str().is_some_and(|arg| OF_THE_START.iter().any(|start| arg.starts_with(start)))
            };
            entries.retain(|entry| !of_the_start(entry));
            entries.iter_mut().for_each(mask);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
