//! What runs in the background of a whole run. Some tiers mostly wait (for elections, for deadlines), others mostly compute, so
//! they share the machine. Each lane is a process of its own, whose output is kept in a file.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;

use super::report::CLOSING;
use super::tiers::Tier;
use crate::repo;

/// What one of these processes does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Lane {
    /// Builds programs and images for Kubernetes, which its tier waits for.
    Prepare,
    /// Runs the tiers that only compute.
    Compute,
}

/// The process.
pub struct Beside {
    lane: Lane,
    child: Child,
    log: PathBuf,
}

impl Lane {
    /// The tiers that it runs.
    pub fn tiers(self) -> &'static [Tier] {
        match self {
            Self::Prepare => &[],
            Self::Compute => &[Tier::Docs, Tier::Crash, Tier::Explore, Tier::Random],
        }
    }

    /// Tests that wait have deadlines. Computations have none.
    fn niceness(self) -> &'static str {
        match self {
            Self::Prepare => "10",
            Self::Compute => "19",
        }
    }

    fn name(self) -> String {
        self.to_possible_value().expect("no lane is skipped").get_name().to_owned()
    }
}

impl Beside {
    /// Starts it.
    pub fn start(lane: Lane, full: bool) -> Result<Self> {
        let log = repo::target().join(format!("beside-{}.log", lane.name()));
        let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let this = std::env::current_exe().context("this program has no path")?;
        let mut command = Command::new("nice");
        command.args(["-n", lane.niceness()]).arg(this).args(["test", "--beside", &lane.name()]);
        if full {
            command.arg("--full");
        }
        command.stderr(file.try_clone()?).stdout(file);
        let child = command.spawn().context("cannot run nice")?;
        eprintln!("beside the next tiers: {}; see {}", lane.name(), log.display());
        Ok(Self { lane, child, log })
    }

    /// Waits for its end. Its closing lines, and whether it passed.
    pub fn join(mut self, until: Instant) -> Result<(Vec<String>, bool)> {
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            ensure!(
                Instant::now() < until,
                "{} ran out of time; see {}",
                self.lane.name(),
                self.log.display()
            );
            thread::sleep(Duration::from_millis(200));
        };
        let output = fs::read_to_string(&self.log).context("its output is gone")?;
        eprintln!("{output}");
        let (_, closing) = output.split_once(CLOSING).with_context(|| {
            format!("{} did not run to its end ({status}); see {}", self.lane.name(), self.log.display())
        })?;
        let lines = closing.lines().filter(|line| !line.is_empty() && !line.starts_with("error:"));
        Ok((lines.map(str::to_owned).collect(), status.success()))
    }
}

impl Drop for Beside {
    /// If the run ends before it does.
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
