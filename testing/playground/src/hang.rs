//! A disk that hangs, for one Pod: its processes go on, and whichever of their threads syncs a file or writes into one in place
//! stays in that system call.
//!
//! A file system cannot be frozen in a user namespace, and etcd is a static program, so nothing can be loaded into it. Instead this
//! process traces the Pod's processes (`ptrace`) and does not resume a thread that enters such a call. When the tracer
//! ends, however it ends, the kernel resumes them and the calls are done. One thing differs from a real disk: SIGKILL still ends
//! a process that hangs.

use std::collections::BTreeSet;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::libc;
use nix::sys::ptrace::{self, Options};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// How often new processes of the Pod are searched.
const PACE: Duration = Duration::from_millis(100);

/// The calls that need the disk. The canary and the database write in place (`pwrite64`) and sync; the log is synced after each
/// batch of entries. Plain writes go into memory, as they do before a disk hangs for long.
const CALLS: [libc::c_long; 4] =
    [libc::SYS_fsync, libc::SYS_fdatasync, libc::SYS_pwrite64, libc::SYS_sync_file_range];

/// Threads that are traced.
#[derive(Default)]
struct Traced {
    all: BTreeSet<i32>,
    /// Those inside a system call: the next stop is its end.
    inside: BTreeSet<i32>,
}

/// Hangs the disk of the processes that `pids` lists, also of those that appear later, while `goes_on`. Reports once it hangs.
pub(crate) fn hold(
    pids: impl Fn() -> Vec<i32>,
    goes_on: impl Fn() -> bool,
    mut hangs: impl FnMut(),
) -> Result<(), Errno> {
    let mut traced = Traced::default();
    let mut searched: Option<Instant> = None;
    loop {
        if searched.is_none_or(|at| at.elapsed() >= PACE) {
            if !goes_on() {
                return Ok(());
            }
            let first = searched.is_none();
            for pid in pids() {
                match traced.attach(pid) {
                    // It has ended meanwhile.
                    Ok(()) | Err(Errno::ESRCH) => {}
                    Err(error) => return Err(error),
                }
            }
            searched = Some(Instant::now());
            if first {
                hangs();
            }
        }
        match waitpid(None, Some(WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD)) {
            Ok(stop) => traced.stopped(stop),
            Err(Errno::ECHILD) => thread::sleep(PACE),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error),
        }
    }
}

impl Traced {
    /// Traces every thread of a process. Threads and processes that these start are traced from their start.
    fn attach(&mut self, pid: i32) -> Result<(), Errno> {
        let options = Options::PTRACE_O_TRACESYSGOOD
            | Options::PTRACE_O_TRACECLONE
            | Options::PTRACE_O_TRACEFORK
            | Options::PTRACE_O_TRACEVFORK;
        // A thread may start another one between the listing and the seizure.
        loop {
            let fresh: Vec<i32> = threads(pid).into_iter().filter(|tid| !self.all.contains(tid)).collect();
            if fresh.is_empty() {
                return Ok(());
            }
            for tid in fresh {
                let thread = Pid::from_raw(tid);
                match ptrace::seize(thread, options) {
                    Ok(()) => ptrace::interrupt(thread)?,
                    // It is traced since its start, by this process or not at all.
                    Err(Errno::EPERM) if self.is_traced_by_us(pid, tid) => {}
                    Err(Errno::ESRCH) => {}
                    Err(error) => return Err(error),
                }
                self.all.insert(tid);
            }
        }
    }

    #[expect(clippy::unused_self, reason = "it reads the state of the threads that this value traces")]
    fn is_traced_by_us(&self, pid: i32, tid: i32) -> bool {
        let status = fs::read_to_string(format!("/proc/{pid}/task/{tid}/status")).unwrap_or_default();
        let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
        tracer.is_some_and(|tracer| tracer.trim() == Pid::this().to_string())
    }

    /// Resumes a thread that stopped, unless it enters a call that needs the disk.
    fn stopped(&mut self, stop: WaitStatus) {
        match stop {
            WaitStatus::PtraceSyscall(thread) => {
                let enters = self.inside.insert(thread.as_raw());
                if !enters {
                    self.inside.remove(&thread.as_raw());
                }
                if enters && call_of(thread).is_some_and(|call| CALLS.contains(&call)) {
                    return;
                }
                resume(thread, None);
            }
            WaitStatus::PtraceEvent(thread, _, _) => {
                self.all.insert(thread.as_raw());
                resume(thread, None);
            }
            WaitStatus::Stopped(thread, signal) => resume(thread, Some(signal)),
            WaitStatus::Exited(thread, _) | WaitStatus::Signaled(thread, _, _) => {
                self.all.remove(&thread.as_raw());
                self.inside.remove(&thread.as_raw());
            }
            WaitStatus::Continued(_) | WaitStatus::StillAlive => {}
        }
    }
}

fn resume(thread: Pid, signal: Option<nix::sys::signal::Signal>) {
    // It fails only if the thread was killed meanwhile.
    let _ = ptrace::syscall(thread, signal);
}

fn threads(pid: i32) -> Vec<i32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The number of the system call that a thread enters.
fn call_of(thread: Pid) -> Option<libc::c_long> {
    let registers = ptrace::getregs(thread).ok()?;
    #[cfg(target_arch = "x86_64")]
    let number = registers.orig_rax;
    #[cfg(target_arch = "aarch64")]
    let number = registers.regs[8];
    number.try_into().ok()
}
