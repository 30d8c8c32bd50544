//! L1: every history of small scopes with two faults of any kind, and in some scopes an edit at any moment or not at all. From
//! every reachable state, once faults end, the goal is reached, and then nothing more is written.

use std::collections::BTreeSet;

use quorate_model::Step;
use quorate_sim::explore::{Explored, Scope, explore};
use quorate_sim::history::{History, plain};
use quorate_sim::world::faults::{Fault, Hits};
use quorate_sim::world::wire::RequestOutcome;

/// A scope through these sizes: each is brought to rest, and the way to the last one is explored.
fn scope(name: &'static str, sizes: &[u32]) -> Scope {
    let History { before, spec, .. } = History::through(sizes);
    Scope {
        name,
        before,
        spec,
        edits: Vec::new(),
        faults: 2,
        strikes: any,
        wide: false,
        harmless: false,
        max_states: 3_000_000,
    }
}

fn any(_: &Fault) -> bool {
    true
}

/// Faults of the operator itself: it dies, its requests and replies are lost, late or doubled, its views are old.
fn of_the_operator(fault: &Fault) -> bool {
    fault.entry().hits == Hits::Operator
}

/// Those of them after which nothing is created a second time. A late request may create an object that was deleted. A learner
/// is rolled back when its volume is not observed, or its Pod is not observed for long.
fn harmless(fault: &Fault) -> bool {
    of_the_operator(fault)
        && match fault {
            Fault::Request(outcome) => *outcome != RequestOutcome::Late,
            Fault::Stale(kind, _) => kind != "PersistentVolumeClaim",
            other => !matches!(other, Fault::Paused | Fault::TimeTravel(..)),
        }
}

/// Explores a scope completely, and prints the figures.
#[track_caller]
fn explored(scope: &Scope) -> Explored {
    let explored = match explore(scope) {
        Ok(explored) => explored,
        Err(failure) => panic!("{}: {}", scope.name, failure.report()),
    };
    let Explored { states, transitions, depth, ends, .. } = &explored;
    println!(
        "explored {} with {} faults: states {states} transitions {transitions} depth {depth} ends {ends}",
        scope.name, scope.faults
    );
    assert!(!explored.cut, "{}: more states than {}", scope.name, scope.max_states);
    explored
}

#[track_caller]
fn with_a_fault_or_two_of_the_operators_own([any, own]: [&'static str; 2], sizes: &[u32]) {
    explored(&Scope { faults: 1, ..scope(any, sizes) });
    explored(&Scope { strikes: of_the_operator, ..scope(own, sizes) });
}

#[test]
fn bootstrap_of_one_with_a_fault_and_an_edit() {
    explored(&Scope { edits: vec![plain(2)], faults: 1, ..scope("bootstrap 1, edited to 2", &[1]) });
}

#[test]
fn bootstrap_of_three_with_a_fault_and_an_edit_to_zero() {
    explored(&Scope { edits: vec![plain(0)], faults: 1, ..scope("bootstrap 3, edited to 0", &[3]) });
}

/// The widest scopes, which `cargo xtask test --full` runs.
mod full {
    use super::*;

    #[test]
    fn bootstrap_of_one_with_two_faults_and_an_edit() {
        explored(&Scope { edits: vec![plain(2)], ..scope("bootstrap 1, edited to 2", &[1]) });
    }

    #[test]
    fn bootstrap_of_three_with_two_faults_and_an_edit() {
        explored(&Scope { edits: vec![plain(0)], ..scope("bootstrap 3, edited to 0", &[3]) });
    }

    #[test]
    fn growth_from_three_to_four_with_two_faults() {
        explored(&scope("3 to 4", &[3, 4]));
    }

    #[test]
    fn shrinking_from_three_to_two_with_two_faults() {
        explored(&scope("3 to 2", &[3, 2]));
    }

    #[test]
    fn growth_from_one_to_two_with_two_faults() {
        explored(&scope("1 to 2", &[1, 2]));
    }

    #[test]
    fn waking_from_hibernation_with_two_faults() {
        explored(&scope("0 to 3", &[3, 0, 3]));
    }
}

#[test]
fn bootstrap_of_three_with_a_fault_and_an_edit() {
    explored(&Scope { edits: vec![plain(1)], faults: 1, ..scope("bootstrap 3, edited to 1", &[3]) });
}

#[test]
fn bootstrap_of_three_with_an_edit_and_two_crashes_lost_or_late_replies_or_old_views() {
    let strikes = |fault: &Fault| {
        matches!(
            fault,
            Fault::Crash
                | Fault::Request(RequestOutcome::ReplyLost | RequestOutcome::Late)
                | Fault::Stale(..)
        )
    };
    let edits = vec![plain(1)];
    explored(&Scope { edits, strikes, ..scope("bootstrap 3, edited to 1, the operator's own", &[3]) });
}

#[test]
fn growth_from_one_to_two_with_a_fault_or_two_of_the_operators_own() {
    with_a_fault_or_two_of_the_operators_own(["1 to 2", "1 to 2, the operator's own"], &[1, 2]);
}

#[test]
fn growth_from_three_to_four_with_two_faults_of_the_operators_own() {
    explored(&Scope { strikes: of_the_operator, ..scope("3 to 4, the operator's own", &[3, 4]) });
}

#[test]
fn growth_from_three_to_four_with_a_fault_and_an_edit() {
    explored(&Scope { edits: vec![plain(3)], faults: 1, ..scope("3 to 4, edited to 3", &[3, 4]) });
}

#[test]
fn shrinking_from_three_to_two_with_a_fault_or_two_of_the_operators_own() {
    with_a_fault_or_two_of_the_operators_own(["3 to 2", "3 to 2, the operator's own"], &[3, 2]);
}

#[test]
fn hibernation_with_two_faults() {
    explored(&scope("3 to 0", &[3, 0]));
}

#[test]
fn waking_from_hibernation_with_a_fault_or_two_of_the_operators_own() {
    with_a_fault_or_two_of_the_operators_own(["0 to 3", "0 to 3, the operator's own"], &[3, 0, 3]);
}

/// Bootstrap is left out: an attempt is abandoned when a volume is not observed, and a bootstrap member whose Pod did not run
/// before the others formed a quorum is replaced. Both are correct.
#[test]
fn harmless_faults_of_the_operator_do_not_change_the_end_and_cause_no_more_writes() {
    for sizes in [&[1, 2][..], &[3, 4], &[3, 2], &[3, 0], &[3, 0, 3]] {
        explored(&Scope { strikes: harmless, harmless: true, ..scope("to the same end", sizes) });
    }
}

#[test]
fn every_step_of_growth_shrinking_and_hibernation_meets_every_request_outcome() {
    let outcomes = ["done", "reply lost", "lost", "late", "twice", "raced"];
    let mut covered = BTreeSet::new();
    for sizes in [&[3][..], &[1, 2], &[3, 2], &[3, 0], &[3, 0, 3]] {
        let one = Scope { faults: 1, strikes: of_the_operator, ..scope("each step", sizes) };
        covered.extend(explored(&one).covered);
    }
    // The steps that send something in these scopes. The others only observe (B5, B8, G5, U6), or belong to deletion, adoption,
    // abandoned attempts, rollouts and repair, which random histories cover.
    let steps = [
        Step::B1,
        Step::B2,
        Step::B3,
        Step::B4,
        Step::BR,
        Step::B6,
        Step::B7,
        Step::G1,
        Step::G2,
        Step::G3,
        Step::G4,
        Step::G6,
        Step::S1,
        Step::S3,
        Step::S4,
        Step::S5,
        Step::Z1,
        Step::Z2,
        Step::W1,
        Step::K1,
        Step::K2,
        Step::T1,
    ];
    for step in steps {
        for outcome in outcomes {
            let of_etcd = matches!(step, Step::G3 | Step::G6 | Step::S3) && outcome == "raced";
            assert!(
                of_etcd || covered.contains(&(step, outcome)),
                "{step} never met {outcome:?}: {covered:?}"
            );
        }
    }
}
