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
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions};
use quorate_api::destination::Destination;
use quorate_api::job::{Failure, FailureKind};

use crate::{Places, Result};
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

    /// The bytes of an object; `None` if there is none.
    pub(crate) async fn size(&self, key: &str) -> Result<Option<u64>> {
        let path = self.path(key)?;
        match &self.place {
            Place::Folder(folder) => folder.size(&path).await,
            Place::Remote(store) => Ok(self.optional(store.head(&path).await, key)?.map(|meta| meta.size)),
        }
    }

    /// Creates a small object, and never overwrites one.
    pub(crate) async fn create(&self, key: &str, bytes: Bytes) -> Result<Created> {
        let path = self.path(key)?;
        let store = match &self.place {
            Place::Folder(folder) => return folder.create(&path, bytes).await,
            Place::Remote(store) => store,
        };
        let options = PutOptions::from(PutMode::Create);
        match store.put_opts(&path, bytes.into(), options).await {
            Ok(_) => Ok(Created::Yes),
            Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => {
                Ok(Created::Exists)
            }
            Err(error) => Err(self.explain(&error, Act::Write, key)),
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
