//! The target that a spec resolves to.

use crate::world::World;
use quorate_api::EtcdCluster;
use quorate_manifests::template::Template;
use quorate_manifests::{AllowedImages, Defaults, Invalid, Kind, resolve};
use quorate_model::Target;
use serde_json::{Value, json};

fn resolved(spec: &Value) -> Result<Target, Invalid> {
    let cluster: EtcdCluster = serde_json::from_value(crate::world::cluster(spec)).unwrap();
    resolve(
        &cluster,
        &Defaults {
            image_registry: "registry/etcd".to_owned(),
            agent_image: "agent:1".to_owned(),
            ..Defaults::default()
        },
    )
}

fn with(change: &Value) -> Value {
    let mut spec = json!({ "size": 3, "version": "3.6.16" });
    for (key, value) in change.as_object().unwrap() {
        spec[key] = value.clone();
    }
    spec
}

fn flags(change: &Value) -> Vec<String> {
    Template::from_status(&resolved(&with(change)).unwrap().pod).flags
}

#[test]
fn the_image_is_the_version_unless_it_is_given() {
    for (change, image) in [
        (json!({}), "registry/etcd:v3.6.16"),
        (json!({ "version": "v3.6.16" }), "registry/etcd:v3.6.16"),
        (json!({ "imageRegistry": "mirror/etcd" }), "mirror/etcd:v3.6.16"),
        (json!({ "image": "mine:latest", "imageRegistry": "mirror/etcd" }), "mine:latest"),
    ] {
        assert_eq!(Template::from_status(&resolved(&with(&change)).unwrap().pod).image, image, "{change}");
    }
}

#[test]
fn an_image_outside_of_the_list_of_the_operator_is_refused_and_its_own_default_is_not() {
    let judged = |change: &Value, list: &[&str]| {
        let cluster: EtcdCluster = serde_json::from_value(crate::world::cluster(&with(change))).unwrap();
        let list = list.iter().map(|text| text.parse().unwrap()).collect();
        let defaults = Defaults { allowed_images: AllowedImages::new(list), ..Defaults::default() };
        resolve(&cluster, &defaults).map(drop)
    };
    let list = ["registry.example/etcd", "docker.io/bitnami"];
    for admitted in [
        json!({}),
        json!({ "imageRegistry": "registry.example/etcd" }),
        json!({ "imageRegistry": "bitnami/etcd" }),
        json!({ "image": "registry.example/etcd/mirror:3.6.16" }),
    ] {
        assert_eq!(judged(&admitted, &list), Ok(()), "{admitted}");
    }
    for (refused, field) in [
        (json!({ "imageRegistry": "registry.example/etcd-evil" }), "spec.imageRegistry"),
        (json!({ "imageRegistry": "registry.example.evil/etcd" }), "spec.imageRegistry"),
        // As a whole reference this is an image of docker.io with that name.
        (json!({ "imageRegistry": "registry.example" }), "spec.imageRegistry"),
        (json!({ "image": "evil/etcd:v3.6.16" }), "spec.image"),
        (
            json!({ "image": "registry.example/etcd/../evil:v3.6.16", "imageRegistry": "registry.example/etcd" }),
            "spec.image",
        ),
    ] {
        let invalid = judged(&refused, &list).unwrap_err();
        assert_eq!(invalid.field, field, "{refused}");
        assert!(invalid.message.contains("registry.example/etcd, docker.io/bitnami"), "{invalid}");
        assert_eq!(judged(&refused, &[]), Ok(()), "without a list: {refused}");
    }
}

#[test]
fn members_keep_the_image_that_they_run_where_the_list_comes_later() {
    let mut spec = crate::world::plain(3);
    spec["imageRegistry"] = json!("registry.example/etcd");
    let mut world = World::new(&spec);
    world.settle();
    let pods = world.all::<Value>(Kind::Pod);
    world.defaults.allowed_images = AllowedImages::new(vec!["other.example".parse().unwrap()]);
    world.settle();
    assert_eq!(world.all::<Value>(Kind::Pod), pods, "nobody is restarted");
    let (_, reason, message) = world.condition("Stalled");
    assert!(reason == "SpecInvalid" && message.contains("--allowed-image-registries"), "{reason}: {message}");
    world.remove(Kind::Pod, "demo-1");
    world.settle();
    let again: Value = world.get(Kind::Pod, "demo-1");
    assert_eq!(
        again["spec"]["containers"][0]["image"], "registry.example/etcd:v3.6.16",
        "a lost one comes back"
    );
}

#[test]
fn defaults_are_two_gibibytes_of_the_default_class_and_tls() {
    let target = resolved(&with(&json!({}))).unwrap();
    assert!(target.tls && target.storage.class.is_none() && target.storage.bytes == 2 << 30);
    assert_eq!(target.storage.access_mode, "ReadWriteOnce");
}

fn quota_of(target: &Target) -> u64 {
    target.pod.quota.unwrap()
}

#[test]
fn m02_the_quota_of_a_new_cluster_leaves_room_for_a_second_copy_of_the_database_and_the_log() {
    let quota = |size: &str, medium: &str| {
        let storage = json!({ "storageSpec": { "volumeSizeRequest": size, "medium": medium } });
        quota_of(&resolved(&with(&storage)).unwrap())
    };
    for gib in [1_u64, 2, 10, 16] {
        let (volume, quota) = (gib << 30, quota(&format!("{gib}Gi"), ""));
        assert!(2 * quota + (512 << 20) <= volume / 20 * 19, "{quota} of {volume}");
    }
    assert_eq!(quota("2Gi", ""), 716 << 20);
    assert_eq!(quota("100Gi", ""), 8 << 30);
    assert_eq!(quota("800Mi", ""), 160 << 20, "a fifth: there is no room for a second copy");
    assert_eq!(quota("400Mi", ""), 100 << 20, "there is no room for the log either");
    assert_eq!(quota("64Mi", ""), (64 << 20) / 5 * 3);
    assert_eq!(quota("16Mi", ""), 16 << 20);
    assert_eq!(quota("1Gi", "Memory"), 1 << 29);
}

/// The cluster as status has it, with this spec from then on.
fn edited(mut cluster: EtcdCluster, spec: &Value) -> EtcdCluster {
    let new: EtcdCluster = serde_json::from_value(crate::world::cluster(&with(spec))).unwrap();
    cluster.spec = new.spec;
    cluster
}

#[test]
fn m02_a_running_cluster_keeps_a_quota_that_is_above_the_default() {
    let earlier = (10_u64 << 30) / 5 * 3;
    let size = |size: &str| json!({ "storageSpec": { "volumeSizeRequest": size } });
    let mut world = crate::world::World::new(&with(
        &json!({ "storageSpec": { "volumeSizeRequest": "10Gi" }, "etcd": { "quotaBackendBytes": earlier.to_string() } }),
    ));
    world.settle();
    let committed = world.cluster();
    let quota = |cluster: &EtcdCluster| quota_of(&resolve(cluster, &Defaults::default()).unwrap());
    assert_eq!(quota(&edited(committed.clone(), &size("10Gi"))), earlier, "an upgrade of the operator");
    assert_eq!(quota(&edited(committed.clone(), &size("11Gi"))), earlier, "a volume that grows");
    assert_eq!(quota(&edited(committed.clone(), &size("20Gi"))), 8 << 30, "more room than it needs");
    let lower =
        json!({ "storageSpec": { "volumeSizeRequest": "10Gi" }, "etcd": { "quotaBackendBytes": "1Gi" } });
    assert_eq!(quota(&edited(committed.clone(), &lower)), 1 << 30, "a number is followed");
    // Status of a release that recorded no template.
    let mut without = committed;
    without.status.as_mut().unwrap().target.as_mut().unwrap().pod.template.clear();
    assert_eq!(quota(&edited(without, &size("10Gi"))), earlier);
}

#[test]
fn m02_a_cluster_whose_status_was_lost_keeps_the_quota_of_its_pods_or_one_that_its_data_may_need() {
    let mut world = crate::world::World::new(&with(&json!({ "etcd": { "quotaBackendBytes": "900Mi" } })));
    world.settle();
    let spec = with(&json!({}));
    let mut cluster = world.cluster();
    cluster = edited(cluster, &spec);
    cluster.status = None;
    world.put(quorate_manifests::Kind::Cluster, json!(cluster));
    let desired =
        |world: &crate::world::World| quota_of(&world.observe().unwrap().observation.snapshot.desired);
    assert_eq!(desired(&world), 900 << 20);
    world.objects.retain(|(kind, _), _| *kind != quorate_manifests::Kind::Pod);
    assert_eq!(desired(&world), (2_u64 << 30) / 5 * 3, "volumes alone");
    world.objects.retain(|(kind, _), _| *kind != quorate_manifests::Kind::Volume);
    assert_eq!(desired(&world), 716 << 20, "a new one");
}

#[test]
fn m61_where_status_was_lost_an_edit_for_larger_volumes_raises_no_quota_before_they_have_grown() {
    let size = |size: &str| with(&json!({ "storageSpec": { "volumeSizeRequest": size } }));
    let mut world = crate::world::World::new(&size("1Gi"));
    world.settle();
    let desired =
        |world: &crate::world::World| quota_of(&world.observe().unwrap().observation.snapshot.desired);
    let before = desired(&world);
    let volumes: Vec<String> = world
        .all::<serde_json::Value>(quorate_manifests::Kind::Volume)
        .iter()
        .map(|volume| volume["metadata"]["name"].as_str().unwrap().to_owned())
        .collect();
    let have = |world: &mut crate::world::World, bytes: &str| {
        for volume in &volumes {
            world.edit(quorate_manifests::Kind::Volume, volume, |volume| {
                volume["status"]["capacity"] = json!({ "storage": bytes });
            });
        }
    };
    have(&mut world, "1Gi");
    let mut cluster = edited(world.cluster(), &size("4Gi"));
    cluster.status = None;
    world.put(quorate_manifests::Kind::Cluster, json!(cluster));
    assert_eq!(
        desired(&world),
        before,
        "T1 records what the Pods have, and the edit follows when there is room"
    );
    have(&mut world, "4Gi");
    assert!(desired(&world) > before);
}

#[test]
fn every_minor_gets_the_flags_that_it_knows() {
    let quota = "--quota-backend-bytes=750780416";
    let check = "--experimental-initial-corrupt-check=true";
    assert_eq!(flags(&json!({ "version": "3.5.35" })), [check, quota]);
    for version in ["3.6.16", "3.7.3"] {
        assert_eq!(flags(&json!({ "version": version })), [quota], "{version}");
    }
    let old = "--experimental-initial-corrupt-check=false";
    assert_eq!(flags(&json!({ "etcdOptions": [old] })), [quota, old]);
}

#[test]
fn typed_settings_become_flags() {
    let etcd = json!({
        "quotaBackendBytes": "512Mi", "autoCompactionMode": "revision", "autoCompactionRetention": "1000",
        "snapshotCount": 5000, "heartbeatInterval": 200, "electionTimeout": 2000,
    });
    assert_eq!(
        flags(&json!({ "etcd": etcd })),
        [
            "--quota-backend-bytes=536870912",
            "--auto-compaction-mode=revision",
            "--auto-compaction-retention=1000",
            "--snapshot-count=5000",
            "--heartbeat-interval=200",
            "--election-timeout=2000",
        ]
    );
}

#[test]
fn an_invalid_spec_is_refused_with_the_field_and_what_to_do() {
    let table = [
        (json!({ "version": "latest" }), "spec.version", "3.6.16"),
        (json!({ "etcdOptions": ["--name=x"] }), "spec.etcdOptions", "--name is set by the operator"),
        (json!({ "etcdOptions": ["--initial-cluster=x"] }), "spec.etcdOptions", "set by the operator"),
        (json!({ "etcdOptions": ["--peer-cert-file=x"] }), "spec.etcdOptions", "set by the operator"),
        (
            json!({ "etcdOptions": ["--peer-cert-allowed-hostname=x"] }),
            "spec.etcdOptions",
            "--peer-cert-allowed-hostname is set by the operator",
        ),
        (json!({ "etcdOptions": ["--peer-cert-allowed-cn=x"] }), "spec.etcdOptions", "set by the operator"),
        (
            json!({ "tls": { "providerCfg": { "autoCfg": { "commonName": "quorate-peer" } } } }),
            "spec.tls.providerCfg.autoCfg.commonName",
            "members know their peers by the common name quorate-peer",
        ),
        (json!({ "etcdOptions": ["--force-new-cluster"] }), "spec.etcdOptions", "set by the operator"),
        (json!({ "etcdOptions": ["--log-levle=x"] }), "spec.etcdOptions", "did you mean --log-level?"),
        (
            json!({ "version": "3.7.3", "etcdOptions": ["--experimental-memory-mlock"] }),
            "spec.etcdOptions",
            "etcd 3.7 does not know the flag --experimental-memory-mlock; did you mean --memory-mlock?",
        ),
        (
            json!({ "storageSpec": { "volumeSizeRequest": "ten" } }),
            "spec.storageSpec.volumeSizeRequest",
            "such as 1Gi",
        ),
        (
            json!({ "storageSpec": { "volumeSizeRequest": "2Gi", "volumeSizeLimit": "1Gi" } }),
            "spec.storageSpec.volumeSizeLimit",
            "smaller than the request",
        ),
        (
            json!({ "podTemplate": { "spec": { "terminationGracePeriodSeconds": 16 } } }),
            "spec.podTemplate.spec.terminationGracePeriodSeconds",
            "16 s are too short: a stop needs up to 17 s",
        ),
        (
            json!({
                "etcdOptions": ["--election-timeout=5000"],
                "podTemplate": { "spec": { "terminationGracePeriodSeconds": 24 } },
            }),
            "spec.podTemplate.spec.terminationGracePeriodSeconds",
            "needs up to 25 s",
        ),
        (
            json!({ "podTemplate": { "metadata": { "annotations": { "a b": "x" } } } }),
            "spec.podTemplate.metadata, with spec.commonMetadata",
            "\"a b\" is no qualified name",
        ),
        (
            json!({ "podTemplate": { "metadata": { "labels": { "Example.com/a": "x" } } } }),
            "spec.podTemplate.metadata, with spec.commonMetadata",
            "\"Example.com/a\" is no qualified name",
        ),
        (
            json!({ "commonMetadata": { "labels": { "team": "a b" } } }),
            "spec.podTemplate.metadata, with spec.commonMetadata",
            "\"a b\" of the label team",
        ),
        (
            json!({ "storageSpec": { "metadata": { "labels": { "/team": "x" } } } }),
            "spec.storageSpec.metadata, with spec.commonMetadata",
            "\"/team\" is no qualified name",
        ),
        (
            json!({
                "commonMetadata": { "annotations": { "a": "x".repeat(102_400) } },
                "service": { "annotations": { "b": "x".repeat(102_400) } },
            }),
            "spec.service, with spec.commonMetadata",
            "have 204802 bytes; the most is 204800",
        ),
    ];
    for (change, field, text) in table {
        let invalid = resolved(&with(&change)).unwrap_err();
        assert_eq!(invalid.field, field, "{change}");
        assert!(invalid.message.contains(text), "{change}: {}", invalid.message);
    }
}

#[test]
fn keys_and_values_that_kubernetes_takes_are_not_refused() {
    let given = json!({
        "labels": { "example.com/a_b.C-d": "", "Team": "X.1" }, "annotations": { "Example.com/A": "any text" },
    });
    resolved(&with(&json!({ "commonMetadata": given, "podTemplate": { "metadata": given } }))).unwrap();
}

#[test]
fn fields_that_change_pods_change_the_revision_and_others_do_not() {
    let revision = |change: &Value| resolved(&with(change)).unwrap().pod.revision;
    let base = revision(&json!({}));
    for same in [
        json!({ "size": 5 }),
        json!({ "version": "v3.6.16" }),
        json!({ "paused": true }),
        json!({ "podTemplate": { "metadata": {}, "spec": {} } }),
        json!({ "imageRegistry": "registry/etcd" }),
        json!({ "storageSpec": { "retention": { "whenDeleted": "Delete" } } }),
    ] {
        assert_eq!(revision(&same), base, "{same}");
    }
    let mut others = vec![base];
    for other in [
        json!({ "version": "3.6.15" }),
        json!({ "image": "x" }),
        json!({ "imagePullPolicy": "Always" }),
        json!({ "imagePullSecrets": [{ "name": "a" }] }),
        json!({ "etcdOptions": ["--log-level=debug"] }),
        json!({ "etcd": { "snapshotCount": 7 } }),
        json!({ "podTemplate": { "metadata": { "labels": { "a": "b" } } } }),
        json!({ "podTemplate": { "metadata": { "annotations": { "a": "b" } } } }),
        json!({ "podTemplate": { "spec": { "resources": { "limits": { "memory": "1Gi" } } } } }),
        json!({ "podTemplate": { "spec": { "priorityClassName": "high" } } }),
        json!({ "podTemplate": { "spec": { "nodeSelector": { "disk": "fast" } } } }),
        json!({ "podTemplate": { "spec": { "terminationGracePeriodSeconds": 60 } } }),
    ] {
        let found = revision(&other);
        assert!(!others.contains(&found), "{other}");
        others.push(found);
    }
}

/// The flags for the log of the Pod that a new cluster begins with.
fn snapshot_counts(spec: &Value) -> Vec<String> {
    let spec = with(spec);
    let mut world = crate::world::World::new(&spec);
    let version: quorate_model::Version = spec["version"].as_str().unwrap().parse().unwrap();
    world.versions = ["demo-0", "demo-1", "demo-2"].map(|name| (name.to_owned(), version)).into();
    world.settle();
    let pod: k8s_openapi::api::core::v1::Pod = world.get(quorate_manifests::Kind::Pod, "demo-0");
    let args = pod.spec.unwrap().containers.remove(0).args.unwrap();
    args.into_iter().filter(|arg| arg.starts_with("--snapshot-count=")).collect()
}

#[test]
fn m02_the_log_is_bounded_by_the_size_of_the_volume_unless_the_user_says_otherwise() {
    let of = |version: &str, size: &str| {
        snapshot_counts(&json!({ "version": version, "storageSpec": { "volumeSizeRequest": size } }))
    };
    for version in ["3.5.35", "3.6.16", "3.7.3"] {
        assert_eq!(of(version, "64Mi"), ["--snapshot-count=250"]);
        assert_eq!(of(version, "2Gi"), ["--snapshot-count=512"]);
        assert_eq!(of(version, "10Gi"), ["--snapshot-count=2560"]);
        assert_eq!(of(version, "100Gi"), ["--snapshot-count=10000"]);
    }
    assert_eq!(snapshot_counts(&json!({ "etcd": { "snapshotCount": 7 } })), ["--snapshot-count=7"]);
    assert_eq!(snapshot_counts(&json!({ "etcdOptions": ["--snapshot-count=8"] })), ["--snapshot-count=8"]);
    // A follower catches up with what is between two snapshots, and here a snapshot of the leader has no room.
    for version in ["3.5.35", "3.6.16"] {
        let large = json!({ "version": version, "etcd": { "quotaBackendBytes": "1Gi" } });
        assert!(snapshot_counts(&large).is_empty());
    }
}
