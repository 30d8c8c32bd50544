//! Golden traces: what the protocols do, step by step, in a world where nothing goes wrong. A changed line in a snapshot is a
//! changed protocol.

use crate::world::{World, name};
use quorate_model::snapshot::Listed;
use quorate_model::target::{Medium, PodRevision, Retention};

#[test]
fn bootstrap_of_three_members() {
    insta::assert_snapshot!(World::new(3).settle());
}

#[test]
fn growth_from_three_to_five() {
    let mut world = World::running(3);
    world.resize(5);
    insta::assert_snapshot!(world.settle());
    assert_eq!(world.voters(), ["demo-0", "demo-1", "demo-2", "demo-3", "demo-4"]);
}

#[test]
fn shrinking_from_three_to_one_keeps_the_leader() {
    let mut world = World::running(3);
    world.resize(1);
    insta::assert_snapshot!(world.settle());
    assert_eq!(world.voters(), ["demo-0"]);
}

#[test]
fn scale_to_zero_and_wake() {
    let mut world = World::running(3);
    let before = world.members.clone();
    world.resize(0);
    let mut story = world.settle();
    assert!(world.seen.pods.is_empty() && world.seen.volumes.len() == 3);
    world.resize(3);
    story += "== size 3\n";
    story += &world.settle();
    insta::assert_snapshot!(story);
    let ids = |members: &[Listed]| members.iter().map(|member| member.id).collect::<Vec<_>>();
    assert_eq!(ids(&before), ids(&world.members), "the same members run again");
}

#[test]
fn three_five_one_zero_three_five_reaches_every_size_with_one_cluster() {
    let mut world = World::running(3);
    let cluster = world.cluster_id;
    for size in [5, 1, 0, 3, 5] {
        world.resize(size);
        world.settle();
        assert_eq!(world.seen.pods.len(), size, "Pods at size {size}");
        assert_eq!(world.cluster_id, cluster);
        assert_eq!(world.seen.record.cluster_id, cluster);
    }
}

#[test]
fn a_lost_pod_is_created_again_on_its_volume() {
    let mut world = World::running(3);
    let volume = world.seen.volumes[&name("demo-1")].uid.clone();
    world.lose_pod("demo-1");
    insta::assert_snapshot!(world.settle());
    assert_eq!(world.seen.volumes[&name("demo-1")].uid, volume);
}

#[test]
fn a_new_revision_is_rolled_out_one_pod_at_a_time_leader_last() {
    let mut world = World::running(3);
    world.seen.desired.pod.revision = PodRevision("r2".into());
    insta::assert_snapshot!(world.settle());
}

#[test]
fn deletion_keeps_volumes_by_default_and_deletes_them_on_request() {
    let mut world = World::running(3);
    world.seen.deleting = true;
    world.settle();
    assert!(world.seen.pods.is_empty() && world.seen.volumes.len() == 3 && !world.seen.finalizer);

    let mut world = World::running(3);
    world.seen.desired.storage.when_deleted = Retention::Delete;
    world.seen.deleting = true;
    insta::assert_snapshot!(world.settle());
    assert!(world.seen.volumes.is_empty() && !world.seen.finalizer);
}

#[test]
fn a_member_in_memory_is_replaced_when_its_pod_is_lost() {
    let mut world = World::new(3);
    world.seen.desired.storage.medium = Medium::Memory;
    world.settle();
    world.lose_pod("demo-1");
    insta::assert_snapshot!(world.settle());
    assert_eq!(world.voters(), ["demo-0", "demo-2", "demo-3"]);
}

#[test]
fn an_abandoned_bootstrap_is_deleted_and_begun_again() {
    let mut world = World::new(3);
    for _ in 0..2 {
        let plan = world.plan();
        world.carry_out(plan);
    }
    world.resize(1);
    // The edit came before the cluster formed.
    world.members.clear();
    world.cluster_id = None;
    for pod in world.seen.pods.values_mut() {
        pod.ready = false;
    }
    insta::assert_snapshot!(world.settle());
    assert_eq!(world.voters(), ["demo-3"]);
}
