//! `kube up`: each step creates what is missing and waits until it works, so `up` can be called at any time.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{Api, Client};

use crate::addresses::Families;
use crate::cluster::{self, until};
use crate::node::Node;
use crate::programs::Program;
use crate::rig::Rig;
use crate::{control, disks, down, files, host, images, network, objects, pki, status, tools};

/// How long a program may take to be ready, on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(120);

/// Starts what does not run.
pub async fn run(dir: &Path, nodes: u8, families: Option<Families>) -> Result<()> {
    tools::check()?;
    host::check()?;
    let start = Instant::now();
    down::clear_abandoned()?;
    let rig = Rig::claim(dir, nodes, families)?;
    let _lock = rig.lock()?;
    let mut steps = Steps { rig: &rig, last: start };
    network::up(&rig)?;
    pki::make(&rig)?;
    steps.done("network and certificates");

    let control = rig.addresses().control();
    let at = |port: u16| SocketAddr::from((control, port));
    steps.start(&control::etcd(&rig), async || cluster::listens(at(2379))).await?;
    files::write_if_changed(&rig.path("conf/audit.json"), &control::audit_policy().to_string())?;
    let client = cluster::client(&rig.kubeconfig()).await?;
    steps.start(&control::apiserver(&rig), async || cluster::is_ready(&client).await).await?;
    // The rest needs only the API server, so everything is started before any wait.
    let controllers = [control::controller_manager(&rig), control::scheduler(&rig)];
    for program in &controllers {
        program.start(&rig)?;
    }
    objects::apply(&client).await?;
    files::write_if_changed(&rig.path("conf/Corefile"), &control::corefile(&rig))?;
    control::coredns(&rig).start(&rig)?;
    disks::mount_all(&rig.path("volumes"))?;
    control::provisioner(&rig).start(&rig)?;
    let nodes: Vec<Node> = rig.nodes().map(|number| Node::new(&rig, number)).collect();
    for node in &nodes {
        node.configure()?;
        node.containerd().start(&rig)?;
    }
    images::make(&rig)?;
    steps.done("images made");
    for node in &nodes {
        let socket = node.socket();
        steps.start(&node.containerd(), async || cluster::listens_at(&socket)).await?;
    }
    images::import_all(&rig, &nodes)?;
    steps.done("images imported");
    for node in &nodes {
        node.kubelet().start(&rig)?;
        node.proxy().start(&rig)?;
    }
    let [controller_manager, scheduler] = &controllers;
    steps.start(controller_manager, async || cluster::listens(at(10257))).await?;
    steps.start(scheduler, async || cluster::listens(at(10259))).await?;
    steps.start(&control::coredns(&rig), async || cluster::answers(at(8181), "/ready")).await?;
    for node in &nodes {
        let address = rig.addresses().node(node.number());
        let health = |port: u16| cluster::answers(SocketAddr::from((address, port)), "/healthz");
        // The status of a node may still be from before it was stopped.
        let ready = async || {
            if !health(10248) {
                return false;
            }
            let nodes = cluster::nodes(&client).await.unwrap_or_default();
            nodes.iter().any(|(name, ready, _)| *ready && *name == node.name())
        };
        steps.start(&node.kubelet(), ready).await?;
        steps.start(&node.proxy(), async || health(10256)).await?;
    }
    usable(&client).await?;
    control::provisioner(&rig).check(&rig)?;
    eprintln!("up in {:.1} s", start.elapsed().as_secs_f64());
    println!("{}", status::exports(&rig));
    Ok(())
}

/// Pods can be created once the controllers have created the default service account.
async fn usable(client: &Client) -> Result<()> {
    let accounts: Api<ServiceAccount> = Api::default_namespaced(client.clone());
    let so = async || accounts.get_opt("default").await.is_ok_and(|account| account.is_some());
    until("the default service account", PATIENCE, so, || Ok(())).await
}

struct Steps<'a> {
    rig: &'a Rig,
    last: Instant,
}

impl Steps<'_> {
    /// Starts it unless it runs, and waits until it is ready.
    async fn start(&mut self, program: &Program, ready: impl AsyncFnMut() -> bool) -> Result<()> {
        program.start(self.rig).with_context(|| format!("cannot start {}", program.name))?;
        let what = format!("{} is ready", program.name);
        until(&what, PATIENCE, ready, || program.check(self.rig)).await?;
        self.done(&program.name);
        Ok(())
    }

    /// Prints a line for a step that took long.
    fn done(&mut self, what: &str) {
        let took = self.last.elapsed().as_secs_f64();
        self.last = Instant::now();
        if took > 0.1 {
            eprintln!("  {what} in {took:.1} s");
        }
    }
}
