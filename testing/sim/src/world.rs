//! Everything there is around the operator, in one value that can be copied, hashed and gone back to.
//!
//! - `objects`: Kubernetes' objects as the operator sees them; `wire`: requests and what becomes of them
//! - `operator`: the operator, a step at a time; `rival`: the one that led before; `kubelet`: the nodes
//! - [`faults`]: what may go wrong; [`rogue`]: what a planner gone wrong would propose
//! - this file: the fair schedule, which lets everything happen that is due and nothing else

mod describe;
pub mod faults;
pub mod kubelet;
mod objects;
mod operator;
mod rival;
pub mod rogue;
pub mod wire;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, LazyLock};

use jiff::Timestamp;
use quorate_api::EtcdCluster;
use quorate_api::status::EtcdClusterStatus;
use quorate_apistore::fields::{deleting, name, text, uid};
use quorate_apistore::selectors::map_selects;
use quorate_apistore::store::{Change, Clock, Part, Uids};
use quorate_apistore::{ObjectKey, ResourceKey, Store};
use quorate_manifests::{Kind, Write};
use quorate_model::guard::VolumeIdentity;
use quorate_model::{ClusterRef, Instant, MemberName, Record, Snapshot, Span, Step};
use quorate_reconcile::Planned;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::etcd::{Entry, Etcd};
use crate::fingerprint::Hashed;
use crate::oracle::Oracle;
use faults::LastingFaults;
use kubelet::Running;
pub(crate) use objects::KINDS;
use objects::{Parsed, key, resource};
use operator::{At, Operator, Within};
use rival::{Rival, Turn};
use wire::{Call, RequestOutcome, Response};

/// How far the clock is put forward when all is at rest and the goal is not reached: past etcd's health interval, and past
/// the planner's deadlines for learners.
const PATIENCE: [Span; 4] = [Span::seconds(6), Span::seconds(60), Span::seconds(601), Span::seconds(3601)];

/// How many of these are waited for at the goal, too: what time alone changes is told by then.
const CALM: usize = 2;

/// The Kubernetes that every world begins with: it knows EtcdClusters, and a storage class whose volumes may grow.
static BEGINNING: LazyLock<Store> = LazyLock::new(|| {
    let store = Store::new(reads(&Arc::new(AtomicI64::new(NEW_YEAR.0))));
    store.set_uids(Uids::Counted);
    for definition in quorate_api::crd::crds() {
        let definition = serde_json::to_value(definition).expect("a definition is plain data");
        let crds = ResourceKey::new("apiextensions.k8s.io", "customresourcedefinitions");
        store.create(&crds, "", definition, false).expect("our own definition is served");
    }
    quorate_apistore::cluster_defaults::create(&store, "/volumes").expect("an empty store takes it");
    store
});

/// When every world begins.
const NEW_YEAR: Instant = Instant(1_767_225_600_000);

/// The world.
pub struct World {
    /// Kubernetes.
    pub store: Store,
    /// The cluster that everything is about.
    pub at: ClusterRef,
    /// The time.
    pub now: Instant,
    /// etcd.
    pub etcd: Etcd,
    /// What to hold against it.
    pub oracle: Oracle,
    /// What goes wrong at the moment.
    pub faults: LastingFaults,
    /// The planner, too, may go wrong.
    pub rogue_planner: bool,
    /// What becomes of the operator's next request.
    pub request_outcome: RequestOutcome,
    /// Protocol steps whose request met which outcome.
    pub covered: BTreeSet<(Step, &'static str)>,
    /// What the operator planned last, for people who replay a history.
    last_plan: Option<Arc<Planned>>,
    clock: Arc<AtomicI64>,
    pods: BTreeMap<String, Running>,
    identities: BTreeMap<String, VolumeIdentity>,
    operator: Operator,
    rival: Option<Rival>,
    parsed: Parsed,
    /// The record that was read last, and where it stood.
    recorded: RefCell<Option<(Arc<Value>, Arc<Record>)>>,
    hashed: Hashed,
    late: Vec<Call>,
    /// How often patience was tried since anything happened.
    waited: usize,
    /// What there was to be seen when the pass began.
    began_on: u64,
    writes: u64,
}

impl World {
    /// A Kubernetes that knows EtcdClusters, and one of them with this spec.
    pub fn new(spec: &Value) -> Self {
        let now = NEW_YEAR;
        let clock = Arc::new(AtomicI64::new(now.0));
        let store = BEGINNING.fork(reads(&clock));
        let world = Self {
            store,
            at: ClusterRef::new("default", "demo"),
            now,
            etcd: Etcd::default(),
            oracle: Oracle::default(),
            faults: LastingFaults::default(),
            rogue_planner: false,
            request_outcome: RequestOutcome::Done,
            covered: BTreeSet::new(),
            last_plan: None,
            clock,
            pods: BTreeMap::new(),
            identities: BTreeMap::new(),
            operator: Operator::default(),
            rival: None,
            parsed: Parsed::default(),
            recorded: RefCell::default(),
            hashed: Hashed::default(),
            late: Vec::new(),
            waited: 0,
            began_on: 0,
            writes: 0,
        };
        world.apply(spec).expect("the first spec is valid");
        world
    }

    /// Nodes and etcd around a Kubernetes that somebody else's operator writes to.
    pub fn around(store: Store, now: Instant) -> Self {
        let spare = Self::new(&json!({ "size": 0, "version": "3.6.0" }));
        Self { store, now, ..spare }
    }

    /// Lets nodes, etcd and its clients do all they can by this time, and looks for harm. Whether anything moved. For a
    /// world whose operator is another than the modelled one.
    pub fn go_without_operator(&mut self, now: Instant) -> bool {
        self.now = now;
        let mut any = false;
        while self.settle() | self.serve_clients() {
            any = true;
        }
        self.look_for_harm();
        any
    }

    /// Ends what goes on being wrong, all of it.
    pub fn end_lasting_faults(&mut self, now: Instant) {
        self.now = now;
        while self.end_a_lasting_fault().is_some() {}
    }

    /// A write of such an operator is about to arrive.
    pub fn arrives(&mut self, write: Write) {
        self.oracle_on_arrival(&Call::Kube(write));
    }

    /// The same world once more.
    #[must_use]
    pub fn fork(&self) -> Self {
        let clock = Arc::new(AtomicI64::new(self.now.0));
        Self {
            store: self.store.fork(reads(&clock)),
            at: self.at.clone(),
            now: self.now,
            etcd: self.etcd.clone(),
            oracle: self.oracle.clone(),
            faults: self.faults.clone(),
            rogue_planner: self.rogue_planner,
            request_outcome: self.request_outcome,
            covered: self.covered.clone(),
            last_plan: self.last_plan.clone(),
            clock,
            pods: self.pods.clone(),
            identities: self.identities.clone(),
            operator: self.operator.clone(),
            rival: self.rival.clone(),
            parsed: self.parsed.clone(),
            recorded: self.recorded.clone(),
            hashed: self.hashed.clone(),
            late: self.late.clone(),
            waited: self.waited,
            began_on: self.began_on,
            writes: self.writes,
        }
    }

    /// Creates the cluster, or changes what its spec has of this.
    pub fn apply(&self, spec: &Value) -> Result<(), String> {
        if self.object(Kind::Cluster, &self.at.name).is_some() {
            return self.change_spec(|old| json_patch::merge(old, spec));
        }
        let object =
            json!({ "metadata": { "name": self.at.name, "namespace": self.at.namespace }, "spec": spec });
        let created = self.store.create(&resource(Kind::Cluster), &self.at.namespace, object, false);
        created.map(drop).map_err(|error| error.message)
    }

    /// Changes the spec by a merge patch, if the API server lets it.
    pub fn edit(&mut self, spec: &Value) -> Result<(), String> {
        self.news();
        self.change_spec(|old| json_patch::merge(old, spec))
    }

    /// Puts another spec in the place of the one that is there, if the API server lets it.
    pub fn replace_spec(&mut self, spec: &Value) -> Result<(), String> {
        self.news();
        self.change_spec(|old| *old = spec.clone())
    }

    /// Deletes the cluster, as a user does; `false` if it is not there, or going already.
    pub fn delete(&mut self) -> bool {
        let cluster = self.object(Kind::Cluster, &self.at.name).filter(|cluster| !deleting(cluster));
        self.waited = 0;
        cluster.is_some_and(|cluster| kubelet::delete(&self.store, Kind::Cluster, &cluster, None))
    }

    /// The next thing that is due, in words; `None` once everything is at rest.
    pub fn go(&mut self) -> Option<String> {
        if let Some(told) = self.rival_operates() {
            self.request_outcome = RequestOutcome::Done;
            self.moved();
            self.look_for_harm();
            return Some(told);
        }
        if matches!(self.operator.at, At::Between) {
            if self.settle() {
                self.serve_clients();
                self.moved();
                return Some("nodes and etcd move on".to_owned());
            }
            if self.serve_clients() {
                self.moved();
                return Some("a client writes".to_owned());
            }
            if self.operator.rested_on == Some(self.sight()) {
                return self.wait();
            }
            self.began_on = self.sight();
            self.operator.troubled = self.operator.stale.is_some();
        }
        self.operator.troubled |= self.request_outcome != RequestOutcome::Done;
        let told = self.operate();
        // Where the step sent nothing there was nothing to go wrong.
        self.request_outcome = RequestOutcome::Done;
        let vain = self.sight() == self.began_on && !self.operator.troubled;
        if matches!(self.operator.at, At::Between) && vain {
            self.operator.rested_on = Some(self.began_on);
        } else if !vain {
            self.moved();
        }
        self.look_for_harm();
        Some(told)
    }

    /// What the cluster's status says was latched.
    pub fn record(&self) -> Arc<Record> {
        let Some(cluster) = self.object(Kind::Cluster, &self.at.name) else { return Arc::default() };
        let mut read = self.recorded.borrow_mut();
        match read.as_ref() {
            // It is asked after every step, and most steps leave the cluster as it is.
            Some((of, record)) if Arc::ptr_eq(of, &cluster) => record.clone(),
            Some(_) | None => {
                let status = EtcdClusterStatus::deserialize(&cluster["status"]).ok();
                let record = status.as_ref().map(quorate_manifests::record::from_status).unwrap_or_default();
                let (_, record) = read.insert((cluster, Arc::new(record)));
                record.clone()
            }
        }
    }

    /// The cluster as it stands.
    pub fn cluster(&self) -> Option<EtcdCluster> {
        let object = self.object(Kind::Cluster, &self.at.name)?;
        EtcdCluster::deserialize(object.as_ref()).ok()
    }

    /// The names of the objects of a kind, in order.
    pub fn names(&self, kind: Kind) -> Vec<String> {
        self.store.objects(&resource(kind)).iter().map(|object| name(object).to_owned()).collect()
    }

    /// One object of the cluster's namespace.
    pub fn object(&self, kind: Kind, name: &str) -> Option<Arc<Value>> {
        self.store.shared(&key(kind, &self.at, name))
    }

    /// The objects of a kind.
    pub fn objects(&self, kind: Kind) -> Vec<Arc<Value>> {
        self.store.objects(&resource(kind))
    }

    /// Changes of objects of a kind after a version.
    pub(crate) fn changes(&self, kind: Kind, version: u64) -> Vec<Change> {
        self.store.changes(&resource(kind), version).map(|(changes, _)| changes).unwrap_or_default()
    }

    /// One more pass, when nothing has happened.
    pub(crate) fn operate_at_rest(&mut self) {
        self.operator.rested_on = None;
        self.operate();
        while matches!(self.operator.at, At::Within(_)) {
            self.operate();
        }
    }

    /// A number that is the same for two worlds that will go on in the same way.
    ///
    /// What was before is no part of it: old views are those of the path on which a state was met first.
    pub fn fingerprint(&mut self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for kind in KINDS {
            for object in self.store.objects(&resource(kind)) {
                if kind == Kind::Cluster {
                    crate::fingerprint::object(&object, self.now, &mut hasher);
                    let observed = object.pointer("/status/observedGeneration");
                    (observed == object.pointer("/metadata/generation")).hash(&mut hasher);
                } else {
                    self.hashed.of(&object, self.now).hash(&mut hasher);
                }
            }
        }
        self.etcd.fingerprint(self.now, &mut hasher);
        (&self.pods, &self.identities, &self.faults, self.request_outcome, self.waited).hash(&mut hasher);
        for call in &self.late {
            call.words().hash(&mut hasher);
        }
        let sight = self.sight();
        self.hash_operator(&self.operator, sight, &mut hasher);
        if let Some(Rival { operator, turn }) = &self.rival {
            turn.hash(&mut hasher);
            self.hash_operator(operator, sight, &mut hasher);
        }
        if let Some((kind, version)) = self.operator.stale {
            (kind, self.store.version() - version).hash(&mut hasher);
        }
        (&self.operator.rogue, self.operator.old_list).hash(&mut hasher);
        self.oracle.fingerprint(&mut hasher);
        hasher.finish()
    }

    fn hash_operator(&self, operator: &Operator, sight: u64, hasher: &mut impl Hasher) {
        match &operator.at {
            At::Between => (0, operator.rested_on == Some(sight)).hash(hasher),
            At::Within(within) => {
                let Within { pass, truth } = &**within;
                // Whether the pass has moved anything so far decides on whether there will be another at once.
                (sight == self.began_on, operator.troubled).hash(hasher);
                // What is left to do; versions in it differ from path to path and name what the store holds.
                (1, pass.remaining().iter().map(ToString::to_string).collect::<Vec<_>>()).hash(hasher);
                // What failed already ends the pass later.
                pass.stop().hash(hasher);
                // What it rests on: whether objects still are as they were seen, and what was true.
                pass.observed().map(|(observed, _)| self.still_as_seen(observed)).hash(hasher);
                truth.hash(hasher);
            }
        }
    }

    /// Which Pods and volumes have not changed since they were seen.
    fn still_as_seen(&self, seen: &Snapshot) -> Vec<bool> {
        let pods = seen.pods.iter().map(|(name, pod)| (Kind::Pod, name, &pod.resource_version));
        let volumes =
            seen.volumes.iter().map(|(name, volume)| (Kind::Volume, name, &volume.resource_version));
        let same = |(kind, name, version): (Kind, &MemberName, &String)| {
            let object = self.object(kind, name.as_str());
            object.is_some_and(|object| text(&object, "/metadata/resourceVersion") == version)
        };
        pods.chain(volumes).map(same).collect()
    }

    /// Late requests arrive, standing faults end, time passes; `None` if none of it helps any more.
    fn wait(&mut self) -> Option<String> {
        if self.rival.as_ref().is_some_and(|rival| rival.turn != Turn::WhenAllRests) {
            return Some("the operator that leads has nothing to do".to_owned());
        }
        if !self.late.is_empty() {
            let call = self.late.remove(0);
            let told = format!("a request from long ago arrives: {}", call.words());
            let response = self.deliver(&call);
            if let (Call::Kube(Write { kind: Kind::Volume, .. }), Response::Kube(Ok(Some(volume)))) =
                (&call, response)
            {
                self.oracle.came_late(uid(&volume));
            }
            self.moved();
            self.look_for_harm();
            return Some(told);
        }
        if self.wake_rival() {
            self.moved();
            return Some("the operator that led before goes on".to_owned());
        }
        if let Some(told) = self.end_a_lasting_fault() {
            self.moved();
            return Some(told);
        }
        // Where the goal is reached, the first of them must change nothing.
        if self.waited == PATIENCE.len() || (self.waited >= CALM && self.is_well()) {
            return None;
        }
        let span = PATIENCE[self.waited];
        self.waited += 1;
        self.advance(span);
        self.operator.rested_on = None;
        Some(format!("{span} pass"))
    }

    /// Puts the clock forward.
    pub fn advance(&mut self, span: Span) {
        self.now = self.now + span;
        self.clock.store(self.now.0, Ordering::Relaxed);
    }

    /// Something has come from outside.
    fn news(&mut self) {
        self.waited = 0;
        self.operator.rested_on = None;
    }

    fn change_spec(&self, change: impl FnOnce(&mut Value)) -> Result<(), String> {
        let key = key(Kind::Cluster, &self.at, &self.at.name);
        self.change(&key, Part::Main, |cluster| change(&mut cluster["spec"]))
    }

    /// Changes a part of an object, if the API server lets it.
    fn change(&self, key: &ObjectKey, part: Part, change: impl FnOnce(&mut Value)) -> Result<(), String> {
        let changed = self.store.modify(key, part, false, |old| {
            let mut new = old.clone();
            change(&mut new);
            Ok(new)
        });
        changed.map(drop).map_err(|error| error.message)
    }

    fn moved(&mut self) {
        self.waited = 0;
    }

    /// What the operator could see.
    fn sight(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.store.version().hash(&mut hasher);
        self.etcd.fingerprint(self.now, &mut hasher);
        hasher.finish()
    }

    /// A client writes through the client Service after every change in etcd; what is acknowledged must stay.
    fn serve_clients(&mut self) -> bool {
        let service = format!("{}-client", self.at.name);
        let Some(service) = self.object(Kind::Service, &service) else { return false };
        let (selector, pods) = (service.pointer("/spec/selector"), self.objects(Kind::Pod));
        let behind: BTreeSet<&str> =
            pods.iter().filter(|pod| map_selects(selector, pod)).map(|pod| uid(pod)).collect();
        let serving: BTreeSet<_> = self
            .etcd
            .processes()
            .filter(|(at, _)| behind.contains(at) && self.etcd.status(at).is_ok())
            .filter_map(|(_, process)| Some(self.etcd.dir_of(process)?.cluster))
            .filter(|cluster| !self.faults.foreign.contains(cluster))
            .collect();
        let mut any = false;
        for cluster in serving {
            let news = self
                .etcd
                .group(cluster)
                .is_some_and(|group| !matches!(group.log().last(), Some(Entry::Write(_))));
            if news && self.etcd.write(cluster, self.writes) {
                self.oracle.acknowledged(cluster, &self.cluster_uid());
                self.writes += 1;
                any = true;
            }
        }
        any
    }

    fn cluster_uid(&self) -> String {
        let object = self.object(Kind::Cluster, &self.at.name);
        object.map(|object| uid(&object).to_owned()).unwrap_or_default()
    }
}

fn reads(clock: &Arc<AtomicI64>) -> Clock {
    let clock = Arc::clone(clock);
    Arc::new(move || {
        Timestamp::from_millisecond(clock.load(Ordering::Relaxed)).unwrap_or(Timestamp::UNIX_EPOCH)
    })
}
