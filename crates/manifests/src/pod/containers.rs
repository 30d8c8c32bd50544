//! The containers of a member's Pod.

use quorate_api::keys;
use quorate_model::Leaf;
use quorate_model::effect::Boot;
use quorate_model::restore::Restore;
use serde_json::{Value, json};

use super::member::{ETCD, Member};
use super::resources;
use crate::flags;
use crate::service::{CLIENT_PORT, METRICS_PORT, PEER_PORT, PROBE_PORT};
use crate::template::Template;
use crate::{bootstrap, quorum_recovery};

/// Where the certificate lies by which the agent, and a person with `kubectl exec`, is a client.
const CLIENT_TLS: &str = "/etc/etcd/tls/client";

/// The certificates that a Pod has, the volumes they come in, and where these are mounted.
pub(super) fn mounted(auth: bool) -> [(Leaf, &'static str, &'static str); 3] {
    [
        (Leaf::Server, "server-tls", "/etc/etcd/tls/server"),
        (Leaf::Peer, "peer-tls", "/etc/etcd/tls/peer"),
        (Leaf::of_operator(auth), "client-tls", CLIENT_TLS),
    ]
}

/// Where the guard finds [`keys::JOINED`].
const JOINED_DIR: &str = "/etc/quorate";
const JOINED_FILE: &str = "joined";
/// The same in a Pod that restores, which has the credentials of a store beside it.
const JOINED_DIR_BESIDE_STORE: &str = "/etc/quorate/pod";

/// The init container that brings the agent's program into the Pod.
pub const INSTALL: &str = "install";
/// The init container that fetches what a member restores.
pub const FETCH: &str = "fetch";
/// The volume with the agent's program, which the image of etcd does not have: the whole image of the agent, in which it lies at the
/// root, or an empty directory into which the init container copies it. Either way its path is the same.
pub(crate) const AGENT_VOLUME: &str = "agent";
pub(crate) const AGENT_DIR: &str = "/agent";
pub(crate) const AGENT: &str = "/agent/quorate";

/// What the guard expects of a volume that the agent restores: data, whatever was there before.
pub(crate) const RESTORED: &str = "restored";

/// What the Pod remembers of its volume. It outlives the container and not the Pod.
const SEEN_DIR: &str = "/run/quorate";
const SEEN: &str = "/run/quorate/data-seen";

/// Brings the agent's program into the Pod.
pub(super) fn install(member: &Member<'_>) -> Value {
    install_from(member.agent_image)
}

/// Brings the agent's program from this image into a Pod with the volume [`AGENT_VOLUME`].
pub(crate) fn install_from(agent_image: &str) -> Value {
    json!({
        "name": INSTALL,
        "image": agent_image,
        "command": ["/quorate", "agent", "install"],
        "args": [format!("--to={AGENT}")],
        "resources": small(),
        "securityContext": restricted(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{ "name": AGENT_VOLUME, "mountPath": AGENT_DIR }],
    })
}

/// Brings the snapshot onto the volume of a member that restores. It alone sees credentials, identities and the store: its image is the
/// operator's, and that of etcd is chosen by whoever edits the EtcdCluster.
pub(super) fn fetch(member: &Member<'_>, restore: &Restore, template: &Template) -> Value {
    let mut mounts = vec![
        data(),
        mount_read_only("joined", joined_dir(member)),
        json!({ "name": "seen", "mountPath": SEEN_DIR }),
    ];
    mounts.extend(bootstrap::volumes(restore).into_iter().map(|(_, mount)| mount));
    json!({
        "name": FETCH,
        "image": member.agent_image,
        "command": ["/quorate", "agent", "fetch"],
        "args": guard(member),
        "env": bootstrap::order(member, restore).into_iter().collect::<Vec<_>>(),
        // Those of etcd, which runs later: the Pod needs no more than without it.
        "resources": resources::of_etcd(template.spec.resources.as_ref()),
        "securityContext": restricted(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts,
    })
}

/// The flags of the guard, which says whose volume it is.
fn guard(member: &Member<'_>) -> Vec<String> {
    let Member { cluster, token, cluster_id, name, boot, .. } = member;
    // At its first start a member finds an empty volume, or its own data from before its Pod was created again. Once the
    // member has joined, the annotation of the Pod counts, and once etcd has written data, what the Pod remembers.
    let expect = match boot {
        Boot::New | Boot::Join => "fresh",
        Boot::Restore => RESTORED,
        Boot::Resume | Boot::Read | Boot::Extract => "data",
    };
    let mut flags = vec![
        format!("--data-dir={}", flags::DATA_DIR),
        format!("--identity={}", flags::IDENTITY_FILE),
        format!("--token={token}"),
        format!("--cluster-uid={}", cluster.metadata.uid.as_deref().unwrap_or_default()),
        format!("--member={name}"),
        format!("--expect={expect}"),
        format!("--joined={}/{JOINED_FILE}", joined_dir(member)),
        format!("--seen={SEEN}"),
    ];
    flags.extend(cluster_id.map(|id| format!("--cluster-id={id}")));
    flags
}

/// The flags of the agent, which checks the volume before every start of etcd and answers the kubelet.
fn agent(member: &Member<'_>) -> Vec<String> {
    let Member { at, target, name, ip_family, .. } = member;
    let (host, scheme) = (ip_family.pod_host(), if target.tls { "https" } else { "http" });
    let mut flags = guard(member);
    flags.push(format!("--canary={}", flags::CANARY_FILE));
    flags.push(format!("--listen={host}:{PROBE_PORT}"));
    flags.push(format!("--endpoint={scheme}://{host}:{CLIENT_PORT}"));
    if target.tls {
        flags.push(format!("--server-name={}", at.dns_name(name)));
        flags.push(format!("--cert={CLIENT_TLS}/tls.crt"));
        flags.push(format!("--key={CLIENT_TLS}/tls.key"));
        flags.push(format!("--cacert={CLIENT_TLS}/ca.crt"));
    }
    if target.tls && member.trust > 0 {
        flags.push(format!("--trust={}", member.trust));
        flags.extend(mounted(target.auth).map(|(_, _, dir)| format!("--trust-dir={dir}")));
    }
    flags
}

/// No mount lies within another one.
fn joined_dir(member: &Member<'_>) -> &'static str {
    if member.restored_from().is_some() { JOINED_DIR_BESIDE_STORE } else { JOINED_DIR }
}

/// Directories of the Pod: of the agent's program, and of what it remembers.
pub(super) fn agent_volumes(member: &Member<'_>) -> [Value; 2] {
    let agent = if member.by_image_volume {
        json!({ "name": AGENT_VOLUME, "image": { "reference": member.agent_image, "pullPolicy": "IfNotPresent" } })
    } else {
        json!({ "name": AGENT_VOLUME, "emptyDir": {} })
    };
    [agent, json!({ "name": "seen", "emptyDir": {} })]
}

/// The joined annotation, as a file.
pub(super) fn joined_volume() -> Value {
    json!({ "name": "joined", "downwardAPI": { "items": [{
        "path": JOINED_FILE,
        "fieldRef": { "apiVersion": "v1", "fieldPath": format!("metadata.annotations['{}']", keys::JOINED) },
    }] } })
}

/// The agent, and etcd as its child.
pub(super) fn etcd(member: &Member<'_>, template: &Template) -> Value {
    let Member { target, .. } = member;
    let mut mounts = vec![
        data(),
        mount_read_only(AGENT_VOLUME, AGENT_DIR),
        mount_read_only("joined", joined_dir(member)),
        json!({ "name": "seen", "mountPath": SEEN_DIR }),
    ];
    if target.tls {
        mounts.extend(mounted(target.auth).map(|(_, volume, path)| mount_read_only(volume, path)));
    }
    let mut args = agent(member);
    args.extend(["--", "/usr/local/bin/etcd"].map(str::to_owned));
    args.extend(flags::identity(member));
    args.extend(flags::comparisons(target.version.line(), &template.flags));
    args.extend(flags::snapshot_count(target, &template.flags));
    args.extend(template.flags.iter().cloned());
    let resources = resources::of_etcd(template.spec.resources.as_ref());
    let mut env = env(member);
    env.extend(member.restored_from().and_then(|restore| bootstrap::order(member, restore)));
    env.extend(quorum_recovery::order(member));
    env.extend(resources::of_go(&resources, target));
    let mut etcd = json!({
        "name": ETCD,
        "image": template.image,
        "command": [AGENT, "agent", "run"],
        "args": args,
        "env": env,
        "ports": [
            { "name": "client", "containerPort": CLIENT_PORT, "protocol": "TCP" },
            { "name": "peer", "containerPort": PEER_PORT, "protocol": "TCP" },
            { "name": "metrics", "containerPort": METRICS_PORT, "protocol": "TCP" },
            { "name": "probe", "containerPort": PROBE_PORT, "protocol": "TCP" },
        ],
        "resources": resources,
        "securityContext": restricted(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        // There is no startup probe: the agent holds the first answer until the member is ready, and the kubelet begins to ask as soon as it
        // sees the container run. While etcd starts, the agent says that it lives.
        "readinessProbe": asks("/readyz", 1, 5, 2),
        // On top of the grace time that the probe itself gives a silent member.
        "livenessProbe": asks("/healthz", 10, 5, 3),
        "volumeMounts": mounts,
    });
    if let Some(policy) = &template.image_pull_policy {
        etcd["imagePullPolicy"] = json!(policy);
    }
    if quorum_recovery::holds(member.boot) {
        hold(&mut etcd);
    }
    etcd
}

/// The agent answers an order and ends. Nothing is served, and nothing is probed.
fn hold(etcd: &mut Value) {
    etcd["command"] = json!([AGENT, "agent", quorum_recovery::COMMAND]);
    if let Some(fields) = etcd.as_object_mut() {
        for probe in ["readinessProbe", "livenessProbe"] {
            fields.remove(probe);
        }
    }
}

/// With these, `kubectl exec POD -- etcdctl endpoint status` needs no flags.
fn env(member: &Member<'_>) -> Vec<Value> {
    let Member { at, target, name, .. } = member;
    let scheme = if target.tls { "https" } else { "http" };
    let endpoint = format!("{scheme}://{}:{CLIENT_PORT}", at.dns_name(name));
    let mut env = vec![pod_ip(), pod_ips(), json!({ "name": "ETCDCTL_ENDPOINTS", "value": endpoint })];
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

/// The agent lets etcd serve clients at all of them.
fn pod_ips() -> Value {
    json!({ "name": "POD_IPS", "valueFrom": { "fieldRef": { "apiVersion": "v1", "fieldPath": "status.podIPs" } } })
}

fn asks(path: &str, every: i32, timeout: i32, failures: i32) -> Value {
    json!({
        "httpGet": { "path": path, "port": PROBE_PORT, "scheme": "HTTP" },
        "periodSeconds": every,
        "timeoutSeconds": timeout,
        "failureThreshold": failures,
    })
}

pub(crate) fn restricted() -> Value {
    json!({
        "allowPrivilegeEscalation": false,
        "readOnlyRootFilesystem": true,
        "capabilities": { "drop": ["ALL"] },
    })
}

fn small() -> Value {
    // A quota on limits admits no Pod in which a container has none.
    json!({ "requests": { "cpu": "10m", "memory": "16Mi" }, "limits": { "cpu": "500m", "memory": "128Mi" } })
}

fn data() -> Value {
    json!({ "name": "data", "mountPath": flags::VOLUME_DIR })
}

fn mount_read_only(volume: &str, path: &str) -> Value {
    json!({ "name": volume, "mountPath": path, "readOnly": true })
}
