//! Jobs as Kubernetes gets them: what their Pods may do, and where the agent finds what it needs.

use k8s_openapi::api::batch::v1::Job;
use quorate_api::job::{BackupOrder, ReadOrder, Source, VerifyOrder};
use quorate_api::{EtcdBackup, EtcdBackupSchedule, EtcdCluster, EtcdRestore};
use quorate_manifests::backup::{Of, backup_order, remove_order};
use quorate_manifests::{Defaults, job};
use serde_json::{Value, json};

fn backup(destination: &Value, template: &Value) -> EtcdBackup {
    serde_json::from_value(json!({
        "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdBackup",
        "metadata": {"name": "b", "namespace": "default", "uid": "0c8f27b4-8a5d-4f39-9a94-6a5b7f1f6f0e"},
        "spec": {
            "source": {"endpoints": {"urls": ["https://e:2379"], "tlsSecret": {"name": "etcd-client"}}},
            "destination": destination, "jobTemplate": template,
        },
    }))
    .unwrap()
}

fn made(backup: &EtcdBackup) -> (BackupOrder, Value) {
    let of = Of::Endpoints(backup.spec.source.endpoints.as_ref().unwrap());
    let order = backup_order(backup, of).unwrap();
    let secret = quorate_manifests::backup::tls_secret(backup, of);
    let job = job::backup(backup, &order, secret.as_deref(), 2, 3600, &Defaults::default());
    (order, shown(&job))
}

fn shown(job: &Job) -> Value {
    serde_json::to_value(job).unwrap()
}

/// Where each volume is mounted.
fn mounts(job: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let all = job["spec"]["template"]["spec"]["containers"][0]["volumeMounts"].as_array().unwrap();
    all.iter().map(|mount| (text(&mount["name"]), text(&mount["mountPath"]))).collect()
}

fn pair(name: &str, path: &str) -> (String, String) {
    (name.to_owned(), path.to_owned())
}

#[test]
fn a_pod_of_a_job_meets_the_restricted_standard_and_has_no_token() {
    let backup = backup(
        &json!({"s3": {"bucket": "b", "credentialsSecret": {"name": "keys"}, "caSecret": {"name": "ca"}}}),
        &json!({"serviceAccountName": "sa"}),
    );
    let (_, job) = made(&backup);
    assert_eq!(job["metadata"]["name"], "backup-0c8f27b4-8a5d-4f39-9a94-6a5b7f1f6f0e-2");
    assert_eq!(job["spec"]["backoffLimit"], 0, "the operator tries again, and not Kubernetes");
    assert_eq!(job["spec"]["activeDeadlineSeconds"], 3600);
    assert_eq!(job["spec"]["ttlSecondsAfterFinished"], Value::Null, "the answer stays until it is read");
    let owner = &job["metadata"]["ownerReferences"][0];
    assert_eq!((owner["kind"].as_str(), owner["controller"].as_bool()), (Some("EtcdBackup"), Some(true)));
    let pod = &job["spec"]["template"]["spec"];
    assert_eq!(pod["restartPolicy"], "Never");
    assert_eq!(pod["automountServiceAccountToken"], false, "the Secret has the credentials");
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
    let container = &pod["containers"][0];
    assert_eq!(container["command"], json!(["/quorate", "agent", "backup"]));
    assert_eq!(container["securityContext"]["capabilities"]["drop"], json!(["ALL"]));
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
    assert_eq!(
        mounts(&job),
        [
            pair("credentials", "/etc/quorate/store/credentials"),
            pair("store-ca", "/etc/quorate/store/ca"),
            pair("etcd-tls", "/etc/quorate/etcd"),
        ]
    );
    for volume in pod["volumes"].as_array().unwrap() {
        assert_eq!(volume["secret"]["optional"], true, "a Secret that is missing does not hold the Pod back");
    }
}

#[test]
fn only_a_store_that_takes_its_identity_from_the_service_account_gets_a_token() {
    let token = |destination, template| {
        let (_, job) = made(&backup(&destination, &template));
        job["spec"]["template"]["spec"]["automountServiceAccountToken"].as_bool().unwrap()
    };
    let account = json!({"serviceAccountName": "sa"});
    assert!(token(json!({"gcs": {"bucket": "b"}}), account.clone()));
    assert!(!token(json!({"gcs": {"bucket": "b"}}), json!({})));
    assert!(!token(json!({"pvc": {"claimName": "c"}}), account));
}

#[test]
fn the_order_is_read_back_as_it_was_given_and_labels_of_the_user_replace_none_of_ours() {
    let template = json!({"labels": {"team": "a"}, "annotations": {"note": "b"}, "priorityClassName": "low", "nodeSelector": {"disk": "fast"}});
    let (order, job) = made(&backup(&json!({"pvc": {"claimName": "claim", "prefix": "p"}}), &template));
    let pod = &job["spec"]["template"];
    let env = &pod["spec"]["containers"][0]["env"][0];
    assert_eq!(env["name"], "QUORATE_ORDER");
    assert_eq!(serde_json::from_str::<BackupOrder>(env["value"].as_str().unwrap()).unwrap(), order);
    assert_eq!(
        (
            pod["metadata"]["labels"]["team"].as_str(),
            pod["metadata"]["labels"]["operator.etcd.io/backup"].as_str()
        ),
        (Some("a"), Some("b"))
    );
    assert_eq!(
        pod["metadata"]["labels"]["operator.etcd.io/cluster"],
        Value::Null,
        "it would pass for a member of the cluster"
    );
    assert_eq!(
        (pod["spec"]["priorityClassName"].as_str(), pod["spec"]["nodeSelector"]["disk"].as_str()),
        (Some("low"), Some("fast"))
    );
    assert!(mounts(&job).contains(&pair("store", "/var/lib/quorate/store")));
}

#[test]
fn a_removal_has_the_key_of_the_backup_and_no_way_to_etcd() {
    let backup = backup(&json!({"gcs": {"bucket": "b"}}), &json!({}));
    let (order, _) = made(&backup);
    let removal = remove_order(&backup);
    assert_eq!(removal.key, order.key);
    let job = shown(&job::remove(&backup, &removal, 1, 600, &Defaults::default()));
    assert_eq!(mounts(&job), []);
    assert_eq!(
        job["spec"]["template"]["spec"]["containers"][0]["command"],
        json!(["/quorate", "agent", "remove-backup"])
    );
}

/// It proves that members can read the object, which may be a file of a claim that one group may read.
#[test]
fn the_snapshot_of_an_order_to_restore_is_read_as_the_user_of_the_members_and_where_they_run() {
    let restore: EtcdRestore = serde_json::from_value(json!({
        "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdRestore",
        "metadata": {"name": "back", "namespace": "default", "uid": "0c8f27b4-8a5d-4f39-9a94-6a5b7f1f6f0e"},
        "spec": {"clusterName": "demo", "clusterID": "a1", "snapshot": {"backupRef": {"name": "b"}}},
    }))
    .unwrap();
    let cluster: EtcdCluster = serde_json::from_value(json!({
        "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdCluster",
        "metadata": {"name": "demo", "namespace": "default"},
        "spec": {"size": 3, "version": "3.6.16", "podTemplate": {"spec": {
            "securityContext": {"fsGroup": 7, "runAsUser": 8}, "nodeSelector": {"disk": "fast"},
        }}},
    }))
    .unwrap();
    let destination = serde_json::from_value(json!({"pvc": {"claimName": "backups"}})).unwrap();
    let order = ReadOrder { source: Source { destination, key: "k".to_owned(), sha256: None } };
    let job = shown(&job::read(&restore, &cluster, &order, 1, 600, &Defaults::default()));
    let pod = &job["spec"]["template"]["spec"];
    let context = &pod["securityContext"];
    assert_eq!((&context["fsGroup"], &context["runAsUser"]), (&json!(7), &json!(8)));
    assert_eq!(context["runAsNonRoot"], json!(true));
    assert_eq!(pod["nodeSelector"]["disk"], "fast");
}

#[test]
fn a_restore_test_runs_in_the_image_of_the_etcd_that_the_backup_is_of() {
    let schedule: EtcdBackupSchedule = serde_json::from_value(json!({
        "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdBackupSchedule",
        "metadata": {"name": "s", "namespace": "default", "uid": "0c8f27b4-8a5d-4f39-9a94-6a5b7f1f6f0e"},
        "spec": {"schedule": "@daily", "verify": {"schedule": "@weekly", "identitiesSecret": {"name": "age"}}, "backupTemplate": {"spec": {
            "source": {"cluster": "demo"}, "destination": {"gcs": {"bucket": "b"}}}}},
    }))
    .unwrap();
    let cluster: EtcdCluster = serde_json::from_value(json!({
        "metadata": {"name": "demo"}, "spec": {"size": 3, "version": "3.6.16", "image": "mirror.example/etcd:v3.6.16-a"},
    }))
    .unwrap();
    let defaults = Defaults::default();
    assert_eq!(job::etcd_image(Some(&cluster), "3.6.16", &defaults), "mirror.example/etcd:v3.6.16-a");
    assert_eq!(job::etcd_image(Some(&cluster), "3.5.21", &defaults), "gcr.io/etcd-development/etcd:v3.5.21");
    let source = Source {
        destination: schedule.spec.backup_template.spec.destination.clone(),
        key: "k".to_owned(),
        sha256: None,
    };
    let name = job::verify_name("0c8f27b4-8a5d-4f39-9a94-6a5b7f1f6f0e", i64::from(u32::MAX));
    assert!(name.len() <= 63, "a label of the Pod has it: {name}");
    let job = shown(&job::verify(&schedule, &VerifyOrder { source }, &name, "etcd:v3.6.16", 60, &defaults));
    let pod = &job["spec"]["template"]["spec"];
    assert_eq!(pod["containers"][0]["image"], "etcd:v3.6.16");
    assert_eq!(pod["containers"][0]["command"], json!(["/agent/quorate", "agent", "verify-backup"]));
    assert_eq!(pod["initContainers"][0]["command"], json!(["/quorate", "agent", "install"]));
    assert_eq!(
        mounts(&job),
        [
            pair("agent", "/agent"),
            pair("scratch", "/var/lib/quorate/scratch"),
            pair("identities", "/etc/quorate/store/identities"),
        ]
    );
}

#[test]
fn a_job_for_a_cluster_has_its_pull_secrets() {
    let cluster: EtcdCluster = serde_json::from_value(json!({
        "metadata": {"name": "demo"}, "spec": {"size": 3, "version": "3.6.16", "imagePullSecrets": [{"name": "mirror"}]},
    }))
    .unwrap();
    let backup = backup(&json!({"gcs": {"bucket": "b"}}), &json!({}));
    let job = job::remove(&backup, &remove_order(&backup), 1, 600, &Defaults::default());
    let pod =
        |cluster| shown(&job::with_pull_secrets(job.clone(), cluster))["spec"]["template"]["spec"].clone();
    assert_eq!(pod(Some(&cluster))["imagePullSecrets"], json!([{"name": "mirror"}]));
    assert_eq!(pod(None)["imagePullSecrets"], Value::Null);
}
