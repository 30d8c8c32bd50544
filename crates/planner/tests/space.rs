//! Full databases: what the alarm NOSPACE stops and what it does not, the remedy, and defragmentation.

use crate::world::{QUOTA, World, name};
use quorate_model::effect::Unsafe;
use quorate_model::record::Defragmenting;
use quorate_model::snapshot::{Alarm, AlarmKind, Database, DefragmentAttempt, Unready};
use quorate_model::snapshot::{Threshold, Window};
use quorate_model::target::PodRevision;
use quorate_model::{Effect, EtcdCall, Instant, KubeEffect, MemberId, Plan, Span, Step, Waiting};
use quorate_planner::safety::mutants::without;
use quorate_planner::safety::{self, Scene, permits};

fn id(world: &World, member: &str) -> MemberId {
    world.members.iter().find(|listed| listed.name == member).unwrap().id
}

fn alarm(world: &World, member: &str, kind: AlarmKind) -> Alarm {
    Alarm { member: id(world, member), kind }
}

fn full(world: &mut World, member: &str, percent: u64, in_use: u64) {
    let share = |percent| QUOTA / 100 * percent;
    let database = Database { size: share(percent), in_use: share(in_use), quota: Some(QUOTA) };
    world.databases.insert(name(member), database);
}

fn judge(world: &mut World, effect: &Effect) -> Result<(), Unsafe> {
    world.observe();
    world.prove();
    world.admit_successors();
    let record = world.seen.record.clone();
    permits(&Scene { seen: &world.seen, record: &record, now: world.now, before: &[] }, effect)
}

fn disarm(Alarm { member, kind }: Alarm) -> Effect {
    Effect::etcd(Step::N5, name("demo-0"), EtcdCall::Disarm { member, kind })
}

#[test]
fn n5_nospace_is_disarmed_when_every_member_is_below_nine_tenths_of_its_quota() {
    let mut world = World::running(3);
    let alarm = alarm(&world, "demo-1", AlarmKind::NoSpace);
    world.alarms.insert(alarm);
    full(&mut world, "demo-1", 89, 10);
    assert_eq!(judge(&mut world, &disarm(alarm)), Ok(()));
    full(&mut world, "demo-2", 91, 10);
    let refused = Err(Unsafe::AlarmHolds(alarm));
    assert_eq!(judge(&mut world, &disarm(alarm)), refused, "another member is full");
    assert_eq!(without("AlarmHolds", || judge(&mut world, &disarm(alarm))), Ok(()));
    full(&mut world, "demo-2", 10, 10);
    world.silence("demo-2");
    assert_eq!(judge(&mut world, &disarm(alarm)), refused, "of one it is not known");
}

#[test]
fn n5_nospace_stays_while_data_may_differ_since_etcd_3_5_lifts_both_refusals_at_once() {
    let mut world = World::running(3);
    let no_space = alarm(&world, "demo-1", AlarmKind::NoSpace);
    world.alarms.insert(no_space);
    world.alarms.insert(alarm(&world, "demo-2", AlarmKind::Corrupt));
    assert_eq!(judge(&mut world, &disarm(no_space)), Err(Unsafe::AlarmHolds(no_space)));
}

#[test]
fn n5_corrupt_is_disarmed_only_when_all_voters_are_seen_to_agree_whomever_it_names() {
    let mut world = World::running(3);
    let own = alarm(&world, "demo-1", AlarmKind::Corrupt);
    world.alarms.insert(own);
    world.wrong.insert(name("demo-0"), 2);
    assert_eq!(judge(&mut world, &disarm(own)), Err(Unsafe::AlarmHolds(own)));
    world.wrong.clear();
    world.alarms.clear();
    world.now = world.now + Span::seconds(30);
    let gone = Alarm { member: MemberId(0xdead), kind: AlarmKind::Corrupt };
    world.alarms.insert(gone);
    assert_eq!(judge(&mut world, &disarm(gone)), Ok(()));
    world.silence("demo-2");
    world.now = world.now + Span::seconds(30);
    assert_eq!(judge(&mut world, &disarm(gone)), Err(Unsafe::AlarmHolds(gone)), "of one it is not known");
}

#[test]
fn l13_corrupt_does_not_wait_for_a_voter_whose_pod_a_dead_node_keeps() {
    let mut world = World::running(3);
    let gone = Alarm { member: MemberId(0xdead), kind: AlarmKind::Corrupt };
    world.alarms.insert(gone);
    world.silence("demo-2");
    // Its node is down, and Kubernetes has taken its Pod away. A majority of all voters agrees.
    let is_kept_by_its_node = |world: &mut World, member: &str| {
        let now = world.now;
        let pod = world.seen.pods.get_mut(&name(member)).expect("a Pod");
        (pod.terminating, pod.stops_by) = (true, Some(now));
        world.now = now + Span::seconds(120);
    };
    is_kept_by_its_node(&mut world, "demo-2");
    assert_eq!(judge(&mut world, &disarm(gone)), Ok(()));
    world.silence("demo-1");
    is_kept_by_its_node(&mut world, "demo-1");
    assert!(judge(&mut world, &disarm(gone)).is_err(), "one of three is no majority");
}

/// All members raised the alarm.
fn all_full(size: usize) -> World {
    let mut world = World::running(size);
    for member in 0..size {
        let member = format!("demo-{member}");
        full(&mut world, &member, 100, 20);
        let alarm = alarm(&world, &member, AlarmKind::NoSpace);
        world.alarms.insert(alarm);
    }
    world
}

fn raise_quota(world: &mut World) {
    (world.seen.desired.pod.revision, world.seen.desired.pod.quota) =
        (PodRevision("larger".into()), Some(2 * QUOTA));
}

/// Makes passes until nothing is to be done. Returns the calls to etcd, and the Pods that were evicted, in order.
fn acts(world: &mut World) -> Vec<String> {
    let mut acts = Vec::new();
    for _ in 0..80 {
        let plan = world.plan();
        acts.extend(plan.effects.iter().filter_map(|effect| match effect {
            Effect::Etcd { call, step, .. } => Some(format!("{step} {call}")),
            Effect::Kube { write: KubeEffect::EvictPod { member, .. }, .. } => {
                Some(format!("evict {member}"))
            }
            Effect::Kube { .. } => None,
        }));
        let next = world.now + Span::seconds(5);
        world.carry_out(plan);
        world.now = next;
        // A Pod that was restarted has what the target says.
        let quota = world.seen.record.target.as_ref().and_then(|target| target.pod.quota);
        for (member, pod) in &mut world.seen.pods {
            if pod.revision == PodRevision("larger".into()) {
                pod.quota = quota;
                if let Some(database) = world.databases.get_mut(member) {
                    database.quota = quota;
                }
            }
        }
    }
    acts
}

fn names(acts: &[String], word: &str) -> Vec<String> {
    let named = acts.iter().filter(|act| act.contains(word));
    named.filter_map(|act| Some(act.rsplit(' ').next()?.to_owned())).collect()
}

#[test]
fn l07_a_larger_quota_is_rolled_out_although_every_member_has_raised_the_alarm() {
    let mut world = all_full(3);
    world.seen.maintenance.no_space_remedy = false;
    raise_quota(&mut world);
    let acts = acts(&mut world);
    assert_eq!(names(&acts, "evict"), ["demo-1", "demo-2", "demo-0"], "{acts:#?}");
    assert!(acts.iter().any(|act| act.starts_with("U4 MoveLeader")), "the leader hands over: {acts:#?}");
    assert!(!acts.iter().any(|act| act.contains("disarm")), "the remedy is off: {acts:#?}");
}

#[test]
fn l07_another_edit_waits_while_members_are_full() {
    let mut world = all_full(3);
    world.seen.maintenance.no_space_remedy = false;
    world.seen.desired.pod.revision = PodRevision("other".into());
    assert_eq!(names(&acts(&mut world), "evict"), Vec::<String>::new());
}

#[test]
fn l07_the_alarms_are_disarmed_once_every_member_has_the_larger_quota() {
    let mut world = all_full(3);
    raise_quota(&mut world);
    let acts = acts(&mut world);
    assert_eq!(names(&acts, "evict"), ["demo-1", "demo-2", "demo-0"], "{acts:#?}");
    assert_eq!(names(&acts, "disarm").len(), 3, "{acts:#?}");
    assert!(names(&acts, "defragment").is_empty(), "the rollout is the remedy: {acts:#?}");
    assert!(world.alarms.is_empty());
}

#[test]
fn u3_a_larger_quota_waits_until_the_volume_has_grown() {
    let mut world = all_full(3);
    raise_quota(&mut world);
    world.seen.desired.storage.bytes = 5 << 30;
    for volume in world.seen.volumes.values_mut() {
        volume.capacity = Some(1 << 30);
    }
    let done = acts(&mut world);
    assert!(names(&done, "evict").is_empty(), "{done:#?}");
    assert!(world.plan().waiting.contains(&Waiting::VolumeGrowing(name("demo-0"))));
    // Also a Pod that is created for another reason keeps the quota that its volume can carry.
    let target = world.seen.record.target.clone().unwrap();
    assert_eq!((target.pod.quota, target.storage.bytes), (Some(QUOTA), 5 << 30));
    assert!(world.seen.volumes.values().all(|volume| volume.bytes == 5 << 30), "they are asked to grow");
    for volume in world.seen.volumes.values_mut() {
        volume.capacity = Some(5 << 30);
    }
    assert_eq!(names(&acts(&mut world), "evict"), ["demo-1", "demo-2", "demo-0"]);
}

#[test]
fn u3_a_larger_quota_that_the_present_volume_carries_waits_for_no_growth() {
    let mut world = all_full(3);
    (world.seen.desired.pod.revision, world.seen.desired.pod.quota) =
        (PodRevision("larger".into()), Some(QUOTA + (10 << 20)));
    world.seen.desired.storage.bytes = 5 << 30;
    for volume in world.seen.volumes.values_mut() {
        volume.capacity = Some(2 << 30);
    }
    assert_eq!(names(&acts(&mut world), "evict"), ["demo-1", "demo-2", "demo-0"]);
}

/// A fourth member is a learner that never gets in sync, and then all voters are full.
fn full_beside_a_learner() -> World {
    let mut world = World::running(3);
    world.resize(4);
    world.silence("demo-3");
    let plan = world.plan_that(|plan| plan.effects.iter().any(|effect| effect.step() == Step::G4));
    world.carry_out(plan);
    for member in ["demo-0", "demo-1", "demo-2"] {
        full(&mut world, member, 100, 20);
        let alarm = alarm(&world, member, AlarmKind::NoSpace);
        world.alarms.insert(alarm);
    }
    world
}

#[test]
fn a_learner_makes_way_at_once_for_the_remedy_of_a_full_database_and_growth_goes_on_after_it() {
    let mut world = full_beside_a_learner();
    let began = world.now;
    let plan = world.plan_that(|plan| plan.effects.iter().any(|effect| effect.step() == Step::N3));
    world.carry_out(plan);
    assert!(world.now - began < Span::seconds(60), "{:?}", world.now - began);
    assert!(world.members.iter().all(|member| !member.is_learner));
    world.settle();
    assert!(world.alarms.is_empty());
    assert_eq!(world.voters(), ["demo-0", "demo-1", "demo-2", "demo-4"]);
    assert_eq!(world.seen.record.failed_learners, None, "it did not fail");
}

#[test]
fn an_alarm_whose_cause_is_gone_is_disarmed_beside_a_learner_which_stays() {
    let mut world = full_beside_a_learner();
    world.unsilence("demo-3");
    world.databases.clear();
    let story = world.settle();
    assert!(world.alarms.is_empty(), "{story}");
    assert_eq!(world.voters(), ["demo-0", "demo-1", "demo-2", "demo-3"], "{story}");
}

#[test]
fn a_learner_makes_way_for_an_edit_that_raises_the_quota_of_full_databases() {
    let mut world = full_beside_a_learner();
    world.seen.maintenance.no_space_remedy = false;
    let plan = world.plan();
    assert!(plan.effects.is_empty(), "nothing cures it yet: {plan:?}");
    raise_quota(&mut world);
    let acts = acts(&mut world);
    assert_eq!(names(&acts, "evict"), ["demo-1", "demo-2", "demo-0"], "{acts:#?}");
}

#[test]
fn s1_a_full_member_is_not_removed_before_others_and_holds_no_scale_in_up() {
    let mut world = World::running(3);
    world.seen.maintenance.no_space_remedy = false;
    full(&mut world, "demo-1", 100, 95);
    let alarm = alarm(&world, "demo-1", AlarmKind::NoSpace);
    world.alarms.insert(alarm);
    world.resize(2);
    world.settle();
    assert_eq!(world.voters(), ["demo-0", "demo-1"]);
}

#[test]
fn n1_to_n5_full_members_are_given_room_one_after_another_the_leader_last() {
    let mut world = all_full(3);
    let mut target = world.seen.record.target.clone().unwrap();
    target.pod.compacts = true;
    world.seen.desired.pod.compacts = true;
    world.seen.record.target = Some(target);
    let acts = acts(&mut world);
    let steps: Vec<&str> = acts.iter().filter_map(|act| act.split(' ').next()).collect();
    assert_eq!(steps, ["N1", "N3", "N3", "N2", "N3", "N5", "N5", "N5"], "{acts:#?}");
    assert_eq!(names(&acts, "defragment"), ["demo-1", "demo-2", "demo-0"]);
    assert!(world.alarms.is_empty() && world.seen.record.defragmenting.is_none());
}

#[test]
fn n1_history_is_compacted_only_where_etcd_does_so_by_itself() {
    let mut world = all_full(3);
    assert!(names(&acts(&mut world), "compact").is_empty());
    let mut world = all_full(3);
    let compact = |world: &World| {
        let revision = world.seen.etcd.answers[&name("demo-0")].reply.as_ref().unwrap().revision;
        Effect::etcd(Step::N1, name("demo-0"), EtcdCall::Compact { revision })
    };
    world.observe();
    let effect = compact(&world);
    assert_eq!(judge(&mut world, &effect), Err(Unsafe::HistoryKept));
    assert_eq!(without("HistoryKept", || judge(&mut world, &effect)), Ok(()));
    world.seen.record.target.as_mut().unwrap().pod.compacts = true;
    assert_eq!(judge(&mut world, &effect), Ok(()));
    world.alarms.clear();
    assert_eq!(judge(&mut world, &effect), Err(Unsafe::HistoryKept), "nothing is full");
}

#[test]
fn n3_a_volume_without_room_for_the_copy_is_left_alone_and_told() {
    let mut world = all_full(3);
    for volume in world.seen.volumes.values_mut() {
        volume.capacity = Some(1 << 30);
    }
    full(&mut world, "demo-1", 100, 20);
    assert!(names(&acts(&mut world), "defragment").is_empty());
    let told =
        |plan: &Plan| plan.waiting.contains(&Waiting::Unsafe(Unsafe::NoRoomToDefragment(name("demo-1"))));
    assert!(told(&world.plan()));
    without("NoRoomToDefragment", || assert!(!names(&acts(&mut world), "defragment").is_empty()));
}

fn waits_for(plan: &Plan, backup: &str) -> bool {
    plan.waiting.contains(&Waiting::Unsafe(Unsafe::BackupRuns(backup.to_owned())))
}

#[test]
fn o08_maintenance_waits_for_a_backup_that_reads_a_snapshot_however_long_it_takes() {
    let mut world = World::running(3);
    world.seen.maintenance.defrag = Some(Threshold { min_free_percent: 50, min_free_bytes: 1, window: None });
    full(&mut world, "demo-0", 60, 20);
    world.seen.running_backups = ["nightly-1".to_owned()].into();
    assert!(acts(&mut world).is_empty(), "also no leadership is moved for that");
    assert!(waits_for(&world.plan(), "nightly-1"));
    world.seen.running_backups.clear();
    assert_eq!(names(&acts(&mut world), "defragment"), ["demo-0"]);
}

#[test]
fn o08_no_plan_may_defragment_a_member_while_a_backup_reads_a_snapshot() {
    let mut world = World::running(3);
    world.seen.running_backups = ["nightly-1".to_owned()].into();
    let judged = |world: &mut World| {
        world.observe();
        world.prove();
        safety::may_begin_defragmentation(world.view(), &name("demo-1"))
    };
    assert_eq!(judged(&mut world), Err(Unsafe::BackupRuns("nightly-1".to_owned())));
    assert_eq!(without("BackupRuns", || judged(&mut world)), Ok(()), "nothing else refuses it");
    world.seen.running_backups.clear();
    assert_eq!(judged(&mut world), Ok(()));
}

#[test]
fn o08_a_full_database_waits_two_minutes_at_most_for_backups_that_follow_one_another() {
    let mut world = all_full(3);
    world.seen.running_backups = ["nightly-1".to_owned()].into();
    let began = world.now;
    while world.now - began < Span::seconds(120) {
        let plan = world.plan();
        let is_first = world.now - began < Span::seconds(60);
        assert!(waits_for(&plan, if is_first { "nightly-1" } else { "nightly-2" }), "{:?}", plan.waiting);
        let next = world.now + Span::seconds(5);
        world.carry_out(plan);
        world.now = next;
        if world.now - began >= Span::seconds(60) {
            world.seen.running_backups = ["nightly-2".to_owned()].into();
        }
    }
    // It never ends, and every member gets room.
    assert_eq!(names(&acts(&mut world), "defragment"), ["demo-1", "demo-2", "demo-0"]);
    assert!(world.alarms.is_empty());
}

#[test]
fn o08_a_defragmentation_whose_reply_is_missing_is_not_asked_for_again_while_a_backup_reads_a_snapshot() {
    let mut world = World::running(3);
    interrupted(&mut world, "demo-1");
    world.seen.running_backups = ["nightly-1".to_owned()].into();
    let plan = world.plan();
    assert!(plan.effects.is_empty() && waits_for(&plan, "nightly-1"), "{:?}", plan.effects);
    without("BackupRuns", || assert_eq!(world.plan().effects.len(), 1, "nothing else refuses it"));
    world.seen.running_backups.clear();
    assert!(world.plan().effects.iter().any(|effect| effect.step() == Step::N3));
}

#[test]
fn o08_a_wait_that_began_in_the_future_or_at_no_known_time_is_over() {
    let mut world = all_full(3);
    world.seen.running_backups = ["nightly-1".to_owned()].into();
    world.observe();
    assert_eq!(world.seen.backup_to_wait_for(world.now), Some("nightly-1"));
    for since in [None, Some(world.now + Span(1))] {
        world.seen.etcd.full_since = since;
        assert_eq!(world.seen.backup_to_wait_for(world.now), None, "{since:?}");
    }
}

/// The record says that a member is being defragmented, and no reply is known.
fn interrupted(world: &mut World, member: &str) {
    world.observe();
    let pod = &world.seen.pods[&name(member)];
    let (pod, restarts) = (pod.uid.clone(), pod.restarts);
    world.seen.record.defragmenting =
        Some(Defragmenting { member: name(member), pod, restarts, since: world.now });
}

#[test]
fn n3_a_member_that_is_silent_since_its_defragmentation_was_ordered_is_excused_and_nothing_else_is_disturbed()
{
    let mut world = World::running(3);
    let evict = |world: &World| {
        let pod = world.seen.pods[&name("demo-2")].uid.clone();
        Effect::kube(Step::U5, KubeEffect::EvictPod { member: name("demo-2"), pod })
    };
    world.seen.budget_policy = quorate_model::snapshot::BudgetPolicy::None;
    let effect = evict(&world);
    assert_eq!(judge(&mut world, &effect), Ok(()));
    interrupted(&mut world, "demo-1");
    world.silence("demo-1");
    world.observe();
    assert!(world.seen.is_healthy(&name("demo-1"), world.now), "its silence is our doing");
    assert_eq!(judge(&mut world, &effect), Err(Unsafe::Defragmenting(name("demo-1"))));
    let lets = without("Defragmenting", || judge(&mut world, &effect));
    assert_eq!(lets, Ok(()), "only this keeps the second member");
    let plan = world.plan();
    assert!(plan.waiting.contains(&Waiting::Defragmenting(name("demo-1"))), "{:?}", plan.waiting);
    world.now = world.now + Span::seconds(901);
    world.observe();
    assert!(!world.seen.is_healthy(&name("demo-1"), world.now), "it does not come back");
}

#[test]
fn t07_a_pod_that_is_not_ready_just_after_its_defragmentation_is_no_fault_to_tell_and_takes_redundancy() {
    let mut world = World::running(3);
    world.seen.budget_policy = quorate_model::snapshot::BudgetPolicy::None;
    let demo = name("demo-1");
    let told = |plan: &Plan| plan.waiting.iter().any(|wait| matches!(wait, Waiting::Sick(..)));
    world.lose_readiness("demo-1", Unready::NoMore);
    assert!(told(&world.plan()), "without a defragmentation it is one");
    let attempt =
        |world: &World, answered| DefragmentAttempt { member: demo.clone(), at: world.now, answered };
    world.defragmentations = vec![attempt(&world, false)];
    assert!(told(&world.plan()), "nobody knows that it is over");
    world.defragmentations = vec![attempt(&world, true)];
    assert!(!told(&world.plan()), "its probe lags behind");
    assert!(!world.seen.is_healthy(&demo, world.now), "no gate excuses it");
    let pod = world.seen.pods[&name("demo-2")].uid.clone();
    let evict = Effect::kube(Step::U5, KubeEffect::EvictPod { member: name("demo-2"), pod });
    assert!(judge(&mut world, &evict).is_err(), "it counts as lost");
    world.now = world.now + Span::seconds(61);
    assert!(told(&world.plan()), "its volume may hang after all");
}

#[test]
fn n3_the_next_operator_asks_again_and_its_reply_answers_for_both() {
    let mut world = all_full(3);
    interrupted(&mut world, "demo-1");
    world.replies = false;
    let plan = world.plan();
    let again = Effect::etcd(Step::N3, name("demo-1"), EtcdCall::Defragment { member: name("demo-1") });
    assert!(plan.effects.contains(&again), "{plan:?}");
    world.carry_out(plan);
    assert!(world.plan().effects.contains(&again), "the reply was lost");
    world.replies = true;
    let plan = world.plan();
    world.carry_out(plan);
    let next = world.plan().record.defragmenting.map(|ordered| ordered.member);
    assert_eq!(next, Some(name("demo-2")), "the next one");
}

#[test]
fn n4_a_process_that_was_restarted_does_not_defragment() {
    let mut world = World::running(3);
    interrupted(&mut world, "demo-1");
    world.seen.pods.get_mut(&name("demo-1")).unwrap().restarts += 1;
    assert_eq!(world.plan().record.defragmenting, None);
}

#[test]
fn an_alarm_of_a_member_that_is_gone_is_disarmed_also_where_the_remedy_is_off() {
    let mut world = World::running(3);
    world.seen.maintenance.no_space_remedy = false;
    world.alarms.insert(Alarm { member: MemberId(0xdead), kind: AlarmKind::NoSpace });
    assert_eq!(names(&acts(&mut world), "disarm"), [MemberId(0xdead).to_string()]);
}

#[test]
fn a_threshold_defragments_in_its_window_one_after_another_the_leader_last() {
    let mut world = World::running(3);
    let window = Some(Window { from: 120, to: 180 });
    world.seen.maintenance.defrag = Some(Threshold { min_free_percent: 50, min_free_bytes: 1 << 20, window });
    for member in ["demo-0", "demo-1", "demo-2"] {
        full(&mut world, member, 60, 20);
    }
    world.now = Instant(1000 * 24 * 3_600_000);
    assert!(acts(&mut world).is_empty(), "midnight is not in the window");
    world.now = Instant((1000 * 24 + 2) * 3_600_000);
    let acts = acts(&mut world);
    assert_eq!(names(&acts, "defragment"), ["demo-1", "demo-2", "demo-0"], "{acts:#?}");
}

#[test]
fn a_threshold_waits_for_every_member() {
    let mut world = World::running(3);
    world.seen.maintenance.defrag = Some(Threshold { min_free_percent: 50, min_free_bytes: 1, window: None });
    full(&mut world, "demo-1", 60, 20);
    world.silence("demo-2");
    assert!(names(&acts(&mut world), "defragment").is_empty());
}

#[test]
fn a_database_that_is_close_to_its_quota_is_looked_at_more_often() {
    let mut world = World::running(3);
    let is_nearly_full = |world: &mut World| {
        world.observe();
        world.seen.is_nearly_full(world.now)
    };
    assert!(!is_nearly_full(&mut world));
    for (percent, close) in [(79, false), (80, true), (100, true)] {
        full(&mut world, "demo-1", percent, 10);
        assert_eq!(is_nearly_full(&mut world), close, "{percent} %");
    }
}
