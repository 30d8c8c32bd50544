//! Databases that are full. The file of a member reaches its quota by itself: files differ in how much of them is free. The member then
//! raises an alarm, an entry that makes all refuse writes until it is disarmed. A defragmentation gives the free part back.

use std::collections::BTreeMap;

use quorate_model::ClusterId;
use quorate_model::snapshot::Database;

use super::calls::Reply;
use super::replicated::Role;
use super::{Alarm, AlarmKind, Etcd, Failed};

/// The quota that every member has, in bytes.
const QUOTA: u64 = 100 << 20;

/// The entries that a leader keeps for followers that are behind (etcd's `DefaultSnapshotCatchUpEntries`).
const CATCH_UP_ENTRIES: u64 = 5_000;

/// What the log takes of a volume, and the file system of a hundred, in MiB.
const LOG: u64 = 256;
const FILE_SYSTEM: u64 = 5;

/// What a Status says of a file. What is in use is a tenth of the quota, unless sizes matter: then the file has no free part.
pub(super) fn database(full: bool, mib: u64) -> Database {
    if mib > 0 {
        let size = mib << 20;
        return Database { size, in_use: size, quota: Some(size + size / 4) };
    }
    Database { size: if full { QUOTA } else { QUOTA / 10 }, in_use: QUOTA / 10, quota: Some(QUOTA) }
}

impl Etcd {
    /// The file of a member reaches its quota, and the member raises an alarm. Returns whether the alarm was committed.
    pub fn fill(&mut self, at: &str) -> bool {
        let Some(own) = self.processes.get(at).and_then(|process| self.dir_of(process)).cloned() else {
            return false;
        };
        let alarm = Alarm { member: own.member, kind: AlarmKind::NoSpace };
        let is_raised = self.raise_alarm(own.cluster, alarm);
        self.change_data_of(at, |dir| dir.full |= is_raised);
        is_raised
    }

    /// Clients write so much that a follower that was away needs a snapshot, and the file of every member that stores it has this size.
    /// Returns whether that was committed.
    pub fn grow(&mut self, cluster: ClusterId, mib: u64) -> bool {
        // Whoever is there receives them as they come.
        (0..2).all(|_| {
            self.commit_as(cluster, |group| {
                group.tip.without_effect += CATCH_UP_ENTRIES / 2 + 1;
                group.tip.mib = mib;
            })
        })
    }

    /// Whether sizes matter.
    pub fn has_sizes(&self) -> bool {
        self.groups().any(|group| group.tip.mib > 0)
    }

    /// Takes the sizes of the volumes in MiB.
    pub fn set_volumes(&mut self, volumes: BTreeMap<String, u64>) {
        self.volumes = volumes;
    }

    /// Whether a data directory needs a snapshot of the leader's database, and has no room for it beside its own file and the log. etcd
    /// tries again without end, and its member stands still.
    pub fn lacks_room(&self, dir: &str) -> bool {
        let (Some(volume), Some(own)) = (self.volumes.get(dir), self.dirs.get(dir)) else { return false };
        let Some(group) = self.group(own.cluster) else { return false };
        let behind = group.tip.index().saturating_sub(own.stored.index());
        behind > CATCH_UP_ENTRIES && own.stored.mib + group.tip.mib + LOG > volume * (100 - FILE_SYSTEM) / 100
    }

    /// Compacts the history. It is not modelled: what is in use is little before, too.
    pub fn compact(&self, at: &str) -> Reply<()> {
        self.consenting(at)?;
        self.may(at, Role::AnyUser)
    }

    /// Defragments the database of a member.
    pub fn defragment(&mut self, at: &str) -> Reply<()> {
        self.serving(at)?;
        self.may(at, Role::Root)?;
        // It waits for its disk.
        if self.process(at).is_some_and(|process| process.stuck.is_some()) {
            return Err(Failed::Unknown);
        }
        self.change_data_of(at, |dir| dir.full = false);
        Ok(())
    }

    /// A person makes room in every file.
    pub fn make_room(&mut self) {
        self.dirs.values_mut().for_each(|dir| dir.full = false);
    }
}
