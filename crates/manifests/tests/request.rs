//! The HTTP requests of writes.

use crate::world::{World, plain};
use quorate_api::status::EtcdClusterStatus;
use quorate_manifests::request::{write_record, write_status};
use quorate_manifests::{Act, Kind, Write};
use quorate_model::{AppliedObject, Effect, KubeEffect, Step};
use serde_json::{Value, json};

fn sent(write: &Write) -> (String, String, String, Value) {
    let request = write.http().unwrap();
    let kind = request.headers().get("content-type").unwrap().to_str().unwrap().to_owned();
    let body = serde_json::from_slice(request.body()).unwrap();
    (request.method().to_string(), request.uri().to_string(), kind, body)
}

#[test]
fn each_act_is_sent_as_the_request_that_kubernetes_expects() {
    let write = |kind, act| Write { kind, namespace: "apps".to_owned(), name: "demo-0".to_owned(), act };
    let (method, uri, kind, body) = sent(&write(Kind::Pod, Act::Create(json!({ "kind": "Pod" }))));
    assert_eq!((&*method, uri.trim_end_matches('?')), ("POST", "/api/v1/namespaces/apps/pods"));
    assert_eq!((&*kind, body), ("application/json", json!({ "kind": "Pod" })));

    let (method, uri, kind, _) = sent(&write(Kind::Budget, Act::Patch(json!({}))));
    let path = "/apis/policy/v1/namespaces/apps/poddisruptionbudgets/demo-0";
    assert_eq!(
        (&*method, uri.trim_end_matches('?'), &*kind),
        ("PATCH", path, "application/merge-patch+json")
    );

    let (method, uri, _, _) = sent(&write(Kind::Cluster, Act::PatchStatus(json!({}))));
    let path = "/apis/operator.etcd.io/v1alpha1/namespaces/apps/etcdclusters/demo-0/status";
    assert_eq!((&*method, uri.trim_end_matches('?')), ("PATCH", path));

    let delete = Act::Delete { uid: "u".to_owned(), resource_version: "7".to_owned() };
    let (method, uri, _, body) = sent(&write(Kind::Volume, delete));
    assert_eq!(
        (&*method, uri.trim_end_matches('?')),
        ("DELETE", "/api/v1/namespaces/apps/persistentvolumeclaims/demo-0")
    );
    assert_eq!(body["preconditions"], json!({ "uid": "u", "resourceVersion": "7" }));
    assert!(body.get("gracePeriodSeconds").is_none(), "nothing is force-deleted");
}

#[test]
fn status_is_patched_with_its_changes_and_only_in_the_version_that_was_read() {
    let world = World::running(1);
    let cluster = world.cluster();
    let mut status = world.status();
    assert_eq!(write_status(&cluster, &status), None);
    status.leader_id = None;
    status.ready_replicas = 0;
    let write = write_status(&cluster, &status).unwrap();
    let meta = &cluster.metadata;
    assert_eq!(
        write.act,
        Act::PatchStatus(json!({
            "metadata": { "uid": meta.uid, "resourceVersion": meta.resource_version },
            "status": { "leaderID": null, "readyReplicas": 0 },
        }))
    );
    assert_eq!(write.object(), "EtcdCluster default/demo");
}

#[test]
fn h01_bootstrap_pods_are_created_gated_and_ungated_without_touching_the_gates_of_others() {
    let gates = |world: &World| {
        let pod = &world.objects[&(Kind::Pod, "demo-0".to_owned())];
        pod["spec"]["schedulingGates"].clone()
    };
    let others = json!([{ "name": "example.org/quota" }]);
    for (added, left) in [(json!([]), Value::Null), (others.clone(), others)] {
        let mut world = World::new(&plain(1));
        while !world.objects.contains_key(&(Kind::Pod, "demo-0".to_owned())) {
            world.pass();
        }
        assert_eq!(gates(&world), json!([{ "name": "operator.etcd.io/bootstrap" }]));
        world.edit(Kind::Pod, "demo-0", |pod| {
            pod["spec"]["schedulingGates"].as_array_mut().unwrap().extend(added.as_array().unwrap().clone());
        });
        world.pass();
        assert_eq!(gates(&world), left);
    }
    let mut world = World::running(1);
    world.remove(Kind::Pod, "demo-0");
    world.pass();
    assert_eq!(gates(&world), Value::Null, "the Pod of a member that has data is not gated");
}

#[test]
fn the_status_that_a_plan_depends_on_is_confirmed_before_its_effects() {
    let world = World::running(1);
    let (cluster, status) = (world.cluster(), world.status());
    assert_eq!(write_record(&cluster, &status, &[]), None, "at rest nothing is sent");
    let write = write_record(
        &cluster,
        &status,
        &[Effect::kube(Step::B2, KubeEffect::Apply(AppliedObject::PeerService))],
    )
    .unwrap();
    let meta = &cluster.metadata;
    assert_eq!(
        write.act,
        Act::PatchStatus(
            json!({ "metadata": { "uid": meta.uid, "resourceVersion": meta.resource_version } })
        )
    );
    let changed = EtcdClusterStatus { leader_id: None, ..status };
    assert_eq!(write_record(&cluster, &changed, &[]), write_status(&cluster, &changed));
}

#[test]
fn an_order_whose_annotation_is_removed_after_the_member_was_goes_on_and_status_says_so() {
    let mut world = World::running(2);
    world.edit(Kind::Cluster, "demo", |cluster| cluster["spec"]["size"] = json!(3));
    world.pass();
    // demo-7 is removed, and the member that takes its place does not vote yet.
    world.edit(Kind::Cluster, "demo", |cluster| {
        cluster["status"]["recovery"]["active"] =
            json!({ "member": "demo-7", "cause": "Ordered", "since": "2026-11-24T00:00:00.000000Z" });
    });
    let told = world.condition("SingleMemberRecoveryActive").2;
    assert!(told.contains("demo-7 is removed, so this goes on"), "{told}");
}

#[test]
fn an_order_whose_annotation_is_removed_while_the_member_is_a_voter_is_not_said_to_go_on() {
    let mut world = World::running(3);
    world.edit(Kind::Cluster, "demo", |cluster| {
        cluster["spec"]["paused"] = json!(true);
        cluster["status"]["recovery"]["active"] =
            json!({ "member": "demo-1", "cause": "Ordered", "since": "2026-11-24T00:00:00.000000Z" });
    });
    let told = world.condition("SingleMemberRecoveryActive").2;
    assert!(told.contains("Once the present halt is over this is withdrawn"), "{told}");
    assert!(!told.contains("goes on"), "{told}");
}
