//! The NetworkPolicy is there before the first Pod, and is put right whatever else is wrong: it may be what is wrong.

use crate::world::{World, words};
use quorate_model::snapshot::Presence;
use quorate_model::{
    AppliedObject, DeletedObject, Effect, KubeEffect, ManagedObject, ObservedObject, Plan, Step,
};

fn applies(plan: &Plan) -> bool {
    let is_it = |effect: &Effect| effect.as_kube() == Some(&KubeEffect::Apply(AppliedObject::NetworkPolicy));
    plan.effects.iter().any(|effect| effect.step() == Step::K1 && is_it(effect))
}

fn running() -> World {
    let mut world = World::running(3);
    world.seen.network_policy.wanted = true;
    world.settle();
    assert_eq!(world.seen.network_policy.presence, Presence::Matches);
    world
}

#[test]
fn in_a_new_cluster_it_is_there_before_the_first_pod() {
    let mut world = World::new(3);
    world.seen.network_policy.wanted = true;
    let plan = world.plan_that(|plan| !plan.effects.is_empty());
    assert!(applies(&plan), "{plan:?}");
    let creates_pod = |effect: &Effect| matches!(effect.as_kube(), Some(KubeEffect::CreatePod { .. }));
    assert!(!plan.effects.iter().any(creates_pod), "{plan:?}");
    world.carry_out(plan);
    assert!(!applies(&world.plan()), "once it is there, it is left alone");
}

#[test]
fn one_that_keeps_peers_from_each_other_is_put_right_without_a_quorum() {
    let mut world = running();
    world.seen.network_policy.presence = Presence::Differs;
    for member in ["demo-0", "demo-1", "demo-2"] {
        world.silence(member);
    }
    let plan = world.plan();
    assert!(applies(&plan), "{plan:?}");
}

#[test]
fn it_is_put_right_alone_and_a_failure_of_it_holds_up_nothing() {
    let mut world = running();
    world.seen.network_policy.presence = Presence::Differs;
    let plan = world.plan();
    assert_eq!(
        plan.effects,
        [Effect::kube(Step::K1, KubeEffect::Apply(AppliedObject::NetworkPolicy))],
        "no member is touched"
    );
    assert!(plan.effects[0].is_best_effort());
    world.lose_pod("demo-1");
    let restarts = |effect: &Effect| matches!(effect.as_kube(), Some(KubeEffect::CreatePod { .. }));
    assert!(world.plan().effects.iter().any(restarts));
}

#[test]
fn where_the_spec_wants_none_the_one_that_exists_is_deleted_as_it_was_observed() {
    let mut world = running();
    world.seen.network_policy.wanted = false;
    let observed = ObservedObject::new("p", "7");
    world.seen.network_policy.seen = Some(observed.clone());
    let delete =
        Effect::kube(Step::K1, KubeEffect::Delete { object: DeletedObject::NetworkPolicy, observed });
    let plan = world.plan();
    assert_eq!(plan.effects, [delete]);
    world.carry_out(plan);
    assert_eq!(world.plan().effects, []);
}

#[test]
fn one_that_is_not_ours_is_reported_and_never_written_and_no_new_cluster_begins_without_its_own() {
    let foreign = (ManagedObject::NetworkPolicy, "NetworkPolicy default/demo".to_owned());
    let mut world = running();
    world.seen.network_policy.presence = Presence::Absent;
    world.seen.foreign.extend([foreign.clone()]);
    let plan = world.plan();
    assert!(!applies(&plan), "{plan:?}");
    let reported = plan.waiting.iter().map(words).collect::<Vec<_>>().join(" ");
    assert!(reported.contains("NetworkPolicy default/demo"), "{reported}");

    let mut world = World::new(3);
    world.seen.network_policy.wanted = true;
    world.seen.foreign.extend([foreign]);
    let plan = world.plan();
    assert!(plan.effects.is_empty(), "{plan:?}");
}

#[test]
fn while_the_cluster_is_paused_it_stays_as_it_is() {
    let mut world = running();
    world.seen.network_policy.presence = Presence::Differs;
    world.seen.paused = true;
    assert_eq!(world.plan().effects, []);
}
