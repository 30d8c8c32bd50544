//! etcd versions.

mod minors;
mod unsound;

use std::fmt;
use std::str::FromStr;

pub use minors::{KNOWN_MINORS, KnownMinor};

/// A release of etcd, `3.6.16`. Written with or without a leading `v`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// 3
    pub major: u16,
    /// 6
    pub minor: u16,
    /// 16
    pub patch: u16,
}

/// A minor line of etcd, `3.6`: flags and upgrade steps are decided by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Minor(pub u16, pub u16);

impl Version {
    /// A version from its parts.
    pub const fn new(major: u16, minor: u16, patch: u16) -> Self {
        Self { major, minor, patch }
    }

    /// The minor line it belongs to.
    pub const fn line(self) -> Minor {
        Minor(self.major, self.minor)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl fmt::Display for Minor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

impl FromStr for Version {
    type Err = NotAVersion;

    fn from_str(text: &str) -> Result<Self, NotAVersion> {
        let wrong = || NotAVersion(text.to_owned());
        let mut parts = text.strip_prefix('v').unwrap_or(text).split('.').map(str::parse::<u16>);
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(Ok(major)), Some(Ok(minor)), Some(Ok(patch)), None) => Ok(Self { major, minor, patch }),
            (_, _, _, _) => Err(wrong()),
        }
    }
}

impl FromStr for Minor {
    type Err = NotAVersion;

    fn from_str(text: &str) -> Result<Self, NotAVersion> {
        format!("{text}.0").parse::<Version>().map(Version::line).map_err(|_| NotAVersion(text.to_owned()))
    }
}

/// The text is not a version of the form `3.6.16` or `v3.6.16`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAVersion(pub String);

impl fmt::Display for NotAVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not an etcd version such as 3.6.16", self.0)
    }
}

impl std::error::Error for NotAVersion {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_reads_with_and_without_v() {
        assert_eq!("v3.6.16".parse(), Ok(Version::new(3, 6, 16)));
        assert_eq!("3.5.0".parse(), Ok(Version::new(3, 5, 0)));
        for bad in ["foo", "3.6", "3.6.1.2", "3.6.x", "", "v"] {
            assert!(bad.parse::<Version>().is_err(), "{bad}");
        }
    }
}
