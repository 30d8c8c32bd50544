//! A snapshot that is handed on: who reaches the store downloads, verifies and unpacks it into a plain file on a volume, with a note beside it;
//! who makes a data directory of it sees neither the store nor any credentials, and may run in an image that the operator does not choose.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use quorate_api::job::{Failure, FailureKind, Manifest, Source, VerifyOrder};
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;
use tokio::io::{AsyncReadExt, AsyncSeekExt};

use crate::restore::{Fetched, Found};
use crate::spool::cannot_write;
use crate::trailer::{HASH, Trailer};
use crate::{Context, Result, hex};

/// The file with the snapshot.
const SNAPSHOT: &str = "snapshot.db";
/// The note. It is written last: without one there is nothing.
const NOTE: &str = "fetched.json";

/// A snapshot that was handed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handed {
    /// The plain file: the database, then its hash.
    pub file: PathBuf,
    /// What is known of it.
    pub note: Note,
}

/// What is known of a snapshot that is handed on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Note {
    /// The attempt that it was fetched for. It is worth nothing to another one.
    pub attempt: String,
    /// The SHA-256 of the object in its store.
    pub stored_sha256: String,
    /// Bytes of the database.
    pub bytes: u64,
    /// SHA-256 of the database, which is also the end of the file.
    pub sha256: String,
    /// What stands in the store beside the object, or what would, as far as it is known.
    pub manifest: Manifest,
    /// Whether that was found in the store.
    pub has_manifest: bool,
}

/// Fetches what a restore test tests. Returns at once what fails.
pub async fn fetch_for_test(order: &VerifyOrder, context: &Context) -> Result<()> {
    let scratch = crate::verify::scratch(context);
    crate::verify::clear(&scratch).await?;
    let found = Found::find(&order.source, context).await?;
    found.hand_on(&scratch, crate::verify::ATTEMPT, u64::MAX, context).await.map(|_| ())
}

impl Found {
    /// Fetches it into a directory for an attempt: a plain file, and then the note, both safe on the disk. A database of more than `most`
    /// bytes is refused.
    pub async fn hand_on(&self, into: &Path, attempt: &str, most: u64, context: &Context) -> Result<Note> {
        let Fetched { file, bytes, sha256 } = self.fetch(into, most, context).await?;
        let note = Note {
            attempt: attempt.to_owned(),
            stored_sha256: self.sha256().to_owned(),
            bytes,
            sha256,
            manifest: self.manifest().cloned().unwrap_or_else(|| self.as_manifest()),
            has_manifest: self.manifest().is_some(),
        };
        let (dir, own) = (into.to_owned(), note.clone());
        let keep = tokio::task::spawn_blocking(move || keep(&dir, &file, &own)).await;
        keep.map_err(io::Error::other).flatten().map_err(|error| cannot_write(into, &error))?;
        Ok(note)
    }
}

/// A power failure leaves the note only with the whole file.
fn keep(dir: &Path, file: &Path, note: &Note) -> io::Result<()> {
    File::open(file)?.sync_all()?;
    std::fs::rename(file, dir.join(SNAPSHOT))?;
    File::open(dir)?.sync_all()?;
    let mut temporary = NamedTempFile::new_in(dir)?;
    serde_json::to_writer(&mut temporary, note)?;
    temporary.as_file().sync_all()?;
    temporary.persist(dir.join(NOTE))?;
    File::open(dir)?.sync_all()
}

/// Takes what was handed on for this attempt, and is of the object that was ordered. `None` if there is nothing. That the file is what the
/// note says follows from its size, from the hash that it ends with, and from `etcdutl`, which compares that hash with all before it.
pub async fn take(dir: &Path, attempt: &str, ordered: &Source) -> Result<Option<Handed>> {
    let path = dir.join(NOTE);
    let text = match tokio::fs::read(&path).await {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(cannot_read(&path, &error)),
    };
    let other = |why: String| Failure::new(FailureKind::Mismatch, why);
    let note: Note = serde_json::from_slice(&text)
        .map_err(|error| other(format!("{} is not the note of a snapshot: {error}", path.display())))?;
    if note.attempt != attempt {
        return Err(other(format!("the snapshot was fetched for {}, not for {attempt}", note.attempt)));
    }
    if let Some(ordered) = &ordered.sha256
        && !ordered.eq_ignore_ascii_case(&note.stored_sha256)
    {
        return Err(other(format!("the snapshot is of object {}, not of {ordered}", note.stored_sha256)));
    }
    let file = dir.join(SNAPSHOT);
    let (bytes, end) = end_of(&file).await.map_err(|error| cannot_read(&file, &error))?;
    if bytes != note.bytes.saturating_add(HASH as u64) || end != note.sha256 {
        return Err(other(format!("{} is not the snapshot that was fetched", file.display())));
    }
    Ok(Some(Handed { file, note }))
}

/// Whether a snapshot that was taken over is whole, by all of its bytes.
pub async fn is_whole(handed: &Handed) -> Result<bool> {
    let failed = |error| cannot_read(&handed.file, &error);
    let mut file = tokio::fs::File::open(&handed.file).await.map_err(failed)?;
    let (mut trailer, mut buffer) = (Trailer::default(), vec![0; 1 << 20]);
    loop {
        match file.read(&mut buffer).await.map_err(failed)? {
            0 => break,
            read => trailer.update(&buffer[..read]),
        }
    }
    Ok(trailer.finish(FailureKind::Mismatch).is_ok_and(|whole| whole.sha256 == handed.note.sha256))
}

/// The size of a file, and its last bytes.
async fn end_of(path: &Path) -> io::Result<(u64, String)> {
    let mut file = tokio::fs::File::open(path).await?;
    let bytes = file.metadata().await?.len();
    let mut end = Vec::new();
    file.seek(io::SeekFrom::Start(bytes.saturating_sub(HASH as u64))).await?;
    file.read_to_end(&mut end).await?;
    Ok((bytes, hex::digits(&end)))
}

fn cannot_read(path: &Path, error: &io::Error) -> Failure {
    Failure::new(FailureKind::NoSpace, format!("cannot read {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    fn ordered(sha256: &str) -> Source {
        Source { key: "k".to_owned(), sha256: Some(sha256.to_owned()), ..Source::default() }
    }

    /// A directory with a snapshot that was handed on for the attempt `t-1`, of object `ab`.
    fn handed(dir: &Path) -> PathBuf {
        let database = vec![7; 1024];
        let hash = Sha256::digest(&database);
        let file = dir.join("object");
        std::fs::write(&file, [&database[..], &hash[..]].concat()).unwrap();
        let note = Note {
            attempt: "t-1".to_owned(),
            stored_sha256: "ab".to_owned(),
            bytes: 1024,
            sha256: hex::digits(&hash),
            manifest: Manifest::default(),
            has_manifest: false,
        };
        keep(dir, &file, &note).unwrap();
        dir.join(SNAPSHOT)
    }

    #[tokio::test]
    async fn o07_what_was_handed_on_counts_for_its_attempt_and_its_object_only() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        assert_eq!(take(dir, "t-1", &ordered("ab")).await, Ok(None), "nothing was handed on");
        let file = handed(dir);
        let taken = take(dir, "t-1", &ordered("AB")).await.unwrap().unwrap();
        assert_eq!((&taken.file, taken.note.bytes), (&file, 1024));
        assert_eq!(is_whole(&taken).await, Ok(true));
        for (attempt, object, why) in [("t-2", "ab", "not for t-2"), ("t-1", "cd", "not of cd")] {
            let failure = take(dir, attempt, &ordered(object)).await.unwrap_err();
            assert_eq!(failure.kind, FailureKind::Mismatch);
            assert!(failure.message.contains(why), "{}", failure.message);
        }
    }

    #[tokio::test]
    async fn o07_a_file_that_is_not_what_its_note_says_is_not_taken() {
        let dir = tempfile::tempdir().unwrap();
        let file = handed(dir.path());
        let good = std::fs::read(&file).unwrap();
        let mut damaged = good.clone();
        damaged[9] ^= 1;
        std::fs::write(&file, &damaged).unwrap();
        let taken = take(dir.path(), "t-1", &ordered("ab")).await.unwrap().unwrap();
        assert_eq!(is_whole(&taken).await, Ok(false), "etcdutl refuses it");
        std::fs::write(&file, &good[..good.len() - 1]).unwrap();
        assert!(take(dir.path(), "t-1", &ordered("ab")).await.is_err());
        std::fs::write(&file, [&good[..1024], &[0; 32]].concat()).unwrap();
        assert!(take(dir.path(), "t-1", &ordered("ab")).await.is_err());
        std::fs::remove_file(&file).unwrap();
        assert!(take(dir.path(), "t-1", &ordered("ab")).await.is_err());
    }
}
