//! The clocks of the operator, of the API server and of the kubelets. All show the time of the world, until somebody sets one of them.
//! The operator has another one that nobody can set, as the product has, and compares its clock with that of the API server by the product's
//! own code.

use std::fmt;

use quorate_manifests::Kind;
use quorate_model::{ClockDifference, Instant, Span};
use quorate_reconcile::{Memory, OwnTime, Pass, WriteError};
use serde::{Deserialize, Serialize};

use super::wire::Response;
use super::{BEGIN, World};

/// A clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Clock {
    /// The operator's. It is set now.
    Operator,
    /// The operator's. It is set in the middle of what the operator observes next, of which the plan follows.
    OperatorWhileItObserves,
    /// The API server's.
    ApiServer,
    /// Those of all kubelets.
    Kubelets,
}

/// How far clocks are ahead of the time of the world, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ahead {
    /// The operator's.
    pub operator: i64,
    /// The operator's will be so much further ahead.
    pub soon: i64,
    /// The API server's.
    pub api_server: i64,
    /// Those of kubelets.
    pub kubelets: i64,
}

impl World {
    /// What the operator's clock shows.
    pub(crate) fn operators_time(&self) -> Instant {
        ahead(self.now, self.faults.clocks.operator)
    }

    /// What the API server's clock shows.
    pub(super) fn api_servers_time(&self) -> Instant {
        ahead(self.now, self.faults.clocks.api_server)
    }

    /// What the kubelets' clocks show.
    pub(super) fn kubelets_time(&self) -> Instant {
        ahead(self.now, self.faults.clocks.kubelets)
    }

    /// How far the operator's clock is from the API server's, as far as the operator knows.
    pub(super) fn known_difference(&self) -> Option<ClockDifference> {
        self.operator.clocks.difference(self.own_time())
    }

    /// The pass gets it, as in the product.
    pub(super) fn tell_clocks(&mut self, pass: &mut Pass, memory: &mut Memory) {
        let differs = self.known_difference();
        self.operator.observes_again |= differs.is_some() != self.operator.differed;
        self.operator.differed = differs.is_some();
        pass.see_clocks(memory, differs);
    }

    /// The lease is renewed every few seconds, so between two passes if any time has passed.
    pub(super) fn renew_lease(&mut self) {
        if self.operator.heard_at != Some(self.now) {
            self.hear_api_server();
        }
    }

    /// The API server has replied.
    pub(super) fn hear_api_server(&mut self) {
        self.operator.heard_at = Some(self.now);
        let (sent, date, received) = (self.operators_time(), self.api_servers_time(), self.own_time());
        self.operator.clocks.note(sent, date, received);
    }

    /// Notes the time of a reply, if there is one.
    pub(super) fn hear(&mut self, response: &Response) {
        match response {
            Response::Kube(Err(WriteError::Unknown(_))) | Response::Etcd(_) => {}
            Response::Kube(_) => self.hear_api_server(),
        }
    }

    /// The operator has begun to observe, and its clock is set if it is to be.
    pub(super) fn set_while_it_observes(&mut self) {
        let clocks = &mut self.faults.clocks;
        clocks.operator += std::mem::take(&mut clocks.soon);
    }

    /// Somebody sets a clock ahead by so many seconds. `false` if one was set before: two that are wrong alike show nothing.
    pub(super) fn set_clock(&mut self, whose: Clock, by: i64) -> bool {
        if self.faults.clocks != Ahead::default() || self.object(Kind::Cluster, &self.at.name).is_none() {
            return false;
        }
        let clocks = &mut self.faults.clocks;
        match whose {
            Clock::Operator => clocks.operator = by,
            Clock::OperatorWhileItObserves => clocks.soon = by,
            Clock::ApiServer => clocks.api_server = by,
            Clock::Kubelets => clocks.kubelets = by,
        }
        self.clock_was_set();
        true
    }

    /// A person sets the clocks right.
    pub(super) fn set_clocks_right(&mut self) -> Option<String> {
        if self.faults.clocks_stay {
            return None;
        }
        let wrong = std::mem::take(&mut self.faults.clocks) != Ahead::default();
        wrong.then(|| {
            self.clock_was_set();
            "a person sets the clocks right".to_owned()
        })
    }

    fn clock_was_set(&mut self) {
        self.advance(Span(0));
        self.operator.rested_on = None;
        self.operator.observes_again = true;
        self.oracle.clock_was_set();
    }

    fn own_time(&self) -> OwnTime {
        OwnTime { wall: self.operators_time(), steady: self.now - BEGIN }
    }
}

impl Ahead {
    /// A description of each that is wrong.
    pub fn words(self) -> impl Iterator<Item = String> {
        let Self { operator, soon, api_server, kubelets } = self;
        let clocks = [
            (operator, "the operator's clock is"),
            (soon, "the operator's clock will be"),
            (api_server, "the API server's clock is"),
            (kubelets, "the clocks of kubelets are"),
        ];
        let wrong = clocks.into_iter().filter(|(by, _)| *by != 0);
        wrong.map(|(by, which)| format!("{which} {by} s ahead"))
    }
}

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Operator => "the operator's clock is",
            Self::OperatorWhileItObserves => "while the operator observes, its clock is",
            Self::ApiServer => "the API server's clock is",
            Self::Kubelets => "the clocks of kubelets are",
        })
    }
}

fn ahead(now: Instant, by: i64) -> Instant {
    Instant(now.0 + by * 1000)
}
