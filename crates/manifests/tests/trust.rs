//! What a container sees whose image an EtcdCluster names: of the volume of its own member and of its own certificates, not of a store.
//! Who may edit an EtcdCluster need not have the right to read a Secret or a claim.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use quorate_api::job::{ReadOrder, Source, VerifyOrder};
use quorate_api::{EtcdBackup, EtcdBackupSchedule, EtcdCluster, EtcdRestore};
use quorate_manifests::AgentDelivery;
use quorate_manifests::backup::{Of, backup_order, remove_order};
use quorate_manifests::job::{self, Terms};
use quorate_manifests::{Defaults, Kind};
use serde_json::{Value, json};

use crate::world::World;

const IMAGE: &str = "evil.example/etcd:v3.6.16";
const TOKEN_DIR: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Stores with all that reaches them.
fn destinations() -> [Value; 3] {
    [
        json!({ "s3": { "bucket": "b", "credentialsSecret": { "name": "victim" }, "caSecret": { "name": "ca" } } }),
        json!({ "pvc": { "claimName": "victim" } }),
        json!({ "gcs": { "bucket": "b" } }),
    ]
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// What the containers of this image mount, besides empty directories, the agent's program and what names the Pod itself.
fn seen_by(image: &str, pod: &Value) -> Vec<String> {
    let volumes = list(&pod["volumes"]);
    let containers = list(&pod["initContainers"]).iter().chain(list(&pod["containers"]));
    let mut seen = Vec::new();
    for container in containers.filter(|container| container["image"] == image) {
        for mount in list(&container["volumeMounts"]) {
            let volume = volumes.iter().find(|volume| volume["name"] == mount["name"]).unwrap();
            let secret = volume["secret"]["secretName"].as_str();
            let claim = volume["persistentVolumeClaim"]["claimName"].as_str();
            seen.extend(secret.or(claim).map(str::to_owned));
        }
        let has_mount = list(&container["volumeMounts"]).iter().any(|mount| mount["mountPath"] == TOKEN_DIR);
        if pod["automountServiceAccountToken"] != json!(false) && !has_mount {
            seen.push("a token".to_owned());
        }
    }
    seen
}

/// A container of the operator's image that mounts it.
fn is_reached(name: &str, pod: &Value) -> bool {
    let own = Defaults::default().agent_image;
    seen_by(&own, pod).iter().any(|seen| seen == name)
}

#[test]
fn o07_no_container_of_an_image_that_the_object_names_sees_credentials_or_a_store_of_a_restore() {
    for destination in destinations() {
        for delivery in [AgentDelivery::InitContainer, AgentDelivery::ImageVolume] {
            let mut world = World::new(&json!({
                "size": 1, "version": "3.6.16", "image": IMAGE, "storageSpec": { "volumeSizeRequest": "1Gi" },
                "podTemplate": { "metadata": { "annotations": { "eks.amazonaws.com/skip-containers": "fetch" } } },
                "bootstrap": { "restore": {
                    "identitiesSecret": { "name": "age" },
                    "source": { "key": "demo/1", "sha256": "a".repeat(64), "destination": destination },
                } },
            }));
            world.defaults.agent_delivery = delivery;
            for _ in 0..20 {
                world.pass();
            }
            let pods = world.all::<Pod>(Kind::Pod);
            let pod = pods.first().expect("there is a Pod");
            let annotations = pod.metadata.annotations.clone().unwrap_or_default();
            // The webhooks of clouds add a token of their own to each container that is not skipped.
            for cloud in ["eks.amazonaws.com/skip-containers", "azure.workload.identity/skip-containers"] {
                assert_eq!(annotations.get(cloud).map(String::as_str), Some("etcd"), "{annotations:?}");
            }
            let pod = json!(pod.spec);
            let own = ["demo-0", "demo-server-tls", "demo-peer-tls", "demo-client-tls"];
            let seen = seen_by(IMAGE, &pod);
            assert!(seen.iter().all(|name| own.contains(&&**name)), "{seen:?}");
            assert!(is_reached("age", &pod), "who fetches it decrypts it");
            let in_cloud = destination.get("gcs").is_some();
            assert!(in_cloud || is_reached("victim", &pod), "{pod}");
        }
    }
}

fn verified(destination: &Value, template: &Value) -> Job {
    let schedule: EtcdBackupSchedule = serde_json::from_value(json!({
        "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdBackupSchedule",
        "metadata": { "name": "s", "namespace": "default", "uid": "u" },
        "spec": {
            "schedule": "@daily", "verify": { "schedule": "@weekly", "identitiesSecret": { "name": "age" } },
            "backupTemplate": { "spec": {
                "source": { "cluster": "demo" }, "destination": destination, "jobTemplate": template,
            } },
        },
    }))
    .unwrap();
    let destination = schedule.spec.backup_template.spec.destination.clone();
    let source = Source { destination, key: "k".to_owned(), sha256: Some("a".repeat(64)), version_id: None };
    job::verify(
        &schedule,
        &VerifyOrder { source, ..VerifyOrder::default() },
        "v",
        IMAGE,
        Terms::new(60, None, &Defaults::default()),
    )
}

#[test]
fn o07_no_container_of_an_image_that_the_object_names_sees_credentials_or_a_store_in_a_job() {
    let allowed_proxies = vec!["http://me:secret@proxy".to_owned()];
    let defaults = Defaults { allowed_proxies, ..Defaults::default() };
    let template = json!({ "serviceAccountName": "sa", "env": [{ "name": "HTTPS_PROXY", "value": "http://me:secret@proxy" }] });
    for destination in destinations() {
        let cluster: EtcdCluster = serde_json::from_value(json!({
            "metadata": { "name": "demo", "namespace": "default" },
            "spec": { "size": 3, "version": "3.6.16", "image": IMAGE },
            "status": { "members": [{
                "name": "demo-0", "phase": "Voter", "phaseSince": "2026-11-26T00:00:00.000000Z", "role": "voter", "healthy": true, "isLearner": false, "isLeader": true,
            }] },
        }))
        .unwrap();
        let backup: EtcdBackup = serde_json::from_value(json!({
            "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdBackup",
            "metadata": { "name": "b", "namespace": "default", "uid": "u" },
            "spec": { "source": { "cluster": "demo" }, "destination": destination, "jobTemplate": template },
        }))
        .unwrap();
        let restore: EtcdRestore = serde_json::from_value(json!({
            "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdRestore",
            "metadata": { "name": "r", "namespace": "default", "uid": "u" },
            "spec": { "clusterName": "demo", "clusterID": "1", "snapshot": {
                "identitiesSecret": { "name": "age" },
                "source": { "key": "k", "sha256": "a".repeat(64), "destination": destination },
            } },
        }))
        .unwrap();
        let order = backup_order(&backup, Of::Cluster(&cluster)).unwrap();
        let source =
            Source { destination: backup.spec.destination.clone(), key: "k".to_owned(), ..Source::default() };
        let read = ReadOrder { source };
        let (backed_up, removed) = (
            job::backup(
                &backup,
                &order,
                Some("demo-client-tls"),
                1,
                Terms::new(60, Some(&cluster), &defaults),
            ),
            job::remove(&backup, &remove_order(&backup), 1, Terms::new(60, Some(&cluster), &defaults)),
        );
        let jobs = [
            backed_up,
            removed,
            job::read(&restore, &read, 1, Terms::new(60, Some(&cluster), &defaults)),
            verified(&destination, &template),
        ];
        let in_cloud = destination.get("gcs").is_some();
        for job in jobs {
            let template = json!(job.spec.unwrap().template);
            let pod = &template["spec"];
            assert_eq!(seen_by(IMAGE, pod), Vec::<String>::new(), "{pod}");
            assert!(in_cloud || is_reached("victim", pod), "{pod}");
            let of_image = list(&pod["containers"]).iter().filter(|container| container["image"] == IMAGE);
            for container in of_image {
                assert!(!container["env"].to_string().contains("proxy"), "it reaches no store: {container}");
                // The webhooks of clouds add a token of their own to each container that is not skipped.
                let skipped = |key: &str| template["metadata"]["annotations"][key] == "agent";
                assert!(skipped("eks.amazonaws.com/skip-containers"), "{template}");
                assert!(skipped("azure.workload.identity/skip-containers"), "{template}");
            }
        }
    }
}
