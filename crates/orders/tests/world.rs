//! A small world of one EtcdBackupSchedule: the functions of this crate, and models of all else. They are called as the controllers of the
//! operator call them, in the same order and with the same preconditions. Each write is a step of its own.
//!
//! - `pass`: what the controllers decide; `acts`: what they do with it, one write at a time
//! - `store`: what is in the store, and whose it is in truth
//! - `jobs`: what Jobs do with the store, and what they answer; `finds`: those that find what is there
//! - `stands`: EtcdBackups that stand for what is there
//! - `depart`: what may happen beside that; `judge`: what must hold, by the store's truth and never by this crate's own definitions
//!
//! What is due happens in one fixed order: passes, Jobs, Pods without a Job, a pass that was held up, and then time passes. Every departure
//! from that is made from outside.

mod acts;
mod depart;
mod finds;
mod jobs;
mod judge;
mod pass;
mod stands;
mod store;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use quorate_api::{EtcdBackup, EtcdBackupSchedule, EtcdCluster, EtcdRestore};
use quorate_model::{ClockDifference, Instant, Span};
use serde::Serialize;
use serde_json::{Value, json};

pub use depart::{Departure, Forged, Which, WhoseClock};
pub use finds::Blind;
use jobs::SimJob;
pub use judge::Property;
use pass::Pass;
pub use stands::Order;
pub use store::Planted;
use store::{NEIGHBOR, Object};

pub const MINUTE: i64 = 60_000;
pub const HOUR: i64 = 60 * MINUTE;
pub const DAY: i64 = 24 * HOUR;

/// Midnight, 2026-11-01.
const BEGIN: i64 = 1_793_491_200_000;

/// How far two clocks may differ.
const BOUND: i64 = MINUTE;

/// How many steps come to rest at one time.
const STEPS: u32 = 400;

/// The uid of the schedule.
pub const SCHEDULE_UID: &str = "0000-00ab";

/// The bucket that the schedule writes to.
pub const BUCKET: &str = "bucket";

/// How a world begins and how long it lasts.
#[derive(Clone, Debug)]
pub struct Setup {
    /// `spec.retention`.
    pub retention: Value,
    /// `deletionPolicy` of the backups.
    pub policy: &'static str,
    /// Restore tests are made.
    pub tested: bool,
    /// So many times of the schedule come before the first departure.
    pub warm: i64,
    /// And so many while there are departures.
    pub times: i64,
    /// Whoever proposes deletions proposes everything, so only the gate refuses.
    pub rogue: bool,
    /// Others use the bucket, too, and EtcdBackups stand for what is there.
    pub shared: bool,
    /// What somebody orders just before the first departure.
    pub order: Option<Order>,
    /// The bucket keeps versions.
    pub versioned: bool,
    /// A check that those lack who read the store.
    pub blind: Option<Blind>,
}

/// An object of Kubernetes, with the hash of all that matters of it.
#[derive(Clone, Debug)]
pub struct Kept<T> {
    pub object: Arc<T>,
    hash: u64,
}

impl<T: Serialize> Kept<T> {
    fn new(object: T) -> Self {
        let mut json = json!(object);
        if let Some(metadata) = json["metadata"].as_object_mut() {
            metadata.remove("resourceVersion");
        }
        Self { hash: hash_of(&json.to_string()), object: Arc::new(object) }
    }
}

/// What the caches of the operator had at a moment.
#[derive(Clone, Debug)]
pub struct View {
    schedule: Arc<EtcdBackupSchedule>,
    backups: BTreeMap<String, Arc<EtcdBackup>>,
    jobs: BTreeMap<String, Arc<SimJob>>,
}

/// Who a pass is of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Of {
    Schedule,
    Backup(String),
}

/// Kinds of objects that the operator watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Schedule,
    Backups,
    Jobs,
}

/// The world.
#[derive(Clone)]
pub struct World {
    pub setup: Setup,
    /// The true time.
    pub now: i64,
    /// By how much the clocks of the operator, of the API server and of the nodes are ahead.
    pub operator: i64,
    pub api: i64,
    pub nodes: i64,
    /// By how much the API server's was, by its last reply.
    known_api: i64,
    schedule: Kept<EtcdBackupSchedule>,
    backups: BTreeMap<String, Kept<EtcdBackup>>,
    jobs: BTreeMap<String, Kept<SimJob>>,
    /// Pods that run on after their Jobs were deleted.
    pods: Vec<Arc<SimJob>>,
    cluster: Kept<EtcdCluster>,
    /// Another one, whose backups are in the same bucket.
    neighbor: Arc<EtcdCluster>,
    cluster_id: &'static str,
    /// When that began, with the first revision.
    born: i64,
    store: BTreeMap<String, Object>,
    /// What was in the store until then.
    lost: BTreeMap<String, (Object, i64)>,
    /// What a bucket with versions keeps, by place and how often that was written.
    earlier: BTreeMap<(String, u32), Object>,
    credentials: bool,
    /// One that is not over.
    restore: Option<Kept<EtcdRestore>>,
    pass: Option<Pass>,
    held: Option<Pass>,
    dirty: BTreeSet<Of>,
    wakes: BTreeMap<Of, i64>,
    /// The next pass sees this kind as it was so many writes ago.
    stale: Option<(Kind, usize)>,
    views: Vec<Arc<View>>,
    versions: u64,
    steps: u32,
    /// No departures any more, and all that was broken is mended.
    mended: Option<i64>,
    truth: judge::Truth,
    violation: Option<(Property, String)>,
    /// What happened, where it is reported.
    pub story: Option<Vec<String>>,
}

impl World {
    pub fn new(setup: Setup) -> Self {
        let schedule = schedule(&setup);
        let cluster = cluster("demo", "8e9e05c52164694d", "c1");
        let mut world = Self {
            setup,
            now: BEGIN + HOUR / 2,
            operator: 0,
            api: 0,
            nodes: 0,
            known_api: 0,
            schedule: Kept::new(schedule),
            backups: BTreeMap::new(),
            jobs: BTreeMap::new(),
            pods: Vec::new(),
            cluster: Kept::new(cluster),
            neighbor: Arc::new(self::cluster("other", NEIGHBOR, "n1")),
            cluster_id: "8e9e05c52164694d",
            born: 0,
            store: BTreeMap::new(),
            lost: BTreeMap::new(),
            earlier: BTreeMap::new(),
            credentials: true,
            restore: None,
            pass: None,
            held: None,
            dirty: BTreeSet::from([Of::Schedule]),
            wakes: BTreeMap::new(),
            stale: None,
            views: Vec::new(),
            versions: 1,
            steps: 0,
            mended: None,
            truth: judge::Truth::default(),
            violation: None,
            story: None,
        };
        let warm = world.setup.warm;
        while warm > 0 && world.now < BEGIN + warm * HOUR + 10 * MINUTE && world.go() {}
        if let Some(order) = world.setup.order {
            assert!(world.order(order), "{order:?} is not possible");
        }
        world
    }

    /// When departures end.
    fn mends(&self) -> i64 {
        BEGIN + (self.setup.warm + self.setup.times) * HOUR + HOUR / 2
    }

    /// The next step of what is due; `false`: it is over.
    pub fn go(&mut self) -> bool {
        if self.violation.is_some() {
            return false;
        }
        self.steps += 1;
        if self.steps > STEPS {
            self.violate(Property::ComesToRest, "it does not come to rest".to_owned());
            return false;
        }
        if let Some(pass) = self.pass.take() {
            self.carry(pass, pass::Reply::Comes);
        } else if let Some(of) = self.dirty.pop_first() {
            self.begin(of);
        } else if let Some(job) = self.running_job() {
            self.end_job(&job, jobs::Ends::Well);
        } else if let Some(pod) = self.pods.first().cloned() {
            self.tell(|| format!("the Pod of {} is stopped", pod.name()));
            self.pods.remove(0);
            self.touch_backup(&pod.backup);
        } else if let Some(pass) = self.held.take() {
            self.tell(|| "the pass that was held up goes on".to_owned());
            self.pass = Some(pass);
        } else {
            return self.wait();
        }
        true
    }

    /// All is at rest: time passes until something is due.
    fn wait(&mut self) -> bool {
        let stop = self.mended.map_or_else(|| self.mends(), |mended| mended + 2 * HOUR);
        if self.now >= stop && self.mended.is_some() {
            self.judge_end();
            return false;
        }
        self.steps = 0;
        if self.now >= stop {
            self.mend();
            return true;
        }
        let next = self.wakes.values().copied().filter(|wake| *wake > self.now).min();
        self.now = next.unwrap_or(i64::MAX).min(self.now + HOUR).min(stop);
        self.touch_all();
        let now = self.now;
        self.tell(|| format!("it is {}", timestamp(now)));
        true
    }

    fn mend(&mut self) {
        self.mended = Some(self.now);
        self.truth.set_back |= self.operator > 0 || self.api > 0;
        self.judge_restored();
        self.judge_versions();
        (self.operator, self.api, self.nodes, self.credentials, self.restore) = (0, 0, 0, true, None);
        if self.schedule.object.spec.suspend {
            self.edit(|spec| spec.suspend = false);
        }
        self.touch_all();
        self.tell(|| "all is mended".to_owned());
    }

    pub fn violation(&self) -> Option<&(Property, String)> {
        self.violation.as_ref()
    }

    /// Takes the operator's clock to be that of the API server, unless what is known says otherwise. A jump of its own clock shows at once, by
    /// the one that cannot be set; one of the API server shows with its next reply.
    fn difference(&self) -> Option<ClockDifference> {
        let ahead = self.operator - self.known_api;
        let span = Span(ahead.unsigned_abs());
        match ahead {
            _ if ahead.abs() <= BOUND => None,
            1.. => Some(ClockDifference::Ahead(span)),
            ..=0 => Some(ClockDifference::Behind(span)),
        }
    }

    fn operator_now(&self) -> Instant {
        Instant(self.now + self.operator)
    }

    fn api_time(&self) -> Time {
        Time(timestamp((self.now + self.api).div_euclid(1000) * 1000))
    }

    /// What the caches have.
    fn view(&self) -> View {
        View {
            schedule: self.schedule.object.clone(),
            backups: self.backups.iter().map(|(name, kept)| (name.clone(), kept.object.clone())).collect(),
            jobs: self.jobs.iter().map(|(name, kept)| (name.clone(), kept.object.clone())).collect(),
        }
    }

    /// Before a write: what was there is what an old view shows.
    fn remember(&mut self) {
        let view = Arc::new(self.view());
        self.views.push(view);
        if self.views.len() > 3 {
            self.views.remove(0);
        }
    }

    fn next_version(&mut self) -> String {
        self.versions += 1;
        self.versions.to_string()
    }

    fn put_schedule(&mut self, mut schedule: EtcdBackupSchedule) -> Arc<EtcdBackupSchedule> {
        self.remember();
        schedule.metadata.resource_version = Some(self.next_version());
        self.schedule = Kept::new(schedule);
        self.dirty.insert(Of::Schedule);
        self.schedule.object.clone()
    }

    fn put_backup(&mut self, mut backup: EtcdBackup) -> Arc<EtcdBackup> {
        self.remember();
        backup.metadata.resource_version = Some(self.next_version());
        let name = backup.metadata.name.clone().unwrap_or_default();
        let going = backup.metadata.deletion_timestamp.is_some();
        if going && backup.metadata.finalizers.as_ref().is_none_or(Vec::is_empty) {
            self.backups.remove(&name);
            self.jobs.retain(|_, job| job.object.backup != name);
            self.wakes.remove(&Of::Backup(name.clone()));
            self.touch_backup(&name);
            self.dirty.remove(&Of::Backup(name));
            return Arc::new(backup);
        }
        let kept = Kept::new(backup);
        let object = kept.object.clone();
        let before = self.backups.insert(name.clone(), kept);
        let was_dirty = self.dirty.contains(&Of::Schedule);
        self.touch_backup(&name);
        // What the schedule does not look at starts a pass that comes to nothing.
        let seen = |one: &EtcdBackup| {
            let status = one.status.clone().unwrap_or_default();
            (status.phase, status.last_look, status.result, one.metadata.deletion_timestamp.clone())
        };
        if !was_dirty && before.is_some_and(|before| seen(&before.object) == seen(&object)) {
            self.dirty.remove(&Of::Schedule);
        }
        object
    }

    /// A backup has changed: its own pass, that of its schedule, and those that wait for it.
    fn touch_backup(&mut self, name: &str) {
        self.dirty.insert(Of::Schedule);
        for (other, kept) in &self.backups {
            let phase = kept.object.status.as_ref().and_then(|status| status.phase);
            let has_ended = phase.is_some_and(|phase| ["Complete", "Failed"].contains(&phase.as_str()));
            if other == name || !has_ended || kept.object.metadata.deletion_timestamp.is_some() {
                self.dirty.insert(Of::Backup(other.clone()));
            }
        }
    }

    fn touch_all(&mut self) {
        self.dirty.insert(Of::Schedule);
        self.dirty.extend(self.backups.keys().map(|name| Of::Backup(name.clone())));
    }

    fn edit(&mut self, change: impl FnOnce(&mut quorate_api::schedule::EtcdBackupScheduleSpec)) {
        let mut schedule = (*self.schedule.object).clone();
        change(&mut schedule.spec);
        schedule.metadata.generation = schedule.metadata.generation.map(|number| number + 1);
        self.put_schedule(schedule);
    }

    fn tell(&mut self, what: impl FnOnce() -> String) {
        if let Some(story) = &mut self.story {
            story.push(what());
        }
    }

    /// Two worlds with the same are in the same state. Old views are those of the path that came here first.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.now, self.operator, self.api, self.nodes, self.known_api).hash(&mut hasher);
        let restore = self.restore.as_ref().map(|restore| restore.hash);
        (self.schedule.hash, self.cluster.hash, self.credentials, restore, self.mended).hash(&mut hasher);
        for (name, kept) in &self.backups {
            (name, kept.hash).hash(&mut hasher);
        }
        for (name, kept) in &self.jobs {
            (name, kept.hash).hash(&mut hasher);
        }
        for pod in &self.pods {
            pod.name().hash(&mut hasher);
        }
        self.store.hash(&mut hasher);
        self.lost.hash(&mut hasher);
        self.earlier.hash(&mut hasher);
        self.dirty.hash(&mut hasher);
        self.stale.hash(&mut hasher);
        for pass in [&self.pass, &self.held] {
            pass.as_ref().map(|pass| pass.hash(self)).hash(&mut hasher);
        }
        self.truth.hash(&mut hasher);
        hasher.finish()
    }
}

fn hash_of(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

fn timestamp(at: i64) -> Timestamp {
    Timestamp::from_millisecond(at).expect("a time of the test")
}

fn schedule(setup: &Setup) -> EtcdBackupSchedule {
    let mut object = json!({
        "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdBackupSchedule",
        "metadata": {
            "name": "hourly", "namespace": "default", "uid": SCHEDULE_UID, "generation": 1, "resourceVersion": "1",
            "creationTimestamp": timestamp(BEGIN + HOUR / 2).to_string(),
        },
        "spec": {
            "schedule": "0 * * * *",
            "retention": setup.retention,
            "historyLimit": {"failed": 1},
            "backupTemplate": {"spec": {
                "source": {"cluster": "demo"}, "destination": {"s3": {"bucket": BUCKET}}, "deletionPolicy": setup.policy,
            }},
        },
    });
    if setup.tested {
        object["spec"]["verify"] = json!({"schedule": "20 * * * *"});
    }
    serde_json::from_value(object).expect("a schedule")
}

fn cluster(name: &str, id: &str, uid: &str) -> EtcdCluster {
    let voter = json!({"name": format!("{name}-0"), "phase": "Voter", "phaseSince": "2026-10-03T12:00:00Z", "role": "voter", "healthy": true});
    let quorum = json!({"type": "QuorumAvailable", "status": "True", "reason": "X", "message": "", "lastTransitionTime": "2026-10-03T12:00:00Z"});
    let object = json!({
        "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdCluster",
        "metadata": {"name": name, "namespace": "default", "uid": uid},
        "spec": {"size": 1, "version": "3.6.16"},
        "status": {"clusterID": id, "members": [voter], "conditions": [quorum]},
    });
    serde_json::from_value(object).expect("a cluster")
}
