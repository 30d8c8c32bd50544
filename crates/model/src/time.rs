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

/// A delay that doubles with each failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The delay after the first failure.
    pub first: Span,
    /// The delay stops growing here.
    pub longest: Span,
}

impl Backoff {
    /// The delay after so many failures. After none it is that after the first.
    pub fn after(self, failures: u32) -> Span {
        let factor = 2_u64.saturating_pow(failures.saturating_sub(1));
        Span(self.first.0.saturating_mul(factor)).min(self.longest)
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

/// R23: the present, where the clocks of the operator and of the API server may differ. A time is over only by the earlier one, and what is
/// counted from now on counts from the later one. So a clock that is wrong makes waits longer, never shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Present {
    /// What the earlier clock shows.
    pub earliest: Instant,
    /// What the later clock shows.
    pub latest: Instant,
}

impl ClockDifference {
    /// What the API server's clock shows, where the operator's shows `now`. It wrote the times of creation and deletion of objects.
    pub fn of_api_server(differs: Option<Self>, now: Instant) -> Instant {
        match differs {
            Some(Self::Ahead(by)) => now.before(by),
            Some(Self::Behind(by)) => now + by,
            None => now,
        }
    }
}

impl Present {
    /// The operator's clock shows `now`.
    pub fn new(now: Instant, differs: Option<ClockDifference>) -> Self {
        let other = ClockDifference::of_api_server(differs, now);
        Self { earliest: now.min(other), latest: now.max(other) }
    }
}

impl Instant {
    /// So long before.
    #[must_use]
    pub fn before(self, span: Span) -> Self {
        Self(self.0.saturating_sub(i64::try_from(span.0).unwrap_or(i64::MAX)))
    }
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
