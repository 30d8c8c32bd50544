//! Who follows docs/install.md, and what she sees on the way.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use quorate_etcd::Read;
use quorate_scenarios::{Eyes, Kubernetes, Page, Shell, until};
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
    pub async fn does(&mut self, command: &str) -> Result<String> {
        self.page.follow(&self.shell, command).await
    }

    /// Runs a command of the page where `charts/quorate` is an older release: of another version, which Pods of the
    /// operator carry as a label, and with resource definitions that lack a short name.
    pub async fn did(&mut self, command: &str) -> Result<String> {
        let older = older_release()?;
        let then = self.shell.at(older.path())?;
        let printed = self.page.follow(&then, command).await?;
        let kinds = self.shell.run("kubectl api-resources --api-group=operator.etcd.io --no-headers").await?;
        ensure!(kinds.contains("etcd ") && !kinds.contains("etcd,ec"), "that was no older release: {kinds}");
        Ok(printed)
    }

    /// The resource definitions are those of this release.
    pub async fn sees_new_definitions(&self) -> Result<()> {
        until("the definitions are new", async || {
            let kinds = "kubectl api-resources --api-group=operator.etcd.io --no-headers --cached=false";
            let kinds = self.shell.run(kinds).await?;
            Ok(if kinds.contains("etcd,ec") { Ok(()) } else { Err(kinds) })
        })
        .await
    }

    /// The operator runs, and one of its Pods leads; it is not one of these. The names of all of them.
    pub async fn sees_it_lead(&mut self, gone: &BTreeSet<String>) -> Result<BTreeSet<String>> {
        self.does("kubectl -n quorate-system rollout status deployment/quorate").await?;
        let eyes = self.world.beside("quorate-system").await?;
        let leases: Api<Lease> = Api::default_namespaced(eyes.client.clone());
        let mut replicas = BTreeSet::new();
        let mut leader = String::new();
        until("a replica leads", async || {
            replicas =
                eyes.pods().list(&ListParams::default()).await?.iter().map(ResourceExt::name_any).collect();
            let lease = leases.get("quorate.operator.etcd.io").await?;
            leader = lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
            let leads = replicas.difference(gone).any(|replica| leader.starts_with(replica));
            Ok(if leads { Ok(()) } else { Err(format!("{leader:?}, of {replicas:?}")) })
        })
        .await?;
        let told = self.does("kubectl -n quorate-system get lease quorate.operator.etcd.io").await?;
        ensure!(told.contains(&leader), "{told}");
        Ok(replicas)
    }

    /// No Pod is left in a namespace of an operator.
    pub async fn sees_no_operator(&self, namespace: &str) -> Result<()> {
        let eyes = self.world.beside(namespace).await?;
        until("the operator is gone", async || {
            let of = ListParams::default().labels("app.kubernetes.io/name=quorate");
            let left = eyes.pods().list(&of).await?.items.len();
            Ok(if left == 0 { Ok(()) } else { Err(format!("{left} Pods")) })
        })
        .await
    }

    /// A write is acknowledged, and read again.
    pub async fn sees_it_serve(&self, cluster: &str, key: &str) -> Result<()> {
        let members = self.world.members(cluster).await?;
        let (_, member) = members.first().context("a member")?;
        member.put(key, "there").await?;
        self.sees_key(cluster, key).await
    }

    /// A write of earlier is there, at every member.
    pub async fn sees_key(&self, cluster: &str, key: &str) -> Result<()> {
        for (name, member) in self.world.members(cluster).await? {
            let stored = member.get(key, Read::Linearizable).await?;
            ensure!(stored.is_some_and(|stored| stored.value == b"there"), "{name} has lost {key}");
        }
        Ok(())
    }
}

/// The Pods of a cluster with their uids: the same for as long as none was replaced.
pub async fn pods(eyes: &Eyes, cluster: &str) -> Result<BTreeSet<(String, String)>> {
    let pods = eyes.pods_of(cluster).await?;
    Ok(pods.iter().map(|pod| (pod.name_any(), pod.uid().unwrap_or_default())).collect())
}

/// A folder with the chart as it was before this version.
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
