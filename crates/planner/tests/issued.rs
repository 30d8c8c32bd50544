//! Certificates that are issued somewhere else, by an authority whose key is not here: what is copied, and when.

use std::collections::BTreeMap;

use crate::world::World;
use crate::world::certificates::DAY;
use crate::world::rotation::{recorded, stage, step, until};
use quorate_model::auth::AuthPolicy;
use quorate_model::certificate::Validity;
use quorate_model::effect::{AuthorityWait, NotRotated, Unsafe};
use quorate_model::rotation::RotationStage;
use quorate_model::snapshot::{Authority, GivenAuthority, LeafCertificate};
use quorate_model::{Ca, Effect, Fingerprint, Instant, KubeEffect, Leaf, Span, Step, Waiting};
use quorate_planner::safety::mutants::without;
use quorate_planner::safety::{Scene, may_sign_with_new, permits};

const ONE: &str = "issued-by-somebody-1";
const OTHER: &str = "issued-by-somebody-2";
const THIRD: &str = "issued-by-somebody-3";

const CLIENTS: [Leaf; 3] = [Leaf::Server, Leaf::Client, Leaf::Operator];

fn life(now: Instant, days: u64) -> Validity {
    Validity { not_before: now, not_after: now + Span::seconds(days * DAY) }
}

fn issued(leaf: Leaf, by: &str, serial: u32, validity: Validity) -> LeafCertificate {
    LeafCertificate {
        fingerprint: Fingerprint::new(format!("{leaf} {serial} of {by}")),
        validity,
        signed_by: Some(Fingerprint::new(by)),
        trusted: Vec::new(),
        lacks: Vec::new(),
        trust: 0,
        misnamed: None,
    }
}

/// Somebody has this authority sign all leaves.
fn issue(world: &mut World, by: &str, serial: u32) {
    let now = world.now;
    let authority = Authority {
        fingerprint: Fingerprint::new(by),
        certificate: crate::world::certificates::certificate(by),
        validity: life(now, 3650),
        minted: false,
        keyless: true,
    };
    let leaves = CLIENTS.map(|leaf| (leaf, Ok(issued(leaf, by, serial, life(now, 90)))));
    give(world, Ok(authority), leaves.into_iter().collect());
}

fn give(
    world: &mut World,
    content: Result<Authority, String>,
    leaves: BTreeMap<Leaf, Result<LeafCertificate, String>>,
) {
    let secret = "Secret default/demo-server-issued".to_owned();
    world.seen.certificates.as_mut().unwrap().given =
        Some(GivenAuthority { secret, content, leaves, issuer_says: None });
}

fn given(world: &mut World) -> &mut GivenAuthority {
    world.seen.certificates.as_mut().unwrap().given.as_mut().unwrap()
}

fn staged(world: &mut World) -> &mut BTreeMap<Leaf, LeafCertificate> {
    &mut world.seen.certificates.as_mut().unwrap().authorities.get_mut(&Ca::Clients).unwrap().staged
}

fn is_copy(world: &World, leaf: Leaf, by: &str, serial: u32) -> bool {
    let secret = &world.seen.certificates.as_ref().unwrap().leaves[&leaf];
    secret.content.as_ref().unwrap().fingerprint.as_str() == format!("{leaf} {serial} of {by}")
}

fn is_trusted(world: &World, by: &str) -> bool {
    let secret = &world.seen.certificates.as_ref().unwrap().leaves[&Leaf::Server];
    secret.content.as_ref().unwrap().trusted.contains(&Fingerprint::new(by))
}

fn until_authority(world: &mut World, authority: &str) -> String {
    until(world, |world| recorded(world) == authority && stage(world).is_none())
}

fn says(world: &mut World) -> String {
    format!("{:?}", world.plan().waiting)
}

/// With members that run by an authority whose key is somewhere else.
fn running() -> World {
    let mut world = World::new(3);
    issue(&mut world, ONE, 1);
    world.settle();
    world
}

#[test]
fn a_new_cluster_begins_with_copies_of_what_was_issued_and_its_peers_with_their_own_authority() {
    let mut world = running();
    assert_eq!((recorded(&world), world.seen.record.given), (ONE, true));
    assert!(is_copy(&world, Leaf::Server, ONE, 1) && is_copy(&world, Leaf::Client, ONE, 1));
    assert_eq!(world.seen.record.peer_authority, Some(Fingerprint::new("peer-ca-1")));
    let peer = &world.seen.certificates.as_ref().unwrap().leaves[&Leaf::Peer];
    assert_eq!(peer.content.as_ref().unwrap().signed_by.as_ref().unwrap().as_str(), "peer-ca-1");
    assert!(world.plan().effects.is_empty());
}

#[test]
fn a_new_cluster_waits_for_every_certificate_and_says_which_one_is_missing() {
    let mut world = World::new(3);
    issue(&mut world, ONE, 1);
    given(&mut world).leaves.insert(Leaf::Client, Err("Secret default/c: it does not exist".to_owned()));
    world.settle();
    assert!(recorded(&world).is_empty() && world.seen.pods.is_empty());
    assert!(says(&mut world).contains("Secret default/c: it does not exist"), "{}", says(&mut world));
    issue(&mut world, ONE, 1);
    world.settle();
    assert_eq!((recorded(&world), world.seen.pods.len()), (ONE, 3));
}

#[test]
fn a_renewal_by_the_same_authority_is_copied_and_restarts_nothing() {
    let mut world = running();
    let pods: Vec<_> = world.seen.pods.values().map(|pod| pod.uid.clone()).collect();
    issue(&mut world, ONE, 2);
    let story = world.settle();
    assert!(is_copy(&world, Leaf::Server, ONE, 2) && is_copy(&world, Leaf::Client, ONE, 2), "{story}");
    assert_eq!(world.seen.pods.values().map(|pod| pod.uid.clone()).collect::<Vec<_>>(), pods);
    // It is never due by its dates: whoever issues it renews it.
    world.now = world.now + Span::seconds(80 * DAY);
    assert!(world.plan().effects.is_empty(), "{:?}", world.plan().effects);
}

#[test]
fn a_certificate_that_ended_or_is_to_come_is_not_copied() {
    for days in [-1, 1] {
        let mut world = running();
        let at = Instant(world.now.0 + days * 86_400_000);
        let validity = if days < 0 {
            Validity { not_before: Instant(at.0 - 1000), not_after: at }
        } else {
            life(at, 90)
        };
        given(&mut world).leaves.insert(Leaf::Server, Ok(issued(Leaf::Server, ONE, 2, validity)));
        world.settle();
        assert!(is_copy(&world, Leaf::Server, ONE, 1));
    }
}

#[test]
fn another_authority_without_an_overlap_is_copied_only_once_everybody_trusts_it() {
    let mut world = running();
    issue(&mut world, OTHER, 2);
    until(&mut world, |world| stage(world) == Some(RotationStage::Trust));
    let story = until(&mut world, |world| stage(world) != Some(RotationStage::Trust));
    assert!(!story.contains("renew the server"), "{story}");
    assert!(is_copy(&world, Leaf::Server, ONE, 1) && is_trusted(&world, OTHER));
    until_authority(&mut world, OTHER);
    assert!(is_copy(&world, Leaf::Server, OTHER, 2) && is_copy(&world, Leaf::Client, OTHER, 2));
    assert!(!is_trusted(&world, ONE));
}

#[test]
fn from_the_operators_own_to_an_authority_of_somebody_else_and_back() {
    let mut world = World::running(3);
    issue(&mut world, ONE, 1);
    until_authority(&mut world, ONE);
    assert!(is_copy(&world, Leaf::Server, ONE, 1));
    world.seen.certificates.as_mut().unwrap().given = None;
    until(&mut world, |world| recorded(world).starts_with("ca-1-after") && stage(world).is_none());
    assert!(!is_trusted(&world, ONE) && !world.seen.record.given);
}

#[test]
fn what_was_begun_ends_with_what_came_with_it_whatever_is_issued_meanwhile_and_the_next_one_follows() {
    let moments: [fn(&World) -> bool; 4] = [
        |world| stage(world) == Some(RotationStage::Trust),
        |world| stage(world) == Some(RotationStage::Sign),
        |world| is_copy(world, Leaf::Server, OTHER, 2),
        |world| stage(world) == Some(RotationStage::Drop),
    ];
    for (moment, next) in (0..4).flat_map(|moment| [Some(THIRD), Some(ONE), None].map(|next| (moment, next)))
    {
        let mut world = running();
        issue(&mut world, OTHER, 2);
        until(&mut world, moments[moment]);
        match next {
            Some(next) => issue(&mut world, next, 3),
            None => world.seen.certificates.as_mut().unwrap().given = None,
        }
        until_authority(&mut world, OTHER);
        assert!(CLIENTS[..2].iter().all(|leaf| is_copy(&world, *leaf, OTHER, 2)), "{moment} {next:?}");
        assert!(!is_trusted(&world, ONE));
        let is_next = |own: &str| next.map_or_else(|| own.starts_with("ca-1-after"), |next| own == next);
        until(&mut world, |world| is_next(recorded(world)) && stage(world).is_none());
        assert!(!is_trusted(&world, OTHER), "{moment} {next:?}");
        world.settle();
        assert!(world.plan().effects.is_empty());
    }
}

#[test]
fn what_came_with_an_authority_and_has_ended_before_it_signed_is_forgotten_and_what_is_there_follows() {
    let mut world = running();
    issue(&mut world, OTHER, 2);
    until(&mut world, |world| stage(world) == Some(RotationStage::Trust) && is_trusted(world, OTHER));
    let now = world.now;
    staged(&mut world).get_mut(&Leaf::Client).unwrap().validity.not_after = now;
    issue(&mut world, THIRD, 3);
    let story = until_authority(&mut world, THIRD);
    assert!(!story.contains("by issued-by-somebody-2"), "nothing of it was copied: {story}");
    assert!(!is_trusted(&world, OTHER) && !is_trusted(&world, ONE));
    assert!(is_copy(&world, Leaf::Client, THIRD, 3));
}

#[test]
fn a_renewal_by_the_new_authority_goes_before_what_came_with_it() {
    let mut world = running();
    issue(&mut world, OTHER, 2);
    until(&mut world, |world| stage(world) == Some(RotationStage::Trust));
    issue(&mut world, OTHER, 3);
    until_authority(&mut world, OTHER);
    assert!(is_copy(&world, Leaf::Server, OTHER, 3));
    // What came with it never takes the place of a newer one.
    world.seen.certificates.as_mut().unwrap().given = None;
    let plan = world.plan();
    assert!(plan.effects.iter().all(|effect| effect.step() != Step::I3), "{:?}", plan.effects);
}

#[test]
fn where_status_is_lost_in_the_middle_what_is_presented_stays_trusted_until_nobody_presents_it() {
    let mut world = running();
    issue(&mut world, OTHER, 2);
    until(&mut world, |world| is_copy(world, Leaf::Server, OTHER, 2));
    issue(&mut world, THIRD, 3);
    let record = &mut world.seen.record;
    (record.authority, record.rotation, record.given) = (None, None, false);
    record.certificates.clear();
    let until_it_signs = |world: &World| {
        assert!(is_trusted(world, OTHER), "its copy is presented");
        stage(world) == Some(RotationStage::Drop) || is_copy(world, Leaf::Client, OTHER, 2)
    };
    until(&mut world, until_it_signs);
    until_authority(&mut world, THIRD);
    assert!(![ONE, OTHER].iter().any(|one| is_trusted(&world, one)));
}

#[test]
fn a_copy_that_is_lost_in_any_stage_is_made_again_from_what_came_with_its_authority() {
    for at in [RotationStage::Trust, RotationStage::Sign, RotationStage::Drop] {
        let mut world = running();
        issue(&mut world, OTHER, 2);
        until(&mut world, |world| {
            stage(world) == Some(at) && (at != RotationStage::Sign || is_copy(world, Leaf::Client, OTHER, 2))
        });
        world.seen.certificates.as_mut().unwrap().leaves.remove(&Leaf::Client);
        issue(&mut world, THIRD, 3);
        until_authority(&mut world, THIRD);
        assert!(
            is_copy(&world, Leaf::Client, THIRD, 3) && !is_trusted(&world, ONE) && !is_trusted(&world, OTHER)
        );
    }
}

#[test]
fn s15_r19_an_authority_without_its_key_signs_only_by_what_came_with_it() {
    let mut world = running();
    issue(&mut world, OTHER, 2);
    staged(&mut world).clear();
    let sign = |world: &World, by: &str| {
        let secret = &world.seen.certificates.as_ref().unwrap().leaves[&Leaf::Server];
        let (by, observed) = (Fingerprint::new(by), secret.observed.clone());
        let renew = KubeEffect::RenewLeaf { leaf: Leaf::Server, by, observed };
        let scene = Scene { seen: &world.seen, record: &world.seen.record, now: world.now, before: &[] };
        permits(&scene, &Effect::kube(Step::I3, renew))
    };
    assert_eq!(sign(&world, OTHER), Err(Unsafe::AnotherAuthority), "members do not trust it yet");
    assert_eq!(sign(&world, ONE), Err(Unsafe::OtherSource), "there is none of it any more");
    without("OtherSource", || assert_eq!(sign(&world, ONE), Ok(())));

    // C4 waits for every leaf that the cluster has.
    for _ in 0..300 {
        world.observe();
        if may_sign_with_new(world.view()).is_ok() {
            break;
        }
        let plan = world.plan_as_observed();
        if plan.effects.is_empty() && plan.record == world.seen.record {
            world.now = world.now + Span::seconds(DAY);
        }
        world.carry_out(plan);
    }
    given(&mut world).leaves.insert(Leaf::Client, Err("it is of another authority".to_owned()));
    staged(&mut world).remove(&Leaf::Client);
    let judged = || may_sign_with_new(world.view());
    assert_eq!((stage(&world), judged()), (Some(RotationStage::Trust), Err(Unsafe::OtherSource)));
    without("OtherSource", || assert_eq!(judged(), Ok(())));
}

#[test]
fn auth_begins_only_once_the_certificate_of_the_operator_was_issued() {
    let mut world = running();
    given(&mut world).leaves.insert(Leaf::Operator, Err("it does not exist".to_owned()));
    staged(&mut world).clear();
    world.seen.auth_policy = AuthPolicy { wanted: true, ..world.seen.auth_policy };
    let story = world.settle();
    assert!(!world.seen.record.has_credential(), "{story}");
    assert!(says(&mut world).contains("NotGiven(\"it does not exist\")"), "{}", says(&mut world));
    let other = issued(Leaf::Operator, OTHER, 1, life(world.now, 90));
    given(&mut world).leaves.insert(Leaf::Operator, Ok(other));
    assert!(
        says(&mut world).contains("NoRootCertificate(OfAnother { leaf: Operator"),
        "{}",
        says(&mut world)
    );
    issue(&mut world, ONE, 1);
    world.settle();
    assert!(world.seen.record.has_credential() && is_copy(&world, Leaf::Operator, ONE, 1));
}

#[test]
fn a_renewal_is_copied_also_where_another_certificate_is_missing_or_of_another_authority() {
    for other in [Err("it does not exist".to_owned()), Ok(OTHER)] {
        let mut world = running();
        issue(&mut world, ONE, 2);
        let validity = life(world.now, 90);
        let given = given(&mut world);
        given.content = match &other {
            Err(why) => Err(why.clone()),
            Ok(by) => Ok(Authority { fingerprint: Fingerprint::new(*by), ..given.content.clone().unwrap() }),
        };
        let server = other.map(|by| issued(Leaf::Server, by, 3, validity));
        given.leaves.insert(Leaf::Server, server);
        let story = world.settle();
        assert!(is_copy(&world, Leaf::Client, ONE, 2), "{story} {}", says(&mut world));
        assert!(is_copy(&world, Leaf::Server, ONE, 1), "{story}");
        assert!(stage(&world).is_none(), "an authority whose leaves are not all there begins nothing");
    }
}

#[test]
fn a_copy_that_is_lost_and_cannot_be_had_again_holds_up_nothing_else_and_comes_with_the_next_authority() {
    let mut world = running();
    issue(&mut world, OTHER, 2);
    world.seen.certificates.as_mut().unwrap().leaves.remove(&Leaf::Client);
    until_authority(&mut world, OTHER);
    assert!(is_copy(&world, Leaf::Client, OTHER, 2) && !is_trusted(&world, ONE));

    let mut world = running();
    world.seen.certificates.as_mut().unwrap().given = None;
    world.seen.certificates.as_mut().unwrap().leaves.remove(&Leaf::Client);
    world.seen.pods.remove(&crate::world::name("demo-1"));
    until(&mut world, |world| recorded(world).starts_with("ca-1-after") && stage(world).is_none());
    assert_eq!(world.seen.pods.len(), 3, "a lost Pod is restarted meanwhile");
}

#[test]
fn clients_have_time_no_longer_than_the_copies_last() {
    let mut world = running();
    issue(&mut world, OTHER, 2);
    until(&mut world, |world| stage(world) == Some(RotationStage::Trust));
    world.seen.rotation_policy.client_grace = Span::seconds(365 * DAY);
    let first = world.seen.certificates.as_ref().unwrap().leaves[&Leaf::Server].content.clone().unwrap();
    until(&mut world, |world| stage(world) == Some(RotationStage::Sign));
    assert!(world.now < first.validity.not_after, "the earlier copies have not ended");
}

#[test]
fn a_cluster_at_size_zero_follows_another_authority_before_it_wakes() {
    let mut world = running();
    world.seen.desired.size = 0;
    world.settle();
    assert!(world.seen.pods.is_empty());
    issue(&mut world, OTHER, 2);
    until_authority(&mut world, OTHER);
    assert!(is_copy(&world, Leaf::Server, OTHER, 2));
    world.seen.desired.size = 3;
    world.settle();
    assert_eq!(world.seen.pods.len(), 3);
}

#[test]
fn one_whose_copy_is_lost_before_it_signed_is_taken_out_of_every_bundle_as_somebody_has_its_key() {
    let mut world = running();
    issue(&mut world, OTHER, 2);
    until(&mut world, |world| stage(world) == Some(RotationStage::Trust) && is_trusted(world, OTHER));
    issue(&mut world, ONE, 3);
    world.seen.certificates.as_mut().unwrap().authorities.get_mut(&Ca::Clients).unwrap().next = None;
    until_authority(&mut world, ONE);
    assert!(!is_trusted(&world, OTHER) && is_copy(&world, Leaf::Server, ONE, 3));
}

#[test]
fn an_authority_of_the_operators_own_is_never_taken_for_one_whose_key_is_somewhere_else() {
    let mut world = World::running(1);
    issue(&mut world, "ca-1", 1);
    if let Ok(content) = &mut given(&mut world).content {
        content.minted = true;
    }
    let says = says(&mut world);
    assert!(says.contains("it is one that an operator made"), "{says}");
    let own = &world.seen.certificates.as_ref().unwrap().authorities[&Ca::Clients];
    assert!(!own.content.as_ref().unwrap().keyless && world.plan().effects.is_empty());
}

#[test]
fn an_authority_without_its_key_takes_no_place_while_tenants_of_kamaji_need_the_key() {
    let mut world = World::running(3);
    world.seen.may_have_data_store = true;
    issue(&mut world, OTHER, 1);
    let before = recorded(&world).to_owned();
    for _ in 0..50 {
        let plan = world.plan();
        assert!(plan.effects.iter().all(|effect| effect.step() != Step::C1), "{:?}", plan.effects);
        step(&mut world, &mut String::new());
    }
    assert_eq!((recorded(&world), stage(&world)), (before.as_str(), None));
    let waiting = world.plan().waiting;
    assert!(
        waiting.iter().any(|one| matches!(
            one,
            Waiting::Authority(AuthorityWait::NotRotated(NotRotated::Unsafe(Unsafe::TenantsNeedKey)))
        )),
        "{waiting:?}"
    );
    let make = |world: &World| {
        let secret = &world.seen.certificates.as_ref().unwrap().authorities[&Ca::Clients];
        let make = KubeEffect::MakeNextAuthority {
            ca: Ca::Clients,
            given: Some(Fingerprint::new(OTHER)),
            observed: secret.observed.clone(),
        };
        let scene = Scene { seen: &world.seen, record: &world.seen.record, now: world.now, before: &[] };
        permits(&scene, &Effect::kube(Step::C1, make))
    };
    assert_eq!(make(&world), Err(Unsafe::TenantsNeedKey));
    without("TenantsNeedKey", || assert_eq!(make(&world), Ok(())));
    // One with its key may: Kamaji signs with that.
    let keyed = Authority { keyless: false, ..given(&mut world).content.clone().unwrap() };
    give(&mut world, Ok(keyed), BTreeMap::new());
    until_authority(&mut world, OTHER);

    let mut world = World::running(3);
    issue(&mut world, OTHER, 1);
    until_authority(&mut world, OTHER);
}
