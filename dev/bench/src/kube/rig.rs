//! The Kubernetes of `cargo xtask kube` and the operator in it. What is missing is started, and that is printed.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output};
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
                call(&["kube", "up"]).await?;
            }
        }
        let client = rig.client("default").await?;
        let deployments: Api<Deployment> = Api::namespaced(client, OPERATOR.0);
        if deployments.get_opt(OPERATOR.1).await?.is_none() {
            rig.load_and_install().await?;
        }
        rig.wait_for_rollout().await?;
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

    /// Runs kubectl from the root of the repository. Ended when it is dropped.
    pub async fn kubectl(&self, args: &[&str]) -> Result<()> {
        let mut kubectl = tokio::process::Command::from(self.command(args));
        // Its output would otherwise be between the lines of a table.
        let output = kubectl.kill_on_drop(true).output().await;
        printed(args, &output.context("cannot run kubectl")?)
    }

    /// [`Self::kubectl`] for `Drop`, which cannot await.
    pub fn kubectl_now(&self, args: &[&str]) -> Result<()> {
        printed(args, &self.command(args).output().context("cannot run kubectl")?)
    }

    /// Gives an image of the nodes another name, too.
    pub async fn tag(&self, image: &str, name: &str) -> Result<()> {
        call(&["kube", "tag", image, name]).await
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut kubectl = Command::new(self.target.join("tools/bin/kubectl"));
        kubectl.args(args).env("KUBECONFIG", self.kubeconfig());
        kubectl
    }

    /// Applies the operator's manifests, and waits until they are rolled out.
    pub async fn install(&self, manifests: &Path) -> Result<()> {
        let manifests = manifests.to_str().context("the file's name is text")?;
        self.kubectl(&["apply", "--server-side", "--force-conflicts", "-f", manifests]).await?;
        self.wait_for_rollout().await
    }

    /// Waits until every replica of the operator is the latest.
    pub async fn wait_for_rollout(&self) -> Result<()> {
        let deployment = format!("deployment/{}", OPERATOR.1);
        self.kubectl(&["-n", OPERATOR.0, "rollout", "status", &deployment, "--timeout=2m"]).await
    }

    async fn load_and_install(&self) -> Result<()> {
        let archive = self.target.join("image/quorate.tar");
        println!("The operator is not installed: cargo xtask kube load, kubectl apply -f {MANIFESTS}");
        if !archive.is_file() {
            println!("Its image is not built: cargo xtask image");
            call(&["image"]).await?;
        }
        call(&["kube", "load", archive.to_str().context("the target folder's name is text")?]).await?;
        self.install(Path::new(MANIFESTS)).await
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
        // Without a runtime, because `Drop` cannot await.
        let down = xtask(&["kube", "down"]).and_then(|mut down| ended(&["kube", "down"], down.status()?));
        if let Err(error) = down {
            eprintln!("Kubernetes is not down: {error:#}");
        }
    }
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|all| all.iter().any(|one| one.type_ == "Ready" && one.status == "True"))
}

/// `cargo xtask ARGS`. Ended when it is dropped.
async fn call(args: &[&str]) -> Result<()> {
    let mut call = tokio::process::Command::from(xtask(args)?);
    ended(args, call.kill_on_drop(true).status().await.context("cannot run xtask")?)
}

fn xtask(args: &[&str]) -> Result<Command> {
    let xtask = env::var_os("QUORATE_XTASK").context("run this through `cargo xtask bench`")?;
    let mut command = Command::new(xtask);
    command.args(args);
    Ok(command)
}

fn ended(args: &[&str], status: ExitStatus) -> Result<()> {
    ensure!(status.success(), "cargo xtask {}: {status}", args.join(" "));
    Ok(())
}

fn printed(args: &[&str], output: &Output) -> Result<()> {
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "kubectl {}: {}\n{stderr}", args.join(" "), output.status);
    Ok(())
}
