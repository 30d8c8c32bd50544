//! Quarantined volumes: what is written on them, how it is read back, and what users see.

use crate::world::World;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use quorate_api::{Reason, keys};
use quorate_manifests::Kind;
use quorate_model::{MemberName, Span};
use serde_json::json;

/// A cluster from which somebody removed demo-2.
fn with_quarantine(retention: &str) -> World {
    let mut world = World::running(3);
    world.edit(Kind::Cluster, "demo", |cluster| {
        cluster["spec"]["storageSpec"] = json!({ "retention": { "whenScaled": retention } });
        cluster["spec"]["recovery"] = json!({ "keepVolumes": "1h30m" });
    });
    world.settle();
    world.members.truncate(2);
    world.settle();
    world
}

#[test]
fn s05_a_quarantined_volume_says_since_when_and_why_and_status_until_when() {
    let world = with_quarantine("Delete");
    let kept: PersistentVolumeClaim = world.get(Kind::Volume, "demo-2");
    let annotations = kept.metadata.annotations.unwrap();
    assert_eq!(annotations[keys::QUARANTINE_REASON], "it was removed from etcd, and not by the operator");
    let status = world.status();
    let [volume] = status.quarantined_volumes.as_slice() else { panic!("{status:?}") };
    let (since, until) = (volume.since.clone().unwrap().0, volume.kept_until.clone().unwrap().0);
    assert_eq!(since.to_string(), annotations[keys::QUARANTINED_SINCE]);
    assert_eq!(until.as_second() - since.as_second(), 5400);
    let available = world.condition("Available").2;
    assert!(available.contains("the volume of demo-2 is quarantined"), "{available}");
    let told = world.events.iter().filter(|event| event.what.reason() == Reason::VolumeQuarantined);
    assert_eq!(told.count(), 1, "{:?}", world.events);
}

#[test]
fn s05_a_quarantined_volume_is_deleted_after_its_time_and_status_forgets_it() {
    for (retention, left) in [("Delete", 0), ("Retain", 1)] {
        let mut world = with_quarantine(retention);
        world.now = world.now + Span::seconds(5400);
        world.settle();
        assert_eq!(world.objects.contains_key(&(Kind::Volume, "demo-2".to_owned())), left == 1);
        assert_eq!(world.status().quarantined_volumes.len(), left, "whenScaled {retention}");
    }
}

#[test]
fn s05_a_time_that_cannot_be_read_keeps_the_volume() {
    let mut world = with_quarantine("Delete");
    world.edit(Kind::Volume, "demo-2", |volume| {
        volume["metadata"]["annotations"][keys::QUARANTINED_SINCE] = json!("last week");
    });
    world.now = world.now + Span::seconds(1_000_000);
    world.settle();
    let seen = world.observe().unwrap().observation.snapshot;
    let quarantine = seen.volumes[&MemberName::new("demo-2")].quarantine.clone().unwrap();
    assert_eq!(quarantine.since, None);
    assert_eq!(world.status().quarantined_volumes[0].kept_until, None);
}
