//! An object that is restored: found, downloaded, verified and unpacked into a file as `etcdutl snapshot restore` reads it. Or only read,
//! to know whether it could be restored.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use jiff::Timestamp;
use quorate_api::job::{Failure, FailureKind, Manifest, Source};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream};

use crate::auth::AuthScan;
use crate::codec::Decoder;
use crate::look::is_of_the_object;
use crate::spool::{Spool, cannot_write};
use crate::trailer::{HASH, Trailer, Whole};
use crate::{Context, Result, Store, codec, hex, manifest};

/// Bytes between the download and the decoder of an object that is only read.
const PIPE: usize = 1 << 18;

/// An object that is there and is what was ordered, as far as its manifest says.
#[derive(Debug)]
pub struct Found {
    store: Store,
    key: String,
    sha256: String,
    stored_bytes: u64,
    /// The version that is read, if the store knows the one of the order.
    version: Option<String>,
    manifest: Option<Manifest>,
}

/// A snapshot whose hashes are right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// The file: the database, then its hash.
    pub file: PathBuf,
    /// Bytes of the database.
    pub bytes: u64,
    /// SHA-256 of the database, in hexadecimal digits.
    pub sha256: String,
}

impl Found {
    /// Looks for the object. Without a manifest the order must have its SHA-256.
    pub async fn find(source: &Source, context: &Context) -> Result<Self> {
        let store = Store::open(&source.destination, &context.places)?;
        let look = async {
            if let (Some(version), Some(sha256)) = (&source.version_id, &source.sha256)
                && let Some(seen) = store.see_version(&source.key, version).await?
            {
                // What the key has now may be another object, or none. So may its manifest be.
                let manifest = match manifest::read(&store, &source.key).await {
                    Ok(found) => found.filter(|found| found.stored_sha256.eq_ignore_ascii_case(sha256)),
                    Err(failure) if is_of_the_object(failure.kind) => None,
                    Err(failure) => return Err(failure),
                };
                return Ok((manifest, Some(seen.bytes), Some(version.clone())));
            }
            let (manifest, size) =
                (manifest::read(&store, &source.key).await?, store.size(&source.key).await?);
            // What is between answers 404 as well, and then nothing is known of the backup.
            if size.is_none() {
                store.confirm_missing(&source.key).await?;
            } else if manifest.is_none() {
                store.confirm_missing(&manifest::key_of(&source.key)).await?;
            }
            Ok((manifest, size, None))
        };
        let (manifest, stored_bytes, version) = context.unless_stopped(look).await?;
        let url = store.url(&source.key);
        let Some(stored_bytes) = stored_bytes else {
            return Err(Failure::new(FailureKind::NotInStore, format!("{url} does not exist")));
        };
        let ordered = source.sha256.as_deref().map(str::to_lowercase);
        let recorded = manifest.as_ref().map(|manifest| manifest.stored_sha256.clone());
        let sha256 = match (ordered, recorded) {
            (Some(ordered), Some(recorded)) if ordered != recorded => {
                let message = format!(
                    "{url} is another backup than the one that was ordered: its SHA-256 is {recorded}, not {ordered}"
                );
                return Err(Failure::new(FailureKind::Mismatch, message));
            }
            (Some(sha256), _) | (None, Some(sha256)) => sha256,
            (None, None) => {
                let message = format!(
                    "{url} has no manifest, so it may be incomplete. If it is what you want, give its SHA-256"
                );
                return Err(Failure::new(FailureKind::NotInStore, message));
            }
        };
        if let Some(manifest) = &manifest
            && manifest.stored_bytes != stored_bytes
        {
            let message = format!(
                "{url} is damaged: it has {stored_bytes} bytes, its manifest says {}",
                manifest.stored_bytes
            );
            return Err(Failure::new(FailureKind::Mismatch, message));
        }
        Ok(Self { store, key: source.key.clone(), sha256, stored_bytes, version, manifest })
    }

    /// Its manifest, if it has one.
    pub fn manifest(&self) -> Option<&Manifest> {
        self.manifest.as_ref()
    }

    /// Refuses what was ordered before a time, as far as a manifest says when that was.
    pub fn is_not_before(&self, time: Option<&str>) -> Result<()> {
        let parsed = |text: &str| text.parse::<Timestamp>().ok();
        let Some((manifest, least)) = self.manifest.as_ref().zip(time.and_then(parsed)) else {
            return Ok(());
        };
        let taken = parsed(manifest.ordered.as_deref().unwrap_or(&manifest.started));
        let Some(taken) = taken.filter(|taken| *taken < least) else { return Ok(()) };
        let message = format!(
            "{} is of {taken}, and nothing of before {least} is restored (spec.bootstrap.restore.notOlderThan): a manifest that is applied again \
             would bring data of long ago back. Delete this EtcdCluster. To begin with these data, create it with a longer notOlderThan; else with \
             another backup, or without bootstrap.restore",
            self.store.url(&self.key)
        );
        Err(Failure::new(FailureKind::Stale, message))
    }

    /// What would stand in its manifest, as far as the store knows it.
    pub(crate) fn as_manifest(&self) -> Manifest {
        Manifest {
            key: self.key.clone(),
            stored_bytes: self.stored_bytes,
            stored_sha256: self.sha256.clone(),
            ..Manifest::default()
        }
    }

    /// The SHA-256 of the object in the store, in hexadecimal digits.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// Bytes of the object in the store.
    pub fn stored_bytes(&self) -> u64 {
        self.stored_bytes
    }

    /// Bytes of the database; without a manifest those of the object, which may be compressed.
    pub fn database_bytes(&self) -> u64 {
        self.manifest.as_ref().map_or(self.stored_bytes, |manifest| manifest.snapshot_bytes)
    }

    /// Downloads, verifies and unpacks it into a file of a directory. A database of more than `most` bytes is refused. The file is not yet
    /// safe on the disk: it is what a data directory is made of.
    pub async fn fetch(&self, into: &Path, most: u64, context: &Context) -> Result<Fetched> {
        let fetch = async {
            let object = self.download(into, context).await?;
            (context.log)("the object is what was stored");
            self.unpack(object, into, most, context).await
        };
        context.unless_stopped(fetch).await
    }

    /// Reads it to its end without keeping it: whether it is what was stored, can be unpacked, and is whole. Returns bytes of the database,
    /// and whether auth is enabled in it, where that can be told.
    pub async fn read(&self, context: &Context) -> Result<(u64, Option<bool>)> {
        let read = async {
            let (pipe, object) = tokio::io::duplex(PIPE);
            let unpacked = async {
                let decoder = codec::decoder(object, &context.places.identities).await?;
                let mut scan = AuthScan::default();
                let unreadable = |error| codec::unreadable(&error);
                let whole = self.unwrap(decoder, u64::MAX, &mut scan, unreadable).await?;
                Ok((whole.bytes, scan.finish()))
            };
            let (downloaded, unpacked) = tokio::join!(self.pour(pipe, context), unpacked);
            // What is not what was stored cannot be unpacked either: the first is the cause.
            downloaded?;
            unpacked
        };
        context.unless_stopped(read).await
    }

    /// Downloads it into a pipe, and goes on to its end when nobody reads any more.
    async fn pour(&self, mut pipe: DuplexStream, context: &Context) -> Result<()> {
        let mut parts = self.parts(context);
        let mut is_read = true;
        while let Some(part) = parts.try_next().await? {
            is_read = is_read && pipe.write_all(&part).await.is_ok();
        }
        Ok(())
    }

    async fn download(&self, into: &Path, context: &Context) -> Result<Spool> {
        let (spool, mut file) = Spool::create(into, "object").await?;
        let failed = |error| cannot_write(&spool.path, &error);
        let mut parts = self.parts(context);
        while let Some(part) = parts.try_next().await? {
            file.write_all(&part).await.map_err(failed)?;
        }
        file.flush().await.map_err(failed)?;
        Ok(spool)
    }

    /// Its bytes. They end with an error if they are not those that were stored.
    fn parts<'a>(&'a self, context: &'a Context) -> BoxStream<'a, Result<Bytes>> {
        (context.log)(&format!("downloading {}: {} bytes", self.store.url(&self.key), self.stored_bytes));
        let parts = self.store.download(&self.key, self.version.as_deref(), self.stored_bytes);
        let begin = (parts, Sha256::new(), 0_u64, 1);
        stream::try_unfold(begin, async move |(mut parts, mut hash, mut bytes, mut quarter)| {
            let Some(part) = parts.try_next().await? else {
                let found = hex::sum(hash);
                return if found == self.sha256 { Ok(None) } else { Err(self.other_object(&found)) };
            };
            hash.update(&part);
            bytes += part.len() as u64;
            if bytes * 4 >= self.stored_bytes * quarter && bytes < self.stored_bytes {
                (context.log)(&format!("downloaded {bytes} of {} bytes", self.stored_bytes));
                quarter += 1;
            }
            Ok(Some((part, (parts, hash, bytes, quarter))))
        })
        .boxed()
    }

    fn other_object(&self, found: &str) -> Failure {
        let message = format!(
            "{} is damaged, or another object has been put in its place: its SHA-256 is {found}, not {}",
            self.store.url(&self.key),
            self.sha256
        );
        Failure::new(FailureKind::Mismatch, message)
    }

    /// What is neither encrypted nor compressed is the snapshot itself, and is not written once more.
    async fn unpack(&self, object: Spool, into: &Path, most: u64, context: &Context) -> Result<Fetched> {
        if !codec::is_wrapped(object.open().await?).await? {
            let whole = self.examine(Box::new(object.open().await?), most).await?;
            return Ok(Fetched { file: object.keep(), bytes: whole.bytes, sha256: whole.sha256 });
        }
        (context.log)("unpacking it");
        let decoder = codec::decoder(object.open().await?, &context.places.identities).await?;
        let (spool, mut file) = Spool::create(into, "snapshot.db").await?;
        let failed = |error| cannot_write(&spool.path, &error);
        let whole = self.unwrap(decoder, most, &mut file, failed).await?;
        Ok(Fetched { file: spool.keep(), bytes: whole.bytes, sha256: whole.sha256 })
    }

    /// Reads what a decoder gives, and keeps nothing of it.
    async fn examine(&self, decoder: Decoder, most: u64) -> Result<Whole> {
        self.unwrap(decoder, most, &mut tokio::io::sink(), |error| codec::unreadable(&error)).await
    }

    /// Writes what a decoder gives, and compares it with etcd's own hash and with the manifest.
    async fn unwrap(
        &self,
        mut decoder: Decoder,
        most: u64,
        sink: &mut (dyn AsyncWrite + Send + Unpin),
        failed: impl Fn(std::io::Error) -> Failure,
    ) -> Result<Whole> {
        let mut trailer = Trailer::default();
        let (mut buffer, mut bytes) = (vec![0; 1 << 18], 0);
        loop {
            let read = decoder.read(&mut buffer).await.map_err(|error| codec::unreadable(&error))?;
            if read == 0 {
                break;
            }
            bytes += read as u64;
            if bytes > most.saturating_add(HASH as u64) {
                let message = format!("the snapshot has more than {most} bytes, the quota of the members");
                return Err(Failure::new(FailureKind::Unfit, message));
            }
            trailer.update(&buffer[..read]);
            sink.write_all(&buffer[..read]).await.map_err(&failed)?;
        }
        sink.flush().await.map_err(&failed)?;
        let whole = trailer.finish(FailureKind::Mismatch)?;
        if let Some(manifest) = &self.manifest
            && (manifest.snapshot_bytes, &manifest.snapshot_sha256) != (whole.bytes, &whole.sha256)
        {
            let message = "the object has another snapshot than its manifest says";
            return Err(Failure::new(FailureKind::Mismatch, message));
        }
        Ok(whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::look::tests::Answering;

    #[tokio::test]
    async fn o15_a_404_that_does_not_come_from_the_store_is_no_fault_of_a_backup() {
        // What it answers to HEAD and to GET of the object; its manifest is there.
        type Answers = [(u16, &'static str); 2];
        async fn found([head, get]: Answers) -> FailureKind {
            let server = Answering::start(move |request| {
                let is_manifest = request.lines().next().is_some_and(|line| line.contains(".json"));
                match (is_manifest, request.starts_with("HEAD")) {
                    (true, _) => (200, MANIFEST),
                    (false, true) => head,
                    (false, false) => get,
                }
            });
            let server = server.await;
            let source = Source {
                destination: server.destination.clone(),
                key: "a/one".to_owned(),
                sha256: Some("s".to_owned()),
                version_id: None,
            };
            let context = server.context();
            let read = async { Found::find(&source, &context).await?.read(&context).await };
            read.await.unwrap_err().kind
        }
        const MANIFEST: &str = r#"{"format":1,"origin":{"namespace":"","backup":"","backupUid":""},"key":"a/one","storedBytes":4,"storedSha256":"s",
            "snapshotBytes":4,"snapshotSha256":"s","compressed":false,"revision":1,"etcdVersion":"3.6.16","clusterId":"1","member":"m",
            "started":"","finished":""}"#;
        let proxy = (404, "<html>no such site</html>");
        assert_eq!(found([proxy, proxy]).await, FailureKind::StoreUnavailable);
        assert_eq!(found([(404, ""), (200, "data")]).await, FailureKind::StoreUnavailable);
        assert_eq!(
            found([(404, ""), (404, "<Error><Code>NoSuchKey</Code></Error>")]).await,
            FailureKind::NotInStore
        );
        assert_eq!(
            found([(200, "data"), proxy]).await,
            FailureKind::StoreUnavailable,
            "also while it is downloaded"
        );
    }
}
