//! Names: of clusters, members and their addresses. A member's name is also the name of its Pod and of its volume.

use std::fmt;

macro_rules! text {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// Wraps the text unchanged.
            pub fn new(text: impl Into<String>) -> Self {
                Self(text.into())
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text! {
    /// The uid of an EtcdCluster object: a cluster that is deleted and created again with the same name has another.
    ClusterUid
}

text! {
    /// The uid of any other Kubernetes object.
    Uid
}

text! {
    /// `--initial-cluster-token`: contains the cluster's uid and the bootstrap attempt, so that no two incarnations
    /// can ever compute the same cluster id.
    Token
}

text! {
    /// The URL under which peers reach a member; unique to one incarnation of it (R2).
    PeerUrl
}

/// Which cluster: namespace and name, as `kubectl` would write it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterRef {
    /// The namespace.
    pub namespace: String,
    /// The name of the EtcdCluster, of its peer Service and of its budget.
    pub name: String,
}

impl ClusterRef {
    /// The cluster called `name` in `namespace`.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// The member with this ordinal: `<cluster>-<n>`.
    pub fn member(&self, ordinal: Ordinal) -> MemberName {
        MemberName(format!("{}-{}", self.name, ordinal.0))
    }

    /// The ordinal of a member of this cluster; `None` if the name is not `<cluster>-<n>`.
    pub fn ordinal(&self, member: &MemberName) -> Option<Ordinal> {
        let digits = member.0.strip_prefix(&self.name)?.strip_prefix('-')?;
        let ordinal = digits.parse().ok()?;
        (digits == format!("{ordinal}")).then_some(Ordinal(ordinal))
    }

    /// The DNS name under which a member is reached, ready or not. Short of the cluster domain on purpose: a Pod's
    /// search path completes it, so no cluster domain is wired in.
    pub fn dns_name(&self, member: &MemberName) -> String {
        format!("{}.{}.{}.svc", member.0, self.name, self.namespace)
    }
}

impl fmt::Display for ClusterRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl Token {
    /// The token of a bootstrap attempt. It contains the uid of the EtcdCluster, so that no two clusters have the same.
    pub fn of_attempt(uid: &ClusterUid, attempt: u32) -> Self {
        Self::new(format!("{uid}-{attempt}"))
    }

    /// Whether this EtcdCluster made it, for any of its attempts.
    pub fn is_of(&self, uid: &ClusterUid) -> bool {
        let attempt = self.as_str().strip_prefix(uid.as_str()).and_then(|rest| rest.strip_prefix('-'));
        attempt.is_some_and(|attempt| attempt.parse::<u32>().is_ok())
    }
}

/// The number in a member's name. Counts up; never reused (R2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ordinal(pub u32);

impl Ordinal {
    /// The next one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// One incarnation of a member: `<cluster>-<n>`. Pod, volume and etcd member share the name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberName(String);

impl MemberName {
    /// Wraps a name as read from an object or a member list.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for MemberName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for MemberName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_names_the_etcd_cluster_that_made_it() {
        let (own, other) = (ClusterUid::new("u-1"), ClusterUid::new("u"));
        let token = Token::of_attempt(&own, 2);
        assert!(token.is_of(&own) && !token.is_of(&other), "{token}");
        assert!(!Token::new("u-1").is_of(&own), "without an attempt");
    }

    #[test]
    fn a_member_name_gives_back_its_ordinal_and_only_its_own() {
        let demo = ClusterRef::new("default", "demo");
        assert_eq!(demo.ordinal(&demo.member(Ordinal(12))), Some(Ordinal(12)));
        for foreign in ["demo-012", "demo-", "demo-x", "demo2-1", "demo"] {
            assert_eq!(demo.ordinal(&MemberName::new(foreign)), None, "{foreign}");
        }
    }
}
