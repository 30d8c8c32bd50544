//! What carries out NetworkPolicies: kube-router, which `cargo xtask tools kube-router` builds, in the network of each node of a real
//! Kubernetes of this machine. It is stopped at the end of the test, also when the test fails, and what it wrote there is removed.

use std::fs::File;
use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::{Node, Service};
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::{Kubernetes, rig, until};

/// How long it may take to end.
const PATIENCE: Duration = Duration::from_secs(15);

/// What its chains in the table `filter` begin with, and every rule that jumps to one has in it.
const CHAINS: [&str; 3] = ["KUBE-ROUTER-", "KUBE-POD-FW-", "KUBE-NWPLCY-"];

/// What its sets of addresses begin with.
const SETS: [&str; 2] = ["KUBE-SRC-", "KUBE-DST-"];

/// kube-router in the network of each node. It looks at the traffic of every Pod there, so it needs the Kubernetes for itself.
pub struct KubeRouter {
    nodes: Vec<InNode>,
    directory: tempfile::TempDir,
}

/// The one of a node.
struct InNode {
    process: Child,
    network: Network,
}

/// The network of a node.
struct Network(String);

impl KubeRouter {
    /// Starts it in all nodes of the world, and waits until each looks at what is forwarded to Pods.
    pub async fn start(world: &Kubernetes) -> Result<Self> {
        let program = crate::tool("kube-router", "kube-router")?;
        let services = services(world).await?;
        let directory = tempfile::Builder::new().prefix("quorate-kube-router-").tempdir()?;
        let mut this = Self { nodes: Vec::new(), directory };
        let nodes: Api<Node> = Api::all(world.client.clone());
        for node in nodes.list(&ListParams::default()).await? {
            let name = node.name_any();
            let network = Network(rig::network_of(&name)?);
            // What one left that was killed.
            network.clean()?;
            let log = File::create(this.directory.path().join(&name))?;
            let mut command = network.command(&program.display().to_string());
            command.arg("--kubeconfig").arg(world.kubeconfig());
            command.args(["--run-firewall=true", "--run-router=false", "--run-service-proxy=false"]);
            command.args(["--health-port=0", "--metrics-port=0"]);
            command.arg(format!("--hostname-override={name}"));
            command.arg(format!("--service-cluster-ip-range={services}"));
            command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
            let process = command.spawn().context("cannot run kube-router")?;
            this.nodes.push(InNode { process, network });
        }
        ensure!(!this.nodes.is_empty(), "there are no nodes");
        let found = until("kube-router looks at the traffic of each node", async || {
            for node in &this.nodes {
                if !node.network.rules()?.contains("-j KUBE-ROUTER-FORWARD") {
                    return Ok(Err(node.network.0.clone()));
                }
            }
            Ok(Ok(()))
        });
        found.await.with_context(|| this.log())?;
        Ok(this)
    }

    /// Ends it, and removes its rules; the same is done when it is dropped.
    pub async fn stop(mut self) -> Result<()> {
        for node in &self.nodes {
            kill(Pid::from_raw(i32::try_from(node.process.id())?), Signal::SIGTERM)?;
        }
        let start = tokio::time::Instant::now();
        for at in 0..self.nodes.len() {
            while self.nodes[at].process.try_wait()?.is_none() {
                if start.elapsed() > PATIENCE {
                    bail!("it does not end: {}", self.log());
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        self.nodes.drain(..).try_for_each(|node| node.network.clean())
    }

    /// What it logged, of all nodes.
    fn log(&self) -> String {
        let read = |node: &InNode| {
            let name = node.network.0.rsplit('-').next().unwrap_or_default();
            let log = std::fs::read_to_string(self.directory.path().join(name)).unwrap_or_default();
            format!("kube-router in {}:\n{}", node.network.0, log.trim())
        };
        self.nodes.iter().map(read).collect::<Vec<_>>().join("\n")
    }
}

impl Drop for KubeRouter {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            let ended = node.process.kill().and_then(|()| node.process.wait()).map_err(Into::into);
            if let Err(error) = ended.and_then(|_| node.network.clean()) {
                eprintln!("stopping kube-router in {}: {error:#}", node.network.0);
            }
        }
    }
}

impl Network {
    /// A program of the machine in this network.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}", self.0)).arg(program);
        command
    }

    /// The rules of the table `filter`, as they can be restored.
    fn rules(&self) -> Result<String> {
        self.call("iptables-save", &["-t", "filter"], "")
    }

    /// Removes what kube-router wrote, and nothing else.
    fn clean(&self) -> Result<()> {
        let rules = self.rules()?;
        let is_own = |line: &&str| CHAINS.iter().any(|chain| line.contains(chain));
        if rules.lines().any(|line| is_own(&line)) {
            let others: Vec<&str> = rules.lines().filter(|line| !is_own(line)).collect();
            self.call("iptables-restore", &["-T", "filter"], &(others.join("\n") + "\n"))?;
        }
        let sets = self.call("ipset", &["list", "-n"], "")?;
        for set in sets.lines().filter(|set| SETS.iter().any(|begin| set.contains(begin))) {
            self.call("ipset", &["destroy", set], "")?;
        }
        Ok(())
    }

    /// Runs a program in this network with this input; returns what it printed.
    fn call(&self, program: &str, args: &[&str], input: &str) -> Result<String> {
        let mut command = self.command(program);
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().with_context(|| format!("cannot run {program}"))?;
        process.stdin.take().context("an input")?.write_all(input.as_bytes())?;
        let output = process.wait_with_output()?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{program} {args:?} in {}: {error}", self.0);
        Ok(String::from_utf8(output.stdout)?)
    }
}

/// The addresses of Services: twenty bits, of which the API server has the first.
async fn services(world: &Kubernetes) -> Result<String> {
    let services: Api<Service> = Api::namespaced(world.client.clone(), "default");
    let address = services.get("kubernetes").await?.spec.and_then(|spec| spec.cluster_ip);
    let address: std::net::Ipv4Addr = address.context("the API server has no address")?.parse()?;
    let [first, second, third, _] = address.octets();
    Ok(format!("{first}.{second}.{third}.0/20"))
}
