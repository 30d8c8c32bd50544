//! The bytes of an object on their way into a store. It has at most [`IN_FLIGHT`] parts in flight and one that is being filled, so its
//! memory does not depend on the size of the object.

use std::time::Duration;

use bytes::Bytes;
use object_store::{MultipartUpload, PutPayloadMut, PutResult};
use quorate_api::destination::Destination;
use quorate_api::job::{Failure, ObjectMark};
use sha2::{Digest, Sha256};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::etag;
use super::explain::{Act, explain};
use super::folder::Begun;
use crate::{Result, hex};

/// Bytes of a part. S3 takes 10,000 parts: so an object may have 80 GiB.
pub(super) const PART: usize = 8 << 20;
/// Parts that are sent at the same time.
const IN_FLIGHT: usize = 2;
/// How long parts in flight may take to arrive before their upload is aborted. A Pod has 30 s from its SIGTERM on.
const ARRIVAL: Duration = Duration::from_secs(5);

/// An object that does not exist yet.
pub(crate) struct Upload {
    way: Way,
    hash: Sha256,
    bytes: u64,
}

/// What the store has now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    /// Bytes of the object.
    pub(crate) bytes: u64,
    /// Its SHA-256, in hexadecimal digits.
    pub(crate) sha256: String,
    /// What the store answered to the write.
    pub(crate) mark: Option<ObjectMark>,
}

enum Way {
    Remote { parts: Box<Parts>, destination: Box<Destination>, key: String },
    File(Begun),
}

/// Parts on their way. `object_store::WriteMultipart` does the same, but aborts an upload that cannot be completed and returns the error of
/// that: a server may refuse to abort what it has completed, and then the reason would be lost.
struct Parts {
    upload: Box<dyn MultipartUpload>,
    /// The part that is being filled.
    next: PutPayloadMut,
    in_flight: JoinSet<object_store::Result<()>>,
}

impl Parts {
    /// Waits while there are so many parts in flight.
    async fn wait_while(&mut self, count: usize) -> object_store::Result<()> {
        while self.in_flight.len() >= count
            && let Some(sent) = self.in_flight.join_next().await
        {
            sent??;
        }
        Ok(())
    }

    fn put(&mut self, mut bytes: Bytes) {
        while !bytes.is_empty() {
            let room = PART.saturating_sub(self.next.content_length());
            self.next.push(bytes.split_to(room.min(bytes.len())));
            if self.next.content_length() >= PART {
                self.send();
            }
        }
    }

    fn send(&mut self) {
        let part = std::mem::take(&mut self.next);
        self.in_flight.spawn(self.upload.put_part(part.freeze()));
    }

    async fn complete(&mut self) -> object_store::Result<PutResult> {
        if !self.next.is_empty() {
            self.send();
        }
        self.wait_while(1).await?;
        self.upload.complete().await
    }

    /// A part that arrives after its upload was aborted may stay, paid for and seen by nobody: so says S3's AbortMultipartUpload. So parts in
    /// flight may arrive first.
    async fn abort(&mut self) -> object_store::Result<()> {
        let arrive = async { while self.in_flight.join_next().await.is_some() {} };
        let _ = timeout(ARRIVAL, arrive).await;
        self.in_flight.shutdown().await;
        self.upload.abort().await
    }
}

impl Upload {
    pub(super) fn remote(upload: Box<dyn MultipartUpload>, destination: Destination, key: &str) -> Self {
        let parts = Parts { upload, next: PutPayloadMut::new(), in_flight: JoinSet::new() };
        Self::by(Way::Remote {
            parts: Box::new(parts),
            destination: Box::new(destination),
            key: key.to_owned(),
        })
    }

    pub(super) fn to_file(file: Begun) -> Self {
        Self::by(Way::File(file))
    }

    fn by(way: Way) -> Self {
        Self { way, hash: Sha256::new(), bytes: 0 }
    }

    /// The next bytes. Waits while too many parts are in flight.
    pub(crate) async fn write(&mut self, bytes: Bytes) -> Result<()> {
        self.hash.update(&bytes);
        self.bytes += bytes.len() as u64;
        match &mut self.way {
            Way::File(file) => file.write(&bytes).await,
            Way::Remote { parts, destination, key } => {
                let room = parts.wait_while(IN_FLIGHT).await;
                room.map_err(|error| explain(&error, Act::Write, destination, key))?;
                parts.put(bytes);
                Ok(())
            }
        }
    }

    /// The object appears, whole. After a failure it does not, or it is the whole object all the same: it has no manifest then, and the next
    /// try replaces it. Its size would prove nothing, because an earlier try may have left an object of the same size.
    pub(crate) async fn finish(self) -> Result<Stored> {
        let mark = match self.way {
            Way::File(file) => {
                file.finish().await?;
                None
            }
            Way::Remote { mut parts, destination, key } => match parts.complete().await {
                Ok(PutResult { e_tag, version, .. }) => {
                    Some(ObjectMark { etag: etag(e_tag), version_id: version, modified: None })
                }
                Err(error) => {
                    // What cannot be aborted now is aborted after the next try.
                    let _ = parts.abort().await;
                    return Err(explain(&error, Act::Write, &destination, &key));
                }
            },
        };
        Ok(Stored { bytes: self.bytes, sha256: hex::sum(self.hash), mark })
    }

    /// Takes back what was sent. Returns what cannot be taken back, for the log.
    pub(crate) async fn abort(self) -> std::result::Result<(), Failure> {
        match self.way {
            Way::File(file) => {
                // Its file goes with it.
                drop(file);
                Ok(())
            }
            Way::Remote { mut parts, destination, key } => {
                let aborted = parts.abort().await;
                aborted.map_err(|error| explain(&error, Act::Delete, &destination, &key))
            }
        }
    }
}
