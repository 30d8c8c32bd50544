//! A member's container: the agent as a process, with a real etcd as its child.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use quorate_etcd::testkit::{etcd, eventually, own_address};
use quorate_etcd::{Deadlines, Endpoint, MemberClient};
use quorate_model::Minor;
use tempfile::TempDir;

/// One Pod; its processes end with the value.
pub struct Pod {
    pub name: String,
    pub address: IpAddr,
    dir: TempDir,
    shared: Option<PathBuf>,
    minor: Minor,
    peers: Vec<(String, IpAddr)>,
    agent: Option<Child>,
    /// How the init container ended that was to fetch the snapshot: then no other starts.
    unfetched: Option<ExitStatus>,
    /// The program that starts the agent.
    pub wrapper: Vec<String>,
    /// Further flags of the agent.
    pub flags: Vec<String>,
    /// Further flags of etcd.
    pub etcd_flags: Vec<String>,
    /// Further addresses of the Pod.
    pub more_addresses: Vec<IpAddr>,
    /// `--expect` of the guard.
    pub expect: &'static str,
    /// The order of a restore, or of a recovery.
    pub order: Option<String>,
    /// The command of the agent.
    pub command: &'static str,
}

impl Pod {
    /// The Pods of a cluster; none runs.
    pub fn cluster(minor: Minor, size: usize) -> Vec<Self> {
        let peers: Vec<_> = (0..size).map(|n| (format!("demo-{n}"), own_address())).collect();
        let pod = |(name, address): &(String, IpAddr)| Self {
            name: name.clone(),
            address: *address,
            dir: tempfile::tempdir().unwrap(),
            shared: None,
            minor,
            peers: peers.clone(),
            agent: None,
            unfetched: None,
            wrapper: Vec::new(),
            flags: Vec::new(),
            etcd_flags: Vec::new(),
            more_addresses: Vec::new(),
            expect: "fresh",
            order: None,
            command: "run",
        };
        peers.iter().map(pod).collect()
    }

    /// A cluster of which every member serves.
    pub async fn running(minor: Minor, size: usize) -> Vec<Self> {
        let mut pods = Self::cluster(minor, size);
        pods.iter_mut().for_each(Self::start);
        for pod in &pods {
            pod.becomes_ready().await;
        }
        pods
    }

    /// Starts the Pod: of a restore first the init container, then the one of etcd, which reaches no store.
    pub fn start(&mut self) {
        assert!(self.agent.is_none(), "{} runs", self.name);
        let restores = self.command == "run" && self.expect == "restored" && self.order.is_some();
        self.unfetched = restores.then(|| self.fetch()).filter(|status| !status.success());
        if self.unfetched.is_none() {
            self.start_etcd();
        }
    }

    /// Runs the init container that fetches the snapshot.
    fn fetch(&self) -> ExitStatus {
        fs::create_dir_all(self.volume()).unwrap();
        fs::write(self.termination_log(), "").unwrap();
        let log = File::options().create(true).append(true).open(self.log_file()).unwrap();
        let mut fetch = Command::new(agent());
        fetch
            .args(["fetch", "--token=uid-1-1", "--cluster-uid=uid-1", "--expect=restored"])
            .args([format!("--member={}", self.name), format!("--data-dir={}", self.data_dir().display())])
            .arg(format!("--identity={}", self.volume().join("quorate.json").display()))
            .arg(format!("--seen={}", self.dir.path().join("seen").display()))
            .arg(format!("--termination-log={}", self.termination_log().display()))
            .args(self.flags.iter().filter(|flag| !flag.starts_with("--etcdutl=")))
            .envs(self.order.iter().map(|order| (quorate_api::job::ORDER, order)))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        fetch.status().unwrap()
    }

    fn start_etcd(&mut self) {
        let address = self.address;
        let initial: Vec<_> =
            self.peers.iter().map(|(name, ip)| format!("{name}=http://{ip}:2380")).collect();
        let log = File::options().create(true).append(true).open(self.log_file()).unwrap();
        fs::write(self.termination_log(), "").unwrap();
        fs::create_dir_all(self.volume()).unwrap();
        let path = |name: &str, path: PathBuf| format!("--{name}={}", path.display());
        let addresses: Vec<_> =
            [&address].into_iter().chain(&self.more_addresses).map(IpAddr::to_string).collect();
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "--"])
            .args(&self.wrapper)
            .arg(agent())
            .args([self.command, "--token=uid-1-1", "--cluster-uid=uid-1"])
            .env("POD_IP", address.to_string())
            .env("POD_IPS", addresses.join(","))
            .arg(format!("--expect={}", self.expect))
            .envs(self.order.iter().map(|order| (quorate_api::job::ORDER, order)))
            .arg(format!("--member={}", self.name))
            .arg(path("data-dir", self.data_dir()))
            .arg(path("identity", self.volume().join("quorate.json")))
            .arg(path("canary", self.canary()))
            .arg(path("seen", self.dir.path().join("seen")))
            .arg(path("termination-log", self.termination_log()))
            .args([format!("--listen={address}:9980"), format!("--endpoint=http://{address}:2379")])
            .args(self.flags.iter().filter(|flag| !flag.starts_with("--store-pvc=")))
            .arg("--")
            .arg(etcd(self.minor))
            .args(["--unsafe-no-fsync".to_owned(), format!("--name={}", self.name)])
            .arg(path("data-dir", self.data_dir()))
            .args([format!("--listen-peer-urls=http://{address}:2380")])
            .args([format!("--initial-advertise-peer-urls=http://{address}:2380")])
            .args([format!("--listen-client-urls=http://{address}:2379")])
            .args([format!("--advertise-client-urls=http://{address}:2379")])
            .args([format!("--initial-cluster={}", initial.join(","))])
            .args(["--initial-cluster-token=uid-1-1", "--initial-cluster-state=new"])
            .args(&self.etcd_flags)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        self.agent = Some(command.spawn().unwrap());
    }

    pub fn client(&self) -> MemberClient {
        let endpoint = Endpoint::plain(SocketAddr::new(self.address, 2379));
        MemberClient::new(&endpoint, Deadlines::default()).unwrap()
    }

    /// Sends the agent a signal.
    pub fn signal(&self, signal: Signal) {
        kill(self.agent_pid(), signal).unwrap();
    }

    pub fn agent_pid(&self) -> Pid {
        Pid::from_raw(self.agent.as_ref().expect("the Pod runs").id().cast_signed())
    }

    /// The process of etcd, as soon as there is one.
    pub async fn etcd_pid(&self) -> Pid {
        eventually("etcd is a child of the agent", async || {
            let pid: i32 = self.children().pop().and_then(|pid| pid.parse().ok()).ok_or("no child")?;
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).map_err(|_| "it has ended")?;
            if name.starts_with("etcd") { Ok(Pid::from_raw(pid)) } else { Err("another program") }
        })
        .await
    }

    /// The children of the process that was started.
    pub fn children(&self) -> Vec<String> {
        let pid = self.agent_pid();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        children.split_whitespace().map(str::to_owned).collect()
    }

    /// Waits for the end of the container.
    pub async fn ended(&mut self) -> ExitStatus {
        if let Some(status) = self.unfetched.take() {
            return status;
        }
        let name = self.name.clone();
        let child = self.agent.as_mut().expect("the Pod runs");
        let status =
            eventually(&format!("{name} ends"), async || child.try_wait().unwrap().ok_or("it still runs"))
                .await;
        self.agent = None;
        status
    }

    /// SIGTERM, and how long it takes until the container has ended with this code.
    pub async fn stops_with(&mut self, code: i32) -> Duration {
        let begun = Instant::now();
        self.signal(Signal::SIGTERM);
        assert_eq!(self.ended().await.code(), Some(code), "{}", self.log());
        begun.elapsed()
    }

    /// The status and the text of a GET of the probe.
    pub fn get(&self, path: &str) -> Result<(u16, String), String> {
        let ask = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect((self.address, 9980))?;
            stream.set_read_timeout(Some(Duration::from_secs(5)))?;
            write!(stream, "GET {path} HTTP/1.1\r\nHost: probe\r\nConnection: close\r\n\r\n")?;
            let mut reply = String::new();
            stream.read_to_string(&mut reply)?;
            Ok(reply)
        };
        let reply = ask().map_err(|error| error.to_string())?;
        let (head, text) = reply.split_once("\r\n\r\n").ok_or("no HTTP reply")?;
        Ok((head.split(' ').nth(1).unwrap_or_default().parse().unwrap_or(0), text.trim().to_owned()))
    }

    pub async fn becomes_ready(&self) {
        eventually(&format!("{} is ready", self.name), async || match self.get("/readyz?wait=200") {
            Ok((200, _)) => Ok(()),
            other => Err(other),
        })
        .await;
    }

    pub fn peer_url(&self) -> String {
        format!("http://{}:2380", self.address)
    }

    pub fn volume(&self) -> PathBuf {
        self.shared.clone().unwrap_or_else(|| self.dir.path().join("volume"))
    }

    /// From now on it mounts the volume of another Pod.
    pub fn share_volume_of(&mut self, other: &Self) {
        self.shared = Some(other.volume());
    }

    pub fn data_dir(&self) -> PathBuf {
        self.volume().join("data")
    }

    pub fn canary(&self) -> PathBuf {
        self.volume().join("canary")
    }

    /// Deletes all that is on the volume.
    pub fn empty_volume(&self) {
        fs::remove_dir_all(self.volume()).unwrap();
        fs::create_dir(self.volume()).unwrap();
    }

    /// A new Pod on an empty volume takes its place.
    pub fn forget(&mut self) {
        self.empty_volume();
        let _ = fs::remove_file(self.dir.path().join("seen"));
    }

    pub fn minor(&self) -> Minor {
        self.minor
    }

    pub fn termination_message(&self) -> String {
        fs::read_to_string(self.termination_log()).unwrap()
    }

    /// All that agent and etcd wrote.
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap()
    }

    fn termination_log(&self) -> PathBuf {
        self.dir.path().join("termination-log")
    }

    fn log_file(&self) -> PathBuf {
        self.dir.path().join("log")
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        if let Some(mut agent) = self.agent.take() {
            let _ = agent.kill();
            let _ = agent.wait();
        }
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<_> = log.lines().collect();
            eprintln!("--- {}\n{}", self.name, lines[lines.len().saturating_sub(12)..].join("\n"));
        }
    }
}

/// The leader and the others.
pub async fn leader(pods: &[Pod]) -> usize {
    eventually("one leads", async || {
        for (n, pod) in pods.iter().enumerate() {
            if pod.client().status().await.is_ok_and(|status| status.is_leader()) {
                return Ok(n);
            }
        }
        Err("none")
    })
    .await
}

/// Whether there is such a process.
pub fn is_alive(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

/// The program of the agent alone.
pub fn agent() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.ancestors().nth(2).unwrap().join("examples/agent");
    assert!(Path::new(&program).is_file(), "{} is built with the tests", program.display());
    program
}
