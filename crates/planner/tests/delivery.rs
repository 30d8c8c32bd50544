//! Image volumes that do not work: the agent comes by an init container instead.

use crate::world::{World, name};
use quorate_model::snapshot::ImageVolume;
use quorate_model::target::Medium;
use quorate_model::{KubeEffect, Plan, Span, Step};

fn waits(world: &mut World, member: &str, volume: ImageVolume) {
    let pod = world.seen.pods.get_mut(&name(member)).expect("it has a Pod");
    (pod.gated, pod.ready, pod.has_run, pod.image_volume) = (false, false, false, Some(volume));
}

fn deleted(plan: &Plan) -> Vec<String> {
    let deleted = plan.effects.iter().filter(|effect| effect.step() == Step::W3);
    deleted
        .filter_map(|effect| match effect.as_kube() {
            Some(KubeEffect::DeletePod { member, .. }) => Some(member.to_string()),
            Some(_) | None => None,
        })
        .collect()
}

#[test]
fn a_pod_whose_container_cannot_be_created_with_an_image_volume_is_created_again_and_the_cause_is_recorded() {
    let mut world = World::with_pods_created(3);
    waits(&mut world, "demo-1", ImageVolume::Refused("CreateContainerError: not supported".to_owned()));
    let plan = quorate_planner::plan(&world.seen, world.now);
    assert_eq!(deleted(&plan), ["demo-1"]);
    let why = "Pod demo-1: CreateContainerError: not supported";
    assert_eq!(plan.record.no_image_volume.as_deref(), Some(why));
    assert!(plan.recorded_steps.contains(&Step::W3));
    world.carry_out(plan);
    world.settle();
    assert_eq!(world.voters().len(), 3);
    assert_eq!(world.seen.record.no_image_volume.as_deref(), Some(why), "later Pods follow it");
}

#[test]
fn mounting_may_take_as_long_as_the_kubelet_allows() {
    let mut world = World::with_pods_created(3);
    let since = world.now;
    waits(&mut world, "demo-1", ImageVolume::Mounting(since));
    let before = quorate_planner::plan(&world.seen, since + Span::seconds(149));
    assert_eq!((deleted(&before).len(), before.record.no_image_volume), (0, None));
    let after = quorate_planner::plan(&world.seen, since + Span::seconds(150));
    assert_eq!(deleted(&after), ["demo-1"]);
    assert!(after.record.no_image_volume.is_some_and(|why| why.contains("not mounted after 150 s")));
}

#[test]
fn m41_a_volume_with_data_that_is_attached_late_is_no_failed_image_volume() {
    let mut world = World::running(3);
    for pod in world.seen.pods.values_mut() {
        pod.installs_agent = false;
    }
    world.silence("demo-1");
    let since = world.now;
    waits(&mut world, "demo-1", ImageVolume::Mounting(since));
    // Kubernetes forces a detach six minutes after the end of a node.
    let before = quorate_planner::plan(&world.seen, since + Span::seconds(590));
    assert_eq!((deleted(&before).len(), before.record.no_image_volume), (0, None));
    // A kubelet that is older than the others says nothing at all.
    let after = quorate_planner::plan(&world.seen, since + Span::seconds(600));
    assert_eq!(deleted(&after), ["demo-1"]);
    // A rollout from the other way of delivery is where a kubelet is likely to lack it.
    world.seen.pods.get_mut(&name("demo-0")).unwrap().installs_agent = true;
    let rolls = quorate_planner::plan(&world.seen, since + Span::seconds(150));
    assert_eq!(deleted(&rolls), ["demo-1"]);
}

#[test]
fn what_the_api_server_refused_is_recorded_once_it_has_taken_an_init_container_and_a_pod_that_runs_keeps_its_volume()
 {
    let mut world = World::running(3);
    world.seen.image_volume_refused = Some("spec.volumes: no".to_owned());
    for pod in world.seen.pods.values_mut() {
        pod.installs_agent = false;
    }
    let before = quorate_planner::plan(&world.seen, world.now);
    assert_eq!(before.record.no_image_volume, None, "it may refuse every Pod");
    world.seen.pods.get_mut(&name("demo-1")).unwrap().installs_agent = true;
    let plan = quorate_planner::plan(&world.seen, world.now);
    assert_eq!(deleted(&plan), Vec::<String>::new());
    let why = "the API server refused a Pod with an image volume: spec.volumes: no";
    assert_eq!(plan.record.no_image_volume.as_deref(), Some(why));
}

#[test]
fn a_lost_member_of_a_cluster_that_runs_falls_back_too() {
    let mut world = World::running(3);
    world.lose_pod("demo-2");
    let plan = world.plan();
    world.carry_out(plan);
    world.silence("demo-2");
    waits(&mut world, "demo-2", ImageVolume::Refused("CreateContainerError".to_owned()));
    let plan = quorate_planner::plan(&world.seen, world.now);
    assert_eq!(deleted(&plan), ["demo-2"]);
}

#[test]
fn a_member_in_memory_that_may_have_started_is_not_deleted_because_nothing_is_reported_of_it() {
    let mut world = World::running(3);
    world.seen.record.target.as_mut().unwrap().storage.medium = Medium::Memory;
    let since = world.now;
    waits(&mut world, "demo-1", ImageVolume::Mounting(since));
    let plan = quorate_planner::plan(&world.seen, since + Span::seconds(600));
    assert_eq!(deleted(&plan), Vec::<String>::new());
}

#[test]
fn a_member_in_memory_that_may_have_run_is_deleted_only_where_the_quorum_can_spare_it() {
    let mut world = World::running(3);
    world.seen.record.target.as_mut().unwrap().storage.medium = Medium::Memory;
    for member in ["demo-1", "demo-2"] {
        waits(&mut world, member, ImageVolume::Refused("ended: StartError".to_owned()));
        world.seen.pods.get_mut(&name(member)).unwrap().has_run = true;
        world.silence(member);
    }
    let plan = quorate_planner::plan(&world.seen, world.now);
    assert_eq!(deleted(&plan), Vec::<String>::new());
}
