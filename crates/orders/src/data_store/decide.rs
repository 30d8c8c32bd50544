//! What is done, in which order.

use quorate_api::EtcdCluster;
use quorate_api::cluster::TlsProvider;
use quorate_api::status::CertificatesStatus;
use quorate_manifests::data_store::{self as objects, report};
use quorate_manifests::user::{NoSigner, Presence, Signer};
use quorate_manifests::{Act as Writing, DataStoreHealth, observe};
use quorate_model::{Ca, ClockDifference, Instant};
use serde_json::Value;

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
    /// Something else changes the DataStore again and again, so it is not written now.
    pub is_contested: bool,
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
    /// R23: how far the operator's clock is from that of the API server.
    pub clock_differs: Option<ClockDifference>,
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

/// What is next.
pub fn decide(seen: &Seen<'_>) -> Decision {
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
            Some(store) => Decision {
                health: Some(report::in_use_unlabelled(store)),
                acts: credential(seen).unwrap_or_default(),
            },
            None => leave(seen),
        },
        Some(wanted) => publish(seen, wanted, own.first(), named),
    }
}

/// DataStores that are not asked for, or not any more: each goes once no tenant uses it. Until then it is served, so its credential is renewed.
fn give_up(seen: &Seen<'_>, others: &[&Value]) -> Decision {
    let in_use: Vec<&Value> =
        others.iter().filter(|store| !objects::tenants(store).is_empty()).copied().collect();
    let is_going = |store: &&Value| !store["metadata"]["deletionTimestamp"].is_null();
    let going: Vec<&Value> = others.iter().filter(|store| is_going(store)).copied().collect();
    let unused = others.iter().filter(|store| !in_use.contains(store) && !is_going(store));
    let mut acts: Vec<Act> = unused.map(|store| Act::DeleteStore((*store).clone())).collect();
    // What hinders a new credential is no reason to keep a DataStore, and where none stays none is needed.
    if acts.len() < others.len() {
        acts.extend(credential(seen).unwrap_or_default());
    }
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
            // The time goes with it.
            if let Some(differs) = seen.clock_differs.filter(|_| is_deleted(seen.cluster)) {
                return only(report::clock_differs_at_end(differs));
            }
            vec![Act::RemoveFinalizer]
        }
        Presence::Absent | Presence::Foreign => Vec::new(),
    };
    Decision { health: None, acts }
}

fn is_deleted(cluster: &EtcdCluster) -> bool {
    cluster.metadata.deletion_timestamp.is_some()
}

fn publish(seen: &Seen<'_>, name: &str, own: Option<&Value>, named: Option<&Value>) -> Decision {
    if !objects::is_name(name) {
        return only(report::no_name(name));
    }
    // Whose namespace is not admitted learns nothing of names that others have.
    if own.is_none() && named.is_some() && seen.is_admitted {
        return only(report::name_taken(name));
    }
    if let Some(own) = own.filter(|own| !own["metadata"]["deletionTimestamp"].is_null()) {
        return Decision {
            health: Some(report::terminating(own, true)),
            acts: credential(seen).unwrap_or_default(),
        };
    }
    if let Some(why) = hindrance(seen) {
        // One that exists stays as it is, for tenants that use it.
        let acts = own.and_then(|_| credential(seen).ok()).unwrap_or_default();
        return Decision { health: Some(why), acts };
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
    if let Some(own) = own.filter(|_| seen.is_contested) {
        return Decision { health: Some(report::contested(own)), acts };
    }
    let at = observe::cluster_ref(seen.cluster);
    acts.extend(
        objects::act(seen.cluster, &at, name, own).map(|write| Act::WriteStore(name.to_owned(), write)),
    );
    let health = own.filter(|_| acts.is_empty()).map(report::published);
    Decision { health, acts }
}

/// What keeps a DataStore from being made, if anything. What a person has to change comes first.
fn hindrance(seen: &Seen<'_>) -> Option<DataStoreHealth> {
    let cluster = seen.cluster;
    if !seen.is_admitted {
        return Some(report::not_admitted(&observe::cluster_ref(cluster)));
    }
    if !seen.auth_is_on && !cluster.spec.auth.as_ref().is_some_and(|auth| auth.enabled) {
        return Some(report::auth_off());
    }
    if !seen.compacts {
        return Some(report::compaction_off());
    }
    let status = cluster.status.as_ref();
    let certificates = status.and_then(|status| status.certificates.as_ref());
    if certificates.is_some_and(trusts_clients_as_peers) {
        return Some(report::peers_trust_clients());
    }
    if certificates.is_some_and(|own| own.authority.is_some() && own.peer_authority.is_none()) {
        return Some(report::one_authority(&observe::cluster_ref(cluster)));
    }
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

/// Whether a rotation that gives peers an authority of their own is under way: until it has ended, members trust that of clients at the port of peers.
fn trusts_clients_as_peers(own: &CertificatesStatus) -> bool {
    let of_peers = own.rotation.as_ref().filter(|rotation| rotation.authority == Ca::Peers.as_str());
    own.authority
        .as_ref()
        .zip(of_peers)
        .is_some_and(|(clients, rotation)| rotation.from == *clients || rotation.earlier.contains(clients))
}

/// O2, or why there is no credential.
fn credential(seen: &Seen<'_>) -> Result<Vec<Act>, DataStoreHealth> {
    let present = match seen.secret {
        Presence::Foreign => return Err(report::secret_taken(seen.cluster)),
        Presence::Absent => None,
        Presence::Own(own) if own.is_going => return Err(report::secret_going(seen.cluster)),
        Presence::Own(own) if own.must_be_made_again => return Ok(vec![Act::DeleteSecret]),
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
    let is_due = present.is_none_or(|own| !seen.keys_fit || own.leaf.is_due(&signer.authority, seen.now));
    if !is_due {
        let matches = present.is_some_and(|own| own.matches);
        return Ok(if matches { Vec::new() } else { vec![Act::WriteSecret] });
    }
    match seen.clock_differs {
        None => Ok(vec![Act::WriteSecret]),
        Some(_) if is_usable => Ok(Vec::new()),
        Some(differs) => Err(report::clock_differs(differs)),
    }
}

fn only(health: DataStoreHealth) -> Decision {
    Decision { health: Some(health), acts: Vec::new() }
}
