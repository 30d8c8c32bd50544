//! Restore in place: which EtcdRestore counts, what status records of it, and how Pods of an earlier incarnation are kept from clients.

use crate::world::World;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube_core::ResourceExt;
use quorate_api::restore::{EtcdRestoreStatus, ReadSnapshot, RestorePhase};
use quorate_api::{EtcdCluster, EtcdRestore, keys};
use quorate_manifests::restore::{backups_to_read, is_of_earlier_incarnation, name_of, resolve};
use quorate_manifests::{ClusterObjects, Defaults, Kind, restored, snapshot};
use quorate_model::snapshot::Presence;
use quorate_model::{Instant, Snapshot};
use serde_json::{Value, json};

fn order(name: &str, created: &str, id: &str) -> EtcdRestore {
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid of {name}"), "creationTimestamp": created},
        "spec": {"clusterName": "demo", "clusterID": id, "snapshot": {"source": {
            "key": "k", "sha256": "a".repeat(64), "destination": {"s3": {"bucket": "b"}},
        }}},
    }))
    .unwrap()
}

/// What is observed of a world beside which there are these orders.
fn seen(world: &World, restores: &[EtcdRestore]) -> Snapshot {
    seen_of(world, &world.cluster(), restores)
}

fn seen_of(world: &World, cluster: &EtcdCluster, restores: &[EtcdRestore]) -> Snapshot {
    let (pods, services) = (world.all::<Pod>(Kind::Pod), world.all::<Service>(Kind::Service));
    let objects = ClusterObjects {
        cluster,
        pods: pods.iter().collect(),
        volumes: Vec::new(),
        services: services.iter().collect(),
        budgets: Vec::new(),
        secrets: Vec::new(),
        network_policies: Vec::new(),
        restores: restores.iter().collect(),
        conflicts: Vec::new(),
    };
    let mut seen = snapshot(&objects, &Defaults::default()).unwrap().snapshot;
    let restores: Vec<&EtcdRestore> = restores.iter().collect();
    for name in backups_to_read(&restores, &seen, Instant(0)) {
        let restore =
            restores.iter().find(|one| one.spec.snapshot.backup_name(&one.metadata).as_ref() == Some(&name));
        let mut made = restored::for_restore(restore.unwrap(), None).unwrap();
        let result = json!({"key": "k", "storedSha256": "a".repeat(64)});
        made.status = Some(
            serde_json::from_value(json!({"phase": "Complete", "attempts": 1, "result": result})).unwrap(),
        );
        resolve(&restores, &mut seen, &name, Ok(Some(&made)));
    }
    seen
}

fn id(world: &World) -> String {
    world.status().cluster_id.expect("it is bootstrapped")
}

#[test]
fn the_oldest_order_that_names_the_present_cluster_counts_and_none_that_is_being_deleted() {
    let world = World::running(3);
    let id = id(&world);
    let mut deleted = order("deleted", "2026-11-23T00:00:00Z", &id);
    deleted.metadata.deletion_timestamp = deleted.metadata.creation_timestamp.clone();
    let orders = [
        order("second", "2026-11-25T00:00:00Z", &id),
        order("first", "2026-11-24T00:00:00Z", &id),
        order("other", "2026-11-22T00:00:00Z", "bad"),
        deleted,
    ];
    let found = seen(&world, &orders).orders.remove(0);
    assert_eq!(Some(found.order), name_of(&orders[1]));
    assert_eq!(found.until, Instant(1_795_482_000_000), "an hour after its creation");
    let unread = found.restore.expect_err("it was not read yet");
    assert!(unread.message.contains("is read first"), "{unread}");
    let snapshot =
        |sha256: &str| ReadSnapshot { sha256: sha256.to_owned(), bytes: 4096, ..ReadSnapshot::default() };
    let mut read = orders.clone();
    read[1].status =
        Some(EtcdRestoreStatus { snapshot: Some(snapshot("b")), ..EtcdRestoreStatus::default() });
    assert!(seen(&world, &read).orders.remove(0).restore.is_err(), "another object was read");
    read[1].status =
        Some(EtcdRestoreStatus { snapshot: Some(snapshot(&"a".repeat(64))), ..EtcdRestoreStatus::default() });
    let restore = seen(&world, &read).orders.remove(0).restore.expect("it was read");
    assert_eq!(restore.bytes, Some(4096), "what the store says is known");
    assert_eq!(seen(&world, &orders[2..]).orders, []);
    let mut world = world;
    world.edit(Kind::Cluster, "demo", |cluster| {
        cluster["metadata"]["creationTimestamp"] = json!("2026-11-20T00:00:00Z");
    });
    // The data of before were adopted: an order that has ended, or was meant for an earlier EtcdCluster, gives them up no second time.
    let mut ended = order("ended", "2026-11-24T00:00:00Z", &id);
    ended.status =
        Some(EtcdRestoreStatus { phase: Some(RestorePhase::Complete), ..EtcdRestoreStatus::default() });
    let older = order("older", "2001-01-01T00:00:00Z", &id);
    let mut copied = order("copied", "2026-11-24T00:00:00Z", &id);
    copied.labels_mut().insert("velero.io/restore-name".to_owned(), "r".to_owned());
    assert_eq!(seen(&world, &[ended, older, copied]).orders, []);
}

#[test]
fn o05_an_order_counts_as_backed_up_for_half_an_hour_or_where_it_may_do_without() {
    let world = World::running(3);
    let id = id(&world);
    let until = |mode: &str, taken: Value| {
        let mut order = serde_json::to_value(order("back", "2026-11-24T00:00:00Z", &id)).unwrap();
        order["spec"]["backupBefore"] = json!(mode);
        order["status"] = json!({"backupBefore": taken});
        let order: EtcdRestore = serde_json::from_value(order).unwrap();
        seen(&world, &[order]).orders.remove(0).backed_up_until
    };
    let whole = || json!({"name": "b", "number": 1, "complete": "2026-11-24T00:10:00Z"});
    let missing = || json!({"name": "b", "number": 1, "missing": "no store"});
    let never = Instant(i64::MAX);
    for mode in ["Required", "IfPossible"] {
        assert_eq!(until(mode, json!(null)), Instant(0));
        assert_eq!(until(mode, whole()), Instant(1_795_480_800_000), "00:40");
    }
    assert_eq!(until("Required", missing()), Instant(0));
    assert_eq!((until("IfPossible", missing()), until("Never", json!(null))), (never, never));
}

fn present() -> Value {
    json!({
        "number": 1, "firstOrdinal": 3, "orderedBy": {"etcdRestore": {"name": "back", "uid": "u"}},
        "replacedClusterID": "a1",
    })
}

#[test]
fn the_services_of_a_later_incarnation_select_its_pods_only_and_those_of_the_first_have_no_such_key() {
    let mut world = World::running(3);
    let before = seen(&world, &[]);
    assert_eq!((before.peer_service, before.client_service), (Presence::Matches, Presence::Matches));
    world.edit(Kind::Cluster, "demo", |cluster| cluster["status"]["incarnation"] = present());
    let after = seen(&world, &[]);
    assert_eq!((after.peer_service, after.client_service), (Presence::Differs, Presence::Differs));
    assert!(after.can_answer().next().is_none(), "demo-0 to demo-2 are of the first one");
    world.edit(Kind::Cluster, "demo", |cluster| cluster["status"]["incarnation"]["firstOrdinal"] = json!(0));
    for _ in 0..5 {
        world.pass();
    }
    let service: Service = world.get(Kind::Service, "demo-client");
    let selector = service.spec.unwrap().selector.unwrap();
    assert_eq!(selector.get("operator.etcd.io/incarnation").map(String::as_str), Some("1"), "{selector:?}");
    // Status was lost: nothing says any more that there were others.
    world.edit(Kind::Cluster, "demo", |cluster| {
        cluster["status"].as_object_mut().unwrap().remove("incarnation");
    });
    for _ in 0..5 {
        world.pass();
    }
    let service: Service = world.get(Kind::Service, "demo-client");
    let selector = service.spec.unwrap().selector.unwrap();
    assert_eq!(selector.get("operator.etcd.io/incarnation"), None, "{selector:?}");
}

#[test]
fn the_volumes_of_an_earlier_incarnation_are_known_by_their_ordinals() {
    let mut world = World::running(1);
    assert!(!is_of_earlier_incarnation(&world.cluster(), "demo-0"));
    world.edit(Kind::Cluster, "demo", |cluster| cluster["status"]["incarnation"] = present());
    let cluster = world.cluster();
    assert!(is_of_earlier_incarnation(&cluster, "demo-2") && !is_of_earlier_incarnation(&cluster, "demo-3"));
    assert!(!is_of_earlier_incarnation(&cluster, "other-1"));
}

#[test]
fn o13_an_order_that_git_gives_again_after_the_way_back_does_not_count_unless_it_means_the_data_again() {
    let world = World::running(3);
    let id = id(&world);
    // It is newer than the EtcdCluster, has no status, and names the right cluster ID.
    let again = order("back", "2026-11-24T00:00:00Z", &id);
    let mut cluster = world.cluster();
    assert_eq!(seen_of(&world, &cluster, std::slice::from_ref(&again)).orders.len(), 1);
    cluster.status.as_mut().unwrap().bootstrap.as_mut().unwrap().taken_back = true;
    assert_eq!(seen_of(&world, &cluster, std::slice::from_ref(&again)).orders, []);
    let means = |uid: String| {
        let mut order = again.clone();
        order.annotations_mut().insert(keys::GIVE_UP_AGAIN.to_owned(), uid);
        order
    };
    let other = means("another EtcdCluster".to_owned());
    assert_eq!(seen_of(&world, &cluster, &[other]).orders, [], "that of an earlier way back");
    let own = means(cluster.metadata.uid.clone().unwrap());
    assert_eq!(seen_of(&world, &cluster, &[own]).orders.len(), 1);
}

#[test]
fn an_order_that_is_removed_when_the_volumes_are_given_up_goes_on_and_status_says_so() {
    let mut world = World::running(3);
    let id = id(&world);
    world.edit(Kind::Cluster, "demo", |cluster| {
        let source = json!({"key": "k", "sha256": "a".repeat(64), "destination": {"s3": {"bucket": "b"}}});
        cluster["status"]["replacing"] = json!({
            "orderedBy": {"recoverQuorumFrom": "auto"}, "clusterID": id, "stopped": true,
            "since": "2026-11-24T00:00:00.000000Z", "restore": {"source": source, "bumpRevision": 1},
        });
    });
    let (_, reason, message) = world.condition("Available");
    assert!(message.contains("it is not withdrawn and goes on"), "{reason}: {message}");
    world.edit(Kind::Cluster, "demo", |cluster| {
        cluster["metadata"]["annotations"][keys::RECOVER_QUORUM_FROM] = json!("auto");
    });
    let (_, reason, message) = world.condition("Available");
    assert!(
        message.contains("every member is stopped") && !message.contains("goes on"),
        "{reason}: {message}"
    );
}
