//! The etcd programs of this machine, by the version that they print.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The etcd programs of one release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdPrograms {
    /// Its version, without `v`.
    pub version: String,
    /// The server.
    pub etcd: PathBuf,
    /// The client, if found.
    pub etcdctl: Option<PathBuf>,
    /// The tool for data directories, if found.
    pub etcdutl: Option<PathBuf>,
}

/// The etcd programs that were found.
#[derive(Clone, Debug, Default)]
pub struct Programs {
    by_version: BTreeMap<Vec<u32>, EtcdPrograms>,
}

/// No etcd was found.
#[derive(Debug, thiserror::Error)]
#[error(
    "no etcd found in {searched}. Build it with `cargo xtask tools` in the repository of Quorate, install it \
     (https://etcd.io/docs/latest/install), or set its directory with --etcd-bin-dir"
)]
pub struct NoEtcd {
    searched: String,
}

impl Programs {
    /// Searches the given directory; without one, PATH and the directory of `cargo xtask tools`.
    pub fn find(named: Option<&Path>) -> Result<Self, NoEtcd> {
        let directories = directories(named);
        let mut found = Self::default();
        for directory in &directories {
            for programs in in_directory(directory) {
                found.by_version.entry(order(&programs.version)).or_insert(programs);
            }
        }
        if found.by_version.is_empty() {
            let shown: Vec<String> =
                directories.iter().map(|directory| directory.display().to_string()).collect();
            return Err(NoEtcd { searched: shown.join(", ") });
        }
        Ok(found)
    }

    /// The programs of a version.
    pub fn get(&self, version: &str) -> Option<&EtcdPrograms> {
        self.by_version.get(&order(version))
    }

    /// The versions, oldest first.
    pub fn versions(&self) -> Vec<&str> {
        self.by_version.values().map(|programs| programs.version.as_str()).collect()
    }

    /// The newest version.
    pub fn newest(&self) -> Option<&EtcdPrograms> {
        self.by_version.values().next_back()
    }

    #[cfg(test)]
    pub(crate) fn of(versions: &[&str]) -> Self {
        let programs = |version: &str| EtcdPrograms {
            version: version.to_owned(),
            etcd: format!("/opt/etcd-{version}").into(),
            etcdctl: None,
            etcdutl: None,
        };
        Self { by_version: versions.iter().map(|version| (order(version), programs(version))).collect() }
    }
}

/// Where programs are looked for: in the given directory; without one, in PATH and the directory of `cargo xtask tools`.
pub fn directories(named: Option<&Path>) -> Vec<PathBuf> {
    named.map_or_else(default_directories, |directory| vec![directory.to_owned()])
}

fn default_directories() -> Vec<PathBuf> {
    let mut directories: Vec<PathBuf> =
        std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default();
    let built =
        std::env::current_exe().ok().and_then(|program| Some(program.parent()?.parent()?.join("tools/bin")));
    directories.extend(built);
    directories.push("target/tools/bin".into());
    directories.dedup();
    directories
}

/// `etcd`, `etcd-3.6` and the like, with the clients in the same directory.
fn in_directory(directory: &Path) -> Vec<EtcdPrograms> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    names
        .filter_map(|name| {
            let suffix = name.strip_prefix("etcd").filter(|suffix| {
                suffix.is_empty() || (suffix.starts_with("-3") && suffix[1..].chars().all(is_of_version))
            })?;
            let beside =
                |name: &str| Some(directory.join(format!("{name}{suffix}"))).filter(|path| path.is_file());
            let etcd = std::fs::canonicalize(directory.join(&name)).ok()?;
            let version = asked(&etcd)?;
            Some(EtcdPrograms { version, etcd, etcdctl: beside("etcdctl"), etcdutl: beside("etcdutl") })
        })
        .collect()
}

fn is_of_version(character: char) -> bool {
    character.is_ascii_digit() || character == '.'
}

fn asked(etcd: &Path) -> Option<String> {
    let output = Command::new(etcd).arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.lines().find_map(|line| line.strip_prefix("etcd Version: ")).map(|version| version.trim().to_owned())
}

fn order(version: &str) -> Vec<u32> {
    version.trim_start_matches('v').split(['.', '-']).map(|part| part.parse().unwrap_or(0)).collect()
}
