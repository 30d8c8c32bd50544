//! Certificates in Secrets that somebody else keeps: what is copied of them, and what is said of those that cannot be taken.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use quorate_api::keys;
use quorate_manifests::Kind;
use quorate_manifests::certificate::names;
use quorate_model::{ClusterRef, Leaf, Span};
use quorate_pki::{Pair, authority, client_of_others, intermediate, leaf_of_others};
use quorate_status::EventText;
use serde_json::{Value, json};

use crate::world::{BEGIN, World};

const DAY: u64 = 86_400;

fn spec() -> Value {
    let secrets = json!({ "serverSecret": "server", "clientSecret": "client", "operatorSecret": "operator" });
    json!({ "size": 1, "version": "3.6.16",
        "tls": { "provider": "secrets", "providerCfg": { "secretsCfg": secrets } } })
}

fn validity(days: u64) -> quorate_pki::Validity {
    quorate_pki::Validity { not_before: BEGIN.0, not_after: (BEGIN + Span::seconds(days * DAY)).0 }
}

fn ca(number: u64) -> Pair {
    authority("Example CA", number, validity(3650))
}

fn server(by: &Pair, number: u64) -> Pair {
    let tls = quorate_api::cluster::TlsSpec::default();
    let names = names(Leaf::Server, &ClusterRef::new("default", "demo"), &tls);
    leaf_of_others(&by.key, "etcd of ours", &names, number, validity(90))
}

fn client(by: &Pair, common_name: &str, number: u64) -> Pair {
    client_of_others(&by.key, common_name, number, validity(90))
}

fn secret(name: &str, (cert, key, ca): (&str, &str, &str)) -> Value {
    let entry = |pem: &str| json!(ByteString(pem.as_bytes().to_vec()));
    json!({
        "metadata": { "name": name, "namespace": "default", "labels": { keys::CLUSTER: "demo" } },
        "type": "kubernetes.io/tls",
        "data": { "tls.crt": entry(cert), "tls.key": entry(key), "ca.crt": entry(ca) },
    })
}

fn put(world: &mut World, name: &str, pair: &Pair, ca: &str) {
    world.put(Kind::Secret, secret(name, (&pair.cert, &pair.key, ca)));
}

fn issue(world: &mut World, by: &Pair, number: u64) {
    put(world, "server", &server(by, number), &by.cert);
    put(world, "client", &client(by, "etcd client", number + 1), &by.cert);
}

fn pem(world: &World, secret: &str, key: &str) -> String {
    let secret: Secret = world.get(Kind::Secret, secret);
    String::from_utf8(secret.data.unwrap()[key].0.clone()).unwrap()
}

/// What is wrong with the certificate of the server in this Secret.
fn why(cert: &str, key: &str, ca: &str) -> Option<String> {
    let mut world = World::new(&spec());
    world.put(Kind::Secret, secret("server", (cert, key, ca)));
    refusal(&mut world)
}

fn refusal(world: &mut World) -> Option<String> {
    let certificates = world.observe().unwrap().observation.snapshot.certificates.unwrap();
    certificates.given.unwrap().content.err()
}

fn lines(pem: &str) -> Vec<&str> {
    pem.lines().collect()
}

#[test]
fn a_cluster_begins_with_copies_of_what_is_in_the_secrets_and_no_key_of_the_authority() {
    let mut world = World::new(&spec());
    let by = ca(77);
    issue(&mut world, &by, 100);
    world.settle();
    assert_eq!(world.condition("TLSReady").1, "CertificatesIssued", "{}", world.condition("TLSReady").2);
    assert_eq!(lines(&pem(&world, "demo-server-tls", "tls.crt")), lines(&server(&by, 100).cert));
    assert_eq!(pem(&world, "demo-server-tls", "tls.key"), server(&by, 100).key);
    assert_eq!(
        lines(&pem(&world, "demo-client-tls", "tls.crt")),
        lines(&client(&by, "etcd client", 101).cert)
    );
    for secret in ["demo-ca", "demo-server-tls", "demo-client-tls", "demo-connection"] {
        let key = if secret == "demo-ca" { "tls.crt" } else { "ca.crt" };
        assert_eq!(lines(&pem(&world, secret, key)), lines(&by.cert), "{secret}");
    }
    assert!(pem(&world, "demo-ca", "tls.key").starts_with("none"), "{}", pem(&world, "demo-ca", "tls.key"));
    assert_ne!(pem(&world, "demo-peer-tls", "ca.crt"), pem(&world, "demo-server-tls", "ca.crt"));

    // Renewed: copied. Deleted: what was copied stays, and it is told.
    put(&mut world, "server", &server(&by, 200), &by.cert);
    world.settle();
    assert_eq!(lines(&pem(&world, "demo-server-tls", "tls.crt")), lines(&server(&by, 200).cert));
    world.remove(Kind::Secret, "server");
    world.settle();
    let (holds, reason, message) = world.condition("TLSReady");
    assert_eq!((&*holds, &*reason), ("True", "RotationRefused"), "{message}");
    assert!(message.contains("Secret default/server cannot be taken: it does not exist"), "{message}");
    assert_eq!(lines(&pem(&world, "demo-server-tls", "tls.crt")), lines(&server(&by, 200).cert));
}

#[test]
fn until_all_can_be_taken_nothing_is_made_and_the_reason_is_told() {
    let mut world = World::new(&spec());
    let says = |world: &World, text: &str| {
        let (_, reason, message) = world.condition("TLSReady");
        assert_eq!(reason, "AuthorityRefused", "{message}");
        assert!(message.contains(text), "{message}");
    };
    world.settle();
    says(
        &world,
        "spec.tls names Secret default/server, whose authority cannot be taken: it does not exist, or lacks the label",
    );
    let by = ca(77);
    put(&mut world, "server", &server(&by, 100), &by.cert);
    world.settle();
    says(&world, "Secret default/client: it does not exist");
    put(&mut world, "client", &client(&ca(78), "etcd client", 101), &ca(78).cert);
    world.settle();
    says(&world, "another authority has signed the client certificate than that of the server");
    issue(&mut world, &by, 100);
    world.settle();
    assert_eq!(world.condition("TLSReady").1, "CertificatesIssued");
}

#[test]
fn what_members_or_clients_would_not_accept_is_refused_with_the_reason() {
    let by = ca(77);
    let good = server(&by, 100);
    assert_eq!(why(&good.cert, &good.key, &by.cert), None);
    let other = server(&by, 101);
    let alone = client(&by, "etcd of ours", 102);
    let named = |name: &str| {
        let tls = quorate_api::cluster::TlsSpec::default();
        let names = names(Leaf::Server, &ClusterRef::new("default", "demo"), &tls);
        leaf_of_others(&by.key, name, &names, 103, validity(90))
    };
    for (pair, ca, says) in [
        (&good, "", "it has no ca.crt: whoever issued it names no authority of its own, as with ACME"),
        (&good, &*ca(78).cert, "neither ca.crt nor tls.crt has the authority that signed it"),
        (&Pair { cert: good.cert.clone(), key: other.key.clone() }, &*by.cert, "not the key of its tls.crt"),
        (&Pair { cert: good.cert.clone(), key: String::new() }, &*by.cert, "it has no tls.key"),
        (
            &Pair { cert: "rubbish".to_owned(), key: good.key.clone() },
            &*by.cert,
            "tls.crt has no certificate",
        ),
        (&alone, &*by.cert, "its certificate is not valid for *.demo.default.svc.cluster.local"),
        (&named("root"), &*by.cert, "its common name \"root\" is reserved"),
        (&named("quorate-peer"), &*by.cert, "its common name \"quorate-peer\" is reserved"),
    ] {
        let why = why(&pair.cert, &pair.key, ca).unwrap_or_else(|| panic!("{says}"));
        assert!(why.contains(says), "{says}: {why}");
    }
}

#[test]
fn an_intermediate_authority_is_trusted_by_itself_and_only_where_it_leads_to_the_named_one() {
    let root = ca(77);
    let between = intermediate(&root.key, "Example Intermediate", 78, validity(3650));
    let leaf = server(&between, 100);
    let chain = format!("{}{}", leaf.cert, between.cert);
    assert_eq!(why(&chain, &leaf.key, &root.cert), None);
    let why = why(&chain, &leaf.key, &ca(99).cert).unwrap();
    assert!(why.contains("does not lead to one in ca.crt"), "{why}");

    let mut world = World::new(&spec());
    world.put(Kind::Secret, secret("server", (&chain, &leaf.key, &root.cert)));
    let own = client(&between, "etcd client", 101);
    let own_chain = format!("{}{}", own.cert, between.cert);
    world.put(Kind::Secret, secret("client", (&own_chain, &own.key, &root.cert)));
    world.settle();
    assert_eq!(world.condition("TLSReady").1, "CertificatesIssued");
    assert_eq!(
        lines(&pem(&world, "demo-server-tls", "tls.crt")),
        lines(&chain),
        "clients may trust the root alone"
    );
    assert_eq!(lines(&pem(&world, "demo-server-tls", "ca.crt")), lines(&between.cert));
}

#[test]
fn a_copy_of_another_authority_that_cannot_be_had_anew_is_told_with_what_to_do() {
    let mut world = World::new(&spec());
    issue(&mut world, &ca(77), 100);
    world.settle();
    let other = client(&ca(78), "etcd client", 102);
    // What came with the authority would be copied again.
    world.edit(Kind::Secret, "demo-ca", |own| {
        own["data"].as_object_mut().unwrap().retain(|entry, _| !entry.starts_with("staged"));
    });
    world.edit(Kind::Secret, "demo-client-tls", |copy| {
        let both = format!("{}{}", ca(77).cert, ca(78).cert);
        let copied = secret("", (&other.cert, &other.key, &both));
        copy["data"] = copied["data"].clone();
    });
    for (there, says) in [
        (None, "and Secret default/client: it does not exist"),
        (Some(&other), "and what is there is of another authority"),
    ] {
        match there {
            None => world.remove(Kind::Secret, "client"),
            Some(other) => put(&mut world, "client", other, &ca(78).cert),
        }
        world.settle();
        let (holds, reason, message) = world.condition("TLSReady");
        assert_eq!((&*holds, &*reason), ("False", "CertificatesMissing"), "{message}");
        let begins = "the client certificate cannot be used: another authority signed it. It comes from where Secret default/server does";
        assert!(message.starts_with(begins) && message.contains(says), "{message}");
        assert!(message.contains("certificate there that authority"), "{message}");
    }
    issue(&mut world, &ca(77), 100);
    world.settle();
    // Somebody may present what the other one signed.
    assert_eq!(world.condition("TLSReady").1, "ClientsMustFollow");
}

#[test]
fn clients_are_told_of_a_new_authority_of_the_issuer_that_nobody_ordered_here() {
    let mut world = World::new(&spec());
    issue(&mut world, &ca(77), 100);
    world.settle();
    issue(&mut world, &ca(78), 200);
    world.settle();
    let (holds, reason, message) = world.condition("TLSReady");
    assert_eq!((&*holds, &*reason), ("True", "ClientsMustFollow"), "{message}");
    let told = |event: &&EventText| event.warning && event.what.message() == message;
    assert_eq!(world.events.iter().filter(told).count(), 1);
}

#[test]
fn a_users_certificate_is_told_to_come_from_where_the_key_is() {
    let mut world = World::new(&spec());
    issue(&mut world, &ca(77), 100);
    world.settle();
    let secrets: Vec<Secret> =
        ["demo-ca", "demo-client-tls"].iter().map(|name| world.get(Kind::Secret, name)).collect();
    let secrets: Vec<&Secret> = secrets.iter().collect();
    let at = ClusterRef::new("default", "demo");
    let signer = quorate_manifests::user::signer(&world.cluster(), &at, &secrets);
    assert!(matches!(signer, Err(quorate_manifests::user::NoSigner::Elsewhere)), "{signer:?}");
}

#[test]
fn s15_a_cluster_issuer_signs_only_where_the_operator_admits_it() {
    let mut spec = spec();
    let cfg = json!({ "issuerKind": "ClusterIssuer", "issuerName": "company" });
    spec["tls"] = json!({ "provider": "cert-manager", "providerCfg": { "certManagerCfg": cfg } });
    for (admitted, says) in [
        (
            vec![],
            Some("ClusterIssuer company is none that this operator admits (--allowed-cluster-issuers): none"),
        ),
        (vec!["other"], Some("(--allowed-cluster-issuers): other")),
        (vec!["other", "company"], None),
        (vec!["*"], None),
    ] {
        let mut world = World::new(&spec);
        world.defaults.allowed_cluster_issuers = admitted.iter().map(|&name| name.to_owned()).collect();
        let refused = world.observe().err().map(|invalid| invalid.to_string());
        assert_eq!(refused.is_some(), says.is_some(), "{refused:?}");
        assert!(refused.unwrap_or_default().contains(says.unwrap_or_default()), "{says:?}");
    }
}

#[test]
fn a_secret_of_cert_manager_is_taken_only_if_it_is_of_the_issuer_that_the_spec_names() {
    let mut spec = spec();
    let cfg = json!({ "issuerName": "ca" });
    spec["tls"] = json!({ "provider": "cert-manager", "providerCfg": { "certManagerCfg": cfg } });
    let by = ca(77);
    let issued = |leaf: &str, pair: &Pair, issuer: &str| {
        let mut made = secret(&format!("demo-{leaf}-issued"), (&pair.cert, &pair.key, &by.cert));
        made["metadata"]["annotations"] = json!({
            "cert-manager.io/certificate-name": format!("demo-{leaf}"),
            "cert-manager.io/issuer-name": issuer, "cert-manager.io/issuer-kind": "Issuer",
        });
        made
    };
    for (issuer, taken) in [("of-before", false), ("ca", true)] {
        let mut world = World::new(&spec);
        world.put(Kind::Secret, issued("server", &server(&by, 100), issuer));
        world.put(Kind::Secret, issued("client", &client(&by, "etcd client", 101), issuer));
        world.settle();
        assert_eq!(
            world.condition("TLSReady").1 == "CertificatesIssued",
            taken,
            "{}",
            world.condition("TLSReady").2
        );
    }
}

#[test]
fn what_the_issuer_says_is_told_also_where_every_certificate_exists() {
    let mut world = World::new(&spec());
    issue(&mut world, &ca(77), 100);
    world.settle();
    let mut pass = world.observe().unwrap();
    let given = pass.observation.snapshot.certificates.as_mut().unwrap().given.as_mut().unwrap();
    given.see_issuer("Certificate default/demo-server is changed whenever the operator writes it");
    let conditions = world.status_again(&pass).conditions;
    let ready = conditions.into_iter().find(|one| one.type_ == "TLSReady").unwrap();
    assert_eq!((&*ready.status, &*ready.reason), ("True", "CertificatesIssued"));
    assert!(ready.message.contains("Certificate default/demo-server is changed"), "{}", ready.message);
}
