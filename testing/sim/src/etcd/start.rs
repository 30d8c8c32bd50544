//! The start of an etcd process (etcd's `bootstrap.go`): it resumes its data, bootstraps a cluster, or joins one.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use quorate_model::{ClusterId, Instant, MemberId, Minor, PeerUrl, Version};
use serde_json::json;

use super::{Conf, Dir, Disk, Etcd, Group, Stored};

/// The flags and the data directory of a process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Launch {
    /// `--name`
    pub name: String,
    /// `--initial-advertise-peer-urls`
    pub url: PeerUrl,
    /// `--initial-cluster`
    pub peers: Vec<(String, PeerUrl)>,
    /// `--initial-cluster-state=new`
    pub new: bool,
    /// `--initial-cluster-token`
    pub token: String,
    /// The name of its data directory.
    pub dir: String,
    /// The etcd version.
    pub version: Version,
}

/// The state of a process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// It reads its data and asks its peers.
    Starting,
    /// It is a running member.
    Running,
    /// It ended, with this message.
    Ended(String),
}

impl Launch {
    /// The id of the cluster that it would bootstrap.
    pub fn bootstrap_cluster_id(&self) -> ClusterId {
        let members: BTreeSet<MemberId> =
            self.peers.iter().map(|(_, url)| bootstrap_member_id(url, &self.token)).collect();
        cluster_id(members.iter())
    }
}

impl Etcd {
    /// Every process that is starting runs or ends. Returns whether there was one.
    pub(super) fn start_processes(&mut self, now: Instant) -> bool {
        let starting = |(at, process): (&String, &super::Process)| {
            let waits = process.cut || process.isolated || self.disk(&process.launch.dir) == Disk::Hung;
            (process.state == State::Starting && !waits).then(|| at.clone())
        };
        let starting: Vec<String> = self.processes.iter().filter_map(starting).collect();
        for at in &starting {
            let launch = self.processes[at].launch.clone();
            let state = match self.start(&launch) {
                Ok(()) => State::Running,
                Err(why) => State::Ended(why),
            };
            if let Some(process) = self.processes.get_mut(at) {
                (process.state, process.since) = (state, now);
            }
        }
        !starting.is_empty()
    }

    fn start(&mut self, launch: &Launch) -> Result<(), String> {
        match self.disk(&launch.dir) {
            Disk::Full => return Err("no space left on device".to_owned()),
            Disk::ReadOnly => return Err("read-only file system".to_owned()),
            Disk::Works | Disk::Hung | Disk::Slow => {}
        }
        if let Some(dir) = self.dirs.get(&launch.dir) {
            if Self::is_too_old(launch.version, &dir.stored) {
                return Err(
                    "cluster cannot be downgraded: the binary is older than the cluster version".to_owned()
                );
            }
            if dir.corrupt {
                return Err("the database does not open".to_owned());
            }
            return self.check_at_start(launch, dir);
        }
        let Some((_, listed)) = launch.peers.iter().find(|(name, _)| *name == launch.name) else {
            return Err(format!("couldn't find local name {} in the initial cluster", launch.name));
        };
        if !launch.new {
            return self.join(launch, listed);
        }
        if *listed != launch.url {
            return Err(format!("--initial-cluster has {} with other URLs", launch.name));
        }
        self.bootstrap(launch)
    }

    /// `InitialCheck` of 3.5: a member ends where a peer that serves has another hash at its own revision, whichever of them is wrong. One
    /// that is behind that revision is not compared. (What a member knows of its peers is kinder here than in etcd, where it may compare
    /// nothing before its first snapshot.)
    fn check_at_start(&self, launch: &Launch, own: &Dir) -> Result<(), String> {
        if !self.initial_check || launch.version.line() != Minor(3, 5) {
            return Ok(());
        }
        let peers = self
            .processes
            .values()
            .filter(|process| process.state == State::Running && !process.cut && process.stuck.is_none());
        let mut peers = peers.filter_map(|process| self.dir_of(process));
        let is_other = |peer: &&Dir| peer.cluster == own.cluster && peer.member != own.member;
        // Of data that differ each has a hash of its own.
        let differs = |peer: &Dir| peer.stored.len >= own.stored.len && (peer.differs || own.differs);
        match peers.find(|peer| is_other(peer) && differs(peer)) {
            None => Ok(()),
            Some(_) => Err(json!({
                "level": "fatal",
                "msg": "discovery failed",
                "error": format!("{:x} found data inconsistency with peers", own.member.0),
            })
            .to_string()),
        }
    }

    fn bootstrap(&mut self, launch: &Launch) -> Result<(), String> {
        let members = Self::bootstrap_members(launch);
        let own = bootstrap_member_id(&launch.url, &launch.token);
        // `isMemberBootstrapped`: the reply of the first peer that answers counts.
        let known = self
            .peer_conf(launch)
            .is_some_and(|(_, conf)| conf.members.get(&own).is_some_and(|peer| peer.started));
        if known {
            return Err(format!("member {} has already been bootstrapped", launch.name));
        }
        let id = launch.bootstrap_cluster_id();
        let bootstrap_conf = Conf { members, ..Conf::default() };
        if self.group(id).is_none() {
            let group = Group {
                id,
                bootstrap_conf,
                log: Vec::new(),
                tip: Stored { cluster_version: Some(launch.version.line()), ..Stored::default() },
                transfer: None,
                leader: None,
                deposed: None,
                matched: BTreeMap::new(),
                stored: BTreeSet::new(),
                lost: Vec::new(),
                began_with: None,
                before_last_write: None,
            };
            self.groups.push(Arc::new(group));
        }
        let astray = self.group(id).is_some_and(|group| group.began_with.is_some());
        self.dirs.insert(launch.dir.clone(), Dir { astray, ..Dir::empty(id, own) });
        Ok(())
    }

    /// Joins as the member with the listed URL. etcd does not compare it with the URL that the process advertises.
    fn join(&mut self, launch: &Launch, listed: &PeerUrl) -> Result<(), String> {
        let Some((cluster, conf)) = self.peer_conf(launch) else {
            return Err("could not retrieve cluster information from the given URLs".to_owned());
        };
        if conf.members.len() != launch.peers.len() {
            return Err("member count is unequal".to_owned());
        }
        let unmatched = |(_, url): &&(String, PeerUrl)| conf.by_url(url).is_none();
        if let Some((name, _)) = launch.peers.iter().find(unmatched) {
            return Err(format!("unmatched member while checking PeerURLs: {name}"));
        }
        let member = conf.by_url(listed).ok_or("the member is not in the cluster")?;
        if self.group(cluster).is_some_and(|group| Self::is_too_old(launch.version, &group.tip)) {
            return Err("incompatible with current running cluster".to_owned());
        }
        self.dirs.insert(launch.dir.clone(), Dir::empty(cluster, member));
        Ok(())
    }

    /// The cluster and the configuration of the first listed peer that answers.
    fn peer_conf(&self, launch: &Launch) -> Option<(ClusterId, Conf)> {
        let mut others: Vec<&PeerUrl> =
            launch.peers.iter().filter(|(name, _)| *name != launch.name).map(|(_, url)| url).collect();
        others.sort_by_key(|url| url.as_str());
        others.into_iter().find_map(|url| {
            let runs = |process: &&super::Process| {
                process.launch.url == *url
                    && process.state == State::Running
                    && !process.cut
                    && !process.isolated
            };
            let dir = self.dir_of(self.processes.values().find(runs)?)?;
            let group = self.group(dir.cluster)?;
            // A member that is joining itself has no configuration yet.
            let knows = dir.stored.len > 0 || group.bootstrap_conf.members.contains_key(&dir.member);
            knows.then(|| (dir.cluster, group.conf_at(dir.stored.len).clone()))
        })
    }
}

/// The id of a bootstrap member: derived from its URL and the token, as in etcd.
pub(super) fn bootstrap_member_id(url: &PeerUrl, token: &str) -> MemberId {
    MemberId(hash(&(url.as_str(), token)))
}

fn cluster_id<'a>(members: impl Iterator<Item = &'a MemberId>) -> ClusterId {
    ClusterId(hash(&members.map(|id| id.0).collect::<Vec<_>>()))
}

/// The same in every run: `DefaultHasher::new` has fixed keys.
pub(super) fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
