//! A cluster that begins with a snapshot: what a member's Pod gets to restore it, which snapshot an EtcdBackup means, and what is
//! reported of a failure.

use crate::world::World;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::SignedDuration;
use quorate_api::EtcdCluster;
use quorate_api::backup::{EtcdBackup, ExistingObject};
use quorate_api::job::{Answer, Failure, FailureKind, ORDER, RestoreOrder};
use quorate_manifests::backup::{ExistingOrder, existing_order};
use quorate_manifests::{Kind, bootstrap};
use quorate_model::restore::RestoreCause;
use quorate_model::{GuardVerdict, MemberName};
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
    assert_eq!((&*order.name, &*order.source.key), ("demo-1", "demo/1"));
    assert_eq!(order.bump_revision, 1_000_000_000);
    // Seconds since 2020, ten thousand revisions for each. The agent knows from where.
    assert!(order.least_revision > 2_000_000_000_000, "{}", order.least_revision);
    assert_eq!(order.raise(7), u64::try_from(order.least_revision - 7).unwrap());
    let flag = |name: &str| args.iter().find_map(|arg| arg.strip_prefix(name)).unwrap();
    assert_eq!(order.initial_cluster, flag("--initial-cluster="));
    assert_eq!(order.peer_url, flag("--initial-advertise-peer-urls="));
    assert_eq!(order.token, flag("--initial-cluster-token="));
    assert_eq!(order.quota_bytes.to_string(), flag("--quota-backend-bytes="));
    let fetch = spec.init_containers.iter().flatten().last().unwrap();
    assert_eq!(fetch.command.as_deref().unwrap(), ["/quorate", "agent", "fetch"]);
    assert_eq!(
        fetch.env.as_ref().unwrap()[0].value,
        etcd.env.iter().flatten().find(|env| env.name == ORDER).unwrap().value
    );
    let guards = fetch.args.iter().flatten().all(|arg| args.contains(arg));
    assert!(guards && fetch.args.iter().flatten().any(|arg| arg == "--token=u-1-1"), "{:?}", fetch.args);
    let mounts: Vec<&str> = fetch.volume_mounts.iter().flatten().map(|mount| &*mount.mount_path).collect();
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
fn n13_what_may_be_restored_is_bounded_by_the_creation_of_the_cluster() {
    for (not_older_than, seconds) in [(None, 7 * 86_400), (Some("720h"), 30 * 86_400), (Some("90m"), 5400)] {
        let mut restore = source();
        if let Some(bound) = not_older_than {
            restore["notOlderThan"] = json!(bound);
        }
        let world = restoring(&restore);
        let created = world.cluster().metadata.creation_timestamp.expect("as every object has").0;
        let bound = created - SignedDuration::from_secs(seconds);
        let recorded = world.status().bootstrap.unwrap().restore.unwrap();
        assert_eq!(recorded.not_before.map(|time| time.0), Some(bound));
        let pod: Pod = world.get(Kind::Pod, "demo-1");
        let etcd =
            pod.spec.unwrap().containers.into_iter().find(|container| container.name == "etcd").unwrap();
        let order = etcd.env.into_iter().flatten().find(|env| env.name == ORDER).unwrap().value.unwrap();
        let order: RestoreOrder = serde_json::from_str(&order).unwrap();
        assert_eq!(order.not_before, Some(bound.to_string()));
    }
}

#[test]
fn what_the_agent_reports_is_the_reason_of_the_condition() {
    for (kind, reason) in [
        (FailureKind::NotInStore, "RestoreSourceGone"),
        (FailureKind::StoreForbidden, "RestoreForbidden"),
        (FailureKind::Unfit, "RestoreRefused"),
        (FailureKind::Stale, "RestoreStale"),
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
fn what_the_container_that_fetches_reports_is_the_reason_until_it_has_fetched() {
    let answer = Answer::Failed(Failure::new(FailureKind::StoreForbidden, "what the agent says"));
    let end = json!({ "terminated": { "exitCode": 66, "message": serde_json::to_string(&answer).unwrap() } });
    let status = |state: Value, last: Value| {
        json!({
            "phase": "Pending", "podIP": "10.0.0.9",
            "initContainerStatuses": [{
                "name": "fetch", "image": "", "imageID": "", "ready": false, "started": false, "restartCount": 2,
                "state": state, "lastState": last,
            }],
            "containerStatuses": [{
                "name": "etcd", "image": "", "imageID": "", "ready": false, "started": false, "restartCount": 0,
                "state": { "waiting": { "reason": "PodInitializing" } }, "lastState": {},
            }],
        })
    };
    let mut world = restoring(&source());
    for _ in 0..3 {
        world.pass();
    }
    world.edit(Kind::Pod, "demo-1", |pod| {
        drop(pod["spec"].as_object_mut().unwrap().remove("schedulingGates"));
    });
    let mut seen = |status: Value| {
        world.edit(Kind::Pod, "demo-1", |pod| pod["status"] = status);
        let (_, reason, message) = world.condition("Bootstrapped");
        let pod = world.observe().unwrap().observation.snapshot.pods[&MemberName::new("demo-1")].clone();
        (reason, message, pod)
    };
    let crashing = status(json!({ "waiting": { "reason": "CrashLoopBackOff" } }), end.clone());
    let (reason, message, pod) = seen(crashing);
    assert_eq!(reason, "RestoreForbidden");
    assert!(message.contains("demo-1") && message.contains("what the agent says"), "{message}");
    assert!(pod.restores && !pod.fetches && !pod.runs && !pod.has_run);
    let (reason, _, pod) = seen(status(json!({ "running": {} }), end.clone()));
    assert_eq!(reason, "Bootstrapping", "the next try is under way");
    assert!(pod.fetches && pod.restore_failure.is_some());
    let (reason, _, pod) = seen(status(json!({ "terminated": { "exitCode": 0 } }), end));
    assert_eq!(reason, "Bootstrapping");
    assert_eq!((pod.fetches, pod.restore_failure), (false, None));
}

#[test]
fn what_the_guard_says_before_the_snapshot_is_fetched_is_told() {
    let mut world = restoring(&source());
    for _ in 0..3 {
        world.pass();
    }
    let report =
        json!({ "verdict": "ForeignIdentity", "message": "the volume is that of web-0" }).to_string();
    world.edit(Kind::Pod, "demo-1", |pod| {
        pod["spec"].as_object_mut().unwrap().remove("schedulingGates");
        pod["status"] = json!({
            "phase": "Pending", "podIP": "10.0.0.9",
            "initContainerStatuses": [{
                "name": "fetch", "image": "", "imageID": "", "ready": false, "started": false, "restartCount": 2,
                "state": { "waiting": { "reason": "CrashLoopBackOff" } },
                "lastState": { "terminated": { "exitCode": 64, "message": report } },
            }],
            "containerStatuses": [{
                "name": "etcd", "image": "", "imageID": "", "ready": false, "started": false, "restartCount": 0,
                "state": { "waiting": { "reason": "PodInitializing" } }, "lastState": {},
            }],
        });
    });
    let guard = world.observe().unwrap().observation.snapshot.pods[&MemberName::new("demo-1")].guard.clone();
    assert_eq!(guard, Some((GuardVerdict::ForeignIdentity, "the volume is that of web-0".to_owned())));
}

#[test]
fn a_backup_means_its_object_with_its_hash_once_it_is_complete() {
    let cluster = serde_json::from_value(json!({
        "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdCluster", "metadata": { "name": "demo" },
        "spec": spec(&json!({ "backupRef": { "name": "nightly" } })),
    }));
    let cluster = cluster.unwrap();
    assert_eq!(bootstrap::backup_to_read(&cluster).as_deref(), Some("nightly"));
    assert_eq!(cluster.needs().unwrap().backup.as_deref(), Some("nightly"));
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
    // One that stands for an object of before means that one, and no other that an operator of before this field has taken for an order.
    let of_before = |sha256: &str| {
        let mut backup = backup(complete.clone());
        backup.spec.existing = Some(ExistingObject {
            key: "k".to_owned(),
            sha256: sha256.to_owned(),
            ..ExistingObject::default()
        });
        bootstrap::by_backup(&cluster, Ok(Some(&backup))).unwrap()
    };
    assert_eq!(of_before("f00").unwrap(), found);
    assert!(of_before("f01").unwrap_err().message.contains("stands for another object"));
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
fn o02_an_encrypted_backup_without_identities_is_refused_before_anything_starts() {
    let restored = |identities: Value| {
        let restore = json!({ "backupRef": { "name": "nightly" }, "identitiesSecret": identities });
        let cluster: EtcdCluster = serde_json::from_value(json!({
            "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdCluster", "metadata": { "name": "demo" }, "spec": spec(&restore),
        }))
        .unwrap();
        let backup: EtcdBackup = serde_json::from_value(json!({
            "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdBackup", "metadata": { "name": "nightly" },
            "spec": { "source": { "cluster": "other" }, "destination": { "s3": { "bucket": "b" } } },
            "status": { "phase": "Complete", "result": { "key": "k", "storedSha256": "f00", "encrypted": true } },
        }))
        .unwrap();
        bootstrap::by_backup(&cluster, Ok(Some(&backup))).unwrap()
    };
    let failure = restored(Value::Null).unwrap_err();
    assert_eq!(failure.cause, RestoreCause::Refused);
    assert!(failure.message.contains("identitiesSecret"), "{failure:?}");
    assert!(restored(json!({ "name": "age" })).is_ok());
}

fn latest() -> Value {
    json!({ "latest": { "destination": { "s3": { "bucket": "b", "prefix": "etcd" } }, "cluster": "lost" } })
}

/// What an EtcdBackup says that has found the newest.
fn found(key: &str) -> Value {
    json!({ "phase": "Complete", "attempts": 1, "result": {
        "key": key, "storedSha256": "5".repeat(64), "mark": { "versionID": "of another store" }, "snapshotBytes": 4096, "revision": 7, "etcdVersion": "3.6.16", "clusterID": "a1",
    } })
}

#[test]
fn o02_nothing_starts_before_the_newest_backup_is_recorded_and_then_it_is_the_one_for_every_attempt() {
    let mut world = World::new(&spec(&latest()));
    world.settle();
    assert!(world.all::<Pod>(Kind::Pod).is_empty() && world.status().bootstrap.is_none());
    let made = world.etcd_backups["restored-u-1"].clone();
    assert_eq!(made.metadata.owner_references.as_ref().unwrap()[0].kind, "EtcdCluster");
    let latest = made.spec.existing.clone().unwrap().latest.unwrap();
    assert_eq!(
        (latest.cluster.as_deref(), latest.cluster_namespace.as_deref()),
        (Some("lost"), Some("default"))
    );
    assert_eq!(world.condition("Bootstrapped").1, "RestoreWaiting");
    let look = |world: &mut World, status: Value| {
        world.etcd_backups.get_mut("restored-u-1").unwrap().status = serde_json::from_value(status).unwrap();
    };
    let failed = json!({ "reason": "NoBackupFound", "message": "0 objects were seen." });
    look(&mut world, json!({ "phase": "Pending", "attempts": 3, "failedLook": failed }));
    world.settle();
    let (_, reason, text) = world.condition("Bootstrapped");
    assert_eq!(reason, "NoBackupFound");
    assert!(text.contains("0 objects were seen. It looks again by itself"), "{text}");
    assert!(world.status().bootstrap.is_none());
    // Who may create EtcdBackups may have created one of that name.
    let mut foreign = made;
    foreign.spec.destination = serde_json::from_value(json!({ "s3": { "bucket": "theirs" } })).unwrap();
    foreign.status = serde_json::from_value(found("theirs/a")).unwrap();
    let own = world.etcd_backups.insert("restored-u-1".to_owned(), foreign).unwrap();
    world.settle();
    assert!(world.status().bootstrap.is_none());
    assert!(world.condition("Bootstrapped").2.contains("is not what the spec asks for now"));
    world.etcd_backups.insert("restored-u-1".to_owned(), own);

    look(&mut world, found("lost/a"));
    assert!(world.pass(), "B1");
    let recorded = world.status().bootstrap.unwrap().restore.unwrap();
    assert_eq!((&*recorded.source.key, recorded.revision), ("lost/a", Some(7)));
    assert_eq!(recorded.source.destination.prefix(), "etcd");
    assert_eq!(recorded.source.version_id, None, "nobody asked for a version");
    let written: EtcdBackup = serde_json::from_value(json!({
        "metadata": { "name": "nightly-1", "namespace": "default" }, "status": found("lost/a"),
        "spec": { "source": { "cluster": "lost" }, "destination": { "s3": { "bucket": "b" } } },
    }))
    .unwrap();
    assert!(world.cluster().needs().unwrap().is(&written, |_, _| None), "retention keeps it meanwhile");
    // Whatever the EtcdBackup says now: the attempt has its own.
    look(&mut world, found("lost/b"));
    let order = |pod: &Pod| -> RestoreOrder {
        let containers = &pod.spec.as_ref().unwrap().containers;
        let mut env = containers.iter().flat_map(|container| container.env.iter().flatten());
        serde_json::from_str(env.find(|env| env.name == ORDER).unwrap().value.as_ref().unwrap()).unwrap()
    };
    let pods_of = |world: &mut World, attempt: u32| -> Vec<Pod> {
        for _ in 0..40 {
            let is_next = world.status().bootstrap.is_some_and(|bootstrap| bootstrap.attempt == attempt);
            if is_next && !world.all::<Pod>(Kind::Pod).is_empty() {
                break;
            }
            world.pass();
        }
        world.all(Kind::Pod)
    };
    let pods = pods_of(&mut world, 1);
    assert_eq!(pods.len(), 3);
    assert!(pods.iter().all(|pod| order(pod).source.key == "lost/a"));
    // The spec is edited: the attempt is given up (BA), and the next one begins with the same object.
    world.edit(Kind::Cluster, "demo", |cluster| cluster["spec"]["size"] = json!(1));
    let pods = pods_of(&mut world, 2);
    let bootstrap = world.status().bootstrap.unwrap();
    assert_eq!(bootstrap.attempt, 2);
    assert_eq!(bootstrap.restore.unwrap().source.key, "lost/a");
    assert_eq!(pods.len(), 1);
    assert_eq!(order(&pods[0]).source.key, "lost/a");
}

#[test]
fn o02_an_operator_that_knows_no_latest_starts_nothing() {
    let mut world = World::new(&spec(&json!({})));
    world.settle();
    assert!(world.all::<Pod>(Kind::Pod).is_empty());
    assert_eq!(world.condition("Bootstrapped").1, "RestoreRefused");
}

#[test]
fn o02_the_job_that_finds_the_newest_has_the_image_of_the_operator_and_is_taken_for_no_member() {
    let mut spec = spec(&json!({ "latest": {
        "destination": { "pvc": { "claimName": "kept" } }, "clusterID": "a1", "before": "2026-11-24T02:00:00.5Z",
    } }));
    spec["podTemplate"] =
        json!({ "metadata": { "labels": { "team": "a" } }, "spec": { "nodeSelector": { "disk": "fast" } } });
    let mut world = World::new(&spec);
    world.settle();
    assert!(
        !world.condition("Bootstrapped").2.contains("is not what the spec asks for"),
        "it is as it was ordered"
    );
    let made = &world.etcd_backups["restored-u-1"];
    let order = existing_order(made).unwrap();
    let ExistingOrder::Find(asked) = &order else { panic!("{order:?}") };
    assert_eq!(
        (asked.cluster_id.as_deref(), asked.before.as_deref()),
        (Some("a1"), Some("2026-11-24T02:00:00Z"))
    );
    let defaults = quorate_manifests::Defaults::default();
    let job = quorate_manifests::job::inspect(
        made,
        &order,
        2,
        quorate_manifests::job::Terms::new(60, Some(&world.cluster()), &defaults),
    );
    let pod = job.spec.unwrap().template;
    let labels = pod.metadata.unwrap().labels.unwrap();
    assert_eq!(labels["team"], "a", "policies of the network go by labels");
    assert!(!labels.contains_key("operator.etcd.io/cluster"), "{labels:?}");
    let pod = pod.spec.unwrap();
    assert_eq!(pod.containers[0].image, Some(quorate_manifests::DEFAULT_AGENT_IMAGE.to_owned()));
    assert_eq!(pod.automount_service_account_token, Some(false));
    assert_eq!(pod.node_selector.unwrap()["disk"], "fast");
    let claim = pod.volumes.unwrap().into_iter().find_map(|volume| volume.persistent_volume_claim).unwrap();
    assert_eq!((claim.claim_name.as_str(), claim.read_only), ("kept", Some(true)));
}
