//! An authority of clients that a person gives, in the simulation: into a cluster that runs, out of it, another one of the same name, and Secrets that
//! vanish, are cut or are older at each step.

use std::sync::LazyLock;

use k8s_openapi::ByteString;
use quorate_manifests::Kind;
use quorate_sim::history::{History, sound_story};
use quorate_sim::world::World;
use serde_json::{Value, json};

use crate::kubelets::{condition, rest};

/// From 2020 to 2100, in milliseconds.
const LONG: quorate_pki::Validity =
    quorate_pki::Validity { not_before: 1_577_836_800_000, not_after: 4_102_444_800_000 };
/// The same, renewed.
const LONGER: quorate_pki::Validity =
    quorate_pki::Validity { not_before: 1_577_836_800_000, not_after: 4_133_980_800_000 };

fn with_tls(size: u32) -> Value {
    json!({ "size": size, "version": "3.6.16", "storageSpec": { "volumeSizeRequest": "1Gi" },
        "tls": { "rotation": { "clientGrace": "0s" } } })
}

fn data(pair: &quorate_pki::Pair) -> Value {
    let entry = |pem: &str| json!(ByteString(pem.as_bytes().to_vec()));
    json!({ "tls.crt": entry(&pair.cert), "tls.key": entry(&pair.key) })
}

/// A person puts this authority into the Secret that the spec names.
fn given(number: u64, validity: quorate_pki::Validity) -> Value {
    let pair = quorate_pki::authority_of_others("Example CA", number, validity);
    let mut edit = named();
    edit["secret"] = json!({ "name": "my-ca", "data": data(&pair) });
    edit
}

/// The spec names the Secret.
fn named() -> Value {
    json!({ "tls": { "providerCfg": { "autoCfg": { "caBundleSecret": "my-ca" } } } })
}

/// The spec names none.
fn none() -> Value {
    json!({ "tls": { "providerCfg": null } })
}

fn secret(name: &str, data: &Value) -> Value {
    json!({ "secret": { "name": name, "data": data } })
}

fn entry(world: &World, secret: &str, key: &str) -> Value {
    world.object(Kind::Secret, secret).unwrap()["data"][key].clone()
}

fn certificate_of(edit: &Value) -> Value {
    edit["secret"]["data"]["tls.crt"].clone()
}

#[test]
fn an_authority_is_given_exchanged_renewed_and_taken_back_and_nobody_is_refused_at_any_moment() {
    for size in [1, 3] {
        let mut world = History { spec: with_tls(size), ..History::default() }.start();
        rest(&mut world);
        let own = entry(&world, "demo-ca", "tls.crt");
        // Another key with the same name; then the same key with other dates.
        for edit in [given(71, LONG), given(72, LONG), given(72, LONGER)] {
            world.edit(&edit).unwrap();
            rest(&mut world);
            assert_eq!(entry(&world, "demo-ca", "tls.crt"), certificate_of(&edit));
            for leaf in ["demo-server-tls", "demo-client-tls"] {
                assert_eq!(entry(&world, leaf, "ca.crt"), certificate_of(&edit), "{leaf}");
            }
        }
        world.edit(&none()).unwrap();
        rest(&mut world);
        let last = entry(&world, "demo-ca", "tls.crt");
        assert!(last != own && last != certificate_of(&given(72, LONGER)));
    }
}

#[test]
fn a_new_cluster_waits_for_the_authority_that_its_spec_names_and_begins_with_it() {
    let mut spec = with_tls(3);
    spec["tls"]["providerCfg"] = named()["tls"]["providerCfg"].clone();
    let mut world = History { spec, ..History::default() }.start();
    for _ in 0..40 {
        world.go();
    }
    assert!(!world.names(Kind::Secret).contains(&"demo-ca".to_owned()));
    assert_eq!(condition(&world, "TLSReady"), "False AuthorityRefused");
    let edit = given(71, LONG);
    world.edit(&edit).unwrap();
    rest(&mut world);
    assert_eq!(entry(&world, "demo-ca", "tls.crt"), certificate_of(&edit));
}

/// A cluster of three into which an authority is given, or out of which it is taken, with this departure in the middle. Whether it came about.
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
    for step in ["C1", "C2", "C4", "C6", "C7"] {
        for side in ["before", "after"] {
            for fault in [
                json!("crash"),
                json!("two-lead"),
                json!({ "request": "lost" }),
                json!({ "request": "late" }),
            ] {
                let departure = json!({ "at": format!("{side}:{step}"), "what": { "fault": fault } });
                happened += usize::from(survives(&given(71, LONG), &departure));
            }
        }
    }
    assert!(happened >= 20, "{happened}");
}

/// The Secret of the authority of clients before anything was given, as a backup has it.
static OLDER: LazyLock<Value> = LazyLock::new(|| {
    let mut world = History { spec: with_tls(3), ..History::default() }.start();
    while world.go().is_some() {}
    world.object(Kind::Secret, "demo-ca").unwrap()["data"].clone()
});

#[test]
fn s15_a_secret_that_is_gone_cut_exchanged_or_older_at_any_step_ends_no_service_and_nobody_is_refused() {
    let whole = given(71, LONG)["secret"]["data"].clone();
    let mut cut = whole.clone();
    cut.as_object_mut().unwrap().remove("tls.key");
    let edits = [
        ("the given one is gone", secret("my-ca", &Value::Null)),
        ("the given one has no key", secret("my-ca", &cut)),
        ("another one is given", given(72, LONG)),
        ("none is named any more", none()),
        ("the copy is older", secret("demo-ca", &OLDER)),
        ("a leaf is gone", secret("demo-server-tls", &Value::Null)),
    ];
    let mut happened = 0;
    for step in ["C1", "C2", "C4", "C6", "C7"] {
        for (what, edit) in &edits {
            println!("{what} after {step}");
            let departure = json!({ "at": format!("after:{step}"), "what": { "edit": edit } });
            happened += usize::from(survives(&given(71, LONG), &departure));
        }
        let lost = json!({ "at": format!("after:{step}"), "what": { "fault": { "remove": ["Secret", "demo-ca"] } } });
        happened += usize::from(survives(&given(71, LONG), &lost));
    }
    assert!(happened >= 25, "{happened}");
}
