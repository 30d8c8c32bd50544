//! The rotation of certificate authorities in the simulation. Who trusts whom is modelled for each process: what its Secrets had when it
//! started, and what its kubelet has brought since, which may be two minutes old.

use std::collections::BTreeSet;

use k8s_openapi::ByteString;
use quorate_manifests::Kind;
use quorate_model::Span;
use quorate_planner::safety::mutants::without;
use quorate_sim::history::{History, sound_story};
use quorate_sim::oracle::Property;
use quorate_sim::world::World;
use quorate_sim::world::faults::Fault;
use serde_json::{Value, json};

use crate::kubelets::{condition, pass, rest};

fn with_tls(size: u32) -> Value {
    json!({ "size": size, "version": "3.6.16", "storageSpec": { "volumeSizeRequest": "1Gi" } })
}

fn at_rest(size: u32) -> World {
    let mut world = History { spec: with_tls(size), ..History::default() }.start();
    while world.go().is_some() {}
    world
}

fn message(world: &World, type_: &str) -> String {
    let conditions = world.cluster().unwrap().status.unwrap().conditions;
    conditions.into_iter().find(|one| one.type_ == type_).unwrap().message
}

/// The edit by which a person orders to replace an authority. Clients have no time.
fn rotation(text: &str) -> Value {
    json!({ "metadata": { "annotations": { "operator.etcd.io/rotate-ca": text } },
        "tls": { "rotation": { "clientGrace": "0s" } } })
}

/// A person orders to replace an authority. Clients have no time, unless the spec says so.
fn order(world: &mut World, text: &str) {
    world.edit(&rotation(text)).unwrap();
}

fn rotated(world: &mut World, name: &str, text: &str) {
    let before = certificate(world, name);
    order(world, text);
    rest(world);
    assert_ne!(certificate(world, name), before, "{name} is another one");
}

fn certificate(world: &World, name: &str) -> Value {
    world.object(Kind::Secret, name).unwrap()["data"]["tls.crt"].clone()
}

#[test]
fn an_authority_is_replaced_and_every_member_trusts_what_each_other_presents_at_every_moment() {
    for size in [1, 3] {
        for (name, text) in [("demo-peer-ca", "peers"), ("demo-ca", "clients")] {
            let mut world = at_rest(size);
            rotated(&mut world, name, text);
            rotated(&mut world, name, &format!("{text}/again"));
        }
    }
}

/// Authorities live ten years, and leaves one. Nobody looks after the cluster: each year a Pod or a disk is lost.
/// A rotation of clients with this time for them, in which this comes about in between.
fn with_grace(grace: &str, mut between: impl FnMut(&mut World, u64)) -> World {
    let mut world = at_rest(3);
    let mut order = rotation("clients");
    order["tls"]["rotation"]["clientGrace"] = json!(grace);
    world.edit(&order).unwrap();
    for step in 0..60 {
        between(&mut world, step);
        while world.go().is_some() {}
        world.advance(Span::seconds(130));
        world.operate();
    }
    while world.go().is_some() {}
    world
}

#[test]
fn a_client_that_rereads_as_late_as_it_may_is_never_refused_also_where_it_could_know_late() {
    // Something takes the connection Secret back for a while: longer than clients have time.
    let rotated = || {
        let mut before = None;
        with_grace("10m", |world: &mut World, step: u64| {
            let first = text_of(world, "demo-connection", "ca.crt");
            let first = before.get_or_insert(first).clone();
            if step < 20 {
                change(world, "demo-connection", &[("ca.crt", Some(&first))]);
            }
        })
    };
    let world = rotated();
    assert_eq!(world.oracle.violation(), None);
    assert_eq!(condition(&world, "TLSReady"), "True CertificatesIssued");
    assert_eq!(text_of(&world, "demo-ca", "tls.crt"), text_of(&world, "demo-connection", "ca.crt"));

    let world = without("R19 told", rotated);
    assert_eq!(world.oracle.violation().map(|violation| violation.property), Some(Property::ClientsAreTold));
}

#[test]
fn authorities_and_leaves_come_and_go_for_decades_and_every_member_is_served_at_every_moment() {
    let mut world = at_rest(3);
    let (mut authorities, mut leaves) = (BTreeSet::new(), BTreeSet::new());
    for month in 0..300 {
        world.advance(Span::seconds(30 * 24 * 3600));
        if month % 12 == 5 {
            let pod = world.objects(Kind::Pod).remove(month / 12 % 3);
            let member = pod["metadata"]["name"].clone();
            let fault = if month % 24 == 5 {
                json!({ "kill-pod": member })
            } else {
                json!({ "lose-volume": member })
            };
            world.strike(&serde_json::from_value::<Fault>(fault).unwrap());
        }
        // Kubelets take two minutes, and whoever is replaced has ten minutes before.
        pass(&mut world, 12);
        while world.go().is_some() {}
        assert_eq!(world.oracle.violation(), None, "month {month}");
        for name in ["demo-ca", "demo-peer-ca"] {
            authorities.insert(certificate(&world, name).to_string());
        }
        leaves.insert(certificate(&world, "demo-peer-tls").to_string());
    }
    world.judge_rest();
    assert_eq!(world.oracle.violation(), None);
    assert_eq!(authorities.len(), 2 * 4, "each was replaced at two thirds of ten years, three times");
    assert!(leaves.len() > 25, "{}", leaves.len());
}

/// A cluster that rotates an authority, with this departure after the order. Returns whether it came about.
#[track_caller]
fn survives(size: u32, text: &str, departures: &[Value]) -> bool {
    let order = json!({ "at": 0, "what": { "edit": rotation(text) } });
    let mut all = vec![order];
    all.extend(departures.iter().cloned());
    let story = sound_story(&json!({ "before": [with_tls(size)], "spec": {}, "departures": all }));
    story.all_came_about()
}

#[test]
fn a_crash_at_each_step_of_a_rotation_or_a_request_that_is_lost_or_late_changes_nothing_of_its_end() {
    let mut happened = 0;
    for text in ["peers", "clients"] {
        for step in ["C1", "C2", "C4", "C6", "C7"] {
            for side in ["before", "after"] {
                for fault in [
                    json!("crash"),
                    json!("two-lead"),
                    json!({ "request": "lost" }),
                    json!({ "request": "late" }),
                ] {
                    let departure = json!({ "at": format!("{side}:{step}"), "what": { "fault": fault } });
                    happened += usize::from(survives(3, text, &[departure]));
                }
            }
        }
    }
    assert!(happened >= 40, "{happened}");
}

#[test]
fn a_member_or_a_secret_that_is_lost_at_any_step_of_a_rotation_is_made_good_and_nobody_is_refused() {
    let remove = |name: &str| json!({ "remove": ["Secret", name] });
    let mut happened = 0;
    for step in ["C1", "C2", "C4", "C6", "C7"] {
        let faults = [
            json!({ "kill-pod": "demo-1" }),
            json!({ "lose-volume": "demo-1" }),
            json!({ "cut-from-peers": "demo-2" }),
            json!("lose-status"),
            remove("demo-peer-tls"),
            remove("demo-peer-ca"),
        ];
        for fault in faults {
            let departure = json!({ "at": format!("after:{step}"), "what": { "fault": fault } });
            happened += usize::from(survives(3, "peers", &[departure]));
        }
    }
    assert!(happened >= 24, "{happened}");
}

#[test]
fn without_a_look_at_what_members_trust_or_present_they_refuse_each_other() {
    let violated = |text: &str| {
        let edit = json!({ "at": 0, "what": { "edit": rotation(text) } });
        let history = json!({ "before": [with_tls(3)], "spec": {}, "departures": [edit] });
        let history: History = serde_json::from_value(history).unwrap();
        history.story().violation().map(|violation| violation.property)
    };
    // The operator presents at once what was signed, other members when their kubelets bring it.
    for (check, text) in [("NotTrusted", "clients"), ("EarlierPresented", "peers")] {
        assert_eq!(violated(text), None);
        assert_eq!(without(check, || violated(text)), Some(Property::MembersTrustEachOther), "{check}");
    }
}

/// What passes until nothing changes any more, also where kubelets bring Secrets and members restart.
fn come_to_rest(world: &mut World) -> Option<Property> {
    pass(world, 40);
    while world.go().is_some() {}
    world.judge_rest();
    world.oracle.violation().map(|violation| violation.property)
}

fn text_of(world: &World, secret: &str, key: &str) -> String {
    let entry = world.object(Kind::Secret, secret).unwrap()["data"][key].clone();
    let entry: ByteString = serde_json::from_value(entry).unwrap_or_default();
    String::from_utf8_lossy(&entry.0).into_owned()
}

/// A person changes entries of a Secret, or takes them out.
fn change(world: &mut World, secret: &str, entries: &[(&str, Option<&str>)]) {
    let mut data = world.object(Kind::Secret, secret).unwrap()["data"].clone();
    for (key, text) in entries {
        match text {
            Some(text) => data[*key] = json!(ByteString(text.as_bytes().to_vec())),
            None => drop(data.as_object_mut().unwrap().remove(*key)),
        }
    }
    world.edit(&json!({ "secret": { "name": secret, "data": data } })).unwrap();
}

#[test]
fn an_authority_that_is_lost_before_it_signs_is_trusted_by_nobody_in_the_end_though_its_key_could_be_read() {
    for (ca, leaf, text) in
        [("demo-ca", "demo-server-tls", "clients"), ("demo-peer-ca", "demo-peer-tls", "peers")]
    {
        let mut world = at_rest(3);
        order(&mut world, text);
        let mut lost = None;
        for _ in 0..200 {
            let next = text_of(&world, ca, "next.crt");
            if !next.is_empty() && text_of(&world, leaf, "ca.crt").contains(next.trim()) {
                lost = Some(next);
                break;
            }
            world.go();
        }
        let lost = lost.expect("it is beside every leaf");
        change(&mut world, ca, &[("next.crt", None), ("next.key", None)]);
        assert_eq!(come_to_rest(&mut world), None, "{text}: {:?}", world.oracle.violation());
        let (present, bundle) = (text_of(&world, ca, "tls.crt"), text_of(&world, leaf, "ca.crt"));
        assert_eq!(bundle.trim(), present.trim(), "{text}: the next one alone");
        assert_ne!(present, lost);
        assert_eq!(condition(&world, "TLSReady"), "True CertificatesIssued");
    }
}

#[test]
fn r19_an_authority_that_somebody_puts_beside_a_leaf_is_trusted_by_nobody_in_the_end() {
    let planted = |leaf: &str| {
        let mut world = at_rest(3);
        let validity = quorate_pki::Validity { not_before: 1_577_836_800_000, not_after: 4_102_444_800_000 };
        let other = quorate_pki::authority_of_others("Example CA", 71, validity);
        let bundle = text_of(&world, leaf, "ca.crt") + &other.cert;
        change(&mut world, leaf, &[("ca.crt", Some(&bundle))]);
        let found = come_to_rest(&mut world);
        if found.is_none() {
            assert_eq!(
                world.cluster().unwrap().status.unwrap().certificates.unwrap().trust,
                1,
                "one rollout"
            );
        }
        found
    };
    for leaf in ["demo-server-tls", "demo-peer-tls", "demo-client-tls"] {
        assert_eq!(planted(leaf), None, "{leaf}");
    }
    let left = without("R19 bundle", || planted("demo-peer-tls"));
    assert_eq!(left, Some(Property::OnlyTheRecordedAreTrusted));
}

/// Every Secret of the cluster is gone, such as with a namespace that was restored without them. A person without a backup does what the message says.
#[test]
fn where_every_secret_is_deleted_a_person_without_a_backup_has_the_cluster_back_with_its_data() {
    for waits_at_first in [true, false] {
        let mut world = at_rest(3);
        world.forget_backups();
        assert!(world.strike(&serde_json::from_value::<Fault>(json!("client-writes")).unwrap()));
        for secret in world.names(Kind::Secret) {
            assert!(world.strike(&Fault::Remove("Secret".to_owned(), secret)));
        }
        if waits_at_first {
            assert!(world.strike(&Fault::KillPod("demo-1".to_owned())));
            while world.go().is_some() {}
            assert_eq!(condition(&world, "TLSReady"), "False AuthorityLost");
            let message = message(&world, "TLSReady");
            for says in ["Without a backup", "operator.etcd.io/rotate-ca=clients or =peers", "spec.size 0"] {
                assert!(message.contains(says), "{message}");
            }
        }
        world.edit(&json!({ "size": 0 })).unwrap();
        while world.go().is_some() {}
        assert!(world.names(Kind::Pod).is_empty());
        for text in ["clients", "peers"] {
            order(&mut world, text);
            for _ in 0..4 {
                while world.go().is_some() {}
                world.operate();
            }
        }
        world.edit(&json!({ "size": 3 })).unwrap();
        assert_eq!(come_to_rest(&mut world), None, "{:?}", world.oracle.violation());
        assert_eq!(condition(&world, "TLSReady"), "True CertificatesIssued");
        assert_eq!(condition(&world, "Available").split(' ').next(), Some("True"));
    }
}
