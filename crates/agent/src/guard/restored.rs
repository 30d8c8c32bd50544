//! The marker of a restore: a small file beside the identity file. It names the restore that made the data of the volume.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use quorate_model::GuardVerdict;
use quorate_model::guard::Refusal;
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use super::unreadable;

/// The file's JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Marker {
    /// The attempt: `--initial-cluster-token`.
    pub(crate) token: String,
    /// The SHA-256 of the object in its store.
    pub(crate) sha256: String,
}

/// The marker of a volume; `None` if it has none. `identity`: the identity file of the volume.
pub(crate) fn read(identity: &Path) -> Result<Option<Marker>, Refusal> {
    let path = path(identity);
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(&path, &error)),
    };
    let marker = serde_json::from_slice(&text).map_err(|error| {
        let message = format!("{} is not the marker of a restore: {error}", path.display());
        Refusal::new(GuardVerdict::ForeignData, message)
    })?;
    Ok(Some(marker))
}

/// Writes the marker completely or not at all, also if the power fails.
pub(crate) fn write(marker: &Marker, identity: &Path) -> io::Result<()> {
    let path = path(identity);
    let dir = path.parent().unwrap_or(Path::new("."));
    let mut temporary = NamedTempFile::new_in(dir)?;
    serde_json::to_writer(&mut temporary, marker)?;
    temporary.flush()?;
    temporary.as_file().sync_all()?;
    temporary.persist(&path)?;
    File::open(dir)?.sync_all()
}

fn path(identity: &Path) -> PathBuf {
    identity.with_file_name("quorate.restored")
}
