//! etcd's own numbers. Shown in hexadecimal, as etcdctl shows them.

use std::fmt;
use std::str::FromStr;

macro_rules! hex_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:x}", self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:x}", self.0)
            }
        }

        impl FromStr for $name {
            type Err = NotHexadecimal;

            fn from_str(text: &str) -> Result<Self, NotHexadecimal> {
                u64::from_str_radix(text.trim_start_matches("0x"), 16)
                    .map(Self)
                    .map_err(|_| NotHexadecimal(text.to_owned()))
            }
        }
    };
}

hex_id! {
    /// A member's id, given by etcd at MemberAdd or derived from peer URLs and token at bootstrap. Never reused.
    MemberId
}

hex_id! {
    /// A cluster's id: derived by etcd from the bootstrap members' ids. Two of them behind one name is split brain.
    ClusterId
}

/// A store revision: counts every change since the cluster began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Revision(pub i64);

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The text is not a 64-bit hexadecimal number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotHexadecimal(pub String);

impl fmt::Display for NotHexadecimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a hexadecimal id such as 8e9e05c52164694d", self.0)
    }
}

impl std::error::Error for NotHexadecimal {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_read_back_what_etcdctl_prints() {
        let id: MemberId = "8e9e05c52164694d".parse().unwrap();
        assert_eq!(id.to_string(), "8e9e05c52164694d");
        assert!("demo-0".parse::<ClusterId>().unwrap_err().to_string().contains("hexadecimal"));
    }
}
