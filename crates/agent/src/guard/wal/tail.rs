//! The end of the log: what raft had stored. Read beside a running etcd, without a lock: the last record may be half written, and
//! reading stops at the first one that is not whole, as etcd itself does.
//!
//! A new file begins with the checksum so far, the metadata and the hard state (`cut` in etcd's `wal.go`), so each file is read by
//! itself, the newest first. Only the heads of records are kept, so memory is bounded by a block, whatever a record holds.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::Instant;

use prost::Message;

use super::{CHECKSUM, crc32c, frame_of};

const ENTRY: i64 = 2;
const STATE: i64 = 3;
const SNAPSHOT: i64 = 5;

const BLOCK: usize = 64 << 10;
/// The fields of an entry before its data, and all of a hard state, are shorter.
const HEAD: usize = 64;

/// An entry's position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::guard) struct Position {
    pub(in crate::guard) index: u64,
    pub(in crate::guard) term: u64,
}

/// The end of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::guard) struct Tail {
    /// The term of the hard state.
    pub(in crate::guard) term: u64,
    /// The commit index of the hard state. etcd writes it with the next entry, so it may be behind what is committed.
    pub(in crate::guard) commit: u64,
    pub(in crate::guard) last: Position,
}

/// raft's HardState, without the vote.
#[derive(Clone, Copy, PartialEq, Message)]
struct HardState {
    #[prost(uint64, optional, tag = "1")]
    term: Option<u64>,
    #[prost(uint64, optional, tag = "3")]
    commit: Option<u64>,
}

/// What one file has, the last of each kind.
#[derive(Default)]
struct Found {
    state: Option<HardState>,
    entry: Option<Position>,
    snapshot: Option<Position>,
}

/// Reads the files, oldest first, from the last one backwards until everything is found. Fails when `deadline` has passed.
pub(in crate::guard) fn read(files: &[PathBuf], deadline: Instant) -> io::Result<Tail> {
    let mut all = Found::default();
    for file in files.iter().rev() {
        let found = read_file(file, deadline)?;
        all.state = all.state.or(found.state);
        all.entry = all.entry.or(found.entry);
        all.snapshot = all.snapshot.or(found.snapshot);
        if all.state.is_some() && all.entry.is_some() {
            break;
        }
    }
    let state = all.state.unwrap_or_default();
    let mut last = all.entry.unwrap_or_default();
    // A snapshot that the leader sent replaces entries, once the hard state with its index is written.
    if let Some(snapshot) = all.snapshot
        && snapshot.index > last.index
        && snapshot.index <= state.commit()
    {
        last = snapshot;
    }
    Ok(Tail { term: state.term(), commit: state.commit(), last })
}

fn read_file(path: &Path, deadline: Instant) -> io::Result<Found> {
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    let mut records = Records { file: BufReader::with_capacity(BLOCK, file), left: size, crc: 0 };
    let mut found = Found::default();
    while let Some((kind, head)) = records.next()? {
        match kind {
            ENTRY => found.entry = position(&head, 3, 2),
            SNAPSHOT => found.snapshot = position(&head, 1, 2),
            STATE => found.state = HardState::decode(&*head).ok(),
            // The metadata were read by the guard, and the checksum is `Records`' own.
            _ => {}
        }
        if Instant::now() >= deadline {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "reading the log takes too long"));
        }
    }
    Ok(found)
}

struct Records {
    file: BufReader<File>,
    /// The bytes of the file that were not read yet.
    left: u64,
    /// The checksum so far.
    crc: u32,
}

impl Records {
    /// The kind of the next record and the begin of its data; `None` at the end of what is whole.
    fn next(&mut self) -> io::Result<Option<(i64, Vec<u8>)>> {
        let mut begin = [0; 8];
        if !self.fill(&mut begin)? {
            return Ok(None);
        }
        let (length, padding) = frame_of(begin);
        // Space that was reserved, or rubbish.
        if length == 0 || length.saturating_add(padding) > self.left {
            return Ok(None);
        }
        let mut record = vec![0; usize::try_from(length.min(HEAD as u64)).unwrap_or(HEAD)];
        if !self.fill(&mut record)? {
            return Ok(None);
        }
        let Some(header) = Header::of(&record) else { return Ok(None) };
        let mut rest = length - record.len() as u64;
        let head = record.split_off(header.data_at.min(record.len()));
        if head.len() as u64 + rest != header.data_length {
            return Ok(None);
        }
        let mut crc = crc32c(self.crc, &head);
        let mut block = vec![0; usize::try_from(rest).unwrap_or(BLOCK).min(BLOCK)];
        while rest > 0 {
            let part = usize::try_from(rest).unwrap_or(BLOCK).min(BLOCK);
            if !self.fill(&mut block[..part])? {
                return Ok(None);
            }
            crc = crc32c(crc, &block[..part]);
            rest -= part as u64;
        }
        let mut skipped = vec![0; usize::try_from(padding).unwrap_or(0)];
        if !self.fill(&mut skipped)? {
            return Ok(None);
        }
        if header.kind == CHECKSUM {
            self.crc = header.crc;
        } else if crc != header.crc {
            return Ok(None);
        } else {
            self.crc = crc;
        }
        Ok(Some((header.kind, head)))
    }

    /// Whether there was so much to read.
    fn fill(&mut self, buf: &mut [u8]) -> io::Result<bool> {
        match self.file.read_exact(buf) {
            Ok(()) => {
                self.left = self.left.saturating_sub(buf.len() as u64);
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// A record without its data.
#[derive(Default)]
struct Header {
    kind: i64,
    crc: u32,
    data_at: usize,
    data_length: u64,
}

impl Header {
    /// Type, checksum, and where the data begin; etcd writes the fields in this order.
    fn of(record: &[u8]) -> Option<Self> {
        let mut header = Self { data_at: record.len(), ..Self::default() };
        let mut rest = record;
        while !rest.is_empty() {
            match number(&mut rest)? {
                0x08 => header.kind = i64::try_from(number(&mut rest)?).ok()?,
                0x10 => header.crc = u32::try_from(number(&mut rest)?).ok()?,
                0x1a => {
                    header.data_length = number(&mut rest)?;
                    header.data_at = record.len() - rest.len();
                    break;
                }
                _ => return None,
            }
        }
        Some(header)
    }
}

/// Index and term of an entry or a snapshot, from the begin of its encoding.
fn position(mut head: &[u8], index_field: u64, term_field: u64) -> Option<Position> {
    let mut position = Position::default();
    while !head.is_empty() {
        let key = number(&mut head)?;
        // What has a length comes after both.
        if key & 7 != 0 {
            break;
        }
        let value = number(&mut head)?;
        if key >> 3 == index_field {
            position.index = value;
        } else if key >> 3 == term_field {
            position.term = value;
        }
    }
    Some(position)
}

/// A number of protobuf's variable length.
fn number(bytes: &mut &[u8]) -> Option<u64> {
    prost::encoding::decode_varint(bytes).ok()
}

#[cfg(test)]
pub(in crate::guard) mod tests {
    use std::time::Duration;

    use super::super::Record;
    use super::*;

    const METADATA: i64 = 1;

    #[derive(Clone, PartialEq, Message)]
    struct Entry {
        #[prost(int32, optional, tag = "1")]
        kind: Option<i32>,
        #[prost(uint64, optional, tag = "2")]
        term: Option<u64>,
        #[prost(uint64, optional, tag = "3")]
        index: Option<u64>,
        #[prost(bytes = "vec", optional, tag = "4")]
        data: Option<Vec<u8>>,
    }

    /// Writes files as etcd does.
    struct Writer {
        crc: u32,
        bytes: Vec<u8>,
    }

    impl Writer {
        fn new(crc: u32) -> Self {
            let mut writer = Self { crc, bytes: Vec::new() };
            writer.record(CHECKSUM, None);
            writer.record(METADATA, Some(vec![8, 1, 16, 2]));
            writer
        }

        fn record(&mut self, kind: i64, data: Option<Vec<u8>>) {
            self.crc = crc32c(self.crc, data.as_deref().unwrap_or_default());
            let record = Record { kind: Some(kind), crc: Some(self.crc), data }.encode_to_vec();
            let padding = (8 - record.len() % 8) % 8;
            let frame = record.len() as u64 | if padding > 0 { (0x80 | padding as u64) << 56 } else { 0 };
            self.bytes.extend(frame.to_le_bytes());
            self.bytes.extend(record);
            self.bytes.extend(vec![0; padding]);
        }

        fn entry(&mut self, index: u64, term: u64, size: usize) {
            let entry =
                Entry { kind: Some(0), term: Some(term), index: Some(index), data: Some(vec![7; size]) };
            self.record(ENTRY, Some(entry.encode_to_vec()));
        }

        fn state(&mut self, term: u64, commit: u64) {
            let mut state = HardState { term: Some(term), commit: None }.encode_to_vec();
            state.extend([16, 9]);
            state.extend(HardState { term: None, commit: Some(commit) }.encode_to_vec());
            self.record(STATE, Some(state));
        }

        fn snapshot(&mut self, index: u64, term: u64) {
            let mut snapshot = HardState { term: Some(index), commit: None }.encode_to_vec();
            snapshot.extend([16, u8::try_from(term).unwrap(), 26, 0]);
            self.record(SNAPSHOT, Some(snapshot));
        }
    }

    /// A file with a hard state and an entry, and these records after them, with right checksums.
    pub(in crate::guard) fn seed(records: &[(i64, Vec<u8>)]) -> Vec<u8> {
        let mut log = Writer::new(0);
        log.state(2, 1);
        log.entry(1, 2, 40);
        for (kind, data) in records {
            log.record(*kind, Some(data.clone()));
        }
        log.bytes
    }

    fn tail(files: &[&[u8]]) -> Tail {
        let dir = tempfile::tempdir().unwrap();
        let paths: Vec<PathBuf> = (0..files.len()).map(|n| dir.path().join(format!("{n}.wal"))).collect();
        for (path, bytes) in paths.iter().zip(files) {
            std::fs::write(path, bytes).unwrap();
        }
        read(&paths, Instant::now() + Duration::from_secs(60)).unwrap()
    }

    #[test]
    fn the_end_of_a_log_is_its_last_entry_and_hard_state() {
        let mut log = Writer::new(0);
        log.state(2, 1);
        log.entry(1, 2, 10);
        log.entry(2, 2, 3 * BLOCK);
        log.state(3, 1);
        log.entry(2, 3, 0);
        let whole = log.bytes.len();
        let expected = Tail { term: 3, commit: 1, last: Position { index: 2, term: 3 } };
        assert_eq!(tail(&[&log.bytes]), expected);
        log.bytes.extend([0; 4096]);
        assert_eq!(tail(&[&log.bytes]), expected, "space is reserved after it");

        log.bytes.truncate(whole);
        log.entry(3, 3, 5000);
        for cut in (whole..log.bytes.len()).step_by(61) {
            assert_eq!(tail(&[&log.bytes[..cut]]), expected, "torn after {cut} bytes");
        }
        log.bytes[whole + 2000] ^= 1;
        assert_eq!(tail(&[&log.bytes]), expected, "a checksum that does not match");
    }

    #[test]
    fn a_file_that_has_no_entry_yet_is_read_with_the_one_before() {
        let mut first = Writer::new(0);
        first.state(2, 4);
        first.entry(5, 2, 100);
        let mut second = Writer::new(first.crc);
        second.state(4, 5);
        let expected = Tail { term: 4, commit: 5, last: Position { index: 5, term: 2 } };
        assert_eq!(tail(&[&first.bytes, &second.bytes]), expected);
    }

    #[test]
    fn a_snapshot_of_the_leader_replaces_the_entries_before_once_it_is_committed() {
        let mut log = Writer::new(0);
        log.state(2, 4);
        log.entry(5, 2, 100);
        log.snapshot(900, 3);
        assert_eq!(tail(&[&log.bytes]).last, Position { index: 5, term: 2 });
        log.state(3, 900);
        assert_eq!(tail(&[&log.bytes]).last, Position { index: 900, term: 3 });
    }
}
