//! Certificates: their kinds, the names they are valid for, and their Secrets. Keys are generated elsewhere.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use quorate_api::EtcdCluster;
use quorate_model::{ClusterRef, ClusterUid};

use crate::kind::Kind;
use crate::request::{Act, Write};
use crate::{labels, service};

/// Key of a Secret: the certificate.
pub const CERT: &str = "tls.crt";
/// Key of a Secret: its private key.
pub const KEY: &str = "tls.key";
/// Key of a Secret: the trusted authorities.
pub const CA: &str = "ca.crt";

/// The certificates of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Certificate {
    /// The cluster's own authority. Its key is mounted nowhere.
    Authority,
    /// Presented to clients; by etcd's gateway also to etcd itself.
    Server,
    /// Presented by members to each other.
    Peer,
    /// Presented by clients: the operator, the probe, etcdctl.
    Client,
}

/// The content of a leaf certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// Its common name.
    pub common_name: String,
    /// The DNS names and IP addresses it is valid for.
    pub names: Vec<String>,
    /// It is valid for a server.
    pub server: bool,
    /// It is valid for a client.
    pub client: bool,
}

/// A certificate and its key, as PEM.
#[derive(Clone, Copy, Debug)]
pub struct Pair<'a> {
    /// The certificate.
    pub cert: &'a str,
    /// Its private key.
    pub key: &'a str,
}

/// The content of a Secret of the cluster, as PEM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept<'a> {
    /// The trusted authorities.
    pub ca: &'a [u8],
    /// The certificate.
    pub cert: &'a [u8],
    /// Its private key.
    pub key: &'a [u8],
}

impl Certificate {
    /// Every certificate, the authority first: it signs the others.
    pub const ALL: [Self; 4] = [Self::Authority, Self::Server, Self::Peer, Self::Client];

    /// The name of the Secret it is kept in.
    pub fn secret_name(self, at: &ClusterRef) -> String {
        let suffix = match self {
            Self::Authority => "ca",
            Self::Server => "server-tls",
            Self::Peer => "peer-tls",
            Self::Client => "client-tls",
        };
        format!("{}-{suffix}", at.name)
    }

    /// The content of the leaf; `None` for the authority.
    pub fn leaf(self, at: &ClusterRef) -> Option<Leaf> {
        let leaf = |common_name: &str, names, server, client| {
            Some(Leaf { common_name: common_name.to_owned(), names, server, client })
        };
        match self {
            Self::Authority => None,
            Self::Server => leaf("quorate-server", server_names(at), true, true),
            Self::Peer => leaf("quorate-peer", peer_names(at), true, true),
            Self::Client => leaf("quorate-client", Vec::new(), false, true),
        }
    }
}

/// The authority's common name. It is unique, also among clusters of one name that exist one after another.
pub fn authority_name(uid: &ClusterUid) -> String {
    format!("quorate-ca {uid}")
}

/// The certificates that do not exist, the authority first. A Secret of that name that this EtcdCluster does not own
/// counts as missing: its creation is then refused, which is reported.
pub fn missing(secrets: &[&Secret], at: &ClusterRef, uid: &ClusterUid) -> Vec<Certificate> {
    Certificate::ALL
        .into_iter()
        .filter(|certificate| kept(*certificate, secrets, at, uid).is_none())
        .collect()
}

/// The content of the Secret of a certificate, if the Secret exists, belongs to the cluster, and is complete.
pub fn kept<'a>(
    certificate: Certificate,
    secrets: &[&'a Secret],
    at: &ClusterRef,
    uid: &ClusterUid,
) -> Option<Kept<'a>> {
    let name = certificate.secret_name(at);
    let ours = secrets.iter().filter(|secret| labels::is_owned_by(&secret.metadata, uid));
    kept_in(ours.into_iter().find(|secret| secret.metadata.name.as_ref() == Some(&name))?)
}

/// The content of a Secret, if it is complete.
pub fn kept_in(secret: &Secret) -> Option<Kept<'_>> {
    let data = secret.data.as_ref()?;
    let entry = |key: &str| data.get(key).map(|entry| entry.0.as_slice()).filter(|entry| !entry.is_empty());
    Some(Kept { ca: entry(CA)?, cert: entry(CERT)?, key: entry(KEY)? })
}

/// The creation of the Secret of a certificate. `ca` is the certificate of the trusted authority.
pub fn secret(
    cluster: &EtcdCluster,
    at: &ClusterRef,
    certificate: Certificate,
    ca: &str,
    pair: Pair<'_>,
) -> Write {
    let entries = [(CA, ca), (CERT, pair.cert), (KEY, pair.key)];
    let entries = entries.map(|(key, pem)| (key.to_owned(), ByteString(pem.as_bytes().to_vec())));
    let name = certificate.secret_name(at);
    let secret = Secret {
        metadata: labels::owned(cluster, at, name.clone()),
        type_: Some("kubernetes.io/tls".to_owned()),
        data: Some(BTreeMap::from(entries)),
        ..Secret::default()
    };
    let object = serde_json::to_value(secret).expect("a Secret is plain data");
    Write { kind: Kind::Secret, namespace: at.namespace.clone(), name, act: Act::Create(object) }
}

/// The names of members, both Services in every length, and the addresses that `kubectl port-forward` uses.
fn server_names(at: &ClusterRef) -> Vec<String> {
    let mut names = member_names(at);
    names.extend(service_names(&at.name, at));
    names.extend(service_names(&service::client_name(at), at));
    names.push("localhost".to_owned());
    names.push(Ipv4Addr::LOCALHOST.to_string());
    names.push(Ipv6Addr::LOCALHOST.to_string());
    names
}

/// A member checks that a peer's address belongs to its certificate: it looks up the names in it, then the name of the
/// address, which Kubernetes gives in full. The Service's own name resolves to every member in every
/// cluster domain.
fn peer_names(at: &ClusterRef) -> Vec<String> {
    let mut names = member_names(at);
    names.extend(service_names(&at.name, at));
    names
}

fn member_names(at: &ClusterRef) -> Vec<String> {
    let service = format!("*.{}.{}.svc", at.name, at.namespace);
    vec![format!("{service}.cluster.local"), service]
}

fn service_names(service: &str, at: &ClusterRef) -> Vec<String> {
    let namespaced = format!("{service}.{}", at.namespace);
    vec![
        service.to_owned(),
        namespaced.clone(),
        format!("{namespaced}.svc"),
        format!("{namespaced}.svc.cluster.local"),
    ]
}
