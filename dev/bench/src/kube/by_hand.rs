//! The baseline: three Pods, their volumes and a headless Service with a static bootstrap, as a person who knows etcd writes
//! them. Image, volumes, placement and security context are those of the operator's Pods. There is no guard and no probe, and
//! the kubelet reads etcd's own readiness.

use std::fs;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::TryStreamExt;
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret, Service};
use kube::api::{Api, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use quorate_api::cluster::DEFAULT_IMAGE_REGISTRY;
use quorate_etcd::testkit::Pki;
use quorate_etcd::{Deadlines, Endpoint, MemberClient, Tls};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::super::clusters::VOLUME;
use super::super::pods;
use super::PATIENCE;
use super::namespace::Namespace;

/// The name of the Service, and the label of the Pods.
const NAME: &str = "etcd";
pub const LABELS: &str = "app=etcd";

/// The delay between two tries to reach a member.
const PACE: Duration = Duration::from_millis(20);

/// User and group, as of the operator's Pods.
const USER: u32 = 10001;

/// How the objects are posted, and when the members count as ready.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// One after the other, like kubectl; ready when the kubelet says so, which asks etcd.
    InTurn,
    /// All at once and without a readiness probe; ready when each answers as a voter that knows the leader.
    AtOnce,
}

/// From the first request to three members that are ready.
pub async fn create(namespace: &Namespace<'_>, version: &str, tls: bool, manner: Manner) -> Result<Duration> {
    let certificates = if tls { Some(certificates(namespace.name())?) } else { None };
    if let Some(certificates) = &certificates {
        create_one::<Secret>(namespace, certificates.clone()).await?;
    }
    let volumes = (0..3).map(|n| create_one::<PersistentVolumeClaim>(namespace, volume(n)));
    let pods = (0..3).map(|n| create_one::<Pod>(namespace, pod(n, namespace.name(), version, tls, manner)));
    let start = Instant::now();
    let client = namespace.client();
    let ready = async {
        match manner {
            Manner::InTurn => {
                create_one::<Service>(namespace, service()).await?;
                for request in volumes {
                    request.await?;
                }
                for request in pods {
                    request.await?;
                }
                pods::ready(&client, LABELS, 3).await
            }
            Manner::AtOnce => {
                let service = create_one::<Service>(namespace, service());
                tokio::try_join!(service, try_join_all(volumes), try_join_all(pods))?;
                try_join_all((0..3).map(|n| answers(namespace, n, certificates.as_ref()))).await.map(drop)
            }
        }
    };
    if let Ok(ready) = tokio::time::timeout(PATIENCE, ready).await {
        return ready.map(|()| start.elapsed());
    }
    let pods = pods::described(&client, LABELS).await?;
    bail!("the Pods written by hand are not ready after {PATIENCE:?}: {}", pods.join(", "))
}

/// Creates a Pod again that was deleted.
pub async fn create_pod(namespace: &Namespace<'_>, n: usize, version: &str, tls: bool) -> Result<()> {
    create_one::<Pod>(namespace, pod(n, namespace.name(), version, tls, Manner::InTurn)).await
}

/// Waits until the member answers as a voter that knows the leader.
async fn answers(namespace: &Namespace<'_>, n: usize, certificates: Option<&Value>) -> Result<()> {
    let pods: Api<Pod> = Api::default_namespaced(namespace.client());
    let config = watcher::Config::default().fields(&format!("metadata.name={}", member(n)));
    let mut seen = pin!(watcher(pods, config).applied_objects());
    let address = loop {
        let pod = seen.try_next().await?.context("the watch of a Pod ended")?;
        let ip = pod.status.and_then(|status| status.pod_ip).filter(|ip| !ip.is_empty());
        if let Some(ip) = ip {
            break SocketAddr::new(ip.parse()?, 2379);
        }
    };
    let endpoint = match certificates {
        Some(secret) => {
            let part = |key: &str| secret["stringData"][key].as_str().unwrap_or_default().as_bytes().to_vec();
            let server_name = format!("{}.{NAME}.{}.svc", member(n), namespace.name());
            Endpoint::tls(
                address,
                Tls { server_name, ca: part("ca.crt"), cert: part("tls.crt"), key: part("tls.key") },
            )
        }
        None => Endpoint::plain(address),
    };
    let deadlines = Deadlines { connect: Duration::from_millis(200), call: Duration::from_millis(500) };
    loop {
        let status = MemberClient::new(&endpoint, deadlines)?.status().await;
        if status.is_ok_and(|status| status.leader.is_some() && !status.is_learner) {
            return Ok(());
        }
        tokio::time::sleep(PACE).await;
    }
}

async fn create_one<K>(namespace: &Namespace<'_>, object: Value) -> Result<()>
where
    K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    K: Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    let api: Api<K> = Api::default_namespaced(namespace.client());
    let created = api.create(&PostParams::default(), &serde_json::from_value(object)?).await;
    created.with_context(|| format!("cannot create a {}", K::kind(&())))?;
    Ok(())
}

/// One certificate for all three: for the name of each, and for that of the Service, which resolves to all of them.
fn certificates(namespace: &str) -> Result<Value> {
    let dir = tempfile::Builder::new().prefix("quorate-bench-").tempdir()?;
    let pki = Pki::new(dir.path());
    let service = format!("{NAME}.{namespace}.svc");
    let leaf = pki.leaf(NAME, &[&format!("*.{service}"), &service, &format!("{service}.cluster.local")]);
    let (ca, cert, key) = (pki.ca_file(), leaf.cert, leaf.key);
    let read = |file| fs::read_to_string(file).context("a file written before");
    Ok(json!({
        "metadata": {"name": "tls"},
        "stringData": {"ca.crt": read(ca)?, "tls.crt": read(cert)?, "tls.key": read(key)?},
    }))
}

fn service() -> Value {
    json!({
        "metadata": {"name": NAME},
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": true,
            "selector": {"app": "etcd"},
            "ports": [{"name": "client", "port": 2379}, {"name": "peer", "port": 2380}],
        },
    })
}

fn volume(n: usize) -> Value {
    json!({
        "metadata": {"name": member(n)},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": VOLUME}}},
    })
}

fn pod(n: usize, namespace: &str, version: &str, tls: bool, manner: Manner) -> Value {
    let mut volumes = vec![json!({"name": "data", "persistentVolumeClaim": {"claimName": member(n)}})];
    let mut mounts = vec![json!({"name": "data", "mountPath": "/var/lib/etcd"})];
    if tls {
        volumes.push(json!({"name": "tls", "secret": {"secretName": "tls", "defaultMode": 0o440}}));
        mounts.push(json!({"name": "tls", "mountPath": "/tls", "readOnly": true}));
    }
    json!({
        "metadata": {"name": member(n), "labels": {"app": "etcd"}},
        "spec": {
            "hostname": member(n),
            "subdomain": NAME,
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": USER, "runAsGroup": USER, "fsGroup": USER,
                "fsGroupChangePolicy": "OnRootMismatch", "seccompProfile": {"type": "RuntimeDefault"},
            },
            "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{
                "weight": 100,
                "podAffinityTerm": {
                    "topologyKey": "kubernetes.io/hostname",
                    "labelSelector": {"matchLabels": {"app": "etcd"}},
                },
            }]}},
            "containers": [{
                "name": "etcd",
                "image": format!("{DEFAULT_IMAGE_REGISTRY}:v{version}"),
                "command": ["/usr/local/bin/etcd"],
                "args": args(n, namespace, tls),
                "securityContext": {
                    "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                    "capabilities": {"drop": ["ALL"]},
                },
                "readinessProbe": match manner {
                    // The shortest period there is.
                    Manner::InTurn => json!({
                        "httpGet": {"path": "/readyz", "port": 2381}, "periodSeconds": 1, "timeoutSeconds": 2,
                    }),
                    Manner::AtOnce => Value::Null,
                },
                "volumeMounts": mounts,
            }],
            "volumes": volumes,
        },
    })
}

fn args(n: usize, namespace: &str, tls: bool) -> Vec<String> {
    let scheme = if tls { "https" } else { "http" };
    let url = |n, port| format!("{scheme}://{}.{NAME}.{namespace}.svc:{port}", member(n));
    let all: Vec<String> = (0..3).map(|n| format!("{}={}", member(n), url(n, 2380))).collect();
    let mut args = vec![
        format!("--name={}", member(n)),
        "--data-dir=/var/lib/etcd/data".to_owned(),
        format!("--listen-peer-urls={scheme}://0.0.0.0:2380"),
        format!("--listen-client-urls={scheme}://0.0.0.0:2379"),
        "--listen-metrics-urls=http://0.0.0.0:2381".to_owned(),
        format!("--initial-advertise-peer-urls={}", url(n, 2380)),
        format!("--advertise-client-urls={}", url(n, 2379)),
        format!("--initial-cluster={}", all.join(",")),
        "--initial-cluster-state=new".to_owned(),
    ];
    if tls {
        for prefix in ["", "peer-"] {
            args.push(format!("--{prefix}cert-file=/tls/tls.crt"));
            args.push(format!("--{prefix}key-file=/tls/tls.key"));
            args.push(format!("--{prefix}trusted-ca-file=/tls/ca.crt"));
            args.push(format!("--{prefix}client-cert-auth"));
        }
    }
    args
}

/// The name of a member and its Pod.
pub fn member(n: usize) -> String {
    format!("{NAME}-{n}")
}
