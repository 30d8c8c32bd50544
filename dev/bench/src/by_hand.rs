//! The baseline: three etcd processes with a static bootstrap, as a person would start them.

use std::fs::{self, File};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use quorate_etcd::testkit::{Pki, etcd, own_address};
use quorate_etcd::{Deadlines, Endpoint, MemberClient};
use quorate_model::Minor;

const PATIENCE: Duration = Duration::from_mins(1);

/// A member that is ready to start.
struct Prepared {
    command: Command,
    client: MemberClient,
}

/// Runs processes until it is dropped.
struct Running(Vec<Child>);

/// The time from the start of the processes until all three report that they are voters and know the leader.
pub async fn create(minor: Minor, tls: bool) -> Result<Duration> {
    let dir = tempfile::Builder::new().prefix("quorate-bench-").tempdir()?;
    let pki = tls.then(|| Pki::new(&dir.path().join("pki")));
    let addresses: Vec<IpAddr> = (0..3).map(|_| own_address()).collect();
    let scheme = if tls { "https" } else { "http" };
    let name = |n: usize| format!("m{n}");
    let all: Vec<String> =
        addresses.iter().enumerate().map(|(n, at)| format!("{}={scheme}://{at}:2380", name(n))).collect();
    let members = addresses.iter().enumerate();
    let members: Result<Vec<Prepared>> = members
        .map(|(n, at)| prepare(minor, &name(n), *at, &all.join(","), pki.as_ref(), dir.path()))
        .collect();
    let members = members?;

    let start = Instant::now();
    let mut running = Running(Vec::new());
    let mut clients = Vec::new();
    for mut member in members {
        running.0.push(member.command.spawn().context("cannot start etcd")?);
        clients.push(member.client);
    }
    let ready = try_join_all(clients.iter().map(|client| is_ready(client, start))).await;
    let took = start.elapsed();
    ready.with_context(|| log_tail(dir.path()))?;
    Ok(took)
}

fn log_tail(dir: &Path) -> String {
    let log = fs::read_to_string(dir.join("m0.log")).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    format!(
        "three etcd by hand; the log of one ends:\n{}\n",
        lines[lines.len().saturating_sub(5)..].join("\n")
    )
}

fn prepare(
    minor: Minor,
    name: &str,
    at: IpAddr,
    all: &str,
    pki: Option<&Pki>,
    dir: &Path,
) -> Result<Prepared> {
    let scheme = if pki.is_some() { "https" } else { "http" };
    let (client, peer) = (format!("{scheme}://{at}:2379"), format!("{scheme}://{at}:2380"));
    let mut command = Command::new(etcd(minor));
    command
        .args(["--name", name, "--data-dir"])
        .arg(dir.join(name))
        .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
        .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
        .args(["--initial-cluster", all, "--initial-cluster-state", "new"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(dir.join(format!("{name}.log")))?);
    let address = SocketAddr::new(at, 2379);
    let endpoint = match pki {
        None => Endpoint::plain(address),
        Some(pki) => {
            // The second for the source address of connections to peers, which etcd checks too.
            let leaf = pki.leaf(name, &[&at.to_string(), "127.0.0.1"]);
            let ca = pki.ca_file();
            let flag = |flag: &str, file: &PathBuf| format!("--{flag}={}", file.display());
            command.args(["--client-cert-auth", "--peer-client-cert-auth"]);
            command.args([flag("cert-file", &leaf.cert), flag("peer-cert-file", &leaf.cert)]);
            command.args([flag("key-file", &leaf.key), flag("peer-key-file", &leaf.key)]);
            command.args([flag("trusted-ca-file", &ca), flag("peer-trusted-ca-file", &ca)]);
            Endpoint::tls(address, pki.tls(&leaf, &at.to_string()))
        }
    };
    Ok(Prepared { command, client: MemberClient::new(&endpoint, Deadlines::default())? })
}

async fn is_ready(client: &MemberClient, start: Instant) -> Result<()> {
    loop {
        let last = match client.status().await {
            Ok(status) if status.leader.is_some() && !status.is_learner => return Ok(()),
            Ok(status) => format!("{status:?}"),
            Err(error) => error.to_string(),
        };
        ensure!(start.elapsed() < PATIENCE, "etcd started by hand is not ready: {last}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // Fails only if it has ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
