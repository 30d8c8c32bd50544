//! Where the endpoints of a cluster are: the part of a client that is its list of endpoints and DNS.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::StreamExt;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::ResourceExt;
use kube::api::Api;
use kube::runtime::{WatchStreamExt, reflector, watcher};
use quorate_etcd::Tls;
use tokio::sync::watch;

use crate::{NamespaceClient, is_ready};

const PORT: u16 = 2379;

/// A member whose Pod is gone stays in the list this long, as in the list of a client that nobody edited yet.
const REMEMBERED: Duration = Duration::from_secs(15);

/// Something to connect to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Endpoint {
    /// A member, by its name.
    Member(String),
    /// The client Service. Each number is a connection of its own.
    Service(usize),
}

/// The endpoints of one cluster and how to dial them.
pub(super) struct Directory {
    namespace_client: NamespaceClient,
    cluster: String,
    /// As first read; later only its certificate and key are replaced, because a kube-apiserver reads its authority once.
    tls: Option<Mutex<Tls>>,
    members: watch::Sender<Vec<String>>,
    known: Mutex<BTreeMap<Endpoint, SocketAddr>>,
}

impl Directory {
    /// Reads the client certificate of the cluster.
    pub(super) async fn new(namespace_client: &NamespaceClient, cluster: &str) -> Result<Self> {
        let tls = namespace_client.tls(cluster).await?.map(Mutex::new);
        Ok(Self {
            namespace_client: namespace_client.clone(),
            cluster: cluster.to_owned(),
            tls,
            members: watch::Sender::new(Vec::new()),
            known: Mutex::default(),
        })
    }

    /// The members, sorted by name. A member is in it once it was ready.
    pub(super) fn members(&self) -> watch::Receiver<Vec<String>> {
        self.members.subscribe()
    }

    /// Keeps the members up to date while it is polled.
    pub(super) async fn run(&self) {
        let of = watcher::Config::default().labels(&format!("operator.etcd.io/cluster={}", self.cluster));
        let (pods, writer) = reflector::store();
        let events = reflector(writer, watcher(self.namespace_client.pods(), of).default_backoff());
        let mut events = std::pin::pin!(events);
        let mut seen: BTreeMap<String, Instant> = BTreeMap::new();
        let mut tick = tokio::time::interval(Duration::from_secs(1));
        loop {
            tokio::select! {
                // An error is repeated by the watcher after a while.
                _ = events.next() => {}
                _ = tick.tick() => {}
            }
            for pod in pods.state() {
                let name = pod.name_any();
                if let Some(address) = address_of(&pod) {
                    self.remember(Endpoint::Member(name.clone()), address);
                }
                if is_ready(&pod) || seen.contains_key(&name) {
                    seen.insert(name, Instant::now());
                }
            }
            seen.retain(|_, last| last.elapsed() < REMEMBERED);
            self.members.send_if_modified(|members| {
                let changed = !members.iter().eq(seen.keys());
                *members = seen.keys().cloned().collect();
                changed
            });
        }
    }

    /// The address of an endpoint; the last known one while the API server does not answer.
    pub(super) async fn address(&self, endpoint: &Endpoint) -> Result<SocketAddr> {
        if matches!(endpoint, Endpoint::Service(_))
            && let Ok(address) = self.service().await
        {
            self.remember(endpoint.clone(), address);
        }
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(endpoint).copied().context("its address is not known yet")
    }

    /// The TLS to dial an endpoint with. The last one while the API server does not answer.
    pub(super) async fn tls(&self, endpoint: &Endpoint) -> Option<Tls> {
        let known = self.tls.as_ref()?;
        let (cluster, namespace) = (&self.cluster, self.namespace_client.client.default_namespace());
        let server_name = match endpoint {
            Endpoint::Member(name) => format!("{name}.{cluster}.{namespace}.svc"),
            Endpoint::Service(_) => format!("{cluster}-client.{namespace}.svc"),
        };
        let now = self.namespace_client.tls(cluster).await;
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(Some(Tls { cert, key, .. })) = now {
            *known = Tls { cert, key, ..known.clone() };
        }
        Some(Tls { server_name, ..known.clone() })
    }

    async fn service(&self) -> Result<SocketAddr> {
        let services: Api<Service> = Api::default_namespaced(self.namespace_client.client.clone());
        let service = services.get(&format!("{}-client", self.cluster)).await?;
        let ip = service.spec.and_then(|spec| spec.cluster_ip).context("no ClusterIP")?;
        Ok(SocketAddr::new(ip.parse()?, PORT))
    }

    fn remember(&self, endpoint: Endpoint, address: SocketAddr) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(endpoint, address);
    }
}

/// The client address of a Pod.
pub(super) fn address_of(pod: &Pod) -> Option<SocketAddr> {
    let ip: IpAddr = pod.status.as_ref()?.pod_ip.as_ref()?.parse().ok()?;
    Some(SocketAddr::new(ip, PORT))
}
