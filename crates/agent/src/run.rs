//! `agent run -- etcd ...`: guard, then etcd as a child until it ends.
//!
//! - `exit`: the exit codes of the container; `signals`: what arrives; `child`: etcd, which never outlives the agent
//! - `stop`: what happens between a SIGTERM and the end of etcd; `sockets`: whether clients still come
//! - `crash`: the numbered steps, with the crash points of the tests
//! - `listens`: at which addresses
//! - `names`, `older`: why etcd may have ended by itself
//! - `restoring`: the data of a backup, before the guard
//! - `trust`: the certificate authorities that must have arrived before etcd starts
//! - `canary`: whether the volume takes writes; `seen`: what the Pod remembers of its volume

mod canary;
mod child;
mod crash;
pub mod exit;
mod listens;
mod names;
mod older;
mod restoring;
mod seen;
mod signals;
mod sockets;
mod stop;
mod trust;

use std::ffi::OsString;
use std::fs;
use std::mem;
use std::path::PathBuf;
use std::pin::Pin;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use clap::Args;
use nix::sys::signal::Signal;
use quorate_model::GuardVerdict;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::guard::{self, Expect, GuardArgs, Report};
use crate::job::PlacesArgs;
use crate::log;
use crate::probe::{Credentials, Probe, ProbeArgs, Refusal, Volume, seconds};
pub use canary::Canary;
use child::Etcd;
pub use child::ExecArgs;
pub use crash::AgentStep;
pub(crate) use crash::CrashAt;
use signals::{Received, Signals};
pub use trust::TrustArgs;

/// How long one run of the container looks at a volume that may get well by itself. A container that ran for ten minutes is started again
/// without delay.
const LOOKS_FOR: Duration = Duration::from_secs(630);

/// How often.
const LOOKS_EVERY: Duration = Duration::from_secs(1);

/// The flags of `run`.
#[derive(Clone, Debug, Args)]
pub struct RunArgs {
    /// Of the guard.
    #[command(flatten)]
    pub guard: GuardArgs,
    /// Of the probe.
    #[command(flatten)]
    pub probe: ProbeArgs,
    /// The file on the volume that is written and synced every third of `--canary-limit`.
    #[arg(long, default_value = "/var/lib/etcd/quorate.canary")]
    pub canary: PathBuf,
    /// How many seconds a write to the volume may take before the member is not ready. 30 by default.
    #[arg(long, value_parser = seconds)]
    pub canary_limit: Option<Duration>,
    /// etcd's program for restores, where the order in the environment asks for one.
    #[arg(long, default_value = "/usr/local/bin/etcdutl")]
    pub etcdutl: PathBuf,
    /// Where the store's credentials are.
    #[command(flatten)]
    pub places: PlacesArgs,
    /// Which certificate authorities etcd is to start with.
    #[command(flatten)]
    pub trust: TrustArgs,
    /// For tests: abort after this step.
    #[arg(long, hide = true, value_name = "STEP")]
    pub crash_at: Option<AgentStep>,
    /// etcd and its flags.
    #[arg(last = true, required = true)]
    pub command: Vec<OsString>,
}

/// Runs etcd until it ends, and ends the process with one of the codes in [`exit`].
///
/// A return would wait for the threads of the runtime: a name that does not resolve would hold up the end of the container.
pub async fn run(args: &RunArgs) -> ! {
    let code = supervise(args).await.unwrap_or_else(|why| {
        log::error(&why);
        exit::NOT_STARTED
    });
    std::process::exit(code.into())
}

/// Becomes the program that was named. Returns only if that fails.
pub fn exec(args: &ExecArgs) -> ExitCode {
    log::error(&child::exec(args));
    ExitCode::from(exit::NOT_STARTED)
}

async fn supervise(args: &RunArgs) -> Result<u8, String> {
    // First, because a signal without a handler is lost.
    let mut signals = Signals::listen().map_err(|error| format!("cannot handle signals: {error}"))?;
    let crash = CrashAt(args.crash_at);
    let probe = Probe::bind(&args.probe).await?;
    crash.after(AgentStep::A1);
    let (of_volume, refusal) = (probe.volume(), probe.refusal());
    // Whatever takes its time from here on, a restore or a volume that hangs, must not look like a hang of etcd.
    tokio::spawn(serve(probe));
    let mut guard = args.guard.clone();
    if let Some(order) = restoring::order() {
        if let Some(code) = restoring::restore(args, order, &mut signals, crash).await? {
            return Ok(code);
        }
        guard.expect = Expect::Restored;
    }
    match inspected_until_fit(&guard, &mut signals, &refusal).await? {
        None => return Ok(exit::STOPPED),
        Some(report) if report.verdict != GuardVerdict::Fit => return Ok(refuse(&args.guard, &report)),
        Some(report) => log::info(&format!("guard: {}", report.message)),
    }
    crash.after(AgentStep::A2);
    if !trust::arrived(&args.trust, &mut signals, &refusal).await {
        return Ok(exit::STOPPED);
    }
    let limit = args.canary_limit.unwrap_or(Duration::from_millis(quorate_model::canary::LIMIT.0));
    let canary = Canary::start(&args.canary, limit / 3, limit)
        .map_err(|error| format!("cannot start the canary: {error}"))?;
    crash.after(AgentStep::A3);
    let marked = move || crash.after(AgentStep::A7);
    seen::remember(&args.guard.data_dir, args.guard.seen.as_ref(), marked)
        .map_err(|error| format!("cannot start a thread: {error}"))?;
    crash.after(AgentStep::A4);
    let command = listens::at_every_address(&args.command).await;
    let etcd = Etcd::start(&command).map_err(|error| format!("cannot start etcd: {error}"))?;
    log::info(&format!("started etcd as process {}", etcd.pid()));
    crash.after(AgentStep::A5);
    let volume =
        Volume { canary, identity: args.guard.identity.clone(), data_dir: args.guard.data_dir.clone() };
    // It is set here only.
    let _ = of_volume.set(volume);
    let credentials = Credentials::new(&args.probe)?;
    crash.after(AgentStep::A6);
    let code = watch(&etcd, &mut signals, credentials, crash).await;
    if code != exit::STOPPED
        && let Some(program) = args.command.first()
        && let Some(report) = older::report(program, &args.guard.data_dir).await
    {
        return Ok(refuse(&args.guard, &report));
    }
    if code != exit::STOPPED
        && let Some(line) = names::why_unresolved(&args.command).await
    {
        eprintln!("{line}");
    }
    Ok(code)
}

/// The guard's report. What may pass by itself (the volume takes no writes for a moment, or is full) ends the container once, so that its
/// message says why, and then is looked at again and again: the kubelet would wait up to five minutes between two starts. Each run
/// lasts longer than what makes the kubelet forget that the container ended before, so that what changes is told soon.
async fn inspected_until_fit(
    args: &GuardArgs,
    signals: &mut Signals,
    refusal: &Refusal,
) -> Result<Option<Report>, String> {
    let told = args.seen.as_ref().map(|seen| seen.with_file_name("refused"));
    let (begun, mut is_logged) = (Instant::now(), false);
    loop {
        let Some(report) = inspected(args, signals).await? else { return Ok(None) };
        if report.verdict == GuardVerdict::Fit || report.verdict.is_loss() {
            // There may be none.
            let _ = told.as_ref().map(fs::remove_file);
            refuse_readiness(refusal, None);
            return Ok(Some(report));
        }
        let is_told = told.as_ref().is_some_and(|told| told.exists());
        if !is_told || begun.elapsed() > LOOKS_FOR {
            // Without it the next run ends like this one.
            let _ = told.as_ref().map(fs::File::create);
            return Ok(Some(report));
        }
        if !mem::replace(&mut is_logged, true) {
            log::warn(&format!("guard: {}: {}: looking again every second", report.verdict, report.message));
        }
        refuse_readiness(refusal, Some(format!("guard: {}: {}", report.verdict, report.message)));
        tokio::select! {
            () = tokio::time::sleep(LOOKS_EVERY) => {}
            signal = signals.stop() => {
                log::info(&format!("{signal} before etcd was started"));
                return Ok(None);
            }
        }
    }
}

/// What `/readyz` says from now on, instead of asking etcd; `None`: it asks etcd.
fn refuse_readiness(refusal: &Refusal, why: Option<String>) {
    if let Ok(mut refusal) = refusal.lock() {
        *refusal = why;
    }
}

async fn serve(probe: Probe) {
    if let Err(error) = probe.serve().await {
        log::warn(&format!("the probe has ended: {error}"));
    }
}

/// The guard's report; `None` if the container is to stop meanwhile. The guard has a thread of its own, which nobody waits for: a
/// volume that hangs must not hold up the stop.
async fn inspected(args: &GuardArgs, signals: &mut Signals) -> Result<Option<Report>, String> {
    let (done, report) = oneshot::channel();
    let args = args.clone();
    let guard = move || drop(done.send(guard::inspect(&args)));
    thread::Builder::new().name("guard".to_owned()).spawn(guard).map_err(|error| error.to_string())?;
    tokio::select! {
        report = report => report.map(Some).map_err(|_| "the guard has panicked".to_owned()),
        signal = signals.stop() => {
            log::info(&format!("{signal} before etcd was started"));
            Ok(None)
        }
    }
}

/// Reports the refusal: as JSON in the termination message, as text in the log.
pub(crate) fn refuse(guard: &GuardArgs, report: &Report) -> u8 {
    let file = &guard.termination_log;
    // Without the message the operator has only the exit code.
    if let Err(error) = fs::write(file, report.to_json()) {
        log::warn(&format!("cannot write {}: {error}", file.display()));
    }
    log::error(&format!("guard: {}: {}", report.verdict, report.message));
    exit::REFUSED
}

/// The signal to pass on, once what comes before the end of etcd is done.
type Stopping<'a> = (Signal, Pin<Box<dyn Future<Output = ()> + 'a>>);

/// Passes signals on until etcd ends.
async fn watch(etcd: &Etcd, signals: &mut Signals, mut credentials: Credentials, crash: CrashAt) -> u8 {
    let mut stopping: Option<Stopping<'_>> = None;
    let mut passed_on = None;
    let mut credentials = Some(&mut credentials);
    loop {
        let prepared = async {
            match &mut stopping {
                Some((signal, preparing)) => {
                    preparing.await;
                    *signal
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            received = signals.next() => match received {
                Received::Child => if let Some(end) = etcd.reap() {
                    crash.after(AgentStep::A12);
                    return exit::code(end, passed_on);
                },
                Received::Other(signal) => etcd.signal(signal),
                Received::Stop(signal) => if let Some(credentials) = credentials.take() {
                    log::info(&format!("{signal}: preparing to stop"));
                    crash.after(AgentStep::A8);
                    stopping = Some((signal, Box::pin(stop::prepare(credentials, crash))));
                } else {
                    // The second one: at once.
                    stopping = None;
                    etcd.signal(signal);
                    passed_on = Some(signal);
                },
            },
            signal = prepared => {
                stopping = None;
                log::info(&format!("{signal}: stopping etcd"));
                crash.after(AgentStep::A10);
                etcd.signal(signal);
                crash.after(AgentStep::A11);
                passed_on = Some(signal);
            }
        }
    }
}
