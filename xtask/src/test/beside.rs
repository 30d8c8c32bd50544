//! What goes on beside: while some tiers mostly wait (for elections, for deadlines), others only compute. In a whole run these
//! share the machine, at the lowest priority, in a process of their own whose words are kept in a file.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::Tier;
use crate::repo;

/// The tiers that only compute.
pub const TIERS: [Tier; 2] = [Tier::Explore, Tier::Random];

/// The process.
pub struct Beside {
    child: Child,
    log: PathBuf,
}

impl Beside {
    /// Starts it.
    pub fn start() -> Result<Self> {
        let log = repo::target().join("beside.log");
        let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let this = std::env::current_exe().context("this program has no path")?;
        let mut command = Command::new("nice");
        command.args(["-n", "19"]).arg(this).args(["test", "--beside"]);
        command.stderr(file.try_clone()?).stdout(file);
        let child = command.spawn().context("cannot run nice")?;
        let names: Vec<String> = TIERS.iter().map(|tier| tier.name()).collect();
        eprintln!(
            "beside the next tiers: {}, and programs for kube; see {}",
            names.join(", "),
            log.display()
        );
        Ok(Self { child, log })
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
        let closes = |line: &&str| TIERS.iter().any(|tier| line.starts_with(&format!("{:7} ", tier.name())));
        let lines: Vec<String> = said.lines().filter(closes).map(str::to_owned).collect();
        let whole = lines.len() == TIERS.len();
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
