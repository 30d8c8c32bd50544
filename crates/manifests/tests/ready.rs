//! `Ready` and `Stalled` of an EtcdCluster, in each situation, and the statuses that other programs judge: `cargo xtask test etcd` shows
//! them to the library of Flux and Helm, and to the scripts for Argo CD.

use std::fs;
use std::path::Path;

use quorate_api::{EtcdCluster, Explanation, Reason, crd};
use quorate_manifests::{Kind, NameConflict};
use quorate_model::effect::{NoSnapshot, NotRestored};
use quorate_model::restore::{RestoreCause, RestoreFailure};
use quorate_model::{MemberName, Waiting};
use quorate_status::invalid_status;
use quorate_status::trouble::with_trouble;
use serde_json::{Value, json};

use crate::world::{World, cluster, plain};

/// What tools see of a cluster, with a name for the situation.
type Case = (&'static str, Value, [&'static str; 3]);

const TRUE: &str = "True";
const FALSE: &str = "False";

fn spec(world: &mut World, field: &str, value: Value) {
    world.edit(Kind::Cluster, "demo", |cluster| {
        cluster["spec"][field] = value;
        cluster["metadata"]["generation"] = json!(2);
    });
}

fn running(change: impl FnOnce(&mut World)) -> World {
    let mut world = World::running(3);
    change(&mut world);
    world
}

/// The object with the status that a pass writes.
fn seen(world: &World) -> Value {
    let mut object = serde_json::to_value(world.cluster()).unwrap();
    object["status"] = match world.observe() {
        Ok(pass) => json!(pass.status),
        Err(invalid) => json!(invalid_status(&world.cluster(), &invalid, world.now)),
    };
    object
}

/// As the API server fills it in.
fn unseen() -> Value {
    let schema =
        crd("EtcdCluster").unwrap().spec.versions.remove(0).schema.unwrap().open_api_v3_schema.unwrap();
    let mut object = cluster(&plain(3));
    object["status"] = schema.properties.unwrap()["status"].default.clone().unwrap().0;
    object
}

fn pulls_no_image(world: &mut World) {
    world.edit(Kind::Pod, "demo-0", |pod| {
        pod["status"] = json!({
            "phase": "Pending",
            "conditions": [{ "type": "Ready", "status": "False" }],
            "containerStatuses": [{
                "name": "etcd", "image": "etcd", "imageID": "", "ready": false, "restartCount": 0,
                "state": { "waiting": { "reason": "ErrImagePull", "message": "not found" } },
            }],
        });
    });
}

fn cases() -> Vec<Case> {
    let mut bootstrap = World::new(&plain(3));
    bootstrap.pass();
    let mut wrong_image = World::new(&plain(1));
    while !wrong_image
        .objects
        .get(&(Kind::Pod, "demo-0".to_owned()))
        .is_some_and(|pod| pod["status"].is_object())
    {
        wrong_image.pass();
    }
    wrong_image.members.clear();
    pulls_no_image(&mut wrong_image);
    let mut taken = World::new(&plain(1));
    taken.conflicts.push(NameConflict { kind: Kind::Service, name: "demo".to_owned(), made_by: None });
    let hibernated = running(|world| {
        spec(world, "size", json!(0));
        world.settle();
    });
    let by_the_action = running(|world| {
        spec(world, "size", json!(0));
        world.edit(Kind::Cluster, "demo", |cluster| {
            cluster["metadata"]["annotations"] = json!({ "argocd.operator.etcd.io/wake-to-size": "3" });
        });
        world.settle();
    });
    let hibernating = running(|world| spec(world, "size", json!(0)));
    let waking = running(|world| {
        spec(world, "size", json!(0));
        world.settle();
        spec(world, "size", json!(3));
    });
    let growing = running(|world| spec(world, "size", json!(5)));
    let rollout = running(|world| spec(world, "etcdOptions", json!(["--log-level=debug"])));
    let mut edited = seen(&World::running(3));
    edited["metadata"]["generation"] = json!(2);
    let lost = |world: &mut World| world.silent.extend(["demo-1".to_owned(), "demo-2".to_owned()]);
    let deleting = running(|world| {
        world.edit(Kind::Cluster, "demo", |cluster| {
            cluster["metadata"]["deletionTimestamp"] = json!("2026-11-21T08:00:00Z");
        });
    });
    let without_service = running(|world| {
        spec(world, "paused", json!(true));
        world.remove(Kind::Service, "demo-client");
    });
    let of = |world: World| seen(&world);
    vec![
        ("unseen", unseen(), ["Unknown", "Pending", ""]),
        ("bootstrap", of(bootstrap), [FALSE, "Bootstrapping", FALSE]),
        ("wrong-image", of(wrong_image), [FALSE, "PodStuck", FALSE]),
        ("name-taken", of(taken), [FALSE, "ForeignObjects", TRUE]),
        ("running", of(World::running(3)), [TRUE, "Reconciled", FALSE]),
        ("edited-and-not-seen", edited, [TRUE, "Reconciled", FALSE]),
        ("growing", of(growing), [FALSE, "Scaling", FALSE]),
        ("rollout", of(rollout), [FALSE, "RollingOut", FALSE]),
        ("paused", of(running(|world| spec(world, "paused", json!(true)))), [TRUE, "Paused", FALSE]),
        (
            "paused-before-an-edit",
            of(running(|world| {
                spec(world, "paused", json!(true));
                spec(world, "size", json!(5));
            })),
            [FALSE, "Paused", FALSE],
        ),
        ("hibernating", of(hibernating), [FALSE, "Hibernating", FALSE]),
        ("hibernated", of(hibernated), [TRUE, "Hibernated", FALSE]),
        ("hibernated-by-the-action", of(by_the_action), [TRUE, "Hibernated", FALSE]),
        ("created-at-size-zero", of(World::new(&plain(0))), [TRUE, "Hibernated", FALSE]),
        ("waking", of(waking), [FALSE, "Waking", FALSE]),
        (
            "member-unhealthy",
            of(running(|world| world.silent.extend(["demo-1".to_owned()]))),
            [FALSE, "MemberUnhealthy", FALSE],
        ),
        ("quorum-lost", of(running(lost)), [FALSE, "QuorumLost", FALSE]),
        ("no-endpoint", of(without_service), [FALSE, "NoEndpoint", FALSE]),
        (
            "refused-spec",
            of(running(|world| spec(world, "etcdOptions", json!(["--max-learnerz=2"])))),
            [FALSE, "SpecInvalid", TRUE],
        ),
        (
            "refused-from-the-beginning",
            of(World::new(&json!({ "size": 3, "version": "latest" }))),
            [FALSE, "SpecInvalid", TRUE],
        ),
        (
            "refused-version",
            of(running(|world| spec(world, "version", json!("3.5.35")))),
            [FALSE, "VersionRefused", TRUE],
        ),
        ("deleting", of(deleting), [FALSE, "Deleting", FALSE]),
    ]
}

fn condition<'a>(object: &'a Value, type_: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array().unwrap();
    conditions.iter().find(|one| one["type"] == type_).unwrap_or(&Value::Null)
}

#[test]
fn ready_has_the_reason_that_matters_most_in_each_situation() {
    let mut wrong = Vec::new();
    for (name, object, [is, reason, stalls]) in cases() {
        let (ready, stalled) = (condition(&object, "Ready"), condition(&object, "Stalled"));
        let found =
            [&ready["status"], &ready["reason"], &stalled["status"]].map(|one| one.as_str().unwrap_or(""));
        if found != [is, reason, stalls] {
            wrong.push(format!("{name}: {ready} {stalled}"));
        }
        assert_ne!(ready["message"], "", "{name}");
        if name != "unseen" {
            let generation =
                if name == "edited-and-not-seen" { &json!(1) } else { &object["metadata"]["generation"] };
            let conditions = object["status"]["conditions"].as_array().unwrap();
            assert!(conditions.iter().all(|one| one["observedGeneration"] == *generation), "{name}");
            let summary = object["status"]["summary"].as_str().unwrap();
            assert!(!summary.is_empty() && summary.chars().count() <= 64, "{name}: {summary}");
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The other part of them comes from the other kinds: `quorate-orders`.
#[test]
fn the_statuses_that_other_programs_judge_are_those_of_this_operator() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testing/scenarios/statuses");
    for (name, mut object, _) in cases() {
        let status = object["status"].as_object_mut().unwrap();
        let shown = ["observedGeneration", "phase", "summary", "conditions"];
        status.retain(|field, _| shown.contains(&field.as_str()));
        let metadata = object["metadata"].as_object_mut().unwrap();
        metadata.retain(|field, _| {
            ["name", "namespace", "annotations", "generation", "deletionTimestamp"].contains(&field.as_str())
        });
        let text = format!("{}\n", serde_json::to_string_pretty(&object).unwrap());
        let file = folder.join(format!("etcdcluster-{name}.json"));
        if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
            fs::write(&file, &text).unwrap();
        }
        let file = fs::read_to_string(&file).unwrap_or_default();
        assert!(file == text, "{name}: run it with INSTA_UPDATE=always and read the difference. Now: {text}");
    }
}

#[test]
fn a_cluster_is_not_ready_before_its_volumes_have_the_size_of_the_spec() {
    let world = |capacity: &str, at_mount: bool| {
        running(|world| {
            spec(world, "storageSpec", json!({ "volumeSizeRequest": "20Gi" }));
            world.settle();
            for (member, capacity) in [("demo-0", "20Gi"), ("demo-1", "30Gi"), ("demo-2", capacity)] {
                world.edit(Kind::Volume, member, |volume| {
                    volume["status"]["capacity"]["storage"] = json!(capacity);
                });
            }
            if at_mount {
                world.edit(Kind::Volume, "demo-2", |volume| {
                    volume["status"]["conditions"] =
                        json!([{ "type": "FileSystemResizePending", "status": "True" }]);
                });
            }
        })
    };
    for (world, is, reason) in [
        (world("10Gi", false), FALSE, "VolumeGrowing"),
        (world("10Gi", true), TRUE, "Reconciled"),
        (world("20Gi", false), TRUE, "Reconciled"),
    ] {
        let object = seen(&world);
        let ready = condition(&object, "Ready");
        assert_eq!((&ready["status"], &ready["reason"]), (&json!(is), &json!(reason)), "{ready}");
        assert_eq!(condition(&object, "UpToDate")["status"], is);
    }
}

/// What waits for a person by its message is `Stalled`, so that no tool waits for it in vain.
#[test]
fn a_snapshot_that_is_refused_or_ambiguous_and_a_backup_that_failed_stall() {
    let why = |cause| RestoreFailure::new(cause, "why. Do this".to_owned());
    let snapshot = |cause| Waiting::NoSnapshot(NoSnapshot::Failed(why(cause)));
    let member = |cause| Waiting::NotRestored(MemberName::new("demo-0"), NotRestored::Failed(why(cause)));
    for (waiting, stalls) in [
        (snapshot(RestoreCause::NotReady), FALSE),
        (snapshot(RestoreCause::Failed), FALSE),
        (snapshot(RestoreCause::Refused), TRUE),
        (snapshot(RestoreCause::Ambiguous), TRUE),
        (member(RestoreCause::Failed), FALSE),
        (member(RestoreCause::Gone), FALSE),
        (member(RestoreCause::Refused), TRUE),
        (member(RestoreCause::Stale), TRUE),
        (Waiting::UpgradeBackupFailed("why. Do this".to_owned()), TRUE),
    ] {
        let world = World::running(1);
        let mut pass = world.observe().unwrap();
        pass.plan.waiting = vec![waiting.clone()];
        let status = world.status_again(&pass);
        let stalled = status.conditions.iter().find(|one| one.type_ == "Stalled").unwrap();
        assert_eq!(stalled.status, stalls, "{waiting:?}");
        assert_eq!(stalled.reason == "NotStalled", stalls == FALSE, "{waiting:?}");
    }
}

#[test]
fn what_nobody_has_seen_is_planned_like_what_has_no_status() {
    let plan = |object: Value| {
        let mut world = World::new(&plain(3));
        world.edit(Kind::Cluster, "demo", |cluster| cluster["status"] = object);
        let pass = world.observe().unwrap();
        (pass.plan, pass.status)
    };
    let (unseen, mut status) = plan(unseen()["status"].clone());
    let (without, fresh) = plan(Value::Null);
    assert_eq!(unseen, without);
    let ready = status.conditions.iter_mut().find(|one| one.type_ == "Ready").unwrap();
    assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("False", "Bootstrapping"));
    assert_eq!(status, fresh);
}

#[test]
fn a_failed_write_is_why_a_cluster_does_not_get_ready_unless_something_worse_is() {
    let trouble =
        Explanation::new(Reason::WriteRefused, "cannot create Pod default/demo-2: exceeded quota. Raise it");
    let after = |world: &World| {
        let cluster: EtcdCluster = serde_json::from_value(seen(world)).unwrap();
        let status = with_trouble(cluster.status.unwrap(), Some(&trouble));
        let ready = status.conditions.iter().find(|one| one.type_ == "Ready").unwrap().clone();
        (ready.status, ready.reason, status.summary.unwrap())
    };
    let growing = running(|world| spec(world, "size", json!(5)));
    let (is, reason, summary) = after(&growing);
    assert_eq!(
        (&*is, &*reason, &*summary),
        ("False", "WriteRefused", "cannot create Pod default/demo-2: exceeded quota")
    );
    assert_eq!(after(&World::running(3)).1, "Reconciled");
    let lost = running(|world| world.silent.extend(["demo-1".to_owned(), "demo-2".to_owned()]));
    assert_eq!(after(&lost).1, "QuorumLost");
    let refused = running(|world| spec(world, "version", json!("3.5.35")));
    assert_eq!(after(&refused).1, "VersionRefused");
}
