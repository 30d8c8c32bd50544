//! The cluster's DNS: a hosts file for each node, which the containers there mount.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::{Pod, Service};
use kube::ResourceExt;

use crate::node::{Partition, node_of};

/// The hosts files.
#[derive(Debug)]
pub(crate) struct Names(Vec<HostsFile>);

#[derive(Debug)]
struct HostsFile {
    node: String,
    file: PathBuf,
    written: Mutex<String>,
}

impl Names {
    /// Uses these files, by the name of the node.
    pub(crate) fn new(files: impl IntoIterator<Item = (String, PathBuf)>) -> io::Result<Self> {
        let text = hosts(&[], &[]);
        let begin = |(node, file): (String, PathBuf)| {
            fs::write(&file, &text)?;
            Ok(HostsFile { node, file, written: Mutex::new(text.clone()) })
        };
        Ok(Self(files.into_iter().map(begin).collect::<io::Result<_>>()?))
    }

    /// Writes the names of these Pods and Services to the files.
    pub(crate) fn publish(
        &self,
        pods: &[(Arc<Pod>, Ipv4Addr)],
        services: &[Arc<Service>],
        partition: &Partition,
    ) {
        for one in &self.0 {
            let seen = |(pod, ip): &(Arc<Pod>, Ipv4Addr)| {
                let cut = partition.divides(&one.node, node_of(pod));
                (pod.clone(), if cut { partition.nowhere } else { *ip })
            };
            one.publish(hosts(&pods.iter().map(seen).collect::<Vec<_>>(), services));
        }
    }
}

impl HostsFile {
    fn publish(&self, text: String) {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if *written == text {
            return;
        }
        if let Err(error) = self.write(&text) {
            tracing::warn!(file = %self.file.display(), %error, "cannot write the hosts file");
        }
        *written = text;
    }

    /// Writes in place: containers have mounted this inode.
    fn write(&self, text: &str) -> io::Result<()> {
        let file = fs::File::options().write(true).open(&self.file)?;
        file.write_all_at(text.as_bytes(), 0)?;
        file.set_len(text.len() as u64)
    }
}

fn hosts(pods: &[(Arc<Pod>, Ipv4Addr)], services: &[Arc<Service>]) -> String {
    let mut text = "127.0.0.1 localhost\n".to_owned();
    let mut lines = Vec::new();
    for service in services {
        let Some(spec) = &service.spec else { continue };
        let (name, namespace) = (service.name_any(), service.namespace().unwrap_or_default());
        let cluster_ip = spec.cluster_ip.as_deref().unwrap_or("None");
        if cluster_ip != "None" {
            lines.push((cluster_ip.to_owned(), named(&format!("{name}.{namespace}"))));
            continue;
        }
        // All Pods share the network of this machine, so every client has the address 127.0.0.1. etcd resolves whether
        // it is one of the names in the client's certificate.
        lines.push(("127.0.0.1".to_owned(), format!("anybody.{name}.{namespace}.svc")));
        let unready_too = spec.publish_not_ready_addresses == Some(true);
        let empty = BTreeMap::new();
        let selector = spec.selector.as_ref().unwrap_or(&empty);
        for (pod, ip) in pods {
            let selected = !selector.is_empty()
                && pod.namespace() == service.namespace()
                && selector.iter().all(|(key, value)| pod.labels().get(key) == Some(value));
            if !selected || !(unready_too || is_ready(pod)) {
                continue;
            }
            let hostname = pod.spec.as_ref().and_then(|spec| spec.hostname.clone());
            let subdomain = pod.spec.as_ref().and_then(|spec| spec.subdomain.clone());
            if let (Some(hostname), true) = (hostname, subdomain.as_deref() == Some(&name)) {
                lines.push((ip.to_string(), named(&format!("{hostname}.{name}.{namespace}"))));
            }
            lines.push((ip.to_string(), named(&format!("{name}.{namespace}"))));
        }
    }
    lines.sort();
    lines.dedup();
    for (ip, names) in lines {
        let _ = writeln!(text, "{ip} {names}");
    }
    text
}

fn named(name: &str) -> String {
    format!("{name}.svc.cluster.local {name}.svc {name}")
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|one| one.type_ == "Ready" && one.status == "True")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn service(name: &str, ip: &str, unready_too: bool) -> Arc<Service> {
        let object = json!({"metadata": {"name": name, "namespace": "prod"},
            "spec": {"clusterIP": ip, "publishNotReadyAddresses": unready_too, "selector": {"app": "demo"}}});
        Arc::new(serde_json::from_value(object).unwrap())
    }

    fn pod(name: &str, ready: &str) -> (Arc<Pod>, Ipv4Addr) {
        let object = json!({"metadata": {"name": name, "namespace": "prod", "labels": {"app": "demo"}},
            "spec": {"hostname": name, "subdomain": "demo", "containers": []},
            "status": {"conditions": [{"type": "Ready", "status": ready}]}});
        (Arc::new(serde_json::from_value(object).unwrap()), Ipv4Addr::new(127, 64, 0, 7))
    }

    #[test]
    fn pods_of_a_headless_service_have_names_before_they_are_ready_where_it_says_so() {
        let text = hosts(&[pod("demo-0", "False")], &[service("demo", "None", true)]);
        assert!(
            text.contains(
                "127.64.0.7 demo-0.demo.prod.svc.cluster.local demo-0.demo.prod.svc demo-0.demo.prod\n"
            ),
            "{text}"
        );
        let text = hosts(&[pod("demo-0", "False")], &[service("demo", "None", false)]);
        assert!(!text.contains("demo-0"), "{text}");
        let text = hosts(&[pod("demo-0", "True")], &[service("demo", "None", false)]);
        assert!(text.contains("demo-0.demo.prod.svc "), "{text}");
    }

    #[test]
    fn a_pod_behind_a_partition_has_an_address_where_nothing_listens() {
        let dir = tempfile::tempdir().unwrap();
        let file = |node: &str| (node.to_owned(), dir.path().join(node));
        let names = Names::new([file("node-1"), file("node-2"), file("node-3")]).unwrap();
        let (mut demo, ip) = pod("demo-0", "True");
        Arc::make_mut(&mut demo).spec.as_mut().unwrap().node_name = Some("node-1".to_owned());
        let nowhere = Ipv4Addr::new(127, 64, 255, 253);
        let address = |cut: &[&str], node: &str| {
            let nodes = cut.iter().map(|&node| node.to_owned()).collect();
            let pods = [(demo.clone(), ip)];
            names.publish(&pods, &[service("demo", "None", true)], &Partition { nodes, nowhere });
            let text = fs::read_to_string(dir.path().join(node)).unwrap();
            let line = text.lines().find(|line| line.contains("demo-0.demo")).unwrap();
            line.split(' ').next().unwrap().parse::<Ipv4Addr>().unwrap()
        };
        assert_eq!(address(&["node-1"], "node-2"), nowhere);
        assert_eq!(address(&["node-1"], "node-1"), ip);
        assert_eq!(address(&["node-2"], "node-2"), nowhere);
        assert_eq!(address(&["node-2"], "node-3"), ip, "both are on the same side");
        assert_eq!(address(&[], "node-2"), ip);
    }

    #[test]
    fn connections_between_pods_seem_to_come_from_a_name_of_their_service() {
        let text = hosts(&[], &[service("demo", "None", true)]);
        assert_eq!(text, "127.0.0.1 localhost\n127.0.0.1 anybody.demo.prod.svc\n");
    }

    #[test]
    fn a_service_with_an_address_has_a_name_and_its_pods_have_none_of_it() {
        let text = hosts(&[pod("demo-0", "True")], &[service("demo-client", "127.128.0.1", false)]);
        assert_eq!(
            text,
            "127.0.0.1 localhost\n127.128.0.1 demo-client.prod.svc.cluster.local demo-client.prod.svc demo-client.prod\n"
        );
    }
}
