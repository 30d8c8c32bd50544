//! The connections to the members of one cluster, for every controller that talks to etcd. Each is to one Pod at one address with one set of certificates, and is
//! dropped when any of them changes.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use quorate_etcd::{BadEndpoint, Deadlines, Endpoint, MemberClient, TlsConfig, Transport};
use quorate_manifests::certificate;
use quorate_model::snapshot::Pod;
use quorate_model::{ClusterRef, ClusterUid, Leaf, MemberName, Uid};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The port on which members serve clients.
const CLIENT_PORT: u16 = 2379;

/// How many connections the clusters at rest keep, all together. One takes some 85 KiB, so these are a seventh of the 300 MiB that a thousand clusters
/// may take. A handshake takes half a millisecond of a core, and a calm look is due every 30 s (docs/bench.md, "A fleet").
pub const KEPT: usize = 500;

/// The operator's client certificate and the authorities it trusts, as PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The trusted authorities.
    pub ca: Vec<u8>,
    /// The client certificate.
    pub cert: Vec<u8>,
    /// Its key.
    pub key: Vec<u8>,
}

/// How members are connected to.
#[derive(Clone, PartialEq, Eq)]
pub enum ClientTls {
    /// Without TLS.
    Plain,
    /// With TLS.
    Tls(Credentials),
    /// With TLS, but the client certificate does not exist yet.
    NotYet,
}

/// What the operator proves to members with who it is, in a cluster with TLS, as these Secrets have it. Where etcd's auth is on, or wanted, it
/// has a certificate of its own. Until that is signed, that of clients does.
pub fn operator_tls(
    secrets: &[&Secret],
    (at, uid): (&ClusterRef, &ClusterUid),
    has_credential: bool,
) -> ClientTls {
    let kept = [Leaf::of_operator(has_credential), Leaf::Client]
        .into_iter()
        .find_map(|leaf| certificate::kept(leaf, secrets, at, uid));
    kept.map_or(ClientTls::NotYet, |kept| {
        ClientTls::Tls(Credentials { ca: kept.ca.to_vec(), cert: kept.cert.to_vec(), key: kept.key.to_vec() })
    })
}

/// The connections to the members of one cluster.
pub struct MemberClients {
    transport: Transport,
    kept: KeptConnections,
    tls: Option<ClientTls>,
    /// Made of it for the first connection, and shared by all.
    config: Option<TlsConfig>,
    open: BTreeMap<MemberName, Connection>,
}

struct Connection {
    pod: Uid,
    ip: String,
    client: MemberClient,
    kept: Option<OwnedSemaphorePermit>,
}

/// Which connections stay open while their clusters are at rest: the first so many. The others are closed after a look, and made again for the
/// next one.
#[derive(Clone, Debug)]
pub struct KeptConnections(Arc<Semaphore>);

/// Why there is no connection to a member.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Its Pod does not exist or has no address.
    #[error("its Pod has no address")]
    NoAddress,
    /// The Pod's address is no IP address.
    #[error("its Pod has the address {0:?}, which is none")]
    BadAddress(String),
    /// The client certificate does not exist yet.
    #[error("the client certificate is not there yet")]
    NoCertificate,
    /// The certificates cannot be used.
    #[error(transparent)]
    Bad(#[from] BadEndpoint),
}

impl MemberClients {
    /// No connections yet. New ones run over this transport.
    pub fn over(transport: Transport, kept: KeptConnections) -> Self {
        Self { transport, kept, tls: None, config: None, open: BTreeMap::new() }
    }

    /// Connects with this from now on. Connections with anything else are dropped.
    pub fn use_tls(&mut self, tls: ClientTls) {
        if self.tls.as_ref() != Some(&tls) {
            self.open.clear();
            self.config = None;
            self.tls = Some(tls);
        }
    }

    /// Drops the connections to all but these Pods.
    pub fn keep(&mut self, pods: &BTreeMap<MemberName, Pod>) {
        self.open.retain(|member, open| pods.get(member).is_some_and(|pod| open.is_to(pod)));
    }

    /// Nothing is to be done for a while: connections that are not among those that are kept are closed.
    pub fn rest(&mut self) {
        self.open.retain(|_, open| open.kept.is_some());
    }

    /// The open connection to a member, if there is one.
    pub fn open(&self, member: &MemberName) -> Option<MemberClient> {
        self.open.get(member).map(|open| open.client.clone())
    }

    /// The connection to a member: by the Pod's address, verified by the member's name.
    pub fn to(
        &mut self,
        cluster: &ClusterRef,
        member: &MemberName,
        pod: &Pod,
    ) -> Result<MemberClient, ConnectError> {
        let ip = pod.ip.as_ref().ok_or(ConnectError::NoAddress)?;
        self.at_address(cluster, member, &pod.uid, ip)
    }

    /// The same by the uid and the address of its Pod.
    pub fn at_address(
        &mut self,
        cluster: &ClusterRef,
        member: &MemberName,
        pod: &Uid,
        ip: &str,
    ) -> Result<MemberClient, ConnectError> {
        let is_that = |open: &&Connection| open.pod == *pod && open.ip == ip;
        if let Some(open) = self.open.get(member).filter(is_that) {
            return Ok(open.client.clone());
        }
        let parsed: IpAddr = ip.parse().map_err(|_| ConnectError::BadAddress(ip.to_owned()))?;
        let address = SocketAddr::new(parsed, CLIENT_PORT);
        let (transport, deadlines) = (self.transport.clone(), Deadlines::default());
        let client = match &self.tls {
            Some(ClientTls::Plain) => MemberClient::over(transport, &Endpoint::plain(address), deadlines)?,
            Some(ClientTls::Tls(credentials)) => {
                let config = match &self.config {
                    Some(config) => config,
                    None => self.config.insert(credentials.config()?),
                };
                MemberClient::sharing(transport, address, (config, &cluster.dns_name(member)), deadlines)?
            }
            Some(ClientTls::NotYet) | None => return Err(ConnectError::NoCertificate),
        };
        let connection = Connection {
            pod: pod.clone(),
            ip: ip.to_owned(),
            client: client.clone(),
            kept: self.kept.permit(),
        };
        self.open.insert(member.clone(), connection);
        Ok(client)
    }
}

impl KeptConnections {
    /// So many, and none where this is 0: each is closed then as soon as nothing is to be done.
    pub fn new(so_many: usize) -> Self {
        Self(Arc::new(Semaphore::new(so_many)))
    }

    /// Asked for when a connection is made, and not when it is to be closed: what is closed is then the memory that was taken last, and the next
    /// connections take it again.
    fn permit(&self) -> Option<OwnedSemaphorePermit> {
        self.0.clone().try_acquire_owned().ok()
    }
}

impl Connection {
    fn is_to(&self, pod: &Pod) -> bool {
        self.pod == pod.uid && Some(&self.ip) == pod.ip.as_ref()
    }
}

impl Credentials {
    fn config(&self) -> Result<TlsConfig, BadEndpoint> {
        TlsConfig::new(&self.ca, &self.cert, &self.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(kept: &KeptConnections, members: &[&str]) -> MemberClients {
        let mut clients = MemberClients::over(Transport::network(), kept.clone());
        clients.use_tls(ClientTls::Plain);
        connect(&mut clients, members);
        clients
    }

    fn connect(clients: &mut MemberClients, members: &[&str]) {
        for name in members {
            let at = ClusterRef::new("tenants", "etcd");
            let opened = clients.at_address(&at, &MemberName::new(*name), &Uid::new(*name), "10.0.0.1");
            assert!(opened.is_ok());
        }
    }

    #[tokio::test]
    async fn clusters_at_rest_keep_so_many_connections_and_no_more() {
        let kept = KeptConnections::new(4);
        let mut first = opened(&kept, &["a", "b", "c"]);
        let mut second = opened(&kept, &["d", "e", "f"]);
        assert_eq!(
            (first.open.len(), second.open.len()),
            (3, 3),
            "all are open while something is to be done"
        );
        first.rest();
        second.rest();
        assert_eq!((first.open.len(), second.open.len()), (3, 1));
    }

    #[tokio::test]
    async fn a_connection_that_is_dropped_makes_room_for_another_one() {
        let kept = KeptConnections::new(1);
        let mut first = opened(&kept, &["a"]);
        let mut second = opened(&kept, &["b"]);
        first.keep(&BTreeMap::new());
        second.rest();
        assert_eq!(second.open.len(), 0);
        connect(&mut second, &["b"]);
        second.rest();
        assert_eq!(second.open.len(), 1);
    }
}
