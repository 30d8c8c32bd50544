//! The baseline: three Pods, their volumes and a headless Service with a static bootstrap, as a person who knows etcd writes
//! them. Image, volumes, placement and security context are those of the operator's Pods. There is no guard and no probe, and
//! the kubelet reads etcd's own readiness.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret, Service};
use kube::api::{Api, PostParams};
use quorate_api::cluster::DEFAULT_IMAGE_REGISTRY;
use quorate_etcd::testkit::Pki;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::super::clusters::VOLUME;
use super::super::pods;
use super::PATIENCE;
use super::namespace::Namespace;

/// The name of the Service, and the label of the Pods.
const NAME: &str = "etcd";
const LABELS: &str = "app=etcd";

/// User and group, as of the operator's Pods.
const USER: u32 = 10001;

/// From the first request to three Ready Pods.
pub async fn create(namespace: &Namespace<'_>, version: &str, tls: bool) -> Result<Duration> {
    if tls {
        create_one::<Secret>(namespace, certificates(namespace.name())?).await?;
    }
    let image = format!("{DEFAULT_IMAGE_REGISTRY}:v{version}");
    let start = Instant::now();
    // One after the other, like kubectl.
    create_one::<Service>(namespace, service()).await?;
    for n in 0..3 {
        create_one::<PersistentVolumeClaim>(namespace, volume(n)).await?;
    }
    for n in 0..3 {
        create_one::<Pod>(namespace, pod(n, namespace.name(), &image, tls)).await?;
    }
    let client = namespace.client();
    if let Ok(ready) = tokio::time::timeout(PATIENCE, pods::ready(&client, LABELS, 3)).await {
        return ready.map(|()| start.elapsed());
    }
    let pods = pods::described(&client, LABELS).await?;
    bail!("the Pods written by hand are not ready after {PATIENCE:?}: {}", pods.join(", "))
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

fn pod(n: usize, namespace: &str, image: &str, tls: bool) -> Value {
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
                "image": image,
                "command": ["/usr/local/bin/etcd"],
                "args": args(n, namespace, tls),
                "securityContext": {
                    "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                    "capabilities": {"drop": ["ALL"]},
                },
                // The shortest period there is.
                "readinessProbe": {
                    "httpGet": {"path": "/readyz", "port": 2381}, "periodSeconds": 1, "timeoutSeconds": 2,
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

fn member(n: usize) -> String {
    format!("{NAME}-{n}")
}
