//! Jobs as Kubernetes gets them: what their Pods may do, and where the agent finds what it needs.

use k8s_openapi::api::batch::v1::Job;
use quorate_api::job::{BackupOrder, LookOrder, ReadOrder, Source, Task as _, VerifyOrder};
use quorate_api::{Destination, EtcdBackup, EtcdBackupSchedule, EtcdCluster, EtcdRestore};
use quorate_manifests::backup::{
    ExistingOrder, Of, backup_order, existing_order, remove_order, verify_order,
};
use quorate_manifests::job::{self, Terms};
use quorate_manifests::{AllowedImages, Defaults, catalog};
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
    let job = job::backup(backup, &order, secret.as_deref(), 2, Terms::new(3600, None, &Defaults::default()));
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
            pair("signing-keys", "/etc/quorate/signing-keys"),
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
    let job = shown(&job::remove(&backup, &removal, 1, Terms::new(600, None, &Defaults::default())));
    assert_eq!(mounts(&job), []);
    assert_eq!(
        job["spec"]["template"]["spec"]["containers"][0]["command"],
        json!(["/quorate", "agent", "remove-backup"])
    );
}

#[test]
fn o02_what_looks_at_objects_of_before_mounts_a_claim_to_read_it_and_has_no_way_to_etcd() {
    let claim = json!({"pvc": {"claimName": "claim"}});
    let mut given = json!(backup(&claim, &json!({"labels": {"team": "a"}})));
    given["spec"]["source"] = json!({"cluster": "demo"});
    given["spec"]["existing"] = json!({"key": "default/demo/a.db", "sha256": "5".repeat(64)});
    let backup: EtcdBackup = serde_json::from_value(given).unwrap();
    let order = existing_order(&backup).unwrap();
    let ExistingOrder::Inspect(asked) = &order else { panic!("{order:?}") };
    assert_eq!((asked.key.as_str(), asked.cluster.as_deref()), ("default/demo/a.db", Some("demo")));
    let inspects = shown(&job::inspect(&backup, &order, 2, Terms::new(600, None, &Defaults::default())));
    let schedule: EtcdBackupSchedule = serde_json::from_value(json!({
        "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdBackupSchedule",
        "metadata": {"name": "nightly", "namespace": "default", "uid": "u1"},
        "spec": {"schedule": "@daily", "backupTemplate": {"spec": {
            "source": {"cluster": "demo"}, "destination": claim, "jobTemplate": {"labels": {"team": "a"}},
        }}},
    }))
    .unwrap();
    let order = catalog::order(&schedule, None).unwrap();
    let of = (order.cluster.namespace.as_str(), order.cluster.name.as_str());
    assert_eq!((of, order.most), (("default", "demo"), 10));
    let lists = shown(&job::list(&schedule, &order, 3, Terms::new(600, None, &Defaults::default())));
    for (job, name, command) in [
        (&inspects, "inspect-backup-0c8f27b4-8a5d-4f39-9a94-6a5b7f1f6f0e-2", "inspect-backup"),
        (&lists, "list-backups-u1-3", "list-backups"),
    ] {
        assert_eq!(job["metadata"]["name"], name);
        let pod = &job["spec"]["template"]["spec"];
        assert_eq!(pod["containers"][0]["command"], json!(["/quorate", "agent", command]));
        let claim = &pod["volumes"][0]["persistentVolumeClaim"];
        assert_eq!(*claim, json!({"claimName": "claim", "readOnly": true}));
        let keys = pair("signing-keys", "/etc/quorate/signing-keys");
        assert_eq!(mounts(job), [pair("store", "/var/lib/quorate/store"), keys]);
        assert_eq!(job["spec"]["template"]["metadata"]["labels"]["team"], "a");
    }
    assert_eq!(inspects["metadata"]["labels"]["operator.etcd.io/backup"], "b");
    assert_eq!(lists["metadata"]["labels"]["operator.etcd.io/backup-schedule"], "nightly");
}

#[test]
fn o02_an_etcdbackup_of_an_object_of_before_is_called_after_where_that_is() {
    let place = |bucket: &str, endpoint: Option<&str>| -> Destination {
        serde_json::from_value(json!({"s3": {"bucket": bucket, "endpoint": endpoint}})).unwrap()
    };
    let key = "tenant/demo/nightly-00ab29845123-0c8f27b4-8a5d-4f39-9a94-6a5b7f1f6f0e.db.zst.age";
    let here = catalog::name(&place("b", None), key);
    assert_eq!(here, catalog::name(&place("b", None), key), "whoever asks, and however often");
    assert!(here.starts_with("existing-nightly-00ab29845123-"), "{here}");
    let mut others = vec![
        catalog::name(&place("other", None), key),
        catalog::name(&place("b", Some("https://s3.example.com")), key),
        catalog::name(&place("b", None), &key.replace("0c8f", "1c8f")),
        here,
    ];
    others.sort();
    others.dedup();
    assert_eq!(others.len(), 4);
    // Whatever it is made of, it is a name and a label of its Jobs, and never that of a backup that the operator waits for.
    let long = "x".repeat(900);
    for key in [
        "",
        "/",
        "a/b/.db",
        "a/b/-----.db",
        "a/b/ää.db",
        &long,
        "a/b/before-restore-u1.db",
        "a/b/final-u1.db",
    ] {
        let name = catalog::name(&place("b", None), key);
        let is_plain = |one: char| one.is_ascii_lowercase() || one.is_ascii_digit() || one == '-';
        assert!(name.len() <= 63 && name.chars().all(is_plain) && !name.ends_with('-'), "{name}");
        assert!(name.starts_with("existing-"), "{name}");
    }
}

/// It proves that members can read the object, which may be a file of a claim that one group may read.
#[test]
fn o10_the_snapshot_of_an_order_to_restore_is_read_by_a_pod_that_policies_take_for_one_of_the_members() {
    let restore: EtcdRestore = serde_json::from_value(json!({
        "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdRestore",
        "metadata": {"name": "back", "namespace": "default", "uid": "0c8f27b4-8a5d-4f39-9a94-6a5b7f1f6f0e"},
        "spec": {"clusterName": "demo", "clusterID": "a1", "snapshot": {"backupRef": {"name": "b"}}},
    }))
    .unwrap();
    let cluster: EtcdCluster = serde_json::from_value(json!({
        "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdCluster",
        "metadata": {"name": "demo", "namespace": "default"},
        "spec": {"size": 3, "version": "3.6.16", "podTemplate": {
            "metadata": {"labels": {"team": "a"}, "annotations": {"example.com/cost-centre": "a"}},
            "spec": {"securityContext": {"fsGroup": 7, "runAsUser": 8}, "nodeSelector": {"disk": "fast"}},
        }},
    }))
    .unwrap();
    let destination = serde_json::from_value(json!({"pvc": {"claimName": "backups"}})).unwrap();
    let order = ReadOrder { source: Source { destination, key: "k".to_owned(), ..Source::default() } };
    let job = shown(&job::read(&restore, &order, 1, Terms::new(600, Some(&cluster), &Defaults::default())));
    let metadata = &job["spec"]["template"]["metadata"];
    assert_eq!(metadata["labels"]["team"], "a");
    assert_eq!(metadata["annotations"], json!({"example.com/cost-centre": "a"}));
    assert_eq!(metadata["labels"]["operator.etcd.io/cluster"], Value::Null);
    let pod = &job["spec"]["template"]["spec"];
    assert!(pod["readinessGates"][0]["conditionType"].is_string(), "clients must not be sent to it");
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
    let strict = AllowedImages::new(vec!["other.example".parse().unwrap()]);
    let strict = Defaults { allowed_images: strict, ..Defaults::default() };
    let image = job::etcd_image(Some(&cluster), "3.6.16", &strict);
    assert_eq!(image, "gcr.io/etcd-development/etcd:v3.6.16", "not one that objects may not name");
    let source = Source {
        destination: schedule.spec.backup_template.spec.destination.clone(),
        key: "k".to_owned(),
        ..Source::default()
    };
    let name = VerifyOrder::job_name("0c8f27b4-8a5d-4f39-9a94-6a5b7f1f6f0e", i64::from(u32::MAX));
    assert!(name.len() <= 63, "a label of the Pod has it: {name}");
    let job = shown(&job::verify(
        &schedule,
        &VerifyOrder { source, ..VerifyOrder::default() },
        &name,
        "etcd:v3.6.16",
        Terms::new(60, None, &defaults),
    ));
    let pod = &job["spec"]["template"]["spec"];
    assert_eq!(pod["containers"][0]["image"], "etcd:v3.6.16");
    assert_eq!(pod["containers"][0]["command"], json!(["/agent/quorate", "agent", "verify-backup"]));
    assert_eq!(pod["initContainers"][0]["command"], json!(["/quorate", "agent", "install"]));
    assert_eq!(pod["initContainers"][1]["command"], json!(["/quorate", "agent", "fetch-backup"]));
    assert_eq!(pod["initContainers"][1]["env"][0], pod["containers"][0]["env"][0], "both have the order");
    assert_eq!(
        mounts(&job),
        [
            pair("agent", "/agent"),
            pair("scratch", "/var/lib/quorate/scratch"),
            pair("no-token", "/var/run/secrets/kubernetes.io/serviceaccount"),
        ]
    );
}

fn tenant() -> EtcdCluster {
    serde_json::from_value(json!({
        "metadata": {"name": "demo", "namespace": "default"},
        "spec": {"size": 3, "version": "3.6.16", "imagePullSecrets": [{"name": "mirror"}], "podTemplate": {"spec": {
            "securityContext": {"fsGroup": 1_000_660_000, "runAsUser": 1_000_660_000},
            "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "2Gi"}},
        }}},
    }))
    .unwrap()
}

fn schedule_with_test() -> EtcdBackupSchedule {
    serde_json::from_value(json!({
        "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdBackupSchedule",
        "metadata": {"name": "s", "namespace": "default", "uid": "0c8f27b4-8a5d-4f39-9a94-6a5b7f1f6f0e"},
        "spec": {"schedule": "@daily", "verify": {"schedule": "@weekly"}, "backupTemplate": {"spec": {
            "source": {"cluster": "demo"}, "destination": {"gcs": {"bucket": "b"}}}}},
    }))
    .unwrap()
}

/// The Pods of a backup, of a removal and of a restore test, of this template and for this cluster.
fn pods(template: &Value, cluster: Option<&EtcdCluster>) -> [Value; 3] {
    pods_by(
        &Defaults { allowed_proxies: vec!["http://proxy:3128".to_owned()], ..Defaults::default() },
        template,
        cluster,
    )
}

fn restore_test(
    schedule: &EtcdBackupSchedule,
    source: Source,
    cluster: Option<&EtcdCluster>,
    defaults: &Defaults,
) -> Job {
    let order = VerifyOrder { source, ..VerifyOrder::default() };
    job::verify(schedule, &order, "t", "etcd:v3.6.16", Terms::new(60, cluster, defaults))
}

fn pods_by(defaults: &Defaults, template: &Value, cluster: Option<&EtcdCluster>) -> [Value; 3] {
    let backup = backup(&json!({"gcs": {"bucket": "b"}}), template);
    let of = Of::Endpoints(backup.spec.source.endpoints.as_ref().unwrap());
    let order = backup_order(&backup, of).unwrap();
    let source =
        Source { destination: backup.spec.destination.clone(), key: "k".to_owned(), ..Source::default() };
    let mut schedule = schedule_with_test();
    schedule.spec.backup_template.spec.job_template.clone_from(&backup.spec.job_template);
    let jobs = [
        job::backup(&backup, &order, None, 1, Terms::new(60, cluster, defaults)),
        job::remove(&backup, &remove_order(&backup), 1, Terms::new(60, cluster, defaults)),
        restore_test(&schedule, source, cluster, defaults),
    ];
    jobs.map(|job| shown(&job)["spec"]["template"]["spec"].clone())
}

#[test]
fn o10_a_job_for_a_cluster_runs_as_its_members_do_and_has_their_pull_secrets() {
    let cluster = tenant();
    for pod in pods(&json!({}), Some(&cluster)) {
        assert_eq!(pod["imagePullSecrets"], json!([{"name": "mirror"}]));
        assert_eq!(pod["securityContext"]["runAsUser"], 1_000_660_000);
        assert_eq!(pod["securityContext"]["fsGroup"], 1_000_660_000);
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    }
    for pod in pods(&json!({}), None) {
        assert_eq!(pod["imagePullSecrets"], Value::Null);
        assert_eq!(pod["securityContext"]["runAsUser"], 10001);
    }
}

#[test]
fn o10_a_job_template_says_what_no_cluster_says_and_is_heard_before_the_cluster() {
    let cluster = tenant();
    let template = json!({
        "securityContext": {"runAsUser": 7}, "imagePullSecrets": [{"name": "own"}], "schedulerName": "packer",
        "runtimeClassName": "kata", "env": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}, {"name": "QUORATE_ORDER", "value": "{}"}],
    });
    for (fs_group, cluster) in [(10001, None), (1_000_660_000, Some(&cluster))] {
        for pod in pods(&template, cluster) {
            assert_eq!(pod["securityContext"]["runAsUser"], 7);
            assert_eq!(pod["securityContext"]["fsGroup"], fs_group);
            assert_eq!(pod["imagePullSecrets"], json!([{"name": "own"}]));
            assert_eq!((&pod["schedulerName"], &pod["runtimeClassName"]), (&json!("packer"), &json!("kata")));
            // That of a restore test which reaches the store.
            let reaches = pod["initContainers"].get(1).unwrap_or(&pod["containers"][0]);
            let env = reaches["env"].as_array().unwrap();
            assert_eq!(env[1], json!({"name": "HTTPS_PROXY", "value": "http://proxy:3128"}));
            let orders = env.iter().filter(|one| one["name"] == "QUORATE_ORDER").count();
            assert_eq!(orders, 1, "the order stays the operator's: {env:?}");
        }
    }
}

#[test]
fn o07_whoever_writes_a_job_template_does_not_choose_whom_its_job_trusts() {
    for (name, value) in [
        ("HTTPS_PROXY", "http://mine:8888"),
        ("https_proxy", "http://mine:8888"),
        ("ALL_PROXY", "http://mine:8888"),
        ("SSL_CERT_FILE", "/etc/quorate/etcd/ca.crt"),
        ("ssl_cert_dir", "/etc/quorate/etcd"),
    ] {
        let template =
            json!({"env": [{"name": name, "value": value}, {"name": "NO_PROXY", "value": ".svc"}]});
        for pod in pods(&template, None) {
            let reaches = pod["initContainers"].get(1).unwrap_or(&pod["containers"][0]);
            let env = reaches["env"].as_array().unwrap();
            assert!(env.iter().all(|one| one["name"] != name), "{env:?}");
            assert!(env.contains(&json!({"name": "NO_PROXY", "value": ".svc"})), "{env:?}");
            // The agent refuses the order by it, in words.
            assert!(env.contains(&json!({"name": "QUORATE_REFUSED_ENV", "value": name})), "{env:?}");
        }
    }
}

#[test]
fn o07_a_job_that_only_reads_mounts_a_claim_so_that_no_owner_of_a_file_changes() {
    let claim = json!({"pvc": {"claimName": "claim"}});
    let backup = backup(&claim, &json!({}));
    let of = Of::Endpoints(backup.spec.source.endpoints.as_ref().unwrap());
    let order = backup_order(&backup, of).unwrap();
    let source =
        Source { destination: backup.spec.destination.clone(), key: "k".to_owned(), ..Source::default() };
    let look = LookOrder { destination: backup.spec.destination.clone(), objects: Vec::new() };
    let (schedule, defaults) = (schedule_with_test(), Defaults::default());
    let reads = [
        restore_test(&schedule, source, None, &defaults),
        job::look(&schedule, &look, None, "l", Terms::new(60, None, &defaults)),
    ];
    let writes = [
        job::backup(&backup, &order, None, 1, Terms::new(60, None, &defaults)),
        job::remove(&backup, &remove_order(&backup), 1, Terms::new(60, None, &defaults)),
    ];
    let is_read_only = |job: &Job| {
        let job = shown(job);
        let volumes = job["spec"]["template"]["spec"]["volumes"].as_array().unwrap().clone();
        let store = volumes.iter().find(|volume| volume["name"] == "store").unwrap();
        store["persistentVolumeClaim"]["readOnly"] == true
    };
    assert!(reads.iter().all(is_read_only));
    assert!(!writes.iter().any(is_read_only));
}

#[test]
fn o10_a_quota_on_requests_and_limits_admits_jobs() {
    for cluster in [None, Some(&tenant())] {
        let [backup, removal, test] = pods(&json!({}), cluster);
        for pod in [backup, removal] {
            let resources = &pod["containers"][0]["resources"];
            assert_eq!(resources["requests"], json!({"cpu": "50m", "memory": "64Mi"}));
            assert_eq!(resources["limits"], json!({"cpu": "1", "memory": "256Mi"}));
        }
        // etcd runs in it, so it needs what a member needs.
        let resources = &test["containers"][0]["resources"];
        if cluster.is_none() {
            assert_eq!(resources, &json!({"requests": {"cpu": "50m", "memory": "100Mi"}}));
        } else {
            assert_eq!(resources["limits"], json!({"cpu": "2", "memory": "2Gi"}));
            let env = test["containers"][0]["env"].as_array().unwrap();
            let named = |name: &str| env.iter().any(|one| one["name"] == name);
            assert!(named("GOMEMLIMIT") && named("GOMAXPROCS"), "{env:?}");
        }
        for before in test["initContainers"].as_array().unwrap() {
            assert!(before["resources"]["limits"]["cpu"].is_string(), "{before}");
        }
    }
    let given = json!({"resources": {"requests": {"memory": "1Gi"}, "limits": {"cpu": "4"}}});
    let [pod, _, _] = pods(&given, None);
    let resources = &pod["containers"][0]["resources"];
    assert_eq!(resources, &given["resources"], "what is given is left as it is");
}

#[test]
fn o08_a_snapshot_that_is_written_to_a_volume_first_has_one_of_the_class_of_the_cluster() {
    let mut cluster = tenant();
    let volume = |given: &Value, cluster: Option<&EtcdCluster>| {
        let mut backup = backup(&json!({"gcs": {"bucket": "b"}}), given);
        backup.status = serde_json::from_value(json!({"attempts": 1, "scratchBytes": 12_u64 << 30})).unwrap();
        let of = Of::Endpoints(backup.spec.source.endpoints.as_ref().unwrap());
        let order = backup_order(&backup, of).unwrap();
        assert!(order.spool);
        let job =
            shown(&job::backup(&backup, &order, None, 2, Terms::new(60, cluster, &Defaults::default())));
        assert!(mounts(&job).contains(&pair("scratch", "/var/lib/quorate/scratch")));
        let volumes = job["spec"]["template"]["spec"]["volumes"].as_array().unwrap().clone();
        volumes.into_iter().find(|volume| volume["name"] == "scratch").unwrap()
    };
    assert_eq!(volume(&json!({}), Some(&cluster))["emptyDir"]["sizeLimit"], "12Gi", "it names no class");
    cluster.spec.storage_spec.storage_class_name = Some("fast".to_owned());
    let of_class = volume(&json!({}), Some(&cluster));
    let claim = &of_class["ephemeral"]["volumeClaimTemplate"]["spec"];
    assert_eq!(
        (&claim["storageClassName"], &claim["resources"]["requests"]["storage"]),
        (&json!("fast"), &json!("12Gi"))
    );
    let given = volume(&json!({"scratch": {"storageClassName": "own", "size": "20Gi"}}), Some(&cluster));
    let claim = &given["ephemeral"]["volumeClaimTemplate"]["spec"];
    assert_eq!(
        (&claim["storageClassName"], &claim["resources"]["requests"]["storage"]),
        (&json!("own"), &json!("20Gi"))
    );
    assert_eq!(volume(&json!({}), None)["emptyDir"]["sizeLimit"], "12Gi");
}

#[test]
fn n17_a_restore_test_has_a_volume_of_the_class_of_the_members_or_reserves_the_disk_of_its_node() {
    const MIB: u64 = 1 << 20;
    let mut backup = backup(&json!({"gcs": {"bucket": "b"}}), &json!({}));
    let mut order = |stored: u64, database: u64| {
        backup.status = serde_json::from_value(json!({"result": {
            "key": "k", "clusterID": "a1", "storedBytes": stored, "snapshotBytes": database, "storedSha256": "s",
            "etcdVersion": "3.6.16", "finished": "2026-11-01T06:32:00Z",
        }}))
        .unwrap();
        verify_order(&backup).unwrap()
    };
    // Twice the database, or the database and its object, an eighth of that, and 512 MiB.
    assert_eq!(order(MIB, 8 << 30).scratch_bytes, Some((18 << 30) + 512 * MIB));
    assert_eq!(order(24 * MIB, 8 * MIB).scratch_bytes, Some(36 * MIB + 512 * MIB));
    assert_eq!(order(MIB, 0).scratch_bytes, None, "nobody knows its size");

    let order = order(MIB, 8 << 30);
    let mut cluster = tenant();
    let pod = |template: &Value, cluster: Option<&EtcdCluster>| {
        let mut schedule = schedule_with_test();
        let template = serde_json::from_value(template.clone()).unwrap();
        schedule.spec.backup_template.spec.job_template = Some(Box::new(template));
        let job = job::verify(
            &schedule,
            &order,
            "t",
            "etcd:v3.6.16",
            Terms::new(60, cluster, &Defaults::default()),
        );
        shown(&job)["spec"]["template"]["spec"].clone()
    };
    let scratch = |pod: &Value| {
        let volumes = pod["volumes"].as_array().unwrap().clone();
        volumes.into_iter().find(|volume| volume["name"] == "scratch").unwrap()
    };
    let disk = |pod: &Value| {
        let resources = &pod["containers"][0]["resources"];
        ["requests", "limits"].map(|which| resources[which]["ephemeral-storage"].clone())
    };
    let on_node = pod(&json!({}), Some(&cluster));
    assert_eq!(scratch(&on_node)["emptyDir"]["sizeLimit"], "18944Mi", "the cluster names no class");
    assert_eq!(disk(&on_node), ["19200Mi", "19200Mi"]);
    assert_eq!(disk(&pod(&json!({}), None)), ["19200Mi", "19200Mi"], "its cluster is gone");
    let own = json!({"resources": {"limits": {"ephemeral-storage": "40Gi"}}});
    assert_eq!(disk(&pod(&own, Some(&cluster))), [Value::Null, json!("40Gi")], "what is given is left");
    let more = pod(&json!({"scratch": {"size": "30Gi"}}), Some(&cluster));
    assert_eq!(
        (&scratch(&more)["emptyDir"]["sizeLimit"], disk(&more)[0].as_str()),
        (&json!("30Gi"), Some("30976Mi"))
    );

    cluster.spec.storage_spec.storage_class_name = Some("fast".to_owned());
    let of_class = pod(&json!({}), Some(&cluster));
    let claim = &scratch(&of_class)["ephemeral"]["volumeClaimTemplate"]["spec"];
    assert_eq!(
        (&claim["storageClassName"], &claim["resources"]["requests"]["storage"]),
        (&json!("fast"), &json!("18944Mi"))
    );
    assert_eq!(disk(&of_class), [Value::Null, Value::Null]);

    let apart = |pod: &Value| pod["affinity"]["podAntiAffinity"].clone();
    let preferred = &apart(&of_class)["preferredDuringSchedulingIgnoredDuringExecution"][0];
    assert_eq!(
        preferred["podAffinityTerm"],
        json!({
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchLabels": {"operator.etcd.io/cluster": "demo"}},
        })
    );
    let given =
        json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": []}}});
    let given = apart(&pod(&given, Some(&cluster)));
    assert_eq!(given["preferredDuringSchedulingIgnoredDuringExecution"], Value::Null, "{given}");
    assert_eq!(pod(&json!({}), None)["affinity"], Value::Null);
}
