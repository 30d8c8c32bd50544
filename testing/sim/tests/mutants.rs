//! Every safety check is needed: a planner that proposes anything at any time violates a property without it, and none with
//! all checks in place.
//!
//! - this file: checks, by random histories and by events that are staged after every step
//! - `named`: rules, by one history each

mod named;

use quorate_planner::safety::mutants::{CHECKS, RULES, without};
use quorate_sim::campaign::{Campaign, FuzzConfig};
use quorate_sim::history::{Departure, Failure, History, Moment, What};
use quorate_sim::oracle::Property;
use quorate_sim::world::faults::Fault;
use quorate_sim::world::rogue::RogueEffect;
use quorate_sim::world::wire::RequestOutcome;

const ROGUE: FuzzConfig = FuzzConfig { every: 4, faults: 12, edits: 2, rogue_planner: true, wide: false };

/// Random histories. None of them violates a property with all checks in place, so a violation shows that a check is missing.
const HISTORIES: u64 = 400;

/// Checks that these histories show to be needed. The others need a sequence of events that is too rare for so few random
/// histories: [`staged`] has it.
const SHOWN_AT_RANDOM: [&str; 3] = ["NotSeen", "VoterUnhealthy", "WouldLoseQuorum"];

/// R13, R14 and R18 are rules of the asynchronous operator: `crates/operator/tests` shows that they are needed.
const OF_THE_OPERATOR: [&str; 3] = ["R13", "R14", "R18"];

/// R16, and what the budget refuses as well since Pods are evicted: `crates/planner/tests/evictions.rs` and `rules.rs` show that
/// they are needed.
const OF_EVICTIONS: [&str; 4] = ["NotThatMember", "SecondDisruption", "MustEvict", "BudgetOpen"];

/// The canary sees a hung disk later than a proof does, and a learner's Pod is not ready: `crates/planner/tests/health.rs` shows
/// that both are needed.
const OF_HEALTH: [&str; 2] = ["R15 canary", "R15 learner"];

/// `crates/planner/tests/certificates.rs` shows that the checks of certificates are needed.
const OF_CERTIFICATES: [&str; 2] = ["AnotherAuthority", "AuthorityKept"];

/// Only a rotation of an authority has them: `testing/sim/tests/rotate.rs` and `crates/planner/tests/rotate.rs` show that they are needed.
const OF_ROTATION: [&str; 9] = [
    "NotReached",
    "NotTold",
    "R19 told",
    "NotTrusted",
    "EarlierPresented",
    "BundleNotWritten",
    "OtherBundle",
    "PodsExist",
    "R19 bundle",
];

/// Only auth has them: `testing/sim/tests/auth.rs` and `crates/planner/tests/auth.rs` show that they are needed.
const OF_AUTH: [&str; 9] = [
    "NoClientGrace",
    "ClientsHaveTime",
    "AuthNotOrdered",
    "NoRootUser",
    "RootNotNew",
    "OthersAreRoot",
    "NotAnOrphan",
    "LacksCredential",
    "TenantsNeedAuth",
];

/// Only a spec that names an authority has them: `crates/planner/tests/given.rs`, `issued.rs` and `issuance.rs`, and `issued.rs` here, show that they are needed.
const OF_SOURCES: [&str; 5] = ["OtherSource", "TenantsNeedKey", "verified", "NotAsked", "NotIssuedForThis"];

/// What the budget, which is closed only in the next pass, refuses as well; and a verdict that stays while
/// its kubelet reports no more; and a restart in memory that nobody replaces. `crates/planner/tests/rules.rs`, `replace.rs` and
/// `losses.rs` show that they are needed.
const OF_REPLACEMENT: [&str; 4] = ["NotLost", "LacksSuccessor", "NotReplaced", "P second look"];
/// `crates/planner/tests/corruption.rs` shows that these are needed.
const OF_CORRUPTION: [&str; 4] = ["P majority", "P one version", "P second comparison", "P agrees"];
/// `crates/planner/tests/versions.rs` shows that these are needed. What an older binary would meet too early is refused before, too.
const OF_VERSIONS: [&str; 2] = ["DataTooNew", "NoDowngrade"];
/// `crates/planner/tests/space.rs` shows that they are needed: the model has no sizes of volumes and no backups, and defragments at once.
const OF_SPACE: [&str; 3] = ["Defragmenting", "NoRoomToDefragment", "BackupRuns"];

/// Only a cluster that begins with a snapshot has them: `crates/planner/tests/restore.rs` shows that they are needed.
const OF_RESTORE: [&str; 2] = ["MustRestore", "RestoresAgain"];

/// Only an order to restore in place has them: `crates/planner/tests/in_place.rs` shows that they are needed.
const OF_INCARNATIONS: [&str; 4] = ["OldMemberRuns", "NotOrdered", "NotQuarantined", "BeingReplaced"];

/// Only an order to recover the quorum has them: `crates/planner/tests/recover.rs` shows that they are needed.
const OF_RECOVERY: [&str; 3] = ["QuorumAnswers", "DataInMemory", "NotRead"];

/// `crates/planner/tests/clients.rs` shows that it is needed: the members that are left are no quorum of what serves, and may be one.
const OF_CLIENTS: [&str; 1] = ["LastThatServes"];

/// `crates/planner/tests/claims.rs` shows that it is needed: reads of the World do not fail.
const OF_CLAIMS: [&str; 1] = ["ClaimNotRead"];

/// How many steps of a history a sequence of events is tried after.
const MOMENTS: usize = 60;

/// A sequence of events that violates a property without one check, and none with it.
struct Staged {
    check: &'static str,
    violates: Property,
    sizes: &'static [u32],
    first: Option<What>,
    /// What happens all at once, after any step.
    then: Vec<What>,
}

#[test]
fn with_all_safety_checks_a_rogue_planner_violates_no_property() {
    let mut campaign = Campaign::default();
    for seed in 0..HISTORIES {
        if let Err(failure) = campaign.run(seed, ROGUE) {
            panic!("seed {seed}: {}", failure.report());
        }
    }
    println!("rogue planner: {}", campaign.figures());
}

#[test]
fn without_one_of_these_safety_checks_a_random_history_violates_a_property() {
    let mut unneeded = Vec::new();
    for check in SHOWN_AT_RANDOM {
        let found = without(check, || (0..HISTORIES).find_map(|seed| Some((seed, broken(seed)?))));
        match found {
            Some((seed, broken)) => println!("without {check}: history {seed} violates {}", broken.violation),
            None => unneeded.push(check),
        }
    }
    assert!(unneeded.is_empty(), "no history shows that these are needed: {unneeded:?}");
}

#[test]
fn without_one_of_the_other_safety_checks_a_staged_history_violates_its_property() {
    for staged in staged() {
        let Staged { check, violates, .. } = &staged;
        for moment in 0..MOMENTS {
            let story = staged.at(moment).story();
            assert_eq!(story.violation(), None, "with {check}, at {moment}:\n{story}");
        }
        let found = without(check, || {
            (0..MOMENTS).find_map(|moment| Some((moment, staged.at(moment).story().violation()?.clone())))
        });
        let Some((moment, violation)) = found else { panic!("no moment shows that {check} is needed") };
        println!("without {check}: after {moment} steps: {violation}");
        assert_eq!(violation.property, *violates, "without {check}");
    }
}

#[test]
fn every_safety_check_and_rule_is_shown_to_be_needed() {
    let staged: Vec<&str> = staged().iter().map(|staged| staged.check).collect();
    let named: Vec<&str> = named::all().iter().map(|named| named.rule).collect();
    let shown = |check: &&str| {
        let elsewhere = OF_THE_OPERATOR.contains(check)
            || OF_EVICTIONS.contains(check)
            || OF_HEALTH.contains(check)
            || OF_CERTIFICATES.contains(check)
            || OF_ROTATION.contains(check)
            || OF_AUTH.contains(check)
            || OF_SOURCES.contains(check)
            || OF_REPLACEMENT.contains(check)
            || OF_CORRUPTION.contains(check)
            || OF_VERSIONS.contains(check)
            || OF_SPACE.contains(check)
            || OF_RESTORE.contains(check)
            || OF_INCARNATIONS.contains(check)
            || OF_RECOVERY.contains(check)
            || OF_CLIENTS.contains(check)
            || OF_CLAIMS.contains(check)
            || crate::fleet::PLANTED.iter().any(|(planted, _)| planted == check);
        SHOWN_AT_RANDOM.contains(check) || staged.contains(check) || named.contains(check) || elsewhere
    };
    let left: Vec<&str> = CHECKS.iter().chain(RULES).copied().filter(|check| !shown(check)).collect();
    assert!(left.is_empty(), "no test shows that these are needed: {left:?}");
}

fn staged() -> Vec<Staged> {
    let fault = What::Fault;
    let rogue = |rogue: RogueEffect| What::Fault(Fault::Rogue(rogue));
    let one = || "demo-1".to_owned();
    let at = |check, violates, sizes, first, then| Staged { check, violates, sizes, first, then };
    vec![
        // R5: a learner is added beside a learner.
        at("ChangeOutstanding", Property::OneChangeAtATime, &[3, 4], None, vec![rogue(RogueEffect::Add)]),
        // R1: a Pod that is gone is created again as that of a new member.
        at(
            "NotABootstrapMember",
            Property::NoNewAfterClusterId,
            &[3, 3],
            None,
            vec![fault(Fault::KillPod(one())), rogue(RogueEffect::StartNew(one()))],
        ),
        // R3: a member is started while the cluster hibernates.
        at(
            "NotRecorded",
            Property::IntentBeforeEffect,
            &[3, 0],
            None,
            vec![rogue(RogueEffect::Resume(one()))],
        ),
        // R2: a lost volume is created again, and the member started on it.
        at(
            "NotItsVolume",
            Property::NamesAreUsedOnce,
            &[3, 3],
            None,
            vec![
                fault(Fault::LoseVolume(one())),
                rogue(RogueEffect::CreateVolume(one())),
                rogue(RogueEffect::Resume(one())),
            ],
        ),
        // R9: membership changes on an old list.
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
        // R10: a cluster is deleted whose retention policy keeps the data.
        at(
            "DataKept",
            Property::DataOutliveMembers,
            &[1, 1],
            Some(What::Delete),
            vec![rogue(RogueEffect::DeleteKept("demo-0".to_owned()))],
        ),
        // R21: somebody deletes the claim of a member while the cluster goes to size zero, and its Pod is stopped all the same: by the next
        // pass, since a request fails in this one.
        at(
            "ClaimTerminating",
            Property::NoActEndsData,
            &[3, 0],
            None,
            vec![fault(Fault::DeleteClaim("demo-0".to_owned())), fault(Fault::Request(RequestOutcome::Lost))],
        ),
        // R17: the volume of a member that somebody removed is deleted at once.
        at(
            "DataKept",
            Property::DataOutliveMembers,
            &[3, 3],
            Some(fault(Fault::RemovedByHand(one()))),
            vec![rogue(RogueEffect::DeleteKept(one()))],
        ),
        // R11: membership changes in a cluster that is being deleted.
        at("NoQuorum", Property::QuorumStays, &[3, 3], Some(What::Delete), vec![rogue(RogueEffect::Add)]),
        // R12: one member answers for another cluster, and a lost Pod is created again.
        at(
            "SplitBrain",
            Property::SplitBrainStopsAll,
            &[3, 3],
            None,
            vec![
                fault(Fault::KillPod("demo-2".to_owned())),
                fault(Fault::Swap(one())),
                rogue(RogueEffect::Resume("demo-2".to_owned())),
            ],
        ),
        // N5: the alarm of a member whose database is full is disarmed.
        at(
            "AlarmHolds",
            Property::AlarmsHold,
            &[3, 3],
            None,
            vec![fault(Fault::Alarm(one())), rogue(RogueEffect::Disarm(one()))],
        ),
        // N1: history is compacted that clients compact themselves.
        at(
            "HistoryKept",
            Property::HistoryIsKept,
            &[3, 3],
            None,
            vec![fault(Fault::Alarm(one())), rogue(RogueEffect::Compact)],
        ),
        // R4: the observed size is taken for the desired size.
        at("R4", Property::GoalIsReached, &[3, 4], None, Vec::new()),
        // R8: a lost write of status is taken for a success.
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
