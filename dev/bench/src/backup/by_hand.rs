//! The programs that a person uses instead of the operator.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use tokio::process::Command;

use super::MINOR;

/// A program of etcd: `etcdctl` or `etcdutl`.
pub fn program(name: &str) -> Command {
    Command::new(quorate_etcd::testkit::etcd(MINOR).with_file_name(format!("{name}-{MINOR}")))
}

/// `aws s3 cp FROM TO` with this server.
pub fn copy<'a>(
    aws: &Path,
    endpoint: &str,
    credentials: impl IntoIterator<Item = (&'a str, &'a str)>,
    from: &str,
    to: &str,
) -> Command {
    let mut command = Command::new(aws);
    command.args(["--endpoint-url", endpoint, "--region", "us-east-1", "--quiet", "s3", "cp", from, to]);
    command.envs(credentials);
    command
}

/// Runs them one after another. The first that fails is the error.
pub async fn run(commands: [Command; 2]) -> Result<()> {
    for mut command in commands {
        let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await;
        let output =
            output.with_context(|| format!("cannot run {}", command.as_std().get_program().display()))?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{:?}: {said}", command.as_std());
    }
    Ok(())
}
