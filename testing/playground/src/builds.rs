//! Versions of etcd that are built when a Pod asks for them: once for all Pods, and one build at a time.
//!
//! The builder is `cargo xtask`, which calls `quorate playground` with the versions that it can build. A build is a process as
//! containers are: it ends with the playground, and `status` lists it.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::home::Home;
use crate::node::BackOff;
use crate::process::{Exit, Launcher};
use crate::programs::Programs;
use crate::shim::ShimSpec;

/// How every report of a build begins that runs or waits for its turn.
const BUILDING: &str = "building etcd ";

/// In every report of a build that failed.
const CANNOT: &str = " cannot be built";

/// What builds etcd, and which versions.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    /// The program. It is called with `tools etcd MINOR`.
    pub program: Option<PathBuf>,
    /// What it can build.
    pub versions: Vec<Buildable>,
}

/// A version that can be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buildable {
    /// The version, without `v`.
    pub version: String,
    /// How long the build takes, as its builder words it.
    pub duration: String,
}

/// A build as those that wait for it see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Build {
    /// It runs or waits for its turn, with a report for people.
    Running(String),
    /// The programs can be used.
    Done,
    /// It failed, and why.
    Failed(String),
}

/// What the builds need.
pub(crate) struct Setup {
    /// The programs that exist.
    pub programs: Programs,
    /// The directory in which new programs are found; without one, see [`Programs::find`].
    pub directory: Option<PathBuf>,
    /// What builds others.
    pub builder: Builder,
    /// The playground's directory.
    pub home: Home,
    /// The first delay before a build that failed is tried again.
    pub back_off: Duration,
}

/// The etcd programs of a playground: those that exist, and those that can be built.
pub(crate) struct Builds {
    setup: Setup,
    programs: RwLock<Programs>,
    launcher: Launcher,
    known: Mutex<BTreeMap<String, Known>>,
    /// Taken by the build that runs.
    turn: tokio::sync::Mutex<()>,
    stop: CancellationToken,
}

/// A build that was asked for.
struct Known {
    state: watch::Sender<Build>,
    back_off: BackOff,
    /// When it may be tried again.
    again: Instant,
}

/// `3.6.16`, or with the duration of the build: `3.6.16=took 67 s here the last time`.
impl FromStr for Buildable {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (version, duration) = text.split_once('=').unwrap_or((text, "a few minutes on two cores"));
        let is_number = |part: &str| part.parse::<u32>().is_ok();
        if version.split('.').count() != 3 || !version.split('.').all(is_number) {
            return Err(format!("{version:?} is no version such as 3.6.16"));
        }
        Ok(Self { version: version.to_owned(), duration: duration.to_owned() })
    }
}

impl Buildable {
    /// `3.6`.
    fn minor(&self) -> &str {
        self.version.rsplit_once('.').map_or(self.version.as_str(), |(minor, _)| minor)
    }

    /// The report while it is built.
    fn report(&self) -> String {
        let Self { version, duration } = self;
        format!("{BUILDING}{version} from source ({duration}), once for all clones on this machine")
    }
}

impl Builds {
    /// None has begun.
    pub fn new(setup: Setup) -> Arc<Self> {
        Arc::new(Self {
            programs: RwLock::new(setup.programs.clone()),
            launcher: Launcher::new(setup.home.clone()),
            known: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            stop: CancellationToken::new(),
            setup,
        })
    }

    /// The programs that exist now.
    pub fn programs(&self) -> Programs {
        self.programs.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The version, if it can be built. Another patch version cannot.
    pub fn buildable(&self, version: &str) -> Option<&Buildable> {
        let version = version.trim_start_matches('v');
        self.setup.builder.offered().find(|one| one.version == version)
    }

    /// What exists and what is built when it is asked for: `etcd 3.7.3; etcd 3.6.16 is built when a cluster asks for it`.
    pub fn shown(&self) -> String {
        shown(&self.programs(), &self.setup.builder)
    }

    /// The build of this version. It begins now, unless it runs or has just failed.
    pub fn request(self: &Arc<Self>, desired: &Buildable) -> watch::Receiver<Build> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = known.entry(desired.version.clone()).or_insert_with(|| {
            let mut back_off = BackOff::new(self.setup.back_off);
            let _ = back_off.after(Duration::ZERO);
            Known { state: watch::Sender::new(Build::Done), back_off, again: Instant::now() }
        });
        let runs = matches!(*entry.state.borrow(), Build::Running(_));
        if !runs && Instant::now() >= entry.again {
            entry.state.send_replace(Build::Running(desired.report()));
            let (builds, desired, state) = (self.clone(), desired.clone(), entry.state.clone());
            tokio::spawn(async move { builds.run(&desired, &state).await });
        }
        entry.state.subscribe()
    }

    /// Ends the build that runs, and starts no more.
    pub async fn stop(&self) {
        self.stop.cancel();
        drop(self.turn.lock().await);
    }

    async fn run(&self, desired: &Buildable, state: &watch::Sender<Build>) {
        let free = self.turn.try_lock();
        let _turn = if let Ok(turn) = free {
            turn
        } else {
            let report = format!("{BUILDING}{} after another build of etcd", desired.version);
            state.send_replace(Build::Running(report));
            self.turn.lock().await
        };
        if self.stop.is_cancelled() {
            return;
        }
        let built = match self.build(desired, state).await {
            Ok(()) => self.search(&desired.version).await,
            Err(why) => Err(why),
        };
        if self.stop.is_cancelled() {
            // The next playground builds it.
            return;
        }
        let end = match built {
            Ok(()) => Build::Done,
            Err(why) => {
                let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(known) = known.get_mut(&desired.version) {
                    known.again = Instant::now() + known.back_off.after(Duration::ZERO);
                }
                tracing::warn!(version = desired.version, why, "a build failed");
                Build::Failed(why)
            }
        };
        state.send_replace(end);
    }

    async fn build(&self, desired: &Buildable, state: &watch::Sender<Build>) -> Result<(), String> {
        let (version, report) = (&desired.version, desired.report());
        state.send_replace(Build::Running(report.clone()));
        let log = self.setup.home.logs().join(format!("build-etcd-{version}.log"));
        let scratch = self.setup.home.dir().join("build");
        let spawned = self.spawn(desired, &log, &scratch);
        let mut process = spawned.map_err(|error| format!("etcd {version}{CANNOT} ({error})"))?;
        let exit = loop {
            tokio::select! {
                exit = process.wait() => break Some(exit),
                () = self.stop.cancelled() => {
                    process.signal_all(Signal::SIGKILL);
                    process.wait().await;
                    break None;
                }
                () = sleep(Duration::from_secs(1)) => {
                    // Another clone may build it, and then this build waits for it.
                    let waits = tail(&log, 1).filter(|line| line.starts_with("waiting for"));
                    let report = waits.map_or_else(|| report.clone(), |line| format!("{report}; {line}"));
                    state.send_if_modified(|state| {
                        let new = Build::Running(report);
                        let differs = *state != new;
                        *state = new;
                        differs
                    });
                }
            }
        };
        // A build that was ended leaves its files.
        let _ = tokio::task::spawn_blocking(move || fs::remove_dir_all(scratch)).await;
        match exit {
            Some(Exit { code: 0, .. }) => Ok(()),
            Some(exit) => Err(failure(version, &exit, &log)),
            None => Err("the playground stops".to_owned()),
        }
    }

    fn spawn(
        &self,
        desired: &Buildable,
        log: &Path,
        scratch: &Path,
    ) -> std::io::Result<crate::process::Process> {
        fs::create_dir_all(scratch)?;
        let program = self.setup.builder.program.as_deref().unwrap_or_else(|| Path::new(""));
        let command = [&program.display().to_string(), "tools", "etcd", desired.minor()].map(str::to_owned);
        // Cargo and Go need the caller's environment: caches, proxies, the target folder.
        let inherited = std::env::vars_os()
            .filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)))
            .filter(|(key, _)| key != "TMPDIR");
        let spec = ShimSpec {
            command: command.to_vec(),
            env: inherited.chain([("TMPDIR".to_owned(), scratch.display().to_string())]).collect(),
            work_dir: self.setup.home.dir().to_owned(),
            ..ShimSpec::default()
        };
        self.launcher.spawn(&format!("build of etcd {}", desired.version), spec, File::create(log)?.into())
    }

    /// Searches the programs again, among which this version must be.
    async fn search(&self, version: &str) -> Result<(), String> {
        let directory = self.setup.directory.clone();
        let found = tokio::task::spawn_blocking(move || Programs::find(directory.as_deref())).await;
        let found = found.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        let exists = found.get(version).is_some();
        let versions = found.versions().join(", ");
        *self.programs.write().unwrap_or_else(PoisonError::into_inner) = found;
        if exists {
            Ok(())
        } else {
            Err(format!("etcd {version}{CANNOT}: only {versions} were found afterwards"))
        }
    }
}

impl Builder {
    fn offered(&self) -> impl Iterator<Item = &Buildable> {
        self.versions.iter().filter(|_| self.program.is_some())
    }
}

/// What exists and what can be built.
pub(crate) fn shown(programs: &Programs, builder: &Builder) -> String {
    let others: Vec<&str> = builder.offered().map(|one| one.version.as_str()).collect();
    let others: Vec<&str> = others.into_iter().filter(|version| programs.get(version).is_none()).collect();
    let here = format!("etcd {}", programs.versions().join(", "));
    match others.as_slice() {
        [] => here,
        [one] => format!("{here}; etcd {one} is built when a cluster asks for it"),
        many => format!("{here}; etcd {} are built when a cluster asks for them", many.join(", ")),
    }
}

/// The line about a build in the message of a container that waits for it.
pub(crate) fn report(message: &str) -> Option<&str> {
    let line = message.lines().find(|line| line.starts_with(BUILDING) || line.contains(CANNOT))?;
    let line = line.trim_end_matches(':');
    Some(line.find(CANNOT).and_then(|at| line[..at].rfind("etcd ")).map_or(line, |at| &line[at..]))
}

/// Whether this line of [`report`] is about a build that runs.
pub(crate) fn runs(report: &str) -> bool {
    report.starts_with(BUILDING)
}

fn failure(version: &str, exit: &Exit, log: &Path) -> String {
    const LINES: usize = 12;
    let how = exit.not_started.clone().unwrap_or_else(|| format!("exit code {}", exit.code));
    let end = tail(log, LINES).unwrap_or_default();
    format!("etcd {version}{CANNOT} ({how}; the output is in {}), it is tried again:\n{end}", log.display())
}

/// The last lines of a file that are not empty.
fn tail(file: &Path, lines: usize) -> Option<String> {
    let text = fs::read(file).ok()?;
    let text = String::from_utf8_lossy(&text);
    let all: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    Some(all[all.len().saturating_sub(lines)..].join("\n"))
}
