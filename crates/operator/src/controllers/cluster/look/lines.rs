//! The connections to the members of one cluster. Each belongs to one Pod at one address under one set of certificates,
//! and is dropped with any of them.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use quorate_etcd::{BadEndpoint, Deadlines, Endpoint, MemberClient, Tls, Transport};
use quorate_model::snapshot::Pod;
use quorate_model::{ClusterRef, MemberName, Uid};

/// The port on which members serve clients.
const CLIENT_PORT: u16 = 2379;

/// What we show members, and what we believe of theirs. All as PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The authorities.
    pub ca: Vec<u8>,
    /// Our certificate.
    pub cert: Vec<u8>,
    /// Its key.
    pub key: Vec<u8>,
}

/// How members are spoken to.
#[derive(Clone, PartialEq, Eq)]
pub enum ClientTls {
    /// Plain http.
    Plain,
    /// TLS with these.
    Tls(Credentials),
    /// TLS, but our certificate is not there yet.
    NotYet,
}

/// The connections to the members of one cluster.
pub struct MemberClients {
    transport: Transport,
    speech: Option<ClientTls>,
    open: BTreeMap<MemberName, Line>,
}

struct Line {
    pod: Uid,
    ip: String,
    client: MemberClient,
}

/// Why a member can not be dialled.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Its Pod is not there or has no address.
    #[error("its Pod has no address")]
    NoAddress,
    /// The address makes no sense.
    #[error("its Pod has the address {0:?}, which is none")]
    BadAddress(String),
    /// There is no client certificate yet.
    #[error("the client certificate is not there yet")]
    NoCertificate,
    /// The certificates do not work.
    #[error(transparent)]
    Bad(#[from] BadEndpoint),
}

impl MemberClients {
    /// None yet; those to come run over this transport.
    pub fn over(transport: Transport) -> Self {
        Self { transport, speech: None, open: BTreeMap::new() }
    }

    /// From now on members are spoken to like this. Whatever was dialled otherwise is dropped.
    pub fn speak(&mut self, speech: ClientTls) {
        if self.speech.as_ref() != Some(&speech) {
            self.open.clear();
            self.speech = Some(speech);
        }
    }

    /// Only these Pods are there still.
    pub fn keep(&mut self, pods: &BTreeMap<MemberName, Pod>) {
        self.open.retain(|member, line| pods.get(member).is_some_and(|pod| line.is_to(pod)));
    }

    /// The connection to a member, if there is one.
    pub fn open(&self, member: &MemberName) -> Option<MemberClient> {
        self.open.get(member).map(|line| line.client.clone())
    }

    /// The connection to a member, dialled by address, verified by name.
    pub fn to(
        &mut self,
        cluster: &ClusterRef,
        member: &MemberName,
        pod: &Pod,
    ) -> Result<MemberClient, ConnectError> {
        let ip = pod.ip.as_ref().ok_or(ConnectError::NoAddress)?;
        if let Some(line) = self.open.get(member).filter(|line| line.is_to(pod)) {
            return Ok(line.client.clone());
        }
        let parsed: IpAddr = ip.parse().map_err(|_| ConnectError::BadAddress(ip.clone()))?;
        let address = SocketAddr::new(parsed, CLIENT_PORT);
        let endpoint = match &self.speech {
            Some(ClientTls::Plain) => Endpoint::plain(address),
            Some(ClientTls::Tls(credentials)) => Endpoint::tls(address, credentials.towards(cluster, member)),
            Some(ClientTls::NotYet) | None => return Err(ConnectError::NoCertificate),
        };
        let client = MemberClient::over(self.transport.clone(), &endpoint, Deadlines::default())?;
        let line = Line { pod: pod.uid.clone(), ip: ip.clone(), client: client.clone() };
        self.open.insert(member.clone(), line);
        Ok(client)
    }
}

impl Line {
    fn is_to(&self, pod: &Pod) -> bool {
        self.pod == pod.uid && Some(&self.ip) == pod.ip.as_ref()
    }
}

impl Credentials {
    fn towards(&self, cluster: &ClusterRef, member: &MemberName) -> Tls {
        let Self { ca, cert, key } = self.clone();
        Tls { server_name: cluster.dns_name(member), ca, cert, key }
    }
}
