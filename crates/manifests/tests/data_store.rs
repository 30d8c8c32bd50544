//! The DataStore of Kamaji: the object, the Secret with its credential, and what a deletion waits for.

use crate::world::{World, generate};
use k8s_openapi::api::core::v1::Secret;
use quorate_api::keys;
use quorate_api::status::Phase;
use quorate_manifests::data_store::{act, ends, is_own, presence, secret_name, sign, write};
use quorate_manifests::user::{Own, Presence, Signer, signer};
use quorate_manifests::{Act, Kind};
use quorate_model::snapshot::BackupPurpose;
use quorate_model::{ClusterRef, Instant, Span};
use serde_json::{Value, json};

const DELETED: &str = "2026-11-28T12:00:00Z";

fn at() -> ClusterRef {
    ClusterRef::new("default", "demo")
}

fn found(world: &World) -> Option<Secret> {
    let secrets: Vec<Secret> = world.all(Kind::Secret);
    secrets.into_iter().find(|secret| secret.metadata.name == Some(secret_name(&at())))
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
        let order = sign(&cluster, &at(), &signer, own, now);
        order.write(&generate(&order.generate, 970)).act
    } else {
        write(&cluster, &at(), &signer, own)
    };
    match act {
        Act::Create(object) => world.put(Kind::Secret, object),
        Act::Patch(patch) => world.edit(Kind::Secret, &secret_name(&at()), |secret| merge(secret, &patch)),
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
    world.edit(Kind::Secret, "demo-root-client-tls", |secret| secret["metadata"]["labels"] = json!({}));
    assert_eq!(judge(&world, world.now), (false, false));
    carry_out(&mut world, false);
    assert_eq!(judge(&world, world.now), (false, true));
    let data = found(&world).unwrap().data.unwrap();
    assert_eq!((&data["tls.crt"], json!(data["ca.crt"])), (&before, own));
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

    world.edit(Kind::Cluster, "demo", |cluster| cluster["metadata"]["finalizers"] = json!([keys::FINALIZER]));
    assert!(ends(&world.cluster()));
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
