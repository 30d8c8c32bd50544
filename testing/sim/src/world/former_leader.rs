//! F13: a former leader. It is in the middle of its last pass and has not noticed yet that another operator has the lease.

use std::mem;

use super::World;
use super::operator::{At, Operator};

/// Whether an operator holds the lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Leads {
    /// It holds the lease.
    #[default]
    Now,
    /// Another operator holds it. This one notices when its pass has ended.
    NoMore,
}

/// An operator that lost the lease in its pass.
#[derive(Clone, Debug)]
pub struct FormerLeader {
    /// Its process.
    pub operator: Operator,
    /// Which operator takes the next step.
    pub turn: Turn,
}

/// Which operator takes the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Turn {
    /// The leader, then the former leader.
    Leaders,
    /// The former leader.
    Own,
    /// The former leader is stopped. It goes on when all else is at rest.
    WhenAllRests,
}

impl World {
    /// Another operator takes the lease. `false` if there is a former leader already, or if this one is between two passes and
    /// would notice before it writes anything.
    pub fn change_leader(&mut self, turn: Turn) -> bool {
        let free = self.former_leader.is_none() && matches!(self.operator.at, At::Within(_));
        if free {
            let operator = Operator { leads: Leads::NoMore, ..mem::take(&mut self.operator) };
            self.former_leader = Some(FormerLeader { operator, turn });
            self.clients_wait_anew();
        }
        free
    }

    /// The former leader takes a step, if it is its turn. Describes the step.
    pub fn former_leader_operates(&mut self) -> Option<String> {
        let former_leader = self.former_leader.as_mut()?;
        match former_leader.turn {
            Turn::WhenAllRests => return None,
            Turn::Leaders => {
                former_leader.turn = Turn::Own;
                return None;
            }
            Turn::Own => former_leader.turn = Turn::Leaders,
        }
        let mut former_leader = self.former_leader.take()?;
        mem::swap(&mut self.operator, &mut former_leader.operator);
        let line = self.operate();
        mem::swap(&mut self.operator, &mut former_leader.operator);
        self.former_leader =
            Some(former_leader).filter(|former_leader| matches!(former_leader.operator.at, At::Within(_)));
        Some(format!("the former leader: {line}"))
    }

    /// The former leader goes on, if it was stopped.
    pub fn wake_former_leader(&mut self) -> bool {
        let stopped =
            self.former_leader.as_mut().filter(|former_leader| former_leader.turn == Turn::WhenAllRests);
        stopped.map(|former_leader| former_leader.turn = Turn::Own).is_some()
    }
}
