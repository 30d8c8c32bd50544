//! Whether bbolt would open a database file. It has two meta pages, written in turn; one valid one is enough.
//!
//! [`quorate_backup::bbolt`] has the format.
//!
//! - `tree`: the content

mod tree;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use quorate_backup::bbolt::{BRANCH, LEAF, META, Meta, PAGE_HEADER};

pub(super) use tree::{cluster_version, last_revision, storage_version, stored};

/// With `--unsafe-no-fsync` the file is not grown ahead, and pages freed before they were written may lack at its end.
const SLACK_PAGES: u64 = 256;

/// Reads the meta pages and the root page. The inner error says what is wrong with the content.
pub(super) fn check(path: &Path) -> io::Result<Result<(), String>> {
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    let Some(meta) = newest(&file)? else {
        return Ok(Err("neither meta page is valid".to_owned()));
    };
    let claimed = meta.pages.saturating_mul(meta.page_size);
    if size.saturating_add(SLACK_PAGES * meta.page_size) < claimed {
        return Ok(Err(format!("it is cut off: {size} bytes of {claimed}")));
    }
    Ok(root_is_sound(&file, &meta)?.then_some(()).ok_or_else(|| "its root page is overwritten".to_owned()))
}

/// The valid meta page of the last transaction.
fn newest(file: &File) -> io::Result<Option<Meta>> {
    let first = meta_at(file, 0)?;
    // The second page begins where the first one ends, wherever that is; bbolt searches the same places.
    let places = first.as_ref().map_or(1024..=(1024 << 14), |meta| meta.page_size..=meta.page_size);
    let mut second = None;
    let mut at = *places.start();
    while second.is_none() && at <= *places.end() {
        second = meta_at(file, at)?;
        at *= 2;
    }
    Ok(first.into_iter().chain(second).max_by_key(|meta| meta.transaction))
}

fn meta_at(file: &File, at: u64) -> io::Result<Option<Meta>> {
    let mut page = [0; PAGE_HEADER + META];
    if !read_at(file, &mut page, at)? {
        return Ok(None);
    }
    Ok(Meta::read(&page[PAGE_HEADER..]))
}

fn root_is_sound(file: &File, meta: &Meta) -> io::Result<bool> {
    let mut page = [0; PAGE_HEADER];
    let there = read_at(file, &mut page, meta.root.saturating_mul(meta.page_size))?;
    let flags = u16::from_ne_bytes([page[8], page[9]]);
    Ok(there && u64_at(&page, 0) == meta.root && (flags == BRANCH || flags == LEAF))
}

/// Whether there was so much to read.
fn read_at(file: &File, buf: &mut [u8], at: u64) -> io::Result<bool> {
    match file.read_exact_at(buf, at) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
