//! An object on its way out of a store, a range at a time: a connection that breaks costs one range, and no reader is too slow.

use std::ops::Range;

use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt};
use object_store::GetOptions;
use quorate_api::job::{Failure, FailureKind};

use super::explain::{self, Act};
use super::upload::PART;
use super::{Place, Store};
use crate::Result;

/// Ranges that are fetched at the same time.
const IN_FLIGHT: usize = 2;

impl Store {
    /// The bytes of an object of this size, in order: of this version, or of what the key has now.
    pub(crate) fn download<'a>(
        &'a self,
        key: &'a str,
        version: Option<&'a str>,
        bytes: u64,
    ) -> BoxStream<'a, Result<Bytes>> {
        let ranges = (0..bytes).step_by(PART).map(move |from| from..bytes.min(from + PART as u64));
        let fetch = move |range| async move { self.range(key, version, range).await };
        stream::iter(ranges).map(fetch).buffered(IN_FLIGHT).boxed()
    }

    async fn range(&self, key: &str, version: Option<&str>, range: Range<u64>) -> Result<Bytes> {
        let path = self.path(key)?;
        let bytes = match &self.place {
            Place::Folder(folder) => folder.range(&path, range.clone()).await?,
            Place::Remote(store) => {
                let (range, version) = (Some(range.clone().into()), version.map(str::to_owned));
                let options = GetOptions { range, version, ..GetOptions::default() };
                let read = async { store.get_opts(&path, options).await?.bytes().await };
                read.await.map_err(|error| self.lost(&error, key))?
            }
        };
        if bytes.len() as u64 == range.end - range.start {
            return Ok(bytes);
        }
        let message = format!("{} became shorter while it was read", self.url(key));
        Err(Failure::new(FailureKind::Mismatch, message))
    }

    /// The failure of a range of an object that was there. A 404 counts only in the words of a store.
    fn lost(&self, error: &object_store::Error, key: &str) -> Failure {
        if explain::is_missing_object(error) && !explain::names_what_is_missing(error) {
            let message = format!(
                "{} was there, and is answered with 404, not in the words of a store. Check the store, and for a proxy on the way",
                self.url(key)
            );
            return Failure::new(FailureKind::StoreUnavailable, message);
        }
        self.explain(error, Act::Read, key)
    }
}
