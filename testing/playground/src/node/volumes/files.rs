//! Directories whose files change all at once, as the kubelet makes them: the files are links through `..data`, which
//! is itself a link that is replaced atomically. A reader never sees a new certificate with an old key.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use crate::clock::now;

const DATA: &str = "..data";

/// Makes these files the content of the directory. Does nothing if they already are.
pub fn replace(directory: &Path, files: &BTreeMap<String, Vec<u8>>, mode: u32) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let data = directory.join(DATA);
    if data.exists() && shown(&data)? == *files {
        return Ok(());
    }
    let version = format!("..{:x}", now().as_nanosecond());
    for (name, content) in files {
        let file = directory.join(&version).join(name);
        fs::create_dir_all(file.parent().unwrap_or(directory))?;
        fs::write(&file, content)?;
        fs::set_permissions(&file, fs::Permissions::from_mode(mode))?;
    }
    fs::create_dir_all(directory.join(&version))?;
    let before = fs::read_link(&data).ok();
    let new = directory.join("..data_new");
    let _ = fs::remove_file(&new);
    symlink(&version, &new)?;
    fs::rename(&new, &data)?;
    let top = |name: &str| name.split('/').next().unwrap_or_default().to_owned();
    let wanted: Vec<String> = files.keys().map(|name| top(name)).collect();
    for entry in fs::read_dir(directory)?.flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        if !name.starts_with("..") && !wanted.contains(&name) {
            fs::remove_file(entry.path())?;
        }
    }
    for name in wanted {
        if fs::symlink_metadata(directory.join(&name)).is_err() {
            symlink(Path::new(DATA).join(&name), directory.join(&name))?;
        }
    }
    if let Some(before) = before {
        fs::remove_dir_all(directory.join(before))?;
    }
    Ok(())
}

fn shown(data: &Path) -> io::Result<BTreeMap<String, Vec<u8>>> {
    let mut files = BTreeMap::new();
    let mut directories = vec![data.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            if path.is_dir() {
                directories.push(path);
            } else {
                let name = path.strip_prefix(data).unwrap_or(&path).to_string_lossy().into_owned();
                files.insert(name, fs::read(&path)?);
            }
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(files: &[(&str, &str)]) -> BTreeMap<String, Vec<u8>> {
        files.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec())).collect()
    }

    #[test]
    fn files_are_added_changed_and_removed_atomically() {
        let dir = tempfile::tempdir().unwrap();
        replace(dir.path(), &files(&[("tls.crt", "one"), ("tls.key", "1"), ("sub/ca", "x")]), 0o440).unwrap();
        let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
        assert_eq!((read("tls.crt"), read("sub/ca")), ("one".to_owned(), "x".to_owned()));
        let version = fs::read_link(dir.path().join(DATA)).unwrap();
        assert_eq!(fs::metadata(dir.path().join("tls.key")).unwrap().permissions().mode() & 0o777, 0o440);

        replace(dir.path(), &files(&[("tls.crt", "one"), ("tls.key", "1"), ("sub/ca", "x")]), 0o440).unwrap();
        assert_eq!(fs::read_link(dir.path().join(DATA)).unwrap(), version, "nothing changed");

        replace(dir.path(), &files(&[("tls.crt", "two")]), 0o440).unwrap();
        assert_eq!(read("tls.crt"), "two");
        assert!(!dir.path().join("tls.key").exists() && !dir.path().join("sub").exists());
        assert!(!dir.path().join(version).exists(), "the old version is deleted");
    }
}
