//! One history: the specs it begins with, and every departure from what was due. It can be serialized as a trace, replayed step
//! by step, and shortened.
//!
//! - [`moment`]: when a departure happens: at a crash point, at rest, after so many steps
//! - [`replay`]: a history as it runs, a line at a time

pub mod moment;
pub mod replay;

use std::fmt;

use quorate_model::Span;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::oracle::{Property, Violation};
use crate::world::World;
use crate::world::faults::Fault;
use crate::world::room::Room;
pub use moment::Moment;
pub use replay::{Event, Replay, Story};

/// A history.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// The specs that are applied before it, one after the other, each brought to rest.
    #[serde(default)]
    pub before: Vec<Value>,
    /// The spec that it begins with.
    pub spec: Value,
    /// The departures from what is due, in order.
    pub departures: Vec<Departure>,
    /// A person follows the runbook once a fault stays.
    #[serde(default, skip_serializing_if = "is_false")]
    pub wide: bool,
    /// Members of etcd 3.5 compare themselves with their peers before they serve, as the operator's flags ask. In other histories they
    /// do not: a good member that is kept out waits for a person in most of them.
    #[serde(default, skip_serializing_if = "is_false")]
    pub initial_check: bool,
    /// How many seconds a member takes to make a hash of its data. In other histories it takes none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub hash_takes: u64,
    /// How much room Kubernetes has for members, once the specs before the history are at rest.
    #[serde(default, skip_serializing_if = "has_all_room")]
    pub room: Room,
}

fn has_all_room(room: &Room) -> bool {
    *room == Room::default()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(wide: &bool) -> bool {
    !wide
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(seconds: &u64) -> bool {
    *seconds == 0
}

/// A departure from what is due.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Departure {
    /// The moment.
    pub at: Moment,
    /// The fault or the edit.
    pub what: What,
}

/// What departs from what is due.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// A fault strikes.
    Fault(Fault),
    /// The spec is edited: a merge patch.
    Edit(Value),
    /// The cluster is deleted.
    Delete,
}

/// A history that violates a property.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// What was violated.
    pub violation: Violation,
    /// The history.
    pub history: History,
}

/// A history with more steps than this does not come to rest.
pub const ENDLESS: usize = 5000;

impl History {
    /// A history without departures through these sizes, each brought to rest but the last.
    pub fn through(sizes: &[u32]) -> Self {
        let mut before: Vec<Value> = sizes.iter().map(|size| plain(*size)).collect();
        let spec = before.pop().expect("there is one at least");
        Self { before, spec, ..Self::default() }
    }

    /// The world at its beginning.
    pub fn start(&self) -> World {
        let mut specs = self.before.iter().chain([&self.spec]);
        let mut world = World::new(specs.next().expect("there is one at least"));
        for spec in specs {
            while world.go().is_some() {}
            world.apply(spec).expect("the specs before a history are valid");
        }
        world.covered.clear();
        world.wide = self.wide;
        world.etcd.initial_check = self.initial_check;
        world.hash_takes = Span::seconds(self.hash_takes);
        world.room = self.room;
        world
    }

    /// Runs it to its end.
    pub fn story(&self) -> Story {
        Story(Replay::of(self).collect())
    }

    /// The same history, with the moments of its departures named by crash points.
    #[must_use]
    pub fn with_named_moments(&self) -> Self {
        let departures = Replay::of(self).filter_map(|line| match line.event {
            Event::Departure { what, at, .. } => Some(Departure { at, what }),
            Event::NeverReached(departure) => Some(departure),
            Event::Due { .. } | Event::Violated(_) => None,
        });
        Self { departures: departures.collect(), ..self.clone() }
    }

    /// A shorter history with the same violation: each departure that it does not need is left out.
    #[must_use]
    pub fn shortened(mut self, property: Property) -> Self {
        let mut n = 0;
        while n < self.departures.len() {
            let mut without = self.clone();
            without.departures.remove(n);
            if without.story().violation().is_some_and(|violation| violation.property == property) {
                self = without;
            } else {
                n += 1;
            }
        }
        self
    }
}

/// The story of a history in its written form.
///
/// # Panics
///
/// If it ends with a violation.
#[track_caller]
pub fn sound_story(history: &Value) -> Story {
    let history: History = serde_json::from_value(history.clone()).expect("a history");
    let story = history.story();
    assert_eq!(story.violation(), None, "{story}");
    story
}

/// Checks that a history in its written form ends without a violation, and that all its departures happened.
///
/// # Panics
///
/// If not.
#[track_caller]
pub fn ends_well(history: &Value) {
    let story = sound_story(history);
    assert!(story.all_came_about(), "{story}");
}

/// A spec with defaults for everything but the size.
pub fn plain(size: u32) -> Value {
    json!({
        "size": size, "version": "3.6.16", "tls": { "provider": "disabled" },
        "storageSpec": { "volumeSizeRequest": "1Gi" },
    })
}

impl What {
    /// Carries it out; `false` if it cannot happen now.
    pub fn happen(&self, world: &mut World) -> bool {
        match self {
            Self::Fault(fault) => world.strike(fault),
            Self::Edit(spec) => world.edit(spec).is_ok(),
            Self::Delete => world.delete(),
        }
    }
}

impl Failure {
    /// What was violated, the story, and how to replay it.
    pub fn report(&self) -> String {
        let Self { violation, history } = self;
        let trace = serde_json::to_string(history).unwrap_or_default();
        format!("{violation}\n\n{}\nreplay it: cargo xtask replay '{trace}'", history.story())
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fault(fault) => write!(f, "FAULT: {fault}"),
            Self::Edit(spec) => write!(f, "EDIT: {spec}"),
            Self::Delete => f.write_str("EDIT: the cluster is deleted"),
        }
    }
}
