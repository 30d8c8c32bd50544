//! A place for objects: a bucket, or a directory of a volume.
//!
//! - `remote`: buckets, by `object_store`; `folder`: directories, with writes that survive a power failure
//! - `upload`, `download`: the bytes of one object; `unfinished`: uploads that nobody will complete
//! - `explain`: failures in messages that people can act on

mod download;
mod explain;
mod folder;
mod remote;
mod unfinished;
mod upload;

use std::sync::Arc;

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt as _, TryStreamExt as _};
use object_store::path::Path;
use object_store::{GetOptions, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions};
use quorate_api::destination::Destination;
use quorate_api::job::{Failure, FailureKind, ObjectMark};

use crate::{Places, Result, manifest};
use explain::Act;
use folder::Folder;
pub(crate) use unfinished::Abandoned;
use unfinished::Uploads;
pub(crate) use upload::Upload;

/// The most bytes that a manifest may have.
const SMALL: u64 = 1 << 20;

/// An open store.
#[derive(Debug)]
pub struct Store {
    place: Place,
    /// Of a bucket of S3, for what its interface lacks.
    uploads: Option<Uploads>,
    destination: Destination,
}

#[derive(Debug)]
enum Place {
    Remote(Arc<dyn ObjectStore>),
    Folder(Folder),
}

/// What a store says of an object that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Its bytes.
    pub(crate) bytes: u64,
    /// All else.
    pub(crate) mark: ObjectMark,
}

/// Whether an object was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Created {
    Yes,
    /// There is one already, and it is as it was.
    Exists,
}

impl Store {
    /// Opens it. Sends nothing yet.
    pub fn open(destination: &Destination, places: &Places) -> Result<Self> {
        let Destination { s3, gcs, azure, pvc } = destination;
        let (place, uploads) = match (s3, gcs, azure, pvc) {
            (Some(s3), None, None, None) => {
                let (store, uploads) = remote::s3(s3, places)?;
                (Place::Remote(store), Some(uploads))
            }
            (None, Some(gcs), None, None) => (Place::Remote(remote::gcs(gcs, places)?), None),
            (None, None, Some(azure), None) => (Place::Remote(remote::azure(azure, places)?), None),
            (None, None, None, Some(_)) => (Place::Folder(Folder::new(&places.pvc)), None),
            _ => {
                let message = "the destination must have exactly one of s3, gcs, azure and pvc";
                return Err(Failure::new(FailureKind::OrderRefused, message));
            }
        };
        Ok(Self { place, uploads, destination: destination.clone() })
    }

    /// An object as a URL, for people.
    pub fn url(&self, key: &str) -> String {
        self.destination.url(key)
    }

    /// A small object; `None` if there is none.
    pub(crate) async fn read(&self, key: &str) -> Result<Option<Bytes>> {
        let Some(size) = self.size(key).await? else { return Ok(None) };
        if size > SMALL {
            let message = format!("{} has {size} bytes: it is not the manifest of a backup", self.url(key));
            return Err(Failure::new(FailureKind::NotOurs, message));
        }
        let path = self.path(key)?;
        match &self.place {
            Place::Folder(folder) => folder.read(&path).await,
            Place::Remote(store) => {
                let read = async { store.get(&path).await?.bytes().await };
                self.optional(read.await, key)
            }
        }
    }

    /// The keys of all objects under the destination's prefix, or under a part of it, in no order and never all at once.
    pub(crate) fn list(&self, under: Option<&str>) -> Result<BoxStream<'_, Result<String>>> {
        let prefix = self.destination.prefix();
        let folder = match under {
            Some(under) => self.path(under)?,
            None => Path::parse(prefix).map_err(|error| {
                Failure::new(FailureKind::OrderRefused, format!("{prefix:?} cannot be a prefix: {error}"))
            })?,
        };
        let key = move |whole: &str| {
            let key =
                if prefix.is_empty() { whole } else { whole.strip_prefix(prefix)?.strip_prefix('/')? };
            Some(key.to_owned())
        };
        match &self.place {
            Place::Folder(place) => {
                let listed = place.list(&folder)?;
                let keys = listed.try_filter_map(move |whole| std::future::ready(Ok(key(&whole))));
                Ok(keys.boxed())
            }
            Place::Remote(store) => {
                let listed = store.list(Some(&folder)).filter_map(move |next| {
                    let next = match next {
                        Ok(found) => key(found.location.as_ref()).map(Ok),
                        Err(error) => Some(Err(self.explain(&error, Act::List, ""))),
                    };
                    std::future::ready(next)
                });
                Ok(listed.boxed())
            }
        }
    }

    /// The bytes of an object; `None` if there is none.
    pub(crate) async fn size(&self, key: &str) -> Result<Option<u64>> {
        Ok(self.see(key).await?.map(|seen| seen.bytes))
    }

    /// What the store says of an object; `None` if there is none.
    pub(crate) async fn see(&self, key: &str) -> Result<Option<Seen>> {
        let path = self.path(key)?;
        match &self.place {
            Place::Folder(folder) => folder.see(&path).await,
            Place::Remote(store) => Ok(self.optional(store.head(&path).await, key)?.map(seen)),
        }
    }

    /// What the store says of a version of an object; `None` if it does not know it, or has none.
    pub(crate) async fn see_version(&self, key: &str, version: &str) -> Result<Option<Seen>> {
        let path = self.path(key)?;
        let Place::Remote(store) = &self.place else { return Ok(None) };
        let options = GetOptions { version: Some(version.to_owned()), head: true, ..GetOptions::default() };
        match store.get_opts(&path, options).await {
            Ok(found) => Ok(Some(seen(found.meta))),
            Err(error) if explain::names_unknown_header(&error) => Ok(None),
            Err(error) => self.optional(Err(error), key),
        }
    }

    /// Whether the store itself says that an object, or its bucket, is not there. What is between may answer 404 as well, and the reply to HEAD
    /// has no words: so it is asked with GET, and if that does not name what is missing, by a list.
    pub(crate) async fn lacks(&self, key: &str) -> Result<bool> {
        let path = self.path(key)?;
        let store = match &self.place {
            Place::Folder(folder) => return Ok(folder.see(&path).await?.is_none()),
            Place::Remote(store) => store,
        };
        match store.get_range(&path, 0..1).await {
            Ok(_) => return Ok(false),
            Err(error) if explain::names_what_is_missing(&error) => return Ok(true),
            Err(error) if explain::is_missing_object(&error) => {}
            Err(error) => return Err(self.explain(&error, Act::Read, key)),
        }
        // Begins at the key: what comes before it would be in pages of a thousand.
        let whole = path.as_ref();
        let end = whole.char_indices().next_back().map_or(0, |(end, _)| end);
        let before = Path::parse(&whole[..end]).unwrap_or_default();
        let folder = whole.rsplit_once('/').map(|(folder, _)| Path::from(folder));
        let mut listed = store.list_with_offset(folder.as_ref(), &before);
        while let Some(next) = listed.next().await {
            match next {
                Ok(found) if found.location == path => return Ok(false),
                Ok(found) if found.location > path => break,
                Ok(_) => {}
                Err(error) if explain::names_what_is_missing(&error) => return Ok(true),
                Err(error) => {
                    let failure = self.explain(&error, Act::Read, key);
                    let kind = match failure.kind {
                        FailureKind::NotInStore => FailureKind::StoreUnavailable,
                        other => other,
                    };
                    let message = format!(
                        "{} is answered with 404, not in the words of a store, and a list of the objects, which would tell, fails: {}. \
                         Check the endpoint, and for a proxy on the way",
                        self.url(key),
                        failure.message
                    );
                    return Err(Failure::new(kind, message));
                }
            }
        }
        Ok(true)
    }

    /// That an object is missing, which HEAD says, if the store confirms it. Who says now this and now that says nothing.
    pub(crate) async fn confirm_missing(&self, key: &str) -> Result<()> {
        if self.lacks(key).await? {
            return Ok(());
        }
        let message = format!(
            "{} is missing by HEAD and there by GET or by a list. Check the store, and for a proxy on the way",
            self.url(key)
        );
        Err(Failure::new(FailureKind::StoreUnavailable, message))
    }

    /// Creates a small object, and never overwrites one. Some stores know no conditional writes, and some proxies answer to each of them that
    /// the object exists: there it is looked for before. Between the two another try of the same backup may write it; keys have the uid of
    /// their EtcdBackup, so nobody else does.
    pub(crate) async fn create(&self, key: &str, bytes: Bytes) -> Result<Created> {
        use object_store::Error::{AlreadyExists, Precondition};
        let path = self.path(key)?;
        let store = match &self.place {
            Place::Folder(folder) => return folder.create(&path, bytes).await,
            Place::Remote(store) => store,
        };
        let written = store.put_opts(&path, bytes.clone().into(), PutOptions::from(PutMode::Create)).await;
        let Err(error) = written else { return Ok(Created::Yes) };
        let seems_there = matches!(error, AlreadyExists { .. } | Precondition { .. });
        if !seems_there && !explain::names_unknown_condition(&error) {
            return Err(self.explain(&error, Act::Write, key));
        }
        match self.see(key).await {
            Ok(Some(_)) => Ok(Created::Exists),
            Ok(None) => self.replace(key, bytes).await.map(|()| Created::Yes),
            Err(failure) if failure.kind == FailureKind::StoreForbidden && seems_there => Ok(Created::Exists),
            // Who may not read writes the object without a look.
            Err(failure) if failure.kind == FailureKind::StoreForbidden => {
                self.replace(key, bytes).await.map(|()| Created::Yes)
            }
            Err(failure) => Err(failure),
        }
    }

    /// Writes a small object, whatever was there.
    pub(crate) async fn replace(&self, key: &str, bytes: Bytes) -> Result<()> {
        let path = self.path(key)?;
        match &self.place {
            Place::Folder(folder) => {
                folder.delete(&path).await?;
                folder.create(&path, bytes).await.map(drop)
            }
            Place::Remote(store) => {
                let written = store.put(&path, bytes.into()).await;
                written.map(drop).map_err(|error| self.explain(&error, Act::Write, key))
            }
        }
    }

    /// Whether the right to write may come without the right to read.
    pub(crate) fn is_bucket(&self) -> bool {
        match &self.place {
            Place::Remote(_) => true,
            Place::Folder(_) => false,
        }
    }

    /// Begins an object, which appears when the upload is finished.
    pub(crate) async fn upload(&self, key: &str) -> Result<Upload> {
        let path = self.path(key)?;
        match &self.place {
            Place::Folder(folder) => Ok(Upload::to_file(folder.begin(&path).await?)),
            Place::Remote(store) => {
                let upload = store.put_multipart(&path).await;
                let upload = upload.map_err(|error| self.explain(&error, Act::Write, key))?;
                Ok(Upload::remote(upload, self.destination.clone(), key))
            }
        }
    }

    /// The bytes that are free for an object, as far as the store has an end.
    pub(crate) async fn free(&self, key: &str) -> Result<Option<u64>> {
        let path = self.path(key)?;
        match &self.place {
            Place::Folder(folder) => folder.free(&path).await,
            Place::Remote(_) => Ok(None),
        }
    }

    /// The manifest that was written last beside an object, of a volume.
    pub(crate) async fn newest_beside(&self, key: &str) -> Result<Option<Bytes>> {
        let path = self.path(key)?;
        match &self.place {
            Place::Folder(folder) => folder.newest(&path, manifest::END).await,
            Place::Remote(_) => Ok(None),
        }
    }

    /// Deletes an object. That there is none is no error.
    pub(crate) async fn delete(&self, key: &str) -> Result<()> {
        let path = self.path(key)?;
        match &self.place {
            Place::Folder(folder) => folder.delete(&path).await,
            Place::Remote(store) => match store.delete(&path).await {
                Err(error) if !explain::is_missing_object(&error) => {
                    Err(self.explain(&error, Act::Delete, key))
                }
                Ok(()) | Err(_) => Ok(()),
            },
        }
    }

    fn optional<T>(&self, result: object_store::Result<T>, key: &str) -> Result<Option<T>> {
        match result {
            Ok(found) => Ok(Some(found)),
            Err(error) if explain::is_missing_object(&error) => Ok(None),
            Err(error) => Err(self.explain(&error, Act::Read, key)),
        }
    }

    fn explain(&self, error: &object_store::Error, act: Act, key: &str) -> Failure {
        explain::explain(error, act, &self.destination, key)
    }

    /// The path of a key. One that leaves the prefix is refused.
    fn path(&self, key: &str) -> Result<Path> {
        let whole = match self.destination.prefix() {
            "" => key.to_owned(),
            prefix => format!("{prefix}/{key}"),
        };
        Path::parse(&whole).map_err(|error| {
            Failure::new(FailureKind::OrderRefused, format!("{whole:?} cannot be a key: {error}"))
        })
    }
}

fn seen(meta: ObjectMeta) -> Seen {
    let modified = Some(meta.last_modified.to_rfc3339());
    let mark = ObjectMark { etag: etag(meta.e_tag), version_id: meta.version, modified };
    Seen { bytes: meta.size, mark }
}

/// An ETag without its quotes: replies to writes and to HEAD differ in them.
fn etag(told: Option<String>) -> Option<String> {
    told.map(|etag| etag.trim_matches('"').to_owned()).filter(|etag| !etag.is_empty())
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::look::tests::Answering;

    #[tokio::test]
    async fn a_store_that_knows_no_conditional_writes_takes_a_manifest_once_nothing_is_there() {
        let refusals = [
            (501, "<Error><Code>NotImplemented</Code></Error>"),
            (405, "<Error><Code>MethodNotAllowed</Code></Error>"),
            (405, ""),
            // To each of them, whatever is there.
            (412, "<Error><Code>PreconditionFailed</Code></Error>"),
        ];
        for (refusal, there) in refusals.into_iter().flat_map(|refusal| [(refusal, false), (refusal, true)]) {
            let plain = Arc::new(Mutex::new(0));
            let count = plain.clone();
            let server = Answering::start(move |request| {
                let is = |words: &str| request.to_lowercase().contains(words);
                match request.split(' ').next() {
                    Some("PUT") if is("if-none-match") => refusal,
                    Some("PUT") => {
                        *count.lock().unwrap() += 1;
                        (200, "")
                    }
                    _ if there => (200, ""),
                    _ => (404, ""),
                }
            });
            let server = server.await;
            let store = Store::open(&server.destination, &server.context().places).unwrap();
            let created = store.create("a/one.json", Bytes::from("{}")).await.unwrap();
            let wanted = if there { Created::Exists } else { Created::Yes };
            assert_eq!((created, *plain.lock().unwrap()), (wanted, usize::from(!there)), "{refusal:?}");
        }
    }

    #[tokio::test]
    async fn a_store_that_does_not_know_a_header_is_not_asked_again_and_the_way_out_is_told() {
        let server = Answering::start(|_| (400, "<Error><Code>InvalidArgument</Code></Error>")).await;
        let store = Store::open(&server.destination, &server.context().places).unwrap();
        let failure = store.upload("a/one").await.map(drop).unwrap_err();
        assert_eq!(failure.kind, FailureKind::OrderRefused, "{}", failure.message);
        assert!(failure.message.contains("s3.checksum: None"), "{}", failure.message);
    }
}
