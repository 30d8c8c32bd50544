//! The minor versions of etcd that this operator knows: a row for each. A version of another one is refused, since nothing is known of its
//! flags, of what it makes of the data, and of the way back.

use super::{Minor, Version};

/// What differs between minor versions of etcd.
#[derive(Debug)]
pub struct KnownMinor {
    /// The minor version.
    pub minor: Minor,
    /// The first version of the minor before it that may be upgraded to it.
    pub upgraded_from: Option<Version>,
    /// The same for data that this operator did not write, which may have more in it that this minor refuses.
    pub upgraded_from_adopted: Option<Version>,
    /// It reports the version of its data, and etcd's downgrade takes a finished upgrade to it back.
    pub goes_back: bool,
    /// The first version whose `etcdutl` raises revisions.
    pub raises_revisions: Version,
    /// The first version whose `--force-new-cluster` keeps every entry that the database has.
    pub keeps_entries: Version,
}

/// In their order. Add a row for a new minor version once its flags are in the list of known flags and the tests run it.
pub const KNOWN_MINORS: [KnownMinor; 3] = [
    KnownMinor {
        minor: Minor(3, 5),
        upgraded_from: None,
        upgraded_from_adopted: None,
        goes_back: false,
        raises_revisions: Version::new(3, 5, 10),
        keeps_entries: Version::new(3, 5, 26),
    },
    KnownMinor {
        minor: Minor(3, 6),
        // After an upgrade from an older one, removed members return (etcd-io/etcd#20967).
        upgraded_from: Some(Version::new(3, 5, 26)),
        // etcd's upgrade page for 3.6 asks for it.
        upgraded_from_adopted: Some(Version::new(3, 5, 32)),
        goes_back: true,
        raises_revisions: Version::new(3, 6, 0),
        keeps_entries: Version::new(3, 6, 5),
    },
    KnownMinor {
        minor: Minor(3, 7),
        // etcd's upgrade page for 3.7.
        upgraded_from: Some(Version::new(3, 6, 11)),
        upgraded_from_adopted: Some(Version::new(3, 6, 11)),
        goes_back: true,
        raises_revisions: Version::new(3, 7, 0),
        keeps_entries: Version::new(3, 7, 0),
    },
];

impl Minor {
    /// What is known of it, if anything is.
    pub fn known(self) -> Option<&'static KnownMinor> {
        KNOWN_MINORS.iter().find(|known| known.minor == self)
    }

    /// Whether etcd's downgrade takes a finished upgrade to it back.
    pub fn goes_back(self) -> bool {
        self.known().is_some_and(|known| known.goes_back)
    }
}

impl Version {
    /// Why this version must not be chosen, if this operator does not know its minor version.
    pub fn why_unknown(self) -> Option<String> {
        if self.line().known().is_some() {
            return None;
        }
        let known = KNOWN_MINORS.map(|known| known.minor.to_string()).join(", ");
        Some(format!("this release of the operator knows etcd {known}, and not {}", self.line()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minors_follow_each_other_and_are_upgraded_from_the_one_before() {
        for pair in KNOWN_MINORS.windows(2) {
            let [before, after] = pair else { continue };
            assert_eq!(after.minor, Minor(before.minor.0, before.minor.1 + 1));
            for from in [after.upgraded_from, after.upgraded_from_adopted] {
                assert_eq!(from.map(Version::line), Some(before.minor), "{}", after.minor);
            }
            assert!(after.upgraded_from <= after.upgraded_from_adopted, "{}", after.minor);
        }
        for known in &KNOWN_MINORS {
            for version in [known.raises_revisions, known.keeps_entries] {
                assert_eq!(version.line(), known.minor);
            }
        }
    }

    #[test]
    fn a_minor_that_nobody_has_tried_is_named_with_those_that_are_known() {
        assert_eq!(Version::new(3, 7, 3).why_unknown(), None);
        let why = Version::new(3, 8, 0).why_unknown().unwrap();
        assert_eq!(why, "this release of the operator knows etcd 3.5, 3.6, 3.7, and not 3.8");
        assert!(
            Version::new(3, 4, 30).why_unknown().is_some() && Version::new(4, 0, 0).why_unknown().is_some()
        );
    }
}
