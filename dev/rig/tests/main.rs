//! The program `rig` as `cargo xtask kube` calls it.

use std::fs::{self, File};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

#[test]
fn without_a_cluster_status_names_the_command_that_starts_one() {
    let dir = tempfile::tempdir().unwrap();
    let output = rig(&dir, &["status"]).output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("`cargo xtask kube up` makes one"), "{text}");
}

/// A command that repairs or fills the cluster holds its lock for minutes.
#[test]
fn what_breaks_a_cluster_does_not_wait_for_its_lock_and_what_changes_it_says_what_it_waits_for() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("rig.json"), r#"{"index": 15, "nodes": 0}"#).unwrap();
    let lock = File::create(dir.path().join("lock")).unwrap();
    lock.lock().unwrap();

    let killed = rig(&dir, &["kill", "kubelet-n1"]).output().unwrap();
    assert!(error(&killed).contains("there is no program kubelet-n1"), "{killed:?}");

    let mut waits = rig(&dir, &["tag", "a", "b"]).spawn().unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(waits.stderr.as_mut().unwrap()), &mut line)
        .unwrap();
    waits.kill().unwrap();
    waits.wait().unwrap();
    assert!(line.starts_with("waiting for another `cargo xtask kube`"), "{line}");
}

fn rig(dir: &TempDir, args: &[&str]) -> Command {
    let mut rig = Command::new(env!("CARGO_BIN_EXE_rig"));
    rig.args(args).arg("--dir").arg(dir.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    rig
}

fn error(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
