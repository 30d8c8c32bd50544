//! Starts a playground: in the foreground with a live table, or detached.

use std::fs::{self, File};
use std::io::IsTerminal;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use quorate_apistore::cluster_defaults;
use quorate_localkube::LocalKube;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::status::Startup;
use super::{PlaygroundArgs, print_line, sample, status, table};
use crate::builds::{self, Builder, Builds};
use crate::home::Home;
use crate::ledger::Ledger;
use crate::log_source::Logs;
use crate::node::{Nodes, Setup};
use crate::process::Launcher;
use crate::programs::Programs;
use crate::server::Server;
use crate::supervisor::OperatorOptions;
use crate::{clock, isolate, proxy, s3, saved, supervisor};

/// How long a detached start waits until its cluster is ready.
const READY_WITHIN: Duration = Duration::from_secs(180);

/// How long containers may take to stop with the playground.
const GRACE: Duration = Duration::from_secs(2);

/// Runs until Ctrl-C, SIGTERM, or `down`.
pub(super) fn foreground(args: &PlaygroundArgs, home: &Home) -> Result<ExitCode> {
    let programs = Programs::find(args.etcd_bin_dir.as_deref())?;
    let s3_program = s3_program(args)?;
    let version = match &args.etcd_version {
        Some(version) => version.trim_start_matches('v').to_owned(),
        None => programs.newest().map(|programs| programs.version.clone()).unwrap_or_default(),
    };
    let _claim = home.claim(args.fresh)?;
    isolate::enter()?;
    for name in Launcher::stop_leftovers(home) {
        print_line(format_args!("stopped {name}, left by an earlier playground"));
    }
    keep_program(home)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(serve(args, home, programs, &version, s3_program));
    runtime.shutdown_timeout(Duration::from_secs(2));
    let _ = fs::remove_file(home.pid());
    result?;
    Ok(ExitCode::SUCCESS)
}

/// Starts a process in the background, and waits until the cluster is ready.
pub(super) fn detached(args: &PlaygroundArgs, home: &Home) -> Result<ExitCode> {
    // Report errors here, not in the log, where possible.
    Programs::find(args.etcd_bin_dir.as_deref())?;
    s3_program(args)?;
    drop(home.claim(args.fresh)?);
    let log = File::create(home.log())?;
    let own: Vec<_> =
        std::env::args_os().skip(1).filter(|arg| arg != "--detach" && arg != "--fresh").collect();
    let mut child = Command::new(std::env::current_exe()?)
        .args(own)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .process_group(0)
        .spawn()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut start, mut reported) = (Instant::now(), Vec::new());
    print_line(format_args!("Starting a playground in {}", home.dir().display()));
    loop {
        if let Some(exit) = child.try_wait()? {
            let log = fs::read_to_string(home.log()).unwrap_or_default();
            bail!("the playground did not start ({exit}):\n{}", log.trim());
        }
        match runtime.block_on(status::startup(home, !args.empty)) {
            Startup::Ready => break,
            Startup::Waiting(lines) => {
                // A build takes as long as it takes.
                if lines.iter().any(|line| builds::runs(line)) {
                    start = Instant::now();
                }
                if lines != reported {
                    lines.iter().for_each(print_line);
                    reported = lines;
                }
            }
            Startup::Starting => {}
        }
        if start.elapsed() > READY_WITHIN {
            let _ = runtime.block_on(status::show(home));
            bail!(
                "not ready within {READY_WITHIN:?}; the playground keeps running. See `quorate playground status --dir {}` and \
                 the log {}",
                home.dir().display(),
                home.log().display()
            );
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    if args.empty {
        print_line("The API serves. With --empty this does not wait for clusters");
    }
    runtime.block_on(status::show(home))?;
    Ok(ExitCode::SUCCESS)
}

/// Links the program, so that a rebuild does not change the running one.
fn keep_program(home: &Home) -> Result<()> {
    let own = std::env::current_exe()?;
    let _ = fs::remove_file(home.program());
    if fs::hard_link(&own, home.program()).is_err() {
        fs::copy(&own, home.program()).with_context(|| format!("cannot copy {}", own.display()))?;
    }
    Ok(())
}

fn builder(args: &PlaygroundArgs) -> Builder {
    Builder { program: args.etcd_builder.clone(), versions: args.etcd_on_demand.clone() }
}

/// The program of the S3 server, if one was asked for.
fn s3_program(args: &PlaygroundArgs) -> Result<Option<PathBuf>> {
    args.s3.then(|| s3::program(args.etcd_bin_dir.as_deref())).transpose()
}

async fn serve(
    args: &PlaygroundArgs,
    home: &Home,
    programs: Programs,
    version: &str,
    s3_program: Option<PathBuf>,
) -> Result<()> {
    let mut signals = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let kube = LocalKube::new(Arc::new(clock::now));
    let returning = saved::restore(&kube, home)?;
    let client = kube::Client::new(kube.service(), "default");
    sample::definitions(&kube)?;
    cluster_defaults::create(kube.store(), &home.volumes().display().to_string())?;
    let ledger = Arc::new(Ledger::open(home.ledger())?);
    kube.store().set_service_network(ledger.service_block());
    kube.set_log_source(Arc::new(Logs::of(home)));
    let (operator, launcher, mut supervised) =
        (CancellationToken::new(), Launcher::new(home.clone()), JoinSet::new());
    // Before the API answers: then the store does, too.
    let store = match s3_program {
        Some(program) => {
            let server = s3::Server { program, home: home.clone(), launcher: launcher.clone() };
            Some(server.start(&client, &ledger, &mut supervised, &operator).await?)
        }
        None => None,
    };
    let server = Server::bind(home, &ledger).await?;

    // All tasks end with this function.
    let mut tasks = JoinSet::new();
    let controllers = kube.clone();
    tasks.spawn(async move { controllers.run_controllers().await });
    tasks.spawn(server.serve(kube.service()));
    let saver = saved::Saver::new(kube.clone(), home.clone());
    tasks.spawn(saver.clone().keep());
    tasks.spawn(proxy::run(kube.clone(), ledger.clone()));
    let etcd = Builds::new(builds::Setup {
        programs,
        directory: args.etcd_bin_dir.clone(),
        builder: builder(args),
        home: home.clone(),
        back_off: args.crash_back_off,
    });
    let setup = Setup {
        client,
        home: home.clone(),
        etcd: etcd.clone(),
        ledger,
        nodes: args.nodes,
        crash_back_off: args.crash_back_off,
    };
    let nodes = Nodes::start(setup, &mut tasks).await?;
    let kubelets = nodes.clone();
    tasks.spawn(async move { kubelets.run().await });
    let first_env = args.operator_env.iter().filter_map(|pair| pair.split_once('='));
    let options = OperatorOptions {
        first_env: first_env.map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        env: Vec::new(),
        metrics: args.operator_metrics,
    };
    supervised.spawn(supervisor::run(home.clone(), launcher, options, operator.clone()));

    if !args.empty && !returning {
        sample::apply(&kube, version, args.size)?;
    }
    status::introduce(home, &etcd.shown(), returning);
    if let Some(store) = store {
        print_line(store);
    }
    tokio::select! {
        () = table::live(&kube, home, std::io::stdout().is_terminal()) => {}
        _ = signals.0.recv() => {}
        _ = signals.1.recv() => {}
    }

    print_line("\nstopping; a second Ctrl-C stops at once");
    let orderly = async {
        etcd.stop().await;
        // Stop the operator first, or it would repair what is being stopped.
        operator.cancel();
        while supervised.join_next().await.is_some() {}
        nodes.stop(GRACE).await;
    };
    tokio::select! {
        () = orderly => {}
        _ = signals.0.recv() => {}
        _ = signals.1.recv() => {}
    }
    saver.save().await;
    print_line(format_args!(
        "stopped. The data are kept in {}; the next start with this directory restores them",
        home.dir().display()
    ));
    Ok(())
}
