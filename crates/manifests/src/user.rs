//! The Secret of an EtcdUser: the form of the [connection Secret](crate::connection) of its cluster, with the certificate of the user. What
//! signs it is what signs for clients of the cluster.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube_core::ResourceExt as _;
use quorate_api::user::DEFAULT_USER_VALIDITY;
use quorate_api::{EtcdCluster, EtcdUser, duration, keys};
use quorate_model::snapshot::{Authority, LeafSecret};
use quorate_model::{Ca, ClusterRef, ClusterUid, Fingerprint, Leaf, Present, Span};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::certificate::{self, CA, Kept, KeyPair, Order, order, parsed, read, rotation};
use crate::write::Act;
use crate::{connection, diff, labels};

/// The entry with the name of the user.
pub const USERNAME: &str = "username";

/// What signs for clients of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signer {
    /// The authority.
    pub authority: Authority,
    /// What clients trust: `ca.crt` of the client certificate of the cluster, which a rotation keeps up.
    pub ca: Vec<u8>,
    pub(crate) pair: KeyPair,
}

impl Signer {
    /// One of these parts.
    pub fn new(authority: Authority, ca: Vec<u8>, pair: KeyPair) -> Self {
        Self { authority, ca, pair }
    }
}

/// Why nothing signs for clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoSigner {
    /// It comes by itself.
    NotYet(String),
    /// The authority is lost.
    Lost(String),
    /// Its key is somewhere else: whoever has it signs for the user.
    Elsewhere,
}

/// The Secret of the name that a credential needs: that of an EtcdUser, or of [Kamaji](crate::data_store).
#[derive(Debug)]
pub enum Presence<'a> {
    /// There is none.
    Absent,
    /// Something else has the name.
    Foreign,
    /// That of this owner.
    Own(Own<'a>),
}

/// The Secret of a credential.
#[derive(Debug)]
pub struct Own<'a> {
    /// The Secret.
    pub secret: &'a Secret,
    /// The certificate in it.
    pub leaf: Box<LeafSecret>,
    /// All else is as it should be, as far as that is known.
    pub matches: bool,
    /// The API server refuses to change it: it is immutable, or of another type.
    pub must_be_made_again: bool,
    /// It is being deleted.
    pub is_going: bool,
}

/// The name of the user in etcd, and so the common name of its certificate. It has the uid: a certificate of an earlier EtcdUser of this name
/// is not that of this user, and neither is a user that somebody else made.
pub fn user_name(user: &EtcdUser) -> String {
    format!("{}-{}", user.name_any(), mark(user))
}

/// What tells an EtcdUser from others of its name: the first eight digits of its uid.
pub fn mark(user: &EtcdUser) -> String {
    mark_of(user.metadata.uid.as_deref().unwrap_or_default())
}

/// The same of the EtcdUser with this uid.
pub fn mark_of(uid: &str) -> String {
    uid.chars().filter(|char| *char != '-').take(8).collect()
}

/// The name of the Secret.
pub fn secret_name(user: &str) -> String {
    format!("{user}-etcd")
}

/// A short hash of a text.
pub fn hash(text: &str) -> String {
    parsed::hex(&Sha256::digest(text)[..8])
}

/// What signs for clients of a cluster: the recorded authority, once the cluster's own client certificate is of it. During a rotation that
/// is the authority that signs at this stage, and clients trust both.
pub fn signer(cluster: &EtcdCluster, at: &ClusterRef, secrets: &[&Secret]) -> Result<Signer, NoSigner> {
    let uid = ClusterUid::new(cluster.metadata.uid.clone().unwrap_or_default());
    let status = cluster.status.as_ref().and_then(|status| status.certificates.as_ref());
    let recorded = status.and_then(|certificates| certificates.authority.clone()).map(Fingerprint::new);
    let Some(recorded) = recorded else {
        return Err(NoSigner::NotYet("its status records no certificate authority".to_owned()));
    };
    let seen = certificate::read(secrets, at, &uid, &cluster.spec.tls, false, false);
    let name = seen.authority_name(Ca::Clients);
    let lost = |what: &str| NoSigner::Lost(format!("{name} {what}"));
    let Some(secret) = seen.authorities.get(&Ca::Clients) else { return Err(lost("does not exist")) };
    let found =
        secret.with(&recorded).ok_or_else(|| lost("does not have the authority that status records"))?;
    if found.keyless {
        return Err(NoSigner::Elsewhere);
    }
    let pair = rotation::pair(secrets, (at, &uid), &recorded).ok_or_else(|| lost("has no key"))?;
    let kept = certificate::kept(Leaf::Client, secrets, at, &uid);
    let client = seen.leaves.get(&Leaf::Client).and_then(|leaf| leaf.content.as_ref().ok());
    let (Some(kept), Some(client)) = (kept, client) else {
        return Err(NoSigner::NotYet("its client certificate does not exist".to_owned()));
    };
    if client.signed_by.as_ref() != Some(&recorded) || !client.trusted.contains(&recorded) {
        return Err(NoSigner::NotYet(
            "its client certificate is not of the recorded authority yet".to_owned(),
        ));
    }
    Ok(Signer { authority: found.clone(), ca: kept.ca.to_vec(), pair })
}

/// The Secret of the name that an EtcdUser needs.
pub fn presence<'a>(
    user: &EtcdUser,
    at: &ClusterRef,
    found: Option<&'a Secret>,
    signer: Option<&Signer>,
) -> Presence<'a> {
    let Some(secret) = found else { return Presence::Absent };
    if !is_owned_by(&secret.metadata, user) {
        return Presence::Foreign;
    }
    Presence::Own(own(secret, &user_name(user), &desired(user, at, signer)))
}

/// What the Secret of a credential is to this owner: the certificate in it is of this user of etcd, and this is all else.
pub(crate) fn own<'a>(secret: &'a Secret, common_name: &str, desired: &Value) -> Own<'a> {
    Own {
        secret,
        leaf: Box::new(read::leaf_of_user(secret, common_name)),
        matches: diff::matches(secret, desired),
        must_be_made_again: secret.immutable == Some(true)
            || secret.type_.as_deref() != desired["type"].as_str(),
        is_going: secret.metadata.deletion_timestamp.is_some(),
    }
}

/// What brings all but the certificate of the Secret of a credential to this form: these fields of its metadata, and its data.
pub(crate) fn write_desired(own: Option<&Own<'_>>, desired: Value, fields: &[&str]) -> Act {
    let Some(own) = own else { return Act::Create(desired) };
    let meta = &own.secret.metadata;
    let mut metadata = json!({ "uid": meta.uid, "resourceVersion": meta.resource_version });
    for field in fields {
        metadata[*field] = desired["metadata"][*field].clone();
    }
    Act::Patch(json!({ "metadata": metadata, "data": desired["data"] }))
}

/// The order of a certificate for the user, and of all else in its Secret.
pub fn sign(user: &EtcdUser, at: &ClusterRef, signer: &Signer, own: Option<&Own<'_>>, now: Present) -> Order {
    let act = write(user, at, signer, own);
    let lifetime = user.spec.authentication.certificate.validity_duration.as_deref();
    let seconds = duration::seconds(lifetime.unwrap_or(DEFAULT_USER_VALIDITY)).unwrap_or(90 * 86_400);
    let signed_by = (signer.pair.clone(), &signer.authority);
    let whose = (user_name(user), user.metadata.uid.clone().unwrap_or_default());
    order::of_user(whose, (at, secret_name(&user.name_any())), act, signed_by, Span::seconds(seconds), now)
}

/// What brings all but the certificate to its desired form.
pub fn write(user: &EtcdUser, at: &ClusterRef, signer: &Signer, own: Option<&Own<'_>>) -> Act {
    write_desired(own, desired(user, at, Some(signer)), &["labels", "ownerReferences"])
}

/// All but the certificate and its key; without what clients trust where that is not known.
fn desired(user: &EtcdUser, at: &ClusterRef, signer: Option<&Signer>) -> Value {
    let mut labels = labels::not_backed_up();
    labels.insert(keys::USER.to_owned(), user.name_any());
    // The cluster's rotation waits for what its users are told.
    labels.insert(keys::CLUSTER.to_owned(), at.name.clone());
    labels.insert(keys::MANAGED_BY.to_owned(), keys::MANAGED_BY_VALUE.to_owned());
    let metadata = ObjectMeta {
        name: Some(secret_name(&user.name_any())),
        namespace: Some(at.namespace.clone()),
        labels: Some(labels),
        owner_references: Some(vec![owner(user)]),
        ..ObjectMeta::default()
    };
    let trusted = signer.map(|signer| Kept { ca: &signer.ca, cert: b"", key: b"" });
    // An address of TLS, also while it is not known what clients trust.
    let none = Kept { ca: b"", cert: b"", key: b"" };
    let mut data = connection::data(at, Some(trusted.as_ref().unwrap_or(&none)));
    data.retain(|key, value| !value.0.is_empty() && (*key != CA || signer.is_some()));
    data.insert(USERNAME, ByteString(user_name(user).into_bytes()));
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata,
        "type": connection::SECRET_TYPE,
        "data": data,
    })
}

fn owner(user: &EtcdUser) -> OwnerReference {
    OwnerReference {
        api_version: format!("{}/{}", keys::GROUP, keys::VERSION),
        kind: "EtcdUser".to_owned(),
        name: user.name_any(),
        uid: user.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

fn is_owned_by(meta: &ObjectMeta, user: &EtcdUser) -> bool {
    let mut owners = meta.owner_references.iter().flatten();
    owners.any(|owner| Some(&owner.uid) == user.metadata.uid.as_ref() && owner.controller == Some(true))
}
