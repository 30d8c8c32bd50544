//! The per-user cache of programs that are built here and are not part of this repository: Cargo's helpers, etcd, Kubernetes.
//! Every clone on the machine uses it, so only the first one builds them.
//!
//! It is in `$QUORATE_CACHE_DIR`, else in `$XDG_CACHE_HOME/quorate`, else in `~/.cache/quorate`. It can be deleted at any time:
//! what is needed is built again.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use crate::repo;

/// A built program, identified by everything that shapes it.
pub struct Entry {
    /// The program's name, which is its file name too.
    name: String,
    /// The folder of this entry.
    folder: PathBuf,
}

impl Entry {
    /// The entry of the program `name` that is built by `recipe`. The label (a version) is for people who read the folder; the
    /// recipe, the label and this machine's platform decide.
    pub fn of(name: &str, label: &str, recipe: &str) -> Self {
        Self::in_folder(&root(), name, label, recipe)
    }

    fn in_folder(root: &Path, name: &str, label: &str, recipe: &str) -> Self {
        let platform = format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS);
        let digest = digest(&format!("{name}\n{label}\n{platform}\n{recipe}"));
        let folder = root.join("programs").join(format!("{name}-{label}-{platform}-{digest}"));
        Self { name: name.to_owned(), folder }
    }

    /// Whether the cache has the program.
    pub fn exists(&self) -> bool {
        self.program().is_file()
    }

    /// The program's path. If it is missing, `build` makes it in a scratch folder and returns its path there. A clone that
    /// needs the same program at the same time waits.
    pub fn get(&self, build: impl FnOnce(&Path) -> Result<PathBuf>) -> Result<PathBuf> {
        let program = self.program();
        if self.exists() {
            return Ok(program);
        }
        fs::create_dir_all(&self.folder)
            .with_context(|| format!("cannot create {}", self.folder.display()))?;
        let _lock = xtask::lock(&self.folder.join("lock"), &format!("another build of {}", self.name))?;
        // Another clone may have built it while this one waited for the lock.
        if self.exists() {
            return Ok(program);
        }
        let scratch = self.folder.join("build");
        remove(&scratch)?;
        fs::create_dir_all(&scratch).with_context(|| format!("cannot create {}", scratch.display()))?;
        let built = build(&scratch)?;
        // The rename is atomic: the file exists only when it is complete.
        fs::rename(&built, &program).with_context(|| format!("cannot create {}", program.display()))?;
        remove(&scratch)?;
        Ok(program)
    }

    fn program(&self) -> PathBuf {
        self.folder.join(&self.name)
    }
}

/// Puts a program of the cache at `place`: as a hard link, or as a copy if the cache is on another file system. A process that
/// runs the previous file keeps it.
#[expect(clippy::disallowed_methods, reason = "the time of a file, which nothing decides by")]
pub fn place(program: &Path, place: &Path) -> Result<()> {
    let mut fresh = place.as_os_str().to_owned();
    fresh.push(".new");
    let fresh = PathBuf::from(fresh);
    if fresh.exists() {
        fs::remove_file(&fresh).with_context(|| format!("cannot remove {}", fresh.display()))?;
    }
    if fs::hard_link(program, &fresh).is_err() {
        fs::copy(program, &fresh).with_context(|| format!("cannot copy {}", program.display()))?;
    }
    // A rename onto another link of the same file does nothing, and would leave the new link behind.
    if place.exists() {
        fs::remove_file(place).with_context(|| format!("cannot replace {}", place.display()))?;
    }
    fs::rename(&fresh, place).with_context(|| format!("cannot create {}", place.display()))?;
    // What is made of the program, such as an image, is compared with its time. Its owner may set it through a file that is open
    // for reading; the kernel refuses to open a program for writing while it runs.
    let file = File::open(place).context("cannot open a program that was just placed")?;
    file.set_modified(SystemTime::now()).context("cannot set the time of a program")
}

/// Names something by what it was made of.
pub fn digest(text: &str) -> String {
    Sha256::digest(text).iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

/// Of the folders beside this one whose names begin so, removes all but the newest, and never this one.
pub fn remove_old(used: &Path, prefix: &str, kept: usize) -> Result<()> {
    let folder = used.parent().context("it lies in a folder")?;
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?.flatten();
    let ours = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
    let mut folders: Vec<(SystemTime, PathBuf)> =
        ours.filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path()))).collect();
    folders.sort();
    let old = folders.iter().take(folders.len().saturating_sub(kept)).filter(|(_, folder)| folder != used);
    old.into_iter().try_for_each(|(_, folder)| remove(folder))
}

/// The cache's folder. A user without a home directory has it in the target folder.
pub fn root() -> PathBuf {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("QUORATE_CACHE_DIR")
        .or_else(|| Some(variable("XDG_CACHE_HOME")?.join("quorate")))
        .or_else(|| Some(std::env::home_dir()?.join(".cache/quorate")))
        .unwrap_or_else(|| repo::tools().join("cache"))
}

fn remove(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path) -> Result<PathBuf> {
        let file = folder.join("program");
        fs::write(&file, "built")?;
        Ok(file)
    }

    #[test]
    fn a_program_is_built_once_for_each_recipe() {
        let root = tempfile::tempdir().unwrap();
        let entry = |recipe: &str| Entry::in_folder(root.path(), "etcd", "v3.6", recipe);
        let program = entry("a").get(write).unwrap();
        assert_eq!(fs::read_to_string(&program).unwrap(), "built");
        assert_eq!(entry("a").get(|_| panic!("it is built again")).unwrap(), program);
        assert_ne!(entry("b").get(write).unwrap(), program);
    }

    #[test]
    fn of_old_folders_the_newest_stay_and_the_one_in_use() {
        let root = tempfile::tempdir().unwrap();
        let folder = |name: &str| root.path().join(name);
        for name in ["a-1", "a-2", "a-3", "b-1"] {
            fs::create_dir(folder(name)).unwrap();
        }
        remove_old(&folder("a-2"), "a-", 0).unwrap();
        let left = ["a-1", "a-2", "a-3", "b-1"].map(|name| folder(name).exists());
        assert_eq!(left, [false, true, false, true]);
    }

    #[test]
    fn a_build_that_fails_leaves_no_program() {
        let root = tempfile::tempdir().unwrap();
        let entry = Entry::in_folder(root.path(), "etcd", "v3.6", "");
        let failed = entry.get(|folder| {
            write(folder)?;
            anyhow::bail!("no network")
        });
        assert!(failed.is_err());
        assert!(entry.get(write).is_ok());
    }

    #[test]
    fn a_program_replaces_the_one_at_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let program = write(folder.path()).unwrap();
        let target = folder.path().join("bin");
        fs::write(&target, "old").unwrap();
        place(&program, &target).unwrap();
        place(&program, &target).unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "built");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_program_is_placed_while_it_runs() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        fs::copy("/bin/cat", &program).unwrap();
        let target = folder.path().join("bin");
        place(&program, &target).unwrap();
        let before = fs::metadata(&target).unwrap().modified().unwrap();
        let mut running =
            std::process::Command::new(&target).stdin(std::process::Stdio::piped()).spawn().unwrap();
        let placed = place(&program, &target);
        running.kill().unwrap();
        running.wait().unwrap();
        placed.unwrap();
        assert!(fs::metadata(&target).unwrap().modified().unwrap() > before);
    }
}
