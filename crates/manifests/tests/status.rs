//! Status and events in the situations that users meet.

use std::collections::BTreeMap;

use crate::world::{World, plain};
use quorate_api::Reason;
use quorate_api::status::Phase;
use quorate_manifests::{Kind, NameConflict};
use quorate_model::auth::{Clients, Marked, Orphan, SeenAuth};
use quorate_model::snapshot::{DefragmentAttempt, Hashes, KeysHash};
use quorate_model::{MemberName, Revision, Span};
use quorate_status::{events, invalid_status};
use serde_json::{Value, json};

fn reasons(world: &World) -> Vec<&str> {
    world.events.iter().map(|event| event.what.reason().as_str()).collect()
}

#[test]
fn bootstrap_ends_in_a_cluster_that_is_available_and_matches_its_spec() {
    let world = World::running(3);
    let status = world.status();
    assert_eq!((status.phase, status.ready_replicas, status.member_count), (Some(Phase::Running), 3, 3));
    insta::assert_yaml_snapshot!("running", status);
    let lines: Vec<String> = world
        .events
        .iter()
        .map(|event| format!("{} {}", if event.warning { "Warning" } else { "Normal" }, event.what))
        .collect();
    insta::assert_yaml_snapshot!("bootstrap_events", lines);
}

#[test]
fn an_unchanged_observation_gives_the_same_status_and_no_events() {
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
    let mut unhealthy = World::running(3);
    unhealthy.silent.insert("demo-1".to_owned());
    worlds.push(unhealthy);
    let mut lost = World::running(3);
    lost.silent.extend(["demo-1".to_owned(), "demo-2".to_owned()]);
    worlds.push(lost);
    for world in worlds {
        let once = world.observe().unwrap();
        let again = world.status_again(&once);
        assert_eq!(serde_json::to_value(&again).unwrap(), serde_json::to_value(&once.status).unwrap());
        assert_eq!(events(&once.status, &again), []);
    }
}

#[test]
fn an_unhealthy_member_is_reported_with_the_cause_and_the_time() {
    let mut world = World::running(3);
    world.silent.insert("demo-1".to_owned());
    let since = world.now;
    world.pass();
    world.pass();
    let status = world.status();
    assert_eq!(status.phase, Some(Phase::Degraded));
    let member = &status.members[1];
    assert_eq!(member.reason.as_deref(), Some("it does not answer within 2s"));
    assert!(!member.healthy && status.members[0].healthy && status.members[0].is_leader);
    assert_eq!(member.since.as_ref().unwrap().0.as_millisecond(), since.0);
    let (holds, reason, message) = world.condition("Degraded");
    assert_eq!(
        (&*holds, &*reason, &*message),
        ("True", "MemberUnhealthy", "demo-1: it does not answer within 2s")
    );
    assert_eq!(world.condition("Available").0, "True");
    let warnings: Vec<&str> =
        world.events.iter().filter(|event| event.warning).map(|event| event.what.message()).collect();
    assert_eq!(warnings, ["demo-1: it does not answer within 2s"]);
    world.silent.clear();
    world.settle();
    assert_eq!(world.status().phase, Some(Phase::Running));
    assert_eq!(reasons(&world).last(), Some(&"MemberHealthy"));
}

#[test]
fn s06_auth_that_refuses_the_operator_is_reported_as_that_and_not_as_a_lost_quorum() {
    let mut world = World::running(3);
    world.auth_without_user = true;
    world.pass();
    for type_ in ["Available", "QuorumAvailable"] {
        let (holds, reason, message) = world.condition(type_);
        assert_eq!((&*holds, &*reason), ("Unknown", "AuthEnabled"), "{type_}: {message}");
        for what in [
            "3 of 3 voters run and answer \"refused: etcdserver: user name is empty\"",
            "3 of 3 are ready",
            "no rollout",
            "etcdctl --user root auth disable",
        ] {
            assert!(message.contains(what), "{what}: {message}");
        }
    }
    assert_eq!(world.condition("Progressing").1, "AuthEnabled");
    let (holds, reason, message) = world.condition("AuthReady");
    assert_eq!((&*holds, &*reason), ("False", "NotOurs"), "{message}");
    assert!(message.contains("etcdctl --user root auth disable"), "{message}");
    let (_, _, degraded) = world.condition("Degraded");
    assert!(degraded.contains("auth refuses the operator"), "{degraded}");
    // For longer than a lost quorum lasts before its recovery is named.
    world.now = world.now + Span::seconds(3600);
    world.pass();
    for type_ in ["Available", "QuorumAvailable", "Progressing", "Degraded"] {
        let (_, _, message) = world.condition(type_);
        for never in ["recover-quorum", "Bring back the nodes", "quorum lost", "volumes of"] {
            assert!(!message.contains(never), "{type_}: {message}");
        }
    }
    // One of three that answers so does not make a quorum: the others are missing.
    world.silent.extend(["demo-1".to_owned(), "demo-2".to_owned()]);
    world.pass();
    assert_eq!(world.condition("Available").1, "QuorumLost");
    world.silent.clear();
    world.auth_without_user = false;
    world.pass();
    assert_eq!(world.condition("Available").0, "True");
}

#[test]
fn auth_of_a_person_is_reported_with_the_command_that_hands_it_over_until_it_is_off() {
    let mut world = World::new(&json!({ "size": 1, "version": "3.6.16" }));
    world.settle();
    let has_condition =
        |world: &World| world.status().conditions.iter().any(|condition| condition.type_ == "AuthReady");
    assert!(!has_condition(&world));
    for (clients, stalled) in [(Clients::NoUser, "True"), (Clients::Root, "False")] {
        world.auth = Some(SeenAuth { clients, ..auth_on(&world) });
        world.pass();
        let (holds, reason, message) = world.condition("AuthReady");
        assert_eq!((&*holds, &*reason), ("False", "NotOurs"), "{message}");
        for what in [r#"-p '{"spec":{"auth":{"enabled":true}}}'"#, "etcdctl --user root auth disable"] {
            assert!(message.contains(what), "{what}: {message}");
        }
        assert_eq!(message.contains("is refused"), clients == Clients::NoUser, "{message}");
        assert_eq!(world.condition("Stalled").0, stalled, "where nothing is refused, nothing waits");
        assert_eq!(world.condition("Available").0, "True");
    }
    let warned = world.events.iter().filter(|event| event.warning).map(|event| event.what.reason());
    assert_eq!(warned.collect::<Vec<_>>(), [Reason::NotOurs], "once");
    world.auth = world.auth.take().map(|seen| SeenAuth { enabled: false, ..seen });
    world.pass();
    assert!(!has_condition(&world));
}

/// Auth as it is seen while it is on.
fn auth_on(world: &World) -> SeenAuth {
    SeenAuth::new(world.now, true)
}

/// A cluster whose spec and record have auth on.
fn with_auth() -> World {
    let mut world = World::new(&json!({ "size": 1, "version": "3.6.16", "auth": { "enabled": true } }));
    world.settle();
    world.edit(Kind::Cluster, "demo", |cluster| cluster["status"]["auth"] = json!({ "stage": "On" }));
    world.auth = Some(auth_on(&world));
    world.pass();
    world
}

#[test]
fn users_of_etcd_whose_etcdusers_are_gone_are_named_and_those_that_stay_with_the_commands_that_delete_them() {
    let mut world = with_auth();
    let (holds, reason, message) = world.condition("AuthReady");
    assert_eq!((&*holds, &*reason), ("True", "AuthOn"), "{message}");
    world.events.clear();
    let user = |name: &str| Marked::new(name, "01234567");
    let orphans: BTreeMap<Marked, Orphan> = [
        (user("billing"), Orphan::Confirmed),
        (user("shop"), Orphan::Unconfirmed),
        (user("stays"), Orphan::Retained),
    ]
    .into();
    let says = |world: &mut World, texts: &[&str]| {
        world.auth = Some(SeenAuth { orphans: orphans.clone(), ..auth_on(world) });
        world.pass();
        let (holds, reason, message) = world.condition("AuthReady");
        assert_eq!((&*holds, &*reason), ("True", "UsersWithoutEtcdUser"), "{message}");
        for text in texts {
            assert!(message.contains(text), "{text}: {message}");
        }
    };
    says(
        &mut world,
        &[
            "one after another: billing-01234567.",
            "does not now: shop-01234567",
            "`etcdctl role delete quorate:retain:01234567:stays`",
        ],
    );
    let told = world.events.iter().filter(|event| event.what.reason() == Reason::UsersWithoutEtcdUser);
    assert!(told.clone().count() == 1 && told.clone().all(|event| event.warning), "once");
    world.edit(Kind::Cluster, "demo", |cluster| cluster["spec"]["auth"]["afterRestore"] = json!("Keep"));
    says(
        &mut world,
        &[
            "afterRestore: Keep",
            "`etcdctl user delete billing-01234567` and `etcdctl role delete quorate:01234567:billing`",
            "etcdctl user delete stays-01234567",
        ],
    );
}

#[test]
fn status_binds_nobody_to_a_certificate_that_auth_refuses() {
    let mut world = with_auth();
    let is_bound = |world: &World| world.status().binding.is_some();
    assert!(!is_bound(&world));
    world.auth = None;
    world.pass();
    assert!(!is_bound(&world), "it was not asked yet");
    // A person gave that user a role.
    world.auth = Some(SeenAuth { clients: Clients::OfPerson, ..auth_on(&world) });
    world.pass();
    assert!(is_bound(&world));
    world.auth = Some(SeenAuth { enabled: false, ..auth_on(&world) });
    world.pass();
    assert!(is_bound(&world), "auth is off, so everybody is served");
}

#[test]
fn status_says_until_when_the_shared_certificate_goes_on_and_who_has_all_keys_by_it() {
    let mut world = with_auth();
    let since = "2026-01-01T00:00:00Z";
    world.edit(Kind::Cluster, "demo", |cluster| cluster["status"]["clientGrace"] = json!({ "since": since }));
    world.auth = Some(SeenAuth { clients: Clients::OfGrace, ..auth_on(&world) });
    world.pass();
    let (holds, reason, message) = world.condition("AuthReady");
    assert_eq!((&*holds, &*reason), ("True", "ClientsHaveTime"), "{message}");
    assert!(
        message.contains("operator.etcd.io/clients-are-users=") && message.contains("Until "),
        "{message}"
    );
    assert!(world.status().binding.is_some());
    world.auth = Some(SeenAuth { clients: Clients::AllKeys, ..auth_on(&world) });
    world.pass();
    let (holds, reason, message) = world.condition("AuthReady");
    assert_eq!((&*holds, &*reason), ("True", "ClientsHaveAllKeys"), "{message}");
}

#[test]
fn a_lost_quorum_is_reported_with_what_to_do() {
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
fn a_lost_pod_is_reported_as_restarted_on_its_volume() {
    let mut world = World::running(3);
    world.remove(Kind::Pod, "demo-2");
    let pass = world.observe().unwrap();
    assert_eq!(
        pass.status.members[2].reason.as_deref(),
        Some("its Pod is gone, and is restarted on its volume")
    );
    assert_eq!(world.condition("Progressing").1, "Restarting");
    world.settle();
    assert_eq!(world.status().phase, Some(Phase::Running));
}

#[test]
fn hibernation_and_restart_keep_the_members_and_are_reported() {
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
    assert!(world.events.iter().all(|event| !event.warning), "{:#?}", world.events);
}

#[test]
fn growth_and_shrinking_are_reported_as_scaling_and_end_at_the_desired_size() {
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
fn members_that_share_a_node_are_reported() {
    let mut world = World::running(3);
    for pod in ["demo-0", "demo-2"] {
        world.edit(Kind::Pod, pod, |pod| pod["spec"]["nodeName"] = json!("n1"));
    }
    assert_eq!(world.condition("Available").2, "3 of 3 voters are healthy. demo-0 and demo-2 share node n1");
}

/// Its Pod was deleted by force, and the next one hangs on another node.
#[test]
fn the_node_on_which_a_member_last_followed_a_leader_is_kept_until_it_follows_one_elsewhere() {
    let mut world = World::running(3);
    let nodes = |world: &World| {
        let status = world.status();
        let member = status.members.iter().find(|member| member.name == "demo-1").unwrap().clone();
        (member.node_name.unwrap_or_default(), member.served_on_node_name)
    };
    assert_eq!(nodes(&world), ("node-1".to_owned(), None));
    let moved = |world: &mut World, node: &str| {
        world.edit(Kind::Pod, "demo-1", |pod| pod["spec"]["nodeName"] = json!(node));
        world.pass();
    };
    world.silent.extend(["demo-0".to_owned(), "demo-1".to_owned(), "demo-2".to_owned()]);
    for node in ["n4", "n5"] {
        moved(&mut world, node);
        assert_eq!(nodes(&world), (node.to_owned(), Some("node-1".to_owned())));
    }
    world.silent.clear();
    moved(&mut world, "n5");
    assert_eq!(nodes(&world), ("n5".to_owned(), None));
}

#[test]
fn volumes_of_an_earlier_cluster_block_until_they_are_adopted() {
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
        world.events
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
fn an_edit_that_changes_pods_is_rolled_out_and_reported() {
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

/// The API server admits it until the cluster ID is recorded, and members may have served by then.
#[test]
fn t09_an_edit_of_what_is_fixed_that_came_too_late_is_reported_with_the_command_that_takes_it_back() {
    let tls = json!({ "tls": { "provider": "auto" } });
    let memory = json!({ "storageSpec": { "medium": "Memory" } });
    let cases = [
        (tls, "spec.tls.provider", r#"{"spec":{"tls":{"provider":"disabled"}}}"#),
        (memory, "spec.storageSpec.medium", r#"{"spec":{"storageSpec":{"medium":""}}}"#),
    ];
    for (edit, field, patch) in cases {
        let mut world = World::running(3);
        world.edit(Kind::Cluster, "demo", |cluster| {
            for (name, value) in edit.as_object().unwrap() {
                cluster["spec"][name] = value.clone();
            }
        });
        world.settle();
        for condition in ["UpToDate", "Progressing"] {
            let (holds, reason, message) = world.condition(condition);
            assert_eq!((&*holds, &*reason), ("False", "SpecInvalid"), "{message}");
            assert!(message.contains(field) && message.contains(patch), "{message}");
        }
        assert_eq!(world.condition("Available").0, "True");
    }
}

#[test]
fn o09_where_data_differ_status_names_the_quorum_that_was_seen_to_agree() {
    let world = World::running(3);
    let agreed = |hashes: [u32; 3], differ: bool| {
        let mut pass = world.observe().unwrap();
        let made = world.members.iter().zip(hashes).map(|(listed, hash)| {
            let (revision, compacted) = (Revision(7), Revision(3));
            let made = KeysHash { member_id: listed.id, hash, revision, compacted, latest: revision };
            (pass.observation.snapshot.member_of(&pass.plan.record, listed).unwrap(), Ok(made))
        });
        let replies = made.collect();
        let hashes = Hashes { at: world.now, until: world.now + Span::seconds(60), replies };
        pass.observation.snapshot.etcd.hashes = Some(hashes);
        pass.plan.record.differ_since = differ.then_some(world.now);
        world.status_again(&pass).data_agreed_by
    };
    assert_eq!(agreed([1, 1, 2], true), ["demo-0", "demo-1"]);
    assert!(agreed([1, 2, 3], true).is_empty(), "no quorum");
    assert!(agreed([1, 1, 1], false).is_empty(), "nothing is known to differ");
}

#[test]
fn an_invalid_edit_of_a_running_cluster_is_reported_and_lost_pods_are_still_restarted() {
    let mut world = World::running(3);
    world.edit(Kind::Cluster, "demo", |cluster| cluster["spec"]["etcdOptions"] = json!(["--max-learnerz=2"]));
    world.remove(Kind::Pod, "demo-1");
    world.settle();
    let (holds, reason, message) = world.condition("UpToDate");
    assert_eq!((&*holds, &*reason), ("False", "SpecInvalid"));
    assert!(message.contains("did you mean --max-learners?"), "{message}");
    assert_eq!(world.status().ready_replicas, 3, "the lost Pod was created again");
    assert!(reasons(&world).contains(&"SpecInvalid"));
}

#[test]
fn an_invalid_spec_of_a_new_cluster_blocks_it_until_it_is_edited() {
    let mut world = World::new(&json!({ "size": 3, "version": "latest" }));
    let invalid = world.observe().err().unwrap();
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
fn a_foreign_object_blocks_a_new_cluster_while_it_exists_and_is_named() {
    let mut world = World::new(&plain(1));
    world.conflicts.push(NameConflict { kind: Kind::Service, name: "demo".to_owned(), made_by: None });
    world.pass();
    assert_eq!(world.status().phase, Some(Phase::Blocked));
    let (_, reason, message) = world.condition("Progressing");
    assert!(reason == "ForeignObjects" && message.contains("Service default/demo"), "{message}");
    assert!(world.events.iter().any(|event| event.warning && event.what.reason() == Reason::ForeignObjects));
    world.conflicts.clear();
    world.settle();
    assert_eq!(world.status().phase, Some(Phase::Running));
}

/// Its probe passed, and fails.
fn lose_readiness(world: &mut World, member: &str) {
    world.edit(Kind::Pod, member, |pod| {
        let status = &mut pod["status"];
        let lost =
            |kind| json!({ "type": kind, "status": "False", "lastTransitionTime": "2026-11-21T08:05:00Z" });
        status["conditions"] = json!([lost("Ready"), lost("ContainersReady")]);
        status["containerStatuses"][0]["state"] =
            json!({ "running": { "startedAt": "2026-11-21T08:00:00Z" } });
        status["containerStatuses"][0]["ready"] = json!(false);
    });
}

#[test]
fn s01_a_member_whose_probe_fails_while_it_answers_is_reported_with_what_to_do() {
    let mut world = World::running(3);
    lose_readiness(&mut world, "demo-1");
    world.pass();
    world.pass();
    let why = "its Pod is not ready although etcd answers: its volume may hang. The events of the Pod have what its \
               readiness probe reports: kubectl describe pod demo-1 -n default";
    let member = &world.status().members[1];
    assert_eq!((member.healthy, member.reason.as_deref()), (false, Some(why)));
    assert_eq!(
        world.condition("Degraded"),
        ("True".into(), "MemberUnhealthy".into(), format!("demo-1: {why}"))
    );
    let warnings: Vec<&str> =
        world.events.iter().filter(|event| event.warning).map(|event| event.what.message()).collect();
    assert_eq!(warnings, [format!("demo-1: {why}")]);
}

#[test]
fn t07_a_member_is_not_reported_for_its_probe_that_lags_behind_its_defragmentation() {
    let mut world = World::running(3);
    let member = MemberName::new("demo-1");
    world.defragmentations = vec![DefragmentAttempt { member, at: world.now, answered: true }];
    world.events.clear();
    lose_readiness(&mut world, "demo-1");
    world.pass();
    world.pass();
    let member = &world.status().members[1];
    assert_eq!((member.healthy, member.reason.as_deref()), (true, None));
    assert_eq!(world.condition("Degraded").0, "False");
    assert_eq!(world.condition("Progressing").1, "Reconciled");
    assert!(world.events.iter().all(|event| !event.warning), "{:#?}", world.events);
    world.now = world.now + Span::seconds(60);
    assert_eq!(world.condition("Degraded").1, "MemberUnhealthy");
}

/// `there are 3 voters, and spec.size is 3` says nothing.
#[test]
fn t08_what_is_under_way_is_named_while_a_member_moves_and_while_the_size_changes() {
    let mut world = World::running(3);
    let id = world.members[1].id;
    world.edit(Kind::Cluster, "demo", |cluster| {
        cluster["metadata"]["annotations"]["operator.etcd.io/replace-member"] = json!(format!("demo-1/{id}"));
    });
    let mut said: Vec<String> = Vec::new();
    let mut watch = |world: &mut World| {
        for _ in 0..60 {
            let (_, reason, message) = world.condition("UpToDate");
            if reason == "Scaling" && said.last() != Some(&message) {
                said.push(message);
            }
            world.pass();
        }
    };
    watch(&mut world);
    world.edit(Kind::Cluster, "demo", |cluster| cluster["spec"]["size"] = json!(1));
    watch(&mut world);
    assert_eq!(
        said,
        [
            "demo-3 is being added; demo-1 is being replaced",
            "demo-1 is being removed",
            "demo-3 is being removed; there are 2 voters, and spec.size is 1",
            "demo-2 and demo-3 are being removed",
            "demo-2 is being removed",
        ]
    );
}

#[test]
fn a_stuck_first_pod_is_reported_as_degraded_with_the_cause() {
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
fn deletion_is_reported_and_no_member_is_reported_as_unhealthy() {
    let mut world = World::running(3);
    world.edit(Kind::Cluster, "demo", |cluster| {
        cluster["metadata"]["deletionTimestamp"] = json!("2026-11-21T08:00:00Z");
    });
    world.pass();
    world.pass();
    assert_eq!(world.status().phase, Some(Phase::Deleting));
    assert_eq!(world.condition("Progressing").1, "Deleting");
    assert_eq!(world.condition("Degraded").1, "Deleting");
    assert!(world.events.iter().all(|event| !event.warning), "{:#?}", world.events);
}

#[test]
fn a_paused_cluster_is_reported_and_so_are_its_unhealthy_members() {
    let mut world = World::running(3);
    world.edit(Kind::Cluster, "demo", |cluster| cluster["spec"]["paused"] = json!(true));
    world.silent.insert("demo-2".to_owned());
    world.settle();
    let (holds, reason, _) = world.condition("Progressing");
    assert_eq!((&*holds, &*reason), ("False", "Paused"));
    assert!(world.condition("Degraded").2.starts_with("demo-2: "), "{:?}", world.condition("Degraded"));
    world.silent.clear();
    world.remove(Kind::Pod, "demo-2");
    world.settle();
    assert_eq!(world.condition("Degraded").0, "False", "its Pod is restarted");
}

#[test]
fn a_cluster_with_two_ids_is_reported_as_split_brain_only() {
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
fn a_restart_after_hibernation_that_fails_is_reported_after_a_while() {
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

#[test]
fn m09_a_pod_that_a_dead_node_does_not_end_says_how_to_declare_the_machine_off() {
    let mut world = World::running(3);
    world.silent.insert("demo-1".to_owned());
    world.edit(Kind::Pod, "demo-1", |pod| {
        pod["spec"]["nodeName"] = json!("n1");
        pod["metadata"]["deletionTimestamp"] = json!("2020-01-01T00:00:00Z");
    });
    let status = world.observe().unwrap().status;
    let why = status.members.iter().find(|member| member.name == "demo-1").unwrap().reason.clone().unwrap();
    assert!(
        why.contains("kubectl taint nodes n1 node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"),
        "{why}"
    );
    // Here nobody answered about nodes.
    assert!(
        why.contains("kubectl annotate etcd demo -n default operator.etcd.io/replace-member=demo-1/"),
        "{why}"
    );
}
