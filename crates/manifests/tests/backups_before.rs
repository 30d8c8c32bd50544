//! The EtcdBackups that the operator takes by itself: which one matters, what it is, how far it is, and what status says meanwhile.

use crate::world::{BEGIN, World};
use k8s_openapi::jiff::Timestamp;
use quorate_api::{EtcdBackup, EtcdCluster};
use quorate_manifests::{Kind, backup_before};
use quorate_model::Instant;
use quorate_model::snapshot::{BackupPurpose, BackupState};
use quorate_model::version::Minor;
use serde_json::{Value, json};

/// The cluster ID that the members have.
const PRESENT: &str = "8e9e05c52164694d";

const DELETED: &str = "2026-09-21T00:00:00Z";

fn committed(version: &str) -> Value {
    json!({ "size": 3, "version": version, "tls": false, "pod": {}, "storage": {
        "medium": "", "accessMode": "ReadWriteOnce", "bytes": 1, "whenDeleted": "Retain", "whenScaled": "Delete",
    } })
}

fn cluster(spec: &Value, metadata: &Value, status: &Value) -> EtcdCluster {
    let mut object = json!({
        "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdCluster",
        "metadata": { "name": "demo", "namespace": "default", "uid": "c1" },
        "spec": { "size": 3, "version": "3.7.3" },
        "status": { "clusterID": PRESENT, "target": committed("3.6.16") },
    });
    for (part, given) in [("spec", spec), ("metadata", metadata), ("status", status)] {
        for (field, value) in given.as_object().unwrap() {
            object[part][field] = value.clone();
        }
    }
    serde_json::from_value(object).unwrap()
}

fn both() -> Value {
    let to = json!({ "destination": { "pvc": { "claimName": "backups" } } });
    let mut timely = to.clone();
    timely["deadline"] = json!("5m");
    json!({ "upgrade": { "backupBefore": to }, "deletion": { "finalBackup": timely } })
}

fn upgrading() -> EtcdCluster {
    cluster(&both(), &json!({}), &json!({}))
}

fn deleted() -> EtcdCluster {
    cluster(&both(), &json!({ "deletionTimestamp": DELETED }), &json!({}))
}

fn backup(name: &str, uid: Option<&str>, status: &Value) -> EtcdBackup {
    let annotations = uid.map(|uid| json!({ "operator.etcd.io/cluster-uid": uid }));
    serde_json::from_value(json!({
        "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdBackup",
        "metadata": { "name": name, "namespace": "default", "annotations": annotations },
        "spec": { "source": { "cluster": "demo" }, "destination": { "pvc": { "claimName": "backups" } } },
        "status": status,
    }))
    .unwrap()
}

#[test]
fn a_backup_is_read_while_an_upgrade_or_the_end_of_a_cluster_with_data_waits_for_it() {
    let read = |cluster: &EtcdCluster| backup_before::to_read(cluster);
    assert_eq!(read(&upgrading()).as_deref(), Some("before-3.7-c1"));
    assert_eq!(read(&deleted()).as_deref(), Some("final-c1"));
    let nothing = json!({});
    let patch = json!({ "target": committed("3.7.1") });
    let deleted = json!({ "deletionTimestamp": DELETED });
    let only_upgrade = json!({ "upgrade": both()["upgrade"] });
    for (spec, metadata, status) in [
        (&nothing, &nothing, &nothing),
        (&both(), &nothing, &patch),
        (&both(), &nothing, &json!({ "clusterID": null })),
        (&only_upgrade, &deleted, &nothing),
    ] {
        assert_eq!(read(&cluster(spec, metadata, status)), None, "{spec} {metadata} {status}");
    }
}

#[test]
fn deletion_waits_until_its_deadline_from_the_deletion_on() {
    let seen = backup_before::read(&deleted(), Ok(None), BEGIN).unwrap();
    let at: Timestamp = DELETED.parse().unwrap();
    let until = Instant(at.as_millisecond() + 300_000);
    assert_eq!((seen.before, seen.state), (BackupPurpose::Deletion { until }, BackupState::Missing));
    let seen = backup_before::read(&upgrading(), Ok(None), BEGIN).unwrap();
    assert_eq!(seen.before, BackupPurpose::Upgrade(Minor(3, 7)));
}

/// A backup that was complete so many hours ago.
fn complete(hours: i64, cluster_id: &str) -> Value {
    let finished = Timestamp::from_millisecond(BEGIN.0 - hours * 3_600_000).unwrap().to_string();
    json!({ "phase": "Complete", "result": {
        "url": "pvc://backups/k", "key": "k", "revision": 7, "size": "1Ki", "storedSha256": "0", "clusterID": cluster_id,
        "finished": finished,
    } })
}

fn state(cluster: &EtcdCluster, uid: Option<&str>, status: &Value) -> BackupState {
    let name = backup_before::to_read(cluster).unwrap();
    backup_before::read(cluster, Ok(Some(&backup(&name, uid, status))), BEGIN).unwrap().state
}

/// What the state says to people.
fn why(state: BackupState) -> String {
    match state {
        BackupState::Failed(why) | BackupState::Pending(why) | BackupState::Unknown(why) => why,
        BackupState::Complete | BackupState::Missing => panic!("{state:?}"),
    }
}

#[test]
fn a_backup_of_data_that_were_replaced_since_does_not_count_and_another_one_can_be_taken() {
    let of_another = complete(1, "a1");
    let upgrade = state(&upgrading(), Some("c1"), &of_another);
    assert!(matches!(upgrade, BackupState::Failed(_)), "{upgrade:?}");
    let text = why(upgrade);
    assert!(text.contains(PRESENT) && text.contains("Delete EtcdBackup before-3.7-c1"), "{text}");
    // The cluster ends without it, and so its volumes are kept.
    let end = state(&deleted(), Some("c1"), &of_another);
    assert!(matches!(end, BackupState::Failed(_)), "{end:?}");
    let mut lost = deleted();
    lost.status.as_mut().unwrap().cluster_id = None;
    let unknown = state(&lost, Some("c1"), &complete(1, PRESENT));
    assert!(matches!(unknown, BackupState::Unknown(_)), "{unknown:?}");
}

#[test]
fn a_backup_counts_when_it_is_complete_of_this_cluster_and_of_before_this_upgrade() {
    let at = |hours: i64| complete(hours, PRESENT);
    let failed = json!({ "phase": "Failed", "conditions": [{
        "type": "Failed", "status": "True", "reason": "StoreForbidden", "message": "not yours",
        "lastTransitionTime": "2026-09-21T00:00:00Z",
    }] });
    assert_eq!(state(&upgrading(), Some("c1"), &at(23)), BackupState::Complete);
    assert!(why(state(&upgrading(), Some("c1"), &at(25))).contains("more than a day old"));
    assert_eq!(state(&deleted(), Some("c1"), &at(25)), BackupState::Complete);
    for uid in [None, Some("c0")] {
        assert!(why(state(&upgrading(), uid, &at(1))).contains("was not created for this EtcdCluster"));
    }
    let text = why(state(&upgrading(), Some("c1"), &failed));
    assert!(
        text.contains("has failed (StoreForbidden: not yours). Delete EtcdBackup before-3.7-c1"),
        "{text}"
    );
    let pending = state(&upgrading(), Some("c1"), &Value::Null);
    assert!(matches!(pending, BackupState::Pending(_)), "{pending:?}");
    let unread = backup_before::read(&deleted(), Err("timeout"), BEGIN).unwrap().state;
    assert!(matches!(&unread, BackupState::Unknown(why) if why.contains("timeout")), "{unread:?}");
}

#[test]
fn a_cluster_that_waits_for_its_final_backup_is_reported_as_available() {
    let mut world = World::running(3);
    let deleted = Timestamp::from_millisecond(world.now.0).unwrap().to_string();
    world.edit(Kind::Cluster, "demo", |cluster| {
        cluster["metadata"]["deletionTimestamp"] = json!(deleted);
        cluster["spec"]["deletion"] = both()["deletion"].clone();
    });
    world.pass();
    assert_eq!(world.condition("Progressing").1, "FinalBackupRunning");
    assert_eq!(world.condition("Available").0, "True");
    assert_eq!(world.condition("QuorumAvailable").0, "True", "the backup looks for it");
    world.now = world.now + quorate_model::Span::seconds(300);
    world.pass();
    let (_, reason, message) = world.condition("Progressing");
    assert_eq!(reason, "FinalBackupMissing");
    assert!(message.contains("could not") || message.contains("within its deadline"), "{message}");
    assert!(
        world
            .events
            .iter()
            .any(|event| event.warning && event.what.reason().as_str() == "FinalBackupMissing")
    );
}
