//! The Secrets that clients follow a rotation of their authority by: the client certificate and its copy, those of EtcdUsers, and that of Kamaji.

use k8s_openapi::api::core::v1::Secret;
use quorate_api::{EtcdCluster, keys};
use quorate_model::snapshot::{Published, Reader};
use quorate_model::{ClusterRef, ClusterUid, Leaf};

use crate::certificate::Certificate;
use crate::certificate::read::leaf_of_user;
use crate::kind::Kind;
use crate::{connection, data_store, labels};

/// Those that exist. That of Kamaji has to exist while a DataStore may, which refers to it.
pub(super) fn read(
    cluster: &EtcdCluster,
    secrets: &[&Secret],
    at: &ClusterRef,
    uid: &ClusterUid,
) -> Vec<Published> {
    let client = Certificate::from(Leaf::Client).secret_name(at);
    let of_cluster = [client, connection::name(at)].into_iter().filter_map(|name| {
        let mut named = secrets.iter().filter(|secret| secret.metadata.name.as_ref() == Some(&name));
        let own = named.find(|secret| labels::is_owned_by(&secret.metadata, uid))?;
        Some(published(at, (name, Some(own)), Reader::Client))
    });
    let of_users = secrets.iter().filter(|secret| is_of_user(secret)).map(|secret| {
        published(at, (secret.metadata.name.clone().unwrap_or_default(), Some(secret)), Reader::User)
    });
    let of_kamaji = data_store::may_exist(cluster).then(|| {
        let found = data_store::own_secret(cluster, at, secrets);
        published(at, (data_store::secret_name(at), found), Reader::Kamaji)
    });
    of_cluster.chain(of_users).chain(of_kamaji).collect()
}

/// Whether it is that of an EtcdUser, which is its controller.
fn is_of_user(secret: &Secret) -> bool {
    let labels = secret.metadata.labels.as_ref();
    let is_labelled = labels.is_some_and(|labels| labels.contains_key(keys::USER));
    let mut owners = secret.metadata.owner_references.iter().flatten();
    is_labelled && owners.any(|owner| owner.kind == "EtcdUser" && owner.controller == Some(true))
}

fn published(at: &ClusterRef, (name, secret): (String, Option<&Secret>), reader: Reader) -> Published {
    // Whose common name it has does not matter here.
    let leaf = secret.and_then(|secret| leaf_of_user(secret, "").content.ok());
    let (trusted, signed_by) = leaf.map(|leaf| (leaf.trusted, leaf.signed_by)).unwrap_or_default();
    Published { secret: Kind::Secret.called(&at.namespace, &name), reader, trusted, signed_by }
}
