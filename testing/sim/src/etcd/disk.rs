//! Disks that do not store what is written to them.
//!
//! etcd answers Status from memory, and a follower stays in touch with its leader, until the first entry has to be stored. Then
//! its raft loop waits for the disk (`raft.go`: `storage.Save`), while the rest of the process goes on: it reports the leader, the
//! term and the indexes that it had at that moment. If the disk is full, the process ends instead.

use quorate_model::MemberId;

use super::{Etcd, Group, Process, State};

/// What a disk does with a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Disk {
    /// It stores what is written.
    #[default]
    Works,
    /// The write does not return.
    Hung,
    /// The write fails: no space is left.
    Full,
    /// The write fails: after an I/O error the file system was mounted read-only. Nothing of the agent's is written either.
    ReadOnly,
    /// It stores what is written, but later than an election timeout: a member on it does not take leadership over in time.
    Slow,
}

/// What a process knew when it began to wait for its disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// The leader that it followed.
    pub leader: Option<MemberId>,
    /// It has applied one entry that its disk does not have: etcd applies a committed entry beside storing it.
    pub ahead: bool,
}

/// The messages with which etcd ends on a full disk, and on a read-only one.
const FULL: &str = "failed to save Raft hard state and entries: no space left on device";
const READ_ONLY: &str = "failed to save Raft hard state and entries: read-only file system";

impl Etcd {
    /// The disk on which a data directory is.
    pub fn disk(&self, dir: &str) -> Disk {
        self.disks.get(dir).copied().unwrap_or_default()
    }

    /// From now on a disk does this with writes. A process that waits for it goes on if it works again.
    pub fn set_disk(&mut self, dir: &str, disk: Disk) {
        match disk {
            Disk::Works => {
                self.disks.remove(dir);
                for process in self.processes.values_mut().filter(|process| process.launch.dir == dir) {
                    process.stuck = None;
                }
            }
            Disk::Hung | Disk::Full | Disk::ReadOnly | Disk::Slow => {
                self.disks.insert(dir.to_owned(), disk);
            }
        }
    }

    /// The data directories on disks that do not work as they should.
    pub fn bad_disks(&self) -> impl Iterator<Item = (&str, Disk)> {
        self.disks.iter().map(|(dir, disk)| (dir.as_str(), *disk))
    }

    /// Whether the disk of a process stores what is written to it.
    pub fn stores(&self, process: &Process) -> bool {
        self.stores_on(&process.launch.dir)
    }

    /// Whether a disk stores what is written to it.
    pub(super) fn stores_on(&self, dir: &str) -> bool {
        match self.disk(dir) {
            Disk::Works | Disk::Slow => !self.lacks_room(dir),
            Disk::Hung | Disk::Full | Disk::ReadOnly => false,
        }
    }

    /// Whether a member runs, is in touch with a leader, and its disk has every committed entry or receives those that it lacks, and
    /// nothing else. One that lags receives them as soon as the quorum needs it.
    pub fn is_stored_by(&self, at: &str) -> bool {
        let Some(process) = self.process(at) else { return false };
        let Some(dir) = self.dir_of(process) else { return false };
        let leads = self.group(dir.cluster).is_some_and(|group| group.leader().is_some());
        let reached = !process.cut && !process.isolated;
        process.state == State::Running && leads && reached && self.stores(process) && !dir.differs
    }

    /// Whether a member runs, is in touch with a leader, and its disk has every committed entry. A disk that hangs since then shows with
    /// the next entry alone.
    pub fn has_all(&self, at: &str) -> bool {
        let Some(process) = self.process(at) else { return false };
        let Some(dir) = self.dir_of(process) else { return false };
        let has_all = |group: &Group| group.leader().is_some() && dir.stored.len >= group.log().len();
        let reached = !process.cut && !process.isolated;
        process.state == State::Running
            && reached
            && !dir.differs
            && self.group(dir.cluster).is_some_and(has_all)
    }

    /// A process has to write to its disk, which does not work: it waits or ends. It follows this leader.
    pub(super) fn meet_bad_disk(&mut self, at: &str, leader: Option<MemberId>, ahead: bool) -> bool {
        let Some(process) = self.processes.get_mut(at) else { return false };
        match self.disks.get(&process.launch.dir).copied().unwrap_or_default() {
            Disk::Works | Disk::Slow => false,
            Disk::Hung if process.stuck.is_some() => false,
            Disk::Hung => {
                process.stuck = Some(Stuck { leader, ahead });
                true
            }
            disk @ (Disk::Full | Disk::ReadOnly) => {
                let words = if disk == Disk::Full { FULL } else { READ_ONLY };
                process.state = State::Ended(words.to_owned());
                process.serves = false;
                true
            }
        }
    }
}
