//! A member's data from a backup, before etcd starts for the first time. `docs/protocols/pod.md` numbers the steps A13 to A18.
//!
//! Two containers do it. `Fetch`, in the operator's image, reaches the store and hands a plain file on. `Restore`, in the image of etcd,
//! which the EtcdCluster names, makes a data directory of it, and sees neither the store nor credentials.
//!
//! Everything happens in a scratch directory of the volume until the data directory is whole and synced. Then the marker is written,
//! and one rename makes the data etcd's. So data that are there are never touched: they were restored by this very attempt, or are refused.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use quorate_api::job::{Failure, FailureKind, RestoreOrder};
use quorate_backup::{Context, Found, Handed, etcdutl};

use crate::guard::restored::{self, Marker};
use crate::guard::{self, GuardArgs, volume};
use crate::log;
use crate::run::AgentStep;

/// Room for the first log of etcd and for what a file system needs itself.
const SPARE: u64 = 256 << 20;

/// The download of a snapshot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fetch<'a> {
    /// What is restored.
    pub(crate) order: &'a RestoreOrder,
    /// Where the volume is.
    pub(crate) guard: &'a GuardArgs,
    /// Directories and log.
    pub(crate) context: &'a Context,
}

impl Fetch<'_> {
    /// Fetches, unless that is done. The guard must have found the volume to be this member's, and without data.
    pub(crate) async fn run(&self, done: impl Fn(AgentStep)) -> Result<(), Failure> {
        let scratch = scratch(self.guard);
        if self.has_fetched(&scratch).await {
            log::info("the snapshot was fetched at an earlier start");
            return Ok(());
        }
        // Before the room is measured: what a try leaves that was killed takes room.
        clear(&scratch).await?;
        done(AgentStep::A13);
        let fetched = self.fetch(&scratch).await;
        match &fetched {
            Ok(()) => done(AgentStep::A14),
            // The next try, or a person, needs the room. What keeps it from being cleared is met by the next try.
            Err(_) => drop(clear(&scratch).await),
        }
        fetched
    }

    /// What an earlier Pod has fetched counts if it is whole, of this attempt and of this object.
    async fn has_fetched(&self, scratch: &Path) -> bool {
        match quorate_backup::take(scratch, &self.order.token, &self.order.source).await {
            Ok(Some(handed)) => quorate_backup::is_whole(&handed).await.unwrap_or(false),
            Ok(None) | Err(_) => false,
        }
    }

    async fn fetch(&self, scratch: &Path) -> Result<(), Failure> {
        let found = Found::find(&self.order.source, self.context).await?;
        found.is_not_before(self.order.not_before.as_deref())?;
        self.has_room(&found)?;
        let quota = self.order.quota_bytes;
        let note = found.hand_on(scratch, &self.order.token, quota, self.context).await?;
        // Without a manifest only the unpacked database says how large it is.
        has_room_for_data(self.guard, note.bytes)
    }

    /// The snapshot and the data made of it are on the volume at the same time.
    fn has_room(&self, found: &Found) -> Result<(), Failure> {
        let database = found.database_bytes();
        let quota = self.order.quota_bytes;
        if found.manifest().is_some() && database > quota {
            let message =
                format!("the snapshot has {database} bytes, the quota of the members is {quota}: raise it");
            return Err(Failure::new(FailureKind::Unfit, message));
        }
        has_free(self.guard, database.saturating_mul(2).saturating_add(SPARE))
    }
}

/// A restore.
#[derive(Clone, Copy, Debug)]
pub struct Restore<'a> {
    /// What is restored.
    pub order: &'a RestoreOrder,
    /// Where the volume is.
    pub guard: &'a GuardArgs,
    /// etcd's program.
    pub etcdutl: &'a Path,
}

impl Restore<'_> {
    /// Restores, unless that is done. The guard must have found the volume to be this member's. `done` is called after each step.
    pub async fn run(&self, done: impl Fn(AgentStep)) -> Result<(), Failure> {
        let scratch = scratch(self.guard);
        let marker = restored::read(&self.guard.identity)
            .map_err(|refusal| Failure::new(FailureKind::Unfit, refusal.message))?;
        if guard::has_data(&self.guard.data_dir) {
            self.is_this_restore(marker.as_ref())?;
            log::info("the data were restored at an earlier start");
            return clear(&scratch).await;
        }
        let data_dir = data_dir(self.guard);
        clear(&data_dir).await?;
        let restored = self.restore(&scratch, &data_dir, done).await;
        if restored.is_err() {
            // What was fetched stays: nobody fetches it once more in this Pod.
            let _ = clear(&data_dir).await;
        }
        restored
    }

    async fn restore(
        &self,
        scratch: &Path,
        data_dir: &Path,
        done: impl Fn(AgentStep),
    ) -> Result<(), Failure> {
        let taken = quorate_backup::take(scratch, &self.order.token, &self.order.source).await?;
        let Some(Handed { file, note }) = taken else {
            let message = "the volume does not have the snapshot any more that was fetched when the Pod began: delete the Pod, and the \
                           next one fetches it again";
            return Err(Failure::new(FailureKind::Mismatch, message));
        };
        if note.has_manifest {
            etcdutl::can_read(self.etcdutl, &note.manifest.etcd_version).await?;
        } else {
            self.is_not_newer(&file).await?;
        }
        has_room_for_data(self.guard, note.bytes)?;
        // What is raised is the last revision in the file. A manifest has that of etcd, which counts what is compacted as well.
        let revision =
            if self.order.least_revision > 0 { read(&file, guard::last_revision).await? } else { 0 };
        log::info(&format!("restoring a database of {} bytes", note.bytes));
        etcdutl::Restore {
            program: self.etcdutl,
            file: &file,
            data_dir,
            name: &self.order.name,
            initial_cluster: &self.order.initial_cluster,
            token: &self.order.token,
            peer_url: &self.order.peer_url,
            bump_revision: self.order.raise(revision),
        }
        .run()
        .await?;
        on_disk(data_dir, sync_tree).await?;
        done(AgentStep::A15);
        let marker = Marker { token: self.order.token.clone(), sha256: note.stored_sha256 };
        on_disk(&self.guard.identity, move |identity| restored::write(&marker, identity)).await?;
        done(AgentStep::A16);
        let target = self.guard.data_dir.clone();
        // Fails if there are files: whatever they are, they are not replaced.
        let rename = move |from: &Path| {
            fs::rename(from, &target)?;
            File::open(target.parent().unwrap_or(Path::new("/")))?.sync_all()
        };
        on_disk(data_dir, rename).await?;
        done(AgentStep::A17);
        clear(scratch).await?;
        done(AgentStep::A18);
        log::info("restored");
        Ok(())
    }

    /// Refuses data that this attempt has not restored, or has restored from another object.
    fn is_this_restore(&self, marker: Option<&Marker>) -> Result<(), Failure> {
        let unfit = |why: String| {
            let message = format!("the volume has etcd data, and {why}. They are not replaced");
            Err(Failure::new(FailureKind::Unfit, message))
        };
        let Some(Marker { token, sha256 }) = marker else {
            return unfit("no restore has made them".to_owned());
        };
        if *token != self.order.token {
            return unfit(format!("the restore of {token} has made them, not that of {}", self.order.token));
        }
        match &self.order.source.sha256 {
            Some(ordered) if !ordered.eq_ignore_ascii_case(sha256) => {
                unfit(format!("they were made of object {sha256}, not of {ordered}"))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Refuses a snapshot that says of itself that it is of a newer minor version than the image. Before 3.6 none says so.
    async fn is_not_newer(&self, file: &Path) -> Result<(), Failure> {
        match read(file, guard::storage_version).await? {
            Some(version) => etcdutl::can_read(self.etcdutl, &version).await,
            None => Ok(()),
        }
    }
}

/// Reads something of a snapshot.
async fn read<T: Send + 'static>(
    snapshot: &Path,
    read: fn(&Path) -> io::Result<Result<T, String>>,
) -> Result<T, Failure> {
    let own = snapshot.to_owned();
    let found = tokio::task::spawn_blocking(move || read(&own)).await;
    let found = found.map_err(io::Error::other).flatten().map_err(|error| failed(snapshot, &error))?;
    found.map_err(|why| {
        Failure::new(FailureKind::Unfit, format!("the snapshot is no database of etcd: {why}"))
    })
}

/// The snapshot is there; the data made of it have its size.
fn has_room_for_data(guard: &GuardArgs, database: u64) -> Result<(), Failure> {
    has_free(guard, database.saturating_add(SPARE))
}

fn has_free(guard: &GuardArgs, needed: u64) -> Result<(), Failure> {
    let volume = volume_of(guard);
    let free = volume::free_bytes(volume).map_err(|error| failed(volume, &error))?;
    if free >= needed {
        return Ok(());
    }
    let message =
        format!("{free} bytes are free on the volume, the restore needs {needed}: use a larger volume");
    Err(Failure::new(FailureKind::NoSpace, message))
}

/// The directory of the volume where everything happens.
pub(crate) fn scratch(guard: &GuardArgs) -> PathBuf {
    volume_of(guard).join("quorate.restore")
}

/// The data directory in it that is being made of the snapshot.
pub(crate) fn data_dir(guard: &GuardArgs) -> PathBuf {
    scratch(guard).join("data")
}

fn volume_of(guard: &GuardArgs) -> &Path {
    guard.identity.parent().unwrap_or(Path::new("."))
}

/// Deletes what is left of a try.
pub(crate) async fn clear(dir: &Path) -> Result<(), Failure> {
    let clear = |dir: &Path| match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    };
    on_disk(dir, clear).await
}

/// Carries out an act on a thread: a volume may hang.
async fn on_disk(
    path: &Path,
    act: impl FnOnce(&Path) -> io::Result<()> + Send + 'static,
) -> Result<(), Failure> {
    let own = path.to_owned();
    let done = tokio::task::spawn_blocking(move || act(&own)).await;
    done.map_err(io::Error::other).flatten().map_err(|error| failed(path, &error))
}

/// Files first, then the directory with their names.
fn sync_tree(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_tree(&entry.path())?;
        } else {
            File::open(entry.path())?.sync_all()?;
        }
    }
    File::open(dir)?.sync_all()
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    let kind = match error.kind() {
        io::ErrorKind::DirectoryNotEmpty => FailureKind::Unfit,
        _ => FailureKind::NoSpace,
    };
    Failure::new(kind, format!("the volume of the member, {}: {error}", path.display()))
}
