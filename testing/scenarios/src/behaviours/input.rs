//! Invalid input and objects in the way are reported where a user looks for them, and nothing is lost: clusters go on as they
//! were, and objects that the cluster does not own stay as they are.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret, Service};
use kube::Resource;
use kube::api::{Api, DeleteParams, PostParams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{World, spec, until};

pub async fn an_invalid_spec_is_refused_at_once_and_the_cluster_is_not_changed(
    world: &impl World,
) -> Result<()> {
    world.create("demo", spec(1)).await?;
    world.settled("demo", 1).await?;
    let before = world.clusters().get("demo").await?.spec;
    for (edit, words) in [
        (json!({"size": -1}), "size"),
        (json!({"version": "latest"}), "version"),
        (json!({"etcdOptions": ["--name=other"]}), "--name"),
        (json!({"etcdOptions": ["--force-new-cluster"]}), "--force-new-cluster"),
        (json!({"storageSpec": {"volumeSizeRequest": "32Mi"}}), "smaller"),
        (json!({"storageSpec": {"medium": "Memory"}}), "medium"),
        (json!({"tls": {"provider": "disabled"}}), "tls"),
    ] {
        let refused = world.patch("demo", json!({ "spec": edit })).await.err();
        let refused = refused.with_context(|| format!("{edit} was accepted"))?.to_string();
        ensure!(refused.contains(words), "{edit}: {refused}");
    }
    ensure!(world.clusters().get("demo").await?.spec == before);

    let long = world.create(&"long".repeat(14), spec(1)).await.err().context("accepted")?.to_string();
    ensure!(long.contains("name"), "{long}");
    Ok(())
}

pub async fn an_unknown_etcd_flag_is_reported_with_a_suggestion_and_the_right_one_fixes_it(
    world: &impl World,
) -> Result<()> {
    let mut wrong = spec(1);
    wrong["etcdOptions"] = json!(["--snapshot-cout=5000"]);
    world.create("demo", wrong).await?;
    world.reports("demo", "did you mean --snapshot-count?").await?;
    until("an event reports it too", async || {
        let events = world.events("demo").await?;
        Ok(if events.contains("--snapshot-cout") { Ok(()) } else { Err(events) })
    })
    .await?;
    ensure!(world.pods_of("demo").await?.is_empty(), "nothing was started");
    world.patch("demo", json!({"spec": {"etcdOptions": ["--snapshot-count=5000"]}})).await?;
    world.settled("demo", 1).await
}

pub async fn objects_not_owned_by_the_cluster_are_named_and_left_alone_and_bootstrap_goes_on_once_they_are_gone(
    world: &impl World,
) -> Result<()> {
    let namespace = world.client.default_namespace().to_owned();
    let service = json!({"metadata": {"name": "a"}, "spec": {"clusterIP": "None", "ports": [{"port": 80}]}});
    foreign::<Service>(world, "a", &service, &format!("Service {namespace}/a")).await?;
    let claim = json!({"metadata": {"name": "b-1"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}},
    }});
    foreign::<PersistentVolumeClaim>(world, "b", &claim, &format!("PersistentVolumeClaim {namespace}/b-1"))
        .await?;
    let secret = json!({"metadata": {"name": "d-ca"}, "stringData": {"password": "other"}});
    foreign::<Secret>(world, "d", &secret, &format!("Secret {namespace}/d-ca")).await?;
    // It never runs, because there is no such image. Its name is in use all the same.
    let restricted = json!({
        "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": true, "runAsUser": 1,
        "seccompProfile": {"type": "RuntimeDefault"},
    });
    let pod = json!({"metadata": {"name": "c-2"}, "spec": {"containers": [{
        "name": "other", "image": "example/other:1", "imagePullPolicy": "Never", "securityContext": restricted,
    }]}});
    foreign::<Pod>(world, "c", &pod, &format!("Pod {namespace}/c-2")).await
}

/// Creates a cluster of three members while an object that it does not own has one of its names.
#[expect(clippy::disallowed_methods, reason = "the test is the user who deletes")]
async fn foreign<K>(world: &impl World, cluster: &str, object: &Value, called: &str) -> Result<()>
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    K: Clone + Serialize + DeserializeOwned + std::fmt::Debug,
{
    let api: Api<K> = Api::default_namespaced(world.client.clone());
    let made = api.create(&PostParams::default(), &serde_json::from_value(object.clone())?).await?;
    world.create(cluster, spec(3)).await?;
    world.reports(cluster, called).await?;
    let name = made.meta().name.as_deref().context("created without a name")?;
    ensure!(api.get(name).await?.meta().uid == made.meta().uid, "{called} was replaced");
    api.delete(name, &DeleteParams::default().grace_period(0)).await?;
    world.settled(cluster, 3).await?;
    world.one_cluster_id(cluster).await.map(drop)
}

pub async fn a_corrupt_volume_and_a_volume_of_another_member_are_refused_by_the_guard_and_named(
    world: &impl World,
) -> Result<()> {
    world.create("demo", spec(3)).await?;
    world.settled("demo", 3).await?;
    let id = world.one_cluster_id("demo").await?;

    let (one, other) = (world.volume_dir("demo-1").await?, world.volume_dir("demo-2").await?);
    std::fs::copy(other.join("quorate.json"), one.join("quorate.json"))?;
    world.delete_pod("demo-1").await?;
    world.reports("demo", "ForeignIdentity").await?;
    world.wait_for_condition("demo", "Available", "True").await?;

    world.create("solo", spec(1)).await?;
    world.settled("solo", 1).await?;
    let solo = world.volume_dir("solo-0").await?;
    std::fs::write(solo.join("data/member/snap/db"), vec![0xa5_u8; 40_000])?;
    world.delete_pod("solo-0").await?;
    world.reports("solo", "CorruptData").await?;
    world.wait_for_condition("solo", "Available", "False").await?;
    ensure!(solo.join("data/member/wal").is_dir(), "nothing was wiped");
    ensure!(world.one_cluster_id("demo").await? == id);
    Ok(())
}

pub async fn a_full_volume_is_reported(world: &impl World) -> Result<()> {
    // The playground enforces this limit. etcd's first write-ahead log alone is larger.
    let mut tiny = spec(1);
    tiny["storageSpec"] = json!({"medium": "Memory", "volumeSizeRequest": "16Mi"});
    world.create("tiny", tiny).await?;
    world.reports("tiny", "DiskFull: 16777216 bytes are free").await?;
    world.wait_for_condition("tiny", "Available", "False").await.map(drop)
}
