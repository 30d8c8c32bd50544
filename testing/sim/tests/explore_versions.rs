//! L1: every history of an upgrade, of one that is taken back half way, and of etcd's downgrade, with a fault, and with the edit that
//! takes it back at any moment or not at all.

use quorate_sim::explore::{Scope, explore};
use quorate_sim::history::plain;
use quorate_sim::world::faults::Fault;
use serde_json::{Value, json};

const KEY: &str = "operator.etcd.io/allow-downgrade";

fn with_version(size: u32, version: &str) -> Value {
    let mut spec = plain(size);
    spec["version"] = json!(version);
    spec
}

fn order(version: &str) -> Value {
    json!({ "version": version, "metadata": { "annotations": { KEY: version } } })
}

#[track_caller]
fn explored(name: &'static str, before: Value, spec: Value, edits: Vec<Value>, faults: u32) {
    let scope = Scope {
        name,
        before: vec![before],
        spec,
        edits,
        faults,
        strikes: |fault: &Fault| !matches!(fault, Fault::Rogue(_)),
        wide: false,
        harmless: false,
        max_states: 3_000_000,
    };
    match explore(&scope) {
        Ok(explored) => {
            let (states, ends) = (explored.states, explored.ends);
            println!("explored {name} with {faults} faults: states {states} ends {ends}");
            assert!(!explored.cut, "{name}: more states than {}", scope.max_states);
        }
        Err(failure) => panic!("{name}: {}", failure.report()),
    }
}

#[test]
fn a_minor_upgrade_with_a_fault_that_is_taken_back_at_any_moment() {
    let (old, new) = (with_version(2, "3.6.16"), with_version(2, "3.7.3"));
    explored("3.6 to 3.7, edited back", old, new, vec![json!({ "version": "3.6.16" })], 1);
}

#[test]
fn a_downgrade_with_a_fault() {
    let (new, down) = (with_version(2, "3.7.3"), order("3.6.16"));
    explored("3.7 to 3.6", new, down, Vec::new(), 1);
}

#[test]
fn a_downgrade_that_is_withdrawn_at_any_moment() {
    let (new, down) = (with_version(3, "3.7.3"), order("3.6.16"));
    let withdrawn = json!({ "version": "3.7.3", "metadata": { "annotations": { KEY: null } } });
    explored("3.7 to 3.6, withdrawn", new.clone(), down.clone(), vec![withdrawn], 0);
    let without_the_order = json!({ "metadata": { "annotations": { KEY: null } } });
    explored("3.7 to 3.6, the annotation removed", new, down, vec![without_the_order], 0);
}

#[test]
fn a_change_of_size_and_version_at_once_and_one_after_the_other_with_a_fault() {
    let old = with_version(1, "3.6.16");
    explored(
        "3.6 to 3.7 and 1 to 2",
        old,
        json!({ "version": "3.7.3", "size": 2 }),
        vec![json!({ "size": 1 })],
        1,
    );
}
