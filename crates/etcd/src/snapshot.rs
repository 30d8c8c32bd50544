//! A snapshot as it arrives from a member.

use std::fmt;
use std::time::Duration;

use tonic::Streaming;

use crate::{CallError, wire};

/// How long the next bytes may take. etcd sends 32 KiB at a time and reads them from its file.
const IDLE: Duration = Duration::from_secs(30);

/// The database of a member, then the SHA-256 of it: 32 bytes. Dropping it ends the call.
pub struct SnapshotStream {
    stream: Streaming<wire::SnapshotResponse>,
}

/// A part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotChunk {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The bytes of the database that follow, without the hash.
    pub remaining: u64,
}

impl SnapshotStream {
    pub(crate) fn new(stream: Streaming<wire::SnapshotResponse>) -> Self {
        Self { stream }
    }

    /// The next part; `None` at the end. A member that dies ends it with an error, and never with `None`.
    pub async fn next(&mut self) -> Result<Option<SnapshotChunk>, CallError> {
        let message = tokio::time::timeout(IDLE, self.stream.message()).await;
        let message = message.map_err(|_| CallError::Unknown(format!("no bytes within {IDLE:?}")))??;
        Ok(message.map(|message| SnapshotChunk { bytes: message.blob, remaining: message.remaining_bytes }))
    }
}

impl fmt::Debug for SnapshotStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SnapshotStream")
    }
}
