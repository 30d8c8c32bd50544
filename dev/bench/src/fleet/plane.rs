//! A kube-apiserver and its etcd on loopback. Nothing else of Kubernetes: what nodes, the scheduler and the controllers do for the members
//! of a cluster, the process of the benchmark does.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use quorate_api::EtcdCluster;
use serde_json::json;

use super::process::Process;
use crate::wait::until;

const PATIENCE: Duration = Duration::from_secs(120);

/// What the API server knows the operator as: a service account, for which it limits requests as in production.
const OPERATOR: &str = "operator,system:serviceaccount:quorate-system:quorate,operator,\"system:serviceaccounts,system:serviceaccounts:quorate-system\"";

/// What sets up the fleet and plays its nodes. The API server does not limit it.
const NODES: &str = "nodes,nodes,nodes,\"system:masters\"";

/// The control plane. Its programs end with it.
pub struct Plane {
    dir: PathBuf,
    client: Client,
    apiserver: Process,
    etcd: Process,
}

impl Plane {
    /// Starts it with its data in `dir`.
    pub async fn start(dir: &Path) -> Result<Self> {
        let tools = PathBuf::from(
            std::env::var_os("QUORATE_ETCD_BIN_DIR").context("run this through `cargo xtask bench`")?,
        );
        let [client, peer, secure] = [free_port()?, free_port()?, free_port()?];
        let [client, peer] = [client, peer].map(|port| format!("http://127.0.0.1:{port}"));
        let path = |name: &str| dir.join(name).display().to_string();
        let args = [
            "--name=kube".to_owned(),
            format!("--data-dir={}", path("etcd")),
            // Nothing of it is needed after the measurement.
            "--unsafe-no-fsync".to_owned(),
            "--quota-backend-bytes=8589934592".to_owned(),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=kube={peer}"),
            "--log-level=warn".to_owned(),
        ];
        let etcd = Process::start("etcd", &tools.join("etcd-3.6"), &args, dir)?;
        fs::write(dir.join("tokens.csv"), format!("{OPERATOR}\n{NODES}\n"))?;
        let key = path("accounts.key");
        let made = Command::new("openssl")
            .args(["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", &key])
            .output()
            .context("cannot run openssl")?;
        ensure!(made.status.success(), "openssl: {}", String::from_utf8_lossy(&made.stderr));
        let args = [
            format!("--etcd-servers={client}"),
            "--bind-address=127.0.0.1".to_owned(),
            "--advertise-address=127.0.0.1".to_owned(),
            format!("--secure-port={secure}"),
            format!("--cert-dir={}", path("certificates")),
            "--service-cluster-ip-range=10.96.0.0/12".to_owned(),
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local".to_owned(),
            format!("--service-account-key-file={key}"),
            format!("--service-account-signing-key-file={key}"),
            format!("--token-auth-file={}", path("tokens.csv")),
            "--authorization-mode=AlwaysAllow".to_owned(),
            // There is no controller that makes the account `default` of a namespace.
            "--disable-admission-plugins=ServiceAccount".to_owned(),
            "--endpoint-reconciler-type=none".to_owned(),
        ];
        let apiserver = Process::start("kube-apiserver", &tools.join("kube-apiserver"), &args, dir)?;
        let url = format!("https://127.0.0.1:{secure}");
        fs::write(dir.join("nodes.kubeconfig"), kubeconfig(&url, "nodes"))?;
        fs::write(dir.join("operator.kubeconfig"), kubeconfig(&url, "operator"))?;
        let kubeconfig = Kubeconfig::read_from(dir.join("nodes.kubeconfig"))?;
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        config.proxy_url = None;
        let client = Client::try_from(config)?;
        let mut plane = Self { dir: dir.to_owned(), client, apiserver, etcd };
        plane.ready().await?;
        plane.define().await?;
        Ok(plane)
    }

    /// A client that may do everything.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The operator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.dir.join("operator.kubeconfig")
    }

    /// The folder of all logs.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Fails if one of its programs has ended.
    pub fn check(&mut self) -> Result<()> {
        self.etcd.check()?;
        self.apiserver.check()
    }

    /// The requests that changed something, by the API server's own count, without those for leases.
    pub async fn writes(&self) -> Result<f64> {
        let request = http::Request::get("/metrics").body(Vec::new())?;
        let text = self.client.request_text(request).await?;
        let is_write = |line: &&str| {
            line.starts_with("apiserver_request_total{")
                && ["POST", "PUT", "PATCH", "DELETE"]
                    .iter()
                    .any(|verb| line.contains(&format!("verb=\"{verb}\"")))
                && !line.contains("resource=\"leases\"")
        };
        let value = |line: &str| line.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok());
        Ok(text.lines().filter(is_write).filter_map(value).sum())
    }

    /// Kills the API server and starts it again, on the same port. Returns when it is ready.
    pub async fn restart(&mut self) -> Result<()> {
        self.apiserver.restart().await?;
        self.ready().await
    }

    /// Ends it.
    pub async fn stop(self) -> Result<()> {
        self.apiserver.stop().await?;
        self.etcd.stop().await
    }

    async fn ready(&mut self) -> Result<()> {
        let start = std::time::Instant::now();
        loop {
            self.check()?;
            let request = http::Request::get("/readyz").body(Vec::new())?;
            match self.client.request_text(request).await {
                Ok(_) => return Ok(()),
                Err(error) if start.elapsed() > PATIENCE => {
                    anyhow::bail!("the API server is not ready: {error}\n{}", self.apiserver.last_lines())
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
            }
        }
    }

    /// The kinds of the operator.
    async fn define(&self) -> Result<()> {
        let definitions: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        for definition in quorate_api::crds() {
            definitions.create(&PostParams::default(), &definition).await?;
        }
        until("the kinds are served", PATIENCE, async || {
            let clusters: Api<EtcdCluster> = Api::all(self.client.clone());
            let users: Api<quorate_api::EtcdUser> = Api::all(self.client.clone());
            clusters.list(&ListParams::default().limit(1)).await?;
            users.list(&ListParams::default().limit(1)).await?;
            Ok(None)
        })
        .await
    }
}

/// The server's certificate is self-signed, and nobody else has this port.
fn kubeconfig(url: &str, user: &str) -> String {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "fleet",
        "clusters": [{"name": "fleet", "cluster": {"server": url, "insecure-skip-tls-verify": true}}],
        "users": [{"name": user, "user": {"token": user}}],
        "contexts": [{"name": "fleet", "context": {"cluster": "fleet", "user": user, "namespace": "default"}}],
    })
    .to_string()
}

/// A port that is free now.
pub fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}
