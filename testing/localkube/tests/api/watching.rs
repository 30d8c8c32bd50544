//! Watches: from a version, with selectors, bookmarks and timeouts.

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use serde_json::json;
use tokio::time::{Duration, Instant, advance};

use super::world::World;

fn maps(world: &World) -> Api<ConfigMap> {
    Api::default_namespaced(world.client.clone())
}

async fn make(world: &World, name: &str) -> String {
    let map = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    maps(world).create(&PostParams::default(), &map).await.unwrap().metadata.resource_version.unwrap()
}

async fn label(world: &World, name: &str, value: Option<&str>) {
    let patch = json!({"metadata": {"labels": {"app": value}}});
    maps(world).patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
}

fn describe(event: &WatchEvent<ConfigMap>) -> String {
    let name = |map: &ConfigMap| map.metadata.name.clone().unwrap();
    match event {
        WatchEvent::Added(map) => format!("+{}", name(map)),
        WatchEvent::Modified(map) => format!("~{}", name(map)),
        WatchEvent::Deleted(map) => format!("-{}", name(map)),
        WatchEvent::Bookmark(_) => "bookmark".to_owned(),
        WatchEvent::Error(status) => format!("error {}", status.code),
    }
}

#[tokio::test]
async fn a_watch_reports_exactly_the_changes_after_its_version() {
    let world = World::new();
    make(&world, "a").await;
    let version = make(&world, "b").await;
    make(&world, "c").await;
    label(&world, "a", Some("x")).await;
    let events = maps(&world).watch(&WatchParams::default(), &version).await.unwrap();
    let seen: Vec<String> = events.take(2).map_ok(|event| describe(&event)).try_collect().await.unwrap();
    assert_eq!(seen, ["+c", "~a"]);
}

#[tokio::test]
async fn with_a_selector_objects_are_added_and_deleted_as_they_match() {
    let world = World::new();
    let version = make(&world, "a").await;
    let params = WatchParams::default().labels("app=x");
    let events = maps(&world).watch(&params, &version).await.unwrap();
    for value in [Some("y"), Some("x"), None] {
        label(&world, "a", value).await;
    }
    let seen: Vec<String> = events.take(2).map_ok(|event| describe(&event)).try_collect().await.unwrap();
    assert_eq!(seen, ["+a", "-a"]);
}

#[tokio::test]
async fn a_version_that_is_no_longer_kept_is_expired() {
    let world = World::new();
    let version = make(&world, "a").await;
    world.kube.restore(&world.kube.snapshot()).unwrap();
    let mut events = maps(&world).watch(&WatchParams::default(), &version).await.unwrap().boxed();
    assert_eq!(describe(&events.try_next().await.unwrap().unwrap()), "error 410");
}

#[tokio::test(start_paused = true)]
async fn a_quiet_watch_gets_bookmarks_and_ends_at_its_timeout() {
    let world = World::new();
    let version = make(&world, "a").await;
    let began = Instant::now();
    let params = WatchParams::default().timeout(70);
    let events = maps(&world).watch(&params, &version).await.unwrap();
    let seen: Vec<String> = events.map_ok(|event| describe(&event)).try_collect().await.unwrap();
    assert_eq!(seen, ["bookmark", "bookmark"]);
    assert_eq!(began.elapsed().as_secs(), 70);
    advance(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn unsupported_watches_are_refused_with_an_alternative() {
    let world = World::new();
    let path = "/api/v1/configmaps?watch=true";
    let refusal = world.get(&format!("{path}&sendInitialEvents=true")).await.unwrap_err();
    assert_eq!((refusal.code, refusal.reason.as_str()), (422, "Invalid"), "clients then fall back to a list");
    assert_eq!(world.get(&format!("{path}&resourceVersion=x")).await.unwrap_err().code, 400);
    assert_eq!(world.get("/api/v1/configmaps?fieldSelector=data.x%3Dy").await.unwrap_err().code, 400);
}
