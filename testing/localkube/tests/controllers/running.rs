//! All controllers together: they run by themselves, settle, and are deterministic.

use std::time::Duration;

use quorate_localkube::controllers::{ControlPlane, View, kinds, run};
use quorate_localkube::events::{Note, record};
use serde_json::json;

use super::cluster::Cluster;

#[tokio::test(start_paused = true)]
async fn the_controllers_run_at_every_change() {
    let cluster = Cluster::with_nodes(1);
    let store = cluster.store.clone();
    let running = tokio::spawn(async move { run(&store).await });
    let mut changed = cluster.store.subscribe();
    for name in ["demo-0", "demo-1"] {
        cluster.pod(name, &json!({}));
        let placed = async {
            while cluster.node_of(name).is_empty() {
                changed.changed().await.unwrap();
            }
        };
        tokio::time::timeout(Duration::from_secs(5), placed).await.unwrap();
    }
    running.abort();
}

#[test]
fn the_same_objects_give_the_same_nodes() {
    let placements = [0, 1].map(|_| {
        let mut cluster = Cluster::with_nodes(3);
        for number in 0..7 {
            cluster.claim(&format!("demo-{number}"), None);
            cluster.pod_with_claim(&format!("demo-{number}"));
        }
        cluster.settle();
        (0..7).map(|number| cluster.node_of(&format!("demo-{number}"))).collect::<Vec<_>>()
    });
    assert_eq!(placements[0], placements[1]);
}

#[test]
fn an_updated_view_equals_a_fresh_one() {
    let cluster = Cluster::with_nodes(1);
    let mut view = View::of(&cluster.store);
    assert!(!view.catch_up(&cluster.store), "nothing changed");
    cluster.pod("demo-0", &json!({}));
    cluster.claim("demo-0", None);
    cluster.delete("pods", "demo-0");
    assert!(view.catch_up(&cluster.store));
    let fresh = View::of(&cluster.store);
    assert!(view.everything().eq(fresh.everything()));
    assert!(view.get(kinds::PODS, "default", "demo-0").is_none());
}

#[test]
fn the_controllers_read_a_restored_store() {
    let mut cluster = Cluster::with_nodes(1);
    cluster.pod("demo-0", &json!({}));
    let before = cluster.store.snapshot();
    cluster.settle();
    cluster.store.restore(&before).unwrap();
    assert_eq!(cluster.node_of("demo-0"), "");
    cluster.settle();
    assert_eq!(cluster.node_of("demo-0"), "node-1");
}

#[test]
fn repeated_events_are_counted_and_old_ones_expire() {
    let mut cluster = Cluster::with_nodes(1);
    let pod = cluster.pod("demo-0", &json!({}));
    let note =
        Note::warning(&pod, "BackOff", "Back-off restarting failed container", "kubelet").host("node-1");
    for _ in 0..3 {
        record(&cluster.store, &note).unwrap();
        cluster.pass_seconds(10);
    }
    let reported = cluster.events_of(&pod);
    assert_eq!(reported, [("BackOff: Back-off restarting failed container".to_owned(), 3)]);
    let event = &cluster.all("events")[0];
    assert_ne!(event["firstTimestamp"], event["lastTimestamp"]);
    cluster.pass_seconds(3601);
    ControlPlane::new(&cluster.store).settle();
    assert!(cluster.events_of(&pod).iter().all(|(reported, _)| reported.starts_with("Scheduled")));
    cluster.settle();
}
