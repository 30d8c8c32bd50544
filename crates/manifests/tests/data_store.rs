//! The DataStore of Kamaji: the object, the Secret with its credential, and what a deletion waits for.

use crate::world::{World, client_of, generate};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use quorate_api::cluster::TlsProvider;
use quorate_api::keys;
use quorate_api::status::Phase;
use quorate_manifests::certificate::{Generate, KeyPair};
use quorate_manifests::data_store::{act, ends, is_own, keys_fit, presence, sign, write};
use quorate_manifests::user::{Own, Presence, Signer, signer};
use quorate_manifests::{Act, Kind, backup_before, cert_manager, names};
use quorate_model::certificate::Validity;
use quorate_model::snapshot::BackupPurpose;
use quorate_model::{ClusterRef, Instant, Present, Span};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

const DELETED: &str = "2026-11-28T12:00:00Z";

fn at() -> ClusterRef {
    ClusterRef::new("default", "demo")
}

fn found(world: &World) -> Option<Secret> {
    let secrets: Vec<Secret> = world.all(Kind::Secret);
    secrets.into_iter().find(|secret| secret.metadata.name == Some(names::data_store(&at())))
}

fn signs(world: &World) -> Signer {
    let secrets: Vec<Secret> = world.all(Kind::Secret);
    signer(&world.cluster(), &at(), &secrets.iter().collect::<Vec<_>>()).unwrap()
}

/// Whether another certificate is due, and whether all else is as it should be.
fn judge(world: &World, now: Instant) -> (bool, bool) {
    let (found, signer) = (found(world), signs(world));
    match presence(&world.cluster(), &at(), found.as_ref(), Some(&signer)) {
        Presence::Own(own) => (own.leaf.is_due(&signer.authority, now), own.matches),
        other => panic!("{other:?}"),
    }
}

fn carry_out(world: &mut World, with_certificate: bool) {
    let (cluster, found, signer, now) = (world.cluster(), found(world), signs(world), world.now);
    let presence = presence(&cluster, &at(), found.as_ref(), Some(&signer));
    let own: Option<&Own<'_>> = if let Presence::Own(own) = &presence { Some(own) } else { None };
    let act = if with_certificate {
        let order = sign(&cluster, &at(), &signer, own, Present::new(now, None));
        order.write(&generate(&order.generate, 970)).act
    } else {
        write(&cluster, &at(), &signer, own)
    };
    match act {
        Act::Create(object) => world.put(Kind::Secret, object),
        Act::Patch(patch) => {
            world.edit(Kind::Secret, &names::data_store(&at()), |secret| merge(secret, &patch));
        }
        other => panic!("{other:?}"),
    }
}

fn merge(into: &mut Value, patch: &Value) {
    for (field, value) in patch.as_object().unwrap() {
        match value {
            Value::Object(_) if into[field].is_object() => merge(&mut into[field], value),
            Value::Null => drop(into.as_object_mut().unwrap().remove(field)),
            value => into[field] = value.clone(),
        }
    }
}

fn with_tls() -> World {
    let mut world = World::new(&json!({ "size": 1, "version": "3.6.16" }));
    world.settle();
    world
}

#[test]
fn the_credential_is_of_root_and_due_at_two_thirds_of_its_life() {
    let mut world = with_tls();
    carry_out(&mut world, true);
    assert_eq!(judge(&world, world.now), (false, true));
    let days = |days: u64| world.now + Span::seconds(days * 86_400);
    assert!(!judge(&world, days(50)).0 && judge(&world, days(65)).0);
    let owner = found(&world).unwrap().metadata.owner_references.unwrap().remove(0);
    assert_eq!((owner.kind.as_str(), Some(owner.uid)), ("EtcdCluster", world.cluster().metadata.uid));
    // That of the clients of the cluster is no credential of root.
    let other = world.objects[&(Kind::Secret, "demo-client-tls".to_owned())]["data"]["tls.crt"].clone();
    world.edit(Kind::Secret, "demo-root-client-tls", |secret| secret["data"]["tls.crt"] = other);
    assert!(judge(&world, world.now).0);
    world.edit(Kind::Secret, "demo-root-client-tls", |secret| {
        secret["metadata"]["labels"] = json!({});
        secret["metadata"]["ownerReferences"][0]["uid"] = json!("another");
    });
    assert!(matches!(presence(&world.cluster(), &at(), found(&world).as_ref(), None), Presence::Foreign));
}

#[test]
fn labels_and_what_clients_trust_are_put_right_without_another_certificate() {
    let mut world = with_tls();
    carry_out(&mut world, true);
    let before = found(&world).unwrap().data.unwrap()["tls.crt"].clone();
    let own = world.objects[&(Kind::Secret, "demo-ca".to_owned())]["data"]["tls.crt"].clone();
    world.edit(Kind::Secret, "demo-root-client-tls", |secret| {
        secret["metadata"]["labels"] = json!({ keys::MANAGED_BY: keys::MANAGED_BY_VALUE });
    });
    assert_eq!(judge(&world, world.now), (false, false));
    carry_out(&mut world, false);
    assert_eq!(judge(&world, world.now), (false, true));
    let data = found(&world).unwrap().data.unwrap();
    assert_eq!((&data["tls.crt"], json!(data["ca.crt"])), (&before, own));
}

/// What a rotation does to the Secrets and to the record, up to the next moment at which the operator may write the Secret of Kamaji.
type Stage = (&'static str, fn(&mut World, &KeyPair));

fn put(world: &mut World, secret: &str, entries: &[(&str, &str)]) {
    world.edit(Kind::Secret, secret, |secret| {
        for (key, text) in entries {
            secret["data"][*key] = json!(ByteString(text.as_bytes().to_vec()));
        }
    });
}

fn text(world: &World, secret: &str, key: &str) -> String {
    let all: Vec<Secret> = world.all(Kind::Secret);
    let mut named = all.into_iter().filter(|one| one.metadata.name.as_deref() == Some(secret));
    let data = named.next().unwrap().data.unwrap();
    data.get(key).map(|text| String::from_utf8(text.0.clone()).unwrap()).unwrap_or_default()
}

fn record_authority(world: &mut World, cert: &str) {
    let sum = Sha256::digest(pem::parse(cert).unwrap().into_contents());
    let fingerprint: String = sum.iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
    world.edit(Kind::Cluster, "demo", |cluster| {
        cluster["status"]["certificates"]["authority"] = json!(fingerprint);
    });
}

/// C1 to C7, with each write apart from the others.
const STAGES: [Stage; 7] = [
    ("C1: the new authority is made", |world, new| {
        put(world, "demo-ca", &[("next.crt", &new.cert), ("next.key", &new.key)]);
    }),
    ("C2: both are trusted", |world, new| {
        let both = text(world, "demo-ca", "tls.crt") + &new.cert;
        put(world, "demo-client-tls", &[("ca.crt", &both)]);
    }),
    ("C4: the new one is recorded", |world, new| record_authority(world, &new.cert)),
    ("C4: it has the place of the signer, and the key of the earlier one is gone", |world, new| {
        let entries = [("ca.crt", &*new.cert), ("tls.crt", &*new.cert), ("tls.key", &*new.key)];
        put(world, "demo-ca", &entries);
        world.edit(Kind::Secret, "demo-ca", |secret| {
            secret["data"].as_object_mut().unwrap().retain(|key, _| !key.starts_with("next"));
        });
    }),
    ("I3: it signs the client certificate, whose bundle has the earlier one first", |world, new| {
        let validity = Validity { not_before: world.now, not_after: world.now + Span::seconds(365 * 86_400) };
        let client = client_of(new, validity, 961);
        put(world, "demo-client-tls", &[("tls.crt", &client.cert), ("tls.key", &client.key)]);
    }),
    ("C2: the signer comes first", |world, new| {
        let old = text(world, "demo-client-tls", "ca.crt").replace(&new.cert, "");
        let both = new.cert.clone() + &old;
        put(world, "demo-client-tls", &[("ca.crt", &both)]);
    }),
    ("C6: the earlier one is forgotten", |world, new| {
        put(world, "demo-client-tls", &[("ca.crt", &new.cert)]);
    }),
];

#[test]
fn kamaji_signs_with_the_key_of_the_first_authority_that_it_trusts_in_every_stage_of_a_rotation() {
    let mut world = with_tls();
    carry_out(&mut world, true);
    let (old, key) = (text(&world, "demo-ca", "tls.crt"), text(&world, "demo-ca", "tls.key"));
    let old = KeyPair { cert: old, key };
    let validity = Validity { not_before: world.now, not_after: world.now + Span::seconds(3650 * 86_400) };
    let authority = Generate::Authority { common_name: "quorate-ca next".to_owned(), validity };
    let new = generate(&authority, 960);
    // Which of the two signs, and which are trusted. In one Secret, so there is no moment between.
    let kamaji = |world: &World| {
        let entry = |key: &str| text(world, "demo-root-client-tls", key);
        let (bundle, key) = (entry("ca.crt"), entry("ca.key"));
        let signs = |pair: &KeyPair| bundle.starts_with(&pair.cert) && key == pair.key;
        assert!(signs(&old) || signs(&new), "the first authority and the key do not fit: {bundle}{key}");
        (signs(&new), bundle.contains(&old.cert), bundle.contains(&new.cert))
    };
    let mut seen = vec![kamaji(&world)];
    for (stage, change) in STAGES {
        change(&mut world, &new);
        let secrets: Vec<Secret> = world.all(Kind::Secret);
        // The operator writes when it can, or dies before.
        for _ in 0..2 {
            kamaji(&world);
            if signer(&world.cluster(), &at(), &secrets.iter().collect::<Vec<_>>()).is_err() {
                continue;
            }
            let (is_due, matches) = judge(&world, world.now);
            if is_due || !matches {
                carry_out(&mut world, is_due);
                assert_eq!(judge(&world, world.now), (false, true), "{stage}");
            }
        }
        seen.push(kamaji(&world));
    }
    let expected = [
        (false, true, false),
        (false, true, false),
        (false, true, true),
        // The certificate that tells that all is in place comes first.
        (false, true, true),
        (false, true, true),
        (true, true, true),
        (true, true, true),
        (true, false, true),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn a_key_that_is_not_that_of_the_first_authority_has_the_secret_written_again() {
    let mut world = with_tls();
    carry_out(&mut world, true);
    let entry = |world: &World, key: &str| text(world, "demo-root-client-tls", key);
    let authority = (text(&world, "demo-ca", "tls.crt"), text(&world, "demo-ca", "tls.key"));
    let leaf = (entry(&world, "tls.crt"), entry(&world, "tls.key"));
    let fits = |world: &World| {
        keys_fit(found(world).as_ref(), |cert, key| {
            [&authority, &leaf].iter().any(|pair| (pair.0.as_bytes(), pair.1.as_bytes()) == (cert, key))
        })
    };
    assert!(fits(&world) && !keys_fit(None, |_, _| true));
    let mut other = world.clone();
    put(&mut other, "demo-root-client-tls", &[("ca.key", "another")]);
    assert!(!fits(&other) && judge(&other, other.now) == (false, false));
    // As the first release of it was, without the key of the authority.
    world.edit(Kind::Secret, "demo-root-client-tls", |secret| {
        secret["data"].as_object_mut().unwrap().remove("ca.key");
    });
    assert!(!fits(&world));
    carry_out(&mut world, false);
    assert!(fits(&world));
}

#[test]
fn what_a_datastore_has_beside_what_it_should_is_removed_and_labels_of_others_stay() {
    let cluster = World::running(1).cluster();
    let Some(Act::Create(desired)) = act(&cluster, &at(), "tenants", None) else { panic!() };
    assert!(is_own(&cluster, &desired));
    assert_eq!(act(&cluster, &at(), "tenants", Some(&desired)), None);
    let content = json!({ "content": "eA==" });
    let edits: [fn(&mut Value, &Value); 5] = [
        |store, content| store["spec"]["basicAuth"] = json!({ "username": content, "password": content }),
        |store, content| {
            store["spec"]["tlsConfig"]["clientCertificate"]["privateKey"]["content"] =
                content["content"].clone();
        },
        |store, _| store["spec"]["endpoints"] = json!(["elsewhere:2379"]),
        |store, _| {
            store["spec"]["tlsConfig"]["certificateAuthority"]["certificate"]["secretReference"]["keyPath"] =
                json!("next.crt");
        },
        |store, _| store["metadata"]["labels"]["operator.etcd.io/namespace"] = json!("other"),
    ];
    for (number, edit) in edits.into_iter().enumerate() {
        let mut store = desired.clone();
        store["metadata"]["uid"] = json!("d1");
        store["metadata"]["resourceVersion"] = json!("7");
        store["metadata"]["labels"]["theirs"] = json!("x");
        edit(&mut store, &content);
        let Some(Act::Patch(patch)) = act(&cluster, &at(), "tenants", Some(&store)) else {
            panic!("{number}")
        };
        assert_eq!(
            (&patch["metadata"]["uid"], &patch["metadata"]["resourceVersion"]),
            (&json!("d1"), &json!("7"))
        );
        merge(&mut store, &patch);
        assert_eq!(store["spec"], desired["spec"], "{number}");
        assert_eq!(
            (&store["metadata"]["labels"]["theirs"], act(&cluster, &at(), "tenants", Some(&store))),
            (&json!("x"), None)
        );
    }
}

#[test]
fn a_datastore_of_an_earlier_cluster_of_the_name_is_not_its_own() {
    let mut cluster = World::running(1).cluster();
    let Some(Act::Create(store)) = act(&cluster, &at(), "tenants", None) else { panic!() };
    cluster.metadata.uid = Some("another".to_owned());
    assert!(!is_own(&cluster, &store));
    cluster.metadata.uid = None;
    assert!(!is_own(&cluster, &json!({ "metadata": { "labels": { keys::CLUSTER_UID: null } } })));
}

/// A cluster that may have a DataStore, or not, and is deleted.
fn deleted(may_have_one: bool) -> World {
    let mut world = World::running(3);
    world.edit(Kind::Cluster, "demo", |cluster| {
        let others = [keys::FINALIZER, keys::DATA_STORE_FINALIZER];
        cluster["metadata"]["finalizers"] = json!(if may_have_one { &others[..] } else { &others[..1] });
        cluster["metadata"]["deletionTimestamp"] = json!(DELETED);
    });
    world
}

#[test]
fn no_member_of_a_deleted_cluster_is_stopped_while_a_datastore_may_exist() {
    let mut world = deleted(true);
    for _ in 0..5 {
        let pass = world.observe().unwrap();
        assert_eq!(pass.plan.effects, [], "nothing is done");
        world.pass();
    }
    assert!(!ends(&world.cluster()));
    assert_eq!(world.all::<Value>(Kind::Pod).len(), 3);
    assert_eq!(world.condition("Progressing").1, "DataStoreInUse");
    assert_eq!(
        (world.condition("Ready").0, world.condition("Ready").1),
        ("False".to_owned(), "DataStoreInUse".to_owned())
    );
    assert_eq!(world.condition("Available").0, "True", "its members serve");
    assert_eq!(world.status().phase, Some(Phase::Deleting));

    // A Pod that is lost comes back.
    world.remove(Kind::Pod, "demo-1");
    world.settle();
    assert_eq!(world.all::<Value>(Kind::Pod).len(), 3);

    // What it has from elsewhere is kept up as well.
    let mut issued = world.cluster();
    issued.spec.tls.provider = TlsProvider::CertManager;
    assert!(cert_manager::is_wanted(&issued));

    world.edit(Kind::Cluster, "demo", |cluster| cluster["metadata"]["finalizers"] = json!([keys::FINALIZER]));
    assert!(ends(&world.cluster()));
    issued.metadata.finalizers = Some(vec![keys::FINALIZER.to_owned()]);
    assert!(!cert_manager::is_wanted(&issued));
    world.pass();
    assert_eq!(world.all::<Value>(Kind::Pod).len(), 0);
}

#[test]
fn without_the_finalizer_of_a_datastore_a_deletion_begins_at_once() {
    let mut world = deleted(false);
    world.pass();
    assert_eq!(world.all::<Value>(Kind::Pod).len(), 0);
}

#[test]
fn the_final_backup_is_of_after_the_tenants_and_has_its_whole_deadline_then() {
    let spec = json!({ "destination": { "pvc": { "claimName": "backups" } }, "deadline": "10m" });
    let purpose = |change: &dyn Fn(&mut Value)| {
        let mut world = deleted(true);
        world.edit(Kind::Cluster, "demo", |cluster| {
            cluster["spec"]["deletion"] = json!({ "finalBackup": spec });
            change(cluster);
        });
        world.observe().unwrap().observation.snapshot.backup_before.map(|backup| backup.before)
    };
    assert_eq!(purpose(&|_| {}), None, "none is taken while tenants write");
    let until = |change: &dyn Fn(&mut Value)| match purpose(change) {
        Some(BackupPurpose::Deletion { until }) => until,
        other => panic!("{other:?}"),
    };
    let is_gone = |cluster: &mut Value| cluster["metadata"]["finalizers"] = json!([keys::FINALIZER]);
    let at_once = until(&is_gone);
    let later = until(&|cluster| {
        is_gone(cluster);
        cluster["metadata"]["annotations"] = json!({ keys::DATA_STORE_GONE: "2026-11-28T15:00:00Z" });
    });
    assert_eq!(later, at_once + Span::seconds(3 * 3600));
}

#[test]
fn a_time_at_which_tenants_were_gone_that_cannot_be_is_not_waited_for() {
    let deleted: Instant = Instant(1_795_867_200_000);
    let until = |gone: &str, now: Instant| {
        let mut world = World::running(3);
        world.edit(Kind::Cluster, "demo", |cluster| {
            cluster["metadata"]["finalizers"] = json!([keys::FINALIZER]);
            cluster["metadata"]["deletionTimestamp"] = json!(DELETED);
            cluster["metadata"]["annotations"] = json!({ keys::DATA_STORE_GONE: gone });
            cluster["spec"]["deletion"] = json!({ "finalBackup": {
                "destination": { "pvc": { "claimName": "backups" } }, "deadline": "10m",
            } });
        });
        match backup_before::read(&world.cluster(), Ok(None), now).unwrap().before {
            BackupPurpose::Deletion { until } => until,
            BackupPurpose::Upgrade(line) => panic!("{line:?}"),
        }
    };
    let (deadline, hour) = (Span::seconds(600), Span::seconds(3600));
    let now = deleted + hour;
    assert_eq!(until("2026-11-28T12:30:00Z", now), deleted + Span::seconds(1800) + deadline);
    assert_eq!(until("2026-11-28T11:30:00Z", now), deleted + deadline, "before the deletion");
    assert_eq!(until("2026-11-28T13:00:30Z", now), now + deadline, "by a clock that is a little ahead");
    assert_eq!(
        until("2026-11-28T13:02:30Z", now),
        now + deadline,
        "by one that is as far ahead as this one is behind"
    );
    assert_eq!(
        until("2099-01-01T00:00:00Z", now),
        now + deadline,
        "by somebody who made it up: a backup is of after the tenants"
    );
    assert_eq!(until("tomorrow", now), deleted + deadline);
}

#[test]
fn a_rotation_sees_what_kamaji_reads_and_that_it_is_not_there() {
    let mut world = with_tls();
    let seen = |world: &World| {
        let published = world.observe().unwrap().observation.snapshot.published;
        published.into_iter().find(|own| own.secret == "Secret default/demo-root-client-tls")
    };
    assert!(seen(&world).is_none(), "no DataStore refers to it");
    carry_out(&mut world, true);
    world.edit(Kind::Cluster, "demo", |cluster| {
        cluster["metadata"]["finalizers"] = json!([keys::DATA_STORE_FINALIZER]);
    });
    let first = seen(&world).unwrap();
    assert_eq!((first.reader, first.trusted.len()), (quorate_model::snapshot::Reader::Kamaji, 1));
    assert_eq!(first.signed_by.as_ref(), first.trusted.first());
    world.remove(Kind::Secret, "demo-root-client-tls");
    assert!(seen(&world).unwrap().trusted.is_empty());
}

#[test]
fn a_secret_that_lost_its_owner_is_known_by_its_label_and_its_type() {
    let mut world = with_tls();
    carry_out(&mut world, true);
    let orphan = |secret: &mut Value| secret["metadata"]["ownerReferences"] = json!([]);
    world.edit(Kind::Secret, "demo-root-client-tls", orphan);
    assert_eq!(judge(&world, world.now), (false, false));
    let foreign = |change: fn(&mut Value)| {
        let mut world = world.clone();
        world.edit(Kind::Secret, "demo-root-client-tls", change);
        let found = found(&world);
        matches!(presence(&world.cluster(), &at(), found.as_ref(), None), Presence::Foreign)
    };
    assert!(!foreign(|_| {}));
    assert!(foreign(|secret| secret["metadata"]["labels"][keys::CLUSTER_UID] = json!("another")));
    assert!(foreign(|secret| secret["type"] = json!("Opaque")));
    assert!(foreign(|secret| {
        let owner =
            json!({ "apiVersion": "v1", "kind": "Other", "name": "x", "uid": "another", "controller": true });
        secret["metadata"]["ownerReferences"] = json!([owner]);
    }));
    carry_out(&mut world, false);
    assert_eq!(judge(&world, world.now), (false, true));
    assert!(found(&world).unwrap().metadata.owner_references.is_some_and(|owners| owners.len() == 1));
}

#[test]
fn of_an_authority_that_cannot_be_read_neither_certificate_nor_key_is_written() {
    let world = with_tls();
    let signer = signs(&world);
    let pair = KeyPair { cert: "none".to_owned(), key: "a key".to_owned() };
    let broken = Signer::new(signer.authority.clone(), signer.ca.clone(), pair);
    let data = |signer: &Signer| match write(&world.cluster(), &at(), signer, None) {
        Act::Create(object) => object["data"].as_object().unwrap().keys().cloned().collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(data(&signer), ["ca.crt", "ca.key"]);
    assert!(data(&broken).is_empty());
}
