//! Labels and annotations of the spec on everything that the operator creates, and what keeps tools from pruning what has no owner.

use quorate_api::EtcdBackup;
use quorate_api::keys;
use quorate_manifests::backup::{Of, backup_order};
use quorate_manifests::job::{self, Terms};
use quorate_manifests::{Defaults, Kind};
use serde_json::{Value, json};

use crate::world::World;

/// Three members with TLS.
fn running(common: &Value, claims: &Value) -> World {
    let mut world = World::new(&spec(common, claims));
    world.settle();
    world
}

fn spec(common: &Value, claims: &Value) -> Value {
    json!({
        "size": 3, "version": "3.6.16", "commonMetadata": common, "storageSpec": { "metadata": claims },
    })
}

fn edit(world: &mut World, common: &Value, claims: &Value) {
    world.edit(Kind::Cluster, "demo", |cluster| {
        cluster["spec"]["commonMetadata"] = common.clone();
        cluster["spec"]["storageSpec"]["metadata"] = claims.clone();
    });
    world.settle();
}

fn meta(world: &World, kind: Kind, name: &str) -> Value {
    world.objects[&(kind, name.to_owned())]["metadata"].clone()
}

/// Every object of the cluster but the EtcdCluster.
fn objects(world: &World) -> Vec<(Kind, String, Value)> {
    let all = world.objects.keys().filter(|(kind, _)| *kind != Kind::Cluster);
    all.map(|(kind, name)| (*kind, name.clone(), meta(world, *kind, name))).collect()
}

#[test]
fn o10_everything_that_is_created_has_what_the_spec_gives_and_what_the_operator_needs() {
    let common =
        json!({ "labels": { "team": "a", "cost": "1" }, "annotations": { "example.com/owner": "b c" } });
    let world =
        running(&common, &json!({ "labels": { "cost": "2" }, "annotations": { "example.com/tier": "x" } }));
    let plain = running(&json!({}), &json!({}));
    let mut kinds = std::collections::BTreeSet::new();
    for (kind, name, meta) in objects(&world) {
        kinds.insert(kind);
        let at = format!("{kind:?} {name}: {meta:#}");
        assert_eq!(meta["labels"]["team"], "a", "{at}");
        assert_eq!(meta["labels"]["cost"], if kind == Kind::Volume { "2" } else { "1" }, "{at}");
        assert_eq!(meta["annotations"]["example.com/owner"], "b c", "{at}");
        assert_eq!(meta["annotations"].get("example.com/tier").is_some(), kind == Kind::Volume, "{at}");
        for (key, value) in self::meta(&plain, kind, &name)["labels"].as_object().unwrap() {
            assert_eq!(meta["labels"][key], *value, "{at}");
        }
    }
    assert_eq!(kinds.len(), 5, "{kinds:?}");
}

#[test]
fn an_edit_reaches_what_exists_and_what_is_taken_out_goes_and_no_claim_is_made_again() {
    let mut world = running(&json!({}), &json!({}));
    let uids = |world: &World| -> Vec<Value> {
        let all = objects(world).into_iter().filter(|(kind, ..)| *kind != Kind::Pod);
        all.map(|(.., meta)| meta["uid"].clone()).collect()
    };
    let before = (uids(&world), objects(&world));
    let common =
        json!({ "labels": { "team": "a", "cost": "1" }, "annotations": { "example.com/owner": "b" } });
    edit(&mut world, &common, &json!({ "annotations": { "example.com/tier": "x" } }));
    for (kind, name, meta) in objects(&world).into_iter().filter(|(kind, ..)| *kind != Kind::Pod) {
        assert_eq!(meta["labels"]["team"], "a", "{kind:?} {name}");
        assert_eq!(meta["annotations"]["example.com/owner"], "b", "{kind:?} {name}");
    }
    // Somebody else's label stays when the spec takes its own away.
    world.edit(Kind::Volume, "demo-1", |claim| claim["metadata"]["labels"]["mine"] = json!("x"));
    edit(&mut world, &json!({ "labels": { "team": "b" } }), &json!({}));
    assert_eq!(meta(&world, Kind::Volume, "demo-1")["labels"]["mine"], "x");
    for (kind, name, meta) in objects(&world).into_iter().filter(|(kind, ..)| *kind != Kind::Pod) {
        assert_eq!(meta["labels"]["team"], "b", "{kind:?} {name}");
        assert_eq!(meta["labels"].get("cost"), None, "{kind:?} {name}");
        assert_eq!(meta["annotations"].get("example.com/owner"), None, "{kind:?} {name}");
    }
    world.edit(Kind::Volume, "demo-1", |claim| {
        drop(claim["metadata"]["labels"].as_object_mut().unwrap().remove("mine"));
    });
    edit(&mut world, &json!({}), &json!({}));
    assert_eq!(uids(&world), before.0, "nothing was created again");
    let without_version = |objects: Vec<(Kind, String, Value)>| -> Vec<(Kind, String, Value)> {
        let all = objects.into_iter().filter(|(kind, ..)| *kind != Kind::Pod);
        all.map(|(kind, name, mut meta)| {
            meta["resourceVersion"] = Value::Null;
            if meta["annotations"].as_object().is_some_and(serde_json::Map::is_empty) {
                meta.as_object_mut().unwrap().remove("annotations");
            }
            (kind, name, meta)
        })
        .collect()
    };
    assert_eq!(without_version(objects(&world)), without_version(before.1), "nothing is left of it");
}

#[test]
fn what_the_spec_gives_never_replaces_what_the_operator_needs_whatever_an_older_definition_admits() {
    let ours = json!({
        "labels": { "operator.etcd.io/cluster": "other", "app.kubernetes.io/name": "other", "app": "other" },
        "annotations": { "operator.etcd.io/cluster-uid": "other", "helm.sh/resource-policy": "no" },
    });
    let mut world = running(&ours, &ours);
    for (kind, name, meta) in objects(&world) {
        assert_eq!(meta["labels"]["operator.etcd.io/cluster"], "demo", "{kind:?} {name}");
        assert_eq!(meta["labels"]["app.kubernetes.io/name"], "etcd", "{kind:?} {name}");
        assert_eq!(meta["labels"]["app"], "demo", "{kind:?} {name}");
    }
    let claim = meta(&world, Kind::Volume, "demo-0");
    assert_eq!(claim["annotations"]["operator.etcd.io/cluster-uid"], "u-1");
    assert_eq!(claim["annotations"]["helm.sh/resource-policy"], "keep");
    // Nor does the record of what was given, if somebody writes it.
    world.edit(Kind::Volume, "demo-0", |claim| {
        claim["metadata"]["annotations"][keys::GIVEN] =
            json!("label:operator.etcd.io/cluster annotation:operator.etcd.io/cluster-uid label:app");
    });
    world.settle();
    assert_eq!(meta(&world, Kind::Volume, "demo-0")["labels"], claim["labels"]);
    assert_eq!(meta(&world, Kind::Volume, "demo-0")["annotations"], claim["annotations"]);
}

#[test]
fn s13_what_has_no_owner_is_no_part_of_an_application_of_that_name_and_no_tool_prunes_it() {
    let world = running(&json!({}), &json!({}));
    let mut without_owner = Vec::new();
    for (kind, name, meta) in objects(&world) {
        let has_owner = meta.get("ownerReferences").is_some();
        let kept = keys::KEEP.iter().all(|(key, value)| meta["annotations"][key] == *value);
        assert_eq!(kept, !has_owner, "{kind:?} {name}: {meta:#}");
        let is_part = meta["labels"].get("app.kubernetes.io/instance").is_some();
        assert_eq!(is_part, has_owner, "{kind:?} {name}: {meta:#}");
        if !has_owner {
            without_owner.push(name);
        }
    }
    assert_eq!(without_owner, ["demo-0", "demo-1", "demo-2", "demo-ca", "demo-peer-ca"]);
}

#[test]
fn s13_claims_and_an_authority_that_lack_the_marks_get_them_by_a_patch_also_at_size_zero() {
    for size in [3, 0] {
        let mut world = running(&json!({}), &json!({}));
        let done = objects(&world);
        world.edit(Kind::Cluster, "demo", |cluster| cluster["spec"]["size"] = json!(size));
        world.settle();
        for (kind, name) in [(Kind::Volume, "demo-0"), (Kind::Volume, "demo-2"), (Kind::Secret, "demo-ca")] {
            world.edit(kind, name, |object| {
                for (key, _) in keys::KEEP {
                    object["metadata"]["annotations"].as_object_mut().unwrap().remove(key);
                }
                object["metadata"]["labels"][keys::INSTANCE] = json!("demo");
            });
        }
        world.settle();
        for (kind, name, before) in
            done.into_iter().filter(|(kind, ..)| matches!(kind, Kind::Volume | Kind::Secret))
        {
            let after = meta(&world, kind, &name);
            assert_eq!(after["uid"], before["uid"], "{kind:?} {name}");
            assert_eq!(after["labels"], before["labels"], "{kind:?} {name}");
            assert_eq!(after["annotations"], before["annotations"], "{kind:?} {name}");
        }
    }
}

#[test]
fn options_of_argo_cd_that_have_ours_and_others_are_left_alone() {
    let mut world = running(&json!({}), &json!({}));
    let (key, _) = keys::KEEP[0];
    let set = |world: &mut World, options: &str| {
        world.edit(Kind::Volume, "demo-0", |claim| claim["metadata"]["annotations"][key] = json!(options));
        world.settle();
        meta(world, Kind::Volume, "demo-0")["annotations"][key].clone()
    };
    assert_eq!(
        set(&mut world, "Delete=false, Prune=false,Validate=false"),
        "Delete=false, Prune=false,Validate=false"
    );
    assert_eq!(set(&mut world, "Prune=false"), keys::KEEP[0].1);
}

#[test]
fn the_label_by_which_backup_tools_leave_certificates_out_is_not_the_specs_to_give() {
    let other = json!({ "labels": { keys::VELERO_EXCLUDE: "false" } });
    let mut world = running(&other, &json!({}));
    assert!(!world.pass(), "nothing is patched to and fro");
    for name in ["demo-client-tls", "demo-connection"] {
        let labels = meta(&world, Kind::Secret, name)["labels"].clone();
        assert_eq!(labels[keys::VELERO_EXCLUDE], keys::VELERO_EXCLUDE_VALUE, "{name}");
    }
    assert_eq!(meta(&world, Kind::Volume, "demo-0")["labels"][keys::VELERO_EXCLUDE], "false");
}

#[test]
fn a_claim_of_an_earlier_cluster_is_not_touched() {
    let mut world = World::running(1);
    let mut foreign = world.objects[&(Kind::Volume, "demo-0".to_owned())].clone();
    foreign["metadata"] = json!({
        "name": "demo-7", "namespace": "default", "labels": foreign["metadata"]["labels"],
        "annotations": { keys::CLUSTER_UID: "another" },
    });
    world.put(Kind::Volume, foreign);
    let before = meta(&world, Kind::Volume, "demo-7");
    edit(&mut world, &json!({ "labels": { "team": "a" } }), &json!({}));
    assert_eq!(meta(&world, Kind::Volume, "demo-7"), before);
    assert_eq!(meta(&world, Kind::Volume, "demo-0")["labels"]["team"], "a");
}

#[test]
fn a_job_and_its_scratch_claim_have_what_the_cluster_and_the_template_give() {
    let cluster = serde_json::from_value(json!({
        "metadata": { "name": "demo", "namespace": "default" },
        "spec": {
            "size": 1, "version": "3.6.16",
            "commonMetadata": { "labels": { "team": "a", "cost": "1" }, "annotations": { "owner": "b" } },
            "storageSpec": { "storageClassName": "fast", "metadata": { "labels": { "disk": "fast" } } },
        },
    }))
    .unwrap();
    let backup: EtcdBackup = serde_json::from_value(json!({
        "metadata": { "name": "b", "namespace": "default", "uid": "u-2" },
        "status": { "scratchBytes": 1000 },
        "spec": {
            "source": { "endpoints": { "urls": ["https://e:2379"], "tlsSecret": { "name": "etcd-client" } } },
            "destination": { "s3": { "bucket": "b" } },
            "jobTemplate": { "labels": { "cost": "2" } },
        },
    }))
    .unwrap();
    let mut order =
        backup_order(&backup, Of::Endpoints(backup.spec.source.endpoints.as_ref().unwrap())).unwrap();
    order.spool = true;
    let job = job::backup(&backup, &order, None, 1, Terms::new(60, Some(&cluster), &Defaults::default()));
    let job = serde_json::to_value(&job).unwrap();
    let template = &job["spec"]["template"];
    for meta in [&job["metadata"], &template["metadata"]] {
        assert_eq!(meta["labels"]["team"], "a", "{meta:#}");
        assert_eq!(meta["labels"]["cost"], "2", "{meta:#}");
        assert_eq!(meta["labels"][keys::BACKUP], "b", "{meta:#}");
        assert_eq!(meta["annotations"]["owner"], "b", "{meta:#}");
    }
    let volumes = template["spec"]["volumes"].as_array().unwrap();
    let claim = volumes.iter().find_map(|volume| volume.pointer("/ephemeral/volumeClaimTemplate")).unwrap();
    assert_eq!(claim["metadata"]["labels"], json!({ "team": "a", "cost": "2", "disk": "fast" }));
    assert_eq!(claim["metadata"]["annotations"], json!({ "owner": "b" }));
}
