//! Evictions and budgets: who drains nodes stands in one line with the operator.

use quorate_manifests::Kind;
use quorate_sim::history::{History, ends_well, plain};
use quorate_sim::world::World;
use quorate_sim::world::faults::Fault;
use serde_json::{Value, json};

fn at_rest(size: u32) -> World {
    let mut world = History { spec: plain(size), ..History::default() }.start();
    while world.go().is_some() {}
    world
}

/// The smallest number of Pods that exist and are not being deleted, from now until all is at rest.
fn fewest_pods(world: &mut World) -> usize {
    let live = |world: &World| {
        let pods = world.objects(Kind::Pod);
        pods.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()).count()
    };
    let mut fewest = live(world);
    while world.go().is_some() {
        fewest = fewest.min(live(world));
    }
    world.judge_rest();
    assert_eq!(world.oracle.violation(), None);
    fewest
}

fn strike(world: &mut World, fault: &Fault) {
    assert!(world.strike(fault), "{fault}");
}

fn allowed(world: &World) -> Value {
    world.object(Kind::Budget, "demo").expect("a budget")["status"]["disruptionsAllowed"].clone()
}

#[test]
fn drains_of_all_nodes_at_once_take_one_member_after_the_other() {
    let mut world = at_rest(3);
    assert_eq!(allowed(&world), json!(1));
    let before: Vec<Value> =
        world.objects(Kind::Pod).iter().map(|pod| pod["metadata"]["uid"].clone()).collect();
    for member in ["demo-0", "demo-1", "demo-2"] {
        strike(&mut world, &Fault::Drain(member.to_owned()));
    }
    assert_eq!(fewest_pods(&mut world), 2);
    let after: Vec<Value> =
        world.objects(Kind::Pod).iter().map(|pod| pod["metadata"]["uid"].clone()).collect();
    assert!(before.iter().all(|uid| !after.contains(uid)), "every Pod was evicted: {before:?} {after:?}");
}

#[test]
fn a_drain_waits_while_another_pod_is_terminating() {
    let mut world = at_rest(3);
    strike(&mut world, &Fault::DeletePod("demo-0".to_owned()));
    strike(&mut world, &Fault::Drain("demo-1".to_owned()));
    assert_eq!(fewest_pods(&mut world), 2);
}

#[test]
fn two_budgets_for_one_pod_refuse_every_eviction_and_harm_nothing() {
    let mut world = at_rest(3);
    strike(&mut world, &Fault::SecondBudget);
    strike(&mut world, &Fault::Drain("demo-1".to_owned()));
    assert!(world.go().is_some());
    assert_eq!(world.names(Kind::Pod).len(), 3);
    fewest_pods(&mut world);
}

#[test]
fn a_budget_that_is_not_counted_after_its_change_admits_no_eviction() {
    for at in ["before:K1#4", "after:K1#4", "before:G6"] {
        ends_well(&json!({
            "before": [plain(3)], "spec": plain(4),
            "departures": [
                { "at": at, "what": { "fault": "budgets-behind" } },
                { "at": "+0", "what": { "fault": { "drain": "demo-1" } } },
            ],
        }));
    }
}

/// What `kubectl delete pvc` leaves behind: the claim of demo-0 is being deleted, and its Pod is all that keeps the data.
fn while_a_pod_keeps_data(then: &[(&str, Value)]) -> Value {
    let mut spec = plain(3);
    spec["recovery"] = json!({ "enabled": false });
    let begins = [("rest", json!({ "fault": { "delete-claim": "demo-0" } }))];
    let departures = begins.iter().chain(then).map(|(at, what)| json!({ "at": at, "what": what }));
    json!({ "spec": spec, "departures": departures.collect::<Vec<_>>() })
}

#[test]
fn l15_while_a_pod_keeps_data_a_rollout_evicts_the_others_one_by_one() {
    let rolls =
        ("+0", json!({ "edit": { "podTemplate": { "metadata": { "labels": { "rolled": "yes" } } } } }));
    ends_well(&while_a_pod_keeps_data(std::slice::from_ref(&rolls)));
    let second = ("+0", json!({ "fault": "second-budget" }));
    ends_well(&while_a_pod_keeps_data(&[second, rolls]));
}
