//! Where a member is dialled and how.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

/// The client port of one member: an IP address, so that a failing DNS does not hide a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Where to dial.
    pub address: SocketAddr,
    /// TLS; `None` for plain http.
    pub tls: Option<Tls>,
}

/// TLS to a member, all as PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Tls {
    /// The DNS name the member's certificate must be valid for.
    pub server_name: String,
    /// The authorities trusted to sign the member's certificate.
    pub ca: Vec<u8>,
    /// Our own certificate.
    pub cert: Vec<u8>,
    /// Its key.
    pub key: Vec<u8>,
}

/// How long to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// For a connection, handshake included. Shorter than `call`, so that "no connection" differs from "no reply".
    pub connect: Duration,
    /// For one call, connection included.
    pub call: Duration,
}

/// The endpoint cannot be dialled as given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadEndpoint {
    /// The CA bundle contains no certificate.
    #[error("the CA bundle contains no certificate")]
    NoCa,
    /// The certificate, the key or the server name is invalid.
    #[error("invalid certificate, key or server name: {0}")]
    Tls(String),
}

impl Endpoint {
    /// A member that serves plain http.
    pub fn plain(address: SocketAddr) -> Self {
        Self { address, tls: None }
    }

    /// A member that serves TLS.
    pub fn tls(address: SocketAddr, tls: Tls) -> Self {
        Self { address, tls: Some(tls) }
    }
}

impl Default for Deadlines {
    fn default() -> Self {
        Self { connect: Duration::from_secs(1), call: Duration::from_secs(2) }
    }
}

impl fmt::Debug for Tls {
    // Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("server_name", &self.server_name).finish_non_exhaustive()
    }
}
