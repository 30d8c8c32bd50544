//! Whether the volume takes writes.

use std::io::{self, Write};
use std::path::Path;

use nix::sys::statvfs::statvfs;
use quorate_model::GuardVerdict;
use quorate_model::guard::Refusal;
use quorate_model::snapshot::VolumeSpace;

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

/// What the volume of a directory has.
pub(crate) fn space(dir: &Path) -> io::Result<VolumeSpace> {
    let stat = statvfs(dir)?;
    let unit = stat.fragment_size();
    Ok(VolumeSpace { free: stat.blocks_available() * unit, all: stat.blocks() * unit })
}
