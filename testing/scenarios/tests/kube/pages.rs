//! docs/backup.md, docs/restore.md and docs/connect.md: every command is run as the pages have it, with the store and the IDs of this test put in.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use quorate_etcd::Read;
use quorate_scenarios::{Kubernetes, NamespaceClient, S3Server, spec};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn every_command_of_the_pages_on_backups_and_restores_works() -> Result<()> {
    let world = Kubernetes::start().await?;
    let kubeconfig =
        std::env::var_os("QUORATE_TEST_KUBECONFIG").context("run this through `cargo xtask test kube`")?;
    let store = S3Server::start_beside(kubeconfig.as_ref())?;
    let folder = tempfile::tempdir()?;
    let shell = world.shell()?.at(folder.path())?;
    let mut roomy = spec(1);
    roomy["storageSpec"]["volumeSizeRequest"] = json!("512Mi");
    world.create("demo", roomy.clone()).await?;
    world.settled("demo", 1).await?;
    put(&world, "before").await?;

    let mut page = Commands::read("docs/backup.md")?;
    fs::write(folder.path().join("ca.crt"), store.ca())?;
    shell.run(&page.take("s3-ca", &[])?).await?;
    let with_authority = "name: s3-credentials\n      caSecret:\n        name: s3-ca\n";
    let own = [
        ("AWS_ACCESS_KEY_ID=...", format!("AWS_ACCESS_KEY_ID={}", S3Server::ACCESS_KEY)),
        ("AWS_SECRET_ACCESS_KEY=...", format!("AWS_SECRET_ACCESS_KEY={}", S3Server::SECRET_KEY)),
        ("https://s3.example.com:9000", store.endpoint()),
        ("name: s3-credentials\n", with_authority.to_owned()),
    ];
    let printed = shell.run(&page.take("kind: EtcdBackup", &own)?).await?;
    ensure!(printed.contains("s3://backups/etcd/"), "{printed}");
    // As age-keygen writes it.
    fs::write(folder.path().join("key.txt"), "# created: today\nAGE-SECRET-KEY-1...\n")?;
    shell.run(&page.take("age-keygen", &[("age-keygen -o key.txt\n", String::new())])?).await?;
    page.ensure_none_is_left()?;
    put(&world, "after").await?;

    let mut page = Commands::read("docs/restore.md")?;
    shell.run(&page.take("kubectl wait etcd/demo", &[])?).await?;
    // It did not begin with the newest backup; the etcd tier has clusters that do.
    let printed = shell.run(&page.take("etcdbackups -o wide", &[])?).await?;
    ensure!(printed.contains("demo-now") && !printed.contains("restored-"), "{printed}");
    let old = world.one_cluster_id("demo").await?;
    let own = [("5f0a1d2c3b4e6978", old.clone()), ("name: nightly-1", "name: demo-now".to_owned())];
    let order = page.take("kind: EtcdRestore", &own)?;
    shell.run(&format!("kubectl apply -f - <<END\n{order}END")).await?;
    shell.run(&page.take("kubectl wait etcdrestore", &[])?).await?;
    world.settled("demo", 1).await?;
    ensure!(has(&world, "before").await? && !has(&world, "after").await?, "it is not that of the backup");
    let own = [("demo-3 demo-4 demo-5", "demo-1".to_owned()), ("demo-0 demo-1 demo-2", "demo-0".to_owned())];
    let printed = shell.run(&page.take("quarantined-since-", &own)?).await?;
    ensure!(printed.contains(&old) && printed.contains("demo-0"), "{printed}");
    page.ensure_none_is_left()?;
    world.create("demo", roomy).await?;
    world.patch("demo", json!({"metadata": {"annotations": {"operator.etcd.io/adopt": old}}})).await?;
    world.settled("demo", 1).await?;
    ensure!(has(&world, "after").await?, "what was given up has not come back");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_of_the_page_on_connecting_works() -> Result<()> {
    let world = Kubernetes::start().await?;
    let folder = tempfile::tempdir()?;
    let shell = world.shell()?.at(folder.path())?;
    world.create("demo", spec(1)).await?;
    world.settled("demo", 1).await?;
    let mut page = Commands::read("docs/connect.md")?;
    let printed = shell.run(&page.take("status.binding.name", &[])?).await?;
    ensure!(printed.contains("demo-connection") && printed.contains("https://demo-client."), "{printed}");

    let pod = world.pods().get("demo-0").await?;
    let containers = pod.spec.map(|spec| spec.containers).unwrap_or_default();
    let etcd = containers.into_iter().find(|container| container.name == "etcd").and_then(|etcd| etcd.image);
    let own = [("gcr.io/etcd-development/etcd:v3.6.16", etcd.context("its container has no image")?)];
    fs::write(folder.path().join("etcdctl.yaml"), page.take("kind: Pod", &own)?)?;
    let printed = shell.run(&page.take("kubectl logs etcdctl", &[])?).await?;
    ensure!(printed.contains("is healthy"), "{printed}");

    let other = format!("{}-b", world.client.default_namespace());
    shell.run(&format!("kubectl create namespace {other}")).await?;
    let copied = shell.run(&page.take("-n team-b", &[("team-b", other.clone())])?).await;
    shell.run(&format!("kubectl delete namespace {other} --wait=false")).await?;
    copied?;
    page.ensure_none_is_left()
}

async fn put(world: &NamespaceClient, key: &str) -> Result<()> {
    let (_, member) = world.members("demo").await?.pop().context("a member answers")?;
    member.put(key, "value").await?;
    Ok(())
}

async fn has(world: &NamespaceClient, key: &str) -> Result<bool> {
    let (_, member) = world.members("demo").await?.pop().context("a member answers")?;
    Ok(member.get(key, Read::Linearizable).await?.is_some())
}

/// The fences of a page. Those without a language have commands, and each has to be taken.
struct Commands {
    page: &'static str,
    fences: Vec<(String, String)>,
}

impl Commands {
    fn read(page: &'static str) -> Result<Self> {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {page}"))?;
        let mut fences = Vec::new();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let Some(language) = line.trim_start().strip_prefix("```") else { continue };
            let indent = line.len() - line.trim_start().len();
            let inside = lines.by_ref().take_while(|line| line.trim() != "```");
            let code: String =
                inside.map(|line| line.get(indent..).unwrap_or_default().to_owned() + "\n").collect();
            fences.push((language.to_owned(), code));
        }
        Ok(Self { page, fences })
    }

    /// The first fence with this text, with what is this test's own in place of what the page has.
    fn take(&mut self, text: &str, own: &[(&str, String)]) -> Result<String> {
        let at = self.fences.iter().position(|(_, code)| code.contains(text));
        let at = at.with_context(|| format!("{} has no fence with {text}", self.page))?;
        let (_, mut code) = self.fences.remove(at);
        for (shown, own) in own {
            ensure!(code.contains(shown), "{} does not show {shown} in\n{code}", self.page);
            code = code.replace(shown, own);
        }
        Ok(code)
    }

    fn ensure_none_is_left(&self) -> Result<()> {
        let left: Vec<&String> =
            self.fences.iter().filter(|(language, _)| language.is_empty()).map(|(_, code)| code).collect();
        ensure!(left.is_empty(), "not run, though on {}: {left:?}", self.page);
        Ok(())
    }
}
