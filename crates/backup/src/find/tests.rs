//! Which backup is taken as the newest, and what is refused.

use std::fs;
use std::path::Path;

use quorate_api::Destination;
use quorate_api::destination::{Pvc, S3, SecretName};
use quorate_api::job::{ClusterName, Origin};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::Places;
use crate::manifest::{FORMAT, key_of, to_bytes};

const NOW: &str = "2026-11-27T12:00:00Z";

/// A backup of `tenant/demo`: its name, cluster ID, time and revision.
fn manifest(name: &str, id: &str, finished: &str, revision: i64) -> Manifest {
    Manifest {
        format: FORMAT,
        origin: Origin {
            namespace: "tenant".to_owned(),
            backup: name.to_owned(),
            cluster: Some("demo".to_owned()),
            ..Origin::default()
        },
        key: format!("tenant/demo/{name}.db"),
        stored_bytes: 4,
        stored_sha256: "5".repeat(64),
        snapshot_bytes: 9,
        revision,
        etcd_version: "3.6.16".to_owned(),
        cluster_id: id.to_owned(),
        started: finished.to_owned(),
        finished: finished.to_owned(),
        ..Manifest::default()
    }
}

fn put(root: &Path, manifest: &Manifest) {
    let object = root.join("etcd").join(&manifest.key);
    fs::create_dir_all(object.parent().unwrap()).unwrap();
    fs::write(&object, b"data").unwrap();
    fs::write(root.join("etcd").join(key_of(&manifest.key)), to_bytes(manifest)).unwrap();
}

fn by_name() -> FindOrder {
    let pvc = Pvc { prefix: Some("etcd".to_owned()), ..Pvc::default() };
    FindOrder {
        destination: Destination { pvc: Some(pvc), ..Destination::default() },
        cluster: Some(ClusterName { namespace: "tenant".to_owned(), name: "demo".to_owned() }),
        allow_unsigned: true,
        ..FindOrder::default()
    }
}

fn by_id(id: &str) -> FindOrder {
    FindOrder { cluster: None, cluster_id: Some(id.to_owned()), ..by_name() }
}

async fn find_in(root: &Path, order: &FindOrder) -> Result<FoundBackup> {
    find_with(root, order, &Keys::default()).await
}

async fn find_with(root: &Path, order: &FindOrder, keys: &Keys) -> Result<FoundBackup> {
    let places = Places { pvc: root.to_owned(), ..Places::default() };
    let store = Store::open(&order.destination, &places)?;
    newest(&store, order, keys, NOW.parse().unwrap(), |_| {}).await
}

async fn find_of(manifests: &[Manifest], order: &FindOrder) -> Result<FoundBackup> {
    let dir = tempfile::tempdir().unwrap();
    for manifest in manifests {
        put(dir.path(), manifest);
    }
    find_in(dir.path(), order).await
}

#[track_caller]
fn refused(found: Result<FoundBackup>, kind: FailureKind, words: &[&str]) {
    let failure = found.unwrap_err();
    assert_eq!(failure.kind, kind, "{}", failure.message);
    for words in words {
        assert!(failure.message.contains(words), "{words}: {}", failure.message);
    }
}

#[tokio::test]
async fn o02_the_newest_is_told_by_its_manifest_and_not_by_its_name() {
    let all = [
        manifest("z", "a1", "2026-11-25T02:00:00Z", 50),
        manifest("a", "a1", "2026-11-27T09:30:00Z", 70),
        manifest("m", "a1", "2026-11-26T02:00:00Z", 60),
    ];
    let found = find_of(&all, &by_name()).await.unwrap();
    assert_eq!(
        (found.manifest.key.as_str(), found.manifest.revision, found.age.as_str()),
        ("tenant/demo/a.db", 70, "2h30m")
    );
    assert!(found.seen.starts_with("6 objects were seen, 3 of them manifests, 3 of those"), "{}", found.seen);
    assert_eq!(found.manifest.cluster_id, "a1");
    let before = FindOrder { before: Some("2026-11-26T02:00:00Z".to_owned()), ..by_name() };
    assert_eq!(
        find_of(&all, &before).await.unwrap().manifest.key,
        "tenant/demo/z.db",
        "finished before, and not at that time"
    );
    let early = FindOrder { before: Some("2026-01-01T00:00:00Z".to_owned()), ..by_name() };
    refused(find_of(&all, &early).await, FailureKind::NoBackup, &["finished before 2026-01-01"]);
    let found = find_of(&all, &by_id("00a1")).await.unwrap();
    assert_eq!(found.manifest.key, "tenant/demo/a.db", "a number, with or without leading zeros");
    refused(find_of(&all, &by_id("a2")).await, FailureKind::NoBackup, &["cluster ID a2", "6 objects"]);
}

#[tokio::test]
async fn o02_of_another_namespace_and_of_another_name_nothing_is_taken() {
    let mut other = manifest("x", "b2", "2026-11-27T11:00:00Z", 900);
    other.origin.namespace = "other".to_owned();
    other.key = "other/demo/x.db".to_owned();
    // Put where those of the cluster are, by whom ever.
    let mut moved = manifest("y", "b3", "2026-11-27T11:00:00Z", 900);
    moved.origin.cluster = Some("else".to_owned());
    let all = [manifest("a", "a1", "2026-11-27T09:00:00Z", 70), other, moved];
    assert_eq!(find_of(&all, &by_name()).await.unwrap().manifest.cluster_id, "a1");
    let elsewhere = ClusterName { namespace: "other".to_owned(), name: "demo".to_owned() };
    let order = FindOrder { cluster: Some(elsewhere), ..by_name() };
    assert_eq!(find_of(&all, &order).await.unwrap().manifest.cluster_id, "b2");
    assert_eq!(find_of(&all, &by_id("b3")).await.unwrap().manifest.cluster_id, "b3");
}

#[tokio::test]
async fn o02_a_name_takes_the_newest_of_clusters_that_follow_each_other_and_asks_where_another_may_be_meant()
{
    let raised = 2_180_000_000_000;
    let first = manifest("a", "a1", "2026-11-24T02:00:00Z", 5000);
    let restored = manifest("b", "b2", "2026-11-25T02:00:00Z", raised);
    let again = manifest("c", "c3", "2026-11-26T02:00:00Z", raised + 9);
    let found = find_of(&[first.clone(), restored.clone(), again.clone()], &by_name()).await.unwrap();
    assert_eq!(found.manifest.cluster_id, "c3");
    // Who applied the manifests without a restore has an empty cluster, and its backups are the newest.
    let empty = manifest("d", "d4", "2026-11-26T03:00:00Z", 12);
    let all = [first.clone(), restored.clone(), empty.clone()];
    let words = [
        "d4 began after",
        "with fewer revisions",
        "latest.clusterID",
        "b2 (backups: 1, the newest of 2026-11-25T02:00:00Z",
    ];
    refused(find_of(&all, &by_name()).await, FailureKind::Ambiguous, &words);
    assert_eq!(find_of(&all, &by_id("b2")).await.unwrap().manifest.revision, raised);
    // Of before it there is no doubt.
    let before = FindOrder { before: Some("2026-11-26T00:00:00Z".to_owned()), ..by_name() };
    assert_eq!(find_of(&all, &before).await.unwrap().manifest.cluster_id, "b2");
    // Restored after all: the empty one is not in the way.
    let after = manifest("e", "e5", "2026-11-26T05:00:00Z", raised + 99);
    let found = find_of(&[first.clone(), restored, empty, after], &by_name()).await.unwrap();
    assert_eq!(found.manifest.cluster_id, "e5");
    // Two that live at the same time, in two Kubernetes with one bucket.
    let twin = manifest("t", "e9", "2026-11-23T02:00:00Z", 1);
    let twin_later = manifest("u", "e9", "2026-11-25T02:00:00Z", 9000);
    let all = [twin, twin_later, first];
    refused(find_of(&all, &by_name()).await, FailureKind::Ambiguous, &["were backed up at the same time"]);
}

#[tokio::test]
async fn o02_what_is_not_whole_is_left_out_and_told() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    put(root, &manifest("good", "a1", "2026-11-24T02:00:00Z", 50));
    let short = manifest("short", "a1", "2026-11-25T02:00:00Z", 60);
    put(root, &short);
    fs::write(root.join("etcd").join(&short.key), b"dat").unwrap();
    let gone = manifest("gone", "a1", "2026-11-26T02:00:00Z", 70);
    put(root, &gone);
    fs::remove_file(root.join("etcd").join(&gone.key)).unwrap();
    let alone = Manifest { without_quorum: true, ..manifest("alone", "a1", "2026-11-27T02:00:00Z", 80) };
    put(root, &alone);
    // An upload that is not finished has no manifest, and another file is none.
    fs::write(root.join("etcd/tenant/demo/half.db"), b"ha").unwrap();
    fs::write(root.join("etcd/tenant/demo/notes.json"), b"{}").unwrap();
    let found = find_in(root, &by_name()).await.unwrap();
    assert_eq!(found.manifest.key, "tenant/demo/good.db");
    let skipped = found.skipped.join("\n");
    for words in [
        "alone.db of 2026-11-27T02:00:00Z was taken without a quorum",
        "gone.db is gone",
        "short.db is damaged",
        "notes.json",
    ] {
        assert!(skipped.contains(words), "{words}: {skipped}");
    }
    fs::remove_file(root.join("etcd/tenant/demo/good.db.json")).unwrap();
    refused(find_in(root, &by_name()).await, FailureKind::NoBackup, &["without a quorum", "gone.db is gone"]);
}

#[tokio::test]
async fn o02_a_manifest_of_the_future_or_of_a_newer_release_is_not_passed_over() {
    let good = manifest("a", "a1", "2026-11-27T09:00:00Z", 70);
    let ahead = manifest("f", "a1", "2026-11-27T12:09:00Z", 71);
    assert_eq!(
        find_of(&[good.clone(), ahead], &by_name()).await.unwrap().manifest.revision,
        71,
        "clocks of nodes differ"
    );
    let future = manifest("f", "a1", "2027-11-27T12:09:00Z", 71);
    let all = [good.clone(), future];
    refused(find_of(&all, &by_name()).await, FailureKind::Ambiguous, &["f.db", "2027", "latest.before"]);
    let before = FindOrder { before: Some(NOW.to_owned()), ..by_name() };
    assert_eq!(find_of(&all, &before).await.unwrap().manifest.revision, 70);
    let newer = Manifest { format: FORMAT + 1, ..manifest("n", "b2", "2026-11-20T00:00:00Z", 1) };
    let all = [good, newer];
    refused(find_of(&all, &by_name()).await, FailureKind::Unfit, &["newer release", "update the operator"]);
    assert_eq!(find_of(&all, &by_id("a1")).await.unwrap().manifest.revision, 70, "it is of another cluster");
}

#[tokio::test]
async fn n03_of_one_etcd_cluster_the_highest_revision_is_the_newest_whatever_clocks_of_nodes_say() {
    let all = [
        manifest("a", "a1", "2026-11-27T05:00:00Z", 50),
        manifest("b", "a1", "2026-11-27T06:00:00Z", 60),
        // Of a node that is six hours behind.
        manifest("c", "a1", "2026-11-27T01:00:00Z", 70),
    ];
    let found = find_of(&all, &by_name()).await.unwrap();
    assert_eq!(found.manifest.key, "tenant/demo/c.db");
    let told = &found.skipped[0];
    assert!(told.contains("b.db says") && told.contains("the revision decides"), "{told}");
    // Of one that is six hours ahead.
    let ahead = manifest("d", "a1", "2026-11-27T11:59:00Z", 55);
    assert_eq!(
        find_of(&[all[0].clone(), all[1].clone(), ahead], &by_name()).await.unwrap().manifest.revision,
        60
    );
    // By itself a difference of minutes is told of no clock.
    let near =
        [manifest("a", "a1", "2026-11-27T05:05:00Z", 50), manifest("b", "a1", "2026-11-27T05:00:00Z", 51)];
    let found = find_of(&near, &by_name()).await.unwrap();
    assert_eq!((found.manifest.revision, found.skipped), (51, Vec::new()));
}

#[tokio::test]
async fn n03_of_several_etcd_clusters_the_clock_of_the_api_server_tells_which_came_last() {
    let ordered = |at: &str, manifest: Manifest| Manifest { ordered: Some(at.to_owned()), ..manifest };
    let raised = 2_180_000_000_000;
    // The node that backed the first one up was two days ahead.
    let first = ordered("2026-11-24T02:00:00Z", manifest("a", "a1", "2026-11-26T02:00:00Z", 5000));
    let restored = ordered("2026-11-25T02:00:00Z", manifest("b", "b2", "2026-11-25T02:00:00Z", raised));
    let found = find_of(&[first.clone(), restored.clone()], &by_name()).await.unwrap();
    assert_eq!(found.manifest.cluster_id, "b2");
    // Neither clock may say that it is of later.
    let before = |at: &str| FindOrder { before: Some(at.to_owned()), ..by_id("a1") };
    let all = [first, restored];
    assert_eq!(find_of(&all, &before("2026-11-26T03:00:00Z")).await.unwrap().manifest.revision, 5000);
    refused(
        find_of(&all, &before("2026-11-25T00:00:00Z")).await,
        FailureKind::NoBackup,
        &["finished before"],
    );
    let behind = ordered("2026-11-26T02:00:00Z", manifest("c", "a1", "2026-11-24T02:00:00Z", 5000));
    refused(
        find_of(&[behind], &before("2026-11-25T00:00:00Z")).await,
        FailureKind::NoBackup,
        &["finished before"],
    );
}

#[tokio::test]
async fn n03_of_an_etcd_cluster_that_came_later_and_has_none_to_restore_the_reasons_are_told() {
    let first = manifest("a", "a1", "2026-11-24T02:00:00Z", 5000);
    let later = |name: &str| manifest(name, "b2", "2026-11-25T02:00:00Z", 2_180_000_000_000);
    let without_quorum = Manifest { without_quorum: true, ..later("b") };
    let found = find_of(&[first.clone(), without_quorum], &by_name()).await.unwrap();
    assert_eq!(found.manifest.key, "tenant/demo/a.db");
    assert!(
        found.skipped[0].contains("b.db of 2026-11-25T02:00:00Z was taken without a quorum"),
        "{found:?}"
    );
    // Its only backup is gone: the one before it is restored.
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), &first);
    put(dir.path(), &later("c"));
    fs::remove_file(dir.path().join("etcd/tenant/demo/c.db")).unwrap();
    let found = find_in(dir.path(), &by_name()).await.unwrap();
    assert_eq!(found.manifest.key, "tenant/demo/a.db");
    assert!(found.skipped[0].contains("c.db is gone"), "{found:?}");
}

#[tokio::test]
async fn o02_what_any_restore_was_to_give_up_is_not_the_newest() {
    for name in ["before-restore-u7", "before-restore-u1-2"] {
        let given_up = manifest(name, "a1", "2026-11-27T11:00:00Z", 90);
        let all = [manifest("b", "a1", "2026-11-26T09:00:00Z", 6), given_up.clone()];
        let found = find_of(&all, &by_name()).await.unwrap();
        assert_eq!(found.manifest.revision, 6);
        let told = &found.skipped[0];
        assert!(told.contains("name it as source") && told.contains(&"5".repeat(64)), "{told}");
        refused(find_of(&[given_up], &by_name()).await, FailureKind::NoBackup, &["name it as source"]);
    }
}

/// A server that answers every request so.
async fn find_where(reply: (u16, &'static str)) -> Result<FoundBackup> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = vec![0; 4096];
            let _ = stream.read(&mut request).await.unwrap_or(0);
            let (status, body) = reply;
            let head =
                format!("HTTP/1.1 {status} x\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
        }
    });
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("AWS_ACCESS_KEY_ID"), "id").unwrap();
    fs::write(dir.path().join("AWS_SECRET_ACCESS_KEY"), "key").unwrap();
    let s3 = S3 {
        bucket: "backups".to_owned(),
        endpoint: Some(endpoint),
        credentials_secret: Some(SecretName { name: "keys".to_owned() }),
        ..S3::default()
    };
    let order =
        FindOrder { destination: Destination { s3: Some(s3), ..Destination::default() }, ..by_name() };
    let places = Places { credentials: dir.path().to_owned(), ..Places::default() };
    let found = find(&order, &Context { places, stop: CancellationToken::new(), log: |_| {} }).await;
    server.abort();
    found
}

#[tokio::test]
async fn o02_a_store_that_does_not_let_itself_be_listed_is_told_from_one_that_is_empty() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let denied = find_where((403, "<Error><Code>AccessDenied</Code></Error>")).await;
    refused(denied, FailureKind::StoreForbidden, &["s3:ListBucket", "Secret keys", "(source)"]);
    let empty = find_where((200, "<ListBucketResult></ListBucketResult>")).await;
    refused(empty, FailureKind::NoBackup, &["s3://backups/tenant/demo", "0 objects"]);
    let no_bucket = find_where((404, "<Error><Code>NoSuchBucket</Code></Error>")).await;
    refused(no_bucket, FailureKind::NotInStore, &["create it"]);
}

#[tokio::test]
async fn o15_who_may_add_objects_does_not_decide_what_is_restored() {
    let dir = tempfile::tempdir().unwrap();
    let own = Keys::of(1);
    let mut genuine = manifest("night", "a1", "2026-11-27T02:00:00Z", 70);
    own.sign(&mut genuine);
    put(dir.path(), &genuine);
    // With more revisions; of another cluster ID at the same time; of the future; of a newer format; with the signature of another.
    put(dir.path(), &manifest("more", "a1", "2026-11-27T11:00:00Z", 1_000_070));
    put(dir.path(), &manifest("beside", "b2", "2026-11-27T02:00:00Z", 7));
    put(dir.path(), &manifest("future", "a1", "2036-11-27T02:00:00Z", 80));
    put(dir.path(), &Manifest { format: FORMAT + 1, ..manifest("format", "a1", "2026-11-27T11:00:00Z", 90) });
    put(dir.path(), &Manifest { signature: genuine.signature.clone(), ..manifest("copy", "a1", NOW, 99) });
    let mut of_other = manifest("other", "a1", "2026-11-27T11:30:00Z", 88);
    Keys::of(2).sign(&mut of_other);
    put(dir.path(), &of_other);

    let order = FindOrder { allow_unsigned: false, ..by_name() };
    let found = find_with(dir.path(), &order, &own).await.unwrap();
    assert_eq!(found.manifest.key, genuine.key);
    assert_eq!(found.manifest.signature, genuine.signature);
    let told = &found.skipped[0];
    assert!(
        told.contains("5 manifests of this cluster are not signed") && told.contains("somebody changed it"),
        "{told}"
    );

    let of_namespace_made_again = find_with(dir.path(), &order, &Keys::of(3)).await;
    refused(
        of_namespace_made_again,
        FailureKind::NoBackup,
        &["not signed", "quorate-backup-keys", "allowUnsigned"],
    );
    let believed = find_with(dir.path(), &by_name(), &own).await;
    refused(believed, FailureKind::Unfit, &["newer release"]);
}
