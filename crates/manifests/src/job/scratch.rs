//! The volume of a Job that is gone with its Pod.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use quorate_api::backup::JobTemplate;
use quorate_api::cluster::{Medium, Resources};
use quorate_api::{EtcdCluster, quantity};
use serde_json::{Value, json};

use crate::metadata;

/// The resource that files on the disk of a node count as.
const DISK: &str = "ephemeral-storage";

/// What the Pod of a restore test has on the disk of its node beside its volume: the program of the agent and the logs.
const BESIDE_SCRATCH: u64 = 256 << 20;

/// A volume that is gone with the Pod. Data of a cluster belong on its storage class; without one there is the disk of the node.
pub(super) fn volume(template: &JobTemplate, cluster: Option<&EtcdCluster>, needed: Option<u64>) -> Value {
    let given = template.scratch.clone().unwrap_or_default();
    let storage = cluster.map(|cluster| &cluster.spec.storage_spec);
    let of_members = storage.filter(|storage| match storage.medium {
        Medium::Disk => true,
        Medium::Memory => false,
    });
    let of_members = of_members.and_then(|storage| storage.storage_class_name.clone());
    let class = given.storage_class_name.or(of_members).filter(|class| !class.is_empty());
    let size = given.size.as_ref().and_then(quantity::bytes).max(needed).map(quantity::text);
    match (class, size) {
        (Some(class), Some(size)) => {
            let mut claim = json!({ "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": class,
                "resources": { "requests": { "storage": size } },
            } });
            // What a policy demands of the claims of members it demands of this one.
            let of_claims = storage.and_then(|storage| storage.metadata.clone()).unwrap_or_default();
            let labels = metadata::before(of_claims.labels, template.labels.clone());
            let annotations = metadata::before(of_claims.annotations, template.annotations.clone());
            for (field, given) in [("labels", labels), ("annotations", annotations)] {
                if !given.is_empty() {
                    claim["metadata"][field] = json!(given);
                }
            }
            json!({ "ephemeral": { "volumeClaimTemplate": claim } })
        }
        (None, Some(size)) => json!({ "emptyDir": { "sizeLimit": size } }),
        (_, None) => json!({ "emptyDir": {} }),
    }
}

/// What the test writes to the disk of the node is reserved there, and bounded: it is not taken from the other Pods of the node.
pub(super) fn counts_on_node(resources: &mut Resources, scratch: &Value) {
    let limit = serde_json::from_value(scratch["emptyDir"]["sizeLimit"].clone()).ok();
    let Some(size) = limit.as_ref().and_then(quantity::bytes) else { return };
    if resources.requests.contains_key(DISK) || resources.limits.contains_key(DISK) {
        return;
    }
    let all = Quantity(quantity::text(size.saturating_add(BESIDE_SCRATCH)));
    resources.requests.insert(DISK.to_owned(), all.clone());
    resources.limits.insert(DISK.to_owned(), all);
}
