//! The API behind plain HTTP, for kubectl.

use std::net::SocketAddr;
use std::sync::Arc;

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use jiff::Timestamp;
use quorate_localkube::LocalKube;
use tokio::net::TcpListener;

/// A cluster with running controllers, served until the runtime ends.
pub async fn serve(at: SocketAddr) -> (LocalKube, SocketAddr) {
    let kube = cluster();
    let listener = TcpListener::bind(at).await.unwrap();
    let bound = listener.local_addr().unwrap();
    let service = kube.service();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = TowerToHyperService::new(service.clone());
            tokio::spawn(async move {
                let io = TokioIo::new(stream);
                // A client that disconnects ends only its own connection.
                let _ = Builder::new(TokioExecutor::new()).serve_connection(io, service).await;
            });
        }
    });
    (kube, bound)
}

/// A cluster with running controllers.
pub fn cluster() -> LocalKube {
    let kube = LocalKube::new(Arc::new(now));
    quorate_apistore::cluster_defaults::create(kube.store(), "/volumes").unwrap();
    let controlled = kube.clone();
    tokio::spawn(async move { controlled.run_controllers().await });
    kube
}

#[expect(clippy::disallowed_methods, reason = "kubectl shows ages, so this clock is the machine's")]
fn now() -> Timestamp {
    Timestamp::now()
}
