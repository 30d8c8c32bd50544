//! The image and the manifests of the commit before this one, from which the tests upgrade the operator.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use super::kept;
use super::program::{self, Profile};
use crate::{children, repo};

/// What the image is called.
const REFERENCE: &str = "quorate:previous";

/// Names another commit to upgrade from.
const FROM: &str = "QUORATE_TEST_UPGRADE_FROM";

/// The results of its build.
pub struct Previous {
    /// The image, as an archive.
    pub image: PathBuf,
    /// The plain manifests of that commit, with this image.
    pub manifests: PathBuf,
}

impl Previous {
    /// The results of the last build, if there are any.
    pub fn built() -> Option<Self> {
        Some(Self::in_its_place()).filter(|this| this.image.exists() && this.manifests.exists())
    }

    fn in_its_place() -> Self {
        Self { image: folder().join("quorate.tar"), manifests: folder().join("quorate.yaml") }
    }

    /// Whether another commit than the one before is named.
    pub fn is_chosen() -> bool {
        std::env::var_os(FROM).is_some()
    }

    /// Whether files in these places differ between the commit before and the work tree. Without a commit before: they do.
    pub fn differs_in(places: &[&str]) -> Result<bool> {
        let mut diff = repo::git();
        diff.args(["diff", "--quiet", "HEAD~1", "--"]).args(places).stderr(Stdio::null());
        Ok(!diff.status().context("cannot run git")?.success())
    }

    /// Builds it for tests. `None` if the repository has no commit before.
    pub fn build() -> Result<Option<Self>> {
        let commit = match std::env::var(FROM) {
            Ok(asked) => commit(&asked).with_context(|| format!("{FROM} names no commit"))?,
            Err(_) => match commit("HEAD~1") {
                Ok(commit) => commit,
                Err(_) => return Ok(None),
            },
        };
        let folder = folder();
        let sources = folder.join("sources");
        check_out(commit.trim(), &folder, &sources)?;
        let program = kept::program(commit.trim(), || build_program(&sources))?;
        let Self { image, manifests } = Self::in_its_place();
        super::write(REFERENCE, &program, &image)?;

        let text = fs::read_to_string(sources.join("config/install/quorate.yaml"))?;
        let named = text.split_once("--agent-image=").context("its manifests name no image")?;
        let own = named.1.lines().next().unwrap_or_default().trim();
        fs::write(&manifests, text.replace(own, REFERENCE)).context("cannot write its manifests")?;
        Ok(Some(Self { image, manifests }))
    }
}

fn build_program(sources: &Path) -> Result<Vec<u8>> {
    program::forget(Profile::Test)?;
    let program = program::build(sources, Profile::Test);
    program::forget(Profile::Test)?;
    program
}

fn folder() -> PathBuf {
    repo::target().join("previous")
}

/// The commit of this name.
fn commit(called: &str) -> Result<String> {
    children::output(repo::git().args(["rev-parse", "--verify", "--quiet", called]))
}

/// Writes a commit's files with the present time, because Cargo compares times and the folder is used again.
fn check_out(commit: &str, folder: &Path, sources: &Path) -> Result<()> {
    if sources.exists() {
        fs::remove_dir_all(sources).context("cannot clear the folder of the previous commit")?;
    }
    fs::create_dir_all(sources).context("cannot make a folder for the previous commit")?;
    let archive = folder.join("sources.tar");
    children::run(repo::git().args(["archive", "--output"]).arg(&archive).arg(commit))?;
    let mut tar = Command::new("tar");
    children::run(
        tar.args(["--extract", "--touch", "--file"]).arg(&archive).arg("--directory").arg(sources),
    )?;
    fs::remove_file(archive).context("cannot remove an archive")
}
