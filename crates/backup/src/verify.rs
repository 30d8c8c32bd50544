//! A restore test: the backup, which was fetched before, is restored, etcd starts on it, and is asked what it has.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use quorate_api::bootstrap::DEFAULT_BUMP_REVISION;
use quorate_api::job::{Compared, Contents, Failure, FailureKind, Manifest, Verified, VerifyOrder};
use quorate_etcd::{CallError, Deadlines, Endpoint, MemberClient, Read};
use quorate_model::Revision;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use crate::etcdutl::{self, Restore};
use crate::handed::{self, Handed};
use crate::root::Root;
use crate::spool::cannot_write;
use crate::{Context, Result};

/// How long etcd may take to serve an empty database, on a machine that is busy.
const START: Duration = Duration::from_secs(120);
/// How fast it reads its database at least: a slow disk of a network, in a Pod that has what others leave.
const READ_BYTES_PER_SECOND: u64 = 8 << 20;

/// What etcd answers to a read at a revision that is compacted.
const COMPACTED: &str = "required revision has been compacted";

/// The attempt of which a test takes the snapshot: a Job has one.
pub(crate) const ATTEMPT: &str = "verify";

/// Where the test happens.
pub(crate) fn scratch(context: &Context) -> PathBuf {
    context.places.scratch.join("verify")
}

/// Carries out the test with the programs `etcd` and `etcdutl` of this directory, on what was fetched for it.
pub async fn verify(order: &VerifyOrder, programs: &Path, context: &Context) -> Result<Verified> {
    let scratch = scratch(context);
    let verified = context.unless_stopped(Box::pin(test(order, programs, &scratch, context))).await;
    let cleared = clear(&scratch).await;
    let verified = verified?;
    cleared?;
    Ok(verified)
}

async fn test(order: &VerifyOrder, programs: &Path, scratch: &Path, context: &Context) -> Result<Verified> {
    let etcdutl = programs.join("etcdutl");
    let Some(Handed { file, note }) = handed::take(scratch, ATTEMPT, &order.source).await? else {
        return Err(Failure::new(FailureKind::NoSource, "nothing was fetched for this test"));
    };
    let (manifest, bytes) = (note.manifest, note.bytes);
    etcdutl::can_read(&etcdutl, &manifest.etcd_version).await?;
    let trial = Trial { programs, scratch, file: &file, bytes, context };
    let examined = async |client, revision| examine(&client, revision, manifest, context).await;
    let verified = trial.run(0, examined).await?;
    // A cluster is restored with its revisions raised, and all that is older compacted. Its keys are not counted again: leases end.
    if etcdutl::raises_revisions(&etcdutl).await? {
        // etcdutl adds to the last revision in the file, and a store without a key has none, though etcd says 1.
        let raised = i64::try_from(DEFAULT_BUMP_REVISION).unwrap_or(i64::MAX);
        let found = trial.run(DEFAULT_BUMP_REVISION, async |_, revision| Ok(revision.0)).await?;
        if found < raised {
            let message =
                format!("the revision is {found} after a restore that raises it to {raised} at least");
            return Err(Failure::new(FailureKind::Mismatch, message));
        }
    }
    Ok(verified)
}

/// What a restored etcd has now. It is an error if it is not what the members had at the revision of the backup.
async fn examine(
    client: &MemberClient,
    revision: Revision,
    manifest: Manifest,
    context: &Context,
) -> Result<Verified> {
    if revision.0 < manifest.revision {
        let message = format!(
            "the revision is {revision} after the restore, the backup was taken at {}",
            manifest.revision
        );
        return Err(Failure::new(FailureKind::Mismatch, message));
    }
    let (keys, _) = client.count_keys(Read::Linearizable).await.map_err(|error| no_answer(&error))?;
    let hash = client.hash_kv(Some(revision)).await.map_err(|error| no_answer(&error))?;
    let compared = compare(client, &manifest, context).await?;
    Ok(Verified { manifest, revision: revision.0, keys, hash: hash.hash, compared })
}

/// Compares what it has at the revision of the backup, as far as both are known.
async fn compare(client: &MemberClient, manifest: &Manifest, context: &Context) -> Result<Vec<Compared>> {
    // An object without a manifest has none.
    let revision = (manifest.revision > 0).then_some(Compared::Revision);
    let mut compared = Vec::from_iter(revision);
    let Some(wanted) = &manifest.contents else { return Ok(compared) };
    let found = match has_at(client, Revision(manifest.revision)).await {
        Ok(found) => found,
        // The snapshot is of later, and after a compaction of that revision.
        Err(CallError::Refused(_, message)) if message.contains(COMPACTED) => {
            (context.log)("the history was compacted while the backup was taken, past its revision");
            return Ok(compared);
        }
        Err(error) => return Err(no_answer(&error)),
    };
    let differ = |what: &str, wanted: String, found: String| {
        let revision = manifest.revision;
        let message = format!(
            "at revision {revision} {what} {found} after the restore, and the members had {wanted} when the backup was taken"
        );
        Err(Failure::new(FailureKind::Mismatch, message))
    };
    if wanted.keys != found.keys {
        return differ("the number of keys is", wanted.keys.to_string(), found.keys.to_string());
    }
    compared.push(Compared::Keys);
    if wanted.compact_revision != found.compact_revision {
        (context.log)(
            "the history was compacted while the backup was taken: the hash of its members says nothing about it",
        );
        return Ok(compared);
    }
    if wanted.hash != found.hash {
        return differ("HashKV is", format!("{:08x}", wanted.hash), format!("{:08x}", found.hash));
    }
    compared.push(Compared::Hash);
    Ok(compared)
}

async fn has_at(client: &MemberClient, revision: Revision) -> std::result::Result<Contents, CallError> {
    let keys = client.count_keys_at(revision).await?;
    let hash = client.hash_kv(Some(revision)).await?;
    Ok(Contents { keys, hash: hash.hash, compact_revision: hash.compacted.0, confirmed_by: None })
}

fn no_answer(error: &CallError) -> Failure {
    Failure::new(FailureKind::Unfit, format!("etcd does not answer after the restore: {error}"))
}

/// A restore of the snapshot, and etcd that is started on it.
#[derive(Clone, Copy, Debug)]
struct Trial<'a> {
    programs: &'a Path,
    scratch: &'a Path,
    file: &'a Path,
    bytes: u64,
    context: &'a Context,
}

impl Trial<'_> {
    /// Restores, raising revisions by so many, starts etcd, asks it once it serves, and stops it.
    async fn run<T>(
        self,
        bump_revision: u64,
        ask: impl AsyncFnOnce(MemberClient, Revision) -> Result<T>,
    ) -> Result<T> {
        let (client_port, peer_port) = free_ports()?;
        let peer_url = format!("http://127.0.0.1:{peer_port}");
        let data_dir = self.scratch.join("data");
        // What an earlier trial left: the room for two is not asked for.
        clear(&data_dir).await?;
        Restore {
            program: &self.programs.join("etcdutl"),
            file: self.file,
            data_dir: &data_dir,
            name: "verify",
            initial_cluster: &format!("verify={peer_url}"),
            token: "verify",
            peer_url: &peer_url,
            bump_revision,
        }
        .run()
        .await?;
        (self.context.log)("restored; starting etcd on it");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, client_port));
        let root = Root::generate(&address.ip().to_string(), self.scratch).await?;
        let client_url = format!("https://{address}");
        let mut etcd = Command::new(self.programs.join("etcd"))
            .args(["--name=verify", "--unsafe-no-fsync", "--log-level=error", "--quota-backend-bytes=-1"])
            .arg(format!("--data-dir={}", data_dir.display()))
            .args([
                format!("--listen-client-urls={client_url}"),
                format!("--advertise-client-urls={client_url}"),
            ])
            .args([
                format!("--listen-peer-urls={peer_url}"),
                format!("--initial-advertise-peer-urls={peer_url}"),
            ])
            .args(root.flags())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| etcdutl::cannot_start("etcd".as_ref(), &error))?;
        let asked = async {
            let deadlines = Deadlines { connect: Duration::from_secs(1), call: Duration::from_secs(60) };
            let client = MemberClient::new(&Endpoint::tls(address, root.tls()), deadlines);
            let client = client.map_err(|error| Failure::new(FailureKind::Unfit, error.to_string()))?;
            let revision = serves(&mut etcd, &client, longest_start(START, self.bytes)).await?;
            ask(client, revision).await
        }
        .await;
        // It fails only if it has ended already.
        let _ = etcd.kill().await;
        asked
    }
}

/// How long etcd may take to serve so many bytes, all of which it reads first, if it takes this long to serve none.
pub fn longest_start(empty: Duration, bytes: u64) -> Duration {
    empty + Duration::from_secs(bytes / READ_BYTES_PER_SECOND)
}

/// Waits until it serves. Returns its revision.
async fn serves(etcd: &mut Child, client: &MemberClient, within: Duration) -> Result<Revision> {
    let end = Instant::now() + within;
    loop {
        let why = match client.revision(Read::Linearizable).await {
            Ok(revision) => return Ok(revision),
            Err(error) => error.to_string(),
        };
        if let Ok(Some(ended)) = etcd.try_wait() {
            let message = format!("etcd does not start on the restored data: it ended with {ended}");
            return Err(Failure::new(FailureKind::Unfit, message));
        }
        if Instant::now() > end {
            let message =
                format!("etcd does not serve on the restored data within {} s: {why}", within.as_secs());
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

pub(crate) async fn clear(dir: &Path) -> Result<()> {
    match tokio::fs::remove_dir_all(dir).await {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(cannot_write(dir, &error)),
        Ok(()) | Err(_) => Ok(()),
    }
}
