//! What makes two worlds the same: everything in their objects save versions and times. Of times counts only on which
//! side of a deadline they lie.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use quorate_apistore::fields::{text, uid};
use quorate_model::Instant;
use quorate_model::effect::{LEARNER_DEADLINE, LEARNER_SYNC_DEADLINE};
use serde_json::Value;

/// Fields that differ between two paths to one state and change nothing of what follows.
pub(crate) const PATH: [&str; 6] = [
    "resourceVersion",
    "creationTimestamp",
    "lastTransitionTime",
    "generation",
    "observedGeneration",
    "since",
];

/// Objects that were taken in before: most do not change from one state to the next.
#[derive(Clone, Debug, Default)]
pub struct Hashed(BTreeMap<String, (String, u64)>);

impl Hashed {
    /// The number of an object in which no time counts.
    pub fn of(&mut self, object: &Value, now: Instant) -> u64 {
        let (uid, version) = (uid(object), text(object, "/metadata/resourceVersion"));
        if let Some((known, number)) = self.0.get(uid)
            && known == version
        {
            return *number;
        }
        let mut hasher = DefaultHasher::new();
        self::object(object, now, &mut hasher);
        let number = hasher.finish();
        self.0.insert(uid.to_owned(), (version.to_owned(), number));
        number
    }
}

/// Takes an object in.
pub fn object(object: &Value, now: Instant, hasher: &mut impl Hasher) {
    match object {
        Value::Null => 0_u8.hash(hasher),
        Value::Bool(value) => value.hash(hasher),
        Value::Number(number) => number.hash(hasher),
        Value::String(text) => text.hash(hasher),
        Value::Array(entries) => {
            entries.len().hash(hasher);
            for entry in entries {
                self::object(entry, now, hasher);
            }
        }
        Value::Object(fields) => {
            for (key, value) in fields.iter().filter(|(key, _)| !PATH.contains(&key.as_str())) {
                key.hash(hasher);
                match (key.as_str(), value) {
                    ("phaseSince", Value::String(at)) => side(at, now).hash(hasher),
                    (_, value) => self::object(value, now, hasher),
                }
            }
        }
    }
}

fn side(at: &str, now: Instant) -> u8 {
    let at: Option<jiff::Timestamp> = at.parse().ok();
    let age = now - Instant(at.map_or(0, jiff::Timestamp::as_millisecond));
    u8::from(age > LEARNER_DEADLINE) + u8::from(age > LEARNER_SYNC_DEADLINE)
}
