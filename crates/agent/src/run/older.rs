//! After etcd has ended by itself: whether it is too old for its data. etcd refuses data of a cluster version above its own minor version, and
//! says so in a stack trace. Kubernetes' own etcd, restored from before an upgrade, brings such a Pod back, and its status with it: then
//! these words are all that tells the operator which version the data need.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use quorate_model::{GuardVerdict, Minor, Version};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::guard::{self, Facts, Report};

/// How long etcd may take to say its version, and the volume to be read. The container is restarted after this.
const WITHIN: Duration = Duration::from_secs(3);

/// The report, if etcd, which is this program, is older than its data.
pub(super) async fn report(program: &OsStr, data_dir: &Path) -> Option<Report> {
    let (program, database) = (program.to_owned(), data_dir.join("member/snap/db"));
    let found = spawn_blocking(move || {
        let needs = guard::cluster_version(&database).ok()?.ok()??;
        Some((needs, version_of(&program)?))
    });
    let (needs, runs) = timeout(WITHIN, found).await.ok()?.ok()??;
    judge(runs, needs.parse::<Version>().ok()?.line())
}

fn judge(runs: Version, needs: Minor) -> Option<Report> {
    (runs.line() < needs).then(|| Report {
        verdict: GuardVerdict::DataTooNew,
        message: format!(
            "etcd {runs} does not run on data of {needs}: set spec.version to a release of {needs} or later. If it is one, delete the Pod: it \
             has another image than that"
        ),
        facts: Facts { data: true, cluster_version: Some(needs.to_string()), ..Facts::default() },
    })
}

/// What etcd itself says: the name of an image may say anything.
fn version_of(program: &OsStr) -> Option<Version> {
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.lines().find_map(|line| line.strip_prefix("etcd Version: ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_a_minor_version_below_that_of_the_data_is_too_old() {
        for (runs, needs, is_too_old) in [
            (Version::new(3, 6, 5), Minor(3, 7), true),
            (Version::new(3, 5, 32), Minor(3, 6), true),
            (Version::new(3, 6, 0), Minor(3, 6), false),
            (Version::new(3, 7, 3), Minor(3, 6), false),
        ] {
            let report = judge(runs, needs);
            assert_eq!(report.is_some(), is_too_old, "{runs} {needs}");
            if let Some(Report { verdict, message, facts }) = report {
                assert_eq!(verdict, GuardVerdict::DataTooNew);
                assert!(message.contains(&runs.to_string()) && message.contains(&needs.to_string()));
                assert_eq!(facts.cluster_version, Some(needs.to_string()));
            }
        }
    }

    #[test]
    fn the_version_is_that_which_the_program_says() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("etcd");
        let words =
            "#!/bin/sh\necho 'etcd Version: 3.6.5'\necho 'Git SHA: a061450'\necho 'Go Version: go1.24.6'\n";
        std::fs::write(&program, words).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(version_of(program.as_os_str()), Some(Version::new(3, 6, 5)));
        assert_eq!(version_of(dir.path().join("none").as_os_str()), None);
    }
}
