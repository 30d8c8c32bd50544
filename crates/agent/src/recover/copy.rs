//! A copy of etcd's data directory, on the same volume.

use std::fs;
use std::io;
use std::path::Path;

use quorate_api::job::{Failure, FailureKind};

use crate::guard::volume;

/// Room for the log that etcd writes there, for the snapshot's manifest, and for what a file system needs itself.
const SPARE: u64 = 128 << 20;

/// Copies what etcd has written, without what it left half done. The snapshot that is made of the copy needs as much room as the database.
pub(super) fn copy(data_dir: &Path, to: &Path) -> Result<(), Failure> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => no_room(&error.to_string()),
        _ => Failure::new(
            FailureKind::StoreUnavailable,
            format!("cannot copy {}: {error}", data_dir.display()),
        ),
    };
    let database = fs::metadata(data_dir.join("member/snap/db")).map_err(failed)?.len();
    let needed = bytes_in(data_dir).map_err(failed)? + database + SPARE;
    let free = volume::free_bytes(data_dir).map_err(failed)?;
    if free < needed {
        return Err(no_room(&format!("{free} bytes are free on the volume, {needed} are needed")));
    }
    copy_tree(data_dir, to).map_err(failed)
}

fn no_room(why: &str) -> Failure {
    let message = format!(
        "no room for a copy of the data and a snapshot of it: {why}. Raise spec.storageSpec.volumeSizeRequest, or name another member"
    );
    Failure::new(FailureKind::NoSpace, message)
}

/// What the files below a directory have together.
pub(super) fn bytes_in(dir: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        bytes += if entry.file_type()?.is_dir() { bytes_in(&entry.path())? } else { entry.metadata()?.len() };
    }
    Ok(bytes)
}

/// Not synced: it is worth nothing after a crash.
fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (name, kind) = (entry.file_name(), entry.file_type()?);
        let is_half_done =
            name.to_str().is_some_and(|name| name.strip_suffix(".tmp").is_some() || name.starts_with("tmp"));
        if kind.is_dir() {
            copy_tree(&entry.path(), &to.join(name))?;
        } else if kind.is_file() && !is_half_done {
            fs::copy(entry.path(), to.join(name))?;
        }
    }
    Ok(())
}
