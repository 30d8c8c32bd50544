//! A model of etcd as far as an operator can meet it: membership, data, and what is refused.
//!
//! Of raft it keeps what decides whether data survive: every cluster has one log of committed entries; every data directory
//! holds a prefix of it and believes the configuration of that prefix; a leader is elected by a quorum of the
//! configuration that it believes itself, from voters that hold no more than it does. If such a leader holds less than was
//! committed, acknowledged writes are lost: that can only happen after a voter forgot what it had stored, and it is
//! exactly what must never happen. Messages, terms of failed elections and uncommitted entries are not modelled.
//!
//! `testing/scenarios/tests/etcd_model.rs` does the same to this model and to real etcd processes, and compares.
//!
//! - [`conf`]: configurations; `raft`: leaders, replication, commits; `start`: what a process does when it starts
//! - `calls`: what clients may ask for, and the refusals

mod calls;
pub mod conf;
mod raft;
mod start;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use quorate_model::{ClusterId, Instant, MemberId, Version};

pub use calls::Failed;
pub use conf::{Conf, Peer};
pub use start::{Launch, State};

/// How long a connection must have stood before etcd counts it (etcd's `HealthInterval`, 5 s).
pub const HEALTH_INTERVAL_MS: u64 = 5000;

/// Every etcd process and data directory there is.
#[derive(Clone, Debug, Default)]
pub struct Etcd {
    groups: Vec<Arc<Group>>,
    /// By a name of the caller's: the Pod in which it runs.
    processes: BTreeMap<String, Process>,
    /// Data directories, by a name of the caller's: the volume they lie on.
    dirs: BTreeMap<String, Dir>,
    /// How many members were added after the founding: each has an id of its own.
    added: u64,
}

/// One cluster: all data directories with one cluster id.
#[derive(Clone, Debug, Hash)]
pub struct Group {
    id: ClusterId,
    founders: Conf,
    log: Vec<Entry>,
    leader: Option<MemberId>,
    /// Who led last, while nobody leads. Learners do not notice, as they never stand for election.
    deposed: Option<MemberId>,
    /// How many entries this leader knows a member to have stored (raft's `Match`). It does not forget it when the member
    /// is gone, and a new leader begins to learn it anew.
    matched: BTreeMap<MemberId, usize>,
    /// Who ever stored anything.
    stored: BTreeSet<MemberId>,
    /// Writes of clients that were acknowledged and are in the log no more.
    lost: Vec<u64>,
}

/// A committed entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Entry {
    /// A client's write.
    Write(u64),
    /// A change of membership: the configuration from here on.
    Conf(Arc<Conf>),
}

/// What lies in a data directory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Dir {
    /// The cluster it is of.
    pub cluster: ClusterId,
    /// The member it is of.
    pub member: MemberId,
    /// How many entries of the cluster's log it holds.
    pub len: usize,
    /// It does not open.
    pub corrupt: bool,
}

/// An etcd process.
#[derive(Clone, Debug)]
pub struct Process {
    /// Its flags.
    pub launch: Launch,
    /// What became of it.
    pub state: State,
    /// Since when it runs.
    pub since: Instant,
    /// Nobody reaches it, and it reaches nobody.
    pub cut: bool,
    /// It takes no new entries.
    pub lags: bool,
    /// It serves clients: it has once had a leader and published itself.
    pub serves: bool,
    /// What it reports against itself.
    pub alarms: Vec<String>,
}

impl Etcd {
    /// A process starts. Call [`Etcd::settle`] to see what becomes of it.
    pub fn launch(&mut self, at: &str, launch: Launch, now: Instant) {
        let process = Process {
            launch,
            state: State::Starting,
            since: now,
            cut: false,
            lags: false,
            serves: false,
            alarms: Vec::new(),
        };
        self.processes.insert(at.to_owned(), process);
    }

    /// A process ends; its directory stays.
    pub fn stop(&mut self, at: &str) {
        self.processes.remove(at);
    }

    /// A process.
    pub fn process(&self, at: &str) -> Option<&Process> {
        self.processes.get(at)
    }

    /// A process, to do something to it.
    pub fn process_mut(&mut self, at: &str) -> Option<&mut Process> {
        self.processes.get_mut(at)
    }

    /// All processes, to do something to them.
    pub fn processes_mut(&mut self) -> impl Iterator<Item = &mut Process> {
        self.processes.values_mut()
    }

    /// All processes.
    pub fn processes(&self) -> impl Iterator<Item = (&str, &Process)> {
        self.processes.iter().map(|(at, process)| (at.as_str(), process))
    }

    /// A data directory.
    pub fn dir(&self, at: &str) -> Option<&Dir> {
        self.dirs.get(at)
    }

    /// A data directory, to do something to it.
    pub fn dir_mut(&mut self, at: &str) -> Option<&mut Dir> {
        self.dirs.get_mut(at)
    }

    /// Empties a data directory.
    pub fn wipe(&mut self, at: &str) {
        self.dirs.remove(at);
    }

    /// What names the data directories there are.
    pub fn dirs(&self) -> impl Iterator<Item = &str> {
        self.dirs.keys().map(String::as_str)
    }

    /// The same for two models that will go on in the same way: of times only what still matters.
    pub fn fingerprint(&self, now: Instant, hasher: &mut impl Hasher) {
        (&self.groups, &self.dirs).hash(hasher);
        for (at, process) in &self.processes {
            let Process { launch, state, since, cut, lags, serves, alarms } = process;
            let age = if *state == State::Running { (now - *since).0.min(HEALTH_INTERVAL_MS) } else { 0 };
            (at, launch, state, age, cut, lags, serves, alarms).hash(hasher);
        }
    }

    /// Puts the data of another cluster, of one member, in the place of a process's own, and starts it again on them. The
    /// id of that cluster.
    pub fn swap(&mut self, at: &str, now: Instant) -> Option<ClusterId> {
        let launch = self.process(at)?.launch.clone();
        let token = format!("another cluster's {}", launch.dir);
        let own = (launch.name.clone(), launch.url.clone());
        let other = Launch { peers: vec![own], new: true, token, ..launch.clone() };
        let id = other.founds();
        self.wipe(&launch.dir);
        self.launch(at, other, now);
        Some(id)
    }

    /// The clusters that ever were.
    pub fn groups(&self) -> impl Iterator<Item = &Group> {
        self.groups.iter().map(AsRef::as_ref)
    }

    /// One of them.
    pub fn group(&self, id: ClusterId) -> Option<&Group> {
        self.groups().find(|group| group.id == id)
    }

    fn group_mut(&mut self, id: ClusterId) -> Option<&mut Group> {
        self.groups.iter_mut().find(|group| group.id == id).map(Arc::make_mut)
    }

    /// The directory of a process, if there is one.
    pub fn dir_of(&self, process: &Process) -> Option<&Dir> {
        self.dirs.get(&process.launch.dir)
    }

    /// Processes that run on data of a cluster and can be reached, with their directories.
    fn up(&self, cluster: ClusterId) -> impl Iterator<Item = (&String, &Process, &Dir)> {
        self.processes
            .iter()
            .filter(|(_, process)| process.state == State::Running && !process.cut)
            .filter_map(|(at, process)| Some((at, process, self.dir_of(process)?)))
            .filter(move |(_, _, dir)| dir.cluster == cluster)
    }
}

impl Group {
    /// Its id.
    pub fn id(&self) -> ClusterId {
        self.id
    }

    /// The member that leads.
    pub fn leader(&self) -> Option<MemberId> {
        self.leader
    }

    /// How many entries the leader knows a member to have stored; `None` if it has not yet heard of it.
    pub fn matched(&self, member: MemberId) -> Option<usize> {
        self.matched.get(&member).copied()
    }

    /// Everything that was committed.
    pub fn log(&self) -> &[Entry] {
        &self.log
    }

    /// The configuration after so many entries.
    pub fn conf_at(&self, len: usize) -> &Conf {
        let entries = self.log.get(..len).unwrap_or(&self.log);
        let last = entries.iter().rev().find_map(|entry| match entry {
            Entry::Conf(conf) => Some(conf.as_ref()),
            Entry::Write(_) => None,
        });
        last.unwrap_or(&self.founders)
    }

    /// The configuration that was committed last.
    pub fn conf(&self) -> &Conf {
        self.conf_at(self.log.len())
    }

    /// Writes of clients that are in the log.
    pub fn writes(&self) -> impl Iterator<Item = u64> {
        self.log.iter().filter_map(|entry| match entry {
            Entry::Write(write) => Some(*write),
            Entry::Conf(_) => None,
        })
    }

    /// Whether anything in it would be missed: a client's write, or a change of membership. Before that nobody has seen
    /// anything of it, and a voter that forgets has nothing to forget.
    pub fn matters(&self) -> bool {
        let conf = self.conf();
        self.writes().next().is_some()
            || !conf.removed.is_empty()
            || conf.members.len() != self.founders.members.len()
    }

    /// A new leader knows nothing of what others hold.
    fn lead(&mut self, leader: Option<MemberId>) {
        if self.leader != leader {
            self.matched.clear();
            self.deposed = if leader.is_none() { self.leader } else { None };
        }
        self.leader = leader;
    }

    /// Whether a member ever stored anything.
    pub fn has_stored(&self, member: MemberId) -> bool {
        self.stored.contains(&member)
    }

    /// Acknowledged writes that are in the log no more.
    pub fn lost(&self) -> &[u64] {
        &self.lost
    }
}

/// The version in an image reference: `registry/etcd:v3.6.16`.
pub fn version_of_image(image: &str) -> Option<Version> {
    image.rsplit(':').next()?.parse().ok()
}
