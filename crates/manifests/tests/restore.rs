//! A cluster that begins with a snapshot: what a member's Pod gets to restore it, which snapshot an EtcdBackup means, and what is
//! reported of a failure.

use crate::world::World;
use k8s_openapi::api::core::v1::Pod;
use quorate_api::backup::EtcdBackup;
use quorate_api::job::{Answer, Failure, FailureKind, ORDER, RestoreOrder};
use quorate_manifests::{Kind, bootstrap};
use quorate_model::restore::RestoreCause;
use serde_json::{Value, json};

fn spec(restore: &Value) -> Value {
    json!({
        "size": 3, "version": "3.6.16", "tls": { "provider": "disabled" },
        "storageSpec": { "volumeSizeRequest": "1Gi" }, "bootstrap": { "restore": restore },
    })
}

fn source() -> Value {
    json!({
        "identitiesSecret": { "name": "age" },
        "source": { "key": "demo/1", "sha256": "a".repeat(64), "destination": { "s3": {
            "bucket": "b", "credentialsSecret": { "name": "store" }, "caSecret": { "name": "ca" },
        } } },
    })
}

/// A world whose member Pods were created.
fn restoring(restore: &Value) -> World {
    let mut world = World::new(&spec(restore));
    for _ in 0..20 {
        if !world.all::<Pod>(Kind::Pod).is_empty() {
            return world;
        }
        world.pass();
    }
    panic!("no Pod was created: {:?}", world.status());
}

#[test]
fn a_pod_that_restores_has_the_order_and_the_secrets_and_never_starts_empty() {
    let world = restoring(&source());
    let pod: Pod = world.get(Kind::Pod, "demo-1");
    let spec = pod.spec.unwrap();
    assert!(spec.scheduling_gates.is_some(), "a late call must not start it");
    let etcd = spec.containers.iter().find(|container| container.name == "etcd").unwrap();
    let args = etcd.args.clone().unwrap();
    assert!(args.contains(&"--expect=restored".to_owned()), "{args:?}");
    assert!(args.contains(&"--initial-cluster-state=existing".to_owned()), "{args:?}");
    let order = etcd.env.iter().flatten().find(|env| env.name == ORDER).unwrap().value.clone().unwrap();
    let order: RestoreOrder = serde_json::from_str(&order).unwrap();
    assert_eq!((&*order.name, &*order.source.key, order.bump_revision), ("demo-1", "demo/1", 1_000_000_000));
    let flag = |name: &str| args.iter().find_map(|arg| arg.strip_prefix(name)).unwrap();
    assert_eq!(order.initial_cluster, flag("--initial-cluster="));
    assert_eq!(order.peer_url, flag("--initial-advertise-peer-urls="));
    assert_eq!(order.token, flag("--initial-cluster-token="));
    assert_eq!(order.quota_bytes.to_string(), flag("--quota-backend-bytes="));
    let mounts: Vec<&str> = etcd.volume_mounts.iter().flatten().map(|mount| &*mount.mount_path).collect();
    for dir in ["/etc/quorate/store/credentials", "/etc/quorate/store/ca", "/etc/quorate/store/identities"] {
        assert!(mounts.contains(&dir), "{mounts:?}");
    }
    for outer in &mounts {
        let within = |inner: &&&str| inner.starts_with(&format!("{outer}/"));
        assert_eq!(mounts.iter().find(within), None, "a read-only volume has no place for another mount");
    }
    let recorded = world.status().bootstrap.unwrap().restore.unwrap();
    assert_eq!((&*recorded.source.key, recorded.identities_secret.as_deref()), ("demo/1", Some("age")));
}

#[test]
fn what_the_agent_reports_is_the_reason_of_the_condition() {
    for (kind, reason) in [
        (FailureKind::NotInStore, "RestoreSourceGone"),
        (FailureKind::StoreForbidden, "RestoreForbidden"),
        (FailureKind::Unfit, "RestoreRefused"),
        (FailureKind::Mismatch, "RestoreFailed"),
    ] {
        let mut world = restoring(&source());
        let answer = Answer::Failed(Failure::new(kind, "what the agent says"));
        let end = json!({ "exitCode": 1, "message": serde_json::to_string(&answer).unwrap() });
        let status = json!({ "phase": "Running", "containerStatuses": [{
            "name": "etcd", "image": "", "imageID": "", "ready": false, "started": false, "restartCount": 2,
            "state": { "waiting": { "reason": "CrashLoopBackOff" } }, "lastState": { "terminated": end },
        }] });
        for _ in 0..3 {
            world.pass();
        }
        world.edit(Kind::Pod, "demo-1", |pod| {
            pod["spec"].as_object_mut().unwrap().remove("schedulingGates");
            pod["status"] = status;
        });
        world.pass();
        let (holds, found, message) = world.condition("Bootstrapped");
        assert_eq!((&*holds, &*found), ("False", reason), "{message}");
        assert!(message.contains("demo-1") && message.contains("what the agent says"), "{message}");
        // The next try is under way.
        world.edit(Kind::Pod, "demo-1", |pod| {
            pod["status"]["podIP"] = json!("10.0.0.9");
            pod["status"]["containerStatuses"][0]["state"] = json!({ "running": {} });
        });
        world.pass();
        assert_eq!(world.condition("Bootstrapped").1, "Bootstrapping");
    }
}

#[test]
fn a_backup_means_its_object_with_its_hash_once_it_is_complete() {
    let cluster = serde_json::from_value(json!({
        "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdCluster", "metadata": { "name": "demo" },
        "spec": spec(&json!({ "backupRef": { "name": "nightly" } })),
    }));
    let cluster = cluster.unwrap();
    assert_eq!(bootstrap::backup_to_read(&cluster), Some("nightly"));
    assert_eq!(cluster.needs_backup(), Some("nightly"));
    let backup = |status: Value| -> EtcdBackup {
        serde_json::from_value(json!({
            "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdBackup", "metadata": { "name": "nightly" },
            "spec": { "source": { "cluster": "other" }, "destination": { "s3": { "bucket": "b" } } },
            "status": status,
        }))
        .unwrap()
    };
    let mut complete = json!({ "phase": "Complete", "result": {
        "key": "k", "storedSha256": "f00", "snapshotBytes": 9, "revision": 4, "etcdVersion": "3.5.21",
    } });
    let found = bootstrap::by_backup(&cluster, Ok(Some(&backup(complete.clone())))).unwrap().unwrap();
    assert_eq!((&*found.url, found.bytes), ("s3://b/k", Some(9)));
    assert_eq!(found.least_revision().0, 1_000_000_004);
    assert!(found.content.contains("f00"), "{}", found.content);
    // Its object is not removed before the restore is done.
    let deleted = |status: Value| {
        let mut backup = backup(status);
        backup.metadata.deletion_timestamp =
            Some(serde_json::from_value(json!("2026-11-24T00:00:00Z")).unwrap());
        backup
    };
    complete["phase"] = json!("Deleting");
    let held = bootstrap::by_backup(&cluster, Ok(Some(&deleted(complete.clone()))));
    assert_eq!(held.unwrap().unwrap(), found);
    complete["removals"] = json!(1);
    let removed = deleted(complete);
    let nothing = deleted(json!({ "phase": "Deleting" }));
    let running = backup(json!({ "phase": "Running" }));
    let failed = backup(json!({ "phase": "Failed" }));
    for (read, why) in [
        (Ok(None), "does not exist"),
        (Ok(Some(&removed)), "is being deleted"),
        (Ok(Some(&nothing)), "is being deleted"),
        (Ok(Some(&running)), "is not complete yet"),
        (Ok(Some(&failed)), "has failed"),
        (Err("forbidden"), "could not be read: forbidden"),
    ] {
        let failure = bootstrap::by_backup(&cluster, read).unwrap().unwrap_err();
        assert!(failure.cause == RestoreCause::NotReady && failure.message.contains(why), "{failure:?}");
    }
}

#[test]
fn the_status_of_a_cluster_without_a_restore_is_one_that_an_older_operator_follows() {
    let mut world = World::running(1);
    assert_eq!(world.status().format_version, Some(2));
    assert_eq!(restoring(&source()).status().format_version, Some(3));
    world.edit(Kind::Cluster, "demo", |cluster| cluster["status"]["formatVersion"] = json!(3));
    world.pass();
    assert_eq!(world.status().format_version, Some(3), "it is never lowered");
}
