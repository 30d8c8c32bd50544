//! Programs that are started here, and end with this process.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::{Child, Command};

/// How long a program may take to end when it is asked to.
const PATIENCE: Duration = Duration::from_secs(15);

/// How long a program that was killed may take to be gone.
const DIES_IN: Duration = Duration::from_secs(2);

/// A running program. It is killed when this is dropped, and by the kernel when this process is killed.
pub struct Process {
    name: String,
    program: PathBuf,
    args: Vec<String>,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a program, with its output in a log of this name in `dir`.
    pub fn start(name: &str, program: &Path, args: &[String], dir: &Path) -> Result<Self> {
        let log = dir.join(format!("{name}.log"));
        let child = spawn(program, args, &log)?;
        Ok(Self { name: name.to_owned(), program: program.to_owned(), args: args.to_owned(), child, log })
    }

    /// SIGKILL, and the same program again.
    pub async fn restart(&mut self) -> Result<()> {
        self.child.kill().await?;
        self.child = spawn(&self.program, &self.args, &self.log)?;
        Ok(())
    }

    /// Its process id.
    pub fn pid(&self) -> Result<u32> {
        self.child.id().with_context(|| format!("{} has ended", self.name))
    }

    /// Fails if it has ended, with the end of its log.
    pub fn check(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => anyhow::bail!("{} ended: {status}\n{}", self.name, self.last_lines()),
        }
    }

    /// SIGTERM, and SIGKILL to one that does not end.
    pub async fn stop(mut self) -> Result<()> {
        self.signal(Signal::SIGTERM)?;
        if tokio::time::timeout(PATIENCE, self.child.wait()).await.is_err() {
            self.child.kill().await?;
        }
        Ok(())
    }

    /// SIGKILL.
    pub async fn kill(mut self) -> Result<()> {
        Ok(self.child.kill().await?)
    }

    /// The last lines of its log.
    pub fn last_lines(&self) -> String {
        let log = std::fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(12)..].join("\n")
    }

    /// Its log.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill(Pid::from_raw(self.pid()?.cast_signed()), signal)?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Its folder is removed next: it must not write there any more.
        let dropped = Instant::now();
        let killed = self.child.start_kill().is_ok();
        while killed && dropped.elapsed() < DIES_IN && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn spawn(program: &Path, args: &[String], log: &Path) -> Result<Child> {
    let out = File::options().create(true).append(true).open(log)?;
    // `setpriv` execs the program, so the pid is that of the program.
    let setpriv = Path::new("/usr/bin/setpriv");
    let mut command = if setpriv.is_file() {
        let mut command = Command::new(setpriv);
        command.args(["--pdeathsig", "KILL", "--"]).arg(program);
        command
    } else {
        Command::new(program)
    };
    command.args(args).stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out).kill_on_drop(true);
    command.spawn().with_context(|| format!("cannot start {}", program.display()))
}
