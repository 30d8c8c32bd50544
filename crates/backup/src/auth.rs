//! Whether etcd's auth is enabled in a snapshot, found while its bytes pass by.
//!
//! A snapshot is a file of bbolt. Its first two pages name the page of the list of buckets. That list has the bucket `auth` within it, since
//! bbolt keeps a bucket of few bytes in the page of its parent, and `auth` has two short keys, `authEnabled` and `authRevision`
//! (`server/storage/schema/auth.go` of etcd 3.5 to 3.7). Pages come in any order, and pages that are not used any more come as well. So
//! what each page that looks like a part of the list says is kept by its number, and which ones are the list is known at the end.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::AsyncWrite;

use crate::bbolt::{BRANCH, LEAF, Meta, PAGE_HEADER, is_bbolt, u16_at, u32_at, u64_at};

/// Bytes of an element of a page, without its key and its value.
const ELEMENT: usize = 16;
/// Bytes before the page within a value that is a bucket.
const BUCKET: usize = 16;
/// The flags of a meta page.
const META_PAGE: u16 = 4;

/// More pages with a list of buckets than any file of etcd has.
const MOST: usize = 1 << 17;

/// Finds it out.
#[derive(Debug, Default)]
pub(crate) struct AuthScan {
    /// Bytes of the page that is not whole yet.
    rest: Vec<u8>,
    /// Bytes of a page, once known.
    page_size: usize,
    /// The number of the next page.
    next: u64,
    /// It is no file of bbolt that can be read.
    unreadable: bool,
    /// The transaction and the page of the list of buckets, by the first two pages.
    root: Option<(u64, u64)>,
    /// If the list has several pages: which.
    parts: Vec<u64>,
    /// What the pages with a list of buckets say, if they have the bucket.
    lists: BTreeMap<u64, Option<bool>>,
}

impl AuthScan {
    /// The next bytes.
    pub(crate) fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && !self.unreadable {
            let wanted = if self.page_size == 0 { PAGE_HEADER + 12 } else { self.page_size };
            let taken = bytes.len().min(wanted - self.rest.len());
            self.rest.extend_from_slice(&bytes[..taken]);
            bytes = &bytes[taken..];
            if self.rest.len() < wanted {
                return;
            }
            if self.page_size == 0 {
                self.begin();
            } else {
                let page = std::mem::take(&mut self.rest);
                self.page(&page);
                self.rest = page;
                self.rest.clear();
                self.next += 1;
            }
        }
    }

    /// Whether auth is enabled; `None`: it cannot be told.
    pub(crate) fn finish(&self) -> Option<bool> {
        let (_, root) = self.root.filter(|_| !self.unreadable)?;
        let pages = std::iter::once(&root).chain(&self.parts);
        pages.filter_map(|page| self.lists.get(page)).find_map(|found| *found)
    }

    fn begin(&mut self) {
        let page = &self.rest[PAGE_HEADER..];
        let size = u32_at(page, 8).and_then(|size| usize::try_from(size).ok()).unwrap_or_default();
        if is_bbolt(page) && size.is_power_of_two() && (512..=1 << 16).contains(&size) {
            self.page_size = size;
        } else {
            self.unreadable = true;
        }
    }

    fn page(&mut self, page: &[u8]) {
        let Some(flags) = u16_at(page, 8).filter(|_| u64_at(page, 0) == Some(self.next)) else { return };
        if flags == META_PAGE && self.next < 2 {
            self.meta(page);
        } else if flags == BRANCH && self.root.is_some_and(|(_, root)| root == self.next) {
            let count = usize::from(u16_at(page, 10).unwrap_or_default());
            self.parts = (0..count).filter_map(|n| u64_at(page, PAGE_HEADER + n * ELEMENT + 8)).collect();
        } else if flags == LEAF && elements(page).next().is_some_and(|first| first.is_bucket) {
            let auth = elements(page).find(|element| element.is_bucket && element.key == b"auth");
            let enabled = auth.and_then(|auth| enabled(auth.value));
            self.lists.insert(self.next, enabled);
            self.unreadable |= self.lists.len() > MOST;
        }
    }

    fn meta(&mut self, page: &[u8]) {
        if let Some(meta) = page.get(PAGE_HEADER..).and_then(Meta::read) {
            self.root = self.root.max(Some((meta.transaction, meta.root)));
        }
    }
}

impl AsyncWrite for AuthScan {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.update(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

struct Element<'a> {
    is_bucket: bool,
    key: &'a [u8],
    value: &'a [u8],
}

/// The elements of a leaf page, up to one that does not lie within it.
fn elements(page: &[u8]) -> impl Iterator<Item = Element<'_>> {
    let count = usize::from(u16_at(page, 10).unwrap_or_default());
    (0..count).map_while(|n| {
        let begin = PAGE_HEADER + n * ELEMENT;
        let size = |at: usize| usize::try_from(u32_at(page, begin + at)?).ok();
        let key = begin.checked_add(size(4)?)?;
        let value = key.checked_add(size(8)?)?;
        let end = value.checked_add(size(12)?)?;
        let is_bucket = u32_at(page, begin)? & 1 == 1;
        Some(Element { is_bucket, key: page.get(key..value)?, value: page.get(value..end)? })
    })
}

/// What the bucket says. One that is not within its parent's page tells nothing.
fn enabled(bucket: &[u8]) -> Option<bool> {
    let page = bucket.get(BUCKET..).filter(|_| u64_at(bucket, 0) == Some(0))?;
    let found = elements(page).find(|element| element.key == b"authEnabled");
    Some(found.is_some_and(|found| found.value == [1]))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use quorate_rubbish::each_round;
    use tokio::io::AsyncReadExt;

    use super::*;
    use crate::bbolt::fnv1a;
    use crate::codec;

    /// A snapshot of a real etcd: `etcdctl snapshot save`, then `zstd -19`. `off`: one key. `on`: then `user add root`, `role add root`, `user
    /// grant-role root root`, `auth enable`. `many`: then 30 users and 30 roles. `off-again`: then `auth disable`.
    async fn snapshot(name: &str) -> Vec<u8> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/auth").join(format!("{name}.db.zst"));
        let object = tokio::fs::File::open(path).await.unwrap();
        let mut decoder = codec::decoder(object, Path::new("/nowhere")).await.unwrap();
        let mut bytes = Vec::new();
        decoder.read_to_end(&mut bytes).await.unwrap();
        bytes
    }

    fn scan(bytes: &[u8], at_a_time: usize) -> Option<bool> {
        let mut scan = AuthScan::default();
        for part in bytes.chunks(at_a_time) {
            scan.update(part);
        }
        scan.finish()
    }

    #[tokio::test]
    async fn no_damage_to_a_snapshot_makes_the_scan_panic_or_hang() {
        let snapshots = [snapshot("3.5-on").await, snapshot("3.6-many").await];
        each_round(500, 20, |chance| {
            let mut bytes = chance.one_of(&snapshots).clone();
            // All of it, or one page.
            if chance.below(2) == 0 {
                chance.damage(&mut bytes);
            } else {
                let at = chance.below(bytes.len() / 4096) * 4096;
                let mut page = bytes[at..at + 4096].to_vec();
                chance.damage(&mut page);
                bytes.splice(at..at + 4096, page);
            }
            scan(&bytes, *chance.one_of(&[512, 4096, 10_000]));
        });
    }

    #[tokio::test]
    async fn o03_auth_is_found_in_snapshots_of_every_minor_version() {
        for (name, enabled) in [
            ("3.5-off", false),
            ("3.6-off", false),
            ("3.7-off", false),
            ("3.5-on", true),
            ("3.6-on", true),
            ("3.7-on", true),
            ("3.5-many", true),
            ("3.6-many", true),
            ("3.7-off-again", false),
        ] {
            let bytes = snapshot(name).await;
            for at_a_time in [1 << 18, 4096, 1000, 7] {
                assert_eq!(scan(&bytes, at_a_time), Some(enabled), "{name}, {at_a_time} bytes at a time");
            }
        }
    }

    /// The list of buckets is split: its page is one of `BRANCH`, and the parts are before and after it.
    #[tokio::test]
    async fn o03_auth_is_found_where_the_list_of_buckets_has_several_pages() {
        let mut bytes = snapshot("3.6-on").await;
        let mut whole = AuthScan::default();
        whole.update(&bytes);
        let (_, root) = whole.root.unwrap();
        let pages = bytes.len() / 4096;
        let number = |n: usize| u64::try_from(n).unwrap().to_le_bytes();
        // A page at the end names the old one as its second part.
        let mut branch = vec![0; 4096];
        branch[..8].copy_from_slice(&number(pages));
        (branch[8], branch[10]) = (1, 2);
        branch[PAGE_HEADER + 8..PAGE_HEADER + 16].copy_from_slice(&number(pages + 1));
        branch[PAGE_HEADER + ELEMENT + 8..PAGE_HEADER + ELEMENT + 16].copy_from_slice(&root.to_le_bytes());
        bytes.truncate(pages * 4096);
        bytes.extend_from_slice(&branch);
        for meta in [0, 4096] {
            bytes[meta + 32..meta + 40].copy_from_slice(&number(pages));
            let sum = fnv1a(&bytes[meta + 16..meta + 72]);
            bytes[meta + 72..meta + 80].copy_from_slice(&sum.to_le_bytes());
        }
        assert_eq!(scan(&bytes, 1000), Some(true));
    }

    #[tokio::test]
    async fn o03_what_is_no_file_of_etcd_or_is_damaged_tells_nothing_of_auth() {
        assert_eq!(scan(&[], 1), None);
        assert_eq!(scan(&vec![7; 100_000], 999), None);
        let bytes = snapshot("3.6-on").await;
        assert_eq!(scan(&bytes[..6000], 999), None, "it ends early");
        let mut damaged = bytes.clone();
        (damaged[40], damaged[4096 + 40]) = (9, 9);
        assert_eq!(scan(&damaged, 999), None, "both roots");
        // Whatever is in it, reading it ends.
        for at in (0..bytes.len()).step_by(3) {
            let mut damaged = bytes.clone();
            damaged[at] = 0xff;
            scan(&damaged, 4096);
        }
    }
}
