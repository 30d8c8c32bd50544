//! Decides whether an object with a name of the cluster belongs to it. The watches do not show objects without the label of
//! the cluster. Such a name conflict is detected when a create fails, and is read in every pass until it is gone.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::Resource as _;
use quorate_api::keys;
use quorate_manifests::certificate;
use quorate_manifests::{Kind, labels};
use quorate_model::{ClusterRef, ClusterUid};

use crate::objects::Object;

/// Whether an object belongs to this incarnation of the cluster. A create that finds it counts as done. The EtcdCluster
/// controls every object except data, which outlive it and name it in an annotation: volumes, and the certificate authorities.
pub fn is_ours(object: &Object, at: &ClusterRef, uid: &ClusterUid) -> bool {
    let of_incarnation = |meta: &ObjectMeta| {
        let annotations = meta.annotations.as_ref();
        annotations.and_then(|all| all.get(keys::CLUSTER_UID)).map(String::as_str) == Some(uid.as_str())
    };
    let outlives = object.kind() == Kind::Volume || is_of_authority(object, at);
    let meta = object.meta();
    is_visible(object, at, uid) && (!outlives || of_incarnation(meta) || labels::is_owned_by(meta, uid))
}

fn is_of_authority(object: &Object, at: &ClusterRef) -> bool {
    object.kind() == Kind::Secret && certificate::is_of_authority(object.meta(), at)
}

/// Whether the planner observes an object itself. Volumes of an earlier incarnation also carry the label.
pub fn is_visible(object: &Object, at: &ClusterRef, uid: &ClusterUid) -> bool {
    match object {
        Object::Volume(volume) => {
            volume.metadata.labels.as_ref().and_then(|all| all.get(keys::CLUSTER)) == Some(&at.name)
        }
        Object::Cluster(cluster) => cluster.meta().uid.as_deref() == Some(uid.as_str()),
        Object::Secret(secret) if is_of_authority(object, at) => {
            certificate::is_authority_of(&secret.metadata, at, uid)
        }
        Object::Pod(_)
        | Object::Service(_)
        | Object::Budget(_)
        | Object::Secret(_)
        | Object::NetworkPolicy(_)
        | Object::Certificate(_) => labels::is_owned_by(object.meta(), uid),
        // Its name is its own, and the next pass reports whose it is.
        Object::Backup(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn judged(kind: Kind, metadata: &Value) -> (bool, bool) {
        let object = Object::parse(kind, json!({ "metadata": metadata })).unwrap();
        let (at, uid) = (ClusterRef::new("default", "demo"), ClusterUid::new("now"));
        (is_visible(&object, &at, &uid), is_ours(&object, &at, &uid))
    }

    #[test]
    fn an_object_is_ours_if_this_incarnation_controls_it() {
        let owned = |uid: &str, controller: bool| {
            json!({ "ownerReferences": [{
                "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdCluster", "name": "demo",
                "uid": uid, "controller": controller,
            }] })
        };
        for kind in
            [Kind::Pod, Kind::Service, Kind::Budget, Kind::Secret, Kind::NetworkPolicy, Kind::Certificate]
        {
            for (key, value) in [(keys::CLUSTER, "demo"), (keys::MANAGED_BY, keys::MANAGED_BY_VALUE)] {
                let mut labelled = owned("now", true);
                labelled["labels"] = json!({ key: value });
                assert_eq!(judged(kind, &labelled), (true, true));
            }
            assert_eq!(judged(kind, &owned("now", true)), (false, false), "another operator made it (R25)");
            assert_eq!(
                judged(kind, &owned("now", false)),
                (false, false),
                "owned, but by another controller"
            );
            assert_eq!(judged(kind, &owned("before", true)), (false, false));
            assert_eq!(judged(kind, &json!({ "labels": { keys::CLUSTER: "demo" } })), (false, false));
        }
    }

    #[test]
    fn a_volume_is_ours_by_its_label_and_the_incarnation_it_was_made_for() {
        let volume = |label: &str, uid: &str| json!({ "labels": { keys::CLUSTER: label }, "annotations": { keys::CLUSTER_UID: uid } });
        assert_eq!(judged(Kind::Volume, &volume("demo", "now")), (true, true));
        // The planner observes it and waits for adoption. No Pod is created on it.
        assert_eq!(judged(Kind::Volume, &volume("demo", "before")), (true, false));
        assert_eq!(judged(Kind::Volume, &volume("other", "now")), (false, false));
    }
}
