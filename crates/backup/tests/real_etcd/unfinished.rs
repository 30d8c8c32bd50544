//! Uploads that a Job has left unfinished, at a server of S3 that lists them as S3 does: versitygw.

use std::path::{Path, PathBuf};
use std::time::Duration;

use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::multipart::MultipartStore as _;
use object_store::path::Path as Key;
use object_store::{Certificate, ClientOptions};
use quorate_api::destination::{Destination, S3, SecretName};
use quorate_backup::{back_up, remove};
use quorate_etcd::testkit::eventually;
use quorate_scenarios::S3Server;

use crate::MINOR;
use crate::bed::{Bed, remove_order};
use crate::s3::write_secret;

/// An unfinished upload that a test has begun.
struct Begun {
    key: Key,
    id: String,
}

/// The bucket, for what the product has no call for.
struct Bucket {
    server: S3Server,
    s3: AmazonS3,
}

impl Bucket {
    fn start() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let server = S3Server::start().unwrap();
        let ca = Certificate::from_pem(server.ca().as_bytes()).unwrap();
        let s3 = AmazonS3Builder::new()
            .with_bucket_name(S3Server::BUCKET)
            .with_access_key_id(S3Server::ACCESS_KEY)
            .with_secret_access_key(S3Server::SECRET_KEY)
            .with_endpoint(server.endpoint())
            .with_region("us-east-1")
            .with_client_options(ClientOptions::new().with_root_certificate(ca));
        Self { s3: s3.build().unwrap(), server }
    }

    fn destination(&self) -> Destination {
        let s3 = S3 {
            bucket: S3Server::BUCKET.to_owned(),
            prefix: Some("team/prod".to_owned()),
            endpoint: Some(self.server.endpoint()),
            credentials_secret: Some(SecretName { name: "store".to_owned() }),
            ca_secret: Some(SecretName { name: "store".to_owned() }),
            ..S3::default()
        };
        Destination { s3: Some(s3), ..Destination::default() }
    }

    /// What the Secrets of the destination hold.
    fn admit(&self, bed: &Bed) {
        let places = &bed.context.places;
        write_secret(&places.credentials, S3Server::ACCESS_KEY, S3Server::SECRET_KEY);
        std::fs::write(&places.ca_file, self.server.ca()).unwrap();
    }

    /// An upload with one part that is never completed, begun so many hours ago.
    async fn begin(&self, key: &str, hours: u64) -> Begun {
        let key = Key::parse(key).unwrap();
        let id = self.s3.create_multipart(&key).await.unwrap();
        self.s3.put_part(&key, &id, 0, vec![0_u8; 1 << 20].into()).await.unwrap();
        // The server takes the time of the directory for that of the upload.
        let dir = find(self.server.bucket_dir().as_path(), &id).expect("the server has a directory for it");
        let dir = std::fs::File::open(dir).unwrap();
        let now = dir.metadata().unwrap().modified().unwrap();
        dir.set_modified(now - Duration::from_secs(hours * 3600)).unwrap();
        Begun { key, id }
    }

    /// Whether an upload still takes parts.
    async fn is_open(&self, upload: &Begun) -> bool {
        self.s3.put_part(&upload.key, &upload.id, 1, vec![0_u8; 1].into()).await.is_ok()
    }
}

fn find(dir: &Path, name: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(dir).ok()?.filter_map(Result::ok);
    let mut dirs = entries.map(|entry| entry.path()).filter(|path| path.is_dir());
    dirs.find_map(|path| if path.ends_with(name) { Some(path) } else { find(&path, name) })
}

fn uid(last: char) -> String {
    format!("0a1b2c3d-0000-4000-8000-00000000000{last}")
}

#[tokio::test]
async fn a_backup_aborts_what_killed_jobs_of_the_same_etcd_have_left_and_nothing_else() {
    let bucket = Bucket::start();
    let bed = Bed::new(MINOR, 1).await;
    bucket.admit(&bed);
    let mut order = bed.order(&bucket.destination());
    order.key = format!("default/demo/nightly-1-{}.db", uid('1'));
    let own = bucket.begin(&format!("team/prod/{}", order.key), 0).await;
    let of = |directory: &str, last: char| format!("{directory}/nightly-0-{}.db.zst", uid(last));
    let old = bucket.begin(&of("team/prod/default/demo", '0'), 49).await;
    let others = [
        bucket.begin(&of("team/prod/default/demo", '2'), 47).await,
        bucket.begin(&of("team/prod/default/demo-2", '0'), 49).await,
        bucket.begin(&of("team/production/default/demo", '0'), 49).await,
        bucket.begin("team/prod/default/demo/film.mkv", 49).await,
        bucket.begin("film.mkv", 49).await,
    ];

    let manifest = back_up(&order, &bed.context).await.unwrap();
    for gone in [&own, &old] {
        assert!(!bucket.is_open(gone).await, "{} is left", gone.key);
    }
    for other in &others {
        assert!(bucket.is_open(other).await, "{} is of somebody else", other.key);
    }
    let again = bucket.begin(&format!("team/prod/{}", order.key), 0).await;
    assert_eq!(back_up(&order, &bed.context).await.unwrap(), manifest, "it is there already");
    assert!(!bucket.is_open(&again).await);

    let last = bucket.begin(&format!("team/prod/{}", order.key), 0).await;
    remove(&remove_order(&order), &bed.context).await.unwrap();
    assert!(!bucket.is_open(&last).await);
    for other in &others {
        assert!(bucket.is_open(other).await, "{} is of somebody else", other.key);
    }
}

#[tokio::test]
async fn a_job_that_is_killed_while_it_uploads_leaves_an_upload_that_the_next_try_aborts() {
    let bucket = Bucket::start();
    let bed = Bed::new(MINOR, 1).await;
    bucket.admit(&bed);
    bed.fill(600).await;
    let order = bed.order(&bucket.destination());
    let (killed, context) = (order.clone(), bed.context.clone());
    let job = tokio::spawn(async move { back_up(&killed, &context).await });
    let uploads = || find(bucket.server.bucket_dir().as_path(), "multipart");
    let unfinished = || {
        let keys = uploads().and_then(|dir| std::fs::read_dir(dir).ok());
        keys.into_iter()
            .flatten()
            .filter_map(Result::ok)
            .any(|key| std::fs::read_dir(key.path()).is_ok_and(|mut ids| ids.next().is_some()))
    };
    eventually("an upload has begun", async || if unfinished() { Ok(()) } else { Err("none yet") }).await;
    job.abort();
    assert!(job.await.unwrap_err().is_cancelled(), "it had not ended");
    assert!(unfinished(), "nothing has taken it back");
    back_up(&order, &bed.context).await.unwrap();
    assert!(!unfinished());
}
