//! Full databases: what the alarm NOSPACE stops and what it does not, the remedy, and defragmentation.

mod world;

use quorate_model::effect::Unsafe;
use quorate_model::snapshot::{Alarm, AlarmKind, Database};
use quorate_model::{Effect, EtcdCall, MemberId, Step};
use quorate_planner::safety::mutants::without;
use quorate_planner::safety::{Scene, permits};
use world::{QUOTA, World, name};

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
    let record = world.seen.record.clone();
    permits(&Scene { seen: &world.seen, record: &record, now: world.now, before: &[] }, effect)
}

fn disarm(Alarm { member, kind }: Alarm) -> Effect {
    Effect::etcd(Step::P1, name("demo-0"), EtcdCall::Disarm { member, kind })
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
fn p7_corrupt_is_disarmed_only_when_its_member_is_gone_and_the_others_are_healthy() {
    let mut world = World::running(3);
    let own = alarm(&world, "demo-1", AlarmKind::Corrupt);
    world.alarms.insert(own);
    assert_eq!(judge(&mut world, &disarm(own)), Err(Unsafe::AlarmHolds(own)));
    let unnamed = Alarm { member: MemberId(0), kind: AlarmKind::Corrupt };
    assert_eq!(judge(&mut world, &disarm(unnamed)), Err(Unsafe::AlarmHolds(unnamed)), "it names nobody");
    world.alarms.clear();
    let gone = Alarm { member: MemberId(0xdead), kind: AlarmKind::Corrupt };
    world.alarms.insert(gone);
    assert_eq!(judge(&mut world, &disarm(gone)), Ok(()));
    world.silence("demo-2");
    assert_eq!(judge(&mut world, &disarm(gone)), Err(Unsafe::VoterUnhealthy(name("demo-2"))));
}
