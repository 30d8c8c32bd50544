//! What every safety check is for: with it taken away, and a planner that proposes anything at any time, something that
//! must never happen does happen; with all of them in place it does not.

use quorate_planner::safety::mutants::{CHECKS, RULES, without};
use quorate_sim::campaign::{Campaign, FuzzConfig};
use quorate_sim::history::{Departure, Failure, History, Moment, What};
use quorate_sim::oracle::Property;
use quorate_sim::world::faults::Fault;
use quorate_sim::world::rogue::RogueEffect;
use quorate_sim::world::wire::RequestOutcome;

const ROGUE: FuzzConfig = FuzzConfig { every: 4, faults: 12, edits: 2, rogue_planner: true };

/// Histories in which all checks stand: they come to no harm, so what breaks one of them is the lack of a check.
const HISTORIES: u64 = 400;

/// Checks whose lack these histories show. That of the others needs a chain of mishaps that is too long to be met by lot in
/// so few: [`staged`] has it.
const BY_LOT: [&str; 6] = [
    "NotSeen",
    "ChangeOutstanding",
    "SecondDisruption",
    "VoterUnhealthy",
    "NotThatMember",
    "WouldLoseQuorum",
];

/// R13 and R14 are the operator's own: `crates/operator/tests` shows what they are for.
const OF_THE_OPERATOR: [&str; 2] = ["R13", "R14"];

/// For how many steps of its history a chain of mishaps is tried.
const MOMENTS: usize = 60;

/// A chain of mishaps that one check alone keeps from doing harm.
struct Staged {
    check: &'static str,
    violates: Property,
    sizes: &'static [u32],
    first: Option<What>,
    /// What happens all at once, at any moment.
    then: Vec<What>,
}

#[test]
fn whatever_a_planner_gone_wrong_proposes_safety_keeps_quorum_and_data() {
    let mut campaign = Campaign::default();
    for seed in 0..HISTORIES {
        if let Err(failure) = campaign.run(seed, ROGUE) {
            panic!("seed {seed}: {}", failure.report());
        }
    }
    println!("rogue planner: {}", campaign.figures());
}

#[test]
fn without_one_of_these_safety_checks_a_violation_is_found() {
    let mut unnoticed = Vec::new();
    for check in BY_LOT {
        let found = without(check, || (0..HISTORIES).find_map(|seed| Some((seed, broken(seed)?))));
        match found {
            Some((seed, broken)) => println!("without {check}: history {seed} violates {}", broken.violation),
            None => unnoticed.push(check),
        }
    }
    assert!(unnoticed.is_empty(), "nothing notices that these are gone: {unnoticed:?}");
}

#[test]
fn without_one_of_the_others_a_chain_of_mishaps_does_harm_that_it_does_not_do_with_it() {
    for staged in staged() {
        let Staged { check, violates, .. } = &staged;
        for moment in 0..MOMENTS {
            let story = staged.at(moment).story();
            assert_eq!(story.violation(), None, "with {check}, at {moment}:\n{story}");
        }
        let found = without(check, || {
            (0..MOMENTS).find_map(|moment| Some((moment, staged.at(moment).story().violation()?.clone())))
        });
        let Some((moment, violation)) = found else { panic!("nothing notices that {check} is gone") };
        println!("without {check}: after {moment} steps: {violation}");
        assert_eq!(violation.property, *violates, "without {check}");
    }
}

#[test]
fn no_check_and_no_rule_is_left_out() {
    let staged: Vec<&str> = staged().iter().map(|staged| staged.check).collect();
    let shown =
        |check: &&str| BY_LOT.contains(check) || staged.contains(check) || OF_THE_OPERATOR.contains(check);
    let left: Vec<&str> = CHECKS.into_iter().chain(RULES).filter(|check| !shown(check)).collect();
    assert!(left.is_empty(), "nothing shows what these are for: {left:?}");
}

fn staged() -> Vec<Staged> {
    let fault = What::Fault;
    let rogue = |rogue: RogueEffect| What::Fault(Fault::Rogue(rogue));
    let one = || "demo-1".to_owned();
    let at = |check, violates, sizes, first, then| Staged { check, violates, sizes, first, then };
    vec![
        // R1: a Pod that is gone is made again as that of a new member.
        at(
            "NotABootstrapMember",
            Property::NoNewAfterLatch,
            &[3, 3],
            None,
            vec![fault(Fault::KillPod(one())), rogue(RogueEffect::StartNew(one()))],
        ),
        // R3: a member is started while the cluster sleeps.
        at(
            "NotRecorded",
            Property::IntentBeforeEffect,
            &[3, 0],
            None,
            vec![rogue(RogueEffect::Resume(one()))],
        ),
        // R2: a lost volume is made again, and the member started on it.
        at(
            "NotItsVolume",
            Property::NamesAreUsedOnce,
            &[3, 3],
            None,
            vec![
                fault(Fault::LoseVolume(one())),
                rogue(RogueEffect::MakeVolume(one())),
                rogue(RogueEffect::Resume(one())),
            ],
        ),
        // R9: membership changes on a list of long ago.
        at(
            "NoFreshList",
            Property::ListsAreFresh,
            &[3],
            None,
            vec![fault(Fault::OldList), rogue(RogueEffect::Add)],
        ),
        // R10: the volume of a member whose Pod is gone is deleted while etcd counts it.
        at(
            "StillListed",
            Property::DataOutliveMembers,
            &[3, 3],
            None,
            vec![fault(Fault::KillPod(one())), rogue(RogueEffect::DeleteVolume(one()))],
        ),
        // R10: the volume of a removed member is deleted under its Pod.
        at(
            "PodNotGone",
            Property::DataOutliveMembers,
            &[3, 2],
            None,
            vec![rogue(RogueEffect::DeleteVolume("demo-2".to_owned()))],
        ),
        // R10: a cluster is deleted that is to leave its data behind.
        at(
            "DataKept",
            Property::DataOutliveMembers,
            &[1, 1],
            Some(What::Delete),
            vec![rogue(RogueEffect::DeleteKept("demo-0".to_owned()))],
        ),
        // R11: membership changes in a cluster that is being deleted.
        at("NoQuorum", Property::QuorumStays, &[3, 3], Some(What::Delete), vec![rogue(RogueEffect::Add)]),
        // R12: one member answers for another cluster, and something is done.
        at(
            "SplitBrain",
            Property::SplitBrainStopsAll,
            &[3, 3],
            None,
            vec![fault(Fault::Swap(one())), rogue(RogueEffect::DeletePod(one()))],
        ),
        // R4: what runs is taken for what is desired.
        at("R4", Property::GoalIsReached, &[3, 4], None, Vec::new()),
        // R8: a status whose write was lost is taken for written.
        at("R8", Property::IntentBeforeEffect, &[1], None, vec![fault(Fault::Request(RequestOutcome::Lost))]),
    ]
}

impl Staged {
    fn at(&self, moment: usize) -> History {
        let first = self.first.iter().map(|what| Departure { at: Moment::Step(0), what: what.clone() });
        let then = self.then.iter().map(|what| Departure { at: Moment::Step(moment), what: what.clone() });
        History { departures: first.chain(then).collect(), ..History::through(self.sizes) }
    }
}

fn broken(seed: u64) -> Option<Box<Failure>> {
    Campaign::default().run(seed, ROGUE).err()
}
