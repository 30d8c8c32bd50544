//! The kinds of certificates of a cluster, their names and their Secrets.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use quorate_api::cluster::TlsSpec;
use quorate_api::{EtcdCluster, keys};
use quorate_model::auth::is_mark;
use quorate_model::{Ca, ClusterRef, ClusterUid, Leaf};

use crate::{labels, service};

/// Key of a Secret: the certificate.
pub const CERT: &str = "tls.crt";
/// Key of a Secret: its private key.
pub const KEY: &str = "tls.key";
/// Key of a Secret: the trusted authorities.
pub const CA: &str = "ca.crt";

/// The common name of the leaf of peers, and of no other: by it members tell who may write their log. The names that a leaf is valid for
/// do not tell it, as the server's are those of members, too.
pub const PEER_NAME: &str = "quorate-peer";

/// The certificates of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Certificate {
    /// An authority of the cluster's own. Its key is mounted nowhere.
    Authority(Ca),
    /// A leaf that it signs.
    Leaf(Leaf),
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
    /// Every certificate, the authorities first: they sign the others.
    pub const ALL: [Self; 6] = [
        Self::Authority(Ca::Clients),
        Self::Authority(Ca::Peers),
        Self::Leaf(Leaf::Server),
        Self::Leaf(Leaf::Peer),
        Self::Leaf(Leaf::Client),
        Self::Leaf(Leaf::Operator),
    ];

    /// The name of the Secret it is kept in.
    pub fn secret_name(self, at: &ClusterRef) -> String {
        match self {
            Self::Authority(Ca::Clients) => format!("{}-ca", at.name),
            Self::Authority(Ca::Peers) => format!("{}-peer-ca", at.name),
            Self::Leaf(leaf) => format!("{}-{leaf}-tls", at.name),
        }
    }
}

impl From<Ca> for Certificate {
    fn from(ca: Ca) -> Self {
        Self::Authority(ca)
    }
}

impl From<Leaf> for Certificate {
    fn from(leaf: Leaf) -> Self {
        Self::Leaf(leaf)
    }
}

/// Whether a Secret has the name of that of an authority.
pub fn is_of_authority(meta: &ObjectMeta, at: &ClusterRef) -> bool {
    let is = |ca: Ca| meta.name.as_ref() == Some(&Certificate::Authority(ca).secret_name(at));
    Ca::ALL.into_iter().any(is)
}

/// Whether a Secret of such a name is an authority of this cluster, or of an earlier incarnation that may be adopted. It has
/// the label of the cluster, and no controller but this EtcdCluster.
pub fn is_authority_of(meta: &ObjectMeta, at: &ClusterRef, uid: &ClusterUid) -> bool {
    let is_labelled = meta.labels.as_ref().and_then(|labels| labels.get(keys::CLUSTER)) == Some(&at.name);
    let is_controlled = meta.owner_references.iter().flatten().any(|owner| owner.controller == Some(true));
    labels::is_owned_by(meta, uid) || (is_labelled && !is_controlled)
}

/// The incarnation whose authority this is.
pub(crate) fn incarnation_of(meta: &ObjectMeta, uid: &ClusterUid) -> Option<ClusterUid> {
    if labels::is_owned_by(meta, uid) {
        return Some(uid.clone());
    }
    let annotations = meta.annotations.as_ref();
    annotations.and_then(|all| all.get(keys::CLUSTER_UID)).map(ClusterUid::new)
}

/// Whether a leaf has a reserved name that is another one's, or not the one that is its own.
pub(super) fn is_misnamed(name: &str, leaf: Leaf) -> bool {
    (name == PEER_NAME) != (leaf == Leaf::Peer) || (name == ROOT_USER) != (leaf == Leaf::Operator)
}

/// An authority's common name. It is unique, also among those that one cluster has one after another, and among clusters of one name: by it
/// those who verify find it.
pub fn authority_name(ca: Ca, uid: &ClusterUid, generation: u32) -> String {
    let name = match ca {
        Ca::Clients => format!("quorate-ca {uid}"),
        Ca::Peers => format!("quorate-peer-ca {uid}"),
    };
    if generation == 0 { name } else { format!("{name} {generation}") }
}

/// Whether an authority of this common name is one that the operator made, for whichever cluster.
pub(super) fn is_minted(common_name: &str) -> bool {
    common_name.starts_with("quorate-ca ") || common_name.starts_with("quorate-peer-ca ")
}

/// The common name of the client certificate. Where etcd's auth is on it is that of no user.
pub const CLIENT_USER: &str = "quorate-client";

/// The user of etcd's auth that may do everything. The operator, its agents and its Jobs are it, where auth is on: the common name of the
/// operator's certificate.
pub const ROOT_USER: &str = "root";

/// Why nobody may choose this common name for the server, if nobody may: whoever has its key would be somebody else to members, or to etcd's auth. That of an
/// EtcdUser is known by its end, without the EtcdUser.
pub(crate) fn why_refused(name: &str) -> Option<String> {
    let is_of_user = || name.rsplit_once('-').is_some_and(|(_, mark)| is_mark(mark));
    match name {
        PEER_NAME => Some(format!("members know their peers by the common name {PEER_NAME}")),
        ROOT_USER => Some(format!("{ROOT_USER} is the user of etcd's auth that may do everything")),
        CLIENT_USER => Some(format!("{CLIENT_USER} is the user of etcd's auth that applications share")),
        other if is_of_user() => Some(format!(
            "{other} ends as the users of etcd that EtcdUsers have, in eight hexadecimal digits"
        )),
        _ => None,
    }
}

/// Whether etcd's auth is wanted or recorded: a common name is a user of it then.
pub(crate) fn is_with_auth(cluster: &EtcdCluster) -> bool {
    let is_recorded = cluster.status.as_ref().is_some_and(|status| status.auth.is_some());
    is_recorded || cluster.spec.auth.as_ref().is_some_and(|auth| auth.enabled)
}

/// The common name that the spec gives the server, if it may have it.
pub(super) fn given_name(tls: &TlsSpec) -> Option<&str> {
    tls.common_name().filter(|given| !given.is_empty() && why_refused(given).is_none())
}

/// The common name of a leaf. The spec may name that of the server, but none that is somebody else's: `target` refuses it, and a spec that is refused
/// is read here all the same. With etcd's `auth` a common name is a user, and the server is none unless the spec says so.
pub fn common_name(leaf: Leaf, tls: &TlsSpec, auth: bool) -> &str {
    match leaf {
        Leaf::Server => given_name(tls).unwrap_or(if auth { "" } else { "quorate-server" }),
        Leaf::Peer => PEER_NAME,
        Leaf::Client => CLIENT_USER,
        Leaf::Operator => ROOT_USER,
    }
}

/// The organizations of a leaf.
pub fn organizations(leaf: Leaf, tls: &TlsSpec) -> Vec<String> {
    match leaf {
        Leaf::Server => tls.organizations().to_vec(),
        Leaf::Peer | Leaf::Client | Leaf::Operator => Vec::new(),
    }
}

/// The DNS names and IP addresses that a leaf is valid for.
pub fn names(leaf: Leaf, at: &ClusterRef, tls: &TlsSpec) -> Vec<String> {
    match leaf {
        Leaf::Server => server_names(at, tls),
        Leaf::Peer => peer_names(at),
        Leaf::Client | Leaf::Operator => Vec::new(),
    }
}

/// The content of the Secret of a leaf, if the Secret exists, belongs to the cluster, and is complete.
pub fn kept<'a>(leaf: Leaf, secrets: &[&'a Secret], at: &ClusterRef, uid: &ClusterUid) -> Option<Kept<'a>> {
    let name = Certificate::from(leaf).secret_name(at);
    let ours = secrets.iter().filter(|secret| labels::is_owned_by(&secret.metadata, uid));
    kept_in(ours.into_iter().find(|secret| secret.metadata.name.as_ref() == Some(&name))?)
}

/// The content of a Secret, if it is complete.
pub fn kept_in(secret: &Secret) -> Option<Kept<'_>> {
    Some(Kept { ca: entry(secret, CA)?, cert: entry(secret, CERT)?, key: entry(secret, KEY)? })
}

pub(super) fn entry<'a>(secret: &'a Secret, key: &str) -> Option<&'a [u8]> {
    let entry = secret.data.as_ref()?.get(key)?;
    Some(entry.0.as_slice()).filter(|entry| !entry.is_empty())
}

/// The names of members, both Services in every length, the addresses that `kubectl port-forward` uses, and those in the spec.
fn server_names(at: &ClusterRef, tls: &TlsSpec) -> Vec<String> {
    let mut names = member_names(at);
    names.extend(service_names(&at.name, at));
    names.extend(service_names(&service::client_name(at), at));
    names.push("localhost".to_owned());
    names.push(Ipv4Addr::LOCALHOST.to_string());
    names.push(Ipv6Addr::LOCALHOST.to_string());
    if let Some(given) = tls.alt_names() {
        // An address is written as it is read back from the certificate. `target` refuses one that does not parse.
        let addresses = given.ip_addresses.iter().filter_map(|address| address.parse::<IpAddr>().ok());
        names.extend(given.dns_names.iter().cloned().chain(addresses.map(|address| address.to_string())));
    }
    let mut known = BTreeSet::new();
    names.retain(|name| known.insert(name.clone()));
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

/// A certificate and its key, as PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyPair {
    /// The certificate.
    pub cert: String,
    /// Its key.
    pub key: String,
}

impl std::fmt::Debug for KeyPair {
    /// Without the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyPair").field("cert", &self.cert).finish_non_exhaustive()
    }
}
