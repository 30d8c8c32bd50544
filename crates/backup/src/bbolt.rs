//! What a file of bbolt is made of, as far as it is read here: pages of which the first two name the root of the tree.
//!
//! A page begins with id (8 bytes), flags (2), count (2), overflow (4); a meta page goes on with magic (4), version (4), page size (4),
//! flags (4), root page (8), sequence (8), free list (8), number of pages (8), transaction (8), and the FNV-1a hash of all that (8).
//! Numbers are in the byte order of the machine (`page.go`, `meta.go` of go.etcd.io/bbolt).

/// Bytes before the content of a page.
pub const PAGE_HEADER: usize = 16;
/// Bytes of the content of a meta page.
pub const META: usize = 64;
/// The flags of a page of a tree with children.
pub const BRANCH: u16 = 1;
/// The flags of a page of a tree with keys and values.
pub const LEAF: u16 = 2;

const MAGIC: u32 = 0xED0C_DAED;
const VERSION: u32 = 2;

/// The content of a valid meta page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    /// Bytes of each page.
    pub page_size: u64,
    /// The page where the list of buckets begins.
    pub root: u64,
    /// How many pages the file has.
    pub pages: u64,
    /// The transaction that wrote it. Of two meta pages the later counts.
    pub transaction: u64,
}

impl Meta {
    /// Reads the content of a meta page; `None` if it is not valid.
    pub fn read(content: &[u8]) -> Option<Self> {
        let hashed = content.get(..META - 8)?;
        let is_valid = is_bbolt(content) && u64_at(content, META - 8)? == fnv1a(hashed);
        is_valid.then_some(Self {
            page_size: u32_at(content, 8)?.into(),
            root: u64_at(content, 16)?,
            pages: u64_at(content, 40)?,
            transaction: u64_at(content, 48)?,
        })
    }
}

/// Whether the content of a page begins as that of a meta page.
pub(crate) fn is_bbolt(content: &[u8]) -> bool {
    u32_at(content, 0) == Some(MAGIC) && u32_at(content, 4) == Some(VERSION)
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(u16::from_ne_bytes)
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes)
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8)?.try_into().ok().map(u64::from_ne_bytes)
}

/// bbolt's check of a meta page.
pub(crate) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
