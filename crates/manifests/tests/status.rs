//! What people read in the situations that matter.

mod world;

use quorate_api::Reason;
use quorate_api::status::Phase;
use quorate_manifests::{Kind, NameConflict, events, invalid_status};
use serde_json::{Value, json};
use world::{World, plain};

fn reasons(world: &World) -> Vec<&str> {
    world.told.iter().map(|event| event.what.reason().as_str()).collect()
}

#[test]
fn bootstrap_ends_in_a_cluster_that_is_available_and_matches_its_spec() {
    let world = World::running(3);
    let status = world.status();
    assert_eq!((status.phase, status.ready_replicas, status.member_count), (Some(Phase::Running), 3, 3));
    insta::assert_yaml_snapshot!("running", status);
    let told: Vec<String> = world
        .told
        .iter()
        .map(|event| format!("{} {}", if event.warning { "Warning" } else { "Normal" }, event.what))
        .collect();
    insta::assert_yaml_snapshot!("bootstrap_events", told);
}

#[test]
fn nothing_changes_when_nothing_changes() {
    let mut worlds = vec![World::running(3), World::running(4)];
    let mut fresh = World::new(&plain(3));
    worlds.extend((0..4).map(|_| {
        fresh.pass();
        let mut copy = World::new(&plain(3));
        copy.objects.clone_from(&fresh.objects);
        copy.members.clone_from(&fresh.members);
        copy.now = fresh.now;
        copy
    }));
    let mut sick = World::running(3);
    sick.silent.insert("demo-1".to_owned());
    worlds.push(sick);
    let mut lost = World::running(3);
    lost.silent.extend(["demo-1".to_owned(), "demo-2".to_owned()]);
    worlds.push(lost);
    for world in worlds {
        let once = world.look().unwrap();
        let again = world.tell_again(&once);
        assert_eq!(serde_json::to_value(&again).unwrap(), serde_json::to_value(&once.status).unwrap());
        assert_eq!(events(&once.status, &again), []);
    }
}

#[test]
fn a_sick_member_is_named_with_the_cause_and_the_time() {
    let mut world = World::running(3);
    world.silent.insert("demo-1".to_owned());
    let fell_sick = world.now;
    world.pass();
    world.pass();
    let status = world.status();
    assert_eq!(status.phase, Some(Phase::Degraded));
    let member = &status.members[1];
    assert_eq!(member.reason.as_deref(), Some("it does not answer within 2s"));
    assert!(!member.healthy && status.members[0].healthy && status.members[0].is_leader);
    assert_eq!(member.since.as_ref().unwrap().0.as_millisecond(), fell_sick.0);
    let (holds, reason, message) = world.condition("Degraded");
    assert_eq!(
        (&*holds, &*reason, &*message),
        ("True", "MemberUnhealthy", "demo-1: it does not answer within 2s")
    );
    assert_eq!(world.condition("Available").0, "True");
    let warnings: Vec<&str> =
        world.told.iter().filter(|event| event.warning).map(|event| event.what.message()).collect();
    assert_eq!(warnings, ["demo-1: it does not answer within 2s"]);
    world.silent.clear();
    world.settle();
    assert_eq!(world.status().phase, Some(Phase::Running));
    assert_eq!(reasons(&world).last(), Some(&"MemberHealthy"));
}

#[test]
fn a_lost_quorum_is_told_with_what_a_human_can_do() {
    let mut world = World::running(3);
    world.silent.extend(["demo-1".to_owned(), "demo-2".to_owned()]);
    world.pass();
    assert_eq!(world.status().phase, Some(Phase::Unavailable));
    for type_ in ["Available", "QuorumAvailable"] {
        let (holds, reason, message) = world.condition(type_);
        assert_eq!((&*holds, &*reason), ("False", "QuorumLost"));
        assert!(message.starts_with("1 of 3 voters answer, 2 are needed"), "{message}");
        assert!(
            message.contains("demo-2: it does not answer") && message.contains("Do not delete the volumes"),
            "{message}"
        );
    }
}

#[test]
fn a_lost_pod_is_told_as_restarted_on_its_volume() {
    let mut world = World::running(3);
    world.remove(Kind::Pod, "demo-2");
    let pass = world.look().unwrap();
    assert_eq!(
        pass.status.members[2].reason.as_deref(),
        Some("its Pod is gone, and is restarted on its volume")
    );
    assert_eq!(world.condition("Progressing").1, "Restarting");
    world.settle();
    assert_eq!(world.status().phase, Some(Phase::Running));
}

#[test]
fn zero_and_wake_keep_the_members_and_say_so() {
    let mut world = World::running(3);
    let before = world.status();
    world.edit(Kind::Cluster, "demo", |cluster| cluster["spec"]["size"] = json!(0));
    world.settle();
    let asleep = world.status();
    assert_eq!(
        (asleep.phase, asleep.current_replicas, asleep.ready_replicas),
        (Some(Phase::Hibernated), 0, 0)
    );
    assert_eq!(world.condition("Available").1, "Hibernated");
    assert_eq!(world.condition("UpToDate").0, "True");
    world.edit(Kind::Cluster, "demo", |cluster| cluster["spec"]["size"] = json!(3));
    world.pass();
    assert_eq!(world.status().phase, Some(Phase::Waking));
    world.settle();
    let awake = world.status();
    assert_eq!(awake.phase, Some(Phase::Running));
    let ids = |status: &quorate_api::EtcdClusterStatus| -> Vec<Option<String>> {
        status.members.iter().map(|member| member.id.clone()).collect()
    };
    assert_eq!(ids(&awake), ids(&before));
    assert!(world.told.iter().all(|event| !event.warning), "{:#?}", world.told);
}

#[test]
fn growth_and_shrinking_are_scaling_and_end_as_wanted() {
    let mut world = World::running(3);
    for size in [5, 1, 4] {
        world.edit(Kind::Cluster, "demo", |cluster| cluster["spec"]["size"] = json!(size));
        world.pass();
        assert_eq!(world.condition("Progressing").1, "Scaling", "to {size}");
        assert_eq!(world.condition("UpToDate").1, "Scaling", "to {size}");
        world.settle();
        assert_eq!(world.status().phase, Some(Phase::Running));
        assert_eq!(world.status().member_count, size);
    }
    let (_, _, message) = world.condition("Available");
    assert_eq!(message, "4 of 4 voters are healthy. 4 members survive as many losses as 3: use an odd size");
}

#[test]
fn members_that_share_a_node_are_named() {
    let mut world = World::running(3);
    for pod in ["demo-0", "demo-2"] {
        world.edit(Kind::Pod, pod, |pod| pod["spec"]["nodeName"] = json!("n1"));
    }
    assert_eq!(world.condition("Available").2, "3 of 3 voters are healthy. demo-0 and demo-2 share node n1");
}

#[test]
fn data_of_an_earlier_cluster_block_until_a_human_decides_and_are_served_after() {
    let mut world = World::running(3);
    let volumes: Vec<((Kind, String), Value)> = world
        .objects
        .iter()
        .filter(|((kind, _), _)| *kind == Kind::Volume)
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let members = world.members.clone();
    world = World::new(&plain(3));
    world.edit(Kind::Cluster, "demo", |cluster| cluster["metadata"]["uid"] = json!("u-2"));
    world.objects.extend(volumes);
    world.members = members;
    world.settle();
    assert_eq!(world.status().phase, Some(Phase::Blocked));
    let (holds, _, message) = world.condition("ExistingData");
    assert!(holds == "True" && message.contains("operator.etcd.io/adopt=c1"), "{message}");
    assert_eq!(world.condition("Progressing").1, "ExistingData");
    assert_eq!(
        reasons(&world).iter().filter(|reason| **reason == "ExistingData").count(),
        1,
        "{:?}",
        world.told
    );
    world.edit(Kind::Cluster, "demo", |cluster| {
        cluster["metadata"]["annotations"] = json!({ "operator.etcd.io/adopt": "c1" });
    });
    world.settle();
    assert_eq!(world.status().phase, Some(Phase::Running));
    assert_eq!(world.condition("ExistingData").0, "False");
    assert_eq!(world.status().cluster_token.as_deref(), Some("u-1-1"), "the data keep their token");
}

#[test]
fn an_edit_of_what_shapes_pods_is_rolled_out_and_told() {
    let mut world = World::running(3);
    world
        .edit(Kind::Cluster, "demo", |cluster| cluster["spec"]["etcdOptions"] = json!(["--log-level=debug"]));
    world.pass();
    let (holds, reason, message) = world.condition("UpToDate");
    assert_eq!((&*holds, &*reason), ("False", "RollingOut"), "{message}");
    assert_eq!(world.condition("Progressing").1, "RollingOut");
    world.settle();
    assert_eq!(world.condition("UpToDate").0, "True");
    for pod in world.all::<k8s_openapi::api::core::v1::Pod>(Kind::Pod) {
        let args = pod.spec.unwrap().containers.remove(0).args.unwrap();
        assert!(args.iter().any(|arg| arg == "--log-level=debug"));
    }
}

#[test]
fn a_bad_edit_of_a_running_cluster_is_told_and_the_cluster_is_still_looked_after() {
    let mut world = World::running(3);
    world.edit(Kind::Cluster, "demo", |cluster| cluster["spec"]["etcdOptions"] = json!(["--max-learnerz=2"]));
    world.remove(Kind::Pod, "demo-1");
    world.settle();
    let (holds, reason, message) = world.condition("UpToDate");
    assert_eq!((&*holds, &*reason), ("False", "SpecInvalid"));
    assert!(message.contains("did you mean --max-learners?"), "{message}");
    assert_eq!(world.status().ready_replicas, 3, "the lost Pod was made again");
    assert!(reasons(&world).contains(&"SpecInvalid"));
}

#[test]
fn a_bad_spec_of_a_new_cluster_blocks_it_until_it_is_edited() {
    let mut world = World::new(&json!({ "size": 3, "version": "latest" }));
    let invalid = world.look().err().unwrap();
    let status = invalid_status(&world.cluster(), &invalid, world.now);
    assert_eq!(status.phase, Some(Phase::Blocked));
    assert!(status.conditions.iter().all(|condition| condition.reason == "SpecInvalid"));
    assert!(status.conditions[0].message.contains("spec.version"), "{}", status.conditions[0].message);
    world.edit(Kind::Cluster, "demo", |cluster| {
        cluster["status"] = serde_json::to_value(&status).unwrap();
        cluster["spec"] = plain(1);
    });
    world.settle();
    assert_eq!(world.status().phase, Some(Phase::Running));
}

#[test]
fn a_foreign_object_blocks_a_new_cluster_and_only_as_long_as_it_exists() {
    let mut world = World::new(&plain(1));
    world.conflicts.push(NameConflict { kind: Kind::Service, name: "demo".to_owned() });
    world.pass();
    assert_eq!(world.status().phase, Some(Phase::Blocked));
    let (_, reason, message) = world.condition("Progressing");
    assert!(reason == "ForeignObjects" && message.contains("Service default/demo"), "{message}");
    assert!(world.told.iter().any(|event| event.warning && event.what.reason() == Reason::ForeignObjects));
    world.conflicts.clear();
    world.settle();
    assert_eq!(world.status().phase, Some(Phase::Running));
}

#[test]
fn a_stuck_first_pod_is_told_as_degraded_with_the_cause() {
    let mut world = World::new(&plain(1));
    while !world.objects.get(&(Kind::Pod, "demo-0".to_owned())).is_some_and(|pod| pod["status"].is_object()) {
        world.pass();
    }
    world.members.clear();
    world.edit(Kind::Pod, "demo-0", |pod| {
        pod["status"] = json!({
            "phase": "Pending",
            "containerStatuses": [{
                "name": "etcd", "image": "etcd:v9", "imageID": "", "ready": false, "restartCount": 0,
                "state": { "waiting": { "reason": "ImagePullBackOff", "message": "Back-off 20s" } },
            }],
        });
    });
    let (holds, reason, message) = world.condition("Degraded");
    assert_eq!((&*holds, &*reason), ("True", "PodStuck"));
    assert!(message.contains("the image etcd:v9 of etcd cannot be pulled"), "{message}");
    assert!(world.condition("Progressing").2.contains("etcd:v9"));
}

#[test]
fn deletion_is_told_and_nobody_is_called_sick_for_it() {
    let mut world = World::running(3);
    world.edit(Kind::Cluster, "demo", |cluster| {
        cluster["metadata"]["deletionTimestamp"] = json!("2026-11-21T08:00:00Z");
    });
    world.pass();
    world.pass();
    assert_eq!(world.status().phase, Some(Phase::Deleting));
    assert_eq!(world.condition("Progressing").1, "Deleting");
    assert_eq!(world.condition("Degraded").1, "Deleting");
    assert!(world.told.iter().all(|event| !event.warning), "{:#?}", world.told);
}

#[test]
fn a_paused_cluster_says_so_and_still_names_the_sick() {
    let mut world = World::running(3);
    world.edit(Kind::Cluster, "demo", |cluster| cluster["spec"]["paused"] = json!(true));
    world.remove(Kind::Pod, "demo-2");
    world.settle();
    let (holds, reason, _) = world.condition("Progressing");
    assert_eq!((&*holds, &*reason), ("False", "Paused"));
    assert_eq!(world.condition("Degraded").2, "demo-2: it has no Pod");
}

#[test]
fn a_cluster_of_two_ids_is_split_and_nothing_else_is_claimed() {
    let mut world = World::running(3);
    world.edit(Kind::Cluster, "demo", |cluster| cluster["status"]["clusterID"] = json!("dead"));
    world.pass();
    assert_eq!(world.status().phase, Some(Phase::Blocked));
    for type_ in ["Available", "SplitBrain", "Progressing"] {
        assert_eq!(world.condition(type_).1, "SplitBrain", "{type_}");
    }
    assert_eq!(world.condition("SplitBrain").0, "True");
}

#[test]
fn a_wake_that_does_not_come_about_is_told_after_a_while() {
    let mut world = World::running(3);
    world.edit(Kind::Cluster, "demo", |cluster| cluster["spec"]["size"] = json!(0));
    world.settle();
    world.silent.extend(["demo-1".to_owned(), "demo-2".to_owned()]);
    world.edit(Kind::Cluster, "demo", |cluster| cluster["spec"]["size"] = json!(3));
    for _ in 0..10 {
        world.pass();
    }
    assert_eq!(world.condition("Available").1, "Waking");
    for _ in 0..120 {
        world.pass();
    }
    assert_eq!(world.status().phase, Some(Phase::Unavailable));
    assert_eq!(world.condition("Available").1, "QuorumLost");
}
