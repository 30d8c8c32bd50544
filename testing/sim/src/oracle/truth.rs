//! What is true at a moment.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use quorate_api::keys;
use quorate_apistore::fields::{annotation, deleting, label, name, text, uid};
use quorate_manifests::Kind;
use quorate_model::{ClusterId, Instant, MemberId, MemberName, Minor};

use serde_json::Value;

use crate::etcd::{AlarmKind, Conf, Dir, Group, State};
use crate::world::World;
use crate::world::kubelet::claim_of;

/// What is true at a moment.
#[derive(Clone, Debug, Default)]
pub struct Truth {
    /// The configuration of the cluster whose id status records, as a quorum has it.
    pub(super) conf: Option<Conf>,
    /// The members, of any cluster, that run, serve, whose disks store what is committed and nothing else, and that raft
    /// counts.
    pub(super) healthy: BTreeSet<MemberId>,
    /// Those that an alarm names, or that take no new entries until the quorum needs them. They store what is committed, and
    /// may be removed before others.
    pub(super) at_fault: BTreeSet<MemberId>,
    /// The ids of all clusters whose members answer, except in Pods of an abandoned attempt.
    pub(super) answering: BTreeSet<ClusterId>,
    /// The members that have every committed entry, also those whose disks hang since.
    pub(super) up_to_date: BTreeSet<MemberId>,
    /// The members whose claims are being deleted.
    pub(super) claims_going: BTreeSet<MemberId>,
    /// The member that runs in each Pod.
    pub(super) members: BTreeMap<String, MemberId>,
    /// The Pods whose end ends their claim, which is being deleted, and the voter whose data are on it.
    pub(super) last_users: BTreeMap<String, MemberId>,
    /// The members whose data are on a volume that exists and can be used.
    pub(super) intact: BTreeSet<MemberId>,
    /// The time.
    pub(super) now: Instant,
    /// The time that the operator's clock shows.
    pub(super) shown: Instant,
    /// The minor versions that voters run.
    pub(super) lines: BTreeSet<Minor>,
    /// The members whose databases have reached their quota.
    pub(super) full: BTreeSet<MemberId>,
    /// An alarm says that data differ.
    pub(super) differs: bool,
    /// The members that the alarms CORRUPT name; 0 for one that names nobody.
    pub(super) corrupt_alarms: BTreeSet<MemberId>,
    /// The members whose data differ from the log.
    pub(super) wrong: BTreeSet<MemberId>,
    /// etcd compacts its history by itself, as the spec says.
    pub(super) compacts: bool,
}

impl Truth {
    /// What is true now.
    pub fn of(world: &World) -> Self {
        let record = world.record();
        let recorded = record.cluster_id;
        // Members are recorded before their Pods are created, and Pods that serve are labelled joined. A Pod with neither belongs
        // to an abandoned attempt.
        let strays: BTreeSet<String> = world
            .objects(Kind::Pod)
            .iter()
            .filter(|pod| {
                let not_joined = annotation(pod, keys::JOINED).or(label(pod, keys::JOINED)).is_none();
                let member = MemberName::new(name(pod));
                let is_superseded =
                    world.at.ordinal(&member).is_some_and(|own| record.is_of_earlier_incarnation(own));
                is_superseded || (not_joined && record.attempt > 0 && !record.members.contains_key(&member))
            })
            .map(|pod| uid(pod).to_owned())
            .collect();
        // A Pod that is being deleted is as good as gone, though its etcd may serve for a while.
        let pods = world.objects(Kind::Pod);
        let doomed: BTreeSet<&str> = pods.iter().filter(|pod| deleting(pod)).map(|pod| uid(pod)).collect();
        let group = recorded.and_then(|id| world.etcd.group(id));
        let runs = world.etcd.processes().filter(|(_, process)| process.state == State::Running);
        let members: BTreeMap<String, MemberId> = runs
            .filter_map(|(at, process)| Some((at.to_owned(), world.etcd.dir_of(process)?.member)))
            .collect();
        let answers = world.etcd.processes().filter_map(|(at, _)| Some((at, world.etcd.answering(at)?)));
        let (mut healthy, mut answering, mut up_to_date) =
            (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for (at, dir) in answers {
            if !strays.contains(at) {
                answering.insert(dir.cluster);
            }
            if world.etcd.is_stored_by(at) && !dir.unpromoted && !doomed.contains(at) {
                healthy.insert(dir.member);
            }
            if world.etcd.has_all(at) && !dir.unpromoted && !doomed.contains(at) && !strays.contains(at) {
                up_to_date.insert(dir.member);
            }
        }
        let alarms = world.etcd.groups().flat_map(|group| &group.tip().alarms);
        let lagging = world.etcd.processes().filter(|(_, process)| process.lags);
        let lagging = lagging.filter_map(|(_, process)| Some(world.etcd.dir_of(process)?.member));
        let at_fault = alarms.map(|alarm| alarm.member).chain(lagging).collect();
        let never_mounted = |member: &str| {
            world.faults.empty_mounts.contains(member) && world.faults.for_good.contains(member)
        };
        let usable =
            |volume: &&Arc<Value>| !world.faults.gone.contains(name(volume)) && !never_mounted(name(volume));
        let volumes = world.objects(Kind::Volume);
        let has_room = |volume: &&Arc<Value>| !world.etcd.lacks_room(uid(volume));
        let usable = volumes.iter().filter(usable).filter(has_room);
        let dirs = usable.filter_map(|volume| world.etcd.dir(uid(volume)));
        let intact = dirs.filter(|dir| !dir.corrupt && !dir.differs).map(|dir| dir.member).collect();
        // Without a status the disks and etcd's configuration still say whose data they are.
        let is_voter_with_data = |dir: &Dir| {
            let group = world.etcd.group(dir.cluster);
            let of_this = |group: &&Group| {
                recorded.map_or_else(|| group.writes().next().is_some(), |recorded| recorded == dir.cluster)
            };
            group.filter(of_this).is_some_and(|group| group.conf().is_voter(dir.member))
        };
        let ended = |object: &Value| text(object, "/metadata/deletionTimestamp").to_owned();
        let cluster = world.object(Kind::Cluster, &world.at.name);
        // Who deletes a claim after the EtcdCluster gives its data up.
        let is_given_up = |claim: &Value| {
            cluster.as_ref().is_some_and(|cluster| deleting(cluster) && ended(claim) >= ended(cluster))
        };
        let data_of = |pod: &Arc<Value>| {
            let claim = world.object(Kind::Volume, claim_of(pod)?);
            let claim = claim.filter(|claim| deleting(claim) && !is_given_up(claim))?;
            let dir = world.etcd.dir(uid(&claim)).filter(|dir| is_voter_with_data(dir))?;
            Some((uid(pod).to_owned(), dir.member))
        };
        // R21: those are not restarted with another version, whatever the others run.
        let last_users: BTreeMap<String, MemberId> =
            pods.iter().filter(|pod| !deleting(pod)).filter_map(data_of).collect();
        let going = volumes.iter().filter(|volume| deleting(volume));
        let claims_going = going.filter_map(|volume| Some(world.etcd.dir(uid(volume))?.member)).collect();
        let dirs = world.etcd.dirs().filter_map(|at| world.etcd.dir(at));
        let full =
            dirs.filter(|dir| dir.full && Some(dir.cluster) == recorded).map(|dir| dir.member).collect();
        let alarms = group.into_iter().flat_map(|group| &group.tip().alarms);
        let corrupt = alarms.filter(|alarm| alarm.kind == AlarmKind::Corrupt);
        let corrupt_alarms: BTreeSet<MemberId> = corrupt.map(|alarm| alarm.member).collect();
        let dirs = world.etcd.dirs().filter_map(|at| world.etcd.dir(at));
        // A Pod that a dead node keeps ends when the node is back, and etcd compares the data before the next one serves.
        let kept = pods.iter().filter(|pod| deleting(pod)).filter_map(|pod| members.get(uid(pod)));
        let kept: BTreeSet<MemberId> = kept.copied().collect();
        let wrong = dirs
            .filter(|dir| dir.differs && Some(dir.cluster) == recorded && !kept.contains(&dir.member))
            .map(|dir| dir.member)
            .collect();
        let compacts = cluster
            .as_ref()
            .is_some_and(|object| object["spec"]["etcd"]["autoCompactionRetention"].is_string());
        let conf = group.map(Group::conf).cloned();
        let voters = world.etcd.processes().filter(|(at, _)| {
            let votes = |id: &MemberId| conf.as_ref().is_some_and(|conf| conf.is_voter(*id));
            members.get(*at).is_some_and(votes) && !last_users.contains_key(*at)
        });
        // The version of an image without one in its tag is not known.
        let lines =
            voters.map(|(_, process)| process.launch.version.line()).filter(|line| line.0 > 0).collect();
        Self {
            last_users,
            claims_going,
            up_to_date,
            intact,
            conf,
            healthy,
            at_fault,
            answering,
            members,
            now: world.now,
            shown: world.operators_time(),
            lines,
            full,
            differs: !corrupt_alarms.is_empty(),
            corrupt_alarms,
            wrong,
            compacts,
        }
    }

    /// Whether without this alarm CORRUPT nothing would keep clients from a voter whose data differ from the log.
    pub(super) fn is_last_alarm_of_wrong_data(&self, named: MemberId) -> bool {
        let is_last = self.corrupt_alarms.iter().all(|member| *member == named);
        is_last && self.wrong.iter().any(|member| self.is_voter(*member))
    }

    /// Whether this member is healthy.
    pub fn is_healthy(&self, member: MemberId) -> bool {
        self.healthy.contains(&member)
    }

    /// Whether this member is a voter of the cluster whose id status records.
    pub fn is_voter(&self, member: MemberId) -> bool {
        self.conf.as_ref().is_some_and(|conf| conf.is_voter(member))
    }

    /// Whether this member is healthy, and nothing speaks for its removal.
    pub(super) fn is_free_of_faults(&self, member: MemberId) -> bool {
        self.is_healthy(member) && !self.at_fault.contains(&member)
    }

    /// How many healthy voters are left without the one in this Pod, if it is healthy and the others are too few. Clusters of one and
    /// two members have no spare voter.
    pub fn left_without(&self, pod: &str) -> Option<usize> {
        let (id, conf) = (self.members.get(pod)?, self.conf.as_ref()?);
        if !self.healthy.contains(id) || !conf.is_voter(*id) || conf.voters().count() <= 2 {
            return None;
        }
        let left = conf.voters().filter(|other| other != id && self.healthy.contains(other)).count();
        (left < conf.quorum()).then_some(left)
    }
}

impl Hash for Truth {
    /// The time does not count.
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        (&self.conf, &self.healthy, &self.at_fault, &self.answering, &self.members, &self.intact)
            .hash(hasher);
        (&self.lines, &self.last_users).hash(hasher);
        (&self.full, self.differs, self.compacts, &self.corrupt_alarms, &self.wrong).hash(hasher);
    }
}
