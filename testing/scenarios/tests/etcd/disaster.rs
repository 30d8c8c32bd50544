//! The paths of docs/disaster.md, on real etcd: a namespace is deleted and comes back. What a user types there, the tests do through the
//! API; a command that is on the page and in no test fails them.

mod tenant;
mod velero;

use std::collections::BTreeSet;
use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use quorate_api::job::SIGNING_SECRET;
use quorate_etcd::{Deadlines, Endpoint, MemberClient, Tls};
use quorate_scenarios::backups::{restored, restored_from};
use quorate_scenarios::{Playground, S3Server, Writer, spec, until};
use serde_json::{Value, json};
use tenant::{Change, Tenant, hourly};

/// Nothing of the namespace is left but what was saved: manifests, Secrets, and an object in a store that is outside.
#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_namespace_comes_back_from_manifests_saved_secrets_and_one_snapshot() -> Result<()> {
    let (world, store) = (Playground::start().await?, S3Server::start()?);
    let tenant = Tenant::create(&world, "tenant").await?;
    let destination = store.destination("s3-credentials");
    tenant.create_secret(&store.secret("s3-credentials")).await?;
    let mut first = spec(3);
    first["storageSpec"]["volumeSizeRequest"] = json!("512Mi");
    tenant.create("demo", first).await?;
    let schedule = json!({
        "schedule": hourly(5), "retention": {"keepLast": 1},
        "backupTemplate": {"spec": {
            "source": {"cluster": "demo"}, "destination": destination, "deletionPolicy": "Delete",
        }},
    });
    tenant.create_schedule("nightly", &schedule).await?;
    tenant.settled("demo", 3).await?;
    let id = tenant.one_cluster_id("demo").await?;
    let writer = Writer::start(&tenant, "demo").await?;
    let before = tenant.backup_after("nightly", Change::HoursPass).await?;
    let acknowledged = writer.stop().await?;

    // What a user keeps: the Secrets, each without what the API server wrote. A client has its certificate.
    let saved = tenant.saved_secrets(&["demo-ca", "s3-credentials", SIGNING_SECRET]).await?;
    let client = tenant.client_certificate("demo").await?;
    tenant.delete_namespace().await?;

    let key = before["key"].as_str().context("a key")?;
    let object = store.bucket_dir().join("etcd").join(key);
    ensure!(object.is_file(), "the object went with the namespace, although nothing could be asked any more");
    let manifest: Value = serde_json::from_slice(&std::fs::read(format!("{}.json", object.display()))?)?;
    ensure!(manifest["storedSha256"] == before["storedSha256"], "{manifest}");

    // Somebody who has nothing but the right to add objects would have his own restored.
    let forged = forge(&store, key)?;

    // Without the Secrets the cluster would begin with another authority; without `bootstrap.restore` it would begin empty.
    let tenant = Tenant::create(&world, "tenant").await?;
    for secret in &saved {
        tenant.create_secret(secret).await?;
    }
    let latest = json!({"destination": destination, "cluster": "demo"});
    tenant.create("demo", restored(3, &json!({"latest": latest}))).await?;
    // A person says that the authority is to sign: whoever may create Secrets could have put another one there.
    tenant.adopt_authorities("demo").await?;
    tenant.create_schedule("nightly", &schedule).await?;
    tenant.settled("demo", 3).await?;
    let (found, told) = tenant.found_for("demo").await?;
    ensure!(found["key"] == manifest["key"] && found["clusterID"] == json!(id), "{found}");
    ensure!(found["signedBy"] == manifest["signature"]["keyId"] && told.contains(&forged), "{found} {told}");
    for file in [forged.clone(), format!("{forged}.json")] {
        std::fs::remove_file(store.bucket_dir().join("etcd").join(file))?;
    }
    let revision = manifest["revision"].as_i64().context("a revision")?;
    acknowledged.are_readable_as_of(&tenant, "demo", revision).await?;
    ensure!(tenant.one_cluster_id("demo").await? != id, "an old member could join it");
    for address in tenant.addresses("demo").await? {
        answers(address, &client).await.context("a client with a certificate of before")?;
    }

    // The schedule goes on. Its retention knows the objects of its own EtcdBackups, and not those of before.
    let second = tenant.backup_after("nightly", Change::HoursPass).await?;
    let third = tenant.backup_after("nightly", Change::Edit(json!({"schedule": hourly(2)}))).await?;
    ensure!(second["clusterID"] == third["clusterID"] && second["clusterID"] != before["clusterID"]);
    until("retention has left one of the new ones", async || {
        let kept = objects(&store)?;
        Ok(if kept.len() == 2 { Ok(()) } else { Err(format!("{kept:?}")) })
    })
    .await?;
    ensure!(
        object.is_file() && std::fs::metadata(&object)?.len() == before["storedBytes"].as_u64().unwrap_or(0)
    );
    Ok(())
}

/// The EtcdBackups went with the namespace. The schedule of Git has them made again from what the bucket has, and one that is not the newest is
/// restored by its name.
#[tokio::test(flavor = "multi_thread")]
async fn o02_the_backups_of_a_deleted_namespace_are_objects_again_and_the_oldest_is_restored_by_its_name()
-> Result<()> {
    let (world, store) = (Playground::start().await?, S3Server::start()?);
    let tenant = Tenant::create(&world, "tenant").await?;
    tenant.create_secret(&store.secret("s3-credentials")).await?;
    let mut first = spec(1);
    first["storageSpec"]["volumeSizeRequest"] = json!("512Mi");
    tenant.create("demo", first).await?;
    let schedule = json!({"schedule": hourly(30), "backupTemplate": {"spec": {
        "source": {"cluster": "demo"}, "destination": store.destination("s3-credentials"), "deletionPolicy": "Delete",
    }}});
    tenant.create_schedule("nightly", &schedule).await?;
    tenant.settled("demo", 1).await?;
    let (mut writes, mut taken) = (Vec::new(), Vec::new());
    for word in ["one", "two", "three"] {
        writes.push(Writer::start(&tenant, "demo").await?.stop().await?);
        let name = tenant.back_up_now("nightly", word).await?;
        taken.push(tenant.is_backed_up(&name).await?["result"].clone());
    }
    let saved = tenant.saved_secrets(&["s3-credentials", SIGNING_SECRET]).await?;
    tenant.delete_namespace().await?;
    forge(&store, taken[0]["key"].as_str().context("a key")?)?;
    // What a bucket collects: something that is no manifest, and the object of another namespace.
    let bucket = store.bucket_dir().join("etcd");
    std::fs::write(bucket.join("tenant/demo/notes.db.json"), "{}")?;
    std::fs::create_dir_all(bucket.join("other/demo"))?;
    std::fs::write(bucket.join("other/demo/x.db.json"), "{}")?;

    let tenant = Tenant::create(&world, "tenant").await?;
    for secret in &saved {
        tenant.create_secret(secret).await?;
    }
    let order = json!({"operator.etcd.io/catalog": "after-loss"});
    tenant.create_schedule_with("nightly", &schedule, &order).await?;
    let mut status = Value::Null;
    until("the store was listed", async || {
        status = tenant.schedules().get("nightly").await?.data["status"].clone();
        let is_over = status["catalog"]["finished"].is_string();
        Ok(if is_over { Ok(()) } else { Err(status["catalog"].to_string()) })
    })
    .await?;
    let catalog = &status["catalog"];
    ensure!(catalog["found"] == 3 && catalog["created"] == 3 && catalog["skipped"] == 2, "{catalog}");
    let names: Vec<String> =
        tenant.backups().list(&ListParams::default()).await?.iter().map(ResourceExt::name_any).collect();
    ensure!(names.len() == 3 && names.iter().all(|name| name.starts_with("existing-nightly-")), "{names:?}");
    let mut again = Vec::new();
    for name in &names {
        again.push((tenant.is_backed_up(name).await?["result"].clone(), name));
    }
    again.sort_by_key(|(result, _)| result["revision"].as_i64());
    let results: Vec<&Value> = again.iter().map(|(result, _)| result).collect();
    ensure!(results == taken.iter().collect::<Vec<_>>(), "{results:?} instead of {taken:?}");
    ensure!(
        status["active"].is_null() && status["lastSuccess"].is_null(),
        "they are none of the schedule's: {status}"
    );

    let (_, oldest) = again[0];
    tenant.create("demo", restored_from(1, oldest)).await?;
    tenant.settled("demo", 1).await?;
    let source = tenant.status("demo").await?["bootstrap"]["restore"]["source"].clone();
    ensure!(source["key"] == taken[0]["key"] && source["sha256"] == taken[0]["storedSha256"], "{source}");
    writes[0].are_all_readable(&tenant, "demo").await?;
    let later = writes[1].are_all_readable(&tenant, "demo").await;
    let is_as_of_then =
        later.as_ref().is_err_and(|why| why.to_string().contains("has lost acknowledged writes"));
    ensure!(is_as_of_then, "what was written after the oldest backup: {later:?}");

    // Who deletes one deletes a record: also where the template of the schedule would remove objects.
    tenant.delete_backup(oldest).await?;
    let key = taken[0]["key"].as_str().context("a key")?;
    ensure!(bucket.join(key).is_file() && bucket.join(format!("{key}.json")).is_file(), "the object is gone");
    Ok(())
}

/// Puts a copy of this object beside it, with a manifest that says that it is newer. Returns its key.
fn forge(store: &S3Server, key: &str) -> Result<String> {
    let directory = store.bucket_dir().join("etcd");
    let forged = key.replacen(".db", "-1.db", 1);
    std::fs::copy(directory.join(key), directory.join(&forged))?;
    let mut manifest: Value = serde_json::from_slice(&std::fs::read(directory.join(format!("{key}.json")))?)?;
    let revision = manifest["revision"].as_i64().context("a revision")?;
    (manifest["key"], manifest["revision"]) = (json!(forged), json!(revision + 1_000_000));
    std::fs::write(directory.join(format!("{forged}.json")), manifest.to_string())?;
    Ok(forged)
}

/// Everything that Velero can bring back comes back in its order, with the volumes that were kept: Pods before their EtcdCluster, all objects
/// without owner, claims under other uids.
#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_velero_restored_is_served_again_only_after_a_person_decided() -> Result<()> {
    let (world, store) = (Playground::start().await?, S3Server::start()?);
    let tenant = Tenant::create(&world, "tenant").await?;
    let mut roomy = spec(3);
    roomy["storageSpec"]["volumeSizeRequest"] = json!("512Mi");
    tenant.create("demo", roomy).await?;
    tenant.annotate("demo", "velero.io/restore-status", "true").await?;
    tenant.settled("demo", 3).await?;
    let id = tenant.one_cluster_id("demo").await?;
    let writer = Writer::start(&tenant, "demo").await?;
    let acknowledged = writer.stop().await?;
    let claims = uids(&tenant).await?;

    velero::retain_volumes(&tenant.client).await?;
    let backup = velero::Backup::take(&tenant.client).await?;
    tenant.delete_namespace().await?;
    let tenant = Tenant::create(&world, "tenant").await?;
    velero::release_volumes(&tenant.client).await?;
    backup.restore(&tenant.client, &velero::Backup::all()).await?;

    // Its status and its uid do not go together. The Pods run without an owner, and are named.
    let message = tenant.wait_for_condition("demo", "ExistingData", "True").await?;
    ensure!(message.contains(&format!("operator.etcd.io/adopt={id}")), "{message}");
    ensure!(tenant.status("demo").await?["earlier"]["clusterID"] == json!(id));
    tenant.annotate("demo", "operator.etcd.io/adopt", &id).await?;
    tenant.reports("demo", "does not own Pod tenant/demo-0").await?;
    for pod in tenant.pods_of("demo").await? {
        ensure!(pod.owner_references().is_empty(), "the operator created {}", pod.name_any());
        tenant.delete_pod(&pod.name_any()).await?;
    }

    // It cannot know whether these claims have the volumes of before or copies of them. This person knows.
    tenant.reports("demo", "may be copies of the members' volumes").await?;
    ensure!(tenant.pods_of("demo").await?.iter().all(|pod| pod.metadata.deletion_timestamp.is_some()));
    let uid = tenant.clusters().get("demo").await?.uid().context("it is stored")?;
    tenant.annotate("demo", "operator.etcd.io/adopt-copies", &format!("{id}/{uid}")).await?;

    // What it needs and does not own is named, and it does not take it.
    tenant.reports("demo", "names that are taken by objects it does not own").await?;
    tenant.delete_what_nobody_owns("demo").await?;
    tenant.settled("demo", 3).await?;
    ensure!(tenant.one_cluster_id("demo").await? == id);
    ensure!(uids(&tenant).await?.is_disjoint(&claims), "the claims are others");
    acknowledged.are_all_readable(&tenant, "demo").await?;

    // Only the EtcdCluster comes back, with its status: no empty cluster in its place.
    tenant.create_secret(&store.secret("s3-credentials")).await?;
    let destination = store.destination("s3-credentials");
    tenant.back_up("last", "demo", &destination).await?;
    let last = tenant.is_backed_up("last").await?["result"].clone();
    let backup = velero::Backup::take(&tenant.client).await?;
    tenant.delete_namespace().await?;
    let tenant = Tenant::create(&world, "tenant").await?;
    backup.restore(&tenant.client, &["EtcdCluster"]).await?;
    let message = tenant.wait_for_condition("demo", "ExistingData", "True").await?;
    ensure!(message.contains("No empty cluster is started in its place"), "{message}");
    ensure!(tenant.pods_of("demo").await?.is_empty() && uids(&tenant).await?.is_empty());

    // The object that came back is told what to begin with.
    tenant.create_secret(&store.secret("s3-credentials")).await?;
    let source = json!({"destination": destination, "key": last["key"].clone(), "sha256": last["storedSha256"].clone()});
    tenant.patch("demo", json!({"spec": {"bootstrap": {"restore": {"source": source}}}})).await?;
    tenant.settled("demo", 3).await?;
    acknowledged.are_all_readable(&tenant, "demo").await
}

async fn answers(address: SocketAddr, client: &Tls) -> Result<()> {
    let endpoint =
        Endpoint::tls(address, Tls { server_name: "demo-client.tenant.svc".to_owned(), ..client.clone() });
    MemberClient::new(&endpoint, Deadlines::default())?.status().await?;
    Ok(())
}

/// The objects in the store that are backups.
fn objects(store: &S3Server) -> Result<BTreeSet<String>> {
    let folder = store.bucket_dir().join("etcd/tenant/demo");
    let names = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let names: BTreeSet<String> = names.collect::<std::io::Result<_>>()?;
    Ok(names.into_iter().filter(|name| name.strip_suffix(".json").is_some()).collect())
}

async fn uids(tenant: &Tenant) -> Result<BTreeSet<String>> {
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(tenant.client.clone());
    let claims = claims.list(&ListParams::default()).await?.items;
    Ok(claims.into_iter().filter_map(|claim| claim.metadata.uid).collect())
}

#[test]
fn the_page_has_the_commands_whose_effects_are_tested_through_the_api_and_no_others() -> Result<()> {
    tenant::covers_the_page()
}
