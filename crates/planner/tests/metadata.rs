//! Labels and annotations that the spec gives to what exists.

use crate::world::{World, name};
use quorate_model::{KubeEffect, ManagedObject, ObservedObject, Plan, Uid};

fn applied(plan: &Plan) -> Vec<ManagedObject> {
    let applied = plan.effects.iter().filter_map(|effect| match effect.as_kube() {
        Some(KubeEffect::ApplyMetadata { object, .. }) => Some(object.clone()),
        Some(_) | None => None,
    });
    applied.collect()
}

/// A running cluster in which these objects have not what the spec gives them.
fn differing(objects: &[ManagedObject]) -> World {
    let mut world = World::running(3);
    world.settle();
    for object in objects {
        let observed = ObservedObject { uid: Uid::new("u"), resource_version: "1".to_owned() };
        world.seen.metadata_differs.insert(object.clone(), observed);
    }
    world
}

#[test]
fn objects_that_exist_get_the_labels_and_annotations_of_the_spec_and_nothing_waits_for_them() {
    let objects = [
        ManagedObject::Volume(name("demo-0")),
        // A quarantined one, which no member has.
        ManagedObject::Volume(name("demo-9")),
        ManagedObject::DisruptionBudget,
        ManagedObject::Secret("demo-ca".to_owned()),
        ManagedObject::PeerService,
        ManagedObject::ClientService,
    ];
    let mut world = differing(&objects);
    let plan = world.plan();
    assert_eq!(applied(&plan), objects);
    assert!(plan.effects.iter().all(quorate_model::Effect::is_best_effort), "{:?}", plan.effects);
    assert!(plan.waiting.is_empty(), "{:?}", plan.waiting);
    // A lost Pod is restarted in the same pass.
    world.lose_pod("demo-1");
    let plan = world.plan();
    assert!(plan.effects.iter().any(|effect| matches!(effect.as_kube(), Some(KubeEffect::CreatePod { .. }))));
    assert_eq!(applied(&plan), objects);
}

#[test]
fn an_object_that_the_plan_changes_anyway_gets_them_in_the_next_pass() {
    let volume = ManagedObject::Volume(name("demo-1"));
    let mut world = differing(std::slice::from_ref(&volume));
    world.seen.volumes.get_mut(&name("demo-1")).unwrap().labelled = false;
    let plan = world.plan();
    let annotates = |effect: &quorate_model::Effect| matches!(effect.as_kube(), Some(KubeEffect::AnnotateVolume { member, .. }) if *member == name("demo-1"));
    assert!(plan.effects.iter().any(annotates), "{:?}", plan.effects);
    assert_eq!(applied(&plan), [], "the second patch would name a version that is over");
    world.carry_out(plan);
    assert_eq!(applied(&world.plan()), [volume]);
}

#[test]
fn they_reach_the_claims_of_a_cluster_of_size_zero_and_nothing_while_it_is_paused() {
    let volume = ManagedObject::Volume(name("demo-1"));
    let mut world = differing(std::slice::from_ref(&volume));
    world.seen.paused = true;
    assert_eq!(applied(&world.plan()), []);
    world.seen.paused = false;
    world.resize(0);
    let plan = world.plan_that(|plan| !applied(plan).is_empty());
    assert_eq!(applied(&plan), [volume]);
}
