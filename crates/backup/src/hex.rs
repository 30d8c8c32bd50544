//! Hashes as text.

use sha2::{Digest, Sha256};

/// Hexadecimal digits.
pub(crate) fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The SHA-256 that was summed up, in hexadecimal digits.
pub(crate) fn sum(hash: Sha256) -> String {
    digits(&hash.finalize())
}
