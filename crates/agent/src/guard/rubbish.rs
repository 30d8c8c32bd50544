//! What readers of a volume and of restored snapshots may meet: files that begin as etcd writes them, and are changed in places
//! ([`quorate_rubbish`]).

use std::path::{Path, PathBuf};
use std::time::Instant;

use quorate_rubbish::{Chance, LONGEST};

use super::{bolt, wal};

/// Calls `read` with a file of each round.
fn each_round(seed: &dyn Fn(&mut Chance) -> Vec<u8>, read: &dyn Fn(&Path)) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    quorate_rubbish::each_round(1000, 30, |chance| {
        std::fs::write(&path, seed(chance)).unwrap();
        read(&path);
    });
}

fn read_log(path: &Path) {
    let _ = wal::origin(path);
    let _ = wal::tail(&[PathBuf::from(path), PathBuf::from(path)], Instant::now() + LONGEST);
}

fn read_database(path: &Path) {
    let _ = bolt::check(path);
    let _ = bolt::stored(path);
    let _ = bolt::storage_version(path);
    let _ = bolt::cluster_version(path);
    let _ = bolt::last_revision(path);
}

#[test]
fn no_damage_to_a_log_makes_its_readers_panic_or_hang() {
    let log = wal::seed(&[]);
    each_round(
        &|chance| {
            let mut log = log.clone();
            chance.damage(&mut log);
            log
        },
        &read_log,
    );
}

#[test]
fn no_content_of_records_with_right_checksums_makes_the_readers_of_a_log_panic_or_hang() {
    each_round(
        &|chance| {
            let records: Vec<(i64, Vec<u8>)> = (0..=chance.below(6))
                .map(|_| {
                    let mut data = vec![8, 0, 16, 2, 24, 9, 34, 3, 7, 7, 7];
                    chance.damage(&mut data);
                    (i64::try_from(chance.below(7)).unwrap(), data)
                })
                .collect();
            wal::seed(&records)
        },
        &read_log,
    );
}

#[test]
fn no_damage_to_a_database_makes_its_readers_panic_or_hang() {
    each_round(
        &|chance| {
            let mut database = database();
            chance.damage(&mut database);
            // A meta page that says nonsense of itself is not read: half of them say it with the right checksum.
            if chance.below(2) == 0 {
                seal(&mut database);
            }
            database
        },
        &read_database,
    );
}

#[test]
fn the_seeds_are_read_as_what_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let log = file("log", &wal::seed(&[(2, vec![8, 0, 16, 2, 24, 9])]));
    assert!(wal::origin(&log).unwrap().is_ok());
    assert_eq!(wal::tail(&[log], Instant::now() + LONGEST).unwrap().last.index, 9);
    let database = file("db", &database());
    assert_eq!(bolt::check(&database).unwrap(), Ok(()));
    let stored = bolt::stored(&database).unwrap().unwrap();
    assert_eq!((stored.consistent_index, stored.term, stored.revision), (77, 3, 5));
    assert_eq!(bolt::storage_version(&database).unwrap(), Ok(Some("3.6.0".to_owned())));
    assert_eq!(bolt::cluster_version(&database).unwrap(), Ok(Some("3.7.0".to_owned())));
    assert_eq!(bolt::last_revision(&database).unwrap(), Ok(5));
}

const PAGE: usize = 1024;

/// A file of bbolt with the buckets `cluster`, `key` and `meta` within their parent's page.
fn database() -> Vec<u8> {
    let key = page(0, 2, &[(0, &[&5_u64.to_be_bytes()[..], b"_", &[0; 8]].concat(), b"v")]);
    let meta = page(
        0,
        2,
        &[
            (0, b"consistent_index", &77_u64.to_be_bytes()),
            (0, b"storageVersion", b"3.6.0"),
            (0, b"term", &3_u64.to_be_bytes()),
        ],
    );
    let bucket = |content: Vec<u8>| [vec![0; 16], content].concat();
    let cluster = page(0, 2, &[(0, b"clusterVersion", b"3.7.0")]);
    let root = page(
        3,
        2,
        &[(1, b"cluster", &bucket(cluster)), (1, b"key", &bucket(key)), (1, b"meta", &bucket(meta))],
    );
    let mut file = vec![0; 4 * PAGE];
    for number in [0_usize, 1] {
        let at = number * PAGE;
        file[at] = u8::try_from(number).unwrap();
        file[at + 8] = 4;
        let content = &mut file[at + 16..];
        content[..4].copy_from_slice(&0xED0C_DAED_u32.to_ne_bytes());
        content[4..8].copy_from_slice(&2_u32.to_ne_bytes());
        content[8..12].copy_from_slice(&u32::try_from(PAGE).unwrap().to_ne_bytes());
        content[16..24].copy_from_slice(&3_u64.to_ne_bytes());
        content[40..48].copy_from_slice(&4_u64.to_ne_bytes());
        content[48..56].copy_from_slice(&(number as u64 + 1).to_ne_bytes());
    }
    file[2 * PAGE] = 2;
    file[2 * PAGE + 8] = 16;
    file[3 * PAGE..3 * PAGE + root.len()].copy_from_slice(&root);
    seal(&mut file);
    file
}

/// A leaf page with elements of flags, key and value.
fn page(number: u64, flags: u16, elements: &[(u32, &[u8], &[u8])]) -> Vec<u8> {
    let mut page = number.to_ne_bytes().to_vec();
    page.extend(flags.to_ne_bytes());
    page.extend(u16::try_from(elements.len()).unwrap().to_ne_bytes());
    page.extend([0; 4]);
    // Offsets count from the element itself.
    let mut end = 16 * elements.len();
    for (n, (flags, key, value)) in elements.iter().enumerate() {
        let lengths = [end - 16 * n, key.len(), value.len()].map(|number| u32::try_from(number).unwrap());
        page.extend(flags.to_ne_bytes());
        page.extend(lengths.into_iter().flat_map(u32::to_ne_bytes));
        end += key.len() + value.len();
    }
    for (_, key, value) in elements {
        page.extend(*key);
        page.extend(*value);
    }
    page
}

/// Gives both meta pages the checksums of what they say.
fn seal(file: &mut [u8]) {
    for at in [16, PAGE + 16] {
        let Some(content) = file.get_mut(at..at + 64) else { continue };
        let hash = content[..56].iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        content[56..].copy_from_slice(&hash.to_ne_bytes());
    }
}
