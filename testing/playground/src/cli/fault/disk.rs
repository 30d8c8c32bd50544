//! `fault hang-disk`: a process in the background hangs the disk of one Pod until it is ended.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::signal::Signal;

use super::{running, split};
use crate::cli::print_line;
use crate::hang;
use crate::home::Home;
use crate::process::{Identity, Launcher};

const PACE: Duration = Duration::from_millis(20);

/// Starts the process, and returns when the disk hangs.
pub(super) fn hang(home: &Home, pod: &str) -> Result<()> {
    let (namespace, name) = split(pod);
    running(home, &process_of(namespace, name))?;
    if let Some(holder) = holder(home, namespace, name) {
        bail!("the disk of {namespace}/{name} hangs already, by process {}", holder.pid);
    }
    let log = record(home, namespace, name).with_extension("log");
    let mut child = Command::new(std::env::current_exe()?)
        .args(["playground", "fault", "hang-disk", pod, "--hold", "--dir"])
        .arg(home.dir())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(fs::File::create(&log)?)
        .spawn()?;
    while holder(home, namespace, name).is_none() {
        if child.try_wait()?.is_some() {
            let why = fs::read_to_string(&log).unwrap_or_default();
            bail!("cannot hang the disk of {namespace}/{name}: {}", why.trim());
        }
        std::thread::sleep(PACE);
    }
    print_line(format_args!(
        "the disk of {namespace}/{name} hangs: its processes wait when they sync. SIGKILL still ends them, unlike on a real \
         disk.\nUndo: quorate playground fault hang-disk {pod} --undo"
    ));
    Ok(())
}

/// Ends the process. The kernel resumes what it held.
pub(super) fn undo(home: &Home, pod: &str) -> Result<()> {
    let (namespace, name) = split(pod);
    let holder = holder(home, namespace, name);
    let holder = holder.with_context(|| format!("the disk of {namespace}/{name} does not hang"))?;
    holder.signal(Signal::SIGKILL);
    while holder.is_alive() {
        std::thread::sleep(PACE);
    }
    fs::remove_file(record(home, namespace, name))?;
    print_line(format_args!("the disk of {namespace}/{name} goes on"));
    Ok(())
}

/// The process in the background.
pub(super) fn hold(home: &Home, pod: &str) -> Result<()> {
    let (namespace, name) = split(pod);
    let wanted = process_of(namespace, name);
    // The Pod's containers come and go; the disk hangs for all of them.
    let pids = || {
        let running = Launcher::running(home).into_iter().filter(|(name, _)| *name == wanted);
        running
            .flat_map(|(_, agent)| agent.children().into_iter().chain([agent]))
            .map(|one| one.pid)
            .collect()
    };
    let record = record(home, namespace, name);
    let own = serde_json::to_vec(&Identity::own())?;
    let hangs = || drop(crate::home::write_atomically(&record, &own));
    hang::hold(pids, || home.tenant().is_some(), hangs).context("ptrace")
}

fn process_of(namespace: &str, pod: &str) -> String {
    format!("{namespace}/{pod}/etcd")
}

fn record(home: &Home, namespace: &str, pod: &str) -> PathBuf {
    home.run().join(format!("hang-disk_{namespace}_{pod}"))
}

/// The process that hangs this disk, if one does.
fn holder(home: &Home, namespace: &str, pod: &str) -> Option<Identity> {
    let holder: Identity = serde_json::from_slice(&fs::read(record(home, namespace, pod)).ok()?).ok()?;
    holder.is_alive().then_some(holder)
}
