//! Secrets with certificates: how they are read and written, and what status reports about them.

use std::collections::BTreeSet;

use crate::world::{World, generate};
use k8s_openapi::api::core::v1::Secret;
use quorate_api::cluster::TlsSpec;
use quorate_api::{Reason, keys};
use quorate_manifests::Kind;
use quorate_manifests::certificate::{Generate, KeyPair, LeafContent, common_name, names, organizations};
use quorate_model::certificate::Validity;
use quorate_model::snapshot::Certificates;
use quorate_model::{Ca, ClusterRef, Instant, Leaf, Span};
use quorate_status::EventText;
use serde_json::{Value, json};

const DAY: u64 = 86_400;

fn with_tls() -> World {
    let mut world = World::new(&json!({ "size": 1, "version": "3.6.16" }));
    world.settle();
    world
}

fn seen(world: &World) -> Certificates {
    world.observe().unwrap().observation.snapshot.certificates.unwrap()
}

fn ends(world: &World, leaf: Leaf) -> Instant {
    seen(world).leaves[&leaf].content.as_ref().unwrap().validity.not_after
}

fn pem(world: &World, secret: &str, key: &str) -> String {
    let secret: Secret = world.get(Kind::Secret, secret);
    String::from_utf8(secret.data.unwrap()[key].0.clone()).unwrap()
}

fn put(world: &mut World, secret: &str, key: &str, pem: &str) {
    let entry = json!(k8s_openapi::ByteString(pem.as_bytes().to_vec()));
    world.edit(Kind::Secret, secret, |secret| secret["data"][key] = entry);
}

fn reason(world: &World) -> (String, String) {
    let (status, reason, _) = world.condition("TLSReady");
    (status, reason)
}

fn is(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

/// Another authority, with the common name that the operator would give it.
fn another_authority(world: &World) -> KeyPair {
    let uid = world.cluster().metadata.uid.unwrap();
    let validity = Validity { not_before: world.now, not_after: world.now + Span::seconds(3650 * DAY) };
    generate(&Generate::Authority { common_name: format!("quorate-ca {uid}"), validity }, 900)
}

#[test]
fn s03_the_authority_has_no_owner_and_status_records_its_fingerprint() {
    let world = with_tls();
    let authority: Value = world.get(Kind::Secret, "demo-ca");
    assert!(authority["metadata"]["ownerReferences"].is_null(), "{authority:#}");
    assert_eq!(authority["metadata"]["annotations"][keys::CLUSTER_UID], json!(world.cluster().metadata.uid));
    let leaf: Value = world.get(Kind::Secret, "demo-peer-tls");
    assert_eq!(leaf["metadata"]["ownerReferences"][0]["kind"], "EtcdCluster");
    let found = |ca| seen(&world).authorities[&ca].clone().content.unwrap().fingerprint;
    let (clients, peers) = (found(Ca::Clients), found(Ca::Peers));
    assert_eq!(clients.as_str().len(), 64);
    let recorded = world.status().certificates.unwrap();
    assert_eq!(recorded.authority.as_deref(), Some(clients.as_str()));
    assert_eq!(recorded.peer_authority.as_deref(), Some(peers.as_str()));
    assert_eq!(reason(&world), is("True", "CertificatesIssued"));
}

#[test]
fn s14_peers_have_an_authority_of_their_own_which_clients_never_see() {
    let world = with_tls();
    let (clients, peers) = (pem(&world, "demo-ca", "tls.crt"), pem(&world, "demo-peer-ca", "tls.crt"));
    assert_ne!(clients, peers);
    assert_eq!(pem(&world, "demo-peer-tls", "ca.crt"), peers, "at the port of peers it alone is trusted");
    for secret in ["demo-server-tls", "demo-client-tls", "demo-connection"] {
        assert_eq!(pem(&world, secret, "ca.crt"), clients, "{secret}");
    }
    let secret: Value = world.get(Kind::Secret, "demo-peer-ca");
    assert!(secret["metadata"]["ownerReferences"].is_null(), "{secret:#}");
    assert_eq!(secret["metadata"]["annotations"][keys::CLUSTER_UID], json!(world.cluster().metadata.uid));
}

#[test]
fn s03_an_authority_to_which_somebody_gave_an_owner_loses_it() {
    let mut world = with_tls();
    let owners = world.get::<Value>(Kind::Secret, "demo-peer-tls")["metadata"]["ownerReferences"].clone();
    world.edit(Kind::Secret, "demo-ca", |secret| {
        secret["metadata"]["ownerReferences"] = owners;
        secret["metadata"]["annotations"] = Value::Null;
    });
    world.edit(Kind::Cluster, "demo", |cluster| cluster["status"]["certificates"] = Value::Null);
    let before = pem(&world, "demo-ca", "tls.crt");
    world.settle();
    let secret: Secret = world.get(Kind::Secret, "demo-ca");
    assert!(secret.metadata.owner_references.is_none());
    assert!(secret.metadata.annotations.unwrap().contains_key(keys::CLUSTER_UID));
    assert_eq!(pem(&world, "demo-ca", "tls.crt"), before);
    assert!(world.status().certificates.unwrap().authority.is_some());
}

#[test]
fn s03_a_lost_or_replaced_authority_is_reported_with_what_to_do() {
    let mut world = with_tls();
    let backup: Value = world.get(Kind::Secret, "demo-ca");
    world.remove(Kind::Secret, "demo-ca");
    world.settle();
    assert_eq!(reason(&world), is("False", "AuthorityLost"));
    let (_, _, message) = world.condition("TLSReady");
    assert!(message.contains("Restore Secret default/demo-ca from a backup"), "{message}");
    assert_eq!(world.condition("Available").0, "True", "the members serve on");
    assert!(
        world.events.iter().any(|event| event.warning && event.what.reason().as_str() == "AuthorityLost")
    );

    let other = another_authority(&world);
    world.put(Kind::Secret, backup.clone());
    put(&mut world, "demo-ca", "tls.crt", &other.cert);
    put(&mut world, "demo-ca", "tls.key", &other.key);
    world.settle();
    let (status, why, message) = world.condition("TLSReady");
    assert_eq!((status, why), is("False", "AuthorityLost"));
    assert!(message.contains("it has another authority"), "{message}");

    world.remove(Kind::Secret, "demo-ca");
    world.put(Kind::Secret, backup);
    world.settle();
    assert_eq!(reason(&world), is("True", "CertificatesIssued"));
}

#[test]
fn s03_after_status_is_lost_another_authority_is_not_taken_for_that_of_the_leaves() {
    let mut world = with_tls();
    let other = another_authority(&world);
    let own = (pem(&world, "demo-ca", "tls.crt"), pem(&world, "demo-ca", "tls.key"));
    put(&mut world, "demo-ca", "tls.crt", &other.cert);
    put(&mut world, "demo-ca", "tls.key", &other.key);
    world.edit(Kind::Cluster, "demo", |cluster| cluster["status"]["certificates"] = Value::Null);
    world.settle();
    assert_eq!(reason(&world), is("False", "AuthorityLost"));
    assert_eq!(world.status().certificates.unwrap().authority, None);
    put(&mut world, "demo-ca", "tls.crt", &own.0);
    put(&mut world, "demo-ca", "tls.key", &own.1);
    world.settle();
    assert_eq!(reason(&world), is("True", "CertificatesIssued"));
}

#[test]
fn s03_the_next_cluster_of_a_name_takes_the_authority_of_the_one_before_only_with_its_data() {
    let mut earlier = with_tls();
    let mut left: Value = earlier.get(Kind::Secret, "demo-ca");
    left["metadata"]["annotations"][keys::CLUSTER_UID] = json!("uid of an earlier one");
    let volume: Value = {
        earlier.edit(Kind::Volume, "demo-0", |volume| {
            volume["metadata"]["annotations"][keys::CLUSTER_UID] = json!("uid of an earlier one");
        });
        earlier.get(Kind::Volume, "demo-0")
    };
    let id = earlier.status().cluster_id.unwrap();

    let taken = |world: &World| {
        let secret: Secret = world.get(Kind::Secret, "demo-ca");
        assert_eq!(
            secret.metadata.annotations.unwrap().get(keys::CLUSTER_UID),
            world.cluster().metadata.uid.as_ref()
        );
        assert_eq!(pem(world, "demo-ca", "tls.crt"), pem(&earlier, "demo-ca", "tls.crt"));
        assert_eq!(reason(world), is("True", "CertificatesIssued"));
    };
    let mut world = World::new(&json!({ "size": 1, "version": "3.6.16" }));
    world.put(Kind::Secret, left.clone());
    world.settle();
    let (_, why, message) = world.condition("Progressing");
    assert_eq!(why, "ForeignObjects", "{message}");
    let uid = world.cluster().metadata.uid.unwrap();
    assert!(message.contains(&format!("annotate it with operator.etcd.io/cluster-uid={uid}")), "{message}");
    // A person who may write the Secret says that it is to sign.
    world.edit(Kind::Secret, "demo-ca", |secret| {
        secret["metadata"]["annotations"][keys::CLUSTER_UID] = json!(uid);
    });
    world.settle();
    taken(&world);

    // One that is not owned by this EtcdCluster is not touched.
    let mut world = World::new(&json!({ "size": 1, "version": "3.6.16" }));
    let mut theirs = left.clone();
    theirs["metadata"]["labels"] = Value::Null;
    world.put(Kind::Secret, theirs);
    world.settle();
    assert_eq!(world.condition("Progressing").1, "ForeignObjects");

    // With its data it is adopted.
    let mut world = World::new(&json!({ "size": 1, "version": "3.6.16" }));
    world.put(Kind::Secret, left);
    world.put(Kind::Volume, volume);
    world.edit(Kind::Cluster, "demo", |cluster| {
        cluster["metadata"]["annotations"][keys::ADOPT] = json!(id);
    });
    world.settle();
    taken(&world);
}

#[test]
fn s04_status_reports_the_next_end_and_leaves_do_not_end_together() {
    let world = with_tls();
    let all: BTreeSet<Instant> = Leaf::of_cluster(false).map(|leaf| ends(&world, leaf)).collect();
    assert_eq!(all.len(), 3, "{all:?}");
    let life = |end: &Instant| (*end - crate::world::BEGIN).0 / 1000 / DAY;
    assert!(all.iter().all(|end| (328..=365).contains(&life(end))), "{all:?}");
    let first = all.first().unwrap().0 / 1000;
    let shown = world.status().certificates.unwrap().not_after.unwrap().0;
    assert_eq!(shown.as_second(), first);
}

#[test]
fn s04_leaves_are_renewed_at_two_thirds_of_their_life_by_the_same_authority() {
    let mut world = with_tls();
    let (cert, key) = (pem(&world, "demo-peer-tls", "tls.crt"), pem(&world, "demo-peer-tls", "tls.key"));
    let ca = pem(&world, "demo-peer-ca", "tls.crt");
    assert_eq!(pem(&world, "demo-peer-tls", "tls.crt"), cert, "not before");

    world.now = world.now + Span::seconds(250 * DAY);
    world.settle();
    assert_ne!(pem(&world, "demo-peer-tls", "tls.crt"), cert);
    assert_ne!(pem(&world, "demo-peer-tls", "tls.key"), key);
    assert_eq!(pem(&world, "demo-peer-tls", "ca.crt"), ca, "what members trust does not change");
    assert_eq!(pem(&world, "demo-peer-ca", "tls.crt"), ca);
    let peer = seen(&world).leaves[&Leaf::Peer].clone().content.unwrap();
    assert_eq!(
        peer.signed_by,
        Some(seen(&world).authorities[&Ca::Peers].clone().content.unwrap().fingerprint)
    );
    assert_eq!(reason(&world), is("True", "CertificatesIssued"));
}

#[test]
fn what_somebody_adds_to_a_bundle_is_taken_out_and_told_until_every_member_has_forgotten_it() {
    let mut world = with_tls();
    let ca = pem(&world, "demo-peer-ca", "tls.crt");
    let bundle = format!("{ca}{}", another_authority(&world).cert);
    put(&mut world, "demo-peer-tls", "ca.crt", &bundle);
    world.settle();
    assert_eq!(pem(&world, "demo-peer-tls", "ca.crt"), ca);
    let recorded = world.status().certificates.unwrap();
    assert_eq!((recorded.trust, recorded.rotation.unwrap().stage), (1, "Drop".to_owned()));
    // No member of this world is seen.
    let (status, why, message) = world.condition("TLSReady");
    assert_eq!((status, why), is("True", "RotatingAuthority"));
    assert!(message.contains("is no longer to be trusted beside it"), "{message}");
}

#[test]
fn s04_the_condition_warns_of_a_renewal_that_is_overdue_and_of_a_certificate_that_has_ended() {
    let mut world = with_tls();
    // The operator was away.
    world.now = world.now + Span::seconds(310 * DAY);
    assert_eq!(reason(&world), is("True", "CertificateExpiring"));
    let (_, _, message) = world.condition("TLSReady");
    assert!(message.contains("should have been renewed"), "{message}");
    world.now = world.now + Span::seconds(60 * DAY);
    assert_eq!(reason(&world), is("False", "CertificateExpired"));
    // Also while it is paused.
    world.edit(Kind::Cluster, "demo", |cluster| cluster["spec"]["paused"] = json!(true));
    world.settle();
    assert_eq!(reason(&world), is("True", "CertificatesIssued"));
}

#[test]
fn s04_an_authority_that_has_ended_is_reported_and_nothing_is_written() {
    let mut world = with_tls();
    world.now = world.now + Span::seconds(3000 * DAY);
    world.settle();
    world.now = world.now + Span::seconds(400 * DAY);
    world.settle();
    // No member of this world is seen to follow the rotation that began by time.
    assert_eq!(reason(&world), is("False", "RotationHeldUp"));
    // The leaves of these days end with their authority.
    let authority = seen(&world).authorities[&Ca::Clients].clone().content.unwrap();
    assert!(Leaf::of_cluster(false).all(|leaf| ends(&world, leaf) <= authority.validity.not_after));
    world.now = authority.validity.not_after + Span::seconds(1);
    while world.pass() {}
    let (status, why, message) = world.condition("TLSReady");
    assert_eq!((status, why), is("False", "CertificateExpired"));
    assert!(message.contains("the certificate authority in Secret default/demo-ca has ended"), "{message}");
    assert!(!world.pass(), "nothing is written");
}

/// What a Secret lacks, how it is made so, and what the message says.
type Case<'a> = (&'a str, &'a dyn Fn(&World) -> String, &'a str);

#[test]
fn s04_a_leaf_that_cannot_be_used_is_reported_and_issued_anew_in_its_secret() {
    let lacks_names = |world: &World| {
        let (cert, key) = (pem(world, "demo-ca", "tls.crt"), pem(world, "demo-ca", "tls.key"));
        let content = LeafContent {
            common_name: common_name(Leaf::Server, &TlsSpec::default(), false).to_owned(),
            organizations: Vec::new(),
            names: names(Leaf::Server, &ClusterRef::new("default", "demo"), &TlsSpec::default()).split_off(3),
            server: true,
            validity: Validity { not_before: world.now, not_after: world.now + Span::seconds(100 * DAY) },
            key: quorate_manifests::certificate::KeyAlgorithm::default(),
        };
        generate(&Generate::Leaf { authority: KeyPair { cert, key }, content }, 901).cert
    };
    let of_another = |world: &World| another_authority(world).cert;
    let cases: [Case<'_>; 5] = [
        ("tls.key", &|_| String::new(), "it has no tls.key"),
        ("tls.crt", &|_| "no PEM at all".to_owned(), "tls.crt has no certificate"),
        ("ca.crt", &of_another, "another authority signed it"),
        ("tls.crt", &of_another, "another authority signed it"),
        ("tls.crt", &lacks_names, "it is not valid for *.demo.default.svc.cluster.local"),
    ];
    for (key, content, why) in cases {
        let mut world = with_tls();
        let content = content(&world);
        put(&mut world, "demo-server-tls", key, &content);
        let (status, found, message) = world.condition("TLSReady");
        if key == "ca.crt" {
            // The leaf is of the right authority, which is known from its own Secret.
            assert!(message.contains("ca.crt lacks the authority"), "{message}");
        } else {
            assert!(message.contains(why), "{key}: {message}");
        }
        assert_eq!((status, found), is("False", "CertificatesMissing"));
        world.settle();
        // What was beside it members may have read.
        let then = if key == "ca.crt" { "RotatingAuthority" } else { "CertificatesIssued" };
        assert_eq!(reason(&world), is("True", then));
        assert_eq!(pem(&world, "demo-server-tls", "ca.crt"), pem(&world, "demo-ca", "ca.crt"));
    }
}

#[test]
fn t05_a_name_that_the_spec_adds_is_in_the_server_certificate_at_once() {
    let mut world = with_tls();
    let before = pem(&world, "demo-peer-tls", "tls.crt");
    world.edit(Kind::Cluster, "demo", |cluster| {
        cluster["spec"]["tls"] = json!({ "provider": "auto", "providerCfg": { "autoCfg": {
            "commonName": "etcd", "organizations": ["example"], "caBundleSecret": "",
            "altNames": { "dnsNames": ["etcd.example.com"], "ipAddresses": ["192.0.2.1", "2001:DB8:0::1"] },
        } } });
    });
    let (holds, _, message) = world.condition("TLSReady");
    assert!(holds == "False" && message.contains("it is not valid for etcd.example.com"), "{message}");
    world.settle();
    assert_eq!(reason(&world), is("True", "CertificatesIssued"));
    assert_eq!(pem(&world, "demo-peer-tls", "tls.crt"), before, "they are names of the server only");
    let tls = world.cluster().spec.tls;
    let at = ClusterRef::new("default", "demo");
    let all = names(Leaf::Server, &at, &tls);
    assert_eq!(all[all.len() - 3..], ["etcd.example.com", "192.0.2.1", "2001:db8::1"]);
    assert_eq!(
        (common_name(Leaf::Server, &tls, false), common_name(Leaf::Peer, &tls, false)),
        ("etcd", "quorate-peer")
    );
    assert_eq!(organizations(Leaf::Server, &tls), ["example"]);
    assert!(organizations(Leaf::Client, &tls).is_empty(), "etcd takes the subject of a client for a user");
    assert!(!world.pass(), "nothing is renewed again");
}

#[test]
fn s04_the_life_of_leaves_is_set_in_the_spec() {
    let auto = json!({ "providerCfg": { "autoCfg": { "validityDuration": "2d12h" } } });
    let mut world = World::new(&json!({ "size": 1, "version": "3.6.16", "tls": auto }));
    world.settle();
    let hours = (ends(&world, Leaf::Server) - crate::world::BEGIN).0 / 3_600_000;
    assert!((53..=60).contains(&hours), "{hours}");
    assert_eq!(reason(&world), is("True", "CertificatesIssued"));
}

#[test]
fn m08_a_certificate_that_is_not_valid_yet_is_reported_until_it_is_issued_anew() {
    let mut world = with_tls();
    world.edit(Kind::Cluster, "demo", |cluster| cluster["spec"]["paused"] = json!(true));
    world.now = Instant(world.now.0 - 8 * 86_400_000);
    world.settle();
    let (status, reason, message) = world.condition("TLSReady");
    assert_eq!((&*status, &*reason), ("False", "CertificatesMissing"), "{message}");
    assert!(
        message.contains("the certificate authority in Secret default/demo-ca is not valid before"),
        "{message}"
    );
}

#[test]
fn a_rotation_is_told_by_tlsready_with_the_command_that_ends_the_wait_for_clients() {
    let mut world = with_tls();
    world.edit(Kind::Cluster, "demo", |cluster| {
        cluster["metadata"]["annotations"] = json!({ keys::ROTATE_CA: "clients" });
    });
    world.settle();
    let (status, reason, message) = world.condition("TLSReady");
    assert_eq!((status, reason), is("True", "ClientsMustFollow"));
    let rotation = world.status().certificates.unwrap().rotation.unwrap();
    assert_eq!(rotation.stage, "Trust");
    let command = format!("{}={}", keys::CLIENTS_TRUST, &rotation.to[..16]);
    assert!(message.contains(&command), "{message}");
    assert_eq!(world.condition("Ready").0, "True", "nothing is wrong meanwhile");
    // Everybody trusts both, and the one that signs comes first.
    let (old, new) = (pem(&world, "demo-ca", "tls.crt"), pem(&world, "demo-ca", "next.crt"));
    for secret in ["demo-server-tls", "demo-client-tls", "demo-connection"] {
        assert_eq!(pem(&world, secret, "ca.crt"), format!("{old}{new}"), "{secret}");
    }
    assert_eq!(pem(&world, "demo-peer-tls", "ca.crt"), pem(&world, "demo-peer-ca", "tls.crt"));
    assert_eq!(pem(&world, "demo-peer-tls", "trust"), "1", "an agent waits for all three");
    let pod: Value = world.get(Kind::Pod, "demo-0");
    assert!(pod.to_string().contains("--trust=1"), "{pod:#}");
}

/// Warnings that tell of a moment at which clients are cut off: the reason of each.
fn countdowns(world: &World) -> Vec<String> {
    let reason = |event: &EventText| event.what.reason().as_str().to_owned();
    let warnings = world.events.iter().filter(|event| event.warning).map(reason);
    warnings.filter(|reason| reason.starts_with("Clients")).collect()
}

#[test]
fn a_moment_at_which_clients_are_cut_off_is_told_when_their_time_begins_and_in_its_last_day() {
    let mut world = with_tls();
    world.edit(Kind::Cluster, "demo", |cluster| {
        cluster["metadata"]["annotations"] = json!({ keys::ROTATE_CA: "clients" });
    });
    world.settle();
    for _ in 0..5 {
        world.now = world.now + Span::seconds(DAY);
        world.settle();
    }
    assert_eq!(countdowns(&world), ["ClientsMustFollow"], "once, and not at each pass");
    assert_eq!(reason(&world), is("True", "ClientsMustFollow"));
    world.now = world.now + Span::seconds(DAY + 3600);
    world.settle();
    assert_eq!(reason(&world), is("True", "ClientsCutOffSoon"));
    world.now = world.now + Span::seconds(3600);
    world.settle();
    assert_eq!(countdowns(&world), ["ClientsMustFollow", "ClientsCutOffSoon"]);
    let told = world.events.iter().rfind(|event| event.what.reason() == Reason::ClientsCutOffSoon).unwrap();
    let rotation = world.status().certificates.unwrap().rotation.unwrap();
    for part in ["2026-", "cut off", &format!("{}={}", keys::CLIENTS_TRUST, &rotation.to[..16])] {
        assert!(told.what.message().contains(part), "{part}: {}", told.what.message());
    }
    // A person says that all have followed: nobody is cut off.
    world.edit(Kind::Cluster, "demo", |cluster| {
        cluster["metadata"]["annotations"][keys::CLIENTS_TRUST] = json!(rotation.to);
    });
    world.settle();
    assert_eq!(reason(&world), is("True", "RotatingAuthority"));
}

#[test]
fn a_rotation_that_one_member_holds_up_for_a_day_beyond_the_time_of_clients_is_told_with_its_name() {
    let mut world = with_tls();
    world.edit(Kind::Cluster, "demo", |cluster| {
        cluster["metadata"]["annotations"] = json!({ keys::ROTATE_CA: "clients" });
    });
    world.settle();
    // No member of this world is seen to trust anything.
    world.now = world.now + Span::seconds(8 * DAY - 60);
    world.settle();
    assert_eq!(reason(&world), is("True", "RotatingAuthority"));
    world.now = world.now + Span::seconds(120);
    world.settle();
    assert_eq!(reason(&world), is("False", "RotationHeldUp"));
    let (_, _, message) = world.condition("TLSReady");
    assert!(message.contains("demo-0 is not seen to trust"), "{message}");
    assert!(message.contains(&format!("{}=demo-0", keys::REPLACE_MEMBER)), "{message}");
    let told = |event: &&EventText| event.warning && event.what.reason() == Reason::RotationHeldUp;
    assert_eq!(world.events.iter().filter(told).count(), 1);
}
