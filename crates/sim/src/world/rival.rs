//! F13: the operator that led before, in the middle of its last pass, which does not know that another one leads by now.

use super::World;
use super::operator::{At, Operator};

/// Whether an operator holds the lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Leads {
    /// It does.
    #[default]
    Now,
    /// Another one does, which it will learn when its pass has ended.
    NoMore,
}

/// The operator that led before.
#[derive(Clone, Debug)]
pub struct Rival {
    /// It.
    pub operator: Operator,
    /// When it goes on.
    pub wakes: Wakes,
}

/// When the operator that led before goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wakes {
    /// In turns with the one that leads; here, with its next step.
    AtOnce,
    /// As the other, when the one that leads has taken a step.
    InTurns,
    /// When all else has come to rest.
    AtRest,
}

impl Rival {
    /// Made of the one that led until now, which goes on at once or was stopped.
    pub fn of(operator: Operator, stopped: bool) -> Self {
        let wakes = if stopped { Wakes::AtRest } else { Wakes::AtOnce };
        Self { operator: Operator { leads: Leads::NoMore, ..operator }, wakes }
    }
}

impl World {
    /// The one that led before takes a step, if it is its turn; in words.
    pub fn rival_operates(&mut self) -> Option<String> {
        let Rival { operator, wakes } = self.rival.take()?;
        match wakes {
            Wakes::AtRest => self.rival = Some(Rival { operator, wakes }),
            Wakes::AtOnce => self.rival = Some(Rival { operator, wakes: Wakes::InTurns }),
            Wakes::InTurns => {
                let leader = std::mem::replace(&mut self.operator, operator);
                let told = self.operate();
                let operator = std::mem::replace(&mut self.operator, leader);
                if matches!(operator.at, At::Within(_)) {
                    self.rival = Some(Rival { operator, wakes: Wakes::AtOnce });
                }
                return Some(format!("the operator that led before: {told}"));
            }
        }
        None
    }

    /// The one that led before goes on, if it was stopped.
    pub fn wake_rival(&mut self) -> bool {
        let asleep = self.rival.as_mut().filter(|rival| rival.wakes == Wakes::AtRest);
        asleep.map(|rival| rival.wakes = Wakes::InTurns).is_some()
    }
}
