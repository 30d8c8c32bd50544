//! Versions: which may follow which, half-done minors taken back, etcd's downgrade (V1 to V5), and membership while versions are mixed.

use crate::world::{World, name};
use quorate_model::effect::{DowngradeAction, Downgrading, NoStep, SafePoint, Unsafe, VersionRefused, Wave};
use quorate_model::snapshot::{CommittedMark, DefaultsTurn};
use quorate_model::{Effect, EtcdCall, GuardVerdict, KubeEffect, Minor, Plan, Span, Step, Version, Waiting};
use quorate_planner::fleet::PARKED_AFTER;
use quorate_planner::safety::mutants::without;

const OLD: Version = Version::new(3, 6, 16);
const NEW: Version = Version::new(3, 7, 3);

fn set(world: &mut World, version: Version) {
    world.seen.desired.version = version;
    world.seen.desired.pod.revision.0 = format!("r of {version}");
}

fn order(world: &mut World, version: Version) {
    set(world, version);
    world.seen.allow_downgrade = Some(version);
}

fn committed(world: &World) -> Version {
    world.seen.record.target.as_ref().unwrap().version
}

fn runs(world: &World, version: Version) -> usize {
    world.versions.values().filter(|runs| **runs == version).count()
}

fn refusal(plan: &Plan) -> Option<VersionRefused> {
    plan.waiting.iter().find_map(|waiting| match waiting {
        Waiting::VersionRefused(why) => Some(why.clone()),
        _ => None,
    })
}

fn has_step(step: Step) -> impl Fn(&Plan) -> bool {
    move |plan| plan.recorded_steps.contains(&step) || plan.effects.iter().any(|effect| effect.step() == step)
}

fn asks(plan: &Plan) -> Vec<DowngradeAction> {
    let calls = plan.effects.iter().filter_map(Effect::as_etcd);
    calls
        .filter_map(|call| match call {
            EtcdCall::Downgrade { action, .. } => Some(*action),
            _ => None,
        })
        .collect()
}

/// A cluster of three in which so many members run the newer minor version already.
fn half_done(upgraded: usize) -> World {
    let mut world = World::running(3);
    set(&mut world, NEW);
    for _ in 0..40 {
        if runs(&world, NEW) == upgraded {
            // The next pass observes them.
            world.observe();
            return world;
        }
        let plan = world.plan();
        world.carry_out(plan);
    }
    panic!("{:?}", world.versions)
}

#[test]
fn patches_of_one_minor_version_go_in_both_directions() {
    let mut world = World::running(3);
    for version in [Version::new(3, 6, 11), Version::new(3, 6, 18), OLD] {
        set(&mut world, version);
        world.settle();
        assert_eq!(runs(&world, version), 3);
    }
}

#[test]
fn h36_a_half_done_minor_upgrade_is_taken_back_and_a_finished_one_is_not() {
    for upgraded in [1, 2] {
        let mut world = half_done(upgraded);
        set(&mut world, OLD);
        world.settle();
        assert_eq!((runs(&world, OLD), committed(&world)), (3, OLD), "{upgraded} upgraded");
        assert_eq!(world.seen.record.downgrading_to, None, "it is over");
    }
    let mut world = half_done(3);
    world.settle();
    set(&mut world, OLD);
    let plan = world.plan();
    let finished = |why| matches!(why, VersionRefused::NoStep { why: NoStep::Finished, .. });
    assert!(refusal(&plan).is_some_and(finished), "{:?}", plan.waiting);
    world.settle();
    assert_eq!((runs(&world, NEW), committed(&world)), (3, NEW));
}

#[test]
fn a_half_done_upgrade_is_not_taken_back_while_no_member_shows_that_the_old_version_still_runs() {
    let mut world = half_done(2);
    let old =
        world.versions.iter().find(|(_, version)| **version == OLD).map(|(name, _)| name.clone()).unwrap();
    world.silence(old.as_str());
    set(&mut world, OLD);
    let plan = world.plan();
    assert!(refusal(&plan).is_some(), "{:?}", plan.waiting);
    world.silent.clear();
    world.settle();
    assert_eq!(runs(&world, OLD), 3);
}

#[test]
fn pods_lost_while_a_half_done_upgrade_is_taken_back_come_back_with_the_old_version() {
    let mut world = half_done(2);
    set(&mut world, OLD);
    let plan = world.plan_that(has_step(Step::V4));
    world.carry_out(plan);
    for member in ["demo-0", "demo-1", "demo-2"] {
        world.lose_pod(member);
    }
    world.settle();
    assert_eq!(runs(&world, OLD), 3, "the record has the permission, though nobody answered");
}

#[test]
fn a_finished_minor_is_taken_back_by_etcds_own_downgrade_while_all_binaries_are_new_until_the_data_are_old() {
    let mut world = half_done(3);
    world.settle();
    order(&mut world, OLD);
    let plan = world.plan();
    assert_eq!(
        asks(&plan),
        [DowngradeAction::Validate, DowngradeAction::Enable],
        "V1, V2: {:?}",
        plan.waiting
    );
    assert_eq!(plan.effects.iter().map(Effect::step).collect::<Vec<_>>(), [Step::V1, Step::V2]);
    world.carry_out(plan);
    assert_eq!((committed(&world), runs(&world, NEW)), (NEW, 3), "V3");
    let plan = world.plan_that(has_step(Step::V4));
    assert_eq!(plan.record.downgrading_to, Some(Minor(3, 6)));
    world.carry_out(plan);
    let story = world.settle();
    assert!(story.contains("V5"), "{story}");
    assert_eq!((committed(&world), runs(&world, OLD), world.downgrade), (OLD, 3, None));
    assert_eq!(world.seen.record.downgrading_to, None);
}

#[test]
fn a_downgrade_that_the_image_does_not_follow_says_so() {
    let mut world = half_done(3);
    world.settle();
    order(&mut world, OLD);
    let plan = world.plan();
    world.carry_out(plan);
    let plan = world.plan_that(has_step(Step::V4));
    world.carry_out(plan);
    let mut target = world.seen.record.target.take().unwrap();
    target.pod.image_has_version = false;
    // The Pods have what is committed: the image is of the newer version.
    for pod in world.seen.pods.values_mut() {
        pod.revision.clone_from(&target.pod.revision);
    }
    world.seen.record.target = Some(target);
    let stays = |plan: &Plan| {
        let stays = |one: &Waiting| matches!(one, Waiting::Downgrading(Downgrading::ImageStays { to, .. }) if *to == OLD.line());
        plan.waiting.iter().any(stays)
    };
    let plan = world.plan_as_observed();
    assert!(stays(&plan), "{:?}", plan.waiting);
    // A Pod that has not the committed image yet may still bring the older version.
    world.seen.pods.get_mut(&name("demo-1")).unwrap().revision =
        quorate_model::target::PodRevision("other".into());
    let plan = world.plan_as_observed();
    assert!(!stays(&plan), "{:?}", plan.waiting);
}

#[test]
fn a_downgrade_is_not_begun_without_the_order_or_with_another_version_in_it() {
    for allow in [None, Some(NEW), Some(Version::new(3, 6, 15))] {
        let mut world = half_done(3);
        world.settle();
        set(&mut world, OLD);
        world.seen.allow_downgrade = allow;
        let story = world.settle();
        assert!(!story.contains("Downgrade"), "{allow:?}: {story}");
        assert!(refusal(&world.plan()).is_some());
    }
}

#[test]
fn data_that_still_belong_to_the_newer_version_are_not_given_to_the_older_one() {
    let mut world = half_done(3);
    world.settle();
    order(&mut world, OLD);
    let plan = world.plan();
    world.carry_out(plan);
    world.observe();
    // One of them is slow with its data.
    let slow = world.seen.etcd.answers.get_mut(&name("demo-1")).unwrap().reply.as_mut().unwrap();
    slow.storage_version = Some(Minor(3, 7));
    let plan = world.plan_as_observed();
    assert!(!has_step(Step::V4)(&plan), "V3: {plan:?}");
    assert!(plan.waiting.iter().any(|waiting| matches!(waiting, Waiting::Downgrading(_))));
}

#[test]
fn a_downgrade_is_cancelled_where_the_order_is_withdrawn_and_where_the_newer_version_is_desired_again() {
    // Before V4.
    let mut world = half_done(3);
    world.settle();
    order(&mut world, OLD);
    let plan = world.plan();
    world.carry_out(plan);
    world.seen.allow_downgrade = None;
    let plan = world.plan();
    assert_eq!(asks(&plan), [DowngradeAction::Cancel]);
    world.carry_out(plan);
    set(&mut world, NEW);
    world.settle();
    assert_eq!((runs(&world, NEW), world.cluster_version, world.downgrade), (3, Some(Minor(3, 7)), None));
    // After V4, with one member on the older version.
    let mut world = half_done(3);
    world.settle();
    order(&mut world, OLD);
    while runs(&world, OLD) == 0 {
        let plan = world.plan();
        world.carry_out(plan);
    }
    set(&mut world, NEW);
    let story = world.settle();
    assert!(story.contains("VC"), "{story}");
    assert_eq!((runs(&world, NEW), world.cluster_version, world.downgrade), (3, Some(Minor(3, 7)), None));
    assert_eq!(world.seen.record.downgrading_to, None);
}

#[test]
fn a_member_whose_disk_hangs_and_that_still_reports_a_cancelled_downgrade_holds_nothing_up() {
    let mut world = half_done(3);
    world.settle();
    order(&mut world, OLD);
    let plan = world.plan();
    world.carry_out(plan);
    let reported = world.downgrade;
    world.seen.allow_downgrade = None;
    set(&mut world, NEW);
    let plan = world.plan();
    assert_eq!(asks(&plan), [DowngradeAction::Cancel]);
    // The disk hangs before the member applies it.
    world.hang("demo-1");
    world.carry_out(plan);
    world.committed += 1;
    world.seen.replace_member = Some(name("demo-1"));
    for _ in 0..30 {
        world.observe();
        let etcd = &mut world.seen.etcd;
        etcd.committed_before = Some(CommittedMark { at: world.now, index: world.committed });
        if let Some(Ok(status)) = etcd.answers.get_mut(&name("demo-1")).map(|answer| answer.reply.as_mut()) {
            status.downgrade = reported;
        }
        let plan = world.plan_as_observed();
        assert_eq!(asks(&plan), [], "{plan:?}");
        world.carry_out(plan);
    }
    assert_eq!(world.voters(), ["demo-0", "demo-2", "demo-3"], "it is replaced, as a person ordered");
}

#[test]
fn pods_lost_during_a_downgrade_come_back_with_a_version_that_their_data_allow() {
    let all_lost = |world: &mut World| {
        for member in ["demo-0", "demo-1", "demo-2"] {
            world.lose_pod(member);
        }
        world.settle();
    };
    let mut world = half_done(3);
    world.settle();
    order(&mut world, OLD);
    let plan = world.plan();
    world.carry_out(plan);
    // V3
    all_lost(&mut world);
    assert_eq!((runs(&world, OLD), world.downgrade), (3, None));
    // V4
    let mut world = half_done(3);
    world.settle();
    order(&mut world, OLD);
    let plan = world.plan_that(has_step(Step::V4));
    world.carry_out(plan);
    all_lost(&mut world);
    assert_eq!((runs(&world, OLD), world.downgrade), (3, None));
}

#[test]
fn a_downgrade_that_somebody_cancels_by_hand_stops_before_a_binary_meets_newer_data() {
    let mut world = half_done(3);
    world.settle();
    order(&mut world, OLD);
    let plan = world.plan_that(has_step(Step::V4));
    world.carry_out(plan);
    world.downgrade = None;
    // The leader raises the cluster version again, since all members still run the newer version.
    let story = world.settle();
    assert_eq!(world.cluster_version, Some(Minor(3, 7)), "{story}");
    assert_eq!(runs(&world, NEW), 3, "{story}");
    world.lose_pod("demo-1");
    let plan = world.plan();
    assert!(
        !plan.effects.iter().any(|effect| matches!(effect.as_kube(), Some(KubeEffect::CreatePod { .. })))
    );
    assert!(
        without("DataTooNew", || world.plan())
            .effects
            .iter()
            .any(|effect| matches!(effect.as_kube(), Some(KubeEffect::CreatePod { .. })))
    );
    set(&mut world, NEW);
    world.settle();
    assert_eq!(runs(&world, NEW), 3);
}

#[test]
fn membership_does_not_change_while_versions_are_mixed_and_does_afterwards() {
    for size in [1, 5] {
        let mut world = half_done(1);
        world.resize(size);
        for _ in 0..40 {
            if runs(&world, OLD) == 0 {
                break;
            }
            let plan = world.plan();
            assert!(!plan.effects.iter().any(Effect::changes_membership), "{size}: {:?}", plan.effects);
            world.carry_out(plan);
        }
        world.settle();
        assert_eq!(world.voters().len(), size);
        assert_eq!(runs(&world, NEW), size);
    }
}

#[test]
fn r20_a_member_is_added_beside_mixed_versions_only_without_the_check() {
    let mut world = half_done(1);
    world.resize(5);
    let recorded = |world: &mut World| world.plan().record.members.len();
    assert_eq!(recorded(&mut world), 3);
    assert_eq!(without("VersionsMixed", || recorded(&mut world)), 4);
}

#[test]
fn r20_a_member_that_is_sick_leaves_also_while_versions_are_mixed() {
    let mut world = half_done(1);
    let old =
        world.versions.iter().find(|(_, version)| **version == OLD).map(|(name, _)| name.clone()).unwrap();
    world.silence(old.as_str());
    world.resize(2);
    let plan = world.plan_that(|plan| plan.effects.iter().any(Effect::changes_membership));
    let removed = plan.effects.iter().find_map(|effect| match effect.as_etcd() {
        Some(EtcdCall::RemoveMember { member, .. }) => Some(member.clone()),
        _ => None,
    });
    assert_eq!(removed, Some(old));
}

#[test]
fn r20_a_downgrade_begins_only_when_every_member_has_finished_the_upgrade() {
    let mut world = half_done(3);
    world.settle();
    order(&mut world, OLD);
    world.observe();
    let late = world.seen.etcd.answers.get_mut(&name("demo-1")).unwrap().reply.as_mut().unwrap();
    late.storage_version = Some(Minor(3, 6));
    let plan = world.plan_as_observed();
    assert_eq!(asks(&plan), []);
    assert!(
        plan.waiting.iter().any(|waiting| matches!(waiting, Waiting::Unsafe(Unsafe::NoDowngrade(_)))),
        "{:?}",
        plan.waiting
    );
    let plan = without("NoDowngrade", || world.plan_as_observed());
    assert_eq!(asks(&plan), [DowngradeAction::Validate, DowngradeAction::Enable]);
}

#[test]
fn h37_a_new_cluster_and_an_edit_with_a_version_that_corrupts_data_are_refused() {
    let mut world = World::new(3);
    set(&mut world, Version::new(3, 5, 2));
    let plan = world.plan();
    assert!(plan.effects.is_empty() && plan.recorded_steps.is_empty());
    assert_eq!(refusal(&plan), Some(VersionRefused::Unsound(Version::new(3, 5, 2))));
    set(&mut world, Version::new(3, 5, 35));
    world.settle();
    set(&mut world, Version::new(3, 5, 4));
    let plan = world.plan();
    assert_eq!(refusal(&plan), Some(VersionRefused::Unsound(Version::new(3, 5, 4))));
    assert_eq!(committed(&world), Version::new(3, 5, 35));
}

#[test]
fn the_operators_own_defaults_wait_for_their_turn_and_a_change_of_the_spec_takes_them_along() {
    let mut world = World::running(3);
    let before = world.seen.record.target.as_ref().unwrap().pod.revision.clone();
    world.seen.desired.pod.revision.0 = "new agent".into();
    world.seen.defaults = DefaultsTurn::After(Wave::Missed);
    let plan = world.plan();
    assert!(plan.does_nothing(), "{plan:?}");
    assert!(matches!(plan.waiting.first(), Some(Waiting::Wave(_))));
    world.seen.defaults = DefaultsTurn::OnNextChange;
    let plan = world.plan();
    assert!(plan.does_nothing() && plan.waiting.is_empty(), "{plan:?}");
    assert_eq!(plan.record.target.as_ref().unwrap().pod.revision, before);
    world.seen.desired.pod.content = "another option".into();
    let plan = world.plan();
    assert!(plan.record.takes_defaults.is_none(), "a change of the cluster's own");
    world.carry_out(plan);
    world.settle();
    assert_eq!(world.seen.record.target.as_ref().unwrap().pod.revision.0, "new agent");
}

#[test]
fn m06_a_cluster_that_is_not_well_lets_its_turn_pass_and_takes_the_defaults_when_it_is_or_with_its_next_change()
 {
    let mut world = World::running(3);
    world.silence("demo-1");
    world.seen.desired.pod.revision.0 = "new agent".into();
    let plan = world.plan();
    assert_eq!(plan.record.target.as_ref().unwrap().pod.revision.0, "r1");
    assert!(plan.record.takes_defaults.is_none(), "it counts for nobody");
    let told = plan.waiting.iter().find_map(|waiting| match waiting {
        Waiting::Wave(why) => Some(why.clone()),
        _ => None,
    });
    assert!(matches!(&told, Some(Wave::Sick(member, _)) if *member == name("demo-1")), "{told:?}");

    world.seen.desired.pod.content = "another option".into();
    let plan = world.plan();
    assert_eq!(
        plan.record.target.as_ref().unwrap().pod.revision.0,
        "new agent",
        "its own change may be the cure"
    );
    assert!(plan.record.takes_defaults.is_none());

    world.seen.desired.pod.content = "{}".into();
    world.silent.clear();
    let plan = world.plan();
    assert_eq!(plan.record.target.as_ref().unwrap().pod.revision.0, "new agent");
    assert!(plan.record.takes_defaults.is_some());
    world.carry_out(plan);
    world.silence("demo-1");
    world.seen.desired.pod.revision.0 = "newer agent".into();
    let plan = world.plan();
    assert_eq!(
        plan.record.target.as_ref().unwrap().pod.revision.0,
        "newer agent",
        "it has begun, and this may be the cure"
    );
}

#[test]
fn l07_a_turn_without_a_restart_says_so_after_ten_minutes_and_counts_anew_with_each_restart() {
    let mut world = World::running(3);
    world.seen.desired.pod.revision.0 = "new agent".into();
    let plan = world.plan();
    world.carry_out(plan);
    let told = |plan: &Plan| plan.waiting.iter().any(|why| matches!(why, Waiting::Wave(_)));
    let began = world.seen.record.takes_defaults.expect("it has its turn").since;
    world.now = began + PARKED_AFTER;
    assert!(!told(&world.plan()));
    world.now = world.now + Span::seconds(1);
    let plan = world.plan();
    assert!(told(&plan), "{:?}", plan.waiting);
    while world.seen.record.takes_defaults.is_some_and(|turn| turn.restarted == 0) {
        let plan = world.plan();
        world.carry_out(plan);
    }
    let turn = world.seen.record.takes_defaults.expect("two members lack them");
    assert!(turn.restarted == 1 && turn.since > began && !told(&world.plan()), "{turn:?}");
}

#[test]
fn a_cluster_that_takes_new_defaults_keeps_its_turn_until_every_member_has_them() {
    let mut world = World::running(3);
    world.seen.desired.pod.revision.0 = "new agent".into();
    let plan = world.plan();
    assert!(plan.record.takes_defaults.is_some());
    world.carry_out(plan);
    world.seen.defaults = DefaultsTurn::After(Wave::Missed);
    while world.seen.pods.values().any(|pod| pod.revision.0 != "new agent") {
        assert!(world.seen.record.takes_defaults.is_some());
        let plan = world.plan();
        world.carry_out(plan);
    }
    world.settle();
    assert!(world.seen.record.takes_defaults.is_none());
}

#[test]
fn paused_restarts_lost_pods_on_their_own_volumes_and_does_nothing_else() {
    let mut world = World::running(3);
    world.seen.paused = true;
    world.resize(5);
    set(&mut world, NEW);
    world.lose_pod("demo-1");
    let evicted = world.seen.pods.get_mut(&name("demo-2")).unwrap();
    (evicted.finished, evicted.ready) = (true, false);
    world.silence("demo-2");
    let story = world.settle();
    assert_eq!(world.seen.pods.len(), 3, "{story}");
    assert!(world.seen.pods.values().all(|pod| !pod.finished));
    assert_eq!(committed(&world), OLD);
    assert!(!story.contains("MemberAdd") && !story.contains("T1"), "{story}");
}

#[test]
fn h36_the_next_minor_version_waits_until_the_data_belong_to_the_one_that_runs() {
    let mut world = World::running(3);
    set(&mut world, NEW);
    world.observe();
    for answer in world.seen.etcd.answers.values_mut() {
        answer.reply.as_mut().unwrap().storage_version = Some(Minor(3, 5));
    }
    let plan = world.plan_as_observed();
    assert!(!has_step(Step::T1)(&plan), "{plan:?}");
    assert!(matches!(plan.waiting.first(), Some(Waiting::SafePoint(SafePoint::Unfinished { .. }))));
    world.settle();
    assert_eq!(runs(&world, NEW), 3);
}

/// Kubernetes' own etcd was restored from before the upgrade: Pods and status are of 3.6.5, the data of 3.7, and no member runs.
fn objects_went_back(data_need: Option<Minor>) -> World {
    const BEFORE: Version = Version::new(3, 6, 5);
    let mut world = World::running(3);
    set(&mut world, BEFORE);
    world.settle();
    for member in ["demo-0", "demo-1", "demo-2"] {
        world.silence(member);
        world.versions.insert(name(member), BEFORE);
        world.seen.record.members.get_mut(&name(member)).unwrap().version = Some(BEFORE);
        let pod = world.seen.pods.get_mut(&name(member)).unwrap();
        (pod.ready, pod.data_need) = (false, data_need);
        pod.trouble = Some("CrashLoopBackOff: Error".to_owned());
        pod.guard = data_need.map(|_| (GuardVerdict::DataTooNew, "etcd 3.6.5 is older".to_owned()));
    }
    world.cluster_version = Some(NEW.line());
    world
}

#[test]
fn l09_where_objects_went_back_an_edit_to_the_version_of_the_data_is_committed_and_reaches_the_pods() {
    let mut world = objects_went_back(Some(NEW.line()));
    set(&mut world, NEW);
    let plan = world.plan();
    let target = plan.record.target.as_ref().map(|target| target.version);
    assert_eq!(target, Some(NEW), "{:?}", plan.waiting);
    world.carry_out(plan);
    let plan = world.plan();
    world.carry_out(plan);
    let revisions = world.seen.pods.values().map(|pod| pod.revision.0.as_str());
    assert_eq!(revisions.collect::<Vec<_>>(), ["r of 3.7.3"; 3]);
    // What no member has said is not known, and 3.7 must not follow 3.6.5.
    let mut world = objects_went_back(None);
    set(&mut world, NEW);
    let plan = world.plan();
    let first = NoStep::PatchFirst(Version::new(3, 6, 11));
    let is_refused = |why| matches!(why, VersionRefused::NoStep { why, .. } if why == first);
    assert!(refusal(&plan).is_some_and(is_refused), "{:?}", plan.waiting);
}
