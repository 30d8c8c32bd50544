//! Objects as a Go program writes them that is built on the types of the etcd-io operator (`api/v1alpha1` at its commit 77c7f10): with
//! every field, and with what Go adds for a field that is left out. Each field is honoured or refused with a reason, and none dropped.

use quorate_api::{EtcdCluster, EtcdClusterStatus, crd};
use serde_json::{Value, json};

use crate::validation::judge;

fn schema() -> Value {
    let version = crd("EtcdCluster").unwrap().spec.versions.remove(0);
    serde_json::to_value(version.schema.unwrap().open_api_v3_schema.unwrap()).unwrap()
}

fn object(spec: &Value) -> Value {
    json!({
        "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdCluster", "metadata": { "name": "demo" },
        "spec": spec, "status": {},
    })
}

fn refusals(spec: &Value) -> Vec<String> {
    judge::refusals(&schema(), None, &object(spec))
}

/// What a reader of our types gets back of what was written, where it differs.
fn lost(written: &Value, read: &Value, path: &str) -> Vec<String> {
    match (written, read) {
        (Value::Object(written), Value::Object(read)) => written
            .iter()
            .flat_map(|(field, value)| {
                lost(value, read.get(field).unwrap_or(&Value::Null), &format!("{path}.{field}"))
            })
            .collect(),
        (Value::Object(written), Value::Null) if written.is_empty() => Vec::new(),
        (written, read) if written == read => Vec::new(),
        (written, read) => vec![format!("{path}: {written} became {read}")],
    }
}

/// A term with every field.
fn pod_term() -> Value {
    json!({
        "labelSelector": {
            "matchLabels": { "a": "b" },
            "matchExpressions": [{ "key": "a", "operator": "In", "values": ["b"] }],
        },
        "namespaces": ["a"], "topologyKey": "kubernetes.io/hostname", "namespaceSelector": {},
        "matchLabelKeys": ["a"], "mismatchLabelKeys": ["b"],
    })
}

fn node_term() -> Value {
    json!({
        "matchExpressions": [{ "key": "disk", "operator": "In", "values": ["fast"] }],
        "matchFields": [{ "key": "metadata.name", "operator": "NotIn", "values": ["n1"] }],
    })
}

/// The settings that both providers of certificates have.
fn common(ca_bundle_secret: Option<&str>) -> Value {
    let mut common = json!({
        "commonName": "etcd", "organizations": ["example"],
        "altNames": { "dnsNames": ["etcd.example.com"], "ipAddresses": ["192.0.2.1", "2001:db8::1"] },
        "validityDuration": "8760h",
    });
    if let Some(secret) = ca_bundle_secret {
        common["caBundleSecret"] = json!(secret);
    }
    common
}

/// Every field that is honoured.
fn full() -> Value {
    let pods = || {
        json!({
            "requiredDuringSchedulingIgnoredDuringExecution": [pod_term()],
            "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": 1, "podAffinityTerm": pod_term() }],
        })
    };
    json!({
        "size": 3,
        "imageRegistry": "registry.example/etcd",
        "version": "v3.6.16",
        "storageSpec": {
            "accessModes": "ReadWriteOnce", "storageClassName": "standard", "volumeSizeRequest": "1Gi",
            "volumeSizeLimit": "2Gi",
        },
        "tls": { "provider": "auto", "providerCfg": { "autoCfg": common(None) } },
        "etcdOptions": ["--log-level=debug"],
        "podTemplate": {
            "metadata": { "annotations": { "note": "b" }, "labels": { "team": "a" } },
            "spec": {
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [node_term()] },
                        "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": 1, "preference": node_term() }],
                    },
                    "podAffinity": pods(),
                    "podAntiAffinity": pods(),
                },
                "nodeSelector": { "disk": "fast" },
                "tolerations": [{
                    "key": "dedicated", "operator": "Equal", "value": "etcd", "effect": "NoExecute", "tolerationSeconds": 300,
                }],
            },
        },
    })
}

#[test]
fn every_field_that_is_honoured_is_accepted_and_read() {
    let full = full();
    assert_eq!(refusals(&full), Vec::<String>::new());
    let read: EtcdCluster = serde_json::from_value(object(&full)).unwrap();
    let read = serde_json::to_value(read.spec).unwrap();
    assert_eq!(lost(&full, &read, "spec"), Vec::<String>::new());
}

#[test]
fn what_go_writes_for_fields_that_are_left_out_is_accepted_and_means_nothing() {
    let least = json!({ "size": 3, "version": "v3.6.16" });
    // A quantity is no pointer: an absent limit is written as 0. Structs that are no pointers are written empty.
    let more = json!({
        "size": 3, "version": "v3.6.16", "imageRegistry": "registry.example/etcd",
        "storageSpec": { "volumeSizeRequest": "1Gi", "volumeSizeLimit": "0" },
        "tls": { "providerCfg": { "autoCfg": { "altNames": {} } } },
        "podTemplate": { "metadata": {}, "spec": {} },
    });
    for spec in [least, more] {
        assert_eq!(refusals(&spec), Vec::<String>::new());
        let read: EtcdCluster = serde_json::from_value(object(&spec)).unwrap();
        let read = serde_json::to_value(read.spec).unwrap();
        assert_eq!(lost(&spec, &read, "spec"), Vec::<String>::new());
    }
}

#[test]
fn what_is_not_honoured_is_refused_with_the_reason() {
    let mut spec = full();
    spec["storageSpec"]["accessModes"] = json!("ReadWriteMany");
    spec["storageSpec"]["pvcName"] = json!("shared");
    let mut cert_manager = common(Some("my-ca"));
    cert_manager["issuerKind"] = json!("ClusterIssuer");
    cert_manager["issuerName"] = json!("ca");
    spec["tls"] = json!({
        "provider": "cert-manager",
        "providerCfg": { "autoCfg": common(Some("my-ca")), "certManagerCfg": cert_manager },
    });
    let refusals = refusals(&spec);
    let expected = [
        "storageSpec.accessModes must be ReadWriteOnce or ReadWriteOncePod",
        "storageSpec.pvcName is not supported",
        "not supported: tls.providerCfg.certManagerCfg.caBundleSecret",
    ];
    for reason in expected {
        assert!(refusals.iter().any(|refusal| refusal.contains(reason)), "{reason}: {refusals:#?}");
    }
    assert_eq!(refusals.len(), expected.len(), "{refusals:#?}");
}

/// Seen with the shape that the etcd-io operator discusses: these fields were dropped in silence where the client validates nothing.
#[test]
fn fields_that_are_only_proposed_upstream_are_refused_and_not_dropped() {
    let surface = json!({ "provider": "auto", "auto": { "commonName": "x", "duration": "2160h" } });
    let spec = json!({
        "size": 3, "version": "v3.6.16",
        "tls": { "peer": surface, "client": surface },
        "metrics": { "enabled": true, "podMonitor": { "enabled": true, "interval": "30s" } },
    });
    let refusals = refusals(&spec);
    for reason in ["not supported: tls.peer", "not supported: tls.client", "not supported: metrics"] {
        assert!(refusals.iter().any(|refusal| refusal.contains(reason)), "{reason}: {refusals:#?}");
    }
    assert_eq!(refusals.len(), 3, "{refusals:#?}");
    let read: EtcdCluster = serde_json::from_value(object(&spec)).unwrap();
    let read = serde_json::to_value(read.spec).unwrap();
    assert_eq!(lost(&spec, &read, "spec"), Vec::<String>::new(), "pruned");
}

#[test]
fn a_go_program_finds_every_field_of_status_that_it_knows() {
    let status = json!({
        "observedGeneration": 1, "currentReplicas": 3, "readyReplicas": 3, "memberCount": 3, "currentVersion": "3.6.16",
        "leaderID": "b0",
        "members": [{
            "name": "demo-0", "id": "b0", "version": "3.6.16", "isHealthy": true, "isLearner": true, "isLeader": true,
            "healthy": true,
            // Ours, which its decoder skips.
            "phase": "Voter", "phaseSince": "2026-01-01T00:00:00.000000Z",
        }],
        "conditions": [{
            "type": "Available", "status": "True", "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z",
            "reason": "Available", "message": "3 of 3 voters are healthy",
        }],
    });
    let read: EtcdClusterStatus = serde_json::from_value(status.clone()).unwrap();
    let written = serde_json::to_value(read).unwrap();
    assert_eq!(lost(&status, &written, "status"), Vec::<String>::new());
}
