//! etcd on a copy of a member's data, as a cluster of this one member. It listens on loopback, and ends with the value.

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use quorate_api::job::{Failure, FailureKind, StoredLog};
use quorate_backup::longest_start;
use quorate_etcd::{CallError, MemberClient, Read};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use super::copy::bytes_in;
use crate::probe::{Credentials, EndpointUrl};
use crate::run::RunArgs;

/// How long it may take to serve an empty database, with the log that it applies after it.
const START: Duration = Duration::from_secs(300);

const LOOK: Duration = Duration::from_millis(100);

/// The flags of the member that also count here: who it is, how clients connect, and how entries are applied. Not those that compact
/// the history, compare data with peers, or write elsewhere.
const KEPT: [&str; 13] = [
    "name",
    "cert-file",
    "key-file",
    "trusted-ca-file",
    "client-cert-auth",
    "tls-min-version",
    "tls-max-version",
    "cipher-suites",
    "quota-backend-bytes",
    "max-request-bytes",
    "max-txn-ops",
    "auth-token",
    "bcrypt-cost",
];

/// The running etcd.
pub(super) struct OneShot {
    etcd: Child,
    client: MemberClient,
    url: String,
    /// How long it may take to serve. It reads all that is in the directory first.
    within: Duration,
}

impl OneShot {
    /// Starts it on this data directory.
    pub(super) fn start(args: &RunArgs, data_dir: &Path) -> Result<Self, Failure> {
        let unfit = |why: String| Failure::new(FailureKind::Unfit, why);
        let within = within(data_dir)?;
        let (client_port, peer_port) = free_ports()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, client_port));
        let tls = args.probe.endpoint.tls;
        let mut probe = args.probe.clone();
        probe.endpoint = EndpointUrl { tls, address };
        let client = Credentials::new(&probe).and_then(|mut own| own.client()).map_err(unfit)?;
        let url = format!("{}://{address}", if tls { "https" } else { "http" });
        let peer_url = format!("http://127.0.0.1:{peer_port}");
        let (program, flags) = args.command.split_first().ok_or_else(|| unfit("no program".to_owned()))?;
        let name = &args.guard.member;
        let etcd = Command::new(program)
            .args(flags.iter().filter(|flag| is_kept(flag)))
            .arg(format!("--data-dir={}", data_dir.display()))
            .args(["--force-new-cluster", "--unsafe-no-fsync", "--log-level=warn"])
            .args([format!("--listen-client-urls={url}"), format!("--advertise-client-urls={url}")])
            .args([
                format!("--listen-peer-urls={peer_url}"),
                format!("--initial-advertise-peer-urls={peer_url}"),
            ])
            .arg(format!("--initial-cluster={name}={peer_url}"))
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| unfit(format!("cannot start {}: {error}", program.display())))?;
        Ok(Self { etcd, client, url, within })
    }

    /// Where clients reach it.
    pub(super) fn client_url(&self) -> &str {
        &self.url
    }

    /// Waits until it serves all that was committed.
    pub(super) async fn keeps(&mut self, stored: &StoredLog) -> Result<(), Failure> {
        let end = Instant::now() + self.within;
        loop {
            let why = match self.serves().await {
                Ok(applied) if applied >= stored.committed_index => return Ok(()),
                Ok(applied) => {
                    let message = format!(
                        "etcd of this image has kept the entries up to {applied} only, and {} were committed. Use etcd 3.5.26, \
                         3.6.5 or newer",
                        stored.committed_index
                    );
                    return Err(Failure::new(FailureKind::Mismatch, message));
                }
                Err(error) => error.to_string(),
            };
            if let Ok(Some(ended)) = self.etcd.try_wait() {
                let message = format!(
                    "etcd does not start on a copy of the data: it ended with {ended}. Name another member"
                );
                return Err(Failure::new(FailureKind::Unfit, message));
            }
            if Instant::now() > end {
                let message = format!(
                    "etcd does not serve a copy of the data within {} s: {why}",
                    self.within.as_secs()
                );
                return Err(Failure::new(FailureKind::Unfit, message));
            }
            sleep(LOOK).await;
        }
    }

    /// The entry up to which it has applied its log, once it answers a linearizable read.
    async fn serves(&self) -> Result<u64, CallError> {
        self.client.revision(Read::Linearizable).await?;
        Ok(self.client.status().await?.raft_applied_index)
    }

    /// Ends it. The copy is worth nothing any more.
    pub(super) async fn stop(&mut self) {
        // It fails only if it has ended already.
        let _ = self.etcd.kill().await;
    }
}

fn within(data_dir: &Path) -> Result<Duration, Failure> {
    let bytes = bytes_in(data_dir).map_err(|error| {
        Failure::new(FailureKind::StoreUnavailable, format!("cannot read {}: {error}", data_dir.display()))
    })?;
    Ok(longest_start(START, bytes))
}

fn is_kept(flag: &OsString) -> bool {
    let flag = flag.to_string_lossy();
    let name = flag.trim_start_matches('-').split('=').next().unwrap_or_default();
    KEPT.contains(&name)
}

fn free_ports() -> Result<(u16, u16), Failure> {
    let free = || -> std::io::Result<(u16, u16)> {
        let [one, other] =
            [TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?, TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?];
        Ok((one.local_addr()?.port(), other.local_addr()?.port()))
    };
    free().map_err(|error| Failure::new(FailureKind::StoreUnavailable, format!("no free port: {error}")))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;

    #[test]
    fn how_long_the_start_may_take_grows_with_the_data() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(within(dir.path()).unwrap(), START);
        fs::create_dir_all(dir.path().join("member/snap")).unwrap();
        // It takes no room.
        File::create(dir.path().join("member/snap/db")).unwrap().set_len(8 << 30).unwrap();
        assert_eq!(within(dir.path()).unwrap(), START + Duration::from_secs(1024));
    }
}
