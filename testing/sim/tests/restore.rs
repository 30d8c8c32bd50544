//! A cluster that begins with a snapshot: every member has its keys, and only those, whatever happens on the way.

use quorate_sim::explore::{Scope, explore};
use quorate_sim::history::{Departure, History, Moment, What, ends_well, plain, sound_story};
use quorate_sim::world::faults::{Fault, Hits};
use quorate_sim::world::restore::{restored, restored_by_name};
use quorate_sim::world::rogue::RogueEffect;
use serde_json::{Value, json};

/// A history of a restore of this many members, with departures as pairs of a moment and what happens then.
fn restore(size: u32, departures: Value) -> Value {
    let departures: Vec<(Value, Value)> = serde_json::from_value(departures).expect("pairs");
    let departures: Vec<Value> =
        departures.into_iter().map(|(at, what)| json!({ "at": at, "what": what })).collect();
    json!({ "spec": restored(plain(size)), "departures": departures })
}

fn of(fault: &str, member: &str) -> Value {
    json!({ "fault": { fault: member } })
}

#[test]
fn three_members_begin_with_a_snapshot_and_the_alarm_of_a_member_that_is_gone_is_disarmed() {
    for spec in [restored(plain(3)), restored_by_name(plain(3))] {
        let mut world = History { spec, ..History::default() }.start();
        while world.go().is_some() {}
        world.judge_rest();
        assert_eq!(world.oracle.violation(), None);
        let cluster = world.record().cluster_id.expect("it is bootstrapped");
        let group = world.etcd.group(cluster).expect("it exists");
        let snap = group.began_with().expect("it was restored");
        assert!(!snap.alarms.is_empty() && group.tip().alarms.is_empty(), "a write is refused otherwise");
        // Ten thousand for each second from 2020 to the first moment of the World.
        assert_eq!(snap.revision, 1_893_888_000_000, "revisions are raised");
        assert!(group.writes().count() > 0, "clients write");
        assert_eq!(group.conf().voters().count(), 3);
    }
}

#[test]
fn o02_the_etcdbackup_of_a_restore_is_created_though_it_is_refused_first_or_the_operator_dies() {
    let refuse = json!({ "fault": { "refuse": ["EtcdBackup", ""] } });
    ends_well(&restore(3, json!([["before:B1#1", refuse]])));
    ends_well(&restore(3, json!([["before:B1#1", { "fault": "crash" }]])));
}

#[test]
fn a_member_that_cannot_restore_is_waited_for_and_restores_later() {
    ends_well(&restore(1, json!([["after:B4", of("no-store", "demo-0")]])));
    ends_well(&restore(3, json!([["after:B4", of("no-store", "demo-1")]])));
}

#[test]
fn a_volume_that_is_emptied_after_its_restore_ends_the_attempt_or_costs_the_member_and_never_begins_empty() {
    for at in ["after:B4#3", "after:BR#3", "after:B6", "after:B7"] {
        sound_story(&restore(3, json!([[at, of("wipe", "demo-1")]])));
        sound_story(&restore(1, json!([[at, of("wipe", "demo-0")]])));
    }
}

#[test]
fn a_pod_that_is_gone_or_a_process_that_dies_between_restore_and_record_ends_well() {
    for at in ["after:B4#3", "after:BR#1", "after:BR#3", "after:B6"] {
        ends_well(&restore(3, json!([[at, of("kill-pod", "demo-1")]])));
    }
    sound_story(&restore(
        3,
        json!([["after:BR#2", of("slow", "demo-2")], ["after:B6", of("kill-pod", "demo-2")]]),
    ));
}

#[test]
fn an_edit_of_the_size_while_it_restores_begins_anew_with_the_same_snapshot() {
    ends_well(&restore(3, json!([["after:B4", { "edit": { "size": 1 } }]])));
}

#[test]
fn o02_what_a_cluster_begins_with_is_edited_until_it_begins_and_no_later() {
    let restore = restored(plain(3))["bootstrap"].clone();
    for (at, counts) in [("before:B1#1", true), ("after:B1#1", false), ("after:B4#1", false)] {
        let edit = json!({ "at": at, "what": { "edit": { "bootstrap": restore } } });
        let story = sound_story(&json!({ "spec": plain(3), "departures": [edit] }));
        assert_eq!(story.all_came_about(), counts, "{at}: {story}");
    }
}

#[test]
fn r1_a_planner_that_would_start_a_member_with_nothing_harms_no_restore() {
    let start_new = || What::Fault(Fault::Rogue(RogueEffect::StartNew("demo-1".to_owned())));
    let at = |moment| {
        let kill = What::Fault(Fault::KillPod("demo-1".to_owned()));
        let lose = What::Fault(Fault::Wipe("demo-1".to_owned()));
        let then = [lose, kill, start_new()].map(|what| Departure { at: Moment::Step(moment), what });
        History { spec: restored(plain(3)), departures: then.to_vec(), ..History::default() }
    };
    for moment in 0..40 {
        let story = at(moment).story();
        assert_eq!(story.violation(), None, "{story}");
    }
}

fn explored(name: &'static str, size: u32, faults: u32, strikes: fn(&Fault) -> bool) {
    explored_with(name, (restored(plain(size)), Vec::new()), faults, strikes);
}

fn explored_with(
    name: &'static str,
    (spec, edits): (Value, Vec<Value>),
    faults: u32,
    strikes: fn(&Fault) -> bool,
) {
    let scope = Scope {
        name,
        before: Vec::new(),
        spec,
        edits,
        faults,
        strikes,
        wide: false,
        harmless: false,
        max_states: 3_000_000,
    };
    match explore(&scope) {
        Ok(explored) => {
            println!("explored {name} with {faults} faults: states {}", explored.states);
            assert!(!explored.cut, "{name}: more states than {}", scope.max_states);
        }
        Err(failure) => panic!("{name}: {}", failure.report()),
    }
}

#[test]
fn every_history_of_a_restore_of_one_with_a_fault() {
    explored("restore of 1", 1, 1, |_| true);
}

/// Somebody names the snapshot, or takes it out, at any moment before the cluster begins.
#[test]
fn every_history_of_a_restore_of_one_that_is_named_late_or_taken_out_with_a_fault() {
    let restore = restored(plain(1))["bootstrap"].clone();
    let named = (plain(1), vec![json!({ "bootstrap": restore })]);
    explored_with("a restore of 1 that is named late", named, 1, |_| true);
    let taken_out = (restored(plain(1)), vec![json!({ "bootstrap": null })]);
    explored_with("a restore of 1 that is taken out", taken_out, 1, |_| true);
}

#[test]
fn every_history_of_a_restore_of_three_with_a_fault_but_an_emptied_volume() {
    // A volume that is emptied, with the directory in which its Pod remembers that, just before B6: see docs/protocols/restore.md.
    explored("restore of 3", 3, 1, |fault| !matches!(fault, Fault::Wipe(_)));
}

/// What meets a restore: the operator dies, a Pod or its process dies, a volume is lost or emptied, a store is out of reach.
#[test]
fn every_history_of_a_restore_of_one_with_two_faults() {
    explored("restore of 1", 1, 2, |fault| {
        fault.entry().hits == Hits::Operator
            || matches!(
                fault,
                Fault::KillPod(_)
                    | Fault::KillProcess(_)
                    | Fault::Wipe(_)
                    | Fault::LoseVolume(_)
                    | Fault::NoStore(_)
            )
    });
}
