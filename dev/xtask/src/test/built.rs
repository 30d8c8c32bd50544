//! The tests and the programs that they start, built once for all tiers. A tier then runs them without Cargo: it neither waits for
//! the lock of Cargo, which rustdoc may hold, nor builds `quorate` again with other features.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};

use crate::tools::helpers;
use crate::{cache, cargo, crates, repo};

/// The packages whose tests run: all but the benchmarks.
const PACKAGES: [&str; 3] = ["--workspace", "--exclude", "bench"];

/// The programs that tests start. Cargo builds them for the integration tests of their own packages.
const PROGRAMS: [&str; 2] = ["quorate", "rig"];

/// What nextest knows about the built tests.
pub struct Built {
    binaries: PathBuf,
    metadata: PathBuf,
}

impl Built {
    /// Builds everything, with Cargo's progress, and puts the programs where no other build replaces them.
    pub fn build() -> Result<Self> {
        let this = Self::in_its_place();
        fs::create_dir_all(programs()).with_context(|| format!("cannot create {}", programs().display()))?;
        let mut metadata = cargo::command();
        metadata.args(["metadata", "--format-version=1", "--all-features", "--locked"]);
        fs::write(&this.metadata, crate::children::output(&mut metadata)?)
            .context("cannot write metadata")?;
        let mut list = helpers::nextest()?;
        list.arg("list").args(PACKAGES).args(["--list-type", "binaries-only", "--message-format", "json"]);
        let output = list.stderr(Stdio::inherit()).output().context("cannot run nextest")?;
        ensure!(output.status.success(), "the tests cannot be built, see above");
        fs::write(&this.binaries, output.stdout).context("cannot write the list of tests")?;
        crates::keep();
        for name in PROGRAMS {
            cache::place(&repo::target().join("debug").join(name), &programs().join(name))?;
        }
        this.used()
    }

    /// What another process of this run has built.
    pub fn before() -> Result<Self> {
        Self::in_its_place().used()
    }

    /// What `cargo nextest run` needs to run them.
    pub fn arguments(&self) -> [PathBuf; 4] {
        [
            "--binaries-metadata".into(),
            self.binaries.clone(),
            "--cargo-metadata".into(),
            self.metadata.clone(),
        ]
    }

    fn in_its_place() -> Self {
        let folder = repo::target().join("tests");
        Self { binaries: folder.join("binaries.json"), metadata: folder.join("metadata.json") }
    }

    fn used(self) -> Result<Self> {
        ensure!(self.binaries.exists(), "{} does not exist", self.binaries.display());
        cargo::use_programs_of_tests(programs());
        Ok(self)
    }
}

/// Beside `target/tools`, where `quorate` looks for etcdctl.
fn programs() -> PathBuf {
    repo::target().join("tests")
}
