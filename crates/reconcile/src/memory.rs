//! What the operator keeps about one cluster between passes. All of it can be lost: it only saves time and repetition.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube_core::Resource;
use quorate_api::Explanation;
use quorate_manifests::{BackupHealth, DataStoreHealth, Kind, NameConflict};
use quorate_model::auth::SeenAuth;
use quorate_model::snapshot::{BackupState, DefaultsTurn};
use quorate_model::{ClockDifference, ClusterId, ClusterRef, Instant, Snapshot};

use crate::calm::Calm;
use crate::comparing::Comparing;
use crate::free_space::FreeSpace;
use crate::issuance::Issuing;
use crate::objects::{Caches, ClusterView, Object, ReadCluster, Versions};
use crate::progress::Progress;
use crate::recent::Recent;
use crate::write_cache::WriteCache;

/// What is kept of one cluster from pass to pass.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    pub(crate) conflicts: BTreeSet<NameConflict>,
    /// Pods of the cluster, the connection Secret, and the NetworkPolicy, from which somebody took its label: the watches do not show them, so they are read by name.
    pub(crate) unlabelled: BTreeSet<(Kind, String)>,
    /// Why the API server refused a Pod with an image volume, if it did and an init container is the other way.
    pub(crate) image_volume_refused: Option<String>,
    /// Why the API server creates nothing in the namespace any more, if it is being deleted.
    pub(crate) namespace_ends: Option<String>,
    pub(crate) failure: Option<Explanation>,
    pub(crate) progress: Progress,
    pub(crate) recent: Recent,
    pub(crate) calm: Calm,
    /// What was last seen of etcd's auth, and in which etcd cluster.
    pub(crate) auth: Option<(Option<ClusterId>, SeenAuth)>,
    pub(crate) comparing: Comparing,
    pub(crate) free_space: FreeSpace,
    /// Since when the API server admits no eviction of a Pod that the plan restarts.
    pub(crate) blocked_since: Option<Instant>,
    /// Whether it is this cluster's turn to take new defaults of the operator.
    pub(crate) defaults_turn: DefaultsTurn,
    /// How far the operator's clock is from the API server's, if it is too far.
    pub(crate) clock_differs: Option<ClockDifference>,
    /// What the EtcdBackupSchedules of the cluster say about its backups.
    pub(crate) backups: Option<BackupHealth>,
    /// What is known about the DataStore of Kamaji.
    pub(crate) data_store: Option<DataStoreHealth>,
    /// The EtcdBackups that read a snapshot of a member.
    pub(crate) running_backups: BTreeSet<String>,
    /// What is known of the Certificates of cert-manager.
    pub(crate) issuing: Issuing,
    /// The EtcdUsers whose users are not made yet.
    pub(crate) users_to_come: BTreeSet<String>,
    clusters: WriteCache<ReadCluster>,
    pods: WriteCache<Pod>,
    volumes: WriteCache<PersistentVolumeClaim>,
    services: WriteCache<Service>,
    budgets: WriteCache<PodDisruptionBudget>,
    secrets: WriteCache<Secret>,
    network_policies: WriteCache<NetworkPolicy>,
}

impl Memory {
    /// What was last seen of etcd's auth in this etcd cluster. Another one, after a restore, may have none: then it is asked again at once.
    pub(crate) fn auth_of(&self, cluster: Option<ClusterId>) -> Option<SeenAuth> {
        self.auth.as_ref().filter(|(seen_in, _)| *seen_in == cluster).map(|(_, seen)| seen.clone())
    }

    /// Whether it is this cluster's turn to take new defaults of the operator, from the next pass on.
    pub fn set_defaults_turn(&mut self, turn: DefaultsTurn) {
        self.defaults_turn = turn;
    }

    /// What status says about backups of the cluster, from the next pass on; `None` if no schedule names it.
    pub fn set_backup_health(&mut self, backups: Option<BackupHealth>) {
        self.backups = backups;
    }

    /// What is known about the DataStore of Kamaji, from the next pass on; `None` if none is asked for and none is left. Whether that is news.
    pub fn set_data_store(&mut self, health: Option<DataStoreHealth>) -> bool {
        let is_news = self.data_store != health;
        self.data_store = health;
        is_news
    }

    /// What was last set of the DataStore of Kamaji.
    pub fn data_store(&self) -> Option<&DataStoreHealth> {
        self.data_store.as_ref()
    }

    /// The EtcdBackups that read a snapshot of a member of the cluster, from the next pass on.
    pub fn set_running_backups(&mut self, backups: BTreeSet<String>) {
        self.running_backups = backups;
    }

    /// The EtcdUsers of the cluster whose users are not made yet, from the next pass on.
    pub fn set_users_to_come(&mut self, users: BTreeSet<String>) {
        self.users_to_come = users;
    }

    /// The current objects: the caches, overlaid with the operator's own writes.
    pub fn overlay(&mut self, at: &ClusterRef, caches: Caches) -> ClusterView {
        ClusterView {
            cluster: self.clusters.overlay(caches.clusters).remove(&at.name),
            pods: self.pods.overlay(caches.pods),
            volumes: self.volumes.overlay(caches.volumes),
            services: self.services.overlay(caches.services),
            budgets: self.budgets.overlay(caches.budgets),
            secrets: self.secrets.overlay(caches.secrets),
            network_policies: self.network_policies.overlay(caches.network_policies),
            restores: caches.restores,
        }
    }

    /// The names that are taken by objects that this EtcdCluster does not own.
    pub fn conflicts(&self) -> impl Iterator<Item = &NameConflict> {
        self.conflicts.iter()
    }

    /// The failure of the last pass, which status still reports.
    pub fn failure(&self) -> Option<&Explanation> {
        self.failure.as_ref()
    }

    /// A backup before the end of the cluster cannot be created in a namespace that ends as well.
    pub(crate) fn add_ending_namespace(&self, snapshot: &mut Snapshot) {
        let Some(backup) = snapshot.backup_before.as_mut().filter(|_| snapshot.deleting) else { return };
        if let (Some(why), BackupState::Missing) = (&self.namespace_ends, &backup.state) {
            backup.state =
                BackupState::Failed(format!("EtcdBackup {} cannot be created: {why}", backup.name));
        }
    }

    /// Adds the versions of unconfirmed writes.
    pub fn add_to(&self, versions: &mut Versions) {
        for (kind, writes) in self.all() {
            writes.add_to(kind, versions);
        }
    }

    /// The API server replied with this object.
    pub(crate) fn exists(&mut self, object: &Object, now: Instant) {
        match object {
            Object::Cluster(object) => self.clusters.exists(object.clone(), now),
            Object::Pod(object) => self.pods.exists(object.clone(), now),
            Object::Volume(object) => self.volumes.exists(object.clone(), now),
            Object::Service(object) => self.services.exists(object.clone(), now),
            Object::Budget(object) => self.budgets.exists(object.clone(), now),
            Object::Secret(object) => self.secrets.exists(object.clone(), now),
            Object::NetworkPolicy(object) => self.network_policies.exists(object.clone(), now),
            Object::Certificate(object) => self.issuing.exists(object),
        }
    }

    /// The API server replied that the object with this uid is gone.
    pub(crate) fn gone(&mut self, kind: Kind, name: &str, uid: &str, now: Instant) {
        self.of(kind).gone(name, uid, now);
    }

    /// An unconfirmed object was read and does not exist.
    pub(crate) fn missing(&mut self, kind: Kind, name: &str, now: Instant) {
        self.of(kind).missing(name, now);
    }

    /// Objects that the operator wrote and that no watch has confirmed in time.
    pub(crate) fn unconfirmed(&self, now: Instant) -> Vec<(Kind, String)> {
        let all = self.all().into_iter();
        all.flat_map(|(kind, writes)| writes.unconfirmed(now).into_iter().map(move |name| (kind, name)))
            .collect()
    }

    fn of(&mut self, kind: Kind) -> &mut dyn Writes {
        match kind {
            Kind::Cluster => &mut self.clusters,
            Kind::Pod => &mut self.pods,
            Kind::Volume => &mut self.volumes,
            Kind::Service => &mut self.services,
            Kind::Budget => &mut self.budgets,
            Kind::Secret => &mut self.secrets,
            Kind::NetworkPolicy => &mut self.network_policies,
            Kind::Certificate => &mut self.issuing,
        }
    }

    fn all(&self) -> [(Kind, &dyn Writes); 8] {
        [
            (Kind::Cluster, &self.clusters),
            (Kind::Pod, &self.pods),
            (Kind::Volume, &self.volumes),
            (Kind::Service, &self.services),
            (Kind::Budget, &self.budgets),
            (Kind::Secret, &self.secrets),
            (Kind::NetworkPolicy, &self.network_policies),
            (Kind::Certificate, &self.issuing),
        ]
    }
}

/// The writes of any kind.
pub(crate) trait Writes {
    fn gone(&mut self, name: &str, uid: &str, now: Instant);
    fn missing(&mut self, name: &str, now: Instant);
    fn unconfirmed(&self, now: Instant) -> Vec<String>;
    fn add_to(&self, kind: Kind, versions: &mut Versions);
}

impl<K: Resource> Writes for WriteCache<K> {
    fn gone(&mut self, name: &str, uid: &str, now: Instant) {
        self.gone(name, uid, now);
    }

    fn missing(&mut self, name: &str, now: Instant) {
        self.missing(name, now);
    }

    fn unconfirmed(&self, now: Instant) -> Vec<String> {
        self.unconfirmed(now).map(str::to_owned).collect()
    }

    fn add_to(&self, kind: Kind, versions: &mut Versions) {
        self.add_to(kind, versions);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s16_auth_that_was_seen_on_before_a_restore_is_not_taken_for_that_of_the_restored_cluster() {
        let seen = SeenAuth::new(Instant(1), true);
        let (before, after) = (Some(ClusterId(1)), Some(ClusterId(2)));
        let memory = Memory { auth: Some((before, seen.clone())), ..Memory::default() };
        assert_eq!(memory.auth_of(before), Some(seen));
        assert_eq!((memory.auth_of(after), memory.auth_of(None)), (None, None));
    }
}
