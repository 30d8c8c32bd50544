//! A reader who follows docs/install.md, and checks the result of each step.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use quorate_etcd::Read;
use quorate_scenarios::{Kubernetes, NamespaceClient, Page, Shell, until};
use tempfile::TempDir;

pub struct Reader<'a> {
    pub world: &'a Kubernetes,
    pub shell: Shell,
    pub page: Page,
}

impl<'a> Reader<'a> {
    pub fn new(world: &'a Kubernetes) -> Result<Self> {
        Ok(Self { world, shell: world.shell()?, page: Page::read("docs/install.md")? })
    }

    /// Runs a command of the page.
    pub async fn run(&mut self, command: &str) -> Result<String> {
        self.page.run(&self.shell, command).await
    }

    /// Runs a command of the page with an older release in `charts/quorate`: another version, which the operator's Pods carry as
    /// a label, and resource definitions without a short name.
    pub async fn run_with_older_release(&mut self, command: &str) -> Result<String> {
        let older = older_release()?;
        let then = self.shell.at(older.path())?;
        let printed = self.page.run(&then, command).await?;
        // The API server shows a new kind in its discovery after some seconds.
        until("this is the older release", async || {
            let kinds = "kubectl api-resources --api-group=operator.etcd.io --no-headers";
            let kinds = self.shell.run(kinds).await?;
            let is_older = kinds.contains("etcd ") && !kinds.contains("etcd,ec");
            Ok(if is_older { Ok(()) } else { Err(kinds) })
        })
        .await?;
        Ok(printed)
    }

    /// Waits until the resource definitions are those of this release.
    pub async fn wait_for_new_definitions(&self) -> Result<()> {
        until("the definitions are new", async || {
            let kinds = "kubectl api-resources --api-group=operator.etcd.io --no-headers --cached=false";
            let kinds = self.shell.run(kinds).await?;
            Ok(if kinds.contains("etcd,ec") { Ok(()) } else { Err(kinds) })
        })
        .await
    }

    /// Waits until a Pod of the operator that is not one of `gone` leads. Returns the names of all its Pods.
    pub async fn wait_for_leader(&mut self, gone: &BTreeSet<String>) -> Result<BTreeSet<String>> {
        self.run("kubectl -n quorate-system rollout status deployment/quorate").await?;
        let namespace_client = self.world.in_namespace("quorate-system").await?;
        let leases: Api<Lease> = Api::default_namespaced(namespace_client.client.clone());
        let mut replicas = BTreeSet::new();
        let mut leader = String::new();
        until("a replica leads", async || {
            replicas = namespace_client
                .pods()
                .list(&ListParams::default())
                .await?
                .iter()
                .map(ResourceExt::name_any)
                .collect();
            let lease = leases.get("quorate.operator.etcd.io").await?;
            leader = lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
            let leads = replicas.difference(gone).any(|replica| leader.starts_with(replica));
            Ok(if leads { Ok(()) } else { Err(format!("{leader:?}, of {replicas:?}")) })
        })
        .await?;
        let lease = self.run("kubectl -n quorate-system get lease quorate.operator.etcd.io").await?;
        ensure!(lease.contains(&leader), "{lease}");
        Ok(replicas)
    }

    /// Waits until a namespace has no Pod of an operator.
    pub async fn wait_for_no_operator(&self, namespace: &str) -> Result<()> {
        let namespace_client = self.world.in_namespace(namespace).await?;
        until("the operator is gone", async || {
            let of = ListParams::default().labels("app.kubernetes.io/name=quorate");
            let left = namespace_client.pods().list(&of).await?.items.len();
            Ok(if left == 0 { Ok(()) } else { Err(format!("{left} Pods")) })
        })
        .await
    }

    /// Writes a key, and reads it at every member.
    pub async fn ensure_it_serves(&self, cluster: &str, key: &str) -> Result<()> {
        let members = self.world.members(cluster).await?;
        let (_, member) = members.first().context("a member")?;
        member.put(key, "there").await?;
        self.ensure_key_is_readable(cluster, key).await
    }

    /// Reads a key of an earlier step at every member.
    pub async fn ensure_key_is_readable(&self, cluster: &str, key: &str) -> Result<()> {
        for (name, member) in self.world.members(cluster).await? {
            let stored = member.get(key, Read::Linearizable).await?;
            ensure!(stored.is_some_and(|stored| stored.value == b"there"), "{name} has lost {key}");
        }
        Ok(())
    }
}

/// The Pods of a cluster with their uids. They are the same as long as none was replaced.
pub async fn pods(namespace_client: &NamespaceClient, cluster: &str) -> Result<BTreeSet<(String, String)>> {
    let pods = namespace_client.pods_of(cluster).await?;
    Ok(pods.iter().map(|pod| (pod.name_any(), pod.uid().unwrap_or_default())).collect())
}

/// A folder with a chart of an older version.
fn older_release() -> Result<TempDir> {
    let folder = tempfile::Builder::new().prefix("quorate-older-").tempdir()?;
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/quorate");
    copy(&chart, &folder.path().join("charts/quorate"))?;
    let this = format!("\nversion: {}\n", env!("CARGO_PKG_VERSION"));
    let chart = folder.path().join("charts/quorate");
    edit(&chart.join("Chart.yaml"), &this, "\nversion: 0.0.1\n")?;
    edit(&chart.join("files/crd/operator.etcd.io_etcdclusters.yaml"), "\n    - ec\n", "\n")?;
    Ok(folder)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let from = entry?.path();
        let to = to.join(from.file_name().unwrap_or(OsStr::new("")));
        if from.is_dir() { copy(&from, &to)? } else { fs::copy(&from, &to).map(drop)? }
    }
    Ok(())
}

fn edit(file: &Path, from: &str, to: &str) -> Result<()> {
    let text = fs::read_to_string(file)?;
    ensure!(text.contains(from), "{} has no {from:?}", file.display());
    Ok(fs::write(file, text.replace(from, to))?)
}
