//! Every message for bad input on the command line, in one golden file: `snapshots/main__cli_errors__cli_errors.snap`.

use std::fmt::Write as _;
use std::process::Command;

/// Arguments, and environment as `KEY=VALUE`.
type Case = (&'static [&'static str], &'static [&'static str]);

const CASES: &[Case] = &[
    (&["serve"], &[]),
    (&["operator", "--workers=0"], &[]),
    (&["operator"], &["QUORATE_WORKERS=many"]),
    (&["operator", "--metrics-bind-address=8080"], &[]),
    (&["operator"], &["QUORATE_HEALTH_PROBE_BIND_ADDRESS=localhost:8081"]),
    (&["operator", "--namespaces=default,Team_A"], &[]),
    (&["operator"], &["QUORATE_NAMESPACES="]),
    (&["operator"], &["QUORATE_LEADER_ELECT=maybe"]),
    (&["operator"], &["QUORATE_LOG_FORMAT=xml"]),
    (&["operator"], &["QUORATE_CRASH_AT=B4"]),
    (&["operator", "--image-registry"], &[]),
    (&["operator", "--leader-election"], &[]),
    (&["operator", "--kubeconfig=missing.yaml"], &[]),
    (&["operator", "--kubeconfig=broken.yaml"], &[]),
    (&["operator"], &[]),
    (&["agent"], &[]),
    (&["agent", "guard", "--token=t"], &[]),
    (&["agent", "probe", "--listen=:9980", "--endpoint=https://10.1.2.3:2379"], &[]),
    (&["agent", "probe", "--listen=0.0.0.0:9980", "--endpoint=demo-0:2379"], &[]),
    (&["crds", "--output=yaml"], &[]),
    (&["playground", "--nodes=0"], &[]),
    (&["playground", "--size=three"], &[]),
    (&["playground", "status"], &[]),
    (&["playground", "fault", "kill-pod"], &[]),
    (&["playground", "fault", "kill-pod", "demo-0"], &[]),
];

#[test]
fn cli_errors() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("broken.yaml"), "clusters: 3\n").unwrap();
    let golden = CASES.iter().map(|case| run(case, dir.path())).collect::<Vec<_>>().join("\n");
    insta::assert_snapshot!(golden.replace(&dir.path().display().to_string(), "[dir]"));
}

fn run((arguments, environment): &Case, dir: &std::path::Path) -> String {
    let pairs = environment.iter().filter_map(|pair| pair.split_once('='));
    let output = Command::new(env!("CARGO_BIN_EXE_quorate"))
        .args(*arguments)
        .current_dir(dir)
        .env_clear()
        .env("HOME", dir)
        .envs(pairs)
        .output()
        .unwrap();
    let (what, error) = (arguments.join(" "), String::from_utf8(output.stderr).unwrap());
    assert!(!output.status.success() && output.stdout.is_empty(), "{what}: {error}");
    let mut text = String::from("$ ");
    for pair in *environment {
        write!(text, "{pair} ").unwrap();
    }
    format!("{text}quorate {what}\n{error}exit code {}\n", output.status.code().unwrap_or(-1))
}
