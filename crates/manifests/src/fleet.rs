//! What the turns of a fleet are decided by: which EtcdClusters are to take new defaults of the operator, and which take them.

use quorate_api::cluster::OperatorDefaults;
use quorate_api::{ConditionType, EtcdCluster, conditions};
use quorate_model::fleet::{Takes, Wants};
use quorate_model::quorum::has_quorum;
use quorate_model::{ClusterRef, Instant};

use crate::{Defaults, data_store, record, resolve};

/// The cluster, if the operator would build other Pods than the committed ones from the same spec, and may replace them by itself.
pub fn wants(cluster: &EtcdCluster, at: &ClusterRef, defaults: &Defaults) -> Option<Wants> {
    needs_defaults(cluster, defaults).then(|| Wants {
        cluster: at.clone(),
        interrupted: is_interrupted(cluster),
        unwell: unwell(cluster),
    })
}

/// The cluster, if it is on its way. One that is paused or stopped is not, and keeps nobody from being next.
pub fn takes(cluster: &EtcdCluster, at: &ClusterRef) -> Option<Takes> {
    let status = cluster.status.as_ref()?;
    let turn = record::turn(status).filter(|_| may_roll(cluster))?;
    let degraded = conditions::find_true(&status.conditions, ConditionType::Degraded.as_str());
    Some(Takes {
        cluster: at.clone(),
        interrupted: is_interrupted(cluster),
        turn,
        degraded: degraded
            .map(|one| (Instant(one.last_transition_time.0.as_millisecond()), one.message.clone())),
    })
}

/// Whether the operator would build other Pods than the committed ones from the same spec, and may replace them by itself.
pub fn needs_defaults(cluster: &EtcdCluster, defaults: &Defaults) -> bool {
    let follows = cluster.spec.updates.operator_defaults == OperatorDefaults::Rolling && may_roll(cluster);
    let committed = cluster.status.as_ref().and_then(|status| status.target.as_ref()).filter(|_| follows);
    let Some((committed, desired)) = committed.zip(resolve(cluster, defaults).ok()) else { return false };
    committed.version == desired.version.to_string()
        && committed.pod.template == desired.pod.content
        && committed.pod.revision != desired.pod.revision.0
}

/// Whether it cannot serve while a member restarts, once it has the size of its spec.
fn is_interrupted(cluster: &EtcdCluster) -> bool {
    let size = cluster.spec.size as usize;
    !has_quorum(size.saturating_sub(1), size)
}

/// Whether its members run and may be restarted.
fn may_roll(cluster: &EtcdCluster) -> bool {
    !cluster.spec.paused && cluster.spec.size > 0 && !data_store::ends(cluster)
}

/// Why it is not well, by its last status: a member that is not healthy or has no Pod, or no quorum.
fn unwell(cluster: &EtcdCluster) -> Option<String> {
    let all = &cluster.status.as_ref()?.conditions;
    let degraded = conditions::find_true(all, ConditionType::Degraded.as_str());
    let no_quorum = || conditions::find_false(all, ConditionType::QuorumAvailable.as_str());
    Some(degraded.or_else(no_quorum)?.message.clone())
}

#[cfg(test)]
mod tests {
    use quorate_api::keys;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_cluster_whose_deletion_waits_for_tenants_of_kamaji_takes_new_defaults() {
        let deleted = |finalizers: &[&str]| {
            serde_json::from_value(json!({
                "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdCluster",
                "metadata": {
                    "name": "demo", "namespace": "default", "deletionTimestamp": "2027-01-15T08:00:00Z", "finalizers": finalizers,
                },
                "spec": { "size": 3, "version": "3.6.16" },
            }))
            .unwrap()
        };
        assert!(may_roll(&deleted(&[keys::FINALIZER, keys::DATA_STORE_FINALIZER])));
        assert!(!may_roll(&deleted(&[keys::FINALIZER])));
    }
}
