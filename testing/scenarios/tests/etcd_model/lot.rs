//! Scripts by lot. Left out is what in etcd itself is a race, or is decided by fractions of a log that the model keeps
//! shorter than etcd does:
//!
//! - the promotion of a member that is down and that this leader has heard of: ready or not by whether it holds 90 % of the
//!   leader's entries. A fixed script has the clear case;
//! - starting with an empty directory beside another one that is still empty, without a leader: whom it asks first decides
//!   what it learns;
//! - starting a removed member again that ended before it had stored anything, or beside nobody who leads: whether its own
//!   log already tells it whom to ask, or that it was removed;
//! - a change, asked of a process that does not serve yet: its port takes the call and lets it wait, and etcd may do it once
//!   it has met a leader, long after the client has given up. Such an outcome is unknown indeed;
//! - removing a voter that has just started: whether the asked member's own connection to it stands already. Scripts wait
//!   for the 5 s first; those who are refused for good are refused before and after;
//! - everything after committed entries were lost.

use quorate_model::MemberId;
use quorate_sim::etcd::{Dir, Group};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use crate::pair::Pair;
use crate::script::{Flags, Place, Step, What, Who};

/// How many steps a script has.
const STEPS: usize = 20;

/// The source of every choice.
struct Dice(ChaCha8Rng);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0.next_u32() as usize % bound.max(1)
    }

    fn one_of<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        of.get(self.below(of.len())).copied()
    }
}

/// Runs the script of a seed; how many steps it had.
pub async fn run(seed: u64) -> usize {
    println!("seed {seed}");
    let mut dice = Dice(ChaCha8Rng::seed_from_u64(seed));
    let mut pair = Pair::founded(1 + dice.below(3)).await;
    for done in 0..STEPS {
        // Rarely nothing of a kind can be done: then another kind is drawn.
        let drawn = (0..50).find_map(|_| draw(&mut dice, &pair));
        let Some(steps) = drawn else { return done };
        for step in steps {
            if let Step::Ask(at, what) = step
                && !matches!(what, What::List)
                && pair.waits(at)
            {
                continue;
            }
            pair.step(step).await;
            if pair.has_lost() {
                println!("  {}", pair.told().join("\n  "));
                return done;
            }
        }
    }
    println!("  {}", pair.told().join("\n  "));
    STEPS
}

fn draw(dice: &mut Dice, pair: &Pair) -> Option<Vec<Step>> {
    let (places, _) = pair.places();
    let all: Vec<Place> = (0..places).collect();
    let running: Vec<Place> = all.iter().copied().filter(|at| pair.runs(*at)).collect();
    let known: Vec<Place> = all.iter().copied().filter(|at| pair.id(*at).is_some()).collect();
    // Mostly one that runs: a call that nobody answers costs its deadline.
    let at = if dice.below(10) == 0 { dice.one_of(&known)? } else { dice.one_of(&running)? };
    let who = |dice: &mut Dice| match dice.below(8) {
        0 => Some(Who::Nobody),
        _ => dice.one_of(&known).map(Who::At),
    };
    let one = |step: Step| Some(vec![step]);
    let learner = known.iter().copied().find(|at| is_learner(pair, *at));
    match dice.below(20) {
        0..3 if learner.is_some() && dice.below(3) > 0 => match learner.filter(|at| !pair.runs(*at)) {
            Some(at) => start(dice, pair, &[at]),
            None => one(Step::Ask(at, What::Promote(Who::At(learner?)))),
        },
        0..3 => {
            let unused: Vec<Place> = all.iter().copied().filter(|at| pair.id(*at).is_none()).collect();
            one(Step::Ask(at, What::Add(dice.one_of(&unused)?)))
        }
        3 => one(Step::Ask(at, What::Add(dice.one_of(&known)?))),
        4..6 => one(Step::Ripen(at)),
        6..9 => {
            let learner = learner.map(Who::At);
            let who = if dice.below(3) > 0 { learner.or_else(|| who(dice))? } else { who(dice)? };
            may_be_judged(pair, who).then(|| vec![Step::Ask(at, What::Promote(who))])
        }
        9..11 => {
            let who = who(dice)?;
            Some(vec![Step::Ripen(at), Step::Ask(at, What::Remove(who))])
        }
        11 => one(Step::Ask(if dice.below(3) > 0 { pair.leader()? } else { at }, What::Lead(who(dice)?))),
        12..14 => one(Step::Ask(at, What::Write)),
        14 => one(Step::Ask(at, What::List)),
        15 => one(Step::Stop(dice.one_of(&running)?)),
        16 => {
            let down: Vec<Place> =
                known.iter().copied().filter(|at| !pair.runs(*at) && dir(pair, *at).is_some()).collect();
            let at = dice.one_of(&down)?;
            Some(vec![Step::Stop(at), Step::Wipe(at)])
        }
        _ => start(dice, pair, &known),
    }
}

fn start(dice: &mut Dice, pair: &Pair, known: &[Place]) -> Option<Vec<Step>> {
    let down: Vec<Place> = known.iter().copied().filter(|at| !pair.runs(*at)).collect();
    let at = dice.one_of(&down)?;
    if let Some(dir) = dir(pair, at) {
        let listed = pair.group().is_some_and(|group| group.conf().members.contains_key(&dir.member));
        let told = dir.len > 0 && pair.leader().is_some();
        return (told || listed).then(|| vec![Step::Start(at, Flags::Joining)]);
    }
    let beside_empty = (0..pair.places().0)
        .any(|other| pair.runs(other) && dir(pair, other).is_some_and(|dir| dir.len == 0));
    if beside_empty && pair.leader().is_none() {
        return None;
    }
    let (_, founders) = pair.places();
    let flags = match dice.below(8) {
        0 => Flags::OneShort,
        1 => Flags::Stranger,
        2 => Flags::WithoutItself,
        3 if at < founders => Flags::Elsewhere,
        4..6 if at < founders => Flags::Founding,
        _ => Flags::Joining,
    };
    Some(vec![Step::Start(at, flags)])
}

fn is_learner(pair: &Pair, at: Place) -> bool {
    let peer = |group: &Group, id: MemberId| group.conf().members.get(&id).map(|peer| peer.is_learner);
    pair.group().zip(pair.id(at)).and_then(|(group, id)| peer(group, id)) == Some(true)
}

fn may_be_judged(pair: &Pair, who: Who) -> bool {
    let Who::At(at) = who else { return true };
    let heard = pair.group().zip(pair.id(at)).is_some_and(|(group, id)| group.matched(id).is_some());
    pair.runs(at) || !heard
}

fn dir(pair: &Pair, at: Place) -> Option<&Dir> {
    pair.model().dir(&format!("m{at}"))
}
