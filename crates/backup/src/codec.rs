//! What a snapshot is wrapped in: zstd, then age. Both ways as streams.

use std::fs;
use std::io::{self, BufReader as BlockingReader};
use std::path::Path;

use age::x25519::Recipient;
use age::{DecryptError, Decryptor, Encryptor, IdentityFile};
use async_compression::tokio::bufread::ZstdDecoder;
use async_compression::tokio::write::ZstdEncoder;
use quorate_api::job::{Failure, FailureKind};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, BufReader};
use tokio_util::compat::{FuturesAsyncReadCompatExt, FuturesAsyncWriteCompatExt};
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

use crate::Result;

const AGE: &[u8] = b"age-encryption.org/";
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// Takes the bytes of a snapshot. `shutdown` writes what is left.
pub(crate) type Encoder = Box<dyn AsyncWrite + Send + Unpin>;
/// Gives the bytes of a snapshot.
pub(crate) type Decoder = Box<dyn AsyncRead + Send + Unpin>;

/// The age recipients of an order.
pub(crate) fn recipients(texts: &[String]) -> Result<Vec<Recipient>> {
    let read = |text: &String| {
        text.trim().parse().map_err(|error| {
            let message = format!("{text:?} is not an age recipient (age1...): {error}");
            Failure::new(FailureKind::OrderRefused, message)
        })
    };
    texts.iter().map(read).collect()
}

/// Wraps what is written into `sink`.
pub(crate) async fn encoder(
    sink: impl AsyncWrite + Send + Unpin + 'static,
    compress: bool,
    recipients: &[Recipient],
) -> Result<Encoder> {
    let mut encoder: Encoder = Box::new(sink);
    if !recipients.is_empty() {
        let to = recipients.iter().map(|recipient| recipient as &dyn age::Recipient);
        let refused = |why: String| Failure::new(FailureKind::OrderRefused, format!("cannot encrypt: {why}"));
        let age = Encryptor::with_recipients(to).map_err(|error| refused(error.to_string()))?;
        let wrapped = age.wrap_async_output(encoder.compat_write()).await;
        encoder = Box::new(wrapped.map_err(|error| refused(error.to_string()))?.compat_write());
    }
    if compress {
        encoder = Box::new(ZstdEncoder::new(encoder));
    }
    Ok(encoder)
}

/// Unwraps what is read: its first bytes say what it is wrapped in.
pub(crate) async fn decoder(
    object: impl AsyncRead + Send + Unpin + 'static,
    identities: &Path,
) -> Result<Decoder> {
    let mut reader = BufReader::with_capacity(1 << 16, Box::new(object) as Decoder);
    if begins_with(&mut reader, AGE).await? {
        let identities = read_identities(identities)?;
        let age = Decryptor::new_async_buffered(reader.compat()).await.map_err(|error| cannot(&error))?;
        let known = identities.iter().map(|identity| &**identity as &dyn age::Identity);
        let plain = age.decrypt_async(known).map_err(|error| cannot(&error))?;
        reader = BufReader::with_capacity(1 << 16, Box::new(plain.compat()) as Decoder);
    }
    if begins_with(&mut reader, ZSTD).await? {
        return Ok(Box::new(ZstdDecoder::new(reader)));
    }
    Ok(Box::new(reader))
}

/// Whether it is encrypted or compressed.
pub(crate) async fn is_wrapped(object: impl AsyncRead + Send + Unpin + 'static) -> Result<bool> {
    let mut reader = BufReader::new(Box::new(object) as Decoder);
    Ok(begins_with(&mut reader, AGE).await? || begins_with(&mut reader, ZSTD).await?)
}

async fn begins_with(reader: &mut BufReader<Decoder>, magic: &[u8]) -> Result<bool> {
    let first = reader.fill_buf().await.map_err(|error| unreadable(&error))?;
    Ok(first.starts_with(magic))
}

/// What was read cannot be unwrapped, although it is what was stored.
pub(crate) fn unreadable(error: &io::Error) -> Failure {
    Failure::new(FailureKind::Mismatch, format!("the object cannot be unpacked: {error}"))
}

/// Every identity in the files of a directory: of the Secret that `identitiesSecret` names, which is mounted there if one is named.
fn read_identities(dir: &Path) -> Result<Vec<Box<dyn age::Identity + Send + Sync>>> {
    let refused = |why: String| {
        let message = format!(
            "the object is encrypted, and identitiesSecret has no identity of age: {why}. Each value of that Secret is a file of age-keygen"
        );
        Failure::new(FailureKind::CannotDecrypt, message)
    };
    let entries = fs::read_dir(dir).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => refused("it is not given".to_owned()),
        _ => refused(error.to_string()),
    })?;
    let mut identities = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| refused(error.to_string()))?.path();
        // A mounted Secret has directories too, which its files link into.
        if !path.is_file() {
            continue;
        }
        let file = fs::File::open(&path).map_err(|error| refused(error.to_string()))?;
        let read = IdentityFile::from_buffer(BlockingReader::new(file));
        let read = read.map_err(|_| refused(format!("{} has something else", name_of(&path))))?;
        identities.extend(read.into_identities().map_err(|error| refused(error.to_string()))?);
    }
    if identities.is_empty() { Err(refused("there is none".to_owned())) } else { Ok(identities) }
}

/// The key of the Secret.
fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn cannot(error: &DecryptError) -> Failure {
    let why = match error {
        DecryptError::NoMatchingKeys => {
            "it is encrypted to other recipients than the identities that were given".to_owned()
        }
        other => other.to_string(),
    };
    Failure::new(FailureKind::CannotDecrypt, format!("cannot decrypt the object: {why}"))
}
