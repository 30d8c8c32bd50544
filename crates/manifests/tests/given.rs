//! An authority of clients in a Secret that the spec names: which are taken, what is copied, and what is said of the others.

use k8s_openapi::ByteString;
use quorate_api::keys;
use quorate_manifests::Kind;
use quorate_manifests::certificate::private_key;
use quorate_model::Span;
use quorate_pki::Pair;
use serde_json::{Value, json};

use crate::world::{BEGIN, World};

const DAY: u64 = 86_400;

fn spec() -> Value {
    let auto = json!({ "caBundleSecret": "my-ca" });
    json!({ "size": 1, "version": "3.6.16", "tls": { "providerCfg": { "autoCfg": auto } } })
}

fn secret(name: &str, cert: &str, key: &str) -> Value {
    let entry = |pem: &str| json!(ByteString(pem.as_bytes().to_vec()));
    json!({
        "metadata": { "name": name, "namespace": "default", "labels": { keys::CLUSTER: "demo" } },
        "data": { "tls.crt": entry(cert), "tls.key": entry(key) },
    })
}

fn authority(number: u64) -> Pair {
    let not_after = (BEGIN + Span::seconds(3650 * DAY)).0;
    let validity = quorate_pki::Validity { not_before: BEGIN.0, not_after };
    quorate_pki::authority_of_others("Example CA", number, validity)
}

fn given_to(world: &mut World, pair: &Pair) {
    world.put(Kind::Secret, secret("my-ca", &pair.cert, &pair.key));
}

fn pem(world: &World, secret: &str, key: &str) -> String {
    let secret: k8s_openapi::api::core::v1::Secret = world.get(Kind::Secret, secret);
    String::from_utf8(secret.data.unwrap()[key].0.clone()).unwrap()
}

/// As openssl makes them: certificate and key in one.
fn file(name: &str) -> String {
    let path = format!("{}/tests/authorities/{name}.pem", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

/// What is wrong with what is in the Secret.
fn why(cert: &str, key: &str) -> Option<String> {
    let mut world = World::new(&spec());
    world.put(Kind::Secret, secret("my-ca", cert, key));
    let certificates = world.observe().unwrap().observation.snapshot.certificates.unwrap();
    certificates.given.unwrap().content.err()
}

#[test]
fn an_authority_is_taken_whatever_form_its_key_has() {
    for name in ["rsa-pkcs1", "rsa-pkcs8", "p256-sec1", "p384-pkcs8"] {
        let pem = file(name);
        assert_eq!(why(&pem, &pem), None, "{name}");
        let converted = private_key::to_pkcs8(&pem).unwrap();
        assert!(converted.starts_with("-----BEGIN PRIVATE KEY-----"), "{name}");
        assert_eq!(why(&pem, &converted), None, "{name}: it is the same key");
    }
    // What follows the certificate is its chain.
    let chain = format!("{}{}", file("p256-sec1"), file("rsa-pkcs1"));
    assert_eq!(why(&chain, &file("p256-sec1")), None);
}

#[test]
fn what_would_not_be_accepted_or_cannot_sign_is_refused_with_the_reason() {
    for (name, says) in [
        ("no-authority", "not one of an authority"),
        ("signs-no-certificates", "keyCertSign"),
        ("constrained", "nameConstraints"),
        ("no-identifier", "subjectKeyIdentifier"),
        ("clients-alone", "extendedKeyUsage"),
        ("encrypted", "ENCRYPTED PRIVATE KEY"),
        ("rsa1024", "RSA of 1024 bits"),
        ("p521", "P-256 and P-384"),
        ("ed25519", "neither RSA nor ECDSA"),
    ] {
        let pem = file(name);
        let why = why(&pem, &pem).unwrap_or_else(|| panic!("{name} is taken"));
        assert!(why.contains(says), "{name}: {why}");
    }
    let good = file("p256-sec1");
    for (cert, key, says) in [
        (&*good, &*file("rsa-pkcs8"), "not the key of its tls.crt"),
        (&*good, &*file("p384-pkcs8"), "not the key of its tls.crt"),
        (&*good, "", "it has no tls.key"),
        (&*good, "-----BEGIN PRIVATE KEY-----\nMII\n-----END PRIVATE KEY-----\n", "tls.key"),
        ("", &*good, "it has no tls.crt"),
        ("rubbish", &*good, "tls.crt has no certificate"),
    ] {
        let why = why(cert, key).unwrap_or_else(|| panic!("{says}"));
        assert!(why.contains(says), "{why}");
    }
}

#[test]
fn a_key_that_is_cut_anywhere_is_refused_and_breaks_nothing() {
    for name in ["rsa-pkcs1", "p256-sec1", "p384-pkcs8"] {
        let whole = file(name);
        let der = pem::parse_many(&whole).unwrap();
        let key = der.iter().find(|block| block.tag().ends_with("PRIVATE KEY")).unwrap();
        for length in 0..key.contents().len() {
            let cut = pem::encode(&pem::Pem::new(key.tag(), &key.contents()[..length]));
            if length < 40 || length.is_multiple_of(7) {
                assert!(why(&whole, &cut).is_some(), "{name} of {length} bytes");
            }
        }
    }
}

#[test]
fn a_new_cluster_gets_a_copy_that_signs_for_clients_and_peers_get_their_own() {
    let mut world = World::new(&spec());
    let given = authority(77);
    // Others in the chain sign for nobody here.
    let chain = format!("{}{}", given.cert, authority(78).cert);
    given_to(&mut world, &Pair { cert: chain, key: given.key.clone() });
    world.settle();
    assert_eq!(world.condition("TLSReady").1, "CertificatesIssued");
    for (secret, key) in
        [("demo-ca", "tls.crt"), ("demo-server-tls", "ca.crt"), ("demo-connection", "ca.crt")]
    {
        assert_eq!(pem(&world, secret, key), given.cert, "{secret}");
    }
    assert_eq!(pem(&world, "demo-ca", "tls.key"), given.key);
    assert_ne!(pem(&world, "demo-peer-tls", "ca.crt"), given.cert);
    let copy: Value = world.get(Kind::Secret, "demo-ca");
    assert!(copy["metadata"]["ownerReferences"].is_null(), "it is kept with the data: {copy:#}");
    let status = world.status().certificates.unwrap();
    assert!(status.given && status.rotation.is_none());
    // Nothing ends with the Secret of the user, and its loss is told.
    world.remove(Kind::Secret, "my-ca");
    world.settle();
    let (holds, reason, message) = world.condition("TLSReady");
    assert_eq!((&*holds, &*reason), ("True", "RotationRefused"), "{message}");
    assert!(message.contains("Secret default/my-ca cannot be taken: it does not exist"), "{message}");
    assert_eq!(world.condition("Available").0, "True");
}

#[test]
fn s15_a_secret_without_the_label_of_the_cluster_is_not_used_nor_is_one_of_the_clusters_own() {
    for labels in [json!({}), json!({ keys::CLUSTER: "other" })] {
        let mut world = World::new(&spec());
        let given = authority(77);
        given_to(&mut world, &given);
        world.edit(Kind::Secret, "my-ca", |secret| secret["metadata"]["labels"] = labels);
        world.settle();
        let (holds, reason, message) = world.condition("TLSReady");
        assert_eq!((&*holds, &*reason), ("False", "AuthorityRefused"), "{message}");
        assert!(message.contains("lacks the label operator.etcd.io/cluster=demo"), "{message}");
        assert!(world.events.iter().any(|event| event.what.reason().as_str() == "AuthorityRefused"));
        assert!(world.all::<Value>(Kind::Pod).is_empty());
    }
    // That of peers has the label of the cluster.
    let mut world = World::new(&json!({ "size": 1, "version": "3.6.16" }));
    world.settle();
    for own in ["demo-peer-ca", "demo-ca", "demo-server-tls", "demo-connection", "demo-root-client-tls"] {
        world.edit(Kind::Cluster, "demo", |cluster| {
            cluster["spec"]["tls"] = json!({ "providerCfg": { "autoCfg": { "caBundleSecret": own } } });
        });
        world.settle();
        let (holds, reason, message) = world.condition("TLSReady");
        assert_eq!((&*holds, &*reason), ("True", "RotationRefused"), "{own}: {message}");
        assert!(world.status().certificates.unwrap().rotation.is_none());
    }
}

#[test]
fn in_a_running_cluster_it_is_taken_beside_the_present_one_and_both_are_trusted() {
    let mut world = World::new(&json!({ "size": 1, "version": "3.6.16" }));
    world.settle();
    let (given, own) = (authority(77), pem(&world, "demo-ca", "tls.crt"));
    given_to(&mut world, &given);
    world.edit(Kind::Cluster, "demo", |cluster| cluster["spec"]["tls"] = spec()["tls"].clone());
    world.settle();
    let rotation = world.status().certificates.unwrap().rotation.unwrap();
    assert_eq!((&*rotation.authority, &*rotation.stage, rotation.given), ("clients", "Trust", true));
    assert_eq!(
        (pem(&world, "demo-ca", "next.crt"), pem(&world, "demo-ca", "next.key")),
        (given.cert.clone(), given.key)
    );
    for secret in ["demo-server-tls", "demo-client-tls", "demo-connection"] {
        assert_eq!(pem(&world, secret, "ca.crt"), format!("{own}{}", given.cert), "{secret}");
    }
}
