//! Another operator of the same group and kind, whose objects have the names of ours and the same EtcdCluster as their controller. The released
//! operator of etcd-io is one.

use k8s_openapi::ByteString;
use quorate_api::keys;
use quorate_apistore::fields::{annotation, uid};
use quorate_apistore::store::DeleteOptions;
use quorate_manifests::Kind;
use serde_json::{Value, json};

use super::World;
use super::objects::{key, resource};

/// What only the World reads: the object is not ours, whatever its owner reference says.
const MADE_BY: &str = "example.org/made-by";

/// The key of the authority that somebody puts there.
const OF_SOMEBODY: u64 = 9_000;

/// As long as certificates can be valid, in seconds.
const LONG: quorate_pki::Validity = quorate_pki::Validity { not_before: 0, not_after: 4_000_000_000 };

/// Whether another operator made an object.
pub(crate) fn is_of_other_operator(object: &Value) -> bool {
    annotation(object, MADE_BY).is_some()
}

impl World {
    /// The names of the cluster that it may have taken: of the peer Service, a certificate, the connection Secret, and an authority, which has no owner.
    pub(super) fn names_of_other_operator(&self) -> impl Iterator<Item = String> + use<> {
        let name = self.at.name.clone();
        ["", "-server-tls", "-connection", "-ca", "-peer-ca"]
            .into_iter()
            .map(move |suffix| format!("{name}{suffix}"))
    }

    /// The other operator has made this object. Only before the cluster of ours begins: later the names are taken.
    pub(super) fn add_object_of_other_operator(&self, named: &str) -> bool {
        let Some(cluster) = self.object(Kind::Cluster, &self.at.name) else { return false };
        let has_begun =
            cluster.pointer("/status/bootstrap").is_some() || cluster.pointer("/status/clusterID").is_some();
        let (kind, mut object) = if named == self.at.name {
            let selector = json!({ "clusterIP": "None", "selector": { "app": self.at.name } });
            (Kind::Service, json!({ "spec": selector }))
        } else {
            (Kind::Secret, json!({ "data": { "tls.crt": "eA==" } }))
        };
        let is_authority = named.ends_with("-ca");
        if is_authority {
            let pair = quorate_pki::authority("somebody's", OF_SOMEBODY, LONG);
            let entry = |text: &str| json!(ByteString(text.as_bytes().to_vec()));
            object["data"] = json!({ "tls.crt": entry(&pair.cert), "tls.key": entry(&pair.key) });
        }
        object["metadata"] = json!({
            "name": named, "namespace": self.at.namespace, "labels": { "app": self.at.name },
            "annotations": { MADE_BY: "another operator" },
            "ownerReferences": [{
                "apiVersion": format!("{}/{}", keys::GROUP, keys::VERSION), "kind": "EtcdCluster",
                "name": self.at.name, "uid": uid(&cluster), "controller": true,
            }],
        });
        if is_authority {
            object["metadata"]["labels"] = json!({ keys::CLUSTER: self.at.name });
            object["metadata"]["ownerReferences"] = Value::Null;
        }
        !has_begun && self.store.create(&resource(kind), &self.at.namespace, object, false).is_ok()
    }

    /// Its user has moved away from it. `false` if nothing of it is left.
    pub(super) fn remove_objects_of_other_operator(&self) -> bool {
        let mut removed = false;
        for kind in [Kind::Service, Kind::Secret] {
            for object in self.names(kind) {
                let is_theirs =
                    self.object(kind, &object).is_some_and(|object| is_of_other_operator(&object));
                let options = DeleteOptions::default();
                removed |= is_theirs && self.store.delete(&key(kind, &self.at, &object), &options).is_ok();
            }
        }
        removed
    }
}
