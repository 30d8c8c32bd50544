//! How a history ended: the objects that exist, and how often each was created and deleted. Fields that may differ between two
//! histories with the same end are left out.

use std::collections::BTreeMap;

use quorate_apistore::fields::name;
use quorate_manifests::Kind;
use serde_json::{Map, Value};

use crate::fingerprint::IGNORED_FIELDS;
use crate::world::{KINDS, World};

/// Fields that depend on the history and not on its end, beside those of [`IGNORED_FIELDS`].
const IGNORED_AT_THE_END: [&str; 9] = [
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

/// Arguments of a Pod that depend on how its member started first.
const START_ARGUMENTS: [&str; 4] =
    ["--initial-cluster=", "--initial-cluster-state=", "--expect=", "--cluster-id="];

/// The end of a history.
#[derive(Clone, Debug, PartialEq)]
pub struct Ending {
    /// The objects, by kind and name.
    pub objects: BTreeMap<(Kind, String), Value>,
    /// How often each object was created and deleted.
    pub writes: BTreeMap<String, u64>,
}

impl Ending {
    /// The end of the history of this world, which is at rest.
    pub fn of(world: &World) -> Self {
        let of_kind = |kind| world.objects(kind).into_iter().map(move |object| (kind, object));
        let objects = KINDS.into_iter().flat_map(of_kind).map(|(kind, object)| {
            let mut masked = Value::clone(&object);
            mask(&mut masked);
            ((kind, name(&object).to_owned()), masked)
        });
        Self { objects: objects.collect(), writes: world.store.write_counts() }
    }

    /// The first difference from the run without faults: an object that differs, or one that was written more often.
    pub fn differs_from(&self, clean: &Self) -> Option<String> {
        self.first_difference(clean).or_else(|| {
            let more = self
                .writes
                .iter()
                .find(|(what, times)| **times > clean.writes.get(*what).copied().unwrap_or(0));
            more.map(|(what, times)| format!("{what}: {times} times"))
        })
    }

    /// The first object that differs from another ending, field by field.
    pub fn first_difference(&self, other: &Self) -> Option<String> {
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

/// The changes of an object, one patch operation each.
pub(crate) fn changes(before: &Value, after: &Value) -> Vec<String> {
    json_patch::diff(before, after).iter().map(ToString::to_string).collect()
}

fn mask(object: &mut Value) {
    match object {
        Value::Object(fields) => {
            fields.retain(|field, _| {
                !IGNORED_FIELDS.contains(&field.as_str()) && !IGNORED_AT_THE_END.contains(&field.as_str())
            });
            fields.values_mut().for_each(mask);
            // The only annotations were those of the simulated client.
            fields.retain(|field, value| field != "annotations" || *value != Value::Object(Map::new()));
        }
        Value::Array(entries) => {
            let is_start_argument = |entry: &Value| {
                entry.as_str().is_some_and(|arg| START_ARGUMENTS.iter().any(|start| arg.starts_with(start)))
            };
            entries.retain(|entry| !is_start_argument(entry));
            entries.iter_mut().for_each(mask);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
