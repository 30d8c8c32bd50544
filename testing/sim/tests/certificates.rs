//! Certificates in the simulation: one authority for the life of a cluster, and leaves that are renewed in place.

use quorate_manifests::Kind;
use quorate_model::Span;
use quorate_sim::history::{History, sound_story};
use quorate_sim::world::World;
use quorate_sim::world::faults::Fault;
use serde_json::{Value, json};

use crate::kubelets::condition;

fn with_tls(size: u32) -> Value {
    json!({ "size": size, "version": "3.6.16", "storageSpec": { "volumeSizeRequest": "1Gi" } })
}

fn at_rest(size: u32) -> World {
    let mut world = History { spec: with_tls(size), ..History::default() }.start();
    while world.go().is_some() {}
    world
}

/// The history ends without a violation. Returns whether all its departures happened.
#[track_caller]
fn ends_well(history: &Value) -> bool {
    sound_story(history).all_came_about()
}

#[test]
fn s03_a_crash_at_each_step_or_a_lost_or_late_request_leaves_one_authority() {
    let points = ["before:B2", "after:B2", "before:I1", "after:I1", "before:I2", "after:I2"];
    let crashes = points.into_iter().filter(|at| {
        let crash = json!({ "at": at, "what": { "fault": "crash" } });
        ends_well(&json!({ "spec": with_tls(3), "departures": [crash] }))
    });
    assert!(
        crashes.count() >= 4,
        "the record is written in the step that observes, so a crash is before or after both"
    );
    let mut requests = 0;
    for step in 0..12 {
        for outcome in ["reply-lost", "lost", "late", "twice"] {
            let request = json!({ "at": step, "what": { "fault": { "request": outcome } } });
            requests += usize::from(ends_well(&json!({ "spec": with_tls(1), "departures": [request] })));
        }
    }
    assert!(requests >= 40, "{requests}");
}

#[test]
fn s03_two_operators_create_one_authority() {
    for at in ["before:B2", "before:I2"] {
        for fault in ["two-lead", "paused"] {
            let departure = json!({ "at": at, "what": { "fault": fault } });
            assert!(ends_well(&json!({ "spec": with_tls(3), "departures": [departure] })), "{fault} {at}");
        }
    }
}

#[test]
fn s03_without_its_authority_a_cluster_serves_on_and_members_trust_each_other() {
    let mut world = at_rest(3);
    let remove = |name: &str| Fault::Remove("Secret".to_owned(), name.to_owned());
    assert!(world.strike(&remove("demo-ca")));
    assert!(world.strike(&remove("demo-server-tls")));
    assert!(world.strike(&Fault::KillPod("demo-1".to_owned())));
    for _ in 0..40 {
        world.go();
        if !world.names(Kind::Secret).contains(&"demo-ca".to_owned()) {
            assert!(!world.names(Kind::Secret).contains(&"demo-server-tls".to_owned()), "who signed it?");
        }
    }
    // The person restores the authority. Then the leaf is issued, and the member restarts.
    while world.go().is_some() {}
    world.judge_rest();
    assert_eq!(world.oracle.violation(), None);
    assert_eq!(condition(&world, "TLSReady"), "True CertificatesIssued");
}

#[test]
fn s04_leaves_are_renewed_as_time_passes_and_then_nothing_is_written() {
    let mut world = at_rest(3);
    let leaf =
        |world: &World| world.object(Kind::Secret, "demo-server-tls").unwrap()["data"]["tls.crt"].clone();
    let pods = world.names(Kind::Pod);
    let (first, of_pods) = (leaf(&world), uids(&world));
    for _ in 0..3 {
        let before = leaf(&world);
        world.advance(Span::seconds(245 * 86_400));
        world.operate();
        while world.go().is_some() {}
        world.judge_rest();
        assert_eq!(world.oracle.violation(), None);
        assert_ne!(leaf(&world), before);
    }
    assert_ne!(leaf(&world), first);
    assert_eq!((world.names(Kind::Pod), uids(&world)), (pods, of_pods), "nothing restarts");
}

fn uids(world: &World) -> Vec<Value> {
    world.objects(Kind::Pod).iter().map(|pod| pod["metadata"]["uid"].clone()).collect()
}
