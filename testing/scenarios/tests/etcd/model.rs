//! Compares the simulation's model of etcd with real etcd processes of the version under test: their replies, their member
//! lists, which processes end, and which acknowledged writes can be read.
//!
//! A difference is a fault of the model (`quorate_sim::etcd`), never of etcd. Random scripts: `QUORATE_TEST_SEED` is the first
//! seed, `QUORATE_TEST_SEQUENCES` the number of scripts in each of the two tests.

mod pair;
mod random;
mod script;

use quorate_model::Refusal;
use quorate_sim::etcd::State;

use pair::Pair;
use script::{Call, Flags, Id, Outcome, Place, Step};

fn refused(refusal: Refusal) -> Outcome {
    Outcome::Refused(refusal)
}

fn ended_with(pair: &Pair, at: Place, words: &str) {
    let process = pair.model().process(&format!("m{at}")).expect("it was started");
    assert!(matches!(&process.state, State::Ended(last) if last.contains(words)), "{process:?}");
}

/// Adds a learner, starts it, and promotes it.
async fn grow(pair: &mut Pair, at: Place, new: Place) {
    pair.step(Step::AwaitConnections(at)).await;
    pair.expect(at, Call::Add(new), Outcome::Done).await;
    pair.step(Step::Start(new, Flags::Joining)).await;
    pair.expect(at, Call::Promote(Id::At(new)), Outcome::Done).await;
}

#[tokio::test]
async fn a_removed_member_that_starts_again_ends() {
    let mut pair = Pair::bootstrapped(3).await;
    pair.expect(0, Call::Write, Outcome::Done).await;
    pair.step(Step::Stop(2)).await;
    pair.expect(0, Call::Remove(Id::At(2)), Outcome::Done).await;
    pair.expect(1, Call::Remove(Id::At(2)), refused(Refusal::MemberNotFound)).await;
    pair.step(Step::Start(2, Flags::Joining)).await;
    ended_with(&pair, 2, "permanently removed");
    // It does not start with an empty directory either.
    pair.step(Step::Stop(2)).await;
    pair.step(Step::Wipe(2)).await;
    pair.step(Step::Start(2, Flags::Joining)).await;
    ended_with(&pair, 2, "unequal");
    pair.step(Step::Start(2, Flags::Bootstrap)).await;
    ended_with(&pair, 2, "permanently removed");
}

#[tokio::test]
async fn an_emptied_member_neither_bootstraps_nor_resumes_while_the_leader_remembers_it() {
    let mut pair = Pair::bootstrapped(3).await;
    pair.expect(0, Call::Write, Outcome::Done).await;
    let leader = pair.leader().expect("a leader");
    let (emptied, other) = ((leader + 1) % 3, (leader + 2) % 3);
    pair.step(Step::Stop(emptied)).await;
    pair.step(Step::Wipe(emptied)).await;
    pair.step(Step::Start(emptied, Flags::Bootstrap)).await;
    ended_with(&pair, emptied, "already been bootstrapped");
    pair.step(Step::Start(emptied, Flags::Joining)).await;
    ended_with(&pair, emptied, "tocommit");
    // Another leader has no progress recorded for it, and sends it everything. This is dangerous: it may have voted before it
    // was emptied.
    pair.expect(leader, Call::Lead(Id::At(other)), Outcome::Done).await;
    pair.step(Step::Start(emptied, Flags::Joining)).await;
    pair.expect(emptied, Call::Write, Outcome::Done).await;
}

#[tokio::test]
async fn one_learner_at_a_time_is_accepted_and_promoted_once_it_has_caught_up() {
    let mut pair = Pair::bootstrapped(1).await;
    // A single voter has no connections to wait for.
    pair.expect(0, Call::Add(1), Outcome::Done).await;
    pair.expect(0, Call::Add(1), refused(Refusal::PeerUrlExists)).await;
    pair.expect(0, Call::Add(2), refused(Refusal::TooManyLearners)).await;
    pair.expect(0, Call::Promote(Id::At(1)), refused(Refusal::LearnerNotReady)).await;
    pair.expect(0, Call::Promote(Id::At(0)), refused(Refusal::MemberNotLearner)).await;
    pair.expect(0, Call::Promote(Id::Unused), refused(Refusal::MemberNotFound)).await;
    pair.expect(0, Call::Remove(Id::Unused), refused(Refusal::MemberNotFound)).await;
    pair.expect(0, Call::Remove(Id::At(0)), refused(Refusal::NotEnoughStartedMembers)).await;
    pair.expect(0, Call::Lead(Id::At(1)), refused(Refusal::BadLeaderTransferee)).await;
    pair.step(Step::Start(1, Flags::Joining)).await;
    for what in [Call::List, Call::Write, Call::Add(2), Call::Remove(Id::At(0)), Call::Lead(Id::At(0))] {
        pair.expect(1, what, refused(Refusal::NotSupportedForLearner)).await;
    }
    pair.expect(0, Call::Promote(Id::At(1)), Outcome::Done).await;
    // Two voters need both.
    pair.expect(0, Call::Add(2), refused(Refusal::UnhealthyCluster)).await;
    pair.expect(1, Call::Lead(Id::At(0)), refused(Refusal::NotLeader)).await;
    pair.expect(0, Call::Lead(Id::At(1)), Outcome::Done).await;
    pair.step(Step::Stop(1)).await;
    pair.expect(0, Call::Write, Outcome::Unknown).await;
    pair.expect(0, Call::Remove(Id::At(1)), Outcome::Unknown).await;
    pair.expect(0, Call::Add(2), refused(Refusal::UnhealthyCluster)).await;
    pair.expect(0, Call::Remove(Id::At(0)), refused(Refusal::UnhealthyCluster)).await;
}

#[tokio::test]
async fn a_learner_that_caught_up_and_died_can_be_promoted() {
    let mut pair = Pair::bootstrapped(1).await;
    pair.expect(0, Call::Write, Outcome::Done).await;
    pair.expect(0, Call::Add(1), Outcome::Done).await;
    pair.step(Step::Start(1, Flags::Joining)).await;
    pair.step(Step::Stop(1)).await;
    // The only voter commits the promotion. From then on a quorum needs the dead member.
    pair.expect(0, Call::Promote(Id::At(1)), Outcome::Done).await;
    pair.expect(0, Call::Write, Outcome::Unknown).await;
}

#[tokio::test]
async fn a_learner_does_not_notice_that_its_leader_is_gone() {
    let mut pair = Pair::bootstrapped(1).await;
    pair.expect(0, Call::Add(1), Outcome::Done).await;
    pair.step(Step::Start(1, Flags::Joining)).await;
    pair.step(Step::Stop(0)).await;
    let status = pair.model().status("m1").expect("it answers");
    assert!(
        status.is_learner && status.leader == pair.id(0),
        "the model keeps the leader, as etcd does: {status:?}"
    );
}

#[tokio::test]
async fn members_are_added_once_connections_are_five_seconds_old_and_no_healthy_voter_is_removed_while_one_is_down()
 {
    let mut pair = Pair::bootstrapped(3).await;
    pair.expect(0, Call::Add(3), refused(Refusal::UnhealthyCluster)).await;
    pair.step(Step::AwaitConnections(0)).await;
    pair.expect(0, Call::Add(3), Outcome::Done).await;
    pair.expect(1, Call::Remove(Id::At(3)), Outcome::Done).await;
    pair.step(Step::Stop(2)).await;
    for who in [0, 1] {
        pair.expect(0, Call::Remove(Id::At(who)), refused(Refusal::UnhealthyCluster)).await;
    }
    pair.expect(0, Call::Add(4), refused(Refusal::UnhealthyCluster)).await;
    pair.expect(0, Call::Remove(Id::At(2)), Outcome::Done).await;
    pair.expect(1, Call::Add(4), Outcome::Done).await;
}

#[tokio::test]
async fn of_four_voters_one_may_be_down_when_a_learner_is_added() {
    let mut pair = Pair::bootstrapped(4).await;
    pair.step(Step::AwaitConnections(0)).await;
    pair.step(Step::Stop(3)).await;
    pair.expect(0, Call::Add(4), Outcome::Done).await;
    // Two of the remaining three.
    pair.expect(0, Call::Remove(Id::At(1)), Outcome::Done).await;
    pair.expect(0, Call::Remove(Id::At(2)), refused(Refusal::UnhealthyCluster)).await;
}

#[tokio::test]
async fn a_member_started_with_a_wrong_initial_cluster_ends() {
    let mut pair = Pair::bootstrapped(1).await;
    pair.expect(0, Call::Add(1), Outcome::Done).await;
    for (flags, words) in [
        (Flags::OnePeerMissing, "could not retrieve"),
        (Flags::UnknownPeer, "could not retrieve"),
        (Flags::WithoutItself, "couldn't find local name"),
        (Flags::Bootstrap, "couldn't find local name"),
        (Flags::OtherPeerUrl, "with other URLs"),
    ] {
        pair.step(Step::Start(1, flags)).await;
        ended_with(&pair, 1, words);
    }
    pair.step(Step::Start(1, Flags::Joining)).await;
    pair.expect(0, Call::Promote(Id::At(1)), Outcome::Done).await;
    pair.step(Step::AwaitConnections(0)).await;
    pair.expect(0, Call::Add(2), Outcome::Done).await;
    for (flags, words) in [(Flags::OnePeerMissing, "unequal"), (Flags::UnknownPeer, "unmatched")] {
        pair.step(Step::Start(2, flags)).await;
        ended_with(&pair, 2, words);
    }
}

#[tokio::test]
async fn writes_are_lost_when_a_majority_of_the_members_that_stored_them_is_emptied() {
    let mut pair = Pair::bootstrapped(3).await;
    pair.expect(0, Call::Write, Outcome::Done).await;
    pair.step(Step::Stop(2)).await;
    pair.expect(0, Call::Write, Outcome::Done).await;
    pair.step(Step::Stop(0)).await;
    pair.step(Step::Stop(1)).await;
    pair.step(Step::Wipe(1)).await;
    pair.step(Step::Start(2, Flags::Joining)).await;
    pair.expect(2, Call::List, Outcome::Unknown).await;
    pair.step(Step::Start(1, Flags::Joining)).await;
    assert!(pair.has_lost() && pair.group().is_some_and(|group| group.lost() == [2]));
}

#[tokio::test]
async fn a_removed_leader_hands_over_and_ends_and_the_rest_goes_on() {
    let mut pair = Pair::bootstrapped(1).await;
    grow(&mut pair, 0, 1).await;
    grow(&mut pair, 0, 2).await;
    pair.step(Step::AwaitConnections(0)).await;
    let leader = pair.leader().expect("a leader");
    pair.expect(leader, Call::Remove(Id::At(leader)), Outcome::Done).await;
    ended_with(&pair, leader, "permanently removed");
    pair.expect((leader + 1) % 3, Call::Write, Outcome::Done).await;
}

/// The seeds of one of the two random tests.
fn seeds(test: u64) -> impl Iterator<Item = u64> {
    let number = |name: &str, otherwise: u64| {
        let given = std::env::var(name).ok();
        given.map_or(otherwise, |text| {
            text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number"))
        })
    };
    let first = number("QUORATE_TEST_SEED", 1);
    (0..number("QUORATE_TEST_SEQUENCES", 8)).map(move |turn| first + 2 * turn + test)
}

#[tokio::test]
async fn random_scripts_have_the_same_outcome_on_both_sides() {
    for seed in seeds(0) {
        println!("{} steps", random::run(seed).await);
    }
}

#[tokio::test]
async fn more_random_scripts_have_the_same_outcome_on_both_sides() {
    for seed in seeds(1) {
        println!("{} steps", random::run(seed).await);
    }
}
