//! Databases that are full. The file of a member reaches its quota by itself: files differ in how much of them is free. The member then
//! raises an alarm, an entry that makes all refuse writes until it is disarmed. A defragmentation gives the free part back.

use quorate_model::snapshot::Database;

use super::calls::Reply;
use super::replicated::Role;
use super::{Alarm, AlarmKind, Etcd, Failed};

/// The quota that every member has, in bytes.
const QUOTA: u64 = 100 << 20;

/// What a Status says of a file. What is in use is a tenth of the quota.
pub(super) fn database(full: bool) -> Database {
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
