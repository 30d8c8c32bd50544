//! `cargo xtask tools`: etcd, etcdctl and etcdutl of three minor versions, built as Go tools into the target folder.
//!
//! Each folder `tools/etcd-<minor>` is a Go module that pins one version by its `tool` lines. What was built from which
//! go.mod and go.sum is kept beside the binaries, so that a second call has nothing to do.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::{go, repo};

/// The minor versions there is a module of.
const MINORS: [&str; 3] = ["3.6", "3.7", "3.5"];

/// What Go calls a program after its module, and what we call it.
const PROGRAMS: [(&str, &str); 3] = [("server", "etcd"), ("etcdctl", "etcdctl"), ("etcdutl", "etcdutl")];

/// How the binaries are built; part of what they are built from.
const FLAGS: [&str; 4] = ["-trimpath", "-buildvcs=false", "-ldflags", "-s -w"];

/// Builds what is missing or out of date, and says so.
pub fn run() -> Result<()> {
    let missing = build_missing()?;
    if missing == 0 {
        println!("etcd 3.5, 3.6 and 3.7 are in {}", repo::relative(&repo::etcd_bin()).display());
    }
    Ok(())
}

/// As [`run`], silent when there is nothing to do. The number of versions built.
pub fn build_missing() -> Result<usize> {
    let bin = repo::etcd_bin();
    fs::create_dir_all(&bin).with_context(|| format!("cannot create {}", bin.display()))?;
    let lock =
        File::create(repo::tools().join("lock")).context("cannot create the lock file of the tools")?;
    lock.lock().context("cannot lock the tools")?;
    let mut missing = Vec::new();
    for minor in MINORS {
        let tool = Tool::read(minor)?;
        if !tool.is_built() {
            missing.push(tool);
        }
    }
    if !missing.is_empty() {
        go::check(&missing.iter().map(|tool| tool.module.as_path()).collect::<Vec<_>>())?;
        eprintln!("building etcd from source, about a minute for all on two cores, once");
    }
    for tool in &missing {
        tool.build()?;
    }
    Ok(missing.len())
}

/// One minor version.
struct Tool {
    minor: &'static str,
    module: PathBuf,
    /// Everything that shapes the binaries.
    source: String,
}

impl Tool {
    fn read(minor: &'static str) -> Result<Self> {
        let module = repo::root().join("tools").join(format!("etcd-{minor}"));
        let read = |file: &str| {
            let path = module.join(file);
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
        };
        let source = format!("{}\n{}\n{}", FLAGS.join(" "), read("go.mod")?, read("go.sum")?);
        Ok(Self { minor, module, source })
    }

    fn is_built(&self) -> bool {
        let same = fs::read_to_string(self.stamp()).is_ok_and(|built| built == self.source);
        same && PROGRAMS.iter().all(|(_, name)| self.program(name).is_file())
    }

    fn build(&self) -> Result<()> {
        let start = Instant::now();
        let fresh = repo::tools().join(format!("new-{}", self.minor));
        fs::create_dir_all(&fresh).with_context(|| format!("cannot create {}", fresh.display()))?;
        let mut build = Command::new("go");
        build.args(["build", "-C"]).arg(&self.module).args(FLAGS).arg("-o").arg(&fresh).arg("tool");
        build.env("CGO_ENABLED", "0").env("GOWORK", "off").env("GOFLAGS", "-mod=readonly");
        let output = build.output().context("cannot run go")?;
        if !output.status.success() {
            bail!(go::explain(&format!("etcd {}", self.minor), &String::from_utf8_lossy(&output.stderr)));
        }
        // By rename, so that a running etcd keeps its own.
        for (built, name) in PROGRAMS {
            fs::rename(fresh.join(built), self.program(name))
                .with_context(|| format!("cannot put {name} in place"))?;
        }
        fs::remove_dir(&fresh).context("go built more than it should")?;
        fs::write(self.stamp(), &self.source).context("cannot note what was built")?;
        let seconds = start.elapsed().as_secs();
        eprintln!("  etcd {} ({}) in {seconds} s", self.minor, self.version().unwrap_or("version unknown"));
        Ok(())
    }

    /// The version that go.mod pins.
    fn version(&self) -> Option<&str> {
        let line = self.source.lines().find(|line| line.trim().starts_with("go.etcd.io/etcd/server/v3 v"))?;
        line.split_whitespace().nth(1)
    }

    fn program(&self, name: &str) -> PathBuf {
        repo::etcd_bin().join(format!("{name}-{}", self.minor))
    }

    fn stamp(&self) -> PathBuf {
        repo::tools().join(Path::new(&format!("built-{}", self.minor)))
    }
}
