//! A kube-proxy for TCP: it forwards connections to a Service's ClusterIP to one of its ready endpoints. Each client
//! Service also has a port on 127.0.0.1, for programs outside of Pods; it stays the same across restarts.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use quorate_apistore::fields::{items, name, namespace, text};
use quorate_apistore::{ObjectKey, ResourceKey};
use quorate_localkube::LocalKube;
use serde_json::Value;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

use crate::ledger::Ledger;

/// An address to listen on, with its Service and port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Front {
    address: SocketAddr,
    namespace: String,
    service: String,
    port: u16,
}

/// Serves all Services while this future is polled.
pub(crate) async fn run(kube: LocalKube, ledger: Arc<Ledger>) {
    let mut changed = kube.store().subscribe();
    let mut fronts: HashMap<Front, AbortHandle> = HashMap::new();
    let mut tasks = JoinSet::new();
    loop {
        let wanted = desired_fronts(&kube, &ledger);
        fronts.retain(|front, task| {
            let keep = wanted.contains(front);
            if !keep {
                task.abort();
            }
            keep
        });
        for front in wanted {
            if !fronts.contains_key(&front)
                && let Ok(listener) = TcpListener::bind(front.address).await
            {
                let task = tasks.spawn(serve(kube.clone(), front.clone(), listener));
                fronts.insert(front, task);
            }
        }
        while tasks.try_join_next().is_some() {}
        if changed.changed().await.is_err() {
            return;
        }
    }
}

fn desired_fronts(kube: &LocalKube, ledger: &Ledger) -> BTreeSet<Front> {
    let (services, _) = kube.store().list(&ResourceKey::new("", "services"), None);
    let mut fronts = BTreeSet::new();
    for service in &services {
        let front = |address: SocketAddr, port| Front {
            address,
            namespace: namespace(service).to_owned(),
            service: name(service).to_owned(),
            port,
        };
        let Ok(cluster_ip) = text(service, "/spec/clusterIP").parse::<IpAddr>() else { continue };
        for port in items(service, "/spec/ports") {
            let Some(number) = port["port"].as_u64().and_then(|port| u16::try_from(port).ok()) else {
                continue;
            };
            fronts.insert(front(SocketAddr::new(cluster_ip, number), number));
            if name(service).ends_with("-client") {
                let outside = ledger.client_port(&format!("{}/{}", namespace(service), name(service)));
                fronts.insert(front(SocketAddr::from((Ipv4Addr::LOCALHOST, outside)), number));
            }
        }
    }
    fronts
}

async fn serve(kube: LocalKube, front: Front, listener: TcpListener) {
    let turn = AtomicUsize::new(0);
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let Ok((mut inside, _)) = listener.accept().await else { continue };
        let backends = backends(&kube, &front);
        let first = turn.fetch_add(1, Ordering::Relaxed);
        connections.spawn(async move {
            let _ = inside.set_nodelay(true);
            for step in 0..backends.len() {
                let backend = backends[(first + step) % backends.len()];
                if let Ok(mut outside) = TcpStream::connect(backend).await {
                    let _ = outside.set_nodelay(true);
                    let _ = copy_bidirectional(&mut inside, &mut outside).await;
                    return;
                }
            }
        });
    }
}

/// The ready endpoints of a Service's port.
fn backends(kube: &LocalKube, front: &Front) -> Vec<SocketAddr> {
    let endpoints = ObjectKey::new(ResourceKey::new("", "endpoints"), &*front.namespace, &*front.service);
    let service = ObjectKey::new(ResourceKey::new("", "services"), &*front.namespace, &*front.service);
    let (Some(endpoints), Some(service)) = (kube.store().get(&endpoints), kube.store().get(&service)) else {
        return Vec::new();
    };
    let port = items(&service, "/spec/ports").iter().find(|port| port["port"] == front.port);
    let Some(wanted) = port else { return Vec::new() };
    let matches = |port: &&Value| {
        text(port, "/name") == text(wanted, "/name")
            || (text(wanted, "/name").is_empty() && port["port"] == wanted["targetPort"])
    };
    let of_subset = |subset: &Value| -> Vec<SocketAddr> {
        let port = items(subset, "/ports").iter().find(matches).and_then(|port| port["port"].as_u64());
        let Some(port) = port.and_then(|port| u16::try_from(port).ok()) else { return Vec::new() };
        let addresses =
            items(subset, "/addresses").iter().filter_map(|address| text(address, "/ip").parse().ok());
        addresses.map(|ip: IpAddr| SocketAddr::new(ip, port)).collect()
    };
    items(&endpoints, "/subsets").iter().flat_map(of_subset).collect()
}
