//! What cert-manager is asked for: what the accepted spec asks for, under free names, and nothing of others.

use std::collections::BTreeMap;

use crate::world::World;
use crate::world::rotation::step;
use quorate_model::certificate::Validity;
use quorate_model::effect::Unsafe;
use quorate_model::record::RecordDoubt;
use quorate_model::snapshot::{
    Asked, Authority, GivenAuthority, IssuedLeaf, IssuedSecret, LeafCertificate, SeenCertificate,
};
use quorate_model::{
    DeletedObject, Effect, Fingerprint, Instant, KubeEffect, Leaf, ObservedObject, Span, Step,
};
use quorate_planner::safety::mutants::without;
use quorate_planner::safety::{Scene, permits};

fn own(matches: bool) -> SeenCertificate {
    SeenCertificate::Own { observed: ObservedObject::new("c-1", "7"), matches }
}

fn secret(is_issued: bool) -> IssuedSecret {
    IssuedSecret { observed: ObservedObject::new("s-1", "9"), is_issued }
}

fn leaf(asked: Option<&str>, certificate: SeenCertificate, secret: Option<IssuedSecret>) -> IssuedLeaf {
    IssuedLeaf { asked: asked.map(Asked::new), certificate, secret, not_before: None }
}

/// A new cluster with this one leaf.
fn with(one: IssuedLeaf) -> World {
    let mut world = World::new(3);
    world.seen.issuance.leaves = BTreeMap::from([(Leaf::Server, one)]);
    world
}

fn asks(world: &mut World) -> Vec<String> {
    let effects = world.plan().effects;
    let of_issuance = |effect: &&Effect| matches!(effect.step(), Step::I5 | Step::I6 | Step::I7);
    effects.iter().filter(of_issuance).map(|effect| format!("{} {}", effect.step(), effect.name())).collect()
}

#[test]
fn each_state_of_a_certificate_has_its_act_and_what_is_of_others_has_none() {
    let cases = [
        (leaf(Some("a"), SeenCertificate::Absent, None), "I5 CreateCertificate"),
        (leaf(Some("a"), SeenCertificate::Absent, Some(secret(true))), "I5 CreateCertificate"),
        (leaf(Some("a"), SeenCertificate::Absent, Some(secret(false))), ""),
        (leaf(Some("a"), SeenCertificate::Unread, None), ""),
        (leaf(Some("a"), SeenCertificate::Foreign, None), ""),
        (leaf(Some("a"), own(false), Some(secret(true))), "I5 ChangeCertificate"),
        (leaf(Some("a"), own(true), Some(secret(true))), ""),
        (leaf(None, own(true), Some(secret(true))), "I6 DeleteCertificate"),
        (leaf(None, SeenCertificate::Absent, Some(secret(true))), "I6 DeleteIssued"),
        (leaf(None, SeenCertificate::Absent, Some(secret(false))), ""),
        (leaf(None, SeenCertificate::Absent, None), ""),
        (leaf(None, SeenCertificate::Foreign, Some(secret(true))), ""),
        (leaf(None, SeenCertificate::Unread, Some(secret(true))), ""),
    ];
    for (one, expected) in cases {
        let mut world = with(one.clone());
        assert_eq!(asks(&mut world).join(" "), expected, "{one:?}");
        let issuance = world.seen.issuance;
        world = World::running(3);
        world.seen.issuance = issuance;
        assert_eq!(asks(&mut world).join(" "), expected, "also of a cluster that runs: {one:?}");
        world.seen.paused = true;
        assert_eq!(asks(&mut world), [""; 0], "paused: {one:?}");
        world.seen.paused = false;
        world.seen.record_doubt = Some(RecordDoubt::Newer("a newer operator wrote it".to_owned()));
        assert_eq!(asks(&mut world), [""; 0], "of a newer status: {one:?}");
    }
}

#[test]
fn nothing_is_put_right_before_its_time() {
    let mut world = with(leaf(Some("a"), own(false), Some(secret(true))));
    world.seen.issuance.leaves.get_mut(&Leaf::Server).unwrap().not_before =
        Some(world.now + Span::seconds(60));
    assert_eq!(asks(&mut world), [""; 0]);
    world.now = world.now + Span::seconds(60);
    assert_eq!(asks(&mut world), ["I5 ChangeCertificate"]);
}

fn judge(world: &World, write: KubeEffect, step: Step) -> Result<(), Unsafe> {
    let scene = Scene { seen: &world.seen, record: &world.seen.record, now: world.now, before: &[] };
    permits(&scene, &Effect::kube(step, write))
}

#[track_caller]
fn is_refused(world: &World, write: &KubeEffect, why: &Unsafe) {
    assert_eq!(judge(world, write.clone(), Step::I5).as_ref(), Err(why));
    assert_eq!(without(why.name(), || judge(world, write.clone(), Step::I5)), Ok(()), "{write} without it");
}

#[test]
fn r26_what_the_accepted_spec_does_not_ask_for_is_refused() {
    let create = KubeEffect::CreateCertificate { leaf: Leaf::Server, asked: Asked::new("of a refused spec") };
    let free = || leaf(Some("a"), SeenCertificate::Absent, None);
    is_refused(&with(free()), &create, &Unsafe::NotAsked);
    is_refused(&with(leaf(None, SeenCertificate::Absent, None)), &create, &Unsafe::NotAsked);
    let change = |asked: &str| KubeEffect::ChangeCertificate {
        leaf: Leaf::Server,
        asked: Asked::new(asked),
        observed: ObservedObject::new("c-1", "7"),
    };
    is_refused(&with(leaf(Some("a"), own(false), None)), &change("of a refused spec"), &Unsafe::NotAsked);
    let delete = KubeEffect::Delete {
        object: DeletedObject::Certificate(Leaf::Server),
        observed: ObservedObject::new("c-1", "7"),
    };
    is_refused(&with(leaf(Some("a"), own(true), None)), &delete, &Unsafe::NotAsked);
    // What it does ask for is written by nobody who is to change nothing.
    let create = KubeEffect::CreateCertificate { leaf: Leaf::Server, asked: Asked::new("a") };
    let holds: [fn(&mut World); 4] = [
        |world| world.seen.paused = true,
        |world| world.seen.deleting = true,
        |world| world.seen.record_doubt = Some(RecordDoubt::Newer("newer".to_owned())),
        |world| world.seen.record_doubt = Some(RecordDoubt::Incomplete { hash: "ab".to_owned() }),
    ];
    for hold in holds {
        let mut world = with(free());
        assert_eq!(judge(&world, create.clone(), Step::I5), Ok(()));
        hold(&mut world);
        is_refused(&world, &create, &Unsafe::NotAsked);
    }
}

#[test]
fn r25_what_is_of_others_or_has_changed_is_refused() {
    let create = KubeEffect::CreateCertificate { leaf: Leaf::Server, asked: Asked::new("a") };
    for taken in [
        leaf(Some("a"), SeenCertificate::Foreign, None),
        leaf(Some("a"), SeenCertificate::Unread, None),
        leaf(Some("a"), own(true), None),
        // cert-manager would write over it.
        leaf(Some("a"), SeenCertificate::Absent, Some(secret(false))),
    ] {
        is_refused(&with(taken), &create, &Unsafe::NotIssuedForThis);
    }
    let change = |uid: &str, version: &str| KubeEffect::ChangeCertificate {
        leaf: Leaf::Server,
        asked: Asked::new("a"),
        observed: ObservedObject::new(uid, version),
    };
    let differs = || with(leaf(Some("a"), own(false), None));
    assert_eq!(judge(&differs(), change("c-1", "7"), Step::I5), Ok(()));
    is_refused(&differs(), &change("c-2", "7"), &Unsafe::NotIssuedForThis);
    is_refused(&differs(), &change("c-1", "8"), &Unsafe::NotIssuedForThis);
    is_refused(
        &with(leaf(Some("a"), SeenCertificate::Foreign, None)),
        &change("c-1", "7"),
        &Unsafe::NotIssuedForThis,
    );
    let delete = |uid: &str, version: &str| KubeEffect::Delete {
        object: DeletedObject::Issued(Leaf::Server),
        observed: ObservedObject::new(uid, version),
    };
    let left = || with(leaf(None, SeenCertificate::Absent, Some(secret(true))));
    assert_eq!(judge(&left(), delete("s-1", "9"), Step::I6), Ok(()));
    is_refused(&left(), &delete("s-2", "9"), &Unsafe::NotIssuedForThis);
    is_refused(&left(), &delete("s-1", "8"), &Unsafe::NotIssuedForThis);
    is_refused(
        &with(leaf(None, SeenCertificate::Absent, Some(secret(false)))),
        &delete("s-1", "9"),
        &Unsafe::NotIssuedForThis,
    );
    // cert-manager would write it again.
    is_refused(
        &with(leaf(None, own(true), Some(secret(true)))),
        &delete("s-1", "9"),
        &Unsafe::NotIssuedForThis,
    );
}

fn certificate(by: &str, began: Instant) -> LeafCertificate {
    LeafCertificate {
        fingerprint: Fingerprint::new(format!("leaf of {by}")),
        validity: Validity { not_before: began, not_after: began + Span::seconds(90 * 86_400) },
        signed_by: Some(Fingerprint::new(by)),
        trusted: Vec::new(),
        lacks: Vec::new(),
        trust: 0,
        misnamed: None,
    }
}

/// The server's is of this CA, and the client's, which is younger, of that one.
fn issued(server: &str, client: &str) -> World {
    let mut world = World::new(3);
    let began = world.now;
    world.now = began + Span::seconds(1);
    let all = [(Leaf::Server, server, began), (Leaf::Client, client, world.now)];
    world.seen.issuance.leaves =
        all.map(|(of, ..)| (of, leaf(Some("a"), own(true), Some(secret(true))))).into_iter().collect();
    let validity = Validity { not_before: began, not_after: began + Span::seconds(3650 * 86_400) };
    let content = Authority {
        fingerprint: Fingerprint::new(server),
        certificate: crate::world::certificates::certificate(server),
        validity,
        minted: false,
        keyless: true,
    };
    world.seen.certificates.as_mut().unwrap().given = Some(GivenAuthority {
        secret: "Secret default/demo-server-issued".to_owned(),
        content: Ok(content),
        leaves: all.map(|(of, by, began)| (of, Ok(certificate(by, began)))).into_iter().collect(),
        issuer_says: None,
    });
    world
}

#[test]
fn before_anything_has_started_what_an_earlier_ca_issued_is_issued_anew_and_never_after_that() {
    assert_eq!(asks(&mut issued("one", "one")), [""; 0]);
    let mut world = issued("one", "two");
    assert_eq!(asks(&mut world), ["I7 DeleteIssued"]);
    let anew = world.plan().effects.into_iter().find(|effect| effect.step() == Step::I7).unwrap();
    let Some(KubeEffect::Delete { object: DeletedObject::Issued(leaf), .. }) = anew.as_kube() else {
        panic!("{anew}")
    };
    assert_eq!(*leaf, Leaf::Server, "the older one");

    let mut world = issued("one", "one");
    world.settle();
    let mixed = issued("one", "two").seen.certificates.unwrap().given;
    world.seen.certificates.as_mut().unwrap().given = mixed;
    assert_eq!(asks(&mut world), [""; 0]);
    let write = anew.as_kube().unwrap().clone();
    is_refused(&world, &write, &Unsafe::PodsExist);
    // What is of the newest one stays, whoever asks.
    let world = issued("one", "one");
    let mut begun = world.seen.record.clone();
    begun.attempt = 1;
    let scene = Scene { seen: &world.seen, record: &begun, now: world.now, before: &[] };
    assert_eq!(permits(&scene, &anew), Err(Unsafe::AnotherAuthority));
}

#[test]
fn before_anything_has_started_another_ca_takes_the_place_of_the_one_that_was_copied_at_once() {
    let mut world = issued("one", "one");
    while world.seen.certificates.as_ref().unwrap().leaves.is_empty() {
        step(&mut world, &mut String::new());
    }
    assert_eq!(world.seen.record.authority, Some(Fingerprint::new("one")));
    let next = issued("two", "two").seen.certificates.unwrap().given;
    world.seen.certificates.as_mut().unwrap().given = next;
    world.settle();
    assert_eq!(world.seen.record.authority, Some(Fingerprint::new("two")));
    assert!(world.seen.record.rotation.is_none());
    assert_eq!(world.seen.pods.len(), 3);
    for secret in world.seen.certificates.as_ref().unwrap().leaves.values() {
        assert!(!secret.content.as_ref().unwrap().trusted.contains(&Fingerprint::new("one")));
    }
}
