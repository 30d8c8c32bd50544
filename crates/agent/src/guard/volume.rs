//! Whether the volume takes writes.

use std::io::{self, Write};
use std::path::Path;

use nix::sys::statvfs::statvfs;
use quorate_model::GuardVerdict;
use quorate_model::guard::Refusal;

use super::data::Data;
use super::unreadable;

/// etcd reserves 64 MiB for its first log and needs a little for the database.
const ROOM_TO_BEGIN: u64 = 72 << 20;
/// A member with data has reserved its log already; below this its next write fails.
const ROOM_TO_GO_ON: u64 = 1 << 20;

/// Writes beside the identity file to see that it works; returns the free space.
pub(super) fn writable_with_room(identity: &Path, data: &Data) -> Result<u64, Refusal> {
    let dir = identity.parent().unwrap_or(Path::new("."));
    let write = || -> io::Result<()> {
        let mut file = tempfile::tempfile_in(dir)?;
        file.write_all(&[0; 4096])?;
        file.sync_all()
    };
    write().map_err(|error| write_refusal(dir, &error))?;
    let free = free_bytes(dir).map_err(|error| unreadable(dir, &error))?;
    let needed = if data.is_absent() { ROOM_TO_BEGIN } else { ROOM_TO_GO_ON };
    if free < needed {
        let message = format!("{free} bytes are free on {}, etcd needs {needed}", dir.display());
        return Err(Refusal::new(GuardVerdict::DiskFull, message));
    }
    Ok(free)
}

/// The verdict on a failed write, by its cause.
pub(super) fn write_refusal(path: &Path, error: &io::Error) -> Refusal {
    let verdict = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => GuardVerdict::DiskFull,
        _ => GuardVerdict::NotWritable,
    };
    Refusal::new(verdict, format!("cannot write to {}: {error}", path.display()))
}

/// The free space of the volume of a directory.
pub(crate) fn free_bytes(dir: &Path) -> io::Result<u64> {
    Ok(space(dir)?.free)
}

/// What a volume has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Space {
    /// The free bytes.
    pub(crate) free: u64,
    /// All bytes of its file system.
    pub(crate) all: u64,
}

/// Of the volume of a directory.
pub(crate) fn space(dir: &Path) -> io::Result<Space> {
    let stat = statvfs(dir)?;
    let unit = stat.fragment_size();
    Ok(Space { free: stat.blocks_available() * unit, all: stat.blocks() * unit })
}

impl Space {
    /// Whether etcd may soon end because the disk is full: less than four files of its log are free, or a tenth of a large volume. Of a small
    /// one a quarter, for otherwise it would begin so.
    pub(crate) fn is_nearly_used_up(self) -> bool {
        self.free < (self.all / 10).max(4 * (64 << 20)).min(self.all / 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m02_a_volume_is_nearly_used_up_while_the_log_still_has_room_for_some_files() {
        let is_nearly = |free: u64, all: u64| Space { free: free << 20, all: all << 20 }.is_nearly_used_up();
        assert!(!is_nearly(845, 1946), "the default volume at its quota");
        assert!(is_nearly(255, 1946));
        assert!(is_nearly(1000, 10_240) && !is_nearly(1100, 10_240));
        assert!(!is_nearly(40, 128) && is_nearly(30, 128));
    }
}
