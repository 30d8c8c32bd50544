//! Child processes: each has a time limit, and none is left running.
//!
//! Each child has a variable in its environment, which its own children inherit. By this variable a playground that outlives its
//! test is found, reported and ended.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

const MARK: &str = "QUORATE_XTASK_RUN";

/// How long the processes that a child started may run after it ended.
const GRACE: Duration = Duration::from_secs(5);

/// How a watched child ended.
pub struct End {
    /// Its own end.
    pub status: ExitStatus,
    /// What it wrote to stderr, which was shown as well.
    pub stderr: String,
    /// The processes that still ran afterwards, and were ended.
    pub left: Vec<String>,
}

/// Runs it with our own output; fails if it fails.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot run {}", shown(command)))?;
    ensure!(status.success(), "{} failed ({status})", shown(command));
    Ok(())
}

/// As [`run`], and passes each line of its stderr on.
pub fn run_with_stderr(command: &mut Command, mut line: impl FnMut(&str)) -> Result<()> {
    let child = command.stderr(Stdio::piped()).spawn();
    let mut child = child.with_context(|| format!("cannot run {}", shown(command)))?;
    let lines = BufReader::new(child.stderr.take().context("stderr is piped")?).lines();
    lines.map_while(Result::ok).for_each(|one| line(&one));
    let status = child.wait()?;
    ensure!(status.success(), "{} failed ({status})", shown(command));
    Ok(())
}

/// Runs it for its stdout; fails with its stderr if it fails.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot run {}", shown(command)))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} failed ({}):\n{stderr}", shown(command), output.status);
    String::from_utf8(output.stdout).with_context(|| format!("{} writes no text", shown(command)))
}

/// Runs it until it ends or its time is up, and ends the processes that it left running.
pub fn watch(command: &mut Command, until: Instant) -> Result<End> {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let mark = format!("{}-{}", std::process::id(), RUNS.fetch_add(1, Ordering::Relaxed));
    command.env(MARK, &mark).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot run {}", shown(command)))?;
    let lines = BufReader::new(child.stderr.take().context("stderr is piped")?).lines();
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
    let mut stderr = String::new();
    let status = loop {
        match receiver.recv_timeout(Duration::from_millis(100)) {
            Ok(line) => {
                eprintln!("{line}");
                stderr += &line;
                stderr.push('\n');
            }
            // Another process may hold the pipe open for longer. The child's end counts.
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                if let Some(status) = child.try_wait()? {
                    break status;
                }
            }
        }
        if Instant::now() > until {
            stop(&mark);
            child.wait()?;
            bail!("{} ran out of time and was ended", shown(command));
        }
    };
    Ok(End { status, stderr, left: end_leftovers(&mark) })
}

/// The first errors of a compiler's output, each with its place.
pub fn errors(stderr: &str) -> Vec<String> {
    const SHOWN: usize = 3;
    let lines: Vec<&str> = stderr.lines().collect();
    let first = lines.iter().enumerate().filter(|(_, line)| line.starts_with("error"));
    let with_place = |(at, line): (usize, &&str)| {
        let place = lines.get(at + 1).and_then(|next| next.trim_start().strip_prefix("--> "));
        place.map_or_else(|| (*line).to_owned(), |place| format!("{place}: {line}"))
    };
    first.map(with_place).take(SHOWN).collect()
}

/// Ends the processes that still run. Their command lines.
fn end_leftovers(mark: &str) -> Vec<String> {
    let end = Instant::now() + GRACE;
    loop {
        let left = marked(mark);
        if left.is_empty() {
            return Vec::new();
        }
        if Instant::now() > end {
            let lines = left.into_iter().map(command_line).collect();
            stop(mark);
            return lines;
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// The running processes with this mark.
fn marked(mark: &str) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let desired = format!("{MARK}={mark}");
    let carries = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry == desired.as_bytes())
    };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(carries).collect()
}

/// Ends all processes with this mark, also those that are started meanwhile. Does not wait longer for one that the kernel does not
/// end.
fn stop(mark: &str) {
    let end = Instant::now() + GRACE;
    loop {
        let pids = marked(mark);
        if pids.is_empty() || Instant::now() > end {
            return;
        }
        // Fails for one that ended meanwhile, which is no error.
        let _ = Command::new("kill")
            .arg("-KILL")
            .args(pids.iter().map(u32::to_string))
            .stderr(Stdio::null())
            .status();
        thread::sleep(Duration::from_millis(20));
    }
}

fn command_line(pid: u32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<_> = line.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
    format!("{pid} {}", words.join(" ").trim_end())
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(OsStr::to_string_lossy).collect();
    let program = words[0].rsplit('/').next().unwrap_or_default();
    format!("`{program} {}`", words[1..].join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn what_a_child_leaves_running_is_reported_and_ended() {
        let end = watch(
            &mut sh("sleep 731 >/dev/null 2>&1 & echo $! >&2"),
            Instant::now() + Duration::from_secs(30),
        )
        .unwrap();
        assert!(end.status.success());
        assert!(end.left.iter().any(|line| line.ends_with("sleep 731")), "{:?}", end.left);
        let pid = end.stderr.trim();
        let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        assert!(state.is_empty() || state.contains(") Z "), "{state}");
    }

    #[test]
    fn a_child_is_ended_with_all_it_started_when_its_time_is_up() {
        let start = Instant::now();
        let error = watch(&mut sh("sleep 732; true"), start + Duration::from_millis(300)).err().unwrap();
        assert!(error.to_string().contains("ran out of time"), "{error}");
        assert!(start.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn errors_are_shown_with_their_place() {
        let stderr =
            "warning: x\nerror[E0599]: no method\n   --> a.rs:1:2\n    |\nerror: could not compile\n";
        assert_eq!(errors(stderr), ["a.rs:1:2: error[E0599]: no method", "error: could not compile"]);
    }

    #[test]
    fn a_command_is_shown_without_the_folder_of_its_program() {
        assert_eq!(shown(Command::new("/usr/bin/cargo").arg("fmt")), "`cargo fmt`");
    }
}
