//! What is listed, in which order, and what is left out.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use quorate_api::Destination;
use quorate_api::destination::Pvc;
use quorate_api::job::Origin;

use super::*;
use crate::Places;
use crate::manifest::{FORMAT, key_of, to_bytes};

const NOW: &str = "2026-11-27T12:00:00Z";

/// A backup of `tenant/demo`.
fn manifest(name: &str, finished: &str) -> Manifest {
    Manifest {
        format: FORMAT,
        origin: Origin {
            namespace: "tenant".to_owned(),
            backup: name.to_owned(),
            cluster: Some("demo".to_owned()),
            ..Origin::default()
        },
        key: format!("tenant/demo/{name}.db.zst"),
        stored_bytes: 4,
        stored_sha256: "5".repeat(64),
        cluster_id: "a1".to_owned(),
        finished: finished.to_owned(),
        ..Manifest::default()
    }
}

/// At this key, whatever the manifest says.
fn put_at(root: &Path, key: &str, manifest: &Manifest) {
    let object = root.join(key);
    fs::create_dir_all(object.parent().unwrap()).unwrap();
    fs::write(&object, b"data").unwrap();
    fs::write(root.join(key_of(key)), to_bytes(manifest)).unwrap();
}

fn put(root: &Path, manifest: &Manifest) {
    put_at(root, &manifest.key, manifest);
}

async fn list_in(root: &Path, after: Option<ListedUpTo>, most: usize) -> Result<ListedBackups> {
    list_with(root, after, most, None).await
}

/// With these keys, what no other has signed; without, all.
async fn list_with(
    root: &Path,
    after: Option<ListedUpTo>,
    most: usize,
    keys: Option<&Keys>,
) -> Result<ListedBackups> {
    let order = ListOrder {
        destination: Destination { pvc: Some(Pvc::default()), ..Destination::default() },
        cluster: ClusterName { namespace: "tenant".to_owned(), name: "demo".to_owned() },
        after,
        most,
        allow_unsigned: keys.is_none(),
    };
    let places = Places { pvc: root.to_owned(), ..Places::default() };
    let store = Store::open(&order.destination, &places)?;
    page(&store, &order, keys.unwrap_or(&Keys::default()), NOW.parse().unwrap(), |_| {}).await
}

fn names(listed: &ListedBackups) -> Vec<&str> {
    listed.backups.iter().map(|one| one.key.strip_prefix("tenant/demo/").unwrap()).collect()
}

#[tokio::test]
async fn o02_what_a_store_has_is_listed_the_newest_first_each_object_on_one_page() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    // More than are kept at a time, and several of one second.
    for number in 0..90 {
        put(root, &manifest(&format!("b-{number:02}"), &format!("2026-11-{:02}T02:00:00Z", 1 + number / 4)));
    }
    let (mut after, mut seen, mut pages) = (None, Vec::new(), 0);
    loop {
        let page = list_in(root, after, 10).await.unwrap();
        assert_eq!((page.objects, page.of_cluster, page.skipped), (180, 90, 0));
        assert!(page.backups.len() <= 10 && page.backups.iter().all(|one| one.sha256 == "5".repeat(64)));
        seen.extend(page.backups.into_iter().map(|one| one.key));
        pages += 1;
        // What is written meanwhile is newer, and on no later page.
        put(root, &manifest("meanwhile", "2026-11-27T11:59:00Z"));
        fs::remove_file(root.join("tenant/demo/meanwhile.db.zst.json")).unwrap();
        fs::remove_file(root.join("tenant/demo/meanwhile.db.zst")).unwrap();
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    assert_eq!((seen.len(), pages), (90, 9));
    assert_eq!(seen.iter().collect::<BTreeSet<_>>().len(), 90, "each once");
    assert_eq!(seen[0], "tenant/demo/b-89.db.zst");
    assert_eq!(seen[89], "tenant/demo/b-00.db.zst");
}

#[tokio::test]
async fn o02_of_another_namespace_and_of_another_name_nothing_is_listed() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    put(root, &manifest("own", "2026-11-25T02:00:00Z"));
    let mut other = manifest("other", "2026-11-26T02:00:00Z");
    (other.origin.namespace, other.key) = ("else".to_owned(), "else/demo/other.db".to_owned());
    put(root, &other);
    let mut beside = manifest("beside", "2026-11-26T02:00:00Z");
    (beside.origin.cluster, beside.key) = (Some("demo-2".to_owned()), "tenant/demo-2/beside.db".to_owned());
    put(root, &beside);
    // Put among those of the cluster: with their own key, and with a key of here.
    put_at(root, "tenant/demo/moved.db", &other);
    put(root, &Manifest { key: "tenant/demo/forged.db".to_owned(), ..other.clone() });
    let listed = list_in(root, None, 10).await.unwrap();
    assert_eq!((names(&listed), listed.of_cluster, listed.skipped), (vec!["own.db.zst"], 1, 2));
    assert_eq!(listed.next, None);
}

#[tokio::test]
async fn o02_what_is_forged_damaged_or_not_readable_is_left_out_and_counted_and_hides_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    put(root, &manifest("good", "2026-11-24T02:00:00Z"));
    put(root, &manifest("older", "2026-11-23T02:00:00Z"));
    put(root, &manifest("future", "2027-11-24T02:00:00Z"));
    put(root, &Manifest { stored_sha256: "x".repeat(64), ..manifest("hash", "2026-11-25T02:00:00Z") });
    put(root, &Manifest { format: FORMAT + 1, ..manifest("newer", "2026-11-25T02:00:00Z") });
    let gone = manifest("gone", "2026-11-25T03:00:00Z");
    put(root, &gone);
    fs::remove_file(root.join(&gone.key)).unwrap();
    put(root, &Manifest { stored_bytes: 5, ..manifest("short", "2026-11-25T02:00:00Z") });
    fs::write(root.join("tenant/demo/notes.db.json"), b"{}").unwrap();
    // A name that no answer has room for, and one with another meaning in JSON.
    let long = format!("{}.db", "l".repeat(230));
    put_at(root, &format!("tenant/demo/{long}"), &manifest("long", "2026-11-25T02:00:00Z"));
    put(root, &Manifest { key: "tenant/demo/a\"b.db".to_owned(), ..manifest("odd", "2026-11-25T02:00:00Z") });
    let first = list_in(root, None, 1).await.unwrap();
    assert_eq!((names(&first), first.of_cluster, first.notes.len()), (vec!["good.db.zst"], 4, 3));
    let second = list_in(root, first.next, 1).await.unwrap();
    assert_eq!((names(&second), second.next.is_none()), (vec!["older.db.zst"], true));
    let all = list_in(root, None, 10).await.unwrap();
    assert_eq!((names(&all), all.skipped), (vec!["good.db.zst", "older.db.zst"], 8));
}

#[tokio::test]
async fn o02_a_page_of_the_longest_names_fits_into_an_answer() {
    let (namespace, cluster) = ("n".repeat(63), "c".repeat(52));
    let uid = "0c8f27b4-8a5d-4f39-9a94-6a5b7f1f6f0e";
    let key = format!("{namespace}/{cluster}/{}-{uid}.db.zst.age", "b".repeat(63));
    assert!(has_layout(&ClusterName { namespace, name: cluster }, &key));
    let next = ListedUpTo { finished: "2026-11-27T12:00:00.123456789Z".to_owned(), key: key.clone() };
    let one = ExistingObject { key, sha256: "5".repeat(64), ..ExistingObject::default() };
    let (objects, of_cluster, skipped) = (u64::MAX, u64::MAX, u64::MAX);
    let backups = vec![one; 10];
    let listed = ListedBackups { backups, next: Some(next), objects, of_cluster, skipped, notes: Vec::new() };
    let answer = quorate_api::job::Answer::Listed(listed);
    assert!(serde_json::to_string(&answer).unwrap().len() <= 4096);
}

#[tokio::test]
async fn o02_a_claim_that_is_not_mounted_is_not_empty() {
    let failure = list_in(Path::new("/nowhere"), None, 10).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::StoreUnavailable, "{}", failure.message);
}

#[tokio::test]
async fn o15_a_list_has_what_a_key_of_the_namespace_has_signed() {
    let dir = tempfile::tempdir().unwrap();
    let own = Keys::of(1);
    let mut genuine = manifest("night", "2026-11-27T02:00:00Z");
    own.sign(&mut genuine);
    put(dir.path(), &genuine);
    put(dir.path(), &manifest("forged", "2026-11-27T03:00:00Z"));
    let listed = list_with(dir.path(), None, 10, Some(&own)).await.unwrap();
    assert_eq!((names(&listed), listed.skipped), (vec!["night.db.zst"], 1));
    assert!(listed.notes[0].contains("has no signature"), "{:?}", listed.notes);
    assert!(!listed.backups[0].allow_unsigned, "its EtcdBackup looks for the signature again");
    let all = list_in(dir.path(), None, 10).await.unwrap();
    assert!(all.backups.len() == 2 && all.backups[0].allow_unsigned);
}
