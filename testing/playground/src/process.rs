//! Processes that end with the playground: started through the shim, recorded as files in `run/`, stopped by pid.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use tokio::process::{Child, Command};

use crate::home::Home;
use crate::shim::{SUBCOMMAND, ShimSpec};

/// A process, identified so that a later one with the same pid is not mistaken for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Its pid.
    pub pid: i32,
    /// When it started, in ticks since boot.
    pub started: u64,
}

/// Starts processes.
#[derive(Clone, Debug)]
pub struct Launcher {
    home: Home,
}

/// A process that was started.
#[derive(Debug)]
pub struct Process {
    child: Child,
    pid: Pid,
    spec: PathBuf,
    failure: PathBuf,
    record: PathBuf,
}

/// The exit of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Its exit code; 128 plus the number of the signal that ended it.
    pub code: i32,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Why the program could not be started.
    pub not_started: Option<String>,
}

impl Identity {
    /// This process.
    pub fn own() -> Self {
        Self::of(Pid::this().as_raw()).unwrap_or(Self { pid: Pid::this().as_raw(), started: 0 })
    }

    /// The process with this pid.
    pub fn of(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in parentheses may contain anything; the fields are counted after it.
        let (_, rest) = stat.rsplit_once(')')?;
        let mut fields = rest.split_whitespace();
        if fields.next()? == "Z" {
            return None;
        }
        Some(Self { pid, started: fields.nth(18)?.parse().ok()? })
    }

    /// The processes that its main thread started.
    pub fn children(&self) -> Vec<Self> {
        let pid = self.pid;
        let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        list.split_whitespace().filter_map(|pid| Self::of(pid.parse().ok()?)).collect()
    }

    /// The name of its program.
    pub fn name(&self) -> String {
        fs::read_to_string(format!("/proc/{}/comm", self.pid)).unwrap_or_default().trim().to_owned()
    }

    /// Whether it is running.
    pub fn is_alive(&self) -> bool {
        Self::of(self.pid).is_some_and(|now| now == *self)
    }

    /// Sends it a signal if it is running.
    pub fn signal(&self, signal: Signal) -> bool {
        self.is_alive() && kill(Pid::from_raw(self.pid), signal).is_ok()
    }
}

impl Launcher {
    /// Records processes in this home.
    pub fn new(home: Home) -> Self {
        Self { home }
    }

    /// Starts a process that writes to `output`.
    ///
    /// Call it from a thread that lives as long as the playground: a worker of the runtime, not one of its threads for
    /// blocking work. The kernel ends a child with the thread that started it.
    pub fn spawn(&self, name: &str, mut spec: ShimSpec, output: OwnedFd) -> io::Result<Process> {
        static SERIAL: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let serial = SERIAL.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let own = Pid::this().as_raw();
        let place = |kind: &str| self.home.run().join(format!("{kind}-{own}-{serial}"));
        let (spec_file, failure) = (place("spec"), place("failure"));
        spec.parent = own;
        spec.failure.clone_from(&failure);
        fs::write(&spec_file, serde_json::to_vec(&spec)?)?;
        let child = Command::new(self.home.program())
            .arg(SUBCOMMAND)
            .arg(&spec_file)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0)
            .spawn()?;
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).map_or(Pid::from_raw(0), Pid::from_raw);
        let record = self.home.run().join(format!("{pid}"));
        let started = Identity::of(pid.as_raw()).map_or(0, |identity| identity.started);
        fs::write(&record, serde_json::to_vec(&Record { name: name.to_owned(), started })?)?;
        Ok(Process { child, pid, spec: spec_file, failure, record })
    }

    /// The running processes with their names.
    pub fn running(home: &Home) -> Vec<(String, Identity)> {
        let mut running: Vec<_> = recorded(home)
            .into_iter()
            .map(|(_, name, identity)| (name, identity))
            .filter(|(_, identity)| identity.is_alive())
            .collect();
        running.sort_by(|a, b| a.0.cmp(&b.0));
        running
    }

    /// Stops the processes that an earlier playground in this home left running, and returns their names.
    pub fn stop_leftovers(home: &Home) -> Vec<String> {
        let mut stopped = Vec::new();
        for (file, name, identity) in recorded(home) {
            if identity.is_alive() {
                let _ = killpg(Pid::from_raw(identity.pid), Signal::SIGKILL);
                stopped.push(name);
                let deadline = Instant::now() + Duration::from_secs(5);
                while identity.is_alive() && Instant::now() < deadline {
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
            let _ = fs::remove_file(file);
        }
        for entry in fs::read_dir(home.run()).into_iter().flatten().flatten() {
            let _ = fs::remove_file(entry.path());
        }
        stopped
    }
}

#[derive(Serialize, Deserialize)]
struct Record {
    name: String,
    started: u64,
}

fn recorded(home: &Home) -> Vec<(PathBuf, String, Identity)> {
    let entries = fs::read_dir(home.run()).into_iter().flatten().flatten();
    let read = |path: PathBuf| {
        let pid = path.file_name()?.to_str()?.parse().ok()?;
        let record: Record = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
        Some((path, record.name, Identity { pid, started: record.started }))
    };
    entries.filter_map(|entry| read(entry.path())).collect()
}

impl Process {
    /// Its pid.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw()
    }

    /// Sends it a signal. The pid is not reused before the process was waited for.
    pub fn signal(&self, signal: Signal) {
        if self.child.id().is_some() {
            let _ = kill(self.pid, signal);
        }
    }

    /// Sends it and its children a signal.
    pub fn signal_all(&self, signal: Signal) {
        if self.child.id().is_some() {
            let _ = killpg(self.pid, signal);
        }
    }

    /// Waits until it has exited. May be cancelled and called again.
    pub async fn wait(&mut self) -> Exit {
        let status = self.child.wait().await;
        // Its remaining children.
        let _ = killpg(self.pid, Signal::SIGKILL);
        let not_started = fs::read_to_string(&self.failure).ok().filter(|why| !why.is_empty());
        for file in [&self.spec, &self.failure, &self.record] {
            let _ = fs::remove_file(file);
        }
        status.map_or_else(
            |error| Exit { code: 255, signal: None, not_started: Some(error.to_string()) },
            |status| Exit { not_started, ..Exit::of(status) },
        )
    }
}

impl Exit {
    fn of(status: ExitStatus) -> Self {
        let signal = status.signal();
        let code = status.code().or(signal.map(|signal| 128 + signal)).unwrap_or(255);
        Self { code, signal, not_started: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_identified_by_pid_and_start_time() {
        let own = Identity::own();
        assert!(own.is_alive());
        assert!(!Identity { started: own.started + 1, ..own }.is_alive());
    }
}
