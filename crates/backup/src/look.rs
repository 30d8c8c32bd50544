//! Whether backups are in their store as they were written: by their manifests, by the sizes of their objects, and by what the store says of
//! those beside. Only an object that the order names is downloaded: nothing else shows that a disk has spoilt it.

use futures::{StreamExt as _, TryStreamExt as _, stream};
use quorate_api::job::{FailureKind, LookOrder, Looked, ObjectMark, ReadObject, StoredObject};
use sha2::{Digest as _, Sha256};

use crate::store::Seen;
use crate::{Context, Result, Store, hex, manifest};

/// How many objects are asked for at a time.
const AT_A_TIME: usize = 8;

/// What was found of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Sight {
    /// It has the size and the mark of its write.
    Marked,
    /// It has the size, and no mark that could be compared.
    Sized,
    /// It was read to its end and has its SHA-256. The store said this of it before.
    Read(ObjectMark),
    /// It has the size, and another mark.
    Rewritten,
    Gone,
    Changed,
}

/// Looks for the objects of an order. A store that does not answer, or refuses, is a failure: it says nothing about them.
pub async fn look(order: &LookOrder, context: &Context) -> Result<Looked> {
    let store = Store::open(&order.destination, &context.places)?;
    let looks: Vec<_> = order.objects.iter().map(|object| sight(&store, object)).collect();
    let looks = stream::iter(looks).buffered(AT_A_TIME).try_collect::<Vec<Sight>>();
    let sights = context.unless_stopped(looks).await?;
    let mut looked = Looked::default();
    for (object, sight) in order.objects.iter().zip(sights) {
        let backup = object.backup.clone();
        match sight {
            Sight::Marked => {}
            Sight::Sized => looked.sized.push(backup),
            Sight::Read(mark) => looked.read.push(ReadObject { backup, mark: Some(mark) }),
            Sight::Rewritten => looked.rewritten.push(backup),
            Sight::Gone => looked.gone.push(backup),
            Sight::Changed => looked.changed.push(backup),
        }
    }
    Ok(looked)
}

async fn sight(store: &Store, object: &StoredObject) -> Result<Sight> {
    let manifest = match manifest::read(store, &object.key).await {
        Ok(Some(manifest)) => manifest,
        Ok(None) => return gone(store, &manifest::key_of(&object.key)).await,
        // It is there, and is not what was written.
        Err(failure) if is_of_the_object(failure.kind) => return Ok(Sight::Changed),
        // The bucket is gone, and all with it: the store says so.
        Err(failure) if failure.kind == FailureKind::NotInStore => return Ok(Sight::Gone),
        Err(failure) => return Err(failure),
    };
    let Some(Seen { bytes, mark }) = store.see(&object.key).await? else {
        return gone(store, &object.key).await;
    };
    if bytes != object.bytes || manifest.stored_sha256 != object.sha256 {
        return Ok(Sight::Changed);
    }
    if object.read {
        let is_whole = sha256(store, object).await? == object.sha256;
        return Ok(if is_whole { Sight::Read(mark) } else { Sight::Changed });
    }
    Ok(match object.mark.as_ref().and_then(|written| written.is_of_same_write(&mark)) {
        Some(true) => Sight::Marked,
        Some(false) => Sight::Rewritten,
        None => Sight::Sized,
    })
}

/// The SHA-256 of an object, which is read to its end.
async fn sha256(store: &Store, object: &StoredObject) -> Result<String> {
    let mut bytes = store.download(&object.key, None, object.bytes);
    let mut hash = Sha256::new();
    while let Some(next) = bytes.try_next().await? {
        hash.update(&next);
    }
    Ok(hex::sum(hash))
}

/// That an object is gone, if the store confirms it.
async fn gone(store: &Store, key: &str) -> Result<Sight> {
    store.confirm_missing(key).await.map(|()| Sight::Gone)
}

/// Whether a manifest is there, and is not what was written: neither the store nor its network is to blame.
pub(crate) fn is_of_the_object(kind: FailureKind) -> bool {
    match kind {
        FailureKind::NotOurs | FailureKind::Mismatch => true,
        FailureKind::OrderRefused
        | FailureKind::NoSource
        | FailureKind::SnapshotFailed
        | FailureKind::TooSlow
        | FailureKind::StoreUnavailable
        | FailureKind::StoreForbidden
        | FailureKind::NotInStore
        | FailureKind::NoBackup
        | FailureKind::Ambiguous
        | FailureKind::CannotDecrypt
        | FailureKind::LimitTooLow
        | FailureKind::NoSpace
        | FailureKind::Unfit
        | FailureKind::Stale
        | FailureKind::InUse => false,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs;
    use std::path::Path;

    use quorate_api::Destination;
    use quorate_api::destination::{Pvc, S3, SecretName};
    use quorate_api::job::Manifest;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::Places;
    use crate::manifest::{FORMAT, key_of, to_bytes};

    fn put(dir: &Path, key: &str, bytes: &[u8], sha256: &str) -> StoredObject {
        let manifest = Manifest {
            format: FORMAT,
            key: key.to_owned(),
            stored_bytes: 4,
            stored_sha256: sha256.to_owned(),
            ..Manifest::default()
        };
        fs::write(dir.join(key), bytes).unwrap();
        fs::write(dir.join(key_of(key)), to_bytes(&manifest)).unwrap();
        stored(key, key)
    }

    fn stored(backup: &str, key: &str) -> StoredObject {
        StoredObject {
            backup: backup.to_owned(),
            key: key.to_owned(),
            bytes: 4,
            sha256: "s".to_owned(),
            mark: None,
            read: false,
        }
    }

    #[tokio::test]
    async fn o15_a_look_tells_what_is_gone_and_what_is_not_what_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path();
        let objects = [
            put(at, "whole", b"data", "s"),
            put(at, "gone", b"data", "s"),
            put(at, "no-manifest", b"data", "s"),
            put(at, "cut", b"dat", "s"),
            put(at, "other", b"data", "t"),
            put(at, "scribbled", b"data", "s"),
        ];
        fs::remove_file(at.join("gone")).unwrap();
        fs::remove_file(at.join("no-manifest.json")).unwrap();
        fs::write(at.join("scribbled.json"), "pay first").unwrap();
        let pvc = Pvc { claim_name: "backups".to_owned(), prefix: None };
        let order = LookOrder {
            destination: Destination { pvc: Some(pvc), ..Destination::default() },
            objects: objects.to_vec(),
        };
        let places = Places { pvc: at.to_owned(), ..Places::default() };
        let context = Context { places, stop: CancellationToken::new(), log: |_| {} };
        let looked = look(&order, &context).await.unwrap();
        assert_eq!(looked.gone, ["gone", "no-manifest"]);
        assert_eq!(looked.changed, ["cut", "other", "scribbled"]);
        assert_eq!(looked.sized, ["whole"], "nothing was recorded that could be compared");

        let nowhere = Places { pvc: at.join("not-mounted"), ..Places::default() };
        let failure = look(&order, &Context { places: nowhere, ..context }).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::StoreUnavailable, "that says nothing about the objects");
    }

    #[tokio::test]
    async fn o15_bytes_that_were_exchanged_beside_the_same_manifest_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path();
        let sha256 = hex::sum(Sha256::new_with_prefix(b"data"));
        let places = Places { pvc: at.to_owned(), ..Places::default() };
        let destination = Destination { pvc: Some(Pvc::default()), ..Destination::default() };
        let store = Store::open(&destination, &places).unwrap();
        let mut object = StoredObject { sha256: sha256.clone(), ..put(at, "one", b"data", &sha256) };
        let context = Context { places, stop: CancellationToken::new(), log: |_| {} };
        object.mark = store.see("one").await.unwrap().map(|seen| seen.mark);
        let sees = async |object: &StoredObject| {
            let order = LookOrder { destination: destination.clone(), objects: vec![object.clone()] };
            look(&order, &context).await.unwrap()
        };
        assert_eq!(sees(&object).await, Looked::default());

        // Somebody writes it again, with other bytes and with the same.
        let write = |bytes: &[u8]| {
            fs::write(at.join("again"), bytes).unwrap();
            fs::rename(at.join("again"), at.join("one")).unwrap();
        };
        let reading = |object: &StoredObject| StoredObject { read: true, ..object.clone() };
        write(b"evil");
        assert_eq!(sees(&object).await.rewritten, ["one"]);
        assert_eq!(sees(&reading(&object)).await.changed, ["one"]);
        write(b"data");
        assert_eq!(sees(&object).await.rewritten, ["one"]);
        let read = sees(&reading(&object)).await;
        assert_eq!((read.read.len(), read.changed.len()), (1, 0));

        // What the disk spoils changes no mark: only reading shows it.
        object.mark = read.read[0].mark.clone();
        let modified = fs::metadata(at.join("one")).unwrap().modified().unwrap();
        let file = fs::OpenOptions::new().write(true).open(at.join("one")).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, b"x", 0).unwrap();
        file.set_modified(modified).unwrap();
        assert_eq!(sees(&object).await, Looked::default());
        assert_eq!(sees(&reading(&object)).await.changed, ["one"]);
    }

    /// A server of S3 that answers every request so.
    pub(crate) struct Answering {
        pub(crate) destination: Destination,
        credentials: tempfile::TempDir,
        server: tokio::task::JoinHandle<()>,
    }

    impl Answering {
        pub(crate) async fn start(answer: impl Fn(&str) -> (u16, &'static str) + Send + 'static) -> Self {
            let _ = rustls::crypto::ring::default_provider().install_default();
            let credentials = tempfile::tempdir().unwrap();
            for key in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"] {
                fs::write(credentials.path().join(key), "k").unwrap();
            }
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let endpoint = format!("http://{}", listener.local_addr().unwrap());
            let server = tokio::spawn(async move {
                loop {
                    let (mut stream, _) = listener.accept().await.unwrap();
                    let mut request = vec![0; 16_384];
                    let read = stream.read(&mut request).await.unwrap_or_default();
                    let request = String::from_utf8_lossy(&request[..read]).into_owned();
                    let (code, body) = answer(&request);
                    let head = format!(
                        "HTTP/1.1 {code} x\r\ncontent-length: {}\r\nlast-modified: Thu, 26 Nov 2026 10:00:00 GMT\r\netag: \"e\"\r\nconnection: close\r\n\r\n",
                        body.len()
                    );
                    let body = if request.starts_with("HEAD") { "" } else { body };
                    let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
                }
            });
            let s3 = S3 {
                bucket: "backups".to_owned(),
                endpoint: Some(endpoint),
                credentials_secret: Some(SecretName { name: "keys".to_owned() }),
                ..S3::default()
            };
            let destination = Destination { s3: Some(s3), ..Destination::default() };
            Self { destination, credentials, server }
        }

        pub(crate) fn context(&self) -> Context {
            let places = Places { credentials: self.credentials.path().to_owned(), ..Places::default() };
            Context { places, stop: CancellationToken::new(), log: |_| {} }
        }
    }

    impl Drop for Answering {
        fn drop(&mut self) {
            self.server.abort();
        }
    }

    /// Looks for one object where every request is answered so.
    async fn look_where(answer: impl Fn(&str) -> (u16, &'static str) + Send + 'static) -> Result<Looked> {
        let server = Answering::start(answer).await;
        let object = stored("one", "a/one");
        let order = LookOrder { destination: server.destination.clone(), objects: vec![object] };
        look(&order, &server.context()).await
    }

    #[tokio::test]
    async fn o15_a_404_that_does_not_come_from_the_store_says_nothing_about_the_objects() {
        let kind = |looked: Result<Looked>| looked.unwrap_err().kind;
        let proxy = look_where(|_| (404, "<html>no such site</html>")).await;
        assert_eq!(kind(proxy), FailureKind::StoreUnavailable);
        let named = look_where(|_| (404, "<Error><Code>NoSuchKey</Code></Error>")).await.unwrap();
        assert_eq!(named.gone, ["one"]);
        let bucket = look_where(|_| (404, "<Error><Code>NoSuchBucket</Code></Error>")).await.unwrap();
        assert_eq!(bucket.gone, ["one"]);
        // The list tells.
        let is_list = |request: &str| request.contains("list-type=2");
        let empty = look_where(move |request| {
            if is_list(request) { (200, "<ListBucketResult></ListBucketResult>") } else { (404, "") }
        });
        assert_eq!(empty.await.unwrap().gone, ["one"]);
        let has_it = "<ListBucketResult><Contents><Key>a/one.json</Key><Size>4</Size>\
            <LastModified>2026-11-26T10:00:00Z</LastModified><ETag>e</ETag></Contents></ListBucketResult>";
        let listed = look_where(move |request| if is_list(request) { (200, has_it) } else { (404, "") });
        assert_eq!(kind(listed.await), FailureKind::StoreUnavailable);
    }
}
