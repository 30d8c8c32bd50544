//! Backups of real etcd, into a server of S3 in this process and into a directory, and the way back.

mod azure;
mod bed;
mod s3;
mod unfinished;

use std::time::{Duration, Instant};

use bed::{Bed, KEY, in_pvc, remove_order, source, verify, verify_order};
use quorate_api::destination::{ChecksumHeader, Destination};
use quorate_api::job::{
    BackupOrder, Compared, Contents, Failure, FailureKind, Manifest, NoContents, ReadOrder,
};
use quorate_backup::{Found, back_up, read, remove};
use quorate_etcd::Read;
use quorate_etcd::testkit::{MINORS, eventually};
use quorate_model::{Minor, Revision};
use s3::{Fault, Server, write_credentials};
use sha2::{Digest, Sha256};
use tokio::sync::Notify;

const MINOR: Minor = Minor(3, 6);

async fn fails(bed: &Bed, order: &BackupOrder) -> Failure {
    back_up(order, &bed.context).await.expect_err("it must fail")
}

async fn restores(bed: &Bed, destination: &Destination, manifest: &Manifest) {
    let client = bed.cluster.members[0].client();
    let (keys, revision) = client.count_keys(Read::Linearizable).await.unwrap();
    let verified = verify(&verify_order(destination, manifest), &bed.programs(), &bed.context).await.unwrap();
    assert_eq!((verified.keys, verified.revision), (keys, revision.0), "{:?}", bed.minor());
    assert_eq!(verified.manifest, *manifest);
    let compared = [Compared::Revision, Compared::Keys, Compared::Hash];
    let most = if manifest.contents.is_some() { 3 } else { 1 };
    assert_eq!(verified.compared, compared[..most]);
    // A cluster of one would serve nobody meanwhile.
    assert_eq!(manifest.contents.is_some(), bed.cluster.members.len() > 1, "{:?}", manifest.contents);
    let why = manifest.contents.is_none().then_some(NoContents::NoOtherMember);
    assert_eq!(manifest.no_contents, why);
    let order = ReadOrder { source: source(destination, manifest) };
    let without_auth = Manifest { auth_enabled: Some(false), ..manifest.clone() };
    assert_eq!(read(&order, &bed.context).await.unwrap(), without_auth, "it is read without being kept");
    let hash = client.hash_kv(Some(Revision(verified.revision))).await.unwrap();
    assert_eq!(verified.hash, hash.hash, "the restored etcd has the same keys, values and history");
    assert_eq!(std::fs::read_dir(&bed.context.places.scratch).unwrap().count(), 0, "nothing is left");
}

#[tokio::test]
async fn a_backup_restores_to_the_same_data_from_a_bucket_and_from_a_volume_in_every_version() {
    for minor in MINORS {
        let server = Server::start().await;
        let bed = Bed::new(minor, 3).await.with(&server);
        bed.fill(3).await;
        let plain = back_up(&bed.order(&in_pvc()), &bed.context).await.unwrap();
        assert_eq!(plain.stored_bytes, plain.snapshot_bytes + 32, "as etcd sends it");
        assert_eq!((plain.etcd_version.parse(), plain.revision), (Ok(bed_version(&bed).await), 4));
        restores(&bed, &in_pvc(), &plain).await;

        let mut order = bed.order(&server.destination);
        order.compress = true;
        order.recipients = vec![Bed::identity(&bed.context.places.identities)];
        let wrapped = back_up(&order, &bed.context).await.unwrap();
        assert!(wrapped.compressed && wrapped.stored_bytes < wrapped.snapshot_bytes, "{wrapped:?}");
        let stored = std::fs::read(server.file(KEY)).unwrap();
        assert!(stored.starts_with(b"age-encryption.org/v1"), "encrypted after it was compressed");
        restores(&bed, &server.destination, &wrapped).await;
    }
}

async fn bed_version(bed: &Bed) -> quorate_model::Version {
    bed.cluster.members[0].client().status().await.unwrap().version
}

#[tokio::test]
async fn a_follower_sends_the_snapshot_and_never_a_member_of_another_cluster() {
    let bed = Bed::new(MINOR, 3).await;
    let leader = bed.cluster.led().await;
    let mut order = bed.order(&in_pvc());
    order.endpoints.rotate_left(leader);
    let id = bed.cluster.members[0].client().status().await.unwrap().cluster_id;
    order.origin.cluster_id = Some(id.to_string());
    let manifest = back_up(&order, &bed.context).await.unwrap();
    assert_ne!(manifest.member, bed.cluster.members[leader].name, "the leader is the first of the order");
    assert_eq!(manifest.cluster_id, id.to_string());

    order.key = "other.db".to_owned();
    order.origin.cluster_id = Some("deadbeef".to_owned());
    let refused = fails(&bed, &order).await;
    assert_eq!(refused.kind, FailureKind::NoSource);
    assert!(refused.message.contains("it belongs to cluster"), "{}", refused.message);

    order.origin.cluster_id = None;
    order.min_revision = Some(1000);
    assert!(fails(&bed, &order).await.message.contains("1000 is needed"));
}

#[tokio::test]
async fn o09_a_member_whose_data_are_not_what_the_others_have_sends_no_backup() {
    let mut bed = Bed::new(MINOR, 3).await;
    let leader = bed.cluster.led().await;
    let value = "what the client wrote";
    bed.cluster.members[leader].client().put("key", value).await.unwrap();
    // A follower's disk gives back another value: etcd has no checksum of what is in its database.
    let wrong = (leader + 1) % 3;
    let mut member = bed.cluster.members.remove(wrong);
    eventually("the write is in its database", async || {
        // Its log is applied again at a start, so the database must have it.
        let read = member.client().get("key", Read::Linearizable).await;
        read.map_err(|error| error.to_string())?.ok_or("it has no such key".to_owned())
    })
    .await;
    member.client().defragment().await.unwrap();
    member.kill();
    let database = member.data_dir().join("member/snap/db");
    let mut bytes = std::fs::read(&database).unwrap();
    let at: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(value.as_bytes())).collect();
    assert!(!at.is_empty());
    for at in at {
        bytes[at] = b'W';
    }
    std::fs::write(&database, bytes).unwrap();
    member.start();
    bed.cluster.members.insert(wrong, member);
    eventually("it serves again", async || {
        bed.cluster.members[wrong].client().revision(Read::Linearizable).await
    })
    .await;

    let mut order = bed.order(&in_pvc());
    order.endpoints.rotate_left(wrong);
    let manifest = back_up(&order, &bed.context).await.unwrap();
    let contents = manifest.contents.expect("two members agree");
    assert_ne!(manifest.member, bed.cluster.members[wrong].name, "it comes first, and the others agree");
    assert_ne!(contents.confirmed_by.as_ref(), Some(&bed.cluster.members[wrong].name));
    // Only the two followers can be asked: nobody can tell which of them is right.
    "of-two.db".clone_into(&mut order.key);
    order.endpoints.retain(|endpoint| endpoint.member != bed.cluster.members[leader].name);
    let refused = fails(&bed, &order).await;
    assert_eq!(refused.kind, FailureKind::NoSource);
    assert!(refused.message.contains("different data at revision"), "{}", refused.message);
}

#[tokio::test]
async fn o09_a_restore_test_compares_what_the_members_had() {
    let bed = Bed::new(MINOR, 3).await;
    let leader = bed.cluster.led().await;
    bed.fill(3).await;
    let manifest = back_up(&bed.order(&in_pvc()), &bed.context).await.unwrap();
    let json = bed.context.places.pvc.join(format!("prod/{KEY}.json"));
    let contents = manifest.contents.clone().unwrap();
    assert_eq!(contents.keys, 3);
    let leader = &bed.cluster.members[leader].name;
    assert!(
        contents.confirmed_by.as_ref().is_some_and(|member| member != leader && *member != manifest.member)
    );
    verify(&verify_order(&in_pvc(), &manifest), &bed.programs(), &bed.context).await.unwrap();
    for (edit, said) in [
        (Contents { keys: 4, ..contents.clone() }, "the number of keys is 3"),
        (Contents { hash: contents.hash ^ 1, ..contents }, "HashKV is"),
    ] {
        let other = Manifest { contents: Some(edit), ..manifest.clone() };
        std::fs::write(&json, serde_json::to_vec(&other).unwrap()).unwrap();
        let order = verify_order(&in_pvc(), &other);
        let failure = verify(&order, &bed.programs(), &bed.context).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Mismatch);
        assert!(failure.message.contains(said), "{}", failure.message);
    }
}

#[tokio::test]
async fn without_a_quorum_only_an_order_that_says_so_gets_a_snapshot() {
    let mut bed = Bed::new(MINOR, 3).await;
    bed.fill(1).await;
    bed.cluster.members[1].kill();
    bed.cluster.members[2].kill();
    let mut order = bed.order(&in_pvc());
    assert_eq!(fails(&bed, &order).await.kind, FailureKind::NoSource);
    order.without_quorum = true;
    let manifest = back_up(&order, &bed.context).await.unwrap();
    assert!(manifest.without_quorum);
    assert_eq!(manifest.no_contents, Some(NoContents::NoQuorum));
    let verified = verify(&verify_order(&in_pvc(), &manifest), &bed.programs(), &bed.context).await.unwrap();
    assert_eq!(verified.keys, 1);
}

#[tokio::test]
async fn a_job_that_began_before_its_network_waits_until_a_member_is_reached() {
    static ASKS_AGAIN: Notify = Notify::const_new();
    let mut bed = Bed::new(MINOR, 1).await;
    bed.cluster.members[0].kill();
    let order = bed.order(&in_pvc());
    let mut context = bed.context.clone();
    context.log = |line| {
        if line.contains("asking again") {
            ASKS_AGAIN.notify_one();
        }
    };
    let comes_late = async {
        ASKS_AGAIN.notified().await;
        bed.cluster.members[0].start();
        Ok(())
    };
    let taken = tokio::try_join!(back_up(&order, &context), comes_late);
    assert_eq!(taken.map(|(manifest, ())| manifest.key), Ok(order.key));
}

#[tokio::test]
async fn a_job_that_is_tried_again_finds_its_own_backup_and_refuses_that_of_another() {
    let server = Server::start().await;
    let bed = Bed::new(MINOR, 1).await.with(&server);
    for destination in [in_pvc(), server.destination.clone()] {
        let mut order = bed.order(&destination);
        let first = back_up(&order, &bed.context).await.unwrap();
        assert_eq!(back_up(&order, &bed.context).await.unwrap(), first, "found");

        order.origin.backup_uid = "uid-2".to_owned();
        let refused = fails(&bed, &order).await;
        assert_eq!(refused.kind, FailureKind::NotOurs);
        assert!(refused.message.contains("default/nightly-1 (uid uid-1)"), "{}", refused.message);
        let removed = remove(&remove_order(&order), &bed.context).await.unwrap_err();
        assert_eq!(removed.kind, FailureKind::NotOurs);
        restores(&bed, &destination, &first).await;

        order.origin.backup_uid = "uid-1".to_owned();
        remove(&remove_order(&order), &bed.context).await.unwrap();
        remove(&remove_order(&order), &bed.context).await.expect("gone already is done");
        let gone = Found::find(&source(&destination, &first), &bed.context).await.unwrap_err();
        assert_eq!(gone.kind, FailureKind::NotInStore);
    }
}

/// A backup that is taken, restored, found by another try, refused to another backup, and removed in this store.
async fn lives(bed: &Bed, store: &Destination) -> Manifest {
    // More than one part.
    bed.fill(200).await;
    let order = bed.order(store);
    let first = back_up(&order, &bed.context).await.unwrap();
    restores(bed, store, &first).await;
    assert_eq!(back_up(&order, &bed.context).await.unwrap(), first, "found");
    let mut other = order.clone();
    "uid-2".clone_into(&mut other.origin.backup_uid);
    assert_eq!(fails(bed, &other).await.kind, FailureKind::NotOurs);
    remove(&remove_order(&order), &bed.context).await.unwrap();
    let gone = Found::find(&source(store, &first), &bed.context).await.unwrap_err();
    assert_eq!(gone.kind, FailureKind::NotInStore);
    first
}

#[tokio::test]
async fn a_client_of_google_cloud_storage_backs_up_finds_restores_and_removes() {
    let server = Server::start_gcs().await;
    let bed = Bed::new(MINOR, 1).await.with(&server);
    let first = lives(&bed, &server.destination).await;
    assert!(server.requests.lock().unwrap().iter().any(|request| request.contains("uploads")), "in parts");
    assert!(!server.file(KEY).exists());

    // A manifest that comes at the last moment is not overwritten.
    let other = serde_json::to_vec(&first).unwrap();
    let manifest = server.file(&format!("{KEY}.json"));
    *server.meanwhile.lock().unwrap() = Some((manifest.clone(), other.clone()));
    let refused = fails(&bed, &bed.order(&server.destination)).await;
    assert!(refused.message.contains("has written the manifest"), "{refused:?}");
    assert_eq!(std::fs::read(manifest).unwrap(), other);
}

#[tokio::test]
async fn o06_a_bucket_with_object_lock_takes_a_backup_and_one_without_the_header_is_refused() {
    let server = Server::start().await;
    let bed = Bed::new(MINOR, 1).await.with(&server);
    // More than one part.
    bed.fill(200).await;
    server.fault(Fault::Locked);
    let mut order = bed.order(&server.destination);
    let first = back_up(&order, &bed.context).await.unwrap();
    restores(&bed, &server.destination, &first).await;
    order.key.push('2');
    order.destination.s3.as_mut().unwrap().checksum = Some(ChecksumHeader::None);
    let refused = fails(&bed, &order).await;
    assert!(refused.message.contains("x-amz-checksum"), "{}", refused.message);
}

#[tokio::test]
async fn o06_credentials_that_only_write_are_enough_for_a_backup() {
    let server = Server::start().await;
    let bed = Bed::new(MINOR, 1).await.with(&server);
    let order = bed.order(&server.destination);
    server.fault(Fault::WriteOnly);
    back_up(&order, &bed.context).await.unwrap();
    // The answer was lost, and nobody sees that it is complete: object and manifest go together all the same.
    bed.fill(1).await;
    let second = back_up(&order, &bed.context).await.unwrap();
    server.fault(Fault::None);
    restores(&bed, &server.destination, &second).await;
}

#[tokio::test]
async fn what_an_earlier_try_left_is_replaced() {
    let server = Server::start().await;
    let bed = Bed::new(MINOR, 1).await.with(&server);
    let order = bed.order(&server.destination);
    // An object without a manifest.
    std::fs::create_dir_all(server.file(KEY).parent().unwrap()).unwrap();
    std::fs::write(server.file(KEY), "half of a snapshot").unwrap();
    let first = back_up(&order, &bed.context).await.unwrap();
    restores(&bed, &server.destination, &first).await;
    // A manifest of this backup whose object is not whole.
    std::fs::write(server.file(KEY), "half of a snapshot").unwrap();
    let second = back_up(&order, &bed.context).await.unwrap();
    restores(&bed, &server.destination, &second).await;
    // Something that is no manifest.
    std::fs::write(server.file("demo/nightly-1.db.json"), "{}x").unwrap();
    assert_eq!(fails(&bed, &order).await.kind, FailureKind::NotOurs);

    // In a directory: a file under a temporary name.
    let partial = bed.context.places.pvc.join("prod/demo/.nightly-1.db.abc123.partial");
    std::fs::create_dir_all(partial.parent().unwrap()).unwrap();
    std::fs::write(&partial, "half").unwrap();
    back_up(&bed.order(&in_pvc()), &bed.context).await.unwrap();
    assert!(!partial.exists());
}

#[tokio::test]
async fn a_store_that_fails_leaves_nothing_and_says_what_to_do() {
    let server = Server::start().await;
    let bed = Bed::new(MINOR, 1).await.with(&server);
    bed.fill(300).await;
    let order = bed.order(&server.destination);
    for fault in [Fault::Error, Fault::Cut] {
        server.fault(fault);
        let failure = fails(&bed, &order).await;
        assert_eq!(failure.kind, FailureKind::StoreUnavailable, "{fault:?}: {}", failure.message);
        server.fault(Fault::None);
        assert!(!server.file(KEY).exists() && server.unfinished() == 0, "{fault:?}");
    }
    write_credentials(&server.credentials, "wrong");
    let refused = fails(&bed, &order).await;
    assert_eq!(refused.kind, FailureKind::StoreForbidden, "{}", refused.message);
    assert!(refused.message.contains("Secret store"), "{}", refused.message);
    std::fs::remove_file(server.credentials.join("AWS_ACCESS_KEY_ID")).unwrap();
    assert!(fails(&bed, &order).await.message.contains("no key AWS_ACCESS_KEY_ID"));

    let mut gone = bed.order(&in_pvc());
    gone.key = "../outside.db".to_owned();
    assert_eq!(fails(&bed, &gone).await.kind, FailureKind::OrderRefused, "a key that leaves the prefix");
    std::fs::remove_dir_all(&bed.context.places.pvc).unwrap();
    assert_eq!(fails(&bed, &bed.order(&in_pvc())).await.kind, FailureKind::StoreUnavailable, "not mounted");
}

#[tokio::test]
async fn an_upload_that_was_completed_without_a_reply_is_tried_again_and_becomes_a_backup() {
    let server = Server::start().await;
    let bed = Bed::new(MINOR, 1).await.with(&server);
    let order = bed.order(&server.destination);
    server.fault(Fault::LoseCompletion);
    let failure = fails(&bed, &order).await;
    assert!(failure.kind.may_pass(), "{failure:?}");
    assert!(failure.message.contains("NoSuchUpload"), "{}", failure.message);
    assert!(server.file(KEY).exists(), "the object is there");
    assert!(!server.file(&format!("{KEY}.json")).exists(), "it is not a backup yet");
    server.fault(Fault::None);
    let manifest = back_up(&order, &bed.context).await.unwrap();
    restores(&bed, &server.destination, &manifest).await;
}

/// Waits until parts are on their way.
async fn sends(server: &Server) {
    eventually("a part is sent", async || {
        let requests = server.requests.lock().unwrap();
        if requests.iter().any(|request| request.contains("partNumber=")) { Ok(()) } else { Err("none yet") }
    })
    .await;
}

#[tokio::test]
async fn a_member_that_is_killed_while_it_sends_leaves_nothing_that_looks_whole() {
    let server = Server::start().await;
    let mut bed = Bed::new(MINOR, 1).await.with(&server);
    bed.fill(1000).await;
    server.fault(Fault::Hang);
    let (order, context) = (bed.order(&server.destination), bed.context.clone());
    let backup = tokio::spawn(async move { back_up(&order, &context).await });
    sends(&server).await;
    bed.cluster.members[0].kill();
    server.fault(Fault::None);
    let failure = backup.await.unwrap().unwrap_err();
    assert_eq!(failure.kind, FailureKind::SnapshotFailed, "{}", failure.message);
    assert!(!server.file(KEY).exists() && server.unfinished() == 0);
}

#[tokio::test]
async fn a_stop_takes_back_what_was_sent() {
    let server = Server::start().await;
    let bed = Bed::new(MINOR, 1).await.with(&server);
    bed.fill(300).await;
    server.fault(Fault::Hang);
    let (order, context) = (bed.order(&server.destination), bed.context.clone());
    let backup = tokio::spawn(async move { back_up(&order, &context).await });
    sends(&server).await;
    bed.context.stop.cancel();
    server.fault(Fault::None);
    let failure = backup.await.unwrap().unwrap_err();
    assert!(failure.kind.may_pass() && failure.message.contains("stopped by a signal"), "{failure:?}");
    assert!(!server.file(KEY).exists() && server.unfinished() == 0);
}

#[tokio::test]
async fn a_snapshot_is_written_to_a_volume_first_if_ordered() {
    let server = Server::start().await;
    let bed = Bed::new(MINOR, 1).await.with(&server);
    bed.fill(300).await;
    let mut order = bed.order(&server.destination);
    order.spool = true;
    let manifest = back_up(&order, &bed.context).await.unwrap();
    assert!(manifest.snapshot_bytes > 16 << 20, "several parts");
    restores(&bed, &server.destination, &manifest).await;
}

#[tokio::test]
async fn o08_a_limit_bounds_what_is_read_of_a_member_also_into_a_volume() {
    let bed = Bed::new(MINOR, 1).await;
    bed.fill(40).await;
    for spool in [false, true] {
        let began = Instant::now();
        let limit = Some(1 << 20);
        let key = format!("demo/spool-{spool}.db");
        let order = BackupOrder { spool, key, rate_limit: limit, seconds: Some(60), ..bed.order(&in_pvc()) };
        let manifest = back_up(&order, &bed.context).await.unwrap();
        let least = Duration::from_millis((manifest.snapshot_bytes * 1000) >> 20);
        assert!(least > Duration::from_secs(2), "{least:?}");
        assert!(began.elapsed() + Duration::from_millis(100) > least, "{least:?} {:?}", began.elapsed());
    }
    let hopeless = BackupOrder { rate_limit: Some(64 << 10), seconds: Some(10), ..bed.order(&in_pvc()) };
    let failure = fails(&bed, &hopeless).await;
    assert_eq!((failure.kind, failure.wrote), (FailureKind::LimitTooLow, Some(false)), "{}", failure.message);
}

#[tokio::test]
async fn what_is_damaged_exchanged_or_of_another_key_is_refused_with_the_difference() {
    let server = Server::start().await;
    let bed = Bed::new(MINOR, 1).await.with(&server);
    bed.fill(1).await;
    let order = bed.order(&server.destination);
    let manifest = back_up(&order, &bed.context).await.unwrap();
    let mut second = bed.order(&server.destination);
    second.key = "demo/nightly-2.db".to_owned();
    second.origin.backup_uid = "uid-2".to_owned();
    bed.fill(2).await;
    let other = back_up(&second, &bed.context).await.unwrap();

    let into = bed.context.places.scratch.join("into");
    let fetch = async |source: &quorate_api::job::Source, most: u64| {
        let found = Found::find(source, &bed.context).await?;
        found.fetch(&into, most, &bed.context).await
    };
    let whole = source(&server.destination, &manifest);
    let fetched = fetch(&whole, u64::MAX).await.unwrap();
    assert_eq!((fetched.bytes, &fetched.sha256), (manifest.snapshot_bytes, &manifest.snapshot_sha256));
    assert_eq!(fetch(&whole, 4096).await.unwrap_err().kind, FailureKind::Unfit, "larger than the quota");

    let refused = async |words: &str| {
        let failure = fetch(&whole, u64::MAX).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Mismatch, "{}", failure.message);
        assert!(failure.message.contains(words), "{words}: {}", failure.message);
    };
    let (object, json) = (server.file(KEY), server.file("demo/nightly-1.db.json"));
    let (good, good_json) = (std::fs::read(&object).unwrap(), std::fs::read(&json).unwrap());
    let mut damaged = good.clone();
    damaged[5000] ^= 1;
    std::fs::write(&object, &damaged).unwrap();
    refused("is damaged").await;
    std::fs::write(&object, &good[..good.len() - 512]).unwrap();
    refused("is damaged: it has").await;
    std::fs::copy(server.file(&other.key), &object).unwrap();
    refused("damaged").await;
    // The manifest of another key, with its object.
    std::fs::copy(server.file("demo/nightly-2.db.json"), &json).unwrap();
    refused("is the manifest of \"demo/nightly-2.db\"").await;
    // The same, and the manifest says that it is of this key.
    let forged = std::fs::read_to_string(&json).unwrap().replace("nightly-2.db", "nightly-1.db");
    std::fs::write(&json, forged).unwrap();
    refused("another backup than the one that was ordered").await;
    // No manifest: only with a hash.
    std::fs::remove_file(&json).unwrap();
    std::fs::write(&object, &good).unwrap();
    fetch(&whole, u64::MAX).await.unwrap();
    let without = quorate_api::job::Source { sha256: None, ..whole.clone() };
    assert_eq!(fetch(&without, u64::MAX).await.unwrap_err().kind, FailureKind::NotInStore);
    std::fs::write(&json, &good_json).unwrap();
    fetch(&without, u64::MAX).await.unwrap();
}

#[tokio::test]
async fn what_is_encrypted_opens_only_with_its_identity() {
    let bed = Bed::new(MINOR, 1).await;
    let keys = bed.context.places.identities.clone();
    let mut order = bed.order(&in_pvc());
    order.recipients = vec!["age1nonsense".to_owned()];
    assert_eq!(fails(&bed, &order).await.kind, FailureKind::OrderRefused);
    order.recipients = vec![Bed::identity(&keys), Bed::identity(&keys.join("unused"))];
    let manifest = back_up(&order, &bed.context).await.unwrap();
    restores(&bed, &in_pvc(), &manifest).await;
    Bed::identity(&keys);
    let found = Found::find(&source(&in_pvc(), &manifest), &bed.context).await.unwrap();
    let refused = found.fetch(&bed.context.places.scratch, u64::MAX, &bed.context).await.unwrap_err();
    assert_eq!(refused.kind, FailureKind::CannotDecrypt);
    assert!(refused.message.contains("encrypted to other recipients"), "{}", refused.message);
    std::fs::remove_file(keys.join("key.txt")).unwrap();
    let refused = found.fetch(&bed.context.places.scratch, u64::MAX, &bed.context).await.unwrap_err();
    assert_eq!(refused.kind, FailureKind::CannotDecrypt, "none is there");
}

#[tokio::test]
async fn n08_a_restore_test_compares_keys_and_hash_of_a_snapshot_with_auth_in_every_version() {
    for minor in MINORS {
        let bed = Bed::new(minor, 1).await;
        bed.fill(2).await;
        let client = bed.cluster.members[0].client();
        let had = client.hash_kv(Some(Revision(3))).await.unwrap();
        let compact_revision = had.compacted.0;
        let contents = Contents { keys: 2, hash: had.hash, compact_revision, confirmed_by: None };
        let endpoint = format!("--endpoints={}", bed.cluster.members[0].client_url());
        let control = quorate_etcd::testkit::etcd(minor).with_file_name(format!("etcdctl-{minor}"));
        let run = |args: &[&str]| {
            let output = std::process::Command::new(&control).arg(&endpoint).args(args).output().unwrap();
            assert!(output.status.success(), "{args:?}: {output:?}");
        };
        run(&["user", "add", "root:secret"]);
        run(&["user", "grant-role", "root", "root"]);
        run(&["auth", "enable"]);
        let refused = fails(&bed, &bed.order(&in_pvc())).await;
        assert_eq!(refused.kind, FailureKind::NoSource, "{}", refused.message);
        assert!(refused.message.contains("user name is empty"), "{}", refused.message);

        let save = |key: &str| {
            let file = bed.context.places.pvc.join("prod").join(key);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            run(&["--user=root:secret", "snapshot", "save", file.to_str().unwrap()]);
            let bytes = std::fs::read(file).unwrap();
            let (database, sha256) = bytes.split_at(bytes.len() - 32);
            let digits = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            Manifest {
                format: 1,
                key: key.to_owned(),
                stored_bytes: bytes.len() as u64,
                stored_sha256: digits(&Sha256::digest(&bytes)),
                snapshot_bytes: database.len() as u64,
                snapshot_sha256: digits(sha256),
                revision: 3,
                ..Manifest::default()
            }
        };
        let test = async |manifest: &Manifest, contents: Option<Contents>| {
            let manifest = Manifest { contents, ..manifest.clone() };
            let json = bed.context.places.pvc.join("prod").join(format!("{}.json", manifest.key));
            std::fs::write(json, serde_json::to_vec(&manifest).unwrap()).unwrap();
            verify(&verify_order(&in_pvc(), &manifest), &bed.programs(), &bed.context).await
        };
        let manifest = save("auth.db");
        let whole = test(&manifest, Some(contents.clone())).await.unwrap();
        assert_eq!((whole.keys, whole.revision, whole.hash), (2, 3, had.hash), "{minor}");
        assert_eq!(whole.compared, [Compared::Revision, Compared::Keys, Compared::Hash], "{minor}");
        for (edit, said) in [
            (Contents { keys: 1, ..contents.clone() }, "the number of keys is 2"),
            (Contents { hash: had.hash ^ 1, ..contents.clone() }, "HashKV is"),
        ] {
            let failure = test(&manifest, Some(edit)).await.unwrap_err();
            assert_eq!(failure.kind, FailureKind::Mismatch, "{minor}");
            assert!(failure.message.contains(said), "{}", failure.message);
        }

        // What cannot be compared is not in the list.
        let compared = async |manifest: &Manifest, contents| test(manifest, contents).await.unwrap().compared;
        assert_eq!(compared(&manifest, None).await, [Compared::Revision]);
        let other = Contents { compact_revision: compact_revision + 1, ..contents.clone() };
        assert_eq!(compared(&manifest, Some(other)).await, [Compared::Revision, Compared::Keys]);
        run(&["--user=root:secret", "put", "key-0", "again"]);
        run(&["--user=root:secret", "compaction", "--physical", "4"]);
        let later = save("later.db");
        assert_eq!(compared(&later, Some(contents)).await, [Compared::Revision], "3 is compacted");
        let unnamed = Manifest { key: later.key, stored_sha256: later.stored_sha256, ..Manifest::default() };
        std::fs::remove_file(bed.context.places.pvc.join("prod/later.db.json")).unwrap();
        let order = verify_order(&in_pvc(), &unnamed);
        let verified = verify(&order, &bed.programs(), &bed.context).await.unwrap();
        assert_eq!((verified.compared.as_slice(), verified.keys, verified.revision), (&[][..], 2, 4));
    }
}
