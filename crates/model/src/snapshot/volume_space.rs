//! What is free on the volumes of members, as their agents report it. etcd ends when its volume is full, and its Status says nothing of that
//! before.

use super::Snapshot;
use crate::names::MemberName;

const MIB: u64 = 1 << 20;

/// Four files of etcd's log, which writes one of 64 MiB after the other.
const SOME_LOG: u64 = 4 * 64 * MIB;

/// What is enough on a volume of any size. The volumes of some classes are directories of a disk, which is much larger than its claims.
const ENOUGH: u64 = 2048 * MIB;

/// What a volume has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VolumeSpace {
    /// The free bytes.
    pub free: u64,
    /// All bytes of its file system.
    pub all: u64,
}

/// A volume on which etcd may soon end. Status reports it, so it does not change with every write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NearlyUsedUp {
    /// Fewer bytes than this are free: a power of two.
    pub below: u64,
    /// All bytes of its file system.
    pub all: u64,
}

impl VolumeSpace {
    /// Whether etcd may soon end because the volume is full: less than four files of its log are free, or a tenth of a large volume, 2 GiB
    /// at most. Of a small one a quarter, for otherwise it would begin so.
    pub fn is_nearly_used_up(self) -> bool {
        self.free < self.least()
    }

    /// How many bytes may be written before the volume is nearly used up.
    pub fn spare(self) -> u64 {
        self.free.saturating_sub(self.least())
    }

    fn least(self) -> u64 {
        (self.all / 10).clamp(SOME_LOG, ENOUGH).min(self.all / 4)
    }
}

impl NearlyUsedUp {
    /// What is to be reported of a volume, after what was reported before. What gets worse is reported at once; what gets better, when it
    /// is better by a quarter.
    pub fn after(before: Option<Self>, space: VolumeSpace) -> Option<Self> {
        let better = |bytes: u64| bytes.saturating_add(bytes / 4);
        let least = if before.is_some() { better(space.least()) } else { space.least() };
        if space.free >= least {
            return None;
        }
        let step = space.free.saturating_add(1).next_power_of_two().max(MIB);
        let is_still = |before: &u64| step > *before && space.free < better(*before);
        let below = before.map(|before| before.below).filter(is_still).unwrap_or(step);
        // Some file systems count what others have left.
        let is_same = |before: &Self| before.below == below && space.all < better(before.all);
        let all = before.filter(is_same).map_or(space.all, |before| before.all);
        Some(Self { below, all })
    }
}

impl Snapshot {
    /// The members whose volumes are nearly used up, as their agents last reported.
    pub fn nearly_used_up(&self) -> impl Iterator<Item = (&MemberName, NearlyUsedUp)> {
        let is_member = |member: &MemberName| self.record.members.contains_key(member);
        self.etcd
            .nearly_used_up
            .iter()
            .filter(move |(member, _)| is_member(member))
            .map(|(name, low)| (name, *low))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(free: u64, all: u64) -> VolumeSpace {
        VolumeSpace { free: free * MIB, all: all * MIB }
    }

    #[test]
    fn m02_a_volume_is_nearly_used_up_while_the_log_still_has_room_for_some_files() {
        let is_nearly = |free, all| space(free, all).is_nearly_used_up();
        assert!(!is_nearly(845, 1946), "the default volume at its quota");
        assert!(is_nearly(255, 1946));
        assert!(is_nearly(1000, 10_240) && !is_nearly(1100, 10_240));
        assert!(!is_nearly(40, 128) && is_nearly(30, 128));
        assert!(!is_nearly(3000, 250_000) && is_nearly(2000, 250_000), "a directory of the node's disk");
    }

    #[test]
    fn m02_what_is_reported_of_a_volume_changes_by_steps_and_not_with_every_write() {
        let mut last = None;
        let mut reported = |free| {
            last = NearlyUsedUp::after(last, space(free, 1946));
            last.map(|low| low.below / MIB)
        };
        assert_eq!([300, 255, 257, 319].map(&mut reported), [None, Some(256), Some(256), Some(256)]);
        assert_eq!([127, 129, 159, 161].map(&mut reported), [Some(128), Some(128), Some(128), Some(256)]);
        assert_eq!([0, 320, 300].map(&mut reported), [Some(1), None, None]);
        let first = NearlyUsedUp::after(None, space(200, 1946));
        assert_eq!(
            NearlyUsedUp::after(first, space(190, 1900)),
            first,
            "a file system whose size is what others leave"
        );
        assert_ne!(NearlyUsedUp::after(first, space(190, 4000)), first, "it grew");
    }
}
