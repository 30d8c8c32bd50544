//! L1 with the wide faults, each scope with those that belong together: what stays until a person acts, evictions and Pods that take
//! time to stop, requests that arrive at any moment, an EtcdCluster that is restored, volumes that go back, reads that fail, a Kubernetes that goes
//! back.

use quorate_sim::explore::{Explored, Scope, explore};
use quorate_sim::history::History;
use quorate_sim::world::faults::Fault;
use quorate_sim::world::wire::RequestOutcome;
use serde_json::{Value, json};

/// Explores every history with so many of these faults through these sizes, and prints the figures.
#[track_caller]
fn explored(name: &'static str, sizes: &[u32], faults: u32, strikes: fn(&Fault) -> bool) {
    explored_with_edits(name, sizes, Vec::new(), faults, strikes);
}

/// The same, with these edits at any moment or not at all.
#[track_caller]
fn explored_with_edits(
    name: &'static str,
    sizes: &[u32],
    edits: Vec<Value>,
    faults: u32,
    strikes: fn(&Fault) -> bool,
) {
    let History { before, spec, .. } = History::through(sizes);
    let scope = Scope {
        name,
        before,
        spec,
        edits,
        faults,
        strikes,
        wide: true,
        harmless: false,
        max_states: 1_000_000,
    };
    let explored = match explore(&scope) {
        Ok(explored) => explored,
        Err(failure) => panic!("{name}: {}", failure.report()),
    };
    let Explored { states, transitions, depth, ends, .. } = &explored;
    println!(
        "explored {name} {sizes:?} with {faults} faults: states {states} transitions {transitions} depth {depth} ends {ends}"
    );
    assert!(!explored.cut, "{name}: more states than {}", scope.max_states);
}

#[test]
fn what_stays_or_is_lost_on_disk_is_cured_by_what_the_runbook_says() {
    let strikes = |fault: &Fault| match fault {
        // A disk that hangs or is full shows only once something is written: `disks.rs` has these. A slow one shows only when
        // leadership moves: `leadership.rs` has it.
        Fault::Stays(fault) => {
            !matches!(**fault, Fault::HangDisk(_) | Fault::FillDisk(_) | Fault::SlowDisk(_))
        }
        fault => matches!(fault, Fault::LoseVolume(_) | Fault::Wipe(_)),
    };
    for sizes in [&[3][..], &[3, 4], &[3, 2], &[3, 0], &[3, 0, 3]] {
        explored("for good", sizes, 1, strikes);
    }
}

#[test]
fn a_restored_etcd_cluster_serves_its_data_once_they_are_adopted() {
    let strikes = |fault: &Fault| matches!(fault, Fault::Restored(_));
    for sizes in [&[3][..], &[1, 2], &[3, 4], &[3, 2], &[3, 0, 3]] {
        explored("restored", sizes, 1, strikes);
    }
}

#[test]
fn clients_are_sent_to_no_data_that_went_back() {
    let strikes = |fault: &Fault| matches!(fault, Fault::WentBack(_) | Fault::KillPod(_) | Fault::Crash);
    for sizes in [&[1, 0, 1][..], &[3, 0, 3]] {
        explored("went back", sizes, 2, strikes);
    }
}

#[test]
fn reads_of_one_kind_fail_at_any_moment() {
    let strikes = |fault: &Fault| matches!(fault, Fault::ReadsFail(_));
    for sizes in [&[3][..], &[3, 4], &[3, 2], &[3, 0, 3]] {
        explored("reads fail", sizes, 1, strikes);
    }
}

#[test]
fn kubernetes_goes_back_at_any_moment() {
    let strikes = |fault: &Fault| matches!(fault, Fault::StoreGoesBack(_));
    for sizes in [&[3][..], &[1, 2], &[3, 4], &[3, 2], &[3, 0, 3]] {
        explored("store goes back", sizes, 1, strikes);
    }
}

#[test]
fn late_requests_arrive_at_any_moment() {
    let strikes = |fault: &Fault| matches!(fault, Fault::Request(RequestOutcome::Late) | Fault::Arrives);
    for sizes in [&[3][..], &[1, 2], &[3, 4], &[3, 2], &[3, 0, 3]] {
        explored("late at any moment", sizes, 2, strikes);
    }
}

#[test]
fn addresses_are_used_again() {
    let strikes = |fault: &Fault| matches!(fault, Fault::OthersTakeAddress(_));
    for sizes in [&[3, 4][..], &[3, 2]] {
        explored("addresses", sizes, 1, strikes);
    }
}

/// S2: whoever deletes or evicts a Pod, drains and the operator stand in one line, also while Pods take time to stop.
#[test]
fn s02_a_rollout_a_drain_and_a_person_who_deletes_a_pod_leave_a_quorum() {
    let strikes = |fault: &Fault| {
        matches!(
            fault,
            Fault::DeletePod(_)
                | Fault::Lingers(_)
                | Fault::Drain(_)
                | Fault::SecondBudget
                | Fault::BudgetsBehind
        )
    };
    let label = json!({ "podTemplate": { "metadata": { "labels": { "a": "b" } } } });
    explored_with_edits("disruptions of a rollout", &[3, 3], vec![label], 2, strikes);
    explored("disruptions", &[3, 2], 2, strikes);
}
