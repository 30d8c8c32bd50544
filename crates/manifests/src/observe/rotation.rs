//! What people say about the rotation of certificate authorities.

use quorate_api::{EtcdCluster, duration, keys};
use quorate_model::rotation::{RotateOrder, RotationPolicy};
use quorate_model::{Ca, Span};

use crate::defaults::Invalid;

/// The policy of the spec and of the annotations, and what is wrong with the order.
pub(super) fn read(cluster: &EtcdCluster) -> (RotationPolicy, Option<Invalid>) {
    let given = |key: &str| cluster.metadata.annotations.as_ref().and_then(|all| all.get(key)).cloned();
    let rotation = cluster.spec.tls.rotation.as_ref();
    let grace = rotation.and_then(|rotation| duration::seconds(rotation.client_grace.as_deref()?));
    let mut policy = RotationPolicy {
        order: None,
        client_grace: grace.map_or(RotationPolicy::CLIENT_GRACE, Span::seconds),
        clients_trust: given(keys::CLIENTS_TRUST),
        clients_present: given(keys::CLIENTS_PRESENT),
    };
    let Some(text) = given(keys::ROTATE_CA) else { return (policy, None) };
    let which = text.split_once('/').map_or(text.as_str(), |(which, _)| which);
    let Some(ca) = Ca::ALL.into_iter().find(|ca| ca.as_str() == which) else {
        let why = format!(
            "{text:?} names no certificate authority: clients or peers, and a slash and a word where it is not the first time"
        );
        return (policy, Some(Invalid::new(format!("metadata.annotations[{}]", keys::ROTATE_CA), why)));
    };
    policy.order = Some(RotateOrder { ca, text });
    (policy, None)
}
