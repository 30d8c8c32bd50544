//! A member's data from a backup, before etcd starts for the first time. `docs/protocols/pod.md` numbers the steps A13 to A18.
//!
//! Everything happens in a scratch directory of the volume until the data directory is whole and synced. Then the marker is written,
//! and one rename makes the data etcd's. So data that are there are never touched: they were restored by this very attempt, or are refused.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use quorate_api::job::{Failure, FailureKind, RestoreOrder};
use quorate_backup::etcdutl;
use quorate_backup::{Context, Found};

use crate::guard::restored::{self, Marker};
use crate::guard::{self, GuardArgs, volume};
use crate::log;
use crate::run::AgentStep;

/// Room for the first log of etcd and for what a file system needs itself.
const SPARE: u64 = 256 << 20;

/// A restore.
#[derive(Clone, Copy, Debug)]
pub struct Restore<'a> {
    /// What is restored.
    pub order: &'a RestoreOrder,
    /// Where the volume is.
    pub guard: &'a GuardArgs,
    /// etcd's program.
    pub etcdutl: &'a Path,
    /// Directories and log.
    pub context: &'a Context,
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
        // Before the room is measured: what a try leaves that was killed takes room.
        clear(&scratch).await?;
        done(AgentStep::A13);
        let restored = self.restore(&scratch, done).await;
        if restored.is_err() {
            // The next try, or a person, needs the room. What keeps it from being cleared is met by the next try.
            let _ = clear(&scratch).await;
        }
        restored
    }

    async fn restore(&self, scratch: &Path, done: impl Fn(AgentStep)) -> Result<(), Failure> {
        let found = Found::find(&self.order.source, self.context).await?;
        self.has_room(&found)?;
        if let Some(manifest) = found.manifest() {
            etcdutl::can_read(self.etcdutl, &manifest.etcd_version).await?;
        }
        let fetched = found.fetch(scratch, self.order.quota_bytes, self.context).await?;
        done(AgentStep::A14);
        // Without a manifest only the unpacked database says how large and how new it is.
        self.has_room_for_data(fetched.bytes)?;
        if found.manifest().is_none() {
            self.is_not_newer(&fetched.file).await?;
        }
        log::info(&format!("restoring a database of {} bytes", fetched.bytes));
        let data_dir = scratch.join("data");
        etcdutl::Restore {
            program: self.etcdutl,
            file: &fetched.file,
            data_dir: &data_dir,
            name: &self.order.name,
            initial_cluster: &self.order.initial_cluster,
            token: &self.order.token,
            peer_url: &self.order.peer_url,
            bump_revision: self.order.bump_revision,
        }
        .run()
        .await?;
        on_disk(&data_dir, sync_tree).await?;
        done(AgentStep::A15);
        let marker = Marker { token: self.order.token.clone(), sha256: found.sha256().to_owned() };
        on_disk(&self.guard.identity, move |identity| restored::write(&marker, identity)).await?;
        done(AgentStep::A16);
        let target = self.guard.data_dir.clone();
        // Fails if there are files: whatever they are, they are not replaced.
        let rename = move |from: &Path| {
            fs::rename(from, &target)?;
            File::open(target.parent().unwrap_or(Path::new("/")))?.sync_all()
        };
        on_disk(&data_dir, rename).await?;
        done(AgentStep::A17);
        clear(scratch).await?;
        done(AgentStep::A18);
        log::info("restored");
        Ok(())
    }

    fn volume(&self) -> PathBuf {
        volume_of(self.guard).to_owned()
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

    /// The snapshot and the data made of it are on the volume at the same time.
    fn has_room(&self, found: &Found) -> Result<(), Failure> {
        let database = found.database_bytes();
        let quota = self.order.quota_bytes;
        if found.manifest().is_some() && database > quota {
            let message =
                format!("the snapshot has {database} bytes, the quota of the members is {quota}: raise it");
            return Err(Failure::new(FailureKind::Unfit, message));
        }
        self.has_free(database.saturating_mul(2).saturating_add(SPARE))
    }

    /// The snapshot is there; the data made of it have its size.
    fn has_room_for_data(&self, database: u64) -> Result<(), Failure> {
        self.has_free(database.saturating_add(SPARE))
    }

    fn has_free(&self, needed: u64) -> Result<(), Failure> {
        let volume = self.volume();
        let free = volume::free_bytes(&volume).map_err(|error| failed(&volume, &error))?;
        if free >= needed {
            return Ok(());
        }
        let message =
            format!("{free} bytes are free on the volume, the restore needs {needed}: use a larger volume");
        Err(Failure::new(FailureKind::NoSpace, message))
    }

    /// Refuses a snapshot that says of itself that it is of a newer minor version than the image. Before 3.6 none says so.
    async fn is_not_newer(&self, file: &Path) -> Result<(), Failure> {
        let own = file.to_owned();
        let read = tokio::task::spawn_blocking(move || guard::storage_version(&own)).await;
        let read = read.map_err(io::Error::other).flatten().map_err(|error| failed(file, &error))?;
        let unfit =
            |why| Failure::new(FailureKind::Unfit, format!("the snapshot is no database of etcd: {why}"));
        match read.map_err(unfit)? {
            Some(version) => etcdutl::can_read(self.etcdutl, &version).await,
            None => Ok(()),
        }
    }
}

/// The directory of the volume where everything happens.
pub(crate) fn scratch(guard: &GuardArgs) -> PathBuf {
    volume_of(guard).join("quorate.restore")
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
