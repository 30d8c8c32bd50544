//! etcd as a child process that never outlives the agent.
//!
//! The kernel sends a parent-death signal when the *thread* that forked the child ends, so the child is forked by the main
//! thread, which ends last. The signal is set between fork and exec by a second start of this program ([`exec`]): setting it in a
//! closure of the forked process would need unsafe code.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use clap::Args;
use nix::errno::Errno;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpid, getppid, gettid};

/// The flags of `exec`.
#[derive(Clone, Debug, Args)]
pub struct ExecArgs {
    /// The process with which the program must end.
    #[arg(long)]
    parent: i32,
    /// The program and its arguments.
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// A running etcd.
pub(super) struct Etcd {
    pid: Pid,
}

/// Becomes the program, which is killed when its parent dies. Returns only if that fails, with the reason.
pub(super) fn exec(args: &ExecArgs) -> String {
    if let Err(error) = set_pdeathsig(Signal::SIGKILL) {
        return format!("cannot set the parent-death signal: {error}");
    }
    // The parent may have died before the signal was set.
    if getppid() != Pid::from_raw(args.parent) {
        return "the agent has ended".to_owned();
    }
    let (program, rest) = args.command.split_first().expect("clap requires a program");
    let error = Command::new(program).args(rest).exec();
    format!("cannot start {}: {error}", program.display())
}

impl Etcd {
    /// Starts it with the output and the environment of the agent. Must be called on the main thread.
    pub(super) fn start(command: &[OsString]) -> io::Result<Self> {
        assert_eq!(gettid(), getpid(), "etcd must be forked by the thread that ends last");
        // `reap` waits for it, as for every other child of PID 1.
        let child = Command::new("/proc/self/exe")
            .args(own_words_before_run())
            .args(["exec", "--parent", &getpid().to_string(), "--"])
            .args(command)
            .stdin(Stdio::null())
            .spawn()?;
        Ok(Self { pid: Pid::from_raw(child.id().cast_signed()) })
    }

    /// Its process id, which stays the same when the helper becomes etcd.
    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// Sends it a signal.
    pub(super) fn signal(&self, signal: Signal) {
        // It fails only if etcd has ended, and then the end is reaped next.
        let _ = kill(self.pid, signal);
    }

    /// Reaps all children that ended: as PID 1 the agent inherits those of others. Returns how etcd ended, if it did.
    pub(super) fn reap(&self) -> Option<WaitStatus> {
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => return None,
                Ok(end) if end.pid() == Some(self.pid) => return Some(end),
                Ok(_) | Err(_) => {}
            }
        }
    }
}

/// The words of this command line that lead to the agent's subcommands: `agent` in `quorate agent run`.
fn own_words_before_run() -> Vec<OsString> {
    std::env::args_os().skip(1).take_while(|word| word != "run").collect()
}
