//! The hash of an object, which decides whether two worlds are in the same state. It leaves out versions and times. Of a time,
//! it takes only whether a deadline is over.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use quorate_apistore::fields::{text, uid};
use quorate_model::Instant;
use quorate_model::effect::{LEARNER_DEADLINE, LEARNER_SYNC_DEADLINE};
use serde_json::Value;

/// Fields that differ between two paths to one state and have no effect on what follows.
pub(crate) const IGNORED_FIELDS: [&str; 9] = [
    "resourceVersion",
    "creationTimestamp",
    "lastTransitionTime",
    "startedAt",
    "generation",
    "observedGeneration",
    "since",
    "lastTime",
    // Whether its time is over is hashed with the world.
    quorate_api::keys::SERVED_UNTIL,
];

/// The hashes of objects by uid, with the version they are of: most objects do not change from one state to the next.
#[derive(Clone, Debug, Default)]
pub struct Hashed(BTreeMap<String, (String, u64)>);

impl Hashed {
    /// The hash of an object whose times do not count.
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

/// Hashes an object.
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
            for (key, value) in fields.iter().filter(|(key, _)| !IGNORED_FIELDS.contains(&key.as_str())) {
                key.hash(hasher);
                match (key.as_str(), value) {
                    ("phaseSince", Value::String(at)) => side(at, now).hash(hasher),
                    ("nextTry", Value::String(at)) => is_over(at, now).hash(hasher),
                    (_, value) => self::object(value, now, hasher),
                }
            }
        }
    }
}

fn is_over(at: &str, now: Instant) -> bool {
    let at: Option<jiff::Timestamp> = at.parse().ok();
    at.is_none_or(|at| now >= Instant(at.as_millisecond()))
}

fn side(at: &str, now: Instant) -> u8 {
    let at: Option<jiff::Timestamp> = at.parse().ok();
    let age = now - Instant(at.map_or(0, jiff::Timestamp::as_millisecond));
    u8::from(age > LEARNER_DEADLINE) + u8::from(age > LEARNER_SYNC_DEADLINE)
}
