//! Uploads that were begun and neither completed nor aborted, because a Job was killed meanwhile. S3 keeps their parts and bills them, and
//! no list of objects shows them. `object_store` has no request for their list, so that one request is made here.
//!
//! Nothing is aborted that another writer may still complete: an upload of the very key that the caller has finished with, or one that has
//! the name of a backup of the same etcd and is older than any backup can take.

use std::time::Duration;

use futures::TryStreamExt as _;
use jiff::fmt::rfc2822;
use jiff::{SignedDuration, Timestamp};
use object_store::ClientOptions;
use object_store::aws::AmazonS3;
use object_store::client::{
    HttpClient, HttpConnector as _, HttpRequest, HttpRequestBody, HttpResponse, ReqwestConnector,
};
use object_store::multipart::MultipartStore as _;
use object_store::path::Path;
use object_store::signer::{Method, SignedUrlOptions, Signer as _};
use quorate_api::job::{Failure, FailureKind};
use serde::Deserialize;

use super::Store;
use super::explain::{self, Act};
use crate::Result;

/// From this age on an upload cannot be under way. It has 80 GiB at most (10,000 parts of 8 MiB), and less than 1 MiB of the database in a
/// second ends it: 23 hours, and as much again for a store that takes its time with the end.
const OLD: SignedDuration = SignedDuration::from_hours(48);

/// How long a signed request is valid.
const VALID: Duration = Duration::from_secs(60);

/// The most pages of a list that are read, of 1,000 uploads each. What is left is found the next time.
const PAGES: usize = 10;

/// The most bytes of a page.
const PAGE: usize = 4 << 20;

/// Requests about the unfinished uploads of a bucket.
#[derive(Debug)]
pub(super) struct Uploads {
    bucket: AmazonS3,
    http: HttpClient,
}

/// Which unfinished uploads are aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Abandoned {
    /// Those of the key.
    OfKey,
    /// Those of the key, and old ones of other backups of the same etcd, which have the same directory.
    OfEtcd,
}

/// A page of the list, as S3 writes it.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Page {
    upload: Vec<Listed>,
    is_truncated: bool,
    next_key_marker: String,
    next_upload_id_marker: String,
}

/// An upload in the list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Listed {
    key: String,
    upload_id: String,
    initiated: String,
}

impl Uploads {
    /// The same server as that of the bucket, by the same options.
    pub(super) fn new(bucket: AmazonS3, options: &ClientOptions) -> object_store::Result<Self> {
        Ok(Self { bucket, http: ReqwestConnector::default().connect(options)? })
    }

    /// A page of the list, and the time of the server.
    async fn page(
        &self,
        prefix: &str,
        after: &Page,
    ) -> std::result::Result<(Page, Option<Timestamp>), String> {
        let mut query = vec![("uploads", ""), ("prefix", prefix)];
        if after.is_truncated {
            query.extend([
                ("key-marker", after.next_key_marker.as_str()),
                ("upload-id-marker", after.next_upload_id_marker.as_str()),
            ]);
        }
        let options = SignedUrlOptions::default().with_query(query);
        let url = self.bucket.signed_url_opts(Method::GET, &Path::default(), VALID, &options).await;
        let url = url.map_err(|error| format!("the request cannot be signed: {error}"))?;
        let mut request = HttpRequest::new(HttpRequestBody::empty());
        *request.uri_mut() = url.as_str().parse().map_err(|_| "its URL cannot be used".to_owned())?;
        // The error has the URL, and with it the token of a session: only its kind is shown.
        let response = self.http.execute(request).await;
        let response = response.map_err(|error| format!("there is no answer ({:?})", error.kind()))?;
        let (status, date) = (response.status(), date(&response));
        let body = body(response).await?;
        if !status.is_success() {
            return Err(format!(
                "the answer is {status}: {}",
                explain::brief(&String::from_utf8_lossy(&body))
            ));
        }
        let page = quick_xml::de::from_reader(body.as_slice());
        Ok((page.map_err(|error| format!("the answer is not a list of uploads: {error}"))?, date))
    }

    /// The abandoned uploads below the directory of a key.
    async fn abandoned(&self, key: &str, which: Abandoned) -> std::result::Result<Vec<Listed>, String> {
        let prefix = match which {
            Abandoned::OfEtcd if key.contains('/') => directory(key),
            Abandoned::OfKey | Abandoned::OfEtcd => key,
        };
        let (mut found, mut page) = (Vec::new(), Page::default());
        for _ in 0..PAGES {
            let (next, now) = self.page(prefix, &page).await?;
            found.extend(next.upload.iter().filter(|upload| upload.is_abandoned(key, which, now)).cloned());
            page = next;
            if !page.is_truncated || page.next_key_marker.is_empty() {
                break;
            }
        }
        Ok(found)
    }
}

impl Store {
    /// Aborts unfinished uploads that nobody will complete, and returns how many. Only S3 keeps such uploads where a client finds them.
    pub(crate) async fn abort_abandoned(&self, key: &str, which: Abandoned) -> Result<usize> {
        let Some(uploads) = &self.uploads else { return Ok(0) };
        let whole = self.path(key)?;
        let found = uploads.abandoned(whole.as_ref(), which).await.map_err(|why| {
            let message = format!("cannot list the unfinished uploads at {}: {why}", self.url(key));
            Failure::new(FailureKind::StoreUnavailable, message)
        })?;
        for upload in &found {
            let Ok(path) = Path::parse(&upload.key) else { continue };
            match uploads.bucket.abort_multipart(&path, &upload.upload_id).await {
                Err(error) if !explain::is_missing_object(&error) => {
                    return Err(self.explain(&error, Act::Delete, key));
                }
                Ok(()) | Err(_) => {}
            }
        }
        Ok(found.len())
    }
}

impl Listed {
    /// Whether nobody will complete it. `now` is the server's time, as its own times are; without it nothing is old.
    fn is_abandoned(&self, key: &str, which: Abandoned, now: Option<Timestamp>) -> bool {
        if self.key == key {
            return true;
        }
        let is_old = || {
            let began: Option<Timestamp> = self.initiated.parse().ok();
            began.zip(now).is_some_and(|(began, now)| now.duration_since(began) > OLD)
        };
        which == Abandoned::OfEtcd && is_backup_in(&self.key, directory(key)) && is_old()
    }
}

/// What a key begins with, up to its last slash.
fn directory(key: &str) -> &str {
    key.rfind('/').map_or("", |end| &key[..=end])
}

/// Whether a key has the form of the keys of EtcdBackups in this directory: `<name>-<uid>.db`, with `.zst` and `.age` after it. A bucket
/// may have uploads of other programs.
fn is_backup_in(key: &str, directory: &str) -> bool {
    let Some(file) = key.strip_prefix(directory).filter(|_| directory.contains('/')) else { return false };
    let Some((stem, ending)) = file.rsplit_once(".db") else { return false };
    let uid = stem.len().checked_sub(36).and_then(|at| stem.get(at..));
    let named = stem.len() > 37 && stem.get(stem.len() - 37..).is_some_and(|end| end.starts_with('-'));
    ["", ".zst", ".age", ".zst.age"].contains(&ending)
        && !file.contains('/')
        && named
        && uid.is_some_and(is_uid)
}

fn is_uid(text: &str) -> bool {
    text.char_indices().all(|(at, one)| match at {
        8 | 13 | 18 | 23 => one == '-',
        _ => one.is_ascii_hexdigit(),
    })
}

/// When the server sent it.
fn date(response: &HttpResponse) -> Option<Timestamp> {
    let text = response.headers().get("date")?.to_str().ok()?;
    rfc2822::DateTimeParser::new().parse_timestamp(text).ok()
}

async fn body(response: HttpResponse) -> std::result::Result<Vec<u8>, String> {
    let broke =
        |error: object_store::client::HttpError| format!("the answer breaks off ({:?})", error.kind());
    let mut chunks = response.into_body().bytes_stream();
    let mut body = Vec::new();
    while let Some(bytes) = chunks.try_next().await.map_err(broke)? {
        body.extend_from_slice(&bytes);
        if body.len() > PAGE {
            return Err("the answer is too long".to_owned());
        }
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "etcd/default/demo/nightly-00001-0a1b2c3d-0000-4000-8000-00000000000a.db.zst";
    const NOW: &str = "2026-11-25T10:00:00Z";

    #[test]
    fn a_page_of_the_list_is_read_as_s3_and_versitygw_write_it() {
        let whole = r#"<?xml version="1.0" encoding="UTF-8"?>
            <ListMultipartUploadsResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Bucket>backups</Bucket><KeyMarker/>
            <UploadIdMarker/><NextKeyMarker>b</NextKeyMarker><NextUploadIdMarker>2</NextUploadIdMarker><MaxUploads>2</MaxUploads>
            <IsTruncated>true</IsTruncated>
            <Upload><Key>a</Key><UploadId>1</UploadId><Initiator><ID>x</ID></Initiator><StorageClass>STANDARD</StorageClass>
            <Initiated>2026-11-22T20:48:33.000Z</Initiated></Upload><CommonPrefixes><Prefix>c/</Prefix></CommonPrefixes>
            <Upload><Key>b</Key><UploadId>2</UploadId><Initiated>2026-11-22T20:48:33.000Z</Initiated></Upload>
            </ListMultipartUploadsResult>"#;
        let page: Page = quick_xml::de::from_str(whole).unwrap();
        let ids: Vec<_> = page.upload.iter().map(|upload| (&*upload.key, &*upload.upload_id)).collect();
        assert_eq!(ids, [("a", "1"), ("b", "2")]);
        assert_eq!(
            (page.is_truncated, &*page.next_key_marker, &*page.next_upload_id_marker),
            (true, "b", "2")
        );
        let none =
            "<ListMultipartUploadsResult><IsTruncated>false</IsTruncated></ListMultipartUploadsResult>";
        let page: Page = quick_xml::de::from_str(none).unwrap();
        assert!(page.upload.is_empty() && !page.is_truncated);
    }

    #[test]
    fn only_uploads_of_the_key_and_old_ones_of_backups_of_the_same_etcd_are_abandoned() {
        let now = Some(NOW.parse().unwrap());
        let is = |key: &str, began: &str, which, now| {
            let upload =
                Listed { key: key.to_owned(), upload_id: "1".to_owned(), initiated: began.to_owned() };
            upload.is_abandoned(KEY, which, now)
        };
        let (young, old) = ("2026-11-23T10:00:01.000Z", "2026-11-23T09:59:59.000Z");
        let sibling = KEY.replace("00001", "00000").replace(".zst", ".zst.age");
        assert!(is(KEY, NOW, Abandoned::OfKey, now), "whatever is left of the key itself");
        assert!(is(&sibling, old, Abandoned::OfEtcd, now));
        assert!(!is(&sibling, young, Abandoned::OfEtcd, now), "it may be under way");
        assert!(!is(&sibling, old, Abandoned::OfKey, now));
        assert!(!is(&sibling, old, Abandoned::OfEtcd, None), "nobody knows the time of the server");
        assert!(!is(&sibling, "yesterday", Abandoned::OfEtcd, now));
        for foreign in [
            KEY.replace("demo/", "demo-2/"),
            KEY.replace("demo/", "demo/deeper/"),
            KEY.replace("etcd/", "etcd-2/"),
            KEY.replace("default/", "other/"),
            KEY.replace("-0a1b2c3d", "-ya1b2c3d"),
            KEY.replace("nightly-00001-", ""),
            KEY.replace(".db.zst", ".db.gz"),
            "etcd/default/demo/film.mkv".to_owned(),
        ] {
            assert!(!is(&foreign, old, Abandoned::OfEtcd, now), "{foreign}");
        }
    }
}
