//! Kubernetes' own etcd is restored from an earlier moment, and its revisions are not raised. etcd's processes, the disks and the nodes are as they
//! are.

use std::collections::BTreeSet;

use quorate_apistore::fields::{deleting, name, uid};
use quorate_manifests::Kind;
use quorate_model::target::Medium;
use quorate_model::{MemberName, Record};

use crate::fingerprint::Hashed;
use crate::world::World;
use crate::world::objects::Parsed;
use crate::world::operator::Operator;
use crate::world::wire::RequestOutcome;

impl World {
    /// All objects become those of so many changes ago. `false` if nothing would be left then that says which cluster it is, or if more than
    /// membership went back: the version, the certificate authorities, auth, the incarnation.
    pub(super) fn store_goes_back(&mut self, back: u32) -> bool {
        let Some(version) = self.store.version().checked_sub(u64::from(back)) else { return false };
        let had_uid = self.cluster_uid();
        let had = self.record();
        let mut after = self.fork();
        if had_uid.is_empty() || self.is_marked() || !after.is_back_at(version) {
            return false;
        }
        let is_known = after.cluster_uid() == had_uid
            && !after.is_marked()
            && is_alike(&had, &after.record())
            && after.identities_are_a_quorum();
        if is_known {
            *self = after;
        }
        is_known
    }

    /// What is out of the question: a deletion, a status that was lost or written by somebody else, data of others.
    fn is_marked(&self) -> bool {
        let faults = &self.faults;
        let cluster = self.object(Kind::Cluster, &self.at.name);
        cluster.is_none_or(|cluster| deleting(&cluster))
            || faults.status_lost
            || faults.unidentified
            || faults.spoiled.is_some()
            || !faults.foreign.is_empty()
            || self.open_order().is_some()
    }

    fn is_back_at(&mut self, version: u64) -> bool {
        let claims = |world: &Self| -> BTreeSet<(String, String)> {
            let volumes = world.objects(Kind::Volume);
            volumes.iter().map(|volume| (name(volume).to_owned(), uid(volume).to_owned())).collect()
        };
        let before = claims(self);
        if self.store.go_back_to(version).is_err() {
            return false;
        }
        // Versions are given once more, to other objects.
        (self.parsed, self.hashed) = (Parsed::default(), Hashed::default());
        self.recorded.take();
        // The process ends as soon as it reads a Lease that is older than before, with what it had sent.
        self.operator = Operator::default();
        self.former_leader = None;
        self.late.clear();
        self.request_outcome = RequestOutcome::Done;
        self.clients_wait_anew();
        let now = claims(self);
        // The disk of a claim that was deleted since is deleted, too: nothing can mount it.
        for (member, _) in now.difference(&before) {
            self.faults.data_destroyed.insert(member.clone());
            self.faults.gone.insert(member.clone());
            self.faults.created_again.insert(member.clone());
        }
        // A name that was given since, and of which nothing is left, cannot be known.
        let volumes = self.names(Kind::Volume);
        let listed: BTreeSet<String> = self
            .etcd
            .groups()
            .flat_map(|group| group.conf().members.values().map(|peer| peer.url.as_str().to_owned()))
            .collect();
        let is_listed = |member: &str| {
            let at = self.at.dns_name(&MemberName::new(member));
            listed.iter().any(|url| url.contains(&at))
        };
        let is_left = |member: &str| volumes.iter().any(|volume| volume == member) || is_listed(member);
        self.oracle.forget_names_but(is_left);
        true
    }
}

/// Whether two records are of one cluster, and differ in its members at most.
fn is_alike(now: &Record, then: &Record) -> bool {
    let version = |record: &Record| record.target.as_ref().map(|target| target.version);
    let on_disk =
        |record: &Record| record.target.as_ref().is_some_and(|target| target.storage.medium == Medium::Disk);
    let is_settled = |record: &Record| {
        record.cluster_id.is_some()
            && record.next_incarnation.is_none()
            && record.quorum_recovery.is_none()
            && record.rotation.is_none()
    };
    is_settled(now)
        && is_settled(then)
        && on_disk(then)
        && now.cluster_id == then.cluster_id
        && now.incarnation == then.incarnation
        && now.auth == then.auth
        && now.trust == then.trust
        && version(now) == version(then)
}
