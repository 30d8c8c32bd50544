//! A restore test: the backup is fetched and restored, etcd starts on it, and is asked what it has.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use quorate_api::job::{Failure, FailureKind, Verified, VerifyOrder};
use quorate_etcd::{CallError, Deadlines, Endpoint, MemberClient, Read};
use quorate_model::Revision;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use crate::etcdutl::{self, Contents, Restore};
use crate::spool::cannot_write;
use crate::{Context, Found, Result};

/// How long etcd may take to serve. It reads its whole database first.
const START: Duration = Duration::from_secs(120);

/// What etcd answers to a call without a user, where auth is enabled.
const NO_USER: &str = "user name is empty";

/// Carries out the test with the programs `etcd` and `etcdutl` of this directory.
pub async fn verify(order: &VerifyOrder, programs: &Path, context: &Context) -> Result<Verified> {
    let scratch = context.places.scratch.join("verify");
    clear(&scratch).await?;
    let verified = context.unless_stopped(test(order, programs, &scratch, context)).await;
    let cleared = clear(&scratch).await;
    let verified = verified?;
    cleared?;
    Ok(verified)
}

async fn test(order: &VerifyOrder, programs: &Path, scratch: &Path, context: &Context) -> Result<Verified> {
    let etcdutl = programs.join("etcdutl");
    let found = Found::find(&order.source, context).await?;
    let manifest = found.manifest().cloned().unwrap_or_else(|| found.as_manifest());
    etcdutl::can_read(&etcdutl, &manifest.etcd_version).await?;
    let fetched = found.fetch(scratch, u64::MAX, context).await?;
    let (client_port, peer_port) = free_ports()?;
    let peer_url = format!("http://127.0.0.1:{peer_port}");
    let data_dir = scratch.join("data");
    Restore {
        program: &etcdutl,
        file: &fetched.file,
        data_dir: &data_dir,
        name: "verify",
        initial_cluster: &format!("verify={peer_url}"),
        token: "verify",
        peer_url: &peer_url,
        bump_revision: 0,
    }
    .run()
    .await?;
    (context.log)("restored; starting etcd on it");
    let client_url = format!("http://127.0.0.1:{client_port}");
    let mut etcd = Command::new(programs.join("etcd"))
        .args(["--name=verify", "--unsafe-no-fsync", "--log-level=error", "--quota-backend-bytes=-1"])
        .arg(format!("--data-dir={}", data_dir.display()))
        .args([format!("--listen-client-urls={client_url}"), format!("--advertise-client-urls={client_url}")])
        .args([format!("--listen-peer-urls={peer_url}"), format!("--initial-advertise-peer-urls={peer_url}")])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| etcdutl::cannot_start("etcd".as_ref(), &error))?;
    let asked = ask(&mut etcd, SocketAddr::from((Ipv4Addr::LOCALHOST, client_port))).await;
    // It fails only if it has ended already.
    let _ = etcd.kill().await;
    let found = match asked? {
        Answers::All(contents) => contents,
        Answers::OnlyUsers => {
            (context.log)(
                "etcd serves, and its auth refuses us: reading the revision and the keys with etcdutl",
            );
            etcdutl::contents(&etcdutl, &fetched.file).await?
        }
    };
    if found.revision < manifest.revision {
        let message = format!(
            "the revision is {} after the restore, the backup was taken at {}",
            found.revision, manifest.revision
        );
        return Err(Failure::new(FailureKind::Mismatch, message));
    }
    Ok(Verified { manifest, revision: found.revision, keys: found.keys, hash: found.hash })
}

/// What the etcd that was started answers.
enum Answers {
    All(Contents),
    /// It serves, and the snapshot has auth enabled.
    OnlyUsers,
}

async fn ask(etcd: &mut Child, address: SocketAddr) -> Result<Answers> {
    let deadlines = Deadlines { connect: Duration::from_secs(1), call: Duration::from_secs(60) };
    let client = MemberClient::new(&Endpoint::plain(address), deadlines);
    let client = client.map_err(|error| Failure::new(FailureKind::Unfit, error.to_string()))?;
    let Some(revision) = serves(etcd, &client).await? else { return Ok(Answers::OnlyUsers) };
    let failed = |error: CallError| {
        Failure::new(FailureKind::Unfit, format!("etcd does not answer after the restore: {error}"))
    };
    let (keys, _) = client.count_keys(Read::Linearizable).await.map_err(failed)?;
    let hash = client.hash_kv(Some(revision)).await.map_err(failed)?;
    Ok(Answers::All(Contents { revision: revision.0, keys, hash: hash.hash }))
}

/// Waits until it serves. Returns its revision; `None` if its auth refuses to answer.
async fn serves(etcd: &mut Child, client: &MemberClient) -> Result<Option<Revision>> {
    let end = Instant::now() + START;
    loop {
        let why = match client.revision(Read::Linearizable).await {
            Ok(revision) => return Ok(Some(revision)),
            Err(CallError::Refused(_, message)) if message.contains(NO_USER) => return Ok(None),
            Err(error) => error.to_string(),
        };
        if let Ok(Some(ended)) = etcd.try_wait() {
            let message = format!("etcd does not start on the restored data: it ended with {ended}");
            return Err(Failure::new(FailureKind::Unfit, message));
        }
        if Instant::now() > end {
            let message =
                format!("etcd does not serve on the restored data within {} s: {why}", START.as_secs());
            return Err(Failure::new(FailureKind::Unfit, message));
        }
        sleep(Duration::from_millis(100)).await;
    }
}

fn free_ports() -> Result<(u16, u16)> {
    let free = || -> std::io::Result<(u16, u16)> {
        let [one, other] =
            [TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?, TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?];
        Ok((one.local_addr()?.port(), other.local_addr()?.port()))
    };
    free().map_err(|error| Failure::new(FailureKind::NoSpace, format!("no free port: {error}")))
}

async fn clear(dir: &Path) -> Result<()> {
    match tokio::fs::remove_dir_all(dir).await {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(cannot_write(dir, &error)),
        Ok(()) | Err(_) => Ok(()),
    }
}
