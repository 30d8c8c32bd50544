//! A directory of a volume. What appears there is whole and on the disk: a temporary name, fsync of the file, rename, fsync of the
//! directory. `object_store` has folders too, without fsync.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use futures::stream::{self, Stream, TryStreamExt as _};
use object_store::path::Path as Key;
use quorate_api::job::{Failure, FailureKind, ObjectMark};
use tempfile::NamedTempFile;
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;

use super::{Created, SMALL, Seen};
use crate::Result;

/// Pods of the claim's group read the file, also those that run as another user.
const MODE: u32 = 0o640;

/// How many names of a list wait to be taken.
const LISTED_AHEAD: usize = 1000;

/// The end of temporary names.
const PARTIAL: &str = ".partial";

/// The directory where the volume is mounted.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    root: PathBuf,
}

/// A file that does not have its name yet. Dropping it deletes it.
pub(super) struct Begun {
    temporary: NamedTempFile,
    open: tokio::fs::File,
    target: PathBuf,
}

impl Folder {
    pub(super) fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    pub(super) async fn read(&self, key: &Key) -> Result<Option<Bytes>> {
        self.on_disk(key, |file| missing_is_none(fs::read(file).map(Bytes::from))).await
    }

    pub(super) async fn see(&self, key: &Key) -> Result<Option<Seen>> {
        let see = |file: &Path| {
            let Some(found) = missing_is_none(fs::metadata(file))? else { return Ok(None) };
            let modified =
                jiff::Timestamp::new(found.mtime(), i32::try_from(found.mtime_nsec()).unwrap_or(0));
            let mark = ObjectMark {
                etag: None,
                version_id: Some(found.ino().to_string()),
                modified: modified.ok().map(|modified| modified.to_string()),
            };
            Ok(Some(Seen { bytes: found.len(), mark }))
        };
        self.on_disk(key, see).await
    }

    /// The names of all files below, relative to the root, as they are found. Temporary ones are left out.
    pub(super) fn list(&self, below: &Key) -> Result<impl Stream<Item = Result<String>> + Send + use<>> {
        let top = self.place(below)?;
        let (root, sent) = (self.root.clone(), top.clone());
        let (sender, mut receiver) = mpsc::channel(LISTED_AHEAD);
        tokio::task::spawn_blocking(move || {
            // Nobody listens any more where the send fails.
            let send = |name: String| sender.blocking_send(Ok(name)).is_ok();
            if let Err(error) = walk(&root, sent, send) {
                let _ = sender.blocking_send(Err(error));
            }
        });
        let named = stream::poll_fn(move |context| receiver.poll_recv(context));
        Ok(named.map_err(move |error| explain(&error, &top)))
    }

    pub(super) async fn range(&self, key: &Key, range: Range<u64>) -> Result<Bytes> {
        let read = move |path: &Path| {
            let mut file = File::open(path)?;
            file.seek(SeekFrom::Start(range.start))?;
            let mut bytes = Vec::new();
            file.take(range.end - range.start).read_to_end(&mut bytes)?;
            Ok(bytes.into())
        };
        self.on_disk(key, read).await
    }

    pub(super) async fn create(&self, key: &Key, bytes: Bytes) -> Result<Created> {
        let create = move |path: &Path| {
            let mut temporary = temporary_for(path)?;
            temporary.write_all(&bytes)?;
            temporary.as_file().sync_all()?;
            match temporary.persist_noclobber(path) {
                Ok(_) => sync_dir(parent(path)).map(|()| Created::Yes),
                Err(error) if error.error.kind() == ErrorKind::AlreadyExists => Ok(Created::Exists),
                Err(error) => Err(error.error),
            }
        };
        self.on_disk(key, create).await
    }

    /// Begins a file, and deletes what an earlier try has left.
    pub(super) async fn begin(&self, key: &Key) -> Result<Begun> {
        let begin = |path: &Path| {
            remove_leftovers(path)?;
            let temporary = temporary_for(path)?;
            let open = tokio::fs::File::from_std(temporary.reopen()?);
            Ok(Begun { temporary, open, target: path.to_owned() })
        };
        self.on_disk(key, begin).await
    }

    pub(super) async fn delete(&self, key: &Key) -> Result<()> {
        let delete = |path: &Path| {
            if !parent(path).exists() {
                return Ok(());
            }
            remove_leftovers(path)?;
            missing_is_none(fs::remove_file(path))?;
            sync_dir(parent(path))
        };
        self.on_disk(key, delete).await
    }

    /// The bytes that are free where the file of a key will be. `None` if the file system does not tell: some of a network have no size, and
    /// some refuse to be asked, which says nothing about what can be written.
    pub(super) async fn free(&self, key: &Key) -> Result<Option<u64>> {
        let free = |path: &Path| {
            let told = rustix::fs::statvfs(parent(path)).ok().filter(|told| told.f_blocks > 0);
            Ok(told.map(|told| told.f_bavail.saturating_mul(told.f_frsize)))
        };
        self.on_disk(key, free).await
    }

    /// The newest file in the directory of a key whose name ends so.
    pub(super) async fn newest(&self, key: &Key, end: &'static str) -> Result<Option<Bytes>> {
        let newest = move |path: &Path| {
            let mut newest = None;
            for entry in fs::read_dir(parent(path))? {
                let path = entry?.path();
                let Ok(found) = fs::metadata(&path) else { continue };
                let is_one = found.is_file() && found.len() <= SMALL && path.to_string_lossy().ends_with(end);
                if is_one && let Ok(time) = found.modified() {
                    newest = newest.max(Some((time, path)));
                }
            }
            newest.map_or(Ok(None), |(_, path)| missing_is_none(fs::read(path).map(Bytes::from)))
        };
        self.on_disk(key, newest).await
    }

    /// Carries out an act on the file of a key, on a thread: a volume may hang.
    /// Where a key is, if the volume is there.
    fn place(&self, key: &Key) -> Result<PathBuf> {
        if self.root.is_dir() {
            return Ok(self.root.join(key.as_ref()));
        }
        let message = format!("{} is not there: the claim is not mounted", self.root.display());
        Err(Failure::new(FailureKind::StoreUnavailable, message))
    }

    async fn on_disk<T: Send + 'static>(
        &self,
        key: &Key,
        act: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
    ) -> Result<T> {
        let path = self.place(key)?;
        let file = path.clone();
        let done = tokio::task::spawn_blocking(move || act(&file)).await;
        done.map_err(io::Error::other).flatten().map_err(|error| explain(&error, &path))
    }
}

/// Hands on the name of each file below a folder, relative to the root, as long as it is taken.
fn walk(root: &Path, top: PathBuf, send: impl Fn(String) -> bool) -> io::Result<()> {
    let mut dirs = vec![top];
    while let Some(dir) = dirs.pop() {
        let entries = match fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            // Not through links, which may lead anywhere.
            let kind = entry.file_type()?;
            if kind.is_dir() && entry.file_name() != "lost+found" {
                dirs.push(entry.path());
            } else if kind.is_file()
                && let Ok(name) = entry.path().strip_prefix(root)
                && let Some(name) = name.to_str().filter(|name| !name.ends_with(PARTIAL))
                && !send(name.to_owned())
            {
                return Ok(());
            }
        }
    }
    Ok(())
}

impl Begun {
    pub(super) async fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.open.write_all(bytes).await.map_err(|error| explain(&error, &self.target))
    }

    pub(super) async fn finish(self) -> Result<()> {
        let Self { temporary, mut open, target } = self;
        let path = target.clone();
        let finish = async move {
            open.flush().await?;
            open.sync_all().await?;
            let named = move || -> io::Result<()> {
                temporary.persist(&target)?;
                sync_dir(parent(&target))
            };
            tokio::task::spawn_blocking(named).await.map_err(io::Error::other)?
        };
        finish.await.map_err(|error| explain(&error, &path))
    }
}

fn temporary_for(path: &Path) -> io::Result<NamedTempFile> {
    let dir = parent(path);
    if !dir.exists() {
        fs::create_dir_all(dir)?;
        // The names of new directories are on the disk only when those above them are.
        for above in dir.ancestors().take_while(|above| above.is_dir()) {
            if sync_dir(above).is_err() {
                break;
            }
        }
    }
    let temporary = tempfile::Builder::new().prefix(&prefix(path)).suffix(PARTIAL).tempfile_in(dir)?;
    // Whatever the umask is: who restores may run as another user.
    temporary.as_file().set_permissions(Permissions::from_mode(MODE))?;
    Ok(temporary)
}

/// Temporary files of this very file.
fn remove_leftovers(path: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(parent(path)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let prefix = prefix(path);
    for entry in entries {
        let name = entry?.file_name();
        let is_left = |name: &str| {
            let middle = name.strip_prefix(prefix.as_str()).and_then(|rest| rest.strip_suffix(PARTIAL));
            middle.is_some_and(|middle| !middle.contains('.'))
        };
        if name.to_str().is_some_and(is_left) {
            missing_is_none(fs::remove_file(parent(path).join(&name)))?;
        }
    }
    Ok(())
}

fn prefix(path: &Path) -> String {
    format!(".{}.", path.file_name().and_then(OsStr::to_str).unwrap_or_default())
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

fn missing_is_none<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn explain(error: &io::Error, path: &Path) -> Failure {
    let kind = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => FailureKind::NoSpace,
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => FailureKind::StoreForbidden,
        ErrorKind::NotFound => FailureKind::NotInStore,
        _ => FailureKind::StoreUnavailable,
    };
    let advice = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            ". Make room: a larger claim, or fewer backups in it (EtcdBackups with deletionPolicy Delete, and retention of their schedule)"
        }
        ErrorKind::PermissionDenied => {
            ". Let the Pods' group read the claim: podTemplate.spec.securityContext.fsGroup"
        }
        _ => "",
    };
    Failure::new(kind, format!("the volume of the store, {}: {error}{advice}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_group_reads_what_is_written_and_who_may_not_read_is_told_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(dir.path());
        let mode = |name: &str| fs::metadata(dir.path().join(name)).unwrap().permissions().mode() & 0o777;
        folder.create(&Key::from("a/manifest"), Bytes::from("{}")).await.unwrap();
        let mut begun = folder.begin(&Key::from("a/object")).await.unwrap();
        begun.write(b"data").await.unwrap();
        begun.finish().await.unwrap();
        assert_eq!((mode("a/manifest"), mode("a/object")), (0o640, 0o640));

        let failure = explain(&ErrorKind::PermissionDenied.into(), Path::new("/a"));
        assert_eq!(failure.kind, FailureKind::StoreForbidden);
        assert!(failure.message.contains("podTemplate.spec.securityContext.fsGroup"), "{}", failure.message);
    }
}
