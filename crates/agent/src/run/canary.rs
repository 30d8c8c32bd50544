//! The canary: a few bytes that a thread of its own writes and syncs on the volume every few seconds. Where that takes too long the
//! disk hangs, although etcd may still answer from memory.
//!
//! It overwrites one block in place, so a full disk is not taken for one that hangs. How much of the volume is free is looked up after
//! each write, and logged when it becomes little.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use quorate_model::snapshot::VolumeSpace;

use crate::guard::volume::space;
use crate::log;

/// The state of the volume, as the canary sees it.
#[derive(Clone, Debug)]
pub struct Canary {
    last: Arc<Mutex<Last>>,
    limit: Duration,
    path: PathBuf,
}

#[derive(Debug)]
struct Last {
    /// When the last write that was synced had begun.
    synced: Instant,
    error: Option<io::Error>,
    /// As it was after that.
    space: Option<VolumeSpace>,
}

impl Canary {
    /// Starts the thread. The volume counts as fresh from now on: the guard has just written to it.
    pub(super) fn start(path: &Path, every: Duration, limit: Duration) -> io::Result<Self> {
        let last = Arc::new(Mutex::new(Last { synced: Instant::now(), error: None, space: None }));
        let canary = Self { last, limit, path: path.to_owned() };
        let writer = canary.clone();
        thread::Builder::new().name("canary".to_owned()).spawn(move || writer.keep_writing(every))?;
        Ok(canary)
    }

    /// The age of the last write that was synced.
    pub(crate) fn age(&self) -> Duration {
        self.last().synced.elapsed()
    }

    /// What the volume had free after that write.
    pub(crate) fn space(&self) -> Option<VolumeSpace> {
        self.last().space
    }

    /// Why the volume is not fresh.
    pub(crate) fn check(&self) -> Result<(), String> {
        let last = self.last();
        let age = last.synced.elapsed();
        if age < self.limit {
            return Ok(());
        }
        let path = self.path.display();
        Err(match &last.error {
            Some(error) => {
                format!(
                    "the volume takes no writes: {path}: {error}; the last one was {} s ago",
                    age.as_secs()
                )
            }
            None => {
                format!("the volume hangs: a write to {path} has not been synced for {} s", age.as_secs())
            }
        })
    }

    fn keep_writing(&self, every: Duration) {
        let mut file = None;
        for count in 0_u64.. {
            let begun = Instant::now();
            match self.write(&mut file, count) {
                Ok(()) => {
                    let space = self.path.parent().and_then(|dir| space(dir).ok());
                    let before = self.last().space;
                    *self.last() = Last { synced: begun, error: None, space };
                    self.report(before, space);
                }
                Err(error) => {
                    file = None;
                    self.last().error = Some(error);
                }
            }
            thread::sleep(every.saturating_sub(begun.elapsed()));
        }
    }

    /// Once each time that it changes.
    fn report(&self, before: Option<VolumeSpace>, now: Option<VolumeSpace>) {
        let is_nearly_used_up =
            |space: Option<VolumeSpace>| space.is_some_and(VolumeSpace::is_nearly_used_up);
        let Some(VolumeSpace { free, all }) = now else { return };
        let mib = |bytes: u64| bytes >> 20;
        let what =
            format!("{} of {} MiB are free on the volume of {}", mib(free), mib(all), self.path.display());
        match (is_nearly_used_up(before), is_nearly_used_up(now)) {
            (false, true) => log::warn(&format!(
                "{what}: etcd ends when it is full. Raise spec.storageSpec.volumeSizeRequest; where the storage class does not expand \
                 volumes, then move the member to a new one (operator.etcd.io/replace-member on the EtcdCluster). Large values fill the log: write fewer of them meanwhile"
            )),
            (true, false) => log::info(&format!("{what} again")),
            (false, false) | (true, true) => {}
        }
    }

    /// The file stays open: a volume that was mounted anew under the same path is another one, and etcd has its files open too.
    fn write(&self, file: &mut Option<File>, count: u64) -> io::Result<()> {
        let file = match file {
            Some(file) => file,
            None => file.insert(File::options().write(true).create(true).truncate(false).open(&self.path)?),
        };
        let mut block = [0; 512];
        block[..8].copy_from_slice(&count.to_be_bytes());
        file.write_all_at(&block, 0)?;
        file.sync_data()
    }

    fn last(&self) -> MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
