//! The head of etcd's write-ahead log. Every file of it begins with a checksum record and a metadata record, which
//! says whose log it is.
//!
//! A record is framed by a little-endian 64-bit length: the low 56 bits count its bytes, the high byte, if negative,
//! the padding after it.
//!
//! - `tail`: the other end

mod tail;

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use prost::Message;
use quorate_model::{ClusterId, MemberId};

pub(super) use tail::read as tail;
#[cfg(test)]
pub(super) use tail::tests::seed;

const METADATA: i64 = 1;
const CHECKSUM: i64 = 4;
/// No head record comes near it; a length beyond is rubbish, not to be allocated.
const LONGEST: u64 = 4096;

/// Who wrote a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) member_id: MemberId,
    pub(super) cluster_id: ClusterId,
}

#[derive(Clone, PartialEq, Message)]
struct Record {
    #[prost(int64, optional, tag = "1")]
    kind: Option<i64>,
    #[prost(uint32, optional, tag = "2")]
    crc: Option<u32>,
    #[prost(bytes = "vec", optional, tag = "3")]
    data: Option<Vec<u8>>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Metadata {
    #[prost(uint64, optional, tag = "1")]
    node_id: Option<u64>,
    #[prost(uint64, optional, tag = "2")]
    cluster_id: Option<u64>,
}

/// Reads the head of a log file. The inner error says what is wrong with the content.
pub(super) fn origin(path: &Path) -> io::Result<Result<Origin, String>> {
    let mut head = Vec::new();
    File::open(path)?.take(3 * LONGEST).read_to_end(&mut head)?;
    Ok(parse(&head).ok_or_else(|| format!("{} does not begin like a log", path.display())))
}

fn parse(head: &[u8]) -> Option<Origin> {
    let (start, rest) = record(head)?;
    if start.kind() != CHECKSUM {
        return None;
    }
    let (metadata, _) = record(rest)?;
    let data = metadata.data();
    if metadata.kind() != METADATA || crc32c(start.crc(), data) != metadata.crc() {
        return None;
    }
    let Metadata { node_id: Some(member), cluster_id: Some(cluster) } = Metadata::decode(data).ok()? else {
        return None;
    };
    Some(Origin { member_id: MemberId(member), cluster_id: ClusterId(cluster) })
}

fn record(bytes: &[u8]) -> Option<(Record, &[u8])> {
    let (frame, rest) = bytes.split_first_chunk::<8>()?;
    let (length, padding) = frame_of(*frame);
    if length == 0 || length > LONGEST {
        return None;
    }
    let (record, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    let rest = rest.get(usize::try_from(padding).ok()?..)?;
    Some((Record::decode(record).ok()?, rest))
}

/// The length of a record and of the padding after it.
fn frame_of(frame: [u8; 8]) -> (u64, u64) {
    let frame = u64::from_le_bytes(frame);
    let padding = if frame >> 63 == 1 { frame >> 56 & 7 } else { 0 };
    (frame & (u64::MAX >> 8), padding)
}

/// The Castagnoli checksum, continued.
fn crc32c(before: u32, bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!before, |crc, &byte| TABLE[usize::from(crc.to_le_bytes()[0] ^ byte)] ^ crc >> 8)
}

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0_u32;
    while byte < 256 {
        let mut crc = byte;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
            bit += 1;
        }
        table[byte as usize] = crc;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_castagnolis() {
        assert_eq!(crc32c(0, b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(crc32c(0, b"1234"), b"56789"), 0xe306_9283);
    }

    #[test]
    fn rubbish_is_not_a_log() {
        for head in [&[][..], &[0; 64], &[0xff; 64], b"not a log at all, but long enough to be one"] {
            assert_eq!(parse(head), None);
        }
    }
}
