//! One etcd process.

use std::fs::{self, File};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use quorate_model::{Minor, PeerUrl};

use super::binary::etcd;
use crate::{Deadlines, Endpoint, MemberClient, Tls};

/// One member: an address, a folder, and a process while it runs.
pub struct Member {
    /// Its `--name`.
    pub name: String,
    address: IpAddr,
    dir: PathBuf,
    minor: Minor,
    args: Vec<String>,
    initial: Vec<String>,
    tls: Option<Tls>,
    peer_tls: bool,
    child: Option<Child>,
}

impl Member {
    /// A member that does not run yet.
    pub(super) fn new(name: String, address: IpAddr, dir: PathBuf, minor: Minor) -> Self {
        fs::create_dir_all(&dir).expect("the member's folder");
        let (args, initial) = (Vec::new(), Vec::new());
        Self { name, address, dir, minor, args, initial, tls: None, peer_tls: false, child: None }
    }

    /// Adds flags to those of its identity, from its next start on.
    pub fn add_args(&mut self, args: impl IntoIterator<Item = String>) {
        self.args.extend(args);
    }

    /// Its `--initial-cluster` and `--initial-cluster-state`, from its next start on.
    pub fn set_initial(&mut self, cluster: &[(String, PeerUrl)], new: bool) {
        let cluster: Vec<_> = cluster.iter().map(|(name, url)| format!("{name}={}", url.as_str())).collect();
        let state = if new { "new" } else { "existing" };
        self.initial = ["--initial-cluster", &cluster.join(","), "--initial-cluster-state", state]
            .map(str::to_owned)
            .to_vec();
    }

    /// The TLS of its clients.
    pub(super) fn with_tls(mut self, tls: Option<Tls>) -> Self {
        self.tls = tls;
        self
    }

    /// Whether it speaks TLS with its peers.
    pub(super) fn with_peer_tls(mut self, peer_tls: bool) -> Self {
        self.peer_tls = peer_tls;
        self
    }

    /// Where its peers reach it.
    pub fn peer_url(&self) -> PeerUrl {
        let scheme = if self.peer_tls { "https" } else { "http" };
        PeerUrl::new(format!("{scheme}://{}:2380", self.address))
    }

    /// Its address.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Where its clients reach it.
    pub fn client_url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}:2379", self.address)
    }

    /// How to dial it.
    pub fn endpoint(&self) -> Endpoint {
        Endpoint { address: SocketAddr::new(self.address, 2379), tls: self.tls.clone() }
    }

    /// A client for it with the deadlines of production.
    pub fn client(&self) -> MemberClient {
        MemberClient::new(&self.endpoint(), Deadlines::default()).expect("the testkit's own TLS material")
    }

    /// Its `--data-dir`.
    pub fn data_dir(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// Starts the process.
    pub fn start(&mut self) {
        assert!(self.child.is_none(), "{} runs already", self.name);
        let log = File::options().create(true).append(true).open(self.log_file()).expect("the log file");
        let mut command = killed_with_parent(&etcd(self.minor));
        command
            .args(["--name", &self.name, "--unsafe-no-fsync"])
            .args(["--data-dir".into(), self.data_dir()])
            .args(["--listen-peer-urls", self.peer_url().as_str()])
            .args(["--initial-advertise-peer-urls", self.peer_url().as_str()])
            .args(["--listen-client-urls", &self.client_url(), "--advertise-client-urls", &self.client_url()])
            .args(&self.initial)
            .args(&self.args)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        self.child = Some(command.spawn().expect("etcd starts"));
    }

    /// Whether it was started and has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        let child = self.child.as_mut();
        child.is_some_and(|child| child.try_wait().expect("our own child can be asked for").is_some())
    }

    /// Empties its `--data-dir`.
    pub fn wipe(&self) {
        assert!(self.child.is_none(), "{} runs", self.name);
        if self.data_dir().exists() {
            fs::remove_dir_all(self.data_dir()).expect("the test's own folder can be emptied");
        }
    }

    /// SIGSTOP: it keeps its connections and answers nothing.
    pub fn pause(&self) {
        let pid = self.signal(Signal::SIGSTOP);
        // The kernel reports it when the last thread has stopped. Until then a thread may still answer.
        let stopped = waitpid(pid, Some(WaitPidFlag::WUNTRACED)).expect("our own child can be waited for");
        assert_eq!(stopped, WaitStatus::Stopped(pid, Signal::SIGSTOP), "{} ended", self.name);
    }

    /// SIGCONT.
    pub fn resume(&self) {
        self.signal(Signal::SIGCONT);
    }

    /// SIGKILL, and waits for its end.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Fails only if it has ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn signal(&self, signal: Signal) -> Pid {
        let child = self.child.as_ref().expect("the member runs");
        let pid = Pid::from_raw(child.id().cast_signed());
        kill(pid, signal).expect("our own child can be signalled");
        pid
    }

    fn log_file(&self) -> PathBuf {
        self.dir.join("etcd.log")
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.kill();
        if thread::panicking() {
            let log = fs::read_to_string(self.log_file()).unwrap_or_default();
            let lines: Vec<_> = log.lines().collect();
            let last = lines.len().saturating_sub(15);
            eprintln!("--- the last lines of {}\n{}", self.name, lines[last..].join("\n"));
        }
    }
}

/// The kernel kills the process when this one dies. `setpriv` execs it, so the pid is that of etcd.
fn killed_with_parent(program: &Path) -> Command {
    let setpriv = Path::new("/usr/bin/setpriv");
    if !setpriv.is_file() {
        return Command::new(program);
    }
    let mut command = Command::new(setpriv);
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}
