//! Answers that once differed from the real server's.

use serde_json::{Value, json};

use super::world::World;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";

#[tokio::test]
async fn an_update_must_name_its_object() {
    let world = World::new();
    let refusal = world.send("PUT", &format!("{MAPS}/a"), &json!({})).await.unwrap_err();
    assert_eq!(refusal.code, 400);
    assert_eq!(
        refusal.message,
        "the name of the object (a based on URL) was undeterminable: name must be provided"
    );
}

#[tokio::test]
async fn delete_options_in_the_body_override_those_in_the_url() {
    let world = World::new();
    world.send("POST", SECRETS, &json!({"metadata": {"name": "a"}})).await.unwrap();
    world
        .send("DELETE", &format!("{SECRETS}/a?dryRun=All"), &json!({"kind": "DeleteOptions"}))
        .await
        .unwrap();
    assert_eq!(world.get(&format!("{SECRETS}/a")).await.unwrap_err().code, 404);
}

#[tokio::test]
async fn the_last_deletion_decides_the_propagation() {
    let world = World::new();
    let held = json!({"metadata": {"name": "a", "finalizers": ["example.org/hold"]}});
    world.send("POST", MAPS, &held).await.unwrap();
    let delete = async |policy: &str| {
        let options = json!({"propagationPolicy": policy});
        let left = world.send("DELETE", &format!("{MAPS}/a"), &options).await.unwrap();
        left["metadata"]["finalizers"].clone()
    };
    assert_eq!(delete("Foreground").await, json!(["example.org/hold", "foregroundDeletion"]));
    assert_eq!(delete("Orphan").await, json!(["example.org/hold", "orphan"]));
    assert_eq!(delete("Background").await, json!(["example.org/hold"]));
    let refusal = world.send("POST", MAPS, &held).await.unwrap_err();
    assert_eq!(refusal.message, "object is being deleted: configmaps \"a\" already exists");
}

#[tokio::test]
async fn text_and_binary_data_share_no_key_and_finalizers_are_qualified() {
    let world = World::new();
    for (wrong, field) in [
        (json!({"data": {"k": "x"}, "binaryData": {"k": "AAE="}}), "data[k]"),
        (json!({"metadata": {"finalizers": ["plain"]}}), "metadata.finalizers[0]"),
        (json!({"metadata": {"generateName": "Made-"}}), "metadata.generateName"),
    ] {
        let mut object = wrong;
        if object["metadata"]["generateName"] == Value::Null {
            object["metadata"]["name"] = json!("a");
        }
        let refusal = world.send("POST", MAPS, &object).await.unwrap_err();
        assert!(refusal.code == 422 && refusal.message.contains(field), "{}", refusal.message);
    }
}

#[tokio::test]
async fn list_items_of_built_in_kinds_have_no_kind() {
    let world = World::new();
    world.send("POST", MAPS, &json!({"metadata": {"name": "a"}})).await.unwrap();
    let list = world.get(MAPS).await.unwrap();
    assert_eq!(list["kind"], "ConfigMapList");
    assert!(list["items"][0].get("kind").is_none() && list["items"][0].get("apiVersion").is_none());
}
