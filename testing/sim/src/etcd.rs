//! A model of etcd, as far as an operator meets it: membership, data, and refusals.
//!
//! Of raft it models what decides whether data survive. Every cluster has one log of committed entries. Every data directory has
//! a prefix of the log, and its member uses the configuration of that prefix. A leader is elected by a quorum of the
//! configuration that it uses itself, with the votes of members that have no more entries than it has. If a leader has fewer
//! entries than were committed, acknowledged writes are lost. This happens only after a voter lost what it had stored, and the
//! oracle reports it. Messages, terms of failed elections and uncommitted entries are not modelled.
//!
//! An entry is committed once the disks of a quorum have it. A member whose disk hangs acknowledges nothing from then on, and
//! still answers.
//!
//! `testing/scenarios/tests/etcd/model.rs` runs the same scripts on this model and on real etcd, and compares.
//!
//! - [`conf`]: configurations; [`stored`]: what a disk has of the log; [`disk`]: disks that hang or are full; `data`: data that
//!   contradict the log
//! - `restored`: data that were restored from a snapshot
//! - `raft`: replication and commits; `lead`: leaders; `start`: what a process does when it starts
//! - `calls`: the calls of clients, and their refusals; `membership`: those that change the configuration; `replicated`: alarms,
//!   auth; `downgrade`: the cluster version, and how it goes back; `space`: databases that are full

mod calls;
pub mod conf;
mod data;
pub mod disk;
mod downgrade;
mod lead;
mod membership;
mod raft;
mod replicated;
mod restored;
mod space;
mod start;
pub mod stored;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use quorate_model::{ClusterId, Instant, MemberId, Version};

pub use calls::Failed;
pub use conf::{Conf, Peer};
pub use disk::{Disk, Stuck};
pub use quorate_model::snapshot::{Alarm, AlarmKind};
pub use restored::Snap;
pub use start::{Launch, State};
pub use stored::Stored;

/// The age from which etcd counts a connection (etcd's `HealthInterval`, 5 s).
pub const HEALTH_INTERVAL_MS: u64 = 5000;

/// All etcd processes and data directories.
#[derive(Clone, Debug, Default)]
pub struct Etcd {
    groups: Vec<Arc<Group>>,
    /// Processes, by a name that the caller chooses: the Pod in which it runs.
    processes: BTreeMap<String, Process>,
    /// Data directories, by a name that the caller chooses: the volume they are on.
    dirs: BTreeMap<String, Dir>,
    /// The disks that do not store what is written to them, by the name of the data directory on them.
    disks: BTreeMap<String, Disk>,
    /// The sizes of the volumes of data directories in MiB, in histories in which sizes matter.
    volumes: BTreeMap<String, u64>,
    /// The number of members added after the bootstrap: each has its own id.
    added: u64,
    /// Members of 3.5 compare themselves with their peers at their start. It never changes, so it is not hashed.
    pub initial_check: bool,
    /// The operator presents the certificate of root. It follows from objects, so it is not hashed.
    operator_is_root: bool,
}

/// One cluster: all data directories with one cluster id.
#[derive(Clone, Debug)]
pub struct Group {
    id: ClusterId,
    bootstrap_conf: Conf,
    log: Vec<Entry>,
    /// What a disk has that has all committed entries.
    tip: Stored,
    leader: Option<MemberId>,
    /// The leader hands over to this member, and tries since then.
    transfer: Option<(MemberId, Instant)>,
    /// The last leader, while there is none. Learners still report it, as they take no part in elections.
    deposed: Option<MemberId>,
    /// For each member, the number of entries that the leader knows it to have stored (raft's `Match`). The leader keeps it
    /// when the member is gone. A new leader starts without it.
    matched: BTreeMap<MemberId, usize>,
    /// The members that ever stored an entry.
    stored: BTreeSet<MemberId>,
    /// Acknowledged writes of clients that are no longer in the log.
    lost: Vec<u64>,
    /// The snapshot that its first member was restored from, if it was.
    began_with: Option<Arc<Snap>>,
    /// What a disk had that had all committed entries before the last write of a client: what a storage snapshot of that moment has. It is of
    /// the path that reached a state, so it is not hashed.
    before_last_write: Option<Stored>,
}

/// A committed entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Entry {
    /// A client's write.
    Write(u64),
    /// A change of membership: the configuration from here on.
    Conf(Arc<Conf>),
}

/// A data directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dir {
    /// The cluster that it belongs to.
    pub cluster: ClusterId,
    /// The member that it belongs to.
    pub member: MemberId,
    /// What it has of the cluster's log.
    pub stored: Stored,
    /// Its database does not open.
    pub corrupt: bool,
    /// Its database opens, and holds something else than the log.
    pub differs: bool,
    /// Its member is a voter by the list, and still a learner to raft: it neither counts nor leads (etcd-io/etcd#18347).
    pub unpromoted: bool,
    /// The file of its database has reached its quota. Most of it is free, and a defragmentation gives that back.
    pub full: bool,
    /// It began with something else than its cluster.
    pub astray: bool,
}

/// An etcd process.
#[derive(Clone, Debug)]
pub struct Process {
    /// Its flags.
    pub launch: Launch,
    /// Its state.
    pub state: State,
    /// The time since which it runs.
    pub since: Instant,
    /// It is partitioned: it and its peers do not reach each other.
    pub cut: bool,
    /// It and its peers do not reach each other. Clients and the operator still reach it.
    pub isolated: bool,
    /// It takes no new entries.
    pub lags: bool,
    /// It serves clients: it has had a leader once and has published itself.
    pub serves: bool,
    /// It waits for its disk, and reports what it knew before.
    pub stuck: Option<Stuck>,
    /// It makes a hash of its data until then: it votes and stores, and answers nothing.
    pub hashes_until: Option<Instant>,
}

impl Etcd {
    /// Starts a process. [`Etcd::settle`] runs it.
    pub fn launch(&mut self, at: &str, launch: Launch, now: Instant) {
        let process = Process {
            launch,
            state: State::Starting,
            since: now,
            cut: false,
            isolated: false,
            lags: false,
            serves: false,
            stuck: None,
            hashes_until: None,
        };
        self.processes.insert(at.to_owned(), process);
    }

    /// Ends a process; its directory stays.
    pub fn stop(&mut self, at: &str) {
        self.processes.remove(at);
    }

    /// A process.
    pub fn process(&self, at: &str) -> Option<&Process> {
        self.processes.get(at)
    }

    /// A process, to change it.
    pub fn process_mut(&mut self, at: &str) -> Option<&mut Process> {
        self.processes.get_mut(at)
    }

    /// All processes, to change them.
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

    /// A data directory, to change it.
    pub fn dir_mut(&mut self, at: &str) -> Option<&mut Dir> {
        self.dirs.get_mut(at)
    }

    /// Empties a data directory.
    pub fn wipe(&mut self, at: &str) {
        self.dirs.remove(at);
    }

    /// The names of the data directories.
    pub fn dirs(&self) -> impl Iterator<Item = &str> {
        self.dirs.keys().map(String::as_str)
    }

    /// Hashes the model. The hash is the same for two models that behave the same from here on. Of a time it takes only what has
    /// an effect.
    pub fn fingerprint(&self, now: Instant, hasher: &mut impl Hasher) {
        for group in self.groups() {
            let Group {
                id,
                bootstrap_conf,
                log,
                tip,
                leader,
                transfer,
                deposed,
                matched,
                stored,
                lost,
                began_with,
                before_last_write: _,
            } = group;
            (id, bootstrap_conf, log, leader, deposed, matched, stored, lost, began_with).hash(hasher);
            transfer.map(|(to, _)| to).hash(hasher);
            tip.hash_beside(tip, hasher);
        }
        for (at, Dir { cluster, member, stored, corrupt, differs, unpromoted, full, astray }) in &self.dirs {
            (at, cluster, member, corrupt, differs, unpromoted, full, astray).hash(hasher);
            match self.group(*cluster) {
                Some(group) => stored.hash_beside(&group.tip, hasher),
                None => stored.len.hash(hasher),
            }
        }
        self.disks.hash(hasher);
        for (at, process) in &self.processes {
            let Process { launch, state, since, cut, isolated, lags, serves, stuck, hashes_until } = process;
            let age = if *state == State::Running { (now - *since).0.min(HEALTH_INTERVAL_MS) } else { 0 };
            (at, launch, state, age, cut, isolated, lags, serves).hash(hasher);
            stuck.as_ref().map(|stuck| (stuck.leader, stuck.ahead)).hash(hasher);
            hashes_until.is_some().hash(hasher);
        }
    }

    /// Replaces the data of a process by those of another cluster of one member, and starts the process again. Returns the id
    /// of that cluster.
    pub fn swap(&mut self, at: &str, now: Instant) -> Option<ClusterId> {
        let launch = self.process(at)?.launch.clone();
        let token = format!("another cluster's {}", launch.dir);
        let own = (launch.name.clone(), launch.url.clone());
        let other = Launch { peers: vec![own], new: true, token, ..launch.clone() };
        let id = other.bootstrap_cluster_id();
        self.wipe(&launch.dir);
        self.launch(at, other, now);
        Some(id)
    }

    /// All clusters that ever existed.
    pub fn groups(&self) -> impl Iterator<Item = &Group> {
        self.groups.iter().map(AsRef::as_ref)
    }

    /// The cluster with this id.
    pub fn group(&self, id: ClusterId) -> Option<&Group> {
        self.groups().find(|group| group.id == id)
    }

    fn group_mut(&mut self, id: ClusterId) -> Option<&mut Group> {
        self.groups.iter_mut().find(|group| group.id == id).map(Arc::make_mut)
    }

    /// The directory of a process, if it exists.
    pub fn dir_of(&self, process: &Process) -> Option<&Dir> {
        self.dirs.get(&process.launch.dir)
    }

    /// Whether a client that is connected to this member, and to no other, can read and write: it answers, it votes, and it is in touch
    /// with a leader that commits.
    pub fn serves_client_at(&self, at: &str) -> bool {
        self.consenting(at).is_ok()
    }

    /// The processes of a cluster that run and that their peers reach, with their directories.
    fn up(&self, cluster: ClusterId) -> impl Iterator<Item = (&String, &Process, &Dir)> {
        self.processes
            .iter()
            .filter(|(_, process)| process.state == State::Running && !process.cut && !process.isolated)
            .filter_map(|(at, process)| Some((at, process, self.dir_of(process)?)))
            .filter(move |(_, _, dir)| dir.cluster == cluster)
    }
}

impl Group {
    /// Its cluster id.
    pub fn id(&self) -> ClusterId {
        self.id
    }

    /// The leader.
    pub fn leader(&self) -> Option<MemberId> {
        self.leader
    }

    /// The number of entries that the leader knows a member to have stored; `None` before the member's first reply.
    pub fn matched(&self, member: MemberId) -> Option<usize> {
        self.matched.get(&member).copied()
    }

    /// The committed entries.
    pub fn log(&self) -> &[Entry] {
        &self.log
    }

    /// The configuration after this many entries.
    pub fn conf_at(&self, len: usize) -> &Conf {
        let entries = self.log.get(..len).unwrap_or(&self.log);
        let last = entries.iter().rev().find_map(|entry| match entry {
            Entry::Conf(conf) => Some(conf.as_ref()),
            Entry::Write(_) => None,
        });
        last.unwrap_or(&self.bootstrap_conf)
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

    /// The revision that a member has which has all committed entries.
    pub fn revision(&self) -> i64 {
        let writes = i64::try_from(self.writes().count()).unwrap_or(i64::MAX);
        writes + self.began_with.as_ref().map_or(1, |snap| snap.revision)
    }

    /// Whether its log has a client's write or a change of membership. Before that, a voter that loses its data loses nothing
    /// that anybody has read.
    pub fn matters(&self) -> bool {
        let conf = self.conf();
        self.writes().next().is_some()
            || !conf.removed.is_empty()
            || conf.members.len() != self.bootstrap_conf.members.len()
    }

    /// What a disk has that has all committed entries.
    pub fn tip(&self) -> &Stored {
        &self.tip
    }

    /// A new leader does not know yet what the others have stored. It begins a term with an entry of its own.
    fn lead(&mut self, leader: Option<MemberId>) {
        if self.leader != leader {
            self.matched.clear();
            self.deposed = if leader.is_none() { self.leader } else { None };
            self.transfer = None;
            if leader.is_some() {
                self.tip.term += 1;
                self.tip.without_effect += 1;
            }
        }
        self.leader = leader;
    }

    /// Whether a member ever stored an entry.
    pub fn has_stored(&self, member: MemberId) -> bool {
        self.stored.contains(&member)
    }

    /// Acknowledged writes that are no longer in the log.
    pub fn lost(&self) -> &[u64] {
        &self.lost
    }
}

/// The version in an image reference: `registry/etcd:v3.6.16`.
pub fn version_of_image(image: &str) -> Option<Version> {
    image.rsplit(':').next()?.parse().ok()
}
