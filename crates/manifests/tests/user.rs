//! The Secret of an EtcdUser: what is in it, who signs the certificate, and when another one is due.

use crate::world::{World, client_of, generate};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use quorate_api::EtcdUser;
use quorate_manifests::certificate::Generate;
use quorate_manifests::user::{NoSigner, Own, Presence, Signer, presence, secret_name, sign, signer, write};
use quorate_manifests::{Act, Kind};
use quorate_model::certificate::Validity;
use quorate_model::snapshot::Reader;
use quorate_model::{ClusterRef, Instant, Present, Span};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

const NAME: &str = "billing-etcd";

fn with_tls() -> World {
    let mut world = World::new(&json!({ "size": 1, "version": "3.6.16" }));
    world.settle();
    world
}

fn at() -> ClusterRef {
    ClusterRef::new("default", "demo")
}

fn user() -> EtcdUser {
    serde_json::from_value(json!({
        "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdUser",
        "metadata": {"name": "billing", "namespace": "default", "uid": "u1", "generation": 1},
        "spec": {"cluster": "demo", "authentication": {"certificate": {"validityDuration": "30d"}}},
    }))
    .unwrap()
}

fn signs(world: &World) -> Result<Signer, NoSigner> {
    let secrets: Vec<Secret> = world.all(Kind::Secret);
    signer(&world.cluster(), &at(), &secrets.iter().collect::<Vec<_>>())
}

fn found(world: &World) -> Option<Secret> {
    world.all(Kind::Secret).into_iter().find(|secret: &Secret| secret.metadata.name.as_deref() == Some(NAME))
}

/// Judges what is there: whether another certificate is due, and whether all else is as it should be.
fn judge(world: &World, now: Instant) -> (bool, bool) {
    let (found, signer) = (found(world), signs(world).unwrap());
    match presence(&user(), &at(), found.as_ref(), Some(&signer)) {
        Presence::Own(own) => (own.leaf.is_due(&signer.authority, now), own.matches),
        other => panic!("{other:?}"),
    }
}

/// Writes the Secret, with a new certificate or without.
fn carry_out(world: &mut World, with_certificate: bool) {
    let (found, signer, now) = (found(world), signs(world).unwrap(), world.now);
    let presence = presence(&user(), &at(), found.as_ref(), Some(&signer));
    let own: Option<&Own<'_>> = if let Presence::Own(own) = &presence { Some(own) } else { None };
    let act = if with_certificate {
        let order = sign(&user(), &at(), &signer, own, Present::new(now, None));
        order.write(&generate(&order.generate, 950)).act
    } else {
        write(&user(), &at(), &signer, own)
    };
    match act {
        Act::Create(object) => world.put(Kind::Secret, object),
        Act::Patch(patch) => world.edit(Kind::Secret, NAME, |secret| merge(secret, &patch)),
        other => panic!("{other:?}"),
    }
}

fn merge(into: &mut Value, patch: &Value) {
    for (field, value) in patch.as_object().unwrap() {
        match value {
            Value::Object(_) if into[field].is_object() => merge(&mut into[field], value),
            value => into[field] = value.clone(),
        }
    }
}

fn text(world: &World, secret: &str, key: &str) -> String {
    let secret: Secret = world.get(Kind::Secret, secret);
    secret
        .data
        .and_then(|mut data| data.remove(key))
        .map(|text| String::from_utf8(text.0).unwrap())
        .unwrap_or_default()
}

#[test]
fn the_secret_of_a_user_is_as_the_connection_secret_with_its_name_and_its_own_certificate() {
    let mut world = with_tls();
    carry_out(&mut world, true);
    assert_eq!(secret_name("billing"), NAME);
    for key in ["type", "provider", "host", "port", "uri", "endpoints", "ca.crt"] {
        assert_eq!(text(&world, NAME, key), text(&world, "demo-connection", key), "{key}");
        assert!(!text(&world, NAME, key).is_empty(), "{key}");
    }
    assert_eq!(text(&world, NAME, "username"), "billing-u1");
    assert_ne!(text(&world, NAME, "tls.crt"), text(&world, "demo-client-tls", "tls.crt"));
    let secret = found(&world).unwrap();
    assert_eq!(secret.type_.as_deref(), Some("servicebinding.io/etcd"));
    let owner = &secret.metadata.owner_references.unwrap()[0];
    assert_eq!((owner.kind.as_str(), owner.uid.as_str(), owner.controller), ("EtcdUser", "u1", Some(true)));
    let labels = secret.metadata.labels.unwrap();
    assert_eq!(labels["operator.etcd.io/user"], "billing");
    assert_eq!(labels["operator.etcd.io/cluster"], "demo", "a rotation of the cluster waits for it");
    let published = world.observe().unwrap().observation.snapshot.published;
    assert!(published.iter().any(|own| own.secret.ends_with(NAME) && own.reader == Reader::User));
    assert_eq!(judge(&world, world.now), (false, true));
}

#[test]
fn a_certificate_is_due_at_two_thirds_of_its_life_and_where_it_is_not_that_of_the_user() {
    let mut world = with_tls();
    carry_out(&mut world, true);
    let days = |days: u64| world.now + Span::seconds(days * 86_400);
    assert!(!judge(&world, days(17)).0 && judge(&world, days(21)).0);
    for (key, other) in [("tls.crt", "demo-client-tls"), ("tls.crt", "demo-ca")] {
        let mut damaged = world.clone();
        let stranger = damaged.objects[&(Kind::Secret, other.to_owned())]["data"][key].clone();
        damaged.edit(Kind::Secret, NAME, |secret| secret["data"][key] = stranger);
        assert!(judge(&damaged, damaged.now).0, "{key} of {other}");
        carry_out(&mut damaged, true);
        assert_eq!(judge(&damaged, damaged.now), (false, true));
    }
    for key in ["tls.crt", "tls.key", "ca.crt"] {
        let mut damaged = world.clone();
        damaged.edit(Kind::Secret, NAME, |secret| secret["data"][key] = json!(""));
        assert!(judge(&damaged, damaged.now).0, "{key}");
        carry_out(&mut damaged, true);
        assert_eq!(judge(&damaged, damaged.now), (false, true), "{key}");
    }
}

#[test]
fn what_else_differs_is_put_right_without_another_certificate() {
    let mut world = with_tls();
    carry_out(&mut world, true);
    let before = text(&world, NAME, "tls.crt");
    let edits: [fn(&mut Value); 3] = [
        |secret| secret["data"]["uri"] = json!("aHR0cDovL2V2aWw="),
        |secret| secret["metadata"]["labels"] = json!({}),
        |secret| drop(secret["data"].as_object_mut().unwrap().remove("username")),
    ];
    for edit in edits {
        world.edit(Kind::Secret, NAME, edit);
        assert_eq!(judge(&world, world.now), (false, false));
        carry_out(&mut world, false);
        assert_eq!(
            (judge(&world, world.now), text(&world, NAME, "tls.crt")),
            ((false, true), before.clone())
        );
    }
}

#[test]
fn a_secret_of_somebody_else_and_that_of_an_earlier_user_of_this_name_are_foreign() {
    let mut world = with_tls();
    carry_out(&mut world, true);
    world.edit(Kind::Secret, NAME, |secret| secret["metadata"]["ownerReferences"][0]["uid"] = json!("u0"));
    assert!(matches!(presence(&user(), &at(), found(&world).as_ref(), None), Presence::Foreign));
    world.remove(Kind::Secret, NAME);
    assert!(matches!(presence(&user(), &at(), found(&world).as_ref(), None), Presence::Absent));
}

#[test]
fn r19_only_the_recorded_authority_signs_once_the_clients_of_the_cluster_have_it() {
    let world = with_tls();
    signs(&world).unwrap();
    let mut lost = world.clone();
    lost.remove(Kind::Secret, "demo-ca");
    assert!(matches!(signs(&lost), Err(NoSigner::Lost(why)) if why.contains("demo-ca does not exist")));
    let mut other = world.clone();
    other.edit(Kind::Cluster, "demo", |cluster| {
        cluster["status"]["certificates"]["authority"] = json!("ab".repeat(32));
    });
    assert!(matches!(signs(&other), Err(NoSigner::Lost(why)) if why.contains("that status records")));
    let mut early = world.clone();
    early.edit(Kind::Cluster, "demo", |cluster| cluster["status"]["certificates"]["authority"] = Value::Null);
    assert!(matches!(signs(&early), Err(NoSigner::NotYet(_))));
    let mut without = world;
    without.remove(Kind::Secret, "demo-client-tls");
    assert!(matches!(signs(&without), Err(NoSigner::NotYet(_))));
}

#[test]
fn in_a_rotation_a_user_gets_both_authorities_first_and_then_a_certificate_of_the_new_one() {
    let mut world = with_tls();
    carry_out(&mut world, true);
    let before = text(&world, NAME, "tls.crt");
    let (old, validity) = (text(&world, "demo-ca", "tls.crt"), valid(&world));
    let new = generate(&Generate::Authority { common_name: "quorate-ca next".to_owned(), validity }, 960);
    let put = |world: &mut World, secret: &str, entries: &[(&str, &str)]| {
        world.edit(Kind::Secret, secret, |secret| {
            for (key, text) in entries {
                secret["data"][*key] = json!(ByteString(text.as_bytes().to_vec()));
            }
        });
    };

    // The bundles have both, and the one of before signs.
    let both = format!("{old}{}", new.cert);
    put(&mut world, "demo-ca", &[("next.crt", &new.cert), ("next.key", &new.key)]);
    put(&mut world, "demo-client-tls", &[("ca.crt", &both)]);
    assert_eq!(judge(&world, world.now), (false, false), "only ca.crt differs");
    carry_out(&mut world, false);
    assert_eq!((text(&world, NAME, "ca.crt"), text(&world, NAME, "tls.crt")), (both.clone(), before.clone()));

    // The new one is recorded. The cluster's own client certificate comes first.
    world.edit(Kind::Cluster, "demo", |cluster| {
        let fingerprint: String =
            Sha256::digest(der(&new.cert)).iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
        cluster["status"]["certificates"]["authority"] = json!(fingerprint);
    });
    assert!(matches!(signs(&world), Err(NoSigner::NotYet(_))), "{:?}", signs(&world));
    let client = client_of(&new, validity, 961);
    put(&mut world, "demo-client-tls", &[("tls.crt", &client.cert), ("tls.key", &client.key)]);
    assert_eq!(judge(&world, world.now), (true, true));
    carry_out(&mut world, true);
    assert_eq!(judge(&world, world.now), (false, true));
    assert_ne!(text(&world, NAME, "tls.crt"), before);

    // The earlier one goes.
    put(&mut world, "demo-client-tls", &[("ca.crt", &new.cert)]);
    assert_eq!(judge(&world, world.now), (false, false));
    carry_out(&mut world, false);
    assert_eq!(text(&world, NAME, "ca.crt"), new.cert);
}

fn valid(world: &World) -> Validity {
    Validity { not_before: world.now, not_after: world.now + Span::seconds(365 * 86_400) }
}

fn der(pem: &str) -> Vec<u8> {
    pem::parse(pem).unwrap().into_contents()
}
