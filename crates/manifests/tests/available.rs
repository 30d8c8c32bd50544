//! What `Available`, and the version in status, mean to somebody who waits for them.

use crate::world::{World, plain};
use quorate_api::{Reason, keys};
use quorate_manifests::Kind;
use quorate_model::snapshot::{Alarm, AlarmKind, Database, NearlyUsedUp};
use quorate_model::{MemberId, MemberName, Version};
use serde_json::json;

fn set_ready(world: &mut World, pods: &[&str], ready: bool) {
    for pod in pods {
        world.edit(Kind::Pod, pod, |pod| {
            pod["status"]["conditions"][0]["status"] = json!(if ready { "True" } else { "False" });
        });
    }
}

#[test]
fn t01_a_cluster_of_which_no_pod_is_ready_is_not_available_though_a_quorum_serves() {
    let mut world = World::running(3);
    set_ready(&mut world, &["demo-0", "demo-1", "demo-2"], false);
    let (holds, reason, message) = world.condition("Available");
    assert_eq!((&*holds, &*reason), ("False", "NoEndpoint"));
    assert!(message.starts_with("Service default/demo-client has no endpoint"), "{message}");
    assert!(message.contains("demo-0") && message.contains("kubectl describe pods"), "{message}");
    assert_eq!(world.condition("QuorumAvailable").0, "True");
    world.pass();
    let warned = world.events.iter().any(|event| event.warning && event.what.reason() == Reason::NoEndpoint);
    assert!(warned, "{:?}", world.events);
    set_ready(&mut world, &["demo-1"], true);
    assert_eq!(world.condition("Available").0, "True", "one endpoint serves");
}

#[test]
fn t01_a_cluster_whose_client_service_is_missing_or_selects_no_pod_is_not_available() {
    let mut world = World::running(3);
    world.edit(Kind::Service, "demo-client", |service| service["spec"]["selector"]["tier"] = json!("x"));
    let (holds, reason, message) = world.condition("Available");
    assert_eq!((&*holds, &*reason), ("False", "NoEndpoint"), "{message}");
    world.remove(Kind::Service, "demo-client");
    let (holds, reason, message) = world.condition("Available");
    assert_eq!((&*holds, &*reason), ("False", "NoEndpoint"));
    assert!(message.starts_with("Service default/demo-client does not exist"), "{message}");
    world.settle();
    assert_eq!(world.condition("Available").0, "True", "it is created again");
}

#[test]
fn t01_an_endpoint_whose_member_follows_no_leader_does_not_make_a_cluster_available() {
    let mut world = World::running(3);
    set_ready(&mut world, &["demo-1", "demo-2"], false);
    world.silent.insert("demo-0".to_owned());
    let (holds, reason, message) = world.condition("Available");
    assert_eq!((&*holds, &*reason), ("False", "NoEndpoint"), "{message}");
}

#[test]
fn m05_available_names_the_endpoints_that_do_not_serve_and_the_members_that_clients_are_led_away_from() {
    let mut world = World::running(3);
    let (_, _, message) = world.condition("Available");
    assert!(!message.contains("endpoint") && !message.contains("sends no clients"), "{message}");
    world.silent.insert("demo-2".to_owned());
    let (holds, _, message) = world.condition("Available");
    assert!(
        holds == "True" && message.contains("demo-2 is an endpoint of Service default/demo-client"),
        "{message}"
    );
    world.edit(Kind::Pod, "demo-2", |pod| {
        pod["metadata"]["labels"].as_object_mut().unwrap().remove(keys::SERVES);
        pod["metadata"]["annotations"][keys::SERVED_UNTIL] = json!("2026-01-01T00:00:00Z");
    });
    let (holds, _, message) = world.condition("Available");
    assert!(
        holds == "True" && message.contains("sends no clients to demo-2 until it serves again"),
        "{message}"
    );
    assert!(!message.contains("is an endpoint"), "{message}");
}

#[test]
fn m05_a_pod_is_led_to_from_its_creation_and_nothing_of_the_label_is_in_its_revision() {
    let mut world = World::running(3);
    let serves = |world: &World, pod: &str| {
        let pod = &world.objects[&(Kind::Pod, pod.to_owned())];
        pod["metadata"]["labels"][keys::SERVES] == keys::SERVES_VALUE
    };
    assert!(serves(&world, "demo-0"), "of a new cluster");
    let revision = |world: &World| {
        world.objects[&(Kind::Pod, "demo-1".to_owned())]["metadata"]["annotations"][keys::REVISION].clone()
    };
    let before = revision(&world);
    world.remove(Kind::Pod, "demo-1");
    world.settle();
    assert!(serves(&world, "demo-1"), "it was created again");
    assert_eq!(revision(&world), before);
    world.edit(Kind::Pod, "demo-1", |pod| {
        pod["metadata"]["labels"].as_object_mut().unwrap().remove(keys::SERVES);
    });
    world.settle();
    assert!(serves(&world, "demo-1"), "somebody took it off");
    assert_eq!(revision(&world), before);
}

#[test]
fn t01_a_new_cluster_is_available_only_when_a_client_can_connect() {
    let mut world = World::new(&plain(3));
    for _ in 0..200 {
        let endpoint = world.objects.contains_key(&(Kind::Service, "demo-client".to_owned()));
        let status = world.status();
        let available = status.conditions.iter().any(|one| one.type_ == "Available" && one.status == "True");
        assert!(endpoint || !available, "Available without the client Service");
        if !world.pass() {
            break;
        }
    }
    assert_eq!(world.condition("Available").0, "True");
    assert!(world.events.iter().all(|event| !event.warning), "{:#?}", world.events);
}

#[test]
fn t01_an_alarm_refuses_writes_also_when_its_member_is_gone() {
    for (kind, name) in [(AlarmKind::NoSpace, "NOSPACE"), (AlarmKind::Corrupt, "CORRUPT")] {
        let mut world = World::running(3);
        world.alarms = vec![Alarm { member: MemberId(0xdead), kind }];
        let (holds, reason, message) = world.condition("Available");
        assert_eq!((&*holds, &*reason), ("False", "AlarmActive"));
        assert!(message.contains(name) && message.contains("dead"), "{message}");
        world.pass();
        assert!(world.events.iter().any(|event| event.warning && event.what.reason() == Reason::AlarmActive));
        world.alarms.clear();
        assert_eq!(world.condition("Available").0, "True");
    }
}

/// etcd's applier refuses under CORRUPT, and reads do not pass it.
#[test]
fn m31_under_corrupt_reads_are_served_and_may_be_wrong_and_the_message_says_so() {
    let mut world = World::running(3);
    world.alarms = vec![Alarm { member: MemberId(0xdead), kind: AlarmKind::Corrupt }];
    let (_, _, message) = world.condition("Available");
    assert!(message.starts_with("etcd refuses writes: "), "{message}");
    assert!(message.contains("reads are served, so that member may answer with wrong data"), "{message}");
}

#[test]
fn t03_the_current_version_is_the_new_one_only_when_every_member_runs_it() {
    let mut world = World::running(3);
    let version = |world: &World| world.observe().unwrap().status.current_version;
    let new = Version::new(3, 6, 17);
    world.versions.extend([("demo-0".to_owned(), new), ("demo-1".to_owned(), new)]);
    world.silent.insert("demo-2".to_owned());
    assert_eq!(version(&world).as_deref(), Some("3.6.16"), "demo-2 restarts and ran 3.6.16 before");
    world.silent.clear();
    world.versions.insert("demo-2".to_owned(), new);
    assert_eq!(version(&world).as_deref(), Some("3.6.17"));
}

#[test]
fn a_cluster_of_one_or_two_says_that_a_drain_means_an_outage() {
    for size in [1, 2] {
        let mut world = World::running(size);
        let (holds, _, message) = world.condition("Available");
        assert!(holds == "True" && message.contains("A drain of a node is an outage"), "{message}");
        assert!(message.contains("one eviction at a time is admitted"), "{message}");
        world.edit(Kind::Cluster, "demo", |cluster| {
            cluster["spec"]["disruption"] = json!({ "podDisruptionBudget": "Quorum" });
        });
        let (_, _, message) = world.condition("Available");
        assert!(message.contains("A drain of a node waits"), "{message}");
    }
    let (_, _, message) = World::running(3).condition("Available");
    assert!(!message.contains("drain"), "{message}");
}

/// A world whose volumes have this capacity, and whose members' files are this full, in percent of the quota.
fn filled(spec: &serde_json::Value, capacity: &str, quota: u64, size: u64, in_use: u64) -> World {
    let mut world = World::new(spec);
    world.settle();
    for member in ["demo-0", "demo-1", "demo-2"] {
        world.edit(Kind::Volume, member, |volume| volume["status"]["capacity"]["storage"] = json!(capacity));
        let (size, in_use) = (quota / 100 * size, quota / 100 * in_use);
        world.databases.insert(member.to_owned(), Database { size, in_use, quota: Some(quota) });
    }
    world
}

#[test]
fn m37_where_a_full_database_has_no_room_for_the_copy_of_a_defragmentation_the_message_says_so_and_what_to_do()
 {
    let message = |mut world: World| {
        let id = world.members[0].id;
        world.alarms = vec![Alarm { member: id, kind: AlarmKind::NoSpace }];
        world.condition("Available").2
    };
    let quota = 614 << 20;
    let mut small = plain(3);
    small["storageSpec"] = json!({ "volumeSizeRequest": "1Gi" });
    let no_room = message(filled(&small, "1Gi", quota, 100, 80));
    assert!(!no_room.contains("The operator defragments"), "{no_room}");
    for what in [
        "are not defragmented",
        "volumeSizeRequest to 1.8Gi",
        "operator.etcd.io/replace-member=",
        "Reads are served",
    ] {
        assert!(no_room.contains(what), "{what}: {no_room}");
    }
    let room = message(filled(&plain(3), "2Gi", 716 << 20, 100, 80));
    assert!(room.contains("The operator defragments the members that are full"), "the default: {room}");
}

#[test]
fn m37_a_database_at_four_fifths_of_its_quota_is_reported_with_what_to_do() {
    let quota = 716 << 20;
    let message = |size, in_use| {
        let world = filled(&plain(3), "2Gi", quota, size, in_use);
        let (holds, _, message) = world.condition("Available");
        assert_eq!(holds, "True");
        message
    };
    assert!(!message(79, 79).contains("four fifths"), "{}", message(79, 79));
    let used = message(81, 81);
    assert!(used.contains("demo-0, demo-1 and demo-2 are at four fifths of the quota of 716Mi"), "{used}");
    assert!(used.contains("Delete keys"), "{used}");
    let free = message(81, 10);
    assert!(free.contains("etcdctl defrag"), "{free}");
}

#[test]
fn m37_a_quota_that_leaves_no_room_for_a_second_copy_is_followed_and_reported_with_the_volume_it_needs() {
    let mut spec = plain(3);
    spec["storageSpec"] = json!({ "volumeSizeRequest": "10Gi" });
    let message =
        |spec: &serde_json::Value, capacity| filled(spec, capacity, 1 << 30, 1, 1).condition("Available");
    assert!(!message(&spec, "10Gi").2.contains("second copy"), "{:?}", message(&spec, "10Gi"));
    spec["etcd"] = json!({ "quotaBackendBytes": "6Gi" });
    let (holds, _, text) = message(&spec, "10Gi");
    assert_eq!(holds, "True");
    assert!(text.contains("the quota of 6Gi leaves a volume of 10Gi no room"), "{text}");
    assert!(text.contains("volumeSizeRequest to 13.2Gi"), "{text}");
    assert!(!message(&spec, "14Gi").2.contains("second copy"), "the volumes have grown");
}

#[test]
fn m02_a_volume_of_which_little_is_free_is_reported_before_etcd_ends_of_it() {
    let message = |low: &[(&str, u64)], size| {
        let mut world = filled(&plain(3), "2Gi", 716 << 20, size, size);
        for (member, mib) in low {
            let volume = NearlyUsedUp { below: mib << 20, all: 1946 << 20 };
            world.nearly_used_up.insert(MemberName::new(*member), volume);
        }
        let (holds, _, message) = world.condition("Available");
        assert_eq!(holds, "True");
        message
    };
    assert!(!message(&[], 10).contains("Little is free"), "{}", message(&[], 10));
    let one = message(&[("demo-1", 128)], 10);
    assert!(one.contains("Little is free on the volume of demo-1 (less than 128Mi of 2Gi)"), "{one}");
    assert!(
        one.contains("Raise spec.storageSpec.volumeSizeRequest")
            && one.contains("operator.etcd.io/replace-member="),
        "{one}"
    );
    assert!(!one.contains("second copy"), "71 MiB and less: {one}");
    let two = message(&[("demo-1", 128), ("demo-2", 256)], 50);
    assert!(
        two.contains("demo-1 (less than 128Mi of 2Gi) and demo-2 (less than 256Mi of 2Gi), and etcd ends"),
        "{two}"
    );
    assert!(two.contains("neither a snapshot of the leader nor a defragmentation"), "{two}");
    assert!(!message(&[("demo-7", 128)], 10).contains("Little is free"), "no member");
}

/// A defragmentation copies what is in use. The leader sends its file as it is.
#[test]
fn m02_a_snapshot_and_a_defragmentation_are_judged_by_what_each_writes() {
    let message = |size, in_use| {
        let mut world = filled(&plain(3), "2Gi", 716 << 20, size, in_use);
        let volume = NearlyUsedUp { below: 256 << 20, all: 1946 << 20 };
        world.nearly_used_up.insert(MemberName::new("demo-2"), volume);
        world.condition("Available").2
    };
    let loose = message(50, 10);
    assert!(loose.contains("A snapshot of the leader does not fit any more"), "{loose}");
    assert!(!loose.contains("defragmentation makes does not fit"), "{loose}");
    let dense = message(35, 34);
    assert!(dense.contains("The copy that a defragmentation makes does not fit any more"), "{dense}");
    assert!(!dense.contains("snapshot of the leader"), "{dense}");
}

/// Seen in charts' values: the log of such a member grows until the volume is full.
#[test]
fn a_log_without_a_bound_is_reported() {
    let message = |options: serde_json::Value| {
        let mut spec = plain(3);
        spec["etcdOptions"] = options;
        filled(&spec, "2Gi", 1 << 30, 1, 1).condition("Available").2
    };
    assert!(!message(json!([])).contains("--max-wals"), "{}", message(json!([])));
    assert!(!message(json!(["--max-wals=10"])).contains("--max-wals"));
    assert!(
        message(json!(["--max-wals=0"])).contains("remove it from spec.etcdOptions"),
        "{}",
        message(json!(["--max-wals=0"]))
    );
}
