//! Backups in stores outside of the cluster. The store has a certificate of a private authority.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, PostParams};
use quorate_scenarios::backups::{restored, restored_from};
use quorate_scenarios::{Playground, spec};
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_in_s3_is_restored_and_refused_once_it_is_changed_and_goes_with_its_object() -> Result<()> {
    let world = Playground::start_with_args(&["--s3"]).await?;
    let secrets: Api<Secret> = Api::default_namespaced(world.client.clone());
    let annotations = secrets.get("s3-credentials").await?.metadata.annotations.context("it has the URL")?;
    let endpoint = &annotations["playground.operator.etcd.io/s3-endpoint"];
    let store = |secret: &str| {
        json!({"s3": {
            "bucket": "backups", "prefix": "etcd", "endpoint": endpoint, "credentialsSecret": {"name": secret},
            "caSecret": {"name": "s3-credentials"},
        }})
    };
    world.create("demo", spec(3)).await?;
    world.settled("demo", 3).await?;

    let wrong = json!({
        "metadata": {"name": "wrong"},
        "stringData": {"AWS_ACCESS_KEY_ID": "nobody", "AWS_SECRET_ACCESS_KEY": "nothing"},
    });
    secrets.create(&PostParams::default(), &serde_json::from_value(wrong)?).await?;
    for secret in ["wrong", "absent"] {
        world.back_up(secret, "demo", &store(secret)).await?;
        let status = world.backup_ends(secret, "Failed").await?;
        ensure!(status.to_string().contains("StoreForbidden"), "{secret}: {status}");
    }

    let mut untrusted = store("s3-credentials");
    untrusted["s3"]["caSecret"] = Value::Null;
    world.back_up("untrusted", "demo", &untrusted).await?;
    let status = world.backup_ends("untrusted", "Failed").await?.to_string();
    ensure!(status.contains("certificate of the server") && status.contains("s3.caSecret"), "{status}");

    let mut spec = json!({"source": {"cluster": "demo"}, "destination": store("s3-credentials")});
    world.back_up_with("kept", spec.clone()).await?;
    let kept = world.is_backed_up("kept").await?["result"].clone();
    // Manifests tell seconds: of two backups within one, that with the higher revision is the newest.
    for (_, member) in world.members("demo").await?.into_iter().take(1) {
        member.put("between", "the two").await?;
    }
    spec["deletionPolicy"] = json!("Delete");
    world.back_up_with("deleted", spec).await?;
    let deleted = world.is_backed_up("deleted").await?["result"].clone();
    let objects = world.path().join("s3/buckets/backups/etcd");
    let file = |result: &Value| -> Result<PathBuf> {
        Ok(objects.join(result["key"].as_str().with_context(|| format!("no key in {result}"))?))
    };
    for result in [&kept, &deleted] {
        ensure!(file(result)?.is_file() && manifest(&file(result)?).is_file(), "{result}");
    }

    let source =
        json!({"destination": store("s3-credentials"), "key": kept["key"], "sha256": kept["storedSha256"]});
    world.create("again", restored(1, &json!({"source": source}))).await?;
    let latest = json!({"latest": {"destination": store("s3-credentials"), "cluster": "demo"}});
    world.create("newest", restored(1, &latest)).await?;
    world.settled("again", 1).await?;
    world.settled("newest", 1).await?;
    let (found, told) = world.found_for("newest").await?;
    ensure!(found["key"] == deleted["key"] && told.contains("2 of those of this cluster"), "{found} {told}");

    let mut bytes = std::fs::read(file(&deleted)?)?;
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(file(&deleted)?, bytes)?;
    world.create("spoilt", restored_from(1, "deleted")).await?;
    world.reports("spoilt", "RestoreFailed").await?;
    world.delete("spoilt").await?;

    world.delete_backup("deleted").await?;
    ensure!(!file(&deleted)?.exists() && !manifest(&file(&deleted)?).exists(), "the object is still there");
    world.delete_backup("kept").await?;
    ensure!(file(&kept)?.exists() && manifest(&file(&kept)?).exists(), "the object was not to be deleted");
    Ok(())
}

fn manifest(object: &Path) -> PathBuf {
    object.with_file_name(format!("{}.json", object.file_name().unwrap_or_default().to_string_lossy()))
}
