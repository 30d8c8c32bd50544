//! What must hold of the turns of a fleet, by what the Pods have and how long it took, and never by the operator's own word for a turn.

use quorate_api::keys;
use quorate_apistore::fields::{annotation, condition, deleting, integer};
use quorate_model::record::Stage;
use quorate_model::snapshot::FRESH;
use quorate_model::{Instant, Span};
use quorate_planner::fleet::{Limit, PARKED_AFTER, STUCK_AFTER, progress};

use super::LONGEST;
use super::process::taking;
use crate::oracle::Property;
use crate::world::{Kind, World, resource};

/// How long an operator may need until it has seen and recorded what a cluster shows: two observations of it.
const LAG: Span = Span(2 * LONGEST.0);

/// How long all restarts of one cluster may take in which nothing goes wrong, with the observations between.
const ROLLOUT: Span = Span::seconds(600);

/// Checks the properties of a fleet.
pub(super) struct Judge {
    clusters: Vec<Seen>,
    now: Instant,
    /// Nothing was released yet.
    is_first: bool,
}

/// How far a cluster is.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// The revision that it had before the release.
    before: String,
    /// What is under way: since when, how many members have the new defaults, and when the last of them got them.
    taking: Option<(usize, Instant)>,
    /// Since when a voter has no ready Pod.
    unready: Option<Instant>,
}

impl Judge {
    /// How long a cluster fails, at most, before it stops the others.
    pub(super) const STOPS_BY: Span = Span(STUCK_AFTER.0 + LAG.0);

    /// When a cluster of which nothing can be restarted is parked at the latest, and says so.
    pub(super) const PARKED_BY: Span = Span(PARKED_AFTER.0 + LAG.0);

    pub(super) fn new(count: usize) -> Self {
        Self { clusters: vec![Seen::default(); count], now: Instant(0), is_first: true }
    }

    /// From now on another revision is wanted.
    pub(super) fn released(&mut self, worlds: &[World]) {
        for (seen, world) in self.clusters.iter_mut().zip(worlds) {
            // One in the middle of a turn goes on to the newer defaults.
            if self.is_first || !seen.before.is_empty() {
                seen.before = committed(world);
            }
        }
        self.is_first = false;
    }

    /// An edit of its own takes the defaults with it.
    pub(super) fn edited(&mut self, place: usize) {
        self.clusters[place].taking = None;
        self.clusters[place].before.clear();
    }

    /// How long all clusters may need, where so many of them hold their turns.
    pub(super) fn bound(&self, holders: usize) -> Span {
        let (count, holders) = (self.clusters.len() as u64, holders as u64);
        Span(holders * Self::PARKED_BY.0 + count * (ROLLOUT.0 + LAG.0) + PARKED_AFTER.0)
    }

    /// Looks at a cluster after each of its steps.
    pub(super) fn look(&mut self, worlds: &mut [World], place: usize, limit: Limit) {
        let world = &worlds[place];
        self.now = world.now;
        let (fresh, voters, ready) = pods(world);
        let committed = committed(world);
        let seen = &mut self.clusters[place];
        seen.unready = if ready == voters { None } else { seen.unready.or(Some(world.now)) };
        if !may_roll(world) {
            // One that is paused in its turn goes on with it later.
            return;
        }
        if seen.before.is_empty() {
            // It goes its own way until the edit is carried out.
            if has_size(world, voters) && fresh == voters && seen.unready.is_none() {
                seen.before = committed;
            }
            return;
        }
        match &mut seen.taking {
            None if committed != seen.before => {
                seen.taking = Some((fresh, world.now));
                seen.before = committed;
                self.judge_beginning(worlds, place, limit);
            }
            None => {}
            Some((had, since)) => {
                if fresh > *had || committed != seen.before {
                    (*had, *since) = (fresh, world.now);
                }
                seen.before = committed;
                // Until the operator has seen that, newer defaults go on with this turn.
                if fresh == voters && seen.unready.is_none() && world.record().takes_defaults.is_none() {
                    seen.taking = None;
                }
            }
        }
    }

    /// A cluster begins: few enough do, none of them fails, and it was well.
    fn judge_beginning(&self, worlds: &mut [World], place: usize, limit: Limit) {
        let now = self.now;
        let others = || {
            let all = self.clusters.iter().zip(worlds.iter()).enumerate();
            all.filter(|(other, (seen, world))| *other != place && seen.taking.is_some() && may_roll(world))
        };
        let in_their_place = others()
            .filter(|(_, (seen, _))| seen.taking.is_some_and(|(_, since)| now - since <= PARKED_AFTER));
        let most = limit.of(worlds.len());
        let besides = in_their_place.count();
        let fails = others().find(|(_, (seen, _))| {
            let restarted = seen.taking.is_some_and(|(had, _)| had > 0);
            restarted && seen.unready.is_some_and(|since| now - since > Self::STOPS_BY)
        });
        let mut broken = Vec::new();
        if besides >= most {
            let how = format!("it begins beside {besides} others, and at most {most} may at a time");
            broken.push((Property::TurnsAreFew, how));
        }
        if let Some((other, _)) = fails {
            let how = format!("it begins while {} does not get ready", worlds[other].at);
            broken.push((Property::FailuresStopTurns, how));
        }
        if self.clusters[place].unready.is_some_and(|since| now - since > FRESH) {
            broken.push((Property::SickArePassedOver, "it begins, and a member was down before".to_owned()));
        }
        for (property, how) in broken {
            let how = format!("{}: {how}", worlds[place].at);
            worlds[place].oracle.add_violation(property, how);
        }
    }
}

/// Whether all clusters have the new defaults, but for these.
pub(super) fn all_done_but(worlds: &[World], tenants: &[usize]) -> bool {
    let mut others = worlds.iter().enumerate().filter(|(place, _)| !tenants.contains(place));
    others.all(|(_, world)| lacks(world).is_none())
}

/// Once faults have ended, tenants keep nobody from taking the new defaults, and are named.
pub(super) fn judge_waits(worlds: &mut [World], holders: &[usize], sick: &[usize]) {
    let mut broken = Vec::new();
    for (place, world) in worlds.iter().enumerate() {
        let is_tenant = holders.contains(&place) || sick.contains(&place);
        if let Some(what) = lacks(world).filter(|_| !is_tenant) {
            broken.push((place, Property::NobodyHoldsTheTurn, format!("{}: {what}", world.at)));
        }
    }
    let statuses = worlds[0].store.objects(&resource(Kind::Cluster));
    let takes: Vec<_> = statuses.iter().filter_map(|cluster| taking(cluster)).collect();
    let mut parked = 0;
    for place in holders.iter().filter(|place| !sick.contains(place)) {
        let world = &worlds[*place];
        let has_turn = takes.iter().any(|takes| takes.cluster == world.at);
        parked += usize::from(has_turn);
        let told = message(world, "UpToDate");
        if has_turn && !told.contains("do not wait for this one") {
            broken.push((*place, Property::NobodyHoldsTheTurn, format!("{} says {told:?}", world.at)));
        }
    }
    let counted = progress(&takes, worlds[0].now).parked;
    if counted < parked {
        let how = format!("{counted} are counted as parked, and {parked} are");
        broken.push((0, Property::NobodyHoldsTheTurn, how));
    }
    for place in sick {
        let (world, told) = (&worlds[*place], message(&worlds[*place], "UpToDate"));
        // An edit that waits, too, is told first.
        let is_edited = !has_size(world, pods(world).1);
        let waits = may_roll(world) && desired(world).is_some_and(|desired| desired != committed(world));
        if waits && !is_edited && !told.contains("pass this EtcdCluster over") {
            broken.push((*place, Property::SickArePassedOver, format!("{} says {told:?}", world.at)));
        }
    }
    for (place, property, how) in broken {
        worlds[place].oracle.add_violation(property, how);
    }
}

/// At the end all clusters have the new defaults, and have reached their goals.
pub(super) fn judge_end(worlds: &mut [World]) {
    for world in worlds {
        if let Some(what) = lacks(world).or_else(|| world.goal().err()) {
            let how = format!("{}: {what}", world.at);
            world.oracle.add_violation(Property::GoalIsReached, how);
        }
    }
}

/// The revision that status records.
fn committed(world: &World) -> String {
    let target = world.record().target.as_ref().map(|target| target.pod.revision.0.clone());
    target.unwrap_or_default()
}

/// The revision that its spec and the defaults of now lead to.
fn desired(world: &World) -> Option<String> {
    Some(quorate_manifests::resolve(&world.cluster()?, &world.defaults).ok()?.pod.revision.0)
}

/// How many voters have a Pod of the committed revision, how many there are, and how many have a ready Pod.
fn pods(world: &World) -> (usize, usize, usize) {
    let (record, committed) = (world.record(), committed(world));
    let voters = || record.members.iter().filter(|(_, member)| member.stage == Stage::Voter);
    let pod = |name: &str| world.object(Kind::Pod, name).filter(|pod| !deleting(pod));
    let is_fresh = |name: &str| {
        pod(name).is_some_and(|pod| annotation(&pod, keys::REVISION) == Some(committed.as_str()))
    };
    let is_ready = |name: &str| pod(name).is_some_and(|pod| condition(&pod, "Ready") == "True");
    let fresh = voters().filter(|(name, _)| is_fresh(name.as_str())).count();
    let ready = voters().filter(|(name, _)| is_ready(name.as_str())).count();
    (fresh, voters().count(), ready)
}

/// What a cluster lacks of the defaults of now; `None` if it has them, or runs no Pods.
fn lacks(world: &World) -> Option<String> {
    let (fresh, voters, _) = pods(world);
    let desired = desired(world).filter(|_| may_roll(world) && voters > 0)?;
    (committed(world) != desired || fresh < voters)
        .then(|| format!("{fresh} of {voters} members have its revision, and the new defaults are {desired}"))
}

/// Whether the size of its spec is committed, and reached.
fn has_size(world: &World, voters: usize) -> bool {
    let committed = world.record().target.as_ref().map(|target| target.size);
    spec(world).is_some_and(|(_, size)| size == voters) && committed == Some(voters)
}

/// Whether its members run and may be restarted.
fn may_roll(world: &World) -> bool {
    spec(world).is_some_and(|(paused, size)| !paused && size > 0)
}

/// Whether its spec says that it is paused, and its size.
fn spec(world: &World) -> Option<(bool, usize)> {
    let cluster = world.object(Kind::Cluster, &world.at.name)?;
    let size = integer(&cluster, "/spec/size").and_then(|size| usize::try_from(size).ok())?;
    Some((cluster["spec"]["paused"] == true, size))
}

fn message(world: &World, type_: &str) -> String {
    let conditions = world.cluster().and_then(|cluster| cluster.status).unwrap_or_default().conditions;
    conditions.into_iter().find(|one| one.type_ == type_).map(|one| one.message).unwrap_or_default()
}
