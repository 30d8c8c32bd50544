//! What is generated for a certificate, and the write that puts it into its Secret.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use quorate_api::{EtcdCluster, duration, keys};
use quorate_model::certificate::Validity;
use quorate_model::snapshot::Authority;
use quorate_model::{Ca, ClusterRef, ClusterUid, Leaf, ManagedObject, ObservedObject, Present, Span};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::kinds::{self, CA, CERT, Certificate, KEY, KeyPair};
use super::rotation::{Place, TRUST, entries_at, entry_of};
use crate::kind::Kind;
use crate::write::{Act, Write};
use crate::{diff, labels, metadata};

/// How long an authority is valid.
const AUTHORITY: Span = Span::seconds(3650 * 86_400);

/// How long a leaf is valid, unless the spec says so.
const LEAF: Span = Span::seconds(365 * 86_400);

/// A certificate is valid from this long before its creation, because clocks differ: that of a node may be hours behind, and it would refuse every
/// renewed certificate until then. For a short life it is less, and no leaf begins before its authority.
const BEFORE: Span = Span::seconds(86_400);

/// The content of a leaf certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeafContent {
    /// Its common name.
    pub common_name: String,
    /// Its organizations.
    pub organizations: Vec<String>,
    /// The DNS names and IP addresses it is valid for.
    pub names: Vec<String>,
    /// It is valid for a server. Every leaf is valid for a client.
    pub server: bool,
    /// From when until when it is valid.
    pub validity: Validity,
    /// The key that is made for it.
    pub key: KeyAlgorithm,
}

/// A key that the operator makes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyAlgorithm {
    /// ECDSA on P-256.
    #[default]
    EcdsaP256,
    /// ECDSA on P-384.
    EcdsaP384,
}

/// A certificate that is to be generated, and how its Secret is then written.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    /// What to generate.
    pub generate: Generate,
    store: Store,
}

/// What to generate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Generate {
    /// An authority.
    Authority {
        /// Its common name.
        common_name: String,
        /// From when until when it is valid.
        validity: Validity,
    },
    /// A leaf.
    Leaf {
        /// The authority that signs it.
        authority: KeyPair,
        /// Its content.
        content: LeafContent,
    },
}

/// How the Secret is written: all but the keys.
#[derive(Clone, Debug, PartialEq)]
struct Store {
    namespace: String,
    name: String,
    /// The Secret to create, or the patch with its preconditions.
    act: Act,
    /// What goes into `ca.crt`; `None` if it stays.
    ca: Option<Trusted>,
    /// Where the certificate and its key go.
    place: Place,
}

#[derive(Clone, Debug, PartialEq)]
enum Trusted {
    /// The certificate that is generated.
    Itself,
    /// This authority, and what is trusted beside it.
    Authority(String),
}

/// The Secret of a leaf that is renewed.
#[derive(Clone, Debug)]
pub(crate) struct Renewed<'a> {
    /// Precondition.
    pub(crate) observed: &'a ObservedObject,
    /// Its `ca.crt` has the authority already.
    pub(crate) trusts_authority: bool,
    /// Its `ca.crt` with that one first, if it is another one now.
    pub(crate) bundle: Option<String>,
}

/// The order of a new authority. Its Secret has no owner: it is kept with the data.
pub(crate) fn authority(
    cluster: &EtcdCluster,
    at: &ClusterRef,
    (ca, place): (Ca, Place),
    uid: &ClusterUid,
    generation: u32,
    now: Present,
) -> Order {
    let name = Certificate::Authority(ca).secret_name(at);
    let mut secret = Secret {
        metadata: labels::owned_by_none(at, name.clone()),
        type_: Some("kubernetes.io/tls".to_owned()),
        ..Secret::default()
    };
    if place == Place::Next {
        // The type asks for them, and nothing signs yet.
        let nothing = || ByteString(Vec::new());
        secret.data = Some([CERT, KEY].map(|key| (key.to_owned(), nothing())).into());
    }
    secret.metadata.annotations =
        Some(BTreeMap::from([(keys::CLUSTER_UID.to_owned(), uid.as_str().to_owned())]));
    let act = Act::Create(made(cluster, at, &name, &secret));
    Order {
        generate: new_authority(ca, uid, generation, now),
        store: Store {
            namespace: at.namespace.clone(),
            name,
            act,
            ca: (place == Place::Signer).then_some(Trusted::Itself),
            place,
        },
    }
}

/// C1: the order of the authority that is to take the place of the one in this Secret, beside it.
pub(crate) fn next_authority(
    (at, ca): (&ClusterRef, Ca),
    uid: &ClusterUid,
    observed: &ObservedObject,
    generation: u32,
    now: Present,
) -> Order {
    Order {
        generate: new_authority(ca, uid, generation, now),
        store: Store {
            namespace: at.namespace.clone(),
            name: Certificate::Authority(ca).secret_name(at),
            act: Act::Patch(json!({ "metadata": diff::precondition(observed) })),
            ca: None,
            place: Place::Next,
        },
    }
}

fn new_authority(ca: Ca, uid: &ClusterUid, generation: u32, now: Present) -> Generate {
    let validity = Validity { not_before: now.earliest.before(BEFORE), not_after: now.latest + AUTHORITY };
    Generate::Authority { common_name: kinds::authority_name(ca, uid, generation), validity }
}

/// The order of a leaf that this authority signs: in its own Secret if one exists, else in a new one.
pub(crate) fn leaf(
    cluster: &EtcdCluster,
    at: &ClusterRef,
    leaf: Leaf,
    (pair, authority): (KeyPair, Option<&Authority>),
    renewed: Option<Renewed<'_>>,
    (trust, now): (u32, Present),
) -> Order {
    let uid = ClusterUid::new(cluster.metadata.uid.clone().unwrap_or_default());
    let name = Certificate::from(leaf).secret_name(at);
    let (act, ca) = if let Some(Renewed { observed, trusts_authority, bundle }) = renewed {
        let mut metadata = diff::precondition(observed);
        metadata["labels"] = json!(labels::not_backed_up());
        let ca = (!trusts_authority).then(|| Trusted::Authority(pair.cert.clone()));
        let mut patch = json!({ "metadata": metadata });
        if ca.is_some() {
            // What was trusted beside it is gone.
            patch["data"] = json!({ TRUST: entry_of(trust) });
        }
        (Act::Patch(patch), ca.or(bundle.map(Trusted::Authority)))
    } else {
        let mut secret = Secret {
            metadata: labels::owned(cluster, at, name.clone()),
            type_: Some("kubernetes.io/tls".to_owned()),
            ..Secret::default()
        };
        secret.metadata.labels.get_or_insert_default().extend(labels::not_backed_up());
        if trust > 0 {
            secret.data = Some(BTreeMap::from([(TRUST.to_owned(), entry_of(trust))]));
        }
        (Act::Create(made(cluster, at, &name, &secret)), Some(Trusted::Authority(pair.cert.clone())))
    };
    let content = LeafContent {
        common_name: kinds::common_name(leaf, &cluster.spec.tls, kinds::is_with_auth(cluster)).to_owned(),
        organizations: kinds::organizations(leaf, &cluster.spec.tls),
        names: kinds::names(leaf, at, &cluster.spec.tls),
        server: leaf.is_of_server(),
        key: key_algorithm(cluster),
        validity: validity(&format!("{uid} {leaf}"), lifetime(cluster), authority, now),
    };
    Order {
        generate: Generate::Leaf { authority: pair, content },
        store: Store { namespace: at.namespace.clone(), name, act, ca, place: Place::Signer },
    }
}

/// The order of the leaf of a user: its name and the uid of its EtcdUser; where its Secret is, and how it is written but for the leaf.
pub(crate) fn of_user(
    (name, uid): (String, String),
    (at, secret): (&ClusterRef, String),
    act: Act,
    (pair, authority): (KeyPair, &Authority),
    lifetime: Span,
    now: Present,
) -> Order {
    let content = LeafContent {
        validity: validity(&format!("{uid} {name}"), lifetime, Some(authority), now),
        common_name: name,
        organizations: Vec::new(),
        names: Vec::new(),
        server: false,
        key: KeyAlgorithm::default(),
    };
    Order {
        generate: Generate::Leaf { authority: pair, content },
        store: Store { namespace: at.namespace.clone(), name: secret, act, ca: None, place: Place::Signer },
    }
}

impl Order {
    /// The Secret as text: `Secret default/demo-ca`.
    pub fn object(&self) -> String {
        Kind::Secret.called(&self.store.namespace, &self.store.name)
    }

    /// The write that puts what was generated into the Secret.
    pub fn write(&self, pair: &KeyPair) -> Write {
        let Store { namespace, name, act, ca, place } = &self.store;
        let (cert, key) = entries_at(*place);
        let ca = ca.as_ref().map(|ca| match ca {
            Trusted::Itself => &pair.cert,
            Trusted::Authority(cert) => cert,
        });
        let entries = [(cert, Some(&pair.cert)), (key, Some(&pair.key)), (CA, ca)];
        let entries = entries.into_iter().filter_map(|(key, pem)| Some((key, pem?)));
        let data: BTreeMap<&str, ByteString> =
            entries.map(|(key, pem)| (key, ByteString(pem.as_bytes().to_vec()))).collect();
        let with_data = |object: &Value| {
            let mut object = object.clone();
            let given = object["data"].as_object().cloned().unwrap_or_default();
            object["data"] = json!(data);
            object["data"].as_object_mut().into_iter().for_each(|data| data.extend(given.clone()));
            object
        };
        let act = match act {
            Act::Create(object) => Act::Create(with_data(object)),
            Act::Patch(patch) => Act::Patch(with_data(patch)),
            Act::PatchStatus(_) | Act::Delete { .. } | Act::Evict { .. } => act.clone(),
        };
        Write { kind: Kind::Secret, namespace: namespace.clone(), name: name.clone(), act }
    }
}

fn key_algorithm(cluster: &EtcdCluster) -> KeyAlgorithm {
    match cluster.spec.tls.auto().and_then(|auto| auto.key_algorithm.as_deref()) {
        Some("ECDSA-P384") => KeyAlgorithm::EcdsaP384,
        Some(_) | None => KeyAlgorithm::EcdsaP256,
    }
}

fn lifetime(cluster: &EtcdCluster) -> Span {
    let text = cluster.spec.tls.auto().and_then(|auto| auto.validity_duration.as_deref());
    text.and_then(duration::seconds).map_or(LEAF, Span::seconds)
}

/// Leaves that are issued in the same second do not end in the same second: up to a tenth of their life is taken off, by whose
/// they are. None outlives its authority. It is valid by both clocks (R23).
fn validity(whose: &str, lifetime: Span, authority: Option<&Authority>, now: Present) -> Validity {
    let spread = (lifetime.0 / 10).max(1);
    let off = Sha256::digest(whose);
    let off = off.iter().take(8).fold(0_u64, |number, byte| (number << 8) | u64::from(*byte)) % spread;
    let ends = now.latest + Span(lifetime.0 - off);
    let not_after = authority.map_or(ends, |authority| ends.min(authority.validity.not_after));
    let begins = now.earliest.before(Span(BEFORE.0.min(lifetime.0 / 10)));
    let not_before = authority.map_or(begins, |authority| begins.max(authority.validity.not_before));
    Validity { not_before, not_after }
}

/// The Secret that is to be created, with what the spec gives it.
fn made(cluster: &EtcdCluster, at: &ClusterRef, name: &str, secret: &Secret) -> Value {
    let mut made = serde_json::to_value(secret).expect("a Secret is plain data");
    metadata::add(cluster, at, &ManagedObject::Secret(name.to_owned()), &mut made);
    made
}
