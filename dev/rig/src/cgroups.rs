//! A node's cgroups: one below the cluster's in every hierarchy, so that its kubelet sees no other node's Pods.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::identity::Identity;
use crate::programs;
use crate::rig::Rig;

const ROOT: &str = "/sys/fs/cgroup";

/// How long the kernel may take to release an emptied cgroup.
const PATIENCE: Duration = Duration::from_secs(10);

/// The controllers of a node, if there is one hierarchy.
const CONTROLLERS: &str = "+cpuset +cpu +io +memory +pids";

/// The path of a node's cgroup in every hierarchy.
pub fn of_node(rig: &Rig, node: u8) -> String {
    format!("/{}/n{node}", rig.name())
}

/// The roots of this machine's hierarchies: one of version 2, or several of version 1.
pub fn hierarchies() -> Vec<PathBuf> {
    if is_unified() {
        return vec![PathBuf::from(ROOT)];
    }
    let entries = fs::read_dir(ROOT).into_iter().flatten().flatten();
    // Links are other names of the same hierarchies.
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.map(|entry| entry.path()).filter(|path| path.join("cgroup.procs").exists()).collect()
}

/// Makes a node's cgroups; a kubelet does not make its own root.
pub fn up(rig: &Rig, node: u8) -> Result<()> {
    for hierarchy in hierarchies() {
        let cluster = hierarchy.join(rig.name());
        for (above, path) in [(&hierarchy, cluster.clone()), (&cluster, cluster.join(format!("n{node}")))] {
            if is_unified() {
                // The kubelet does without a controller that this machine lacks, or reports it.
                let _ = fs::write(above.join("cgroup.subtree_control"), CONTROLLERS);
            }
            fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
            // No process may enter an empty cpuset.
            for file in ["cpuset.cpus", "cpuset.mems"] {
                fill(above, &path, file)?;
            }
        }
    }
    Ok(())
}

/// Ends every process below the cluster's cgroups: the containers.
pub fn kill(rig: &Rig) -> Result<()> {
    let until = Instant::now() + PATIENCE;
    loop {
        let mut pids: Vec<i32> = Vec::new();
        for root in roots(rig) {
            for folder in tree(&root) {
                let procs = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
                pids.extend(procs.lines().filter_map(|line| line.parse::<i32>().ok()));
            }
        }
        let processes: Vec<Identity> = pids.into_iter().filter_map(Identity::of).collect();
        if processes.is_empty() {
            return Ok(());
        }
        ensure!(Instant::now() < until, "containers of the cluster keep restarting");
        programs::end(&processes)?;
    }
}

/// Removes the cluster's cgroups, which must be empty.
pub fn down(rig: &Rig) -> Result<()> {
    let until = Instant::now() + PATIENCE;
    for root in roots(rig) {
        for folder in tree(&root) {
            // An ended process may still be counted for a moment.
            while let Err(error) = fs::remove_dir(&folder) {
                if !folder.exists() {
                    break;
                }
                ensure!(Instant::now() < until, "cannot remove {}: {error}", folder.display());
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
    Ok(())
}

/// The cluster's own folders that are there.
pub fn roots(rig: &Rig) -> Vec<PathBuf> {
    hierarchies().into_iter().map(|path| path.join(rig.name())).filter(|path| path.exists()).collect()
}

/// A folder and all below it, the lowest first.
fn tree(root: &Path) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            folders.extend(tree(&entry.path()));
        }
    }
    folders.push(root.to_owned());
    folders
}

fn fill(above: &Path, path: &Path, file: &str) -> Result<()> {
    let target = path.join(file);
    if is_unified() || !target.exists() {
        return Ok(());
    }
    let text = fs::read_to_string(&target).with_context(|| format!("cannot read {}", target.display()))?;
    if text.trim().is_empty() {
        let all = fs::read_to_string(above.join(file)).context("cannot read the cpuset above")?;
        fs::write(&target, all.trim()).with_context(|| format!("cannot write {}", target.display()))?;
    }
    Ok(())
}

fn is_unified() -> bool {
    Path::new(ROOT).join("cgroup.controllers").exists()
}
