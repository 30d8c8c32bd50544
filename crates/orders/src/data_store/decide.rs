//! What is done, in which order.

use quorate_api::EtcdCluster;
use quorate_api::cluster::TlsProvider;
use quorate_manifests::data_store as objects;
use quorate_manifests::user::{NoSigner, Presence, Signer};
use quorate_manifests::{Act as Writing, cluster_ref};
use quorate_model::Instant;
use quorate_status::DataStoreHealth;
use quorate_status::data_store::report;
use serde_json::Value;

use super::Contest;

/// What is observed.
pub struct Seen<'a> {
    /// The EtcdCluster.
    pub cluster: &'a EtcdCluster,
    /// The operator admits DataStores of its namespace.
    pub is_admitted: bool,
    /// etcd's auth is on, and the operator's.
    pub auth_is_on: bool,
    /// etcd compacts its history by itself.
    pub compacts: bool,
    /// Its namespace is being deleted.
    pub namespace_ends: bool,
    /// Whether something else changes the DataStore again and again.
    pub contest: Contest,
    /// The same of the Secret.
    pub contest_of_secret: Contest,
    /// It has members that run, or are to run.
    pub runs: bool,
    /// The DataStores.
    pub stores: &'a Stores,
    /// The Secret with the credential.
    pub secret: &'a Presence<'a>,
    /// Each key in it is that of its certificate: that of the credential, and that of the authority.
    pub keys_fit: bool,
    /// What signs for clients now.
    pub signer: Result<&'a Signer, &'a NoSigner>,
    /// The time.
    pub now: Instant,
}

/// The DataStores that Kubernetes has.
#[derive(Clone, Debug, PartialEq)]
pub enum Stores {
    /// There is no such kind.
    NoKind,
    /// The operator may not read them. The words of the API server.
    Forbidden(String),
    /// They could not be read. Why.
    Unknown(String),
    /// They were read.
    Seen {
        /// Those with the labels of this EtcdCluster.
        own: Vec<Value>,
        /// Those without them that lead to it all the same.
        unlabelled: Vec<Value>,
        /// The one of the name that is asked for.
        named: Option<Value>,
    },
}

/// What is next.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// What the condition says; `None`: what it said before, because what is done now changes it.
    pub health: Option<DataStoreHealth>,
    /// What is done, in this order. The first that fails ends it.
    pub acts: Vec<Act>,
}

/// An act.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// O1: the EtcdCluster gets its finalizer.
    AddFinalizer,
    /// O7: the finalizers of the garbage collector are taken off.
    StopCollector,
    /// O2: the Secret gets a certificate and all else, or what is not as it should be in it.
    WriteSecret,
    /// O3: the DataStore of this name is created or put right.
    WriteStore(String, Writing),
    /// O4: this DataStore is deleted, if it is as it was seen.
    DeleteStore(Value),
    /// O5: the Secret is deleted.
    DeleteSecret,
    /// O6: the finalizer is taken off.
    RemoveFinalizer,
}

impl Act {
    /// Whether it is done though an act before it was not.
    pub fn goes_on_without(&self, failed: &Self) -> bool {
        // What hinders a new credential is no reason to keep a DataStore.
        matches!(failed, Self::StopCollector) || matches!(self, Self::DeleteStore(_))
    }
}

/// What is next. As long as a DataStore may exist its credential is kept up, whatever else is so, and before all else: an act after it may be refused.
pub fn decide(seen: &Seen<'_>) -> Decision {
    let mut decision = about_stores(seen);
    let has_credential = |act: &Act| match act {
        Act::AddFinalizer | Act::WriteSecret | Act::DeleteSecret | Act::RemoveFinalizer => true,
        Act::StopCollector | Act::WriteStore(..) | Act::DeleteStore(_) => false,
    };
    if objects::may_exist(seen.cluster) && !decision.acts.iter().any(has_credential) {
        // What hinders it is no reason to keep a DataStore.
        decision.acts.splice(..0, credential(seen).unwrap_or_default());
    }
    if has_tenants(seen.stores) && is_deleted(seen.cluster) && report::is_collected(seen.cluster) {
        decision.acts.insert(0, Act::StopCollector);
    }
    decision
}

fn has_tenants(stores: &Stores) -> bool {
    let Stores::Seen { own, unlabelled, .. } = stores else { return false };
    own.iter().chain(unlabelled).any(|store| !objects::tenants(store).is_empty())
}

fn about_stores(seen: &Seen<'_>) -> Decision {
    let wanted = objects::wanted(seen.cluster);
    let (own, unlabelled, named) = match seen.stores {
        Stores::Seen { own, unlabelled, named } => (own, unlabelled, named.as_ref()),
        Stores::Unknown(why) => return only(report::unknown(why)),
        Stores::Forbidden(why) => return only(report::no_rights(seen.cluster, wanted, why)),
        Stores::NoKind => {
            // Without its kind there is no object either, so nothing holds up a deletion.
            return if wanted.is_some() { only(report::no_kind()) } else { leave(seen) };
        }
    };
    let name = |store: &Value| store["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let others: Vec<&Value> = own.iter().filter(|store| Some(&*name(store)) != wanted).collect();
    if !others.is_empty() {
        return give_up(seen, &others);
    }
    match wanted {
        None => match unlabelled.iter().find(|store| !objects::tenants(store).is_empty()) {
            // Its labels were taken off. It is not deleted here, and its tenants are served on.
            Some(store) => only(report::in_use_unlabelled(store)),
            None => leave(seen),
        },
        Some(wanted) => publish(seen, wanted, (own.first(), unlabelled), named),
    }
}

/// DataStores that are not asked for, or not any more: each goes once no tenant uses it. Until then it is served.
fn give_up(seen: &Seen<'_>, others: &[&Value]) -> Decision {
    let in_use: Vec<&Value> =
        others.iter().filter(|store| !objects::tenants(store).is_empty()).copied().collect();
    let is_going = |store: &&Value| !store["metadata"]["deletionTimestamp"].is_null();
    let going: Vec<&Value> = others.iter().filter(|store| is_going(store)).copied().collect();
    let unused = others.iter().filter(|store| !in_use.contains(store) && !is_going(store));
    let acts: Vec<Act> = unused.map(|store| Act::DeleteStore((*store).clone())).collect();
    let health = match (in_use.first(), going.first()) {
        (Some(store), _) => Some(report::in_use(seen.cluster, store, seen.namespace_ends)),
        (None, Some(store)) => Some(report::terminating(store, false)),
        (None, None) => None,
    };
    Decision { health, acts }
}

/// Nothing is asked for, and no DataStore is left: the credential goes, then the finalizer.
fn leave(seen: &Seen<'_>) -> Decision {
    let acts = match seen.secret {
        Presence::Own(own) if own.is_going => Vec::new(),
        Presence::Own(_) => vec![Act::DeleteSecret],
        Presence::Absent | Presence::Foreign if objects::may_exist(seen.cluster) => {
            vec![Act::RemoveFinalizer]
        }
        Presence::Absent | Presence::Foreign => Vec::new(),
    };
    Decision { health: None, acts }
}

/// What is asked for cannot be. A DataStore that exists stays as it is, for tenants that use it; where none does, nothing is left behind.
fn hindered(seen: &Seen<'_>, why: DataStoreHealth, may_have_one: bool) -> Decision {
    let acts = if may_have_one { Vec::new() } else { leave(seen).acts };
    Decision { health: Some(why), acts }
}

fn is_deleted(cluster: &EtcdCluster) -> bool {
    cluster.metadata.deletion_timestamp.is_some()
}

fn publish(
    seen: &Seen<'_>,
    name: &str,
    (own, unlabelled): (Option<&Value>, &[Value]),
    named: Option<&Value>,
) -> Decision {
    let may_have_one = own.is_some() || !unlabelled.is_empty();
    if !objects::is_name(name) {
        return hindered(seen, report::no_name(name), may_have_one);
    }
    // Whose namespace is not admitted learns nothing of names that others have.
    if own.is_none() && named.is_some() && seen.is_admitted {
        return hindered(seen, report::name_taken(name), may_have_one);
    }
    if let Some(own) = own.filter(|own| !own["metadata"]["deletionTimestamp"].is_null()) {
        return only(report::terminating(own, true));
    }
    if let Some(why) = hindrance(seen) {
        return hindered(seen, why, may_have_one);
    }
    let credential = match credential(seen) {
        Ok(acts) => acts,
        Err(why) => return only(why),
    };
    let mut acts = Vec::new();
    if !objects::may_exist(seen.cluster) {
        acts.push(Act::AddFinalizer);
    }
    acts.extend(credential);
    if let Some(own) = own.filter(|_| seen.contest == Contest::Pauses) {
        return Decision { health: Some(report::contested(own)), acts };
    }
    let at = cluster_ref(seen.cluster);
    acts.extend(
        objects::act(seen.cluster, &at, name, own).map(|write| Act::WriteStore(name.to_owned(), write)),
    );
    let health = match own {
        // It says so between two writes, too.
        Some(own) if seen.contest != Contest::None => Some(report::contested(own)),
        Some(_) if seen.contest_of_secret != Contest::None => Some(report::secret_contested(seen.cluster)),
        Some(own) if acts.is_empty() => Some(report::published(own)),
        Some(_) | None => None,
    };
    Decision { health, acts }
}

/// What keeps a DataStore from being made, if anything. What a person has to change comes first.
fn hindrance(seen: &Seen<'_>) -> Option<DataStoreHealth> {
    let cluster = seen.cluster;
    if !seen.is_admitted {
        return Some(report::not_admitted(&cluster_ref(cluster)));
    }
    // Also while it is on: it is to go off.
    if !cluster.spec.auth.as_ref().is_some_and(|auth| auth.enabled) {
        return Some(report::auth_off());
    }
    if !seen.compacts {
        return Some(report::compaction_off());
    }
    let status = cluster.status.as_ref();
    if matches!(cluster.spec.tls.provider, TlsProvider::CertManager | TlsProvider::Secrets)
        && !matches!(seen.signer, Err(NoSigner::Elsewhere))
    {
        return Some(report::key_goes());
    }
    if let Err(why @ NoSigner::Elsewhere) = seen.signer {
        return Some(report::no_signer(why));
    }
    let is_bootstrapped = status.is_some_and(|status| status.cluster_id.is_some());
    let why = match (is_bootstrapped, seen.runs, seen.auth_is_on) {
        (false, ..) => "the cluster is not bootstrapped yet",
        (true, false, _) => "the cluster is at size zero. Any other spec.size wakes it",
        (true, true, false) => "etcd's auth is not on yet: AuthReady says what it waits for",
        (true, true, true) => return None,
    };
    Some(report::not_serving(why))
}

/// O2, or why there is no credential. What is there is not taken away for another one then, nor while nothing
/// signs.
fn credential(seen: &Seen<'_>) -> Result<Vec<Act>, DataStoreHealth> {
    let present = match seen.secret {
        Presence::Foreign => return Err(report::secret_taken(seen.cluster)),
        Presence::Absent => None,
        Presence::Own(own) if own.is_going => return Err(report::secret_going(seen.cluster)),
        Presence::Own(own) => Some(own),
    };
    let is_usable = present.is_some_and(|own| {
        seen.keys_fit && own.leaf.content.as_ref().is_ok_and(|leaf| !leaf.validity.has_ended(seen.now))
    });
    let signer = match seen.signer {
        Ok(signer) => signer,
        // What is there goes on, and is judged when there is something to judge it by.
        Err(_) if is_usable => return Ok(Vec::new()),
        Err(why) => return Err(report::no_signer(why)),
    };
    let is_as_it_should_be = present.is_some_and(|own| {
        let is_due = !seen.keys_fit || own.leaf.is_due(&signer.authority, seen.now);
        !is_due && own.matches && !own.must_be_made_again
    });
    if is_as_it_should_be {
        return Ok(Vec::new());
    }
    match present {
        Some(_) if seen.contest_of_secret == Contest::Pauses => Err(report::secret_contested(seen.cluster)),
        Some(own) if own.must_be_made_again => Ok(vec![Act::DeleteSecret]),
        Some(_) | None => Ok(vec![Act::WriteSecret]),
    }
}

fn only(health: DataStoreHealth) -> Decision {
    Decision { health: Some(health), acts: Vec::new() }
}
