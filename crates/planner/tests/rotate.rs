//! Rotation of a certificate authority: another one takes its place, and members and clients never refuse each other.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::world::certificates::{DAY, next};
use crate::world::{World, name};
use quorate_model::effect::{AuthorityWait, Unsafe};
use quorate_model::rotation::{RotateOrder, RotationPolicy, RotationStage};
use quorate_model::snapshot::{Published, Reader};
use quorate_model::{Ca, Effect, Fingerprint, Instant, KubeEffect, Leaf, Span, Step, Waiting};
use quorate_planner::safety::mutants::without;
use quorate_planner::safety::{may_drop_earlier, may_sign_with_new};

fn ordered(size: usize, ca: Ca) -> World {
    let mut world = World::running(size);
    order(&mut world, ca, "");
    world
}

fn order(world: &mut World, ca: Ca, word: &str) {
    let text = format!("{ca}{word}");
    world.seen.rotation_policy.order = Some(RotateOrder { ca, text });
}

fn stage(world: &World) -> Option<RotationStage> {
    world.seen.record.rotation.as_ref().map(|rotation| rotation.stage)
}

/// Carries plans out until the rotation is in this stage, and judges what members trust after each.
fn until(world: &mut World, wanted: Option<RotationStage>) -> String {
    let mut story = String::new();
    for _ in 0..200 {
        if stage(world) == wanted && (wanted.is_some() || !story.is_empty()) {
            return story;
        }
        step(world, &mut story);
    }
    panic!("the rotation stays in {:?}: {story}", world.seen.record.rotation);
}

fn step(world: &mut World, story: &mut String) {
    let plan = world.plan();
    for effect in &plan.effects {
        let _ = writeln!(story, "{} {effect}", effect.step());
    }
    let waits_for_clients = plan
        .waiting
        .iter()
        .any(|waiting| matches!(waiting, Waiting::Authority(AuthorityWait::ClientsHaveTime(..))));
    let idle = plan.effects.is_empty() && plan.record == world.seen.record;
    world.carry_out(plan);
    if idle && waits_for_clients {
        world.now = world.now + Span::seconds(DAY);
    }
    trust_each_other(world);
}

/// Every member admits what each other one presents, at both ports, and clients admit what members present.
#[track_caller]
fn trust_each_other(world: &World) {
    let leaves = &world.seen.certificates.as_ref().unwrap().leaves;
    let of = |leaf: Leaf| leaves[&leaf].content.as_ref().unwrap();
    for (member, pod) in &world.seen.pods {
        let trusts = &world.trusts[&pod.uid];
        for (leaf, ca) in [(Leaf::Peer, Ca::Peers), (Leaf::Client, Ca::Clients)] {
            let signed_by = of(leaf).signed_by.as_ref().unwrap();
            assert!(trusts[&ca].contains(signed_by), "{member} refuses the {leaf} leaf of {signed_by}");
        }
        for earlier in world.presents_earlier.values() {
            assert!(trusts[&Ca::Peers].contains(earlier), "{member} refuses a peer of {earlier}");
        }
    }
    let of_server = of(Leaf::Server).signed_by.as_ref().unwrap();
    assert!(of(Leaf::Client).trusted.contains(of_server), "clients refuse servers of {of_server}");
}

fn pods(world: &World) -> BTreeSet<String> {
    world.seen.pods.values().map(|pod| pod.uid.as_str().to_owned()).collect()
}

#[test]
fn an_authority_of_peers_is_replaced_with_two_rollouts_and_no_member_ever_refuses_another() {
    for size in [1, 3, 5] {
        let mut world = ordered(size, Ca::Peers);
        let before = pods(&world);
        let trust = until(&mut world, Some(RotationStage::Sign));
        let restarted = trust.matches("U5").count();
        assert_eq!(restarted, size, "{trust}");
        assert_eq!(world.seen.record.peer_authority, Some(Fingerprint::new(next(Ca::Peers, 0))));
        let rest = until(&mut world, None);
        assert_eq!(rest.matches("U5").count(), size, "{rest}");
        assert!(before.is_disjoint(&pods(&world)));
        let seen = world.seen.certificates.as_ref().unwrap();
        let peer = seen.leaves[&Leaf::Peer].content.as_ref().unwrap();
        assert_eq!(peer.trusted, [Fingerprint::new(next(Ca::Peers, 0))], "the earlier one is forgotten");
        world.settle();
        let secret = &world.seen.certificates.as_ref().unwrap().authorities[&Ca::Peers];
        assert!(secret.next.is_none() && secret.content.is_ok(), "and so is its key");
        assert_eq!(world.seen.record.authority, Some(Fingerprint::new("ca-1")), "that of clients stays");
        assert!(world.plan().effects.is_empty(), "the order is spent");
    }
}

#[test]
fn an_authority_of_clients_waits_twice_for_them_and_a_person_may_cut_that_short() {
    let mut world = ordered(3, Ca::Clients);
    let began = world.now;
    until(&mut world, Some(RotationStage::Sign));
    assert!(world.now - began >= RotationPolicy::CLIENT_GRACE, "clients have a week to trust the new one");
    let signed = world.now;
    until(&mut world, Some(RotationStage::Drop));
    assert!(world.now - signed >= RotationPolicy::CLIENT_GRACE, "and a week to present what it signed");
    until(&mut world, None);

    let mut world = ordered(3, Ca::Clients);
    let fingerprint = next(Ca::Clients, 0);
    // Another one, and too little of it, say nothing.
    for (text, counts) in [("ca-1", false), (&fingerprint[..10], false), (&fingerprint[..16], true)] {
        world.seen.rotation_policy.clients_trust = Some(text.to_owned());
        for _ in 0..40 {
            step(&mut world, &mut String::new());
            if stage(&world) == Some(RotationStage::Sign) {
                break;
            }
            world.now = began;
        }
        assert_eq!(stage(&world) == Some(RotationStage::Sign), counts, "{text}");
    }
    world.seen.rotation_policy.clients_present = Some(fingerprint);
    let before = world.now;
    until(&mut world, None);
    assert!(world.now - before < RotationPolicy::CLIENT_GRACE);
}

#[test]
fn an_authority_is_replaced_by_itself_when_two_thirds_of_its_life_are_over() {
    let mut world = World::running(3);
    world.now = world.now + Span::seconds(2432 * DAY);
    world.settle();
    assert_eq!(stage(&world), None, "not before");
    // And up to a hundredth of it more.
    world.now = world.now + Span::seconds(38 * DAY);
    until(&mut world, Some(RotationStage::Trust));
    assert_eq!(world.seen.record.rotation.as_ref().unwrap().ca, Ca::Peers, "that of peers has no clients");
    until(&mut world, None);
    until(&mut world, Some(RotationStage::Trust));
    assert_eq!(world.seen.record.rotation.as_ref().unwrap().ca, Ca::Clients);
    until(&mut world, None);
    let story = world.settle();
    assert_eq!(stage(&world), None, "{story}");
}

#[test]
fn authorities_that_a_fleet_made_at_one_moment_are_not_replaced_at_one() {
    let mut begun: Vec<u64> = Vec::new();
    for cluster in 0..100 {
        let mut world = World::running(1);
        let made = world.now;
        let certificates = world.seen.certificates.as_mut().unwrap();
        let own = certificates.authorities.get_mut(&Ca::Peers).unwrap().content.as_mut().unwrap();
        own.fingerprint = Fingerprint::new(format!("peer-ca-of-{cluster}"));
        let due = own.due();
        let by = Some(own.fingerprint.clone());
        world.seen.record.peer_authority = by.clone();
        let leaf = certificates.leaves.get_mut(&Leaf::Peer).unwrap().content.as_mut().unwrap();
        leaf.signed_by = by.clone();
        leaf.trusted = by.into_iter().collect();
        leaf.validity.not_after = made + Span::seconds(3650 * DAY);
        let begins = |world: &mut World| {
            let of_peers = |effect: &Effect| {
                matches!(
                    effect,
                    Effect::Kube { write: KubeEffect::MakeNextAuthority { ca: Ca::Peers, .. }, .. }
                )
            };
            world.plan().effects.iter().any(of_peers)
        };
        world.now = Instant(due.0 - 1);
        assert!(!begins(&mut world), "cluster {cluster}: before its moment");
        world.now = due;
        assert!(begins(&mut world), "cluster {cluster}: at its moment");
        begun.push((due - made).0 / 1000 / DAY);
    }
    let (first, last) = (*begun.iter().min().unwrap(), *begun.iter().max().unwrap());
    assert!(first >= 2433 && last <= 2433 + 37, "{first} {last}");
    for day in first..=last {
        let same = begun.iter().filter(|begun| **begun == day).count();
        assert!(same <= 12, "{same} of 100 begin on day {day}");
    }
    assert!(last - first >= 25, "{first} {last}");
}

#[test]
fn r19_the_new_authority_does_not_sign_before_every_member_is_seen_to_trust_it() {
    let mut world = ordered(3, Ca::Peers);
    until(&mut world, Some(RotationStage::Trust));
    // One member is silent: its Pod is new, and nobody has seen what it trusts.
    world.silent.insert(name("demo-2"));
    for _ in 0..40 {
        step(&mut world, &mut String::new());
        assert_eq!(stage(&world), Some(RotationStage::Trust));
    }
    world.observe();
    let why = may_sign_with_new(world.view());
    assert!(matches!(why, Err(Unsafe::NotTrusted(_))), "{why:?}");
    without("NotTrusted", || {
        assert_eq!(may_sign_with_new(world.view()), Ok(()));
    });
    world.silent.clear();
    until(&mut world, Some(RotationStage::Sign));
}

#[test]
fn r19_the_earlier_authority_is_not_forgotten_while_a_member_presents_what_it_signed() {
    let mut world = ordered(3, Ca::Peers);
    until(&mut world, Some(RotationStage::Sign));
    world.presents_earlier.insert(name("demo-1"), Fingerprint::new("peer-ca-1"));
    for _ in 0..40 {
        step(&mut world, &mut String::new());
        assert_eq!(stage(&world), Some(RotationStage::Sign));
    }
    world.observe();
    let why = may_drop_earlier(world.view());
    assert_eq!(why, Err(Unsafe::EarlierPresented(name("demo-1"))));
    without("EarlierPresented", || assert_eq!(may_drop_earlier(world.view()), Ok(())));
    world.presents_earlier.clear();
    until(&mut world, None);
}

#[test]
fn r19_a_rotation_of_clients_waits_for_every_secret_that_they_read_and_their_time_begins_then() {
    for reader in [Reader::Client, Reader::User, Reader::Kamaji] {
        let mut world = ordered(3, Ca::Clients);
        let (old, new) = (Fingerprint::new("ca-1"), Fingerprint::new(next(Ca::Clients, 0)));
        let secret = |trusted: &[&Fingerprint], signed_by: &Fingerprint| Published {
            secret: "Secret default/read-by-clients".to_owned(),
            reader,
            trusted: trusted.iter().copied().cloned().collect(),
            signed_by: Some(signed_by.clone()),
        };
        until(&mut world, Some(RotationStage::Trust));
        let stays = |world: &mut World, seen: Published| {
            let before = stage(world);
            world.seen.published = vec![seen];
            for _ in 0..60 {
                step(world, &mut String::new());
                assert_eq!(stage(world), before);
            }
            let waiting = world.plan().waiting;
            let is_told = |one: &Waiting| matches!(one, Waiting::Authority(AuthorityWait::Rotating(_, Unsafe::NotTold(secret))) if secret.ends_with("/read-by-clients"));
            assert!(waiting.iter().any(is_told), "{waiting:?}");
            world.observe();
        };
        let untold = Unsafe::NotTold("Secret default/read-by-clients".to_owned());
        stays(&mut world, secret(&[], &old));
        stays(&mut world, secret(&[&old], &old));
        let sign = |world: &World| may_sign_with_new(world.view());
        assert_eq!(sign(&world), Err(untold.clone()));
        without("NotTold", || assert_ne!(sign(&world), Err(untold.clone())));
        let told = world.now;
        world.seen.published = vec![secret(&[&old, &new], &old)];
        until(&mut world, Some(RotationStage::Sign));
        assert!(world.now - told >= RotationPolicy::CLIENT_GRACE, "clients have their time from then on");

        stays(&mut world, secret(&[&old, &new], &old));
        stays(&mut world, secret(&[&new, &old], &old));
        stays(&mut world, secret(&[&old, &new], &new));
        let drop = |world: &World| may_drop_earlier(world.view());
        assert_eq!(drop(&world), Err(untold.clone()));
        without("NotTold", || assert_ne!(drop(&world), Err(untold.clone())));
        let told = world.now;
        world.seen.published = vec![secret(&[&new, &old], &new)];
        until(&mut world, Some(RotationStage::Drop));
        assert!(world.now - told >= RotationPolicy::CLIENT_GRACE, "and once more");
        until(&mut world, None);

        // That of peers is none of theirs.
        world.seen.published = vec![secret(&[&old], &old)];
        order(&mut world, Ca::Peers, " more");
        until(&mut world, Some(RotationStage::Trust));
        until(&mut world, None);
    }
}

#[test]
fn a_secret_that_loses_what_clients_are_to_follow_begins_their_time_anew() {
    let mut world = ordered(3, Ca::Clients);
    let (old, new) = (Fingerprint::new("ca-1"), Fingerprint::new(next(Ca::Clients, 0)));
    let secret = |trusted: &[&Fingerprint]| Published {
        secret: "Secret default/demo-connection".to_owned(),
        reader: Reader::Client,
        trusted: trusted.iter().copied().cloned().collect(),
        signed_by: Some(old.clone()),
    };
    world.seen.published = vec![secret(&[&old, &new])];
    until(&mut world, Some(RotationStage::Trust));
    let told = |world: &World| world.seen.record.rotation.as_ref().unwrap().told;
    while told(&world).is_none_or(|told| world.now - told < Span::seconds(3 * DAY)) {
        step(&mut world, &mut String::new());
    }
    world.seen.published = vec![secret(&[&old])];
    step(&mut world, &mut String::new());
    assert_eq!((stage(&world), told(&world)), (Some(RotationStage::Trust), None));
    world.seen.published = vec![secret(&[&old, &new])];
    let again = world.now;
    until(&mut world, Some(RotationStage::Sign));
    assert!(world.now - again >= RotationPolicy::CLIENT_GRACE);
}

#[test]
fn members_present_what_the_new_authority_signed_only_once_one_was_reached_with_it() {
    let mut world = ordered(3, Ca::Clients);
    until(&mut world, Some(RotationStage::Sign));
    let signer = |world: &World, leaf: Leaf| {
        let leaf = &world.seen.certificates.as_ref().unwrap().leaves[&leaf];
        leaf.content.as_ref().unwrap().signed_by.clone().unwrap()
    };
    let to = world.seen.record.rotation.as_ref().unwrap().to.clone();
    while signer(&world, Leaf::Client) != to {
        step(&mut world, &mut String::new());
        assert_ne!(signer(&world, Leaf::Server), to, "the operator's own certificate comes first");
    }
    // What the operator presents is refused by every member.
    world.observe();
    let answers = std::mem::take(&mut world.seen.etcd.answers);
    let secret = world.seen.certificates.as_ref().unwrap().leaves[&Leaf::Server].clone();
    let renew = KubeEffect::RenewLeaf { leaf: Leaf::Server, by: to.clone(), observed: secret.observed };
    let judged = |world: &World| {
        let (seen, record) = (&world.seen, &world.seen.record);
        let scene = quorate_planner::safety::Scene { seen, record, now: world.now, before: &[] };
        quorate_planner::safety::permits(&scene, &Effect::kube(Step::I3, renew.clone()))
    };
    assert_eq!(judged(&world), Err(Unsafe::NotReached));
    without("NotReached", || assert_eq!(judged(&world), Ok(())));
    let plan = world.plan_as_observed();
    assert!(plan.effects.iter().all(|effect| effect.step() != Step::I3), "{:?}", plan.effects);
    assert_eq!(may_drop_earlier(world.view()), Err(Unsafe::NotReached));
    world.seen.etcd.answers = answers;
    assert_eq!(judged(&world), Ok(()));
    until(&mut world, None);
}

#[test]
fn a_member_that_read_other_authorities_than_its_secret_should_have_is_restarted() {
    // Somebody cut the bundle in the moment in which this one started.
    let mut world = ordered(3, Ca::Peers);
    until(&mut world, Some(RotationStage::Trust));
    let mut story = String::new();
    for _ in 0..60 {
        step(&mut world, &mut story);
        if let Some(pod) = world.seen.pods.get(&name("demo-1")).filter(|pod| pod.trust == 1) {
            let uid = pod.uid.clone();
            world.trusts.get_mut(&uid).unwrap().insert(Ca::Peers, [Fingerprint::new("peer-ca-1")].into());
            break;
        }
    }
    let rest = until(&mut world, Some(RotationStage::Sign));
    assert!(rest.contains("evict Pod demo-1") || rest.contains("delete Pod demo-1"), "{rest}");
}

#[test]
fn a_member_that_is_lost_in_any_stage_is_replaced_and_the_rotation_ends() {
    for lost_in in [RotationStage::Trust, RotationStage::Sign, RotationStage::Drop] {
        let mut world = ordered(3, Ca::Peers);
        until(&mut world, Some(lost_in));
        world.seen.pods.remove(&name("demo-0"));
        until(&mut world, None);
        world.settle();
        assert_eq!(world.seen.pods.len(), 3, "{lost_in}");
    }
}

#[test]
fn a_lost_authority_is_replaced_on_order_and_its_certificate_is_still_trusted_meanwhile() {
    for loss in ["gone", "another"] {
        let mut world = World::running(3);
        let now = world.now;
        let other = crate::world::certificates::authority(&world.seen, "ca-of-somebody", now);
        let seen = world.seen.certificates.as_mut().unwrap();
        let lost = seen.authorities.remove(&Ca::Peers).unwrap();
        if loss == "another" {
            let secret = quorate_model::snapshot::AuthoritySecret { content: other.content, ..lost };
            seen.authorities.insert(Ca::Peers, secret);
        }
        assert!(world.plan().effects.is_empty(), "{loss}: nothing without an order");
        order(&mut world, Ca::Peers, "");
        until(&mut world, Some(RotationStage::Sign));
        until(&mut world, None);
        assert_ne!(world.seen.record.peer_authority, Some(Fingerprint::new("peer-ca-1")), "{loss}");
        world.settle();
    }
}

#[test]
fn a_lost_authority_of_clients_is_replaced_on_order_though_nothing_can_be_signed_for_tenants_before() {
    let mut world = World::running(3);
    world.seen.published = vec![Published {
        secret: "Secret default/demo-root-client-tls".to_owned(),
        reader: Reader::Kamaji,
        trusted: Vec::new(),
        signed_by: None,
    }];
    world.seen.certificates.as_mut().unwrap().authorities.remove(&Ca::Clients);
    order(&mut world, Ca::Clients, "");
    until(&mut world, Some(RotationStage::Trust));
    until(&mut world, Some(RotationStage::Sign));
    // The new one signs, so now they are waited for.
    for _ in 0..60 {
        step(&mut world, &mut String::new());
        assert_eq!(stage(&world), Some(RotationStage::Sign));
    }
    world.observe();
    let untold = Unsafe::NotTold("Secret default/demo-root-client-tls".to_owned());
    assert_eq!(may_drop_earlier(world.view()), Err(untold));
}

#[test]
fn an_order_is_followed_once_and_another_word_is_another_order() {
    let mut world = ordered(1, Ca::Peers);
    until(&mut world, Some(RotationStage::Trust));
    until(&mut world, None);
    world.settle();
    assert_eq!(world.seen.record.spent_rotation.as_deref(), Some("peers"));
    let first = world.seen.record.peer_authority.clone();
    order(&mut world, Ca::Peers, "/again");
    until(&mut world, Some(RotationStage::Trust));
    until(&mut world, None);
    assert_ne!(world.seen.record.peer_authority, first);
    assert_eq!(world.seen.record.trust, 4, "two generations for each");
}

#[test]
fn r19_a_bundle_is_what_the_record_says_and_nothing_else() {
    let mut world = ordered(3, Ca::Peers);
    until(&mut world, Some(RotationStage::Sign));
    let rotation = world.seen.record.rotation.clone().unwrap();
    let write = |trust: &[&Fingerprint]| KubeEffect::WriteTrust {
        leaf: Leaf::Peer,
        observed: world.seen.certificates.as_ref().unwrap().leaves[&Leaf::Peer].observed.clone(),
        trust: trust.iter().copied().cloned().collect(),
        generation: world.seen.record.trust,
    };
    let judge = |write: KubeEffect| {
        let (seen, record) = (&world.seen, &world.seen.record);
        let scene = quorate_planner::safety::Scene { seen, record, now: world.now, before: &[] };
        quorate_planner::safety::permits(&scene, &quorate_model::Effect::kube(Step::C6, write))
    };
    let (from, to, other) = (&rotation.from, &rotation.to, &Fingerprint::new("of-somebody"));
    assert_eq!(judge(write(&[to, from])), Ok(()));
    let others: [&[&Fingerprint]; 5] = [&[to], &[from], &[from, to], &[to, from, other], &[]];
    for bundle in others {
        assert_eq!(judge(write(bundle)), Err(Unsafe::OtherBundle), "{bundle:?}");
        without("OtherBundle", || assert_eq!(judge(write(bundle)), Ok(())));
    }
    until(&mut world, None);
    world.settle();
    let (to, other) = (&rotation.to, &Fingerprint::new("of-somebody"));
    let judge_at_rest = |world: &World, trust: Vec<Fingerprint>| {
        let secret = &world.seen.certificates.as_ref().unwrap().leaves[&Leaf::Peer];
        let (observed, generation) = (secret.observed.clone(), world.seen.record.trust);
        let write = KubeEffect::WriteTrust { leaf: Leaf::Peer, observed, trust, generation };
        let scene = quorate_planner::safety::Scene {
            seen: &world.seen,
            record: &world.seen.record,
            now: world.now,
            before: &[],
        };
        quorate_planner::safety::permits(&scene, &quorate_model::Effect::kube(Step::C6, write))
    };
    assert_eq!(judge_at_rest(&world, vec![to.clone()]), Ok(()));
    assert_eq!(judge_at_rest(&world, vec![to.clone(), other.clone()]), Err(Unsafe::OtherBundle));
}

/// What leaves of a port have beside them.
fn trusted(world: &World, ca: Ca) -> BTreeSet<&Fingerprint> {
    let leaves = world.seen.certificates.as_ref().unwrap().leaves.iter().filter(|(leaf, _)| leaf.ca() == ca);
    leaves.flat_map(|(_, secret)| &secret.content.as_ref().unwrap().trusted).collect()
}

/// Every member that runs trusts the recorded authority of each port, and nothing else.
#[track_caller]
fn only_the_recorded_are_trusted(world: &World) {
    for ca in Ca::ALL {
        let recorded = world.seen.record.authority_of(ca).unwrap();
        assert_eq!(trusted(world, ca), [recorded].into(), "beside leaves of {ca}");
        for (member, pod) in &world.seen.pods {
            assert_eq!(world.trusts[&pod.uid][&ca], [recorded.clone()].into(), "{member}, {ca}");
        }
    }
}

#[test]
fn an_authority_that_was_given_up_before_it_signed_is_forgotten_by_all_though_its_key_may_be_somebodys() {
    for ca in Ca::ALL {
        let mut world = ordered(3, ca);
        until(&mut world, Some(RotationStage::Trust));
        let given_up = world.seen.record.rotation.as_ref().unwrap().to.clone();
        // Bundles are written, and members restart to read them.
        while world.seen.pods.values().any(|pod| pod.trust == 0) || !trusted(&world, ca).contains(&given_up) {
            step(&mut world, &mut String::new());
        }
        world.seen.certificates.as_mut().unwrap().authorities.get_mut(&ca).unwrap().next = None;
        until(&mut world, Some(RotationStage::Drop));
        assert_eq!(world.seen.record.rotation.as_ref().unwrap().from, given_up);
        until(&mut world, None);
        until(&mut world, Some(RotationStage::Trust));
        assert_ne!(world.seen.record.rotation.as_ref().unwrap().to, given_up, "the order begins anew");
        until(&mut world, None);
        world.settle();
        only_the_recorded_are_trusted(&world);
    }
}

#[test]
fn what_somebody_puts_into_a_bundle_at_rest_is_taken_out_at_once_and_every_member_forgets_it() {
    for leaf in [Leaf::Server, Leaf::Peer, Leaf::Client] {
        let mut world = World::running(3);
        let planted = Fingerprint::new("of-somebody");
        let leaves = &mut world.seen.certificates.as_mut().unwrap().leaves;
        leaves.get_mut(&leaf).unwrap().content.as_mut().unwrap().trusted.push(planted.clone());
        // One member starts meanwhile.
        let pod = world.seen.pods[&name("demo-1")].uid.clone();
        world.trusts.get_mut(&pod).unwrap().get_mut(&leaf.ca()).unwrap().insert(planted.clone());
        let began = world.now;
        until(&mut world, Some(RotationStage::Drop));
        let story = until(&mut world, None);
        assert_eq!(story.matches("U5").count(), 3, "{story}");
        assert!(world.now - began < Span::seconds(DAY), "nobody has a time");
        world.settle();
        only_the_recorded_are_trusted(&world);
    }
}

#[test]
fn where_status_is_lost_while_the_new_authority_signs_the_earlier_one_is_trusted_until_clients_had_their_time()
 {
    for ca in Ca::ALL {
        let mut world = ordered(3, ca);
        until(&mut world, Some(RotationStage::Sign));
        let rotation = world.seen.record.rotation.clone().unwrap();
        // The new one has its place in its Secret.
        while !world.seen.certificates.as_ref().unwrap().authorities[&ca].is_first(&rotation.to) {
            step(&mut world, &mut String::new());
        }
        let record = &mut world.seen.record;
        (record.rotation, record.trust) = (None, 0);
        record.authority = record.authority.take().filter(|_| ca == Ca::Peers);
        record.peer_authority = record.peer_authority.take().filter(|_| ca == Ca::Clients);
        world.seen.rotation_policy.order = None;
        let lost = world.now;
        let plan = world.plan();
        let again = plan.record.rotation.clone().unwrap();
        assert_eq!((again.stage, again.from, again.to), (RotationStage::Sign, rotation.from, rotation.to));
        world.carry_out(plan);
        until(&mut world, Some(RotationStage::Drop));
        assert_eq!(world.now - lost >= RotationPolicy::CLIENT_GRACE, ca == Ca::Clients);
        until(&mut world, None);
        world.settle();
        only_the_recorded_are_trusted(&world);
    }
}

#[test]
fn a_secret_of_before_gets_the_generation_again_or_members_that_start_would_wait_for_ever() {
    let mut world = ordered(3, Ca::Peers);
    until(&mut world, Some(RotationStage::Trust));
    until(&mut world, None);
    world.settle();
    let leaves = &mut world.seen.certificates.as_mut().unwrap().leaves;
    leaves.get_mut(&Leaf::Server).unwrap().content.as_mut().unwrap().trust = 0;
    let story = world.settle();
    assert!(
        story.contains("C2 let holders of the server certificate trust ca-1, and nothing else"),
        "{story}"
    );
    assert!(!story.contains("U5"), "nothing restarts: {story}");
    assert_eq!(world.seen.certificates.as_ref().unwrap().trust(), 2);
}

#[test]
fn a_new_authority_that_is_lost_before_it_signs_is_made_again() {
    let mut world = ordered(3, Ca::Peers);
    until(&mut world, Some(RotationStage::Trust));
    world.seen.certificates.as_mut().unwrap().authorities.get_mut(&Ca::Peers).unwrap().next = None;
    world.observe();
    let why = may_sign_with_new(world.view());
    assert!(why.is_err(), "nobody could sign by it");
    until(&mut world, Some(RotationStage::Sign));
    until(&mut world, None);
    world.settle();
    only_the_recorded_are_trusted(&world);
}

#[test]
fn an_authority_that_is_lost_once_all_is_signed_ends_its_rotation_and_another_order_follows() {
    for ca in Ca::ALL {
        let mut world = ordered(3, ca);
        until(&mut world, Some(RotationStage::Sign));
        let to = world.seen.record.rotation.as_ref().unwrap().to.clone();
        let is_signed = |world: &World| {
            let mut leaves = world.seen.certificates.as_ref().unwrap().leaves.iter();
            leaves.all(|(leaf, own)| {
                leaf.ca() != ca || own.content.as_ref().unwrap().signed_by.as_ref() == Some(&to)
            })
        };
        while !is_signed(&world) {
            step(&mut world, &mut String::new());
        }
        // Its Secret comes back from a backup of before the rotation.
        let of_before = crate::world::certificates::first(ca);
        let old = crate::world::certificates::authority(&world.seen, of_before, world.now);
        world.seen.certificates.as_mut().unwrap().authorities.insert(ca, old);
        until(&mut world, None);
        assert_eq!(world.seen.record.authority_of(ca), Some(&to));
        order(&mut world, ca, "/lost");
        until(&mut world, Some(RotationStage::Trust));
        until(&mut world, None);
        world.settle();
        let now = world.seen.record.authority_of(ca).unwrap();
        assert!(*now != to && now.as_str() != of_before, "an earlier one never signs again");
        only_the_recorded_are_trusted(&world);
    }
}

#[test]
fn one_that_is_lost_before_all_is_signed_is_replaced_where_no_pod_runs() {
    let mut world = ordered(3, Ca::Peers);
    until(&mut world, Some(RotationStage::Sign));
    world.seen.certificates.as_mut().unwrap().authorities.remove(&Ca::Peers);
    order(&mut world, Ca::Peers, "/lost");
    for _ in 0..20 {
        step(&mut world, &mut String::new());
    }
    assert_eq!(stage(&world), Some(RotationStage::Sign), "members serve on");
    assert_eq!(world.seen.pods.len(), 3);
    world.seen.desired.size = 0;
    world.settle();
    world.seen.desired.size = 3;
    world.settle();
    assert!(stage(&world).is_none() && world.seen.pods.len() == 3);
    only_the_recorded_are_trusted(&world);
}

#[test]
fn who_annotates_a_pod_does_not_raise_the_generation() {
    let mut world = ordered(1, Ca::Peers);
    until(&mut world, Some(RotationStage::Trust));
    until(&mut world, None);
    world.seen.pods.get_mut(&name("demo-0")).unwrap().trust = 5000;
    world.settle();
    assert_eq!(world.seen.record.trust, 2);
}

#[test]
fn r19_the_new_authority_does_not_sign_while_a_member_that_starts_would_not_trust_it() {
    let mut world = ordered(3, Ca::Peers);
    until(&mut world, Some(RotationStage::Trust));
    while world.seen.pods.len() < 3 || world.seen.pods.values().any(|pod| pod.trust == 0) {
        step(&mut world, &mut String::new());
    }
    // Somebody cut the bundle when every member had read it.
    let leaves = &mut world.seen.certificates.as_mut().unwrap().leaves;
    leaves.get_mut(&Leaf::Peer).unwrap().content.as_mut().unwrap().trusted =
        vec![Fingerprint::new("peer-ca-1")];
    world.observe();
    let judged = || may_sign_with_new(world.view());
    assert_eq!(stage(&world), Some(RotationStage::Trust));
    assert_eq!(judged(), Err(Unsafe::BundleNotWritten));
    without("BundleNotWritten", || assert_eq!(judged(), Ok(())));
}

/// No Pod exists, and this has become of the authority.
fn without_pods(ca: Ca, what: &str) -> World {
    let mut world = World::running(3);
    world.seen.desired.size = 0;
    world.settle();
    assert!(world.seen.pods.is_empty());
    let now = world.now;
    let other = crate::world::certificates::authority(&world.seen, "ca-of-somebody", now);
    let seen = world.seen.certificates.as_mut().unwrap();
    let own = seen.authorities.get_mut(&ca).unwrap();
    match what {
        "lost" => drop(seen.authorities.remove(&ca)),
        "ended" => own.content.as_mut().unwrap().validity.not_after = now,
        "unreadable" => own.content = Err("it has no tls.key".to_owned()),
        "without its key" => own.content.as_mut().unwrap().keyless = true,
        "another one" => own.content = other.content,
        "all Secrets" => {
            seen.authorities.clear();
            seen.leaves.clear();
        }
        _ => {}
    }
    world
}

#[test]
fn without_a_pod_an_authority_is_replaced_at_once_by_order_whatever_has_become_of_it() {
    let all = ["as it was", "lost", "ended", "unreadable", "without its key", "another one", "all Secrets"];
    for (ca, what) in Ca::ALL.into_iter().flat_map(|ca| all.map(|what| (ca, what))) {
        let mut world = without_pods(ca, what);
        let (before, began) = (world.seen.record.authority_of(ca).cloned(), world.now);
        let orders = if what == "all Secrets" { Ca::ALL.to_vec() } else { vec![ca] };
        for (number, ordered) in orders.into_iter().enumerate() {
            order(&mut world, ordered, &format!("/{number}"));
            world.settle();
        }
        assert_ne!(world.seen.record.authority_of(ca).cloned(), before, "{ca} {what}");
        assert!(stage(&world).is_none() && world.now - began < Span::seconds(DAY), "{ca} {what}");
        let plan = world.plan();
        assert!(plan.effects.is_empty(), "{ca} {what}: the order is spent: {:?}", plan.effects);
        world.seen.desired.size = 3;
        world.settle();
        assert_eq!(world.seen.pods.len(), 3, "{ca} {what}");
        only_the_recorded_are_trusted(&world);
        trust_each_other(&world);
    }
}

#[test]
fn r19_no_authority_is_replaced_at_once_while_a_pod_exists_or_without_an_order() {
    use quorate_planner::safety::may_swap;
    let mut world = ordered(3, Ca::Peers);
    let judge = |world: &World, ca| may_swap(world.view(), ca);
    assert_eq!(judge(&world, Ca::Peers), Err(Unsafe::PodsExist));
    without("PodsExist", || assert_eq!(judge(&world, Ca::Peers), Ok(())));
    world.seen.pods.clear();
    assert_eq!(judge(&world, Ca::Peers), Ok(()));
    assert_eq!(judge(&world, Ca::Clients), Err(Unsafe::AnotherAuthority));
    world.seen.rotation_policy.order = None;
    assert_eq!(judge(&world, Ca::Peers), Err(Unsafe::AnotherAuthority));
}

#[test]
fn a_missing_leaf_that_nothing_can_sign_holds_up_only_the_pods_that_would_mount_it() {
    let mut world = World::running(3);
    let seen = world.seen.certificates.as_mut().unwrap();
    seen.authorities.remove(&Ca::Clients);
    seen.leaves.remove(&Leaf::Server);
    world.seen.pods.remove(&name("demo-1"));
    let plan = world.plan();
    assert!(
        plan.waiting.iter().any(|waiting| matches!(waiting, Waiting::Authority(AuthorityWait::Lost { .. }))),
        "{plan:?}"
    );
    let makes = |effect: &Effect| effect.to_string().starts_with("create Pod demo-1");
    assert!(plan.effects.iter().any(makes), "{:?}", plan.effects);
}
