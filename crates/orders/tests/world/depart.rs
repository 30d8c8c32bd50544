//! What may happen beside what is due.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::ResourceExt as _;
use quorate_api::backup::DeletionPolicy;
use quorate_api::{EtcdBackup, keys};
use quorate_manifests::backup::ExistingOrder;
use serde_json::json;

use super::jobs::{Ends, Work};
use super::judge::Property;
use super::pass::Reply;
use super::stands::Order;
use super::store::{Planted, place};
use super::{BUCKET, DAY, HOUR, Kept, Kind, MINUTE, Of, SCHEDULE_UID, World, timestamp};

/// How many orders there are in a history.
const ORDERS: u32 = 3;

/// A departure from what is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Departure {
    /// The operator dies, and another process begins.
    Crash,
    /// The reply to the next write does not come.
    Reply(Reply),
    /// The next pass sees a kind as it was so many writes ago.
    Stale(Kind, usize),
    /// The pass is held up until all else is at rest.
    Held,
    /// The next Job ends so.
    Ends(Ends),
    /// A Pod without a Job does its work before it is stopped.
    PodWrites,
    /// Nobody runs for so long; Jobs end meanwhile.
    Away(i64),
    /// A clock is set.
    Clock(WhoseClock, i64),
    /// Somebody deletes an object in the store.
    Vanish(Which),
    /// Somebody writes other bytes in the place of an object, beside its manifest.
    Rewrite(Which),
    /// All objects of the bucket are gone.
    Swap,
    /// A restore test would fail.
    Break(Which),
    /// The credentials end, or come back.
    Credentials(bool),
    /// Somebody deletes an EtcdBackup.
    Delete(Which),
    /// Somebody edits the rule: keep so many.
    Keep(u32),
    /// Somebody suspends the schedule.
    Suspend,
    /// The cluster is deleted, and created again under its name.
    Recreate,
    /// Somebody creates an EtcdBackup that looks like one of the schedule.
    Forge(Forged),
    /// An EtcdRestore names an EtcdBackup.
    Need(Which),
    /// Somebody orders something of what is in the store.
    Order(Order),
    /// Somebody else puts objects into the bucket.
    Plant(Planted),
    /// An intruder writes an object and a manifest in the place of one.
    Deface(Which),
    /// An object is gone, and its manifest is there.
    Halve(Which),
    /// All EtcdBackups are gone, and their objects are there.
    Forget,
}

/// Whose clock is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhoseClock {
    Operator,
    Api,
    /// They are on one machine.
    Both,
    Nodes,
}

/// Of those that are complete, or the last of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    Newest,
    Oldest,
    Last,
    /// The last of those that stand for an object.
    Standing,
}

/// What somebody creates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forged {
    /// A copy of the newest one under another name.
    Copy,
    /// A time that is still to come.
    Ahead,
    /// A minute that the schedule does not have, into a bucket of his own.
    Elsewhere,
    /// One of another schedule, of another EtcdCluster, in the same bucket.
    Neighbor,
    /// All that the schedule gives to its own, and it stands for the newest object, to be deleted with it.
    Standing,
}

impl World {
    /// What may happen here.
    pub fn offers(&self) -> Vec<Departure> {
        use Departure::{
            Away, Break, Clock, Credentials, Delete, Ends as End, Forge, Keep, Need, Stale, Vanish,
        };
        if self.mended.is_some() || self.violation().is_some() {
            return Vec::new();
        }
        let mut all = Vec::new();
        if self.pass.is_some() {
            all.extend([Departure::Crash, Departure::Reply(Reply::Lost), Departure::Reply(Reply::NotSent)]);
            if self.held.is_none() {
                all.push(Departure::Held);
            }
        } else if let Some(next) = self.dirty.first() {
            let kinds: &[Kind] = match next {
                Of::Schedule => &[Kind::Schedule, Kind::Backups, Kind::Jobs],
                Of::Backup(_) => &[Kind::Backups, Kind::Jobs],
            };
            all.extend(kinds.iter().flat_map(|kind| [1, 3].map(|ago| Stale(*kind, ago))));
        } else if self.running_job().is_some() {
            all.extend([End(Ends::Unwritten), End(Ends::Written), End(Ends::Lost)]);
            if self.setup.shared {
                all.push(End(Ends::Astray));
            }
        } else if self.held.is_none() {
            all.extend([Away(16 * MINUTE), Away(3 * HOUR)]);
        }
        if !self.pods.is_empty() {
            all.push(Departure::PodWrites);
        }
        // What others do matters at the moment of a write, and when the world waits.
        let is_moment = self.pass.is_some() || self.dirty.is_empty();
        if is_moment {
            for ahead in [10 * MINUTE, 3 * HOUR, 30 * DAY, -2 * HOUR] {
                all.extend([
                    Clock(WhoseClock::Operator, ahead),
                    Clock(WhoseClock::Api, ahead),
                    Clock(WhoseClock::Both, ahead),
                ]);
            }
            all.extend([Clock(WhoseClock::Nodes, DAY), Clock(WhoseClock::Nodes, -DAY)]);
            if self.named(Which::Newest).is_some() {
                all.extend([
                    Vanish(Which::Newest),
                    Vanish(Which::Oldest),
                    Departure::Rewrite(Which::Newest),
                    Departure::Rewrite(Which::Oldest),
                    Departure::Swap,
                    Delete(Which::Newest),
                    Delete(Which::Oldest),
                ]);
                if self.setup.shared {
                    all.extend([Which::Newest, Which::Oldest].map(Departure::Deface));
                    all.extend([Departure::Halve(Which::Newest), Forge(Forged::Standing)]);
                }
                all.extend([Forge(Forged::Copy), Need(Which::Newest), Need(Which::Oldest)]);
                if self.setup.tested {
                    all.extend([Break(Which::Newest), Break(Which::Oldest)]);
                }
            }
            all.extend([
                Credentials(!self.credentials),
                Keep(1),
                Keep(5),
                Departure::Suspend,
                Departure::Recreate,
            ]);
            if self.named(Which::Last) != self.named(Which::Newest) {
                all.push(Delete(Which::Last));
            }
            all.extend([Forge(Forged::Ahead), Forge(Forged::Elsewhere)]);
            if self.setup.shared {
                all.extend(self.offers_of_others());
            }
        }
        all
    }

    /// What those may do who share the bucket, and who order something of what is there.
    fn offers_of_others(&self) -> Vec<Departure> {
        use Departure::{Forge, Plant};
        let plants = [Planted::Elsewhere, Planted::SharedKey, Planted::Forged, Planted::Copied];
        let mut all: Vec<Departure> = plants.map(Plant).into();
        all.push(Forge(Forged::Neighbor));
        if self.named(Which::Standing).is_some() {
            all.push(Departure::Delete(Which::Standing));
        }
        if self.dirty.is_empty() && self.pass.is_none() && self.held.is_none() {
            all.push(Departure::Forget);
        }
        if self.truth.orders < ORDERS {
            all.extend(Order::ALL.map(Departure::Order));
        }
        all
    }

    /// It happens; `false`: nothing would change.
    pub fn happen(&mut self, what: &Departure) -> bool {
        self.tell(|| format!("DEPARTURE: {what:?}"));
        let done = self.strike(what);
        self.steps = 0;
        done
    }

    fn strike(&mut self, what: &Departure) -> bool {
        match what {
            Departure::Crash => {
                let had = self.pass.take().is_some() | self.held.take().is_some();
                self.touch_all();
                had
            }
            Departure::Reply(reply) => {
                let Some(pass) = self.pass.take() else { return false };
                self.carry(pass, *reply);
                true
            }
            Departure::Stale(kind, ago) => {
                let is_older = self.views.len() >= *ago && self.stale.is_none();
                if is_older {
                    self.stale = Some((*kind, *ago));
                }
                is_older
            }
            Departure::Held => {
                self.held = self.pass.take();
                self.held.is_some()
            }
            Departure::Ends(how) => {
                let Some(job) = self.running_job() else { return false };
                let is_possible = self.jobs.get(&job).is_some_and(|job| match (how, &job.object.work) {
                    (Ends::Astray, Work::Inspect(order)) => matches!(**order, ExistingOrder::Inspect(_)),
                    (Ends::Written, Work::Backup(_))
                    | (Ends::Astray, Work::List(_))
                    | (Ends::Well | Ends::Unwritten | Ends::Lost, _) => true,
                    (Ends::Written | Ends::Astray, _) => false,
                });
                if !is_possible {
                    return false;
                }
                self.end_job(&job, *how);
                true
            }
            Departure::PodWrites => {
                if self.pods.is_empty() {
                    return false;
                }
                let pod = self.pods.remove(0);
                self.work(&pod, Ends::Well);
                self.touch_backup(&pod.backup);
                true
            }
            Departure::Away(time) => {
                self.now += time;
                self.touch_all();
                true
            }
            Departure::Clock(whose, ahead) => {
                match whose {
                    WhoseClock::Operator => self.operator += ahead,
                    WhoseClock::Api => self.api += ahead,
                    WhoseClock::Both => {
                        self.operator += ahead;
                        self.api += ahead;
                    }
                    WhoseClock::Nodes => self.nodes += ahead,
                }
                self.truth.nodes_set |= *whose == WhoseClock::Nodes;
                // By the clocks of nodes no time is shown twice, and nothing is made older.
                if *whose != WhoseClock::Nodes {
                    if *ahead > 0 {
                        self.truth.jumps += 1;
                    } else {
                        self.truth.set_back = true;
                    }
                }
                self.touch_all();
                true
            }
            Departure::Vanish(which) => {
                let Some(name) = self.named(*which) else { return false };
                let at = place(&self.backups[&name].object);
                let was = self.store.contains_key(&at);
                self.lose(&at);
                was
            }
            Departure::Rewrite(which) => {
                let Some(name) = self.named(*which) else { return false };
                let at = place(&self.backups[&name].object);
                self.rewrite(&at, |object| object.bytes = object.bytes.map(|bytes| bytes ^ 1))
            }
            Departure::Swap => {
                let all: Vec<String> =
                    self.store.keys().filter(|key| key.starts_with(BUCKET)).cloned().collect();
                for place in &all {
                    self.lose(place);
                }
                !all.is_empty()
            }
            Departure::Break(which) => {
                let Some(name) = self.named(*which) else { return false };
                let at = place(&self.backups[&name].object);
                let Some(object) = self.store.get_mut(&at).filter(|object| !object.broken) else {
                    return false;
                };
                object.broken = true;
                true
            }
            Departure::Credentials(come) => {
                let changes = self.credentials != *come;
                self.credentials = *come;
                self.truth.refused |= !come;
                changes
            }
            Departure::Delete(which) => {
                let Some(name) = self.named(*which) else { return false };
                self.truth.deleted_by_person.insert(self.backups[&name].object.uid().unwrap_or_default());
                self.delete_backup(&name);
                true
            }
            Departure::Keep(count) => {
                let rules = self.schedule.object.spec.retention.clone().unwrap_or_default();
                let changes = rules.keep_last != Some(*count);
                let keep = quorate_api::schedule::Retention { keep_last: Some(*count), ..Default::default() };
                self.edit(|spec| spec.retention = Some(keep));
                changes
            }
            Departure::Suspend => {
                let changes = !self.schedule.object.spec.suspend;
                self.edit(|spec| spec.suspend = true);
                changes
            }
            Departure::Recreate => {
                if self.born > 0 {
                    return false;
                }
                self.cluster_id = "1111111111111111";
                self.born = self.now;
                self.cluster = Kept::new(super::cluster("demo", self.cluster_id, "c2"));
                self.touch_all();
                true
            }
            Departure::Forge(how) => self.forge(*how),
            Departure::Need(which) => {
                let Some(name) = self.named(*which) else { return false };
                if self.restored_name().as_ref() == Some(&name) {
                    return false;
                }
                // The last one is over.
                self.restore = None;
                self.order_restore(&json!({"backupRef": {"name": name}}))
            }
            Departure::Order(what) => {
                self.truth.orders += 1;
                self.order(*what)
            }
            Departure::Plant(what) => self.plant(*what),
            Departure::Deface(which) => {
                let Some(name) = self.named(*which) else { return false };
                self.deface(&place(&self.backups[&name].object))
            }
            Departure::Halve(which) => {
                let Some(name) = self.named(*which) else { return false };
                self.rewrite(&place(&self.backups[&name].object), |object| object.bytes = None)
            }
            Departure::Forget => self.forget(),
        }
    }

    /// One of those that are complete and not being deleted, by the time that they are of.
    pub(super) fn named(&self, which: Which) -> Option<String> {
        let complete = |backup: &Arc<EtcdBackup>| {
            backup.status.as_ref().is_some_and(|status| status.result.is_some())
                && backup.metadata.deletion_timestamp.is_none()
                && backup.spec.existing.is_none()
                && !backup.name_any().starts_with("nightly")
        };
        let mut names =
            self.backups.iter().filter(|(_, kept)| complete(&kept.object)).map(|(name, _)| name.clone());
        match which {
            Which::Newest => names.next_back(),
            Which::Oldest => names.next(),
            Which::Last => {
                self.backups.keys().rfind(|name| !is_standing(&self.backups[*name].object)).cloned()
            }
            Which::Standing => {
                self.backups.keys().rfind(|name| is_standing(&self.backups[*name].object)).cloned()
            }
        }
    }

    fn forge(&mut self, how: Forged) -> bool {
        let minute = match how {
            Forged::Copy | Forged::Elsewhere | Forged::Neighbor | Forged::Standing => {
                self.now.div_euclid(MINUTE) * MINUTE
            }
            Forged::Ahead => self.now.div_euclid(HOUR) * HOUR + 10 * HOUR,
        };
        let mut spec = self.schedule.object.spec.backup_template.spec.clone();
        // Who forges one does not ask that its object goes.
        spec.deletion_policy = DeletionPolicy::Retain;
        let (mut of, mut uid, mut finalizers) = ("hourly", SCHEDULE_UID, None);
        match how {
            Forged::Copy | Forged::Ahead => {}
            Forged::Elsewhere => {
                if let Some(s3) = &mut spec.destination.s3 {
                    "his-own".clone_into(&mut s3.bucket);
                }
            }
            Forged::Neighbor => {
                spec.source.cluster = Some("other".to_owned());
                (of, uid) = ("nightly", "0000-00cd");
            }
            Forged::Standing => {
                spec.existing = self.standing_as_own();
                // The name of the next one of the schedule stays free: what becomes of that is not of this world.
                if spec.existing.is_none() || minute % HOUR == 0 {
                    return false;
                }
                // As an older definition admits it.
                spec.deletion_policy = DeletionPolicy::Delete;
                finalizers = Some(vec![keys::BACKUP_FINALIZER.to_owned()]);
            }
        }
        let name = match how {
            Forged::Copy => "copy".to_owned(),
            Forged::Ahead | Forged::Elsewhere | Forged::Neighbor | Forged::Standing => {
                format!("{of}-{}{:08}", &uid[5..], minute / 60_000)
            }
        };
        let labels = [(keys::SCHEDULE.to_owned(), of.to_owned())].into();
        let annotations = [
            (keys::SCHEDULE_UID.to_owned(), uid.to_owned()),
            (keys::SCHEDULED_AT.to_owned(), timestamp(minute).to_string()),
        ];
        let metadata = ObjectMeta {
            name: Some(name),
            namespace: Some("default".to_owned()),
            labels: Some(labels),
            annotations: Some(annotations.into()),
            finalizers,
            ..ObjectMeta::default()
        };
        self.create_backup(EtcdBackup { metadata, spec, status: None }, false)
    }

    pub(super) fn violate(&mut self, property: Property, what: String) {
        self.tell(|| format!("VIOLATION: {property:?}: {what}"));
        self.violation.get_or_insert((property, what));
    }
}

fn is_standing(backup: &EtcdBackup) -> bool {
    backup.spec.existing.is_some()
}
