//! The manifest beside an object. An object without one is not a backup.

use bytes::Bytes;
use quorate_api::job::{Failure, FailureKind, Manifest};

use crate::signature::{Doubt, Keys};
use crate::{Result, Store};

/// The format that this program reads and writes.
pub(crate) const FORMAT: u32 = 1;

/// The most bytes of a manifest that an answer has room for.
const ROOM: usize = 3500;

/// How its name ends.
pub(crate) const END: &str = ".json";

/// The key of the manifest of an object.
pub(crate) fn key_of(key: &str) -> String {
    format!("{key}{END}")
}

/// The manifest of an object, and why no key of the namespace vouches for it; `None` if there is none.
pub(crate) async fn read_signed(
    store: &Store,
    key: &str,
    keys: &Keys,
) -> Result<Option<(Manifest, Option<Doubt>)>> {
    let file = key_of(key);
    let Some(text) = store.read(&file).await? else { return Ok(None) };
    let doubt = keys.doubt(&text);
    let manifest = parse(&text, key, &store.url(&file))?;
    Ok(Some((vouched(manifest, doubt.as_ref()), doubt)))
}

/// A manifest with its signature only where that is right.
pub(crate) fn vouched(manifest: Manifest, doubt: Option<&Doubt>) -> Manifest {
    let signature = manifest.signature.filter(|_| doubt.is_none());
    Manifest { signature, ..manifest }
}

/// Takes off it what an answer has no room for; whether the rest fits. One that the operator wrote has a third of the room.
pub(crate) fn fit(manifest: &mut Manifest) -> bool {
    manifest.recipients.truncate(1);
    to_bytes(manifest).len() <= ROOM
}

/// The manifest of an object; `None` if there is none.
pub(crate) async fn read(store: &Store, key: &str) -> Result<Option<Manifest>> {
    let file = key_of(key);
    let Some(text) = store.read(&file).await? else { return Ok(None) };
    parse(&text, key, &store.url(&file)).map(Some)
}

/// A manifest that was read from beside the object of this key.
pub(crate) fn parse(text: &[u8], key: &str, url: &str) -> Result<Manifest> {
    let manifest: Manifest = serde_json::from_slice(text).map_err(|error| {
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
    Ok(manifest)
}

/// The manifest as it is stored.
pub(crate) fn to_bytes(manifest: &Manifest) -> Bytes {
    serde_json::to_vec_pretty(manifest).expect("plain strings and numbers").into()
}
