//! etcd's own hash of a snapshot: the last 32 bytes are the SHA-256 of all before them.

use quorate_api::job::{Failure, FailureKind};
use sha2::{Digest, Sha256};

use crate::{Result, hex};

/// Bytes of the hash.
pub(crate) const HASH: usize = 32;

/// Reads a snapshot as it passes by.
#[derive(Default)]
pub(crate) struct Trailer {
    hash: Sha256,
    bytes: u64,
    /// The last bytes so far, which may be the hash.
    last: Vec<u8>,
}

/// A snapshot whose hash is right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Whole {
    /// Bytes of the database.
    pub(crate) bytes: u64,
    /// Its SHA-256, in hexadecimal digits.
    pub(crate) sha256: String,
}

impl Trailer {
    /// The next bytes.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.last.extend_from_slice(bytes);
        let before = self.last.len().saturating_sub(HASH);
        self.hash.update(&self.last[..before]);
        self.bytes += before as u64;
        self.last.drain(..before);
    }

    /// The end. `kind`: what a wrong hash means here.
    pub(crate) fn finish(self, kind: FailureKind) -> Result<Whole> {
        let sha256 = hex::sum(self.hash);
        if self.bytes == 0 || !self.bytes.is_multiple_of(512) {
            let message = format!("the snapshot ends early: a database of {} bytes and its hash", self.bytes);
            return Err(Failure::new(kind, message));
        }
        if hex::digits(&self.last) != sha256 {
            return Err(Failure::new(
                kind,
                "the hash at the end of the snapshot is wrong: its bytes are damaged",
            ));
        }
        Ok(Whole { bytes: self.bytes, sha256 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8], at_a_time: usize) -> Result<Whole> {
        let mut trailer = Trailer::default();
        bytes.chunks(at_a_time).for_each(|chunk| trailer.update(chunk));
        trailer.finish(FailureKind::SnapshotFailed)
    }

    #[test]
    fn the_hash_is_checked_however_the_bytes_arrive() {
        let database = vec![7; 1536];
        let mut snapshot = database.clone();
        snapshot.extend(Sha256::digest(&database));
        for at_a_time in [1, 31, 32, 33, 512, 4096] {
            let whole = read(&snapshot, at_a_time).unwrap();
            assert_eq!((whole.bytes, whole.sha256), (1536, hex::digits(&Sha256::digest(&database))));
        }
        for end in [0, 1, 31, 32, 512, 1536, 1567] {
            assert!(read(&snapshot[..end], 100).is_err(), "{end} bytes");
        }
        for at in [0, 1535, 1536, 1567] {
            let mut damaged = snapshot.clone();
            damaged[at] ^= 1;
            assert!(read(&damaged, 100).unwrap_err().message.contains("damaged"), "byte {at}");
        }
    }
}
