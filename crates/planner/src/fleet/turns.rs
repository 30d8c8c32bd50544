//! Whose turn it is, of all clusters of an operator: by what their statuses record, and by the turns that were given and that no status shows
//! yet. Only these are remembered; a new operator begins without them.

use std::collections::BTreeMap;

use quorate_model::effect::Wave;
use quorate_model::fleet::{Takes, Wants};
use quorate_model::mutants::{Rule, is_broken};
use quorate_model::snapshot::DefaultsTurn;
use quorate_model::{ClusterRef, Instant, Span};

use super::{Limit, Rolling, is_parked, turn};

/// How long a turn counts that was given and that status does not record yet.
const GIVEN_FOR: Span = Span::seconds(60);

/// How long a cluster that did not use its turn lets the others go first: what keeps it from writing its status may last.
const PASSED_FOR: Span = Span::seconds(600);

/// How long a cluster may be degraded while it takes new defaults. Each of its Pods is away for some seconds.
pub const STUCK_AFTER: Span = Span::seconds(180);

/// The turns of all clusters.
#[derive(Clone, Debug, Default)]
pub struct Turns {
    limit: Limit,
    /// Turns that were given and that no status shows yet. Without them, clusters that are observed at the same time would all find a free
    /// place.
    given: BTreeMap<ClusterRef, Given>,
}

#[derive(Clone, Copy, Debug)]
struct Given {
    at: Instant,
    interrupted: bool,
}

/// How the turns are, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// A cluster that took new defaults does not get ready.
    pub stuck: bool,
    /// How many clusters lost their place, since none of their members could be restarted.
    pub parked: usize,
}

impl Turns {
    /// So many clusters at a time.
    pub fn new(limit: Limit) -> Self {
        Self { limit, given: BTreeMap::new() }
    }

    /// A cluster has all defaults, or takes no new ones. It takes no place.
    pub fn none_for(&mut self, cluster: &ClusterRef) {
        self.given.remove(cluster);
    }

    /// Whether it is the turn of a cluster. `taking`: those whose status records one; `all`: how many clusters there are. `now` is the earlier of
    /// both clocks (R23).
    pub fn turn_of(&mut self, own: &Wants, taking: &[Takes], all: usize, now: Instant) -> DefaultsTurn {
        self.given.retain(|_, given| given.at <= now && now - given.at <= PASSED_FOR);
        if own.unwell.is_some() {
            // A turn that it did not use goes to another one at once.
            self.given.remove(&own.cluster);
        }
        let mut rolling: BTreeMap<&ClusterRef, Rolling> = BTreeMap::new();
        for takes in taking {
            self.given.remove(&takes.cluster);
            let stuck = stuck(takes, now).map(str::to_owned);
            if stuck.is_some() || !is_parked(takes.turn, now) || takes.cluster == own.cluster {
                let one = Rolling { stuck, ..one(&takes.cluster, takes.interrupted) };
                rolling.insert(&takes.cluster, one);
            }
        }
        let is_given = |given: &Given| now - given.at <= GIVEN_FOR;
        if self.given.get(&own.cluster).is_some_and(|given| !is_given(given)) {
            return DefaultsTurn::After(Wave::Missed);
        }
        for (cluster, given) in self.given.iter().filter(|(_, given)| is_given(given)) {
            rolling.entry(cluster).or_insert_with(|| one(cluster, given.interrupted));
        }
        let rolling: Vec<Rolling> = rolling.into_values().collect();
        let wants = Rolling { unwell: own.unwell.clone(), ..one(&own.cluster, own.interrupted) };
        let turn = turn(&wants, &rolling, all, self.limit);
        if turn == DefaultsTurn::Now && !is_broken(Rule::TurnsGiven) {
            let given = Given { at: now, interrupted: own.interrupted };
            self.given.entry(own.cluster.clone()).or_insert(given);
        }
        turn
    }
}

/// How the turns are that statuses record.
pub fn progress(taking: &[Takes], now: Instant) -> Progress {
    Progress {
        stuck: taking.iter().any(|takes| stuck(takes, now).is_some()),
        parked: taking.iter().filter(|takes| is_parked(takes.turn, now)).count(),
    }
}

fn one(cluster: &ClusterRef, interrupted: bool) -> Rolling {
    Rolling { name: cluster.to_string(), interrupted, stuck: None, unwell: None }
}

/// Why it does not get ready, if a member was restarted with the new defaults. It was well when it began, so what its condition says came after
/// that.
fn stuck(takes: &Takes, now: Instant) -> Option<&str> {
    let (since, why) = takes.degraded.as_ref()?;
    (takes.turn.restarted > 0 && now - *since > STUCK_AFTER).then_some(why.as_str())
}
