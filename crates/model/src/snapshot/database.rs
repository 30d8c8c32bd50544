//! The databases of members, and how full they are. etcd refuses writes (alarm NOSPACE) once the file of one member has reached
//! its quota, and a file shrinks by a defragmentation alone.

use std::fmt;

use super::{Alarm, AlarmKind, Snapshot};
use crate::ids::MemberId;
use crate::names::MemberName;
use crate::record::Record;
use crate::time::Instant;

/// An alarm NOSPACE is disarmed once every member is below this share of its quota. Closer to it the next writes would raise it
/// again.
pub const SPACE_REGAINED_PERCENT: u64 = 90;

/// The database of a member, by its own Status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Database {
    /// The size of its file, in bytes. The quota is about this.
    pub size: u64,
    /// The used part of the file, in bytes.
    pub in_use: u64,
    /// The quota that the process has, in bytes. Only 3.6 and newer report it.
    pub quota: Option<u64>,
}

impl Database {
    /// How much of the file a defragmentation gives back, in bytes.
    pub fn free(&self) -> u64 {
        self.size.saturating_sub(self.in_use)
    }
}

impl Snapshot {
    /// The database of a member, with the quota that its process has: as it reports it or, before 3.6, by the flags of its Pod.
    pub fn database_of(&self, member: &MemberName, now: Instant) -> Option<Database> {
        let database = self.status_of(member, now)?.database;
        let flag = self.pods.get(member).and_then(|pod| pod.quota);
        Some(Database { quota: database.quota.or(flag), ..database })
    }

    /// Whether the file of every member in the list is known to be smaller than this share of its quota.
    pub fn is_below_quota(&self, record: &Record, percent: u64, now: Instant) -> bool {
        let Some(list) = self.list(now) else { return false };
        list.members.iter().all(|listed| {
            let member = self.member_of(record, listed);
            let database = member.and_then(|member| self.database_of(&member, now));
            database.is_some_and(|Database { size, quota, .. }| {
                quota.is_some_and(|quota| u128::from(size) * 100 < u128::from(quota) * u128::from(percent))
            })
        })
    }

    /// Whether the list has a member with this id. Without a list nobody is known to be gone.
    pub fn is_listed(&self, id: MemberId, now: Instant) -> bool {
        self.list(now).is_none_or(|list| list.members.iter().any(|listed| listed.id == id))
    }
}

impl fmt::Display for AlarmKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSpace => "NOSPACE",
            Self::Corrupt => "CORRUPT",
        })
    }
}

impl fmt::Display for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "alarm {} of {}", self.kind, self.member)
    }
}
