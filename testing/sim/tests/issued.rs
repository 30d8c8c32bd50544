//! Certificates that somebody else issues, in the simulation: into a cluster that runs, by another authority without an overlap, again before everybody
//! followed, and out again; with Secrets that vanish or are exchanged at each step.

use k8s_openapi::ByteString;
use quorate_manifests::Kind;
use quorate_manifests::certificate::names;
use quorate_model::{ClusterRef, Leaf, Span};
use quorate_pki::{Pair, UNKNOWN_TO_OPERATORS, authority, client_of_others, leaf_of_others};
use quorate_planner::safety::mutants::without;
use quorate_sim::history::{History, sound_story};
use quorate_sim::oracle::Property;
use quorate_sim::world::World;
use quorate_sim::world::faults::Fault;
use serde_json::{Value, json};

use crate::kubelets::{condition, pass, rest};

/// From 2020 to 2100, in milliseconds.
const LONG: quorate_pki::Validity =
    quorate_pki::Validity { not_before: 1_577_836_800_000, not_after: 4_102_444_800_000 };

fn with_tls(size: u32) -> Value {
    json!({ "size": size, "version": "3.6.16", "storageSpec": { "volumeSizeRequest": "1Gi" },
        "tls": { "rotation": { "clientGrace": "0s" } } })
}

fn ca(number: u64) -> Pair {
    authority("Example CA", number, LONG)
}

fn secret(name: &str, by: &Pair, pair: &Pair) -> Value {
    let entry = |pem: &str| json!(ByteString(pem.as_bytes().to_vec()));
    json!({ "name": name, "data": {
        "tls.crt": entry(&pair.cert), "tls.key": entry(&pair.key), "ca.crt": entry(&by.cert),
    } })
}

fn server(by: u64, serial: u64) -> Value {
    let names =
        names(Leaf::Server, &ClusterRef::new("default", "demo"), &quorate_api::cluster::TlsSpec::default());
    secret("server", &ca(by), &leaf_of_others(&ca(by).key, "etcd", &names, serial, LONG))
}

fn client(by: u64, serial: u64) -> Value {
    secret("client", &ca(by), &client_of_others(&ca(by).key, "etcd client", serial + 1, LONG))
}

/// Somebody has this authority sign both certificates, and the spec names the Secrets.
fn issued(by: u64, serial: u64) -> Value {
    let secrets = json!({ "serverSecret": "server", "clientSecret": "client" });
    json!({
        "secret": [server(by, serial), client(by, serial)],
        "tls": { "provider": "secrets", "providerCfg": { "secretsCfg": secrets } },
    })
}

fn auto() -> Value {
    json!({ "tls": { "provider": "auto", "providerCfg": null } })
}

fn entry(world: &World, secret: &str, key: &str) -> String {
    let data = world.object(Kind::Secret, secret).unwrap()["data"][key].clone();
    let bytes: ByteString = serde_json::from_value(data).unwrap();
    String::from_utf8(bytes.0).unwrap().replace('\r', "")
}

fn certificate_of(secret: &Value) -> String {
    let bytes: ByteString = serde_json::from_value(secret["data"]["tls.crt"].clone()).unwrap();
    String::from_utf8(bytes.0).unwrap().replace('\r', "")
}

#[test]
fn certificates_of_others_come_are_renewed_change_their_authority_and_go_and_nobody_is_refused_at_any_moment()
{
    for size in [1, 3] {
        let mut world = History { spec: with_tls(size), ..History::default() }.start();
        rest(&mut world);
        // By one authority, renewed by it, and by another one of the same name without an overlap.
        for (by, serial) in [(71, 500), (71, 510), (72, 520)] {
            world.edit(&issued(by, serial)).unwrap();
            rest(&mut world);
            assert_eq!(entry(&world, "demo-server-tls", "tls.crt"), certificate_of(&server(by, serial)));
            assert_eq!(entry(&world, "demo-client-tls", "tls.crt"), certificate_of(&client(by, serial)));
            assert_eq!(entry(&world, "demo-server-tls", "ca.crt"), ca(by).cert.replace('\r', ""));
        }
        world.edit(&auto()).unwrap();
        rest(&mut world);
        assert_ne!(entry(&world, "demo-ca", "tls.crt"), ca(72).cert.replace('\r', ""));
        assert_eq!(entry(&world, "demo-server-tls", "ca.crt"), entry(&world, "demo-ca", "tls.crt"));
    }
}

#[test]
fn a_new_cluster_waits_for_its_certificates_and_begins_with_them() {
    let mut spec = with_tls(3);
    spec["tls"] = issued(71, 500)["tls"].clone();
    let mut world = History { spec, ..History::default() }.start();
    for _ in 0..40 {
        world.go();
    }
    assert!(!world.names(Kind::Secret).contains(&"demo-ca".to_owned()));
    assert_eq!(condition(&world, "TLSReady"), "False AuthorityRefused");
    world.edit(&issued(71, 500)).unwrap();
    rest(&mut world);
    assert_eq!(entry(&world, "demo-server-tls", "tls.crt"), certificate_of(&server(71, 500)));
}

/// What etcd verifies and the operator does not.
const UNKNOWN: u64 = UNKNOWN_TO_OPERATORS + 1;

#[test]
fn s15_an_authority_that_etcd_verifies_and_the_operator_does_not_is_refused_before_anything_begins() {
    let begun = || {
        let mut world = History { spec: with_tls(3), ..History::default() }.start();
        rest(&mut world);
        world.edit(&issued(UNKNOWN, 500)).unwrap();
        pass(&mut world, 40);
        world
    };
    let world = begun();
    assert_eq!(world.oracle.violation(), None);
    assert_eq!(condition(&world, "TLSReady"), "True RotationRefused");
    assert_eq!(condition(&world, "Available"), "True Available");
    let certificates = world.cluster().unwrap().status.unwrap().certificates.unwrap();
    assert!(certificates.rotation.is_none(), "no authority is recorded");

    let world = without("verified", begun);
    let violation = world.oracle.violation().expect("members present what nobody here verifies");
    assert_eq!(violation.property, Property::MembersTrustEachOther, "{violation}");
}

#[test]
fn s15_a_renewed_certificate_that_the_operator_does_not_verify_is_not_copied() {
    let mut world = History { spec: with_tls(3), ..History::default() }.start();
    world.edit(&issued(71, 500)).unwrap();
    rest(&mut world);
    // The authority has the name of the one before.
    world.edit(&json!({ "secret": [server(UNKNOWN, 510), client(UNKNOWN, 510)] })).unwrap();
    pass(&mut world, 40);
    assert_eq!(world.oracle.violation(), None);
    assert_eq!(entry(&world, "demo-server-tls", "tls.crt"), certificate_of(&server(71, 500)));
    assert_eq!(condition(&world, "TLSReady"), "True RotationRefused");
}

#[test]
fn what_is_exchanged_while_it_is_copied_is_followed_next_and_nobody_is_refused_at_any_moment() {
    for (third, crash) in
        [(issued(73, 530), true), (issued(73, 530), false), (issued(71, 530), true), (auto(), true)]
    {
        let mut world = History { spec: with_tls(3), ..History::default() }.start();
        world.edit(&issued(71, 500)).unwrap();
        rest(&mut world);
        world.edit(&issued(72, 520)).unwrap();
        let is_copied =
            |world: &World, copy: &str, of: &Value| entry(world, copy, "tls.crt") == certificate_of(of);
        let copies = |world: &World| {
            [("demo-server-tls", server(72, 520)), ("demo-client-tls", client(72, 520))]
                .map(|(copy, of)| is_copied(world, copy, &of))
        };
        for _ in 0..2_000 {
            if copies(&world) != [false, false] {
                break;
            }
            if world.go().is_none() {
                world.advance(Span::seconds(130));
                world.operate();
            }
        }
        assert_eq!(copies(&world).iter().filter(|copied| **copied).count(), 1, "one of both");
        world.edit(&third).unwrap();
        // Else it copies what it has read before.
        if crash {
            assert!(world.strike(&Fault::Crash));
        }
        rest(&mut world);
        let trusted = entry(&world, "demo-server-tls", "ca.crt");
        assert_eq!(trusted, entry(&world, "demo-ca", "tls.crt"), "those before are forgotten");
        assert_ne!(trusted, ca(72).cert.replace('\r', ""));
        assert_eq!(trusted, entry(&world, "demo-client-tls", "ca.crt"));
    }
}

/// A cluster of three that gets certificates of others, with this departure in the middle. Whether it came about.
#[track_caller]
fn survives(order: &Value, departure: &Value) -> bool {
    let order = json!({ "at": 0, "what": { "edit": order } });
    let story = sound_story(&json!({
        "before": [with_tls(3)], "spec": {}, "departures": [order, departure],
    }));
    story.all_came_about()
}

#[test]
fn a_crash_a_second_operator_and_a_lost_request_at_each_step_change_nothing_of_the_end() {
    let mut happened = 0;
    for step in ["C1", "C2", "C4", "I3", "C6", "C7"] {
        for side in ["before", "after"] {
            for fault in [
                json!("crash"),
                json!("two-lead"),
                json!({ "request": "lost" }),
                json!({ "request": "late" }),
            ] {
                let departure = json!({ "at": format!("{side}:{step}"), "what": { "fault": fault } });
                happened += usize::from(survives(&issued(71, 500), &departure));
            }
        }
    }
    assert!(happened >= 24, "{happened}");
}

#[test]
fn s15_certificates_that_are_gone_mixed_or_of_another_authority_at_any_step_end_no_service() {
    let gone = |name: &str| json!({ "secret": { "name": name, "data": null } });
    let edits = [
        ("the server's is gone", gone("server")),
        ("the client's is gone", gone("client")),
        ("the server's alone is of another authority", json!({ "secret": server(72, 520) })),
        ("both are of another authority", issued(72, 520)),
        ("both are renewed", issued(71, 520)),
        ("the spec takes the operator's own again", auto()),
        ("a copy is gone", gone("demo-server-tls")),
    ];
    let mut happened = 0;
    for step in ["C1", "C2", "C4", "I3", "C6", "C7"] {
        for (what, edit) in &edits {
            println!("{what} after {step}");
            let departure = json!({ "at": format!("after:{step}"), "what": { "edit": edit } });
            happened += usize::from(survives(&issued(71, 500), &departure));
        }
        let lost = json!({ "at": format!("after:{step}"), "what": { "fault": { "remove": ["Secret", "demo-ca"] } } });
        happened += usize::from(survives(&issued(71, 500), &lost));
    }
    assert!(happened >= 30, "{happened}");
}
