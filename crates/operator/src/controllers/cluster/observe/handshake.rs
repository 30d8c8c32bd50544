//! What a member trusts and presents, by a TLS handshake at one of its ports.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use quorate_etcd::{Handshake, Transport, handshake};
use quorate_manifests::certificate::rotation::Shown;
use quorate_manifests::service::{CLIENT_PORT, PEER_PORT};
use quorate_model::Ca;

/// As for a connection: a handshake is computed, not read from a disk.
const DEADLINE: Duration = Duration::from_secs(2);

/// Looks at a port of the Pod with this address.
pub(in super::super) async fn shown(
    transport: &Transport,
    ip: Option<String>,
    ca: Ca,
    name: &str,
) -> Result<Shown, String> {
    let ip = ip.and_then(|ip| ip.parse::<IpAddr>().ok()).ok_or("its Pod has no IP address")?;
    let port = match ca {
        Ca::Clients => CLIENT_PORT,
        Ca::Peers => PEER_PORT,
    };
    let seen = handshake(transport, SocketAddr::new(ip, port), name, DEADLINE).await.map_err(|error| {
        let error = crate::runtime::watch::chain(&error);
        tracing::debug!(error, %ca, "a handshake showed nothing");
        error
    })?;
    let Handshake { leaf, trusted } = seen;
    Ok(Shown { leaf, trusted })
}
