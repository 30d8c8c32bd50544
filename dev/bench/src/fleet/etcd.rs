//! What members answer. Not etcd, and not the simulation's model of it: the smallest state from which every answer to the operator is that
//! of a cluster whose clients write. Membership does not change here.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Where a cluster is: its namespace and its name.
pub type Key = (String, String);

/// All clusters.
#[derive(Clone)]
pub struct Etcds(Arc<Inner>);

struct Inner {
    /// How many keys the clients of a cluster write in a second.
    writes: f64,
    all: Mutex<HashMap<Key, Shared>>,
    /// How often a Status was asked for.
    asked: Arc<AtomicU64>,
}

/// One cluster, as all its members know it.
pub type Shared = Arc<Mutex<Etcd>>;

/// One cluster.
pub struct Etcd {
    pub id: u64,
    pub leader: Option<u64>,
    pub term: u64,
    pub members: BTreeMap<String, Member>,
    /// Entries other than those of clients.
    entries: u64,
    since: Instant,
    writes: f64,
    asked: Arc<AtomicU64>,
}

/// One member.
pub struct Member {
    pub id: u64,
    pub peer_url: String,
    pub client_url: String,
    pub version: String,
    /// Whether its process runs.
    pub runs: bool,
    /// It runs, and nobody reaches it.
    pub cut: bool,
    /// When its Status was asked for last.
    pub asked: Option<Instant>,
}

/// What the arguments of a Pod say about its member.
pub struct Launch {
    pub token: String,
    pub version: String,
    /// The peer URLs of all members, by name.
    pub peers: BTreeMap<String, String>,
}

impl Etcds {
    /// None yet.
    pub fn new(writes: f64) -> Self {
        Self(Arc::new(Inner { writes, all: Mutex::default(), asked: Arc::default() }))
    }

    /// The cluster of a member that is started.
    pub fn of(&self, key: &Key, launch: &Launch) -> Shared {
        let mut all = lock(&self.0.all);
        all.entry(key.clone())
            .or_insert_with(|| Arc::new(Mutex::new(Etcd::new(launch, self.0.writes, self.0.asked.clone()))))
            .clone()
    }

    /// A cluster, if it was started.
    pub fn get(&self, key: &Key) -> Option<Shared> {
        lock(&self.0.all).get(key).cloned()
    }

    /// How often a Status was asked for.
    pub fn asked(&self) -> u64 {
        self.0.asked.load(Ordering::Relaxed)
    }

    /// How many clusters have a member that runs, can be reached, and was not asked for its Status since then.
    pub fn unobserved(&self, since: Instant) -> usize {
        let all: Vec<Shared> = lock(&self.0.all).values().cloned().collect();
        let is_unobserved = |etcd: &Shared| {
            let etcd = lock(etcd);
            let mut running = etcd.members.values().filter(|member| member.runs && !member.cut);
            running.any(|member| member.asked.is_none_or(|asked| asked < since))
        };
        all.iter().filter(|etcd| is_unobserved(etcd)).count()
    }
}

impl Etcd {
    fn new(launch: &Launch, writes: f64, asked: Arc<AtomicU64>) -> Self {
        let members = launch.peers.iter().map(|(name, url)| {
            let member = Member {
                id: number(&(&launch.token, name)),
                peer_url: url.clone(),
                client_url: url.replace(":2380", ":2379"),
                version: launch.version.clone(),
                runs: false,
                cut: false,
                asked: None,
            };
            (name.clone(), member)
        });
        let members: BTreeMap<String, Member> = members.collect();
        let entries = members.len() as u64;
        Self {
            id: number(&launch.token),
            leader: None,
            term: 1,
            members,
            entries,
            since: Instant::now(),
            writes,
            asked,
        }
    }

    /// The process of a member starts, in this version.
    pub fn start(&mut self, name: &str, version: &str) {
        if let Some(member) = self.members.get_mut(name) {
            member.runs = true;
            version.clone_into(&mut member.version);
        }
        self.elect();
    }

    /// It ends.
    pub fn stop(&mut self, name: &str) {
        if let Some(member) = self.members.get_mut(name) {
            member.runs = false;
        }
        self.elect();
    }

    /// Whether a quorum runs.
    pub fn has_quorum(&self) -> bool {
        let running = self.members.values().filter(|member| member.runs && !member.cut).count();
        running * 2 > self.members.len()
    }

    /// Elects a leader if there is none and may be one; without a quorum there is none.
    pub fn elect(&mut self) {
        let leads = |id: u64| self.members.values().any(|one| one.id == id && one.runs && !one.cut);
        if !self.has_quorum() {
            self.leader = None;
        } else if !self.leader.is_some_and(leads) {
            self.leader = self.members.values().find(|one| one.runs && !one.cut).map(|one| one.id);
            self.term += 1;
            self.entries += 1;
        }
    }

    /// The leader gives way to another member, if that runs.
    pub fn move_leader(&mut self, to: u64) -> bool {
        let runs = self.members.values().any(|one| one.id == to && one.runs && !one.cut);
        if runs {
            self.leader = Some(to);
            self.term += 1;
            self.entries += 1;
        }
        runs
    }

    /// A member is asked for its Status.
    pub fn note_asked(&mut self, name: &str) {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if let Some(member) = self.members.get_mut(name) {
            member.asked = Some(Instant::now());
        }
    }

    /// One more entry.
    pub fn append(&mut self) {
        self.entries += 1;
    }

    /// The number of writes of clients so far.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small and positive")]
    pub fn revision(&self) -> u64 {
        1 + (self.since.elapsed().as_secs_f64() * self.writes) as u64
    }

    /// The committed index.
    pub fn index(&self) -> u64 {
        self.entries + self.revision()
    }

    /// The hash of the keys at a revision: equal at all members.
    pub fn hash(&self, revision: u64) -> u32 {
        number(&(self.id, revision)).to_be_bytes()[..4]
            .iter()
            .fold(0, |hash, byte| hash << 8 | u32::from(*byte))
    }
}

/// Locks, also what a panic has left.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A number of its own, not 0.
fn number(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish() | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn etcd() -> Etcd {
        let peers = ["a", "b", "c"].map(|name| (name.to_owned(), format!("https://{name}:2380")));
        let launch = Launch { token: "t".to_owned(), version: "3.6.16".to_owned(), peers: peers.into() };
        Etcd::new(&launch, 0.0, Arc::default())
    }

    #[test]
    fn a_quorum_that_runs_has_a_leader_and_loses_it_with_its_process() {
        let mut etcd = etcd();
        etcd.start("a", "3.6.16");
        assert_eq!(etcd.leader, None);
        etcd.start("b", "3.6.16");
        let (first, index) = (etcd.leader, etcd.index());
        assert_eq!(first, Some(etcd.members["a"].id));
        etcd.start("c", "3.6.16");
        assert_eq!((etcd.leader, etcd.index()), (first, index), "nobody is elected where there is a leader");
        etcd.stop("a");
        assert_eq!(etcd.leader, Some(etcd.members["b"].id));
        assert_eq!(etcd.index(), index + 1, "an election is an entry");
        etcd.members.get_mut("b").unwrap().cut = true;
        etcd.elect();
        assert_eq!(etcd.leader, None);
    }

    #[test]
    fn leadership_moves_to_who_runs() {
        let mut etcd = etcd();
        for name in ["a", "b"] {
            etcd.start(name, "3.6.16");
        }
        let [b, c] = ["b", "c"].map(|name| etcd.members[name].id);
        assert!(etcd.move_leader(b) && !etcd.move_leader(c));
        assert_eq!(etcd.leader, Some(b));
    }
}
