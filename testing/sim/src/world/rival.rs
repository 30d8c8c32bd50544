//! F13: the operator that led before, in the middle of its last pass, which does not know that another one leads by now.

use std::mem;

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
    /// Whose turn it is.
    pub turn: Turn,
}

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Turn {
    /// That of the one that leads, then its own.
    Leaders,
    /// Its own.
    Own,
    /// It is stopped, and goes on when all else has come to rest.
    WhenAllRests,
}

impl World {
    /// Another one leads from now on. `false` if there were two already, or it would notice before it does anything.
    pub fn depose(&mut self, turn: Turn) -> bool {
        let free = self.rival.is_none() && matches!(self.operator.at, At::Within(_));
        if free {
            let operator = Operator { leads: Leads::NoMore, ..mem::take(&mut self.operator) };
            self.rival = Some(Rival { operator, turn });
        }
        free
    }

    /// The one that led before takes a step, if it is its turn; in words.
    pub fn rival_operates(&mut self) -> Option<String> {
        let rival = self.rival.as_mut()?;
        match rival.turn {
            Turn::WhenAllRests => return None,
            Turn::Leaders => {
                rival.turn = Turn::Own;
                return None;
            }
            Turn::Own => rival.turn = Turn::Leaders,
        }
        let mut rival = self.rival.take()?;
        mem::swap(&mut self.operator, &mut rival.operator);
        let told = self.operate();
        mem::swap(&mut self.operator, &mut rival.operator);
        self.rival = Some(rival).filter(|rival| matches!(rival.operator.at, At::Within(_)));
        Some(format!("the operator that led before: {told}"))
    }

    /// The one that led before goes on, if it was stopped.
    pub fn wake_rival(&mut self) -> bool {
        let stopped = self.rival.as_mut().filter(|rival| rival.turn == Turn::WhenAllRests);
        stopped.map(|rival| rival.turn = Turn::Own).is_some()
    }
}
