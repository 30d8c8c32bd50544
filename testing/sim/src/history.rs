//! One history: how the world began, and every departure from what was due. It can be written down, told again step by
//! step, and shortened to what it takes.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::oracle::{Property, Violation};
use crate::world::World;
use crate::world::faults::Fault;

/// A history.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// The specs that were applied one after the other, and came to rest, before it.
    #[serde(default)]
    pub before: Vec<Value>,
    /// The spec that it begins with.
    pub spec: Value,
    /// What then departed from what was due.
    pub departures: Vec<Departure>,
}

/// A departure from what is due, and when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Departure {
    /// After so many steps.
    pub after: usize,
    /// What.
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

/// A history that ended badly.
#[derive(Clone, Debug, PartialEq)]
pub struct Broken {
    /// What was violated.
    pub violation: Violation,
    /// How it came about.
    pub history: History,
}

/// More steps than any history has: past it something runs in circles.
pub const CIRCLES: usize = 5000;

impl History {
    /// Nothing departs from what is due on the way through these sizes, each brought to rest but the last.
    pub fn through(sizes: &[u32]) -> Self {
        let mut before: Vec<Value> = sizes.iter().map(|size| plain(*size)).collect();
        let spec = before.pop().expect("there is one at least");
        Self { before, spec, departures: Vec::new() }
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
        world
    }

    /// Tells it: every step in words, and what was violated.
    pub fn tell(&self) -> (Vec<String>, Option<Violation>) {
        let mut world = self.start();
        let mut story = Vec::new();
        let mut left = self.departures.iter().peekable();
        let mut depth = 0;
        while world.oracle.violation().is_none() {
            while let Some(Departure { what, .. }) = left.next_if(|departure| departure.after <= depth) {
                let happened = what.happen(&mut world);
                story.push(format!("{}{what}", if happened { "" } else { "(in vain) " }));
            }
            depth += 1;
            match world.go() {
                Some(told) => story.push(told),
                // What was to happen later still may.
                None if left.peek().is_some() => {
                    depth = left.peek().map_or(depth, |next| next.after.max(depth));
                }
                None => break,
            }
            if depth > CIRCLES {
                world.oracle.object_to(Property::GoalIsReached, "it goes on for ever");
            }
        }
        world.judge_rest();
        let violation = world.oracle.violation().cloned();
        story.extend(violation.iter().map(|violation| format!("VIOLATED {violation}")));
        (story, violation)
    }

    /// The same violation by as few departures as can be found by leaving them out one after the other.
    #[must_use]
    pub fn shortened(mut self, property: Property) -> Self {
        let mut n = 0;
        while n < self.departures.len() {
            let mut without = self.clone();
            without.departures.remove(n);
            if without.tell().1.is_some_and(|violation| violation.property == property) {
                self = without;
            } else {
                n += 1;
            }
        }
        self
    }
}

/// The spec of a cluster that asks for nothing beside its size.
pub fn plain(size: u32) -> Value {
    json!({
        "size": size, "version": "3.6.16", "tls": { "provider": "disabled" },
        "storageSpec": { "volumeSizeRequest": "1Gi" },
    })
}

impl What {
    /// Lets it happen; `false` if it can not.
    pub fn happen(&self, world: &mut World) -> bool {
        match self {
            Self::Fault(fault) => world.strike(fault),
            Self::Edit(spec) => world.edit(spec).is_ok(),
            Self::Delete => world.delete(),
        }
    }
}

impl Broken {
    /// The whole story, for people: how to replay it first.
    pub fn told(&self) -> String {
        let (story, _) = self.history.tell();
        let trace = serde_json::to_string(&self.history).unwrap_or_default();
        format!("{}\n\n{}\n\nreplay it: cargo xtask replay '{trace}'", self.violation, story.join("\n"))
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
