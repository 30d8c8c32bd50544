//! Certificates that cert-manager issues for the operator, in the simulation: asked for, renewed by another CA, put right, of somebody else's name, and
//! given up; with an Issuer whose CA is exchanged while nothing runs yet.

use quorate_manifests::Kind;
use quorate_planner::safety::mutants::without;
use quorate_sim::history::sound_story;
use quorate_sim::oracle::Property;
use quorate_sim::world::World;
use serde_json::{Value, json};

use crate::kubelets::pass;

fn spec() -> Value {
    json!({ "size": 3, "version": "3.6.16", "storageSpec": { "volumeSizeRequest": "1Gi" },
        "tls": { "rotation": { "clientGrace": "0s" } } })
}

fn tls(kind: &str) -> Value {
    json!({ "provider": "cert-manager", "providerCfg": { "certManagerCfg": {
        "issuerKind": kind, "issuerName": "ca", "validityDuration": "3650d",
    } } })
}

/// The spec asks cert-manager, which is installed with this CA.
fn issued(ca: u64) -> Value {
    json!({ "certManager": { "ca": ca }, "tls": tls("Issuer") })
}

fn condition(world: &World, type_: &str) -> (String, String) {
    let conditions = world.cluster().unwrap().status.unwrap().conditions;
    let found = conditions.into_iter().find(|one| one.type_ == type_).unwrap();
    (format!("{} {}", found.status, found.reason), found.message)
}

fn go(world: &mut World) {
    pass(world, 40);
    while world.go().is_some() {}
    assert_eq!(world.oracle.violation(), None);
}

#[track_caller]
fn rest(world: &mut World) {
    go(world);
    world.judge_rest();
    assert_eq!(world.oracle.violation(), None);
    assert_eq!(
        condition(world, "TLSReady").0,
        "True CertificatesIssued",
        "{}",
        condition(world, "TLSReady").1
    );
    assert_eq!(condition(world, "Available").0, "True Available");
}

fn signer(world: &World, secret: &str) -> Value {
    world.object(Kind::Secret, secret).unwrap()["data"]["ca.crt"].clone()
}

#[test]
fn a_cluster_begins_by_cert_manager_follows_another_ca_of_it_and_leaves_it_and_nothing_is_left() {
    let mut world = World::new(&json!({ "size": 0, "version": "3.6.16" }));
    world.edit(&issued(71)).unwrap();
    world.edit(&spec()).unwrap();
    rest(&mut world);
    assert_eq!(world.names(Kind::Certificate), ["demo-client", "demo-server"]);
    assert_eq!(signer(&world, "demo-server-tls"), signer(&world, "demo-server-issued"));
    // Its certificates are renewed one after the other, by another CA without an overlap.
    world.edit(&json!({ "certManager": { "ca": 72 } })).unwrap();
    for secret in ["demo-server-issued", "demo-client-issued"] {
        world.edit(&json!({ "secret": { "name": secret, "data": null } })).unwrap();
        go(&mut world);
    }
    rest(&mut world);
    assert_eq!(signer(&world, "demo-server-tls"), signer(&world, "demo-server-issued"));
    world.edit(&json!({ "tls": { "provider": "auto", "providerCfg": null } })).unwrap();
    rest(&mut world);
    assert!(world.names(Kind::Certificate).is_empty());
    assert!(
        !world.names(Kind::Secret).iter().any(|name| name.ends_with("-issued")),
        "{:?}",
        world.names(Kind::Secret)
    );
}

#[test]
fn a_certificate_that_somebody_changes_or_deletes_is_put_right() {
    let mut world = World::new(&spec());
    world.edit(&issued(71)).unwrap();
    rest(&mut world);
    let asked = world.object(Kind::Certificate, "demo-server").unwrap()["spec"].clone();
    for patch in [json!({ "spec": { "duration": "1h0m0s" } }), json!(null)] {
        world.edit(&json!({ "certificate": { "name": "demo-server", "patch": patch } })).unwrap();
        rest(&mut world);
        assert_eq!(world.object(Kind::Certificate, "demo-server").unwrap()["spec"], asked);
    }
}

#[test]
fn without_cert_manager_nothing_is_made_and_status_says_so_until_it_is_installed() {
    let mut begun = spec();
    begun["tls"] = tls("Issuer");
    let mut world = World::new(&begun);
    go(&mut world);
    assert!(condition(&world, "TLSReady").1.contains("cert-manager is not installed"));
    assert!(!world.names(Kind::Secret).contains(&"demo-ca".to_owned()));
    world.edit(&json!({ "certManager": { "ca": 71 } })).unwrap();
    rest(&mut world);
}

#[test]
fn a_secret_of_somebody_under_the_name_that_cert_manager_would_write_is_named_and_nothing_is_asked() {
    let begun = || {
        let mut world = World::new(&json!({ "size": 0, "version": "3.6.16" }));
        world
            .edit(&json!({ "secret": { "name": "demo-server-issued", "data": { "password": "eA==" } } }))
            .unwrap();
        world.edit(&issued(71)).unwrap();
        world.edit(&spec()).unwrap();
        pass(&mut world, 20);
        world
    };
    let mut world = begun();
    assert_eq!(world.oracle.violation(), None);
    assert!(!world.names(Kind::Certificate).contains(&"demo-server".to_owned()));
    let (reason, message) = condition(&world, "TLSReady");
    assert_eq!(reason, "False AuthorityRefused");
    assert!(
        message.contains("Secret default/demo-server-issued") && message.contains("Delete or rename it"),
        "{message}"
    );
    world.edit(&json!({ "secret": { "name": "demo-server-issued", "data": null } })).unwrap();
    rest(&mut world);
}

/// What is issued is of two CAs, or of another one than was copied, at each step before anything has started.
#[test]
fn s15_an_issuer_whose_ca_is_exchanged_before_anything_has_started_needs_nobody() {
    let (mut happened, mut anew) = (0, 0);
    for at in [
        "before:B2",
        "after:B2",
        "before:I1",
        "after:I1",
        "before:I2",
        "after:I2",
        "after:I5",
        "before:B3",
        "after:B3",
        "before:B4",
        "after:B4",
    ] {
        for secrets in [
            vec!["demo-server-issued"],
            vec!["demo-client-issued"],
            vec!["demo-server-issued", "demo-client-issued"],
        ] {
            // They are issued anew by the other CA, as after a renewal.
            let gone: Vec<Value> = secrets.iter().map(|name| json!({ "name": name, "data": null })).collect();
            let edit = json!({ "certManager": { "ca": 72 }, "secret": gone });
            let story = sound_story(&json!({
                "before": [{ "size": 0, "version": "3.6.16", "storageSpec": { "volumeSizeRequest": "1Gi" } }], "spec": {},
                "departures": [
                    { "at": 0, "what": { "edit": { "certManager": { "ca": 71 }, "tls": tls("Issuer"), "size": 3 } } },
                    { "at": at, "what": { "edit": edit } },
                ],
            }));
            happened += usize::from(story.all_came_about());
            anew += usize::from(story.to_string().contains("I7: "));
        }
    }
    assert!(happened >= 24 && anew >= 8, "{happened} {anew}");
}

#[test]
fn a_self_signed_issuer_is_refused_and_the_message_names_what_to_use() {
    let mut world = World::new(&json!({ "size": 0, "version": "3.6.16" }));
    world.edit(&json!({ "certManager": {}, "tls": tls("Issuer") })).unwrap();
    world.edit(&spec()).unwrap();
    go(&mut world);
    let (reason, message) = condition(&world, "TLSReady");
    assert_eq!(reason, "False AuthorityRefused");
    assert!(message.contains("SelfSigned") && message.contains("issuer of kind CA"), "{message}");
    assert!(world.names(Kind::Pod).is_empty());
    world.edit(&json!({ "certManager": { "ca": 71 } })).unwrap();
    for secret in ["demo-server-issued", "demo-client-issued"] {
        world.edit(&json!({ "secret": { "name": secret, "data": null } })).unwrap();
    }
    rest(&mut world);
}

#[test]
fn r26_a_cluster_issuer_that_is_not_allowed_is_asked_for_nothing_in_a_cluster_that_runs() {
    let edited = || {
        let mut world = World::new(&spec());
        go(&mut world);
        let edit = json!({ "certManager": { "ca": 71 }, "tls": tls("ClusterIssuer") });
        world.edit(&edit).unwrap();
        pass(&mut world, 10);
        world
    };
    let world = edited();
    assert_eq!(world.oracle.violation(), None);
    assert!(world.names(Kind::Certificate).is_empty());
    assert_eq!(condition(&world, "Stalled").0, "True SpecInvalid");
    let world = without("R26", edited);
    let violation = world.oracle.violation().expect("it is asked");
    assert_eq!(violation.property, Property::NothingOfRefusedSpecs, "{violation}");
}

#[test]
fn a_crash_a_second_operator_and_a_lost_request_at_each_step_change_nothing_of_the_end() {
    let mut happened = 0;
    for step in ["I5", "I6"] {
        for side in ["before", "after"] {
            for fault in [
                json!("crash"),
                json!("two-lead"),
                json!({ "request": "lost" }),
                json!({ "request": "reply-lost" }),
                json!({ "request": "late" }),
                json!({ "request": "twice" }),
            ] {
                let story = sound_story(&json!({
                    "before": [spec()], "spec": {},
                    "departures": [
                        { "at": 0, "what": { "edit": issued(71) } },
                        { "at": format!("{side}:I5"), "what": { "fault": fault } },
                        { "at": "rest", "what": { "edit": { "tls": { "provider": "auto", "providerCfg": null } } } },
                        { "at": format!("{side}:{step}"), "what": { "fault": fault } },
                    ],
                }));
                happened += usize::from(story.all_came_about());
            }
        }
    }
    assert!(happened >= 8, "{happened}");
}
