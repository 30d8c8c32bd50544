//! What the operator keeps about one cluster between passes. All of it can be lost: it only saves time and repetition.

use std::collections::BTreeSet;

use quorate_api::Explanation;
use quorate_manifests::{Kind, NameConflict};
use quorate_model::auth::SeenAuth;
use quorate_model::snapshot::{BackupState, DefaultsTurn};
use quorate_model::{ClockDifference, ClusterId, ClusterRef, Instant, Snapshot};
use quorate_status::{BackupHealth, DataStoreHealth};

use crate::calm::Calm;
use crate::comparing::Comparing;
use crate::free_space::FreeSpace;
use crate::issuance::Issuing;
use crate::objects::{Caches, ClusterView, Object, Versions};
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
    writes: WriteCache,
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
            cluster: self.writes.overlay(caches.clusters).remove(&at.name),
            pods: self.writes.overlay(caches.pods),
            volumes: self.writes.overlay(caches.volumes),
            services: self.writes.overlay(caches.services),
            budgets: self.writes.overlay(caches.budgets),
            secrets: self.writes.overlay(caches.secrets),
            network_policies: self.writes.overlay(caches.network_policies),
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
        self.writes.add_to(versions);
    }

    /// The API server replied with this object. What no watch confirms is read again.
    pub(crate) fn exists(&mut self, object: &Object, now: Instant) {
        match object {
            Object::Cluster(_)
            | Object::Pod(_)
            | Object::Volume(_)
            | Object::Service(_)
            | Object::Budget(_)
            | Object::Secret(_)
            | Object::NetworkPolicy(_) => self.writes.exists(object.clone(), now),
            Object::Certificate(certificate) => self.issuing.exists(certificate),
            Object::Backup(_) => {}
        }
    }

    /// The API server replied that the object with this uid is gone.
    pub(crate) fn gone(&mut self, kind: Kind, name: &str, uid: &str, now: Instant) {
        if kind == Kind::Certificate {
            self.issuing.missing(name);
        } else {
            self.writes.gone(kind, name, uid, now);
        }
    }

    /// An unconfirmed object was read and does not exist.
    pub(crate) fn missing(&mut self, kind: Kind, name: &str, now: Instant) {
        if kind == Kind::Certificate {
            self.issuing.missing(name);
        } else {
            self.writes.missing(kind, name, now);
        }
    }

    /// Objects that the operator wrote and that no watch has confirmed in time.
    pub(crate) fn unconfirmed(&self, now: Instant) -> impl Iterator<Item = (Kind, &str)> {
        self.writes.unconfirmed(now)
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
