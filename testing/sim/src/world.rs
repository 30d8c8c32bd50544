//! The world around the operator: one value that can be copied, hashed and restored.
//!
//! - `objects`: Kubernetes objects as the operator's watches have them; `wire`: requests and their outcomes
//! - `operator`: the operator, a step at a time; `former_leader`: an operator that lost the lease; `kubelet`: the nodes
//! - `addresses`: who answers at the address of a Pod
//! - `hashes`: hashes of members' data that take time
//! - `cert_manager`: cert-manager, and the CA of the Issuer that it signs by
//! - `canary`: disks that hang, and the readiness that follows
//! - `clocks`: the clocks of the operator, of the API server and of kubelets
//! - `budgets`: the disruption controller, evictions, drains
//! - [`restore`]: the snapshot that a cluster may begin with; `recover`: one that an agent makes while a lost quorum is recovered
//! - [`room`]: Kubernetes with room for so many members and no more
//! - `person`: who follows the runbook once a fault stays
//! - [`fleet`]: several clusters of one operator, and their turns
//! - [`faults`]: the faults; [`rogue`]: the proposals of a rogue planner
//! - this file: the fair schedule: what is due happens, and nothing else

mod addresses;
mod auth;
mod budgets;
mod canary;
pub(crate) mod cert_manager;
pub(crate) mod certificates;
pub mod clocks;
mod definition;
mod describe;
pub mod faults;
pub mod fleet;
mod former_leader;
mod hashes;
pub mod kubelet;
pub(crate) mod late_client;
mod objects;
mod operator;
pub(crate) mod other_operator;
mod person;
mod recover;
pub mod restore;
pub mod rogue;
pub mod room;
pub mod wire;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, LazyLock};

use jiff::Timestamp;
use quorate_api::status::EtcdClusterStatus;
use quorate_api::{EtcdCluster, keys};
use quorate_apistore::fields::{annotation, deleting, integer, items, name, namespace, text, uid};
use quorate_apistore::selectors::map_selects;
use quorate_apistore::store::{Change, Clock, Part, Uids};
use quorate_apistore::{ObjectKey, ResourceKey, Store};
use quorate_manifests::{Defaults, Kind, Write};
use quorate_model::guard::VolumeIdentity;
use quorate_model::snapshot::CLIENTS_LEAVE_WITHIN;
use quorate_model::{ClusterRef, Instant, MemberName, Record, Snapshot, Span, Step};
use quorate_reconcile::Planned;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::etcd::{Entry, Etcd};
use crate::fingerprint::Hashed;
use crate::oracle::{Oracle, Truth};
use crate::trust::Trust;
use faults::LastingFaults;
use former_leader::{FormerLeader, Turn};
use kubelet::Running;
pub(crate) use objects::KINDS;
use objects::{Parsed, is_of_job, key, resource};
use operator::{At, DEFAULTS, Operator, Within};
use person::Remedy;
use wire::{Call, RequestOutcome, Response};

/// How far the clock is advanced when all is at rest and the goal is not reached: past etcd's health interval, and past the
/// planner's deadlines for learners.
const WAITS: [Span; 4] = [Span::seconds(6), Span::seconds(60), Span::seconds(601), Span::seconds(3601)];

/// After how many waits in all a person acts while a fault stays, though the operator does not rest.
const PATIENCE: usize = 12;

/// How many of these waits take place at the goal, too, so that status reports what changes with time alone.
const WAITS_AT_GOAL: usize = 2;

/// The Kubernetes that every world begins with: it serves EtcdClusters, and has a storage class whose volumes can be expanded.
static EMPTY_KUBERNETES: LazyLock<Store> = LazyLock::new(|| {
    let store = Store::new(store_clock(&Arc::new(AtomicI64::new(BEGIN.0))));
    store.set_uids(Uids::Counted);
    for definition in quorate_api::crd::crds() {
        let definition = serde_json::to_value(definition).expect("a definition is plain data");
        let crds = ResourceKey::new("apiextensions.k8s.io", "customresourcedefinitions");
        store.create(&crds, "", definition, false).expect("our own definition is served");
    }
    quorate_apistore::cluster_defaults::create(&store, "/volumes").expect("an empty store takes it");
    store
});

/// The time at which every world begins.
const BEGIN: Instant = Instant(1_767_225_600_000);

/// The world.
pub struct World {
    /// Kubernetes.
    pub store: Store,
    /// The cluster that the operator manages.
    pub at: ClusterRef,
    /// The defaults of the operator's flags. They never change in a history of one cluster, so they are not hashed.
    defaults: Arc<Defaults>,
    /// The turns of all clusters, where there are several.
    turns: Option<fleet::Shared>,
    /// The time.
    pub now: Instant,
    /// etcd.
    pub etcd: Etcd,
    /// The checks of the properties.
    pub oracle: Oracle,
    /// The faults that last, and what faults have destroyed.
    pub faults: LastingFaults,
    /// Faults of the planner are possible, too.
    pub rogue_planner: bool,
    /// The faults of `Entry::wide` are offered, too, and a person follows the runbook: in most scopes that would multiply the states.
    pub wide: bool,
    /// How long a member takes to make a hash of its data, and answers nothing. It never changes, so it is not hashed.
    pub hash_takes: Span,
    /// How much room there is for members. It never changes, so it is not hashed.
    pub room: room::Room,
    /// The outcome of the operator's next request.
    pub request_outcome: RequestOutcome,
    /// Protocol steps, each with the outcome of its request.
    pub covered: BTreeSet<(Step, &'static str)>,
    /// The last plan of the operator, for people who replay a history.
    last_plan: Option<Arc<Planned>>,
    clock: Arc<AtomicI64>,
    pods: BTreeMap<String, Running>,
    identities: BTreeMap<String, VolumeIdentity>,
    /// The snapshots that agents have made on volumes.
    extracted: Vec<recover::Extracted>,
    /// The data directories on disks that hang, and since when.
    hung_since: BTreeMap<String, Instant>,
    operator: Operator,
    former_leader: Option<FormerLeader>,
    parsed: Parsed,
    /// The record that was read last, and the object it was read from.
    recorded: RefCell<Option<(Arc<Value>, Arc<Record>)>>,
    hashed: Hashed,
    late: Vec<Call>,
    /// How many of the waits have passed since anything changed.
    waited: usize,
    /// The hash of what the operator could observe when its pass began.
    began_on: u64,
    writes: u64,
    pub(crate) trust: Trust,
    /// cert-manager, if it is installed.
    cert_manager: Option<cert_manager::CertManager>,
    remedy: Remedy,
    /// How many waits have passed while a fault stays.
    patience: usize,
    /// The operator had nothing left to do when nodes moved on last.
    rested_before_nodes: bool,
}

impl World {
    /// A world with one EtcdCluster that has this spec.
    pub fn new(spec: &Value) -> Self {
        let clock = Arc::new(AtomicI64::new(BEGIN.0));
        let store = EMPTY_KUBERNETES.fork(store_clock(&clock));
        Self::within(store, clock, ClusterRef::new("default", "demo"), spec)
    }

    /// A world around this EtcdCluster, in a Kubernetes that may have others in other namespaces.
    fn within(store: Store, clock: Arc<AtomicI64>, at: ClusterRef, spec: &Value) -> Self {
        let world = Self {
            store,
            at,
            defaults: DEFAULTS.clone(),
            turns: None,
            now: BEGIN,
            etcd: Etcd::default(),
            oracle: Oracle::default(),
            faults: LastingFaults::default(),
            rogue_planner: false,
            wide: false,
            hash_takes: Span(0),
            room: room::Room::default(),
            request_outcome: RequestOutcome::Done,
            covered: BTreeSet::new(),
            last_plan: None,
            clock,
            pods: BTreeMap::new(),
            identities: BTreeMap::new(),
            extracted: Vec::new(),
            hung_since: BTreeMap::new(),
            operator: Operator::default(),
            former_leader: None,
            parsed: Parsed::default(),
            recorded: RefCell::default(),
            hashed: Hashed::default(),
            late: Vec::new(),
            waited: 0,
            began_on: 0,
            writes: 0,
            trust: Trust::default(),
            cert_manager: None,
            remedy: Remedy::NotYet,
            patience: 0,
            rested_before_nodes: false,
        };
        if let Some(name) = spec.pointer("/bootstrap/restore/backupRef/name").and_then(Value::as_str) {
            world.create_backup(name);
        }
        world.apply(spec).expect("the first spec is valid");
        world
    }

    /// Nodes and etcd around a Kubernetes whose operator is not the modelled one.
    pub fn around(store: Store, now: Instant) -> Self {
        let spare = Self::new(&json!({ "size": 0, "version": "3.6.0" }));
        Self { store, now, ..spare }
    }

    /// Runs nodes, etcd and its clients until this time, and checks the properties. Returns whether anything changed. This is
    /// for a world whose operator is not the modelled one.
    pub fn go_without_operator(&mut self, now: Instant) -> bool {
        self.now = now;
        let mut any = false;
        while self.settle() | self.serve_clients() {
            any = true;
        }
        self.check_for_harm();
        any
    }

    /// Ends all faults that last.
    pub fn end_lasting_faults(&mut self, now: Instant) {
        self.now = now;
        while self.end_a_lasting_fault().is_some() {}
    }

    /// Checks a write of such an operator that is about to arrive.
    pub fn arrives(&mut self, write: Write) {
        self.oracle_on_arrival(&Call::Kube(write));
    }

    /// A copy of the world.
    #[must_use]
    pub fn fork(&self) -> Self {
        let clock = Arc::new(AtomicI64::new(self.api_servers_time().0));
        Self {
            store: self.store.fork(store_clock(&clock)),
            at: self.at.clone(),
            defaults: self.defaults.clone(),
            turns: self.turns.clone(),
            now: self.now,
            etcd: self.etcd.clone(),
            oracle: self.oracle.clone(),
            faults: self.faults.clone(),
            rogue_planner: self.rogue_planner,
            wide: self.wide,
            hash_takes: self.hash_takes,
            room: self.room,
            request_outcome: self.request_outcome,
            covered: self.covered.clone(),
            last_plan: self.last_plan.clone(),
            clock,
            pods: self.pods.clone(),
            identities: self.identities.clone(),
            extracted: self.extracted.clone(),
            hung_since: self.hung_since.clone(),
            operator: self.operator.clone(),
            former_leader: self.former_leader.clone(),
            parsed: self.parsed.clone(),
            recorded: self.recorded.clone(),
            hashed: self.hashed.clone(),
            late: self.late.clone(),
            waited: self.waited,
            began_on: self.began_on,
            writes: self.writes,
            trust: self.trust.clone(),
            cert_manager: self.cert_manager.clone(),
            remedy: self.remedy.clone(),
            patience: self.patience,
            rested_before_nodes: self.rested_before_nodes,
        }
    }

    /// Creates the cluster, or merges this into its spec.
    pub fn apply(&self, spec: &Value) -> Result<(), String> {
        if self.object(Kind::Cluster, &self.at.name).is_some() {
            return self.merge(spec);
        }
        let object =
            json!({ "metadata": { "name": self.at.name, "namespace": self.at.namespace }, "spec": spec });
        let created = self.store.create(&resource(Kind::Cluster), &self.at.namespace, object, false);
        created.map(drop).map_err(|error| error.message)
    }

    /// Changes the spec by a merge patch, or orders a restore in place, if the API server accepts it. A person may also write a Secret, before
    /// the rest: `{"secret": {"name", "data"}}`, without data to remove it, or several at once; and install cert-manager, or exchange the CA of the
    /// Issuer: `{"certManager": {"ca": 71}}`; and change a
    /// Certificate, or delete it: `{"certificate": {"name", "patch"}}`.
    pub fn edit(&mut self, spec: &Value) -> Result<(), String> {
        self.spec_changed();
        self.remedy = Remedy::NotYet;
        if let Some(definition) = spec.get("definition") {
            return self.replace_definition(&definition["lacks"]);
        }
        if let Some(order) = spec.get("etcdRestore") {
            return self.order_restore(order);
        }
        if let Some(issuer) = spec.get("certManager") {
            self.install_cert_manager(issuer);
            let mut rest = spec.clone();
            rest.as_object_mut().map(|rest| rest.remove("certManager"));
            return self.edit(&rest);
        }
        if let Some(certificate) = spec.get("certificate") {
            return self.change_certificate(certificate);
        }
        if let Some(secret) = spec.get("secret") {
            for secret in secret.as_array().unwrap_or(&vec![secret.clone()]) {
                let (name, data) = (secret["name"].as_str().unwrap_or_default(), &secret["data"]);
                self.put_secret(name, data)?;
            }
            let rest = spec.as_object().into_iter().flatten().filter(|(key, _)| *key != "secret");
            return self
                .merge(&Value::Object(rest.map(|(key, value)| (key.clone(), value.clone())).collect()));
        }
        if !spec["metadata"]["annotations"][keys::RECOVER_QUORUM_FROM].is_null() {
            self.recovery_is_ordered();
        }
        self.merge(spec)
    }

    /// Merges this into the spec, and what it has under `metadata` into the metadata: annotations are orders, too.
    fn merge(&self, patch: &Value) -> Result<(), String> {
        let key = key(Kind::Cluster, &self.at, &self.at.name);
        let mut spec = patch.clone();
        let metadata = spec.as_object_mut().and_then(|spec| spec.remove("metadata")).unwrap_or(json!({}));
        self.change(&key, Part::Main, |cluster| {
            json_patch::merge(&mut cluster["metadata"], &metadata);
            json_patch::merge(&mut cluster["spec"], &spec);
        })
    }

    /// Replaces the spec, if the API server accepts it.
    pub fn replace_spec(&mut self, spec: &Value) -> Result<(), String> {
        self.spec_changed();
        self.change_spec(|old| *old = spec.clone())
    }

    /// Deletes the cluster, as a user does; `false` if it does not exist or is being deleted.
    pub fn delete(&mut self) -> bool {
        let cluster = self.object(Kind::Cluster, &self.at.name).filter(|cluster| !deleting(cluster));
        self.waited = 0;
        cluster.is_some_and(|cluster| kubelet::delete(&self.store, Kind::Cluster, &cluster, None))
    }

    /// Takes the next step that is due, and describes it; `None` once everything is at rest.
    pub fn go(&mut self) -> Option<String> {
        self.act().or_else(|| self.wait())
    }

    /// Takes the next step that needs no time to pass; `None` if there is none.
    fn act(&mut self) -> Option<String> {
        if let Some(line) = self.former_leader_operates() {
            self.request_outcome = RequestOutcome::Done;
            self.moved();
            self.check_for_harm();
            return Some(line);
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
            if self.operator_rests() {
                return None;
            }
            self.began_on = self.observable_hash();
            self.operator.observes_again = self.operator.stale.is_some();
        }
        self.operator.observes_again |= self.request_outcome != RequestOutcome::Done;
        let line = self.operate();
        // A step that sent nothing does not use up the outcome, so it ends here.
        self.request_outcome = RequestOutcome::Done;
        let unchanged = self.observable_hash() == self.began_on && !self.operator.observes_again;
        if matches!(self.operator.at, At::Between) && unchanged {
            self.operator.rested_on = Some(self.began_on);
        } else if !unchanged {
            self.moved();
        }
        self.check_for_harm();
        Some(line)
    }

    /// The record in the cluster's status.
    pub fn record(&self) -> Arc<Record> {
        let Some(cluster) = self.object(Kind::Cluster, &self.at.name) else { return Arc::default() };
        let mut read = self.recorded.borrow_mut();
        match read.as_ref() {
            // This is called after every step, and most steps do not change the cluster.
            Some((of, record)) if Arc::ptr_eq(of, &cluster) => record.clone(),
            Some(_) | None => {
                let status = EtcdClusterStatus::deserialize(&cluster["status"]).ok();
                let record = status.as_ref().map(quorate_manifests::record::from_status).unwrap_or_default();
                let (_, record) = read.insert((cluster, Arc::new(record)));
                record.clone()
            }
        }
    }

    /// The cluster as it is now.
    pub fn cluster(&self) -> Option<EtcdCluster> {
        let object = self.object(Kind::Cluster, &self.at.name)?;
        EtcdCluster::deserialize(object.as_ref()).ok()
    }

    /// The names of the objects of a kind, in order.
    pub fn names(&self, kind: Kind) -> Vec<String> {
        self.objects(kind).iter().map(|object| name(object).to_owned()).collect()
    }

    /// One object of the cluster's namespace.
    pub fn object(&self, kind: Kind, name: &str) -> Option<Arc<Value>> {
        self.store.shared(&key(kind, &self.at, name))
    }

    /// The objects of a kind in the cluster's namespace.
    pub fn objects(&self, kind: Kind) -> Vec<Arc<Value>> {
        let mut all = self.store.objects(&resource(kind));
        if self.turns.is_some() {
            all.retain(|object| namespace(object) == self.at.namespace);
        }
        all
    }

    /// The Pods of members. Those of Jobs run elsewhere.
    fn member_pods(&self) -> Vec<Arc<Value>> {
        let mut pods = self.objects(Kind::Pod);
        pods.retain(|pod| !is_of_job(pod));
        pods
    }

    /// Changes of objects of a kind after a version.
    pub(crate) fn changes(&self, kind: Kind, version: u64) -> Vec<Change> {
        self.changes_since(kind, version).unwrap_or_default()
    }

    /// Changes of objects of a kind after a version; `None` if they are no longer kept.
    pub(crate) fn changes_since(&self, kind: Kind, version: u64) -> Option<Vec<Change>> {
        self.store.changes(&resource(kind), version).map(|(changes, _)| changes).ok()
    }

    /// Runs one more pass when nothing has changed.
    pub(crate) fn operate_at_rest(&mut self) {
        self.operator.rested_on = None;
        self.operate();
        while matches!(self.operator.at, At::Within(_)) {
            self.operate();
        }
    }

    /// A hash that is the same for two worlds that behave the same from here on.
    ///
    /// It leaves out what was before: old views are those of the path that reached a state first.
    pub fn fingerprint(&mut self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for kind in KINDS {
            for object in self.objects(kind) {
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
        (
            &self.pods,
            &self.identities,
            &self.extracted,
            &self.faults,
            self.request_outcome,
            self.waited,
            &self.remedy,
            self.patience,
            &self.cert_manager,
        )
            .hash(&mut hasher);
        self.hash_canaries(&mut hasher);
        for pod in self.objects(Kind::Pod) {
            served_until(&pod)
                .map(|until| self.operators_time() - until >= CLIENTS_LEAVE_WITHIN)
                .hash(&mut hasher);
        }
        for call in &self.late {
            call.words().hash(&mut hasher);
        }
        let observable_hash = self.observable_hash();
        self.hash_operator(&self.operator, observable_hash, &mut hasher);
        if let Some(FormerLeader { operator, turn }) = &self.former_leader {
            turn.hash(&mut hasher);
            self.hash_operator(operator, observable_hash, &mut hasher);
        }
        if let Some((kind, version)) = self.operator.stale {
            (kind, self.store.version() - version).hash(&mut hasher);
        }
        (&self.operator.rogue, self.operator.old_list).hash(&mut hasher);
        self.oracle.fingerprint(&mut hasher);
        hasher.finish()
    }

    fn hash_operator(&self, operator: &Operator, observable_hash: u64, hasher: &mut impl Hasher) {
        match &operator.at {
            At::Between => (0, operator.rested_on == Some(observable_hash)).hash(hasher),
            At::Within(within) => {
                let Within { pass, truth } = &**within;
                // If this pass has changed anything, another pass follows at once.
                (observable_hash == self.began_on, operator.observes_again).hash(hasher);
                operator.differed.hash(hasher);
                // The effects that are left. Versions in them differ from path to path; whether they are current is hashed below.
                (1, pass.remaining().iter().map(ToString::to_string).collect::<Vec<_>>()).hash(hasher);
                // An earlier failure ends the pass later.
                pass.stop().hash(hasher);
                // What the plan is based on: whether objects have changed since they were observed, and what was true.
                pass.observed().map(|(observed, _)| self.unchanged_since_observed(observed)).hash(hasher);
                truth.hash(hasher);
            }
        }
    }

    /// For each Pod and volume, whether it is unchanged since it was observed.
    fn unchanged_since_observed(&self, observed: &Snapshot) -> Vec<bool> {
        let pods = observed.pods.iter().map(|(name, pod)| (Kind::Pod, name, &pod.resource_version));
        let volumes =
            observed.volumes.iter().map(|(name, volume)| (Kind::Volume, name, &volume.resource_version));
        let same = |(kind, name, version): (Kind, &MemberName, &String)| {
            let object = self.object(kind, name.as_str());
            object.is_some_and(|object| text(&object, "/metadata/resourceVersion") == version)
        };
        pods.chain(volumes).map(same).collect()
    }

    /// Lets late requests arrive, lasting faults end, and time pass; `None` if nothing of it is left.
    fn wait(&mut self) -> Option<String> {
        if self.former_leader.as_ref().is_some_and(|former_leader| former_leader.turn != Turn::WhenAllRests) {
            return Some("the leader has nothing to do".to_owned());
        }
        if let Some(line) = self.clients_leave() {
            return Some(line);
        }
        self.judge_clients();
        if let Some(line) = self.find_an_object() {
            self.moved();
            return Some(line);
        }
        if let Some(line) = self.late_request_arrives() {
            return Some(line);
        }
        if self.wake_former_leader() {
            self.moved();
            return Some("the former leader goes on".to_owned());
        }
        if let Some(line) = self.end_a_lasting_fault() {
            self.moved();
            return Some(line);
        }
        if let Some(line) = self.kubelets_bring_secrets() {
            return Some(line);
        }
        // At the goal the first waits take place, too.
        let all_rests = self.waited == WAITS.len() || (self.waited >= WAITS_AT_GOAL && self.is_well());
        // Under a fault that stays, the operator may try again and again.
        if all_rests || self.patience == PATIENCE {
            if let Some(line) = self.person_acts() {
                self.patience = 0;
                self.spec_changed();
                return Some(line);
            }
            if all_rests {
                return None;
            }
        }
        if !self.faults.for_good.is_empty() || !self.faults.unread_stays.is_empty() {
            self.patience = (self.patience + 1).min(PATIENCE);
        }
        let span = WAITS[self.waited];
        self.waited += 1;
        self.advance(span);
        // What runs at its end has run all that time, also if the next entry finds a disk that does not work.
        let truth = Truth::of(self);
        self.oracle.see_quorum(&truth);
        self.operator.rested_on = None;
        Some(format!("{span} pass"))
    }

    /// While the operator waits for the clients of a member to go elsewhere, that time passes, and nothing that lasts longer ends.
    fn clients_leave(&mut self) -> Option<String> {
        let record = self.record();
        let mut leaving = record.leaving().filter_map(|(member, _)| self.object(Kind::Pod, member.as_str()));
        let waits = leaving.any(|pod| {
            let until = served_until(&pod).filter(|until| *until <= self.operators_time());
            until.is_some_and(|until| self.operators_time() - until < CLIENTS_LEAVE_WITHIN)
        });
        if !waits {
            return None;
        }
        self.advance(CLIENTS_LEAVE_WITHIN);
        self.operator.rested_on = None;
        Some(format!("{CLIENTS_LEAVE_WITHIN} pass, in which clients leave"))
    }

    /// While an authority is being replaced, the time passes in which kubelets bring what the Secrets have.
    fn kubelets_bring_secrets(&mut self) -> Option<String> {
        let left = self.trust.brought_after(self.now).filter(|_| self.record().rotation.is_some())?;
        self.advance(left);
        self.operator.rested_on = None;
        Some(format!("{left} pass, in which kubelets bring Secrets"))
    }

    /// The request that was given up first arrives.
    fn late_request_arrives(&mut self) -> Option<String> {
        if self.late.is_empty() {
            return None;
        }
        let call = self.late.remove(0);
        let line = format!("a late request arrives: {}", call.words());
        let response = self.deliver(&call);
        if let (Call::Kube(Write { kind: Kind::Volume, .. }), Response::Kube(Ok(Some(volume)))) =
            (&call, response)
        {
            self.oracle.late_volume(uid(&volume));
        }
        self.moved();
        self.check_for_harm();
        Some(line)
    }

    /// Advances the clock.
    pub fn advance(&mut self, span: Span) {
        self.now = self.now + span;
        self.etcd.end_hashes(self.now);
        self.clock.store(self.api_servers_time().0, Ordering::Relaxed);
    }

    /// A user has changed the spec.
    fn spec_changed(&mut self) {
        self.waited = 0;
        self.operator.rested_on = None;
    }

    fn change_spec(&self, change: impl FnOnce(&mut Value)) -> Result<(), String> {
        let key = key(Kind::Cluster, &self.at, &self.at.name);
        self.change(&key, Part::Main, |cluster| change(&mut cluster["spec"]))
    }

    /// Changes a part of an object, if the API server accepts it.
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

    /// Whether the operator has seen everything that it could observe, and has nothing to do.
    fn operator_rests(&self) -> bool {
        self.operator.rested_on == Some(self.observable_hash())
    }

    /// A hash of everything that the operator could observe.
    fn observable_hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        if self.turns.is_none() {
            self.store.version().hash(&mut hasher);
        } else {
            // What changes in other namespaces wakes nobody here.
            for object in KINDS.into_iter().flat_map(|kind| self.objects(kind)) {
                (uid(&object), text(&object, "/metadata/resourceVersion")).hash(&mut hasher);
            }
        }
        self.etcd.fingerprint(self.now, &mut hasher);
        hasher.finish()
    }

    /// A client writes through the client Service after every change in etcd, and as a fault also through the names of members. Acknowledged writes must stay.
    fn serve_clients(&mut self) -> bool {
        let service = format!("{}-client", self.at.name);
        let service = self.object(Kind::Service, &service);
        let names = self.object(Kind::Service, &self.at.name).filter(|_| self.faults.clients_on_names);
        let services: Vec<_> = service.into_iter().chain(names).collect();
        let pods = self.objects(Kind::Pod);
        let is_behind = |pod: &&Arc<Value>| {
            services.iter().any(|service| {
                let ports = items(service, "/spec/ports");
                let of_clients = ports.iter().any(|port| integer(port, "/port") == Some(2379));
                of_clients && map_selects(service.pointer("/spec/selector"), pod)
            })
        };
        let selected: BTreeSet<&str> = pods.iter().filter(is_behind).map(|pod| uid(pod)).collect();
        let serving: BTreeSet<_> = self
            .etcd
            .processes()
            .filter(|(at, _)| selected.contains(at) && self.etcd.answering(at).is_some())
            .filter_map(|(_, process)| Some(self.etcd.dir_of(process)?.cluster))
            .filter(|cluster| !self.faults.foreign.contains(cluster))
            .collect();
        let mut any = false;
        for cluster in serving {
            let changed = self
                .etcd
                .group(cluster)
                .is_some_and(|group| !matches!(group.log().last(), Some(Entry::Write(_))));
            if changed && self.etcd.write(cluster, self.writes) {
                self.oracle.acknowledged(cluster, &self.cluster_uid());
                self.writes += 1;
                any = true;
            }
        }
        any
    }

    /// A client writes once more. Returns whether that was committed, which it may be without a reply.
    fn client_writes(&mut self) -> bool {
        let Some(cluster) = self.record().cluster_id else { return false };
        let entries = |world: &Self| world.etcd.group(cluster).map(|group| group.log().len());
        let before = entries(self);
        if self.etcd.write(cluster, self.writes) {
            self.oracle.acknowledged(cluster, &self.cluster_uid());
        }
        self.writes += 1;
        entries(self) != before
    }

    pub(crate) fn cluster_uid(&self) -> String {
        let object = self.object(Kind::Cluster, &self.at.name);
        object.map(|object| uid(&object).to_owned()).unwrap_or_default()
    }
}

/// Until when the operator had clients sent to a Pod, if it took it out of the client Service.
fn served_until(pod: &Value) -> Option<Instant> {
    let at: Timestamp = annotation(pod, keys::SERVED_UNTIL)?.parse().ok()?;
    Some(Instant(at.as_millisecond()))
}

fn store_clock(clock: &Arc<AtomicI64>) -> Clock {
    let clock = Arc::clone(clock);
    Arc::new(move || {
        Timestamp::from_millisecond(clock.load(Ordering::Relaxed)).unwrap_or(Timestamp::UNIX_EPOCH)
    })
}
