//! An object that is restored: found, downloaded, verified and unpacked into a file as `etcdutl snapshot restore` reads it.

use std::path::{Path, PathBuf};

use futures::TryStreamExt;
use quorate_api::job::{Failure, FailureKind, Manifest, Source};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::spool::{Spool, cannot_write};
use crate::trailer::{HASH, Trailer};
use crate::{Context, Result, Store, codec, hex, manifest};

/// An object that is there and is what was ordered, as far as its manifest says.
#[derive(Debug)]
pub struct Found {
    store: Store,
    key: String,
    sha256: String,
    stored_bytes: u64,
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
        let look = async { Ok((manifest::read(&store, &source.key).await?, store.size(&source.key).await?)) };
        let (manifest, stored_bytes) = context.unless_stopped(look).await?;
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
        Ok(Self { store, key: source.key.clone(), sha256, stored_bytes, manifest })
    }

    /// Its manifest, if it has one.
    pub fn manifest(&self) -> Option<&Manifest> {
        self.manifest.as_ref()
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

    /// Downloads, verifies and unpacks it into the file `snapshot.db` of a directory. A database of more than `most` bytes is refused.
    pub async fn fetch(&self, into: &Path, most: u64, context: &Context) -> Result<Fetched> {
        let fetch = async {
            let object = self.download(into, context).await?;
            (context.log)("the object is what was stored; unpacking it");
            self.unpack(&object, into, most, context).await
        };
        context.unless_stopped(fetch).await
    }

    async fn download(&self, into: &Path, context: &Context) -> Result<Spool> {
        let url = self.store.url(&self.key);
        (context.log)(&format!("downloading {url}: {} bytes", self.stored_bytes));
        let (spool, mut file) = Spool::create(into, "object").await?;
        let failed = |error| cannot_write(&spool.path, &error);
        let (mut hash, mut bytes, mut quarter) = (Sha256::new(), 0, 1);
        let mut parts = self.store.download(&self.key, self.stored_bytes);
        while let Some(part) = parts.try_next().await? {
            hash.update(&part);
            file.write_all(&part).await.map_err(failed)?;
            bytes += part.len() as u64;
            if bytes * 4 >= self.stored_bytes * quarter && bytes < self.stored_bytes {
                (context.log)(&format!("downloaded {bytes} of {} bytes", self.stored_bytes));
                quarter += 1;
            }
        }
        file.flush().await.map_err(failed)?;
        let found = hex::sum(hash);
        if found == self.sha256 {
            return Ok(spool);
        }
        let message = format!(
            "{url} is damaged, or another object has been put in its place: its SHA-256 is {found}, not {}",
            self.sha256
        );
        Err(Failure::new(FailureKind::Mismatch, message))
    }

    async fn unpack(&self, object: &Spool, into: &Path, most: u64, context: &Context) -> Result<Fetched> {
        let mut decoder = codec::decoder(object.open().await?, &context.places.identities).await?;
        let (spool, mut file) = Spool::create(into, "snapshot.db").await?;
        let failed = |error| cannot_write(&spool.path, &error);
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
            file.write_all(&buffer[..read]).await.map_err(failed)?;
        }
        file.flush().await.map_err(failed)?;
        file.get_ref().sync_all().await.map_err(failed)?;
        let whole = trailer.finish(FailureKind::Mismatch)?;
        if let Some(manifest) = &self.manifest
            && (manifest.snapshot_bytes, &manifest.snapshot_sha256) != (whole.bytes, &whole.sha256)
        {
            let message = "the object has another snapshot than its manifest says";
            return Err(Failure::new(FailureKind::Mismatch, message));
        }
        Ok(Fetched { file: spool.keep(), bytes: whole.bytes, sha256: whole.sha256 })
    }
}
