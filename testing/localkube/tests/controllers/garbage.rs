use quorate_apistore::fields::{deleting, items};
use quorate_apistore::store::Propagation;
use serde_json::{Value, json};

use super::cluster::{Cluster, owned_by};

/// A ConfigMap that owns a Secret, which owns a Service account.
fn family(cluster: &Cluster) -> [Value; 3] {
    let parent = cluster.create("configmaps", json!({ "metadata": { "name": "parent" } }));
    let owners = owned_by(&parent);
    let child =
        cluster.create("secrets", json!({ "metadata": { "name": "child", "ownerReferences": owners } }));
    let owners = owned_by(&child);
    let grandchild = cluster.create(
        "serviceaccounts",
        json!({ "metadata": { "name": "grandchild", "ownerReferences": owners } }),
    );
    [parent, child, grandchild]
}

#[test]
fn dependents_are_deleted_transitively() {
    let mut cluster = Cluster::with_nodes(0);
    family(&cluster);
    cluster.settle();
    assert!(cluster.find("secrets", "child").is_some());
    cluster.delete("configmaps", "parent");
    cluster.settle();
    assert!(
        cluster.find("secrets", "child").is_none() && cluster.find("serviceaccounts", "grandchild").is_none()
    );
}

#[test]
fn a_foreground_deletion_removes_the_owner_last() {
    let mut cluster = Cluster::with_nodes(1);
    let parent = cluster.create("configmaps", json!({ "metadata": { "name": "parent" } }));
    cluster.pod("child", &json!({ "metadata": { "ownerReferences": owned_by(&parent) } }));
    cluster.settle();
    cluster.delete_as("configmaps", "parent", Propagation::Foreground);
    cluster.settle();
    assert!(deleting(&cluster.get("configmaps", "parent")), "it waits for the Pod to stop");
    assert!(deleting(&cluster.get("pods", "child")));
    cluster.remove_pod("child");
    cluster.settle();
    assert!(cluster.find("configmaps", "parent").is_none());
}

#[test]
fn in_a_foreground_deletion_dependents_wait_for_their_dependents() {
    let mut cluster = Cluster::with_nodes(0);
    let [_, _, grandchild] = family(&cluster);
    let held = json!({ "metadata": { "finalizers": ["example.org/hold"] } });
    cluster.edit("serviceaccounts", "grandchild", &held);
    cluster.delete_as("configmaps", "parent", Propagation::Foreground);
    cluster.settle();
    assert!(deleting(&cluster.get("secrets", "child")) && deleting(&cluster.get("configmaps", "parent")));
    cluster.edit("serviceaccounts", "grandchild", &json!({ "metadata": { "finalizers": [] } }));
    cluster.settle();
    assert!(cluster.find("configmaps", "parent").is_none() && cluster.find("secrets", "child").is_none());
    assert!(cluster.find("serviceaccounts", "grandchild").is_none(), "{grandchild}");
}

#[test]
fn a_dependent_that_does_not_block_does_not_delay_its_owner() {
    let mut cluster = Cluster::with_nodes(0);
    let parent = cluster.create("configmaps", json!({ "metadata": { "name": "parent" } }));
    let mut owners = owned_by(&parent);
    owners[0]["blockOwnerDeletion"] = json!(false);
    let metadata = json!({ "name": "child", "ownerReferences": owners, "finalizers": ["example.org/hold"] });
    cluster.create("secrets", json!({ "metadata": metadata }));
    cluster.delete_as("configmaps", "parent", Propagation::Foreground);
    cluster.settle();
    assert!(cluster.find("configmaps", "parent").is_none());
    assert!(deleting(&cluster.get("secrets", "child")));
}

#[test]
fn orphans_are_kept_without_their_owner_reference() {
    let mut cluster = Cluster::with_nodes(0);
    family(&cluster);
    cluster.delete_as("configmaps", "parent", Propagation::Orphan);
    cluster.settle();
    assert!(cluster.find("configmaps", "parent").is_none());
    let child = cluster.get("secrets", "child");
    assert!(items(&child, "/metadata/ownerReferences").is_empty());
}

#[test]
fn an_object_with_the_owners_name_but_another_uid_is_not_the_owner() {
    let mut cluster = Cluster::with_nodes(0);
    family(&cluster);
    cluster.delete("configmaps", "parent");
    cluster.create("configmaps", json!({ "metadata": { "name": "parent" } }));
    cluster.settle();
    assert!(cluster.find("secrets", "child").is_none() && cluster.find("configmaps", "parent").is_some());
}

#[test]
fn one_existing_owner_keeps_a_dependent() {
    let mut cluster = Cluster::with_nodes(0);
    let [one, other] =
        ["one", "other"].map(|name| cluster.create("configmaps", json!({ "metadata": { "name": name } })));
    let mut also = owned_by(&one)[0].clone();
    also["controller"] = json!(false);
    let owners = json!([also, owned_by(&other)[0]]);
    cluster.create("secrets", json!({ "metadata": { "name": "child", "ownerReferences": owners } }));
    cluster.delete("configmaps", "one");
    cluster.settle();
    let child = cluster.get("secrets", "child");
    assert_eq!(
        child["metadata"]["ownerReferences"],
        owned_by(&other),
        "the reference to the deleted owner is removed"
    );
    cluster.delete("configmaps", "other");
    cluster.settle();
    assert!(cluster.find("secrets", "child").is_none());
}
