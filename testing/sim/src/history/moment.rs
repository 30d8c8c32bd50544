//! The moment of a departure, as text: `after:B4#2` (after the second step B4), `before:B6` (before the first
//! B6), `after:G3+2` (two steps of the history later), `+1` (one step after the departure before it), `rest` (as soon as
//! nothing more is due), or the number of a step of the history.

use std::fmt;
use std::str::FromStr;

use quorate_model::CrashPoint;
use quorate_model::crash_point::CrashSide;
use serde::{Deserialize, Serialize};

/// A moment in a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "Serialized", try_from = "Serialized")]
pub enum Moment {
    /// After this many steps of the history.
    Step(usize),
    /// Just before a protocol step.
    Before(CrashPoint),
    /// This many steps of the history after a protocol step; 0 is right after it.
    After(CrashPoint, usize),
    /// This many steps of the history after the departure before this one.
    Later(usize),
    /// As soon as nothing more is due.
    Rest,
}

/// The text does not name a moment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} does not name a moment: write before:B4, after:B4#2, after:B4+1, +1, rest, or the number of a step of the history"
)]
pub struct NotAMoment(String);

/// A moment in JSON: a number of steps, or a text.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Serialized {
    Step(usize),
    Text(String),
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Step(step) => write!(f, "{step}"),
            Self::Before(point) | Self::After(point, 0) => write!(f, "{point}"),
            Self::After(point, later) => write!(f, "{point}+{later}"),
            Self::Later(later) => write!(f, "+{later}"),
            Self::Rest => f.write_str("rest"),
        }
    }
}

impl FromStr for Moment {
    type Err = NotAMoment;

    fn from_str(text: &str) -> Result<Self, NotAMoment> {
        parse(text).ok_or_else(|| NotAMoment(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<Moment> {
    if text == "rest" {
        return Some(Moment::Rest);
    }
    // A number with a sign would pass for one without.
    let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?;
    let (point, later) = match text.split_once('+') {
        Some(("", later)) => return number(later).map(Moment::Later),
        Some((point, later)) => (point, Some(number(later)?)),
        None => (text, None),
    };
    match (point.parse::<CrashPoint>(), later) {
        (Ok(point), None) if point.side == CrashSide::Before => Some(Moment::Before(point)),
        (Ok(point), later) if point.side == CrashSide::After => {
            Some(Moment::After(point, later.unwrap_or(0)))
        }
        (Err(_), None) => number(point).map(Moment::Step),
        (Ok(_), _) | (Err(_), Some(_)) => None,
    }
}

impl From<Moment> for Serialized {
    fn from(moment: Moment) -> Self {
        match moment {
            Moment::Step(step) => Self::Step(step),
            Moment::Before(_) | Moment::After(..) | Moment::Later(_) | Moment::Rest => {
                Self::Text(moment.to_string())
            }
        }
    }
}

impl TryFrom<Serialized> for Moment {
    type Error = NotAMoment;

    fn try_from(written: Serialized) -> Result<Self, NotAMoment> {
        match written {
            Serialized::Step(step) => Ok(Self::Step(step)),
            Serialized::Text(text) => text.parse(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_reads_back_as_it_is_written() {
        for text in ["12", "before:B4#1", "after:G3#2", "after:B4#1+3", "+0", "+2", "rest"] {
            let moment: Moment = text.parse().unwrap();
            assert_eq!(moment.to_string(), text);
            let json = serde_json::to_value(moment).unwrap();
            assert_eq!(serde_json::from_value::<Moment>(json).unwrap(), moment);
        }
        assert_eq!("after:B4+3".parse(), "after:B4#1+3".parse::<Moment>());
    }

    #[test]
    fn other_texts_are_refused() {
        for bad in ["", "B4", "before:B4+1", "after:B4+", "after:B4+-1", "+", "-1", "at rest", "after:X9"] {
            assert!(bad.parse::<Moment>().is_err(), "{bad}");
        }
    }
}
