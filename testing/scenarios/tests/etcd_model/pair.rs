//! The model and real etcd processes, side by side: every step is done to both, then both are looked at.
//!
//! The model is instantaneous where etcd takes a moment (elections, replication, a process that ends): the real side is asked
//! until it agrees. Its clock is the real one, and its connections are as old as its processes, so never younger than the
//! real ones: when etcd holds them for old enough, the model must as well.

#[path = "compare.rs"]
mod compare;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use quorate_etcd::testkit::{Cluster, Setup};
use quorate_etcd::{Deadlines, MemberClient};
use quorate_model::{MemberId, PeerUrl, Version};
use quorate_sim::etcd::{Etcd, Group, HEALTH_INTERVAL_MS, Launch, Refusal, State};

use crate::script::{Flags, NOBODY, Outcome, Place, Step, What, Who, strange};

/// How long the real side may take to agree.
const PATIENCE: Duration = Duration::from_secs(30);
/// Told of where committed entries were lost.
const LOST: &str = "committed entries are lost";
/// Places beside those of the founders.
const SPARES: usize = 3;

/// Both sides.
pub struct Pair {
    cluster: Cluster,
    model: Etcd,
    version: Version,
    founders: usize,
    begun: Instant,
    /// The last number that was written.
    writes: u64,
    /// Of the member last seen at a place: its id in the model and its real one.
    ids: BTreeMap<Place, (MemberId, MemberId)>,
    /// What was done, with what came of it.
    told: Vec<String>,
}

impl Pair {
    /// So many places for founders, and some more. Nobody runs.
    pub fn new(founders: usize) -> Self {
        let version: Version = quorate_scenarios::version().parse().expect("the version under test");
        // Elections in half the usual time: most of what a script waits for.
        let args = ["--heartbeat-interval=50", "--election-timeout=500"].map(str::to_owned).to_vec();
        let setup = Setup { args, ..Setup::new(version.line(), founders + SPARES) };
        Self {
            cluster: Cluster::new(setup),
            model: Etcd::default(),
            version,
            founders,
            begun: Instant::now(),
            writes: 0,
            ids: BTreeMap::new(),
            told: Vec::new(),
        }
    }

    /// A cluster of so many members that all run.
    pub async fn founded(founders: usize) -> Self {
        let mut pair = Self::new(founders);
        for place in 0..founders {
            pair.start(place, Flags::Founding);
        }
        pair.agree().await;
        pair
    }

    /// Does a step to both sides, and waits until they agree. What came of it, if it was a call.
    pub async fn step(&mut self, step: Step) -> Option<Outcome> {
        self.told.push(format!("{step:?}"));
        let held = self.committed();
        let outcome = match step {
            Step::Start(place, flags) => {
                self.start(place, flags);
                None
            }
            Step::Stop(place) => {
                self.cluster.members[place].kill();
                self.model.stop(&name(place));
                self.model.settle(self.now(0));
                None
            }
            Step::Wipe(place) => {
                self.cluster.members[place].wipe();
                self.model.wipe(&name(place));
                None
            }
            Step::Ripen(at) => {
                self.ripen(at).await;
                None
            }
            Step::Ask(at, what) => Some(self.ask(at, what).await),
        };
        if let (Some(outcome), Some(last)) = (&outcome, self.told.last_mut()) {
            let _ = write!(last, " -> {outcome:?}");
        }
        if self.committed() < held {
            self.told.push(LOST.to_owned());
        }
        self.agree().await;
        outcome
    }

    /// The same, and tells what must come of it.
    pub async fn ask_for(&mut self, at: Place, what: What, desired: Outcome) {
        let outcome = self.step(Step::Ask(at, what)).await;
        assert_eq!(outcome, Some(desired), "on both sides, of {what:?} at m{at}\n{}", self.told.join("\n"));
    }

    /// What was done so far, with what came of it.
    pub fn told(&self) -> &[String] {
        &self.told
    }

    /// The model, as it is now.
    pub fn model(&self) -> &Etcd {
        &self.model
    }

    /// The one cluster there is.
    pub fn group(&self) -> Option<&Group> {
        self.model.groups().next()
    }

    /// How many places there are, and how many of them are founders'.
    pub fn places(&self) -> (usize, usize) {
        (self.cluster.members.len(), self.founders)
    }

    /// Where peers reach a place.
    pub fn url(&self, place: Place) -> PeerUrl {
        self.cluster.members[place].peer_url()
    }

    /// The id, in the model, of the member last seen at a place.
    pub fn id(&self, place: Place) -> Option<MemberId> {
        self.ids.get(&place).map(|(model, _)| *model)
    }

    /// The place of the leader.
    pub fn leader(&self) -> Option<Place> {
        let leader = self.group()?.leader()?;
        self.ids.iter().find(|(_, (model, _))| *model == leader).map(|(place, _)| *place)
    }

    /// Whether a place has a process that runs, by the model.
    pub fn runs(&self, place: Place) -> bool {
        self.model.process(&name(place)).is_some_and(|process| process.state == State::Running)
    }

    /// Whether it has a process that does not serve clients yet.
    pub fn waits(&self, place: Place) -> bool {
        self.runs(place) && self.model.process(&name(place)).is_some_and(|process| !process.serves)
    }

    /// How many entries are committed: fewer than before if some were lost. etcd's members then contradict each other, end
    /// or overwrite what they had, and the model does not follow them there; only reads are compared any more.
    pub fn committed(&self) -> usize {
        self.group().map_or(0, |group| group.log().len())
    }

    fn now(&self, later_ms: u64) -> quorate_model::Instant {
        let elapsed = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX) + later_ms;
        quorate_model::Instant(i64::try_from(elapsed).unwrap_or(i64::MAX))
    }

    fn start(&mut self, place: Place, flags: Flags) {
        let (peers, new) = self.peers(place, flags);
        let launch = Launch {
            name: name(place),
            url: self.url(place),
            peers: peers.clone(),
            new,
            token: "etcd-cluster".to_owned(),
            dir: name(place),
            version: self.version,
        };
        // The model first: there it runs no later than in truth.
        self.model.launch(&name(place), launch, self.now(0));
        self.model.settle(self.now(0));
        let member = &mut self.cluster.members[place];
        member.kill();
        member.set_initial(&peers, new);
        member.start();
    }

    fn peers(&self, place: Place, flags: Flags) -> (Vec<(String, PeerUrl)>, bool) {
        let entry = |place: Place| (name(place), self.url(place));
        let founders: Vec<_> = (0..self.founders).map(entry).collect();
        let listed = |place: &Place| {
            self.group().is_some_and(|group| group.conf().by_url(&self.url(*place)).is_some())
        };
        let others: Vec<_> =
            (0..self.cluster.members.len()).filter(|at| *at != place).filter(listed).map(entry).collect();
        let with = |mut peers: Vec<(String, PeerUrl)>, own: Option<PeerUrl>| {
            peers.extend(own.map(|url| (name(place), url)));
            peers
        };
        let own = Some(self.url(place));
        match flags {
            Flags::Founding => (founders, true),
            Flags::Joining => (with(others, own), false),
            Flags::OneShort => (with(others.into_iter().skip(1).collect(), own), false),
            Flags::Stranger => {
                let mut peers = others;
                if let Some((_, url)) = peers.first_mut() {
                    *url = strange();
                }
                (with(peers, own), false)
            }
            Flags::WithoutItself => (others, false),
            Flags::Elsewhere => (
                with(founders.into_iter().filter(|(at, _)| *at != name(place)).collect(), Some(strange())),
                true,
            ),
        }
    }

    /// A URL that is taken can be added for ever without harm: first it is refused for the connections, then for the URL.
    async fn ripen(&mut self, at: Place) {
        let taken = What::Add(at);
        let end = Instant::now() + PATIENCE;
        let unhealthy = Outcome::Refused(Refusal::UnhealthyCluster);
        while self.predict(at, taken, HEALTH_INTERVAL_MS).0 != unhealthy {
            if self.ask(at, taken).await != unhealthy {
                return;
            }
            assert!(
                Instant::now() < end,
                "m{at} never holds its connections for old enough\n{}",
                self.both()
            );
        }
    }

    /// Asks both sides. A real refusal that the model does not share is asked again for a while: nothing was done. The model
    /// is asked as of before and as of after the real call, which may lie on both sides of the 5 s.
    async fn ask(&mut self, at: Place, what: What) -> Outcome {
        if matches!(what, What::Write) {
            self.writes += 1;
        }
        let end = Instant::now() + PATIENCE;
        loop {
            let before = self.predict(at, what, 0);
            let said = self.ask_real(at, what).await;
            let after = self.predict(at, what, 0);
            let desired = after.0.clone();
            if let Some((_, model)) =
                [before, after.clone()].into_iter().find(|(outcome, _)| *outcome == said)
            {
                self.model = model;
                return said;
            }
            // Lost in an election: done or not, which the list tells.
            if said == Outcome::Unknown && desired == Outcome::Done && self.comes_to(after.1).await {
                return desired;
            }
            assert!(
                said != Outcome::Done && Instant::now() < end,
                "{what:?} at m{at}: etcd says {said:?}, the model {desired:?}\n{}",
                self.both()
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Whether the real side soon looks as this model; then it is the model from here on.
    async fn comes_to(&mut self, model: Etcd) -> bool {
        let now = std::mem::replace(&mut self.model, model);
        let end = Instant::now() + Duration::from_secs(3);
        while Instant::now() < end {
            if self.compare().await.is_ok() {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        self.model = now;
        false
    }

    fn predict(&self, at: Place, what: What, later_ms: u64) -> (Outcome, Etcd) {
        let (mut model, now, at) = (self.model.clone(), self.now(later_ms), name(at));
        let id = |who: Who| match who {
            Who::At(place) => self.ids.get(&place).map_or(NOBODY, |(model, _)| *model),
            Who::Nobody => NOBODY,
        };
        let reply = match what {
            What::Add(place) => model.add_learner(&at, &self.url(place), now).map(drop),
            What::Promote(who) => model.promote(&at, id(who)),
            What::Remove(who) => model.remove(&at, id(who), now),
            What::Lead(who) => model.move_leader(&at, id(who)),
            // Goes the way of a linearizable list, to the leader and back.
            What::Write => model.member_list(&at).map(|(cluster, _)| {
                assert!(model.write(cluster, self.writes), "there is a leader to write to");
            }),
            What::List => model.member_list(&at).map(drop),
        };
        model.settle(now);
        (reply.into(), model)
    }

    async fn ask_real(&self, at: Place, what: What) -> Outcome {
        let client = self.client(at);
        let id = |who: Who| match who {
            Who::At(place) => self.ids.get(&place).map_or(NOBODY, |(_, real)| *real),
            Who::Nobody => NOBODY,
        };
        let reply = match what {
            What::Add(place) => client.member_add_learner(&self.url(place)).await.map(drop),
            What::Promote(who) => client.member_promote(id(who)).await,
            What::Remove(who) => client.member_remove(id(who)).await,
            What::Lead(who) => client.move_leader(id(who)).await,
            What::Write => client.put(&key(self.writes), "written").await.map(drop),
            What::List => client.member_list(true).await.map(drop),
        };
        reply.into()
    }

    /// A new connection each time: none that broke with a process before.
    fn client(&self, at: Place) -> MemberClient {
        let deadlines = Deadlines { connect: Duration::from_millis(700), call: Duration::from_millis(1200) };
        MemberClient::new(&self.cluster.members[at].endpoint(), deadlines).expect("plain http")
    }

    /// Whether committed entries were lost.
    pub fn has_lost(&self) -> bool {
        self.told.iter().any(|told| told == LOST)
    }

    /// Both sides, for whoever has to find out.
    fn both(&self) -> String {
        let mut text = format!("etcd {}, {} founders, ids {:?}\n", self.version, self.founders, self.ids);
        for step in &self.told {
            let _ = writeln!(text, "  {step}");
        }
        for (at, process) in self.model.processes() {
            let _ = writeln!(
                text,
                "{at}: {:?} serves {} {:?}",
                process.state,
                process.serves,
                self.model.dir(at)
            );
        }
        let _ = writeln!(text, "{:#?}", self.group().map(|group| (group.leader(), group.conf())));
        text
    }
}

fn name(place: Place) -> String {
    format!("m{place}")
}

fn key(write: u64) -> String {
    format!("written-{write}")
}
