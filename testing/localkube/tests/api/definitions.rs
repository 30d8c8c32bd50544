//! Custom resource definitions are created and deleted, and their kinds with them.

use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use super::world::{World, object, refusal_of, thing, things};

const PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

#[tokio::test]
async fn a_definition_is_established_at_once() {
    let world = World::with_things().await;
    let definition = world.get(&format!("{PATH}/things.x.io")).await.unwrap();
    for (index, kind) in ["NamesAccepted", "Established"].into_iter().enumerate() {
        let condition = &definition["status"]["conditions"][index];
        assert_eq!((&condition["type"], &condition["status"]), (&json!(kind), &json!("True")));
    }
    assert_eq!(definition["status"]["storedVersions"], json!(["v1"]));
}

#[tokio::test]
async fn an_invalid_definition_is_refused() {
    let world = World::new();
    let mut misnamed = things();
    misnamed["metadata"]["name"] = json!("other.x.io");
    let refusal = world.send("POST", PATH, &misnamed).await.unwrap_err();
    assert!(refusal.message.contains(r#"must be spec.names.plural+"."+spec.group"#), "{}", refusal.message);
    let mut broken = things();
    let rules = "/spec/versions/0/schema/openAPIV3Schema/x-kubernetes-validations/0/rule";
    *broken.pointer_mut(rules).unwrap() = json!("size(self.metadata.name <");
    let refusal = world.send("POST", PATH, &broken).await.unwrap_err();
    assert_eq!((refusal.code, refusal.reason.as_str()), (422, "Invalid"));
}

#[tokio::test]
async fn a_definition_is_removed_after_the_last_object_of_its_kind() {
    let world = World::with_things().await;
    let (things, params) = (world.things(), PatchParams::default());
    for name in ["free", "held"] {
        things.create(&PostParams::default(), &object(&thing(name, &json!({"size": 1})))).await.unwrap();
    }
    let held = json!({"metadata": {"finalizers": ["x.io/hold"]}});
    things.patch("held", &params, &Patch::Merge(&held)).await.unwrap();

    let definitions = world.api("apiextensions.k8s.io/v1", "CustomResourceDefinition", false);
    definitions.delete("things.x.io", &DeleteParams::default()).await.unwrap();
    let left = things.list(&kube::api::ListParams::default()).await.unwrap();
    assert_eq!(left.items.len(), 1, "the object with the finalizer exists and is still served");
    assert!(left.items[0].metadata.deletion_timestamp.is_some());
    let definition = world.get(&format!("{PATH}/things.x.io")).await.unwrap();
    assert_eq!(definition["status"]["conditions"][2]["type"], "Terminating");

    things.patch("held", &params, &Patch::Merge(&json!({"metadata": {"finalizers": null}}))).await.unwrap();
    assert_eq!(refusal_of(definitions.get("things.x.io").await).unwrap_err().code, 404);
    let gone = refusal_of(things.get("held").await).unwrap_err();
    assert_eq!(gone.message, "the server could not find the requested resource");
}
