//! Who is let in at the port of peers: members, by the common name of their leaf, and nobody else whom their authority knows.

use quorate_manifests::Kind;
use quorate_manifests::certificate::{Generate, KeyPair, LeafContent, PEER_NAME, common_name, names};
use quorate_model::certificate::Validity;
use quorate_model::{ClusterRef, Leaf, Span};
use serde_json::{Value, json};

use crate::world::{World, generate};

const FLAG: &str = "--peer-cert-allowed-cn=quorate-peer";

fn spec(size: usize) -> Value {
    json!({ "size": size, "version": "3.6.16" })
}

fn args(pod: &Value) -> Vec<String> {
    serde_json::from_value(pod["spec"]["containers"][0]["args"].clone()).unwrap()
}

/// Whether a member looks up names to see whether a peer connects from one of them.
fn looks_names_up(world: &World, pod: &str) -> bool {
    let args = args(&world.get(Kind::Pod, pod));
    !args.iter().any(|flag| flag.ends_with("peer-skip-client-san-verification=true"))
}

fn peer_flags(world: &World, pod: &str) -> Vec<String> {
    let mut args = args(&world.get(Kind::Pod, pod));
    args.retain(|flag| flag.starts_with("--peer-cert-allowed"));
    args
}

#[test]
fn s14_every_member_with_tls_admits_peers_by_the_common_name_that_no_other_leaf_has() {
    for version in ["3.5.35", "3.6.16", "3.7.3"] {
        let of = |size: usize| {
            let mut world = World::new(&json!({ "size": size, "version": version }));
            let runs = |n: usize| (format!("demo-{n}"), version.parse().unwrap());
            world.versions = (0..3).map(runs).collect();
            world.settle();
            world
        };
        // Ones that bootstrapped, and one that came back.
        let mut world = of(3);
        world.remove(Kind::Pod, "demo-0");
        world.settle();
        for member in ["demo-0", "demo-1", "demo-2"] {
            assert_eq!(peer_flags(&world, member), [FLAG], "{version}: {member}");
            assert!(!looks_names_up(&world, member), "{version}: {member}");
        }
        // One that joins.
        let mut world = of(1);
        world.edit(Kind::Cluster, "demo", |cluster| cluster["spec"]["size"] = json!(2));
        world.settle();
        assert_eq!(peer_flags(&world, "demo-1"), [FLAG], "{version}");
    }
    let mut plain = World::running(1);
    plain.settle();
    assert!(peer_flags(&plain, "demo-0").is_empty(), "without TLS etcd has no use for it");

    for given in [None, Some(""), Some("etcd"), Some(PEER_NAME)] {
        let tls = json!({ "providerCfg": { "autoCfg": { "commonName": given } } });
        let tls = serde_json::from_value(tls).unwrap();
        for leaf in Leaf::ALL {
            let is_peer = common_name(leaf, &tls, false) == PEER_NAME;
            assert_eq!(is_peer, leaf == Leaf::Peer, "{leaf} with commonName {given:?}");
        }
    }
}

#[test]
fn s14_a_leaf_that_members_would_take_for_another_is_reported_and_issued_anew_at_once() {
    let cases =
        [(Leaf::Peer, "etcd-peer"), (Leaf::Peer, ""), (Leaf::Server, PEER_NAME), (Leaf::Client, PEER_NAME)];
    for (leaf, misnamed) in cases {
        let mut world = World::new(&spec(1));
        world.settle();
        let secret = format!("demo-{leaf}-tls");
        let cert = certificate(&world, leaf, misnamed);
        let entry = json!(k8s_openapi::ByteString(cert.into_bytes()));
        world.edit(Kind::Secret, &secret, |secret| secret["data"]["tls.crt"] = entry.clone());
        let (holds, reason, message) = world.condition("TLSReady");
        assert_eq!((&*holds, &*reason), ("False", "CertificatesMissing"), "{message}");
        let why = format!("its common name {misnamed:?} is not its own");
        assert!(message.contains(&why), "{message}");
        world.settle();
        assert_ne!(world.get::<Value>(Kind::Secret, &secret)["data"]["tls.crt"], entry, "{leaf} {misnamed}");
        assert_eq!(world.condition("TLSReady").1, "CertificatesIssued");
    }
    // Any other common name of the server is the spec's affair: it changes with the next renewal.
    let mut world = World::new(&spec(1));
    world.settle();
    let cert = certificate(&world, Leaf::Server, "etcd");
    let entry = json!(k8s_openapi::ByteString(cert.into_bytes()));
    world.edit(Kind::Secret, "demo-server-tls", |secret| secret["data"]["tls.crt"] = entry);
    assert_eq!(world.condition("TLSReady").1, "CertificatesIssued");
}

#[test]
fn with_auth_the_server_has_no_common_name_unless_the_spec_gives_it_one_and_an_earlier_one_goes_at_once() {
    let name = |world: &World| {
        let secret: k8s_openapi::api::core::v1::Secret = world.get(Kind::Secret, "demo-server-tls");
        let pem = secret.data.unwrap()["tls.crt"].0.clone();
        let (_, pem) = x509_parser::pem::parse_x509_pem(&pem).unwrap();
        let parsed = pem.parse_x509().unwrap();
        let common_name = parsed.subject().iter_common_name().next();
        common_name.map(|name| name.as_str().unwrap().to_owned())
    };
    let mut world = World::new(&spec(1));
    world.settle();
    assert_eq!(name(&world).as_deref(), Some("quorate-server"));
    world.edit(Kind::Cluster, "demo", |cluster| cluster["spec"]["auth"] = json!({ "enabled": true }));
    assert_eq!(world.condition("TLSReady").0, "False");
    world.settle();
    assert_eq!(name(&world), None);
    assert_eq!(world.condition("TLSReady").1, "CertificatesIssued");
    assert!(!world.pass(), "it is not issued again and again");

    // What the spec says is followed at the next renewal.
    let mut world = World::new(&spec(1));
    world.edit(Kind::Cluster, "demo", |cluster| {
        cluster["spec"]["auth"] = json!({ "enabled": true });
        cluster["spec"]["tls"] =
            json!({ "providerCfg": { "autoCfg": { "commonName": "etcd.example.com" } } });
    });
    world.settle();
    assert_eq!(name(&world).as_deref(), Some("etcd.example.com"));
}

#[test]
fn the_server_cannot_have_the_common_name_of_a_user_of_etcd() {
    for (given, is_refused) in [
        ("root", true),
        (PEER_NAME, true),
        ("quorate-client", true),
        ("billing-1f2e3d4c", true),
        ("billing-1f2e3d4", false),
        ("etcd-production", false),
        ("1f2e3d4c", false),
    ] {
        let mut spec = spec(1);
        spec["tls"] = json!({ "providerCfg": { "autoCfg": { "commonName": given } } });
        let cluster = serde_json::from_value(crate::world::cluster(&spec)).unwrap();
        let found = quorate_manifests::resolve(&cluster, &quorate_manifests::Defaults::default());
        assert_eq!(found.is_err(), is_refused, "{given}");
    }
}

/// A valid leaf of the authority of its port with this common name.
fn certificate(world: &World, leaf: Leaf, common_name: &str) -> String {
    let authority: k8s_openapi::api::core::v1::Secret =
        world.get(Kind::Secret, if leaf == Leaf::Peer { "demo-peer-ca" } else { "demo-ca" });
    let entries = authority.data.unwrap();
    let text = |key: &str| String::from_utf8(entries[key].0.clone()).unwrap();
    let content = LeafContent {
        common_name: common_name.to_owned(),
        organizations: Vec::new(),
        names: names(leaf, &ClusterRef::new("default", "demo"), &world.cluster().spec.tls),
        server: leaf != Leaf::Client,
        validity: Validity { not_before: world.now, not_after: world.now + Span::seconds(100 * 86_400) },
        key: quorate_manifests::certificate::KeyAlgorithm::default(),
    };
    let authority = KeyPair { cert: text("tls.crt"), key: text("tls.key") };
    generate(&Generate::Leaf { authority, content }, 903).cert
}
