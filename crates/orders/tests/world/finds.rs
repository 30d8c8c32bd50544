//! What the Jobs answer that find, see and list objects which are there: `crates/backup/src/{find,inspect,list}.rs`. They believe a manifest as
//! those do, and look at the size of an object, never at its bytes.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use quorate_api::backup::ExistingObject;
use quorate_api::job::{
    Answer, Failure, FailureKind, FindOrder, FoundBackup, InspectOrder, ListOrder, ListedBackups, Manifest,
};
use quorate_api::schedule::ListedUpTo;

use super::store::{Object, Said, Signed, at, sha256};
use super::{MINUTE, World, timestamp};

/// By how much the clocks of nodes may differ.
const AHEAD: i64 = 10 * MINUTE;

/// How many a page has at most: fewer than the order admits, so that there is more than one.
const PAGE: usize = 2;

/// A check of these Jobs, of who restores, or of a controller, that a test takes away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blind {
    /// Who has signed a manifest.
    Signature,
    /// That a manifest is of the key that it is beside.
    Key,
    /// The name of the cluster, and the directory that is made of it.
    Name,
    /// The cluster ID.
    Id,
    /// That backups of several etcd clusters have one name.
    Beside,
    /// That the object is there which a manifest describes.
    Half,
    /// Of two of one etcd cluster the one with more revisions is newer. Not so: that of the later node.
    Revision,
    /// The SHA-256 of what is restored.
    Bytes,
    /// The version of the object.
    Version,
    /// That the API server has an EtcdBackup as it was read, before its status is written.
    Current,
    /// The EtcdBackups of the namespace, while a store is listed.
    Others,
    /// That the EtcdBackups of a page are created before the page is recorded.
    PageFirst,
}

/// The first and the last of something.
fn ends(of: impl Iterator<Item = i64> + Clone) -> (i64, i64) {
    (of.clone().min().unwrap_or_default(), of.max().unwrap_or_default())
}

impl World {
    pub(super) fn is_blind(&self, check: Blind) -> bool {
        self.setup.blind == Some(check)
    }

    fn is_believed(&self, said: &Said, allow_unsigned: bool) -> bool {
        said.signed == Signed::Namespace || allow_unsigned || self.is_blind(Blind::Signature)
    }

    /// The manifests under a part of a bucket that are read and believed, with their objects.
    fn manifests<'a>(
        &'a self,
        under: &'a str,
        allow_unsigned: bool,
    ) -> impl Iterator<Item = (&'a Said, &'a Object)> + 'a {
        let of = self.store.iter().filter_map(move |(place, object)| {
            let said = object.said.as_deref()?;
            let is_its_own = place.ends_with(&format!("/{}", said.key)) || self.is_blind(Blind::Key);
            (place.starts_with(under) && is_its_own).then_some((said, object))
        });
        of.filter(move |(said, _)| self.is_believed(said, allow_unsigned))
    }

    pub(super) fn found(&self, order: &FindOrder) -> Answer {
        let nothing = |kind, why: &str| Answer::Failed(Failure::new(kind, why));
        let name = order.cluster.as_ref().filter(|_| !self.is_blind(Blind::Name));
        let under = name.map_or_else(String::new, |name| format!("{}/{}/", name.namespace, name.name));
        let under = at(&order.destination, &under);
        let is_of = |said: &Said| {
            name.is_none_or(|name| said.cluster == name.name)
                && (order.cluster_id.as_ref().is_none_or(|id| said.cluster_id == *id)
                    || self.is_blind(Blind::Id))
        };
        // By cluster ID.
        let mut lines: BTreeMap<&str, Vec<(&Said, &Object)>> = BTreeMap::new();
        for (said, object) in self.manifests(&under, order.allow_unsigned).filter(|(said, _)| is_of(said)) {
            lines.entry(&said.cluster_id).or_default().push((said, object));
        }
        let times = |line: &[(&Said, &Object)]| ends(line.iter().map(|(said, _)| said.ordered));
        let revisions = |line: &[(&Said, &Object)]| ends(line.iter().map(|(said, _)| said.revision));
        let mut last_first: Vec<(&str, &Vec<(&Said, &Object)>)> =
            lines.iter().map(|(id, line)| (*id, line)).collect();
        last_first.sort_by_key(|(_, line)| std::cmp::Reverse(times(line).1));
        let Some((_, first)) = last_first.first() else {
            return nothing(FailureKind::NoBackup, "the store has none");
        };
        if times(first).1 > self.now + self.nodes + AHEAD {
            return nothing(FailureKind::Ambiguous, "it is of a time that is still to come");
        }
        let rank = |said: &Said| {
            let revision = if self.is_blind(Blind::Revision) { 0 } else { said.revision };
            (revision, said.finished, said.key.clone())
        };
        let newest = last_first.iter().find_map(|(id, line)| {
            let there = line.iter().filter(|(_, object)| object.is_whole() || self.is_blind(Blind::Half));
            there.max_by_key(|(said, _)| rank(said)).map(|(said, object)| (*id, *line, *said, *object))
        });
        let Some((id, own, said, object)) = newest else {
            return nothing(FailureKind::NoBackup, "none of them is whole");
        };
        let (begin, end) = times(own);
        let is_doubtful = last_first.iter().filter(|(other, _)| *other != id).any(|(_, line)| {
            let (first, last) = times(line);
            (first <= end && begin <= last) || (last < begin && revisions(own).0 <= revisions(line).1)
        });
        if name.is_some() && is_doubtful && !self.is_blind(Blind::Beside) {
            return nothing(FailureKind::Ambiguous, "backups of several etcd clusters have this name");
        }
        let manifest = Manifest { mark: Some(object.mark(self.setup.versioned)), ..said.manifest() };
        Answer::Found(FoundBackup { manifest, age: "1h".to_owned(), ..FoundBackup::default() })
    }

    pub(super) fn inspected(&self, order: &InspectOrder) -> Answer {
        let place = at(&order.destination, &order.key);
        match (self.described(order, &place), &order.cluster) {
            (Err(_), None) => self.undescribed(order, &place),
            (Err(failure), Some(_)) => Answer::Failed(failure),
            (Ok(manifest), _) => Answer::Inspected(manifest),
        }
    }

    fn described(&self, order: &InspectOrder, place: &str) -> Result<Manifest, Failure> {
        let fails = |kind, why: &str| Err(Failure::new(kind, why));
        let found = self.store.get(place).and_then(|object| Some((object, object.said.as_deref()?)));
        let Some((object, said)) = found else {
            return fails(FailureKind::NotInStore, "it has no manifest");
        };
        if said.key != order.key && !self.is_blind(Blind::Key) {
            return fails(FailureKind::Mismatch, "its manifest is of another key");
        }
        if !self.is_believed(said, order.allow_unsigned) {
            return fails(FailureKind::Mismatch, "its manifest is not signed");
        }
        if sha256(said.bytes) != order.sha256 {
            return fails(FailureKind::Mismatch, "another backup is there");
        }
        let is_other = order.cluster.as_ref().is_some_and(|cluster| *cluster != said.cluster);
        if is_other && !self.is_blind(Blind::Name) {
            return fails(FailureKind::Mismatch, "it is of another cluster");
        }
        if !object.is_whole() && !self.is_blind(Blind::Half) {
            return fails(FailureKind::NotInStore, "it is gone");
        }
        Ok(Manifest { mark: Some(object.mark(self.setup.versioned)), ..said.manifest() })
    }

    fn undescribed(&self, order: &InspectOrder, place: &str) -> Answer {
        let version = order.version_id.as_ref().and_then(|id| id.parse::<u32>().ok());
        let version = version.and_then(|version| self.earlier.get(&(place.to_owned(), version)));
        let present = || self.store.get(place).filter(|object| object.bytes.is_some());
        let Some(object) = version.or_else(present) else {
            return Answer::Failed(Failure::new(FailureKind::NotInStore, "it is not there"));
        };
        Answer::Inspected(Manifest {
            key: order.key.clone(),
            stored_sha256: order.sha256.clone(),
            stored_bytes: 100,
            mark: Some(object.mark(self.setup.versioned)),
            ..Manifest::default()
        })
    }

    pub(super) fn listed(&self, order: &ListOrder) -> Answer {
        let name = &order.cluster.name;
        let under = format!("{}/{name}/", order.cluster.namespace);
        let under = at(&order.destination, if self.is_blind(Blind::Name) { "" } else { &under });
        let latest = self.now + self.nodes + AHEAD;
        let all = self.manifests(&under, order.allow_unsigned);
        let is_of = |said: &Said| said.cluster == *name || self.is_blind(Blind::Name);
        let mut of_cluster: Vec<(i64, &str, &Said, &Object)> = all
            .filter(|(said, _)| is_of(said) && said.finished <= latest)
            .map(|(said, object)| (said.finished, said.key.as_str(), said, object))
            .collect();
        of_cluster.sort_by_key(|(finished, key, ..)| std::cmp::Reverse((*finished, *key)));
        let mut listed = ListedBackups {
            objects: 2 * self.store.len() as u64,
            of_cluster: of_cluster.len() as u64,
            ..ListedBackups::default()
        };
        let after = order.after.as_ref().map(|after| {
            let finished = after.finished.parse::<Timestamp>().map_or(0, Timestamp::as_millisecond);
            (finished, after.key.as_str())
        });
        let mut older = of_cluster
            .into_iter()
            .filter(|(finished, key, ..)| after.is_none_or(|after| (*finished, *key) < after))
            .peekable();
        while listed.backups.len() < order.most.min(PAGE)
            && let Some((finished, key, said, object)) = older.next()
        {
            if object.is_whole() || self.is_blind(Blind::Half) {
                listed.backups.push(ExistingObject {
                    key: key.to_owned(),
                    sha256: sha256(said.bytes),
                    allow_unsigned: order.allow_unsigned,
                    ..ExistingObject::default()
                });
            } else {
                listed.skipped += 1;
            }
            listed.next = Some(ListedUpTo { finished: timestamp(finished).to_string(), key: key.to_owned() });
        }
        if older.peek().is_none() {
            listed.next = None;
        }
        Answer::Listed(listed)
    }

    /// What the Job of another release answers, which heeds neither the cluster nor the object of its order: the last object of the bucket.
    pub(super) fn astray(&self, order: Option<&InspectOrder>) -> Answer {
        let of_others = |(_, object): &(&String, &Object)| object.said.is_some() && !object.is_own();
        let other = self.store.iter().rfind(of_others).or_else(|| self.store.iter().next_back());
        let said = other.and_then(|(_, object)| object.said.as_deref());
        let Some(said) = said else {
            return Answer::Failed(Failure::new(FailureKind::NoBackup, "the store has none"));
        };
        if order.is_some() {
            return Answer::Inspected(said.manifest());
        }
        let one =
            ExistingObject { key: said.key.clone(), sha256: sha256(said.bytes), ..ExistingObject::default() };
        Answer::Listed(ListedBackups {
            backups: vec![one],
            objects: 1,
            of_cluster: 1,
            ..ListedBackups::default()
        })
    }
}
