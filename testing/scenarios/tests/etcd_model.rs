//! The model of etcd that the simulation rests on, held beside real etcd processes of the version under test: what both
//! reply, whom they list, which processes end, and which acknowledged writes can be read.
//!
//! A script that tells the two apart is a fault of the model (`quorate_sim::etcd`), never of etcd. Scripts by lot:
//! `QUORATE_TEST_SEED` is where to begin, `QUORATE_TEST_SEQUENCES` how many of them each of the two tests runs.

#[path = "etcd_model/lot.rs"]
mod lot;
#[path = "etcd_model/pair.rs"]
mod pair;
#[path = "etcd_model/script.rs"]
mod script;

use quorate_sim::etcd::{Refusal, State};

use pair::Pair;
use script::{Flags, Outcome, Place, Step, What, Who};

fn refused(refusal: Refusal) -> Outcome {
    Outcome::Refused(refusal)
}

fn ended_with(pair: &Pair, at: Place, words: &str) {
    let process = pair.model().process(&format!("m{at}")).expect("it was started");
    assert!(matches!(&process.state, State::Ended(last) if last.contains(words)), "{process:?}");
}

/// Adds a learner, starts it, and promotes it.
async fn grow(pair: &mut Pair, at: Place, new: Place) {
    pair.step(Step::Ripen(at)).await;
    pair.ask_for(at, What::Add(new), Outcome::Done).await;
    pair.step(Step::Start(new, Flags::Joining)).await;
    pair.ask_for(at, What::Promote(Who::At(new)), Outcome::Done).await;
}

#[tokio::test]
async fn a_removed_member_that_starts_again_ends() {
    let mut pair = Pair::founded(3).await;
    pair.ask_for(0, What::Write, Outcome::Done).await;
    pair.step(Step::Stop(2)).await;
    pair.ask_for(0, What::Remove(Who::At(2)), Outcome::Done).await;
    pair.ask_for(1, What::Remove(Who::At(2)), refused(Refusal::MemberNotFound)).await;
    pair.step(Step::Start(2, Flags::Joining)).await;
    ended_with(&pair, 2, "permanently removed");
    // Nor does it come back with an empty directory.
    pair.step(Step::Stop(2)).await;
    pair.step(Step::Wipe(2)).await;
    pair.step(Step::Start(2, Flags::Joining)).await;
    ended_with(&pair, 2, "unequal");
    pair.step(Step::Start(2, Flags::Founding)).await;
    ended_with(&pair, 2, "permanently removed");
}

#[tokio::test]
async fn a_member_that_was_emptied_neither_founds_anew_nor_resumes_while_the_leader_remembers_it() {
    let mut pair = Pair::founded(3).await;
    pair.ask_for(0, What::Write, Outcome::Done).await;
    let leader = pair.leader().expect("a leader");
    let (emptied, other) = ((leader + 1) % 3, (leader + 2) % 3);
    pair.step(Step::Stop(emptied)).await;
    pair.step(Step::Wipe(emptied)).await;
    pair.step(Step::Start(emptied, Flags::Founding)).await;
    ended_with(&pair, emptied, "already been bootstrapped");
    pair.step(Step::Start(emptied, Flags::Joining)).await;
    ended_with(&pair, emptied, "tocommit");
    // Another leader has never heard of it, and gives it everything. That it once forgot is what makes this dangerous.
    pair.ask_for(leader, What::Lead(Who::At(other)), Outcome::Done).await;
    pair.step(Step::Start(emptied, Flags::Joining)).await;
    pair.ask_for(emptied, What::Write, Outcome::Done).await;
}

#[tokio::test]
async fn one_learner_at_a_time_that_is_promoted_once_it_has_caught_up_and_by_nobody_before() {
    let mut pair = Pair::founded(1).await;
    // One voter needs no connections: there is nothing to wait for.
    pair.ask_for(0, What::Add(1), Outcome::Done).await;
    pair.ask_for(0, What::Add(1), refused(Refusal::PeerUrlExists)).await;
    pair.ask_for(0, What::Add(2), refused(Refusal::TooManyLearners)).await;
    pair.ask_for(0, What::Promote(Who::At(1)), refused(Refusal::LearnerNotReady)).await;
    pair.ask_for(0, What::Promote(Who::At(0)), refused(Refusal::MemberNotLearner)).await;
    pair.ask_for(0, What::Promote(Who::Nobody), refused(Refusal::MemberNotFound)).await;
    pair.ask_for(0, What::Remove(Who::Nobody), refused(Refusal::MemberNotFound)).await;
    pair.ask_for(0, What::Remove(Who::At(0)), refused(Refusal::NotEnoughStartedMembers)).await;
    pair.ask_for(0, What::Lead(Who::At(1)), refused(Refusal::BadLeaderTransferee)).await;
    pair.step(Step::Start(1, Flags::Joining)).await;
    for what in [What::List, What::Write, What::Add(2), What::Remove(Who::At(0)), What::Lead(Who::At(0))] {
        pair.ask_for(1, what, refused(Refusal::NotSupportedForLearner)).await;
    }
    pair.ask_for(0, What::Promote(Who::At(1)), Outcome::Done).await;
    // Two voters need both.
    pair.ask_for(0, What::Add(2), refused(Refusal::UnhealthyCluster)).await;
    pair.ask_for(1, What::Lead(Who::At(0)), refused(Refusal::NotLeader)).await;
    pair.ask_for(0, What::Lead(Who::At(1)), Outcome::Done).await;
    pair.step(Step::Stop(1)).await;
    pair.ask_for(0, What::Write, Outcome::Unknown).await;
    pair.ask_for(0, What::Remove(Who::At(1)), Outcome::Unknown).await;
    pair.ask_for(0, What::Add(2), refused(Refusal::UnhealthyCluster)).await;
    pair.ask_for(0, What::Remove(Who::At(0)), refused(Refusal::UnhealthyCluster)).await;
}

#[tokio::test]
async fn a_learner_that_caught_up_and_died_is_promoted_all_the_same() {
    let mut pair = Pair::founded(1).await;
    pair.ask_for(0, What::Write, Outcome::Done).await;
    pair.ask_for(0, What::Add(1), Outcome::Done).await;
    pair.step(Step::Start(1, Flags::Joining)).await;
    pair.step(Step::Stop(1)).await;
    // The change is agreed upon by the voter before it, who then waits for the dead one.
    pair.ask_for(0, What::Promote(Who::At(1)), Outcome::Done).await;
    pair.ask_for(0, What::Write, Outcome::Unknown).await;
}

#[tokio::test]
async fn a_learner_does_not_notice_that_its_leader_is_gone() {
    let mut pair = Pair::founded(1).await;
    pair.ask_for(0, What::Add(1), Outcome::Done).await;
    pair.step(Step::Start(1, Flags::Joining)).await;
    pair.step(Step::Stop(0)).await;
    let status = pair.model().status("m1").expect("it answers");
    assert!(status.is_learner && status.leader == pair.id(0), "as etcd, and the model with it: {status:?}");
}

#[tokio::test]
async fn members_are_added_when_connections_are_five_seconds_old_and_healthy_voters_of_three_are_kept_while_one_is_down()
 {
    let mut pair = Pair::founded(3).await;
    pair.ask_for(0, What::Add(3), refused(Refusal::UnhealthyCluster)).await;
    pair.step(Step::Ripen(0)).await;
    pair.ask_for(0, What::Add(3), Outcome::Done).await;
    pair.ask_for(1, What::Remove(Who::At(3)), Outcome::Done).await;
    pair.step(Step::Stop(2)).await;
    for who in [0, 1] {
        pair.ask_for(0, What::Remove(Who::At(who)), refused(Refusal::UnhealthyCluster)).await;
    }
    pair.ask_for(0, What::Add(4), refused(Refusal::UnhealthyCluster)).await;
    pair.ask_for(0, What::Remove(Who::At(2)), Outcome::Done).await;
    pair.ask_for(1, What::Add(4), Outcome::Done).await;
}

#[tokio::test]
async fn of_four_voters_one_may_be_down_when_a_learner_is_added() {
    let mut pair = Pair::founded(4).await;
    pair.step(Step::Ripen(0)).await;
    pair.step(Step::Stop(3)).await;
    pair.ask_for(0, What::Add(4), Outcome::Done).await;
    // Two of the three that are left.
    pair.ask_for(0, What::Remove(Who::At(1)), Outcome::Done).await;
    pair.ask_for(0, What::Remove(Who::At(2)), refused(Refusal::UnhealthyCluster)).await;
}

#[tokio::test]
async fn a_member_started_with_a_wrong_initial_cluster_ends() {
    let mut pair = Pair::founded(1).await;
    pair.ask_for(0, What::Add(1), Outcome::Done).await;
    for (flags, words) in [
        (Flags::OneShort, "could not retrieve"),
        (Flags::Stranger, "could not retrieve"),
        (Flags::WithoutItself, "couldn't find local name"),
        (Flags::Founding, "couldn't find local name"),
        (Flags::Elsewhere, "with other URLs"),
    ] {
        pair.step(Step::Start(1, flags)).await;
        ended_with(&pair, 1, words);
    }
    pair.step(Step::Start(1, Flags::Joining)).await;
    pair.ask_for(0, What::Promote(Who::At(1)), Outcome::Done).await;
    pair.step(Step::Ripen(0)).await;
    pair.ask_for(0, What::Add(2), Outcome::Done).await;
    for (flags, words) in [(Flags::OneShort, "unequal"), (Flags::Stranger, "unmatched")] {
        pair.step(Step::Start(2, flags)).await;
        ended_with(&pair, 2, words);
    }
}

#[tokio::test]
async fn writes_are_lost_when_a_majority_of_those_that_held_them_forgets() {
    let mut pair = Pair::founded(3).await;
    pair.ask_for(0, What::Write, Outcome::Done).await;
    pair.step(Step::Stop(2)).await;
    pair.ask_for(0, What::Write, Outcome::Done).await;
    pair.step(Step::Stop(0)).await;
    pair.step(Step::Stop(1)).await;
    pair.step(Step::Wipe(1)).await;
    pair.step(Step::Start(2, Flags::Joining)).await;
    pair.ask_for(2, What::List, Outcome::Unknown).await;
    pair.step(Step::Start(1, Flags::Joining)).await;
    assert!(pair.has_lost() && pair.group().is_some_and(|group| group.lost() == [2]));
}

#[tokio::test]
async fn a_removed_leader_hands_over_and_ends_and_the_rest_goes_on() {
    let mut pair = Pair::founded(1).await;
    grow(&mut pair, 0, 1).await;
    grow(&mut pair, 0, 2).await;
    pair.step(Step::Ripen(0)).await;
    let leader = pair.leader().expect("a leader");
    pair.ask_for(leader, What::Remove(Who::At(leader)), Outcome::Done).await;
    ended_with(&pair, leader, "permanently removed");
    pair.ask_for((leader + 1) % 3, What::Write, Outcome::Done).await;
}

/// The seeds of one of the two tests by lot.
fn seeds(test: u64) -> impl Iterator<Item = u64> {
    let number = |name: &str, otherwise: u64| {
        let given = std::env::var(name).ok();
        given.map_or(otherwise, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
    };
    let first = number("QUORATE_TEST_SEED", 1);
    (0..number("QUORATE_TEST_SEQUENCES", 8)).map(move |turn| first + 2 * turn + test)
}

#[tokio::test]
async fn scripts_by_lot_go_the_same_way_on_both_sides() {
    for seed in seeds(0) {
        println!("{} steps", lot::run(seed).await);
    }
}

#[tokio::test]
async fn more_scripts_by_lot_go_the_same_way_on_both_sides() {
    for seed in seeds(1) {
        println!("{} steps", lot::run(seed).await);
    }
}
