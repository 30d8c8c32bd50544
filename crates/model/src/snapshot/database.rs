//! The databases of members, and how full they are. etcd refuses writes (alarm NOSPACE) once the file of one member has reached
//! its quota, and a file shrinks by a defragmentation alone.

use std::fmt;

use super::{Alarm, AlarmKind, Snapshot};
use crate::ids::MemberId;
use crate::names::MemberName;
use crate::record::{Defragmenting, Record};
use crate::time::{Instant, Span};

/// An alarm NOSPACE is disarmed once every member is below this share of its quota. Closer to it the next writes would raise it
/// again.
pub const SPACE_REGAINED_PERCENT: u64 = 90;

/// How long a defragmentation may take. etcd copies what is in use; after this time without an answer the agent's probe has it
/// restarted anyway.
pub const DEFRAGMENT_DEADLINE: Span = Span::seconds(300);

/// When an ordered defragmentation of which nothing is heard counts as over, whatever became of it.
const GIVEN_UP_AFTER: Span = Span::seconds(900);

/// How long a member is left alone after a defragmentation, whatever came of it.
const REST: Span = Span::seconds(1800);

/// For how long a defragmentation waits for backups that run while the alarm NOSPACE refuses writes, from when the operator first observed
/// it. A snapshot of 2 GiB takes 100 s at 20 MiB/s. After that writes count for more than a backup, which is tried again.
pub const BACKUP_MAY_TAKE: Span = Span::seconds(120);

/// From this share of its quota on, a file is close to it.
const NEARLY_FULL_PERCENT: u64 = 80;

const MIB: u64 = 1 << 20;

/// What a volume holds beside the database: etcd keeps five files of its log, of 64 MiB each, and prepares the next one.
const LOG_BYTES: u64 = 6 * (64 << 20);

/// What [`largest_quota`] leaves to the log: those six files, and two more that etcd writes until it removes older ones.
const LOG_RESERVE: u64 = 8 * (64 << 20);

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

/// A defragmentation that was tried.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DefragmentAttempt {
    /// The member.
    pub member: MemberName,
    /// When the reply came, or was given up.
    pub at: Instant,
    /// Whether the member answered, so that it is certainly over.
    pub answered: bool,
}

/// `spec.maintenance`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Maintenance {
    /// Full databases are given room again, and their alarm is disarmed.
    pub no_space_remedy: bool,
    /// When members are defragmented without need; `None`: never.
    pub defrag: Option<Threshold>,
}

/// From how much free space on a database is defragmented, and at which time of the day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Threshold {
    /// The free share of the file, in percent.
    pub min_free_percent: u64,
    /// The free part of the file, in bytes.
    pub min_free_bytes: u64,
    /// The daily window; `None`: at any time.
    pub window: Option<Window>,
}

/// A daily window, in minutes since midnight UTC. One that ends before it begins goes over midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    /// The first minute in it.
    pub from: u16,
    /// The first minute after it.
    pub to: u16,
}

/// What a file system of this capacity has to give: a twentieth is its own.
fn usable(capacity: u64) -> u64 {
    capacity - capacity / 20
}

/// The largest database that a volume carries together with a second copy of it and the log. etcd needs the copy to defragment, and to
/// receive a snapshot from its leader (`SaveDBFrom`), without which a member that was away for too long never comes back. In whole MiB.
pub fn largest_quota(capacity: u64) -> u64 {
    usable(capacity).saturating_sub(LOG_RESERVE) / 2 / MIB * MIB
}

/// The quota of a volume where none is given. Below 931 MiB [`largest_quota`] is next to nothing. There it is a fifth of the volume, which
/// leaves room for the log from 512 MiB on, and on smaller ones three fifths up to 100 MiB: no quota leaves room for the log there.
pub fn share_of_volume(capacity: u64) -> u64 {
    largest_quota(capacity).max(capacity / 5).max((capacity / 5 * 3).min(100 * MIB))
}

/// The smallest volume for a quota, in whole MiB: the inverse of [`largest_quota`].
pub fn volume_for_quota(quota: u64) -> u64 {
    let whole = |bytes: u64| bytes.div_ceil(MIB).saturating_mul(MIB);
    let needed = whole(quota).saturating_mul(2).saturating_add(LOG_RESERVE);
    whole(needed.div_ceil(19).saturating_mul(20))
}

impl Database {
    /// How much of the file a defragmentation gives back, in bytes.
    pub fn free(&self) -> u64 {
        self.size.saturating_sub(self.in_use)
    }

    /// Whether the file is known to have reached four fifths of the quota. Then status reports it, and looks are closer.
    pub fn is_nearly_full(&self) -> bool {
        self.quota.is_some() && !self.is_below_quota(NEARLY_FULL_PERCENT)
    }

    /// Whether the file is known to be smaller than this share of the quota.
    pub fn is_below_quota(&self, percent: u64) -> bool {
        self.quota.is_some_and(|quota| is_below(self.size, quota, percent))
    }

    /// Whether it would be below the share at which writes are admitted again, if its file had no free part.
    pub fn would_be_below_quota(&self) -> bool {
        self.quota.is_some_and(|quota| is_below(self.in_use, quota, SPACE_REGAINED_PERCENT))
    }
}

fn is_below(bytes: u64, quota: u64, percent: u64) -> bool {
    u128::from(bytes) * 100 < u128::from(quota) * u128::from(percent)
}

impl Threshold {
    /// Whether the window is open.
    pub fn is_open(&self, now: Instant) -> bool {
        let minute = now.0.div_euclid(60_000).rem_euclid(24 * 60);
        self.window.is_none_or(|Window { from, to }| {
            let (from, to) = (i64::from(from), i64::from(to));
            if from <= to { (from..to).contains(&minute) } else { minute >= from || minute < to }
        })
    }

    /// Whether a file has that much free space.
    pub fn is_reached(&self, database: &Database) -> bool {
        let share = u128::from(database.free()) * 100
            >= u128::from(database.size) * u128::from(self.min_free_percent);
        database.free() > 0 && share && database.free() >= self.min_free_bytes
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
            database.is_some_and(|database| database.is_below_quota(percent))
        })
    }

    /// Whether the list has a member with this id. Without a list nobody is known to be gone.
    pub fn is_listed(&self, id: MemberId, now: Instant) -> bool {
        self.list(now).is_none_or(|list| list.members.iter().any(|listed| listed.id == id))
    }

    /// Whether the next Pod of a member has a larger quota than its present one, by the committed target.
    pub fn restart_raises_quota(&self, record: &Record, member: &MemberName) -> bool {
        let now = self.pods.get(member).and_then(|pod| pod.quota);
        let next = record.target.as_ref().and_then(|target| target.pod.quota);
        now.zip(next).is_some_and(|(now, next)| next > now)
    }

    /// Whether the volume of a member is still smaller than it is to be, and too small for this quota ([`share_of_volume`]). One whose file
    /// system grows when it is mounted needs the restart.
    pub fn lacks_room(&self, member: &MemberName, quota: u64, wanted: u64) -> bool {
        self.volumes.get(member).is_some_and(|volume| {
            let is_small = |capacity: u64| capacity < wanted && quota > share_of_volume(capacity);
            !volume.grows_at_mount && volume.capacity.is_some_and(is_small)
        })
    }

    /// Whether a defragmentation that was ordered is not over: its Pod is the same and etcd in it was not restarted, no reply to
    /// it is known, and it has not taken longer than it may.
    pub fn is_defragmenting(&self, ordered: &Defragmenting, now: Instant) -> bool {
        let same =
            |pod: &&super::Pod| pod.uid == ordered.pod && pod.restarts == ordered.restarts && !pod.finished;
        let is_same = self.pods.get(&ordered.member).is_some_and(|pod| same(&pod));
        let is_answered = self.etcd.defragmentations.iter().any(|attempt| {
            attempt.member == ordered.member && attempt.answered && attempt.at >= ordered.since
        });
        let is_recent = ordered.since <= now && now - ordered.since <= GIVEN_UP_AFTER;
        is_same && !is_answered && is_recent
    }

    /// The EtcdBackup that a defragmentation waits for, if any. etcd's defragmentation waits for the stream of a snapshot with all locks of the
    /// database, so that the member serves nothing, and the backup ends its stream. Under the alarm NOSPACE it waits for
    /// [`BACKUP_MAY_TAKE`] at most, whatever backups follow one another. A beginning in the future is of a clock that was set back.
    pub fn backup_to_wait_for(&self, now: Instant) -> Option<&str> {
        let is_full = self.alarms(now).iter().any(|alarm| alarm.kind == AlarmKind::NoSpace);
        let is_recent = |since: Instant| since <= now && now - since < BACKUP_MAY_TAKE;
        let waits = !is_full || self.etcd.full_since.is_some_and(is_recent);
        self.running_backups.first().filter(|_| waits).map(String::as_str)
    }

    /// Whether the operator's own defragmentation excuses the silence of a member (R15).
    pub(super) fn is_excused(&self, member: &MemberName, now: Instant) -> bool {
        let ordered = self.record.defragmenting.as_ref().filter(|ordered| ordered.member == *member);
        ordered.is_some_and(|ordered| self.is_defragmenting(ordered, now))
    }

    /// Whether a member was defragmented of late, or that was tried. An attempt in the future does not count: the clock was set
    /// back.
    pub fn was_defragmented_lately(&self, member: &MemberName, now: Instant) -> bool {
        let mut own = self.etcd.defragmentations.iter().filter(|attempt| attempt.member == *member);
        own.any(|attempt| attempt.at <= now && now - attempt.at < REST)
    }

    /// Whether the volume of a member has room for the copy that a defragmentation makes: 1.1 times what is in use. What is free
    /// on it is not known, so it is estimated: the capacity without the twentieth that a file system takes, the database, and the
    /// files of the log. In memory the copy would count against the memory of the container, whose end is that of its data.
    pub fn has_room_to_defragment(&self, member: &MemberName, now: Instant) -> bool {
        let Some(database) = self.database_of(member, now).filter(|_| !self.record.is_in_memory()) else {
            return false;
        };
        let free = self.free_beside(member, &database);
        free.is_some_and(|free| free >= database.in_use.saturating_add(database.in_use / 10))
    }

    /// What a volume has beside this database and the log, by its capacity.
    fn free_beside(&self, member: &MemberName, database: &Database) -> Option<u64> {
        let capacity = self.volumes.get(member)?.capacity?;
        Some(usable(capacity).saturating_sub(database.size).saturating_sub(LOG_BYTES))
    }

    /// The volume that a member needs to receive a snapshot of the leader's database beside its own, where by its capacity it has no room
    /// for it. `None` where it has room, or that is not known.
    pub fn volume_for_snapshot(&self, member: &MemberName, now: Instant) -> Option<u64> {
        let sent = self.database_of_leader(now)?;
        let free = self.free_beside(member, &self.database_of(member, now)?)?;
        (free < sent.size).then(|| volume_for_quota(sent.quota.unwrap_or(0).max(sent.size)))
    }

    /// Whether the database of the leader has room on a new volume, which has the size of the committed target and nothing on it.
    pub fn new_volume_fits_snapshot(&self, record: &Record, now: Instant) -> bool {
        let sent = self.database_of_leader(now);
        let fits = |(sent, volume): (Database, u64)| usable(volume).saturating_sub(LOG_BYTES) >= sent.size;
        sent.zip(record.target.as_ref().map(|target| target.storage.bytes)).is_some_and(fits)
    }

    /// The database that a snapshot for a follower would bring, where it goes to a volume.
    pub(super) fn database_of_leader(&self, now: Instant) -> Option<Database> {
        let leader = self.leader(now).filter(|_| !self.record.is_in_memory())?;
        let mut members = self.record.members.iter();
        let (leader, _) = members.find(|(_, member)| member.id == Some(leader))?;
        self.database_of(leader, now)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_may_go_over_midnight() {
        let open = |from, to, minute: i64| {
            let window = Some(Window { from, to });
            let threshold = Threshold { min_free_percent: 0, min_free_bytes: 0, window };
            threshold.is_open(Instant((5 * 24 * 60 + minute) * 60_000))
        };
        assert_eq!([119, 120, 299, 300].map(|minute| open(120, 300, minute)), [false, true, true, false]);
        assert_eq!(
            [1379, 1380, 0, 59, 60].map(|minute| open(1380, 60, minute)),
            [false, true, true, true, false]
        );
    }

    #[test]
    fn the_volume_for_a_quota_is_the_smallest_that_carries_it() {
        for quota in [16 << 20, 644_245_092, 1 << 30, 8 << 30_u64] {
            let volume = volume_for_quota(quota);
            assert!(largest_quota(volume) >= quota, "{quota} on {volume}");
            assert!(largest_quota(volume - (2 << 20)) < quota, "{quota} on less than {volume}");
        }
        assert_eq!(largest_quota(512 << 20), 0);
    }

    #[test]
    fn a_threshold_is_reached_by_share_and_bytes() {
        let threshold = Threshold { min_free_percent: 50, min_free_bytes: 100, window: None };
        let reached = |size, in_use| threshold.is_reached(&Database { size, in_use, quota: None });
        assert!(reached(200, 100));
        assert!(!reached(200, 101), "too few bytes");
        assert!(!reached(1000, 501), "too small a share");
    }
}
