//! The containers of a member's Pod.

use quorate_api::keys;
use quorate_model::effect::Boot;
use serde_json::{Value, json};

use super::{ETCD, GUARD, Member, PROBE};
use crate::certificate::Certificate;
use crate::flags;
use crate::service::{CLIENT_PORT, METRICS_PORT, PEER_PORT, PROBE_PORT};
use crate::template::Template;

/// Certificates, the volumes they come in, and where these are mounted.
pub(super) const MOUNTED: [(Certificate, &str, &str); 3] = [
    (Certificate::Server, "server-tls", "/etc/etcd/tls/server"),
    (Certificate::Peer, "peer-tls", "/etc/etcd/tls/peer"),
    (Certificate::Client, "client-tls", "/etc/etcd/tls/client"),
];

const CLIENT_TLS: &str = MOUNTED[2].2;

/// Where the guard finds [`keys::JOINED`].
const JOINED_DIR: &str = "/etc/quorate";
const JOINED_FILE: &str = "joined";

/// A startup probe that gives up would restart a member that waits for its peers: without a quorum etcd does not begin
/// to serve. So it never gives up.
const NEVER: i32 = i32::MAX;

/// Checks the volume before etcd starts.
pub(super) fn guard(member: &Member<'_>) -> Value {
    let Member { cluster, token, cluster_id, name, boot, agent_image, .. } = member;
    // At its first start a member finds an empty volume, or its own data from before its Pod was created again. Once the
    // member has joined, the annotation of the Pod counts, also when all containers of the Pod restart.
    let expect = match boot {
        Boot::New | Boot::Join => "fresh",
        Boot::Resume => "data",
    };
    let mut args = vec![
        format!("--data-dir={}", flags::DATA_DIR),
        format!("--identity={}", flags::IDENTITY_FILE),
        format!("--token={token}"),
        format!("--cluster-uid={}", cluster.metadata.uid.as_deref().unwrap_or_default()),
        format!("--member={name}"),
        format!("--expect={expect}"),
        format!("--joined={JOINED_DIR}/{JOINED_FILE}"),
    ];
    args.extend(cluster_id.map(|id| format!("--cluster-id={id}")));
    json!({
        "name": GUARD,
        "image": agent_image,
        "command": ["/quorate", "agent", "guard"],
        "args": args,
        "resources": small(),
        "securityContext": restricted(),
        "volumeMounts": [data(), mount_read_only("joined", JOINED_DIR)],
    })
}

/// The joined annotation, as a file.
pub(super) fn joined_volume() -> Value {
    json!({ "name": "joined", "downwardAPI": { "items": [{
        "path": JOINED_FILE,
        "fieldRef": { "apiVersion": "v1", "fieldPath": format!("metadata.annotations['{}']", keys::JOINED) },
    }] } })
}

/// etcd itself. The kubelet asks the probe about it, and restarts etcd, not the probe, when the answer is bad.
pub(super) fn etcd(member: &Member<'_>, template: &Template) -> Value {
    let Member { target, .. } = member;
    let mut mounts = vec![data()];
    if target.tls {
        mounts.extend(MOUNTED.map(|(_, volume, path)| mount_read_only(volume, path)));
    }
    let mut args = flags::identity(member);
    args.extend(template.flags.iter().cloned());
    let resources = json!(template.spec.resources.clone().unwrap_or_default());
    let mut etcd = json!({
        "name": ETCD,
        "image": template.image,
        "command": ["/usr/local/bin/etcd"],
        "args": args,
        "env": env(member),
        "ports": [
            { "name": "client", "containerPort": CLIENT_PORT, "protocol": "TCP" },
            { "name": "peer", "containerPort": PEER_PORT, "protocol": "TCP" },
            { "name": "metrics", "containerPort": METRICS_PORT, "protocol": "TCP" },
        ],
        "resources": resources,
        "securityContext": restricted(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        // The probe delays a negative answer by most of a second, so Ready follows at once.
        "startupProbe": asks("/readyz", 1, 2, NEVER),
        "readinessProbe": asks("/readyz", 3, 2, 2),
        // On top of the grace time that the probe itself gives a silent member.
        "livenessProbe": asks("/healthz", 10, 5, 3),
        "volumeMounts": mounts,
    });
    if let Some(policy) = &template.image_pull_policy {
        etcd["imagePullPolicy"] = json!(policy);
    }
    etcd
}

/// Answers the kubelet for the member.
pub(super) fn probe(member: &Member<'_>) -> Value {
    let Member { at, target, name, agent_image, .. } = member;
    let scheme = if target.tls { "https" } else { "http" };
    let mut args = vec![
        format!("--listen=$(POD_IP):{PROBE_PORT}"),
        format!("--endpoint={scheme}://$(POD_IP):{CLIENT_PORT}"),
    ];
    let mut mounts = Vec::new();
    if target.tls {
        args.push(format!("--server-name={}", at.dns_name(name)));
        args.push(format!("--cert={CLIENT_TLS}/tls.crt"));
        args.push(format!("--key={CLIENT_TLS}/tls.key"));
        args.push(format!("--cacert={CLIENT_TLS}/ca.crt"));
        mounts.push(mount_read_only(MOUNTED[2].1, CLIENT_TLS));
    }
    json!({
        "name": PROBE,
        "image": agent_image,
        "command": ["/quorate", "agent", "probe"],
        "args": args,
        "env": [pod_ip()],
        "ports": [{ "name": "probe", "containerPort": PROBE_PORT, "protocol": "TCP" }],
        "resources": small(),
        "securityContext": restricted(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts,
    })
}

/// With these, `kubectl exec POD -c etcd -- etcdctl endpoint status` needs no flags.
fn env(member: &Member<'_>) -> Vec<Value> {
    let Member { at, target, name, .. } = member;
    let scheme = if target.tls { "https" } else { "http" };
    let endpoint = format!("{scheme}://{}:{CLIENT_PORT}", at.dns_name(name));
    let mut env = vec![pod_ip(), json!({ "name": "ETCDCTL_ENDPOINTS", "value": endpoint })];
    if target.tls {
        for (name, file) in [("CACERT", "ca.crt"), ("CERT", "tls.crt"), ("KEY", "tls.key")] {
            env.push(json!({ "name": format!("ETCDCTL_{name}"), "value": format!("{CLIENT_TLS}/{file}") }));
        }
    }
    env
}

fn pod_ip() -> Value {
    json!({ "name": "POD_IP", "valueFrom": { "fieldRef": { "apiVersion": "v1", "fieldPath": "status.podIP" } } })
}

fn asks(path: &str, every: i32, timeout: i32, failures: i32) -> Value {
    json!({
        "httpGet": { "path": path, "port": PROBE_PORT, "scheme": "HTTP" },
        "periodSeconds": every,
        "timeoutSeconds": timeout,
        "failureThreshold": failures,
    })
}

fn restricted() -> Value {
    json!({
        "allowPrivilegeEscalation": false,
        "readOnlyRootFilesystem": true,
        "capabilities": { "drop": ["ALL"] },
    })
}

fn small() -> Value {
    json!({ "requests": { "cpu": "10m", "memory": "16Mi" }, "limits": { "memory": "128Mi" } })
}

fn data() -> Value {
    json!({ "name": "data", "mountPath": flags::VOLUME_DIR })
}

fn mount_read_only(volume: &str, path: &str) -> Value {
    json!({ "name": volume, "mountPath": path, "readOnly": true })
}
