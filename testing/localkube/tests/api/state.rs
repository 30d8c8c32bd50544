//! The state can be saved to a file and restored.

use kube::api::PostParams;
use serde_json::json;

use super::world::{World, object, refusal_of, thing};

#[tokio::test]
async fn a_restored_state_is_the_same_with_its_kinds_and_rules() {
    let before = World::with_things().await;
    let made = before
        .things()
        .create(&PostParams::default(), &object(&thing("a", &json!({"size": 1}))))
        .await
        .unwrap();
    let after = World::new();
    after.kube.restore(&before.kube.snapshot()).unwrap();
    assert_eq!(after.things().get("a").await.unwrap(), made);
    let refused =
        after.things().create(&PostParams::default(), &object(&thing("b", &json!({"size": 99})))).await;
    assert_eq!(refusal_of(refused).unwrap_err().code, 422);
    let next = after
        .things()
        .create(&PostParams::default(), &object(&thing("b", &json!({"size": 2}))))
        .await
        .unwrap();
    let version = |text: Option<String>| text.unwrap().parse::<u64>().unwrap();
    assert!(version(next.metadata.resource_version) > version(made.metadata.resource_version));
}

#[tokio::test]
async fn an_invalid_saved_state_is_refused_and_changes_nothing() {
    let world = World::with_things().await;
    for state in [json!({}), json!({"version": 1}), json!({"version": 1, "objects": [{}]})] {
        assert!(world.kube.restore(&state).is_err(), "{state}");
    }
    let things = world.api("apiextensions.k8s.io/v1", "CustomResourceDefinition", false);
    things.get("things.x.io").await.expect("still there");
}

#[tokio::test]
async fn health_and_version_are_served() {
    let world = World::new();
    for path in ["/healthz", "/readyz", "/livez"] {
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        assert_eq!(world.client.request_text(request).await.unwrap(), "ok");
    }
    assert_eq!(world.client.apiserver_version().await.unwrap().major, "1");
}
