//! The logs of containers: one file for each run, rotated when it grows too large.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::task::JoinHandle;

/// The size at which a file is renamed to `.old`.
const LARGEST: u64 = 10 << 20;

/// The logs of one container.
#[derive(Clone, Debug)]
pub struct ContainerLogs {
    dir: PathBuf,
}

impl ContainerLogs {
    /// The logs of a container below `logs`.
    pub fn of(logs: &Path, namespace: &str, pod: &str, container: &str) -> Self {
        Self { dir: logs.join(format!("{namespace}_{pod}_{container}")) }
    }

    /// The file of a run.
    pub fn file(&self, run: i32) -> PathBuf {
        self.dir.join(format!("{run}.log"))
    }

    /// The latest run with a log, and the one before.
    pub fn newest(&self) -> (Option<PathBuf>, Option<PathBuf>) {
        let mut runs = self.runs();
        runs.sort_unstable();
        let newest = runs.pop().map(|run| self.file(run));
        (newest, runs.pop().map(|run| self.file(run)))
    }

    /// Opens the log of a run. Output written to the descriptor goes to the file; the task ends at the end of the
    /// output. Only the log of the previous run is kept.
    pub fn begin(&self, run: i32) -> io::Result<(OwnedFd, JoinHandle<()>)> {
        fs::create_dir_all(&self.dir)?;
        for old in self.runs().into_iter().filter(|old| *old < run - 1) {
            let _ = fs::remove_file(self.file(old));
            let _ = fs::remove_file(aside(&self.file(old)));
        }
        let path = self.file(run);
        let file = OpenOptions::new().create(true).append(true).open(&path)?;
        let (reader, writer) = io::pipe()?;
        let reader = pipe::Receiver::from_owned_fd(set_nonblocking(reader.into())?)?;
        let copying = tokio::spawn(copy(reader, path, file));
        Ok((writer.into(), copying))
    }

    /// The end of a log, for the termination message: as much as the kubelet reads.
    pub fn tail(&self, run: i32) -> String {
        const BYTES: u64 = 2048;
        const LINES: usize = 80;
        let read = || {
            let mut file = File::open(self.file(run))?;
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(length.saturating_sub(BYTES)))?;
            let mut text = Vec::new();
            file.read_to_end(&mut text)?;
            Ok::<_, io::Error>(text)
        };
        let text = String::from_utf8_lossy(&read().unwrap_or_default()).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        let kept = &lines[lines.len().saturating_sub(LINES)..];
        if kept.is_empty() { String::new() } else { kept.join("\n") + "\n" }
    }

    /// Deletes all logs of the container.
    pub fn delete(&self) {
        let _ = fs::remove_dir_all(&self.dir);
    }

    fn runs(&self) -> Vec<i32> {
        let entries = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.strip_suffix(".log")?.parse().ok()).collect()
    }
}

fn set_nonblocking(fd: OwnedFd) -> io::Result<OwnedFd> {
    use nix::fcntl::{FcntlArg, OFlag, fcntl};
    fcntl(&fd, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    Ok(fd)
}

fn aside(path: &Path) -> PathBuf {
    path.with_extension("log.old")
}

async fn copy(mut from: pipe::Receiver, path: PathBuf, mut to: File) {
    let mut buffer = vec![0; 16 << 10];
    let mut written = to.metadata().map_or(0, |metadata| metadata.len());
    while let Ok(read) = from.read(&mut buffer).await {
        if read == 0 {
            return;
        }
        // If the disk is full, the log is lost but the container runs on.
        if to.write_all(&buffer[..read]).is_ok() {
            written += read as u64;
        }
        if written > LARGEST && fs::rename(&path, aside(&path)).is_ok() {
            let Ok(next) = OpenOptions::new().create(true).append(true).open(&path) else { return };
            (to, written) = (next, 0);
        }
    }
}
