//! After any history the controllers settle, and the objects are consistent.

use proptest::prelude::*;
use quorate_apistore::fields::{condition, deleting, items, name, text, uid};
use quorate_apistore::store::Propagation;
use serde_json::{Value, json};

use super::cluster::{Cluster, owned_by};

/// An act of a user or the kubelet, or a loss. Numbers choose among few names, so that acts meet the same objects.
#[derive(Clone, Debug)]
enum Deed {
    CreateClaim(u8),
    CreatePod { number: u8, with_claim: bool, owned: bool },
    CreateOwner,
    RunPod { number: u8, ready: bool },
    DeletePod(u8),
    StopPod(u8),
    DeleteClaim(u8),
    DeleteOwner(u8),
    GrowClaim(u8),
    Cordon { node: u8, on: bool },
    LoseNode(u8),
    Wait(u8),
}

fn deed() -> impl Strategy<Value = Deed> {
    let number = || 0..2_u8;
    prop_oneof![
        number().prop_map(Deed::CreateClaim),
        (number(), any::<bool>(), any::<bool>()).prop_map(|(number, with_claim, owned)| Deed::CreatePod {
            number,
            with_claim,
            owned
        }),
        Just(Deed::CreateOwner),
        (number(), any::<bool>()).prop_map(|(number, ready)| Deed::RunPod { number, ready }),
        number().prop_map(Deed::DeletePod),
        number().prop_map(Deed::StopPod),
        number().prop_map(Deed::DeleteClaim),
        (0..3_u8).prop_map(Deed::DeleteOwner),
        number().prop_map(Deed::GrowClaim),
        (1..4_u8, any::<bool>()).prop_map(|(node, on)| Deed::Cordon { node, on }),
        (1..4_u8).prop_map(Deed::LoseNode),
        (0..200_u8).prop_map(Deed::Wait),
    ]
}

/// Executes a deed if its object exists.
fn act(cluster: &mut Cluster, deed: &Deed) {
    let named = |number: u8| format!("demo-{number}");
    let there = |cluster: &Cluster, plural: &str, name: &str| cluster.find(plural, name);
    match *deed {
        Deed::CreateClaim(number) => {
            if there(cluster, "persistentvolumeclaims", &named(number)).is_none() {
                cluster.claim(&named(number), None);
            }
        }
        Deed::CreatePod { number, with_claim, owned } => {
            if there(cluster, "pods", &named(number)).is_none() {
                let owner = there(cluster, "configmaps", "owner").filter(|_| owned);
                let volumes =
                    json!([{ "name": "data", "persistentVolumeClaim": { "claimName": named(number) } }]);
                let owners = owner.map_or(Value::Null, |owner| owned_by(&owner));
                let metadata = json!({ "ownerReferences": owners });
                let volumes = if with_claim { volumes } else { json!([]) };
                cluster.pod(&named(number), &json!({ "metadata": metadata, "spec": { "volumes": volumes } }));
            }
        }
        Deed::CreateOwner => {
            if there(cluster, "configmaps", "owner").is_none() {
                cluster.create("configmaps", json!({ "metadata": { "name": "owner" } }));
            }
        }
        Deed::RunPod { number, ready } => {
            let placed =
                there(cluster, "pods", &named(number)).filter(|pod| !text(pod, "/spec/nodeName").is_empty());
            if placed.is_some() {
                cluster.run_pod(&named(number), &format!("127.0.0.{number}"), ready);
            }
        }
        Deed::DeletePod(number) => {
            if there(cluster, "pods", &named(number)).is_some() {
                cluster.delete("pods", &named(number));
            }
        }
        Deed::StopPod(number) => {
            if there(cluster, "pods", &named(number)).is_some_and(|pod| deleting(&pod)) {
                cluster.remove_pod(&named(number));
            }
        }
        Deed::DeleteClaim(number) => {
            if there(cluster, "persistentvolumeclaims", &named(number)).is_some() {
                cluster.delete("persistentvolumeclaims", &named(number));
            }
        }
        Deed::DeleteOwner(how) => {
            let how =
                [Propagation::Background, Propagation::Foreground, Propagation::Orphan][usize::from(how)];
            if there(cluster, "configmaps", "owner").is_some() {
                cluster.delete_as("configmaps", "owner", how);
            }
        }
        Deed::GrowClaim(number) => {
            let claim = there(cluster, "persistentvolumeclaims", &named(number));
            if claim.is_some_and(|claim| text(&claim, "/status/phase") == "Bound") {
                let grow = json!({ "spec": { "resources": { "requests": { "storage": "2Gi" } } } });
                cluster.edit("persistentvolumeclaims", &named(number), &grow);
            }
        }
        Deed::Cordon { node, on } => {
            let node = format!("node-{node}");
            if there(cluster, "nodes", &node).is_some() {
                cluster.edit("nodes", &node, &json!({ "spec": { "unschedulable": on } }));
            }
        }
        Deed::LoseNode(node) => {
            let node = format!("node-{node}");
            if there(cluster, "nodes", &node).is_some() {
                cluster.delete("nodes", &node);
            } else {
                cluster.node(&node);
            }
        }
        Deed::Wait(seconds) => cluster.pass_seconds(seconds.into()),
    }
}

fn check(cluster: &Cluster) {
    let claims = cluster.all("persistentvolumeclaims");
    let volumes = cluster.all("persistentvolumes");
    for claim in claims.iter().filter(|claim| text(claim, "/status/phase") == "Bound") {
        let volume = volumes.iter().find(|volume| name(volume) == text(claim, "/spec/volumeName")).unwrap();
        assert_eq!(text(volume, "/spec/claimRef/uid"), uid(claim));
        assert_eq!(volume["spec"]["capacity"], claim["status"]["capacity"]);
    }
    for volume in &volumes {
        assert!(
            claims.iter().any(|claim| uid(claim) == text(volume, "/spec/claimRef/uid")),
            "{}",
            name(volume)
        );
    }
    let pods = cluster.all("pods");
    let owners = cluster.all("configmaps");
    for pod in &pods {
        let owned = items(pod, "/metadata/ownerReferences");
        let orphaned = !owned.is_empty() && !owners.iter().any(|owner| uid(owner) == text(&owned[0], "/uid"));
        assert!(!orphaned || deleting(pod), "{} exists without its owner", name(pod));
        let bound = items(pod, "/spec/volumes")
            .first()
            .map(|volume| text(volume, "/persistentVolumeClaim/claimName"));
        if let Some(claim) = bound.filter(|_| !text(pod, "/spec/nodeName").is_empty()) {
            assert_eq!(text(&cluster.get("persistentvolumeclaims", claim), "/status/phase"), "Bound");
        }
    }
    let serving = |pod: &&Value| condition(pod, "Ready") == "True" && !deleting(pod);
    let ready: Vec<&str> = pods.iter().filter(serving).map(|pod| text(pod, "/status/podIP")).collect();
    let endpoints = cluster.get("endpoints", "demo");
    let served = items(&endpoints, "/subsets").iter().flat_map(|subset| items(subset, "/addresses"));
    assert_eq!(served.map(|address| text(address, "/ip")).collect::<Vec<_>>(), ready);
    let budget = cluster.get("poddisruptionbudgets", "demo");
    assert_eq!(budget["status"]["currentHealthy"], json!(ready.len()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_controllers_settle_after_any_history(deeds in prop::collection::vec(deed(), 1..60), every in 1..4_usize) {
        let mut cluster = Cluster::with_nodes(3);
        let selector = json!({ "app": "demo" });
        cluster.create("services", json!({ "metadata": { "name": "demo" }, "spec": { "selector": selector, "ports": [{ "port": 2379 }] } }));
        let spec = json!({ "minAvailable": 2, "selector": { "matchLabels": selector } });
        cluster.create("poddisruptionbudgets", json!({ "metadata": { "name": "demo" }, "spec": spec }));
        for (at, deed) in deeds.iter().enumerate() {
            act(&mut cluster, deed);
            if at % every == 0 {
                cluster.settle();
                check(&cluster);
            }
        }
        cluster.settle();
        check(&cluster);
    }
}
