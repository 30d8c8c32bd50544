//! Which backup of a cluster is the newest: neither by names nor by the store's clock, which tells when an object was copied. Within one
//! cluster ID the one with the highest revision is newer, whatever the clocks of nodes say. Across cluster IDs the time decides that the
//! API server gave the EtcdBackup.

use std::collections::BTreeMap;

use jiff::Timestamp;
use quorate_api::job::{ClusterName, Failure, FailureKind, FindOrder, FoundBackup, Manifest};

use crate::Result;
use crate::signature::Doubt;

/// Clocks of nodes may differ by so many seconds.
pub(crate) const AHEAD: i64 = 600;

/// How many of the newest are kept, for where the first ones are not whole.
const KEPT: usize = 16;

/// The most cluster IDs that are distinguished.
const LINES: usize = 1000;

/// What the names of the EtcdBackups begin with that the operator orders before a restore in place.
const BEFORE_RESTORE: &str = "before-restore-";

/// The most notes on what was left out.
const NOTES: usize = 5;

/// The most cluster IDs that a message names.
const NAMED: usize = 8;

/// Revisions of one etcd cluster never fall. Two backups of the same revision have the same data.
type Place = (i64, Timestamp, String);

/// What the manifests say, as far as it is needed: the store may have any number.
pub(super) struct Choice<'a> {
    order: &'a FindOrder,
    before: Option<Timestamp>,
    now: Timestamp,
    objects: u64,
    manifests: u64,
    of_cluster: u64,
    unreadable: u64,
    unsigned: u64,
    /// The newest of those, by what it says, and why, for people. One that somebody changed comes first, then one whose key is
    /// missing, which a person can add.
    newest_unsigned: Option<((u8, Timestamp), String)>,
    notes: Vec<String>,
    /// By cluster ID.
    lines: BTreeMap<u64, Line>,
}

/// The backups of one etcd cluster.
#[derive(Debug)]
struct Line {
    backups: u64,
    /// The first and the last time.
    times: (Timestamp, Timestamp),
    /// The least and the highest revision.
    revisions: (i64, i64),
    /// What may be restored, the newest last.
    candidates: BTreeMap<Place, Manifest>,
    /// What may not, though it is in time: why.
    barred: BTreeMap<Place, String>,
}

impl<'a> Choice<'a> {
    pub(super) fn new(order: &'a FindOrder, now: Timestamp) -> Result<Self> {
        let before = order.before.as_deref().map(str::parse::<Timestamp>).transpose().map_err(|error| {
            Failure::new(FailureKind::OrderRefused, format!("latest.before is no time: {error}"))
        })?;
        Ok(Self {
            order,
            before,
            now,
            objects: 0,
            manifests: 0,
            of_cluster: 0,
            unreadable: 0,
            unsigned: 0,
            newest_unsigned: None,
            notes: Vec::new(),
            lines: BTreeMap::new(),
        })
    }

    pub(super) fn consider(&mut self, manifest: Manifest) {
        self.manifests += 1;
        let id = u64::from_str_radix(&manifest.cluster_id, 16).ok();
        if !self.is_of_cluster(&manifest, id) {
            return;
        }
        self.of_cluster += 1;
        let (Some(id), Ok(finished), true) =
            (id, manifest.finished.parse::<Timestamp>(), is_sha256(&manifest))
        else {
            self.note(format!(
                "the manifest of {} has no time, cluster ID or SHA-256 that can be read",
                manifest.key
            ));
            return;
        };
        if self.lines.len() >= LINES && !self.lines.contains_key(&id) {
            return;
        }
        let (at, revision) = (time(&manifest).unwrap_or(finished), manifest.revision);
        let why_barred = bars(&manifest);
        let line = self.lines.entry(id).or_insert(Line::EMPTY);
        line.count(at, revision);
        // Whichever clock is wrong, it may have what is not wanted.
        if self.before.is_some_and(|before| finished.max(at) >= before) {
            return;
        }
        let place = (revision, finished, manifest.key.clone());
        match why_barred {
            Some(why) => keep_newest(&mut line.barred, place, why),
            None => keep_newest(&mut line.candidates, place, manifest),
        }
    }

    /// A manifest that no key of the namespace has signed: it counts for nothing, whatever it says.
    pub(super) fn is_unsigned(&mut self, manifest: &Manifest, why: &Doubt) {
        self.manifests += 1;
        if !self.is_of_cluster(manifest, u64::from_str_radix(&manifest.cluster_id, 16).ok()) {
            return;
        }
        self.unsigned += 1;
        let at = time(manifest).or_else(|| manifest.finished.parse().ok()).unwrap_or(Timestamp::MIN);
        let weight = match why {
            Doubt::NotSigned => 0,
            Doubt::OtherKey(_) => 1,
            Doubt::Changed(_) => 2,
        };
        let place = (weight, at);
        if self.newest_unsigned.as_ref().is_none_or(|(newest, _)| *newest < place) {
            self.newest_unsigned = Some((place, format!("the manifest of {} {why}", manifest.key)));
        }
    }

    /// What is to be known of unsigned ones.
    fn on_unsigned(&self) -> Option<String> {
        let ((_, at), why) = self.newest_unsigned.as_ref()?;
        Some(format!(
            "{} manifests of this cluster are not signed by a key of this namespace, such as one of {at:.0}: {why}",
            self.unsigned
        ))
    }

    /// Something that is no manifest, or cannot be read.
    pub(super) fn leave_out(&mut self, why: Option<String>) {
        if let Some(why) = why {
            self.unreadable += 1;
            self.note(why);
        }
    }

    pub(super) fn saw(&mut self, objects: u64) {
        self.objects = objects;
    }

    pub(super) fn counts(&self) -> String {
        format!(
            "{} objects were seen, {} of them manifests, {} of those of this cluster; {} with the name of a manifest cannot be read",
            self.objects, self.manifests, self.of_cluster, self.unreadable
        )
    }

    /// The etcd clusters, the one that was backed up last first.
    fn last_first(&self) -> Vec<(u64, &Line)> {
        let mut lines: Vec<(u64, &Line)> = self.lines.iter().map(|(id, line)| (*id, line)).collect();
        lines.sort_by_key(|(_, line)| std::cmp::Reverse(line.times.1));
        lines
    }

    /// What may be restored.
    pub(super) fn newest_first(&self, place: &str) -> Result<Vec<Manifest>> {
        let lines = self.last_first();
        let newest = lines.iter().find_map(|(_, line)| line.candidates.values().max_by_key(|one| time(one)));
        let Some(last) = newest else { return Err(self.nothing(place)) };
        let latest = self.now.as_second() + AHEAD;
        if let Some(end) = time(last).filter(|end| end.as_second() > latest) {
            let message = format!(
                "the backup {} says that it is of {end}, and it is {:.0} now: its clock was wrong, or somebody made it up. Give latest.before a \
                 time of the past, or name the object that is meant with its SHA-256 (source)",
                last.key, self.now
            );
            return Err(Failure::new(FailureKind::Ambiguous, message));
        }
        if self.lines.len() >= LINES {
            let message = format!(
                "backups of {LINES} etcd clusters or more go by this name: give clusterID instead of cluster"
            );
            return Err(Failure::new(FailureKind::Ambiguous, message));
        }
        Ok(lines.iter().flat_map(|(_, line)| line.candidates.values().rev()).cloned().collect())
    }

    /// What has a manifest and is not there.
    pub(super) fn is_broken(&mut self, candidate: &Manifest, why: String) {
        for line in self.lines.values_mut() {
            line.candidates.retain(|_, kept| kept.key != candidate.key);
        }
        self.notes.insert(0, why);
    }

    /// There is none.
    pub(super) fn nothing(&self, place: &str) -> Failure {
        let lines = self.last_first();
        let barred = lines.iter().flat_map(|(_, line)| line.barred.values().rev());
        let unsigned = self.on_unsigned();
        let notes: Vec<&String> = unsigned.iter().chain(barred).chain(&self.notes).take(NOTES).collect();
        let left_out = if notes.is_empty() {
            String::new()
        } else {
            format!(" Left out: {}.", notes.iter().map(|note| note.as_str()).collect::<Vec<_>>().join("; "))
        };
        let in_time = match (self.order.before.as_deref(), self.of_cluster) {
            (Some(before), 1..) => format!(" that was finished before {before}"),
            (_, _) => String::new(),
        };
        let message = format!(
            "{place} has no whole backup of {}{in_time}: {}.{left_out} Check bucket, prefix, cluster and clusterNamespace: latest looks where \
             backups with this destination are written, under NAMESPACE/CLUSTER/",
            self.wanted(),
            self.counts()
        );
        Failure::new(FailureKind::NoBackup, message)
    }

    /// The newest that is whole, unless it may not be what is meant, or cannot be restored.
    pub(super) fn accept(&self, found: &Manifest) -> Result<FoundBackup> {
        let id = u64::from_str_radix(&found.cluster_id, 16).unwrap_or_default();
        if let Some(why) = self.why_another_may_be_meant(id) {
            return Err(Failure::new(FailureKind::Ambiguous, why));
        }
        let finished = found.finished.parse::<Timestamp>().unwrap_or(self.now);
        let started = found.started.parse::<Timestamp>().unwrap_or(finished);
        // Of the etcd clusters that came after it all are newer, of its own those with more revisions.
        let lines = self.last_first();
        let later = lines.iter().position(|(of, _)| *of == id).unwrap_or_default();
        let barred = lines.iter().take(later + 1).flat_map(|(of, line)| {
            let is_newer = move |revision| *of != id || revision >= found.revision;
            line.barred.iter().rev().filter(move |((revision, ..), _)| is_newer(*revision))
        });
        let newer = barred.map(|(_, why)| why);
        let (doubt, unsigned) = (self.contradiction(id, found), self.on_unsigned());
        Ok(FoundBackup {
            manifest: found.clone(),
            age: age(self.now.as_second() - time(found).unwrap_or(started).as_second()),
            seen: self.counts(),
            skipped: unsigned
                .iter()
                .chain(&doubt)
                .chain(newer)
                .chain(&self.notes)
                .take(NOTES)
                .cloned()
                .collect(),
        })
    }

    /// A backup with fewer revisions that says it is much newer: a clock was wrong.
    fn contradiction(&self, id: u64, found: &Manifest) -> Option<String> {
        let at = found.finished.parse::<Timestamp>().ok()?;
        let others = self.lines.get(&id)?.candidates.iter();
        let later = others.filter(|((revision, finished, _), _)| {
            *revision < found.revision && finished.as_second() > at.as_second() + AHEAD
        });
        let ((revision, finished, key), _) = later.max_by_key(|((_, finished, _), _)| *finished)?;
        Some(format!(
            "{key} says that it was finished at {finished}, after {} of {at}, and has revision {revision}, which is lower than {}: a clock \
             of a node was wrong, and the revision decides",
            found.key, found.revision
        ))
    }

    /// A name outlives an etcd cluster: it is restored, or begun anew, and has another cluster ID each time. One of a name that follows the
    /// others, and has more revisions, has their data: restores raise revisions. One that ran beside another is another cluster, such as that
    /// of another Kubernetes with the same bucket; one with fewer revisions began empty.
    fn why_another_may_be_meant(&self, id: u64) -> Option<String> {
        self.order.cluster.as_ref()?;
        let own = self.lines.get(&id)?;
        let mut others = self.lines.iter().filter(|(other, _)| **other != id);
        let why = others.find_map(|(other, line)| {
            if line.times.0 <= own.times.1 && own.times.0 <= line.times.1 {
                return Some(format!("{other:x} and {id:x} were backed up at the same time"));
            }
            let is_earlier = line.times.1 < own.times.0;
            (is_earlier && own.revisions.0 <= line.revisions.1).then(|| {
                format!("{id:x} began after {other:x} with fewer revisions, so it does not have its data")
            })
        })?;
        let each = self.last_first().into_iter().take(NAMED).map(|(id, line)| {
            let Line { backups, times: (_, at), revisions: (_, revision), candidates: _, barred: _ } = line;
            format!("{id:x} (backups: {backups}, the newest of {at:.0} with revision {revision})")
        });
        Some(format!(
            "backups of several etcd clusters go by the name of {}, and {why}. Give the one that is meant as latest.clusterID, in place of \
             cluster: {}",
            self.wanted(),
            each.collect::<Vec<_>>().join(", ")
        ))
    }

    fn is_of_cluster(&self, manifest: &Manifest, id: Option<u64>) -> bool {
        let FindOrder { cluster, cluster_id, .. } = self.order;
        let has_name = |cluster: &ClusterName| {
            manifest.origin.namespace == cluster.namespace
                && manifest.origin.cluster.as_ref() == Some(&cluster.name)
        };
        let has_id = |wanted: &String| id.is_some() && u64::from_str_radix(wanted, 16).ok() == id;
        (cluster.is_some() || cluster_id.is_some())
            && cluster.as_ref().is_none_or(has_name)
            && cluster_id.as_ref().is_none_or(has_id)
    }

    fn note(&mut self, note: String) {
        if self.notes.len() < NOTES {
            self.notes.push(note);
        }
    }

    fn wanted(&self) -> String {
        match (&self.order.cluster, &self.order.cluster_id) {
            (Some(cluster), _) => format!("EtcdCluster {}/{}", cluster.namespace, cluster.name),
            (None, Some(id)) => format!("cluster ID {id}"),
            (None, None) => "no cluster".to_owned(),
        }
    }
}

impl Line {
    const EMPTY: Self = Self {
        backups: 0,
        times: (Timestamp::MAX, Timestamp::MIN),
        revisions: (i64::MAX, i64::MIN),
        candidates: BTreeMap::new(),
        barred: BTreeMap::new(),
    };

    fn count(&mut self, at: Timestamp, revision: i64) {
        self.backups += 1;
        self.times = (self.times.0.min(at), self.times.1.max(at));
        self.revisions = (self.revisions.0.min(revision), self.revisions.1.max(revision));
    }
}

/// When a backup was ordered, by the clock of the API server; of one that no EtcdBackup ordered, when it was finished by the clock of its node.
fn time(manifest: &Manifest) -> Option<Timestamp> {
    manifest.ordered.as_ref().unwrap_or(&manifest.finished).parse().ok()
}

/// Why one that is in time is not restored by itself.
fn bars(manifest: &Manifest) -> Option<String> {
    let Manifest { key, finished, stored_sha256, .. } = manifest;
    if manifest.without_quorum {
        return Some(format!(
            "{key} of {finished} was taken without a quorum, so it may lack writes that were acknowledged: to restore it, name it as source, \
             with SHA-256 {stored_sha256}"
        ));
    }
    // Whichever order took it: it is newer than what that order restored, and has what was wrong with the data.
    manifest.origin.backup.starts_with(BEFORE_RESTORE).then(|| {
        format!(
            "{key} of {finished} was taken before a restore, of the data that were to be given up: to restore it, name it as source, with \
             SHA-256 {stored_sha256}"
        )
    })
}

fn keep_newest<T>(places: &mut BTreeMap<Place, T>, place: Place, one: T) {
    places.insert(place, one);
    if places.len() > KEPT {
        places.pop_first();
    }
}

/// Whether the SHA-256 of a manifest can be one.
pub(crate) fn is_sha256(manifest: &Manifest) -> bool {
    let digits = &manifest.stored_sha256;
    digits.len() == 64 && digits.bytes().all(|digit| digit.is_ascii_digit() || (b'a'..=b'f').contains(&digit))
}

/// For people, such as `2d3h` or `5m`.
fn age(seconds: i64) -> String {
    let seconds = seconds.max(0);
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, minutes) => format!("{minutes}m"),
        (0, hours, minutes) => format!("{hours}h{minutes}m"),
        (days, hours, _) => format!("{days}d{hours}h"),
    }
}
