//! An authority of clients that somebody else made: what takes it, what refuses it, and that only a rotation exchanges it.

use crate::world::World;
use crate::world::certificates::DAY;
use crate::world::rotation::{self, recorded, stage, step};
use quorate_model::certificate::Validity;
use quorate_model::effect::{AuthorityPlace, AuthorityWait, NotRotated, Unsafe};
use quorate_model::rotation::{RotateOrder, RotationStage};
use quorate_model::snapshot::{Authority, GivenAuthority};
use quorate_model::{Ca, Effect, Fingerprint, Instant, KubeEffect, Leaf, Span, Step, Waiting};
use quorate_planner::safety::mutants::without;
use quorate_planner::safety::{Scene, permits};

const GIVEN: &str = "given-by-somebody-1";
const OTHER: &str = "given-by-somebody-2";

fn content(fingerprint: &str, now: Instant) -> Authority {
    let validity = Validity { not_before: now, not_after: now + Span::seconds(3650 * DAY) };
    let certificate = crate::world::certificates::certificate(fingerprint);
    Authority {
        fingerprint: Fingerprint::new(fingerprint),
        certificate,
        validity,
        minted: false,
        keyless: false,
    }
}

/// The spec names a Secret with this in it.
fn name_secret(world: &mut World, content: Result<Authority, String>) {
    let secret = "Secret default/my-ca".to_owned();
    world.seen.certificates.as_mut().unwrap().given = Some(GivenAuthority {
        secret,
        content,
        leaves: std::collections::BTreeMap::new(),
        issuer_says: None,
    });
}

fn give(world: &mut World, fingerprint: &str) {
    let now = world.now;
    name_secret(world, Ok(content(fingerprint, now)));
}

/// The spec names none any more.
fn take_back(world: &mut World) {
    world.seen.certificates.as_mut().unwrap().given = None;
}

fn order(world: &mut World, text: &str) {
    world.seen.rotation_policy.order = Some(RotateOrder { ca: Ca::Clients, text: text.to_owned() });
}

/// Carries plans out until this authority of clients is recorded and no rotation is under way.
fn until(world: &mut World, authority: impl Fn(&str) -> bool) -> String {
    rotation::until(world, |world| authority(recorded(world)) && stage(world).is_none())
}

fn refused(world: &mut World) -> NotRotated {
    let waiting = world.plan().waiting;
    let refused = waiting.iter().find_map(|waiting| match waiting {
        Waiting::Authority(AuthorityWait::NotRotated(why)) => Some(why.clone()),
        _ => None,
    });
    refused.unwrap_or_else(|| panic!("{waiting:?}"))
}

#[test]
fn a_new_cluster_begins_with_the_authority_that_the_spec_names_and_its_peers_with_their_own() {
    let mut world = World::new(3);
    give(&mut world, GIVEN);
    let story = world.settle();
    assert!(story.contains("as a copy of"), "{story}");
    assert_eq!((recorded(&world), world.seen.record.given), (GIVEN, true));
    assert_eq!(world.seen.record.peer_authority, Some(Fingerprint::new("peer-ca-1")));
    let leaves = &world.seen.certificates.as_ref().unwrap().leaves;
    let signed_by = |leaf: Leaf| leaves[&leaf].content.as_ref().unwrap().signed_by.clone().unwrap();
    assert_eq!(signed_by(Leaf::Server).as_str(), GIVEN);
    assert_eq!(signed_by(Leaf::Peer).as_str(), "peer-ca-1");
    assert!(world.plan().effects.is_empty() && stage(&world).is_none());
}

#[test]
fn a_new_cluster_waits_for_an_authority_that_cannot_be_taken_and_none_is_made_beside_it() {
    let mut world = World::new(1);
    let now = world.now;
    let ended = Authority {
        validity: Validity { not_before: Instant(0), not_after: Instant(1) },
        ..content(GIVEN, now)
    };
    let begins = now + Span::seconds(1000 * DAY);
    let future = Authority {
        validity: Validity { not_before: begins, ..content(GIVEN, now).validity },
        ..content(GIVEN, now)
    };
    for content in [Err("it has no tls.key".to_owned()), Ok(ended), Ok(future)] {
        name_secret(&mut world, content);
        world.settle();
        let plan = world.plan();
        let waits = |waiting: &Waiting| matches!(waiting, Waiting::Authority(AuthorityWait::Refused(_)));
        assert!(plan.waiting.iter().any(waits), "{:?}", plan.waiting);
        let certificates = world.seen.certificates.as_ref().unwrap();
        assert!(!certificates.authorities.contains_key(&Ca::Clients) && certificates.leaves.is_empty());
        assert!(world.seen.pods.is_empty());
    }
    give(&mut world, GIVEN);
    world.settle();
    assert_eq!(recorded(&world), GIVEN);
}

#[test]
fn another_authority_in_the_spec_takes_the_place_of_the_present_one_by_a_rotation_and_so_does_none() {
    for size in [1, 3] {
        let mut world = World::running(size);
        give(&mut world, GIVEN);
        let story = until(&mut world, |authority| authority == GIVEN);
        assert!(story.contains("C1 take"), "{story}");
        assert_eq!(story.matches("U5").count(), 2 * size, "two rollouts: {story}");
        assert!(world.seen.record.given);
        world.settle();
        give(&mut world, OTHER);
        until(&mut world, |authority| authority == OTHER);
        world.settle();
        take_back(&mut world);
        let story = until(&mut world, |authority| authority != OTHER);
        assert!(story.contains("C1 make"), "{story}");
        assert!(recorded(&world).starts_with("ca-1-after-generation"), "{}", recorded(&world));
        assert!(!world.seen.record.given);
        world.settle();
        assert!(world.plan().effects.is_empty() && stage(&world).is_none());
        assert_eq!(
            world.seen.record.peer_authority,
            Some(Fingerprint::new("peer-ca-1")),
            "peers notice nothing"
        );
    }
}

#[test]
fn a_secret_that_vanishes_or_turns_bad_changes_nothing_but_what_is_reported() {
    let mut world = World::running(3);
    give(&mut world, GIVEN);
    until(&mut world, |authority| authority == GIVEN);
    world.settle();
    name_secret(&mut world, Err("it does not exist".to_owned()));
    assert!(world.plan().effects.is_empty() && world.plan().record == world.seen.record);
    assert!(format!("{:?}", refused(&mut world)).contains("it does not exist"));
    // Leaves go on being renewed by the copy.
    world.now = world.now + Span::seconds(300 * DAY);
    let story = world.settle();
    assert!(story.contains("I3 renew") && recorded(&world) == GIVEN, "{story}");
}

#[test]
fn a_secret_that_changes_or_vanishes_in_any_stage_does_not_turn_a_rotation_which_ends_first() {
    for stage_of in [RotationStage::Trust, RotationStage::Sign, RotationStage::Drop] {
        for change in ["gone", "another", "none"] {
            let mut world = World::running(3);
            give(&mut world, GIVEN);
            let mut story = String::new();
            while stage(&world) != Some(stage_of) {
                step(&mut world, &mut story);
            }
            match change {
                "gone" => name_secret(&mut world, Err("it does not exist".to_owned())),
                "another" => give(&mut world, OTHER),
                _ => take_back(&mut world),
            }
            until(&mut world, |authority| authority != "ca-1");
            assert_eq!((recorded(&world), world.seen.record.given), (GIVEN, true), "{stage_of} {change}");
            let ends_with = match change {
                "gone" => GIVEN,
                "another" => OTHER,
                _ => "ca-1-after",
            };
            until(&mut world, |authority| authority.starts_with(ends_with));
        }
    }
}

#[test]
fn the_lost_secret_of_the_copy_is_made_again_from_the_one_that_the_spec_names_and_from_no_other() {
    let mut world = World::running(3);
    give(&mut world, GIVEN);
    until(&mut world, |authority| authority == GIVEN);
    world.settle();
    let remove =
        |world: &mut World| world.seen.certificates.as_mut().unwrap().authorities.remove(&Ca::Clients);
    remove(&mut world).unwrap();
    let story = world.settle();
    assert!(story.contains("I4 create the certificate authority of clients as a copy"), "{story}");
    assert!(!story.contains("U5") && recorded(&world) == GIVEN, "nothing restarts: {story}");
    // With another one it is a rotation, whose members trust both meanwhile.
    remove(&mut world).unwrap();
    give(&mut world, OTHER);
    let story = until(&mut world, |authority| authority == OTHER);
    assert_eq!(story.matches("U5").count(), 6, "{story}");
}

#[test]
fn an_order_does_not_replace_a_given_authority_and_neither_does_its_age() {
    let mut world = World::running(1);
    give(&mut world, GIVEN);
    until(&mut world, |authority| authority == GIVEN);
    world.settle();
    order(&mut world, "clients/now");
    let why = refused(&mut world);
    assert!(matches!(why, NotRotated::CopyOf(_)), "{why:?}");
    world.seen.rotation_policy.order = None;
    world.now = world.now + Span::seconds(2500 * DAY);
    world.settle();
    // Peers' own authority is replaced by its age.
    assert_eq!(recorded(&world), GIVEN);
    // With another one there, the order is followed by it.
    order(&mut world, "clients/now");
    give(&mut world, OTHER);
    until(&mut world, |authority| authority == OTHER);
    world.settle();
    assert_eq!(world.seen.record.spent_rotation.as_deref(), Some("clients/now"));
}

#[test]
fn what_was_copied_in_the_moment_in_which_the_spec_ceases_to_name_it_is_not_taken_for_one_that_was_made() {
    let mut world = World::running(1);
    give(&mut world, GIVEN);
    let plan = world.plan();
    assert!(plan.effects.iter().any(|effect| effect.to_string().starts_with("take ")), "{:?}", plan.effects);
    world.carry_out(plan);
    take_back(&mut world);
    order(&mut world, "clients");
    until(&mut world, |authority| authority != "ca-1");
    assert!(recorded(&world).starts_with("ca-1-after"), "{}", recorded(&world));
}

fn judge(world: &World, effect: KubeEffect) -> Result<(), Unsafe> {
    let scene = Scene { seen: &world.seen, record: &world.seen.record, now: world.now, before: &[] };
    permits(&scene, &Effect::kube(Step::C1, effect))
}

#[test]
fn s15_r19_no_other_authority_than_the_named_one_is_made_and_peers_never_get_a_given_one() {
    let mut world = World::running(3);
    give(&mut world, GIVEN);
    let next = |world: &World, ca: Ca, given: Option<&str>| {
        let secret = &world.seen.certificates.as_ref().unwrap().authorities[&ca];
        let (given, observed) = (given.map(Fingerprint::new), secret.observed.clone());
        judge(world, KubeEffect::MakeNextAuthority { ca, given, observed })
    };
    assert_eq!(next(&world, Ca::Clients, Some(GIVEN)), Ok(()));
    assert_eq!(next(&world, Ca::Peers, None), Ok(()));
    for (ca, given) in [(Ca::Clients, None), (Ca::Clients, Some(OTHER)), (Ca::Peers, Some(GIVEN))] {
        assert_eq!(next(&world, ca, given), Err(Unsafe::OtherSource), "{ca} {given:?}");
        without("OtherSource", || assert_eq!(next(&world, ca, given), Ok(())));
    }
    // That of peers, put where the spec looks: whoever it signs for would write the log.
    give(&mut world, "peer-ca-1");
    assert_eq!(next(&world, Ca::Clients, Some("peer-ca-1")), Err(Unsafe::OtherSource));
    assert!(format!("{:?}", refused(&mut world)).contains("authority of peers"));

    let mut world = World::new(3);
    give(&mut world, GIVEN);
    let create = |world: &World, given: Option<&str>| {
        let (place, given) = (AuthorityPlace::Signer, given.map(Fingerprint::new));
        judge(world, KubeEffect::CreateAuthority { ca: Ca::Clients, place, given })
    };
    assert_eq!(create(&world, Some(GIVEN)), Ok(()));
    assert_eq!(create(&world, None), Err(Unsafe::OtherSource));
}
