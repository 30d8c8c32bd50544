//! Random scripts. Left out is what is a race in etcd itself, or depends on fractions of a log that the model keeps shorter
//! than etcd does:
//!
//! - promoting a member that is down and whose progress the leader knows: it is ready if it has 90 % of the leader's entries.
//!   A fixed script has the clear case;
//! - starting with an empty directory beside another empty one, without a leader: the result depends on which peer it asks
//!   first;
//! - restarting a removed member that ended before it had stored anything, or without a leader: the result depends on whether
//!   its own log already contains its peers or its removal;
//! - a change requested of a process that does not serve yet: its port accepts the call, and etcd may carry it out once there is
//!   a leader, long after the client has given up. Such an outcome is unknown;
//! - removing a voter that has just started: the result depends on whether the connection to it exists already. Scripts wait for
//!   the 5 s first; a lasting refusal is the same before and after;
//! - everything after committed entries were lost.

use quorate_model::MemberId;
use quorate_sim::etcd::{Dir, Group};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use super::pair::Pair;
use super::script::{Call, Flags, Id, Place, Step};

/// The number of steps of a script.
const STEPS: usize = 20;

/// The source of every case.
struct Random(ChaCha8Rng);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0.next_u32() as usize % bound.max(1)
    }

    fn one_of<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        of.get(self.below(of.len())).copied()
    }
}

/// Runs the script of a seed; returns the number of its steps.
pub async fn run(seed: u64) -> usize {
    println!("seed {seed}");
    let mut random = Random(ChaCha8Rng::seed_from_u64(seed));
    let mut pair = Pair::bootstrapped(1 + random.below(3)).await;
    for done in 0..STEPS {
        // If no step of a kind is possible, another kind is drawn.
        let drawn = (0..50).find_map(|_| draw(&mut random, &pair));
        let Some(steps) = drawn else { return done };
        for step in steps {
            if let Step::Ask(at, what) = step
                && !matches!(what, Call::List)
                && pair.waits(at)
            {
                continue;
            }
            pair.step(step).await;
            if pair.has_lost() {
                println!("  {}", pair.log().join("\n  "));
                return done;
            }
        }
    }
    println!("  {}", pair.log().join("\n  "));
    STEPS
}

fn draw(random: &mut Random, pair: &Pair) -> Option<Vec<Step>> {
    let (places, _) = pair.places();
    let all: Vec<Place> = (0..places).collect();
    let running: Vec<Place> = all.iter().copied().filter(|at| pair.runs(*at)).collect();
    let known: Vec<Place> = all.iter().copied().filter(|at| pair.id(*at).is_some()).collect();
    // Mostly a member that runs: a call without an answer costs its deadline.
    let at = if random.below(10) == 0 { random.one_of(&known)? } else { random.one_of(&running)? };
    let who = |random: &mut Random| match random.below(8) {
        0 => Some(Id::Unused),
        _ => random.one_of(&known).map(Id::At),
    };
    let one = |step: Step| Some(vec![step]);
    let learner = known.iter().copied().find(|at| is_learner(pair, *at));
    match random.below(20) {
        0..3 if learner.is_some() && random.below(3) > 0 => match learner.filter(|at| !pair.runs(*at)) {
            Some(at) => start(random, pair, &[at]),
            None => one(Step::Ask(at, Call::Promote(Id::At(learner?)))),
        },
        0..3 => {
            let unused: Vec<Place> = all.iter().copied().filter(|at| pair.id(*at).is_none()).collect();
            one(Step::Ask(at, Call::Add(random.one_of(&unused)?)))
        }
        3 => one(Step::Ask(at, Call::Add(random.one_of(&known)?))),
        4..6 => one(Step::AwaitConnections(at)),
        6..9 => {
            let learner = learner.map(Id::At);
            let who = if random.below(3) > 0 { learner.or_else(|| who(random))? } else { who(random)? };
            may_be_judged(pair, who).then(|| vec![Step::Ask(at, Call::Promote(who))])
        }
        9..11 => {
            let who = who(random)?;
            Some(vec![Step::AwaitConnections(at), Step::Ask(at, Call::Remove(who))])
        }
        11 => one(Step::Ask(if random.below(3) > 0 { pair.leader()? } else { at }, Call::Lead(who(random)?))),
        12..14 => one(Step::Ask(at, Call::Write)),
        14 => one(Step::Ask(at, Call::List)),
        15 => one(Step::Stop(random.one_of(&running)?)),
        16 => {
            let down: Vec<Place> =
                known.iter().copied().filter(|at| !pair.runs(*at) && dir(pair, *at).is_some()).collect();
            let at = random.one_of(&down)?;
            Some(vec![Step::Stop(at), Step::Wipe(at)])
        }
        _ => start(random, pair, &known),
    }
}

fn start(random: &mut Random, pair: &Pair, known: &[Place]) -> Option<Vec<Step>> {
    let down: Vec<Place> = known.iter().copied().filter(|at| !pair.runs(*at)).collect();
    let at = random.one_of(&down)?;
    if let Some(dir) = dir(pair, at) {
        let listed = pair.group().is_some_and(|group| group.conf().members.contains_key(&dir.member));
        let knows_peers = dir.stored.len > 0 && pair.leader().is_some();
        return (knows_peers || listed).then(|| vec![Step::Start(at, Flags::Joining)]);
    }
    let beside_empty = (0..pair.places().0)
        .any(|other| pair.runs(other) && dir(pair, other).is_some_and(|dir| dir.stored.len == 0));
    if beside_empty && pair.leader().is_none() {
        return None;
    }
    let (_, bootstrap_members) = pair.places();
    let flags = match random.below(8) {
        0 => Flags::OnePeerMissing,
        1 => Flags::UnknownPeer,
        2 => Flags::WithoutItself,
        3 if at < bootstrap_members => Flags::OtherPeerUrl,
        4..6 if at < bootstrap_members => Flags::Bootstrap,
        _ => Flags::Joining,
    };
    Some(vec![Step::Start(at, flags)])
}

fn is_learner(pair: &Pair, at: Place) -> bool {
    let peer = |group: &Group, id: MemberId| group.conf().members.get(&id).map(|peer| peer.is_learner);
    pair.group().zip(pair.id(at)).and_then(|(group, id)| peer(group, id)) == Some(true)
}

fn may_be_judged(pair: &Pair, who: Id) -> bool {
    let Id::At(at) = who else { return true };
    let heard = pair.group().zip(pair.id(at)).is_some_and(|(group, id)| group.matched(id).is_some());
    pair.runs(at) || !heard
}

fn dir(pair: &Pair, at: Place) -> Option<&Dir> {
    pair.model().dir(&format!("m{at}"))
}
