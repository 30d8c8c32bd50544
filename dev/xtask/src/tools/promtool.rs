//! promtool, which tests Prometheus' rules: the one on the PATH, or that of Debian's package, taken out of it into the per-user cache. The
//! package itself would also install and start a server.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::cache::Entry;
use crate::test::Skipped;

const NAME: &str = "promtool";

/// The package that has it.
const PACKAGE: &str = "prometheus";

/// Fetches it if it is missing. The number of programs fetched.
pub fn install() -> Result<usize> {
    let is_there = is_on_path() || entry().exists();
    path().map(|_| usize::from(!is_there))
}

/// The program, fetched if it is missing; [`Skipped`] if this machine cannot have it.
pub fn path() -> Result<PathBuf> {
    if is_on_path() {
        return Ok(NAME.into());
    }
    entry().get(fetch).map_err(|error| Skipped(format!("{error:#}")).into())
}

/// Takes it out of the package, in this folder.
fn fetch(scratch: &Path) -> Result<PathBuf> {
    eprintln!("fetching {NAME}, 20 MB, once for all clones on this machine");
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
        apt.status()
            .with_context(|| format!("there is no apt-get. Install {NAME} by hand: it is part of Prometheus"))
    };
    let own = [&cache, &lists];
    let fetched = apt(&own[..1], &["download", PACKAGE])?.success()
        || (apt(&own, &["update"])?.success() && apt(&own, &["download", PACKAGE])?.success());
    ensure!(fetched, "apt-get cannot download {PACKAGE}. Install {NAME} by hand: it is part of Prometheus");
    let mut files = scratch.read_dir()?.filter_map(Result::ok).map(|entry| entry.path());
    let package = files.find(|file| file.extension().is_some_and(|extension| extension == "deb"));
    let Some(package) = package else { bail!("apt-get downloaded no package") };
    let unpacked = Command::new("dpkg-deb").arg("-x").arg(package).arg(scratch.join("unpacked")).status();
    ensure!(unpacked.context("there is no dpkg-deb")?.success(), "dpkg-deb cannot unpack {PACKAGE}");
    Ok(scratch.join("unpacked/usr/bin").join(NAME))
}

fn entry() -> Entry {
    // Whichever version the distribution has.
    Entry::of(NAME, "debian", PACKAGE)
}

fn is_on_path() -> bool {
    let mut version = Command::new(NAME);
    version.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    version.status().is_ok_and(|status| status.success())
}
