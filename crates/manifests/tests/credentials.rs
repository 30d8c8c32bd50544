//! The list of Secrets with credentials has every one that is written.

use std::collections::BTreeSet;
use std::path::Path;

use k8s_openapi::api::core::v1::Secret;
use quorate_api::EtcdUser;
use quorate_manifests::{Kind, credentials};
use quorate_model::ClusterRef;
use serde_json::json;

use crate::world::World;

fn at() -> ClusterRef {
    ClusterRef::new("default", "demo")
}

#[test]
fn every_secret_that_a_settled_cluster_has_is_in_the_list_of_those_with_credentials() {
    let mut world = World::new(&json!({ "size": 1, "version": "3.6.16", "auth": { "enabled": true } }));
    world.settle();
    let listed = credentials::secrets(&at(), Some(&world.cluster().spec.tls), []);
    let found: BTreeSet<String> =
        world.all::<Secret>(Kind::Secret).into_iter().filter_map(|secret| secret.metadata.name).collect();
    assert!(found.len() >= 7, "{found:?}");
    assert!(found.iter().all(|name| listed.contains(name)), "{found:?}, {listed:?}");
}

#[test]
fn those_of_kamaji_of_cert_manager_of_users_and_of_the_spec_are_in_the_list() {
    let user: EtcdUser = serde_json::from_value(json!({
        "metadata": { "name": "billing", "namespace": "default" }, "spec": { "cluster": "demo" },
    }))
    .unwrap();
    let tls = json!({ "provider": "secrets", "providerCfg": { "secretsCfg": {
        "serverSecret": "s", "clientSecret": "c", "operatorSecret": "o",
    } } });
    let tls = serde_json::from_value(tls).unwrap();
    let listed = credentials::secrets(&at(), Some(&tls), [&user]);
    let names = ["demo-root-client-tls", "demo-server-issued", "billing-etcd", "s", "c", "o"];
    for name in names {
        assert!(listed.iter().any(|listed| listed == name), "{name}: {listed:?}");
    }
}

/// What names a Secret is found in the source, so a new one fails here until it is in the list.
#[test]
fn every_module_that_names_a_secret_is_asked_by_the_list() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let read = |file: &str| std::fs::read_to_string(source.join(file)).unwrap();
    let (list, names) = (read("credentials.rs"), read("names.rs"));
    let mut naming = BTreeSet::new();
    let mut folders = vec![source.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if std::fs::read_to_string(&path).unwrap().contains("fn secret_name(") {
                naming.insert(path.file_stem().unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    // `given` asks `issued`; the Secrets of certificates are those of `Certificate`.
    let is_asked = |module: &str| match module {
        "kinds" => names.contains("Certificate::ALL"),
        "issued" => list.contains("given::secret_names"),
        other => list.contains(&format!("{other}::secret_name")),
    };
    assert!(naming.len() >= 4, "{naming:?}");
    for module in naming {
        assert!(is_asked(&module), "{module}");
    }
    // Each other name is in the list of the operator's own, which this list begins with.
    assert!(list.contains("own_secrets(at)"), "{list}");
    let (named, own) = names.split_once("pub fn own_secrets").unwrap();
    let named: Vec<&str> =
        named.split("pub fn ").skip(1).map(|rest| rest.split('(').next().unwrap()).collect();
    assert!(named.len() >= 2, "{named:?}");
    assert!(named.iter().all(|name| own.contains(&format!("{name}(at)"))), "{named:?}");
}
