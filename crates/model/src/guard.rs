//! What the in-Pod guard says of a member's volume. The names travel as text in the Pod's termination message.

use std::fmt;
use std::str::FromStr;

/// The guard's word on a volume before etcd may touch it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GuardVerdict {
    /// The volume is this member's and holds what it must; etcd may start.
    Fit,
    /// Data must be there and are not: the volume came back empty.
    DataMissing,
    /// Data that nobody stamped for this member lie where none may be.
    ForeignData,
    /// The identity file names another cluster or member.
    ForeignIdentity,
    /// The database does not open.
    CorruptData,
    /// The directory can not be written.
    NotWritable,
    /// No space is left.
    DiskFull,
}

impl GuardVerdict {
    /// Every verdict.
    pub const ALL: [Self; 7] = [
        Self::Fit,
        Self::DataMissing,
        Self::ForeignData,
        Self::ForeignIdentity,
        Self::CorruptData,
        Self::NotWritable,
        Self::DiskFull,
    ];

    /// Its name in the termination message and in conditions.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fit => "Fit",
            Self::DataMissing => "DataMissing",
            Self::ForeignData => "ForeignData",
            Self::ForeignIdentity => "ForeignIdentity",
            Self::CorruptData => "CorruptData",
            Self::NotWritable => "NotWritable",
            Self::DiskFull => "DiskFull",
        }
    }
}

impl fmt::Display for GuardVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for GuardVerdict {
    type Err = UnknownVerdict;

    fn from_str(text: &str) -> Result<Self, UnknownVerdict> {
        Self::ALL
            .into_iter()
            .find(|verdict| verdict.as_str() == text)
            .ok_or_else(|| UnknownVerdict(text.to_owned()))
    }
}

/// A text that is no verdict of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownVerdict(pub String);

impl fmt::Display for UnknownVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a verdict of the guard", self.0)
    }
}

impl std::error::Error for UnknownVerdict {}
