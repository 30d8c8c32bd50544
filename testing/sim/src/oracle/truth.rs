//! What was true when the operator observed.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

use quorate_api::keys;
use quorate_apistore::fields::{annotation, label, name, uid};
use quorate_manifests::Kind;
use quorate_model::{ClusterId, Instant, MemberId, MemberName};

use crate::etcd::{Conf, Group, State};
use crate::world::World;

/// What was true when the operator observed.
#[derive(Clone, Debug, Default)]
pub struct Truth {
    /// The configuration of the cluster whose id status records, as a quorum has it.
    pub(super) conf: Option<Conf>,
    /// Its voters that run and are in touch with the leader.
    pub(super) healthy: BTreeSet<MemberId>,
    /// The ids of all clusters whose members answer, except in Pods of an abandoned attempt.
    pub(super) answering: BTreeSet<ClusterId>,
    /// The member that runs in each Pod.
    pub(super) members: BTreeMap<String, MemberId>,
    /// The time.
    pub(super) now: Instant,
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
                not_joined && record.attempt > 0 && !record.members.contains_key(&MemberName::new(name(pod)))
            })
            .map(|pod| uid(pod).to_owned())
            .collect();
        let group = recorded.and_then(|id| world.etcd.group(id));
        let runs = world.etcd.processes().filter(|(_, process)| process.state == State::Running);
        let members: BTreeMap<String, MemberId> = runs
            .filter_map(|(at, process)| Some((at.to_owned(), world.etcd.dir_of(process)?.member)))
            .collect();
        let statuses = world.etcd.processes().filter_map(|(at, _)| Some((at, world.etcd.status(at).ok()?)));
        let (mut healthy, mut answering) = (BTreeSet::new(), BTreeSet::new());
        for (at, status) in statuses {
            if !strays.contains(at) {
                answering.insert(status.cluster_id);
            }
            if Some(status.cluster_id) == recorded && status.errors.is_empty() {
                healthy.insert(status.member_id);
            }
        }
        Self { conf: group.map(Group::conf).cloned(), healthy, answering, members, now: world.now }
    }
}

impl Hash for Truth {
    /// The time does not count.
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        (&self.conf, &self.healthy, &self.answering, &self.members).hash(hasher);
    }
}
