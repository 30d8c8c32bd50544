//! `kube down`: ends the programs, then their containers, then removes mounts, links, namespaces and cgroups, and checks that.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use nix::mount::{MntFlags, umount2};

use crate::rig::Rig;
use crate::{cgroups, disks, network, programs};

/// Programs that keep data, so they get SIGTERM. The others are killed.
const ASKED: [&str; 2] = ["etcd", "containerd-"];

/// What `up` makes in the folder.
const KEPT: [&str; 8] = ["conf", "data", "images", "logs", "pids", "pki", "pki.new", "volumes"];

/// Leaves nothing but the folder; with `wipe` not even that.
pub fn run(dir: &Path, wipe: bool) -> Result<()> {
    clear_abandoned()?;
    let Some(rig) = Rig::open(dir)? else {
        println!("there is no cluster in {}", dir.display());
        return Ok(());
    };
    let lock = rig.lock()?;
    // Then it is down already, and another cluster uses its names.
    if !rig.was_replaced() {
        clear(&rig)?;
    }
    if wipe {
        for name in KEPT {
            remove(&rig.path(name))?;
        }
        for name in ["kubeconfig", "rig.json", "lock"] {
            remove(&rig.path(name))?;
        }
        drop(lock);
        // The user may have files in it.
        let _ = fs::remove_dir(rig.dir());
    }
    println!("down{}", if wipe { ", and all data removed" } else { "" });
    Ok(())
}

/// Ends what is left of clusters whose folder was removed.
pub fn clear_abandoned() -> Result<()> {
    for rig in Rig::abandoned()? {
        eprintln!("ending what is left of the cluster that was in {}", rig.dir().display());
        clear(&rig)?;
    }
    Ok(())
}

fn clear(rig: &Rig) -> Result<()> {
    disks::thaw_all(&rig.path("volumes"))?;
    let names: Vec<String> = programs::all(rig)?.into_keys().collect();
    let (asked, killed): (Vec<&str>, Vec<&str>) =
        names.iter().map(String::as_str).partition(|name| ASKED.iter().any(|asked| name.starts_with(asked)));
    programs::kill(rig, &killed)?;
    // containerd before its shims, or it would handle the end of each.
    programs::stop(rig, &asked)?;
    programs::kill_leftovers(rig.dir())?;
    cgroups::kill(rig)?;
    unmount(rig)?;
    network::down(rig)?;
    cgroups::down(rig)?;
    check(rig)?;
    rig.release()
}

/// Fails if anything of the cluster is left on the machine.
fn check(rig: &Rig) -> Result<()> {
    let mut left = Vec::new();
    left.extend(programs::marked(rig.dir()).iter().map(|process| format!("process {}", process.pid)));
    left.extend(mounts(rig)?.iter().map(|path| format!("mount {}", path.display())));
    left.extend(network::left(rig)?.iter().map(|name| format!("network namespace {name}")));
    left.extend(network::is_host_link(&rig.name()).then(|| format!("link {}", rig.name())));
    left.extend(cgroups::roots(rig).iter().map(|path| format!("cgroup {}", path.display())));
    ensure!(left.is_empty(), "not all of the cluster is gone: {}", left.join(", "));
    Ok(())
}

fn unmount(rig: &Rig) -> Result<()> {
    // The last first: it may be below an earlier one.
    for path in mounts(rig)?.iter().rev() {
        umount2(path, MntFlags::MNT_DETACH | MntFlags::UMOUNT_NOFOLLOW)
            .with_context(|| format!("cannot unmount {}", path.display()))?;
    }
    Ok(())
}

/// What is mounted below the cluster's folders.
fn mounts(rig: &Rig) -> Result<Vec<PathBuf>> {
    let table = fs::read_to_string("/proc/self/mountinfo").context("cannot read the mounts")?;
    Ok(mounts_below(&table, &[rig.dir(), &rig.run()]))
}

fn mounts_below(table: &str, folders: &[&Path]) -> Vec<PathBuf> {
    let paths = table.lines().filter_map(|line| line.split(' ').nth(4));
    // Blanks and the like are written as octal numbers.
    let paths = paths.map(|path| PathBuf::from(path.replace("\\040", " ").replace("\\134", "\\")));
    paths.filter(|path| folders.iter().any(|folder| path.starts_with(folder))).collect()
}

fn remove(path: &Path) -> Result<()> {
    let result = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match result {
        Err(error) if path.exists() => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_mounts_below_the_clusters_folders_are_its_own() {
        let table = "1 0 0:1 / / rw - ext4 /dev/vda rw\n\
                     2 1 0:2 / /t/kube/data/a rw shared:1 - overlay overlay rw\n\
                     3 1 0:3 / /t/kube-other/data rw - tmpfs tmpfs rw\n\
                     4 2 0:4 / /t/kube/data/a/b\\040c rw - tmpfs tmpfs rw\n";
        let found = mounts_below(table, &[Path::new("/t/kube"), Path::new("/run/quorate0")]);
        assert_eq!(found, [Path::new("/t/kube/data/a"), Path::new("/t/kube/data/a/b c")]);
    }
}
