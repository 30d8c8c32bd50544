//! What etcd keeps in its database: keys of bbolt's buckets, read without a lock.
//!
//! A bucket is a tree of pages. A branch page has elements of offset of the key (4 bytes), its length (4) and the child page (8); a
//! leaf page has flags (4), offset (4), length of the key (4) and of the value (4). Offsets count from the element itself. The
//! value of a bucket is its root page (8) and a sequence (8); with root 0 its only page follows in the value.
//!
//! A transaction of a running etcd writes to pages that the tree before it does not use, and then one of the two meta pages. What was read
//! is valid if no more than one transaction was committed meanwhile.

use std::fs::File;
use std::io;
use std::path::Path;

use super::{BRANCH, LEAF, Meta, PAGE_HEADER, newest, read_at, u32_at, u64_at};

const BUCKET: u32 = 1;
const ELEMENT: u64 = 16;
/// Deeper than any tree that fits on a disk.
const DEEPEST: usize = 32;
/// No key that is read here is longer.
const LONGEST_KEY: usize = 64;
/// No version is longer.
const LONGEST_VERSION: u64 = 64;
const ATTEMPTS: usize = 5;

/// What the database knows of raft and of the keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::guard) struct Stored {
    pub(in crate::guard) consistent_index: u64,
    pub(in crate::guard) term: u64,
    pub(in crate::guard) revision: i64,
}

/// Reads it. The inner error says what is wrong with the content.
pub(in crate::guard) fn stored(path: &Path) -> io::Result<Result<Stored, String>> {
    let file = File::open(path)?;
    let mut why = String::new();
    for _ in 0..ATTEMPTS {
        let Some(meta) = newest(&file)? else { return Ok(Err("neither meta page is valid".to_owned())) };
        let read = Tree { file: &file, meta: &meta }.stored()?;
        let now = newest(&file)?.map_or(u64::MAX, |meta| meta.transaction);
        match read {
            Some(stored) if now <= meta.transaction.saturating_add(1) => return Ok(Ok(stored)),
            Some(_) => "it changes while it is read".clone_into(&mut why),
            None if now == meta.transaction => return Ok(Err("a page is not what it must be".to_owned())),
            None => "a page is not what it must be, while it is written".clone_into(&mut why),
        }
    }
    Ok(Err(why))
}

/// Reads the version of the data that a file names which nobody writes, such as `3.6.0`; `None` if it names none, as before etcd 3.6.
/// The inner error says what is wrong with the content.
pub(in crate::guard) fn storage_version(path: &Path) -> io::Result<Result<Option<String>, String>> {
    version(path, b"meta", b"storageVersion")
}

/// Reads the cluster version of a file that nobody writes; `None` if it has none yet. The leader of 3.5 and later raises it to what all members run,
/// and a downgrade lowers it.
pub(in crate::guard) fn cluster_version(path: &Path) -> io::Result<Result<Option<String>, String>> {
    version(path, b"cluster", b"clusterVersion")
}

fn version(path: &Path, bucket: &[u8], key: &[u8]) -> io::Result<Result<Option<String>, String>> {
    let file = File::open(path)?;
    let Some(meta) = newest(&file)? else { return Ok(Err("neither meta page is valid".to_owned())) };
    let version = Tree { file: &file, meta: &meta }.version(bucket, key)?;
    Ok(version.ok_or_else(|| "a page is not what it must be".to_owned()))
}

/// Reads the last revision among the keys of a file that nobody writes, 0 if it has none. etcdutl adds to it when it raises revisions. The
/// inner error says what is wrong with the content.
pub(in crate::guard) fn last_revision(path: &Path) -> io::Result<Result<i64, String>> {
    let file = File::open(path)?;
    let Some(meta) = newest(&file)? else { return Ok(Err("neither meta page is valid".to_owned())) };
    let tree = Tree { file: &file, meta: &meta };
    let last = match tree.keys()? {
        Some(keys) => tree.last_revision(keys)?,
        None => None,
    };
    let last = last.map(|last| i64::try_from(last).unwrap_or(i64::MAX));
    Ok(last.ok_or_else(|| "a page is not what it must be".to_owned()))
}

/// A place in the file where a page begins.
#[derive(Clone, Copy)]
struct Page {
    at: u64,
    leaf: bool,
    count: u64,
}

#[derive(Clone, Copy)]
struct Element {
    flags: u32,
    /// The child of a branch.
    child: u64,
    key_at: u64,
    key_length: usize,
    value_length: u64,
}

struct Tree<'a> {
    file: &'a File,
    meta: &'a Meta,
}

/// `None` where the content is not a tree.
type Read<T> = io::Result<Option<T>>;

impl Tree<'_> {
    fn stored(&self) -> Read<Stored> {
        let Some(root) = self.page(self.meta.root)? else { return Ok(None) };
        let Some(meta) = self.bucket(root, b"meta")? else { return Ok(None) };
        let Some(keys) = self.keys()? else { return Ok(None) };
        let number = |name: &[u8]| -> Read<u64> {
            let Some(found) = self.find(meta, name)? else { return Ok(None) };
            let Some(element) = found else { return Ok(Some(0)) };
            let mut value = [0; 8];
            let whole = element.value_length >= 8 && read_at(self.file, &mut value, element.value_at())?;
            Ok(whole.then(|| u64::from_be_bytes(value)))
        };
        let Some(consistent_index) = number(b"consistent_index")? else { return Ok(None) };
        let Some(term) = number(b"term")? else { return Ok(None) };
        let Some(last) = self.last_revision(keys)? else { return Ok(None) };
        // As etcd's `restore` decides: after a compaction the newest keys may be gone.
        let mut revision = last.max(1);
        for name in [&b"finishedCompactRev"[..], b"scheduledCompactRev"] {
            let Some(compacted) = number(name)? else { return Ok(None) };
            revision = revision.max(compacted);
        }
        let revision = i64::try_from(revision).unwrap_or(i64::MAX);
        Ok(Some(Stored { consistent_index, term, revision }))
    }

    /// The bucket of keys.
    fn keys(&self) -> Read<Page> {
        let Some(root) = self.page(self.meta.root)? else { return Ok(None) };
        self.bucket(root, b"key")
    }

    fn version(&self, bucket: &[u8], key: &[u8]) -> Read<Option<String>> {
        let Some(root) = self.page(self.meta.root)? else { return Ok(None) };
        let Some(bucket) = self.bucket(root, bucket)? else { return Ok(None) };
        let Some(found) = self.find(bucket, key)? else { return Ok(None) };
        let Some(element) = found else { return Ok(Some(None)) };
        let Ok(length) = usize::try_from(element.value_length.min(LONGEST_VERSION)) else { return Ok(None) };
        let mut value = vec![0; length];
        let whole = read_at(self.file, &mut value, element.value_at())?;
        Ok(whole.then(|| Some(String::from_utf8_lossy(&value).into_owned())))
    }

    /// The main revision of the last key of the bucket `key`; 0 if it is empty.
    fn last_revision(&self, mut page: Page) -> Read<u64> {
        for _ in 0..DEEPEST {
            if page.count == 0 {
                return Ok(page.leaf.then_some(0));
            }
            let Some(element) = self.element(page, page.count - 1)? else { return Ok(None) };
            if page.leaf {
                let Some(key) = self.key(&element)? else { return Ok(None) };
                return Ok(key.first_chunk::<8>().map(|main| u64::from_be_bytes(*main)));
            }
            match self.page(element.child)? {
                Some(child) => page = child,
                None => return Ok(None),
            }
        }
        Ok(None)
    }

    /// The root page of a bucket.
    fn bucket(&self, root: Page, name: &[u8]) -> Read<Page> {
        let Some(Some(element)) = self.find(root, name)? else { return Ok(None) };
        let mut head = [0; 8];
        if element.flags & BUCKET == 0 || !read_at(self.file, &mut head, element.value_at())? {
            return Ok(None);
        }
        match u64_at(&head, 0) {
            0 => self.page_at(element.value_at() + ELEMENT),
            page => self.page(page),
        }
    }

    /// The element with this key; the inner `None` if there is none.
    fn find(&self, mut page: Page, name: &[u8]) -> Read<Option<Element>> {
        for _ in 0..DEEPEST {
            // The last element whose key is not greater.
            let (mut low, mut high) = (0, page.count);
            let mut found = None;
            while low < high {
                let middle = u64::midpoint(low, high);
                let Some(element) = self.element(page, middle)? else { return Ok(None) };
                let Some(key) = self.key(&element)? else { return Ok(None) };
                if &*key <= name {
                    found = Some((element, key));
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            if page.leaf {
                return Ok(Some(found.filter(|(_, key)| key == name).map(|(element, _)| element)));
            }
            let child = match found {
                Some((element, _)) => element.child,
                None => match self.element(page, 0)? {
                    Some(first) => first.child,
                    None => return Ok(None),
                },
            };
            match self.page(child)? {
                Some(child) => page = child,
                None => return Ok(None),
            }
        }
        Ok(None)
    }

    /// A page of its own, which says its number.
    fn page(&self, number: u64) -> Read<Page> {
        let at = number.saturating_mul(self.meta.page_size);
        let mut id = [0; 8];
        let right = number < self.meta.pages && read_at(self.file, &mut id, at)? && u64_at(&id, 0) == number;
        if right { self.page_at(at) } else { Ok(None) }
    }

    fn page_at(&self, at: u64) -> Read<Page> {
        let mut head = [0; PAGE_HEADER];
        if !read_at(self.file, &mut head, at)? {
            return Ok(None);
        }
        let half = |at: usize| u16::from_ne_bytes([head[at], head[at + 1]]);
        let (flags, count) = (half(8), u64::from(half(10)));
        Ok((flags == LEAF || flags == BRANCH).then_some(Page { at, leaf: flags == LEAF, count }))
    }

    fn element(&self, page: Page, number: u64) -> Read<Element> {
        let at = page.at + PAGE_HEADER as u64 + number * ELEMENT;
        let mut bytes = [0; 16];
        if !read_at(self.file, &mut bytes, at)? {
            return Ok(None);
        }
        let word = |at: usize| u64::from(u32_at(&bytes, at));
        let (flags, offset, key, value, child) = if page.leaf {
            (u32_at(&bytes, 0), word(4), word(8), word(12), 0)
        } else {
            (0, word(0), word(4), 0, u64_at(&bytes, 8))
        };
        Ok(usize::try_from(key).ok().map(|key_length| Element {
            flags,
            child,
            key_at: at + offset,
            key_length,
            value_length: value,
        }))
    }

    fn key(&self, element: &Element) -> Read<Vec<u8>> {
        let mut key = vec![0; element.key_length.min(LONGEST_KEY)];
        Ok(read_at(self.file, &mut key, element.key_at)?.then_some(key))
    }
}

impl Element {
    fn value_at(&self) -> u64 {
        self.key_at + self.key_length as u64
    }
}
