//! Real certificates of others: which are copied, and what is said of those that members would present and nobody could verify. `issued/make.sh` makes
//! them.

use k8s_openapi::ByteString;
use quorate_api::keys;
use quorate_manifests::Kind;
use serde_json::json;

use crate::world::World;

/// What a Secret has.
struct Given {
    cert: String,
    key: String,
    ca: String,
}

/// A file has the leaf, its chain and the authorities, and the key.
fn given(name: &str) -> Given {
    let text = file(&format!("{name}.pem"));
    let (certificates, key) = text.split_at(text.find("-----BEGIN PRIVATE KEY").unwrap());
    let chain: Vec<&str> = certificates.split_inclusive("-----END CERTIFICATE-----\n").collect();
    // One has an authority between.
    let sent = if name == "intermediate" { 2 } else { 1 };
    Given { cert: chain[..sent].concat(), key: key.to_owned(), ca: chain[sent..].concat() }
}

fn file(name: &str) -> String {
    std::fs::read_to_string(format!("{}/tests/issued/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// What is wrong with it.
fn why(given: &Given) -> Option<String> {
    let secrets = json!({ "serverSecret": "server", "clientSecret": "client" });
    let mut world = World::new(&json!({ "size": 1, "version": "3.6.16",
        "tls": { "provider": "secrets", "providerCfg": { "secretsCfg": secrets } } }));
    let entry = |pem: &str| json!(ByteString(pem.as_bytes().to_vec()));
    world.put(
        Kind::Secret,
        json!({
            "metadata": { "name": "server", "namespace": "default", "labels": { keys::CLUSTER: "demo" } },
            "data": { "tls.crt": entry(&given.cert), "tls.key": entry(&given.key), "ca.crt": entry(&given.ca) },
        }),
    );
    let certificates = world.observe().unwrap().observation.snapshot.certificates.unwrap();
    certificates.given.unwrap().content.err()
}

#[test]
fn what_the_operator_and_its_agents_verify_is_taken_and_all_else_is_refused_with_the_reason() {
    const ALGORITHM: &str = "do not know the algorithm of its signature, though etcd may";
    let mut wrong = Vec::new();
    for (name, refused) in [
        ("rsa2048", None),
        ("rsa4096", None),
        ("p-256", None),
        ("p-384", None),
        ("ed25519", None),
        ("pss", None),
        ("sha512-rsa", None),
        ("rsa-leaf", None),
        ("intermediate", None),
        ("constrained-elsewhere", None),
        ("no-extended-usage", None),
        ("other-key-and-its-own", None),
        ("p-521", Some(ALGORITHM)),
        ("sha512-p-256", Some(ALGORITHM)),
        ("sha1", Some(ALGORITHM)),
        ("rsa1024", Some("or one of RSA of fewer than 2048 bits")),
        ("p-521-leaf", Some("its key is on another curve than P-256 and P-384")),
        ("ed25519-leaf", Some("its key is neither RSA nor ECDSA")),
        ("constrained", Some("the nameConstraints of the authority do not admit every name")),
        ("other-key", Some("The authority in ca.crt has another key than the one that signed it")),
        ("critical", Some("UnsupportedCriticalExtension")),
        ("critical-of-authority", Some("the authority has the critical extension 1.2.3.4")),
        ("no-server", Some("does not allow extended key usage for server authentication")),
        ("no-client", Some("does not allow extended key usage for client authentication")),
    ] {
        let why = why(&given(name));
        println!("{name}: {why:?}");
        let is_right = match (&why, refused) {
            (None, None) => true,
            (Some(why), Some(says)) => why.contains(says),
            _ => false,
        };
        if !is_right {
            wrong.push((name, why));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_way_a_file_is_written_keeps_no_certificate_from_being_taken_that_go_can_read() {
    let plain = || given("p-256");
    let crlf = |text: &str| text.replace('\n', "\r\n");
    let Given { cert, key, ca } = plain();
    assert_eq!(why(&Given { cert: crlf(&cert), key: crlf(&key), ca: crlf(&ca) }), None);
    let marked = |text: &str| format!("\u{feff}{text}");
    for (given, says) in [
        (Given { cert: marked(&cert), ..plain() }, "its tls.crt begins with a byte order mark"),
        (Given { key: marked(&key), ..plain() }, "its tls.key begins with a byte order mark"),
        (Given { ca: marked(&ca), ..plain() }, "its ca.crt begins with a byte order mark"),
        (Given { key: file("encrypted-pkcs8.key"), ..plain() }, "give it as PKCS #8 without a password"),
        (
            Given { key: file("encrypted-traditional.key"), ..plain() },
            "give it as PKCS #8 without a password",
        ),
    ] {
        let why = why(&given).unwrap_or_else(|| panic!("{says}"));
        assert!(why.contains(says), "{why}");
    }
}

#[test]
fn a_leaf_whose_signature_is_garbage_is_refused() {
    let mut given = given("p-256");
    let mut der = pem::parse(&given.cert).unwrap().into_contents();
    *der.last_mut().unwrap() ^= 1;
    given.cert = pem::encode(&pem::Pem::new("CERTIFICATE", der));
    let why = why(&given).unwrap();
    assert!(why.contains("BadSignature") && why.contains("another key than the one that signed it"), "{why}");
}
