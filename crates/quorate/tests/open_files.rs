//! The operator raises its limit of open files by itself: it has a connection to every member.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

/// Ends with the test.
struct Operator(Child);

impl Drop for Operator {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_soft_limit_of_open_files_becomes_the_hard_one() {
    // Takes connections, and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let kubeconfig = dir.path().join("kubeconfig");
    let server = format!("http://{}", silent.local_addr().unwrap());
    let text = format!(
        "{{current-context: a, contexts: [{{name: a, context: {{cluster: a, user: a}}}}], users: [{{name: a, user: {{}}}}], \
         clusters: [{{name: a, cluster: {{server: \"{server}\"}}}}]}}"
    );
    fs::write(&kubeconfig, text).unwrap();
    // prlimit execs it, so the pid is that of the operator.
    let mut operator = Command::new("prlimit");
    operator.args(["--nofile=64:512", env!("CARGO_BIN_EXE_quorate"), "operator", "--log-format=json"]);
    operator.args(["--metrics-bind-address=0", "--health-probe-bind-address=0", "--kubeconfig"]);
    let child = operator.arg(&kubeconfig).stderr(Stdio::piped()).spawn().unwrap();
    let mut operator = Operator(child);
    let log = BufReader::new(operator.0.stderr.take().unwrap());
    let line = log.lines().map_while(Result::ok).find(|line| line.contains("open files"));
    let line = line.expect("the log has the limit");
    assert!(line.contains("\"soft\":64") && line.contains("\"hard\":512"), "{line}");
    let limits = fs::read_to_string(format!("/proc/{}/limits", operator.0.id())).unwrap();
    let limit = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let words: Vec<&str> = limit.split_whitespace().collect();
    assert_eq!(words[3..5], ["512", "512"], "{limit}");
}
