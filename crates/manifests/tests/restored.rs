//! A status that was written for another EtcdCluster, such as one that a backup of the Kubernetes objects restored.

use crate::world::World;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use quorate_api::keys;
use quorate_manifests::{Kind, record};
use serde_json::json;

/// Another object of that name, with the volumes and the status of the one before.
fn restored(world: &mut World, uid: &str) {
    for kind in [Kind::Pod, Kind::Service, Kind::Budget] {
        let named: Vec<String> =
            world.objects.keys().filter(|(own, _)| *own == kind).map(|(_, name)| name.clone()).collect();
        for name in named {
            world.remove(kind, &name);
        }
    }
    world.edit(Kind::Cluster, "demo", |cluster| {
        cluster["metadata"]["uid"] = json!(uid);
        cluster["metadata"]["annotations"] = json!(null);
    });
}

fn volume_uids(world: &World) -> Vec<Option<String>> {
    world.all::<PersistentVolumeClaim>(Kind::Volume).into_iter().map(|volume| volume.metadata.uid).collect()
}

fn adopt(world: &mut World) {
    let id = world.all::<PersistentVolumeClaim>(Kind::Volume)[0].metadata.annotations.as_ref().unwrap()
        [keys::CLUSTER_ID]
        .clone();
    world.edit(Kind::Cluster, "demo", |cluster| {
        cluster["metadata"]["annotations"] = json!({ keys::ADOPT: id });
    });
}

#[test]
fn l06_a_status_of_another_object_is_not_followed_and_its_volumes_wait_for_a_person() {
    let mut world = World::running(3);
    let volumes = volume_uids(&world);
    restored(&mut world, "u-2");
    world.settle();
    assert_eq!(world.condition("ExistingData").0, "True");
    assert!(world.all::<serde_json::Value>(Kind::Pod).is_empty(), "no member starts before a person decides");
    let recorded = record::from_status(&world.status());
    assert_eq!((recorded.attempt, recorded.next_ordinal.0), (0, 3), "its names are not used again");

    adopt(&mut world);
    world.settle();
    assert_eq!(world.condition("Available").0, "True", "{:?}", world.condition("Available"));
    assert_eq!(volume_uids(&world), volumes);
}

#[test]
fn l06_the_foreign_token_of_an_adopted_cluster_is_explained_by_its_adoption_only() {
    let mut world = World::running(1);
    restored(&mut world, "u-2");
    world.settle();
    adopt(&mut world);
    world.settle();
    let status = world.status();
    assert_eq!(status.bootstrap.unwrap().adopted_by.as_deref(), Some("u-2"));
    assert!(status.cluster_token.unwrap().starts_with("u-1-"), "the members keep the token of their data");
    assert!(!world.pass(), "it is followed");

    restored(&mut world, "u-3");
    world.settle();
    assert_eq!(world.condition("ExistingData").0, "True", "of another object again");
}

#[test]
fn o13_claims_that_a_snapshot_or_velero_created_are_adopted_only_with_a_second_annotation_for_this_object() {
    let sources: [fn(&mut serde_json::Value); 3] = [
        |claim| claim["spec"]["dataSource"] = json!({ "kind": "VolumeSnapshot", "name": "nightly" }),
        |claim| claim["spec"]["dataSourceRef"] = json!({ "kind": "VolumeSnapshot", "name": "nightly" }),
        |claim| claim["metadata"]["labels"][keys::VELERO_RESTORE] = json!("nightly"),
    ];
    for source in sources {
        let mut world = World::running(3);
        restored(&mut world, "u-2");
        world.edit(Kind::Volume, "demo-1", source);
        adopt(&mut world);
        world.settle();
        let (holds, _, message) = world.condition("ExistingData");
        assert!(
            holds == "True" && message.contains("may be copies") && message.contains("nightly"),
            "{message}"
        );
        assert!(world.all::<serde_json::Value>(Kind::Pod).is_empty());
        // O13: what was said of the copies for an earlier EtcdCluster stays in the repository, and says nothing of these.
        for (of, adopts) in [("", false), ("/u-1", false), ("/u-2", true)] {
            world.edit(Kind::Cluster, "demo", |cluster| {
                let annotations = &mut cluster["metadata"]["annotations"];
                let id = annotations[keys::ADOPT].as_str().unwrap();
                annotations[keys::ADOPT_COPIES] = json!(format!("{id}{of}"));
            });
            world.settle();
            assert_eq!(world.all::<serde_json::Value>(Kind::Pod).is_empty(), !adopts, "{of:?}");
            let (_, _, message) = world.condition("ExistingData");
            let says = message.contains("says nothing of these") && message.contains("/u-2");
            assert!(adopts || says, "{message}");
        }
        assert_eq!(world.condition("Available").0, "True", "{:?}", world.condition("Available"));
    }
}

#[test]
fn an_etcd_cluster_that_came_back_without_its_volumes_does_not_begin_empty() {
    for with_status in [true, false] {
        let mut world = World::running(3);
        restored(&mut world, "u-2");
        for member in ["demo-0", "demo-1", "demo-2"] {
            world.remove(Kind::Volume, member);
        }
        world.tamper(Kind::Cluster, "demo", |cluster| {
            cluster["metadata"]["labels"] = json!({ keys::VELERO_RESTORE: "nightly" });
            if !with_status {
                cluster["status"] = json!(null);
            }
        });
        world.settle();
        let (holds, _, message) = world.condition("ExistingData");
        assert!(holds == "True" && message.contains("No empty cluster is started"), "{message}");
        assert_eq!(world.status().earlier.is_some(), with_status);
        assert!(volume_uids(&world).is_empty());
    }
}
