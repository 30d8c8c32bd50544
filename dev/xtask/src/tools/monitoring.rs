//! Prometheus' programs: those on the PATH, or those of Debian's packages, taken out of them into the per-user cache. The packages
//! themselves would also install and start servers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::cache::{self, Entry};
use crate::repo;
use crate::test::Skipped;

/// A program of a package of Debian.
pub struct Program {
    name: &'static str,
    package: &'static str,
    /// What it is called in the package.
    file: &'static str,
}

/// Tests rules.
pub const PROMTOOL: Program = Program { name: "promtool", package: "prometheus", file: "usr/bin/promtool" };

/// What a test starts, from the folder of tools.
const SERVERS: [Program; 2] = [
    Program { name: "prometheus", package: "prometheus", file: "usr/bin/prometheus" },
    Program {
        name: "alertmanager",
        package: "prometheus-alertmanager",
        file: "usr/bin/prometheus-alertmanager",
    },
];

/// Fetches what is missing, and puts Prometheus and Alertmanager into the folder of tools; [`Skipped`] if this machine cannot have them.
/// The number of programs fetched or put there.
pub fn install() -> Result<usize> {
    let is_there = PROMTOOL.on_path().is_some() || PROMTOOL.entry().exists();
    PROMTOOL.path()?;
    Ok(usize::from(!is_there) + install_servers()?)
}

/// As [`install`], without promtool.
pub fn install_servers() -> Result<usize> {
    let bin = repo::tools_bin();
    fs::create_dir_all(&bin).with_context(|| format!("cannot create {}", bin.display()))?;
    let _lock = xtask::lock(&repo::tools().join("lock-monitoring"), "another look for Prometheus")?;
    let missing = SERVERS.iter().filter(|server| !bin.join(server.name).exists());
    let placed = missing.map(|server| cache::place(&server.path()?, &bin.join(server.name)));
    Ok(placed.collect::<Result<Vec<_>>>()?.len())
}

impl Program {
    /// Where it is, fetched if it is missing; [`Skipped`] if this machine cannot have it.
    pub fn path(&self) -> Result<PathBuf> {
        match self.on_path() {
            Some(program) => Ok(program),
            None => self.entry().get(|scratch| self.fetch(scratch)).map_err(|error| {
                let name = self.name;
                Skipped(format!("{error:#}. Install {name} by hand: it is part of Prometheus")).into()
            }),
        }
    }

    /// Takes it out of the package, in this folder.
    fn fetch(&self, scratch: &Path) -> Result<PathBuf> {
        let package = self.package;
        eprintln!("fetching {}, 20 MB, once for all clones on this machine", self.name);
        // Whoever may not write the machine's own state, or finds it empty as in an image of a container, has its own.
        let (lists, cache) = (scratch.join("lists"), scratch.join("cache"));
        fs::create_dir_all(lists.join("partial"))?;
        fs::create_dir_all(cache.join("archives/partial"))?;
        let cache = format!("Dir::Cache={}", cache.display());
        let lists = format!("Dir::State::lists={}", lists.display());
        let apt = |own: &[&String], args: &[&str]| {
            let mut apt = Command::new("apt-get");
            // Its own user may not write here, and it warns.
            apt.args(["-qq", "-o", "APT::Sandbox::User=root"])
                .args(own.iter().flat_map(|option| ["-o", option]))
                .args(args)
                .current_dir(scratch)
                .stdout(Stdio::null());
            apt.status().context("there is no apt-get")
        };
        let own = [&cache, &lists];
        let fetched = apt(&own[..1], &["download", package])?.success()
            || (apt(&own, &["update"])?.success() && apt(&own, &["download", package])?.success());
        ensure!(fetched, "apt-get cannot download {package}");
        let mut files = scratch.read_dir()?.filter_map(Result::ok).map(|entry| entry.path());
        let archive = files.find(|file| file.extension().is_some_and(|extension| extension == "deb"));
        let Some(archive) = archive else { bail!("apt-get downloaded no package") };
        let unpacked = Command::new("dpkg-deb").arg("-x").arg(archive).arg(scratch.join("unpacked")).status();
        ensure!(unpacked.context("there is no dpkg-deb")?.success(), "dpkg-deb cannot unpack {package}");
        Ok(scratch.join("unpacked").join(self.file))
    }

    fn entry(&self) -> Entry {
        // Whichever version the distribution has.
        Entry::of(self.name, "debian", self.package)
    }

    /// Its place in the PATH, if it is there and runs.
    fn on_path(&self) -> Option<PathBuf> {
        let path = std::env::var_os("PATH")?;
        let program =
            std::env::split_paths(&path).map(|folder| folder.join(self.name)).find(|file| file.is_file())?;
        let mut version = Command::new(&program);
        version.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
        version.status().is_ok_and(|status| status.success()).then_some(program)
    }
}
