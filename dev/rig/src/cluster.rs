//! The cluster through its API, and waiting for it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, ListParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, ResourceExt};

const PACE: Duration = Duration::from_millis(50);

/// How long one request may take.
const REPLY: Duration = Duration::from_secs(2);

/// A client by this kubeconfig, whatever proxy the environment names: everything is on this machine.
pub async fn client(kubeconfig: &Path) -> Result<Client> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).context("there is no cluster")?;
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.proxy_url = None;
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

/// Asks until it is true. An error of `alive` ends the wait.
pub async fn until(
    what: &str,
    limit: Duration,
    mut so: impl AsyncFnMut() -> bool,
    alive: impl Fn() -> Result<()>,
) -> Result<()> {
    let start = Instant::now();
    loop {
        if so().await {
            return Ok(());
        }
        alive()?;
        ensure!(start.elapsed() < limit, "{what}: not after {} s", limit.as_secs());
        tokio::time::sleep(PACE).await;
    }
}

/// Whether the API server reports that it is ready.
pub async fn is_ready(client: &Client) -> bool {
    let Ok(request) = http::Request::get("/readyz").body(Vec::new()) else { return false };
    let reply = tokio::time::timeout(REPLY, client.request_text(request)).await;
    reply.is_ok_and(|reply| reply.is_ok_and(|text| text == "ok"))
}

/// The nodes: name, whether Ready, zone.
pub async fn nodes(client: &Client) -> Result<Vec<(String, bool, String)>> {
    let api: Api<Node> = Api::all(client.clone());
    let all = ListParams::default();
    let list = tokio::time::timeout(REPLY, api.list(&all)).await;
    let list = list.context("the API server does not answer")?.context("cannot list the nodes")?;
    let shown = |node: &Node| {
        let zone = node.labels().get("topology.kubernetes.io/zone").cloned().unwrap_or_default();
        (node.name_any(), is_node_ready(node), zone)
    };
    Ok(list.iter().map(shown).collect())
}

fn is_node_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|all| all.iter().any(|one| one.type_ == "Ready" && one.status == "True"))
}

/// Whether something listens there.
pub fn listens(address: SocketAddr) -> bool {
    TcpStream::connect_timeout(&address, REPLY).is_ok()
}

/// Whether something listens on this socket.
pub fn listens_at(socket: &str) -> bool {
    UnixStream::connect(socket).is_ok()
}

/// Whether a plain HTTP server answers with 200.
pub fn answers(address: SocketAddr, path: &str) -> bool {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&address, REPLY)?;
        stream.set_read_timeout(Some(REPLY))?;
        write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n")?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply)?;
        Ok(reply)
    };
    ask().is_ok_and(|reply| reply.split(' ').nth(1) == Some("200"))
}
