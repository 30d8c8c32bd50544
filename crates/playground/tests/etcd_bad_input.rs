//! What is wrong is said, in the place where a person looks for it, and nothing is lost by it: the clusters go on as
//! they were, and what was somebody else's stays as it is.

mod lab;

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod, Service};
use kube::Resource;
use kube::api::{Api, DeleteParams, PostParams};
use lab::{Lab, spec, until};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn what_can_never_be_right_is_refused_at_once_and_the_cluster_stays_as_it_is() -> Result<()> {
    let lab = Lab::start().await?;
    lab.create("demo", spec(1)).await?;
    lab.settled("demo", 1).await?;
    let before = lab.clusters().get("demo").await?.spec;
    for (edit, words) in [
        (json!({"size": -1}), "size"),
        (json!({"version": "latest"}), "version"),
        (json!({"etcdOptions": ["--name=other"]}), "--name"),
        (json!({"etcdOptions": ["--force-new-cluster"]}), "--force-new-cluster"),
        (json!({"storageSpec": {"volumeSizeRequest": "32Mi"}}), "smaller"),
        (json!({"storageSpec": {"medium": "Memory"}}), "medium"),
        (json!({"tls": {"provider": "disabled"}}), "tls"),
    ] {
        let refused = lab.patch("demo", json!({ "spec": edit })).await.err();
        let refused = refused.with_context(|| format!("{edit} was accepted"))?.to_string();
        ensure!(refused.contains(words), "{edit}: {refused}");
    }
    ensure!(lab.clusters().get("demo").await?.spec == before);

    let long = lab.create(&"long".repeat(14), spec(1)).await.err().context("accepted")?.to_string();
    ensure!(long.contains("name"), "{long}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flag_that_etcd_does_not_know_is_told_with_the_one_that_was_meant_and_the_right_one_cures_it()
-> Result<()> {
    let lab = Lab::start().await?;
    let mut wrong = spec(1);
    wrong["etcdOptions"] = json!(["--snapshot-cout=5000"]);
    lab.create("demo", wrong).await?;
    lab.says("demo", "did you mean --snapshot-count?").await?;
    ensure!(lab.events("demo").await?.contains("--snapshot-cout"), "an event says so too");
    ensure!(lab.pods_of("demo").await?.is_empty(), "nothing was started");
    lab.patch("demo", json!({"spec": {"etcdOptions": ["--snapshot-count=5000"]}})).await?;
    lab.settled("demo", 1).await
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_somebody_else_are_named_and_left_alone_and_the_cluster_comes_once_they_are_gone()
-> Result<()> {
    let lab = Lab::start().await?;
    let service = json!({"metadata": {"name": "a"}, "spec": {"clusterIP": "None", "ports": [{"port": 80}]}});
    foreign::<Service>(&lab, "a", &service, "Service default/a").await?;
    let claim = json!({"metadata": {"name": "b-1"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}},
    }});
    foreign::<PersistentVolumeClaim>(&lab, "b", &claim, "PersistentVolumeClaim default/b-1").await?;
    let pod = json!({"metadata": {"name": "c-2"}, "spec": {"containers": [{
        "name": "pause", "image": "quorate:playground", "args": ["no-such-command"],
    }]}});
    foreign::<Pod>(&lab, "c", &pod, "Pod default/c-2").await
}

/// A cluster of three whose names include that of a foreign object.
#[expect(clippy::disallowed_methods, reason = "the test is the user who deletes")]
async fn foreign<K>(lab: &Lab, cluster: &str, object: &Value, called: &str) -> Result<()>
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    K: Clone + Serialize + DeserializeOwned + std::fmt::Debug,
{
    let api: Api<K> = Api::default_namespaced(lab.client.clone());
    let made = api.create(&PostParams::default(), &serde_json::from_value(object.clone())?).await?;
    lab.create(cluster, spec(3)).await?;
    lab.says(cluster, called).await?;
    let name = made.meta().name.as_deref().context("created without a name")?;
    ensure!(api.get(name).await?.meta().uid == made.meta().uid, "{called} was replaced");
    api.delete(name, &DeleteParams::default().grace_period(0)).await?;
    lab.settled(cluster, 3).await?;
    lab.one_cluster_id(cluster).await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_that_is_corrupt_or_another_members_is_refused_by_the_guard_and_named() -> Result<()> {
    let lab = Lab::start().await?;
    lab.create("demo", spec(3)).await?;
    lab.settled("demo", 3).await?;
    let id = lab.one_cluster_id("demo").await?;

    let (one, other) = (volume(&lab, "demo-1").await?, volume(&lab, "demo-2").await?);
    std::fs::copy(other.join("quorate.json"), one.join("quorate.json"))?;
    lab.delete_pod("demo-1").await?;
    lab.says("demo", "ForeignIdentity").await?;
    lab.condition("demo", "Available", "True").await?;

    lab.create("solo", spec(1)).await?;
    lab.settled("solo", 1).await?;
    let solo = volume(&lab, "solo-0").await?;
    std::fs::write(solo.join("data/member/snap/db"), vec![0xa5_u8; 40_000])?;
    lab.delete_pod("solo-0").await?;
    lab.says("solo", "CorruptData").await?;
    lab.condition("solo", "Available", "False").await?;
    ensure!(solo.join("data/member/wal").is_dir(), "nothing was wiped");
    ensure!(lab.one_cluster_id("demo").await? == id);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_without_room_is_told_as_such() -> Result<()> {
    let lab = Lab::start().await?;
    // A limit that the playground enforces. etcd's first log alone is larger.
    let mut tiny = spec(1);
    tiny["storageSpec"] = json!({"medium": "Memory", "volumeSizeRequest": "16Mi"});
    lab.create("tiny", tiny).await?;
    lab.says("tiny", "DiskFull: 16777216 bytes are left").await?;
    lab.condition("tiny", "Available", "False").await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_playground_that_can_not_start_says_why_and_what_to_do() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let at = |name: &str| dir.path().join(name);
    let none = at("no-etcd-here");
    std::fs::create_dir(&none)?;
    let told = |dir: &PathBuf, args: &[&str]| lab::refused(dir, args);

    let text = told(&at("a"), &["--detach", "--etcd-bin-dir", &none.display().to_string()])?;
    ensure!(text.contains("no etcd found in") && text.contains("cargo xtask tools"), "{text}");

    let file = at("a-file");
    std::fs::write(&file, "not a directory")?;
    let text = told(&file, &["--detach"])?;
    ensure!(text.contains("cannot write to") && text.contains("--dir"), "{text}");

    let foreign = at("documents");
    std::fs::create_dir(&foreign)?;
    std::fs::write(foreign.join("thesis.txt"), "precious")?;
    let text = told(&foreign, &["--detach", "--fresh"])?;
    ensure!(text.contains("something else than a playground"), "{text}");
    ensure!(foreign.join("thesis.txt").is_file());

    let lab = Lab::start().await?;
    let text = told(&lab.path().to_owned(), &["--detach", "--empty"])?;
    ensure!(text.contains("already runs") && text.contains("playground down"), "{text}");

    let text = told(&at("b"), &["status"])?;
    ensure!(text.contains("no playground runs on"), "{text}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_was_taken_meanwhile_is_replaced_by_another() -> Result<()> {
    let mut lab = Lab::start().await?;
    let port = |text: &str| -> Option<u16> {
        text.split("https://127.0.0.1:").nth(1)?.split(['"', '\n']).next()?.parse().ok()
    };
    let kubeconfig = lab.path().join("kubeconfig");
    let before = port(&std::fs::read_to_string(&kubeconfig)?).context("the kubeconfig names no port")?;
    lab.down()?;
    let _taken = std::net::TcpListener::bind(("127.0.0.1", before))?;
    lab.restart().await?;
    let after = port(&std::fs::read_to_string(&kubeconfig)?).context("the kubeconfig names no port")?;
    ensure!(after != before);
    lab.create("demo", spec(1)).await?;
    lab.settled("demo", 1).await
}

/// The directory of a member's volume.
async fn volume(lab: &Lab, pod: &str) -> Result<PathBuf> {
    let mut directory = None;
    until("the volume is bound", async || {
        let claim = lab.volumes().get(pod).await?;
        let Some(name) = claim.spec.and_then(|spec| spec.volume_name) else {
            return Ok(Err("not yet".into()));
        };
        let volumes: Api<PersistentVolume> = Api::all(lab.client.clone());
        let local = volumes.get(&name).await?.spec.and_then(|spec| spec.local).context("not a local one")?;
        let last = PathBuf::from(local.path).file_name().context("no name")?.to_owned();
        directory = Some(lab.path().join("volumes").join(last));
        Ok(Ok(()))
    })
    .await?;
    directory.context("found above")
}
