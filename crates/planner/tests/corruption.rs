//! Data that differ: who is found, who is replaced, when the alarm is disarmed, and when nobody is touched.

use crate::world::{World, name};
use quorate_model::effect::Unsafe;
use quorate_model::record::{Leaving, Loss, ReplacementEnd, Stage};
use quorate_model::snapshot::{Alarm, AlarmKind, Hashes, Unhealthy};
use quorate_model::target::{Medium, PodRevision};
use quorate_model::{
    Effect, EtcdCall, Instant, KubeEffect, MemberId, Plan, Revision, Span, Step, Version, Waiting,
};
use quorate_planner::plan;
use quorate_planner::safety::mutants::without;
use quorate_planner::safety::{Scene, may_remove, may_replace, permits};

const GRACE: Span = Span::seconds(600);

/// The data of a member differ, and the alarm of 3.5 says only that some do.
fn differ(world: &mut World, member: &str, hash: u32) {
    world.wrong.insert(name(member), hash);
    world.unnamed_alarm = true;
}

fn removes(plan: &Plan) -> Option<&str> {
    plan.effects.iter().find_map(|effect| match effect.as_etcd() {
        Some(EtcdCall::RemoveMember { member, .. }) => Some(member.as_str()),
        Some(_) | None => None,
    })
}

fn disarms(plan: &Plan) -> Option<Alarm> {
    plan.effects.iter().find_map(|effect| match effect.as_etcd() {
        Some(EtcdCall::Disarm { member, kind }) => Some(Alarm { member: *member, kind: *kind }),
        Some(_) | None => None,
    })
}

/// Passes for this long. Returns who was removed, and the alarms that were disarmed.
fn pass(world: &mut World, long: Span) -> (Vec<String>, Vec<Alarm>) {
    let (mut removed, mut disarmed) = (Vec::new(), Vec::new());
    let end = world.now + long;
    while world.now < end {
        let plan = world.plan();
        removed.extend(removes(&plan).map(str::to_owned));
        disarmed.extend(disarms(&plan));
        world.carry_out(plan);
        world.now = world.now + Span::seconds(14);
    }
    (removed, disarmed)
}

/// etcd's check at the start ends this member again and again.
fn keep_out(world: &mut World, member: &str) {
    let pod = world.seen.pods.get_mut(&name(member)).unwrap();
    (pod.ready, pod.differs_from_peers, pod.restarts) = (false, true, 9);
    pod.trouble = Some("CrashLoopBackOff: found data inconsistency with peers".to_owned());
}

fn undecided(plan: &Plan) -> bool {
    plan.waiting.iter().any(|waiting| matches!(waiting, Waiting::Undecided { .. }))
}

#[test]
fn the_member_whose_data_differ_from_a_majority_is_replaced_after_a_second_comparison_and_the_alarm_disarmed()
{
    let mut world = World::running(3);
    differ(&mut world, "demo-1", 2);
    let plan = world.plan();
    let reported = Waiting::MayBeLost { member: name("demo-1"), loss: Loss::Inconsistent, is_due: false };
    assert!(plan.waiting.contains(&reported), "{:?}", plan.waiting);
    assert_eq!(pass(&mut world, Span(GRACE.0 - 60_000)), (vec![], vec![]), "the grace period");
    let (removed, disarmed) = pass(&mut world, Span::seconds(600));
    assert_eq!(removed, ["demo-1"]);
    assert_eq!(disarmed, [Alarm { member: MemberId(0), kind: AlarmKind::Corrupt }]);
    let story = world.settle();
    assert_eq!(world.voters(), ["demo-0", "demo-2", "demo-3"], "{story}");
    let last = world.seen.record.last_replacement.clone().unwrap();
    assert_eq!((last.member, last.end), (name("demo-1"), ReplacementEnd::Succeeded));
    assert!(world.seen.volumes[&name("demo-1")].quarantine.is_some(), "R17");
    assert!(world.seen.record.suspected.is_empty() && world.seen.etcd.hashes.is_none());
}

#[test]
fn the_alarm_is_disarmed_before_a_new_member_is_added_since_no_client_is_served_under_it() {
    let mut world = World::running(3);
    let id = world.members.iter().find(|listed| listed.name == "demo-0").unwrap().id;
    world.wrong.insert(name("demo-0"), 2);
    // As 3.6 and newer raise it, of the leader this time.
    let named = Alarm { member: id, kind: AlarmKind::Corrupt };
    world.alarms.insert(named);
    let (mut order, end) = (Vec::new(), world.now + Span::seconds(1200));
    while world.now < end {
        let plan = world.plan();
        for call in plan.effects.iter().filter_map(Effect::as_etcd) {
            order.push(call.to_string().split(' ').next().unwrap().to_owned());
        }
        world.carry_out(plan);
        world.now = world.now + Span::seconds(14);
    }
    order.dedup();
    let words: Vec<&str> = order.iter().map(String::as_str).collect();
    let at = |word: &str| words.iter().position(|at| at.to_lowercase().contains(word));
    assert!(
        at("move") < at("remove") && at("remove") < at("disarm") && at("disarm") < at("add"),
        "{words:?}"
    );
    assert!(at("move").is_some() && world.alarms.is_empty(), "{words:?}");
}

#[test]
fn where_the_leader_is_wrong_and_the_alarm_names_a_follower_the_leader_is_replaced() {
    let mut world = World::running(3);
    let innocent = world.members.iter().find(|listed| listed.name == "demo-1").unwrap().id;
    world.wrong.insert(name("demo-0"), 2);
    let named = Alarm { member: innocent, kind: AlarmKind::Corrupt };
    world.alarms.insert(named);
    let (removed, disarmed) = pass(&mut world, Span::seconds(1300));
    assert_eq!((removed, disarmed), (vec!["demo-0".to_owned()], vec![named]));
    world.settle();
    assert_eq!(world.voters(), ["demo-1", "demo-2", "demo-3"]);
}

#[test]
fn one_comparison_is_not_enough() {
    let mut world = World::running(3);
    differ(&mut world, "demo-1", 2);
    let plan = world.plan();
    world.carry_out(plan);
    world.seen.replacement_policy.grace = Span::seconds(0);
    let is_lost = |world: &World| world.seen.is_lost(&world.seen.record, &name("demo-1"), world.now);
    world.observe();
    assert!(!is_lost(&world), "the same comparison");
    without("P second comparison", || assert!(is_lost(&world)));
    world.now = world.now + Span::seconds(30);
    world.observe();
    assert!(is_lost(&world), "another one");
}

#[test]
fn data_that_agree_again_at_the_second_comparison_replace_nobody() {
    let mut world = World::running(3);
    differ(&mut world, "demo-1", 2);
    pass(&mut world, Span(GRACE.0 - 60_000));
    world.wrong.clear();
    let (removed, disarmed) = pass(&mut world, Span::seconds(600));
    assert_eq!((removed.len(), disarmed.len()), (0, 1), "nothing differs, so the alarm has no ground");
    assert!(world.seen.record.suspected.is_empty());
}

/// The size, the members with a hash of their own, and the one that is silent.
type Case = (usize, &'static [(&'static str, u32)], Option<&'static str>);

#[test]
fn without_a_majority_of_all_voters_nobody_is_replaced_and_a_person_is_asked() {
    // One against one; three that all differ; one of three that cannot be compared.
    let cases: [Case; 3] = [
        (2, &[("demo-1", 2)], None),
        (3, &[("demo-1", 2), ("demo-2", 3)], None),
        (3, &[("demo-1", 2)], Some("demo-2")),
    ];
    for (size, wrong, silent) in cases {
        let mut world = World::running(size);
        for (member, hash) in wrong {
            differ(&mut world, member, *hash);
        }
        if let Some(member) = silent {
            world.silence(member);
        }
        let plan = world.plan();
        assert!(undecided(&plan), "{:?}", plan.waiting);
        assert_eq!(pass(&mut world, Span::seconds(1800)), (vec![], vec![]));
        assert!(world.seen.record.suspected.is_empty());
        without("P majority", || {
            world.observe();
            assert!(!undecided(&world.plan()));
            let differs = |member: &&str| world.seen.differs_from_majority(&name(member), world.now);
            assert_eq!(
                ["demo-0", "demo-1", "demo-2"].iter().filter(|member| differs(member)).count(),
                wrong.len()
            );
        });
    }
}

#[test]
fn a_cluster_of_one_has_nobody_to_differ_from() {
    let mut world = World::running(1);
    differ(&mut world, "demo-0", 2);
    let (removed, disarmed) = pass(&mut world, Span::seconds(1800));
    assert_eq!((removed.len(), disarmed.len()), (0, 1));
}

#[test]
fn hashes_of_different_versions_are_not_compared() {
    let mut world = World::running(3);
    differ(&mut world, "demo-1", 2);
    world.versions.insert(name("demo-1"), Version::new(3, 6, 15));
    world.observe();
    let differs = |world: &World| world.seen.differs_from_majority(&name("demo-1"), world.now);
    assert!(!differs(&world));
    without("P one version", || assert!(differs(&world)));
}

#[test]
fn an_alarm_without_a_member_excuses_only_those_that_are_seen_to_agree() {
    let mut world = World::running(5);
    differ(&mut world, "demo-1", 2);
    world.silence("demo-2");
    world.observe();
    world.prove();
    let health = |world: &World, member: &str| world.seen.health(&name(member), world.now);
    assert_eq!(health(&world, "demo-1"), Err(Unhealthy::Differs));
    assert!(matches!(health(&world, "demo-0"), Err(Unhealthy::Errors(_))), "clients are not served");
    assert!(world.seen.is_sound(&name("demo-0"), world.now), "its data are right");
    // Of this one no hash is known.
    world.unsilence("demo-2");
    let hashes = world.seen.etcd.hashes.clone();
    world.observe();
    world.seen.etcd.hashes = hashes;
    assert!(!world.seen.is_sound(&name("demo-2"), world.now));
    without("P agrees", || assert!(world.seen.is_sound(&name("demo-2"), world.now)));
}

#[test]
fn a_member_that_is_not_seen_to_agree_holds_the_replacement_up() {
    let mut world = World::running(5);
    differ(&mut world, "demo-1", 2);
    pass(&mut world, Span(GRACE.0 - 60_000));
    world.silence("demo-2");
    let (removed, _) = pass(&mut world, Span::seconds(600));
    assert!(removed.is_empty(), "{removed:?}");
    let judged = may_replace(world.view(), &name("demo-1"), Loss::Inconsistent);
    assert!(judged.is_err(), "{judged:?}");
    // It is down, and nothing says that its data are wrong.
    world.unsilence("demo-2");
    assert_eq!(pass(&mut world, Span::seconds(600)).0, ["demo-1"]);
}

#[test]
fn a_good_member_that_etcds_check_keeps_out_is_not_replaced_and_the_one_that_it_differs_from_is_found() {
    let mut world = World::running(5);
    world.wrong.insert(name("demo-1"), 2);
    keep_out(&mut world, "demo-3");
    let mut removed = Vec::new();
    let end = world.now + Span::seconds(1300);
    while world.now < end && removed.is_empty() {
        let plan = world.plan();
        removed.extend(removes(&plan).map(str::to_owned));
        world.carry_out(plan);
        world.now = world.now + Span::seconds(14);
    }
    assert_eq!(removed, ["demo-1"], "without any alarm");
    // Of three, the other two that run are one against one.
    let mut world = World::running(3);
    world.wrong.insert(name("demo-1"), 2);
    keep_out(&mut world, "demo-2");
    let plan = world.plan();
    let kept_out = |waiting: &Waiting| matches!(waiting, Waiting::Undecided { kept_out, .. } if kept_out[..] == [name("demo-2")]);
    assert!(plan.waiting.iter().any(kept_out), "{:?}", plan.waiting);
    assert_eq!(pass(&mut world, Span::seconds(1800)).0, Vec::<String>::new());
}

/// How often the Pod of a member is deleted, and who is removed, while passes follow each other for this long.
fn pass_and_count(world: &mut World, long: Span, member: &str) -> (usize, Vec<String>) {
    let (mut deleted, mut removed, end) = (0, Vec::new(), world.now + long);
    while world.now < end {
        let plan = world.plan();
        let deletes = |effect: &&Effect| matches!(effect.as_kube(), Some(KubeEffect::DeletePod { member: of, .. }) if *of == name(member));
        deleted += plan.effects.iter().filter(deletes).count();
        removed.extend(removes(&plan).map(str::to_owned));
        world.carry_out(plan);
        world.now = world.now + Span::seconds(14);
    }
    (deleted, removed)
}

/// Of 3.5: the wrong one restarts, and its own check ends it, so it never makes a hash again.
#[test]
fn m03_the_member_with_wrong_data_that_etcds_check_keeps_out_is_replaced_once_a_second_pod_is_refused() {
    for (size, is_alarmed) in [(3, true), (3, false), (5, true)] {
        let mut world = World::running(size);
        if is_alarmed {
            // It is found by its hash first, and restarts within the grace period.
            differ(&mut world, "demo-1", 2);
            assert_eq!(pass(&mut world, Span::seconds(60)), (vec![], vec![]));
        }
        world.kept_out.insert(name("demo-1"));
        let plan = world.plan();
        let may_be_lost = |waiting: &Waiting| matches!(waiting, Waiting::MayBeLost { member, loss: Loss::Inconsistent, .. } if *member == name("demo-1"));
        assert!(plan.waiting.iter().any(may_be_lost) && !undecided(&plan), "{:?}", plan.waiting);
        world.carry_out(plan);
        assert_eq!(
            pass_and_count(&mut world, Span(GRACE.0 - 90_000), "demo-1"),
            (0, vec![]),
            "the grace period"
        );
        let (deleted, removed) = pass_and_count(&mut world, Span::seconds(600), "demo-1");
        assert_eq!(removed, ["demo-1"]);
        assert!(deleted >= 2, "once for the second look, and once as it is removed");
        assert!(!world.unnamed_alarm, "N5");
        world.settle();
        assert_eq!(world.voters().len(), size);
        assert!(!world.voters().contains(&"demo-1"));
        assert!(world.seen.volumes[&name("demo-1")].quarantine.is_some(), "R17");
        assert!(world.seen.record.suspected.is_empty() && world.seen.record.differ_since.is_none());
    }
}

#[test]
fn m03_a_kept_out_member_may_be_the_good_one_as_long_as_anybody_else_may_be_wrong() {
    let is_lost =
        |world: &World| world.seen.apparent_loss(&world.seen.record, &name("demo-1"), world.now).is_some();
    let kept_out = |size, change: &dyn Fn(&mut World)| {
        let mut world = World::running(size);
        world.kept_out.insert(name("demo-1"));
        change(&mut world);
        world.observe();
        is_lost(&world)
    };
    assert!(kept_out(3, &|_| {}) && kept_out(5, &|_| {}));
    assert!(!kept_out(2, &|_| {}), "one of two is no majority");
    assert!(
        !kept_out(3, &|world| {
            world.wrong.insert(name("demo-2"), 2);
        }),
        "one against one"
    );
    assert!(
        !kept_out(5, &|world| {
            world.wrong.insert(name("demo-2"), 2);
        }),
        "another one is wrong"
    );
    assert!(!kept_out(5, &|world| world.silence("demo-2")), "another one may be wrong");
    assert!(
        !kept_out(5, &|world| {
            world.without_hash.insert(name("demo-2"));
        }),
        "that one too"
    );
    assert!(
        kept_out(5, &|world| {
            world.kept_out.insert(name("demo-2"));
        }),
        "it serves no peer either"
    );
    assert!(!kept_out(5, &|world| {
        world.versions.insert(name("demo-2"), Version::new(3, 6, 15));
    }));
    let other_image = |world: &mut World| {
        world.seen.pods.get_mut(&name("demo-1")).unwrap().image = Some("etcd:v3.5.36".to_owned());
    };
    assert!(!kept_out(3, &other_image), "its etcd may make hashes in another way");
    let learner = |world: &mut World| {
        let mut learner = world.members[0].clone();
        (learner.id, learner.name, learner.is_learner) = (MemberId(99), "demo-9".to_owned(), true);
        world.members.push(learner);
    };
    assert!(!kept_out(3, &learner), "it may have compared itself with a learner");
    let removed = |world: &mut World| {
        let pod = world.seen.pods[&name("demo-0")].clone();
        world.seen.pods.insert(name("demo-9"), pod);
    };
    assert!(!kept_out(3, &removed), "it may not know yet that this one was removed");
    // The text may be there for another reason: a log shows what clients write.
    let mut world = World::running(3);
    keep_out(&mut world, "demo-1");
    world.observe();
    assert!(!is_lost(&world));
    assert_eq!(pass(&mut world, Span::seconds(1800)).0, Vec::<String>::new());
}

/// A majority agrees, so nobody is `Undecided`, and yet nothing goes on.
#[test]
fn m36_who_cannot_be_compared_with_a_majority_is_named_with_what_to_do() {
    let named = |world: &mut World| {
        let waiting = world.plan().waiting;
        waiting.into_iter().find_map(|waiting| {
            let Waiting::NotCompared { unknown, kept_out } = waiting else { return None };
            Some((unknown, kept_out))
        })
    };
    let mut world = World::running(3);
    world.unnamed_alarm = true;
    assert_eq!(named(&mut world), None);
    world.silence("demo-1");
    world.now = world.now + Span::seconds(30);
    assert_eq!(named(&mut world), Some(([name("demo-1")].into(), vec![])));
    // Its check may have compared hashes that are made in another way.
    keep_out(&mut world, "demo-1");
    assert_eq!(named(&mut world), Some(([name("demo-1")].into(), vec![name("demo-1")])));
    world.kept_out.insert(name("demo-1"));
    assert_eq!(named(&mut world), None, "it is found, and MayBeLost says so");
    let mut calm = World::running(3);
    calm.silence("demo-1");
    assert_eq!(named(&mut calm), None, "nobody has a reason to doubt its data");
}

#[test]
fn m03_one_pod_that_is_refused_is_no_evidence_and_one_that_passes_the_check_refutes_it() {
    let mut world = World::running(3);
    world.kept_out.insert(name("demo-1"));
    pass(&mut world, Span(GRACE.0 - 30_000));
    let certain = |world: &World| world.seen.certain_loss(&world.seen.record, &name("demo-1"), world.now);
    // Its kubelet is dead: the Pod that was refused stays as it is.
    let pod = world.seen.pods[&name("demo-1")].clone();
    for _ in 0..20 {
        let plan = world.plan();
        assert!(removes(&plan).is_none());
        world.carry_out(plan);
        world.seen.pods.insert(name("demo-1"), pod.clone());
        world.now = world.now + Span::seconds(14);
        world.observe();
        assert_eq!(certain(&world), None);
    }
    without("P second look", || assert_eq!(certain(&world), Some(Loss::Inconsistent)));
    // Another peer was wrong, or the history is compacted by now: the next Pod starts, and is compared.
    world.kept_out.clear();
    let (_, removed) = pass_and_count(&mut world, Span::seconds(1200), "demo-1");
    assert!(removed.is_empty() && world.seen.record.suspected.is_empty(), "{removed:?}");
}

/// The member that was kept out is started without the check, and when hashes are made next, the wrong member restarts: those that run
/// agree, and nothing else gives a reason to compare.
#[test]
fn h37_data_that_differed_are_compared_until_all_agree_though_the_reason_is_gone() {
    let mut world = World::running(3);
    world.wrong.insert(name("demo-1"), 2);
    keep_out(&mut world, "demo-2");
    let plan = world.plan();
    assert!(undecided(&plan), "{:?}", plan.waiting);
    world.carry_out(plan);
    let pod = world.seen.pods.get_mut(&name("demo-2")).unwrap();
    (pod.ready, pod.differs_from_peers, pod.trouble) = (true, false, None);
    world.silence("demo-1");
    assert_eq!(pass(&mut world, Span::seconds(90)), (vec![], vec![]));
    world.unsilence("demo-1");
    assert_eq!(pass(&mut world, Span::seconds(1300)).0, ["demo-1"]);
    world.settle();
    pass(&mut world, Span::seconds(60));
    assert!(world.seen.record.differ_since.is_none() && world.seen.etcd.hashes.is_none());
}

/// Its Pod starts again before anybody could compare the others, and passes, since the check is off now.
#[test]
fn h37_a_member_that_was_kept_out_is_compared_though_the_check_is_off_before_anybody_is_compared() {
    let mut world = World::running(3);
    world.wrong.insert(name("demo-1"), 2);
    keep_out(&mut world, "demo-2");
    let id = world.seen.record.members[&name("demo-2")].id;
    world.seen.pods.get_mut(&name("demo-2")).unwrap().refused_by_check = id;
    world.silence("demo-1");
    let plan = world.plan();
    assert!(!world.seen.etcd.hashes.as_ref().is_some_and(Hashes::differ));
    world.carry_out(plan);
    let pod = world.seen.pods.get_mut(&name("demo-2")).unwrap();
    (pod.ready, pod.differs_from_peers, pod.trouble) = (true, false, None);
    world.unsilence("demo-1");
    assert_eq!(pass(&mut world, Span::seconds(1300)).0, ["demo-1"]);
}

#[test]
fn data_that_differed_and_cannot_be_compared_any_more_are_still_reported() {
    let mut world = World::running(2);
    world.wrong.insert(name("demo-1"), 2);
    world.unnamed_alarm = true;
    pass(&mut world, Span::seconds(60));
    // A person disarms the alarm, and auth lets the operator compare nothing.
    world.unnamed_alarm = false;
    world.without_hash = ["demo-0", "demo-1"].map(name).into();
    pass(&mut world, Span::seconds(90));
    let plan = world.plan();
    assert!(undecided(&plan), "{:?}", plan.waiting);
    world.without_hash.clear();
    world.wrong.clear();
    pass(&mut world, Span::seconds(90));
    let plan = world.plan();
    assert!(!undecided(&plan) && world.seen.record.differ_since.is_none(), "{:?}", plan.waiting);
}

#[test]
fn where_recovery_is_off_the_finding_is_reported_and_nobody_is_removed() {
    let mut world = World::running(3);
    world.seen.replacement_policy.enabled = false;
    differ(&mut world, "demo-1", 2);
    assert_eq!(pass(&mut world, Span::seconds(1800)), (vec![], vec![]));
    let off = Waiting::ReplacementDisabled { member: name("demo-1"), loss: Loss::Inconsistent };
    assert!(world.plan().waiting.contains(&off));
}

#[test]
fn p3_data_that_agree_at_the_last_moment_keep_their_member() {
    let mut world = World::running(3);
    differ(&mut world, "demo-1", 2);
    pass(&mut world, GRACE);
    world.now = world.now + Span::seconds(60);
    let plan = world.plan_that(|plan| removes(plan).is_some());
    let remove = plan.effects.into_iter().find(Effect::changes_membership).unwrap();
    let mut record = plan.record;
    assert!(matches!(record.members[&name("demo-1")].stage, Stage::Leaving(Leaving::Lost)));
    let judge = |world: &World, record: &_| {
        permits(&Scene { seen: &world.seen, record, now: world.now, before: &[] }, &remove)
    };
    assert_eq!(judge(&world, &record), Ok(()));
    let hashes = world.seen.etcd.hashes.as_mut().unwrap();
    let reply = hashes.replies.get_mut(&name("demo-1")).unwrap().as_mut().unwrap();
    reply.hash = 1;
    assert_eq!(judge(&world, &record), Err(Unsafe::NotLost(name("demo-1"))));
    without("NotLost", || assert_ne!(judge(&world, &record), Err(Unsafe::NotLost(name("demo-1")))));
    record.suspected.clear();
    assert!(judge(&world, &record).is_err());
}

#[test]
fn n5_corrupt_stays_while_any_voter_is_not_seen_to_agree() {
    let mut world = World::running(3);
    differ(&mut world, "demo-1", 2);
    let unnamed = Alarm { member: MemberId(0), kind: AlarmKind::Corrupt };
    let call = EtcdCall::Disarm { member: unnamed.member, kind: unnamed.kind };
    let disarm = Effect::etcd(Step::N5, name("demo-0"), call);
    let judge = |world: &mut World| {
        world.now = world.now + Span::seconds(30);
        world.observe();
        world.prove();
        let record = world.seen.record.clone();
        permits(&Scene { seen: &world.seen, record: &record, now: world.now, before: &[] }, &disarm)
    };
    let refused = Err(Unsafe::AlarmHolds(unnamed));
    assert_eq!(judge(&mut world), refused, "one differs");
    world.wrong.clear();
    world.silence("demo-1");
    assert_eq!(judge(&mut world), refused, "of one it is not known");
    world.unsilence("demo-1");
    assert_eq!(judge(&mut world), Ok(()));
    let hashes = world.seen.etcd.hashes.as_mut().unwrap();
    hashes.replies.get_mut(&name("demo-2")).unwrap().as_mut().unwrap().latest.0 += 1;
    let scene = Scene { seen: &world.seen, record: &world.seen.record, now: world.now, before: &[] };
    assert_eq!(permits(&scene, &disarm), refused, "one has more than what was compared");
}

#[test]
fn in_memory_a_member_whose_data_differ_is_replaced_too() {
    let mut world = World::new(3);
    world.seen.desired.storage.medium = Medium::Memory;
    world.settle();
    differ(&mut world, "demo-1", 2);
    assert_eq!(pass(&mut world, Span::seconds(1300)).0, ["demo-1"]);
}

#[test]
fn m40_a_member_that_makes_a_hash_for_the_operator_is_no_lost_quorum() {
    let reported = |is_asked: bool| {
        let mut world = World::running(1);
        world.silence("demo-0");
        world.observe();
        let now = world.now;
        let etcd = &mut world.seen.etcd;
        (etcd.list, etcd.quorum_at, etcd.no_list_since) = (None, Some(now), Some(Instant(now.0 - 60_000)));
        etcd.hashing = is_asked.then(|| name("demo-0"));
        let waiting = plan(&world.seen, now).waiting;
        let is_lost = waiting.iter().any(|waiting| matches!(waiting, Waiting::Quorum { .. }));
        (world.seen.had_quorum(now), is_lost, waiting.contains(&Waiting::Comparing(name("demo-0"))))
    };
    assert_eq!(reported(false), (false, true, false));
    assert_eq!(reported(true), (true, false, true));
}

/// One that is cut off from its peers goes on answering with the revision of then, which the others have compacted.
#[test]
fn m28_a_member_that_stands_still_does_not_keep_the_others_from_being_compared() {
    let compared_at = |size: usize, revisions: &[i64]| {
        let mut world = World::running(size);
        for (place, answer) in world.seen.etcd.answers.values_mut().enumerate() {
            match revisions.get(place) {
                Some(revision) => answer.reply.as_mut().unwrap().revision = Revision(*revision),
                None => answer.reply = Err("no answer within 2s".to_owned()),
            }
        }
        world.seen.etcd.list = None;
        world.seen.revision_to_compare(world.now).map(|revision| revision.0)
    };
    assert_eq!(compared_at(5, &[90, 90, 90, 90, 7]), Some(90));
    assert_eq!(compared_at(5, &[92, 91, 90, 7, 7]), Some(90));
    assert_eq!(compared_at(5, &[92, 91, 7, 7, 7]), Some(7), "nothing later is known to a majority");
    assert_eq!(compared_at(5, &[92, 91, 90]), Some(90));
    assert_eq!(compared_at(5, &[92, 91]), Some(91), "those that answer can still contradict each other");
    assert_eq!(compared_at(3, &[92, 90, 91]), Some(91));
    assert_eq!(compared_at(3, &[90, 90, 90]), None, "the latest, which is made anew");
}

#[test]
fn a_calm_cluster_is_never_compared() {
    let mut world = World::running(3);
    world.wrong.insert(name("demo-1"), 2);
    pass(&mut world, Span::seconds(1800));
    assert!(world.seen.etcd.hashes.is_none() && world.seen.record.suspected.is_empty());
}

/// Hashes of voters alone are compared: one voter agrees with itself, and the learner would be promoted with wrong data.
#[test]
fn h37_a_learner_makes_way_under_an_alarm_corrupt_before_that_is_disarmed() {
    for size in [1, 3] {
        let mut world = World::running(size);
        world.resize(size + 1);
        let learner = format!("demo-{size}");
        let plan = world.plan_that(|plan| plan.effects.iter().any(|effect| effect.step() == Step::G4));
        world.carry_out(plan);
        world.unnamed_alarm = true;
        let plan = world.plan();
        assert_eq!(disarms(&plan), None);
        assert_eq!(removes(&plan), Some(learner.as_str()), "{:?}", plan.waiting);
        world.carry_out(plan);
        world.settle();
        assert!(!world.unnamed_alarm, "it was the learner's, or the voters agree all the same");
        assert_eq!(
            world.voters().len(),
            size,
            "joining may be what raises the alarm, so the next one takes its time"
        );
        world.now = world.now + Span::seconds(3600);
        world.settle();
        assert_eq!(world.voters().len(), size + 1, "the next learner has a copy of what the voters have");
    }
}

/// Of three members that serve, one cannot be compared: it runs another version.
fn one_is_not_compared(member: &str) -> World {
    let mut world = World::running(3);
    world.versions.insert(name(member), Version::new(3, 6, 15));
    world.seen.record.differ_since = Some(world.now);
    world
}

#[test]
fn s12_while_it_is_not_known_whose_data_are_wrong_only_a_member_that_is_not_seen_to_agree_is_removed() {
    for member in ["demo-0", "demo-2"] {
        let mut world = one_is_not_compared(member);
        world.resize(2);
        world.settle();
        assert!(!world.voters().contains(&member), "those that are left agree: {:?}", world.voters());
        assert!(world.seen.record.differ_since.is_none(), "so nothing is undecided any more");
    }
    let mut world = one_is_not_compared("demo-1");
    world.observe();
    world.prove();
    let judge = |world: &World, member: &str| may_remove(world.view(), &name(member));
    for good in ["demo-0", "demo-2"] {
        assert_eq!(judge(&world, good), Err(Unsafe::DataUndecided(name(good))));
        without("DataUndecided", || assert_eq!(judge(&world, good), Ok(())));
    }
    assert_eq!(judge(&world, "demo-1"), Ok(()));
    world.seen.record.differ_since = None;
    assert_eq!(judge(&world, "demo-0"), Ok(()), "nothing differs");
}

#[test]
fn s12_where_nobody_can_be_compared_nobody_is_removed_but_whom_a_person_names() {
    let nobody_is_compared = || {
        let mut world = World::running(3);
        world.without_hash = ["demo-0", "demo-1", "demo-2"].map(name).into();
        world.seen.record.differ_since = Some(world.now);
        world
    };
    let mut world = nobody_is_compared();
    world.resize(2);
    let (removed, _) = pass(&mut world, Span::seconds(1800));
    assert!(removed.is_empty(), "{removed:?}");
    let waiting = world.plan().waiting;
    let is_told = |waiting: &Waiting| matches!(waiting, Waiting::Unsafe(Unsafe::DataUndecided(_)));
    assert!(waiting.iter().any(is_told), "{waiting:?}");
    let voters = world.seen.record.voters().count();
    assert_eq!(voters, 3, "it was not even chosen");
    // The claim of one is being deleted: another one would join with the data of the leader, and this one go.
    let mut world = nobody_is_compared();
    world.seen.volumes.get_mut(&name("demo-1")).unwrap().terminating = true;
    assert!(pass(&mut world, Span::seconds(1800)).0.is_empty());
    assert_eq!((world.voters().len(), world.seen.record.replacement.clone()), (3, None));
    // A person says whose are wrong.
    let mut world = nobody_is_compared();
    world.seen.replace_member = Some(name("demo-1"));
    assert_eq!(pass(&mut world, Span::seconds(1800)).0, ["demo-1"]);
}

/// It was healthy when it was chosen. While it leaves, nobody makes it healthy, and no order of a person would be looked at.
#[test]
fn s12_a_member_that_is_moved_stays_a_voter_if_it_becomes_unhealthy_and_may_be_the_one_that_is_right() {
    let mut world = World::running(3);
    world.seen.volumes.get_mut(&name("demo-1")).unwrap().terminating = true;
    let stage = |plan: &Plan| plan.record.members.get(&name("demo-1")).map(|member| member.stage);
    let leaves = |plan: &Plan| stage(plan) == Some(Stage::Leaving(Leaving::Replaced));
    let plan = world.plan_that(leaves);
    world.carry_out(plan);
    world.without_hash = ["demo-0", "demo-1", "demo-2", "demo-3"].map(name).into();
    world.seen.record.differ_since = Some(world.now);
    world.silence("demo-1");
    for _ in 0..10 {
        let plan = world.plan();
        assert_eq!(stage(&plan), Some(Stage::Voter), "{:?}", plan.waiting);
        world.carry_out(plan);
        world.now = world.now + Span::seconds(14);
    }
    world.seen.replace_member = Some(name("demo-1"));
    assert_eq!(pass(&mut world, Span::seconds(1800)).0, ["demo-1"], "a person says that its data may go");
}

/// On a disk the data stay when a Pod is restarted.
#[test]
fn s12_in_memory_no_pod_is_restarted_while_it_is_not_known_whose_data_are_wrong() {
    for (medium, restarts) in [(Medium::Disk, true), (Medium::Memory, false)] {
        let mut world = World::new(3);
        world.seen.desired.storage.medium = medium;
        world.settle();
        world.without_hash = ["demo-0", "demo-1", "demo-2"].map(name).into();
        world.seen.record.differ_since = Some(world.now);
        world.seen.desired.pod.revision = PodRevision("r2".into());
        let (mut evicted, end) = (false, world.now + Span::seconds(1800));
        while world.now < end {
            let plan = world.plan();
            let evicts = |effect: &Effect| matches!(effect.as_kube(), Some(KubeEffect::EvictPod { .. }));
            evicted |= plan.effects.iter().any(evicts);
            world.carry_out(plan);
            world.now = world.now + Span::seconds(14);
        }
        assert_eq!(evicted, restarts, "{medium:?}");
    }
}
