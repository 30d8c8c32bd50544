//! The `kube` crate as the client: reflectors, preconditions, finalizers, pages, eviction.

use std::pin::pin;
use std::time::Duration;

use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{DeleteParams, EvictParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::runtime::{WatchStreamExt as _, reflector, watcher};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::world::{World, object, refusal_of, thing};

#[tokio::test]
async fn a_reflector_follows_every_change() {
    let world = World::with_things().await;
    let things = world.things();
    things.create(&PostParams::default(), &object(&thing("before", &json!({"size": 1})))).await.unwrap();
    let resource = kube::api::ApiResource::from_gvk(&kube::api::GroupVersionKind::gvk("x.io", "v1", "Thing"));
    let writer = reflector::store::Writer::new(resource);
    let reader = writer.as_reader();
    let stream = watcher(things.clone(), watcher::Config::default()).reflect(writer).applied_objects();
    let follow = async {
        let mut stream = pin!(stream);
        while let Some(seen) = stream.try_next().await.unwrap() {
            if seen.data["status"]["note"] == "enough" {
                return;
            }
        }
        panic!("the watch ended");
    };
    let act = async {
        reader.wait_until_ready().await.unwrap();
        assert_eq!(reader.state().len(), 1);
        things.create(&PostParams::default(), &object(&thing("after", &json!({"size": 1})))).await.unwrap();
        things.delete("before", &DeleteParams::default()).await.unwrap();
        let status = json!({"status": {"note": "enough"}});
        things.patch_status("after", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    };
    tokio::time::timeout(Duration::from_secs(10), futures::future::join(follow, act)).await.unwrap();
    let names: Vec<String> = reader.state().iter().map(|thing| thing.name_any()).collect();
    assert_eq!(names, ["after"]);
}

#[tokio::test]
async fn a_deletion_with_preconditions_deletes_exactly_that_object() {
    let world = World::new();
    let maps: Api<ConfigMap> = Api::default_namespaced(world.client.clone());
    let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "a"}})).unwrap();
    let seen = maps.create(&PostParams::default(), &map).await.unwrap();
    let delete = async |uid: Option<String>, resource_version: Option<String>| {
        let preconditions = Some(Preconditions { uid, resource_version });
        refusal_of(maps.delete("a", &DeleteParams { preconditions, ..DeleteParams::default() }).await)
            .map(drop)
    };
    let refusal = delete(Some("other".to_owned()), None).await.unwrap_err();
    assert_eq!((refusal.code, refusal.reason.as_str()), (409, "Conflict"));
    assert!(refusal.message.starts_with(
        "Operation cannot be fulfilled on ConfigMap \"a\": the UID in the precondition (other) does not match"
    ));
    let changed = Patch::Merge(json!({"data": {"x": "y"}}));
    let newer = maps.patch("a", &PatchParams::default(), &changed).await.unwrap();
    let refusal = delete(seen.uid(), seen.resource_version()).await.unwrap_err();
    assert!(refusal.message.contains("The object might have been modified"), "{}", refusal.message);
    delete(seen.uid(), newer.resource_version()).await.unwrap();
    assert_eq!(delete(seen.uid(), None).await.unwrap_err().code, 404);
}

#[tokio::test]
async fn an_update_with_another_uid_is_refused() {
    let world = World::new();
    let maps: Api<ConfigMap> = Api::default_namespaced(world.client.clone());
    let mut map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "a"}})).unwrap();
    maps.create(&PostParams::default(), &map).await.unwrap();
    map.metadata.uid = Some("other".to_owned());
    let refusal = refusal_of(maps.replace("a", &PostParams::default(), &map).await).unwrap_err();
    assert_eq!(refusal.code, 409);
    assert!(
        refusal.message.contains("Precondition failed: UID in precondition: other"),
        "{}",
        refusal.message
    );
    let patch = Patch::Merge(json!({"metadata": {"uid": "other"}}));
    let refusal = refusal_of(maps.patch("a", &PatchParams::default(), &patch).await).unwrap_err();
    assert_eq!(
        refusal.message,
        "ConfigMap \"a\" is invalid: metadata.uid: Invalid value: \"other\": field is immutable"
    );
}

#[tokio::test]
async fn an_object_with_finalizers_stays_until_the_last_is_gone() {
    let world = World::with_things().await;
    let (things, params) = (world.things(), PatchParams::default());
    things.create(&PostParams::default(), &object(&thing("a", &json!({"size": 1})))).await.unwrap();
    let finalizers = |list: &[&str]| Patch::Merge(json!({"metadata": {"finalizers": list}}));
    things.patch("a", &params, &finalizers(&["x.io/a", "x.io/b"])).await.unwrap();
    let marked = things.delete("a", &DeleteParams::default()).await.unwrap().left().unwrap();
    assert!(marked.metadata.deletion_timestamp.is_some());
    assert_eq!(marked.metadata.generation, Some(2), "a deletion raises the generation");
    let again = things.delete("a", &DeleteParams::default()).await.unwrap().left().unwrap();
    assert_eq!(again.resource_version(), marked.resource_version(), "once is enough");
    let refusal =
        refusal_of(things.patch("a", &params, &finalizers(&["x.io/a", "x.io/c"])).await).unwrap_err();
    assert!(refusal.message.ends_with(r#"found new finalizers []string{"x.io/c"}"#), "{}", refusal.message);
    things.patch("a", &params, &finalizers(&["x.io/b"])).await.unwrap();
    things.patch("a", &params, &finalizers(&[])).await.unwrap();
    assert_eq!(refusal_of(things.get("a").await).unwrap_err().code, 404);
}

#[tokio::test]
async fn a_list_comes_in_pages() {
    let world = World::new();
    let maps: Api<ConfigMap> = Api::default_namespaced(world.client.clone());
    for number in 0..5 {
        let map = json!({"metadata": {"name": format!("m{number}"), "labels": {"odd": (number % 2 == 1).to_string()}}});
        maps.create(&PostParams::default(), &serde_json::from_value(map).unwrap()).await.unwrap();
    }
    let (mut names, mut params) = (Vec::new(), ListParams::default().limit(2));
    loop {
        let page = maps.list(&params).await.unwrap();
        assert!(page.items.len() <= 2);
        names.extend(page.items.iter().map(ResourceExt::name_any));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => break,
        }
    }
    assert_eq!(names, ["m0", "m1", "m2", "m3", "m4"]);
    let odd = maps.list(&ListParams::default().labels("odd=true")).await.unwrap();
    assert_eq!(odd.items.len(), 2);
    maps.delete_collection(&DeleteParams::default(), &ListParams::default().labels("odd=true"))
        .await
        .unwrap();
    assert_eq!(maps.list(&ListParams::default()).await.unwrap().items.len(), 3);
}

#[tokio::test]
async fn a_dry_run_returns_the_result_and_changes_nothing() {
    let world = World::with_things().await;
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let shown = world.things().create(&dry, &object(&thing("a", &json!({"size": 1})))).await.unwrap();
    assert_eq!(shown.data["spec"]["flag"], true);
    assert_eq!(refusal_of(world.things().get("a").await).unwrap_err().code, 404);
    let refused = world.things().create(&dry, &object(&thing("a", &json!({"size": -1})))).await;
    assert_eq!(refusal_of(refused).unwrap_err().code, 422);
}

#[tokio::test]
async fn an_eviction_that_the_budget_does_not_allow_is_too_many_requests() {
    let world = World::new();
    let pods: Api<Pod> = Api::default_namespaced(world.client.clone());
    for name in ["a", "b"] {
        let pod = json!({"metadata": {"name": name, "labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "c"}]}});
        pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
        let status =
            json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        pods.patch_status(name, &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    }
    let budget = json!({"metadata": {"name": "x"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}});
    world.send("POST", "/apis/policy/v1/namespaces/default/poddisruptionbudgets", &budget).await.unwrap();
    quorate_localkube::controllers::ControlPlane::new(world.kube.store()).settle();
    pods.evict("a", &EvictParams::default()).await.unwrap();
    let refusal = refusal_of(pods.evict("b", &EvictParams::default()).await).unwrap_err();
    assert_eq!((refusal.code, refusal.reason.as_str()), (429, "TooManyRequests"));
    assert_eq!(refusal.message, "Cannot evict pod as it would violate the pod's disruption budget.");
    pods.get("b").await.unwrap();
}

#[tokio::test]
async fn a_missing_or_terminating_namespace_accepts_no_objects() {
    let world = World::new();
    let nowhere: Api<ConfigMap> = Api::namespaced(world.client.clone(), "nope");
    let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "a"}})).unwrap();
    let refusal = refusal_of(nowhere.create(&PostParams::default(), &map).await).unwrap_err();
    assert_eq!((refusal.code, refusal.message.as_str()), (404, "namespaces \"nope\" not found"));
    world.send("POST", "/api/v1/namespaces", &json!({"metadata": {"name": "going"}})).await.unwrap();
    world.send("DELETE", "/api/v1/namespaces/going", &json!({})).await.unwrap();
    let going: Api<ConfigMap> = Api::namespaced(world.client.clone(), "going");
    let refusal = refusal_of(going.create(&PostParams::default(), &map).await).unwrap_err();
    assert_eq!(refusal.code, 403);
    assert!(refusal.message.ends_with("because it is being terminated"), "{}", refusal.message);
}
