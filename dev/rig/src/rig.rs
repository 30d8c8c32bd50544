//! The paths and names of a cluster on this machine.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::addresses::{Addresses, Families};
use crate::files;

/// Unix sockets below the folder have names of up to 107 bytes.
const LONGEST_DIR: usize = 60;

/// How many clusters fit on a machine, each in a folder of its own.
const RIGS: u8 = 16;

/// A cluster of this machine.
pub struct Rig {
    dir: PathBuf,
    kept: Kept,
}

/// What is kept between calls.
#[derive(Clone, Serialize, Deserialize)]
struct Kept {
    /// The number of the cluster on this machine, which its names and addresses contain.
    index: u8,
    /// The number of its nodes.
    nodes: u8,
    /// The families of its addresses.
    #[serde(default, alias = "family")]
    families: Families,
}

impl Rig {
    /// The cluster in this folder, made if there is none, with at least so many nodes.
    pub fn claim(dir: &Path, nodes: u8, families: Option<Families>) -> Result<Self> {
        fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
        let dir = dir.canonicalize().with_context(|| format!("cannot resolve {}", dir.display()))?;
        ensure!(
            dir.as_os_str().len() <= LONGEST_DIR,
            "{} is longer than {LONGEST_DIR} bytes, and names of sockets are limited: give a shorter --dir",
            dir.display()
        );
        let kept = match Self::read(&dir)? {
            Some(Kept { index, nodes: known, families: of_old }) => {
                ensure!(
                    families.is_none_or(|families| families == of_old),
                    "the cluster in {} has addresses of other families: wipe it, or give another --dir",
                    dir.display()
                );
                let kept = Kept { index, nodes: nodes.max(known), families: of_old };
                ensure!(
                    claim(&dir, &kept)?,
                    "another cluster of this machine uses the addresses of {}: take that one down, or wipe this one",
                    dir.display()
                );
                kept
            }
            None => Self::fresh(&dir, nodes, families.unwrap_or_default())?,
        };
        let rig = Self { dir, kept };
        for folder in ["conf", "data", "images", "logs", "pids", "volumes"] {
            fs::create_dir_all(rig.dir.join(folder)).context("cannot create the cluster's folders")?;
        }
        Ok(rig)
    }

    /// The cluster in this folder, if there is one.
    pub fn open(dir: &Path) -> Result<Option<Self>> {
        let Ok(dir) = dir.canonicalize() else { return Ok(None) };
        Ok(Self::read(&dir)?.map(|kept| Self { dir, kept }))
    }

    /// Clusters whose folder was removed while they ran.
    pub fn abandoned() -> Result<Vec<Self>> {
        let _machine = lock_machine()?;
        let owned = (0..RIGS).filter_map(|index| {
            let dir = PathBuf::from(fs::read_to_string(run(index).join("owner")).ok()?);
            let gone = !dir.as_os_str().is_empty() && !dir.join("rig.json").exists();
            gone.then_some(Self { dir, kept: Kept { index, nodes: 0, families: Families::default() } })
        });
        Ok(owned.collect())
    }

    fn read(dir: &Path) -> Result<Option<Kept>> {
        let path = dir.join("rig.json");
        match fs::read_to_string(&path) {
            Ok(text) => {
                let kept: Kept =
                    serde_json::from_str(&text).with_context(|| format!("cannot read {}", path.display()))?;
                ensure!(kept.index < RIGS, "{} does not belong to this program", path.display());
                Ok(Some(kept))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    fn fresh(dir: &Path, nodes: u8, families: Families) -> Result<Kept> {
        for index in 0..RIGS {
            let kept = Kept { index, nodes, families };
            if claim(dir, &kept)? {
                return Ok(kept);
            }
        }
        bail!("there are {RIGS} clusters on this machine already; `cargo xtask kube down` ends one")
    }

    /// A cluster without a folder, for tests of what is written.
    #[cfg(test)]
    pub fn example() -> Self {
        Self::example_with(Families::default())
    }

    #[cfg(test)]
    pub fn example_with(families: Families) -> Self {
        Self { dir: PathBuf::from("/t/kube"), kept: Kept { index: 3, nodes: 3, families } }
    }

    /// Excludes other calls that change the cluster.
    pub fn lock(&self) -> Result<File> {
        xtask::lock(&self.dir.join("lock"), "another `cargo xtask kube` that changes this cluster")
    }

    /// The nodes' numbers, from 1.
    pub fn nodes(&self) -> impl Iterator<Item = u8> + use<> {
        1..=self.kept.nodes
    }

    /// The cluster's addresses, of its first family where it has two.
    pub fn addresses(&self) -> Addresses {
        Addresses::new(self.kept.index, self.kept.families.list()[0])
    }

    /// The cluster's addresses of each of its families.
    pub fn each_addresses(&self) -> impl Iterator<Item = Addresses> + use<> {
        let index = self.kept.index;
        self.kept.families.list().iter().map(move |family| Addresses::new(index, *family))
    }

    /// Something of each family, as options of Kubernetes' programs take it.
    pub fn listed<T: Display>(&self, of: impl Fn(Addresses) -> T) -> String {
        let each: Vec<String> = self.each_addresses().map(|addresses| of(addresses).to_string()).collect();
        each.join(",")
    }

    /// The name of the host's link to it. Its other names on this machine begin with this one.
    pub fn name(&self) -> String {
        name(self.kept.index)
    }

    /// A node's network namespace.
    pub fn netns(&self, node: u8) -> String {
        format!("{}-n{node}", self.name())
    }

    /// The control plane's network namespace, which holds the bridge.
    pub fn control_netns(&self) -> String {
        format!("{}-control", self.name())
    }

    /// The cluster's folder. Sockets and other state of its processes are elsewhere.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// The same as text, for configuration. The folder's name is known to be UTF-8.
    pub fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// State that ends with the processes. A short path, because names of sockets are limited.
    pub fn run(&self) -> PathBuf {
        run(self.kept.index)
    }

    /// A node's part of [`Self::run`].
    pub fn node_run(&self, node: u8) -> PathBuf {
        self.run().join(format!("n{node}"))
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.path("kubeconfig")
    }

    /// Whether another cluster uses its names and addresses, which `down` released.
    pub fn was_replaced(&self) -> bool {
        let owner = fs::read_to_string(self.run().join("owner")).unwrap_or_default();
        !owner.is_empty() && Path::new(&owner) != self.dir
    }

    /// Releases the names and addresses.
    pub fn release(&self) -> Result<()> {
        let _machine = lock_machine()?;
        if !self.was_replaced() && self.run().exists() {
            fs::remove_dir_all(self.run())
                .with_context(|| format!("cannot remove {}", self.run().display()))?;
        }
        Ok(())
    }
}

fn name(index: u8) -> String {
    format!("quorate{index}")
}

fn run(index: u8) -> PathBuf {
    Path::new("/run").join(name(index))
}

/// Takes the names and addresses of this number and records it in the folder, unless another cluster has them.
fn claim(dir: &Path, kept: &Kept) -> Result<bool> {
    let _machine = lock_machine()?;
    let run = run(kept.index);
    fs::create_dir_all(&run).with_context(|| format!("cannot create {}: is this root?", run.display()))?;
    let owner = run.join("owner");
    let mine = dir.display().to_string();
    let taken = fs::read_to_string(&owner).unwrap_or_default();
    let free = taken.is_empty() || taken == mine;
    if free {
        files::write_if_changed(&dir.join("rig.json"), &serde_json::to_string(kept)?)?;
        files::write_if_changed(&owner, &mine)?;
    }
    Ok(free)
}

/// A lock of the machine that needs no file of its own.
fn lock_machine() -> Result<File> {
    let machine = File::open("/run").context("cannot open /run")?;
    xtask::lock_open(&machine, "/run", "another cluster of this machine that starts")?;
    Ok(machine)
}
