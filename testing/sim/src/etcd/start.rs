//! What an etcd process does when it starts (etcd's `bootstrap.go`): resume its data, found a cluster, or join one.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use quorate_model::{ClusterId, Instant, MemberId, PeerUrl, Version};

use super::{Conf, Dir, Etcd, Group, Peer};

/// What a process is started with.
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
    /// What names its data directory.
    pub dir: String,
    /// The release.
    pub version: Version,
}

/// What became of a process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// It looks at its data and asks its peers.
    Starting,
    /// It takes part.
    Running,
    /// It ended, with its last words.
    Ended(String),
}

impl Launch {
    /// The id of the cluster that it founds, if it founds one.
    pub fn founds(&self) -> ClusterId {
        let members: BTreeSet<MemberId> =
            self.peers.iter().map(|(_, url)| founding_id(url, &self.token)).collect();
        cluster_id(members.iter())
    }
}

impl Etcd {
    /// Every process that is starting takes its decision. Whether any did.
    pub(super) fn start_processes(&mut self, now: Instant) -> bool {
        let starting = |(at, process): (&String, &super::Process)| {
            (process.state == State::Starting && !process.cut).then(|| at.clone())
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
        if let Some(dir) = self.dirs.get(&launch.dir) {
            return if dir.corrupt { Err("the database does not open".to_owned()) } else { Ok(()) };
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
        self.found(launch)
    }

    fn found(&mut self, launch: &Launch) -> Result<(), String> {
        let members: BTreeMap<MemberId, Peer> = launch
            .peers
            .iter()
            .map(|(_, url)| {
                let peer = Peer { url: url.clone(), name: String::new(), is_learner: false, started: false };
                (founding_id(url, &launch.token), peer)
            })
            .collect();
        let own = founding_id(&launch.url, &launch.token);
        // `isMemberBootstrapped`: the first peer that answers is believed.
        let known = self
            .peer_conf(launch)
            .is_some_and(|(_, conf)| conf.members.get(&own).is_some_and(|peer| peer.started));
        if known {
            return Err(format!("member {} has already been bootstrapped", launch.name));
        }
        let id = launch.founds();
        let founders = Conf { members, ..Conf::default() };
        if self.group(id).is_none() {
            let group = Group {
                id,
                founders,
                log: Vec::new(),
                leader: None,
                deposed: None,
                matched: BTreeMap::new(),
                stored: BTreeSet::new(),
                lost: Vec::new(),
            };
            self.groups.push(Arc::new(group));
        }
        self.dirs.insert(launch.dir.clone(), Dir { cluster: id, member: own, len: 0, corrupt: false });
        Ok(())
    }

    /// Joins as the member of that URL: what the process itself advertises is not looked at.
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
        self.dirs.insert(launch.dir.clone(), Dir { cluster, member, len: 0, corrupt: false });
        Ok(())
    }

    /// What the first of the named peers that answers believes.
    fn peer_conf(&self, launch: &Launch) -> Option<(ClusterId, Conf)> {
        let mut others: Vec<&PeerUrl> =
            launch.peers.iter().filter(|(name, _)| *name != launch.name).map(|(_, url)| url).collect();
        others.sort_by_key(|url| url.as_str());
        others.into_iter().find_map(|url| {
            let runs = |process: &&super::Process| {
                process.launch.url == *url && process.state == State::Running && !process.cut
            };
            let dir = self.dir_of(self.processes.values().find(runs)?)?;
            let group = self.group(dir.cluster)?;
            // One that is itself about to join knows nothing yet.
            let knows = dir.len > 0 || group.founders.members.contains_key(&dir.member);
            knows.then(|| (dir.cluster, group.conf_at(dir.len).clone()))
        })
    }
}

/// Derived from URL and token, as etcd does it.
pub(super) fn founding_id(url: &PeerUrl, token: &str) -> MemberId {
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
