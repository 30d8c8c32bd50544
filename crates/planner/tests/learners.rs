//! Learners that are given up: the next one is added with growing delay, and what has progress is not given up.

use crate::world::{World, name};
use quorate_model::effect::LEARNER_DEADLINE;
use quorate_model::record::{Leaving, Stage};
use quorate_model::snapshot::Database;
use quorate_model::target::PodRevision;
use quorate_model::{Instant, Plan, Record, Span, Step, Waiting};

/// The spec asks for a fourth member, and no Pod of a new member ever runs.
fn growth_that_fails() -> World {
    let mut world = World::running(3);
    world.resize(4);
    world
}

/// Makes passes, one every ten seconds, in which the Pod of a learner is always in trouble. Returns when names were used up, in minutes.
fn new_names(world: &mut World, minutes: i64) -> Vec<i64> {
    let began = world.now;
    let mut used = Vec::new();
    let mut next = world.seen.record.next_ordinal;
    while world.now.0 - began.0 < minutes * 60_000 {
        for (member, pod) in &mut world.seen.pods {
            if world.seen.record.members.get(member).is_some_and(|member| member.stage == Stage::Joining) {
                pod.trouble = Some("ErrImagePull: not found".into());
            }
        }
        let at = world.now;
        let plan = world.plan();
        world.carry_out(plan);
        world.now = at + Span::seconds(10);
        if world.seen.record.next_ordinal != next {
            used.push((at.0 - began.0) / 60_000);
            next = world.seen.record.next_ordinal;
        }
    }
    used
}

#[test]
fn l10_a_learner_that_never_runs_uses_up_names_and_volumes_with_growing_delay() {
    let mut world = growth_that_fails();
    let used = new_names(&mut world, 12 * 60);
    let delays: Vec<i64> = used.windows(2).map(|two| two[1] - two[0]).collect();
    // Ten minutes until it is given up, and then 1, 2, 4, ... 60 minutes.
    for (delay, least) in delays.iter().zip([11, 12, 14, 18, 26, 42, 70, 70]) {
        assert!((least..least + 2).contains(delay), "{delays:?}");
    }
    assert!(used.len() <= 15, "{used:?}");
    let failed = world.seen.record.failed_learners.clone().expect("it is recorded");
    assert!(failed.count >= 8 && failed.reason.contains("ErrImagePull: not found"), "{failed:?}");
}

#[test]
fn l10_the_wait_for_the_next_learner_is_reported_and_ends_at_once_with_an_edit() {
    let mut world = growth_that_fails();
    new_names(&mut world, 60);
    let waits = |world: &mut World| {
        let plan = world.plan();
        plan.waiting.iter().any(|waiting| matches!(waiting, Waiting::LearnersFailed { .. }))
    };
    while !waits(&mut world) {
        new_names(&mut world, 1);
    }
    let before = world.seen.record.next_ordinal;
    world.seen.desired.pod.revision = PodRevision("an image that exists".into());
    world.settle();
    assert_eq!(world.seen.record.failed_learners, None);
    assert_eq!(world.voters().len(), 4);
    assert_eq!(world.seen.record.next_ordinal, before.next());
}

#[test]
fn l10_a_learner_that_becomes_a_voter_ends_the_series() {
    let mut world = growth_that_fails();
    while world.seen.record.failed_learners.is_none() {
        new_names(&mut world, 1);
    }
    world.now = world.now + Span::seconds(3600);
    world.settle();
    assert_eq!(world.voters().len(), 4);
    assert_eq!(world.seen.record.failed_learners, None);
}

#[test]
fn l10_a_clock_that_was_set_back_does_not_delay_the_next_learner() {
    let mut world = growth_that_fails();
    new_names(&mut world, 12);
    let failed = world.seen.record.failed_learners.clone().expect("one failed");
    world.now = Instant(failed.at.0 - 10_000_000);
    let before = world.seen.record.next_ordinal;
    let plan = world.plan();
    assert!(plan.record.next_ordinal > before || plan.record.joining().is_some(), "{plan:?}");
}

#[test]
fn l10_a_learner_whose_applied_index_grows_is_given_time() {
    let mut world = growth_that_fails();
    world.plan_that(|plan| plan.effects.iter().any(|effect| effect.step() == quorate_model::Step::G6));
    world.silence("demo-3");
    let pod = world.seen.pods.get_mut(&name("demo-3")).expect("its Pod");
    pod.trouble = Some("probe fails".into());
    world.now = world.now + LEARNER_DEADLINE + Span(60_000);
    world.observe();
    world.seen.etcd.learner_progress = Some((name("demo-3"), Instant(world.now.0 - 1000)));
    let plan = quorate_planner::plan(&world.seen, world.now);
    assert_eq!(plan.record.members[&name("demo-3")].stage, Stage::Joining);
    world.seen.etcd.learner_progress = None;
    let plan = quorate_planner::plan(&world.seen, world.now);
    assert!(matches!(plan.record.members[&name("demo-3")].stage, Stage::Leaving(_)));
}

/// Growth from one to two, just before the promotion.
fn before_promotion() -> (World, quorate_model::Plan) {
    let mut world = World::running(1);
    world.resize(2);
    let plan = world.plan_that(|plan| plan.effects.iter().any(|effect| effect.step() == Step::G6));
    (world, plan)
}

#[test]
fn m61_the_volume_of_a_learner_names_it_before_its_promotion() {
    let (world, _) = before_promotion();
    let learner = &world.seen.record.members[&name("demo-1")];
    assert_eq!(world.seen.volumes[&name("demo-1")].member_id, learner.id);
}

#[test]
fn m61_a_promoted_member_that_dies_while_the_status_is_lost_is_started_again() {
    let (mut world, plan) = before_promotion();
    world.carry_out(plan);
    world.lose_pod("demo-1");
    world.seen.record = Record::default();
    let story = world.settle();
    assert_eq!(world.voters(), ["demo-0", "demo-1"], "{story}");
    assert!(world.seen.pods.contains_key(&name("demo-1")), "{story}");
}

#[test]
fn m61_a_learner_that_is_named_goes_on_as_one_after_the_status_was_lost() {
    let (mut world, _) = before_promotion();
    world.seen.record = Record::default();
    let plan = world.plan();
    assert_eq!(plan.record.members[&name("demo-1")].stage, Stage::Joining, "{:?}", plan.waiting);
    let story = world.settle();
    assert_eq!(world.voters(), ["demo-0", "demo-1"], "{story}");
}

/// Growth from three to four whose learner follows the leader and stores less than the cluster writes.
fn learner_that_falls_behind() -> World {
    let mut world = World::running(3);
    world.resize(4);
    world.plan_that(|plan| plan.effects.iter().any(|effect| effect.step() == Step::G6));
    world.observe();
    world.prove();
    falls_behind(&mut world);
    world
}

fn falls_behind(world: &mut World) {
    let answer = world.seen.etcd.answers.get_mut(&name("demo-3")).expect("it answers");
    let status = answer.reply.as_mut().expect("its status");
    status.applied = status.applied.saturating_sub(1500);
    assert!(status.leader.is_some());
}

/// Plans at a time when the learner last came closer so long ago.
fn plan_after(world: &mut World, seconds: u64) -> Plan {
    let last = world.now;
    world.now = last + Span::seconds(seconds);
    world.observe();
    world.prove();
    falls_behind(world);
    world.seen.etcd.learner_progress = Some((name("demo-3"), last));
    let plan = quorate_planner::plan(&world.seen, world.now);
    world.now = last;
    plan
}

#[test]
fn l08_a_learner_that_follows_its_leader_and_comes_no_closer_is_given_up_after_an_hour() {
    let mut world = learner_that_falls_behind();
    let stage = |plan: &Plan| plan.record.members[&name("demo-3")].stage;
    let plan = plan_after(&mut world, 3500);
    assert_eq!(stage(&plan), Stage::Joining);
    let is_told = |waiting: &Waiting| matches!(waiting, Waiting::InSync { behind: Some(_), .. });
    assert!(plan.waiting.iter().any(is_told), "{:?}", plan.waiting);
    let plan = plan_after(&mut world, 3700);
    assert_eq!(stage(&plan), Stage::Leaving(Leaving::RolledBack));
    assert!(plan.record.failed_learners.is_some(), "the next one comes with growing delay");
}

#[test]
fn l08_an_edit_and_size_zero_wait_ten_minutes_for_such_a_learner() {
    let edits: [fn(&mut World); 2] = [
        |world| world.seen.desired.size = 0,
        |world| world.seen.desired.pod.revision = PodRevision("edited".to_owned()),
    ];
    for edit in edits {
        let mut world = learner_that_falls_behind();
        edit(&mut world);
        let committed = |world: &World, plan: &Plan| {
            let target = plan.record.target.as_ref().expect("a target");
            (target.size, &target.pod.revision) == (world.seen.desired.size, &world.seen.desired.pod.revision)
        };
        let plan = plan_after(&mut world, 590);
        assert!(!committed(&world, &plan));
        let plan = plan_after(&mut world, 610);
        assert!(committed(&world, &plan), "{:?}", plan.waiting);
        assert_eq!(plan.record.members[&name("demo-3")].stage, Stage::Leaving(Leaving::RolledBack));
    }
}

/// Growth from three to four whose learner runs and answers nothing, since it has no copy of a database of so many GiB.
fn learner_without_a_copy(gib: u64) -> World {
    let mut world = growth_that_fails();
    world.plan_that(|plan| plan.effects.iter().any(|effect| effect.step() == Step::G6));
    for voter in ["demo-0", "demo-1", "demo-2"] {
        let database = Database { size: gib << 30, in_use: gib << 30, quota: None };
        world.databases.insert(name(voter), database);
    }
    world.silence("demo-3");
    world.seen.pods.get_mut(&name("demo-3")).expect("its Pod").ip = Some("10.0.0.3".to_owned());
    world
}

#[test]
fn l15_a_learner_of_a_large_database_has_the_time_that_a_thin_line_takes() {
    for (gib, minutes, is_given_up) in
        [(1, 59, false), (1, 61, true), (8, 61, false), (8, 130, false), (8, 140, true)]
    {
        let mut world = learner_without_a_copy(gib);
        world.now = world.now + Span::seconds(minutes * 60);
        let plan = world.plan();
        let stage = plan.record.members[&name("demo-3")].stage;
        assert_eq!(stage == Stage::Leaving(Leaving::RolledBack), is_given_up, "{gib} GiB, {minutes} minutes");
    }
}

/// The line is thinner than what the cluster writes: etcd sends snapshot after snapshot, and the learner answers nothing.
#[test]
fn l08_no_edit_waits_longer_than_a_copy_of_the_database_takes_for_a_learner_that_never_has_one() {
    for (gib, seconds, is_committed) in [(0, 590, false), (0, 610, true), (1, 1000, false), (1, 1040, true)] {
        let mut world = learner_without_a_copy(gib);
        world.seen.desired.size = 0;
        let since = world.seen.record.members[&name("demo-3")].since;
        world.now = since + Span::seconds(seconds);
        let plan = world.plan();
        let size = plan.record.target.as_ref().expect("a target").size;
        assert_eq!(size == 0, is_committed, "{gib} GiB, {seconds} s: {:?}", plan.waiting);
    }
}
