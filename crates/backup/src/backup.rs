//! A snapshot of etcd into a store. The steps are those of `docs/protocols/backup.md`.

use std::time::Duration;

use futures::TryStreamExt;
use quorate_api::job::{BackupOrder, Failure, FailureKind, Manifest};
use quorate_etcd::{CallError, SnapshotStream};
use tokio::io::{AsyncRead, AsyncWriteExt};
use tokio::time::timeout;
use tokio_util::io::ReaderStream;

use crate::codec::{self, Encoder};
use crate::manifest::{self, FORMAT};
use crate::pace::{self, Pace};
use crate::room;
use crate::signature::Keys;
use crate::source::{self, Chosen};
use crate::spool::Spool;
use crate::store::{Abandoned, Created, Upload};
use crate::trailer::{Trailer, Whole};
use crate::{Context, Result, Store};

/// Between the encoder and the upload.
const PIPE: usize = 256 << 10;

/// How long it may take to abort unfinished uploads. The backup is in the store, and its Job has a deadline.
const TIDY: Duration = Duration::from_secs(30);

/// Takes the backup, or finds that it has been taken. Returns its manifest, which is in the store.
pub async fn back_up(order: &BackupOrder, context: &Context) -> Result<Manifest> {
    let mut wrote = false;
    let taken = async {
        let recipients = codec::recipients(&order.recipients)?;
        let store = Store::open(&order.destination, &context.places)?;
        let manifest = take(order, &recipients, &store, &mut wrote, context).await?;
        Ok::<_, Failure>((store, manifest))
    };
    let taken = taken.await;
    let (store, manifest) = taken.map_err(|failure| Failure { wrote: Some(wrote), ..failure })?;
    tidy(&store, &order.key, Abandoned::OfEtcd, context).await;
    Ok(manifest)
}

/// Aborts unfinished uploads that nobody will complete. What the caller has done is done, whatever comes of this.
pub(crate) async fn tidy(store: &Store, key: &str, which: Abandoned, context: &Context) {
    let aborting = context.unless_stopped(store.abort_abandoned(key, which));
    let text = match timeout(TIDY, aborting).await {
        Ok(Ok(0)) => return,
        Ok(Ok(count)) => format!("aborted {count} uploads that were never completed"),
        Ok(Err(failure)) => format!(
            "uploads that were never completed may remain in the bucket, where a lifecycle rule has to delete them: {}",
            failure.message
        ),
        Err(_) => format!("uploads that were never completed may remain: no answer within {TIDY:?}"),
    };
    (context.log)(&text);
}

async fn take(
    order: &BackupOrder,
    recipients: &[age::x25519::Recipient],
    store: &Store,
    wrote: &mut bool,
    context: &Context,
) -> Result<Manifest> {
    let keys = Keys::read(&context.places.signing_keys)?;
    if !keys.can_sign() {
        (context.log)("the namespace has no key to sign the manifest with");
    }
    let mut sight = Sight::Reads;
    match context.unless_stopped(earlier_try(store, order, &keys)).await {
        Ok(None) => {}
        Ok(Some(complete)) => {
            (context.log)(&format!("{} is there already, complete", store.url(&order.key)));
            return Ok(complete);
        }
        // Credentials that only write are the safer ones, and S3 answers so for what is not there without the right to list. If nothing may
        // be written either, the upload says so before etcd sends anything.
        Err(failure) if failure.kind == FailureKind::StoreForbidden && store.is_bucket() => {
            let text = format!("it is not known what is there, so it is written: {}", failure.message);
            (context.log)(&text);
            sight = Sight::Blind;
        }
        Err(failure) => return Err(failure),
    }
    let choice = context.unless_stopped(source::choose(order, context)).await?;
    pace::in_time(order, choice.first().db_size, context.log)?;
    let begun = context.unless_stopped(store.upload(&order.key)).await;
    // What is refused has written nothing. Of another failure that is not known: a reply may have been lost.
    *wrote = begun
        .as_ref()
        .err()
        .is_none_or(|failure| !matches!(failure.kind, FailureKind::StoreForbidden | FailureKind::NotInStore));
    let mut upload = begun?;
    let sent = async {
        room::is_there(order, store, choice.first(), context).await?;
        let chosen = choice.confirm(order, context).await?;
        (context.log)(&format!(
            "taking a snapshot of {}, at revision {} or later",
            chosen.member, chosen.revision.0
        ));
        let started = now();
        let whole = send(order, &chosen, recipients, &mut upload, context).await?;
        // Another try of the same Job may have been faster.
        let faster = match sight {
            Sight::Reads => earlier_try(store, order, &keys).await?,
            Sight::Blind => None,
        };
        Ok(((chosen, started, whole), faster))
    };
    let (chosen, started, whole) = match context.unless_stopped(sent).await {
        Ok((sent, None)) => sent,
        Ok((_, Some(complete))) => {
            abort(upload, context).await;
            return Ok(complete);
        }
        Err(failure) => {
            abort(upload, context).await;
            return Err(failure);
        }
    };
    let stored = upload.finish().await?;
    let mark = match sight {
        Sight::Reads => match store.see(&order.key).await? {
            Some(seen) if seen.bytes == stored.bytes => Some(seen.mark),
            Some(_) | None => {
                let url = store.url(&order.key);
                let message = format!("{url} is not there with the {} bytes that were sent", stored.bytes);
                return Err(Failure::new(FailureKind::StoreUnavailable, message));
            }
        },
        // The store has checked what it was sent, or has no way to.
        Sight::Blind => stored.mark,
    };
    let mut manifest = Manifest {
        auth_enabled: None,
        format: FORMAT,
        origin: order.origin.clone(),
        key: order.key.clone(),
        stored_bytes: stored.bytes,
        stored_sha256: stored.sha256,
        mark,
        snapshot_bytes: whole.bytes,
        snapshot_sha256: whole.sha256,
        compressed: order.compress,
        recipients: order.recipients.clone(),
        revision: chosen.revision.0,
        etcd_version: chosen.status.version.to_string(),
        cluster_id: chosen.status.cluster_id.to_string(),
        member: chosen.member,
        without_quorum: order.without_quorum,
        no_contents: chosen.contents.as_ref().err().copied(),
        contents: chosen.contents.ok(),
        ordered: order.ordered.clone(),
        started,
        finished: now(),
        signature: None,
    };
    keys.sign(&mut manifest);
    complete(store, &manifest, sight).await?;
    Ok(manifest)
}

/// Whether the store lets the Job see what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sight {
    Reads,
    Blind,
}

/// The manifest of this very backup, if it was taken before and is complete.
pub async fn taken(order: &BackupOrder, context: &Context) -> Result<Option<Manifest>> {
    let store = Store::open(&order.destination, &context.places)?;
    let keys = Keys::read(&context.places.signing_keys)?;
    context.unless_stopped(earlier_try(&store, order, &keys)).await
}

/// The manifest of an earlier try of this very backup, if that is complete. What it left otherwise is replaced.
async fn earlier_try(store: &Store, order: &BackupOrder, keys: &Keys) -> Result<Option<Manifest>> {
    let Some((found, doubt)) = manifest::read_signed(store, &order.key, keys).await? else { return Ok(None) };
    is_ours(store, &found, &order.origin.backup_uid)?;
    // Whoever writes to the store can say that the backup was taken.
    let is_believed = doubt.is_none() || !keys.can_sign();
    if is_believed && store.size(&order.key).await? == Some(found.stored_bytes) {
        return Ok(Some(found));
    }
    // It must not seem to describe the object that is written now.
    store.delete(&manifest::key_of(&order.key)).await?;
    Ok(None)
}

/// Refuses what another backup has written.
pub(crate) fn is_ours(store: &Store, found: &Manifest, backup_uid: &str) -> Result<()> {
    if found.origin.backup_uid == backup_uid {
        return Ok(());
    }
    let message = format!(
        "{} belongs to another backup: {}/{} (uid {})",
        store.url(&found.key),
        found.origin.namespace,
        found.origin.backup,
        found.origin.backup_uid
    );
    Err(Failure::new(FailureKind::NotOurs, message))
}

/// Sends the snapshot through the encoder into the upload. Returns when all of it was sent and its hash is right.
async fn send(
    order: &BackupOrder,
    chosen: &Chosen,
    recipients: &[age::x25519::Recipient],
    upload: &mut Upload,
    context: &Context,
) -> Result<Whole> {
    let pace = Pace::of(order);
    let (sink, encoded) = tokio::io::duplex(PIPE);
    let encode = async {
        let mut stream = chosen.client.snapshot().await.map_err(|error| broke(&error))?;
        let mut encoder = codec::encoder(sink, order.compress, recipients).await?;
        let whole = if order.spool {
            let (spool, whole) = Spool::snapshot(&context.places.scratch, &mut stream, &pace).await?;
            drop(stream);
            let mut file = spool.open().await?;
            tokio::io::copy(&mut file, &mut encoder).await.map_err(|error| pipe_broke(&error))?;
            whole
        } else {
            straight(&mut stream, &mut encoder, &pace).await?
        };
        encoder.shutdown().await.map_err(|error| pipe_broke(&error))?;
        Ok(whole)
    };
    let sending = async { tokio::try_join!(encode, write(encoded, upload)).map(|(whole, ())| whole) };
    tokio::select! {
        sent = sending => sent,
        failure = pace.harms(&chosen.client, &chosen.status) => Err(failure),
    }
}

async fn straight(stream: &mut SnapshotStream, encoder: &mut Encoder, pace: &Pace) -> Result<Whole> {
    let mut trailer = Trailer::default();
    while let Some(bytes) = next(stream, pace).await? {
        trailer.update(&bytes);
        encoder.write_all(&bytes).await.map_err(|error| pipe_broke(&error))?;
    }
    trailer.finish(FailureKind::SnapshotFailed)
}

/// The next bytes of a snapshot.
pub(crate) async fn next(stream: &mut SnapshotStream, pace: &Pace) -> Result<Option<Vec<u8>>> {
    pace.admits().await;
    let chunk = stream.next().await.map_err(|error| broke(&error))?;
    match &chunk {
        Some(chunk) => pace.received(chunk.bytes.len()),
        None => pace.ended(),
    }
    Ok(chunk.map(|chunk| chunk.bytes))
}

async fn write(encoded: impl AsyncRead + Unpin, upload: &mut Upload) -> Result<()> {
    let mut chunks = ReaderStream::with_capacity(encoded, PIPE).map_err(|error| pipe_broke(&error));
    while let Some(bytes) = chunks.try_next().await? {
        upload.write(bytes).await?;
    }
    Ok(())
}

async fn abort(upload: Upload, context: &Context) {
    if let Err(left) = upload.abort().await {
        (context.log)(&format!("what was sent so far may remain as an unfinished upload: {}", left.message));
    }
}

/// Writes the manifest, which makes the object a backup.
async fn complete(store: &Store, manifest: &Manifest, sight: Sight) -> Result<()> {
    let key = manifest::key_of(&manifest.key);
    match store.create(&key, manifest::to_bytes(manifest)).await? {
        Created::Yes => Ok(()),
        // An earlier try was complete, and nobody could see that: its object has been replaced, so its manifest describes nothing. The key has
        // the uid of the EtcdBackup, so it is nobody else's.
        Created::Exists if sight == Sight::Blind => store.replace(&key, manifest::to_bytes(manifest)).await,
        // A reply may have been lost, and the request repeated.
        Created::Exists => match manifest::read(store, &manifest.key).await? {
            Some(found) if found == *manifest => Ok(()),
            _ => {
                let url = store.url(&manifest.key);
                let message = format!("another Job has written the manifest of {url} meanwhile");
                Err(Failure::new(FailureKind::NotOurs, message))
            }
        },
    }
}

fn broke(error: &CallError) -> Failure {
    Failure::new(FailureKind::SnapshotFailed, format!("etcd does not send its snapshot to the end: {error}"))
}

fn pipe_broke(error: &std::io::Error) -> Failure {
    Failure::new(FailureKind::SnapshotFailed, format!("cannot encode the snapshot: {error}"))
}

fn now() -> String {
    #[expect(
        clippy::disallowed_methods,
        reason = "for people who read the manifest, and to tell the newest backup; nothing is deleted by it"
    )]
    let now = jiff::Timestamp::now();
    format!("{now:.0}")
}
