//! The manifest beside an object. An object without one is not a backup.

use bytes::Bytes;
use quorate_api::job::{Failure, FailureKind, Manifest};

use crate::{Result, Store};

/// The format that this program reads and writes.
pub(crate) const FORMAT: u32 = 1;

/// The key of the manifest of an object.
pub(crate) fn key_of(key: &str) -> String {
    format!("{key}.json")
}

/// The manifest of an object; `None` if there is none.
pub(crate) async fn read(store: &Store, key: &str) -> Result<Option<Manifest>> {
    let file = key_of(key);
    let Some(text) = store.read(&file).await? else { return Ok(None) };
    let url = store.url(&file);
    let manifest: Manifest = serde_json::from_slice(&text).map_err(|error| {
        let message = format!("{url} is not the manifest of a backup ({error}): something else has that key");
        Failure::new(FailureKind::NotOurs, message)
    })?;
    if manifest.format != FORMAT {
        let message = format!("{url} has format {}, this program reads {FORMAT}", manifest.format);
        return Err(Failure::new(FailureKind::Unfit, message));
    }
    if manifest.key != key {
        let message =
            format!("{url} is the manifest of {:?}: the objects were moved or exchanged", manifest.key);
        return Err(Failure::new(FailureKind::Mismatch, message));
    }
    Ok(Some(manifest))
}

/// The manifest as it is stored.
pub(crate) fn to_bytes(manifest: &Manifest) -> Bytes {
    serde_json::to_vec_pretty(manifest).expect("plain strings and numbers").into()
}
