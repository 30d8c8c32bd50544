//! Versions that are known to corrupt data.

use super::Version;

/// The first, the last, and why.
const UNSOUND: [(Version, Version, &str); 2] = [
    (
        Version::new(3, 5, 0),
        Version::new(3, 5, 2),
        "a crash under load can leave members with different data (etcd-io/etcd#13766)",
    ),
    (
        Version::new(3, 5, 3),
        Version::new(3, 5, 5),
        "a crash during defragmentation can leave members with different revisions (etcd-io/etcd#14685)",
    ),
];

impl Version {
    /// Why this version must not be used, if it is known to corrupt data.
    pub fn why_unsound(self) -> Option<&'static str> {
        let known = UNSOUND.iter().find(|(first, last, _)| (*first..=*last).contains(&self));
        known.map(|(_, _, why)| *why)
    }
}
