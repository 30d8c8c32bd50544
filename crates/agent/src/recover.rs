//! The Pod of a member while a lost quorum is recovered. The member's etcd does not start in it, and the member's data are only read.
//! `docs/protocols/recover-quorum.md` has the protocol, `docs/protocols/pod.md` the steps A19 to A23.
//!
//! - [`RecoverOrder::Read`]: what the log and the database have
//! - [`RecoverOrder::Extract`]: a snapshot of what etcd keeps of them. etcd runs on a copy, with `--force-new-cluster`, and listens on
//!   loopback only: `copy` makes the copy, `one_shot` runs etcd on it
//!
//! Because it is a copy, nothing is given up by this: a try that was killed is repeated, and without the order the member starts again as it
//! was.

mod copy;
mod one_shot;

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use quorate_api::job::{
    Answer, BackupOrder, ExtractOrder, Failure, FailureKind, RecoverOrder, SourceEndpoint, StoredLog,
};
use quorate_backup::{Context, Places, back_up, taken};
use quorate_model::GuardVerdict;
use tokio_util::sync::CancellationToken;

use crate::guard::{self, Expect, GuardArgs, stored};
use crate::job;
use crate::log;
use crate::restore::clear;
use crate::run::{AgentStep, CrashAt, RunArgs};
use one_shot::OneShot;

/// Carries out the order of the environment, reports the answer, and ends the process.
///
/// A return would wait for threads that a hung volume holds.
pub async fn run(args: &RunArgs) -> ! {
    let stop = job::stop_by_signal();
    let done = async {
        let stop = stop?;
        let recover = Recover { args, stop: stop.clone() };
        tokio::select! {
            done = recover.carry_out() => done,
            () = stop.cancelled() => Err(Failure::new(FailureKind::InUse, "stopped by a signal before it was complete")),
        }
    };
    std::process::exit(job::end(&args.guard.termination_log, Box::pin(done).await).into())
}

struct Recover<'a> {
    args: &'a RunArgs,
    stop: CancellationToken,
}

impl Recover<'_> {
    async fn carry_out(&self) -> Result<Answer, Failure> {
        match job::order()? {
            RecoverOrder::Read => self.read().await,
            RecoverOrder::Extract(order) => self.extract(&order).await,
        }
    }

    async fn read(&self) -> Result<Answer, Failure> {
        let guard = GuardArgs { expect: Expect::Data, ..self.args.guard.clone() };
        on_thread(move || read(&guard)).await
    }

    async fn extract(&self, order: &ExtractOrder) -> Result<Answer, Failure> {
        let mut backup = self.order_of(order);
        let copy = self.volume().join("quorate.recover");
        if let Some(manifest) = taken(&backup, &self.context()).await? {
            log::info("the snapshot was taken before");
            clear(&copy).await?;
            return Ok(Answer::BackedUp(manifest));
        }
        // What a try leaves that was killed takes room.
        clear(&copy).await?;
        let extracted = self.extract_by(order, &mut backup, &copy).await;
        // The next try, or a person, needs the room.
        let cleared = clear(&copy).await;
        let answer = extracted?;
        cleared?;
        self.done(AgentStep::A23);
        Ok(answer)
    }

    async fn extract_by(
        &self,
        order: &ExtractOrder,
        backup: &mut BackupOrder,
        copy: &Path,
    ) -> Result<Answer, Failure> {
        let (guard, to) = (GuardArgs { expect: Expect::Data, ..self.args.guard.clone() }, copy.to_owned());
        let (chosen, done) = (order.stored.clone(), self.crash());
        on_thread(move || {
            let found = match read(&guard)? {
                Answer::Stored(found) => found,
                Answer::NothingStored(why) => return Err(Failure::new(FailureKind::Unfit, why)),
                other => unreachable!("a volume is read, not {other:?}"),
            };
            is_what_was_chosen(&found, &chosen)?;
            // From here on no etcd opens them.
            let _lock = lock(&guard.data_dir)?;
            done.after(AgentStep::A19);
            copy::copy(&guard.data_dir, &to)?;
            done.after(AgentStep::A20);
            Ok(())
        })
        .await?;
        let mut etcd = OneShot::start(self.args, copy)?;
        etcd.keeps(&order.stored).await?;
        self.done(AgentStep::A21);
        backup.endpoints = vec![SourceEndpoint {
            member: self.args.guard.member.clone(),
            url: etcd.client_url().to_owned(),
        }];
        let manifest = back_up(backup, &self.context()).await?;
        etcd.stop().await;
        self.done(AgentStep::A22);
        Ok(Answer::BackedUp(manifest))
    }

    /// The snapshot is labelled: it may lack acknowledged writes.
    fn order_of(&self, order: &ExtractOrder) -> BackupOrder {
        BackupOrder {
            destination: order.destination.clone(),
            key: order.key.clone(),
            endpoints: Vec::new(),
            tls: self.args.probe.endpoint.tls,
            origin: order.origin.clone(),
            ordered: None,
            min_revision: Some(order.stored.revision),
            without_quorum: true,
            compress: true,
            recipients: Vec::new(),
            spool: false,
            quota_bytes: None,
            rate_limit: None,
            seconds: None,
        }
    }

    /// The store is the member's own volume.
    fn context(&self) -> Context {
        let Context { places, stop, log } = self.args.places.context(self.stop.clone());
        let tls = self.args.probe.cert.as_deref().and_then(Path::parent);
        let etcd_tls = tls.map_or(places.etcd_tls, Path::to_owned);
        Context { places: Places { pvc: self.volume(), etcd_tls, ..places }, stop, log }
    }

    fn volume(&self) -> PathBuf {
        self.args.guard.identity.parent().unwrap_or(Path::new(".")).to_owned()
    }

    fn crash(&self) -> CrashAt {
        CrashAt(self.args.crash_at)
    }

    fn done(&self, step: AgentStep) {
        self.crash().after(step);
    }
}

/// What the volume has, if it is the member's.
fn read(guard: &GuardArgs) -> Result<Answer, Failure> {
    let report = guard::inspect(guard);
    match report.verdict {
        // A volume that is full, or takes no writes, can still be read.
        GuardVerdict::Fit | GuardVerdict::DiskFull | GuardVerdict::NotWritable => {}
        GuardVerdict::DataMissing
        | GuardVerdict::ForeignData
        | GuardVerdict::ForeignIdentity
        | GuardVerdict::CorruptData
        | GuardVerdict::DataTooNew => {
            return Ok(Answer::NothingStored(format!("{}: {}", report.verdict, report.message)));
        }
    }
    let _lock = lock(&guard.data_dir)?;
    // What cannot be read now may be read at the next try.
    let unreadable =
        |why| Failure::new(FailureKind::StoreUnavailable, format!("cannot read the data: {why}"));
    stored(&guard.data_dir).map(Answer::Stored).map_err(unreadable)
}

/// The lock that etcd takes on its database. Whoever has it runs: another container on the same volume, whatever Kubernetes says.
fn lock(data_dir: &Path) -> Result<Option<File>, Failure> {
    let path = data_dir.join("member/snap/db");
    let open = |writes: bool| OpenOptions::new().read(true).write(writes).open(&path);
    // A disk that has failed is often mounted read-only, and can still be read.
    let read_only = |error: io::Error| match error.kind() {
        io::ErrorKind::ReadOnlyFilesystem => open(false),
        _ => Err(error),
    };
    let file = match open(true).or_else(read_only) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(Failure::new(FailureKind::InUse, format!("cannot open {}: {error}", path.display())));
        }
    };
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => {
            let message =
                format!("another process has {} open: an etcd still runs on this volume", path.display());
            Err(Failure::new(FailureKind::InUse, message))
        }
        Err(TryLockError::Error(error)) => {
            Err(Failure::new(FailureKind::InUse, format!("cannot lock {}: {error}", path.display())))
        }
    }
}

/// Refuses data that have changed since they were read, or of another member.
fn is_what_was_chosen(found: &StoredLog, chosen: &StoredLog) -> Result<(), Failure> {
    if found == chosen {
        return Ok(());
    }
    let message = format!(
        "the data have changed since they were chosen: committed up to entry {}, not {}; member {} of cluster {}, not {} of {}",
        found.committed_index,
        chosen.committed_index,
        found.member_id,
        found.cluster_id,
        chosen.member_id,
        chosen.cluster_id
    );
    Err(Failure::new(FailureKind::Unfit, message))
}

/// Carries out an act on a thread: a volume may hang.
async fn on_thread<T: Send + 'static>(
    act: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let broke = |error| Failure::new(FailureKind::SnapshotFailed, format!("the thread has ended: {error}"));
    tokio::task::spawn_blocking(act).await.map_err(broke)?
}
