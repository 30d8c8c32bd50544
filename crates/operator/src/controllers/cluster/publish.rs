//! The DataStore of Kamaji, for a cluster whose annotation asks for one: kept as it should be, and deleted once no tenant uses it any more. What is
//! next is decided by [`quorate_orders::data_store`].
//!
//! A cluster that is to have one goes by the cache of [`DataStores`](super::stores::DataStores). Where one is to go, they are read anew.

use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::DynamicObject;
use quorate_api::{EtcdCluster, Explanation, keys};
use quorate_manifests::user::{NoSigner, Own, Presence, Signer, signer};
use quorate_manifests::{Act as Writing, Write, data_store as objects, names};
use quorate_model::auth::AuthStage;
use quorate_model::{ClusterRef, Fingerprint, Instant, Span, Step};
use quorate_orders::data_store::{self as orders, Act, Rewrites, Seen, Stores, decide};
use quorate_reconcile::{Memory, Pass, Planned, Retry, WriteError};
use quorate_status::DataStoreHealth;
use quorate_status::data_store::report;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::Shared;
use super::stores::{self, without_kind};
use crate::controllers::tls;
use crate::runtime::lease::WRITE_DEADLINE;
use crate::runtime::pace::Outcome;
use crate::runtime::watch::chain;
use crate::runtime::write::{Writer, reply, write_at};

/// How long what was read holds where nothing is to be done. The cache of DataStores is no part of it.
const HOLDS: Span = Span::seconds(60);

/// The same where something is waited for: tenants, Kamaji, a person.
const HOLDS_WAITING: Span = Span::seconds(10);

/// So many passes in a row with a write that fails are reported, however it fails.
const FAILURES: u32 = 3;

/// What was seen last.
#[derive(Debug, Default)]
pub(super) struct Publication {
    looked: Option<Looked>,
    rewrites: Rewrites,
    rewrites_of_secret: Rewrites,
    /// The authority that signs and what clients trust, as the Secret was last given them.
    told: Option<(Fingerprint, Vec<u8>)>,
    /// How many passes in a row had a write that failed.
    failures: u32,
}

/// What was read, and of what.
#[derive(Debug)]
struct Looked {
    until: Instant,
    about: About,
    stores: Stores,
    /// They are those of the cache.
    is_cached: bool,
    /// The Secret of the credential, where it has no label of this cluster.
    unlabelled: Option<Secret>,
}

/// What a look is about: the name that is asked for, whether a DataStore may exist, whether the cluster is to be deleted.
type About = (Option<String>, bool, bool);

/// Why an act was not done.
enum Undone {
    Write(&'static str, WriteError),
    Keys(String),
}

/// Before the first look of this operator, status has what the last one found.
pub(super) fn begin(shared: &Shared, at: &ClusterRef, memory: &mut Memory) {
    let cached = shared.indexes.clusters.get(&at.into()).objects.remove(&at.name);
    let Some(Ok(cluster)) = cached.as_ref().map(|cached| &cached.0) else { return };
    if !objects::concerns(cluster) {
        memory.set_data_store(None);
    } else if memory.data_store().is_none() {
        memory.set_data_store(orders::earlier(cluster));
    }
}

impl Publication {
    /// Whether the cache of DataStores has anything that the last pass has not seen.
    pub(super) fn has_news(&self, shared: &Shared, at: &ClusterRef) -> bool {
        let Some(looked) = self.looked.as_ref().filter(|looked| looked.is_cached) else { return false };
        let cached = shared.indexes.clusters.get(&at.into()).objects.remove(&at.name);
        let cluster = cached.as_ref().and_then(|cached| cached.0.as_ref().ok());
        cluster.is_some_and(|cluster| shared.stores.now(cluster, at) != looked.stores)
    }

    /// Keeps the DataStore of the cluster that the pass has seen; when to look again. `None` if it has none.
    pub(super) async fn keep(
        &mut self,
        shared: &Shared,
        pass: &Pass,
        memory: &mut Memory,
    ) -> Option<Outcome> {
        let planned = pass.planned()?;
        let cluster = planned.cluster.0.as_ref().ok()?;
        let is_deleted = cluster.metadata.deletion_timestamp.is_some();
        let is_paused = planned.snapshot.paused && !is_deleted;
        let labelled = planned.view.secrets.get(&names::data_store(&planned.snapshot.cluster));
        // Also where its finalizer was taken off by hand: it has the key of an authority.
        let is_left = labelled.is_some_and(|secret| objects::is_own_secret(cluster, secret));
        let concerns = objects::concerns(cluster);
        if !(concerns || is_left) || is_paused || planned.snapshot.record_doubt.is_some() {
            self.looked = None;
            return None;
        }
        let kinds = Kinds { shared, cluster, at: &planned.snapshot.cluster };
        let now = shared.runtime.clock.now();
        let (contest, contest_of_secret) = (self.rewrites.contest(now), self.rewrites_of_secret.contest(now));
        let is_admitted = objects::is_admitted(kinds.at, &shared.defaults.kamaji_namespaces);
        let is_asked_in_vain = !is_admitted && !objects::may_exist(cluster) && !is_left;
        let looked = self.look(&kinds, planned, is_asked_in_vain).await;
        let now = shared.runtime.clock.now();
        let found = planned.view.secrets.get(&names::data_store(kinds.at)).map(AsRef::as_ref);
        let found = found.or(looked.unlabelled.as_ref());
        let signer = signs(planned, cluster);
        let secret = objects::presence(cluster, kinds.at, found, signer.as_ref().ok());
        let record = &planned.snapshot.record;
        let decision = decide(&Seen {
            cluster,
            is_admitted,
            // It is recorded before it is enabled.
            auth_is_on: record.auth == Some(AuthStage::On)
                && planned.snapshot.etcd.auth.as_ref().is_none_or(|seen| seen.enabled),
            namespace_ends: is_deleted && memory.failure().is_some_and(is_of_ending_namespace),
            contest,
            contest_of_secret,
            compacts: planned.snapshot.target().pod.compacts,
            runs: !record.hibernating && planned.snapshot.desired.size > 0,
            stores: &looked.stores,
            secret: &secret,
            keys_fit: objects::keys_fit(found, tls::is_pair),
            signer: signer.as_ref(),
            now,
        });
        let own = if let Presence::Own(own) = &secret { Some(own) } else { None };
        let mut health = decision.health;
        let mut outcome = Outcome::Acted;
        let mut undone: Option<(&Act, Undone)> = None;
        let (mut tried, is_there) = (Vec::new(), own.is_some());
        for act in &decision.acts {
            if undone.as_ref().is_some_and(|(failed, _)| !act.goes_on_without(failed)) {
                continue;
            }
            tried.push(act);
            if let Err(why) = kinds.carry_out(act, own, signer.as_ref().ok(), now).await {
                undone = undone.or(Some((act, why)));
            }
        }
        for act in tried {
            self.note(act, is_there, signer.as_ref().ok(), now);
        }
        self.failures = if undone.is_some() { self.failures.saturating_add(1) } else { 0 };
        if let Some((_, why)) = undone {
            let (said, after) = kinds.undone(why, self.failures >= FAILURES);
            (health, outcome) = (said.or(health), after);
        }
        let rests = decision.acts.is_empty();
        let is_ready = health.as_ref().is_some_and(|health| health.ready == Some(true));
        if !rests {
            self.looked = None;
        } else if !is_ready && let Some(looked) = &mut self.looked {
            looked.until = looked.until.min(now + HOLDS_WAITING);
        }
        // Where nothing is asked for and nothing may be left, nothing is said.
        let health = health.filter(|_| concerns);
        let is_news = health.is_some_and(|health| memory.set_data_store(Some(health)));
        match (rests, is_ready) {
            (false, _) => Some(outcome),
            (true, _) if is_news => Some(Outcome::Waiting),
            (true, true) => None,
            (true, false) => Some(Outcome::Degraded),
        }
    }

    /// Counts what is written once more, whatever comes of it. The Secret that follows a rotation is not among that.
    fn note(&mut self, act: &Act, is_there: bool, signer: Option<&Signer>, now: Instant) {
        match act {
            Act::WriteStore(_, Writing::Patch(_)) => self.rewrites.note(now),
            Act::WriteSecret => {
                let told = signer.map(|signer| (signer.authority.fingerprint.clone(), signer.ca.clone()));
                if is_there && self.told == told {
                    self.rewrites_of_secret.note(now);
                }
                self.told = told;
            }
            Act::WriteStore(..)
            | Act::AddFinalizer
            | Act::StopCollector
            | Act::DeleteStore(_)
            | Act::DeleteSecret
            | Act::RemoveFinalizer => {}
        }
    }

    /// What was read last, as long as that holds, or what is read now. Of DataStores nothing is asked for an EtcdCluster that can have none, and
    /// the cache for one that is to have one.
    async fn look(&mut self, kinds: &Kinds<'_>, planned: &Planned, in_vain: bool) -> &Looked {
        let now = kinds.shared.runtime.clock.now();
        let cluster = kinds.cluster;
        let wanted = objects::wanted(cluster);
        let about: About = (
            wanted.map(str::to_owned),
            objects::may_exist(cluster),
            cluster.metadata.deletion_timestamp.is_some(),
        );
        let holds = self.looked.take().filter(|looked| now < looked.until && looked.about == about);
        let is_cached = wanted.is_some() && !in_vain;
        let looked = if let Some(looked) = holds {
            let stores =
                if is_cached { kinds.shared.stores.of(cluster, kinds.at).await } else { looked.stores };
            Looked { stores, ..looked }
        } else {
            let stores = if in_vain {
                Stores::Seen { own: Vec::new(), unlabelled: Vec::new(), named: None }
            } else if is_cached {
                kinds.shared.stores.of(cluster, kinds.at).await
            } else {
                kinds.stores().await
            };
            let name = names::data_store(kinds.at);
            if planned.view.secrets.contains_key(&name) {
                Looked { until: now + HOLDS, about, stores, is_cached, unlabelled: None }
            } else {
                match kinds.secrets().read(&name).await {
                    Ok(unlabelled) => Looked { until: now + HOLDS, about, stores, is_cached, unlabelled },
                    Err(error) => {
                        let stores = Stores::Unknown(format!("Secret {name}: {error}"));
                        Looked { until: now, about, stores, is_cached: false, unlabelled: None }
                    }
                }
            }
        };
        self.looked.insert(looked)
    }
}

/// Whether a write failed because its namespace is being deleted.
fn is_of_ending_namespace(failure: &Explanation) -> bool {
    failure.message().contains("is being terminated")
}

/// What signs for clients of the cluster.
fn signs(planned: &Planned, cluster: &EtcdCluster) -> Result<Signer, NoSigner> {
    let secrets: Vec<&Secret> = planned.view.secrets.values().map(AsRef::as_ref).collect();
    signer(cluster, &planned.snapshot.cluster, &secrets)
}

/// The objects that one cluster has to do with.
struct Kinds<'a> {
    shared: &'a Shared,
    cluster: &'a EtcdCluster,
    at: &'a ClusterRef,
}

impl Kinds<'_> {
    /// Those that the API server has now, of one that is to go.
    async fn stores(&self) -> Stores {
        // All of them: also one whose labels were taken off may have tenants in this cluster.
        let all = match reply(timeout(WRITE_DEADLINE, self.api().list(&ListParams::default())).await) {
            Ok(all) => all,
            Err(WriteError::Missing(why)) => return without_kind(&self.shared.runtime.client, why).await,
            Err(WriteError::Forbidden(why)) => return Stores::Forbidden(why),
            Err(error) => return Stores::Unknown(error.to_string()),
        };
        let (own, others): (Vec<Value>, Vec<Value>) =
            all.iter().map(|one| json!(one)).partition(|one| objects::is_own(self.cluster, one));
        let unlabelled: Vec<Value> =
            others.into_iter().filter(|one| objects::leads_to(self.at, one)).collect();
        if own.is_empty() && unlabelled.is_empty() {
            return Stores::Seen { own, unlabelled, named: None };
        }
        match self.users().await {
            Ok(users) => {
                let told =
                    |stores: Vec<Value>| stores.into_iter().map(|store| users.told_in(store)).collect();
                Stores::Seen { own: told(own), unlabelled: told(unlabelled), named: None }
            }
            Err(WriteError::Forbidden(why)) => Stores::Forbidden(why),
            Err(error) => Stores::Unknown(error.to_string()),
        }
    }

    /// What may use a DataStore that is to go, as the API server has it now.
    async fn users(&self) -> Result<objects::Users, WriteError> {
        let client = self.shared.runtime.client.clone();
        let planes = stores::planes(client.clone());
        let planes = match reply(timeout(WRITE_DEADLINE, planes.list(&ListParams::default())).await) {
            Ok(planes) => planes.iter().map(|one| json!(one)).collect(),
            // Without the kind nobody is of it. Pods may be left.
            Err(WriteError::Missing(_)) => Vec::new(),
            Err(error) => return Err(error),
        };
        let labelled = ListParams::default().labels(objects::STARTED_WITH);
        let pods = reply(timeout(WRITE_DEADLINE, Api::<Pod>::all(client).list(&labelled)).await)?;
        Ok(objects::Users { planes, pods: pods.iter().map(|one| json!(one)).collect() })
    }

    async fn carry_out(
        &self,
        act: &Act,
        own: Option<&Own<'_>>,
        signer: Option<&Signer>,
        now: Instant,
    ) -> Result<(), Undone> {
        match act {
            Act::AddFinalizer => self.finalizer(Step::O1, true).await,
            Act::StopCollector => self.stop_collector().await,
            Act::WriteSecret => match signer {
                Some(signer) => self.write_secret(own, signer, now).await,
                None => Ok(()),
            },
            Act::WriteStore(name, write) => {
                if matches!(write, Writing::Create(_)) {
                    self.is_still_to_have_one().await?;
                }
                self.write_store(name, write).await.map_err(|error| Undone::Write("DataStore", error))
            }
            Act::DeleteStore(store) => {
                self.delete_store(store).await.map_err(|error| Undone::Write("DataStore", error))
            }
            Act::DeleteSecret => match own.filter(|own| !own.is_going) {
                Some(own) => {
                    let deleted = self.secrets().delete(Step::O5, own.secret).await;
                    deleted.map_err(|error| Undone::Write("Secret", error))
                }
                None => Ok(()),
            },
            Act::RemoveFinalizer => self.finalizer(Step::O6, false).await,
        }
    }

    /// The cache of an operator that has just begun to lead may be old: no DataStore is made of an EtcdCluster that has left, or is gone.
    async fn is_still_to_have_one(&self) -> Result<(), Undone> {
        let clusters: Writer<'_, EtcdCluster> = Writer::new(&self.shared.runtime, &self.at.namespace);
        let found = clusters.read(&self.at.name).await;
        let found = found.map_err(|error| Undone::Write("EtcdCluster", error))?;
        let is_that = |found: &EtcdCluster| {
            found.metadata.uid == self.cluster.metadata.uid && objects::may_exist(found)
        };
        if found.as_ref().is_some_and(is_that) {
            return Ok(());
        }
        let why = "the EtcdCluster is gone, or lacks its finalizer";
        Err(Undone::Write("DataStore", WriteError::Changed(why.to_owned())))
    }

    /// O7: the garbage collector takes its hands off what the EtcdCluster owns.
    async fn stop_collector(&self) -> Result<(), Undone> {
        let all = self.cluster.metadata.finalizers.iter().flatten();
        let left: Vec<&String> = all.filter(|name| !objects::COLLECTOR.contains(&name.as_str())).collect();
        let clusters: Writer<'_, EtcdCluster> = Writer::new(&self.shared.runtime, &self.at.namespace);
        let written = clusters.patch_metadata(Step::O7, self.cluster, json!({ "finalizers": left })).await;
        written.map(drop).map_err(|error| Undone::Write("EtcdCluster", error))
    }

    /// O1, O6. With the time at which a deletion goes on.
    async fn finalizer(&self, step: Step, with: bool) -> Result<(), Undone> {
        let meta = &self.cluster.metadata;
        let others = meta.finalizers.iter().flatten().filter(|name| *name != keys::DATA_STORE_FINALIZER);
        let own = with.then(|| keys::DATA_STORE_FINALIZER.to_owned());
        let all: Vec<String> = others.cloned().chain(own).collect();
        let mut metadata = json!({ "finalizers": all });
        if !with && meta.deletion_timestamp.is_some() {
            // It is compared with when the API server created a backup.
            let now = self.shared.runtime.api_clock.api_servers_time();
            let at = k8s_openapi::jiff::Timestamp::from_millisecond(now.0).unwrap_or_default();
            metadata["annotations"][keys::DATA_STORE_GONE] = json!(at.to_string());
        }
        let clusters: Writer<'_, EtcdCluster> = Writer::new(&self.shared.runtime, &self.at.namespace);
        let written = clusters.patch_metadata(step, self.cluster, metadata).await;
        written.map(drop).map_err(|error| Undone::Write("EtcdCluster", error))
    }

    /// O2: with a new certificate where one is due, else without.
    async fn write_secret(&self, own: Option<&Own<'_>>, signer: &Signer, now: Instant) -> Result<(), Undone> {
        let fits = |own: &Own<'_>| objects::keys_fit(Some(own.secret), tls::is_pair);
        let is_due = own.is_none_or(|own| !fits(own) || own.leaf.is_due(&signer.authority, now));
        let act = if is_due {
            let order =
                objects::sign(self.cluster, self.at, signer, own, self.shared.runtime.api_clock.present());
            let pair = tls::generate(&order.generate).map_err(|error| Undone::Keys(chain(&error)))?;
            let Write { act, .. } = order.write(&pair);
            act
        } else {
            objects::write(self.cluster, self.at, signer, own)
        };
        let written = match act {
            Writing::Create(object) => {
                let secret: Secret = serde_json::from_value(object)
                    .map_err(|error| Undone::Keys(format!("no Secret comes of it: {error}")))?;
                self.secrets().create(Step::O2, &secret).await
            }
            Writing::Patch(patch) => {
                self.secrets().patch(Step::O2, &names::data_store(self.at), &patch).await
            }
            Writing::PatchStatus(_) | Writing::Delete { .. } | Writing::Evict { .. } => return Ok(()),
        };
        written.map(drop).map_err(|error| Undone::Write("Secret", error))
    }

    /// O3: created, so that one that somebody made meanwhile is not taken over; or changed, if it is as it was seen.
    async fn write_store(&self, name: &str, write: &Writing) -> Result<(), WriteError> {
        let (runtime, api, namespace) = (&self.shared.runtime, self.api(), &self.at.namespace);
        let by = Some(objects::FIELD_MANAGER.to_owned());
        match write {
            Writing::Create(object) => {
                let object: DynamicObject = serde_json::from_value(object.clone())
                    .map_err(|error| WriteError::Invalid(error.to_string()))?;
                let how = PostParams { field_manager: by, ..PostParams::default() };
                let written = write_at(runtime, Step::O3, namespace, api.create(&how, &object)).await;
                written.map(|store| self.shared.stores.wrote(store))
            }
            Writing::Patch(patch) => {
                let how = PatchParams { field_manager: by, ..PatchParams::default() };
                let patch = Patch::Merge(patch);
                let written = write_at(runtime, Step::O3, namespace, api.patch(name, &how, &patch)).await;
                written.map(|store| self.shared.stores.wrote(store))
            }
            Writing::PatchStatus(_) | Writing::Delete { .. } | Writing::Evict { .. } => Ok(()),
        }
    }

    /// O4. Kamaji writes its status when a tenant comes, so one that came meanwhile refuses this. It does not for some, so these are asked for again.
    #[expect(clippy::disallowed_methods, reason = "with uid and resourceVersion")]
    async fn delete_store(&self, store: &Value) -> Result<(), WriteError> {
        let text = |field: &str| store["metadata"][field].as_str().map(str::to_owned);
        let preconditions = Preconditions { uid: text("uid"), resource_version: text("resourceVersion") };
        let how = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        let name = text("name").unwrap_or_default();
        if !objects::tenants(&self.users().await?.told_in(store.clone())).is_empty() {
            return Err(WriteError::Changed("a tenant came meanwhile".to_owned()));
        }
        let api = self.api();
        write_at(&self.shared.runtime, Step::O4, &self.at.namespace, api.delete(&name, &how)).await.map(drop)
    }

    /// What the condition says of it, if it is to say anything, and when to look again.
    fn undone(&self, undone: Undone, again_and_again: bool) -> (Option<DataStoreHealth>, Outcome) {
        match undone {
            Undone::Write(kind, error) => {
                let retry = error.retry();
                if retry >= Retry::Failed {
                    tracing::warn!(cluster = %self.at, kind, %error, "the DataStore of Kamaji is not kept");
                }
                let is_refused = matches!(error, WriteError::Invalid(_) | WriteError::Forbidden(_));
                let is_told = is_refused || (again_and_again && error != WriteError::NotLeading);
                (is_told.then(|| report::refused(kind, &error.to_string())), retry.into())
            }
            Undone::Keys(why) => {
                let text = format!("the credential of Kamaji cannot be made: {why}");
                let why = Explanation::new(quorate_api::Reason::AuthorityLost, text);
                (Some(DataStoreHealth { ready: Some(false), why }), Outcome::Failed)
            }
        }
    }

    fn api(&self) -> Api<DynamicObject> {
        stores::api(self.shared.runtime.client.clone())
    }

    fn secrets(&self) -> Writer<'_, Secret> {
        Writer::new(&self.shared.runtime, &self.at.namespace)
    }
}
