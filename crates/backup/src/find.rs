//! The newest whole backup of a cluster, by the manifests in a store. Nothing is downloaded.
//!
//! - `choice`: which one it is, once the manifests are read

mod choice;

use jiff::Timestamp;
use quorate_api::job::{Failure, FailureKind, FindOrder, FoundBackup, Manifest};
use serde::Deserialize;

use crate::signature::{Doubt, Keys};
use crate::{Context, Result, Store, manifest, walk};
use choice::Choice;
pub(crate) use choice::{AHEAD, is_sha256};

/// What a person can do where a store has too many objects.
const INSTEAD: &str = "give the destination the prefix that the backups were written with, or name the object with its SHA-256 (source)";

/// What is under the key of a manifest.
enum Read {
    /// A manifest that this program reads.
    Manifest(Box<Manifest>),
    /// One that no key of the namespace has signed: why that is so.
    Unsigned(Box<Manifest>, Doubt),
    /// It is gone since the list, or something else: why it is left out, for people.
    Other(Option<String>),
}

/// Finds it. A store that does not answer, or refuses, is a failure: what cannot be read may be the newest.
pub async fn find(order: &FindOrder, context: &Context) -> Result<FoundBackup> {
    #[expect(
        clippy::disallowed_methods,
        reason = "a backup of the future is refused, and the age is for people"
    )]
    let now = Timestamp::now();
    let store = Store::open(&order.destination, &context.places)?;
    let keys = Keys::read(&context.places.signing_keys)?;
    context.unless_stopped(newest(&store, order, &keys, now, context.log)).await
}

async fn newest(
    store: &Store,
    order: &FindOrder,
    signing: &Keys,
    now: Timestamp,
    log: fn(&str),
) -> Result<FoundBackup> {
    let mut choice = Choice::new(order, now)?;
    // By what the operator makes keys of: namespace, cluster, name.
    let under = order.cluster.as_ref().map(|cluster| format!("{}/{}", cluster.namespace, cluster.name));
    let take = |read| match read {
        Read::Manifest(manifest) => choice.consider(*manifest),
        Read::Unsigned(manifest, why) => choice.is_unsigned(&manifest, &why),
        Read::Other(why) => choice.leave_out(why),
    };
    let read = |key| read(store, key, order, signing);
    let objects = walk::manifests(store, under.as_deref(), read, take, INSTEAD).await?;
    choice.saw(objects);
    log(&choice.counts());
    let place = store.url(under.as_deref().unwrap_or_default());
    for candidate in choice.newest_first(&place)? {
        match broken(store, &candidate).await? {
            None => return choice.accept(&candidate),
            Some(why) => {
                log(&why);
                choice.is_broken(&candidate, why);
            }
        }
    }
    Err(choice.nothing(&place))
}

async fn read(store: &Store, key: String, order: &FindOrder, signing: &Keys) -> Result<Read> {
    let file = manifest::key_of(&key);
    let url = store.url(&file);
    let text = match store.read(&file).await {
        Ok(Some(text)) => text,
        Ok(None) => return Ok(Read::Other(None)),
        // Too large for a manifest.
        Err(failure) if failure.kind == FailureKind::NotOurs => {
            return Ok(Read::Other(Some(failure.message)));
        }
        Err(failure) => return Err(failure),
    };
    let doubt = signing.doubt(&text);
    let is_believed = doubt.is_none() || order.allow_unsigned;
    if is_believed && is_newer(&text, order) {
        let message = format!(
            "{url} was written by a newer release, and may be the newest backup: update the operator, or name the object with its SHA-256 \
             (source)"
        );
        return Err(Failure::new(FailureKind::Unfit, message));
    }
    Ok(match (manifest::parse(&text, &key, &url), doubt) {
        (Ok(manifest), Some(why)) if !is_believed => Read::Unsigned(Box::new(manifest), why),
        (Ok(manifest), doubt) => {
            let mut manifest = manifest::vouched(manifest, doubt.as_ref());
            if manifest::fit(&mut manifest) {
                Read::Manifest(Box::new(manifest))
            } else {
                Read::Other(Some(format!("{url} is longer than a manifest that an operator writes")))
            }
        }
        (Err(failure), _) => Read::Other(Some(failure.message)),
    })
}

/// Whether it is a manifest that only a newer program reads, of the cluster as far as that can be told.
fn is_newer(text: &[u8], order: &FindOrder) -> bool {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Any {
        format: u32,
        cluster_id: Option<String>,
    }
    let any: Any = serde_json::from_slice(text).unwrap_or_default();
    let is_other = matches!((&order.cluster_id, &any.cluster_id), (Some(one), Some(other)) if one != other);
    any.format > manifest::FORMAT && !is_other
}

/// Why what the manifest describes is not there, if so.
pub(crate) async fn broken(store: &Store, manifest: &Manifest) -> Result<Option<String>> {
    let url = store.url(&manifest.key);
    match store.size(&manifest.key).await? {
        Some(bytes) if bytes == manifest.stored_bytes => Ok(None),
        Some(bytes) => {
            let why = format!(
                "{url} is damaged: it has {bytes} bytes, its manifest says {}",
                manifest.stored_bytes
            );
            Ok(Some(why))
        }
        None if store.lacks(&manifest.key).await? => {
            Ok(Some(format!("{url} is gone, its manifest is there")))
        }
        None => {
            let message = format!(
                "{url} is missing by HEAD and there by GET or by a list. Check the store, and for a proxy on the way"
            );
            Err(Failure::new(FailureKind::StoreUnavailable, message))
        }
    }
}

#[cfg(test)]
mod tests;
