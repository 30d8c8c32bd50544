//! Certificates, as far as decisions need them: which leaves there are, who signed them, when they end.

use std::fmt;

use crate::time::{Instant, Span};

/// The sha256 of an authority's certificate (DER), in hexadecimal. It names the authority.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(String);

/// The certificate authorities of a cluster. Who may be given the key of one must never get that of the other: a peer may write the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ca {
    /// Signs for the port of clients: the leaf of servers and that of clients.
    Clients,
    /// Signs for the port of peers alone.
    Peers,
}

/// The leaf certificates of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Leaf {
    /// Presented to clients; by etcd's gateway also to etcd itself.
    Server,
    /// Presented by members to each other.
    Peer,
    /// Presented by clients: the operator, the probe, etcdctl.
    Client,
    /// Presented by the operator, its agents and its Jobs instead, where etcd's auth is on: that of the user root.
    Operator,
}

/// From when until when a certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Validity {
    /// Not valid before.
    pub not_before: Instant,
    /// Not valid after.
    pub not_after: Instant,
}

impl Fingerprint {
    /// As it is recorded in status.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A number that is another one for almost every other fingerprint (FNV-1a): what is to happen to many at different moments is spread by it.
    pub fn number(&self) -> u64 {
        let add = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        self.0.bytes().fold(0xcbf2_9ce4_8422_2325, add)
    }
}

impl Ca {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Clients, Self::Peers];

    /// In messages: the certificate authority of these.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Clients => "clients",
            Self::Peers => "peers",
        }
    }
}

impl Leaf {
    /// Every leaf.
    pub const ALL: [Self; 4] = [Self::Server, Self::Peer, Self::Client, Self::Operator];

    /// Those that a cluster has, with etcd's auth or without it.
    pub fn of_cluster(auth: bool) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(move |leaf| match leaf {
            Self::Server | Self::Peer | Self::Client => true,
            Self::Operator => auth,
        })
    }

    /// The leaf that the operator, its agents and its Jobs present, with etcd's auth or without it.
    pub fn of_operator(auth: bool) -> Self {
        if auth { Self::Operator } else { Self::Client }
    }

    /// The authority of the port that it is for.
    pub fn ca(self) -> Ca {
        match self {
            Self::Server | Self::Client | Self::Operator => Ca::Clients,
            Self::Peer => Ca::Peers,
        }
    }

    /// Whether it is valid for a server, too.
    pub fn is_of_server(self) -> bool {
        match self {
            Self::Server | Self::Peer => true,
            Self::Client | Self::Operator => false,
        }
    }

    /// Its name in the names of Secrets, and in messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Peer => "peer",
            Self::Client => "client",
            Self::Operator => "operator",
        }
    }
}

impl Validity {
    /// A leaf is renewed from here on: at two thirds of its life.
    pub fn renewal(&self) -> Instant {
        self.after(2, 3)
    }

    /// A certificate that was not renewed by then is reported: at five sixths of its life.
    pub fn overdue(&self) -> Instant {
        self.after(5, 6)
    }

    /// Whether it has not begun: whoever compares it with a clock refuses it until then.
    pub fn is_in_future(&self, now: Instant) -> bool {
        now < self.not_before
    }

    /// Whether it has ended.
    pub fn has_ended(&self, now: Instant) -> bool {
        now > self.not_after
    }

    fn after(&self, part: u64, of: u64) -> Instant {
        let Span(life) = self.not_after - self.not_before;
        self.not_before + Span(life / of * part)
    }
}

impl fmt::Display for Fingerprint {
    /// Shortened, as people compare it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.get(..16).unwrap_or(&self.0))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Ca {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Leaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s04_a_leaf_is_renewed_at_two_thirds_of_its_own_life_and_reported_at_five_sixths() {
        let year = Validity { not_before: Instant(1_000), not_after: Instant(1_000 + 600) };
        assert_eq!((year.renewal(), year.overdue()), (Instant(1_400), Instant(1_500)));
        assert!(!year.has_ended(Instant(1_600)) && year.has_ended(Instant(1_601)));
        // Dates in the wrong order: its life is zero, so it is due at once.
        let odd = Validity { not_before: Instant(5_000), not_after: Instant(1_000) };
        assert_eq!(odd.renewal(), Instant(5_000));
        assert!(odd.has_ended(Instant(5_000)));
    }
}
