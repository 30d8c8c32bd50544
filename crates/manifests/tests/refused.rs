//! R26: nothing is derived from a spec that was refused. The cluster is kept as the last accepted spec says.

use quorate_manifests::target::accepted;
use quorate_manifests::{AllowedImages, Kind};
use serde_json::{Value, json};

use crate::world::{World, merge, plain};

/// A running cluster with certificates, a policy and metadata, so that there is something to change.
fn running() -> World {
    let mut spec = plain(3);
    spec["tls"] = json!({ "provider": "auto" });
    spec["networkPolicy"] = json!({ "enabled": true });
    spec["commonMetadata"] = json!({ "labels": { "team": "a" } });
    let mut world = World::new(&spec);
    world.settle();
    world
}

/// An edit of all that is read outside of the target.
fn of_all_else() -> Value {
    json!({
        "tls": {
            "provider": "cert-manager",
            "providerCfg": { "certManagerCfg": {
                "issuerKind": "Issuer", "issuerName": "other", "altNames": { "dnsNames": ["vault.company.example"] },
            } },
            "rotation": { "clientGrace": "1m" },
        },
        "service": { "type": "LoadBalancer", "annotations": { "example.com/a": "b" } },
        "commonMetadata": { "labels": { "team": "b" } },
        "networkPolicy": { "enabled": false },
        "disruption": { "podDisruptionBudget": "None" },
        "storageSpec": { "metadata": { "labels": { "tier": "x" } } },
        "recovery": { "enabled": false, "keepVolumes": "1h" },
    })
}

#[test]
fn no_write_is_derived_from_a_refused_spec_whatever_is_wrong_with_it() {
    let refused = [
        ("spec.version", json!({ "version": "latest" })),
        ("spec.etcdOptions", json!({ "etcdOptions": ["--name=x"] })),
        (
            "spec.tls.providerCfg.certManagerCfg.issuerName",
            json!({ "tls": { "providerCfg": { "certManagerCfg": { "issuerKind": "ClusterIssuer", "issuerName": "company" } } } }),
        ),
        (
            "spec.tls.providerCfg.certManagerCfg.commonName",
            json!({ "tls": { "providerCfg": { "certManagerCfg": { "commonName": "root" } } } }),
        ),
        (
            "spec.tls.providerCfg.certManagerCfg.altNames.ipAddresses",
            json!({ "tls": { "providerCfg": { "certManagerCfg": { "altNames": { "ipAddresses": ["1.2.3"] } } } } }),
        ),
        ("spec.auth.enabled", json!({ "auth": { "enabled": true }, "tls": { "provider": "disabled" } })),
        ("spec.image", json!({ "image": "example.com/etcd:v3.6.16" })),
        ("spec.storageSpec.volumeSizeRequest", json!({ "storageSpec": { "volumeSizeRequest": "ten" } })),
        (
            "spec.podTemplate.spec.terminationGracePeriodSeconds",
            json!({ "podTemplate": { "spec": { "terminationGracePeriodSeconds": 1 } } }),
        ),
        (
            "spec.podTemplate.metadata, with spec.commonMetadata",
            json!({ "commonMetadata": { "labels": { "team": "a b" } } }),
        ),
    ];
    for (field, wrong) in refused {
        let mut world = running();
        world.defaults.allowed_images = AllowedImages::new(vec!["other.example".parse().unwrap()]);
        world.settle();
        let before = objects(&world);
        world.edit(Kind::Cluster, "demo", |cluster| {
            merge(cluster, &json!({ "spec": of_all_else() }));
            merge(cluster, &json!({ "spec": wrong }));
        });
        let seen = world.observe().unwrap().observation;
        assert_eq!(seen.refused.map(|why| why.field).as_deref(), Some(field));
        world.settle();
        assert_eq!(objects(&world), before, "{field}");
        let kept = world.cluster();
        assert_eq!(accepted(&kept).spec, accepted(&running().cluster()).spec, "{field}");

        // The spec that was accepted once more is no news.
        world.edit(Kind::Cluster, "demo", |cluster| {
            cluster["spec"] = running().objects[&(Kind::Cluster, "demo".to_owned())]["spec"].clone();
        });
        world.settle();
        assert_eq!(objects(&world), before, "{field}");
    }
}

#[test]
fn the_size_the_retention_and_the_pause_of_a_refused_spec_are_followed() {
    let mut world = running();
    world.edit(Kind::Cluster, "demo", |cluster| {
        merge(cluster, &json!({ "spec": { "version": "latest", "size": 1, "storageSpec": { "retention": { "whenScaled": "Retain" } } } }));
    });
    world.settle();
    assert_eq!(world.status().member_count, 1);
    assert!(world.objects.contains_key(&(Kind::Volume, "demo-2".to_owned())));
    world.edit(Kind::Cluster, "demo", |cluster| merge(cluster, &json!({ "spec": { "paused": true } })));
    assert!(world.observe().unwrap().observation.snapshot.paused);
}

/// All but the EtcdCluster.
fn objects(world: &World) -> Vec<(String, Value)> {
    let others = world.objects.iter().filter(|((kind, _), _)| *kind != Kind::Cluster);
    others.map(|((_, name), object)| (name.clone(), object.clone())).collect()
}
