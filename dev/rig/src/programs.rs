//! The cluster's programs: each in a session of its own, with a log and a record of which process it is.
//!
//! A program has marks in its environment. By these, `up` and `down` find programs that a killed `up` started and did not record,
//! and processes that a program left behind, such as containerd's shims.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

use crate::files;
use crate::identity::Identity;
use crate::rig::Rig;

const RIG_MARK: &str = "QUORATE_KUBE_DIR";

/// How long a program may take to end by itself.
const GRACE: Duration = Duration::from_secs(5);

/// How long the kernel may take to end a process.
const KILL: Duration = Duration::from_secs(10);

/// How much of a log an error shows.
const TAIL: u64 = 2000;

/// A program of the cluster and how it runs.
pub struct Program {
    /// Its name.
    pub name: String,
    /// The network namespace, if it is not the host's.
    pub netns: Option<String>,
    /// The binary, absolute.
    pub binary: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
}

/// A program as it was started.
#[derive(Serialize, Deserialize)]
struct Record {
    process: Identity,
    what: What,
}

/// A program is restarted when one of these changes.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct What {
    command: Vec<String>,
    /// When the binary was written.
    built: Option<Duration>,
}

impl Program {
    /// Starts it unless it runs like this already. Whether it was started.
    pub fn start(&self, rig: &Rig) -> Result<bool> {
        let what = self.what();
        if let Some(record) = Record::read(rig, &self.name)
            && record.process.runs()
        {
            if record.what == what {
                return Ok(false);
            }
            stop(rig, &[&self.name])?;
        }
        // One that was started and not recorded has ports and locks.
        end(&self.unrecorded(rig))?;
        let log = self.log(rig)?;
        let mut start = Command::new("setsid");
        start.args(&what.command).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        // They inherit no environment, in particular no proxy.
        start.env_clear().env(RIG_MARK, rig.dir()).env("PATH", path(&self.binary)).env("HOME", "/root");
        let child = start.current_dir(rig.dir()).spawn().context("cannot run setsid")?;
        let process = Identity::of(i32::try_from(child.id())?);
        let process =
            process.with_context(|| format!("{} ended at once{}", self.name, tail(rig, &self.name)))?;
        let record = Record { process, what };
        files::write(&Record::path(rig, &self.name), &serde_json::to_string(&record)?)?;
        Ok(true)
    }

    /// Fails with the end of its log if it does not run.
    pub fn check(&self, rig: &Rig) -> Result<()> {
        let runs = Record::read(rig, &self.name).is_some_and(|record| record.process.runs());
        ensure!(runs, "{} ended{}", self.name, tail(rig, &self.name));
        Ok(())
    }

    fn what(&self) -> What {
        let written = fs::metadata(&self.binary).and_then(|metadata| metadata.modified());
        let built = written.ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        What { command: self.command(), built }
    }

    /// `setsid` and `nsenter` become what they start, so the process is the program.
    fn command(&self) -> Vec<String> {
        let mut command = Vec::new();
        if let Some(netns) = &self.netns {
            // `ip netns exec` would mount a new /sys and hide the cgroups.
            command.extend(["nsenter".to_owned(), format!("--net=/run/netns/{netns}")]);
        }
        command.push(self.binary.display().to_string());
        command.extend(self.args.iter().cloned());
        command
    }

    fn log(&self, rig: &Rig) -> Result<File> {
        let path = log(rig, &self.name);
        let log = File::options().create(true).append(true).open(&path);
        log.with_context(|| format!("cannot open {}", path.display()))
    }

    /// Processes of this command without a record.
    fn unrecorded(&self, rig: &Rig) -> Vec<Identity> {
        let words: Vec<&str> = std::iter::once(self.binary.to_str().unwrap_or_default())
            .chain(self.args.iter().map(String::as_str))
            .collect();
        let same = |process: &Identity| {
            let line = fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
            line.split(|byte| *byte == 0).take(words.len()).eq(words.iter().map(|word| word.as_bytes()))
        };
        marked(rig.dir()).into_iter().filter(same).collect()
    }
}

/// The programs that were started and not stopped, and whether they run.
pub fn all(rig: &Rig) -> Result<BTreeMap<String, Option<i32>>> {
    let mut programs = BTreeMap::new();
    let Ok(entries) = fs::read_dir(rig.path("pids")) else { return Ok(programs) };
    for entry in entries {
        let name = entry?.file_name();
        if let Some(name) = name.to_str().and_then(|name| name.strip_suffix(".json"))
            && let Some(record) = Record::read(rig, name)
        {
            programs.insert(name.to_owned(), record.process.runs().then_some(record.process.pid));
        }
    }
    Ok(programs)
}

/// Ends these programs in parallel and removes their records.
pub fn stop(rig: &Rig, names: &[&str]) -> Result<()> {
    let records = names.iter().filter_map(|name| Record::read(rig, name));
    let processes: Vec<Identity> = records.map(|record| record.process).collect();
    for process in &processes {
        signal(process, Signal::TERM);
    }
    wait(&processes, GRACE);
    end(&processes)?;
    forget(rig, names)
}

/// Kills these programs, which have no data on disk.
pub fn kill(rig: &Rig, names: &[&str]) -> Result<()> {
    let records = names.iter().filter_map(|name| Record::read(rig, name));
    end(&records.map(|record| record.process).collect::<Vec<_>>())?;
    forget(rig, names)
}

/// Ends everything else that the cluster's programs started.
pub fn kill_leftovers(dir: &Path) -> Result<()> {
    let until = Instant::now() + KILL;
    loop {
        // Again, since one may have started another meanwhile.
        let left = marked(dir);
        if left.is_empty() {
            return Ok(());
        }
        end(&left)?;
        ensure!(Instant::now() < until, "processes of the cluster keep restarting");
    }
}

/// Kills these processes and waits until they end.
pub fn end(processes: &[Identity]) -> Result<()> {
    for process in processes {
        signal(process, Signal::KILL);
    }
    wait(processes, KILL);
    let left: Vec<i32> =
        processes.iter().filter(|process| process.runs()).map(|process| process.pid).collect();
    ensure!(left.is_empty(), "the kernel does not end the processes {left:?}");
    Ok(())
}

/// The running processes of a cluster's programs, and those that they started.
pub fn marked(dir: &Path) -> Vec<Identity> {
    let desired = format!("{RIG_MARK}={}", dir.display());
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let processes = pids.filter_map(Identity::of);
    let carries = |process: &Identity| {
        let environment = fs::read(format!("/proc/{}/environ", process.pid)).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry == desired.as_bytes())
    };
    processes.filter(carries).collect()
}

/// The end of a program's log, ready to follow a sentence.
pub fn tail(rig: &Rig, name: &str) -> String {
    let path = log(rig, name);
    let read = || -> std::io::Result<String> {
        let mut file = File::open(&path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let text = read().unwrap_or_default();
    let from = text.find('\n').filter(|_| text.len() as u64 >= TAIL).map_or(0, |at| at + 1);
    format!("; the end of {}:\n{}", path.display(), text[from..].trim_end())
}

impl Record {
    fn path(rig: &Rig, name: &str) -> PathBuf {
        rig.path("pids").join(format!("{name}.json"))
    }

    /// Skips a record that cannot be read; its process is found by its mark.
    fn read(rig: &Rig, name: &str) -> Option<Self> {
        serde_json::from_str(&fs::read_to_string(Self::path(rig, name)).ok()?).ok()
    }
}

fn forget(rig: &Rig, names: &[&str]) -> Result<()> {
    for name in names {
        let path = Record::path(rig, name);
        if path.exists() {
            fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    Ok(())
}

fn log(rig: &Rig, name: &str) -> PathBuf {
    rig.path("logs").join(format!("{name}.log"))
}

/// Begins with the program's own folder, where containerd finds its shim, and the shim runc.
fn path(binary: &Path) -> String {
    let own = binary.parent().unwrap_or(Path::new("/")).display();
    format!("{own}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
}

/// By a handle on the process that is taken before its identity is checked, so that it cannot reach another. A process that
/// is gone needs no signal.
fn signal(process: &Identity, signal: Signal) {
    let Some(handle) = Pid::from_raw(process.pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
    else {
        return;
    };
    if process.runs() {
        // It may have ended meanwhile, which is no error.
        let _ = pidfd_send_signal(handle, signal);
    }
}

fn wait(processes: &[Identity], limit: Duration) {
    let until = Instant::now() + limit;
    while processes.iter().any(Identity::runs) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
}
