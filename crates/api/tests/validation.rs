//! Bad input is refused with a message that says what to do, good input passes: `validation.yaml`, case by case.

use quorate_api::{EtcdCluster, crd};
use serde_json::{Value, json};

mod case;
pub mod judge;

fn schema() -> Value {
    let schema =
        crd("EtcdCluster").unwrap().spec.versions.remove(0).schema.unwrap().open_api_v3_schema.unwrap();
    serde_json::to_value(schema).unwrap()
}

#[test]
fn every_bad_input_gets_its_message_and_every_good_one_passes() {
    let schema = schema();
    let cases = case::all();
    let mut failures = Vec::new();
    for case in &cases {
        let (before, after) = case.objects();
        let refusals = judge::refusals(&schema, before.as_ref(), &after);
        let mut unexpected = refusals.clone();
        for desired in &case.refused {
            match unexpected.iter().position(|refusal| refusal.contains(desired.as_str())) {
                Some(found) => drop(unexpected.remove(found)),
                None => {
                    failures.push(format!("{}: not refused with {desired:?} but {refusals:?}", case.title));
                }
            }
        }
        if !unexpected.is_empty() {
            failures.push(format!("{}: refused with {unexpected:?}", case.title));
        }
    }
    assert!(failures.is_empty(), "{} of {} cases:\n{}", failures.len(), cases.len(), failures.join("\n"));
}

#[test]
fn t09_an_edit_of_what_is_fixed_that_was_never_carried_out_can_be_taken_back() {
    let cluster = |spec: Value| {
        json!({
            "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdCluster", "metadata": {"name": "demo"},
            "spec": spec,
            "status": {"clusterID": "8e9e05c52164694d", "target": {
                "size": 3, "version": "3.6.16", "tls": false, "pod": {"revision": "r", "imageHasVersion": true, "template": "{}"},
                "storage": {"medium": "", "accessMode": "ReadWriteOnce", "bytes": 1, "whenDeleted": "Retain", "whenScaled": "Delete"},
            }},
        })
    };
    let spec = |provider: &str, medium: &str, mode: &str| {
        cluster(json!({
            "size": 3, "version": "3.6.16", "tls": {"provider": provider},
            "storageSpec": {"medium": medium, "accessModes": mode, "volumeSizeRequest": "1Gi"},
        }))
    };
    let refusals = |before: &Value, after: &Value| judge::refusals(&schema(), Some(before), after);
    let (right, wrong) = (spec("disabled", "", "ReadWriteOnce"), spec("auto", "Memory", "ReadWriteOncePod"));
    assert_eq!(refusals(&wrong, &right), Vec::<String>::new());
    assert_eq!(refusals(&right, &wrong).len(), 3);
}

#[test]
fn the_samples_are_accepted() {
    for sample in [
        include_str!("../../../config/samples/etcdcluster.yaml"),
        include_str!("../../../config/samples/etcdcluster-etcd-io.yaml"),
        include_str!("../../../config/samples/etcdcluster-restored.yaml"),
        include_str!("../../../config/samples/hosting-own.yaml"),
        include_str!("../../../config/samples/hosting-dedicated.yaml"),
        include_str!("../../../config/samples/hosting-shared.yaml").split("---").next().unwrap(),
    ] {
        let object: Value = serde_yaml_ng::from_str(sample).unwrap();
        assert_eq!(judge::refusals(&schema(), None, &object), Vec::<String>::new());
    }
}

#[test]
fn every_fact_in_status_survives_the_definition_and_the_types() {
    let object = json!({
        "apiVersion": "operator.etcd.io/v1alpha1",
        "kind": "EtcdCluster",
        "metadata": { "name": "demo" },
        "spec": { "size": 3, "version": "3.6.16" },
        "status": {
            "formatVersion": 1,
            "observedGeneration": 7,
            "phase": "Scaling",
            "clusterID": "8e9e05c52164694d",
            "clusterToken": "4be1cbb2-5b0f-4d6c-8f77-0a8e3ac1e2b1-1",
            "currentReplicas": 3,
            "readyReplicas": 2,
            "memberCount": 3,
            "leaderID": "91bc3c398fb3c146",
            "currentVersion": "3.6.15",
            "targetVersion": "3.6.16",
            "selector": "operator.etcd.io/cluster=demo",
            "bootstrap": { "attempt": 2, "abandoned": "VolumeEmptied" },
            "target": {
                "size": 3,
                "version": "3.6.16",
                "tls": true,
                "pod": {
                    "revision": "5f2a19b33eb1",
                    "imageHasVersion": true,
                    "template": "{\"image\":\"gcr.io/etcd-development/etcd:v3.6.16\"}",
                },
                "storage": {
                    "medium": "",
                    "class": "fast",
                    "accessMode": "ReadWriteOncePod",
                    "bytes": 8_589_934_592_u64,
                    "limitBytes": 9_223_372_036_854_775_807_u64,
                    "whenDeleted": "Retain",
                    "whenScaled": "Delete",
                },
            },
            "nextOrdinal": u32::MAX,
            "hibernating": true,
            "members": [{
                "name": "demo-4",
                "id": "91bc3c398fb3c146",
                "phase": "Leaving",
                "phaseSince": "2026-10-03T12:00:00.123000Z",
                "leaving": "RolledBack",
                "volumeUID": "0c8f27b4-8a5d-4f39-9a94-6a5b7f1f6f0e",
                "role": "learner",
                "isLeader": false,
                "healthy": false, "isHealthy": false, "isLearner": false,
                "version": "3.6.16",
                "nodeName": "n1",
                "pvcName": "demo-4",
                "reason": "does not answer",
                "since": "2026-10-03T12:00:00Z",
            }],
            "conditions": [{
                "type": "Available",
                "status": "True",
                "reason": "Available",
                "message": "3 of 3 voters answer",
                "lastTransitionTime": "2026-10-03T12:00:00Z",
                "observedGeneration": 7,
            }],
        },
    });
    assert_eq!(judge::refusals(&schema(), None, &object), Vec::<String>::new());
    let read: EtcdCluster = serde_json::from_value(object.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap()["status"], object["status"]);
}
