//! The Kubernetes of `cargo xtask kube` and the operator in it. What is missing is started, and that is printed.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::{Api, ListParams};

use super::super::clusters;

/// The namespace and the name of the operator's installation.
pub const OPERATOR: (&str, &str) = ("quorate-system", "quorate");

/// The manifests of docs/install.md.
pub const MANIFESTS: &str = "config/install/quorate.yaml";

/// How long the API server may take to answer.
const REPLY: Duration = Duration::from_secs(5);

/// Stopped when it is dropped, if it was down before.
pub struct Rig {
    target: PathBuf,
    was_down: bool,
}

impl Rig {
    /// Starts what does not run, and the operator.
    pub async fn bring_up() -> Result<Self> {
        let target = env::var_os("QUORATE_TARGET_DIR").context("run this through `cargo xtask bench`")?;
        let mut rig = Self { target: target.into(), was_down: false };
        match rig.nodes().await {
            Ok(nodes) if nodes.iter().all(is_ready) => {}
            running => {
                // Before the call, so that a failed start is cleaned up too.
                rig.was_down = running.is_err();
                let what = if rig.was_down { "Kubernetes is not up" } else { "Not every node is ready" };
                println!("{what}: cargo xtask kube up");
                call(&["kube", "up"])?;
            }
        }
        let client = rig.client("default").await?;
        let deployments: Api<Deployment> = Api::namespaced(client, OPERATOR.0);
        if deployments.get_opt(OPERATOR.1).await?.is_none() {
            rig.load_and_install()?;
        }
        rig.wait_for_rollout()?;
        Ok(rig)
    }

    /// A client with this default namespace.
    pub async fn client(&self, namespace: &str) -> Result<Client> {
        let mut config = clusters::config(&self.kubeconfig()).await?;
        namespace.clone_into(&mut config.default_namespace);
        Ok(Client::try_from(config)?)
    }

    /// All nodes.
    pub async fn nodes(&self) -> Result<Vec<Node>> {
        let client = self.client("default").await?;
        let (nodes, all): (Api<Node>, _) = (Api::all(client), ListParams::default());
        let nodes = tokio::time::timeout(REPLY, nodes.list(&all)).await;
        Ok(nodes.context("the API server does not answer")??.items)
    }

    /// Runs kubectl from the root of the repository.
    pub fn kubectl(&self, args: &[&str]) -> Result<()> {
        let mut kubectl = Command::new(self.target.join("tools/bin/kubectl"));
        // Its output would otherwise be between the lines of a table.
        let output = kubectl.args(args).env("KUBECONFIG", self.kubeconfig()).output();
        let output = output.context("cannot run kubectl")?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "kubectl {}: {}\n{stderr}", args.join(" "), output.status);
        Ok(())
    }

    /// Applies the operator's manifests, and waits until they are rolled out.
    pub fn install(&self, manifests: &Path) -> Result<()> {
        let manifests = manifests.to_str().context("the file's name is text")?;
        self.kubectl(&["apply", "--server-side", "--force-conflicts", "-f", manifests])?;
        self.wait_for_rollout()
    }

    fn wait_for_rollout(&self) -> Result<()> {
        let deployment = format!("deployment/{}", OPERATOR.1);
        self.kubectl(&["-n", OPERATOR.0, "rollout", "status", &deployment, "--timeout=2m"])
    }

    fn load_and_install(&self) -> Result<()> {
        let archive = self.target.join("image/quorate.tar");
        println!("The operator is not installed: cargo xtask kube load, kubectl apply -f {MANIFESTS}");
        if !archive.is_file() {
            println!("Its image is not built: cargo xtask image");
            call(&["image"])?;
        }
        call(&["kube", "load", archive.to_str().context("the target folder's name is text")?])?;
        self.install(Path::new(MANIFESTS))
    }

    /// Where its kubeconfig is.
    pub fn kubeconfig(&self) -> PathBuf {
        self.target.join("kube/kubeconfig")
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if !self.was_down {
            return;
        }
        println!("Kubernetes was not up before: cargo xtask kube down");
        if let Err(error) = call(&["kube", "down"]) {
            eprintln!("Kubernetes is not down: {error:#}");
        }
    }
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|all| all.iter().any(|one| one.type_ == "Ready" && one.status == "True"))
}

/// `cargo xtask ARGS`.
fn call(args: &[&str]) -> Result<()> {
    let xtask = env::var_os("QUORATE_XTASK").context("run this through `cargo xtask bench`")?;
    let status = Command::new(xtask).args(args).status().context("cannot run xtask")?;
    ensure!(status.success(), "cargo xtask {}: {status}", args.join(" "));
    Ok(())
}
