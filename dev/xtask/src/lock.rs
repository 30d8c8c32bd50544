//! A lock on a file that says what it waits for.

use std::fs::{File, TryLockError};
use std::path::Path;

use anyhow::{Context, Result};

/// Locks this file, which is created if it is missing, until the result is dropped. If another process has it locked, reports on
/// stderr what is waited for, such as "another build of etcd".
pub fn lock(path: &Path, waits_for: &str) -> Result<File> {
    let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
    lock_open(&file, &path.display().to_string(), waits_for)?;
    Ok(file)
}

/// The same for a file or a folder that is open already.
pub fn lock_open(file: &File, name: &str, waits_for: &str) -> Result<()> {
    match file.try_lock() {
        Ok(()) => return Ok(()),
        Err(TryLockError::WouldBlock) => eprintln!("waiting for {waits_for}, which holds the lock of {name}"),
        Err(TryLockError::Error(error)) => return Err(error).with_context(|| format!("cannot lock {name}")),
    }
    file.lock().with_context(|| format!("cannot lock {name}"))
}
