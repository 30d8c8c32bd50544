//! Which EtcdCluster a backup of `source.endpoints` is really of, as far as its certificate and its URLs tell; and whose volume its
//! destination is.

use kube_core::ResourceExt as _;
use quorate_api::backup::Endpoints;
use quorate_api::cluster::TlsSpec;
use quorate_api::{EtcdBackup, EtcdCluster, EtcdUser};
use quorate_manifests::cluster_ref;
use quorate_manifests::{credentials, service};
use quorate_model::{ClusterRef, MemberName};

/// The EtcdCluster that the endpoints of a backup belong to and that does not allow its destination.
pub fn refusing<'a>(
    backup: &EtcdBackup,
    clusters: impl IntoIterator<Item = &'a EtcdCluster>,
    users: impl IntoIterator<Item = &'a EtcdUser>,
) -> Option<&'a EtcdCluster> {
    let endpoints = backup.spec.source.endpoints.as_ref()?;
    let namespace = backup.namespace().unwrap_or_default();
    let users: Vec<&EtcdUser> = users.into_iter().collect();
    clusters.into_iter().find(|cluster| {
        let policy = cluster.spec.backup.as_ref();
        policy.is_some_and(|policy| !policy.allows(&backup.spec.destination))
            && is_of(
                endpoints,
                &namespace,
                &cluster_ref(cluster),
                Some(&cluster.spec.tls),
                users.iter().copied(),
            )
    })
}

/// Whether a backup is of this EtcdCluster, also one of endpoints that belong to it.
pub(super) fn is_taken_of<'a>(
    backup: &EtcdBackup,
    at: &ClusterRef,
    users: impl IntoIterator<Item = &'a EtcdUser>,
) -> bool {
    let namespace = backup.namespace().unwrap_or_default();
    let is_named = backup.spec.source.cluster.as_ref().is_some_and(|name| *name == at.name);
    let endpoints = backup.spec.source.endpoints.as_ref();
    (is_named && namespace == at.namespace)
        || endpoints.is_some_and(|endpoints| is_of(endpoints, &namespace, at, None, users))
}

/// The EtcdCluster of whose members the destination of a backup is a volume. A Job that mounted it would be the second writer of a member's
/// volume, and the kubelet would give its files to another group.
pub fn owner_of_claim<'a>(
    backup: &EtcdBackup,
    clusters: impl IntoIterator<Item = &'a EtcdCluster>,
) -> Option<&'a EtcdCluster> {
    let claim = MemberName::new(&*backup.spec.destination.pvc.as_ref()?.claim_name);
    let namespace = backup.namespace().unwrap_or_default();
    clusters.into_iter().find(|cluster| {
        let at = cluster_ref(cluster);
        at.namespace == namespace && at.ordinal(&claim).is_some()
    })
}

/// Whether the certificate is one that its members let in, or a URL leads to them.
fn is_of<'a>(
    endpoints: &Endpoints,
    namespace: &str,
    at: &ClusterRef,
    tls: Option<&TlsSpec>,
    users: impl IntoIterator<Item = &'a EtcdUser>,
) -> bool {
    let has_certificate = endpoints.tls_secret.as_ref().is_some_and(|secret| {
        at.namespace == namespace && credentials::secrets(at, tls, users).contains(&secret.name)
    });
    has_certificate || endpoints.urls.iter().any(|url| is_at(host(url), namespace, at))
}

/// The host of a client URL.
fn host(url: &str) -> &str {
    let authority = url.split_once("://").map_or(url, |(_, authority)| authority);
    authority.split(['/', ':']).next().unwrap_or_default()
}

/// Whether a host is a Service of a cluster or a Pod behind one, in any of the lengths that a Pod of this namespace can use.
fn is_at(host: &str, namespace: &str, at: &ClusterRef) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let labels: Vec<&str> = host.split('.').collect();
    let services = [at.name.clone(), service::client_name(at)];
    (0..labels.len().min(2)).any(|first| {
        let is_service = services.iter().any(|service| *service == labels[first]);
        let within = labels.get(first + 1).copied();
        let rest = labels.get(first + 2).copied();
        is_service
            && match within {
                None => at.namespace == namespace,
                Some(within) => within == at.namespace && matches!(rest, None | Some("svc")),
            }
    })
}
