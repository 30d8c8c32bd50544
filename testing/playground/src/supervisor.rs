//! Runs the operator, and other programs beside it, as processes of their own, and restarts them when they exit, as a Deployment does.

use std::fs::File;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tokio_util::sync::CancellationToken;

use crate::home::Home;
use crate::process::{Launcher, Process};
use crate::shim::ShimSpec;

/// The name of its process in `run/`.
pub(crate) const OPERATOR: &str = "operator";
/// A run that ended sooner counts as failed, and the next start waits longer.
const HEALTHY_AFTER: Duration = Duration::from_secs(10);
/// How long a process may take to stop.
const GRACE: Duration = Duration::from_secs(10);

/// Options of the operator process.
#[derive(Clone, Debug)]
pub(crate) struct OperatorOptions {
    /// Environment variables of the first start only.
    pub first_env: Vec<(String, String)>,
    /// Environment variables of every start.
    pub env: Vec<(String, String)>,
    /// Where it serves its metrics. Port 0 is a free one at each start.
    pub metrics: SocketAddr,
}

/// Keeps an operator running until `stop` is cancelled, and then stops it.
pub(crate) async fn run(home: Home, launcher: Launcher, options: OperatorOptions, stop: CancellationToken) {
    let mut first = Some(options.first_env);
    let start = || {
        let env = options.env.iter().cloned().chain(first.take().into_iter().flatten()).collect();
        spawn(&home, &launcher, options.metrics, env)
    };
    keep(OPERATOR, start, stop).await;
}

/// Keeps a process running until `stop` is cancelled, and then stops it.
pub(crate) async fn keep(
    what: &'static str,
    mut start: impl FnMut() -> std::io::Result<Process>,
    stop: CancellationToken,
) {
    let mut wait = Duration::from_millis(200);
    while !stop.is_cancelled() {
        let started = Instant::now();
        match start() {
            Ok(process) => watch(what, process, &stop).await,
            Err(error) => tracing::error!(what, %error, "cannot start a process"),
        }
        wait = if started.elapsed() > HEALTHY_AFTER {
            Duration::from_millis(200)
        } else {
            (wait * 2).min(HEALTHY_AFTER)
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
}

fn spawn(
    home: &Home,
    launcher: &Launcher,
    metrics: SocketAddr,
    env: Vec<(String, String)>,
) -> std::io::Result<Process> {
    let log = File::options().create(true).append(true).open(home.logs().join("operator.log"))?;
    let program = home.program().display().to_string();
    let kubeconfig = home.kubeconfig().display().to_string();
    let metrics = metrics.to_string();
    let command = [
        program.as_str(),
        "operator",
        "--kubeconfig",
        &kubeconfig,
        "--agent-image",
        "quorate:playground",
        "--metrics-bind-address",
        &metrics,
        "--health-probe-bind-address",
        "0",
    ];
    let inherited = ["PATH", "HOME", "RUST_LOG", "RUST_BACKTRACE"]
        .into_iter()
        .filter_map(|key| Some((key.to_owned(), std::env::var(key).ok()?)));
    let spec = ShimSpec {
        command: command.map(str::to_owned).to_vec(),
        env: inherited.chain(env).collect(),
        work_dir: home.dir().to_owned(),
        ..ShimSpec::default()
    };
    launcher.spawn(OPERATOR, spec, log.into())
}

async fn watch(what: &str, mut process: Process, stop: &CancellationToken) {
    tokio::select! {
        exit = process.wait() => {
            tracing::warn!(what, code = exit.code, why = ?exit.not_started, "a process exited; restarting it");
        }
        () = stop.cancelled() => {
            process.signal(Signal::SIGTERM);
            if tokio::time::timeout(GRACE, process.wait()).await.is_err() {
                process.signal_all(Signal::SIGKILL);
                process.wait().await;
            }
        }
    }
}
