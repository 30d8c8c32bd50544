//! The names of the objects of two clusters in one namespace are different, whatever the clusters are called.

use std::collections::BTreeSet;

use quorate_api::EtcdCluster;
use quorate_manifests::{Defaults, Kind, cert_manager, credentials, names_to_bootstrap, resolve};
use quorate_model::ClusterRef;
use serde_json::json;

fn cluster(name: &str) -> EtcdCluster {
    let object = json!({
        "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdCluster",
        "metadata": { "name": name, "namespace": "default", "uid": "u-1" },
        "spec": { "size": 3, "version": "3.6.16", "storageSpec": { "volumeSizeRequest": "1Gi" } },
    });
    serde_json::from_value(object).unwrap()
}

/// Every name that is derived from that of a cluster.
fn derived(name: &str) -> BTreeSet<(Kind, String)> {
    let at = ClusterRef::new("default", name);
    let secrets = credentials::secrets(&at, None, []).into_iter().map(|name| (Kind::Secret, name));
    let own = [Kind::Budget, Kind::NetworkPolicy].map(|kind| (kind, name.to_owned()));
    let certificates =
        cert_manager::leaves(true).map(|leaf| (Kind::Certificate, cert_manager::name(leaf, &at)));
    names_to_bootstrap(&cluster(name)).into_iter().chain(secrets).chain(own).chain(certificates).collect()
}

/// What follows the name of a cluster in a name that is derived from it, in whole words.
fn endings() -> BTreeSet<String> {
    let mut endings = BTreeSet::new();
    for (_, name) in derived("demo") {
        let ending = name.strip_prefix("demo").unwrap_or_default();
        let words: Vec<usize> = ending.match_indices('-').map(|(at, _)| at).chain([ending.len()]).collect();
        endings.extend(words.into_iter().map(|at| ending[..at].to_owned()));
    }
    endings.remove("");
    endings
}

#[test]
fn a_cluster_whose_objects_would_have_names_of_another_one_is_refused_and_no_other_is() {
    let refused = |name: &str| resolve(&cluster(name), &Defaults::default()).err();
    assert_eq!(refused("demo"), None);
    let common =
        |one: &str, other: &str| derived(one).intersection(&derived(other)).cloned().collect::<Vec<_>>();
    let mut meets = BTreeSet::new();
    for ending in endings() {
        let other = format!("demo{ending}");
        let (same, is_refused) = (common("demo", &other), refused(&other).is_some());
        assert!(is_refused || same.is_empty(), "{other}: {same:?}");
        if !same.is_empty() {
            meets.insert(ending);
        } else if is_refused {
            let (shorter, _) = other.rsplit_once('-').unwrap();
            assert!(!common(shorter, &other).is_empty(), "{other} is refused for nothing");
        }
    }
    assert_eq!(meets, ["-client", "-peer", "-root"].map(str::to_owned).into());
    let message = refused("demo-peer").unwrap().to_string();
    assert!(message.starts_with("metadata.name: ") && message.contains("EtcdCluster demo "), "{message}");
}
