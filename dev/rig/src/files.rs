//! Files that are written atomically, and not touched if nothing changes.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, Result};

/// Writes the file unless it has this text already, because some programs end when their configuration is touched. Whether it
/// was written.
pub fn write_if_changed(path: &Path, text: &str) -> Result<bool> {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(false);
    }
    write(path, text)?;
    Ok(true)
}

/// Writes the file by rename, readable by its owner only: some hold keys.
pub fn write(path: &Path, text: &str) -> Result<()> {
    let attempt = || -> std::io::Result<()> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut fresh = path.as_os_str().to_owned();
        fresh.push(".new");
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
        file.write_all(text.as_bytes())?;
        fs::rename(&fresh, path)
    };
    attempt().with_context(|| format!("cannot write {}", path.display()))
}
