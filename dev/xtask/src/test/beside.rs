//! What goes on beside: while some tiers mostly wait (for elections, for deadlines), others only compute. In a whole run these
//! share the machine, at the lowest priority, in processes of their own whose words are kept in files.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;

use super::Tier;
use crate::repo;

/// What goes on in one of these processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Lane {
    /// Programs and images for Kubernetes are built, which its tier then waits for.
    Prepare,
    /// The tiers that only compute, to the end of the run.
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
            Self::Compute => &[Tier::Explore, Tier::Random],
        }
    }

    /// What a tier waits for goes first.
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
    pub fn start(lane: Lane) -> Result<Self> {
        let log = repo::target().join(format!("beside-{}.log", lane.name()));
        let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let this = std::env::current_exe().context("this program has no path")?;
        let mut command = Command::new("nice");
        command.args(["-n", lane.niceness()]).arg(this).args(["test", "--beside", &lane.name()]);
        command.stderr(file.try_clone()?).stdout(file);
        let child = command.spawn().context("cannot run nice")?;
        eprintln!("beside the next tiers: {}; see {}", lane.name(), log.display());
        Ok(Self { lane, child, log })
    }

    /// Waits for its end. Its closing lines, and whether all was well.
    pub fn join(mut self, until: Instant) -> Result<(Vec<String>, bool)> {
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            ensure!(
                Instant::now() < until,
                "what goes on beside ran out of time; see {}",
                self.log.display()
            );
            thread::sleep(Duration::from_millis(200));
        };
        let said = fs::read_to_string(&self.log).context("its words are gone")?;
        eprintln!("{said}");
        let tiers = self.lane.tiers();
        let closes = |line: &&str| tiers.iter().any(|tier| line.starts_with(&format!("{:7} ", tier.name())));
        let lines: Vec<String> = said.lines().filter(closes).map(str::to_owned).collect();
        let whole = lines.len() == tiers.len();
        Ok((lines, whole && status.success()))
    }
}

impl Drop for Beside {
    /// Where the run ends before it does.
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
