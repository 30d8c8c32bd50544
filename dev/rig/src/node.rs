//! A node: containerd, kubelet and kube-proxy in a network namespace, and their configuration.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::addresses::{Addresses, in_url};
use crate::cgroups;
use crate::files::write_if_changed;
use crate::images;
use crate::programs::Program;
use crate::rig::Rig;
use crate::tools;

/// The zones, assigned to nodes in turn.
const ZONES: [&str; 3] = ["a", "b", "c"];

/// Where distributions install the CNI plugins.
const PLUGINS: [&str; 2] = ["/usr/lib/cni", "/opt/cni/bin"];

/// A node of a cluster.
pub struct Node<'a> {
    rig: &'a Rig,
    number: u8,
}

impl<'a> Node<'a> {
    /// The node of this number, from 1.
    pub fn new(rig: &'a Rig, number: u8) -> Self {
        Self { rig, number }
    }

    /// Its number.
    pub fn number(&self) -> u8 {
        self.number
    }

    /// Its name in the cluster.
    pub fn name(&self) -> String {
        format!("n{}", self.number)
    }

    /// Writes the configuration of its programs. A file that does not change is not touched, because kube-proxy ends when its file
    /// is.
    pub fn configure(&self) -> Result<()> {
        cgroups::up(self.rig, self.number)?;
        fs::create_dir_all(self.rig.node_run(self.number)).context("cannot create the node's folder")?;
        let write = |name: &str, text: &str| write_if_changed(Path::new(&self.conf(name)), text);
        write("containerd.toml", &self.containerd_config())?;
        write("cni/10-pods.conflist", &self.cni_config().to_string())?;
        write("resolv.conf", &format!("nameserver {}\n", self.rig.addresses().control()))?;
        write("kubelet.json", &self.kubelet_config().to_string())?;
        write("kube-proxy.json", &self.proxy_config().to_string())?;
        Ok(())
    }

    /// containerd.
    pub fn containerd(&self) -> Program {
        self.program("containerd", vec![format!("--config={}", self.conf("containerd.toml"))])
    }

    /// kubelet.
    pub fn kubelet(&self) -> Program {
        let zone = ZONES[usize::from(self.number - 1) % ZONES.len()];
        let labels = format!("topology.kubernetes.io/region=here,topology.kubernetes.io/zone={zone}");
        let args = vec![
            format!("--config={}", self.conf("kubelet.json")),
            format!("--kubeconfig={}", self.rig.text(&format!("conf/node-n{}.kubeconfig", self.number))),
            format!("--hostname-override={}", self.name()),
            format!("--node-ip={}", self.rig.listed(|addresses| addresses.node(self.number))),
            format!("--node-labels={labels}"),
            format!("--root-dir={}", self.data("kubelet")),
            format!("--cert-dir={}", self.data("kubelet-pki")),
        ];
        self.program("kubelet", args)
    }

    /// kube-proxy.
    pub fn proxy(&self) -> Program {
        self.program("kube-proxy", vec![format!("--config={}", self.conf("kube-proxy.json"))])
    }

    /// containerd's socket.
    pub fn socket(&self) -> String {
        self.run("containerd.sock")
    }

    fn program(&self, name: &str, args: Vec<String>) -> Program {
        let netns = Some(self.rig.netns(self.number));
        let binary = tools::binary(name);
        Program { name: format!("{name}-{}", self.name()), netns, binary, args }
    }

    fn containerd_config(&self) -> String {
        let (root, state) = (self.data("containerd"), self.run("containerd"));
        let (socket, shims, runc) = (self.socket(), self.run("s"), self.run("runc"));
        let (cni, sandbox) = (self.conf("cni"), images::SANDBOX);
        // Plugins for devices or daemons that this machine does not have.
        let disabled = [
            "differ.v1.erofs",
            "image-verifier.v1.bindir",
            "internal.v1.opt",
            "mount-handler.v1.erofs",
            "nri.v1.nri",
            "snapshotter.v1.blockfile",
            "snapshotter.v1.erofs",
        ];
        let disabled = disabled.map(|plugin| format!("'io.containerd.{plugin}'")).join(", ");
        let plugins = PLUGINS.map(|folder| format!("'{folder}'")).join(", ");
        let section = |indent: usize, path: &[&str]| {
            let quote =
                |part: &&str| if part.contains('.') { format!("'{part}'") } else { (*part).to_owned() };
            let path = path.iter().map(quote).collect::<Vec<_>>().join(".");
            format!("{}[plugins.{path}]", "  ".repeat(indent))
        };
        let (images, runtime) = ("io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime");
        // Without CAP_SYS_RESOURCE no process may lower its oom score, and every sandbox would fail.
        [
            "version = 4".to_owned(),
            format!("root = '{root}'"),
            format!("state = '{state}'"),
            "imports = []".to_owned(),
            format!("disabled_plugins = [{disabled}]"),
            section(0, &["io.containerd.server.v1.grpc"]),
            format!("  address = '{socket}'"),
            section(0, &["io.containerd.server.v1.ttrpc"]),
            format!("  address = '{socket}.ttrpc'"),
            section(0, &["io.containerd.shim.v1.manager"]),
            format!("  socket_dir = '{shims}'"),
            section(0, &[images]),
            "  snapshotter = 'overlayfs'".to_owned(),
            section(1, &[images, "pinned_images"]),
            format!("    sandbox = '{sandbox}'"),
            section(0, &[runtime]),
            "  netns_mounts_under_state_dir = true".to_owned(),
            "  disable_apparmor = true".to_owned(),
            "  restrict_oom_score_adj = true".to_owned(),
            section(1, &[runtime, "containerd"]),
            "    default_runtime_name = 'runc'".to_owned(),
            section(2, &[runtime, "containerd", "runtimes", "runc"]),
            "      runtime_type = 'io.containerd.runc.v2'".to_owned(),
            section(3, &[runtime, "containerd", "runtimes", "runc", "options"]),
            format!("        Root = '{runc}'"),
            "        SystemdCgroup = false".to_owned(),
            section(1, &[runtime, "cni"]),
            format!("    bin_dirs = [{plugins}]"),
            format!("    conf_dir = '{cni}'"),
        ]
        .join("\n")
            + "\n"
    }

    fn cni_config(&self) -> Value {
        let subnets = self.rig.each_addresses().map(|addresses| addresses.pods_of(self.number));
        let ranges: Vec<Value> = subnets.map(|subnet| json!([{"subnet": subnet}])).collect();
        json!({
            "cniVersion": "1.0.0", "name": "pods",
            "plugins": [
                {
                    "type": "bridge", "bridge": "cni0", "isDefaultGateway": true, "ipMasq": false,
                    "hairpinMode": true,
                    "ipam": {"type": "host-local", "dataDir": self.data("cni"), "ranges": ranges},
                },
                {"type": "portmap", "capabilities": {"portMappings": true}, "snat": true},
            ],
        })
    }

    fn kubelet_config(&self) -> Value {
        let address = self.rig.addresses().node(self.number);
        let file = |name: &str| self.rig.text(&format!("pki/{name}"));
        json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
            "address": address, "port": 10250, "healthzBindAddress": address,
            "authentication": {
                "anonymous": {"enabled": false}, "webhook": {"enabled": true, "cacheTTL": "10s"},
                "x509": {"clientCAFile": file("ca.crt")},
            },
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": file(&format!("kubelet-{}.crt", self.name())),
            "tlsPrivateKeyFile": file(&format!("kubelet-{}.key", self.name())),
            "containerRuntimeEndpoint": format!("unix://{}", self.socket()),
            "failCgroupV1": false, "failSwapOn": false,
            "cgroupDriver": "cgroupfs", "cgroupRoot": cgroups::of_node(self.rig, self.number),
            "clusterDNS": [self.rig.addresses().control()], "clusterDomain": "cluster.local",
            "resolvConf": self.conf("resolv.conf"),
            "maxPods": 100, "serializeImagePulls": false,
            // Images come from files, so one that is removed does not come back.
            "imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99, "imageMinimumGCAge": "8760h",
            "evictionHard": {
                "memory.available": "100Mi", "nodefs.available": "1%", "nodefs.inodesFree": "1%",
                "imagefs.available": "1%",
            },
            "nodeStatusUpdateFrequency": "5s", "nodeLeaseDurationSeconds": 20,
            // Tests kill the one operator of all tests: by default the fourth time it is away for 40 s, and all of them wait.
            "crashLoopBackOff": {"maxContainerRestartPeriod": "5s"},
            "podLogsDir": self.data("pod-logs"), "volumePluginDir": self.data("volume-plugins"),
        })
    }

    fn proxy_config(&self) -> Value {
        let address = self.rig.addresses().node(self.number);
        json!({
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration",
            "bindAddress": address, "healthzBindAddress": format!("{}:10256", in_url(address)),
            "metricsBindAddress": "127.0.0.1:10249", "hostnameOverride": self.name(), "mode": "nftables",
            // Replies to clients outside of the cluster, such as the host, take the way of the request.
            "clusterCIDR": self.rig.listed(Addresses::pods),
            "clientConnection": {"kubeconfig": self.rig.text("conf/kube-proxy.kubeconfig")},
            // Does not change the kernel's limits, which the whole machine has.
            "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
            "nftables": {"syncPeriod": "30s", "minSyncPeriod": "200ms"},
        })
    }

    fn conf(&self, name: &str) -> String {
        self.rig.text(&format!("conf/{}/{name}", self.name()))
    }

    fn data(&self, name: &str) -> String {
        self.rig.text(&format!("data/{}/{name}", self.name()))
    }

    fn run(&self, name: &str) -> String {
        self.rig.node_run(self.number).join(name).display().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_of_one_machine_share_no_socket_folder_or_cgroup() {
        let rig = Rig::example();
        let (one, two) = (Node::new(&rig, 1), Node::new(&rig, 2));
        assert!(one.containerd_config().contains("address = '/run/quorate3/n1/containerd.sock'\n"));
        assert!(one.containerd_config().contains("root = '/t/kube/data/n1/containerd'\n"));
        assert!(!two.containerd_config().contains("/n1/"));
        let kubelet = two.kubelet_config();
        assert_eq!(kubelet["cgroupRoot"], "/quorate3/n2");
        assert_eq!(kubelet["address"], "10.213.3.12");
        assert_eq!(kubelet["clusterDNS"], json!(["10.213.3.2"]));
        assert_eq!(two.cni_config()["plugins"][0]["ipam"]["ranges"][0][0]["subnet"], "10.214.49.0/24");
    }

    #[test]
    fn the_tables_of_containerds_configuration_are_named_by_quoted_parts() {
        let config = Node::new(&Rig::example(), 1).containerd_config();
        let table = "[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]\n";
        assert!(config.contains(table), "{config}");
        let tables: Vec<&str> = config.lines().filter(|line| line.contains("[plugins.")).collect();
        let mut once = tables.clone();
        once.dedup();
        assert_eq!(tables, once);
    }

    #[test]
    fn three_nodes_are_in_three_zones() {
        let rig = Rig::example();
        let zones: Vec<String> =
            [1, 2, 3, 4].map(|node| Node::new(&rig, node).kubelet().args.join(" ")).into();
        let zone = |args: &str| args.split_once("/zone=").map(|(_, rest)| rest[..1].to_owned()).unwrap();
        assert_eq!(zones.iter().map(|args| zone(args)).collect::<String>(), "abca");
    }
}
