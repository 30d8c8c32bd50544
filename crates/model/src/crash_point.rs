//! Crash points: the moments just before and just after a numbered step of a protocol. A test stops the operator there
//! (`before:B4#1` is the moment before the first B4), and a history of the simulation names its moments by them
//! (`after:G3#2` is the moment after the second G3). A change of the record counts as a step like an effect.

use std::fmt;
use std::str::FromStr;

use crate::effect::Step;

/// On which side of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CrashSide {
    /// Nothing was sent yet.
    Before,
    /// The reply has arrived and nothing else was done.
    After,
}

/// One crash point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CrashPoint {
    /// On which side.
    pub side: CrashSide,
    /// Of which step.
    pub step: Step,
    /// Which occurrence of the step, counted from 1.
    pub occurrence: u32,
}

/// The text is no crash point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotACrashPoint(String);

impl CrashPoint {
    /// Every crash point, at its first occurrence.
    pub fn all() -> impl Iterator<Item = Self> {
        Step::ALL.iter().flat_map(|&step| {
            [CrashSide::Before, CrashSide::After].map(|side| Self { side, step, occurrence: 1 })
        })
    }
}

impl fmt::Display for CrashSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Before => "before",
            Self::After => "after",
        })
    }
}

impl fmt::Display for CrashPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}#{}", self.side, self.step, self.occurrence)
    }
}

impl FromStr for CrashPoint {
    type Err = NotACrashPoint;

    fn from_str(text: &str) -> Result<Self, NotACrashPoint> {
        parse(text).ok_or_else(|| NotACrashPoint(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<CrashPoint> {
    let (side, rest) = text.split_once(':')?;
    let side = match side {
        "before" => CrashSide::Before,
        "after" => CrashSide::After,
        _ => return None,
    };
    let (step, occurrence) = rest.split_once('#').unwrap_or((rest, "1"));
    let step = *Step::ALL.iter().find(|known| known.to_string() == step)?;
    let occurrence = occurrence.parse().ok().filter(|&occurrence| occurrence > 0)?;
    Some(CrashPoint { side, step, occurrence })
}

impl fmt::Display for NotACrashPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a crash point such as before:B4#1 or after:G3#2", self.0)
    }
}

impl std::error::Error for NotACrashPoint {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_crash_point_reads_back_as_it_is_written() {
        for point in CrashPoint::all() {
            assert_eq!(point.to_string().parse(), Ok(point));
        }
        assert_eq!(
            "after:G3".parse(),
            Ok(CrashPoint { side: CrashSide::After, step: Step::G3, occurrence: 1 })
        );
    }

    #[test]
    fn what_is_no_crash_point_is_refused_with_an_example() {
        for bad in ["", "B4", "before:B4#0", "before:B4#x", "at:B4#1", "before:X9#1", "before:b4#1"] {
            let refused = bad.parse::<CrashPoint>().unwrap_err();
            assert!(refused.to_string().contains("before:B4#1"), "{bad}");
        }
    }
}
