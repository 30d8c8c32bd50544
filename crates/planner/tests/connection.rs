//! The connection Secret follows the client certificate, and is nobody else's.

use crate::world::World;
use quorate_model::record::RecordDoubt;
use quorate_model::snapshot::Presence;
use quorate_model::{AppliedObject, Fingerprint, KubeEffect, Leaf, ManagedObject, Plan, Step};

fn writes(plan: &Plan) -> bool {
    let is_it = |effect: &quorate_model::Effect| {
        effect.step() == Step::K3 && effect.as_kube() == Some(&KubeEffect::Apply(AppliedObject::Connection))
    };
    plan.effects.iter().any(is_it)
}

#[test]
fn the_connection_secret_is_created_when_there_is_a_cluster_and_not_before() {
    let mut world = World::new(3);
    let mut before = 0;
    loop {
        let plan = world.plan();
        if writes(&plan) {
            assert!(plan.record.cluster_id.is_some(), "{plan:?}");
            break;
        }
        world.carry_out(plan);
        before += 1;
        assert!(before < 20, "it is never created");
    }
    world.settle();
    assert_eq!(world.seen.connection, Presence::Matches);
    assert!(!writes(&world.plan()), "once it matches, it is left alone");
}

#[test]
fn it_follows_the_client_certificate_in_the_next_pass_also_without_a_quorum() {
    let mut world = World::running(3);
    world.seen.connection = Presence::Differs;
    for member in ["demo-0", "demo-1", "demo-2"] {
        world.silence(member);
    }
    let plan = world.plan();
    assert!(writes(&plan), "{plan:?}");
    world.carry_out(plan);
    assert!(!writes(&world.plan()));
}

#[test]
fn one_that_was_deleted_is_created_again_and_one_that_is_not_ours_is_never_written() {
    let mut world = World::running(3);
    world.seen.connection = Presence::Absent;
    assert!(writes(&world.plan()));
    world.seen.foreign.insert(ManagedObject::Connection, "Secret default/demo-connection".to_owned());
    let plan = world.plan();
    assert!(!writes(&plan));
    let reported = plan.waiting.iter().map(crate::world::words).collect::<Vec<_>>().join(" ");
    assert!(reported.contains("demo-connection"), "{reported}");
}

#[test]
fn a_secret_of_somebody_else_keeps_no_cluster_from_being_bootstrapped() {
    let mut world = World::new(3);
    world.seen.foreign.insert(ManagedObject::Connection, "Secret default/demo-connection".to_owned());
    let plan = world.plan_that(|plan| plan.record.cluster_id.is_some());
    assert!(!writes(&plan), "{plan:?}");
}

#[test]
fn it_follows_the_client_certificate_at_size_zero() {
    let mut world = World::running(3);
    world.resize(0);
    world.settle();
    world.seen.connection = Presence::Differs;
    assert!(writes(&world.plan()));
}

#[test]
fn a_client_certificate_that_members_refuse_is_not_handed_to_applications() {
    let mut world = World::running(3);
    world.seen.connection = Presence::Differs;
    let leaves = |world: &mut World| world.seen.certificates.as_mut().unwrap().leaves.clone();
    let own = leaves(&mut world);

    let certificates = world.seen.certificates.as_mut().unwrap();
    let content = certificates.leaves.get_mut(&Leaf::Client).unwrap().content.as_mut().unwrap();
    content.signed_by = Some(Fingerprint::new("ca-of-somebody"));
    let plan = world.plan();
    let renewed = |effect: &quorate_model::Effect| effect.step() == Step::I3;
    assert!(!writes(&plan) && plan.effects.iter().any(renewed), "it is renewed first: {plan:?}");

    world.seen.certificates.as_mut().unwrap().leaves.remove(&Leaf::Client);
    assert!(!writes(&world.plan()), "there is none");

    // The members serve on with the leaves that there are, so applications may have them, too.
    let certificates = world.seen.certificates.as_mut().unwrap();
    certificates.leaves = own;
    certificates.authorities.clear();
    assert!(writes(&world.plan()));
    world.seen.certificates = None;
    assert!(writes(&world.plan()), "without TLS it has the address alone");
}

#[test]
fn where_the_status_is_of_a_newer_operator_it_follows_the_certificate_all_the_same() {
    let mut world = World::running(3);
    world.seen.connection = Presence::Differs;
    world.seen.record_doubt = Some(RecordDoubt::Newer("format 99".to_owned()));
    assert!(writes(&world.plan()));
    world.seen.record_doubt = None;
    world.seen.paused = true;
    assert!(writes(&world.plan()), "while it is paused certificates are renewed, too");
}
