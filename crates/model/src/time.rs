//! Instants and spans, in milliseconds, always given from outside: nothing here can read a clock.

use std::fmt;
use std::ops::{Add, Sub};

/// A point in time: milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(pub i64);

/// A length of time in milliseconds, never negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span(pub u64);

impl Span {
    /// So many seconds.
    pub const fn seconds(seconds: u64) -> Self {
        Self(seconds * 1000)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 / 1000 {
            seconds @ 0..120 => write!(f, "{seconds}s"),
            seconds @ 120..7200 => write!(f, "{}m", seconds / 60),
            seconds => write!(f, "{}h", seconds / 3600),
        }
    }
}

/// How far the operator's clock is from that of the API server, where it is too far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClockDifference {
    /// The operator's clock is ahead.
    Ahead(Span),
    /// The operator's clock is behind.
    Behind(Span),
}

impl fmt::Display for ClockDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ahead(by) => write!(f, "{by} ahead of the API server's"),
            Self::Behind(by) => write!(f, "{by} behind the API server's"),
        }
    }
}

impl Sub for Instant {
    type Output = Span;

    /// How long after `earlier`; zero if it is not after (clocks step back).
    fn sub(self, earlier: Self) -> Span {
        Span(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl Add<Span> for Instant {
    type Output = Self;

    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(i64::try_from(span.0).unwrap_or(i64::MAX)))
    }
}
