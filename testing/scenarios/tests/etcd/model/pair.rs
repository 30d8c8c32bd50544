//! The model and real etcd processes, side by side: every step is done to both, then both are compared.
//!
//! The model is instantaneous where etcd takes a moment (elections, replication, a process that ends): the real side is polled
//! until it agrees. The model uses the real clock, and its connections are as old as its processes, so never younger than the
//! real ones: when they are old enough for etcd, they must be for the model.

mod compare;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use quorate_etcd::testkit::{Cluster, Setup};
use quorate_etcd::{Deadlines, MemberClient};
use quorate_model::{MemberId, PeerUrl, Refusal, Version};
use quorate_sim::etcd::{Etcd, Group, HEALTH_INTERVAL_MS, Launch, State};

use super::script::{Call, Flags, Id, Outcome, Place, Step, UNUSED_ID, unused_url};

/// How long the real side may take to agree with the model.
const DEADLINE: Duration = Duration::from_secs(30);
/// The entry in the log where committed entries were lost.
const LOST: &str = "committed entries are lost";
/// Places besides those of the bootstrap members.
const SPARES: usize = 3;

/// Both sides.
pub struct Pair {
    cluster: Cluster,
    model: Etcd,
    version: Version,
    bootstrap_members: usize,
    started_at: Instant,
    /// The last number that was written.
    writes: u64,
    /// The ids of the member last observed at a place: in the model, and in etcd.
    ids: BTreeMap<Place, (MemberId, MemberId)>,
    /// The steps that were done, with their outcomes.
    log: Vec<String>,
}

impl Pair {
    /// Places for this many bootstrap members, and spare places. No process runs.
    pub fn new(bootstrap_members: usize) -> Self {
        let version: Version = quorate_scenarios::version().parse().expect("the version under test");
        // Elections in half the usual time: most of what a script waits for.
        let args = ["--heartbeat-interval=50", "--election-timeout=500"].map(str::to_owned).to_vec();
        let setup = Setup { args, ..Setup::new(version.line(), bootstrap_members + SPARES) };
        Self {
            cluster: Cluster::new(setup),
            model: Etcd::default(),
            version,
            bootstrap_members,
            started_at: Instant::now(),
            writes: 0,
            ids: BTreeMap::new(),
            log: Vec::new(),
        }
    }

    /// A cluster of this many members, all running.
    pub async fn bootstrapped(bootstrap_members: usize) -> Self {
        let mut pair = Self::new(bootstrap_members);
        for place in 0..bootstrap_members {
            pair.start(place, Flags::Bootstrap);
        }
        pair.agree().await;
        pair
    }

    /// Does a step on both sides, and waits until they agree. Returns the outcome if the step is a call.
    pub async fn step(&mut self, step: Step) -> Option<Outcome> {
        self.log.push(format!("{step:?}"));
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
            Step::AwaitConnections(at) => {
                self.await_connections(at).await;
                None
            }
            Step::Ask(at, what) => Some(self.ask(at, what).await),
        };
        if let (Some(outcome), Some(last)) = (&outcome, self.log.last_mut()) {
            let _ = write!(last, " -> {outcome:?}");
        }
        if self.committed() < held {
            self.log.push(LOST.to_owned());
        }
        self.agree().await;
        outcome
    }

    /// Sends a call to both sides, which must have this outcome.
    pub async fn expect(&mut self, at: Place, what: Call, desired: Outcome) {
        let outcome = self.step(Step::Ask(at, what)).await;
        assert_eq!(outcome, Some(desired), "on both sides, of {what:?} at m{at}\n{}", self.log.join("\n"));
    }

    /// The steps so far, with their outcomes.
    pub fn log(&self) -> &[String] {
        &self.log
    }

    /// The model, as it is now.
    pub fn model(&self) -> &Etcd {
        &self.model
    }

    /// The one cluster there is.
    pub fn group(&self) -> Option<&Group> {
        self.model.groups().next()
    }

    /// The number of places, and how many of them are for bootstrap members.
    pub fn places(&self) -> (usize, usize) {
        (self.cluster.members.len(), self.bootstrap_members)
    }

    /// The peer URL of a place.
    pub fn url(&self, place: Place) -> PeerUrl {
        self.cluster.members[place].peer_url()
    }

    /// The model's id of the member last observed at a place.
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

    /// Whether a place has a process that does not serve clients yet.
    pub fn waits(&self, place: Place) -> bool {
        self.runs(place) && self.model.process(&name(place)).is_some_and(|process| !process.serves)
    }

    /// The number of committed entries: fewer than before if some were lost. etcd's members then contradict each other, end or
    /// overwrite their data. The model does not reproduce that, so from then on only reads are compared.
    pub fn committed(&self) -> usize {
        self.group().map_or(0, |group| group.log().len())
    }

    fn now(&self, later_ms: u64) -> quorate_model::Instant {
        let elapsed = u64::try_from(self.started_at.elapsed().as_millis()).unwrap_or(u64::MAX) + later_ms;
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
        // The model first: there it runs no later than in reality.
        self.model.launch(&name(place), launch, self.now(0));
        self.model.settle(self.now(0));
        let member = &mut self.cluster.members[place];
        member.kill();
        member.set_initial(&peers, new);
        member.start();
    }

    fn peers(&self, place: Place, flags: Flags) -> (Vec<(String, PeerUrl)>, bool) {
        let entry = |place: Place| (name(place), self.url(place));
        let bootstrap_members: Vec<_> = (0..self.bootstrap_members).map(entry).collect();
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
            Flags::Bootstrap => (bootstrap_members, true),
            Flags::Joining => (with(others, own), false),
            Flags::OnePeerMissing => (with(others.into_iter().skip(1).collect(), own), false),
            Flags::UnknownPeer => {
                let mut peers = others;
                if let Some((_, url)) = peers.first_mut() {
                    *url = unused_url();
                }
                (with(peers, own), false)
            }
            Flags::WithoutItself => (others, false),
            Flags::OtherPeerUrl => (
                with(
                    bootstrap_members.into_iter().filter(|(at, _)| *at != name(place)).collect(),
                    Some(unused_url()),
                ),
                true,
            ),
        }
    }

    /// Adding a URL that is in use changes nothing: it is refused first for the connections, then for the URL.
    async fn await_connections(&mut self, at: Place) {
        let taken = Call::Add(at);
        let end = Instant::now() + DEADLINE;
        let unhealthy = Outcome::Refused(Refusal::UnhealthyCluster);
        while self.predict(at, taken, HEALTH_INTERVAL_MS).0 != unhealthy {
            if self.ask(at, taken).await != unhealthy {
                return;
            }
            assert!(
                Instant::now() < end,
                "m{at} never considers its connections old enough\n{}",
                self.both()
            );
        }
    }

    /// Sends a call to both sides. A real refusal that the model does not share is retried for a while: nothing was done. The
    /// model is asked as of before and as of after the real call, because the 5 s may end in between.
    async fn ask(&mut self, at: Place, what: Call) -> Outcome {
        if matches!(what, Call::Write) {
            self.writes += 1;
        }
        let end = Instant::now() + DEADLINE;
        loop {
            let before = self.predict(at, what, 0);
            let real = self.ask_real(at, what).await;
            let after = self.predict(at, what, 0);
            let desired = after.0.clone();
            if let Some((_, model)) =
                [before, after.clone()].into_iter().find(|(outcome, _)| *outcome == real)
            {
                self.model = model;
                return real;
            }
            // Lost in an election: done or not, which the list shows.
            if real == Outcome::Unknown && desired == Outcome::Done && self.becomes(after.1).await {
                return desired;
            }
            assert!(
                real != Outcome::Done && Instant::now() < end,
                "{what:?} at m{at}: etcd replies {real:?}, the model {desired:?}\n{}",
                self.both()
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Whether the real side soon agrees with this model, which then becomes the model.
    async fn becomes(&mut self, model: Etcd) -> bool {
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

    fn predict(&self, at: Place, what: Call, later_ms: u64) -> (Outcome, Etcd) {
        let (mut model, now, at) = (self.model.clone(), self.now(later_ms), name(at));
        let id = |who: Id| match who {
            Id::At(place) => self.ids.get(&place).map_or(UNUSED_ID, |(model, _)| *model),
            Id::Unused => UNUSED_ID,
        };
        // A leadership transfer that did not come about is over by now.
        model.settle(now);
        let reply = match what {
            Call::Add(place) => model.add_learner(&at, &self.url(place), now).map(drop),
            Call::Promote(who) => model.promote(&at, id(who)),
            Call::Remove(who) => model.remove(&at, id(who), now),
            Call::Lead(who) => model.move_leader(&at, id(who), now),
            // It takes the way of a linearizable list, to the leader and back.
            Call::Write => model.member_list(&at).map(|(cluster, _)| {
                assert!(model.write(cluster, self.writes), "there is a leader to write to");
            }),
            Call::List => model.member_list(&at).map(drop),
        };
        model.settle(now);
        (reply.into(), model)
    }

    async fn ask_real(&self, at: Place, what: Call) -> Outcome {
        let client = self.client(at);
        let id = |who: Id| match who {
            Id::At(place) => self.ids.get(&place).map_or(UNUSED_ID, |(_, real)| *real),
            Id::Unused => UNUSED_ID,
        };
        let reply = match what {
            Call::Add(place) => client.member_add_learner(&self.url(place)).await.map(drop),
            Call::Promote(who) => client.member_promote(id(who)).await,
            Call::Remove(who) => client.member_remove(id(who)).await,
            Call::Lead(who) => client.move_leader(id(who)).await,
            Call::Write => client.put(&key(self.writes), "written").await.map(drop),
            Call::List => client.member_list(true).await.map(drop),
        };
        reply.into()
    }

    /// A new connection each time, so that none broke with an earlier process.
    fn client(&self, at: Place) -> MemberClient {
        let deadlines = Deadlines { connect: Duration::from_millis(700), call: Duration::from_millis(1200) };
        MemberClient::new(&self.cluster.members[at].endpoint(), deadlines).expect("plain http")
    }

    /// Whether committed entries were lost.
    pub fn has_lost(&self) -> bool {
        self.log.iter().any(|entry| entry == LOST)
    }

    /// Both sides, for the message of a failure.
    fn both(&self) -> String {
        let mut text = format!(
            "etcd {}, {} bootstrap members, ids {:?}\n",
            self.version, self.bootstrap_members, self.ids
        );
        for step in &self.log {
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
