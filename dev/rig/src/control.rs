//! The control plane: programs in a network namespace of their own, so that no port of the host is taken.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::addresses::{Addresses, in_url};
use crate::programs::Program;
use crate::rig::Rig;
use crate::tools;

/// The namespace of the operator. The API server logs the requests of its accounts.
const AUDITED: &str = "quorate-system";

/// Their log.
const AUDIT_LOG: &str = "logs/audit.log";

/// The etcd of the cluster itself.
pub fn etcd(rig: &Rig) -> Program {
    let host = in_url(rig.addresses().control());
    let (client, peer) = (format!("https://{host}:2379"), format!("https://{host}:2380"));
    let [ca, cert, key] = ["pki/etcd-ca.crt", "pki/etcd.crt", "pki/etcd.key"].map(|file| rig.text(file));
    let args = [
        "--name=kube".to_owned(),
        format!("--data-dir={}", rig.text("data/etcd")),
        // The cluster need not survive the machine.
        "--unsafe-no-fsync".to_owned(),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=kube={peer}"),
        // Pods reach this address too.
        "--client-cert-auth".to_owned(),
        format!("--trusted-ca-file={ca}"),
        format!("--cert-file={cert}"),
        format!("--key-file={key}"),
        "--peer-client-cert-auth".to_owned(),
        format!("--peer-trusted-ca-file={ca}"),
        format!("--peer-cert-file={cert}"),
        format!("--peer-key-file={key}"),
    ];
    program(rig, "etcd", tools::binary("etcd-3.6"), args.into())
}

/// The API server.
pub fn apiserver(rig: &Rig) -> Program {
    let addresses = rig.addresses();
    let host = addresses.control();
    let file = |option: &str, name: &str| format!("--{option}={}", rig.text(&format!("pki/{name}")));
    let args = [
        format!("--etcd-servers=https://{}:2379", in_url(host)),
        file("etcd-cafile", "etcd-ca.crt"),
        file("etcd-certfile", "etcd-client.crt"),
        file("etcd-keyfile", "etcd-client.key"),
        format!("--bind-address={host}"),
        format!("--advertise-address={host}"),
        "--secure-port=6443".to_owned(),
        format!("--service-cluster-ip-range={}", rig.listed(Addresses::services)),
        file("tls-cert-file", "apiserver.crt"),
        file("tls-private-key-file", "apiserver.key"),
        file("client-ca-file", "ca.crt"),
        file("kubelet-certificate-authority", "ca.crt"),
        file("kubelet-client-certificate", "apiserver-kubelet-client.crt"),
        file("kubelet-client-key", "apiserver-kubelet-client.key"),
        "--kubelet-preferred-address-types=InternalIP".to_owned(),
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local".to_owned(),
        file("service-account-key-file", "sa.pub"),
        file("service-account-signing-key-file", "sa.key"),
        file("requestheader-client-ca-file", "front-proxy-ca.crt"),
        "--requestheader-allowed-names=front-proxy-client".to_owned(),
        "--requestheader-username-headers=X-Remote-User".to_owned(),
        "--requestheader-group-headers=X-Remote-Group".to_owned(),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
        file("proxy-client-cert-file", "front-proxy-client.crt"),
        file("proxy-client-key-file", "front-proxy-client.key"),
        "--authorization-mode=Node,RBAC".to_owned(),
        // In addition to the default plugins, such as PodSecurity.
        "--enable-admission-plugins=NodeRestriction".to_owned(),
        "--allow-privileged=true".to_owned(),
        format!("--audit-policy-file={}", rig.text("conf/audit.json")),
        format!("--audit-log-path={}", rig.text(AUDIT_LOG)),
    ];
    program(rig, "kube-apiserver", tools::binary("kube-apiserver"), args.into())
}

/// The audit policy: requests of the operator's accounts, with verb, object and status code.
pub fn audit_policy() -> Value {
    json!({
        "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
        "rules": [
            {"level": "Metadata", "userGroups": [format!("system:serviceaccounts:{AUDITED}")]},
            {"level": "None"},
        ],
    })
}

/// The controllers.
pub fn controller_manager(rig: &Rig) -> Program {
    let args = [
        "--use-service-account-credentials=true".to_owned(),
        format!("--root-ca-file={}", rig.text("pki/ca.crt")),
        format!("--service-account-private-key-file={}", rig.text("pki/sa.key")),
        format!("--cluster-signing-cert-file={}", rig.text("pki/ca.crt")),
        format!("--cluster-signing-key-file={}", rig.text("pki/ca.key")),
        // Each node knows its Pods' addresses from its own configuration.
        "--allocate-node-cidrs=false".to_owned(),
        // Four updates of a node's status; tests wait for a lost node.
        "--node-monitor-grace-period=20s".to_owned(),
    ];
    client(rig, "kube-controller-manager", args)
}

/// The scheduler.
pub fn scheduler(rig: &Rig) -> Program {
    client(rig, "kube-scheduler", [])
}

/// The cluster's names. Not in a Pod, so that they are resolved whichever node is lost.
pub fn coredns(rig: &Rig) -> Program {
    let args = ["-conf".to_owned(), rig.text("conf/Corefile")];
    program(rig, "coredns", tools::binary("coredns"), args.into())
}

/// The configuration of CoreDNS. A name outside of the cluster does not exist, because there is no other DNS server.
pub fn corefile(rig: &Rig) -> String {
    let host = rig.addresses().control();
    let url = in_url(host);
    let zones = "cluster.local in-addr.arpa ip6.arpa";
    format!(
        ".:53 {{\n    bind {host}\n    errors\n    health {url}:8080\n    ready {url}:8181\n    \
         kubernetes {zones} {{\n        kubeconfig {} {}\n        pods insecure\n        ttl 1\n    }}\n    \
         template ANY ANY . {{\n        rcode NXDOMAIN\n    }}\n}}\n",
        rig.text("conf/coredns.kubeconfig"),
        rig.name(),
    )
}

/// Volumes.
pub fn provisioner(rig: &Rig) -> Program {
    let binary = std::env::current_exe().unwrap_or_default();
    let args = ["provisioner".to_owned(), "--dir".to_owned(), rig.dir().display().to_string()];
    Program { name: "provisioner".to_owned(), netns: None, binary, args: args.into() }
}

/// A program of the control plane that talks to the API as itself.
fn client(rig: &Rig, name: &str, own: impl IntoIterator<Item = String>) -> Program {
    let kubeconfig = rig.text(&format!("conf/{name}.kubeconfig"));
    let common = [
        format!("--kubeconfig={kubeconfig}"),
        format!("--authentication-kubeconfig={kubeconfig}"),
        format!("--authorization-kubeconfig={kubeconfig}"),
        format!("--bind-address={}", rig.addresses().control()),
        // There is only one, and it leads at once after it was killed.
        "--leader-elect=false".to_owned(),
    ];
    program(rig, name, tools::binary(name), common.into_iter().chain(own).collect())
}

fn program(rig: &Rig, name: &str, binary: PathBuf, args: Vec<String>) -> Program {
    Program { name: name.to_owned(), netns: Some(rig.control_netns()), binary, args }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_control_plane_listens_on_its_own_address_only() {
        let rig = Rig::example();
        for program in [etcd(&rig), apiserver(&rig), controller_manager(&rig), scheduler(&rig)] {
            assert_eq!(program.netns.as_deref(), Some("quorate3-control"));
            let listens =
                program.args.iter().filter(|arg| arg.contains("bind-address") || arg.contains("--listen"));
            for arg in listens {
                assert!(arg.contains("10.213.3.2"), "{arg}");
            }
        }
        assert!(corefile(&rig).contains("bind 10.213.3.2\n"));
    }

    #[test]
    fn names_that_are_not_the_clusters_do_not_exist() {
        let text = corefile(&Rig::example());
        assert!(text.contains("kubeconfig /t/kube/conf/coredns.kubeconfig quorate3\n"), "{text}");
        assert!(text.find("kubernetes cluster.local").unwrap() < text.find("rcode NXDOMAIN").unwrap());
        assert_eq!(text.matches('{').count(), text.matches('}').count());
    }
}
