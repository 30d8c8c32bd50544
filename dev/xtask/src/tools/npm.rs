//! Programs that are published for Node.js. The folder of `tools/` has a `package.json` that pins one; npm installs it into the target
//! folder, and a copy of `package.json` beside it records what it was installed from.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::repo;

/// Installs it if that is missing or out of date. The number of programs installed.
pub fn install(name: &str) -> Result<usize> {
    let wanted = repo::read(&PathBuf::from(format!("tools/{name}/package.json")))?;
    let folder = repo::tools().join(name);
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let lock = repo::tools().join(format!("lock-{name}"));
    let _lock = xtask::lock(&lock, &format!("another installation of {name}"))?;
    let installed = folder.join("installed.json");
    if fs::read_to_string(&installed).is_ok_and(|installed| installed == wanted) {
        return Ok(0);
    }
    eprintln!("installing {name} with npm, about a minute");
    fs::write(folder.join("package.json"), &wanted).context("cannot write package.json")?;
    let mut npm = Command::new("npm");
    npm.args([
        "install",
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
        "--no-package-lock",
        "--loglevel=error",
    ]);
    let status = npm.current_dir(&folder).status();
    let status =
        status.context("cannot start npm: install Node.js with npm (on Debian: apt-get install npm)")?;
    ensure!(status.success(), "npm did not install {name}: {status}");
    fs::write(installed, wanted).context("cannot record what was installed")?;
    Ok(1)
}
