//! Volumes that are disks of their own: an ext4 file system in a file, mounted where the folder of the volume would be. Such a disk
//! has its size, and can hang (`fsfreeze`) without the rest of the machine.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::tools::call;

/// The storage class of such volumes.
pub const CLASS: &str = "disk";

const UNITS: [(&str, u64); 3] = [("Ki", 1 << 10), ("Mi", 1 << 20), ("Gi", 1 << 30)];

/// Makes the disk of a volume, and mounts it.
pub fn create(folder: &Path, size: &str) -> Result<()> {
    let file = file_of(folder);
    if !file.exists() {
        let made = file.with_extension("new");
        let disk = File::create(&made).with_context(|| format!("cannot create {}", made.display()))?;
        disk.set_len(bytes(size)?)?;
        call(&["mkfs.ext4", "-q", "-b", "4096", "-m", "0", &made.display().to_string()])?;
        fs::rename(&made, &file)?;
    }
    mount(folder)?;
    // A volume begins empty.
    match fs::remove_dir(folder.join("lost+found")) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// Unmounts the disk of a volume and removes its file, if the volume is one.
pub fn remove(folder: &Path) -> Result<()> {
    let file = file_of(folder);
    if !file.exists() {
        return Ok(());
    }
    if is_mounted(folder)? {
        thaw(folder);
        call(&["umount", &folder.display().to_string()])?;
    }
    fs::remove_file(&file).with_context(|| format!("cannot remove {}", file.display()))
}

/// Mounts all disks below the folder of the volumes again, after the cluster was down.
pub fn mount_all(volumes: &Path) -> Result<()> {
    folders(volumes)?.iter().try_for_each(|folder| mount(folder))
}

/// Lets all disks that hang go on. A process that waits for one cannot be ended, and it could not be unmounted.
pub fn thaw_all(volumes: &Path) -> Result<()> {
    for folder in folders(volumes)? {
        if is_mounted(&folder)? {
            thaw(&folder);
        }
    }
    Ok(())
}

fn mount(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    if is_mounted(folder)? {
        return Ok(());
    }
    let (file, folder) = (file_of(folder).display().to_string(), folder.display().to_string());
    call(&["mount", "-o", "loop,noatime", &file, &folder]).map(drop)
}

/// One that does not hang refuses.
fn thaw(folder: &Path) {
    let _ = call(&["fsfreeze", "--unfreeze", &folder.display().to_string()]);
}

/// The mount points of all disks.
fn folders(volumes: &Path) -> Result<Vec<PathBuf>> {
    let mut folders = Vec::new();
    for node in entries(volumes)? {
        let files =
            entries(&node)?.into_iter().filter(|path| path.extension().is_some_and(|end| end == "img"));
        folders.extend(files.map(|file| file.with_extension("")));
    }
    Ok(folders)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    entries.map(|entry| Ok(entry?.path())).collect()
}

fn is_mounted(folder: &Path) -> Result<bool> {
    let table = fs::read_to_string("/proc/self/mountinfo").context("cannot read the mounts")?;
    let folder = folder.display().to_string();
    Ok(table.lines().any(|line| line.split(' ').nth(4) == Some(&folder)))
}

fn file_of(folder: &Path) -> PathBuf {
    folder.with_extension("img")
}

fn bytes(size: &str) -> Result<u64> {
    let unit = UNITS.iter().find_map(|(unit, bytes)| Some((size.strip_suffix(unit)?, bytes)));
    let (number, unit) = unit.with_context(|| format!("the size {size} is not in Ki, Mi or Gi"))?;
    let number: u64 = number.parse().with_context(|| format!("the size {size} is not a number"))?;
    ensure!(number > 0, "a disk of no size");
    Ok(number * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_as_in_a_claim() {
        assert_eq!(bytes("256Mi").unwrap(), 256 << 20);
        assert_eq!(bytes("1Gi").unwrap(), 1 << 30);
        for wrong in ["1", "0Mi", "1.5Gi", "Gi"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_disks_of_all_nodes_are_found() {
        let volumes = tempfile::tempdir().unwrap();
        fs::create_dir_all(volumes.path().join("n1/pvc-a")).unwrap();
        fs::create_dir_all(volumes.path().join("n2")).unwrap();
        fs::write(volumes.path().join("n2/pvc-b.img"), "").unwrap();
        assert_eq!(folders(volumes.path()).unwrap(), [volumes.path().join("n2/pvc-b")]);
        assert!(folders(&volumes.path().join("none")).unwrap().is_empty());
    }
}
