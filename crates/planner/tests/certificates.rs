//! Certificates: one authority for clients and one for peers, for the life of a cluster; leaves that are renewed in place.

use std::collections::BTreeMap;

use crate::world::certificates::{DAY, authority, none};
use crate::world::{World, name, snapshot};
use quorate_model::certificate::Validity;
use quorate_model::effect::{AuthorityWait, Foreign, Unsafe};
use quorate_model::incarnation::{NextIncarnation, Order};
use quorate_model::quorum_recovery::{QuorumRecovery, RecoverFrom};
use quorate_model::record::RecordDoubt;
use quorate_model::snapshot::AuthorityLoss;
use quorate_model::target::Retention;
use quorate_model::{
    AppliedObject, Ca, ClockDifference, DeletedObject, Effect, Fingerprint, Instant, KubeEffect, Leaf, Plan,
    Snapshot, Span, Step, Waiting,
};
use quorate_planner::safety::{Scene, permits};

fn secrets(plan: &Plan) -> Vec<String> {
    let of_secrets = |effect: &&Effect| match effect.as_kube() {
        Some(
            KubeEffect::CreateAuthority { .. }
            | KubeEffect::KeepAuthority { .. }
            | KubeEffect::Delete { object: DeletedObject::Authority(_), .. }
            | KubeEffect::IssueLeaf { .. }
            | KubeEffect::RenewLeaf { .. },
        ) => true,
        Some(_) | None => false,
    };
    plan.effects.iter().filter(of_secrets).map(|effect| format!("{} {effect}", effect.step())).collect()
}

fn verdict(world: &World, write: KubeEffect) -> Result<(), Unsafe> {
    let seen = &world.seen;
    let scene = Scene { seen, record: &seen.record, now: world.now, before: &[] };
    permits(&scene, &Effect::kube(Step::I2, write))
}

fn ca(text: &str) -> Fingerprint {
    Fingerprint::new(text)
}

fn certificates(seen: &mut Snapshot) -> &mut quorate_model::snapshot::Certificates {
    seen.certificates.as_mut().unwrap()
}

fn age(world: &mut World, leaf: Leaf, days: u64) {
    let back = |at: Instant| Instant(at.0 - i64::try_from(days * DAY * 1000).unwrap());
    let content = certificates(&mut world.seen).leaves.get_mut(&leaf).unwrap().content.as_mut().unwrap();
    let Validity { not_before, not_after } = content.validity;
    content.validity = Validity { not_before: back(not_before), not_after: back(not_after) };
}

#[test]
fn s03_the_authority_is_recorded_before_it_signs_and_pods_follow_the_leaves() {
    let mut world = World::new(1);
    let first = world.plan();
    let both =
        ["B2 create the certificate authority of clients", "B2 create the certificate authority of peers"];
    assert_eq!(secrets(&first), both);
    world.carry_out(first);
    let second = world.plan();
    assert!(second.recorded_steps.contains(&Step::I1));
    assert_eq!(second.record.authority, Some(ca("ca-1")));
    assert_eq!(second.record.peer_authority, Some(ca("peer-ca-1")));
    let leaves = [
        "I2 issue the server certificate, signed by ca-1",
        "I2 issue the peer certificate, signed by peer-ca-1",
        "I2 issue the client certificate, signed by ca-1",
    ];
    assert_eq!(secrets(&second), leaves);
    assert!(!second.effects.iter().any(|effect| effect.step() == Step::B4), "no Pod without its Secrets");
    world.carry_out(second);
    assert!(world.plan().effects.iter().any(|effect| effect.step() == Step::B4));
}

#[test]
fn s03_no_second_authority_is_created_once_one_is_recorded_or_leaves_exist() {
    let mut world = World::running(3);
    certificates(&mut world.seen).authorities.remove(&Ca::Clients);
    let plan = world.plan();
    assert!(plan.effects.is_empty() && plan.waiting.is_empty(), "the cluster serves on: {plan:?}");

    // A lost leaf cannot be issued: that is what the plan waits for.
    certificates(&mut world.seen).leaves.remove(&Leaf::Server);
    let plan = world.plan();
    let recorded = AuthorityLoss::Missing(Some(ca("ca-1")));
    assert!(secrets(&plan).is_empty());
    assert!(
        matches!(&plan.waiting[..], [Waiting::Authority(AuthorityWait::Lost { loss, .. }), ..] if *loss == recorded)
    );

    // Status was lost, too: the leaves that are left still name an authority.
    world.seen.record.authority = None;
    let plan = world.plan();
    assert!(secrets(&plan).is_empty());
    certificates(&mut world.seen).leaves.clear();
    let of_peers = ["I2 issue the peer certificate, signed by peer-ca-1"];
    assert_eq!(secrets(&world.plan()), of_peers, "its Pods may trust another one of clients");
}

#[test]
fn s03_another_authority_in_the_secret_signs_nothing_until_the_recorded_one_is_back() {
    let mut world = World::running(3);
    let own = certificates(&mut world.seen).authorities.clone();
    let other = authority(&world.seen, "ca-of-somebody", world.now);
    certificates(&mut world.seen).authorities.insert(Ca::Clients, other);
    age(&mut world, Leaf::Server, 300);
    assert!(secrets(&world.plan()).is_empty(), "not renewed by another authority");
    assert_eq!(world.plan().record.authority, Some(ca("ca-1")));

    certificates(&mut world.seen).authorities = own;
    assert_eq!(secrets(&world.plan()), ["I3 renew the server certificate, signed by ca-1"]);
}

#[test]
fn s03_after_status_was_lost_the_authority_is_recorded_again_only_if_it_signed_every_leaf() {
    let mut world = World::running(1);
    world.seen.record.authority = None;
    assert_eq!(world.plan().record.authority, Some(ca("ca-1")));

    let other = authority(&world.seen, "ca-of-somebody", world.now);
    certificates(&mut world.seen).authorities.insert(Ca::Clients, other);
    let plan = world.plan();
    assert_eq!(plan.record.authority, None);
    assert!(secrets(&plan).is_empty());
}

#[test]
fn s03_adopted_data_bring_their_authority_and_without_one_a_new_one_is_created_before_any_pod() {
    for brings_it in [true, false] {
        let mut world = World::running(1);
        let id = world.cluster_id;
        let own = certificates(&mut world.seen).authorities.clone();
        world.recreate("uid-2");
        world.seen.certificates = Some(none());
        if brings_it {
            certificates(&mut world.seen).authorities = own;
        }
        world.seen.adopt = id;
        let story = world.settle();
        assert_eq!(story.contains("create the certificate authority of peers"), !brings_it, "{story}");
        assert_eq!(story.contains("I4 keep the Secret"), brings_it, "{story}");
        assert_eq!(world.seen.record.authority, Some(ca("ca-1")));
        assert_eq!(world.seen.record.peer_authority, Some(ca("peer-ca-1")));
        assert!(world.seen.pods.contains_key(&name("demo-0")), "{story}");
    }
}

#[test]
fn s03_the_authority_stays_with_retained_volumes_and_goes_with_deleted_ones() {
    for (policy, stays) in [(Retention::Retain, true), (Retention::Delete, false)] {
        let mut world = World::running(1);
        world.seen.desired.storage.when_deleted = policy;
        // Somebody gave it an owner.
        certificates(&mut world.seen).authorities.get_mut(&Ca::Clients).unwrap().owned = true;
        world.seen.deleting = true;
        let story = world.settle();
        let left = certificates(&mut world.seen).authorities.clone();
        assert_eq!(left.len(), if stays { 2 } else { 0 }, "{story}");
        assert!(left.values().all(|secret| !secret.owned), "it would be deleted with its owner: {story}");
        assert!(!world.seen.finalizer, "{story}");
    }
}

#[test]
fn s04_each_leaf_is_renewed_at_two_thirds_of_its_life_also_without_quorum_and_at_size_zero() {
    let mut world = World::running(3);
    age(&mut world, Leaf::Peer, 239);
    assert!(secrets(&world.plan()).is_empty(), "not before");
    age(&mut world, Leaf::Peer, 1);
    let renewal = ["I3 renew the peer certificate, signed by peer-ca-1"];
    assert_eq!(secrets(&world.plan()), renewal);

    world.silent = ["demo-0", "demo-1", "demo-2"].map(name).into();
    assert_eq!(secrets(&world.plan()), renewal, "without quorum");
    world.silent.clear();

    let story = world.settle();
    assert!(story.contains(renewal[0]), "{story}");
    assert!(!story.contains("delete Pod"), "nothing restarts: {story}");
    assert!(secrets(&world.plan()).is_empty(), "once");

    world.resize(0);
    world.settle();
    age(&mut world, Leaf::Server, 240);
    assert_eq!(secrets(&world.plan()), ["I3 renew the server certificate, signed by ca-1"]);
}

#[test]
fn s04_a_leaf_that_lacks_a_name_or_cannot_be_read_is_issued_anew_in_its_secret() {
    let mut world = World::running(1);
    let leaf = certificates(&mut world.seen).leaves.get_mut(&Leaf::Server).unwrap();
    leaf.content.as_mut().unwrap().lacks = vec!["demo-client".to_owned()];
    assert_eq!(secrets(&world.plan()), ["I3 renew the server certificate, signed by ca-1"]);
    certificates(&mut world.seen).leaves.get_mut(&Leaf::Client).unwrap().content =
        Err("no tls.key".to_owned());
    assert_eq!(secrets(&world.plan()).len(), 2);
    world.settle();
    assert!(secrets(&world.plan()).is_empty());
}

#[test]
fn s04_a_leaf_is_not_renewed_beyond_its_authority_and_an_ended_authority_signs_nothing() {
    let mut world = World::running(1);
    let now = world.now;
    let ends = now + Span::seconds(5 * DAY);
    for leaf in Leaf::of_cluster(false) {
        age(&mut world, leaf, 300);
        let content = certificates(&mut world.seen).leaves.get_mut(&leaf).unwrap().content.as_mut().unwrap();
        content.validity.not_after = ends;
    }
    for authority in certificates(&mut world.seen).authorities.values_mut() {
        authority.content.as_mut().unwrap().validity.not_after = ends;
    }
    assert!(secrets(&world.plan()).is_empty(), "a new leaf would end at the same time");

    world.now = now + Span::seconds(6 * DAY);
    assert!(secrets(&world.plan()).is_empty());
    certificates(&mut world.seen).leaves.remove(&Leaf::Peer);
    let plan = world.plan();
    assert!(secrets(&plan).is_empty());
    assert!(
        plan.waiting.iter().any(|waiting| matches!(waiting, Waiting::Authority(AuthorityWait::Ended(_)))),
        "{plan:?}"
    );
}

#[test]
fn r19_only_the_recorded_authority_signs_and_no_other_is_created() {
    let mut world = World::running(1);
    let issue = |by: &str| KubeEffect::IssueLeaf { leaf: Leaf::Client, by: ca(by) };
    let place = quorate_model::effect::AuthorityPlace::Signer;
    let create = KubeEffect::CreateAuthority { ca: Ca::Clients, place, given: None };
    let other = Err(Unsafe::AnotherAuthority);
    assert_eq!(verdict(&world, issue("ca-1")), other, "the leaf exists");
    let lost = certificates(&mut world.seen).leaves.remove(&Leaf::Client).unwrap();
    assert_eq!(verdict(&world, issue("ca-1")), Ok(()));
    assert_eq!(verdict(&world, issue("ca-2")), other);

    let renew = |version: &str| KubeEffect::RenewLeaf {
        leaf: Leaf::Server,
        by: ca("ca-1"),
        observed: quorate_model::ObservedObject::new("secret of server", version),
    };
    assert_eq!(verdict(&world, renew("1")), Ok(()));
    assert_eq!(verdict(&world, renew("0")), other, "it has changed since");

    world.seen.record.authority = None;
    assert_eq!(verdict(&world, issue("ca-1")), other, "not recorded");
    certificates(&mut world.seen).authorities.remove(&Ca::Clients);
    assert_eq!(verdict(&world, create.clone()), other, "leaves exist");
    certificates(&mut world.seen).leaves.clear();
    assert_eq!(verdict(&world, create.clone()), other, "a Pod exists");
    world.seen.pods.clear();
    assert_eq!(verdict(&world, create.clone()), Ok(()));
    world.seen.record.authority = Some(ca("ca-1"));
    assert_eq!(verdict(&world, create.clone()), other, "one is recorded");
    certificates(&mut world.seen).leaves.insert(Leaf::Client, lost);
}

#[test]
fn r19_the_authority_is_deleted_only_with_the_cluster_and_its_data() {
    let mut world = World::running(1);
    let secret = certificates(&mut world.seen).authorities[&Ca::Peers].clone();
    let delete = |version: &str| KubeEffect::Delete {
        object: DeletedObject::Authority(Ca::Peers),
        observed: quorate_model::ObservedObject::new(secret.observed.uid.as_str(), version),
    };
    let kept = Err(Unsafe::AuthorityKept);
    assert_eq!(verdict(&world, delete("1")), kept, "the cluster is not being deleted");
    world.seen.deleting = true;
    assert_eq!(verdict(&world, delete("1")), kept, "its data are kept");
    assert_eq!(verdict(&world, delete("0")), Err(Unsafe::AnotherAuthority), "it has changed since");
    world.seen.volumes.clear();
    assert_eq!(verdict(&world, delete("1")), Ok(()));
    certificates(&mut world.seen).authorities.get_mut(&Ca::Peers).unwrap().incarnation = None;
    assert_eq!(verdict(&world, delete("1")), Err(Unsafe::AnotherAuthority), "that of another cluster");
}

#[test]
fn m08_a_leaf_whose_not_before_is_in_the_future_is_issued_anew() {
    let mut world = World::running(3);
    let server =
        certificates(&mut world.seen).leaves.get_mut(&Leaf::Server).unwrap().content.as_mut().unwrap();
    server.validity.not_before = world.now + Span::seconds(8 * 3600);
    assert_eq!(secrets(&world.plan()), ["I3 renew the server certificate, signed by ca-1"]);
    let plan = world.plan();
    world.carry_out(plan);
    assert!(secrets(&world.plan()).is_empty(), "once");
}

#[test]
fn l06_what_is_due_is_signed_however_long_the_clocks_differ() {
    let mut world = World::running(3);
    age(&mut world, Leaf::Peer, 300);
    let differs = ClockDifference::Ahead(Span::seconds(61));
    world.seen.clock_differs = Some(differs);
    let plan = world.plan();
    assert_eq!(secrets(&plan).len(), 1, "{:?}", plan.effects);
    assert_eq!(plan.waiting.first(), Some(&Waiting::ClockDiffers(differs)), "it is told");

    let mut new = World::new(1);
    new.seen.clock_differs = Some(differs);
    assert!(!secrets(&new.plan()).is_empty(), "a new cluster has its authorities");
}

#[test]
fn m21_leaves_are_renewed_and_the_budget_is_kept_up_after_the_operator_was_rolled_back() {
    let mut world = World::running(3);
    world.seen.record_doubt = Some(RecordDoubt::Newer("status.formatVersion is 2".to_owned()));
    age(&mut world, Leaf::Peer, 300);
    let lacking =
        certificates(&mut world.seen).leaves.get_mut(&Leaf::Client).unwrap().content.as_mut().unwrap();
    lacking.lacks.push("a name that the newer operator does not give".to_owned());
    world.seen.budget = None;
    let plan = world.plan();
    assert_eq!(secrets(&plan), ["I3 renew the peer certificate, signed by peer-ca-1"], "{:?}", plan.effects);
    let applies = |plan: &Plan| {
        let mut effects = plan.effects.iter().filter_map(Effect::as_kube);
        effects.any(|effect| {
            *effect == KubeEffect::Apply(AppliedObject::Budget { min_available: 2, excludes: None })
        })
    };
    assert!(applies(&plan), "{:?}", plan.effects);
    assert!(plan.recorded_steps.is_empty(), "nothing is recorded");

    // A voter in a phase that only the newer operator knows is not in the record.
    world.seen.record.members.remove(&name("demo-2"));
    assert!(!applies(&world.plan()));
    world.seen.record.authority = None;
    assert!(secrets(&world.plan()).is_empty(), "which authority signs is not known");
    world.seen.paused = true;
    assert!(world.plan().effects.is_empty());
}

#[test]
fn leaves_are_renewed_while_an_order_for_another_incarnation_waits_for_a_node() {
    let mut in_place = World::running(3);
    in_place.seen.record.next_incarnation = Some(NextIncarnation {
        order: Order::Recovery { from: RecoverFrom::Auto },
        replaces: in_place.seen.record.cluster_id.unwrap(),
        restore: snapshot(),
        members: None,
        stopped: false,
        since: in_place.now,
    });
    in_place.seen.recover_from = Some(RecoverFrom::Auto);
    let mut recovered = World::running(3);
    for member in ["demo-0", "demo-1", "demo-2"] {
        recovered.silence(member);
    }
    let (from, since) = (RecoverFrom::Auto, recovered.now);
    recovered.seen.recover_from = Some(from.clone());
    recovered.seen.record.quorum_recovery =
        Some(QuorumRecovery { from, since, containers: BTreeMap::new(), chosen: None });
    for mut world in [in_place, recovered] {
        assert!(secrets(&world.plan()).is_empty());
        age(&mut world, Leaf::Peer, 300);
        let plan = world.plan();
        assert_eq!(secrets(&plan), ["I3 renew the peer certificate, signed by peer-ca-1"], "{plan:?}");
        assert!(plan.record.next_incarnation.is_some() || plan.record.quorum_recovery.is_some());
    }
}

#[test]
fn s14_after_status_was_lost_the_leaf_of_peers_says_which_authority_is_theirs() {
    let mut world = World::running(3);
    (world.seen.record.authority, world.seen.record.peer_authority) = (None, None);
    let plan = world.plan();
    assert_eq!(plan.record.authority, Some(ca("ca-1")));
    assert_eq!(plan.record.peer_authority, Some(ca("peer-ca-1")));

    // Without the authority of peers, theirs is not signed by that of clients, also where only this part of the record was lost.
    certificates(&mut world.seen).authorities.remove(&Ca::Peers);
    age_all(&mut world, 300);
    for recorded in [None, Some(ca("ca-1"))] {
        world.seen.record.authority = recorded;
        let plan = world.plan();
        assert!(!secrets(&plan).iter().any(|act| act.contains("peer")), "{:?}", secrets(&plan));
    }
}

fn age_all(world: &mut World, days: u64) {
    for leaf in Leaf::of_cluster(false) {
        if certificates(&mut world.seen).leaves[&leaf].content.is_ok() {
            age(world, leaf, days);
        }
    }
}

#[test]
fn s14_no_leaf_is_signed_before_both_authorities_are_recorded() {
    let mut world = World::new(3);
    let first = world.plan();
    world.carry_out(first);
    // The create of one of them was lost.
    certificates(&mut world.seen).authorities.remove(&Ca::Peers);
    let plan = world.plan();
    assert_eq!(secrets(&plan), ["B2 create the certificate authority of peers"]);
    world.seen.record.authority = Some(ca("ca-1"));
    let issue = KubeEffect::IssueLeaf { leaf: Leaf::Server, by: ca("ca-1") };
    assert_eq!(verdict(&world, issue), Err(Unsafe::AnotherAuthority));
}

/// Somebody has put an authority of this incarnation of a cluster there before this one begins.
fn planted(which: Ca, of: Option<&str>) -> World {
    let mut world = World::new(3);
    let mut planted = authority(&world.seen, "of-somebody", world.now);
    planted.incarnation = of.map(quorate_model::ClusterUid::new);
    certificates(&mut world.seen).authorities.insert(which, planted);
    world
}

#[test]
fn r19_an_authority_that_somebody_put_there_before_the_cluster_signs_nothing() {
    for (which, of) in Ca::ALL.into_iter().flat_map(|ca| [None, Some("of another one")].map(|of| (ca, of))) {
        let mut world = planted(which, of);
        world.settle();
        assert!(world.seen.pods.is_empty() && world.seen.record.authority_of(which).is_none());
        let waiting = world.plan().waiting;
        let is_named = |one: &Waiting| matches!(one, Waiting::ForeignObjects(all) if matches!(all[0], Foreign::Authority { .. }));
        assert!(waiting.iter().any(is_named), "{waiting:?}");

        // A person says that it is the one.
        let uid = world.seen.uid.clone();
        certificates(&mut world.seen).authorities.get_mut(&which).unwrap().incarnation = Some(uid);
        world.settle();
        assert_eq!(world.seen.record.authority_of(which), Some(&ca("of-somebody")));
        assert_eq!(world.seen.pods.len(), 3);

        let begun = quorate_planner::safety::mutants::without("R19 of data", || {
            let mut world = planted(which, of);
            world.settle();
            world.seen.record.authority_of(which).cloned()
        });
        assert_eq!(begun, Some(ca("of-somebody")));
    }
}
