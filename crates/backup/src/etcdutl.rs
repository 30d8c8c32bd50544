//! etcd's own program that makes a data directory of a snapshot. The one of the image is used, so that versions go together.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Output, Stdio};

use quorate_api::job::{Failure, FailureKind};
use quorate_model::{Minor, Version};
use tokio::process::Command;

use crate::Result;

/// A data directory to make.
#[derive(Clone, Copy, Debug)]
pub struct Restore<'a> {
    /// The program.
    pub program: &'a Path,
    /// The snapshot.
    pub file: &'a Path,
    /// The directory, which must not exist.
    pub data_dir: &'a Path,
    /// `--name`.
    pub name: &'a str,
    /// `--initial-cluster`.
    pub initial_cluster: &'a str,
    /// `--initial-cluster-token`.
    pub token: &'a str,
    /// `--initial-advertise-peer-urls`.
    pub peer_url: &'a str,
    /// By how much revisions are raised; 0: not at all.
    pub bump_revision: u64,
}

impl Restore<'_> {
    /// Makes it.
    pub async fn run(&self) -> Result<()> {
        let mut command = Command::new(self.program);
        command
            .args(["snapshot".as_ref(), "restore".as_ref(), self.file.as_os_str()])
            .args(["--data-dir".as_ref(), self.data_dir.as_os_str()])
            .args(["--name", self.name, "--initial-cluster", self.initial_cluster])
            .args(["--initial-cluster-token", self.token])
            .args(["--initial-advertise-peer-urls", self.peer_url]);
        if self.bump_revision > 0 {
            self.can_bump().await?;
            command.args(["--bump-revision", &self.bump_revision.to_string(), "--mark-compacted"]);
        }
        let output = output(&mut command).await?;
        if output.status.success() {
            return Ok(());
        }
        let why = last_words(&output);
        let kind = if why.contains("no space left") { FailureKind::NoSpace } else { FailureKind::Unfit };
        Err(Failure::new(kind, format!("etcdutl snapshot restore failed ({}): {why}", output.status)))
    }

    async fn can_bump(&self) -> Result<()> {
        if raises_revisions(self.program).await? {
            return Ok(());
        }
        let message =
            "etcdutl of this image cannot raise revisions (--bump-revision): use etcd 3.5.10 or newer";
        Err(Failure::new(FailureKind::Unfit, message))
    }
}

/// Whether the program can raise revisions, which etcdutl before 3.5.10 cannot.
pub(crate) async fn raises_revisions(program: &Path) -> Result<bool> {
    let help = output(Command::new(program).args(["snapshot", "restore", "--help"])).await?;
    Ok([help.stdout, help.stderr]
        .iter()
        .any(|text| String::from_utf8_lossy(text).contains("--bump-revision")))
}

/// The minor version of the program.
pub async fn minor(program: &Path) -> Result<Minor> {
    let output = output(Command::new(program).arg("version")).await?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text.lines().find_map(|line| line.strip_prefix("etcdutl version: "));
    let release =
        version.and_then(|version| version.trim().split(['-', '+']).next()?.parse::<Version>().ok());
    release.map(Version::line).ok_or_else(|| {
        Failure::new(FailureKind::Unfit, format!("etcdutl does not tell its version: {text:?}"))
    })
}

/// Refuses a snapshot of a newer minor version than that of the program: etcd does not start on it, or is not meant to.
pub async fn can_read(program: &Path, etcd_version: &str) -> Result<()> {
    let Ok(written) = etcd_version.parse::<Version>() else { return Ok(()) };
    let own = minor(program).await?;
    if own >= written.line() {
        return Ok(());
    }
    let message = format!(
        "the snapshot is of etcd {written}, this image has {own}: restore it into {} or newer",
        written.line()
    );
    Err(Failure::new(FailureKind::Unfit, message))
}

async fn output(command: &mut Command) -> Result<Output> {
    let program = command.as_std().get_program().to_owned();
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await;
    output.map_err(|error| cannot_start(&program, &error))
}

pub(crate) fn cannot_start(program: &OsStr, error: &std::io::Error) -> Failure {
    Failure::new(FailureKind::Unfit, format!("cannot start {}: {error}", program.display()))
}

fn last_words(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let error = text.lines().rev().find(|line| line.starts_with("Error:"));
    error.or_else(|| text.lines().last()).unwrap_or("no message").to_owned()
}
