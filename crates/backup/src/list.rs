//! What a store has of one EtcdCluster, by the manifests, the newest first: for EtcdBackups that are made again after they were lost. A page is
//! what fits into an answer. Nothing is downloaded, and nothing is believed but where an object is: each EtcdBackup looks for its own.

use std::collections::BTreeMap;

use jiff::Timestamp;
use quorate_api::backup::ExistingObject;
use quorate_api::job::{ClusterName, Failure, FailureKind, ListOrder, ListedBackups, Manifest};
use quorate_api::keys;
use quorate_api::schedule::ListedUpTo;

use crate::find::{AHEAD, broken, is_sha256};
use crate::look::is_of_the_object;
use crate::signature::Keys;
use crate::{Context, Result, Store, manifest, walk};

/// What a person can do where a store has too many objects.
const INSTEAD: &str = "name the ones that are needed by EtcdBackups of your own (spec.existing)";

/// How many of the newest are kept, for where some are not whole.
const KEPT: usize = 64;

/// The most notes on what was left out, and the most characters of one.
const NOTES: (usize, usize) = (3, 200);

/// The longest key of an object: of a namespace, a cluster, an EtcdBackup and its uid.
const LONGEST: usize = 240;

/// When it was complete, and its key.
type Place = (Timestamp, String);

/// Lists a page. A store that does not answer, or refuses, is a failure: what cannot be read may be on this page.
pub async fn list(order: &ListOrder, context: &Context) -> Result<ListedBackups> {
    #[expect(clippy::disallowed_methods, reason = "a backup of the future is left out")]
    let now = Timestamp::now();
    let store = Store::open(&order.destination, &context.places)?;
    let keys = Keys::read(&context.places.signing_keys)?;
    context.unless_stopped(page(&store, order, &keys, now, context.log)).await
}

async fn page(
    store: &Store,
    order: &ListOrder,
    signing: &Keys,
    now: Timestamp,
    log: fn(&str),
) -> Result<ListedBackups> {
    let mut page = Page::new(order, now)?;
    let under = format!("{}/{}", order.cluster.namespace, order.cluster.name);
    let read = |key| read(store, order, key, signing);
    page.listed.objects =
        walk::manifests(store, Some(&under), read, |read| page.consider(read), INSTEAD).await?;
    let mut candidates = std::mem::take(&mut page.candidates).into_iter().rev().peekable();
    while page.listed.backups.len() < order.most
        && let Some(((finished, key), manifest)) = candidates.next()
    {
        match broken(store, &manifest).await? {
            None => {
                page.listed.backups.push(ExistingObject {
                    key: key.clone(),
                    sha256: manifest.stored_sha256,
                    allow_unsigned: order.allow_unsigned,
                    ..ExistingObject::default()
                });
            }
            Some(why) => page.leave_out(&why),
        }
        page.listed.next = Some(ListedUpTo { finished: finished.to_string(), key });
    }
    if candidates.peek().is_none() && !page.has_older {
        page.listed.next = None;
    }
    let ListedBackups { backups, objects, of_cluster, skipped, .. } = &page.listed;
    log(&format!(
        "{objects} objects were seen, {of_cluster} of them manifests of this cluster; {} are on this page, {skipped} were left out",
        backups.len()
    ));
    Ok(page.listed)
}

/// What is read of a manifest, or why it is left out. `None`: it is gone since the list.
type Read = Option<std::result::Result<Box<Manifest>, String>>;

async fn read(store: &Store, order: &ListOrder, key: String, signing: &Keys) -> Result<Read> {
    let file = manifest::key_of(&key);
    if !has_layout(&order.cluster, &key) {
        return Ok(Some(Err(format!("{file:?} has not the name of a backup"))));
    }
    match manifest::read_signed(store, &key, signing).await {
        Ok(Some((_, Some(why)))) if !order.allow_unsigned => {
            // A note is cut at its end, and keys are long.
            let how = keys::CATALOG_ALLOWS_UNSIGNED;
            Ok(Some(Err(format!("a manifest {why} ({how}=true takes it): {key}"))))
        }
        Ok(Some((manifest, _))) => Ok(Some(Ok(Box::new(manifest)))),
        Ok(None) => Ok(None),
        // It is there, and no manifest that this program reads.
        Err(failure) if is_of_the_object(failure.kind) || failure.kind == FailureKind::Unfit => {
            Ok(Some(Err(failure.message)))
        }
        Err(failure) => Err(failure),
    }
}

/// Whether a key is one that the operator would give to a backup of this cluster: of plain characters, so that an answer has room for it.
fn has_layout(cluster: &ClusterName, key: &str) -> bool {
    let under = format!("{}/{}/", cluster.namespace, cluster.name);
    let is_plain = |one: u8| one.is_ascii_lowercase() || one.is_ascii_digit() || one == b'-' || one == b'.';
    key.len() <= LONGEST
        && key.strip_prefix(&under).is_some_and(|file| file.contains(".db") && file.bytes().all(is_plain))
}

/// What the manifests say, as far as it is needed: the store may have any number.
struct Page<'a> {
    order: &'a ListOrder,
    after: Option<Place>,
    now: Timestamp,
    /// The newest after the page before.
    candidates: BTreeMap<Place, Manifest>,
    /// Others come after those.
    has_older: bool,
    listed: ListedBackups,
}

impl<'a> Page<'a> {
    fn new(order: &'a ListOrder, now: Timestamp) -> Result<Self> {
        let place = |after: &ListedUpTo| Ok((after.finished.parse::<Timestamp>()?, after.key.clone()));
        let after = order.after.as_ref().map(place).transpose().map_err(|error: jiff::Error| {
            Failure::new(FailureKind::OrderRefused, format!("the place of the page is no time: {error}"))
        })?;
        let listed = ListedBackups::default();
        Ok(Self { order, after, now, candidates: BTreeMap::new(), has_older: false, listed })
    }

    fn consider(&mut self, read: Read) {
        let manifest = match read {
            None => return,
            Some(Ok(manifest)) => *manifest,
            Some(Err(why)) => return self.leave_out(&why),
        };
        let place = match self.place(&manifest) {
            Ok(place) => place,
            Err(why) => return self.leave_out(&why),
        };
        self.listed.of_cluster += 1;
        if self.after.as_ref().is_some_and(|after| place >= *after) {
            return;
        }
        self.candidates.insert(place, manifest);
        if self.candidates.len() > KEPT {
            self.candidates.pop_first();
            self.has_older = true;
        }
    }

    /// Where it is in the list, or why it is not.
    fn place(&self, manifest: &Manifest) -> std::result::Result<Place, String> {
        let Manifest { key, origin, finished, .. } = manifest;
        let ClusterName { namespace, name } = &self.order.cluster;
        if origin.namespace != *namespace || origin.cluster.as_ref() != Some(name) {
            return Err(format!("the manifest of {key} is of another EtcdCluster"));
        }
        let id = u64::from_str_radix(&manifest.cluster_id, 16);
        let (Ok(_), Ok(at), true) = (id, finished.parse::<Timestamp>(), is_sha256(manifest)) else {
            return Err(format!("the manifest of {key} has no time, cluster ID or SHA-256 that can be read"));
        };
        if at.as_second() > self.now.as_second() + AHEAD {
            return Err(format!("{key} was finished at {at} by its manifest, which is still to come"));
        }
        Ok((at, key.clone()))
    }

    fn leave_out(&mut self, why: &str) {
        let (most, longest) = NOTES;
        self.listed.skipped += 1;
        if self.listed.notes.len() < most {
            self.listed.notes.push(why.chars().take(longest).collect());
        }
    }
}

#[cfg(test)]
mod tests;
