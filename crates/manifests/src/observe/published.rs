//! The Secrets that clients follow a rotation of their authority by: the client certificate and its copy, those of EtcdUsers, and that of Kamaji.

use k8s_openapi::api::core::v1::Secret;
use quorate_api::{EtcdCluster, keys};
use quorate_model::snapshot::{Certificates, LeafCertificate, Published, Reader};
use quorate_model::{ClusterRef, ClusterUid, Leaf};

use crate::certificate::Certificate;
use crate::certificate::read::leaf_of_user;
use crate::kind::Kind;
use crate::{connection, data_store, names};

/// Those that exist, beside the certificates that were read. That of Kamaji has to exist while a DataStore may, which refers to it.
pub(super) fn read(
    cluster: &EtcdCluster,
    certificates: Option<&Certificates>,
    secrets: &[&Secret],
    (at, uid): (&ClusterRef, &ClusterUid),
) -> Vec<Published> {
    let client = certificates.and_then(|own| own.leaves.get(&Leaf::Client)).map(|secret| {
        let name = Certificate::from(Leaf::Client).secret_name(at);
        published(at, &name, secret.content.as_ref().ok(), Reader::Client)
    });
    let connection = connection::own(secrets, at, uid)
        .map(|secret| published(at, &names::connection(at), leaf(secret).as_ref(), Reader::Client));
    let of_users = secrets.iter().filter(|secret| is_of_user(secret)).map(|secret| {
        let name = secret.metadata.name.as_deref().unwrap_or_default();
        published(at, name, leaf(secret).as_ref(), Reader::User)
    });
    let of_kamaji = data_store::may_exist(cluster).then(|| {
        let found = data_store::own_secret(cluster, at, secrets).and_then(leaf);
        published(at, &names::data_store(at), found.as_ref(), Reader::Kamaji)
    });
    client.into_iter().chain(connection).chain(of_users).chain(of_kamaji).collect()
}

/// Whether it is that of an EtcdUser, which is its controller.
fn is_of_user(secret: &Secret) -> bool {
    let labels = secret.metadata.labels.as_ref();
    let is_labelled = labels.is_some_and(|labels| labels.contains_key(keys::USER));
    let mut owners = secret.metadata.owner_references.iter().flatten();
    is_labelled && owners.any(|owner| owner.kind == "EtcdUser" && owner.controller == Some(true))
}

/// The certificate in a Secret. Whose common name it has does not matter here.
fn leaf(secret: &Secret) -> Option<LeafCertificate> {
    leaf_of_user(secret, "").content.ok()
}

fn published(at: &ClusterRef, name: &str, leaf: Option<&LeafCertificate>, reader: Reader) -> Published {
    Published {
        secret: Kind::Secret.called(&at.namespace, name),
        reader,
        trusted: leaf.map(|leaf| leaf.trusted.clone()).unwrap_or_default(),
        signed_by: leaf.and_then(|leaf| leaf.signed_by.clone()),
    }
}
